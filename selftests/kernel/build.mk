# SPDX-License-Identifier: MIT
#
# Tests of the module, run in guests: static programs that print TAP.
#
#   make test-kernel-6.1 (6.12, debug)   the module's tests in that guest
#   make test-kernel-next                the same with the newest kernel; not part of make test
#   make soak-kernel-6.1 (6.12, debug)   the same with many more rounds
#   make test-sparse                     sparse over the module's sources

KT        := selftests/kernel
KTB       := $(B)/selftests/kernel
KT_SHARED := $(addprefix $(KT)/,ktest.c client.c mediator.c tenant.c) selftests/system/tap.c

# One program per subject; those of one file come with their own frame.
KT_PROGRAMS := calls fields entries memory dmabuf imports faults shuffle rings timeline access quota death trace
KT_SINGLE   := smoke halfway fail_nth stress
# For a module of their own: params.sh runs them between two loads.
KT_BETWEEN  := full limits
# The same structs for a 32-bit program (gcc-multilib), where there is one.
KT_32       := calls fields entries memory shuffle rings timeline access death smoke

# Variants of their own: static, and what a guest's time is too dear for.
CFLAGS_guest    := -O2
CFLAGS_guest32  := -O2 -m32 -D_FILE_OFFSET_BITS=64
LDFLAGS_guest   := -static
LDFLAGS_guest32 := -static -m32
$(foreach v,guest guest32,$(eval $(call compile_rule,$(v))))

# $(call kt_program,OUTPUT,VARIANT,SRCS)
define kt_rule
$(1): $(call objs,$(2),$(3))
	@mkdir -p $$(@D)
	$(say) LINK $$@
	$(Q)$$(CC) $$(LDFLAGS_$(2)) -pthread -o $$@ $$^
-include $(patsubst %.o,%.d,$(call objs,$(2),$(3)))
endef
kt_program = $(eval $(call kt_rule,$(1),$(2),$(3)))

kt_srcs = $(KT)/$(1).c $(if $(filter $(1),$(KT_SINGLE)),,$(KT_SHARED))
$(foreach p,$(KT_PROGRAMS) $(KT_SINGLE) $(KT_BETWEEN),$(call kt_program,$(KTB)/$(p),guest,$(call kt_srcs,$(p))))
$(foreach p,$(KT_32),$(call kt_program,$(KTB)/$(p)32,guest32,$(call kt_srcs,$(p))))

HAVE_M32 := $(shell echo 'int main(void){return 0;}' | \
	$(CC) -m32 -static -xc -o /dev/null - 2>/dev/null && echo 1)

KT_BINS := $(patsubst %,$(KTB)/%,$(KT_PROGRAMS) $(KT_SINGLE) $(KT_BETWEEN) $(if $(HAVE_M32),$(KT_32:=32)))
KT_FILES := $(KT_BINS) $(addprefix $(KT)/,params.sh load.sh unload.sh)

kernel-tests: $(KT_BINS)

# All subjects with the module's defaults; the rings again with hardly any room,
# then what 32-bit programs see.
KT_MODULES  := arax.ko borrower/borrower.ko namesake/namesake.ko
KT_COMMANDS := $(patsubst %,/root/%,$(KT_PROGRAMS) smoke) /root/params.sh /root/halfway
KT_SMALL    := '/root/unload.sh && insmod /lib/arax/arax.ko cells=256 slots=40' \
	       /root/rings /root/death
kt_32 = $(if $(HAVE_M32),$(patsubst %,/root/%32,$(1)),\
	'echo "1..0 \# SKIP no 32-bit libc to build with (gcc-multilib)"')
# The debug kernel has no 32-bit times, and so no threads and no sleep for these.
KT_32_UNTIMED := calls fields entries access smoke
KT_LOADS     = '/root/load.sh $(1) /root/calls bad_addresses_are_EFAULT'

# $(call kt_guest,KERNEL,TALLY,SECONDS,COMMANDS).  kmemleak's scans take the longer the more memory there is.
# Devices' memory is bounced, by way of 4 MiB: see dmabuf.c.
kt_guest = scripts/qemu-run --kernel $(1) $(if $(filter debug,$(1)),--mem 768M) --append swiotlb=2048,force \
	$(patsubst %,--module $(B)/kmod/$(1)/%,$(KT_MODULES)) \
	$(patsubst %,--file %,$(KT_FILES)) --tally kernel/$(2) --timeout $(3) --each $(3) -- $(4)

test-kernel-6.1 test-kernel-6.12 test-kernel-next: test-kernel-%: $(addprefix $(B)/kmod/%/,$(KT_MODULES)) $(KT_BINS)
	@$(call kt_guest,$*,$*,1200,$(KT_COMMANDS) $(call kt_32,$(KT_32)) '/root/stress 10' \
		$(KT_SMALL) $(call KT_LOADS,100))

# A load takes it ten times as long as the others, which have a hundred.
test-kernel-debug: $(addprefix $(B)/kmod/debug/,$(KT_MODULES)) $(KT_BINS)
	@$(call kt_guest,debug,debug,2400,$(KT_COMMANDS) $(call kt_32,$(KT_32_UNTIMED)) /root/fail_nth \
		'/root/stress 20' $(KT_SMALL) $(call KT_LOADS,30))

# So many times the rounds, and more time for each test.
SOAK_ROUNDS ?= 20
KT_LONG := $(patsubst %,'TAP_SECONDS=1800 KTEST_SOAK=$(SOAK_ROUNDS) /root/%',entries memory shuffle rings quota death)

soak-kernel-6.1 soak-kernel-6.12: soak-kernel-%: $(addprefix $(B)/kmod/%/,$(KT_MODULES)) $(KT_BINS)
	@$(call kt_guest,$*,$*-soak,3600,$(KT_LONG) '/root/stress 600' $(call KT_LOADS,1000))

soak-kernel-debug: $(addprefix $(B)/kmod/debug/,$(KT_MODULES)) $(KT_BINS)
	@$(call kt_guest,debug,debug-soak,7200,$(KT_LONG) '/root/stress 900' $(call KT_LOADS,100))

test-sparse: $(B)/kernels/6.12/stamp
	@if command -v sparse >/dev/null; then \
		scripts/tally run style/sparse \
			sh -ec 'scripts/kmod-build --sparse $(B)/kernels/6.12/build $(B)/kmod/sparse; \
				for module in borrower namesake; do \
					scripts/kmod-build --sparse --of selftests/qemu/$$module \
						$(B)/kernels/6.12/build $(B)/kmod/sparse/$$module; \
				done'; \
	else \
		scripts/tally add style/sparse 0 0 1 'no sparse (apt install sparse)'; \
	fi

FIRST_TARGETS += test-kernel-debug test-kernel-6.12 test-kernel-6.1
TEST_TARGETS += test-sparse
TEST_NEEDS += $(foreach k,debug 6.1 6.12,$(addprefix $(B)/kmod/$(k)/,$(KT_MODULES))) $(KT_BINS)
SOAK_TARGETS += soak-kernel-6.1 soak-kernel-6.12 soak-kernel-debug test-kernel-next
.PHONY: kernel-tests test-kernel-6.1 test-kernel-6.12 test-kernel-debug test-kernel-next test-sparse \
	soak-kernel-6.1 soak-kernel-6.12 soak-kernel-debug
