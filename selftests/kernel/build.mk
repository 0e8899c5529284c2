# SPDX-License-Identifier: MIT
#
# Tests of the module, run in guests: static programs that print TAP.
#
#   make test-kernel-6.1 (6.12, debug)   the module's tests in that guest
#   make soak-kernel-6.1 (6.12, debug)   the same with many more rounds
#   make test-sparse                     sparse over the module's sources

KT        := selftests/kernel
KTB       := $(B)/selftests/kernel
KT_SHARED := $(addprefix $(KT)/,ktest.c client.c mediator.c tenant.c) selftests/system/tap.c

# One program per subject; those of one file come with their own frame.
KT_PROGRAMS := calls fields entries memory rings timeline access quota death trace
KT_SINGLE   := smoke fail_nth stress
# The same structs for a 32-bit program (gcc-multilib), where there is one.
KT_32       := calls fields entries memory rings timeline access death smoke

# Variants of their own: static, and what a guest's time is too dear for.
CFLAGS_guest    := -O2
CFLAGS_guest32  := -O2 -m32 -D_FILE_OFFSET_BITS=64
LDFLAGS_guest   := -static
LDFLAGS_guest32 := -static -m32
$(foreach v,guest guest32,$(eval $(call compile_rule,$(v))))

# $(call kt_program,OUTPUT,VARIANT,SRCS)
define kt_rule
$(1): $(call objs,$(2),$(3))
	@mkdir -p $$(@D)
	$(say) LINK $$@
	$(Q)$$(CC) $$(LDFLAGS_$(2)) -pthread -o $$@ $$^
-include $(patsubst %.o,%.d,$(call objs,$(2),$(3)))
endef
kt_program = $(eval $(call kt_rule,$(1),$(2),$(3)))

kt_srcs = $(KT)/$(1).c $(if $(filter $(1),$(KT_SINGLE)),,$(KT_SHARED))
$(foreach p,$(KT_PROGRAMS) $(KT_SINGLE),$(call kt_program,$(KTB)/$(p),guest,$(call kt_srcs,$(p))))
$(foreach p,$(KT_32),$(call kt_program,$(KTB)/$(p)32,guest32,$(call kt_srcs,$(p))))

HAVE_M32 := $(shell echo 'int main(void){return 0;}' | \
	$(CC) -m32 -static -xc -o /dev/null - 2>/dev/null && echo 1)

KT_BINS := $(patsubst %,$(KTB)/%,$(KT_PROGRAMS) $(KT_SINGLE) $(if $(HAVE_M32),$(KT_32:=32)))
KT_FILES := $(KT_BINS) $(KT)/params.sh $(KT)/load.sh

kernel-tests: $(KT_BINS)
.PHONY: kernel-tests
