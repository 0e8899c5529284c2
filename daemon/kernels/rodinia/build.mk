# SPDX-License-Identifier: MIT
#
# Kernels of the Rodinia programs (examples/rodinia).  Not in the folder that araxd looks in:
# only who runs these programs needs them.

RODINIA_KERNEL_SRCS := $(addprefix daemon/kernels/rodinia/,bfs.c gaussian.c hotspot.c hotspot3d.c \
			lavamd.c nn.c nw.c particlefilter.c pathfinder.c)
RODINIA_CL     := $(addprefix daemon/kernels/rodinia/,shape.h common.cl) $(RODINIA_KERNEL_SRCS:.c=.cl)
RODINIA_KERNEL := $(addprefix $(B)/lib/arax/rodinia-kernels/arax-rodinia.,so json cl)

$(foreach f,$(RODINIA_KERNEL_SRCS),$(eval CFLAGS_$(f:.c=) := -O3 -fno-trapping-math -fno-math-errno))

$(B)/lib/arax/rodinia-kernels/arax-rodinia.so: $(call objs,plain,$(RODINIA_KERNEL_SRCS))
	@mkdir -p $(@D)
	$(say) LINK $@
	$(Q)$(CC) -shared $(LDFLAGS_plain) -Wl,-z,defs -o $@ $^ -lm
	$(Q)chmod go-w $@ $(@D)
-include $(patsubst %.o,%.d,$(call objs,plain,$(RODINIA_KERNEL_SRCS)))

$(B)/lib/arax/rodinia-kernels/arax-rodinia.json: daemon/kernels/rodinia/arax-rodinia.json
	@mkdir -p $(@D)
	$(Q)install -m 644 $< $@

# One file: a device compiles it in one go.
$(B)/lib/arax/rodinia-kernels/arax-rodinia.cl: $(RODINIA_CL)
	@mkdir -p $(@D)
	$(say) CAT $@
	$(Q)for f in $^; do echo "#line 1 \"$${f##*/}\""; cat $$f; done > $@.tmp
	$(Q)chmod 644 $@.tmp && mv $@.tmp $@

ALL_TARGETS += $(RODINIA_KERNEL)

install-rodinia-kernels: $(RODINIA_KERNEL)
	install -d -m 755 "$(DESTDIR)$(PREFIX)/lib/arax/rodinia-kernels"
	install -m 644 $(RODINIA_KERNEL) "$(DESTDIR)$(PREFIX)/lib/arax/rodinia-kernels/"
INSTALL_TARGETS += install-rodinia-kernels
.PHONY: install-rodinia-kernels
