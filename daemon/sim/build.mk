# SPDX-License-Identifier: MIT
# The simulation: the daemon's own graph and scheduler in virtual time.

SIM_SRCS := $(filter-out daemon/sim/main.c,$(sort $(wildcard daemon/sim/*.c))) \
	    $(sort $(wildcard daemon/graph/*.c daemon/sched/*.c))
SIM_LIBS := $(shell $(PKGCONF) --libs jansson) -lm

$(call program,$(B)/bin/arax-sim,lto,daemon/sim/main.c $(SIM_SRCS),$(SIM_LIBS))
ALL_TARGETS += $(B)/bin/arax-sim

# `arax sim` looks for it beside itself.
install-sim: $(B)/bin/arax-sim
	install -d $(DESTDIR)$(PREFIX)/bin
	install -m 755 $< $(DESTDIR)$(PREFIX)/bin/
INSTALL_TARGETS += install-sim
.PHONY: install-sim
