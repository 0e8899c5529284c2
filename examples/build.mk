# SPDX-License-Identifier: MIT
# The examples: ordinary users of libarax, and a kernel library of their own.

EXAMPLE_LIBS    := -Wl,-rpath,'$$$$ORIGIN/../lib' -L$(B)/lib -larax
EXAMPLE_KERNELS := $(addprefix $(B)/examples/kernels/montecarlo.,so json cl \
		     $(if $(NVCC),ptx) $(if $(HIPCC),co))
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

# A manifest is refused whole where a file of it is missing.
$(B)/examples/kernels/%.json: examples/kernels/%.json daemon/kernels/leave-out \
			      $(B)/lib/arax/kernels/.absent
	@mkdir -p $(@D)
	$(say) JSON $@
	$(Q)daemon/kernels/leave-out $< $(if $(NVCC),,$*.ptx) $(if $(HIPCC),,$*.co) > $@.tmp
	$(Q)chmod 644 $@.tmp && mv $@.tmp $@

$(B)/examples/kernels/%.cl: examples/kernels/%.cl
	@mkdir -p $(@D)
	$(Q)install -m 644 $< $@

$(B)/examples/kernels/%.ptx: examples/kernels/%.cu libarax/include/arax/gpu.h
	@mkdir -p $(@D)
	$(say) NVCC $@
	$(Q)$(NVCC) -ptx $(NVCC_FLAGS) -o $@.tmp $<
	$(Q)chmod 644 $@.tmp && mv $@.tmp $@

$(B)/examples/kernels/%.co: examples/kernels/%.cu libarax/include/arax/gpu.h
	@mkdir -p $(@D)
	$(say) HIPCC $@
	$(Q)$(hip_genco) -o $@.tmp $<
	$(Q)chmod 644 $@.tmp && mv $@.tmp $@

ALL_TARGETS += $(EXAMPLES) $(EXAMPLE_KERNELS)

# The demonstration: set up what is missing, build, run two tenants.
run:
	@scripts/setup build run
	@$(MAKE) --no-print-directory default
	@KERNEL=$(KERNEL) examples/two-tenants.sh
