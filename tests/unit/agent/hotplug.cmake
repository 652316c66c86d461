# SPDX-License-Identifier: Apache-2.0
# With CPUs that really leave: tests/kernels. Here the kernel is made to say it, to every
# listener of the host: not while the same test of another build listens.
if(NOT FP_FUZZ)
  fp_unit_test(agent_hotplug SOURCES hotplug_test.c LIBS fp_agent)
  set_tests_properties(agent_hotplug${FP_TEST_SUFFIX} PROPERTIES RESOURCE_LOCK uevents)
endif()
