# SPDX-License-Identifier: Apache-2.0
# With CPUs that really leave: tests/kernels.
fp_unit_test(agent_hotplug SOURCES hotplug_test.c LIBS fp_agent)
