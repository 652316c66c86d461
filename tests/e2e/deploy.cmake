# SPDX-License-Identifier: Apache-2.0
# What a user meets first, and what a crash must not do. FP_TEST_FULL in the environment makes
# the crash test kill a hundred times.
find_package(Python3 REQUIRED COMPONENTS Interpreter)

add_test(NAME e2e_crash
  COMMAND ${Python3_EXECUTABLE} -B ${CMAKE_CURRENT_LIST_DIR}/crash.py --build ${CMAKE_BINARY_DIR})
add_test(NAME e2e_quickstart COMMAND ${CMAKE_CURRENT_LIST_DIR}/quickstart.sh)
set_tests_properties(e2e_crash PROPERTIES RESOURCE_LOCK live_host COST 50)
set_tests_properties(e2e_quickstart PROPERTIES RUN_SERIAL TRUE) # it builds
set_tests_properties(e2e_crash e2e_quickstart PROPERTIES LABELS "e2e;live"
  SKIP_RETURN_CODE 77 TIMEOUT 900 ENVIRONMENT "${FP_TEST_ENVIRONMENT}")
