# SPDX-License-Identifier: MIT
# Tests of the module, for guests: static programs that print TAP.

KT       := selftests/kernel
KTB      := $(B)/selftests/kernel
KT_SHARED := $(addprefix $(KT)/,ktest.c client.c mediator.c tenant.c) selftests/system/tap.c
# One program per subject.
KT_PROGRAMS := calls fields entries

# $(call kt_program,OUTPUT,VARIANT,SRCS,FLAGS)
define kt_program
$(1): $(call objs,$(2),$(3))
	@mkdir -p $$(@D)
	$(say) LINK $$@
	$(Q)$$(CC) -static $(4) -pthread -o $$@ $$^
-include $(patsubst %.o,%.d,$(call objs,$(2),$(3)))
endef
$(foreach p,$(KT_PROGRAMS),$(eval $(call kt_program,$(KTB)/$(p),plain,$(KT)/$(p).c $(KT_SHARED))))

KT_BINS := $(addprefix $(KTB)/,$(KT_PROGRAMS))
kernel-tests: $(KT_BINS)
.PHONY: kernel-tests
