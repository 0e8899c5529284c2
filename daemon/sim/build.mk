# SPDX-License-Identifier: MIT
# The simulation: the daemon's own graph and scheduler in virtual time.

SIM_SRCS := $(filter-out daemon/sim/main.c,$(sort $(wildcard daemon/sim/*.c))) \
	    $(sort $(wildcard daemon/graph/*.c)) $(SCHED_SRCS) \
	    $(addprefix daemon/memory/,treap.c upcoming.c) libarax/admin/mute.c
SIM_LIBS := $(shell $(PKGCONF) --libs jansson) -lm

$(call program,$(B)/bin/arax-sim,lto,daemon/sim/main.c $(SIM_SRCS),$(SIM_LIBS))
ALL_TARGETS += $(B)/bin/arax-sim

# `arax sim` looks for it beside itself.
install-sim: $(B)/bin/arax-sim
	install -d "$(DESTDIR)$(PREFIX)/bin"
	install -m 755 $< "$(DESTDIR)$(PREFIX)/bin/"
INSTALL_TARGETS += install-sim
.PHONY: install-sim

SIM_TEST_LIBS := $(SIM_LIBS) $(shell $(PKGCONF) --libs check 2>/dev/null)
# $(1): test, $(2): variant
define sim_test
$(call program,$(B)/tests/$(1)_test-$(2),$(2),selftests/unit/$(1)_test.c $(SIM_SRCS),$(SIM_TEST_LIBS))
check-$(1)-$(2): $(B)/tests/$(1)_test-$(2)
	scripts/tally run unit/$(1)-$(2) -- $$<
CHECK_TARGETS += check-$(1)-$(2)
.PHONY: check-$(1)-$(2)
endef
$(foreach t,sim sim_area sim_beside sim_bound sim_quota sim_replay sim_report,$(foreach v,plain asan,$(eval $(call sim_test,$(t),$(v)))))

# As many tasks as a fuzzer has time for.
$(call program,$(B)/fuzz/scenario,fuzz,selftests/fuzz/scenario_fuzz.c $(SIM_SRCS),$(SIM_LIBS))
$(B)/obj/fuzz/selftests/fuzz/scenario_fuzz.o: CPPFLAGS_ALL += -DSIM_MAX_TASKS=2000
$(B)/obj/fuzz/daemon/sim/%.o: CPPFLAGS_ALL += -DSIM_MAX_TASKS=2000
fuzz-scenario: $(B)/fuzz/scenario
	@mkdir -p $(B)/fuzz/scenario-corpus
	$< -max_total_time=$(or $(FUZZ_SECONDS),60) -max_len=4096 -timeout=20 \
		-artifact_prefix=$(B)/fuzz/ $(B)/fuzz/scenario-corpus selftests/fuzz/corpus/scenario
FUZZ_TARGETS += fuzz-scenario
.PHONY: fuzz-scenario
