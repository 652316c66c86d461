# SPDX-License-Identifier: Apache-2.0
# Function names that a collector asks agents for.
find_package(Python3 REQUIRED COMPONENTS Interpreter)

add_test(NAME e2e_upload
  COMMAND ${Python3_EXECUTABLE} -B ${CMAKE_CURRENT_LIST_DIR}/upload.py --build ${CMAKE_BINARY_DIR})
set_tests_properties(e2e_upload PROPERTIES LABELS "e2e;live" RESOURCE_LOCK live_host COST 50
  SKIP_RETURN_CODE 77 TIMEOUT 900 ENVIRONMENT "${FP_TEST_ENVIRONMENT}")
