# SPDX-License-Identifier: MIT
SCHED_SRCS := $(sort $(wildcard daemon/sched/*.c))
SCHED_LIBS := $(CHECK_LIBS) -lm
SCHED_TESTS := sched sched_policy sched_streams sched_model sched_fair
SCHED_EXTRA_sched_streams := $(GRAPH_SRCS)

# $(1): test, $(2): variant
define sched_test
$(call program,$(B)/tests/$(1)_test-$(2),$(2),selftests/unit/$(1)_test.c $(SCHED_SRCS) \
	$(SCHED_EXTRA_$(1)),$(SCHED_LIBS))
check-$(1)-$(2): $(B)/tests/$(1)_test-$(2)
	scripts/tally run unit/$(1)-$(2) -- $$<
CHECK_TARGETS += check-$(1)-$(2)
.PHONY: check-$(1)-$(2)
endef
$(foreach t,$(SCHED_TESTS),$(foreach v,plain asan,$(eval $(call sched_test,$(t),$(v)))))
check-sched-all: $(foreach t,$(SCHED_TESTS),$(foreach v,plain asan,check-$(t)-$(v)))
.PHONY: check-sched-all

$(call program,$(B)/bin/sched_micro,plain,selftests/bench/sched_micro.c $(SCHED_SRCS),-lm)
bench-sched: $(B)/bin/sched_micro
	@mkdir -p $(B)/bench
	$< --json >$(B)/bench/sched.json
	$<

ALL_TARGETS += $(B)/bin/sched_micro
BENCH_TARGETS += bench-sched
.PHONY: bench-sched
