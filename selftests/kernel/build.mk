# SPDX-License-Identifier: MIT
#
# Tests of the module, run in guests: static programs that print TAP.

KERNEL_TESTS := smoke fail_nth stress
KERNEL_TEST_BINS := $(patsubst %,$(B)/kselftest/%,$(KERNEL_TESTS) smoke32)

$(patsubst %,$(B)/kselftest/%,$(KERNEL_TESTS)): $(B)/kselftest/%: selftests/kernel/%.c selftests/kernel/common.h \
		uapi/arax.h kmod/core/layout.h
	@mkdir -p $(@D)
	$(CC) $(CFLAGS_BASE) -O2 $(CPPFLAGS_ALL) -static -o $@ $<

# The same structs for a 32-bit program (gcc-multilib).
$(B)/kselftest/smoke32: selftests/kernel/smoke.c selftests/kernel/common.h \
		uapi/arax.h kmod/core/layout.h
	@mkdir -p $(@D)
	$(CC) -m32 $(CFLAGS_BASE) -O2 $(CPPFLAGS_ALL) -D_FILE_OFFSET_BITS=64 -static -o $@ $<

# $(call guest_tests,KERNEL,COMMANDS)
guest_tests = scripts/qemu-run --kernel $(1) --module $(B)/kmod/$(1)/arax.ko \
	$(patsubst %,--file %,$(KERNEL_TEST_BINS) selftests/kernel/params.sh) --tally kernel/$(1) --timeout 600 -- $(2)

test-kernel-6.1 test-kernel-6.12: test-kernel-%: $(B)/kmod/%/arax.ko $(KERNEL_TEST_BINS)
	$(call guest_tests,$*,/root/smoke /root/smoke32 /root/params.sh '/root/stress 10')

test-kernel-debug: $(B)/kmod/debug/arax.ko $(KERNEL_TEST_BINS)
	$(call guest_tests,debug,/root/smoke /root/smoke32 /root/params.sh '@400 /root/fail_nth' '/root/stress 20')

TEST_TARGETS += test-kernel-6.1 test-kernel-6.12 test-kernel-debug
.PHONY: test-kernel-6.1 test-kernel-6.12 test-kernel-debug
