# SPDX-License-Identifier: MIT
# araxd.

ARAXD_LIB_SRCS := daemon/log.c daemon/config.c daemon/options.c daemon/notify.c \
		  $(sort $(wildcard daemon/dispatch/*.c daemon/graph/*.c daemon/link/*.c \
				    daemon/memory/*.c daemon/observe/*.c daemon/sched/*.c \
				    kmod/core/*.c)) \
		  $(addprefix daemon/backends/,cpu.c cpulist.c device.c gang.c plugin.c) \
		  $(addprefix daemon/filters/,delay.c error.c stats.c) \
		  $(addprefix daemon/kernels/,manifest.c registry.c signature.c trusted.c) \
		  $(addprefix daemon/worker/,idmap.c runner.c spawn.c worker.c)
ARAXD_SRCS := daemon/main.c $(ARAXD_LIB_SRCS)
ARAXD_LIBS := -lconfuse -ljansson -ldl

$(call program,$(B)/bin/araxd,plain,$(ARAXD_SRCS),$(ARAXD_LIBS))
$(call program,$(B)/asan/araxd,asan,$(ARAXD_SRCS),$(ARAXD_LIBS))
$(call program,$(B)/tsan/araxd,tsan,$(ARAXD_SRCS),$(ARAXD_LIBS))

ALL_TARGETS += $(B)/bin/araxd
