// SPDX-License-Identifier: MIT
/* Runs the core's suites; CK_RUN_SUITE picks one. */
#include "core_fixture.h"

static Suite *(*const suites[])(void) = {
	core_call_suite, core_alloc_suite, core_buffer_suite, core_buffer_share_suite,
	core_timeline_suite, core_tenant_suite, core_submit_suite, core_refuse_suite,
	core_lost_suite, core_commit_suite, core_dispatch_suite, core_fail_suite,
	core_revoked_suite, core_known_suite, core_client_suite, core_mediator_suite,
	core_share_suite, core_steps_suite, core_points_suite, core_polling_suite,
	core_midway_suite, core_threads_suite, core_model_suite,
};

int main(void)
{
	SRunner *sr = srunner_create(NULL);
	int failed;
	size_t i;

	for (i = 0; i < sizeof(suites) / sizeof(suites[0]); i++)
		srunner_add_suite(sr, suites[i]());
	srunner_run_all(sr, CK_ENV);
	failed = srunner_ntests_failed(sr);
	srunner_free(sr);
	return failed ? 1 : 0;
}
