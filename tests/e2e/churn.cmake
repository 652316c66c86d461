# SPDX-License-Identifier: Apache-2.0
# Processes that change while they are watched, on the live kernel; needs root.
if(NOT FP_FUZZ)
  add_executable(e2e_churn ${CMAKE_CURRENT_LIST_DIR}/churn_test.c)
  target_link_libraries(e2e_churn PRIVATE fp_agent PkgConfig::CMOCKA)
  add_test(NAME e2e_churn COMMAND e2e_churn)
  set_tests_properties(e2e_churn PROPERTIES LABELS "e2e;live" RUN_SERIAL TRUE SKIP_RETURN_CODE 77
    TIMEOUT 300 ENVIRONMENT "${FP_TEST_ENVIRONMENT}")
endif()
