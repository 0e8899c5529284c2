# SPDX-License-Identifier: MIT
SCHED_SRCS := $(sort $(wildcard daemon/sched/*.c))
# What keeps files goes with araxd; the rest is plain logic.
SCHED_STORE := daemon/sched/store.c libarax/admin/trusted.c
SCHED_SRCS := $(filter-out daemon/sched/store.c,$(SCHED_SRCS))
SCHED_LIBS := $(CHECK_LIBS) -ljansson -lm
SCHED_EXTRA_sched_model := $(SCHED_STORE)
SCHED_TESTS := sched sched_policy sched_refusal sched_program sched_level sched_list sched_plan sched_spare sched_outlook sched_streams sched_model sched_fair sched_aside sched_astray sched_waits
SCHED_EXTRA_sched_streams := $(GRAPH_SRCS)
SCHED_FLAGS_sched_plan := -Wl,--wrap=calloc,--wrap=realloc

# $(1): test, $(2): variant
define sched_test
$(call program,$(B)/tests/$(1)_test-$(2),$(2),selftests/unit/$(1)_test.c $(SCHED_SRCS) \
	$(SCHED_EXTRA_$(1)),$(SCHED_FLAGS_$(1)) $(SCHED_LIBS))
check-$(1)-$(2): $(B)/tests/$(1)_test-$(2)
	scripts/tally run unit/$(1)-$(2) -- $$<
CHECK_TARGETS += check-$(1)-$(2)
.PHONY: check-$(1)-$(2)
endef
$(foreach t,$(SCHED_TESTS),$(foreach v,plain asan,$(eval $(call sched_test,$(t),$(v)))))
check-sched-all: $(foreach t,$(SCHED_TESTS),$(foreach v,plain asan,check-$(t)-$(v)))
.PHONY: check-sched-all

$(call program,$(B)/bin/sched_micro,plain,selftests/bench/sched_micro.c selftests/bench/micro.c $(SCHED_SRCS),-lm)
bench-sched: $(B)/bin/sched_micro
	@mkdir -p $(B)/bench
	$< --json >$(B)/bench/sched.json
	$<

ALL_TARGETS += $(B)/bin/sched_micro
BENCH_TARGETS += bench-sched
.PHONY: bench-sched

$(call program,$(B)/fuzz/models,fuzz,selftests/fuzz/models_fuzz.c $(SCHED_STORE) daemon/sched/regress.c,\
	-ljansson -lm)
fuzz-models: $(B)/fuzz/models
	@mkdir -p $(B)/fuzz/models-corpus
	$< -max_total_time=$(or $(FUZZ_SECONDS),60) -max_len=4096 -timeout=10 \
		-artifact_prefix=$(B)/fuzz/ $(B)/fuzz/models-corpus selftests/fuzz/corpus/models
FUZZ_TARGETS += fuzz-models
.PHONY: fuzz-models
