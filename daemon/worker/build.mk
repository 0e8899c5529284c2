# SPDX-License-Identifier: MIT
# The worker process.

WORKER_SRCS := $(addprefix daemon/worker/,engine_native.c idmap.c main.c sandbox_calls.c \
		 sandbox_files.c) daemon/backends/gang.c

# With a driver of OpenCL's, as araxd has it.
ifeq ($(OPENCL_HEADERS),yes)
WORKER_SRCS += daemon/worker/engine_opencl.c $(OPENCL_SRCS) daemon/notify.c daemon/backends/addresses.c \
	       $(addprefix daemon/backends/,options.c params.c stacks.c streams.c) libarax/admin/trusted.c
else
CFLAGS_daemon/worker/main := -DOPENCL_ABSENT
endif

# Without it the worker says so, and programs' own kernels are refused.
ifeq ($(shell $(PKGCONF) --exists libseccomp && echo yes),yes)
SECCOMP_FLAGS := -DHAVE_SECCOMP $(shell $(PKGCONF) --cflags libseccomp)
CFLAGS_daemon/worker/sandbox_calls := $(SECCOMP_FLAGS)
WORKER_LIBS := $(shell $(PKGCONF) --libs libseccomp)
endif

$(call program,$(B)/libexec/arax-worker,plain,$(WORKER_SRCS),$(WORKER_LIBS))

ALL_TARGETS += $(B)/libexec/arax-worker

# Who can't read it can't look into it while it begins, either.
install-worker: $(B)/libexec/arax-worker
	install -d "$(DESTDIR)$(PREFIX)/libexec/arax"
	install -m 711 $(B)/libexec/arax-worker "$(DESTDIR)$(PREFIX)/libexec/arax/"
INSTALL_TARGETS += install-worker
.PHONY: install-worker

# The daemon's pages, its sample configuration, and what pages of the manual refer to.
install-daemon-docs:
	install -d "$(DESTDIR)$(PREFIX)/share/man/man5" "$(DESTDIR)$(PREFIX)/share/man/man8" \
		"$(DESTDIR)$(PREFIX)/share/doc/arax/docs/plots" \
		"$(DESTDIR)$(PREFIX)/share/doc/arax/examples/scenarios"
	install -m 644 docs/*.md "$(DESTDIR)$(PREFIX)/share/doc/arax/docs/"
	install -m 644 docs/plots/*.svg "$(DESTDIR)$(PREFIX)/share/doc/arax/docs/plots/"
	install -m 644 README.md "$(DESTDIR)$(PREFIX)/share/doc/arax/"
	install -m 644 examples/scenarios/* "$(DESTDIR)$(PREFIX)/share/doc/arax/examples/scenarios/"
	install -m 644 daemon/man/araxd.conf.5 "$(DESTDIR)$(PREFIX)/share/man/man5/"
	install -m 644 daemon/man/araxd.8 "$(DESTDIR)$(PREFIX)/share/man/man8/"
	install -m 644 daemon/araxd.conf.sample "$(DESTDIR)$(PREFIX)/share/doc/arax/"
INSTALL_TARGETS += install-daemon-docs
.PHONY: install-daemon-docs
