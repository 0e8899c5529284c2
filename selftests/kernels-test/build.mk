# SPDX-License-Identifier: MIT
# Kernels that misbehave on purpose, for the tests.

TEST_KERNEL := $(B)/test/kernels/arax-test.so $(B)/test/kernels/arax-test.json

$(B)/test/kernels/arax-test.so: $(call objs,plain,selftests/kernels-test/kernels.c)
	@mkdir -p $(@D)
	$(say) LINK $@
	$(Q)$(CC) -shared $(LDFLAGS_plain) -Wl,-z,defs -o $@ $^
	$(Q)chmod go-w $@ $(@D)

$(B)/test/kernels/arax-test.json: selftests/kernels-test/arax-test.json
	@mkdir -p $(@D)
	$(Q)install -m 644 $< $@

# For a GPU that is there: as PTX, and with PTX in an image that isn't text.
HARDWARE_TEST := $(if $(NVCC),$(addprefix $(B)/test/kernels/hardware.,ptx fatbin))
$(HARDWARE_TEST): $(B)/test/kernels/hardware.%: selftests/kernels-test/hardware.cu
	@mkdir -p $(@D)
	$(say) NVCC $@
	$(Q)$(NVCC) -$* $(NVCC_FLAGS) -o $@.tmp $<
	$(Q)chmod 644 $@.tmp && mv $@.tmp $@

HARDWARE_TEST_HIP := $(if $(HIPCC),$(B)/test/kernels/hardware.co)
$(HARDWARE_TEST_HIP): selftests/kernels-test/hardware.cu
	@mkdir -p $(@D)
	$(say) HIPCC $@
	$(Q)$(hip_genco) -o $@.tmp $<
	$(Q)chmod 644 $@.tmp && mv $@.tmp $@

# What programs bring: not in any folder of kernels.
FOREIGN_TEST := $(B)/test/foreign/hostile.so $(B)/test/foreign/innocent.so

CFLAGS_selftests/kernels-test/innocent := -fopenmp
$(FOREIGN_TEST): $(B)/test/foreign/%.so: $(B)/obj/plain/selftests/kernels-test/%.o
	@mkdir -p $(@D)
	$(say) LINK $@
	$(Q)$(CC) -shared $(LDFLAGS_plain) $(CFLAGS_selftests/kernels-test/$*) -Wl,-z,defs -o $@ $< -lm
-include $(FOREIGN_TEST:$(B)/test/foreign/%.so=$(B)/obj/plain/selftests/kernels-test/%.d)

# The worker as it is where libseccomp is missing.
UNLOCKED_WORKER := $(B)/test/worker-unlocked
$(B)/obj/plain/selftests/kernels-test/unlocked.o: daemon/worker/sandbox_calls.c
	@mkdir -p $(@D)
	$(say) 'CC plain' $<
	$(Q)$(CC) $(CFLAGS_BASE) $(CFLAGS_plain) $(CPPFLAGS_ALL) -c -o $@ $<
$(UNLOCKED_WORKER): $(B)/obj/plain/selftests/kernels-test/unlocked.o \
		$(call objs,plain,$(filter-out %/sandbox_calls.c,$(WORKER_SRCS)))
	@mkdir -p $(@D)
	$(say) LINK $@
	$(Q)$(CC) $(LDFLAGS_plain) -pie -pthread -o $@ $^

# One whose OpenCL device is lost.
ifeq ($(OPENCL_HEADERS),yes)
LOSING_WORKER := $(B)/test/worker-loses
$(call program,$(LOSING_WORKER),plain,selftests/kernels-test/loses.c \
	$(filter-out %/engine_opencl.c,$(WORKER_SRCS)),$(WORKER_LIBS))
endif

STOPPED_WORKER := $(B)/test/worker-stops
$(call program,$(STOPPED_WORKER),plain,selftests/kernels-test/stops.c,)
SLOW_WORKER := $(B)/test/worker-slow
$(call program,$(SLOW_WORKER),plain,selftests/kernels-test/slow.c $(WORKER_SRCS),$(WORKER_LIBS))
TRACED_WORKER := $(B)/test/worker-traced
$(call program,$(TRACED_WORKER),plain,selftests/kernels-test/traced.c,)
LEAVING_WORKER := $(B)/test/worker-leaves
$(call program,$(LEAVING_WORKER),plain,selftests/kernels-test/leaves.c,)

# Plug-ins as they were, and as they must not be; see selftests/old-plugins/README.
OLD_PLUGINS := $(B)/test/plugins/first-today.so \
	       $(foreach n,0 1 2 3 4 5 6 7 8,$(B)/test/plugins/variant$(n).so)
ifeq ($(shell uname -m),x86_64)
OLD_PLUGINS += $(B)/test/plugins/first.so
endif

PLUGIN_CC = $(Q)mkdir -p $(@D); $(CC) $(CFLAGS_BASE) $(CFLAGS_plain) $(CPPFLAGS_ALL) -shared

$(B)/test/plugins/first.so: selftests/old-plugins/x86_64/first.so
	@mkdir -p $(@D)
	$(Q)install -m 644 $< $@
	$(Q)chmod go-w $(@D)

$(B)/test/plugins/first-today.so: selftests/old-plugins/first.c
	$(say) LINK $@
	$(PLUGIN_CC) -o $@ $<
	$(Q)chmod go-w $@ $(@D)

$(B)/test/plugins/variant%.so: selftests/old-plugins/variant.c daemon/backend.h
	$(say) LINK $@
	$(PLUGIN_CC) -DVARIANT=$* -o $@ $<
	$(Q)chmod go-w $@ $(@D)

QUEUED_PLUGIN := $(B)/test/plugins/queued.so
$(QUEUED_PLUGIN): selftests/kernels-test/queued.c daemon/backend.h
	$(say) LINK $@
	$(PLUGIN_CC) -o $@ $< -ldl -pthread
	$(Q)chmod go-w $@ $(@D)

include selftests/unit/be.mk
