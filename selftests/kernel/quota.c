// SPDX-License-Identifier: MIT
/* Tenants: limits three cgroups deep, to the byte, live, and with no way round. */
#include "ktest.h"

#include <sched.h>
#include <sys/mman.h>
#include <sys/sysinfo.h>
#include <sys/socket.h>

#define TOP	"ktest-q"
#define MID	TOP "/b"
#define LEAF	MID "/c"
#define RACERS	16

static int ctl, top, mid, leaf;

static void set_up(void)
{
	ctl = open_node("/dev/arax-ctl");
	top = cgroup_new(TOP);
	mid = cgroup_new(MID);
	leaf = cgroup_new(LEAF);
}

static void no_limits(void)
{
	const int all[] = { top, mid, leaf };
	unsigned int i, r;

	for (i = 0; i < 3; i++) {
		CHECK_OK(limit_set(ctl, all[i], ARAX_SET_WEIGHT, 100));
		for (r = 0; r < ARAX_RES_MAX; r++)
			CHECK_OK(limit_set(ctl, all[i], r, ARAX_LIMIT_MAX));
	}
}

static void tear_down(void)
{
	no_limits();
	cgroup_remove(LEAF);
	cgroup_remove(MID);
	cgroup_remove(TOP);
}

static struct arax_counter counter(int cgroup, unsigned int resource)
{
	return tenant_query(ctl, cgroup).usage.counters[resource];
}

/* ------------------------------------------------------------------ */
/* Races                                                               */

/* What racers and their judge share. */
static struct shared {
	uint64_t kept[RACERS];
	uint64_t refused[RACERS];
	uint32_t ready, done;
	bool go, end, named;
} *shared;

static void share(void)
{
	shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE,
		      MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	CHECK(shared != MAP_FAILED);
}

static void starting_line(void)
{
	__atomic_add_fetch(&shared->ready, 1, __ATOMIC_SEQ_CST);
	while (!__atomic_load_n(&shared->go, __ATOMIC_SEQ_CST))
		sched_yield();
}

/* Creates and destroys at random, keeps what it has at the end. */
static int memory_racer(void *arg)
{
	unsigned int me = (unsigned int)(uintptr_t)arg, seed = me + 1, i, n = 0;
	struct arax_buffer_create b, have[64];
	int rounds = ktest_rounds(300), err;
	struct client c;

	cgroup_enter(me & 1 ? LEAF : me & 2 ? MID : TOP);
	client_open(&c, 2, 128, 0);
	starting_line();
	while (rounds--) {
		if (n < 64 && (!n || rand_r(&seed) % 3)) {
			err = buffer_try(&c, 1 + (uint64_t)rand_r(&seed) % (16 * PAGE), &b);
			if (err) {
				CHECK_ERR(err, EDQUOT);
				shared->refused[me]++;
			} else {
				have[n++] = b;
				shared->kept[me] += b.bytes;
			}
		} else {
			i = (unsigned int)rand_r(&seed) % n;
			shared->kept[me] -= have[i].bytes;
			CHECK_OK(buffer_destroy(&c, have[i].handle));
			have[i] = have[--n];
		}
	}
	__atomic_add_fetch(&shared->done, 1, __ATOMIC_SEQ_CST);
	while (!__atomic_load_n(&shared->end, __ATOMIC_SEQ_CST))
		sleep_ms(2);
	/* And some just die with what they have. */
	if (me % 3)
		client_close(&c);
	return 0;
}

KTEST(memory_holds_to_the_byte_under_racers)
{
	const uint64_t region = 8192 /* of a context with a depth of 2 */;
	uint64_t max = 200 * PAGE + (RACERS + 1) * region, sum = region, refused = 0;
	uint64_t used, seen = 0;
	struct arax_buffer_create b;
	struct arax_counter n;
	pid_t pid[RACERS];
	struct client c;
	unsigned int i;

	set_up();
	share();
	CHECK_OK(limit_set(ctl, top, ARAX_RES_MEMORY, max));
	CHECK_OK(limit_set(ctl, mid, ARAX_RES_MEMORY, max * 3 / 4));
	CHECK_OK(limit_set(ctl, leaf, ARAX_RES_MEMORY, max / 2));
	/* Now, for at the end there may be no room for a region. */
	cgroup_enter(TOP);
	client_open(&c, 2, 128, 0);
	cgroup_enter("");
	for (i = 0; i < RACERS; i++)
		pid[i] = child_run(memory_racer, (void *)(uintptr_t)i);
	while (__atomic_load_n(&shared->ready, __ATOMIC_SEQ_CST) < RACERS)
		sleep_ms(2);
	__atomic_store_n(&shared->go, true, __ATOMIC_SEQ_CST);
	while (__atomic_load_n(&shared->done, __ATOMIC_SEQ_CST) < RACERS) {
		used = counter(top, ARAX_RES_MEMORY).used;
		CHECK(used <= max);
		CHECK(counter(mid, ARAX_RES_MEMORY).used <= max * 3 / 4);
		CHECK(counter(leaf, ARAX_RES_MEMORY).used <= max / 2);
		seen = used > seen ? used : seen;
	}
	for (i = 0; i < RACERS; i++) {
		sum += shared->kept[i] + region;
		refused += shared->refused[i];
	}
	n = counter(top, ARAX_RES_MEMORY);
	CHECK_EQ(n.used, sum);
	CHECK(n.peak <= max && n.peak >= seen);
	CHECK(refused > 0);
	/* Each refusal is counted, at the cgroup that refused. */
	CHECK_EQ(n.events + counter(mid, ARAX_RES_MEMORY).events +
		 counter(leaf, ARAX_RES_MEMORY).events, refused);
	CHECK(counter(mid, ARAX_RES_MEMORY).peak <= max * 3 / 4);
	CHECK(counter(leaf, ARAX_RES_MEMORY).peak <= max / 2);
	/* What is left can be had to the last page, and not a page more. */
	n = counter(top, ARAX_RES_MEMORY);
	if (n.used < max)
		CHECK_OK(buffer_try(&c, max - n.used, &b));
	CHECK_EQ(counter(top, ARAX_RES_MEMORY).used, max);
	CHECK_ERR(buffer_try(&c, 1, &b), EDQUOT);
	client_close(&c);
	__atomic_store_n(&shared->end, true, __ATOMIC_SEQ_CST);
	for (i = 0; i < RACERS; i++)
		CHECK_OK(child_wait(pid[i]));
	while (counter(top, ARAX_RES_MEMORY).used)
		sleep_ms(1);
	tear_down();
}

/* Submits all that it may, nothing is ever committed. */
static int task_racer(void *arg)
{
	unsigned int me = (unsigned int)(uintptr_t)arg, i, k;
	struct arax_completion e;
	struct client c;
	uint32_t q, n;

	cgroup_enter(me % 3 == 2 ? LEAF : me % 3 ? MID : TOP);
	client_open(&c, 64, 128, 0);
	q = queue_new(&c, 0);
	starting_line();
	for (i = 0; i < 16; i++) {
		for (k = 0; k < 4; k++) {
			struct arax_task *t = client_task(&c);

			t->queue = q;
			client_publish(&c);
		}
		CHECK_OK(client_submit(&c, 4, &n));
		CHECK_EQ(n, 4);
		while (client_reap(&c, &e)) {
			CHECK_EQ(e.result, -EDQUOT);
			shared->refused[me]++;
		}
	}
	shared->kept[me] = usage(&c, ARAX_USAGE_CONTEXT).counters[ARAX_RES_TASKS].used;
	CHECK_EQ(shared->kept[me] + shared->refused[me], 64);
	__atomic_add_fetch(&shared->done, 1, __ATOMIC_SEQ_CST);
	while (!__atomic_load_n(&shared->end, __ATOMIC_SEQ_CST))
		sleep_ms(2);
	return 0;
}

KTEST(tasks_hold_to_the_last_under_racers)
{
	const uint64_t max = 300;
	uint64_t sum = 0, refused = 0, used, below[3] = { 0 };
	pid_t pid[RACERS];
	unsigned int i;

	set_up();
	share();
	CHECK_OK(limit_set(ctl, top, ARAX_RES_TASKS, max));
	CHECK_OK(limit_set(ctl, mid, ARAX_RES_TASKS, max / 3));
	CHECK_OK(limit_set(ctl, leaf, ARAX_RES_TASKS, max / 10));
	for (i = 0; i < RACERS; i++)
		pid[i] = child_run(task_racer, (void *)(uintptr_t)i);
	while (__atomic_load_n(&shared->ready, __ATOMIC_SEQ_CST) < RACERS)
		sleep_ms(2);
	__atomic_store_n(&shared->go, true, __ATOMIC_SEQ_CST);
	while (__atomic_load_n(&shared->done, __ATOMIC_SEQ_CST) < RACERS) {
		CHECK(counter(top, ARAX_RES_TASKS).used <= max);
		CHECK(counter(mid, ARAX_RES_TASKS).used <= max / 3);
		CHECK(counter(leaf, ARAX_RES_TASKS).used <= max / 10);
	}
	for (i = 0; i < RACERS; i++) {
		sum += shared->kept[i];
		refused += shared->refused[i];
		below[i % 3] += shared->kept[i];
	}
	/* Each level counts its own and all below it; none was passed at any time. */
	CHECK_EQ(counter(leaf, ARAX_RES_TASKS).used, below[2]);
	CHECK_EQ(counter(mid, ARAX_RES_TASKS).used, below[2] + below[1]);
	CHECK(counter(leaf, ARAX_RES_TASKS).peak <= max / 10);
	CHECK(counter(mid, ARAX_RES_TASKS).peak <= max / 3);
	CHECK_EQ(counter(top, ARAX_RES_TASKS).peak, max);
	used = counter(top, ARAX_RES_TASKS).used;
	CHECK_EQ(used, sum);
	CHECK_EQ(sum + refused, RACERS * 64);
	/*
	 * A batch is refused only in part: all that fits is taken.  Those at the top alone
	 * want more than there is.
	 */
	CHECK_EQ(used, max);
	/* Each refusal is counted, at the level that refused. */
	CHECK_EQ(counter(top, ARAX_RES_TASKS).events + counter(mid, ARAX_RES_TASKS).events +
		 counter(leaf, ARAX_RES_TASKS).events, refused);
	__atomic_store_n(&shared->end, true, __ATOMIC_SEQ_CST);
	for (i = 0; i < RACERS; i++)
		CHECK_OK(child_wait(pid[i]));
	while (counter(top, ARAX_RES_TASKS).used)
		sleep_ms(1);
	tear_down();
}

/* ------------------------------------------------------------------ */
/* Limits that change                                                  */

KTEST(memory_max_changes_live)
{
	struct arax_buffer_create a, b;
	struct client c;
	uint64_t base;

	set_up();
	cgroup_enter(LEAF);
	client_open(&c, 4, 128, 0);
	base = c.init.region_size;
	CHECK_OK(limit_set(ctl, leaf, ARAX_RES_MEMORY, base + 4 * PAGE));
	a = buffer_new(&c, 4 * PAGE);
	CHECK_ERR(buffer_try(&c, 1, &b), EDQUOT);
	/* Up: at once. Down below what is used: nothing goes, nothing comes. */
	CHECK_OK(limit_set(ctl, leaf, ARAX_RES_MEMORY, base + 5 * PAGE));
	CHECK_OK(buffer_try(&c, PAGE, &b));
	CHECK_OK(limit_set(ctl, leaf, ARAX_RES_MEMORY, PAGE));
	CHECK_EQ(counter(leaf, ARAX_RES_MEMORY).used, base + 5 * PAGE);
	CHECK_EQ(buffer_query(&c, a.handle).flags, 0);
	CHECK_OK(buffer_destroy(&c, b.handle));
	CHECK_ERR(buffer_try(&c, 1, &b), EDQUOT);
	CHECK_OK(limit_set(ctl, leaf, ARAX_RES_MEMORY, 0));
	CHECK_ERR(buffer_try(&c, 1, &b), EDQUOT);
	/* An ancestor's limit holds as well as one's own. */
	CHECK_OK(limit_set(ctl, leaf, ARAX_RES_MEMORY, ARAX_LIMIT_MAX));
	CHECK_OK(limit_set(ctl, top, ARAX_RES_MEMORY, base + 5 * PAGE - 1));
	CHECK_ERR(buffer_try(&c, PAGE, &b), EDQUOT);
	CHECK_OK(limit_set(ctl, top, ARAX_RES_MEMORY, base + 5 * PAGE));
	CHECK_OK(buffer_try(&c, PAGE, &b));
	CHECK_EQ(counter(leaf, ARAX_RES_MEMORY).events, 3);
	CHECK_EQ(counter(top, ARAX_RES_MEMORY).events, 1);
	client_close(&c);
	cgroup_enter("");
	tear_down();
}

KTEST(tasks_max_changes_live)
{
	struct arax_completion e;
	struct mediator m;
	struct client c;
	struct work w;
	uint32_t q;

	set_up();
	cgroup_enter(LEAF);
	client_open(&c, 16, 128, 0);
	mediator_open(&m, 0);
	q = queue_new(&c, 0);
	CHECK_OK(limit_set(ctl, mid, ARAX_RES_TASKS, 2));
	client_marker(&c, q, 1, 0);
	client_marker(&c, q, 2, 0);
	CHECK(!client_reap(&c, &e));
	client_marker(&c, q, 3, 0);
	CHECK_EQ(client_wait(&c).result, -EDQUOT);
	CHECK_OK(limit_set(ctl, mid, ARAX_RES_TASKS, 3));
	client_marker(&c, q, 4, 0);
	CHECK(!client_reap(&c, &e));
	CHECK_OK(limit_set(ctl, mid, ARAX_RES_TASKS, 1));
	w = mediator_task(&m);
	mediator_done(&m, w.d.tag, 0);
	CHECK_EQ(client_wait(&c).user_data, 1);
	client_marker(&c, q, 5, 0);
	CHECK_EQ(client_wait(&c).result, -EDQUOT);
	CHECK_EQ(counter(leaf, ARAX_RES_TASKS).used, 2);
	/* A completion that can be seen is not charged any more. */
	w = mediator_task(&m);
	mediator_done(&m, w.d.tag, 0);
	w = mediator_task(&m);
	mediator_done(&m, w.d.tag, 0);
	client_wait(&c);
	client_wait(&c);
	client_marker(&c, q, 6, 0);
	CHECK(!client_reap(&c, &e));
	CHECK_EQ(counter(leaf, ARAX_RES_TASKS).peak, 3);
	client_close(&c);
	mediator_close(&m);
	cgroup_enter("");
	tear_down();
}

/* A queue that waits for room: what finds none is not there yet, whoever's tasks have taken it. */
KTEST(tasks_wait_for_room)
{
	struct arax_completion e;
	struct client c, other;
	struct mediator m;
	struct work w;
	uint32_t q, n;
	unsigned int i;

	set_up();
	cgroup_enter(LEAF);
	client_open(&c, 16, 128, 0);
	client_open(&other, 16, 128, 0);
	mediator_open(&m, 0);
	q = queue_new(&c, ARAX_QUEUE_DATAFLOW | ARAX_QUEUE_WAIT);
	CHECK_OK(limit_set(ctl, mid, ARAX_RES_TASKS, 3));
	client_marker(&other, queue_new(&other, 0), 100, 0);
	for (i = 0; i < 6; i++) {
		struct arax_task *t = client_task(&c);

		t->queue = q;
		t->user_data = i;
		client_publish(&c);
	}
	CHECK_OK(client_submit(&c, 6, &n));
	CHECK_EQ(n, 2);
	CHECK_ERR(client_submit(&c, 4, &n), EAGAIN);
	CHECK_EQ(n, 0);
	CHECK(!client_reap(&c, &e));
	w = mediator_task(&m);
	mediator_done(&m, w.d.tag, 0);
	CHECK_EQ(client_wait(&other).user_data, 100);
	for (i = 0; i < 6; i++) {
		if (i < 4) {
			CHECK_OK(client_submit(&c, 4 - i, &n));
			CHECK_EQ(n, 1);
		}
		w = mediator_task(&m);
		mediator_done(&m, w.d.tag, 0);
		e = client_wait(&c);
		CHECK_EQ(e.user_data, i);
		CHECK_EQ(e.result, 0);
	}
	CHECK_EQ(counter(mid, ARAX_RES_TASKS).peak, 3);
	CHECK_EQ(counter(mid, ARAX_RES_TASKS).events, 0);
	CHECK_EQ(counter(leaf, ARAX_RES_TASKS).used, 0);
	client_close(&c);
	client_close(&other);
	mediator_close(&m);
	cgroup_enter("");
	tear_down();
}

KTEST(contexts_and_device_memory)
{
	struct arax_charge ch = { .size = sizeof(ch), .resource = ARAX_RES_DEVICE_MEMORY };
	struct client a, b;
	struct mediator m;

	set_up();
	cgroup_enter(LEAF);
	CHECK_OK(limit_set(ctl, top, ARAX_RES_CONTEXTS, 1));
	client_open(&a, 4, 128, 0);
	CHECK_ERR(client_try(&b, 4, 128, 0), EDQUOT);
	CHECK_OK(limit_set(ctl, top, ARAX_RES_CONTEXTS, 2));
	client_open(&b, 4, 128, 0);
	client_close(&b);
	mediator_open(&m, 0);
	CHECK_OK(limit_set(ctl, top, ARAX_RES_DEVICE_MEMORY, 1000));
	ch.context = a.init.context;
	ch.delta = 1000;
	CHECK_OK(CALL(m.fd, CHARGE, &ch));
	ch.delta = 1;
	CHECK_ERR(CALL(m.fd, CHARGE, &ch), EDQUOT);
	ch.delta = -400;
	CHECK_OK(CALL(m.fd, CHARGE, &ch));
	ch.delta = -601;
	CHECK_ERR(CALL(m.fd, CHARGE, &ch), EINVAL);
	CHECK_EQ(counter(leaf, ARAX_RES_DEVICE_MEMORY).used, 600);
	CHECK_EQ(counter(top, ARAX_RES_DEVICE_MEMORY).peak, 1000);
	CHECK_EQ(counter(top, ARAX_RES_DEVICE_MEMORY).events, 1);
	CHECK_EQ(usage(&a, ARAX_USAGE_CONTEXT).counters[ARAX_RES_DEVICE_MEMORY].used, 600);
	/* What the mediator forgets to give back goes with the context. */
	client_close(&a);
	mediator_close(&m);
	while (counter(top, ARAX_RES_DEVICE_MEMORY).used)
		sleep_ms(1);
	cgroup_enter("");
	tear_down();
}

/* The rings' bytes are bytes too: no context where they don't fit. */
KTEST(the_region_is_charged)
{
	struct client c;

	set_up();
	cgroup_enter(LEAF);
	CHECK_OK(limit_set(ctl, leaf, ARAX_RES_MEMORY, 16383));
	CHECK_ERR(client_try(&c, 64, 128, 0), EDQUOT);
	CHECK_EQ(counter(leaf, ARAX_RES_MEMORY).used, 0);
	CHECK_EQ(counter(leaf, ARAX_RES_CONTEXTS).used, 0);
	CHECK_OK(limit_set(ctl, leaf, ARAX_RES_MEMORY, 16384));
	client_open(&c, 64, 128, 0);
	CHECK_EQ(counter(leaf, ARAX_RES_MEMORY).used, 16384);
	client_close(&c);
	cgroup_enter("");
	tear_down();
}

/* ------------------------------------------------------------------ */
/* No way round                                                        */

static int escapee(void *arg)
{
	struct arax_buffer_create b;
	struct client c;

	(void)arg;
	/* A new session, another user, a grandchild: the cgroup is the same. */
	CHECK_SYS(setsid());
	become(USER1);
	client_open(&c, 2, 128, 0);
	CHECK_ERR(buffer_try(&c, 8 * PAGE, &b), EDQUOT);
	client_close(&c);
	return 0;
}

KTEST(fork_setsid_and_setuid_do_not_escape)
{
	struct arax_buffer_create b;
	struct client c;

	set_up();
	cgroup_enter(LEAF);
	client_open(&c, 2, 128, 0);
	CHECK_OK(limit_set(ctl, leaf, ARAX_RES_MEMORY, 2 * c.init.region_size + 8 * PAGE));
	CHECK_OK(buffer_try(&c, PAGE, &b));
	CHECK_OK(child_wait(child_run(escapee, NULL)));
	client_close(&c);
	cgroup_enter("");
	tear_down();
}

KTEST(moving_does_not_escape)
{
	struct arax_buffer_create b;
	struct client c;

	set_up();
	cgroup_enter(LEAF);
	client_open(&c, 2, 128, 0);
	CHECK_OK(limit_set(ctl, leaf, ARAX_RES_MEMORY, c.init.region_size + PAGE));
	cgroup_enter("");
	/* The context stays where it was opened. */
	b = buffer_new(&c, PAGE);
	CHECK_EQ(counter(leaf, ARAX_RES_MEMORY).used, c.init.region_size + PAGE);
	CHECK_ERR(buffer_try(&c, PAGE, &b), EDQUOT);
	CHECK_EQ(usage(&c, ARAX_USAGE_TENANT).counters[ARAX_RES_MEMORY].max,
		 c.init.region_size + PAGE);
	client_close(&c);
	tear_down();
}

static int sockets[2];

static int uses_what_it_got(void *arg)
{
	struct client c = { .fd = fd_receive(sockets[1]) };
	struct arax_buffer_create b;

	(void)arg;
	CHECK_ERR(buffer_try(&c, PAGE, &b), EPERM);
	return 0;
}

KTEST(passing_the_descriptor_does_not_escape)
{
	struct client c;
	pid_t pid;

	set_up();
	CHECK_SYS(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, sockets));
	/* A helper outside of the limit opens, the one inside would use it. */
	cgroup_enter(LEAF);
	pid = child_run(uses_what_it_got, NULL);
	cgroup_enter("");
	client_open(&c, 2, 128, 0);
	fd_send(sockets[0], c.fd);
	CHECK_OK(child_wait(pid));
	client_close(&c);
	tear_down();
}

/* An export used by another tenant stays on its creator's bill. */
KTEST(exports_are_on_the_creators_bill)
{
	struct arax_buffer_import i;
	struct arax_buffer_create b;
	struct client a, c;

	set_up();
	cgroup_enter(LEAF);
	client_open(&a, 2, 128, 0);
	cgroup_enter(TOP);
	client_open(&c, 2, 128, 0);
	cgroup_enter("");
	b = buffer_new(&a, 4 * PAGE);
	CHECK_OK(buffer_import(&c, ARAX_IMPORT_ARAX, buffer_export(&a, b.handle, 0), &i));
	client_close(&a);
	CHECK_EQ(counter(leaf, ARAX_RES_MEMORY).used, 4 * PAGE);
	CHECK_EQ(counter(top, ARAX_RES_MEMORY).used, 4 * PAGE + c.init.region_size);
	client_close(&c);
	tear_down();
}

/* Nobody's limit stands where its cgroup is gone, and its use is still counted above. */
KTEST(a_cgroup_that_is_removed)
{
	struct arax_buffer_create b;
	struct client c;

	set_up();
	cgroup_enter(LEAF);
	client_open(&c, 2, 128, 0);
	cgroup_enter("");
	cgroup_remove(LEAF);
	b = buffer_new(&c, PAGE);
	CHECK(b.handle);
	CHECK_EQ(counter(mid, ARAX_RES_MEMORY).used, c.init.region_size + PAGE);
	/* Another of that name is another tenant. */
	leaf = cgroup_new(LEAF);
	CHECK_EQ(counter(leaf, ARAX_RES_MEMORY).used, 0);
	client_close(&c);
	tear_down();
}

KTEST(deeper_than_tenants_go)
{
	char path[256] = "ktest-deep";
	int fd, last, below, i;
	struct client c;

	ctl = open_node("/dev/arax-ctl");
	fd = cgroup_new(path);
	last = below = -1;
	for (i = 0; i < 40; i++) {
		strcat(path, "/d");
		close(below);
		below = cgroup_new(path);
		/* The 32nd with the root. */
		if (i == 29) {
			last = below;
			below = -1;
			CHECK_OK(limit_set(ctl, last, ARAX_RES_TASKS, 7));
		} else if (i > 29) {
			CHECK_ERR(limit_set(ctl, below, ARAX_RES_TASKS, 1), ELOOP);
			CHECK_ERR(limit_set(ctl, below, ARAX_SET_WEIGHT, 7), ELOOP);
			CHECK_EQ(tenant_query(ctl, below).id, tenant_query(ctl, last).id);
		}
	}
	CHECK_EQ(counter(last, ARAX_RES_TASKS).max, 7);
	CHECK_OK(limit_set(ctl, last, ARAX_RES_TASKS, ARAX_LIMIT_MAX));
	close(last);
	close(below);
	cgroup_enter(path);
	client_open(&c, 2, 128, 0);
	CHECK_EQ(counter(fd, ARAX_RES_MEMORY).used, c.init.region_size);
	client_close(&c);
	cgroup_enter("");
	for (i = 0; i < 40; i++) {
		cgroup_remove(path);
		path[strlen(path) - 2] = '\0';
	}
	cgroup_remove(path);
}

/* How many tenants are told; removed cgroups' ones that are idle go by that. */
static unsigned int nr_tenants(void)
{
	struct arax_tenant t = { .size = sizeof(t), .cgroup_fd = -1 };
	unsigned int n;

	for (n = 0; !CALL(ctl, TENANT_QUERY, &t); n++)
		t.id++;
	return n;
}

/* A weight keeps those at the top. */
static unsigned int set_up_known(void)
{
	set_up();
	CHECK_OK(limit_set(ctl, top, ARAX_SET_WEIGHT, 101));
	return nr_tenants();
}

/* Removed cgroups of which something, such as a tenant, keeps the structure. */
static long long dying(void)
{
	return cgroup_read(TOP, "cgroup.stat", "nr_dying_descendants");
}

/* A limit is set on a cgroup each time that it appears: as saved limits are. */
KTEST(recreated_cgroups_leave_no_tenants)
{
	int rounds = ktest_rounds(300), i, fd;
	unsigned int before;

	before = set_up_known();
	for (i = 0; i < rounds; i++) {
		fd = cgroup_new(TOP "/again");
		CHECK_OK(limit_set(ctl, fd, ARAX_RES_MEMORY, 1000 + (uint64_t)i));
		CHECK_EQ(tenant_query(ctl, fd).flags, 0);
		close(fd);
		cgroup_remove(TOP "/again");
	}
	/* Without any look at the list. */
	CHECK(COMES(dying() <= 3));
	CHECK_EQ(nr_tenants(), before);
	CHECK(COMES(!dying()));
	tear_down();
}

KTEST(limits_of_unused_cgroups_stay)
{
	enum { LIVE = 20 };
	char path[64];
	int fd[LIVE], i, k;
	unsigned int before;

	before = set_up_known();
	for (i = 0; i < LIVE; i++) {
		snprintf(path, sizeof(path), TOP "/live%d", i);
		fd[i] = cgroup_new(path);
		CHECK_OK(limit_set(ctl, fd[i], ARAX_RES_TASKS, 100 + (uint64_t)i));
	}
	for (i = 0; i < 200; i++) {
		k = cgroup_new(TOP "/brief");
		CHECK_OK(limit_set(ctl, k, ARAX_SET_WEIGHT, 7));
		close(k);
		cgroup_remove(TOP "/brief");
	}
	CHECK(COMES(dying() <= LIVE + 8));
	CHECK_EQ(nr_tenants() - before, LIVE);
	for (i = 0; i < LIVE; i++) {
		CHECK_EQ(counter(fd[i], ARAX_RES_TASKS).max, 100 + i);
		close(fd[i]);
		snprintf(path, sizeof(path), TOP "/live%d", i);
		cgroup_remove(path);
	}
	CHECK_EQ(nr_tenants(), before);
	CHECK(COMES(!dying()));
	tear_down();
}

KTEST(a_removed_cgroup_is_charged_to_the_last)
{
	struct arax_tenant t = { .size = sizeof(t), .cgroup_fd = -1 };
	struct arax_buffer_create b;
	unsigned int before;
	struct client c;

	before = set_up_known();
	cgroup_enter(LEAF);
	client_open(&c, 2, 128, 0);
	b = buffer_new(&c, 4 * PAGE);
	CHECK_OK(limit_set(ctl, mid, ARAX_RES_MEMORY, 1 << 20));
	CHECK_OK(limit_set(ctl, leaf, ARAX_RES_MEMORY, c.init.region_size + 5 * PAGE));
	t.id = tenant_query(ctl, leaf).id;
	cgroup_enter("");
	cgroup_remove(LEAF);
	cgroup_remove(MID);
	/* Its limit holds, it is told, and can't be named any more. */
	CHECK_ERR(buffer_try(&c, 2 * PAGE, &b), EDQUOT);
	CHECK_EQ(counter(top, ARAX_RES_MEMORY).used, c.init.region_size + 4 * PAGE);
	CHECK_OK(CALL(ctl, TENANT_QUERY, &t));
	CHECK_OK(strcmp(t.path, "/" LEAF));
	CHECK_EQ(t.flags, ARAX_TENANT_GONE);
	CHECK_EQ(t.usage.counters[ARAX_RES_MEMORY].events, 1);
	CHECK_ERR(limit_set(ctl, leaf, ARAX_RES_MEMORY, 1), ENOENT);
	CHECK_EQ(nr_tenants(), before + 2);
	client_close(&c);
	while (counter(top, ARAX_RES_MEMORY).used)
		sleep_ms(1);
	/* It and the one above went by themselves, with nobody looking. */
	CHECK(COMES(!dying()));
	CHECK_EQ(nr_tenants(), before);
	CHECK_OK(limit_set(ctl, top, ARAX_SET_WEIGHT, 100));
	cgroup_remove(TOP);
}

static int removes_and_makes(void *arg)
{
	uint64_t patience = now_ns() + 60000 * MS;
	int rounds = ktest_rounds(300);

	(void)arg;
	/* Until it was named once: whoever names it may have had no turn so far. */
	while (rounds-- > 0 || (!__atomic_load_n(&shared->named, __ATOMIC_SEQ_CST) &&
				now_ns() < patience)) {
		close(cgroup_new(TOP "/race"));
		cgroup_enter(TOP "/race");
		close(open_node("/dev/arax"));
		cgroup_enter(TOP);
		cgroup_remove(TOP "/race");
	}
	cgroup_enter("");
	__atomic_store_n(&shared->end, true, __ATOMIC_SEQ_CST);
	return 0;
}

KTEST(naming_races_with_removal)
{
	unsigned int before;
	int fd, err;
	pid_t pid;

	before = set_up_known();
	share();
	pid = child_run(removes_and_makes, NULL);
	while (!__atomic_load_n(&shared->end, __ATOMIC_SEQ_CST)) {
		fd = open("/sys/fs/cgroup/" TOP "/race", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
		if (fd < 0)
			continue;
		err = limit_set(ctl, fd, ARAX_RES_TASKS, 5);
		CHECK(!err || err == -ENOENT);
		if (!err)
			__atomic_store_n(&shared->named, true, __ATOMIC_SEQ_CST);
		close(fd);
	}
	CHECK(shared->named);
	CHECK_OK(child_wait(pid));
	CHECK_EQ(nr_tenants(), before);
	CHECK(COMES(!dying()));
	tear_down();
}

/* Many cgroups, each with an open file: removed first, forgotten with the last file. */
static int wide(void *arg)
{
	int n = ktest_rounds(500), *fds = calloc((size_t)n, sizeof(*fds)), i;
	char path[64];

	(void)arg;
	CHECK(fds);
	for (i = 0; i < n; i++) {
		snprintf(path, sizeof(path), TOP "/w%d", i);
		close(cgroup_new(path));
		cgroup_enter(path);
		fds[i] = open_node("/dev/arax");
	}
	CHECK_EQ(nr_tenants(), *(unsigned int *)arg + (unsigned int)n);
	cgroup_enter("");
	for (i = 0; i < n; i++) {
		snprintf(path, sizeof(path), TOP "/w%d", i);
		cgroup_remove(path);
	}
	CHECK_EQ(nr_tenants(), *(unsigned int *)arg + (unsigned int)n);
	return 0;
}

KTEST(many_cgroups)
{
	unsigned int before = set_up_known();

	CHECK_OK(child_wait(child_run(wide, &before)));
	CHECK(COMES(nr_tenants() == before));
	CHECK(COMES(!dying()));
	tear_down();
}

/* ------------------------------------------------------------------ */
/* Users, where nothing is configured                                  */

static uint64_t parameter(const char *name)
{
	char path[128];

	snprintf(path, sizeof(path), "/sys/module/arax/parameters/%s", name);
	return (uint64_t)read_number(path);
}

static uint64_t ram(void)
{
	struct sysinfo s;

	CHECK_SYS(sysinfo(&s));
	return (uint64_t)s.totalram * s.mem_unit;
}

static int defaults(void *arg)
{
	static struct client c[65];
	uint64_t max, contexts = *(uint64_t *)arg, i;
	struct arax_buffer_create b;
	struct arax_usage u;

	become(USER1);
	client_open(&c[0], 2, 128, 0);
	u = usage(&c[0], ARAX_USAGE_USER);
	CHECK_EQ(u.counters[ARAX_RES_CONTEXTS].max, contexts);
	CHECK_EQ(u.counters[ARAX_RES_CONTEXTS].used, 1);
	CHECK_EQ(u.counters[ARAX_RES_TASKS].max, 4096);
	max = u.counters[ARAX_RES_MEMORY].max;
	/* What the module was loaded with, or an eighth of what the kernel manages. */
	CHECK_EQ(max, parameter("user_memory") ? parameter("user_memory") : ram() / 8);
	CHECK_ERR(buffer_try(&c[0], max, &b), EDQUOT);
	CHECK_EQ(usage(&c[0], ARAX_USAGE_USER).counters[ARAX_RES_MEMORY].events, 1);
	for (i = 1; i < contexts; i++)
		client_open(&c[i], 2, 128, 0);
	CHECK_ERR(client_try(&c[i], 2, 128, 0), EDQUOT);
	CHECK_EQ(usage(&c[0], ARAX_USAGE_USER).counters[ARAX_RES_CONTEXTS].events, 1);
	client_close(&c[5]);
	client_open(&c[5], 2, 128, 0);
	return 0;
}

KTEST(users_have_defaults)
{
	uint64_t contexts = parameter("user_contexts");

	if (contexts > 64)
		tap_skip("the module was loaded with more contexts for a user");
	CHECK_OK(child_wait(child_run(defaults, &contexts)));
}

static int task_defaults(void *arg)
{
	struct arax_completion e;
	unsigned int refused = 0;
	struct client c;
	uint32_t i, n, q;

	(void)arg;
	become(USER2);
	client_open(&c, 8192, 128, 0);
	q = queue_new(&c, 0);
	for (i = 0; i < 4100; i++) {
		client_task(&c)->queue = q;
		client_publish(&c);
	}
	CHECK_OK(client_submit(&c, 4100, &n));
	CHECK_EQ(n, 4100);
	while (client_reap(&c, &e)) {
		CHECK_EQ(e.result, -EDQUOT);
		refused++;
	}
	CHECK_EQ(refused, 4);
	CHECK_EQ(usage(&c, ARAX_USAGE_USER).counters[ARAX_RES_TASKS].used, 4096);
	return 0;
}

KTEST(users_have_4096_tasks)
{
	CHECK_OK(child_wait(child_run(task_defaults, NULL)));
}

static int above_defaults(void *arg)
{
	struct arax_buffer_create b;
	struct client c;
	uint64_t max;

	(void)arg;
	cgroup_enter(LEAF);
	become(USER2);
	client_open(&c, 2, 128, 0);
	max = usage(&c, ARAX_USAGE_USER).counters[ARAX_RES_MEMORY].max;
	/* Where an administrator has set a limit, that is the limit. */
	CHECK_OK(buffer_try(&c, max + PAGE, &b));
	CHECK_ERR(buffer_try(&c, max, &b), EDQUOT);
	return 0;
}

KTEST(a_limit_above_replaces_the_default)
{
	struct client c;
	uint64_t max;

	set_up();
	client_open(&c, 2, 128, 0);
	max = usage(&c, ARAX_USAGE_USER).counters[ARAX_RES_MEMORY].max;
	client_close(&c);
	CHECK_OK(limit_set(ctl, top, ARAX_RES_MEMORY, max * 3 / 2));
	CHECK_OK(child_wait(child_run(above_defaults, NULL)));
	tear_down();
}

/* ------------------------------------------------------------------ */
/* What is reported                                                    */

static uint64_t fdinfo(int fd, const char *key)
{
	char path[64], line[256];
	unsigned long long value = ~0ull;
	FILE *f;

	snprintf(path, sizeof(path), "/proc/self/fdinfo/%d", fd);
	f = fopen(path, "re");
	CHECK(f);
	while (fgets(line, sizeof(line), f))
		if (!strncmp(line, key, strlen(key)) && line[strlen(key)] == ':')
			value = strtoull(line + strlen(key) + 1, NULL, 0);
	fclose(f);
	return value;
}

static void tell(struct mediator *m, struct arax_tenants_tell *a, uint32_t count)
{
	a->size = sizeof(*a);
	a->count = count;
	CHECK_OK(CALL(m->fd, TENANTS_TELL, a));
}

/* What a mediator tells of a tenant is that one's, whoever is the mediator then, until it goes. */
KTEST(how_tenants_wait_is_told)
{
	struct arax_tenants_tell a = { 0 };
	struct arax_tenant t;
	struct mediator m;
	struct client c;
	uint32_t i;

	set_up();
	mediator_open(&m, 0);
	tell(&m, &a, 0);
	t = tenant_query(ctl, leaf);
	CHECK(t.flags & ARAX_TENANT_STAT);
	CHECK_EQ(t.waiting_ns + t.nr_periods + t.nr_throttled + t.throttled_ns, 0);
	CHECK_EQ(t.waiting_avg[0] + t.waiting_avg[1] + t.waiting_avg[2], 0);
	cgroup_enter(LEAF);
	client_open(&c, 4, 128, 0);
	for (i = 0; i < ARAX_TELL_MAX; i++)
		a.news[i] = (struct arax_tenant_news){
			.id = tenant_query(ctl, leaf).id, .nr_periods = 3, .nr_throttled = 2,
			.throttled_ns = 1000, .waiting_ns = 2000,
		};
	a.news[5].id = ~0ull;
	a.news[6].id = 0;
	a.news[7].id = tenant_query(ctl, mid).id;
	tell(&m, &a, ARAX_TELL_MAX);
	CHECK_EQ(a.unknown, 2);
	/* No more than were counted. */
	tell(&m, &a, 1);
	CHECK_EQ(a.unknown, 0);
	mediator_close(&m);
	t = tenant_query(ctl, leaf);
	CHECK_EQ(t.nr_periods, 14 * 3);
	CHECK_EQ(t.nr_throttled, 14 * 2);
	CHECK_EQ(t.throttled_ns, 14 * 1000);
	CHECK_EQ(t.waiting_ns, 14 * 2000);
	CHECK_EQ(tenant_query(ctl, mid).waiting_ns, 2000);
	/* Nothing goes up by itself: two of those below may have waited at the same time. */
	CHECK_EQ(tenant_query(ctl, top).waiting_ns, 0);
	CHECK_EQ(tenant_query(ctl, top).nr_periods, 0);
	/* Ten seconds of it, as if they were over: some of a step is known at once. */
	mediator_open(&m, 0);
	a.news[0] = (struct arax_tenant_news){ .id = t.id, .waiting_ns = 10000 * MS };
	tell(&m, &a, 1);
	sleep_ms(2100);
	t = tenant_query(ctl, leaf);
	CHECK(t.waiting_avg[0] > 1000 && t.waiting_avg[0] <= 10000);
	CHECK(t.waiting_avg[1] < t.waiting_avg[0] && t.waiting_avg[2] < t.waiting_avg[1]);
	CHECK(t.waiting_avg[2] > 0);
	mediator_close(&m);
	client_close(&c);
	cgroup_enter("");
	tear_down();
	/* The same name is another tenant. */
	set_up();
	t = tenant_query(ctl, leaf);
	CHECK_EQ(t.waiting_ns + t.nr_periods + t.waiting_avg[0], 0);
	tear_down();
}

KTEST(query_and_fdinfo_agree)
{
	struct arax_context x = { .size = sizeof(x) };
	struct arax_usage u;
	struct mediator m;
	struct client c;
	struct work w;
	uint32_t q;

	set_up();
	cgroup_enter(LEAF);
	client_open(&c, 16, 128, 0);
	mediator_open(&m, 0);
	q = queue_new(&c, 0);
	buffer_new(&c, 5 * PAGE);
	client_marker(&c, q, 1, 0);
	client_marker(&c, q, 2, 0);
	client_marker(&c, q, 3, 0);
	w = mediator_task(&m);
	mediator_result(&m, w.d.tag, 0)->device_ns = 12345;
	w = mediator_task(&m);
	mediator_result(&m, w.d.tag, -EIO)->wait_ns = 777;
	CHECK_EQ(mediator_flush(&m, 2).stale, 0);
	CHECK_OK(CALL(m.fd, CHARGE, (&(struct arax_charge) {
		.size = sizeof(struct arax_charge), .resource = ARAX_RES_DEVICE_MEMORY,
		.context = c.init.context, .delta = 4321 })));
	u = usage(&c, ARAX_USAGE_CONTEXT);
	CHECK_EQ(u.device_ns, 12345);
	CHECK_EQ(u.wait_ns, 777);
	CHECK_EQ(u.tasks_done, 2);
	CHECK_EQ(u.tasks_failed, 1);
	CHECK_EQ(u.counters[ARAX_RES_MEMORY].used, c.init.region_size + 5 * PAGE);
	CHECK_EQ(u.counters[ARAX_RES_TASKS].used, 1);
	CHECK_EQ(u.counters[ARAX_RES_TASKS].peak, 3);
	CHECK_EQ(u.counters[ARAX_RES_TASKS].max, 16);
	CHECK_EQ(fdinfo(c.fd, "arax-memory"), u.counters[ARAX_RES_MEMORY].used);
	CHECK_EQ(fdinfo(c.fd, "arax-tasks"), 1);
	CHECK_EQ(fdinfo(c.fd, "arax-tasks-done"), 2);
	CHECK_EQ(fdinfo(c.fd, "arax-tasks-failed"), 1);
	CHECK_EQ(fdinfo(c.fd, "arax-device-memory"), 4321);
	CHECK_EQ(fdinfo(c.fd, "arax-device-ns"), 12345);
	CHECK_EQ(fdinfo(c.fd, "arax-wait-ns"), 777);
	CHECK_EQ(fdinfo(c.fd, "arax-context"), c.init.context);
	CHECK_EQ(fdinfo(c.fd, "drm-client-id"), c.init.context);
	CHECK_EQ(fdinfo(c.fd, "drm-engine-arax"), 12345);
	CHECK_EQ(fdinfo(c.fd, "drm-total-host"), u.counters[ARAX_RES_MEMORY].used >> 10);
	CHECK_EQ(fdinfo(c.fd, "arax-tenant"), tenant_query(ctl, leaf).id);
	x.id = c.init.context;
	CHECK_OK(CALL(ctl, CONTEXT_QUERY, &x));
	CHECK_EQ(x.tenant, tenant_query(ctl, leaf).id);
	CHECK_OK(memcmp(&x.usage.counters, &u.counters, sizeof(u.counters)));
	CHECK_EQ(x.usage.tasks_done, 2);
	/* The same up the tree. */
	CHECK_EQ(tenant_query(ctl, top).usage.device_ns, 12345);
	CHECK_EQ(tenant_query(ctl, top).usage.tasks_failed, 1);
	CHECK_EQ(tenant_query(ctl, leaf).parent, tenant_query(ctl, mid).id);
	CHECK_EQ(usage(&c, ARAX_USAGE_TENANT).device_ns, 12345);
	client_close(&c);
	mediator_close(&m);
	cgroup_enter("");
	tear_down();
}
