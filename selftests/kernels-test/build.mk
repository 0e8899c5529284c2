# SPDX-License-Identifier: MIT
# Kernels that misbehave on purpose, for the tests.

TEST_KERNEL := $(B)/test/kernels/arax-test.so $(B)/test/kernels/arax-test.json

$(B)/test/kernels/arax-test.so: $(call objs,plain,selftests/kernels-test/kernels.c)
	@mkdir -p $(@D)
	$(say) LINK $@
	$(Q)$(CC) -shared $(LDFLAGS_plain) -Wl,-z,defs -o $@ $^
	$(Q)chmod go-w $@ $(@D)

$(B)/test/kernels/arax-test.json: selftests/kernels-test/arax-test.json
	@mkdir -p $(@D)
	$(Q)install -m 644 $< $@

include selftests/unit/be.mk
