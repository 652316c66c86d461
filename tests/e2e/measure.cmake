# SPDX-License-Identifier: Apache-2.0
# Profiles of reference programs against the truth the programs measure themselves. They run
# alone: other load on the same CPUs is no error of theirs but makes every estimate wider.
# FP_TEST_FULL in the environment makes the runs longer and the crowds larger.
find_package(Python3 REQUIRED COMPONENTS Interpreter)

foreach(name attribution_cpu cpu_time offcpu_truth walk_budget blocked_cases
    run_queue)
  add_test(NAME e2e_${name}
    COMMAND ${Python3_EXECUTABLE} -B ${CMAKE_CURRENT_LIST_DIR}/${name}.py
      --build ${CMAKE_BINARY_DIR})
  set_tests_properties(e2e_${name} PROPERTIES LABELS "e2e;live" RUN_SERIAL TRUE
    SKIP_RETURN_CODE 77 TIMEOUT 900 ENVIRONMENT "${FP_TEST_ENVIRONMENT}")
endforeach()
