# SPDX-License-Identifier: MIT
# The core as user space compiles it; the module's Kbuild lists the same files.
CORE_SRCS := $(sort $(wildcard kmod/core/*.c))

# Unit tests: all plain and under ASan+UBSan, the concurrent ones under TSan.
CORE_TEST_SRCS := $(sort $(wildcard selftests/unit/core_*.c)) $(CORE_SRCS)
$(foreach v,plain asan tsan,$(call program,$(B)/unit/core-$(v),$(v),$(CORE_TEST_SRCS),\
	$(shell $(PKGCONF) --libs check 2>/dev/null)))

check-core-plain check-core-asan: check-core-%: $(B)/unit/core-%
	scripts/tally run unit/core-$* $<
check-core-tsan: $(B)/unit/core-tsan
	CK_RUN_SUITE="core threads" scripts/tally run unit/core-tsan $<
CHECK_TARGETS += check-core-plain check-core-asan check-core-tsan
.PHONY: check-core-plain check-core-asan check-core-tsan
