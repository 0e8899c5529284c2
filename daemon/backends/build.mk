# SPDX-License-Identifier: MIT
# Devices: backends and the filters on top of them.

# Only headers: the library is opened at run time.
OPENCL_HEADERS := $(shell $(CC) -include CL/cl.h -E -x c /dev/null >/dev/null 2>&1 && echo yes)
ifeq ($(OPENCL_HEADERS),yes)
OPENCL_SRCS := $(addprefix daemon/backends/opencl/,api.c backend.c build_log.c built.c cache.c child.c compiler.c \
		 device.c after.c drivers.c kernel.c memory.c platform.c prelude.c program.c run.c stream.c \
		 trial.c)
else
ABSENT_FLAGS += -DOPENCL_ABSENT
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
ABSENT_FLAGS += -DXRT_ABSENT
endif

# CUDA and HIP are one backend on two drivers.  Of the toolkits only the headers:
# CUDA_HOME, or what pkg-config knows, or where its installer puts it.
CUDA_HOME ?= $(firstword $(wildcard /usr/local/cuda) \
	       $(patsubst %/include,%,$(shell $(PKGCONF) --variable=includedir cuda 2>/dev/null)) \
	       $(if $(wildcard /usr/include/cudaTypedefs.h),/usr))
gpu_header = $(shell $(CC) $(2) -include $(1) -E -x c /dev/null >/dev/null 2>&1 && echo yes)
CUDA_INCLUDE := $(if $(filter-out /usr,$(CUDA_HOME)),-isystem $(CUDA_HOME)/include)
CUDA_HEADERS := $(call gpu_header,cudaTypedefs.h,$(CUDA_INCLUDE))
HIP_HEADERS  := $(call gpu_header,hip/hip_runtime_api.h,-D__HIP_PLATFORM_AMD__)

GPU_HAS  := $(if $(CUDA_HEADERS),-DGPU_HAS_CUDA) $(if $(HIP_HEADERS),-DGPU_HAS_HIP)
GPU_SRCS := $(addprefix daemon/backends/gpu/,\
	$(if $(CUDA_HEADERS),cuda.c) $(if $(HIP_HEADERS),hip.c) \
	$(if $(CUDA_HEADERS)$(HIP_HEADERS),backend.c device.c kernel.c memory.c module.c nvml.c \
		ptx.c run.c stream.c wait.c))
CFLAGS_daemon/backends/gpu/cuda    := $(CUDA_INCLUDE)
CFLAGS_daemon/backends/gpu/backend := $(GPU_HAS)

# HIP on NVIDIA's devices by HIP's own headers for them: a plug-in, as they want CUDA's runtime
# and driver linked.  Made by name; where there is no driver its library for linking will do.
HIP_NVIDIA      := $(B)/lib/arax/backends/hip-nvidia.so
HIP_NVIDIA_SRCS := $(addprefix daemon/backends/,$(addprefix gpu/,backend.c device.c hip.c kernel.c \
		     memory.c module.c nvml.c ptx.c run.c stream.c wait.c) options.c params.c streams.c)
CUDA_RUNTIME    := $(firstword $(wildcard $(CUDA_HOME)/lib64/libcudart.so $(CUDA_HOME)/lib/libcudart.so \
		     /usr/lib/*/libcudart.so))
HIP_NVIDIA_CAN  := $(and $(CUDA_HEADERS),$(HIP_HEADERS),$(CUDA_RUNTIME),\
		     $(wildcard /usr/include/hip/nvidia_detail/nvidia_hip_runtime_api.h))

$(HIP_NVIDIA): $(HIP_NVIDIA_SRCS) $(wildcard daemon/backends/gpu/*.h) daemon/backend.h
	@mkdir -p $(@D)
	$(say) LINK $@
	$(Q)$(CC) $(CFLAGS_BASE) $(CFLAGS_plain) $(CPPFLAGS_ALL) $(CUDA_INCLUDE) -DGPU_HAS_HIP \
		-DGPU_HIP_NVIDIA -fPIC -fvisibility=hidden -shared $(LDFLAGS_plain) -Wl,-z,defs -o $@ \
		$(HIP_NVIDIA_SRCS) -L$(dir $(CUDA_RUNTIME)) -L$(dir $(CUDA_RUNTIME))stubs -lcudart -lcuda
	$(Q)chmod go-w $@ $(@D)

hip-nvidia: $(if $(HIP_NVIDIA_CAN),$(HIP_NVIDIA),no-hip-nvidia)
no-hip-nvidia:
	@echo 'no plug-in for HIP on NVIDIA: it takes the CUDA Toolkit (CUDA_HOME=) and libamdhip64-dev'
.PHONY: hip-nvidia no-hip-nvidia

ifneq ($(and $(OPENCL_HEADERS),$(XRT_HEADERS),$(CUDA_HEADERS),$(HIP_HEADERS)),yes)
ABSENT_SRCS := daemon/backends/absent.c
CFLAGS_daemon/backends/absent := $(GPU_HAS) $(ABSENT_FLAGS)
endif

BACKENDS_SRCS := $(addprefix daemon/backends/,addresses.c cpu.c cpulist.c device.c gang.c line.c options.c params.c plugin.c sim.c stacks.c streams.c) \
		 $(OPENCL_SRCS) $(GPU_SRCS) $(XRT_SRCS) $(ABSENT_SRCS) \
		 $(addprefix daemon/backends/apart/,apart.c buffers.c calls.c channel.c device.c helper.c lanes.c) \
		 daemon/child.c daemon/libexec.c daemon/notify.c daemon/memory/hostmap.c daemon/worker/idmap.c \
		 $(addprefix daemon/filters/,delay.c error.c stats.c)

# What drives a GPU that can't be driven in araxd any more.  For tests in each variant: a
# sanitizer wants all or nothing.
DEVICE_SRCS := $(addprefix daemon/backends/apart/,main.c serve.c) daemon/log.c daemon/reason.c daemon/config.c \
	       daemon/memory/guard.c daemon/memory/reserve.c $(sort $(wildcard libarax/admin/*.c)) $(BACKENDS_SRCS)
DEVICE_LIBS := -lconfuse -ljansson -ldl -lm
$(call program,$(B)/libexec/arax-device,plain,$(DEVICE_SRCS),$(DEVICE_LIBS))
$(foreach v,plain asan tsan,$(call program,$(B)/test/$(v)/arax-device,$(v),$(DEVICE_SRCS),$(DEVICE_LIBS)))
ALL_TARGETS += $(B)/libexec/arax-device

install-device: $(B)/libexec/arax-device
	install -d "$(DESTDIR)$(PREFIX)/libexec/arax"
	install -m 755 $(B)/libexec/arax-device "$(DESTDIR)$(PREFIX)/libexec/arax/"
INSTALL_TARGETS += install-device
.PHONY: install-device
