# SPDX-License-Identifier: MIT
#
# The benches: build/bin/arax-bench, its kernels, `make bench`.
#
#   make bench          all over the broker, seven over the module: build/bench/{table.txt,*.json,*.png}
#   make bench-native   on this machine, over the broker
#   make bench-guest    in a guest, over the module
#   make docs-figures   the table of docs/benchmarks.md and docs/plots/*.svg from the last one's build/bench/*.json
#   make bench-smoke    that each bench runs and says what it should; times nothing

BENCH_SRCS := $(sort $(filter-out %_micro.c,$(wildcard selftests/bench/*.c)))
BENCH_LIBS := $(shell $(PKGCONF) --libs jansson) -lm -ldl

# Peers that this machine may have or not.
ifeq ($(shell $(PKGCONF) --exists liburing && echo y),y)
CFLAGS_selftests/bench/calls := -DHAVE_LIBURING $(shell $(PKGCONF) --cflags liburing)
BENCH_LIBS += $(shell $(PKGCONF) --libs liburing)
endif
ifeq ($(shell $(PKGCONF) --exists starpu-1.3 && echo y),y)
CFLAGS_selftests/bench/starpu_peer := -DHAVE_STARPU \
	$(subst -I,-isystem ,$(shell $(PKGCONF) --cflags starpu-1.3))
CFLAGS_selftests/bench/tiles_starpu := $(CFLAGS_selftests/bench/starpu_peer)
BENCH_LIBS += $(shell $(PKGCONF) --libs starpu-1.3)
endif

# OpenCL itself, opened at run time as the backend does.
ifeq ($(OPENCL_HEADERS),yes)
BENCH_SRCS += $(addprefix daemon/backends/opencl/,api.c prelude.c)
$(foreach f,cl_peer rodinia_cl bench_opencl outofcore_cl,\
	$(eval CFLAGS_selftests/bench/$(f) := -DHAVE_OPENCL))
endif

# Likewise CUDA's driver.
ifneq ($(CUDA_HEADERS),)
BENCH_SRCS += daemon/backends/params.c
$(foreach f,bench_cuda cu_peer cu_flow cuda_overlap cuda_six,\
	$(eval CFLAGS_selftests/bench/$(f) := -DHAVE_CUDA $(CUDA_INCLUDE)))
endif

# Schedules by hand are OpenMP's.
BENCH_LIBS += -fopenmp
$(foreach f,flow openmp_peer six_arrays six_layers,$(eval CFLAGS_selftests/bench/$(f) := -fopenmp))
CFLAGS_selftests/bench/tiles_openmp := -fopenmp

# It is in the program.
$(B)/obj/plain/selftests/bench/bench_simscale.o: examples/scenarios/million.json

# The triad's loop is the same code in both: so are its flags, and where it lies.  An instruction of
# it across two cache lines took a third of the rate.
BENCH_LOOP := -O3 -falign-loops=64
CFLAGS_selftests/bench/bench_stream := $(BENCH_LOOP)
CFLAGS_selftests/bench/bench_access := $(BENCH_LOOP)
CFLAGS_selftests/bench/kernels/kernels := $(BENCH_LOOP)

$(call program,$(B)/bin/arax-bench,plain,$(BENCH_SRCS) $(SIM_SRCS) $(RODINIA_SRCS),$(B)/lib/libarax.a $(BENCH_LIBS))
$(B)/bin/arax-bench: $(B)/lib/libarax.a

$(B)/lib/arax/bench-kernels/arax-bench.so: $(call objs,plain,selftests/bench/kernels/kernels.c)
	@mkdir -p $(@D)
	$(say) LINK $@
	$(Q)$(CC) -shared $(LDFLAGS_plain) -o $@ $<
-include $(B)/obj/plain/selftests/bench/kernels/kernels.d

$(B)/lib/arax/bench-kernels/arax-bench.json: selftests/bench/kernels/arax-bench.json
	@mkdir -p $(@D)
	$(Q)install -m 644 $< $@

# Three of arax-std's kernels: a driver compiles them in a second, and all in ten or more.
BENCH_STD_CL := $(addprefix daemon/kernels/std/,vector.cl basic.cl cluster.cl)

$(B)/lib/arax/bench-std/arax-bench-std.cl: $(BENCH_STD_CL)
	@mkdir -p $(@D)
	$(say) CAT $@
	$(Q)for f in $^; do echo "#line 1 \"$${f##*/}\""; cat $$f; done > $@.tmp
	$(Q)chmod 644 $@.tmp && mv $@.tmp $@

$(B)/lib/arax/bench-std/arax-bench-std.json: selftests/bench/kernels/arax-bench-std.json
	@mkdir -p $(@D)
	$(Q)install -m 644 $< $@

BENCH_STD   := $(addprefix $(B)/lib/arax/bench-std/arax-bench-std.,cl json)
BENCH_FILES := $(B)/bin/arax-bench $(B)/lib/arax/bench-kernels/arax-bench.so \
	$(B)/lib/arax/bench-kernels/arax-bench.json $(BENCH_STD)
ALL_TARGETS += $(BENCH_FILES)

# `arax bench` looks for it beside itself, and it for its kernels above itself.
install-bench: $(BENCH_FILES)
	install -d "$(DESTDIR)$(PREFIX)/bin" "$(DESTDIR)$(PREFIX)/lib/arax/bench-kernels" \
		"$(DESTDIR)$(PREFIX)/lib/arax/bench-std" \
		"$(DESTDIR)$(PREFIX)/share/man/man1"
	install -m 755 $(B)/bin/arax-bench "$(DESTDIR)$(PREFIX)/bin/"
	install -m 644 $(filter-out $(BENCH_STD),$(filter %.so %.json,$(BENCH_FILES))) \
		"$(DESTDIR)$(PREFIX)/lib/arax/bench-kernels/"
	install -m 644 $(BENCH_STD) "$(DESTDIR)$(PREFIX)/lib/arax/bench-std/"
	install -m 644 selftests/bench/arax-bench.1 "$(DESTDIR)$(PREFIX)/share/man/man1/"
INSTALL_TARGETS += install-bench
.PHONY: install-bench

BENCH_OUT := $(B)/bench
BENCH_SECONDS ?= 10
BENCH_KERNEL ?= 6.1

bench-native: default
	$(Q)selftests/bench/run.sh measure $(BENCH_OUT) $(BENCH_SECONDS)

# After the native ones: two that measure at once measure each other.
bench-guest: bench-native $(B)/kmod/$(BENCH_KERNEL)/arax.ko
	$(Q)selftests/bench/guest.sh $(BENCH_OUT) $(BENCH_KERNEL) $(BENCH_SECONDS)

bench-report: bench-native bench-guest
	$(Q)selftests/bench/table.py table $(BENCH_OUT)
	$(Q)if command -v gnuplot >/dev/null; then \
		gnuplot -e "dir='$(BENCH_OUT)'" selftests/bench/plot.gp; \
	else echo "no plots: no gnuplot (scripts/setup bench)"; fi

BENCH_TARGETS += bench-native bench-guest bench-report

# By hand: what is in the documentation stays until somebody measures anew, and says where.
docs-figures:
	$(Q)selftests/bench/docs-figures.sh $(BENCH_OUT) docs

bench-smoke: $(BENCH_FILES) $(B)/bin/araxd $(B)/bin/arax
	@scripts/tally run bench/smoke selftests/bench/run.sh smoke
ALONE_TARGETS += bench-smoke

.PHONY: bench-native bench-guest bench-report bench-smoke docs-figures
