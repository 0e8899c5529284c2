# SPDX-License-Identifier: MIT
# Devices: backends and the filters on top of them.

# Only headers: the library is opened at run time.
OPENCL_HEADERS := $(shell $(CC) -include CL/cl.h -E -x c /dev/null >/dev/null 2>&1 && echo yes)
ifeq ($(OPENCL_HEADERS),yes)
OPENCL_SRCS := $(addprefix daemon/backends/opencl/,api.c backend.c cache.c device.c kernel.c \
		 memory.c platform.c prelude.c program.c run.c)
else
OPENCL_SRCS := daemon/backends/opencl/absent.c
endif

# Likewise.  They are C++ and C in one, and count on each other's folder.
XRT_CPPFLAGS := -isystem /usr/include/xrt
XRT_HEADERS := $(shell $(CC) $(XRT_CPPFLAGS) -include stdbool.h -include xrt/xrt/xrt_kernel.h \
		 -include xrt/xclbin.h -E -x c /dev/null >/dev/null 2>&1 && echo yes)
ifeq ($(XRT_HEADERS),yes)
XRT_SRCS := $(addprefix daemon/backends/xrt/,api.c backend.c device.c image.c kernel.c memory.c \
	      run.c xclbin.c xml.c)
$(foreach s,$(XRT_SRCS),$(eval CFLAGS_$(basename $(s)) += $(XRT_CPPFLAGS)))
else
XRT_SRCS := daemon/backends/xrt/absent.c
endif

BACKENDS_SRCS := $(addprefix daemon/backends/,cpu.c cpulist.c device.c gang.c params.c plugin.c) \
		 $(OPENCL_SRCS) $(XRT_SRCS) \
		 $(addprefix daemon/filters/,delay.c error.c stats.c)
