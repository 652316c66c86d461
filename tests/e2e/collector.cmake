# SPDX-License-Identifier: Apache-2.0
# The collector from outside: no root and no live kernel needed.
find_package(Python3 REQUIRED COMPONENTS Interpreter)
add_test(NAME collector_e2e
  COMMAND ${Python3_EXECUTABLE} ${CMAKE_CURRENT_SOURCE_DIR}/collector.py
    $<TARGET_FILE:fleetprof-collector> $<TARGET_FILE:make_batches>)
set_tests_properties(collector_e2e PROPERTIES LABELS "e2e" TIMEOUT 600
  ENVIRONMENT "${FP_TEST_ENVIRONMENT};PYTHONDONTWRITEBYTECODE=1")
