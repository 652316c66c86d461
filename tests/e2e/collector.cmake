# SPDX-License-Identifier: Apache-2.0
# The collector from outside: no root and no live kernel needed.
if(NOT FP_FUZZ)
  find_package(Python3 REQUIRED COMPONENTS Interpreter)
  add_test(NAME collector_e2e${FP_TEST_SUFFIX}
    COMMAND ${Python3_EXECUTABLE} ${CMAKE_CURRENT_LIST_DIR}/collector.py
      $<TARGET_FILE:fleetprof-collector> $<TARGET_FILE:make_batches>)
  set_tests_properties(collector_e2e${FP_TEST_SUFFIX} PROPERTIES LABELS e2e TIMEOUT 600
    ENVIRONMENT "${FP_TEST_ENVIRONMENT};PYTHONDONTWRITEBYTECODE=1")
endif()
