# SPDX-License-Identifier: MIT
# Devices: backends and the filters on top of them.

# Only headers: the library is opened at run time.
OPENCL_HEADERS := $(shell echo '\#include <CL/cl.h>' | $(CC) -E -x c - >/dev/null 2>&1 && echo yes)
ifeq ($(OPENCL_HEADERS),yes)
OPENCL_SRCS := $(addprefix daemon/backends/opencl/,api.c backend.c cache.c device.c kernel.c \
		 memory.c platform.c prelude.c program.c run.c)
else
OPENCL_SRCS := daemon/backends/opencl/absent.c
endif

BACKENDS_SRCS := $(addprefix daemon/backends/,cpu.c cpulist.c device.c gang.c params.c plugin.c sim.c) \
		 $(OPENCL_SRCS) \
		 $(addprefix daemon/filters/,delay.c error.c stats.c)
