# SPDX-License-Identifier: Apache-2.0
# The names client, against forked children, and the opener.
foreach(noun names names_jit names_table)
  if(EXISTS ${CMAKE_CURRENT_LIST_DIR}/${noun}_test.c)
    fp_unit_test(agent_${noun}_test SOURCES ${noun}_test.c names_bench.c LIBS fp_agent)
  endif()
endforeach()
