# SPDX-License-Identifier: Apache-2.0
# Whole stacks of programs without frame pointers: their share, and frame by frame against a
# reference. They run alone: what else runs is met in stacks too and wants tables first.
# FP_TEST_FULL in the environment makes them long.
find_package(Python3 REQUIRED COMPONENTS Interpreter)

# fp_unwind_test(<name> <script> <argument>…)
function(fp_unwind_test name script)
  add_test(NAME ${name}
    COMMAND ${Python3_EXECUTABLE} -B ${CMAKE_CURRENT_FUNCTION_LIST_DIR}/${script}
      --build ${CMAKE_BINARY_DIR} ${ARGN})
  set_tests_properties(${name} PROPERTIES LABELS "e2e;live" RUN_SERIAL TRUE
    SKIP_RETURN_CODE 77 TIMEOUT 1800 ENVIRONMENT "${FP_TEST_ENVIRONMENT}")
endfunction()

fp_unwind_test(e2e_unwind unwind.py python3 bash gcc postgres)
fp_unwind_test(e2e_unwind_reference unwind_reference.py --native)
fp_unwind_test(e2e_unwind_reference_kernel unwind_reference.py --few python3 cxx)
fp_unwind_test(e2e_unwind_churn unwind_churn.py)
add_test(NAME e2e_unwind_memory
  COMMAND ${Python3_EXECUTABLE} -B ${CMAKE_CURRENT_LIST_DIR}/unwind_memory.py
    --build ${CMAKE_BINARY_DIR})
set_tests_properties(e2e_unwind_memory PROPERTIES LABELS "e2e;live" RESOURCE_LOCK live_host
  SKIP_RETURN_CODE 77 TIMEOUT 600 COST 50 ENVIRONMENT "${FP_TEST_ENVIRONMENT}")
fp_unwind_test(e2e_unwind_alike unwind_alike.py)
