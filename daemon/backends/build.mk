# SPDX-License-Identifier: MIT
# Devices: backends and the filters on top of them.

BACKENDS_SRCS := $(addprefix daemon/backends/,cpu.c cpulist.c device.c gang.c plugin.c) \
		 $(addprefix daemon/filters/,delay.c error.c stats.c)
