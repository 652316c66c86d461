# SPDX-License-Identifier: Apache-2.0
# What the agent holds stays bounded whatever the host does.
find_package(Python3 REQUIRED COMPONENTS Interpreter)
add_test(NAME e2e_memory
  COMMAND ${Python3_EXECUTABLE} -B ${CMAKE_CURRENT_LIST_DIR}/memory.py --build ${CMAKE_BINARY_DIR})
set_tests_properties(e2e_memory PROPERTIES LABELS "e2e;live" RUN_SERIAL TRUE SKIP_RETURN_CODE 77
  TIMEOUT 600 ENVIRONMENT "${FP_TEST_ENVIRONMENT}")
