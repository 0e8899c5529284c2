# SPDX-License-Identifier: MIT
# Tests of the whole stack, one source for both links.

SYSTEM      := $(B)/selftests/system
SYSTEM_SRCS := $(addprefix selftests/system/,tap.c stack.c)
SYSTEM_LIBS := -Wl,-rpath,'$$$$ORIGIN/../../lib' -L$(B)/lib -larax

$(call program,$(SYSTEM)/system,plain,$(SYSTEM_SRCS) $(sort $(wildcard selftests/system/test-*.c)),$(SYSTEM_LIBS))
$(call program,$(SYSTEM)/daemon-death,plain,$(SYSTEM_SRCS) selftests/system/daemon-death.c,$(SYSTEM_LIBS))
$(call program,$(SYSTEM)/device-loss,plain,$(SYSTEM_SRCS) selftests/system/device-loss.c,$(SYSTEM_LIBS))
$(call program,$(SYSTEM)/shares,plain,$(SYSTEM_SRCS) selftests/system/shares.c,$(SYSTEM_LIBS))
$(call program,$(SYSTEM)/one-group,plain,$(SYSTEM_SRCS) selftests/system/one-group.c,$(SYSTEM_LIBS))
$(call program,$(SYSTEM)/planned,plain,$(SYSTEM_SRCS) selftests/system/planned.c,$(SYSTEM_LIBS))
$(call program,$(SYSTEM)/followers,plain,$(SYSTEM_SRCS) selftests/system/followers.c,$(SYSTEM_LIBS))
$(call program,$(SYSTEM)/geometry,plain,$(SYSTEM_SRCS) selftests/system/geometry.c,$(SYSTEM_LIBS))
$(call program,$(SYSTEM)/reasons,plain,$(SYSTEM_SRCS) selftests/system/reasons.c,$(SYSTEM_LIBS))
$(call program,$(SYSTEM)/vendors,plain,$(SYSTEM_SRCS) selftests/system/vendors.c,$(SYSTEM_LIBS))
$(call program,$(SYSTEM)/own-opencl,plain,$(SYSTEM_SRCS) selftests/system/own-opencl.c daemon/worker/mounts.c,$(SYSTEM_LIBS))
$(call program,$(SYSTEM)/stand-aside,plain,$(SYSTEM_SRCS) selftests/system/stand-aside.c,$(SYSTEM_LIBS))
$(call program,$(SYSTEM)/huge-pages,plain,$(SYSTEM_SRCS) selftests/system/huge-pages.c,$(SYSTEM_LIBS))
$(call program,$(SYSTEM)/many-mapped,plain,$(SYSTEM_SRCS) selftests/system/many-mapped.c,$(SYSTEM_LIBS))
$(call program,$(SYSTEM)/coherent,plain,$(SYSTEM_SRCS) selftests/system/coherent.c,$(SYSTEM_LIBS))
$(call program,$(SYSTEM)/told,plain,selftests/system/told.c,$(SYSTEM_LIBS))
$(call program,$(SYSTEM)/first-context,plain,selftests/system/first-context.c,$(SYSTEM_LIBS))
$(SYSTEM)/system $(SYSTEM)/daemon-death $(SYSTEM)/device-loss $(SYSTEM)/one-group $(SYSTEM)/huge-pages \
	$(SYSTEM)/coherent $(SYSTEM)/first-context $(SYSTEM)/followers $(SYSTEM)/own-opencl $(SYSTEM)/stand-aside \
	$(SYSTEM)/geometry $(SYSTEM)/many-mapped $(SYSTEM)/planned $(SYSTEM)/reasons $(SYSTEM)/shares $(SYSTEM)/told $(SYSTEM)/vendors: $(B)/lib/libarax.so.$(VERSION)

$(SYSTEM)/kernels/systest.so: $(call objs,plain,selftests/system/kernels/systest.c)
	@mkdir -p $(@D)
	$(say) LINK $@
	$(Q)$(CC) -shared $(LDFLAGS_plain) -o $@ $<
-include $(patsubst %.o,%.d,$(call objs,plain,selftests/system/kernels/systest.c))

$(addprefix $(SYSTEM)/kernels/,systest.cl vendortest.json vendortest.cl): \
		$(SYSTEM)/kernels/%: selftests/system/kernels/%
	@mkdir -p $(@D)
	$(Q)install -m 644 $< $@

SYSTEST_PTX := $(if $(NVCC),$(SYSTEM)/kernels/systest.ptx)
$(SYSTEM)/kernels/systest.json: selftests/system/kernels/systest.json daemon/kernels/leave-out \
				$(B)/lib/arax/kernels/.absent
	@mkdir -p $(@D)
	$(say) JSON $@
	$(Q)daemon/kernels/leave-out $< $(if $(NVCC),,systest.ptx) > $@.tmp
	$(Q)chmod 644 $@.tmp && mv $@.tmp $@

$(SYSTEM)/kernels/systest.ptx: selftests/system/kernels/systest.cu libarax/include/arax/gpu.h
	@mkdir -p $(@D)
	$(say) NVCC $@
	$(Q)$(NVCC) -ptx $(NVCC_FLAGS) -o $@.tmp $<
	$(Q)chmod 644 $@.tmp && mv $@.tmp $@

# Functions of the host for an OpenCL device.
ifeq ($(OPENCL_HEADERS),yes)
VENDOR_TEST := $(addprefix $(SYSTEM)/kernels/vendortest.,so json cl)
$(SYSTEM)/kernels/vendortest.so: $(B)/test/stream_fn.so
	@mkdir -p $(@D)
	$(Q)install -m 644 $< $@
endif

.PRECIOUS: $(B)/obj/plain/selftests/system/images/%.o
$(SYSTEM)/images/%.so: $(B)/obj/plain/selftests/system/images/%.o
	@mkdir -p $(@D)
	$(say) LINK $@
	$(Q)$(CC) -shared $(LDFLAGS_plain) -o $@ $<

SYSTEM_FILES := $(patsubst %,$(SYSTEM)/images/%.so,until hung ends) $(SYSTEM)/stand-aside \
		$(SYSTEM)/shares $(SYSTEM)/system $(SYSTEM)/daemon-death $(SYSTEM)/device-loss $(SYSTEM)/one-group \
		$(SYSTEM)/huge-pages $(SYSTEM)/many-mapped $(SYSTEM)/first-context $(SYSTEM)/own-opencl \
		$(SYSTEM)/coherent $(SYSTEM)/told $(SYSTEM)/planned $(SYSTEM)/followers $(SYSTEM)/kernels/systest.so $(SYSTEM)/kernels/systest.json \
		$(SYSTEM)/kernels/systest.cl $(SYSTEST_PTX) $(SYSTEM)/reasons $(SYSTEM)/vendors $(VENDOR_TEST)

# Drivers in software, for the same.
SYSTEM_CUDA := $(if $(filter cuda,$(EMULATED)),libcuda-emulated.so)

# Without XRT's headers there is none, and its test says so.
ifeq ($(XRT_HEADERS),yes)
CFLAGS_selftests/system/xclbin-make += $(XRT_CPPFLAGS)
$(call program,$(SYSTEM)/xclbin-make,plain,selftests/system/xclbin-make.c,)
XRT_TEST := $(SYSTEM)/xclbin-make
endif
$(call program,$(SYSTEM)/four-times,plain,selftests/system/four-times.c,$(SYSTEM_LIBS))
$(SYSTEM)/four-times: $(B)/lib/libarax.so.$(VERSION)
$(call program,$(SYSTEM)/xrt,plain,selftests/system/xrt.c,$(SYSTEM_LIBS))
$(SYSTEM)/xrt: $(B)/lib/libarax.so.$(VERSION)

# What a 32-bit program sees of all that, where one can be built (gcc-multilib).
CFLAGS_system32  := $(CFLAGS_guest32) -D_TIME_BITS=64
LDFLAGS_system32 := $(LDFLAGS_guest32)
$(eval $(call compile_rule,system32))
$(call kt_program,$(SYSTEM)/system32,system32,$(SYSTEM_SRCS) $(sort $(wildcard selftests/system/test-*.c)) $(LIBARAX_SRC))
SYSTEM_32 := $(if $(HAVE_M32),$(SYSTEM)/system32)

test-system: $$(BUILT) $(SYSTEM_FILES) $(QUEUED_PLUGIN) $(SYSTEM_CUDA:%=$(B)/test/plain/%)
	@selftests/system/run.sh

test-system-6.1 test-system-6.12 test-system-debug test-system-next: test-system-%: $$(BUILT) $(SYSTEM_FILES) \
		$$(SYSTEM_32) $(QUEUED_PLUGIN) $(B)/kmod/%/arax.ko $(B)/kmod/%/borrower/borrower.ko
	@selftests/system/guest.sh $*

# The same on an araxd with a sanitizer in it; drivers leave memory at their end, and OpenCL's are
# tried in processes that araxd forks while it has threads.
soak-system-asan soak-system-tsan: soak-system-%: default $(SYSTEM_FILES) $(QUEUED_PLUGIN) $(B)/%/araxd \
		$(if $(SYSTEM_CUDA),$(B)/test/plain/$(SYSTEM_CUDA) $(B)/test/%/$(SYSTEM_CUDA))
	ASAN_OPTIONS=detect_leaks=0 TSAN_OPTIONS=die_after_fork=0 ARAXD=$(B)/$*/araxd ARAX_RESULTS=$(B)/results-$* selftests/system/run.sh

# Millions of tasks in place of thousands.
soak-coherent: default $(SYSTEM_FILES) $(SYSTEM_CUDA:%=$(B)/test/plain/%)
	ARAX_TEST_TASKS=2000000 TAP_SECONDS=7200 selftests/system/run.sh coherent

ALONE_TARGETS += test-system
TEST_NEEDS += $(SYSTEM_FILES) $(SYSTEM_32) $(QUEUED_PLUGIN) $(BAD_ICD) $(SYSTEM_CUDA:%=$(B)/test/plain/%)
FIRST_TARGETS += test-system-debug test-system-6.12 test-system-6.1
SOAK_TARGETS += test-system-next soak-system-asan soak-system-tsan soak-coherent
.PHONY: test-system test-system-6.1 test-system-6.12 test-system-debug test-system-next \
	soak-system-asan soak-system-tsan soak-coherent

# What is not there is not taken for a test that has passed.
check-skips: $$(STD_KERNEL) $(SYSTEM)/kernels/systest.json
	@scripts/tally run unit/skips selftests/unit/skips.sh
CHECK_TARGETS += check-skips
.PHONY: check-skips

test-install: $$(BUILT)
	@scripts/tally run system/install selftests/system/install.sh
TEST_TARGETS += test-install
.PHONY: test-install

test-kinds: $$(BUILT) $(BAD_ICD) $(SYSTEM)/geometry
	@scripts/tally run system/kinds selftests/system/kinds.sh
TEST_TARGETS += test-kinds
.PHONY: test-kinds

test-demo: default
	@scripts/tally run system/demo selftests/system/demo.sh
ALONE_TARGETS += test-demo
.PHONY: test-demo

test-xrt: default $(SYSTEM)/xrt $(SYSTEM)/four-times $(XRT_TEST)
	@scripts/tally run system/xrt selftests/system/xrt.sh
ALONE_TARGETS += test-xrt
.PHONY: test-xrt

test-gpu: default $(SYSTEM)/four-times $(SYSTEM)/geometry $(patsubst %,$(B)/test/plain/lib%-emulated.so,$(EMULATED) $(EMULATED_NVML))
	@scripts/tally run system/gpu selftests/system/gpu-emulated.sh
ALONE_TARGETS += test-gpu
.PHONY: test-gpu

test-rodinia: $$(BUILT)
	@scripts/tally run system/rodinia selftests/system/rodinia.sh
TEST_TARGETS += test-rodinia
.PHONY: test-rodinia
