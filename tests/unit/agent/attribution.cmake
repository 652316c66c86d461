# SPDX-License-Identifier: Apache-2.0
# From process events and addresses to builds and offsets.
foreach(noun process process_lazy process_exec process_limit process_lost process_sparse process_churn questions process_mapset process_procfs kernelmap resolve sideband_record)
  fp_unit_test(agent_${noun} SOURCES ${noun}_test.c LIBS fp_agent)
endforeach()
