# SPDX-License-Identifier: Apache-2.0
# The collector's page in a real browser.
if(NOT FP_FUZZ)
  find_package(Python3 REQUIRED COMPONENTS Interpreter)
  add_test(NAME ui_page_test${FP_TEST_SUFFIX}
    COMMAND ${Python3_EXECUTABLE} ${CMAKE_CURRENT_LIST_DIR}/page.py
      $<TARGET_FILE:fleetprof-collector> $<TARGET_FILE:make_batches>)
  set_tests_properties(ui_page_test${FP_TEST_SUFFIX} PROPERTIES LABELS ui TIMEOUT 600
    SKIP_RETURN_CODE 77 ENVIRONMENT "${FP_TEST_ENVIRONMENT};PYTHONDONTWRITEBYTECODE=1")
endif()
