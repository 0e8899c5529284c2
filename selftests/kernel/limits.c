// SPDX-License-Identifier: MIT
/*
 * The module's parameters limit what they are named after, to the last one, and what was refused
 * leaves nothing behind.  params.sh loads the module with little of each and runs this.
 */
#include "ktest.h"

#include <signal.h>

static uint64_t parameter(const char *name)
{
	char path[128];

	snprintf(path, sizeof(path), "/sys/module/arax/parameters/%s", name);
	return (uint64_t)read_number(path);
}

static uint64_t used(struct client *c, unsigned int resource)
{
	return usage(c, ARAX_USAGE_USER).counters[resource].used;
}

/* Twice, by two users: a limit is each one's own. */
static void by_users(int (*fn)(void *arg))
{
	CHECK_OK(child_wait(child_run(fn, &(unsigned int) { USER1 })));
	CHECK_OK(child_wait(child_run(fn, &(unsigned int) { USER2 })));
}

static int fill_contexts(void *arg)
{
	uint64_t max = parameter("user_contexts"), i;
	struct client c[8], more;

	CHECK(max < 8);
	become(*(unsigned int *)arg);
	for (i = 0; i < max; i++)
		client_open(&c[i], 4, 128, 0);
	CHECK_ERR(client_try(&more, 4, 128, 0), EDQUOT);
	CHECK_EQ(used(&c[0], ARAX_RES_CONTEXTS), max);
	CHECK_EQ(used(&c[0], ARAX_RES_MEMORY), max * c[0].init.region_size);
	client_close(&c[max - 1]);
	client_open(&c[max - 1], 4, 128, 0);
	return 0;
}

KTEST(user_contexts)
{
	by_users(fill_contexts);
}

static int fill_memory(void *arg)
{
	uint64_t max = parameter("user_memory"), room;
	struct arax_buffer_create b, more;
	struct client c;

	become(*(unsigned int *)arg);
	client_open(&c, 4, 128, 0);
	room = max - c.init.region_size;
	CHECK_ERR(buffer_try(&c, room + PAGE, &b), EDQUOT);
	CHECK_OK(buffer_try(&c, room, &b));
	CHECK_EQ(used(&c, ARAX_RES_MEMORY), max);
	CHECK_ERR(buffer_try(&c, PAGE, &more), EDQUOT);
	CHECK_EQ(used(&c, ARAX_RES_MEMORY), max);
	CHECK_OK(buffer_destroy(&c, b.handle));
	CHECK_EQ(used(&c, ARAX_RES_MEMORY), c.init.region_size);
	CHECK_OK(buffer_try(&c, room, &b));
	return 0;
}

KTEST(user_memory)
{
	by_users(fill_memory);
}

static void push(struct client *c, uint32_t queue, uint32_t n)
{
	uint32_t i, done;

	for (i = 0; i < n; i++) {
		struct arax_task *t = client_task(c);

		t->opcode = ARAX_OP_MARKER;
		t->user_data = c->tail;
		t->queue = queue;
		client_publish(c);
	}
	CHECK_OK(client_submit(c, n, &done));
	CHECK_EQ(done, n);
}

static int fill_tasks(void *arg)
{
	uint32_t max = (uint32_t)parameter("user_tasks"), i;
	struct client c;
	uint32_t queue;

	become(*(unsigned int *)arg);
	client_open(&c, 64, 128, 0);
	CHECK(max + 3 <= 64);
	queue = queue_new(&c, 0);
	push(&c, queue, max + 3);
	for (i = 0; i < 3; i++) {
		struct arax_completion e = client_wait(&c);

		CHECK_EQ(e.user_data, max + i);
		CHECK_EQ(e.result, -EDQUOT);
	}
	CHECK_EQ(used(&c, ARAX_RES_TASKS), max);
	client_close(&c);
	client_open(&c, 64, 128, 0);
	CHECK_EQ(used(&c, ARAX_RES_TASKS), 0);
	return 0;
}

KTEST(user_tasks)
{
	by_users(fill_tasks);
}

KTEST(max_handles)
{
	struct arax_timeline_create t = { .size = sizeof(t) };
	struct arax_queue_create q = { .size = sizeof(q) };
	uint64_t max = parameter("max_handles"), i;
	struct arax_info info = { .size = sizeof(info) };
	struct arax_buffer_create b;
	struct arax_handle h = { .size = sizeof(h) };
	struct client c, other;

	client_open(&c, 4, 128, 0);
	CHECK_OK(CALL(c.fd, INFO, &info));
	CHECK_EQ(info.max_handles, max);
	for (i = 0; i < max; i++)
		CHECK_OK(CALL(c.fd, TIMELINE_CREATE, &t));
	CHECK_ERR(CALL(c.fd, TIMELINE_CREATE, &t), ENOSPC);
	CHECK_ERR(CALL(c.fd, QUEUE_CREATE, &q), ENOSPC);
	CHECK_ERR(buffer_try(&c, PAGE, &b), ENOSPC);
	CHECK_EQ(used(&c, ARAX_RES_MEMORY), c.init.region_size);
	/* A context's own, and given back one by one. */
	client_open(&other, 4, 128, 0);
	CHECK_OK(CALL(other.fd, TIMELINE_CREATE, &t));
	h.handle = t.handle;
	CHECK_OK(CALL(other.fd, TIMELINE_DESTROY, &h));
	CHECK_OK(CALL(c.fd, TIMELINE_DESTROY, &h));
	CHECK_OK(buffer_try(&c, PAGE, &b));
	CHECK_ERR(CALL(c.fd, QUEUE_CREATE, &q), ENOSPC);
	client_close(&other);
	client_close(&c);
}

static struct mediator m;

/* All but the first are tasks of the daemon's; each that ends makes room for one. */
KTEST(slots)
{
	uint32_t max = (uint32_t)parameter("slots") - 1, n = (uint32_t)parameter("user_tasks"), i;
	uint64_t tags[64];
	struct client c;
	struct work w;
	uint32_t queue;

	CHECK(max < n && n <= 64);
	mediator_open(&m, 0);
	CHECK_EQ(m.at.slots, max + 1);
	client_open(&c, 64, 128, 0);
	queue = queue_new(&c, ARAX_QUEUE_DATAFLOW);
	push(&c, queue, n);
	for (i = 0; i < n; i++) {
		while (mediator_take(&m, &w))
			if (w.d.type == ARAX_DISPATCH_TASK) {
				CHECK(w.d.user_data < n);
				tags[w.d.user_data] = w.d.tag;
				CHECK(w.d.user_data < max + i);
			}
		/* The last one that may be there is. */
		CHECK_EQ(w.d.user_data, (max + i < n ? max + i : n) - 1);
		mediator_done(&m, tags[i], 0);
		CHECK_EQ(client_wait(&c).user_data, i);
	}
	mediator_close(&m);
	client_close(&c);
}

/* With a mediator that takes nothing out of the ring. */
KTEST(cells)
{
	uint32_t max = (uint32_t)parameter("cells"), n = max + max / 2, head, seen = 0, i;
	const struct arax_dispatch *d;
	struct client c;
	struct work w;
	uint32_t queue;

	CHECK(n < parameter("slots") && n <= parameter("user_tasks"));
	mediator_open(&m, 0);
	CHECK_EQ(m.at.cells, max);
	client_open(&c, 2 * max, 128, 0);
	queue = queue_new(&c, ARAX_QUEUE_DATAFLOW);
	push(&c, queue, n);
	for (head = m.page->head; ; head += d->cells) {
		d = (const void *)(m.ring + (size_t)(head & (max - 1)) * ARAX_CELL_SIZE);
		if (__atomic_load_n(&d->seq, __ATOMIC_ACQUIRE) != head + 1)
			break;
		CHECK(head - m.page->head < max);
		seen += d->type == ARAX_DISPATCH_TASK;
	}
	CHECK(seen && seen < n);
	CHECK(head - m.page->head <= max);
	/* The rest has not gone. */
	for (i = 0; i < n; i++) {
		w = mediator_task(&m);
		CHECK_EQ(w.d.user_data, i);
		mediator_done(&m, w.d.tag, 0);
		CHECK_EQ(client_wait(&c).result, 0);
	}
	mediator_close(&m);
	client_close(&c);
}

static int attach_and_wait(void *arg)
{
	mediator_open(&m, 0);
	meet_say(arg);
	for (;;)
		pause();
	return 0;
}

KTEST(recovery_ms)
{
	uint64_t ms = parameter("recovery_ms"), start, took;
	struct meet meet;
	struct client c;
	uint32_t queue;
	pid_t pid;

	meet_init(&meet);
	client_open(&c, 4, 128, 0);
	queue = queue_new(&c, 0);
	pid = child_run(attach_and_wait, &meet);
	meet_hear(&meet);
	start = now_ns();
	CHECK_SYS(kill(pid, SIGKILL));
	CHECK_EQ(child_wait(pid), 1000 + SIGKILL);
	client_marker(&c, queue, 1, 0);
	CHECK_EQ(client_wait(&c).result, -EOWNERDEAD);
	took = now_ns() - start;
	CHECK(took >= ms * MS);
	client_close(&c);
}
