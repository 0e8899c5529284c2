# SPDX-License-Identifier: MIT
# Unit tests of kernels, backends, runners, configuration and log.

BE_LIB := daemon/complaints.c daemon/log.c daemon/reason.c daemon/config.c daemon/tenants/folder.c daemon/tenants/tenants.c $(ADMIN_SRCS) $(KERNELS_SRCS) $(BACKENDS_SRCS) $(RUNNER_SRCS)
BE_LIBS := -lcheck -lsubunit -lrt -lm -ljansson -lconfuse -ldl
BE_NEEDS := $(STD_KERNEL) $(BLAS_KERNEL) $(TEST_KERNEL) $(FOREIGN_TEST) $(UNLOCKED_WORKER) $(LOSING_WORKER) $(STOPPED_WORKER) $(SLOW_WORKER) $(TRACED_WORKER) $(LEAVING_WORKER) $(B)/libexec/arax-worker $(OLD_PLUGINS) $(QUEUED_PLUGIN)

# Functions that put work onto streams: as they are in all variants.
STREAM_FN := $(B)/test/stream_fn.so
$(STREAM_FN): selftests/unit/stream_fn.c selftests/unit/stream_fn.h libarax/include/arax/stream.h
	@mkdir -p $(@D)
	$(say) LINK $@
	$(Q)$(CC) $(CFLAGS_BASE) $(CFLAGS_plain) $(CPPFLAGS_ALL) -fPIC -shared $(LDFLAGS_plain) -o $@ $< -ldl
	$(Q)chmod go-w $@ $(@D)

# An OpenCL driver that araxd had better not let in.
BAD_ICD := $(B)/test/bad_icd.so
$(BAD_ICD): selftests/unit/bad_icd.c
	@mkdir -p $(@D)
	$(say) LINK $@
	$(Q)$(CC) $(CFLAGS_BASE) $(CFLAGS_plain) -D_GNU_SOURCE -fPIC -shared $(LDFLAGS_plain) -o $@ $< -ldl

# The code under test is compiled once per variant, into an archive.
define be_variant
$(B)/test/be-$(1).a: $(call objs,$(1),$(BE_LIB))
	@rm -f $$@; mkdir -p $$(@D)
	$(say) AR $$@
	$(Q)$$(AR) rcs $$@ $$^
-include $(patsubst %.o,%.d,$(call objs,$(1),$(BE_LIB)))
endef
$(foreach v,plain asan tsan,$(eval $(call be_variant,$(v))))

# $(call be_test,NAME,VARIANTS)
define be_one
$(call program,$(B)/test/be_$(1)-$(2),$(2),selftests/unit/be_$(1).c $(BE_SRCS_$(1)),$(B)/test/be-$(2).a $(BE_LIBS) $(BE_FLAGS_$(1)))
$(B)/test/be_$(1)-$(2): $(B)/test/be-$(2).a
check-be_$(1)-$(2): $(B)/test/be_$(1)-$(2) | $(BE_NEEDS)
	$(Q)scripts/tally run unit/be_$(1)-$(2) -- $(call BE_RUN_$(1),$(2)) $$<
CHECK_TARGETS += check-be_$(1)-$(2)
.PHONY: check-be_$(1)-$(2)
endef
BE_SRCS_std := $(addprefix selftests/unit/std_,case.c $(addprefix cases_,vector.c order.c image.c \
			matrix.c point.c nn.c fft.c blas.c))
BE_SRCS_opencl_std := $(BE_SRCS_std)
BE_SRCS_opencl_rodinia := $(BE_SRCS_std)
BE_SRCS_gpu_std := $(BE_SRCS_std)
BE_SRCS_std += $(addprefix daemon/kernels/std/,memory_limit.c scratch.c)
BE_SRCS_far := $(addprefix selftests/unit/far,.c _map.c _items.c _rows.c _grids.c)
BE_SRCS_opencl_far := $(BE_SRCS_far)
BE_FLAGS_tenants := -Wl,--wrap=clock_gettime,--wrap=stat
BE_SRCS_roles := $(addprefix daemon/worker/,sandbox_calls.c sandbox_files.c)
# Before a program's name, by its variant.  OpenBLAS has most paths, and mistakes, for this core.
BE_RUN_std = $(shell grep -qw avx512f /proc/cpuinfo && echo env OPENBLAS_CORETYPE=SkylakeX)
# As araxd has it that many share: a kernel is compiled once, not for each size of work-groups.
BE_RUN_opencl_std = env POCL_WORK_GROUP_SPECIALIZATION=0
BE_RUN_gpu_std = $(call with_vendors,$(1))
BE_RUN_gpu_vendor = $(BE_RUN_gpu_std)
be_test = $(foreach v,$(2),$(eval $(call be_one,$(1),$(v))))

# $(call be_not_built,NAMES,WHAT IS MISSING): counted as skipped
define be_absent
check-be_$(1)-absent:
	$(Q)scripts/tally add unit/be_$(1) 0 0 1 "not built: no $(2)"
CHECK_TARGETS += check-be_$(1)-absent
.PHONY: check-be_$(1)-absent
endef
be_not_built = $(foreach t,$(1),$(eval $(call be_absent,$(t),$(2))))

$(call be_test,signature,plain asan)
# By the C library alone: sanitizers call what is not there any more.
ifneq ($(SECCOMP_FLAGS),)
$(call program,$(B)/test/be_roles-plain,plain,selftests/unit/be_roles.c $(BE_SRCS_roles),$(B)/test/be-plain.a $(WORKER_LIBS) $(BE_LIBS))
$(B)/test/be_roles-plain: $(B)/test/be-plain.a
check-be_roles-plain: $(B)/test/be_roles-plain
	$(Q)scripts/tally run unit/be_roles-plain -- $<
CHECK_TARGETS += check-be_roles-plain
.PHONY: check-be_roles-plain
else
$(call be_not_built,roles,libseccomp)
endif
$(call be_test,registry,plain asan)
$(call be_test,module,plain asan)
$(call be_test,log,plain asan)
$(call be_test,config,plain asan)
$(call be_test,backend,plain asan tsan)
# The kernels are what they are: under ASan they run in fuzz-kernels.
$(call be_test,std,plain)
# Some of its cases; all take minutes.
$(call be_test,far,plain)
soak-be_far: $(B)/test/be_far-plain | $(BE_NEEDS)
	$(Q)scripts/tally run unit/be_far-all -- $(call BE_RUN_std,plain) $< all
SOAK_TARGETS += soak-be_far
.PHONY: soak-be_far
ifeq ($(OPENCL_HEADERS),yes)
$(call be_test,opencl,plain asan tsan)
check-be_opencl-plain check-be_opencl-asan check-be_opencl-tsan: | $(BAD_ICD)
# It takes PoCL two minutes: in `make test` the sanitizer's will do.
CHECK_TARGETS := $(filter-out check-be_opencl-plain,$(CHECK_TARGETS))
QUICK_TARGETS += check-be_opencl-plain
$(call be_test,opencl_lost,plain asan)
$(call be_test,opencl_std,plain)
$(call be_test,opencl_rodinia,plain)
$(call be_test,opencl_far,plain)
CHECK_TARGETS := $(filter-out check-be_opencl_far-plain,$(CHECK_TARGETS))
SOAK_TARGETS  += check-be_opencl_far-plain
check-be_opencl_rodinia-plain: | $(RODINIA_KERNEL)
$(call be_test,opencl_stream,plain asan)
check-be_opencl_stream-plain check-be_opencl_stream-asan: | $(STREAM_FN)
# Half a minute of compiling: not for the inner loop.
CHECK_TARGETS := $(filter-out check-be_opencl_std-plain,$(CHECK_TARGETS))
FIRST_TARGETS += check-be_opencl_std-plain
soak-be_opencl_std: $(B)/test/be_opencl_std-plain | $(BE_NEEDS)
	$(Q)scripts/tally run unit/be_opencl_std-specialized -- $<
SOAK_TARGETS  += soak-be_opencl_std
.PHONY: soak-be_opencl_std
TEST_NEEDS    += $(B)/test/be_opencl_std-plain $(BE_NEEDS)
else
$(call be_not_built,opencl opencl_lost opencl_std opencl_rodinia opencl_stream,headers of OpenCL)
endif
ifeq ($(XRT_HEADERS),yes)
CFLAGS_selftests/unit/be_xrt += $(XRT_CPPFLAGS)
$(call be_test,xrt,plain asan tsan)
else
$(call be_not_built,xrt,headers of XRT)
endif
# On a driver in software (selftests/gpu-emulated); cuda, hip, or both.
ifneq ($(EMULATED),)
GPU_TEST_FLAGS := $(GPU_HAS) -DCUDA_STUBS='"$(CUDA_HOME)"'
$(foreach v,plain asan tsan,$(eval $(B)/obj/$(v)/selftests/unit/be_gpu.o \
	$(addprefix $(B)/obj/$(v)/selftests/unit/,be_apart.o be_gpu_order.o be_gpu_passes.o be_gpu_std.o be_gpu_stream.o be_gpu_vendor.o): CPPFLAGS_ALL += $(GPU_TEST_FLAGS) -DVARIANT='"$(v)"'))
$(call be_test,gpu,plain asan tsan)
$(call be_test,gpu_order,plain asan tsan)
$(call be_test,apart,plain asan tsan)
$(foreach v,plain asan tsan,$(eval check-be_apart-$(v): | $(B)/test/$(v)/arax-device \
	$(patsubst %,$(B)/test/$(v)/lib%-emulated.so,$(EMULATED_PLUGIN))))
$(call be_test,gpu_std,plain asan tsan)
$(call be_test,gpu_passes,plain asan tsan)
# Of each there is.
ifneq ($(and $(BLAS_CPU),$(if $(CUDA_HEADERS),$(and $(CUBLAS_HEADER),$(CUFFT_HEADER)),yes)),)
$(call be_test,gpu_vendor,plain asan tsan)
else
$(call be_not_built,gpu_vendor,OpenBLAS or headers of cuBLAS and cuFFT)
endif
$(foreach t,gpu_std gpu_vendor,$(foreach v,plain asan tsan,\
	$(eval check-be_$(t)-$(v): | $(EMULATED_VENDORS_$(v)))))
# It needs OpenCL's headers as well.
ifeq ($(OPENCL_HEADERS),yes)
$(call be_test,gpu_stream,plain asan tsan)
$(foreach v,plain asan tsan,$(eval check-be_gpu_stream-$(v) check-be_apart-$(v): | $(STREAM_FN)))
else
$(call be_not_built,gpu_stream,headers of OpenCL)
endif
$(foreach t,gpu apart gpu_order gpu_passes gpu_std gpu_stream gpu_vendor,$(foreach v,plain asan tsan,\
	$(eval check-be_$(t)-$(v): | $(patsubst %,$(B)/test/$(v)/lib%-emulated.so,$(EMULATED) $(EMULATED_NVML)))))
# On hardware, where there is any: not for the inner loop, which has no time for it.
$(eval $(B)/obj/plain/selftests/unit/be_gpu_hardware.o: CPPFLAGS_ALL += $(GPU_TEST_FLAGS) -DVARIANT='"plain"')
$(call be_test,gpu_hardware,plain)
HARDWARE_NEEDS := $(HARDWARE_TEST) $(HARDWARE_TEST_HIP) $(B)/libexec/arax-device
check-be_gpu_hardware-plain: | $(HARDWARE_NEEDS)
CHECK_TARGETS := $(filter-out check-be_gpu_hardware-%,$(CHECK_TARGETS))
ALONE_TARGETS += check-be_gpu_hardware-plain check-be_gpu_hardware-hip_nvidia check-be_gpu_std-hardware
# The one before is CUDA's, where both are built in.
ifeq ($(words $(EMULATED)),2)
check-be_gpu_hardware-hip: $(B)/test/be_gpu_hardware-plain | $(BE_NEEDS) $(HARDWARE_NEEDS)
	$(Q)scripts/tally run unit/be_gpu_hardware-hip -- $< hip
.PHONY: check-be_gpu_hardware-hip
ALONE_TARGETS += check-be_gpu_hardware-hip
endif
# By HIP's headers for NVIDIA's devices, as well.
ifneq ($(HIP_NVIDIA_CAN),)
check-be_gpu_hardware-hip_nvidia: $(B)/test/be_gpu_hardware-plain $(HIP_NVIDIA) | $(HARDWARE_NEEDS)
	$(Q)scripts/tally run unit/be_gpu_hardware-hip_nvidia -- \
		env LD_LIBRARY_PATH=$(patsubst %/,%,$(dir $(CUDA_RUNTIME))) $< hip $(HIP_NVIDIA)
else
check-be_gpu_hardware-hip_nvidia:
	$(Q)scripts/tally add unit/be_gpu_hardware-hip_nvidia 0 0 1 \
		"not built: no CUDA Toolkit with its runtime, or no libamdhip64-dev"
endif
.PHONY: check-be_gpu_hardware-hip_nvidia
check-be_gpu_std-hardware: $(B)/test/be_gpu_std-plain | $(BE_NEEDS)
	$(Q)scripts/tally run unit/be_gpu_std-hardware -- $< hardware
.PHONY: check-be_gpu_std-hardware
# All of arax-std: not for the inner loop, and for bounds of arrays less often still.
CHECK_TARGETS := $(filter-out check-be_gpu_std-%,$(CHECK_TARGETS))
TEST_TARGETS  += check-be_gpu_std-plain
TEST_NEEDS    += $(B)/test/be_gpu_std-plain $(EMULATED_VENDORS_plain) \
		 $(patsubst %,$(B)/test/plain/lib%-emulated.so,$(EMULATED) $(EMULATED_NVML))
SOAK_TARGETS  += check-be_gpu_std-asan check-be_gpu_std-tsan
# But for the contents of ranges that change: seconds.
check-be_gpu_std-changes: $(B)/test/be_gpu_std-asan | $(BE_NEEDS) $(EMULATED_VENDORS_asan) \
		$(patsubst %,$(B)/test/asan/lib%-emulated.so,$(EMULATED) $(EMULATED_NVML))
	$(Q)scripts/tally run unit/be_gpu_std-changes -- $(call BE_RUN_gpu_std,asan) CK_RUN_CASE=changes $<
TEST_TARGETS  += check-be_gpu_std-changes
TEST_NEEDS    += $(B)/test/be_gpu_std-asan $(EMULATED_VENDORS_asan) \
		 $(patsubst %,$(B)/test/asan/lib%-emulated.so,$(EMULATED) $(EMULATED_NVML))
.PHONY: check-be_gpu_std-changes
else
$(call be_not_built,gpu gpu_order apart gpu_std gpu_passes gpu_vendor gpu_stream gpu_hardware,headers of CUDA or HIP)
endif
# The kernels of arax-rodinia in C, and the programs that check them, as they are.
RODINIA_TEST := selftests/unit/be_rodinia.c $(RODINIA_KERNEL_SRCS) $(filter-out %/arax.c,$(RODINIA_SRCS))
$(foreach v,plain asan,\
	$(call program,$(B)/test/be_rodinia-$(v),$(v),$(RODINIA_TEST),-lcheck -lsubunit -lrt -lm))
# How they wait, with a queue of the test's own in place of libarax.
RODINIA_WAIT_TEST := selftests/unit/be_rodinia_wait.c $(RODINIA_SRCS)
$(foreach v,plain asan,\
	$(call program,$(B)/test/be_rodinia_wait-$(v),$(v),$(RODINIA_WAIT_TEST),\
		-lcheck -lsubunit -lrt -lm))
check-be_rodinia-plain check-be_rodinia-asan check-be_rodinia_wait-plain \
check-be_rodinia_wait-asan: check-%: $(B)/test/%
	$(Q)scripts/tally run unit/$* -- $<
CHECK_TARGETS += check-be_rodinia-plain check-be_rodinia-asan check-be_rodinia_wait-plain \
	check-be_rodinia_wait-asan
.PHONY: check-be_rodinia-plain check-be_rodinia-asan check-be_rodinia_wait-plain \
	check-be_rodinia_wait-asan
$(call be_test,sim,plain asan)
# No sanitizer: what does the work is not ours, and LeakSanitizer dies of its libgomp.
$(call be_test,blas,plain)
$(call be_test,runner,plain asan tsan)
$(call be_test,turn,plain asan tsan)
$(call be_test,hang,plain asan tsan)
$(call be_test,ahead,plain asan tsan)
CFLAGS_selftests/unit/be_sandbox := $(SECCOMP_FLAGS)
$(call be_test,sandbox,plain asan tsan)
$(call be_test,saved,plain asan tsan)
QUICK_TARGETS += $(patsubst %,check-be_%-asan,signature registry module config saved)
$(call be_test,tenants,plain asan tsan)

# Fuzzing: see test-fuzz in the top Makefile for the share of `make test`.
BE_FUZZ := manifest signature module config saved kernels
FUZZ_CC := $(CLANG) $(CFLAGS_BASE) $(CFLAGS_fuzz) $(LDFLAGS_fuzz) $(CPPFLAGS_ALL)
$(B)/fuzz/manifest: selftests/fuzz/manifest_fuzz.c $(addprefix daemon/kernels/,manifest.c signature.c steps.c)
$(B)/fuzz/signature: selftests/fuzz/manifest_signature_fuzz.c daemon/kernels/signature.c
$(B)/fuzz/module: selftests/fuzz/module_fuzz.c daemon/kernels/module.c daemon/kernels/signature.c
$(B)/fuzz/config: selftests/fuzz/config_fuzz.c daemon/config.c daemon/log.c \
		  daemon/backends/cpulist.c libarax/admin/conf.c libarax/admin/trusted.c
$(B)/fuzz/saved: selftests/fuzz/saved_fuzz.c \
		 $(addprefix libarax/admin/,conf.c saved.c setting.c trusted.c)
ifeq ($(XRT_HEADERS),yes)
BE_FUZZ += xclbin
$(B)/fuzz/xclbin: CPPFLAGS_ALL += $(XRT_CPPFLAGS)
$(B)/fuzz/xclbin: selftests/fuzz/xclbin_fuzz.c $(addprefix daemon/backends/xrt/,xclbin.c xml.c)
endif
$(B)/fuzz/kernels: selftests/fuzz/kernels_fuzz.c $(addprefix daemon/kernels/,manifest.c signature.c steps.c) \
		   $(STD_SRCS)
$(B)/fuzz/kernels: FUZZ_MORE := -rdynamic -ldl -lm $(STD_DNN_FLAG)
ifneq ($(BLAS_CPU),)
BE_FUZZ += kernels-blas
$(B)/fuzz/kernels-blas: selftests/fuzz/kernels_fuzz.c $(addprefix daemon/kernels/,manifest.c signature.c steps.c) \
			daemon/kernels/blas/blas.c
$(B)/fuzz/kernels-blas: FUZZ_MORE := -rdynamic $(BLAS_LIB) -lgomp -ldl -lm \
			-Wl,-rpath,$(patsubst %/,%,$(dir $(BLAS_LIB))) -isystem $(dir $(BLAS_HEADER)) \
			-DMANIFEST='"daemon/kernels/blas/arax-blas.json"'
endif
$(addprefix $(B)/fuzz/,$(BE_FUZZ)):
	@mkdir -p $(@D)
	$(say) LINK $@
	$(Q)$(FUZZ_CC) -o $@ $^ -ljansson -lconfuse $(FUZZ_MORE)

# $(1): target, $(2): seconds
be_fuzz_run = @mkdir -p $(B)/fuzz/$(1)-corpus; \
	$(B)/fuzz/$(1) -max_total_time=$(2) -max_len=4096 -timeout=10 -artifact_prefix=$(B)/fuzz/ \
		$(B)/fuzz/$(1)-corpus selftests/fuzz/corpus/$(1)

$(addprefix fuzz-,$(BE_FUZZ)): fuzz-%: $(B)/fuzz/%
	$(call be_fuzz_run,$*,$(or $(FUZZ_SECONDS),60))
FUZZ_TARGETS += $(addprefix fuzz-,$(BE_FUZZ))
.PHONY: $(addprefix fuzz-,$(BE_FUZZ))

check-be_man check-be_headers: check-be_%:
	@scripts/tally run unit/be_$* selftests/unit/be_$*.sh
CHECK_TARGETS += check-be_man check-be_headers
.PHONY: check-be_man check-be_headers

check-hip_nvidia: $(if $(HIP_NVIDIA_CAN),$(HIP_NVIDIA)) $(B)/bin/araxd
	@scripts/tally run unit/hip_nvidia -- selftests/unit/be_hip_nvidia.sh \
		$(if $(HIP_NVIDIA_CAN),$(HIP_NVIDIA) $(CUDA_RUNTIME))
CHECK_TARGETS += check-hip_nvidia
.PHONY: check-hip_nvidia

check-tally:
	@scripts/tally run unit/tally selftests/unit/tally.sh
CHECK_TARGETS += check-tally
.PHONY: check-tally

check-makefile:
	@scripts/tally run unit/makefile selftests/unit/makefile.sh
CHECK_TARGETS += check-makefile
.PHONY: check-makefile

check-setup:
	@scripts/tally run unit/setup selftests/unit/setup.sh
CHECK_TARGETS += check-setup
.PHONY: check-setup

check-gpu_images: $(STD_KERNEL)
	@scripts/tally run unit/gpu_images -- selftests/unit/gpu_images.py $(B)/lib/arax/kernels
check-gpu_images-examples: $$(EXAMPLE_KERNELS)
	@scripts/tally run unit/gpu_images-examples -- \
		selftests/unit/gpu_images.py $(B)/examples/kernels montecarlo
CHECK_TARGETS += check-gpu_images check-gpu_images-examples
.PHONY: check-gpu_images check-gpu_images-examples
