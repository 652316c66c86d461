# SPDX-License-Identifier: Apache-2.0
# The names client, against forked children, and the opener.
foreach(noun names names_jit names_ended names_files names_namespace names_unwind
    names_choked)
  fp_unit_test(agent_${noun}_test SOURCES ${noun}_test.c names_bench.c LIBS fp_agent)
endforeach()
fp_unit_test(agent_opener_test SOURCES opener_test.c opener_talk.c names_bench.c LIBS fp_agent)
fp_unit_test(agent_opener_mounts_test SOURCES opener_mounts_test.c LIBS fp_agent)
if(TARGET agent_names_files_test)
  add_dependencies(agent_names_files_test deadfuse) # its file system that stops answering
endif()
