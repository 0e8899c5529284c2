# SPDX-License-Identifier: MIT
GRAPH_SRCS := $(sort $(wildcard daemon/graph/*.c))
# Nearly as in araxd (daemon/build.mk), so that who measures the graph alone measures that one.
$(call objs,plain,$(GRAPH_SRCS)): CFLAGS_plain += -O3 $(CFLAGS_SMALL)
GRAPH_TEST_SRCS := selftests/unit/graph_test.c selftests/unit/graph_model.c \
		   $(GRAPH_SRCS)
CHECK_LIBS := $(shell $(PKGCONF) --libs check 2>/dev/null)

$(call program,$(B)/tests/graph_test,plain,$(GRAPH_TEST_SRCS),$(CHECK_LIBS))
$(call program,$(B)/tests/graph_test-asan,asan,$(GRAPH_TEST_SRCS),$(CHECK_LIBS))

check-graph: $(B)/tests/graph_test
	GRAPH_TEST_SCALE=0.4 scripts/tally run unit/graph -- $(B)/tests/graph_test
check-graph-asan: $(B)/tests/graph_test-asan
	GRAPH_TEST_SCALE=0.1 scripts/tally run unit/graph-asan -- $(B)/tests/graph_test-asan
soak-graph: $(B)/tests/graph_test
	GRAPH_TEST_SCALE=20 scripts/tally run soak/graph -- $(B)/tests/graph_test
$(call program,$(B)/fuzz/graph,fuzz,selftests/fuzz/graph_fuzz.c selftests/unit/graph_model.c $(GRAPH_SRCS))
fuzz-graph: $(B)/fuzz/graph
	@mkdir -p $(B)/fuzz/graph-corpus
	$(B)/fuzz/graph -max_total_time=$(or $(FUZZ_SECONDS),60) -max_len=2048 \
		-artifact_prefix=$(B)/fuzz/ $(B)/fuzz/graph-corpus

CHECK_TARGETS += check-graph check-graph-asan
FUZZ_TARGETS += fuzz-graph
SOAK_TARGETS += soak-graph
.PHONY: check-graph check-graph-asan soak-graph fuzz-graph
