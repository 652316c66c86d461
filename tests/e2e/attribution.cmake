# SPDX-License-Identifier: Apache-2.0
# Every frame knows its build: a compile storm, processes of some milliseconds, and programs
# that follow one another in one pid. FP_TEST_FULL in the environment makes the runs long.
find_package(Python3 REQUIRED COMPONENTS Interpreter)

foreach(name compile_storm exec_storm short_lived pid_reuse)
  add_test(NAME e2e_${name}
    COMMAND ${Python3_EXECUTABLE} -B ${CMAKE_CURRENT_LIST_DIR}/${name}.py
      --build ${CMAKE_BINARY_DIR})
  set_tests_properties(e2e_${name} PROPERTIES LABELS "e2e;live" RUN_SERIAL TRUE
    SKIP_RETURN_CODE 77 TIMEOUT 900 ENVIRONMENT "${FP_TEST_ENVIRONMENT}")
endforeach()
