# SPDX-License-Identifier: MIT
# Manifests, signatures, the registry; and the kernels that come with Arax.

KERNELS_SRCS := $(addprefix daemon/kernels/,manifest.c registry.c signature.c)

STD_SRCS   := $(addprefix daemon/kernels/std/,basic.c blackscholes.c image.c ml.c nn.c \
			sparse.c vector.c)
STD_CL     := $(addprefix daemon/kernels/std/,vector.cl basic.cl image.cl)
STD_KERNEL := $(addprefix $(B)/lib/arax/kernels/arax-std.,so json cl)

# Nobody asks for floating-point traps or errno; with them, a choice in a loop keeps it from
# being vectorised.
$(foreach f,$(STD_SRCS),$(eval CFLAGS_$(f:.c=) := -O3 -fno-trapping-math -fno-math-errno))

$(B)/lib/arax/kernels/arax-std.so: $(call objs,plain,$(STD_SRCS))
	@mkdir -p $(@D)
	$(say) LINK $@
	$(Q)$(CC) -shared $(LDFLAGS_plain) -Wl,-z,defs -o $@ $^ -lm
	$(Q)chmod go-w $@ $(@D)
-include $(patsubst %.o,%.d,$(call objs,plain,$(STD_SRCS)))

$(B)/lib/arax/kernels/arax-std.json: daemon/kernels/std/arax-std.json
	@mkdir -p $(@D)
	$(Q)install -m 644 $< $@

# One file: a device compiles it in one go.
$(B)/lib/arax/kernels/arax-std.cl: $(STD_CL)
	@mkdir -p $(@D)
	$(say) CAT $@
	$(Q)for f in $^; do echo "#line 1 \"$${f##*/}\""; cat $$f; done > $@.tmp
	$(Q)chmod 644 $@.tmp && mv $@.tmp $@

ALL_TARGETS += $(STD_KERNEL)

install-kernels: $(STD_KERNEL)
	install -d -m 755 $(DESTDIR)$(PREFIX)/lib/arax/kernels $(DESTDIR)$(PREFIX)/include/arax
	install -m 644 $(STD_KERNEL) $(DESTDIR)$(PREFIX)/lib/arax/kernels/
	install -m 644 libarax/include/arax/kernel.h $(DESTDIR)$(PREFIX)/include/arax/
INSTALL_TARGETS += install-kernels
.PHONY: install-kernels
