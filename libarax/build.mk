# SPDX-License-Identifier: MIT
# The client library: shared, static and its pkg-config file.

LIBARAX_SRC := $(addprefix libarax/,access.c awake.c buffer.c complete.c context.c error.c ffi.c \
	link.c link_broker.c link_kernel.c lock.c module.c query.c queue.c quota.c refusal.c \
	ring.c submit.c timeline.c wait.c)
LIBARAX_SO  := $(B)/lib/libarax.so.$(VERSION)
LIBARAX_A   := $(B)/lib/libarax.a
$(foreach f,submit complete wait,$(eval CFLAGS_libarax/$(f) := $(CFLAGS_SMALL)))

$(LIBARAX_SO): $(call objs,plain,$(LIBARAX_SRC) libarax/compat.c) libarax/libarax.map
	@mkdir -p $(@D)
	$(say) LINK $@
	$(Q)$(CC) -shared $(LDFLAGS_plain) -Wl,-z,defs -Wl,-Bsymbolic-functions -Wl,-soname,libarax.so.0 \
		-Wl,--version-script=libarax/libarax.map -pthread -o $@ $(filter %.o,$^)
	$(Q)ln -sf $(@F) $(@D)/libarax.so.0
	$(Q)ln -sf libarax.so.0 $(@D)/libarax.so
-include $(patsubst %.o,%.d,$(call objs,plain,$(LIBARAX_SRC) libarax/compat.c))

# One object, in which what the map does not export is nobody else's: a program may have its own
# functions of these names.
$(LIBARAX_A): $(call objs,plain,$(LIBARAX_SRC)) libarax/libarax.map
	@mkdir -p $(@D)
	$(say) AR $@
	$(Q)rm -f $@
	$(Q)sed -n 's/^\t\(arax_[a-z0-9_]*\);$$/\1/p' libarax/libarax.map | sort -u >$(@D)/libarax.globals
	$(Q)$(CC) -r -nostdlib -o $(@D)/libarax.o $(filter %.o,$^)
	$(Q)$(OBJCOPY) --keep-global-symbols=$(@D)/libarax.globals $(@D)/libarax.o
	$(Q)$(AR) rcs $@ $(@D)/libarax.o
	$(Q)rm -f $(@D)/libarax.o $(@D)/libarax.globals

ALL_TARGETS += $(LIBARAX_SO) $(LIBARAX_A)

install-libarax: $(LIBARAX_SO) $(LIBARAX_A)
	install -d "$(DESTDIR)$(PREFIX)/lib/pkgconfig" "$(DESTDIR)$(PREFIX)/include/arax"
	install -m 755 $(LIBARAX_SO) "$(DESTDIR)$(PREFIX)/lib/"
	ln -sf libarax.so.$(VERSION) "$(DESTDIR)$(PREFIX)/lib/libarax.so.0"
	ln -sf libarax.so.0 "$(DESTDIR)$(PREFIX)/lib/libarax.so"
	install -m 644 $(LIBARAX_A) "$(DESTDIR)$(PREFIX)/lib/"
	sed -e 's|@PREFIX@|$(PREFIX)|' -e 's|@VERSION@|$(VERSION)|' libarax/arax.pc.in \
		> "$(DESTDIR)$(PREFIX)/lib/pkgconfig/arax.pc"
	chmod 644 "$(DESTDIR)$(PREFIX)/lib/pkgconfig/arax.pc"
	install -m 644 libarax/include/arax/arax.h libarax/include/arax/arax.hpp \
		"$(DESTDIR)$(PREFIX)/include/arax/"
	install -m 644 uapi/arax.h "$(DESTDIR)$(PREFIX)/include/arax/uapi.h"
	@# The loader finds it by its cache only; in a package that is its trigger's work.
	if [ -z "$(DESTDIR)" ] && [ "$$(id -u)" = 0 ]; then ldconfig; fi
INSTALL_TARGETS += install-libarax
.PHONY: install-libarax

# Unit tests: pure ring logic, and the flow against a consumer thread.
LIBARAX_TESTS := ring-asan flow-plain flow-asan flow-tsan broker-plain broker-asan tenant-asan
$(call program,$(B)/unit/libarax-ring-asan,asan,selftests/unit/libarax_ring.c libarax/ring.c,\
	$(shell $(PKGCONF) --libs check 2>/dev/null))
$(foreach v,plain asan tsan,$(call program,$(B)/unit/libarax-flow-$(v),$(v),\
	selftests/unit/libarax_flow.c $(LIBARAX_SRC),$(shell $(PKGCONF) --libs check 2>/dev/null)))
$(foreach v,plain asan,$(call program,$(B)/unit/libarax-broker-$(v),$(v),\
	selftests/unit/libarax_broker.c daemon/link/barred.c $(LIBARAX_SRC),$(shell $(PKGCONF) --libs check 2>/dev/null)))

$(addprefix check-libarax-,$(LIBARAX_TESTS)): check-libarax-%: $(B)/unit/libarax-%
	scripts/tally run unit/libarax-$* $<
CHECK_TARGETS += $(addprefix check-libarax-,$(LIBARAX_TESTS))
QUICK_TARGETS += check-libarax-ring-asan check-libarax-broker-asan check-libarax-tenant-asan
.PHONY: $(addprefix check-libarax-,$(LIBARAX_TESTS))

# The command, and what it shares with araxd.
ADMIN_SRCS   := $(sort $(wildcard libarax/admin/*.c))
ARAX_CLI_SRC := $(sort $(wildcard libarax/cli/*.c)) $(ADMIN_SRCS)
$(call program,$(B)/bin/arax,plain,$(ARAX_CLI_SRC) $(LIBARAX_SRC),\
	$(shell $(PKGCONF) --libs jansson libconfuse) -lm)
ALL_TARGETS += $(B)/bin/arax

install-arax-cli: $(B)/bin/arax
	install -d "$(DESTDIR)$(PREFIX)/bin" "$(DESTDIR)$(PREFIX)/share/bash-completion/completions"
	install -m 755 $(B)/bin/arax "$(DESTDIR)$(PREFIX)/bin/"
	install -m 644 libarax/cli/arax.bash \
		"$(DESTDIR)$(PREFIX)/share/bash-completion/completions/arax"
INSTALL_TARGETS += install-arax-cli
.PHONY: install-arax-cli

install-libarax-man:
	for s in 1 3 5 7; do \
		install -d "$(DESTDIR)$(PREFIX)/share/man/man$$s" && \
		install -m 644 libarax/man/man$$s/* "$(DESTDIR)$(PREFIX)/share/man/man$$s/" || exit 1; \
	done
INSTALL_TARGETS += install-libarax-man

check-libarax-man: $(LIBARAX_SO) $(LIBARAX_A)
	scripts/tally run unit/libarax-man selftests/unit/libarax_man.sh

$(call program,$(B)/unit/libarax-tenant-asan,asan,selftests/unit/libarax_tenant.c \
	libarax/admin/setting.c,$(shell $(PKGCONF) --libs check 2>/dev/null))

# What the header gives to C++, by the oldest one for which it does.
$(B)/unit/libarax-cxx: selftests/unit/libarax_cxx.cc $(LIBARAX_SO)
	@mkdir -p $(@D)
	$(say) CXX $<
	$(Q)$(CXX) -std=c++11 -O2 -g -Wall -Wextra -Werror -pedantic -Ilibarax/include -MMD -MP \
		-o $@ $< -Wl,-rpath,'$$ORIGIN/../lib' -L$(B)/lib -larax
-include $(B)/unit/libarax-cxx.d

# A program whose own names the library has as well, and all of this in one file.
$(B)/unit/libarax-static: $(B)/obj/plain/selftests/unit/libarax_static.o $(LIBARAX_A)
	@mkdir -p $(@D)
	$(say) LINK $@
	$(Q)$(CC) $(LDFLAGS_plain) -static -pthread -o $@ $^
-include $(B)/obj/plain/selftests/unit/libarax_static.d

$(call program,$(B)/unit/libarax-second,plain,selftests/unit/libarax_second.c $(LIBARAX_SRC),)

# The command's own ways; with a private araxd, kernels and examples: as one finds them
# behind `make`.
check-libarax-cli: $$(ALL_TARGETS) $(addprefix $(B)/unit/libarax-,cxx second static)
	scripts/tally run unit/libarax-cli selftests/unit/libarax_cli.sh
CHECK_TARGETS += check-libarax-man check-libarax-cli
.PHONY: install-libarax-man check-libarax-man check-libarax-cli
