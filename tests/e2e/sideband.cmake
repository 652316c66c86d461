# SPDX-License-Identifier: Apache-2.0
# The stream of process events on the live kernel; needs root.
if(NOT FP_FUZZ)
  add_executable(e2e_sideband ${CMAKE_CURRENT_LIST_DIR}/sideband_test.c)
  target_link_libraries(e2e_sideband PRIVATE fp_agent PkgConfig::CMOCKA)
  add_test(NAME e2e_sideband COMMAND e2e_sideband)
  set_tests_properties(e2e_sideband PROPERTIES LABELS "e2e;live" RUN_SERIAL TRUE SKIP_RETURN_CODE 77
    TIMEOUT 300 ENVIRONMENT "${FP_TEST_ENVIRONMENT}")
endif()
