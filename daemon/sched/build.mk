# SPDX-License-Identifier: MIT
SCHED_SRCS := $(sort $(wildcard daemon/sched/*.c))
SCHED_TEST_SRCS := selftests/unit/sched_test.c $(SCHED_SRCS)

$(call program,$(B)/tests/sched_test,plain,$(SCHED_TEST_SRCS),$(CHECK_LIBS))
$(call program,$(B)/tests/sched_test-asan,asan,$(SCHED_TEST_SRCS),$(CHECK_LIBS))

check-sched: $(B)/tests/sched_test $(B)/tests/sched_test-asan
	scripts/tally run unit/sched -- $(B)/tests/sched_test
	scripts/tally run unit/sched-asan -- $(B)/tests/sched_test-asan

CHECK_TARGETS += check-sched
.PHONY: check-sched
