# SPDX-License-Identifier: GPL-2.0 OR MIT
# The core as user space compiles it; the module's Kbuild lists the same files.
CORE_SRCS := $(sort $(wildcard kmod/core/*.c))

# Unit tests: all plain and under ASan+UBSan, the concurrent ones under TSan.
CORE_TEST_SRCS := $(filter-out %/core_layout.c,$(sort $(wildcard selftests/unit/core_*.c))) \
		  $(CORE_SRCS)
$(foreach v,plain asan tsan,$(call program,$(B)/unit/core-$(v),$(v),$(CORE_TEST_SRCS),\
	$(shell $(PKGCONF) --libs check 2>/dev/null) -Xlinker --wrap=aligned_alloc -Xlinker --wrap=core_lock_wake))

check-core-plain check-core-asan: check-core-%: $(B)/unit/core-%
	scripts/tally run unit/core-$* $<
check-core-tsan: $(B)/unit/core-tsan
	CK_RUN_SUITE="core threads" scripts/tally run unit/core-tsan $<

# The contract at 64 and, where the compiler can, 32 bits, as C and as C++.
CORE_LAYOUT := -Wall -Wextra -Wpedantic -Werror -I. -fsyntax-only selftests/unit/core_layout.c
check-core-layout: selftests/unit/core_layout.c
	$(CC) -m64 -std=c11 $(CORE_LAYOUT)
	$(CC) -m64 -std=c++17 -x c++ $(CORE_LAYOUT)
	@if echo '#include <stdlib.h>' | $(CC) -m32 -fsyntax-only -x c - 2>/dev/null; then \
		set -ex; \
		$(CC) -m32 -std=c11 $(CORE_LAYOUT); \
		$(CC) -m32 -std=c++17 -x c++ $(CORE_LAYOUT); \
		scripts/tally add unit/core-layout 4 0 0; \
	else \
		scripts/tally add unit/core-layout 2 0 2 "no 32-bit headers: install gcc-multilib"; \
	fi

CHECK_TARGETS += check-core-plain check-core-asan check-core-tsan check-core-layout
QUICK_TARGETS += check-core-asan
.PHONY: check-core-plain check-core-asan check-core-tsan check-core-layout

# Fuzzers, by clang's own instrumentation: a share of some seconds each in
# `make test`, FUZZ_SECONDS in `make fuzz`.
CORE_FUZZERS := core_calls core_ring
$(foreach f,$(CORE_FUZZERS),$(call program,$(B)/fuzz/$(f),fuzz,selftests/fuzz/$(f).c \
	selftests/unit/core_fixture.c $(CORE_SRCS),))

# The seeds are read, what is found goes to build/.
core_fuzz = mkdir -p $(B)/fuzz/$(1)-corpus && $(B)/fuzz/$(1) -max_total_time=$(2) -max_len=2048 \
	-artifact_prefix=$(B)/fuzz/ $(B)/fuzz/$(1)-corpus selftests/fuzz/corpus/$(1) \
	>$(B)/fuzz/$(1).log 2>&1 || { tail -40 $(B)/fuzz/$(1).log; exit 1; }
$(addprefix fuzz-,$(CORE_FUZZERS)): fuzz-%: $(B)/fuzz/%
	$(call core_fuzz,$*,$(or $(FUZZ_SECONDS),60))
FUZZ_TARGETS += $(addprefix fuzz-,$(CORE_FUZZERS))
.PHONY: $(addprefix fuzz-,$(CORE_FUZZERS))

# What a task costs in the core alone.
$(call program,$(B)/bin/core_micro,plain,selftests/bench/core_micro.c selftests/unit/core_fixture.c \
	$(CORE_SRCS),)
bench-core: $(B)/bin/core_micro
	@mkdir -p $(B)/bench
	$< --json >$(B)/bench/core.json
	$<
BENCH_TARGETS += bench-core
.PHONY: bench-core
