# SPDX-License-Identifier: MIT
#
# Kernels for the guests, and the module for each of them:
#
#   make build/kernels/6.1/stamp        (6.12, debug, next)  download or build a kernel
#   make build/kmod/6.1/arax.ko         (6.12, debug, next)  the module for it
#   make test-kmod-next                 does it compile for the newest kernel?
#   make kmod [KDIR=/lib/modules/x/build]              build/kmod/arax.ko
#   make checkpatch, make shellcheck

GUEST_KERNELS := 6.1 6.12 debug next

$(B)/kernels/debug/stamp: selftests/qemu/debug.config
$(B)/kernels/next/stamp: selftests/qemu/next.config
$(patsubst %,$(B)/kernels/%/stamp,debug next): $(B)/kernels/%/stamp: selftests/qemu/guest.config \
		scripts/kernel-build
	scripts/kernel-build $*

$(patsubst %,$(B)/kernels/%/stamp,6.1 6.12): $(B)/kernels/%/stamp: scripts/kernel-get
	scripts/kernel-get $*

KMOD_SOURCES := $(wildcard Kbuild kmod/*.[ch] kmod/*/*.[ch] uapi/*.h uapi/*/*.h)

$(patsubst %,$(B)/kmod/%/arax.ko,$(GUEST_KERNELS)): $(B)/kmod/%/arax.ko: \
		$(B)/kernels/%/stamp scripts/kmod-build $(KMOD_SOURCES)
	scripts/kmod-build $(KMOD_ARGS) $(B)/kernels/$*/build $(@D)

# Test modules that guests load: one that borrows dma-bufs, one that takes a device's name.
define test_module_rule
$(patsubst %,$(B)/kmod/%/$(1)/$(1).ko,$(GUEST_KERNELS)): $(B)/kmod/%/$(1)/$(1).ko: \
		$(B)/kernels/%/stamp scripts/kmod-build $(wildcard selftests/qemu/$(1)/*)
	scripts/kmod-build --of selftests/qemu/$(1) $(B)/kernels/$$*/build $$(@D)
endef
$(foreach m,borrower namesake,$(eval $(call test_module_rule,$(m))))

# For the running kernel, or any other tree: always asked, rarely at work.
ifneq ($(KDIR),)
KMOD_KDIR := $(KDIR)
else
KMOD_KDIR := /lib/modules/$(shell uname -r)/build
endif

kmod:
	scripts/kmod-build $(KMOD_ARGS) $(KMOD_KDIR) $(B)/kmod/host
	@cmp -s $(B)/kmod/host/arax.ko $(B)/kmod/arax.ko || cp $(B)/kmod/host/arax.ko $(B)/kmod/arax.ko

# `make KDIR=...` builds the module with everything else.
ifneq ($(KDIR),)
ALL_TARGETS += kmod
endif

# Without its vmlinux a tree has no table of symbols to link with: whoever uses one that
# is no longer exported, or never was to modules, shows in a whole build only.
test-kmod-next:
	@if ! scripts/kernel-build --source-only next >$(B)/kernel-next.log 2>&1; then \
		scripts/tally add style/kmod-next 0 0 1 "$$(tail -n 1 $(B)/kernel-next.log)"; \
	else \
		scripts/tally run style/kmod-next sh -ec 'scripts/kernel-build --prepare-only next; \
			scripts/kmod-build $(B)/kernels/next/build $(B)/kmod/next-compiled KBUILD_MODPOST_WARN=1'; \
	fi

# The scripts themselves, and the runner's own tests.
SHELL_SCRIPTS = $(shell grep -lsE '^\#!.*(bash|/sh)' .ci/* scripts/* selftests/*/* \
	selftests/*/*/* 2>/dev/null)

shellcheck:
	@scripts/tally run style/shellcheck shellcheck $(SHELL_SCRIPTS)

# It needs the source alone, and gets it itself.
checkpatch:
	@scripts/tally run style/checkpatch scripts/checkpatch

test-qemu-runner: $(B)/kernels/6.1/stamp
	@scripts/tally run qemu/runner selftests/qemu/test-runner.sh

test-qemu-detectors: $(B)/kernels/debug/stamp
	@scripts/tally run qemu/detectors selftests/qemu/test-detectors.sh

# Of a merge that was committed with both sides.
conflicts:
	@scripts/tally run style/conflicts sh -c "! grep -rnIE '^(<<<<<<<|>>>>>>>) ' --exclude-dir=build --exclude-dir=.git ."

TEST_TARGETS += conflicts shellcheck checkpatch test-kmod-next test-qemu-runner test-qemu-detectors

.PHONY: kmod conflicts shellcheck checkpatch test-kmod-next test-qemu-runner test-qemu-detectors

# The module's sources for DKMS, its loading at boot and the nodes' modes.  Where the system looks
# for them does not depend on PREFIX.
DKMS_DIR := $(DESTDIR)/usr/src/arax-$(VERSION)
# Not for who could not write there; "make uninstall" says it of a folder that stands for the real one.
WITH_KMOD ?= $(if $(DESTDIR)$(filter 0,$(shell id -u)),yes,no)
install-kmod:
ifneq ($(WITH_KMOD),yes)
	@echo "not root: the module's sources (dkms), its loading at boot and the udev rule are left out"
else
	install -d "$(DKMS_DIR)/kmod/core" "$(DKMS_DIR)/uapi" "$(DESTDIR)/usr/lib/udev/rules.d" \
		"$(DESTDIR)/usr/lib/modules-load.d"
	install -m 644 Kbuild "$(DKMS_DIR)/"
	sed 's/@VERSION@/$(VERSION)/' scripts/dkms.conf > "$(DKMS_DIR)/dkms.conf"
	chmod 644 "$(DKMS_DIR)/dkms.conf"
	install -m 644 kmod/*.[ch] "$(DKMS_DIR)/kmod/"
	install -m 644 kmod/core/*.[ch] "$(DKMS_DIR)/kmod/core/"
	install -m 644 uapi/arax.h "$(DKMS_DIR)/uapi/"
	install -m 644 scripts/99-arax.rules "$(DESTDIR)/usr/lib/udev/rules.d/"
	install -m 644 scripts/modules-load.conf "$(DESTDIR)/usr/lib/modules-load.d/arax.conf"
endif
INSTALL_TARGETS += install-kmod
.PHONY: install-kmod
