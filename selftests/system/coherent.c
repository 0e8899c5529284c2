// SPDX-License-Identifier: MIT
/*
 * Never a wrong byte, by all of araxd: programs submit random kernels, copies and fills to several
 * queues of several contexts, on ranges that overlap, of buffers of both kinds, and read and write
 * between them wherever they may.  What each task did is computed once more, one after the other in
 * the order of submission, and all that a program reads must be that.  run.sh and in-guest.sh give
 * it devices that are too small for all of it, some of which fail or go.
 *
 * ARAX_TEST_TASKS: of each program; ARAX_TEST_SEED repeats its draws, as far as these
 * don't come of what araxd did meanwhile.  ARAX_TEST_FAILS: devices fail tasks and copies;
 * ARAX_TEST_LOST: they are lost, some with bytes that were there alone; ARAX_TEST_FAULTS: by what
 * they run.  ARAX_TEST_NARROW: of one context of one program, most of which wait
 * for the one before.  ARAX_TEST_FLAT: there are devices whose kernels take no strided ranges.
 */
#include "stack.h"

#include <errno.h>
#include <stdbool.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "kernels/mix.h"

#define PROGRAMS	3
#define CONTEXTS	3
#define QUEUES		4		/* two of dataflow, one that goes on after failures, one in order */
#define OWN		6		/* buffers of each context */
#define SHARED		2		/* one context's at a time */
#define BUFFERS		(CONTEXTS * OWN + SHARED)
#define BATCH		160		/* less than a context's tasks in flight */
#define RANGES		3
#define KIB		1024u
#define HULL		3000u
#define NARROW		1200u		/* bytes of a buffer, where few are used */
#define FEW		4u		/* of a context's buffers */
#define DEVICES		16
#define ENOUGH		2000u		/* tasks for some of these: */
#define FAIL_ONE_OF	100		/* kernels: those that come after them must not have run */
#define SOON		arax_deadline(100 * SECOND)

enum kind { MIX, MIX_DATA, GROUPS, COPY, FILL };

static const uint32_t sizes[OWN] = {
	3 * KIB, 7 * KIB + 13, 64 * KIB, 20 * KIB, 256 * KIB, 64 * KIB
};

/**
 * struct memory - a buffer, and what it should have
 * @in:		its handles: of its context, or of all
 * @owner:	the context whose tasks it has now
 * @vague:	of each byte, whether nobody says what it is: a task that was to write it failed
 */
struct memory {
	struct arax_buffer *in[CONTEXTS];
	uint32_t owner, bytes;
	bool is_explicit;
	uint8_t *data, *model, *vague;
};

struct op {
	enum kind kind;
	uint32_t context, nr;
	uint32_t of[RANGES];		/* whose ranges these are */
	struct arax_range ranges[RANGES];
	uint32_t salt, width, groups;
	uint8_t pattern[16];
	bool applied;
	struct arax_event event;
};

static struct {
	struct arax *ax;
	struct arax_queue *queues[QUEUES];
	struct arax_timeline *gate;
	uint64_t opened;
	struct arax_kernel kernels[3];	/* by enum kind */
} contexts[CONTEXTS];
static struct memory memories[BUFFERS];
static struct op ops[BATCH];
static uint32_t nr_ops;
static uint64_t seed, first_seed;
static bool fails, loses, faults, flat, narrow;
static bool workers;		/* there are devices for kernels that run in them */

static struct {
	uint32_t tasks, failed, canceled, lost, accesses, on[DEVICES];
} seen;

static uint32_t draw(uint32_t n)
{
	seed ^= seed << 13;
	seed ^= seed >> 7;
	seed ^= seed << 17;
	return (uint32_t)(seed >> 20) % n;
}

static uint32_t some_context(void)
{
	return narrow ? 0 : draw(CONTEXTS);
}

/* ------------------------------------------------------------------ */
/* What should be                                                      */

static uint64_t end_of(const struct arax_range *r)
{
	return r->length ? r->offset + (uint64_t)(r->count - 1) * r->stride + r->length : r->offset;
}

/* By what is between their ends, too: more than enough. */
static bool meet(const struct arax_range *a, const struct arax_range *b)
{
	return a->offset < end_of(b) && b->offset < end_of(a);
}

static bool touches(const struct op *op, uint32_t memory, const struct arax_range *r)
{
	for (uint32_t i = 0; i < op->nr; i++)
		if (op->of[i] == memory && meet(&op->ranges[i], r))
			return true;
	return false;
}

/* By tasks that this program has not seen the end of. */
static bool in_use(uint32_t memory, const struct arax_range *r)
{
	for (uint32_t i = 0; i < nr_ops; i++)
		if (!ops[i].applied && touches(&ops[i], memory, r))
			return true;
	return false;
}

static bool any_vague(const struct op *op)
{
	for (uint32_t i = 0; i < op->nr; i++) {
		const struct arax_range *r = &op->ranges[i];

		for (uint32_t j = 0; (r->access & ARAX_IN) && j < r->count; j++)
			if (memchr(memories[op->of[i]].vague + r->offset + (uint64_t)j * r->stride, 1,
				   r->length))
				return true;
	}
	return false;
}

/* What it was to write is so, or is known: of a range that it reads, too, all was known before. */
static void set_vague(const struct op *op, bool is)
{
	for (uint32_t i = 0; i < op->nr; i++) {
		const struct arax_range *r = &op->ranges[i];

		for (uint32_t j = 0; (is ? r->access & ARAX_OUT : r->access == ARAX_OUT) &&
		     j < r->count; j++)
			memset(memories[op->of[i]].vague + r->offset + (uint64_t)j * r->stride, is,
			       r->length);
	}
}

static void copy_model(const struct arax_launch_range *r)
{
	static uint8_t bytes[256 * KIB];
	uint8_t *to = bytes;

	for (uint32_t i = 0; i < r[0].count; i++, to += r[0].length)
		memcpy(to, mix_row(&r[0], i), r[0].length);
	to = bytes;
	for (uint32_t i = 0; i < r[1].count; i++, to += r[1].length)
		memcpy(mix_row(&r[1], i), to, r[1].length);
}

static void fill_model(const struct op *op, const struct arax_launch_range *r)
{
	for (uint32_t i = 0; i < r->count; i++)
		for (uint64_t k = 0; k < r->length; k++)
			mix_row(r, i)[k] = op->pattern[k % op->width];
}

/* Written by the program: the same bytes for the same salt. */
static void write_bytes(uint8_t *to, uint64_t bytes, uint32_t salt)
{
	for (uint64_t k = 0; k < bytes; k++)
		to[k] = (uint8_t)(salt >> k % 24) ^ (uint8_t)k;
}

static void compute(const struct op *op)
{
	struct arax_launch_range r[RANGES];
	struct mix_args args = { op->salt };
	struct arax_launch l = {
		.size = sizeof(l), .nr_ranges = op->nr, .grid = { op->groups, 1, 1 },
		.block = { 1, 1, 1 }, .group_end = op->groups, .ranges = r, .args = &args,
		.arg_len = sizeof(args),
	};

	for (uint32_t i = 0; i < op->nr; i++)
		r[i] = (struct arax_launch_range){
			memories[op->of[i]].model + op->ranges[i].offset, op->ranges[i].length,
			op->ranges[i].stride, op->ranges[i].count,
		};
	switch (op->kind) {
	case MIX:
	case MIX_DATA:
		CHECK_EQ(mix_three(&l), 0);
		break;
	case GROUPS:
		CHECK_EQ(mix_groups(&l), 0);
		break;
	case COPY:
		copy_model(r);
		break;
	case FILL:
		fill_model(op, r);
		break;
	}
}

static bool is_kernel(const struct op *op)
{
	return op->kind == MIX || op->kind == MIX_DATA || op->kind == GROUPS;
}

static int should_be(const struct op *op)
{
	return is_kernel(op) && op->salt & MIX_FAILS ? -EIO : 0;
}

static void count(const struct op *op, int result)
{
	const struct arax_event *e = &op->event;

	seen.tasks++;
	seen.failed += result == -EIO || result == -ENODEV || result == -EFAULT;
	seen.canceled += result == -ECANCELED;
	if (!result && e->device < DEVICES)
		seen.on[e->device]++;
	if (result == -ECANCELED || ((fails || loses) && result == -EIO) ||
	    (loses && result == -ENODEV) || (faults && result == -EFAULT) || result == should_be(op))
		return;
	printf("# a task of kind %d ended with %d, %s\n", (int)op->kind, result, arax_error_text());
	CHECK_EQ(result, should_be(op));
}

static void apply(struct op *op)
{
	int result = op->event.result;

	op->applied = true;
	count(op, result);
	if (result == -ECANCELED)
		return;
	if (result || any_vague(op)) {
		set_vague(op, true);
		return;
	}
	compute(op);
	set_vague(op, false);
}

/*
 * All whose end the program has seen, in their order.  What a task waited for has ended before it,
 * and is seen before it; so what is left out of the order here has nothing in common with it.
 */
static void look(void)
{
	for (uint32_t c = 0; c < CONTEXTS; c++)
		CHECK(arax_process(contexts[c].ax) >= 0);
	for (uint32_t i = 0; i < nr_ops; i++)
		if (!ops[i].applied && arax_event_done(&ops[i].event))
			apply(&ops[i]);
}

static void complain(uint32_t memory, uint64_t at)
{
	static const char *const names[] = { "mix", "mix_data", "groups", "copy", "fill" };
	const struct memory *m = &memories[memory];
	const struct arax_range byte = { .offset = at, .length = 1, .count = 1 };

	printf("# ARAX_TEST_SEED=%llu, after %u tasks: byte %llu of buffer %u (%s, %u bytes) is %#x, not %#x\n",
	       (unsigned long long)first_seed, seen.tasks, (unsigned long long)at, memory,
	       m->is_explicit ? "explicit" : "plain", m->bytes, m->data[at], m->model[at]);
	for (uint32_t i = 0; i < nr_ops; i++) {
		const struct op *op = &ops[i];

		for (uint32_t j = 0; touches(op, memory, &byte) && j < op->nr; j++)
			printf("#  %u: %s, %s, device %d, result %d: range %u of buffer %u, access %u, %llu + %llu, stride %u x %u\n",
			       i, names[op->kind], op->applied ? "seen" : "under way",
			       (int)op->event.device, op->event.result, j, op->of[j],
			       op->ranges[j].access, (unsigned long long)op->ranges[j].offset,
			       (unsigned long long)op->ranges[j].length, op->ranges[j].stride,
			       op->ranges[j].count);
	}
	fflush(stdout);
	CHECK(!"never a wrong byte");
}

static void compare(uint32_t memory, const struct arax_range *r)
{
	const struct memory *m = &memories[memory];

	if (!memcmp(m->data + r->offset, m->model + r->offset, r->length))
		return;
	for (uint64_t i = r->offset; i < r->offset + r->length; i++)
		if (!m->vague[i] && m->data[i] != m->model[i])
			complain(memory, i);
}

/* ------------------------------------------------------------------ */
/* What programs do                                                    */

static uint32_t random_memory(uint32_t context)
{
	uint32_t i = draw(narrow && draw(16) ? FEW : OWN + SHARED);

	if (i < OWN)
		return context * OWN + i;
	i += CONTEXTS * OWN - OWN;
	return memories[i].owner == context ? i : context * OWN + draw(OWN);
}

static struct arax_range random_range(uint32_t memory, uint32_t context, uint32_t access, bool rows)
{
	const struct memory *m = &memories[memory];
	uint32_t hull = draw(24) ? draw(HULL) : draw(m->bytes + 1);
	struct arax_range r;

	if (hull > m->bytes || !draw(64))
		hull = m->bytes;
	if (narrow && draw(16))
		r = arax_part(m->in[context], access, draw(NARROW / 2), hull % (NARROW / 2));
	else
		r = arax_part(m->in[context], access, draw(m->bytes - hull + 1), hull);
	hull = (uint32_t)r.length;
	if (draw(4) || hull < 64 || !rows)
		return r;
	r.count = 2 + draw(6);
	r.stride = hull / r.count;
	r.length = 1 + draw(r.stride);
	return r;
}

static void random_op(struct op *op, uint32_t context)
{
	static const uint32_t access[RANGES] = { ARAX_IN, ARAX_INOUT, ARAX_OUT };
	uint32_t kind = draw(16);
	bool again, rows;

	memset(op, 0, sizeof(*op));
	op->kind = kind == 0 && workers ? MIX_DATA : kind < 3 ? GROUPS : kind < 5 ? COPY :
		   kind < 7 ? FILL : MIX;
	/* Workers run theirs on CPUs. */
	rows = !flat || (op->kind != MIX && op->kind != GROUPS);
	op->context = context;
	op->nr = op->kind == COPY ? 2 : op->kind == GROUPS || op->kind == FILL ? 1 : RANGES;
	op->salt = draw(MIX_FAILS) | (draw(FAIL_ONE_OF) ? 0 : MIX_FAILS);
	op->groups = 1 + draw(8);
	op->width = 1u << draw(5);
	for (uint32_t i = 0; i < op->width; i++)
		op->pattern[i] = (uint8_t)draw(256);
	do {
		again = false;
		for (uint32_t i = 0; i < op->nr; i++) {
			op->of[i] = random_memory(context);
			op->ranges[i] = random_range(op->of[i], context, access[i], rows);
			/* What is written has nothing in common with other ranges. */
			for (uint32_t j = 0; j < i; j++)
				again |= op->of[i] == op->of[j] &&
					 meet(&op->ranges[i], &op->ranges[j]);
		}
		if (op->kind != COPY)
			continue;
		/* As many bytes, in one row or as many others. */
		op->ranges[1].access = ARAX_OUT;
		again |= op->ranges[0].length * op->ranges[0].count !=
			 op->ranges[1].length * op->ranges[1].count;
		if (again && op->ranges[1].count == 1 && op->ranges[1].length >=
		    op->ranges[0].length * op->ranges[0].count) {
			op->ranges[1].length = op->ranges[0].length * op->ranges[0].count;
			again = op->of[0] == op->of[1] && meet(&op->ranges[0], &op->ranges[1]);
		}
	} while (again);
	if (op->kind == GROUPS)
		op->ranges[0].access = ARAX_INOUT;
	if (op->kind == FILL)
		op->ranges[0].access = ARAX_OUT;
	/* A row has a whole number of patterns. */
	while (op->kind == FILL && op->ranges[0].length % op->width)
		op->width /= 2;
}

static void submit(struct op *op, uint64_t gate)
{
	static const uint32_t opcodes[] = {
		ARAX_OP_LAUNCH, ARAX_OP_LAUNCH, ARAX_OP_LAUNCH, ARAX_OP_COPY, ARAX_OP_FILL,
	};
	struct arax_desc d = {
		.opcode = opcodes[op->kind], .ranges = op->ranges, .nr_ranges = op->nr,
		.event = &op->event, .wait = gate ? contexts[op->context].gate : NULL,
		.wait_value = gate,
	};

	if (op->kind == FILL) {
		d.args = op->pattern;
		d.arg_len = op->width;
	} else if (op->kind != COPY) {
		d.kernel = &contexts[op->context].kernels[op->kind];
		d.grid = arax_grid(op->groups, 1, 1);
		d.args = &op->salt;
		d.arg_len = sizeof(op->salt);
	}
	CHECK_EQ(arax_submit(contexts[op->context].queues[draw(QUEUES)], &d, 1, 0), 1);
}

static struct op *next_op(void)
{
	return nr_ops < BATCH ? &ops[nr_ops] : NULL;
}

/* The program writes @r of a plain buffer that no task has now. */
static void write_now(uint32_t memory, const struct arax_range *r, uint32_t salt)
{
	struct memory *m = &memories[memory];

	write_bytes(m->data + r->offset, r->length, salt);
	write_bytes(m->model + r->offset, r->length, salt);
	memset(m->vague + r->offset, 0, r->length);
}

/* A plain buffer's, without a call, as no task has them. */
static void touch(void)
{
	uint32_t context = some_context(), memory = random_memory(context);
	struct arax_range r = random_range(memory, context, ARAX_INOUT, true);

	r.count = 1;
	if (memories[memory].is_explicit || in_use(memory, &r))
		return;
	compare(memory, &r);
	if (draw(2))
		write_now(memory, &r, draw(1u << 24));
}

static bool is_lost(int err)
{
	if (!err)
		return false;
	CHECK(err == -ECANCELED || (loses && err == -EIO));
	return true;
}

/* Any bytes: the tasks that it has to wait for are no others'. */
static void use_bytes(void)
{
	uint32_t context = some_context(), memory = random_memory(context), how = ARAX_IN + draw(3);
	struct arax_range r = random_range(memory, context, how, true);
	struct arax_queue *q = contexts[context].queues[draw(QUEUES)];

	r.count = 1;
	r.stride = 0;
	if (is_lost(arax_access_begin(q, r, SOON))) {
		seen.lost++;
		look();
		return;
	}
	look();
	seen.accesses++;
	/* Who only writes gets in without what nobody has any more: those bytes are any. */
	if (how & ARAX_IN || !loses)
		compare(memory, &r);
	if (how & ARAX_OUT) {
		uint64_t bytes = how == ARAX_OUT ? r.length : draw((uint32_t)r.length + 1);
		struct arax_range some = { .offset = r.offset, .length = bytes, .count = 1 };

		write_now(memory, &some, draw(1u << 24));
	}
	CHECK_EQ(arax_access_end(q, r), 0);
}

static void random_tasks(uint32_t nr)
{
	struct op *op;

	while (nr-- && (op = next_op())) {
		random_op(op, some_context());
		submit(op, 0);
		nr_ops++;
	}
}

static void await_all(void)
{
	for (uint32_t i = 0; i < nr_ops; i++)
		if (arax_wait(&ops[i].event, SOON) == -ETIMEDOUT)
			CHECK(!"a task ends");
	look();
	for (uint32_t i = 0; i < nr_ops; i++)
		CHECK(ops[i].applied);
}

/* Tasks that nothing is before: one, mostly, and a few that come together. */
static void one_after_the_other(void)
{
	await_all();
	for (uint32_t i = draw(16); i; i--) {
		random_tasks(draw(3) ? 1 : 1 + draw(6));
		await_all();
		touch();
	}
}

/* A range of a plain buffer that a task has now; @of: whose. */
static bool range_in_use(uint32_t context, uint32_t *of, struct arax_range *r)
{
	const struct op *op = nr_ops ? &ops[draw(nr_ops)] : NULL;
	uint32_t i;

	if (!op || op->applied || op->context != context)
		return false;
	i = draw(op->nr);
	*of = op->of[i];
	*r = op->ranges[i];
	return !memories[*of].is_explicit && r->count == 1;
}

/*
 * A task waits for a timeline that the program raises when it has written some of what the task
 * reads, as soon as those have ended that use it still.  It is the program that it waits for, so
 * that must not wait for it meanwhile.
 */
static void write_behind_a_gate(void)
{
	uint32_t context = some_context(), of;
	struct op *op = next_op();
	struct arax_range r;

	if (!op || !range_in_use(context, &of, &r))
		return;
	do
		random_op(op, context);
	while (op->kind != MIX);
	op->of[1] = of;
	op->ranges[1] = r;
	op->ranges[1].access = ARAX_INOUT;
	for (uint32_t i = 0; i < RANGES; i += 2)
		if (op->of[i] == of && meet(&op->ranges[i], &r))
			return;
	submit(op, ++contexts[context].opened);
	for (uint32_t i = 0; i < nr_ops; i++)
		if (!ops[i].applied && touches(&ops[i], of, &r))
			arax_wait(&ops[i].event, SOON);
	look();
	CHECK(!in_use(of, &r));
	nr_ops++;
	compare(of, &r);
	write_now(of, &r, draw(1u << 24));
	random_tasks(draw(8));
	CHECK_EQ(arax_timeline_advance(contexts[context].gate, contexts[context].opened, 0), 0);
}

static void cancel_one(void)
{
	uint32_t i = nr_ops ? draw(nr_ops) : 0;

	if (nr_ops && !ops[i].applied)
		CHECK(arax_cancel(&ops[i].event) >= 0);
}

/* ------------------------------------------------------------------ */
/* Now and then: all is done, and all is looked at                     */

static void whole(uint32_t memory)
{
	struct memory *m = &memories[memory];
	struct arax_range all = arax_part(m->in[m->owner], ARAX_INOUT, 0, m->bytes);
	struct arax_queue *q = contexts[m->owner].queues[draw(QUEUES)];
	int err;

	if (is_lost(arax_access_begin(q, all, SOON))) {
		/* What is lost is there again when somebody has written all of it. */
		seen.lost++;
		memset(m->vague, 1, m->bytes);
		all.access = ARAX_OUT;
		/* Others of its bytes still come from devices, which may fail again. */
		for (int tries = 20; (err = arax_access_begin(q, all, SOON)) && fails && tries; tries--)
			CHECK_EQ(err, -EIO);
		CHECK_EQ(err, 0);
	}
	compare(memory, &all);
	for (uint32_t i = 0; i < m->bytes; i++)
		if (m->vague[i])
			m->model[i] = (uint8_t)draw(256);
	memcpy(m->data, m->model, m->bytes);
	memset(m->vague, 0, m->bytes);
	CHECK_EQ(arax_access_end(q, all), 0);
}

static void end_of_batch(void)
{
	await_all();
	/* Of what is explicit some stays on the devices. */
	for (uint32_t i = 0; i < BUFFERS; i++)
		if (!memories[i].is_explicit || memchr(memories[i].vague, 1, memories[i].bytes) || draw(2))
			whole(i);
	nr_ops = 0;
	for (uint32_t i = CONTEXTS * OWN; i < BUFFERS; i++)
		memories[i].owner = some_context();
}

static void make_memory(uint32_t i, uint32_t context, uint32_t bytes, bool is_explicit)
{
	struct memory *m = &memories[i];

	m->owner = context;
	m->bytes = bytes;
	m->is_explicit = is_explicit;
	CHECK_EQ(arax_buffer_create(contexts[context].ax, bytes,
				    is_explicit ? ARAX_BUFFER_EXPLICIT : 0, &m->in[context]), 0);
	m->data = arax_buffer_data(m->in[context]);
	m->model = calloc(1, bytes);
	m->vague = calloc(1, bytes);
	CHECK(m->model && m->vague);
}

/* @in_place: only those where workers run kernels. */
static uint32_t count_devices(struct arax *ax, bool in_place)
{
	struct arax_device d = { .size = sizeof(d) };
	uint32_t nr = 0;

	for (uint32_t i = 0; !arax_get_device(ax, i, &d); i++)
		nr += d.flags & ARAX_DEVICE_ONLINE &&
		      (!in_place || (d.kind == ARAX_DEVICE_CPU && !d.memory));
	return nr;
}

static void make_all(void)
{
	static const char *const names[] = { "st_mix", "st_mix_data", "st_mix_groups" };
	static const uint32_t flags[QUEUES] = {
		ARAX_QUEUE_DATAFLOW, ARAX_QUEUE_DATAFLOW, ARAX_QUEUE_DATAFLOW | ARAX_QUEUE_CONTINUE,
		ARAX_QUEUE_IN_ORDER,
	};

	for (uint32_t c = 0; c < CONTEXTS; c++) {
		struct arax_options o = { .size = sizeof(o), .entry_size = draw(2) ? 128 : 256 };
		struct stack s;

		CHECK_EQ(arax_open(&contexts[c].ax, &o), 0);
		s.ax = contexts[c].ax;
		for (uint32_t i = 0; i < QUEUES; i++)
			CHECK_EQ(arax_queue_create(s.ax, flags[i], (int)draw(5) - 2,
						   &contexts[c].queues[i]), 0);
		for (uint32_t i = 0; i < 3; i++)
			contexts[c].kernels[i] = stack_kernel(&s, names[i]);
		CHECK_EQ(arax_timeline_create(s.ax, 0, &contexts[c].gate), 0);
		for (uint32_t i = 0; i < OWN; i++)
			make_memory(c * OWN + i, c, sizes[i], i % 2);
	}
	workers = count_devices(contexts[0].ax, true);
	for (uint32_t i = CONTEXTS * OWN; i < BUFFERS; i++) {
		int fd;

		make_memory(i, 0, 30 * KIB, false);
		fd = arax_buffer_export(memories[i].in[0], ARAX_EXPORT_ARAX);
		CHECK(fd >= 0);
		for (uint32_t c = 1; c < CONTEXTS; c++)
			CHECK_EQ(arax_buffer_import(contexts[c].ax, ARAX_IMPORT_ARAX, fd,
						    &memories[i].in[c]), 0);
		close(fd);
	}
}

static void program(uint32_t goal)
{
	uint32_t nr_devices = 0;

	make_all();
	while (seen.tasks < goal) {
		while (nr_ops < BATCH) {
			random_tasks(1 + draw(12));
			look();
			for (uint32_t i = draw(4); i; i--)
				touch();
			if (!draw(4))
				use_bytes();
			if (!draw(4))
				write_behind_a_gate();
			if (!draw(16))
				cancel_one();
			if (!draw(8))
				one_after_the_other();
		}
		end_of_batch();
	}
	for (uint32_t i = 0; i < BUFFERS; i++)
		whole(i);
	printf("# %u tasks, %u failed, %u canceled; %u accesses, %u of what was lost; by device:",
	       seen.tasks, seen.failed, seen.canceled, seen.accesses, seen.lost);
	for (uint32_t i = 0; i < DEVICES; i++)
		if (seen.on[i]) {
			printf(" %u: %u", i, seen.on[i]);
			nr_devices++;
		}
	printf("\n");
	fflush(stdout);
	/* Or else it has shown little. */
	CHECK(seen.accesses >= goal / 1000);
	CHECK(goal < ENOUGH || (seen.failed && seen.canceled));
	CHECK(!fails || seen.failed);
	CHECK(nr_devices > 1 || !flat || count_devices(contexts[0].ax, false) < 2);
	CHECK(seen.tasks - seen.failed - seen.canceled > goal / 4);
	for (uint32_t c = 0; c < CONTEXTS; c++)
		arax_close(contexts[c].ax);
}

TEST(never_a_wrong_byte)
{
	const char *given = getenv("ARAX_TEST_SEED"), *tasks = getenv("ARAX_TEST_TASKS");
	uint32_t programs = PROGRAMS;
	pid_t pids[PROGRAMS];
	int status, bad = 0;

	fails = getenv("ARAX_TEST_FAILS");
	faults = getenv("ARAX_TEST_FAULTS");
	loses = faults || getenv("ARAX_TEST_LOST");
	flat = getenv("ARAX_TEST_FLAT");
	narrow = getenv("ARAX_TEST_NARROW");
	if (narrow)
		programs = 1;
	first_seed = given ? strtoull(given, NULL, 10) :
			     (uint64_t)time(NULL) << 20 ^ (uint64_t)getpid();
	printf("# ARAX_TEST_SEED=%llu\n", (unsigned long long)first_seed);
	fflush(stdout);
	for (uint32_t i = 0; i < programs; i++) {
		pids[i] = fork();
		if (pids[i])
			continue;
		/* Of 0 it would draw nothing but that. */
		seed = (first_seed + i) * 0x9e3779b97f4a7c15ull | 1;
		program(tasks ? (uint32_t)strtoul(tasks, NULL, 10) : 6000);
		exit(0);
	}
	for (uint32_t i = 0; i < programs; i++)
		bad |= waitpid(pids[i], &status, 0) != pids[i] || status;
	CHECK(!bad);
}
