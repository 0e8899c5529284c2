// SPDX-License-Identifier: MIT
/*
 * OpenCL devices that are lost, and had again: on a real driver, which is made to answer as one
 * whose context broke, whatever is asked of it, until there is a new one.
 */
#include <dlfcn.h>

#include "daemon/backends/opencl/compiler.h"
#include "daemon/backends/opencl/opencl.h"
#include "selftests/unit/be_opencl.h"

static const char kernels[] =
	"__kernel void inc(__global int *x, ulong n) { ARAX_EACH(i, n) x[i]++; }\n"
	"__kernel void fail(__global int *x, ulong n, int err, __global int *result)\n"
	"{ x[0]++; if (err) *result = err; }\n";

#define INC	"inc", "inc(inout i32 x[])"
#define FAIL	"fail", "fail(inout i32 x[], i32 err)"

/* ------------------------------------------------------------------ */
/* The driver                                                            */

static struct opencl_api real;
static cl_int broken;		/* what it says then */
static cl_int code;		/* that it will say, 0: it is not to break */
static int launches_left;	/* until it breaks, with the last of them */
static bool refuses;		/* that launch, too, and does not take it */
static int contexts_refused;
static bool fails_once;		/* to be finished */
static int launched;

/* A kernel that goes on until it has been asked for often enough. */
static bool holds;
static cl_event held;
static cl_command_queue held_at;
static int asks_left;

/* The copy that fails, which its event alone tells. */
static int copies_left;
static cl_event spoilt;

static void *call_of(const char *name)
{
	void *library = dlopen("libOpenCL.so.1", RTLD_NOW | RTLD_LOCAL);
	void *call = library ? dlsym(library, name) : NULL;

	ck_assert_ptr_nonnull(call);
	return call;
}

static void hold(cl_command_queue q)
{
	__typeof__(clGetCommandQueueInfo) *info = call_of("clGetCommandQueueInfo");
	__typeof__(clCreateUserEvent) *create = call_of("clCreateUserEvent");
	cl_context context;
	cl_int err;

	ck_assert_int_eq(info(q, CL_QUEUE_CONTEXT, sizeof(context), &context, NULL), 0);
	held = create(context, &err);
	ck_assert_int_eq(err, 0);
	held_at = q;
	holds = false;
}

static void let_go(void)
{
	__typeof__(clSetUserEventStatus) *set = call_of("clSetUserEventStatus");

	ck_assert_int_eq(set(held, CL_COMPLETE), 0);
	real.ReleaseEvent(held);
	held = NULL;
}

static cl_int CL_API_CALL finish(cl_command_queue q)
{
	cl_int err;

	if (held && q == held_at) {
		if (asks_left--)
			return CL_OUT_OF_RESOURCES;
		let_go();
	}
	err = real.Finish(q);
	if (fails_once) {
		fails_once = false;
		return CL_OUT_OF_RESOURCES;
	}
	return broken ? broken : err;
}

static cl_int CL_API_CALL wait_for_events(cl_uint nr, const cl_event *events)
{
	cl_int err = held ? CL_OUT_OF_RESOURCES : real.WaitForEvents(nr, events);

	for (cl_uint i = 0; !err && i < nr; i++)
		if (events[i] == spoilt)
			err = CL_EXEC_STATUS_ERROR_FOR_EVENTS_IN_WAIT_LIST;
	return broken ? broken : err;
}

static cl_int CL_API_CALL enqueue_kernel(cl_command_queue q, cl_kernel k, cl_uint dims,
					 const size_t *offset, const size_t *global,
					 const size_t *local, cl_uint nr, const cl_event *before,
					 cl_event *event)
{
	launched++;
	if (!broken && code && !--launches_left)
		broken = code;
	if (broken && refuses)
		return broken;
	if (holds)
		hold(q);
	if (held)
		return real.EnqueueNDRangeKernel(q, k, dims, offset, global, local, 1, &held, event);
	return real.EnqueueNDRangeKernel(q, k, dims, offset, global, local, nr, before, event);
}

static cl_int CL_API_CALL event_info(cl_event event, cl_event_info what, size_t bytes, void *value,
				     size_t *needs)
{
	cl_int err = real.GetEventInfo(event, what, bytes, value, needs);

	if (event == spoilt && what == CL_EVENT_COMMAND_EXECUTION_STATUS)
		*(cl_int *)value = -9999;
	return err;
}

static bool spoil(cl_command_queue q, cl_event *event)
{
	if (!copies_left || --copies_left)
		return false;
	if (event) {
		ck_assert_int_eq(real.EnqueueMarkerWithWaitList(q, 0, NULL, event), 0);
		/* So that no other one gets its place. */
		if (spoilt)
			real.ReleaseEvent(spoilt);
		spoilt = *event;
		real.RetainEvent(spoilt);
	}
	return true;
}

static cl_int CL_API_CALL enqueue_read(cl_command_queue q, cl_mem mem, cl_bool blocking,
				       size_t from, size_t bytes, void *to, cl_uint nr,
				       const cl_event *before, cl_event *event)
{
	return broken ? broken :
	       spoil(q, event) ? CL_SUCCESS :
	       real.EnqueueReadBuffer(q, mem, blocking, from, bytes, to, nr, before, event);
}

static cl_int CL_API_CALL enqueue_write(cl_command_queue q, cl_mem mem, cl_bool blocking, size_t to,
					size_t bytes, const void *from, cl_uint nr,
					const cl_event *before, cl_event *event)
{
	return broken ? broken :
	       spoil(q, event) ? CL_SUCCESS :
	       real.EnqueueWriteBuffer(q, mem, blocking, to, bytes, from, nr, before, event);
}

static cl_int CL_API_CALL enqueue_copy(cl_command_queue q, cl_mem from, cl_mem to,
				       size_t from_offset, size_t to_offset, size_t bytes,
				       cl_uint nr, const cl_event *before, cl_event *event)
{
	return broken ? broken :
	       spoil(q, event) ? CL_SUCCESS :
	       real.EnqueueCopyBuffer(q, from, to, from_offset, to_offset, bytes, nr, before, event);
}

static cl_int CL_API_CALL enqueue_migrate(cl_command_queue q, cl_uint nr_mems, const cl_mem *mems,
					  cl_mem_migration_flags flags, cl_uint nr,
					  const cl_event *before, cl_event *event)
{
	return broken ? broken :
	       real.EnqueueMigrateMemObjects(q, nr_mems, mems, flags, nr, before, event);
}

static cl_context CL_API_CALL create_context(const cl_context_properties *props, cl_uint nr,
					     const cl_device_id *ids,
					     void(CL_CALLBACK *tell)(const char *, const void *, size_t,
								     void *),
					     void *arg, cl_int *err)
{
	if (contexts_refused > 0) {
		contexts_refused--;
		*err = CL_OUT_OF_RESOURCES;
		return NULL;
	}
	broken = code = 0;
	return real.CreateContext(props, nr, ids, tell, arg, err);
}

/* With the @nth launch from now on. */
static void break_at(int nth, cl_int err)
{
	launches_left = nth;
	code = err;
}

/* ------------------------------------------------------------------ */
/* Calls                                                                 */

static struct device *open_one(const char *options)
{
	ck_assert_int_eq(open_opencl(options), 0);
	be_write(folder, "k.cl", kernels);
	real = cl;
	cl.Finish = finish;
	cl.WaitForEvents = wait_for_events;
	cl.GetEventInfo = event_info;
	cl.EnqueueNDRangeKernel = enqueue_kernel;
	cl.EnqueueReadBuffer = enqueue_read;
	cl.EnqueueWriteBuffer = enqueue_write;
	cl.EnqueueCopyBuffer = enqueue_copy;
	if (real.EnqueueMigrateMemObjects)
		cl.EnqueueMigrateMemObjects = enqueue_migrate;
	cl.CreateContext = create_context;
	return devices_at(devices, 0);
}

static void *load(struct device *dev, const char *symbol, const char *signature)
{
	void *k;

	ck_assert_int_eq(load_from(dev, "k.cl", symbol, signature, &k), 0);
	return k;
}

static const char *const memories[] = { "", "\"zero-copy=no\"" };

static struct arax_launch_range put(struct device *dev, int32_t *x)
{
	uint64_t a = (uintptr_t)x;

	if (dev->info.memory) {
		ck_assert_int_eq(device_alloc(dev, 4, 0, &a), 0);
		ck_assert_int_eq(device_copy_in(dev, 0, a, x, 4), 0);
	}
	return (struct arax_launch_range){ (void *)(uintptr_t)a, 4, 0, 1 };
}

static void take(struct device *dev, struct arax_launch_range r, int32_t *x)
{
	if (!dev->info.memory)
		return;
	ck_assert_int_eq(device_copy_out(dev, 0, x, (uintptr_t)r.data, 4), 0);
	device_free(dev, (uintptr_t)r.data);
}

struct job {
	struct arax_launch l;
	struct arax_backend_run run;
};

static struct arax_backend_run *fill(struct job *j, void *kernel, uint32_t lane,
				     const struct arax_launch_range *r)
{
	j->l = (struct arax_launch){
		.size = sizeof(j->l), .nr_ranges = 1, .grid = { 1, 1, 1 }, .block = { 1, 1, 1 },
		.group_end = 1, .ranges = r,
	};
	j->run = (struct arax_backend_run){ .size = sizeof(j->run), .lane = lane, .kernel = kernel,
					    .launch = &j->l, .name = "test" };
	return &j->run;
}

static void assert_whole(struct device *dev, void *inc, void *fail)
{
	const int32_t codes[] = { 0, -EINVAL };
	int32_t x = 5;
	struct arax_launch_range r = put(dev, &x);

	for (uint32_t lane = 0; lane < dev->info.lanes; lane++) {
		ck_assert_int_eq(launch(dev, inc, lane, 1, 1, &r, 1, NULL, 0), 0);
		for (int i = 0; i < 2; i++)
			ck_assert_int_eq(launch(dev, fail, lane, 1, 1, &r, 1, &codes[i], 4), codes[i]);
	}
	take(dev, r, &x);
	ck_assert_int_eq(x, 5 + 3 * (int32_t)dev->info.lanes);
}

/* In a new context it is as it was; the last that is done with both kernels. */
static void assert_back(struct device *dev, void *inc, void *fail)
{
	ck_assert_int_eq(device_reset(dev), 0);
	assert_whole(dev, inc, fail);
	device_kernel_unload(dev, inc);
	device_kernel_unload(dev, fail);
}

static void assert_lost(struct device *dev, void *inc, const struct arax_launch_range *r)
{
	uint64_t a;
	char byte;
	struct job j;
	void *k;

	fill(&j, inc, 0, r);
	ck_assert_int_eq(device_run(dev, &j.run), -ENODEV);
	/* It did not begin. */
	ck_assert_uint_eq(j.run.alone, 0);
	ck_assert_int_eq(device_submit(dev, &j.run, 1), -ENODEV);
	ck_assert_int_eq(load_from(dev, "k.cl", INC, &k), -ENODEV);
	if (!dev->info.memory)
		return;
	ck_assert_int_eq(device_alloc(dev, 4, 0, &a), -ENODEV);
	ck_assert_int_eq(device_copy_out(dev, 0, &byte, (uintptr_t)r->data, 1), -ENODEV);
	ck_assert_int_eq(device_copy_in(dev, 0, (uintptr_t)r->data, &byte, 1), -ENODEV);
}

/* ------------------------------------------------------------------ */

/* What drivers say of a context that broke: that it is no more, or at first what may mean anything. */
static const cl_int says[] = { CL_INVALID_COMMAND_QUEUE, CL_OUT_OF_RESOURCES, -9999 };

#define NR_SAYS ((int)(sizeof(says) / sizeof(says[0])))

START_TEST(lost_and_had_again)
{
	struct device *dev = open_one(memories[_i / NR_SAYS]);
	void *inc = load(dev, INC), *fail = load(dev, FAIL);
	int32_t x = 0;
	struct arax_launch_range r = put(dev, &x);
	struct job j;
	char byte;

	for (int turn = 0; turn < 2; turn++) {
		take_log();
		break_at(1, says[_i % NR_SAYS]);
		fill(&j, inc, 1, &r);
		ck_assert_int_eq(device_run(dev, &j.run), -ENODEV);
		ck_assert_uint_eq(j.run.alone, 1);
		assert_logged("is lost: ");
		assert_lost(dev, inc, &r);
		ck_assert(device_can_reset(dev));
		ck_assert_int_eq(device_reset(dev), 0);
		assert_logged("has a new context");
		/* What was in its memory is gone. */
		if (dev->info.memory)
			ck_assert_int_eq(device_copy_out(dev, 0, &byte, (uintptr_t)r.data, 1), -EFAULT);
		assert_whole(dev, inc, fail);
		r = put(dev, &x);
	}
	device_kernel_unload(dev, inc);
	device_kernel_unload(dev, fail);
}
END_TEST

/* An error of one launch, after which all else goes on. */
START_TEST(an_error_that_is_no_loss)
{
	struct device *dev = open_one(memories[_i]);
	void *inc = load(dev, INC), *fail = load(dev, FAIL);
	int32_t x = 0;
	struct arax_launch_range r = put(dev, &x);

	refuses = true;
	broken = CL_OUT_OF_RESOURCES;
	cl.Finish = real.Finish;
	ck_assert_int_eq(launch(dev, inc, 0, 1, 1, &r, 1, NULL, 0), -ENOMEM);
	broken = 0;
	assert_whole(dev, inc, fail);
	device_kernel_unload(dev, inc);
	device_kernel_unload(dev, fail);
}
END_TEST

/* What the kernel of a launch has stored that failed otherwise is not the next one's result. */
START_TEST(a_result_that_nobody_saw)
{
	const int32_t none = 0, wrong = -EINVAL;
	struct device *dev = open_one(memories[_i]);
	void *fail = load(dev, FAIL);
	int32_t x = 0;
	struct arax_launch_range r = put(dev, &x);

	fails_once = true;
	ck_assert_int_eq(launch(dev, fail, 0, 1, 1, &r, 1, &wrong, 4), -ENOMEM);
	ck_assert_int_eq(launch(dev, fail, 0, 1, 1, &r, 1, &none, 4), 0);
	ck_assert_int_eq(launch(dev, fail, 0, 1, 1, &r, 1, &wrong, 4), -EINVAL);
	ck_assert_int_eq(launch(dev, fail, 0, 1, 1, &r, 1, &none, 4), 0);
	take(dev, r, &x);
	ck_assert_int_eq(x, 4);
	device_kernel_unload(dev, fail);
}
END_TEST

/* Of which the queue's end tells nothing. */
START_TEST(copies_that_fail)
{
	struct device *dev = open_one("\"zero-copy=no\"");
	int32_t x = 5, y = 0;
	uint64_t a, b;

	ck_assert_int_eq(device_alloc(dev, sizeof(x), 0, &a), 0);
	ck_assert_int_eq(device_alloc(dev, sizeof(x), 0, &b), 0);
	copies_left = 1;
	ck_assert_int_eq(device_copy_in(dev, 0, a, &x, sizeof(x)), -EIO);
	ck_assert_int_eq(device_copy_in(dev, 0, a, &x, sizeof(x)), 0);
	copies_left = 1;
	ck_assert_int_eq(device_copy_peer(dev, b, dev, a, sizeof(x)), -EIO);
	ck_assert_int_eq(device_copy_peer(dev, b, dev, a, sizeof(x)), 0);
	copies_left = 1;
	ck_assert_int_eq(device_copy_out(dev, 0, &y, b, sizeof(y)), -EIO);
	ck_assert_int_eq(device_copy_out(dev, 0, &y, b, sizeof(y)), 0);
	ck_assert_int_eq(y, 5);
	device_free(dev, a);
	device_free(dev, b);
}
END_TEST

/* The next launch: @asks for its end fail. */
static void hold_next(int asks)
{
	holds = true;
	asks_left = asks;
}

static int run_or_submit(struct device *dev, struct job *j, bool submit)
{
	struct arax_backend_done done;
	int err = submit ? device_submit(dev, &j->run, 7) : device_run(dev, &j->run);

	if (!submit || err)
		return err;
	ck_assert_int_eq(device_wait(dev, 0, &done), 0);
	j->run.alone = done.flags & ARAX_DONE_ALONE;
	return done.result;
}

/* What it works on is somebody else's when its error has been told. */
START_TEST(no_error_before_its_end)
{
	struct device *dev = open_one(memories[_i / 2]);
	void *inc = load(dev, INC);
	int32_t x = 0;
	struct arax_launch_range r = put(dev, &x);
	struct job j;

	hold_next(1);
	fill(&j, inc, 0, &r);
	ck_assert_int_eq(run_or_submit(dev, &j, _i % 2), -ENOMEM);
	ck_assert_ptr_null(held);
	take(dev, r, &x);
	ck_assert_int_eq(x, 1);
	device_kernel_unload(dev, inc);
}
END_TEST

/* Where no buffer may begin: its range on its way there, and back, and its result. */
START_TEST(copies_of_a_launch_that_fail)
{
	const int32_t none = 0, zero[2] = { 0 };
	int32_t got[2];
	struct device *dev = open_one("\"zero-copy=no\"");
	void *fail = load(dev, FAIL);
	struct arax_launch_range r;
	struct job j;
	uint64_t a;

	ck_assert_int_eq(device_alloc(dev, sizeof(zero), 0, &a), 0);
	ck_assert_int_eq(device_copy_in(dev, 0, a, zero, sizeof(zero)), 0);
	r = (struct arax_launch_range){ (void *)(uintptr_t)(a + 4), 4, 0, 1 };
	fill(&j, fail, 0, &r);
	j.l.args = &none;
	j.l.arg_len = 4;
	for (int nth = 1; nth <= 3; nth++) {
		copies_left = nth;
		launched = 0;
		ck_assert_int_eq(run_or_submit(dev, &j, _i), -EIO);
		ck_assert_int_eq(copies_left, 0);
		/* No kernel has seen what did not come, nor does anything come back of it. */
		ck_assert_int_eq(launched, nth > 1 ? 1 : 0);
		ck_assert_int_eq(device_copy_out(dev, 0, got, a, sizeof(got)), 0);
		ck_assert(nth > 1 || !memcmp(got, zero, sizeof(got)));
		ck_assert_int_eq(run_or_submit(dev, &j, _i), 0);
	}
	device_free(dev, a);
	device_kernel_unload(dev, fail);
}
END_TEST

START_TEST(lost_by_one_without_an_end)
{
	struct device *dev = open_one(memories[_i / 2]);
	void *inc = load(dev, INC), *fail = load(dev, FAIL);
	int32_t x = 0;
	struct arax_launch_range r = put(dev, &x);
	struct job j;

	hold_next(100);
	fill(&j, inc, 0, &r);
	take_log();
	ck_assert_int_eq(run_or_submit(dev, &j, _i % 2), -ENODEV);
	ck_assert_uint_ne(j.run.alone, 0);
	assert_logged("has no end");
	assert_lost(dev, inc, &r);
	/* Drivers do so when their context goes. */
	let_go();
	ck_assert_int_eq(real.Finish(held_at), 0);
	assert_back(dev, inc, fail);
}
END_TEST

START_TEST(lost_by_one_that_was_submitted)
{
	struct device *dev = open_one(memories[_i / 2]);
	void *inc = load(dev, INC), *fail = load(dev, FAIL);
	int32_t x = 0;
	struct arax_launch_range r = put(dev, &x);
	struct arax_backend_done done;
	struct job j;

	/* As it runs, or as it is handed over. */
	refuses = _i % 2;
	break_at(1, CL_OUT_OF_RESOURCES);
	fill(&j, inc, 0, &r);
	ck_assert_int_eq(device_submit(dev, &j.run, 7), 0);
	ck_assert_int_eq(device_wait(dev, 0, &done), 0);
	ck_assert_uint_eq(done.cookie, 7);
	ck_assert_int_eq(done.result, -ENODEV);
	ck_assert_uint_eq(done.flags, ARAX_DONE_ALONE);
	ck_assert_int_eq(device_wait(dev, 0, &done), -ENOENT);
	assert_lost(dev, inc, &r);
	assert_back(dev, inc, fail);
}
END_TEST

/* Of several nobody knows whose fault it is. */
START_TEST(lost_in_company)
{
	struct device *dev = open_one(memories[_i]);
	void *inc = load(dev, INC), *fail = load(dev, FAIL);
	int32_t x[2] = { 0 };
	struct arax_launch_range r[2] = { put(dev, &x[0]), put(dev, &x[1]) };
	struct arax_backend_done done;
	struct job j;

	break_at(2, CL_OUT_OF_RESOURCES);
	for (uint32_t i = 0; i < 2; i++) {
		fill(&j, inc, i, &r[i]);
		ck_assert_int_eq(device_submit(dev, &j.run, i), 0);
	}
	ck_assert_int_eq(device_reset(dev), -EBUSY);
	for (uint32_t i = 0; i < 2; i++) {
		ck_assert_int_eq(device_wait(dev, i, &done), 0);
		ck_assert_int_eq(done.result, -ENODEV);
		ck_assert_uint_eq(done.flags, 0);
	}
	assert_back(dev, inc, fail);
}
END_TEST

/* A copy is the first to see it: it is the launch's fault all the same. */
START_TEST(lost_as_a_copy_sees)
{
	struct device *dev = open_one("\"zero-copy=no\"");
	void *inc = load(dev, INC), *fail = load(dev, FAIL);
	int32_t x = 0;
	struct arax_launch_range r = put(dev, &x);
	struct arax_backend_done done;
	struct job j;
	char byte;

	break_at(1, CL_OUT_OF_RESOURCES);
	fill(&j, inc, 0, &r);
	ck_assert_int_eq(device_submit(dev, &j.run, 7), 0);
	ck_assert_int_eq(device_copy_out(dev, 1, &byte, (uintptr_t)r.data, 1), -ENODEV);
	ck_assert_int_eq(device_wait(dev, 0, &done), 0);
	ck_assert_int_eq(done.result, -ENODEV);
	ck_assert_uint_eq(done.flags, ARAX_DONE_ALONE);
	assert_back(dev, inc, fail);
}
END_TEST

/* What comes behind the kernel is the first to see it. */
START_TEST(lost_as_a_result_is_fetched)
{
	const int32_t none = 0;
	struct device *dev = open_one("\"zero-copy=no\"");
	void *inc = load(dev, INC), *fail = load(dev, FAIL);
	int32_t x = 0;
	struct arax_launch_range r = put(dev, &x);
	struct job j;

	break_at(1, says[_i]);
	fill(&j, fail, 0, &r);
	j.l.args = &none;
	j.l.arg_len = 4;
	ck_assert_int_eq(device_run(dev, &j.run), -ENODEV);
	ck_assert_uint_eq(j.run.alone, 1);
	assert_lost(dev, inc, &r);
	assert_back(dev, inc, fail);
}
END_TEST

/* Whoever sees it before its own kernel has begun is not to blame. */
enum seer { SEEN_BY_RESULT, SEEN_BY_RANGE, SEEN_BY_ALLOC, NR_SEERS };

START_TEST(lost_before)
{
	const int32_t none = 0;
	struct device *dev = open_one("\"zero-copy=no\"");
	void *inc = load(dev, INC), *fail = load(dev, FAIL);
	int32_t x[2] = { 0 };
	uint64_t a;
	struct arax_launch_range r;
	struct job j;

	ck_assert_int_eq(device_alloc(dev, sizeof(x), 0, &a), 0);
	ck_assert_int_eq(device_copy_in(dev, 0, a, x, sizeof(x)), 0);
	r = (struct arax_launch_range){ (void *)(uintptr_t)a, 4, 0, 1 };
	fill(&j, fail, 0, &r);
	j.l.args = &none;
	j.l.arg_len = 4;
	if (_i % NR_SEERS == SEEN_BY_RESULT) {
		fails_once = true;
		/* What it has stored is to be cleared. */
		ck_assert_int_eq(device_run(dev, &j.run), -ENOMEM);
	} else if (_i % NR_SEERS == SEEN_BY_RANGE) {
		/* No buffer begins there. */
		r.data = (char *)r.data + 4;
	}
	broken = says[_i / NR_SEERS];
	if (_i % NR_SEERS == SEEN_BY_ALLOC) {
		ck_assert_int_eq(device_alloc(dev, 4, 0, &a), -ENODEV);
	} else {
		ck_assert_int_eq(device_run(dev, &j.run), -ENODEV);
		ck_assert_uint_eq(j.run.alone, 0);
	}
	assert_lost(dev, inc, &r);
	assert_back(dev, inc, fail);
}
END_TEST

/* It is as lost as it was; and may be had later. */
START_TEST(no_new_context)
{
	struct device *dev = open_one(memories[_i]);
	void *inc = load(dev, INC), *fail = load(dev, FAIL), *other = load(dev, INC);
	int32_t x = 0;
	struct arax_launch_range r = put(dev, &x);

	break_at(1, CL_INVALID_CONTEXT);
	ck_assert_int_eq(launch(dev, inc, 0, 1, 1, &r, 1, NULL, 0), -ENODEV);
	contexts_refused = 2;
	for (int i = 0; i < 2; i++) {
		ck_assert_int_eq(device_reset(dev), -ENODEV);
		assert_logged("no new context");
		assert_lost(dev, inc, &r);
	}
	device_kernel_unload(dev, other);
	assert_back(dev, inc, fail);
}
END_TEST

static cl_kernel CL_API_CALL no_kernel(cl_program program, const char *name, cl_int *err)
{
	(void)program;
	(void)name;
	*err = CL_OUT_OF_HOST_MEMORY;
	return NULL;
}

/* Compiled here, as nobody else can be asked, but there is no list of kernels. */
START_TEST(no_program_in_a_new_context)
{
	struct device *dev = open_one("\"cache=no\"");
	void *inc = load(dev, INC), *fail = load(dev, FAIL);

	compiler_stop();
	cl.CreateKernel = no_kernel;
	for (int i = 0; i < 2; i++)
		ck_assert_int_eq(device_reset(dev), -ENODEV);
	cl.CreateKernel = real.CreateKernel;
	assert_back(dev, inc, fail);
}
END_TEST

static struct {
	void (CL_CALLBACK *tell)(cl_event event, cl_int status, void *arg);
	void *arg;
} kept_back;

static cl_int CL_API_CALL keep_back(cl_event event, cl_int status,
				    void(CL_CALLBACK *tell)(cl_event, cl_int, void *), void *arg)
{
	(void)event;
	(void)status;
	kept_back.tell = tell;
	kept_back.arg = arg;
	return CL_SUCCESS;
}

/* A driver that has yet to call back would do so with what is another context's then. */
START_TEST(no_new_context_before_it_has_called_back)
{
	struct device *dev = open_one("");
	void *inc = load(dev, INC), *fail = load(dev, FAIL);
	int32_t x = 0;
	struct arax_launch_range r = put(dev, &x);
	struct arax_backend_done done;
	struct job j;

	if (!device_follows(dev)) {
		be_skip("no_new_context_before_it_has_called_back",
			"this driver's launches can't wait for each other's success");
		device_kernel_unload(dev, inc);
		device_kernel_unload(dev, fail);
		return;
	}
	cl.SetEventCallback = keep_back;
	fill(&j, inc, 0, &r);
	for (uint32_t i = 0; i < 2; i++) {
		j.run.after = i;
		ck_assert_int_eq(device_submit(dev, &j.run, i), 0);
	}
	for (int i = 0; i < 2; i++) {
		ck_assert_int_eq(device_wait(dev, 0, &done), 0);
		ck_assert_int_eq(done.result, 0);
	}
	take_log();
	ck_assert_int_eq(device_reset(dev), -ENODEV);
	assert_logged("did not tell of 1 ends: it gets no new context");
	kept_back.tell(NULL, CL_COMPLETE, kept_back.arg);
	ck_assert_int_eq(device_reset(dev), 0);
	cl.SetEventCallback = real.SetEventCallback;
	assert_whole(dev, inc, fail);
	device_kernel_unload(dev, inc);
	device_kernel_unload(dev, fail);
}
END_TEST

START_TEST(one_at_a_time_afterwards)
{
	struct device *dev = open_one(memories[_i]);
	void *inc = load(dev, INC);
	int32_t x = 0;
	struct arax_launch_range r;
	struct arax_backend_done done;
	struct job j;

	/* What was not lost can be had anew as well. */
	ck_assert_int_eq(device_reset(dev), 0);
	r = put(dev, &x);
	fill(&j, inc, 0, &r);
	for (int i = 0; i < OPENCL_CAREFUL; i++) {
		ck_assert_int_eq(device_submit(dev, &j.run, 1), -EAGAIN);
		ck_assert_int_eq(device_run(dev, &j.run), 0);
	}
	ck_assert_int_eq(device_submit(dev, &j.run, 1), 0);
	ck_assert_int_eq(device_wait(dev, 0, &done), 0);
	ck_assert_int_eq(done.result, 0);
	take(dev, r, &x);
	ck_assert_int_eq(x, OPENCL_CAREFUL + 1);
	device_kernel_unload(dev, inc);
}
END_TEST

/* One part of a device: the other one has its context still, and none in common with it. */
START_TEST(a_part_of_a_device)
{
	struct device *dev = open_one("\"sub-devices=2\", \"zero-copy=no\"");
	struct device *other = devices_at(devices, 1);
	void *inc[2], *fail[2];
	uint64_t a, b;

	if (!other) {
		be_skip("a_part_of_a_device", "the OpenCL device has one unit, or can't be divided");
		return;
	}
	for (uint32_t i = 0; i < 2; i++) {
		inc[i] = load(devices_at(devices, i), INC);
		fail[i] = load(devices_at(devices, i), FAIL);
	}
	for (uint32_t i = 0; i < 2; i++) {
		ck_assert_int_eq(device_reset(devices_at(devices, i)), 0);
		assert_whole(dev, inc[0], fail[0]);
		assert_whole(other, inc[1], fail[1]);
		ck_assert_int_eq(device_alloc(dev, 4, 0, &a), 0);
		ck_assert_int_eq(device_alloc(other, 4, 0, &b), 0);
		ck_assert_int_eq(device_copy_peer(other, b, dev, a, 4), -EOPNOTSUPP);
		device_free(dev, a);
		device_free(other, b);
	}
	for (uint32_t i = 0; i < 2; i++) {
		device_kernel_unload(devices_at(devices, i), inc[i]);
		device_kernel_unload(devices_at(devices, i), fail[i]);
	}
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("opencl_lost");
	TCase *t = tcase_create("all");

	tcase_set_timeout(t, 120);
	tcase_add_checked_fixture(t, setup, teardown);
	tcase_add_loop_test(t, lost_and_had_again, 0, 2 * NR_SAYS);
	tcase_add_loop_test(t, an_error_that_is_no_loss, 0, 2);
	tcase_add_loop_test(t, a_result_that_nobody_saw, 0, 2);
	tcase_add_test(t, copies_that_fail);
	tcase_add_loop_test(t, no_error_before_its_end, 0, 4);
	tcase_add_loop_test(t, copies_of_a_launch_that_fail, 0, 2);
	tcase_add_loop_test(t, lost_by_one_without_an_end, 0, 4);
	tcase_add_loop_test(t, lost_by_one_that_was_submitted, 0, 4);
	tcase_add_loop_test(t, lost_in_company, 0, 2);
	tcase_add_test(t, lost_as_a_copy_sees);
	tcase_add_loop_test(t, lost_as_a_result_is_fetched, 0, NR_SAYS);
	tcase_add_loop_test(t, lost_before, 0, NR_SEERS * NR_SAYS);
	tcase_add_loop_test(t, no_new_context, 0, 2);
	tcase_add_test(t, no_program_in_a_new_context);
	tcase_add_test(t, no_new_context_before_it_has_called_back);
	tcase_add_loop_test(t, one_at_a_time_afterwards, 0, 2);
	tcase_add_test(t, a_part_of_a_device);
	suite_add_tcase(suite, t);
	return run_opencl(suite);
}
