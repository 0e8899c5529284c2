# SPDX-License-Identifier: MIT
#
# Everything is built below build/.  Each folder's build.mk adds what it makes
# to the lists below; this file owns the flags, the recipes and the targets.
#
#   make          what this machine can build
#   make run      set up, build and run the demonstration
#   make check    the fast inner loop: unit tests, without those that take long (110 s of CPU time)
#   make check-all  all unit tests, in each variant, as make test has them
#   make test     everything
#   make bench    the benches, on both links
#   make install  DESTDIR= PREFIX=
#   make uninstall  with the same two: what make install would put there
#   make soak / make fuzz   the long sweeps

MAKEFLAGS += --no-builtin-rules
# Rules stand above it, too.
.DEFAULT_GOAL := all
.DELETE_ON_ERROR:
.SECONDEXPANSION:

VERSION  := $(shell sed -n 's/^ARAX_VERSION := //p' Kbuild)
B        := build

# V=1 shows every command.
ifeq ($(V),1)
Q   :=
say := @:
else
Q   := @
say := @printf '  %-7s %s\n'
endif
PREFIX   ?= /usr/local
DESTDIR  ?=
CC       := gcc
CXX      := g++
CLANG    ?= clang
OBJCOPY  ?= objcopy
# On a bare machine, before setup has brought it, nothing is said of it a dozen times.
PKGCONF  ?= $(or $(shell command -v pkg-config 2>/dev/null),false)

# Where a long has 32 bits files and times have more only if one asks for it.
WIDE         := $(shell $(CC) -dM -E -x c /dev/null 2>/dev/null | grep -q __LP64__ || \
		  echo -D_FILE_OFFSET_BITS=64 -D_TIME_BITS=64)
CPPFLAGS_ALL := -D_GNU_SOURCE $(WIDE) -DARAX_VERSION='"$(VERSION)"' -I. -Iuapi -Ilibarax/include
CFLAGS_WARN  := -Wall -Wextra -Werror -Wmissing-prototypes -Wstrict-prototypes \
		-Wvla -Wno-unused-parameter
CFLAGS_HARD  := -fstack-protector-strong -fstack-clash-protection \
		-fcf-protection -D_FORTIFY_SOURCE=2 -fPIC
LDFLAGS_HARD := -Wl,-z,relro,-z,now,-z,noexecstack,--as-needed
CFLAGS_BASE  := -std=gnu11 -g -pthread $(CFLAGS_WARN)

# For code that moves single tasks.  Structs of some cache lines: string instructions
# take longer to start than to copy those.  And no vectors put together from fields: a
# load of several recent stores at once waits until all have left the store buffer.
comma := ,
small_strategy := vector_loop:512:noalign$(comma)libcall:-1:noalign
small_candidate := -fno-tree-slp-vectorize -mmemset-strategy=$(small_strategy) \
		   -mmemcpy-strategy=$(small_strategy)
CFLAGS_SMALL := $(shell $(CC) $(small_candidate) -Werror -E -x c /dev/null >/dev/null 2>&1 && \
		  echo '$(small_candidate)')

# A variant is a way of compiling the same sources.  For what a sanitizer tells lines are enough,
# and a quarter of the compilation is saved.
CFLAGS_plain  := -O2 $(CFLAGS_HARD)
LDFLAGS_plain := $(LDFLAGS_HARD)
CFLAGS_asan   := -O1 -g1 -fPIC -fno-omit-frame-pointer -fsanitize=address,undefined \
		 -fno-sanitize-recover=undefined
LDFLAGS_asan  := -fsanitize=address,undefined
CFLAGS_tsan   := -O1 -g1 -fPIC -fno-omit-frame-pointer -fsanitize=thread
LDFLAGS_tsan  := -fsanitize=thread
# Clang's own instrumentation; fuzzers look at much of the same.
CC_fuzz       := $(CLANG)
CFLAGS_fuzz   := -O1 -g1 -fsanitize=fuzzer-no-link,address,undefined -fno-sanitize-recover=undefined
LDFLAGS_fuzz  := -fsanitize=fuzzer,address,undefined

# What the build.mk files fill in.
ALL_TARGETS   :=	# built by plain `make`
CHECK_TARGETS :=	# phony targets of unit tests
QUICK_TARGETS :=	# what `make check` runs beside those of them without a sanitizer
TEST_TARGETS  :=	# phony targets that `make test` runs besides, in any order
FIRST_TARGETS :=	# those of them that take longest
TEST_NEEDS    :=	# files that they need, made while unit tests wait for this and that
ALONE_TARGETS :=	# and those that nothing may run beside
BENCH_TARGETS :=
INSTALL_TARGETS :=
FUZZ_TARGETS  :=
SOAK_TARGETS  :=

# $(call objs,VARIANT,SOURCES): the objects of SOURCES in VARIANT
objs = $(patsubst %.c,$(B)/obj/$(1)/%.o,$(2))

# Compile: CFLAGS_<dir> (its own folder's and each parent's) come on top.
define compile_rule
$(B)/obj/$(1)/%.o: %.c
	@mkdir -p $$(@D)
	$(say) 'CC $(1)' $$<
	$(Q)$(or $(CC_$(1)),$$(CC)) $$(CFLAGS_BASE) $$(CFLAGS_$(1)) $$(CPPFLAGS_ALL) $$(CFLAGS_$$(*)) \
		-MMD -MP -c -o $$@ $$<
endef
$(foreach v,plain asan tsan fuzz,$(eval $(call compile_rule,$(v))))
# Unit tests' assertions may stand in hot loops: see there.
UNIT_OBJS := $(foreach v,plain asan tsan,$(call objs,$(v),$(wildcard selftests/unit/*.c)))
$(UNIT_OBJS): selftests/unit/include/check.h
$(UNIT_OBJS): CPPFLAGS_ALL += -Iselftests/unit/include

# $(call program,OUTPUT,VARIANT,SOURCES,LIBS): link a program
define program_rule
$(1): $(call objs,$(2),$(3))
	@mkdir -p $$(@D)
	$(say) LINK $$@
	$(Q)$(or $(CC_$(2)),$$(CC)) $$(LDFLAGS_$(2)) $$(if $$(filter plain,$(2)),-pie) -pthread -o $$@ $$(filter %.o %.a,$$^) $(4)
-include $(patsubst %.o,%.d,$(call objs,$(2),$(3)))
endef
program = $(eval $(call program_rule,$(1),$(2),$(3),$(4)))

all: default
include $(sort $(wildcard */build.mk */*/build.mk))

default: $(ALL_TARGETS)
# The inner loop: what has no sanitizer, and of the rest what finds most in a moment; without the
# cases that libcheck knows as long.  Side by side, each one's output in one piece, and one more
# than there are CPUs, since some wait.
check:
	@$(PKGCONF) --exists check || { echo 'make check: no libcheck: scripts/setup installs what tests need' >&2; exit 1; }
	@CK_EXCLUDE_TAGS=long $(MAKE) --no-print-directory -j$$(($$(nproc) + 1)) \
		--output-sync=target check-quick
check-quick: check-libarax-cli $(filter-out %-asan %-tsan,$(CHECK_TARGETS)) $(QUICK_TARGETS)
check-all: $(CHECK_TARGETS)
# Make begins with what is ready, whatever comes first: so that those begin that take longest, all
# that is to be built has been before, and none depends on "default", which has words to say.
BUILT = $(filter $(B)/%,$(ALL_TARGETS))
test-needs: $$(TEST_NEEDS)
# The rest of it, behind unit tests as "check" runs them.  A guest has one CPU's worth to do for
# most of the time: so as many targets as there are CPUs.  Then daemons whose timing is looked at,
# which have the machine to themselves, whatever -j says.
TEST_LANES ?= $$(( $$(nproc) < 4 ? $$(nproc) : 4 ))
test: setup
	@rc=0; \
	$(MAKE) --no-print-directory -k -j$$(($$(nproc) + 1)) --output-sync=target test-needs default check-all || rc=1; \
	$(MAKE) --no-print-directory -j$(or $(TEST_LANES),1) --output-sync=target test-all || rc=1; \
	$(MAKE) --no-print-directory -j1 test-alone || rc=1; exit $$rc
test-all: $$(BUILT) $$(FIRST_TARGETS) $$(TEST_TARGETS)
test-alone: default $$(ALONE_TARGETS)
# What setup brings decides what is built: so another make looks for it.  And one bench at a time.
bench: setup
	@$(MAKE) --no-print-directory default
	@$(MAKE) --no-print-directory -j1 bench-all
bench-all: default $(BENCH_TARGETS)
install: default $(INSTALL_TARGETS)
# The rules above are the only list of files.  Folders that are Arax's own go with them.
uninstall:
	@dest=$$(cd "$(DESTDIR)/" && pwd) && stage=$$(mktemp -d) && trap 'rm -rf "$$stage"' EXIT && \
	$(MAKE) --no-print-directory -s install DESTDIR="$$stage" PREFIX="$(PREFIX)" \
		WITH_KMOD="$(WITH_KMOD)" >/dev/null && \
	cd "$$stage" && find . ! -type d -printf '%P\0' | (cd "$$dest" && xargs -0 rm -f) && \
	find . -depth -type d -path '*/arax*' -printf '%P\0' | \
		(cd "$$dest" && xargs -0r rmdir --ignore-fail-on-non-empty 2>/dev/null || :)
	@if [ -z "$(DESTDIR)" ] && [ "$$(id -u)" = 0 ]; then ldconfig; fi
fuzz: $(FUZZ_TARGETS)
# The bounded share of `make test`.
test-fuzz:
	@rc=0; for t in $(FUZZ_TARGETS); do \
		scripts/tally run fuzz/$${t#fuzz-} -- \
			$(MAKE) --no-print-directory FUZZ_SECONDS=4 $$t || rc=1; \
	done; exit $$rc
FIRST_TARGETS += test-fuzz
TEST_NEEDS += $(FUZZ_TARGETS:fuzz-%=$(B)/fuzz/%)
soak: $(SOAK_TARGETS)
setup:
	@scripts/setup

clean:
	rm -rf $(B)

.PHONY: all default check check-quick check-all test test-needs test-all test-alone test-fuzz bench \
	bench-all install uninstall fuzz soak setup clean run
