# SPDX-License-Identifier: MIT
# The examples: ordinary users of libarax, and a kernel library of their own.

EXAMPLE_LIBS    := -Wl,-rpath,'$$$$ORIGIN/../lib' -L$(B)/lib -larax
EXAMPLE_KERNELS := $(addprefix $(B)/examples/kernels/montecarlo.,so json cl)
EXAMPLES        := $(addprefix $(B)/examples/,quickstart montecarlo image-pipeline solve)

$(call program,$(B)/examples/quickstart,plain,examples/quickstart.c,$(EXAMPLE_LIBS))
$(call program,$(B)/examples/montecarlo,plain,examples/montecarlo.c examples/report.c,$(EXAMPLE_LIBS))
$(call program,$(B)/examples/image-pipeline,plain,examples/image-pipeline.c examples/picture.c examples/report.c,$(EXAMPLE_LIBS) -lpng -ljpeg)
$(call program,$(B)/examples/solve,plain,examples/solve.c examples/report.c,$(EXAMPLE_LIBS) -lm)
$(EXAMPLES): $(B)/lib/libarax.so.$(VERSION)

$(B)/examples/kernels/montecarlo.so: $(call objs,plain,examples/kernels/montecarlo.c)
	@mkdir -p $(@D)
	$(say) LINK $@
	$(Q)$(CC) -shared $(LDFLAGS_plain) -o $@ $<

$(B)/examples/kernels/%.json: examples/kernels/%.json
	@mkdir -p $(@D)
	$(Q)install -m 644 $< $@

$(B)/examples/kernels/%.cl: examples/kernels/%.cl
	@mkdir -p $(@D)
	$(Q)install -m 644 $< $@

ALL_TARGETS += $(EXAMPLES) $(EXAMPLE_KERNELS)

# The demonstration: set up what is missing, build, run two tenants.
run:
	@scripts/setup build run
	@$(MAKE) --no-print-directory default
	@KERNEL=$(KERNEL) examples/two-tenants.sh
