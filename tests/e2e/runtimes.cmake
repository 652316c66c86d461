# SPDX-License-Identifier: Apache-2.0
# Runtimes, containers, cgroups as Kubernetes makes them, and what hostile programs put in the
# agent's way. They run containers and make cgroups, so one after the other.
find_package(Python3 REQUIRED COMPONENTS Interpreter)

foreach(name jit_runtimes containers kubepods relabel dead_mount hostile_maps hostile_names)
  add_test(NAME e2e_${name}
    COMMAND ${Python3_EXECUTABLE} -B ${CMAKE_CURRENT_LIST_DIR}/${name}.py
      --build ${CMAKE_BINARY_DIR})
  set_tests_properties(e2e_${name} PROPERTIES LABELS "e2e;live" RESOURCE_LOCK live_host COST 50
    SKIP_RETURN_CODE 77 TIMEOUT 900 ENVIRONMENT "${FP_TEST_ENVIRONMENT}")
endforeach()
# It compares shares of samples with shares of time.
set_tests_properties(e2e_jit_runtimes PROPERTIES RUN_SERIAL TRUE)
