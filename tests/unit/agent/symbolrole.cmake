# SPDX-License-Identifier: Apache-2.0
# What the symbols role reads, its protocol, and its confinement.
fp_unit_test(agent_perfmap SOURCES perfmap_test.c LIBS fp_agent)
