# SPDX-License-Identifier: Apache-2.0
# The agent and agentctl as programs: rights, command line, snapshots, bad input.
find_package(Python3 REQUIRED COMPONENTS Interpreter)

foreach(name control_access cli_agent snapshot_cases badinput_host)
  add_test(NAME e2e_${name}
    COMMAND ${Python3_EXECUTABLE} -B ${CMAKE_CURRENT_LIST_DIR}/${name}.py
      --build ${CMAKE_BINARY_DIR})
  set_tests_properties(e2e_${name} PROPERTIES LABELS "e2e;live" RESOURCE_LOCK live_host COST 50
    SKIP_RETURN_CODE 77 TIMEOUT 600 ENVIRONMENT "${FP_TEST_ENVIRONMENT}")
endforeach()
