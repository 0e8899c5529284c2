// SPDX-License-Identifier: MIT
/*
 * daemon_mix - all of it at once, and never a wrong byte
 *
 * Programs on two links, each with tasks of its own that depend on each other, on a core and on
 * small devices with memory: two that bring inputs ahead and take results back behind their lanes,
 * one that is configured for what it runs, and one that takes several launches, so that tasks
 * follow each other there.  Meanwhile tasks are canceled, come too late, wait for timelines and for their
 * tenant's device memory, whose limit goes up and down; launches and copies fail; devices are lost
 * and made anew; and programs go with what they have under way.
 *
 * When a program's tasks have ended it does by itself what those did that succeeded, one after the
 * other as they were submitted: that is what its buffers must hold, but for what failed tasks were
 * to write and what was lost with a device, of which it is told.  And nothing is under way on a device
 * that is made anew or configured, nor left on it.
 *
 * MIX_SEED repeats the draws of its programs; MIX_ROUNDS is how many rounds each makes.
 */
#include <check.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "daemon/backends/device.h"
#include "daemon/dispatch/poller.h"
#include "daemon/memory/memory.h"
#include "selftests/unit/daemon_client.h"
#include "selftests/unit/wait.h"

#define CONF	"loop { inline_us = 4 }\ncpu { groups = { \"0\" } }\n" \
		"backend \"sim\" { options = { \"devices=4\", \"lanes=2\", \"links=4\", \"gb-per-s=4\", " \
		"\"latency-us=2\", \"base-us=50\", \"ns-per-item=0\", \"memory=1048576\" } }\n"

enum { PLAIN, GATED, QUEUED, OTHER, FAKES };

#define PROGRAMS	3u
#define BUFFERS		6u
#define BLOCK		1024u		/* floats, of which something is known together */
#define DEPTH		64u
#define TASKS		60u		/* of a round, at most */
#define KERNELS		3u

static uint64_t seed0;
static __thread uint64_t seed;

static uint64_t chance(uint64_t below)
{
	if (!seed)
		seed = (seed0 + (uint64_t)pthread_self()) * 0x9e3779b97f4a7c15ull | 1;
	seed ^= seed << 13;
	seed ^= seed >> 7;
	seed ^= seed << 17;
	return (seed >> 11) % below;
}

static bool one_in(uint64_t n)
{
	return !chance(n);
}

/* ------------------------------------------------------------------ */
/* Devices                                                             */

struct queued {
	struct arax_backend_run run;
	struct arax_launch launch;
	struct arax_launch_range ranges[ARAX_MAX_RANGES];
	_Alignas(16) uint8_t args[ARAX_MAX_ARGS];
	uint64_t cookie;
};

/**
 * struct fake - a device that has memory of its own
 * @busy:	atomic: launches and copies; @blocks: what is allocated there
 * @lost:	atomic: until it is made anew
 * @configuration: it has
 * @lanes:	their launches, in order; each is its thread's
 */
static struct fake {
	uint32_t busy, blocks;
	bool lost;
	uint32_t configuration;
	struct {
		struct queued of[ARAX_LANE_DEPTH];
		uint32_t first, nr;
	} lanes[2];
} fakes[FAKES];

static struct bench_daemon *d;
static int (*real_run)(void *top, struct arax_backend_run *run);
static uint32_t resets, switches, lossy, failing;

static struct fake *fake_of(const struct device *dev)
{
	return dev->info.kind == ARAX_DEVICE_SIM ? &fakes[dev->backend_index] : NULL;
}

static bool is(const struct device *dev, uint32_t which)
{
	return fake_of(dev) == &fakes[which];
}

static void begin(struct fake *f)
{
	__atomic_add_fetch(&f->busy, 1, __ATOMIC_SEQ_CST);
}

static void end(struct fake *f)
{
	__atomic_sub_fetch(&f->busy, 1, __ATOMIC_SEQ_CST);
}

static bool is_lost(const struct fake *f)
{
	return __atomic_load_n(&f->lost, __ATOMIC_ACQUIRE);
}

static void nothing_is_there(struct fake *f)
{
	ck_assert_uint_eq(__atomic_load_n(&f->busy, __ATOMIC_SEQ_CST), 0);
	ck_assert_uint_eq(__atomic_load_n(&f->blocks, __ATOMIC_SEQ_CST), 0);
}

/* Which configuration kernels need; 0: any will do. */
static struct {
	void *loaded;
	uint32_t configuration;
} kernels[KERNELS];

static uint32_t configuration_of(const void *loaded)
{
	for (uint32_t i = 0; i < KERNELS; i++)
		if (kernels[i].loaded == loaded)
			return kernels[i].configuration;
	return 0;
}

static int launch(const struct device *dev, struct arax_backend_run *run)
{
	struct fake *f = fake_of(dev);
	uint32_t wanted = configuration_of(run->kernel);
	int err;

	ck_assert(!is(dev, GATED) || !wanted || wanted == f->configuration);
	if (lossy && one_in(400))
		__atomic_store_n(&f->lost, true, __ATOMIC_RELEASE);
	run->alone = one_in(8);
	if (is_lost(f))
		return -ENODEV;
	err = real_run(dev->top, run);
	if (failing && one_in(100))
		err = -EIO;
	return is_lost(f) ? -ENODEV : err;
}

static int run(void *top, struct arax_backend_run *run)
{
	struct poller *p = daemon_poller(d);
	const struct device *dev = NULL;
	int err;

	for (uint32_t i = 0; i < p->nr_devs; i++)
		if (p->devs[i].dev->top == top)
			dev = p->devs[i].dev;
	begin(fake_of(dev));
	err = launch(dev, run);
	end(fake_of(dev));
	return err;
}

uint32_t __real_device_depth(const struct device *dev);
uint32_t __wrap_device_depth(const struct device *dev);
uint32_t __wrap_device_depth(const struct device *dev)
{
	return is(dev, QUEUED) ? ARAX_LANE_DEPTH : __real_device_depth(dev);
}

int __wrap_device_submit(struct device *dev, const struct arax_backend_run *run, uint64_t cookie);
int __wrap_device_submit(struct device *dev, const struct arax_backend_run *run, uint64_t cookie)
{
	struct fake *f = fake_of(dev);
	struct queued *q;

	ck_assert_uint_eq(run->after, 0);
	if (f->lanes[run->lane].nr == ARAX_LANE_DEPTH || (!f->lanes[run->lane].nr && one_in(8)))
		return -EAGAIN;
	q = &f->lanes[run->lane].of[(f->lanes[run->lane].first + f->lanes[run->lane].nr++) %
				    ARAX_LANE_DEPTH];
	q->run = *run;
	q->launch = *run->launch;
	memcpy(q->ranges, q->launch.ranges, q->launch.nr_ranges * sizeof(q->ranges[0]));
	memcpy(q->args, q->launch.args, q->launch.arg_len);
	q->launch.ranges = q->ranges;
	q->launch.args = q->args;
	q->run.launch = &q->launch;
	q->cookie = cookie;
	begin(f);
	return 0;
}

int __wrap_device_wait(struct device *dev, uint32_t lane, struct arax_backend_done *done);
int __wrap_device_wait(struct device *dev, uint32_t lane, struct arax_backend_done *done)
{
	struct fake *f = fake_of(dev);
	struct queued *q = &f->lanes[lane].of[f->lanes[lane].first];

	ck_assert_uint_gt(f->lanes[lane].nr, 0);
	f->lanes[lane].first = (f->lanes[lane].first + 1) % ARAX_LANE_DEPTH;
	f->lanes[lane].nr--;
	*done = (struct arax_backend_done){ .cookie = q->cookie };
	done->result = launch(dev, &q->run);
	if (done->result == -ENODEV && q->run.alone)
		done->flags |= ARAX_DONE_ALONE;
	end(f);
	return 0;
}

static int copy_begins(struct device *dev)
{
	struct fake *f = fake_of(dev);

	begin(f);
	if (!d)
		return 0;
	if (lossy && one_in(2000))
		__atomic_store_n(&f->lost, true, __ATOMIC_RELEASE);
	return is_lost(f) ? -ENODEV : failing && one_in(300) ? -EIO : 0;
}

int __real_device_copy_in(struct device *dev, uint32_t lane, uint64_t to, const void *from,
			  uint64_t bytes);
int __wrap_device_copy_in(struct device *dev, uint32_t lane, uint64_t to, const void *from,
			  uint64_t bytes);
int __wrap_device_copy_in(struct device *dev, uint32_t lane, uint64_t to, const void *from,
			  uint64_t bytes)
{
	int err = copy_begins(dev);

	err = err ? err : __real_device_copy_in(dev, lane, to, from, bytes);
	end(fake_of(dev));
	return err;
}

int __real_device_copy_out(struct device *dev, uint32_t lane, void *to, uint64_t from,
			   uint64_t bytes);
int __wrap_device_copy_out(struct device *dev, uint32_t lane, void *to, uint64_t from,
			   uint64_t bytes);
int __wrap_device_copy_out(struct device *dev, uint32_t lane, void *to, uint64_t from,
			   uint64_t bytes)
{
	int err = copy_begins(dev);

	err = err ? err : __real_device_copy_out(dev, lane, to, from, bytes);
	end(fake_of(dev));
	return err;
}

int __real_device_alloc_on(struct device *dev, uint64_t bytes, void *host, uint64_t *address);
int __wrap_device_alloc_on(struct device *dev, uint64_t bytes, void *host, uint64_t *address);
int __wrap_device_alloc_on(struct device *dev, uint64_t bytes, void *host, uint64_t *address)
{
	struct fake *f = fake_of(dev);
	int err = is_lost(f) ? -ENODEV : __real_device_alloc_on(dev, bytes, host, address);

	if (!err)
		__atomic_add_fetch(&f->blocks, 1, __ATOMIC_SEQ_CST);
	return err;
}

int __real_device_alloc(struct device *dev, uint64_t bytes, uint64_t wanted, uint64_t *address);
int __wrap_device_alloc(struct device *dev, uint64_t bytes, uint64_t wanted, uint64_t *address);
int __wrap_device_alloc(struct device *dev, uint64_t bytes, uint64_t wanted, uint64_t *address)
{
	struct fake *f = fake_of(dev);
	int err = d && is_lost(f) ? -ENODEV : __real_device_alloc(dev, bytes, wanted, address);

	/* Links are measured by some before there are tasks. */
	if (d && !err)
		__atomic_add_fetch(&f->blocks, 1, __ATOMIC_SEQ_CST);
	return err;
}

void __real_device_free(struct device *dev, uint64_t address);
void __wrap_device_free(struct device *dev, uint64_t address);
void __wrap_device_free(struct device *dev, uint64_t address)
{
	if (d)
		__atomic_sub_fetch(&fake_of(dev)->blocks, 1, __ATOMIC_SEQ_CST);
	__real_device_free(dev, address);
}

int __real_device_kernel_load(struct device *dev, const struct arax_backend_kernel *k,
			      void **kernel);
int __wrap_device_kernel_load(struct device *dev, const struct arax_backend_kernel *k,
			      void **kernel);
int __wrap_device_kernel_load(struct device *dev, const struct arax_backend_kernel *k,
			      void **kernel)
{
	static const char *const names[KERNELS] = { "saxpy", "square", "transpose" };
	int err = __real_device_kernel_load(dev, k, kernel);

	for (uint32_t i = 0; !err && fake_of(dev) && is(dev, GATED) && i < KERNELS; i++)
		if (strstr(k->symbol, names[i])) {
			kernels[i].loaded = *kernel;
			kernels[i].configuration = i < 2 ? i + 1 : 0;
		}
	return err;
}

bool __wrap_device_is_configured(const struct device *dev);
bool __wrap_device_is_configured(const struct device *dev)
{
	return is(dev, GATED);
}

uint32_t __wrap_device_configuration(struct device *dev, void *kernel);
uint32_t __wrap_device_configuration(struct device *dev, void *kernel)
{
	(void)dev;
	return configuration_of(kernel);
}

uint64_t __wrap_device_switch_ns(struct device *dev, void *kernel);
uint64_t __wrap_device_switch_ns(struct device *dev, void *kernel)
{
	uint32_t wanted = configuration_of(kernel);
	const struct fake *f = fake_of(dev);

	if (!wanted || __atomic_load_n(&f->configuration, __ATOMIC_RELAXED) == wanted)
		return 0;
	return 500000;
}

int __wrap_device_configure(struct device *dev, void *kernel);
int __wrap_device_configure(struct device *dev, void *kernel)
{
	struct fake *f = fake_of(dev);

	nothing_is_there(f);
	__atomic_store_n(&f->configuration, 0, __ATOMIC_RELAXED);
	usleep((useconds_t)chance(500));
	nothing_is_there(f);
	__atomic_add_fetch(&switches, 1, __ATOMIC_RELAXED);
	if (is_lost(f))
		return -ENODEV;
	if (failing && one_in(50))
		return -EIO;
	__atomic_store_n(&f->configuration, configuration_of(kernel), __ATOMIC_RELAXED);
	return 0;
}

void __wrap_device_refresh(struct device *dev);
void __wrap_device_refresh(struct device *dev)
{
	dev->info.lanes = 1 + (uint32_t)chance(2);
}

bool __wrap_device_can_reset(const struct device *dev);
bool __wrap_device_can_reset(const struct device *dev)
{
	/* It is lost all the time, and never given up. */
	daemon_poller(d)->devs[dev->index].hasty = 0;
	return true;
}

int __wrap_device_reset(struct device *dev);
int __wrap_device_reset(struct device *dev)
{
	struct fake *f = fake_of(dev);

	nothing_is_there(f);
	usleep((useconds_t)chance(3000));
	nothing_is_there(f);
	__atomic_store_n(&f->configuration, 0, __ATOMIC_RELAXED);
	__atomic_add_fetch(&resets, 1, __ATOMIC_RELAXED);
	__atomic_store_n(&f->lost, false, __ATOMIC_RELEASE);
	return 0;
}

/* ------------------------------------------------------------------ */
/* Device memory that tenants may have                                 */

static struct {
	pthread_mutex_t lock;
	int64_t used, max;
} quota = { .lock = PTHREAD_MUTEX_INITIALIZER };

static int charge(void *arg, uint64_t id, int64_t bytes)
{
	int err = 0;

	(void)arg;
	(void)id;
	pthread_mutex_lock(&quota.lock);
	if (bytes > 0 && quota.used + bytes > quota.max)
		err = -EDQUOT;
	else
		quota.used += bytes;
	ck_assert_int_ge(quota.used, 0);
	pthread_mutex_unlock(&quota.lock);
	return err;
}

static uint64_t limit(void *arg, struct memory_owner owner, uint64_t *left)
{
	uint64_t max;

	(void)arg;
	(void)owner;
	pthread_mutex_lock(&quota.lock);
	max = (uint64_t)quota.max;
	if (left)
		*left = quota.used < quota.max ? (uint64_t)(quota.max - quota.used) : 0;
	pthread_mutex_unlock(&quota.lock);
	return max;
}

/* What an administrator and bad luck do. */
static bool over;

static void *trouble(void *arg)
{
	static const int64_t most[] = { 128 << 10, 300 << 10, 500 << 10, 1 << 20, INT64_MAX };

	(void)arg;
	while (!__atomic_load_n(&over, __ATOMIC_ACQUIRE)) {
		pthread_mutex_lock(&quota.lock);
		quota.max = most[chance(5)];
		pthread_mutex_unlock(&quota.lock);
		if (lossy && one_in(30))
			__atomic_store_n(&fakes[chance(FAKES)].lost, true, __ATOMIC_RELEASE);
		usleep((useconds_t)chance(4000));
	}
	return NULL;
}

/* ------------------------------------------------------------------ */
/* Programs                                                            */

static const uint32_t blocks[BUFFERS] = { 1, 4, 16, 48, 24, 16 };	/* 4 to 192 KiB */

enum what { SAXPY, SQUARE, TRANSPOSE, COPY, FILL };

/**
 * struct step - a task, as its program knows it
 * @in, @out:	buffers, and where in them: blocks
 * @canceled:	its program wanted it to be
 */
struct step {
	enum what what;
	uint32_t in, out, in_at, out_at, n;
	float value;
	bool canceled, ended;
	int32_t result;
};

struct program {
	uint32_t number;
	struct client c;
	uint32_t ids[KERNELS], queues[3], timeline;
	uint64_t value;
	uint32_t known;
	uint32_t buffers[BUFFERS];
	float *data[BUFFERS];
	float *model[BUFFERS];
	bool sure[BUFFERS][64];		/* of each block, whether the model has it */
	uint32_t nr, ended;
	struct step steps[TASKS];
	uint64_t done, failed;
};

static bool is_explicit(uint32_t buffer)
{
	return buffer & 1;
}

static float some_value(void)
{
	return (float)(1 + chance(1000));
}

static uint64_t bytes_of(uint32_t nr)
{
	return (uint64_t)nr * BLOCK * sizeof(float);
}

static uint32_t buffer(struct program *p, uint32_t i)
{
	struct arax_buffer_create a = {
		.size = sizeof(a), .bytes = bytes_of(blocks[i]), .fd = 0,
		.flags = is_explicit(i) ? ARAX_BUFFER_EXPLICIT : 0,
	};
	int fd = memfd_sealed(a.bytes, SEALS);

	ck_assert_int_eq(client_call(&p->c, ARAX_NR_BUFFER_CREATE, &a, sizeof(a), &fd, 1, NULL), 0);
	p->data[i] = mmap(NULL, bytes_of(blocks[i]), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	ck_assert_ptr_ne(p->data[i], MAP_FAILED);
	close(fd);
	return a.handle;
}

static void write_all(struct program *p, uint32_t i)
{
	for (uint32_t k = 0; k < blocks[i] * BLOCK; k++)
		p->model[i][k] = (float)((k * 7 + chance(1000)) % 1000 + 1);
	memcpy(p->data[i], p->model[i], bytes_of(blocks[i]));
	for (uint32_t b = 0; b < blocks[i]; b++)
		p->sure[i][b] = true;
}

static void open_program(struct program *p)
{
	static const char *const names[KERNELS] = { "saxpy", "square", "transpose_f32" };
	struct arax_timeline_create tc = { .size = sizeof(tc) };

	client_open(&p->c, p->number & 1 ? daemon_second_path(d) : daemon_path(d));
	ck_assert_int_eq(client_init(&p->c, DEPTH), 0);
	for (uint32_t i = 0; i < KERNELS; i++) {
		struct arax_kernel_lookup k = { .size = sizeof(k) };

		strcpy(k.name, names[i]);
		ck_assert_int_eq(CALL(&p->c, ARAX_NR_KERNEL_LOOKUP, &k), 0);
		p->ids[i] = k.id;
	}
	p->queues[0] = client_queue(&p->c, ARAX_QUEUE_DATAFLOW);
	p->queues[1] = client_queue(&p->c, ARAX_QUEUE_DATAFLOW | ARAX_QUEUE_CONTINUE);
	p->queues[2] = client_queue(&p->c, 0);
	ck_assert_int_eq(CALL(&p->c, ARAX_NR_TIMELINE_CREATE, &tc), 0);
	p->timeline = tc.handle;
	p->value = 0;
	p->known = 0;
	p->nr = 0;
	p->ended = 0;
	for (uint32_t i = 0; i < BUFFERS; i++) {
		p->buffers[i] = buffer(p, i);
		write_all(p, i);
	}
}

static void close_program(struct program *p)
{
	client_close(&p->c);
	for (uint32_t i = 0; i < BUFFERS; i++)
		munmap(p->data[i], bytes_of(blocks[i]));
}

static struct arax_range part(struct program *p, uint32_t of, uint32_t at, uint32_t nr,
			      uint32_t access)
{
	struct arax_range r = whole(p->buffers[of], access, bytes_of(nr));

	r.offset = bytes_of(at);
	return r;
}

static void choose(struct step *s)
{
	uint32_t most;

	*s = (struct step){
		.what = (enum what)chance(5), .in = (uint32_t)chance(BUFFERS),
		.value = some_value(),
	};
	do
		s->out = (uint32_t)chance(BUFFERS);
	while (s->out == s->in);
	most = blocks[s->out];
	if (s->what != FILL && blocks[s->in] < most)
		most = blocks[s->in];
	/* All of it, mostly: what is long is copied beside others. */
	s->n = one_in(3) ? 1 + (uint32_t)chance(most) : most;
	if (s->n < blocks[s->in])
		s->in_at = (uint32_t)chance(blocks[s->in] - s->n + 1);
	s->out_at = (uint32_t)chance(blocks[s->out] - s->n + 1);
}

static void describe(struct program *p, struct arax_task *t, const struct step *s)
{
	static const uint8_t opcodes[] = {
		ARAX_OP_LAUNCH, ARAX_OP_LAUNCH, ARAX_OP_LAUNCH, ARAX_OP_COPY, ARAX_OP_FILL,
	};
	uint32_t n = s->n * BLOCK;
	struct { float s; uint32_t n; } scaled = { 1, n };
	uint32_t sides[2] = { 32, n / 32 };

	t->opcode = opcodes[s->what];
	if (s->what < COPY) {
		t->kernel = p->ids[s->what];
		t->grid[0] = n / 64;
		t->block[0] = 64;
		for (int i = 1; i < 3; i++) {
			t->grid[i] = 1;
			t->block[i] = 1;
		}
	}
	t->ranges[0] = part(p, s->in, s->in_at, s->n, ARAX_IN);
	t->ranges[1] = part(p, s->out, s->out_at, s->n, s->what == SAXPY ? ARAX_INOUT : ARAX_OUT);
	t->nr_ranges = 2;
	if (s->what == FILL) {
		t->ranges[0] = t->ranges[1];
		t->nr_ranges = 1;
		memcpy(t->args, &s->value, 4);
		t->arg_len = 4;
	} else if (s->what == SAXPY) {
		memcpy(t->args, &scaled, 8);
		t->arg_len = 8;
	} else if (s->what == SQUARE) {
		memcpy(t->args, &n, 4);
		t->arg_len = 4;
	} else if (s->what == TRANSPOSE) {
		memcpy(t->args, sides, 8);
		t->arg_len = 8;
	}
}

/* By when it is to begin, or what it waits for. */
static void extend(struct program *p, struct arax_task *t, uint32_t slot)
{
	struct arax_task_ext *x = (void *)(p->c.region + p->c.layout.arena_offset +
					   (size_t)slot * sizeof(*x));

	*x = (struct arax_task_ext){ .size = sizeof(*x), .known = p->known };
	if (one_in(2))
		x->deadline_ns = wait_now_ns() + chance(20000000);
	if (one_in(2)) {
		x->wait_timeline = p->timeline;
		x->wait_value = p->value + chance(2);
	}
	t->flags |= ARAX_TASK_EXT;
	t->ext = slot * (uint32_t)sizeof(*x);
}

static void submit(struct program *p)
{
	struct step *s = &p->steps[p->nr];
	struct arax_task *t = client_entry(&p->c);

	choose(s);
	describe(p, t, s);
	t->user_data = p->nr++;
	t->queue = p->queues[chance(8) ? chance(2) : 2];
	t->flags |= one_in(4) ? ARAX_TASK_IDEMPOTENT : 0;
	t->flags |= one_in(32) ? ARAX_TASK_BARRIER : 0;
	t->known = p->known;
	if (one_in(8))
		extend(p, t, p->c.sq_tail % DEPTH);
	client_publish(&p->c);
}

static void cancel_some(struct program *p)
{
	struct arax_cancel cn = { .size = sizeof(cn), .user_data = chance(p->nr) };

	if (one_in(4)) {
		cn.flags = ARAX_CANCEL_QUEUE;
		cn.queue = p->queues[chance(3)];
		cn.user_data = 0;
		for (uint32_t i = 0; i < p->nr; i++)
			p->steps[i].canceled = true;
	} else {
		p->steps[cn.user_data].canceled = true;
	}
	ck_assert_int_eq(CALL(&p->c, ARAX_NR_CANCEL, &cn), 0);
}

static void advance(struct program *p)
{
	struct arax_timeline_point point = {
		.size = sizeof(point), .handle = p->timeline, .value = ++p->value,
	};

	ck_assert_int_eq(CALL(&p->c, ARAX_NR_TIMELINE_ADVANCE, &point), 0);
}

static void next_end(struct program *p, struct arax_completion *done)
{
	if (!client_completion(&p->c, done)) {
		daemon_show(d);
		ck_abort_msg("program %u is stuck: %u of %u tasks ended", p->number, p->ended,
			     p->nr);
	}
	if (done->failure)
		p->known = done->failure;
}

static void reap(struct program *p)
{
	struct arax_completion done;
	struct step *s;

	while (p->ended < p->nr) {
		next_end(p, &done);
		ck_assert_uint_lt(done.user_data, p->nr);
		s = &p->steps[done.user_data];
		ck_assert(!s->ended);
		s->ended = true;
		s->result = done.result;
		p->ended++;
		switch (done.result) {
		case 0:
			p->done++;
			break;
		case -ECANCELED:
		case -ETIMEDOUT:
		case -EDQUOT:
			break;
		case -EIO:
			ck_assert(failing || lossy);
			break;
		case -ENODEV:
			ck_assert(lossy);
			break;
		default:
			ck_abort_msg("task ended with %d", done.result);
		}
		p->failed += !!done.result;
	}
}

static bool are_sure(const struct program *p, uint32_t of, uint32_t at, uint32_t nr)
{
	bool sure = true;

	for (uint32_t i = 0; i < nr; i++)
		sure &= p->sure[of][at + i];
	return sure;
}

/* It succeeded. */
static void compute(struct program *p, const struct step *s)
{
	const float *x = p->model[s->in] + s->in_at * BLOCK;
	float *y = p->model[s->out] + s->out_at * BLOCK;
	uint32_t n = s->n * BLOCK;
	bool all = s->what == FILL || are_sure(p, s->in, s->in_at, s->n);

	for (uint32_t i = 0; i < n; i++)
		switch (s->what) {
		case SAXPY:
			y[i] += x[i];
			break;
		case SQUARE:
			y[i] = x[i] * x[i];
			break;
		case TRANSPOSE:
			y[i] = x[i % 32 * (n / 32) + i / 32];
			break;
		case COPY:
			y[i] = x[i];
			break;
		case FILL:
			y[i] = s->value;
			break;
		}
	for (uint32_t b = 0; b < s->n; b++) {
		bool *sure = &p->sure[s->out][s->out_at + b];

		if (s->what == TRANSPOSE)
			*sure = all;
		else if (s->what == SAXPY)
			*sure &= p->sure[s->in][s->in_at + b];
		else
			*sure = s->what == FILL || p->sure[s->in][s->in_at + b];
	}
}

static void follow(struct program *p)
{
	for (uint32_t i = 0; i < p->nr; i++) {
		const struct step *s = &p->steps[i];

		if (!s->result) {
			compute(p, s);
			continue;
		}
		/* For one that failed before it. */
		if (s->result == -ECANCELED && !s->canceled)
			continue;
		/* Not begun; but it may have on a lost device, before it was to go elsewhere. */
		if (!lossy && (s->result == -ETIMEDOUT || s->result == -EDQUOT ||
			       s->result == -ECANCELED))
			continue;
		for (uint32_t b = 0; b < s->n; b++)
			p->sure[s->out][s->out_at + b] = false;
	}
	p->nr = 0;
	p->ended = 0;
}

/* Before the program touches an explicit buffer. */
static int32_t access_begin(struct program *p, uint32_t i, uint32_t access)
{
	struct arax_completion done;
	struct arax_task *t = client_entry(&p->c);

	t->opcode = ARAX_OP_MARKER;
	t->nr_ranges = 1;
	t->queue = p->queues[1];
	t->known = p->known;
	t->ranges[0] = part(p, i, 0, blocks[i], access);
	client_publish(&p->c);
	next_end(p, &done);
	return done.result;
}

static void look(struct program *p)
{
	for (uint32_t i = 0; i < BUFFERS; i++) {
		bool all = are_sure(p, i, 0, blocks[i]);
		int32_t err = is_explicit(i) ? access_begin(p, i, ARAX_IN) : 0;

		/* It is tried again, if it is not lost. */
		for (int n = 0; err && n < 4; n++)
			err = access_begin(p, i, ARAX_IN);
		ck_assert(!err || (err == -EIO && (lossy || failing || !all)));
		for (uint32_t b = 0; !err && b < blocks[i]; b++)
			if (p->sure[i][b] && memcmp(p->data[i] + b * BLOCK, p->model[i] + b * BLOCK,
						    bytes_of(1)))
				ck_abort_msg("program %u, buffer %u, block %u: wrong bytes",
					     p->number, i, b);
		if (err || !all || one_in(3)) {
			if (is_explicit(i)) {
				err = access_begin(p, i, ARAX_OUT);
				for (int n = 0; err && n < 8; n++)
					err = access_begin(p, i, ARAX_OUT);
				ck_assert_int_eq(err, 0);
			}
			write_all(p, i);
		}
	}
}

static uint64_t rounds;
static uint64_t ran[PROGRAMS], failures[PROGRAMS];

static void *program(void *arg)
{
	struct program *p = calloc(1, sizeof(*p));

	seed = (seed0 + (uintptr_t)arg) * 0x9e3779b97f4a7c15ull | 1;
	p->number = (uint32_t)(uintptr_t)arg;
	for (uint32_t i = 0; i < BUFFERS; i++)
		p->model[i] = calloc(blocks[i] * BLOCK, sizeof(float));
	open_program(p);
	for (uint64_t round = 0; round < rounds; round++) {
		uint32_t n = 1 + (uint32_t)chance(TASKS);

		while (n--) {
			submit(p);
			if (one_in(50))
				cancel_some(p);
			if (one_in(64))
				usleep((useconds_t)chance(2000));
		}
		if (one_in(16)) {
			close_program(p);
			open_program(p);
			continue;
		}
		advance(p);
		reap(p);
		follow(p);
		look(p);
	}
	close_program(p);
	ran[p->number] = p->done;
	failures[p->number] = p->failed;
	for (uint32_t i = 0; i < BUFFERS; i++)
		free(p->model[i]);
	free(p);
	return NULL;
}

#define CORE	(1u << 31)

/* Which devices (bits) have the kernel. */
static void share_out(struct poller *p, const char *name, uint32_t devices)
{
	for (uint32_t k = 0; k < registry_count(p->registry); k++)
		for (uint32_t i = 0; i < p->nr_devs; i++) {
			const struct fake *f = fake_of(p->devs[i].dev);

			if (!strcmp(registry_at(p->registry, k)->sig.name, name) &&
			    !(devices & (f ? 1u << (f - fakes) : CORE)))
				p->runnable[k * p->nr_devs + i] = RUNNABLE_NOT;
		}
}

static void fakes_up(const char *more)
{
	char conf[1024];
	struct poller *p;

	d = NULL;
	memset(fakes, 0, sizeof(fakes));
	over = false;
	resets = 0;
	switches = 0;
	quota.used = 0;
	quota.max = INT64_MAX;
	snprintf(conf, sizeof(conf), "%s%s", CONF, more);
	d = daemon_up_twice(conf);
	p = daemon_poller(d);
	daemon_enter(d);
	memory_set_charge(p->memory, charge, NULL);
	memory_set_limit(p->memory, limit);
	for (uint32_t i = 0; i < p->nr_devs; i++)
		if (fake_of(p->devs[i].dev)) {
			real_run = p->devs[i].dev->run;
			p->devs[i].dev->run = run;
		}
	/* Else there would be nothing for most of them to do. */
	share_out(p, "saxpy", 1u << GATED | 1u << QUEUED);
	share_out(p, "square", 1u << PLAIN | 1u << GATED);
	share_out(p, "transpose_f32", 1u << QUEUED | 1u << OTHER | CORE);
	daemon_leave(d);
}

static void all_at_once(const char *more)
{
	pthread_t threads[PROGRAMS], t;
	struct poller *p;

	fakes_up(more);
	p = daemon_poller(d);
	pthread_create(&t, NULL, trouble, NULL);
	for (uintptr_t i = 0; i < PROGRAMS; i++)
		pthread_create(&threads[i], NULL, program, (void *)i);
	for (uint32_t i = 0; i < PROGRAMS; i++)
		pthread_join(threads[i], NULL);
	__atomic_store_n(&over, true, __ATOMIC_RELEASE);
	pthread_join(t, NULL);
	if (getenv("MIX_ROUNDS"))
		fprintf(stderr, "mix: %llu ran, %llu not; %u switches, %u resets; ahead %llu, left %llu, followed %llu\n",
			(unsigned long long)(ran[0] + ran[1] + ran[2]),
			(unsigned long long)(failures[0] + failures[1] + failures[2]),
			__atomic_load_n(&switches, __ATOMIC_RELAXED),
			__atomic_load_n(&resets, __ATOMIC_RELAXED),
			(unsigned long long)p->stats.ahead, (unsigned long long)p->stats.left,
			(unsigned long long)p->stats.followed);
	daemon_down(d);
	ck_assert_int_eq(quota.used, 0);
	for (uint32_t i = 0; i < FAKES; i++)
		nothing_is_there(&fakes[i]);
}

static const char *const confs[] = {
	"", "sched { policy = \"rr\" }\n", "debug { check_access = true }\n",
};

START_TEST(never_a_wrong_byte)
{
	failing = _i & 1;
	lossy = _i & 2;
	all_at_once(confs[_i / 4]);
}
END_TEST

int main(void)
{
	const char *s0 = getenv("MIX_SEED"), *r0 = getenv("MIX_ROUNDS");
	TCase *t = tcase_create("all");
	Suite *s = suite_create("mix");
	SRunner *r;
	int failed;

	seed0 = s0 ? strtoull(s0, NULL, 10) : wait_now_ns();
	rounds = r0 ? strtoull(r0, NULL, 10) : 12;
	fprintf(stderr, "mix: seed %llu\n", (unsigned long long)seed0);
	tcase_set_timeout(t, 3000);
	tcase_add_loop_test(t, never_a_wrong_byte, 0, 4 * (int)(sizeof(confs) / sizeof(confs[0])));
	suite_add_tcase(s, t);
	r = srunner_create(s);
	srunner_run_all(r, CK_NORMAL);
	failed = srunner_ntests_failed(r);
	srunner_free(r);
	return failed ? 1 : 0;
}
