// SPDX-License-Identifier: MIT
/* The mediator comes, dies, is replaced: who keeps what. */
#include "core_fixture.h"

START_TEST(attach_errors)
{
	struct fx *fx = fx_new(NULL);

	ck_assert_int_eq(fx_attach(fx, 4), -EOPNOTSUPP);
	ck_assert_int_eq(fx_attach(fx, ARAX_ATTACH_FLAGS), -EINVAL);
	fx->fail_mediator = true;
	ck_assert_int_eq(fx_attach(fx, 0), -ENOMEM);
	fx->fail_mediator = false;
	ck_assert_int_eq(fx_attach(fx, 0), 0);
	ck_assert_uint_eq(fx->epoch, 1);
	ck_assert_int_eq(fx_attach(fx, 0), -EBUSY);
	ck_assert_int_eq(fx_attach(fx, ARAX_ATTACH_TAKEOVER), -EBUSY);
	core_detach(fx->core);
	ck_assert_int_eq(fx_attach(fx, ARAX_ATTACH_RECOVER), -EBUSY);
	ck_assert_int_eq(fx_attach(fx, 0), -EBUSY);
	core_mediator_gone(fx->core);
	ck_assert_int_eq(fx_attach(fx, ARAX_ATTACH_RECOVER), 0);
	ck_assert_uint_eq(fx->epoch, 2);
	fx_free(fx);
}
END_TEST

Suite *core_mediator_suite(void)
{
	Suite *s = suite_create("core mediator");
	TCase *tc = tcase_create("mediator");

	tcase_add_test(tc, attach_errors);
	suite_add_tcase(s, tc);
	return s;
}
