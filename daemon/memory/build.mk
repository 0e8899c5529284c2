# SPDX-License-Identifier: MIT
# The memory manager's unit tests.  TSan: copies and bookkeeping are many threads'.
MEMORY_SRCS := $(addprefix daemon/memory/,ahead.c behind.c bits.c extent.c find.c foresee.c hold.c intervals.c lazy.c \
			lost.c memory.c reach.c room.c stage.c treap.c turn.c upcoming.c users.c victim.c) \
	       daemon/complaints.c daemon/log.c daemon/reason.c
MEMORY_TEST_SRCS := $(addprefix selftests/unit/,memory_test.c memory_ahead.c memory_anew.c memory_behind.c memory_coherence.c memory_fake.c \
				    memory_lost.c memory_pieces.c memory_room.c memory_until.c memory_upcoming.c) \
		    $(MEMORY_SRCS) $(sort $(wildcard daemon/graph/*.c))
# Memory that there isn't: see selftests/unit/memory_lost.c.
MEMORY_TEST_FLAGS := $(addprefix -Wl$(comma)--wrap=,calloc realloc)
$(foreach v,plain asan tsan,\
	$(call program,$(B)/tests/memory_test-$(v),$(v),$(MEMORY_TEST_SRCS),$(MEMORY_TEST_FLAGS) $(CHECK_LIBS)))

# Tasks of the coherence test: as many as the variant does in some seconds.
MEMORY_TASKS_plain := 100000
MEMORY_TASKS_asan  := 40000
MEMORY_TASKS_tsan  := 20000
# There is no race in what is done by one thread, and without TSan it takes a tenth of the time.
MEMORY_ENV_tsan := CK_EXCLUDE_TAGS=one-thread

$(addprefix check-memory-,plain asan tsan): check-memory-%: $(B)/tests/memory_test-%
	$(MEMORY_ENV_$*) MEMORY_TASKS=$(MEMORY_TASKS_$*) scripts/tally run unit/memory-$* -- $<
soak-memory: $(B)/tests/memory_test-plain
	MEMORY_TASKS=20000000 CK_DEFAULT_TIMEOUT=7200 scripts/tally run soak/memory -- $<

$(call program,$(B)/bin/memory_micro,plain,selftests/bench/memory_micro.c selftests/bench/micro.c $(MEMORY_SRCS))
bench-memory: $(B)/bin/memory_micro
	@mkdir -p $(B)/bench
	$< --json >$(B)/bench/memory.json
	$<

ALL_TARGETS += $(B)/bin/memory_micro
BENCH_TARGETS += bench-memory
CHECK_TARGETS += $(addprefix check-memory-,plain asan tsan)
SOAK_TARGETS += soak-memory
.PHONY: $(addprefix check-memory-,plain asan tsan) soak-memory bench-memory
