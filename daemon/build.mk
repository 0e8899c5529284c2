# SPDX-License-Identifier: MIT
# araxd.

# Runners, and araxd's end of workers.
RUNNER_SRCS := $(addprefix daemon/worker/,await.c cgroup.c idmap.c lane.c mounts.c pool.c runner.c spawn.c turn.c worker.c) daemon/child.c daemon/crowd.c

ARAXD_LIB_SRCS := daemon/cgroups.c daemon/complaints.c daemon/log.c daemon/reason.c daemon/config.c daemon/options.c \
		  $(sort $(wildcard daemon/dispatch/*.c daemon/graph/*.c daemon/link/*.c \
				    daemon/memory/*.c daemon/observe/*.c daemon/sched/*.c \
				    daemon/tenants/*.c libarax/admin/*.c kmod/core/*.c)) \
		  $(BACKENDS_SRCS) \
		  $(addprefix daemon/kernels/,manifest.c module.c overlap.c registry.c signature.c steps.c work.c) \
		  $(RUNNER_SRCS)
ARAXD_SRCS := daemon/main.c $(ARAXD_LIB_SRCS)
ARAXD_LIBS := -lconfuse -ljansson -ldl -lm

# A task's way crosses the core, the graph, the scheduler and the poller: seen
# as one program it costs a tenth less.  More of it in a piece: the calls that are left
# are a few, but each saves and restores what its caller needs.
INLINE_lto  := --param max-inline-insns-auto=80 --param large-function-insns=6000 \
	       --param inline-unit-growth=60
CFLAGS_lto  := -O3 $(CFLAGS_SMALL) $(INLINE_lto) -flto -fvisibility=hidden $(filter-out -fPIC,$(CFLAGS_HARD)) -fPIE
LDFLAGS_lto := $(LDFLAGS_plain) $(CFLAGS_lto) -flto=2 -pie
$(eval $(call compile_rule,lto))
$(call program,$(B)/bin/araxd,lto,$(ARAXD_SRCS),$(ARAXD_LIBS))
$(call program,$(B)/asan/araxd,asan,$(ARAXD_SRCS),$(ARAXD_LIBS))
$(call program,$(B)/tsan/araxd,tsan,$(ARAXD_SRCS),$(ARAXD_LIBS))

ALL_TARGETS += $(B)/bin/araxd

# Unit tests: with the sanitizers, since most of this is threads and memory.
DAEMON_TEST_LIBS := $(ARAXD_LIBS) $(shell $(PKGCONF) --libs check 2>/dev/null)
DAEMON_BROKER_SRCS := selftests/unit/daemon_broker.c selftests/unit/daemon_client.c \
		      $(ARAXD_LIB_SRCS)
DAEMON_BROKER_FLAGS := $(addprefix -Wl$(comma)--wrap=,holder_give sched_tenant_set clock_gettime core_wait_poll sendmsg accept4 getsockopt \
					pthread_create pthread_attr_setaffinity_np sched_getaffinity \
					runner_stop runner_destroy)
DAEMON_PARTS_SRCS  := selftests/unit/daemon_parts.c $(ARAXD_LIB_SRCS)
DAEMON_PARTS_FLAGS := $(addprefix -Wl$(comma)--wrap=,mmap getsockopt)
DAEMON_VISIT_SRCS  := selftests/unit/daemon_visit.c selftests/unit/daemon_client.c \
		      $(ARAXD_LIB_SRCS)
DAEMON_DATA_SRCS   := selftests/unit/daemon_data.c selftests/unit/memory_fake.c $(ARAXD_LIB_SRCS)
DAEMON_DATA_FLAGS  := $(addprefix -Wl$(comma)--wrap=,host_thread_push poller_post run_refuse graph_start clock_gettime time)
DAEMON_LONE_SRCS   := selftests/unit/daemon_lone.c selftests/unit/daemon_client.c \
		      $(ARAXD_LIB_SRCS)
DAEMON_FIGURES_SRCS := selftests/unit/daemon_figures.c selftests/unit/daemon_client.c \
		       $(ARAXD_LIB_SRCS)
DAEMON_FIGURES_FLAGS := $(addprefix -Wl$(comma)--wrap=,device_has_gauges device_gauges runner_go_on)
DAEMON_QUOTA_SRCS  := selftests/unit/daemon_quota.c selftests/unit/daemon_client.c \
		      $(ARAXD_LIB_SRCS)
DAEMON_QUOTA_FLAGS := $(addprefix -Wl$(comma)--wrap=,runner_configuration runner_configure why_tell device_copy_out \
					device_depth device_submit)
DAEMON_CANCEL_SRCS := selftests/unit/daemon_cancel.c selftests/unit/daemon_client.c \
		      $(ARAXD_LIB_SRCS)
DAEMON_CANCEL_FLAGS := $(addprefix -Wl$(comma)--wrap=,memory_lose memory_stop graph_at runner_can_foreign \
					trace_task device_can_reset device_reset devices_open pthread_create)
DAEMON_AHEAD_SRCS  := selftests/unit/daemon_ahead.c selftests/unit/daemon_client.c \
		      $(ARAXD_LIB_SRCS)
DAEMON_AHEAD_FLAGS := $(addprefix -Wl$(comma)--wrap=,device_copy_out memory_lose sched_next)
DAEMON_FETCH_SRCS  := selftests/unit/daemon_fetch.c selftests/unit/daemon_client.c \
		      $(ARAXD_LIB_SRCS)
DAEMON_FETCH_FLAGS := $(addprefix -Wl$(comma)--wrap=,device_copy_out host_run device_can_reset device_reset memory_flush \
					fetch_look run_refuse)
DAEMON_MIX_SRCS    := selftests/unit/daemon_mix.c selftests/unit/daemon_client.c \
		      $(ARAXD_LIB_SRCS)
DAEMON_MIX_FLAGS   := $(addprefix -Wl$(comma)--wrap=device_,depth submit wait copy_in copy_out alloc alloc_on free kernel_load \
					is_configured configuration switch_ns configure refresh can_reset reset)
DAEMON_TESTS := $(foreach v,plain asan tsan,parts-$(v) broker-$(v) visit-$(v) lone-$(v) quota-$(v) ahead-$(v) cancel-$(v) fetch-$(v) \
					mix-$(v) figures-$(v)) \
		data-plain data-asan
$(foreach v,plain asan,\
	$(call program,$(B)/unit/daemon-data-$(v),$(v),$(DAEMON_DATA_SRCS),$(DAEMON_DATA_FLAGS) $(DAEMON_TEST_LIBS)))
$(foreach v,plain asan tsan,\
	$(call program,$(B)/unit/daemon-broker-$(v),$(v),$(DAEMON_BROKER_SRCS),$(DAEMON_BROKER_FLAGS) $(DAEMON_TEST_LIBS)) \
	$(call program,$(B)/unit/daemon-parts-$(v),$(v),$(DAEMON_PARTS_SRCS),$(DAEMON_PARTS_FLAGS) $(DAEMON_TEST_LIBS)) \
	$(call program,$(B)/unit/daemon-lone-$(v),$(v),$(DAEMON_LONE_SRCS),$(DAEMON_TEST_LIBS)) \
	$(call program,$(B)/unit/daemon-cancel-$(v),$(v),$(DAEMON_CANCEL_SRCS),$(DAEMON_CANCEL_FLAGS) $(DAEMON_TEST_LIBS)) \
	$(call program,$(B)/unit/daemon-fetch-$(v),$(v),$(DAEMON_FETCH_SRCS),$(DAEMON_FETCH_FLAGS) $(DAEMON_TEST_LIBS)) \
	$(call program,$(B)/unit/daemon-ahead-$(v),$(v),$(DAEMON_AHEAD_SRCS),$(DAEMON_AHEAD_FLAGS) $(DAEMON_TEST_LIBS)) \
	$(call program,$(B)/unit/daemon-mix-$(v),$(v),$(DAEMON_MIX_SRCS),$(DAEMON_MIX_FLAGS) $(DAEMON_TEST_LIBS)) \
	$(call program,$(B)/unit/daemon-quota-$(v),$(v),$(DAEMON_QUOTA_SRCS),$(DAEMON_QUOTA_FLAGS) $(DAEMON_TEST_LIBS)) \
	$(call program,$(B)/unit/daemon-visit-$(v),$(v),$(DAEMON_VISIT_SRCS),$(DAEMON_TEST_LIBS)))

$(foreach v,plain asan tsan,\
	$(call program,$(B)/unit/daemon-figures-$(v),$(v),$(DAEMON_FIGURES_SRCS),$(DAEMON_FIGURES_FLAGS) $(DAEMON_TEST_LIBS)))

$(addprefix check-daemon-,$(DAEMON_TESTS)): check-daemon-%: $(B)/unit/daemon-% $$(STD_KERNEL) $$(QUEUED_PLUGIN)
	scripts/tally run unit/daemon-$* $<
CHECK_TARGETS += $(addprefix check-daemon-,$(DAEMON_TESTS))
QUICK_TARGETS += check-daemon-data-asan check-daemon-rest-asan check-daemon-unwritten-asan
.PHONY: $(addprefix check-daemon-,$(DAEMON_TESTS))

$(foreach v,plain asan tsan,$(call program,$(B)/unit/gate-$(v),$(v),selftests/unit/gate_test.c \
	daemon/dispatch/gate.c,$(shell $(PKGCONF) --libs check 2>/dev/null)))
$(addprefix check-gate-,plain asan tsan): check-gate-%: $(B)/unit/gate-%
	scripts/tally run unit/gate-$* $<
CHECK_TARGETS += $(addprefix check-gate-,plain asan tsan)
.PHONY: $(addprefix check-gate-,plain asan tsan)

$(foreach v,plain asan,$(call program,$(B)/unit/quota-$(v),$(v),selftests/unit/quota_test.c \
	daemon/dispatch/quota.c,$(shell $(PKGCONF) --libs check 2>/dev/null)))
$(addprefix check-quota-,plain asan): check-quota-%: $(B)/unit/quota-%
	scripts/tally run unit/quota-$* $<
CHECK_TARGETS += $(addprefix check-quota-,plain asan)
.PHONY: $(addprefix check-quota-,plain asan)

$(foreach v,plain asan,$(call program,$(B)/unit/daemon-rest-$(v),$(v),selftests/unit/daemon_rest.c \
	daemon/dispatch/rest.c daemon/dispatch/ticks.c,$(shell $(PKGCONF) --libs check 2>/dev/null)))
check-daemon-rest-plain check-daemon-rest-asan: check-%: $(B)/unit/%
	scripts/tally run unit/$* $<
CHECK_TARGETS += check-daemon-rest-plain check-daemon-rest-asan
.PHONY: check-daemon-rest-plain check-daemon-rest-asan

$(foreach v,plain asan,$(call program,$(B)/unit/daemon-unwritten-$(v),$(v),\
	selftests/unit/daemon_unwritten.c $(addprefix daemon/,dispatch/declared.c dispatch/unwritten.c complaints.c log.c),\
	-Wl$(comma)--wrap=malloc $(shell $(PKGCONF) --libs check 2>/dev/null)))
check-daemon-unwritten-plain check-daemon-unwritten-asan: check-%: $(B)/unit/%
	scripts/tally run unit/$* $<
CHECK_TARGETS += check-daemon-unwritten-plain check-daemon-unwritten-asan
.PHONY: check-daemon-unwritten-plain check-daemon-unwritten-asan

$(foreach v,plain asan,$(call program,$(B)/unit/daemon-filemap-$(v),$(v),selftests/unit/daemon_filemap.c \
	daemon/link/filemap.c,-Wl$(comma)--wrap=munmap $(shell $(PKGCONF) --libs check 2>/dev/null)))
check-daemon-filemap-plain check-daemon-filemap-asan: check-%: $(B)/unit/%
	scripts/tally run unit/$* $<
CHECK_TARGETS += check-daemon-filemap-plain check-daemon-filemap-asan
.PHONY: check-daemon-filemap-plain check-daemon-filemap-asan

$(foreach v,plain asan,$(call program,$(B)/unit/daemon-child-$(v),$(v),selftests/unit/daemon_child.c \
	daemon/child.c,$(shell $(PKGCONF) --libs check 2>/dev/null)))
check-daemon-child-plain check-daemon-child-asan: check-%: $(B)/unit/%
	scripts/tally run unit/$* $<
CHECK_TARGETS += check-daemon-child-plain check-daemon-child-asan
.PHONY: check-daemon-child-plain check-daemon-child-asan

# All interleavings of the poller's sleep, and many of its threads.
soak-model:
	scripts/tally run model/door selftests/model/run.sh
soak-visit: $(foreach v,plain tsan,$(B)/unit/daemon-visit-$(v)) $$(STD_KERNEL)
	for i in $$(seq $(or $(SOAK_ROUNDS),30)); do \
		$(B)/unit/daemon-visit-plain && $(B)/unit/daemon-visit-tsan || exit 1; done
SOAK_TARGETS += soak-model soak-visit
.PHONY: soak-model soak-visit

$(call program,$(B)/fuzz/socket,fuzz,selftests/fuzz/socket_fuzz.c $(ARAXD_LIB_SRCS),$(ARAXD_LIBS))
$(call program,$(B)/fuzz/ring,fuzz,selftests/fuzz/ring_fuzz.c $(sort $(wildcard daemon/graph/*.c kmod/core/*.c)))
fuzz-socket fuzz-ring: fuzz-%: $(B)/fuzz/%
	@mkdir -p $(B)/fuzz/$*-corpus
	$< -detect_leaks=$(if $(filter ring,$*),1,0) -max_total_time=$(or $(FUZZ_SECONDS),60) \
		-max_len=2048 -artifact_prefix=$(B)/fuzz/ \
		$(B)/fuzz/$*-corpus selftests/fuzz/corpus/$*
FUZZ_TARGETS += fuzz-socket fuzz-ring
.PHONY: fuzz-socket fuzz-ring

SYSTEMD_DIR  ?= $(PREFIX)/lib/systemd/system
install-araxd: $(B)/bin/araxd
	install -d "$(DESTDIR)$(PREFIX)/bin" "$(DESTDIR)$(SYSTEMD_DIR)"
	install -m 755 $(B)/bin/araxd "$(DESTDIR)$(PREFIX)/bin/"
	sed -e 's|@PREFIX@|$(PREFIX)|' daemon/systemd/araxd.service.in \
		> "$(DESTDIR)$(SYSTEMD_DIR)/araxd.service"
	chmod 644 "$(DESTDIR)$(SYSTEMD_DIR)/araxd.service"
INSTALL_TARGETS += install-araxd
.PHONY: install-araxd

FAKE_MODULE := $(B)/test/fake_module.so
$(FAKE_MODULE): selftests/unit/fake_module.c
	@mkdir -p $(@D)
	$(say) LINK $@
	$(Q)$(CC) $(CFLAGS_BASE) $(CFLAGS_plain) $(CPPFLAGS_ALL) -fPIC -shared $(LDFLAGS_plain) -o $@ $< -ldl
check-daemon-main: $(B)/bin/araxd $(FAKE_MODULE)
	scripts/tally run unit/daemon-main selftests/unit/daemon_main.sh $^
CHECK_TARGETS += check-daemon-main
.PHONY: check-daemon-main
