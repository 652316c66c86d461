# SPDX-License-Identifier: Apache-2.0
if(NOT FP_FUZZ)
  find_package(Python3 REQUIRED COMPONENTS Interpreter)
  add_test(NAME ui_svg_test${FP_TEST_SUFFIX}
    COMMAND ${Python3_EXECUTABLE} ${CMAKE_CURRENT_LIST_DIR}/svg_test.py $<TARGET_FILE:profilemaker>)
  set_tests_properties(ui_svg_test${FP_TEST_SUFFIX} PROPERTIES LABELS ui TIMEOUT 300 SKIP_RETURN_CODE 77
    ENVIRONMENT "${FP_TEST_ENVIRONMENT}")
endif()
