# SPDX-License-Identifier: MIT
# Unit tests of kernels, backends, runners, configuration and log.

BE_LIB := daemon/log.c daemon/config.c $(KERNELS_SRCS) $(BACKENDS_SRCS) $(RUNNER_SRCS)
BE_LIBS := -lcheck -lsubunit -lrt -lm -ljansson -lconfuse -ldl
BE_NEEDS := $(STD_KERNEL) $(TEST_KERNEL) $(B)/libexec/arax-worker $(OLD_PLUGINS)

# The code under test is compiled once per variant, into an archive.
define be_variant
$(B)/test/be-$(1).a: $(call objs,$(1),$(BE_LIB))
	@rm -f $$@; mkdir -p $$(@D)
	$(say) AR $$@
	$(Q)$$(AR) rcs $$@ $$^
-include $(patsubst %.o,%.d,$(call objs,$(1),$(BE_LIB)))
endef
$(foreach v,plain asan tsan,$(eval $(call be_variant,$(v))))

# $(call be_test,NAME,VARIANTS)
define be_one
$(call program,$(B)/test/be_$(1)-$(2),$(2),selftests/unit/be_$(1).c,$(B)/test/be-$(2).a $(BE_LIBS))
$(B)/test/be_$(1)-$(2): $(B)/test/be-$(2).a
check-be_$(1)-$(2): $(B)/test/be_$(1)-$(2) | $(BE_NEEDS)
	$(Q)scripts/tally run unit/be_$(1)-$(2) -- $$<
CHECK_TARGETS += check-be_$(1)-$(2)
.PHONY: check-be_$(1)-$(2)
endef
be_test = $(foreach v,$(2),$(eval $(call be_one,$(1),$(v))))

$(call be_test,signature,plain asan)
$(call be_test,registry,plain asan)
$(call be_test,log,plain asan)
$(call be_test,config,plain asan)
$(call be_test,runner,plain asan tsan)
