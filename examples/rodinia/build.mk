# SPDX-License-Identifier: MIT
# Nine programs of the Rodinia suite; their kernels are in daemon/kernels/rodinia.

RODINIA_SRCS := $(addprefix examples/rodinia/,arax.c common.c bfs.c gaussian.c hotspot.c hotspot3d.c \
		 lavamd.c nn.c nw.c particlefilter.c pathfinder.c)

$(call program,$(B)/bin/arax-rodinia,plain,examples/rodinia/main.c $(RODINIA_SRCS),\
	$(B)/lib/libarax.a $(shell $(PKGCONF) --libs jansson) -lm)
$(B)/bin/arax-rodinia: $(B)/lib/libarax.a

ALL_TARGETS += $(B)/bin/arax-rodinia

install-rodinia: $(B)/bin/arax-rodinia
	install -d "$(DESTDIR)$(PREFIX)/bin" "$(DESTDIR)$(PREFIX)/share/man/man1"
	install -m 755 $(B)/bin/arax-rodinia "$(DESTDIR)$(PREFIX)/bin/"
	install -m 644 examples/rodinia/arax-rodinia.1 "$(DESTDIR)$(PREFIX)/share/man/man1/"
INSTALL_TARGETS += install-rodinia
.PHONY: install-rodinia
