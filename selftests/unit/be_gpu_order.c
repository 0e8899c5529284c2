// SPDX-License-Identifier: MIT
/*
 * Launches that are put onto a GPU's stream before those have ended whose results they need, on a
 * driver in software: emulated, not hardware.
 */
#include "selftests/unit/be_gpu_calls.h"

static const char *const follow[] = { "follow", "yes", NULL };
static void *dev;
static uint64_t at;
static struct arax_launch_range r;

/* What a test has loaded goes with its device. */
static void *kernels[8];
static int nr_kernels;

static void *get(const char *name, const char *signature)
{
	return kernels[nr_kernels++] = load(dev, name, signature);
}

static void close_order(void)
{
	while (nr_kernels)
		ops->kernel_unload(dev, kernels[--nr_kernels]);
	close_gpu();
}

static void open_one(int i, int32_t x)
{
	setenv("EMULATED_FORGIVING", "1", 1);
	dev = open_gpu(i, follow);
	at = take_memory(dev, 4);
	r = range(at, 4);
	ck_assert_int_eq(ops->copy_in(dev, 0, at, &x, 4), 0);
	ck_assert_int_eq(ops->follows(dev), 1);
}

static int32_t value(void)
{
	int32_t x = 0;

	ck_assert_int_eq(ops->copy_out(dev, 0, &x, at, 4), 0);
	return x;
}

static int submit(void *k, const int32_t *err, uint64_t cookie, uint32_t after)
{
	struct job j;

	fill(&j, k, 0, 1, 1, &r, 1, err, err ? 4 : 0);
	j.run.after = after;
	return ops->submit(dev, &j.run, cookie);
}

static void ends(uint64_t cookie, int result, uint32_t flags)
{
	struct arax_backend_done done;

	ck_assert_int_eq(ops->wait(dev, 0, &done), 0);
	ck_assert_uint_eq(done.cookie, cookie);
	ck_assert_int_eq(done.result, result);
	ck_assert_uint_eq(done.flags, flags);
}

/* It is with the device while the first one runs, and sees what that wrote. */
START_TEST(behind_one_that_runs)
{
	void *gate, *order;

	open_one(_i, 0);
	gate = get(GATE_ORDER);
	order = get(ORDER);
	emu_gate(0);
	ck_assert_int_eq(submit(gate, &fine, 1, 0), 0);
	wait_for_kernels(1);
	ck_assert_int_eq(submit(order, &fine, 2, 1), 0);
	ck_assert_int_eq(submit(order, &fine, 3, 3), 0);
	ck_assert_int_eq(submit(order, &fine, 4, 7), 0);
	ck_assert_int_eq(submit(order, &fine, 5, 1), -EAGAIN);
	emu_gate(1);
	for (uint64_t i = 1; i <= 4; i++)
		ends(i, 0, 0);
	ck_assert_int_eq(value(), 4);
}
END_TEST

/* Nothing has to be done for what was to come after it to do nothing. */
START_TEST(behind_one_that_fails)
{
	static const int32_t bad = -EIO;
	void *gate, *order;

	open_one(_i, 0);
	gate = get(GATE_ORDER);
	order = get(ORDER);
	for (int round = 0; round < 50; round++) {
		emu_gate(0);
		ck_assert_int_eq(submit(gate, &bad, 1, 0), 0);
		wait_for_kernels(1);
		ck_assert_int_eq(submit(order, &fine, 2, 1), 0);	/* after the first */
		ck_assert_int_eq(submit(order, &fine, 3, 1), 0);	/* after that */
		ck_assert_int_eq(submit(order, &fine, 4, 0), 0);	/* after none */
		emu_gate(1);
		ends(1, -EIO, 0);
		/* Behind one that is known to have failed by now, if not by whom. */
		ck_assert_int_eq(submit(order, &fine, 5, 2), 0);
		ends(2, -ECANCELED, ARAX_DONE_NOT_RUN);
		ends(3, -ECANCELED, ARAX_DONE_NOT_RUN);
		ends(4, 0, 0);
		ends(5, -ECANCELED, ARAX_DONE_NOT_RUN);
		ck_assert_int_eq(value(), 2 * (round + 1));
	}
}
END_TEST

/* Of random shape: who comes after a failure does nothing, and says so; all others run. */
START_TEST(of_any_shape)
{
	int32_t codes[ARAX_LANE_DEPTH], ran = 0, left_out = 0;
	struct arax_backend_done done[ARAX_LANE_DEPTH];
	uint32_t after[ARAX_LANE_DEPTH], seed = 7;
	void *order, *inc;

	open_one(_i, 0);
	order = get(ORDER);
	inc = get(INC);
	for (int round = 0; round < 1000; round++) {
		for (int32_t i = 0; i < ARAX_LANE_DEPTH; i++) {
			bool plain;

			seed = seed * 1103515245 + 12345;
			codes[i] = seed >> 16 & 3 ? 0 : -5 - i;
			after[i] = (seed >> 20) & ((1u << i) - 1);
			/* One that can't fail, now and then: only others come behind that. */
			plain = !codes[i] && !after[i] && seed >> 24 & 1;
			ck_assert_int_eq(submit(plain ? inc : order, plain ? NULL : &codes[i],
						(uint64_t)i, after[i]), 0);
		}
		for (int i = 0; i < ARAX_LANE_DEPTH; i++)
			ck_assert_int_eq(ops->wait(dev, 0, &done[i]), 0);
		for (int i = 0; i < ARAX_LANE_DEPTH; i++) {
			bool must_not = false, not = done[i].flags & ARAX_DONE_NOT_RUN;

			for (int b = 0; b < i; b++)
				must_not |= after[i] >> (i - 1 - b) & 1 && done[b].result;
			ck_assert(not == must_not);
			ck_assert_int_eq(done[i].result, not ? -ECANCELED : codes[i]);
			ran += !not;
			left_out += not;
		}
	}
	ck_assert_int_eq(value(), ran);
	ck_assert_int_gt(left_out, 300);
}
END_TEST

/* Whoever does not look whether it is to run comes behind nobody, nor anybody behind who tells only us. */
START_TEST(kernels_that_do_not_look)
{
	void *gate, *order, *result, *inc;

	open_one(_i, 0);
	gate = get(GATE);
	order = get(ORDER);
	result = get(RESULT);
	inc = get(INC);
	ck_assert_int_eq(submit(order, &fine, 1, 0), 0);
	ck_assert_int_eq(submit(result, &fine, 2, 1), -EAGAIN);
	ck_assert_int_eq(submit(inc, NULL, 2, 1), -EAGAIN);
	ends(1, 0, 0);
	ck_assert_int_eq(submit(result, &fine, 3, 0), 0);
	ck_assert_int_eq(submit(order, &fine, 4, 1), -EAGAIN);
	/* But behind one that has no result. */
	ck_assert_int_eq(submit(gate, &fine, 5, 0), 0);
	ck_assert_int_eq(submit(order, &fine, 6, 1), 0);
	/* Of those behind which it comes each has to tell. */
	ck_assert_int_eq(submit(order, &fine, 7, 7), -EAGAIN);
	ck_assert_int_eq(submit(order, &fine, 7, 3), 0);
	for (uint64_t i = 3; i <= 7; i += 1 + (i == 3))
		ends(i, 0, 0);
	ck_assert_int_eq(value(), 5);
}
END_TEST

/* A context that breaks takes those with it that wait for it to go on. */
START_TEST(behind_one_that_faults)
{
	void *gate, *trap, *order;

	open_one(_i, 0);
	gate = get(GATE);
	trap = get(TRAP);
	order = get(ORDER);
	/* It may not begin before all are there. */
	emu_gate(0);
	ck_assert_int_eq(submit(gate, &fine, 0, 0), 0);
	ck_assert_int_eq(submit(trap, &bad, 1, 0), 0);
	ck_assert_int_eq(submit(order, &fine, 2, 1), 0);
	emu_gate(1);
	for (int i = 0; i < 3; i++) {
		struct arax_backend_done done;

		ck_assert_int_eq(ops->wait(dev, 0, &done), 0);
		ck_assert(done.result == -ENODEV || (!i && !done.result));
		ck_assert(!(done.flags & ARAX_DONE_NOT_RUN));
	}
	ck_assert_int_eq(ops->reset(dev), 0);
	/* In the new one numbers go on. */
	at = take_memory(dev, 4);
	r = range(at, 4);
	ck_assert_int_eq(ops->copy_in(dev, 0, at, &fine, 4), 0);
	for (int i = 0; i < 100; i++)
		ck_assert_int_eq(run(dev, order, 0, 1, 1, &r, 1, &fine, 4), 0);
	ck_assert_int_eq(submit(order, &fine, 3, 0), 0);
	ck_assert_int_eq(submit(order, &fine, 4, 1), 0);
	ends(3, 0, 0);
	ends(4, 0, 0);
	ck_assert_int_eq(value(), 102);
}
END_TEST

/* A driver that doesn't say what a kernel takes: it gets all the same, and nobody comes behind it. */
START_TEST(who_is_not_asked)
{
	static const int32_t bad_result = -EIO;
	void *order;

	open_one(_i, 0);
	order = get(ORDER);
	ck_assert_int_eq(submit(order, &fine, 1, 0), 0);
	ck_assert_int_eq(submit(order, &fine, 2, 1), -EAGAIN);
	ck_assert_int_eq(submit(order, &bad_result, 3, 0), 0);
	ends(1, 0, 0);
	ends(3, -EIO, 0);
	ck_assert_int_eq(value(), 2);
}
END_TEST

/*
 * Launches that are refused in between: of many threads none finds a word of another launch in the
 * place of that which it was to look for.
 */
START_TEST(refused_in_between)
{
	static const int32_t bad_result = -EIO;
	void *gate, *order;
	struct job j;

	open_one(_i / 4, 0);
	gate = get(GATE_ORDER);
	order = get(ORDER);
	emu_gate(0);
	ck_assert_int_eq(submit(gate, &bad_result, 1, 0), 0);
	wait_for_kernels(1);
	for (int i = 0; i < _i % 4; i++) {
		fill(&j, order, 0, 1, 1 << 20, &r, 1, &fine, 4);
		ck_assert_int_eq(ops->submit(dev, &j.run, 9), -EAGAIN);
	}
	fill(&j, order, 0, 4, 8, &r, 1, &fine, 4);
	j.run.after = 1;
	ck_assert_int_eq(ops->submit(dev, &j.run, 2), 0);
	emu_gate(1);
	ends(1, -EIO, 0);
	ends(2, -ECANCELED, ARAX_DONE_NOT_RUN);
	ck_assert_int_eq(value(), 1);
}
END_TEST

/* Who comes behind it may have seen it: a later 0 is no success. */
START_TEST(an_error_stays)
{
	static const int32_t first_fails = -EIO;
	void *twice, *order;

	open_one(_i, 0);
	twice = get(TWICE);
	order = get(ORDER);
	ck_assert_int_eq(submit(twice, &first_fails, 1, 0), 0);
	ck_assert_int_eq(submit(order, &fine, 2, 1), 0);
	ends(1, -EIO, 0);
	ends(2, -ECANCELED, ARAX_DONE_NOT_RUN);
	ck_assert_int_eq(value(), 1);
}
END_TEST

/* Only where it is asked for. */
START_TEST(by_its_option)
{
	dev = open_gpu(_i, NULL);
	ck_assert_int_eq(ops->follows(dev), 0);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("gpu_order");
	TCase *t = tcase_create("emulated");

	puts("# emulated, not hardware");
	tcase_set_timeout(t, 60);
	tcase_add_checked_fixture(t, setup, close_order);
	tcase_add_loop_test(t, by_its_option, 0, NR_GPUS);
	for (int i = 0; i < NR_GPUS; i++) {
		if (gpus[i].kind != ARAX_DEVICE_CUDA) {
			tcase_add_loop_test(t, who_is_not_asked, i, i + 1);
			continue;
		}
		tcase_add_loop_test(t, behind_one_that_runs, i, i + 1);
		tcase_add_loop_test(t, behind_one_that_fails, i, i + 1);
		tcase_add_loop_test(t, of_any_shape, i, i + 1);
		tcase_add_loop_test(t, kernels_that_do_not_look, i, i + 1);
		tcase_add_loop_test(t, behind_one_that_faults, i, i + 1);
		tcase_add_loop_test(t, refused_in_between, 4 * i, 4 * i + 4);
		tcase_add_loop_test(t, an_error_stays, i, i + 1);
	}
	suite_add_tcase(s, t);
	return be_main(s);
}
