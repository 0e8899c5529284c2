# SPDX-License-Identifier: MIT
# The core as user space compiles it; the module's Kbuild lists the same files.
CORE_SRCS := $(sort $(wildcard kmod/core/*.c))
