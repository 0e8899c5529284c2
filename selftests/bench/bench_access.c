// SPDX-License-Identifier: MIT
/* access: the program's own loops over a buffer, and what it takes to begin and end one. */
#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "bench.h"
#include "clock.h"
#include "echo.h"
#include "place.h"
#include "result.h"
#include "server.h"
#include "session.h"
#include "side.h"

#define SIZES		4
#define SAMPLE_BYTES	(1u << 20)	/* that a sample passes over at the least */
#define PAIRS		64		/* begins and ends in a sample */
#define BAR_LOOP	0.95
#define BAR_BESIDE_NS	1e6
#define LONG_NS		100000000u	/* a task on the other half */
#define REST_US		20000
#define HALF		4096u
#define LOOPS_SHARE	0.6	/* of the time */

static const size_t sizes[SIZES] = { 16u << 10, 512u << 10, 8u << 20, 64u << 20 };
static const char *const names[SIZES] = {
	"loop, 16 KiB", "loop, 512 KiB", "loop, 8 MiB", "loop, 64 MiB",
};

enum { BUFFER, PRIVATE, MEMFD, KINDS };

static const char *const kinds[KINDS] = { "a buffer", "private memory", "a memory file" };

/**
 * struct memory - what a loop runs over
 * @kind:	of it
 * @bump:	a kernel that raises the first and the last word
 * @buffer:	that it is of, and accessed; NULL: memory of no buffer
 * @words:	each is raised by one in a pass
 * @passes:	in a sample
 * @total:	that there were
 * @begun:	an access that has not ended
 */
struct memory {
	struct session *s;
	const struct arax_kernel *bump;
	int kind;
	struct arax_buffer *buffer;
	uint64_t *words;
	size_t bytes;
	uint64_t passes, total;
	int begun;
};

/* Never inlined: the same instructions at the same place for all memory. */
static __attribute__((noinline)) void raise_words(uint64_t *words, size_t n)
{
	size_t i;

	for (i = 0; i < n; i++)
		words[i]++;
}

static void end_access(struct memory *m)
{
	if (m->begun)
		must(arax_access_end(m->s->queue, arax_inout(m->buffer)), "ending an access");
	m->begun = 0;
}

static void begin_access(struct memory *m)
{
	end_access(m);
	if (!m->buffer)
		return;
	must(arax_access_begin(m->s->queue, arax_inout(m->buffer), ARAX_DEADLINE_NONE),
	     "beginning an access");
	m->begun = 1;
}

static void run_loop(struct memory *m)
{
	uint64_t i;

	for (i = 0; i < m->passes; i++)
		raise_words(m->words, m->bytes / 8);
	m->total += m->passes;
}

/* What is timed is the loop, between a begin and an end. */
ROUND(timed_loops, struct memory, begin_access, run_loop)

static void make_memory(struct memory *m)
{
	int fd = -1;

	if (m->kind == BUFFER) {
		must(arax_buffer_create(m->s->ax, m->bytes, 0, &m->buffer), "a buffer");
		m->words = arax_buffer_data(m->buffer);
	} else {
		if (m->kind == MEMFD) {
			fd = memfd_create("arax-bench", MFD_CLOEXEC);
			if (fd < 0 || ftruncate(fd, (off_t)m->bytes) < 0)
				bench_fail("a memory file: %s", strerror(errno));
		}
		m->words = mmap(NULL, m->bytes, PROT_READ | PROT_WRITE,
				fd < 0 ? MAP_PRIVATE | MAP_ANONYMOUS : MAP_SHARED, fd, 0);
		if (m->words == MAP_FAILED)
			bench_fail("memory: %s", strerror(errno));
		if (fd >= 0)
			close(fd);
	}
	memset(m->words, 0, m->bytes);
	m->total = 0;
}

static void drop_memory(struct memory *m)
{
	if (m->buffer) {
		arax_buffer_destroy(m->buffer);
		/* araxd gives its pages back after that, on the next one's time. */
		usleep(REST_US);
	} else {
		munmap(m->words, m->bytes);
	}
	m->buffer = NULL;
}

/* What the program wrote is what a task finds, and back. */
static void run_task(struct memory *m)
{
	struct arax_range ranges[2] = { arax_in(m->s->buffers[0]), arax_inout(m->buffer) };
	uint64_t args[2] = { 0 }, *last = &m->words[m->bytes / 8 - 1];

	end_access(m);
	must(arax_launch(m->s->queue, m->bump, arax_grid(1, 1, 1), args, sizeof(args), ranges, 2,
			 NULL), "a task");
	begin_access(m);
	if (m->words[0] != m->total + 1 || *last != m->total + 1)
		bench_fail("the task did not work on the client's pages");
	m->words[0]--;
	--*last;
}

static void check_words(const struct memory *m)
{
	size_t i;

	for (i = 0; i < m->bytes / 8; i++) {
		if (m->words[i] != m->total)
			bench_fail("a loop's word %zu is %llu after %llu passes", i,
				   (unsigned long long)m->words[i], (unsigned long long)m->total);
	}
}

/* Made anew each time: which pages one has makes a difference of some percent. */
static void loop_round(void *arg, double seconds, struct samples *samples)
{
	struct memory *m = arg;

	make_memory(m);
	if (m->buffer)
		run_task(m);
	timed_loops(m, seconds, samples);
	if (m->buffer)
		run_task(m);
	check_words(m);
	end_access(m);
	drop_memory(m);
}

/* In a sample: each word is read and written. */
static double moved(const struct memory *m)
{
	return 2.0 * (double)(m->bytes * m->passes);
}

static void loop_part(json_t *result, json_t *rows, int size, const struct memory *memory,
		      const struct measure *loops, int judged)
{
	struct part p = { .name = names[size], .unit = "GB/s", .bar = BAR_LOOP, .at_least = 1,
			  .of = judged ? BAR_RATIO : BAR_NONE };
	double of[KINDS];
	int k;

	for (k = 0; k < KINDS; k++)
		of[k] = moved(memory) / measure_p50(&loops[k]);
	part_measured(&p, &loops[BUFFER], &loops[PRIVATE]);
	part_rate(&p, &loops[BUFFER], moved(memory));
	result_part(result, &p);
	json_array_append_new(rows, json_pack("{s:s,s:i,s:i,s:f,s:f,s:f,s:f,s:f,s:b}",
					      "loop", names[size] + strlen("loop, "),
					      "bytes", (int)memory->bytes, "passes",
					      (int)memory->passes, "buffer_gbs", of[BUFFER],
					      "private_gbs", of[PRIVATE], "memfd_gbs", of[MEMFD],
					      "ratio_private", of[BUFFER] / of[PRIVATE],
					      "ratio_memfd", of[BUFFER] / of[MEMFD], "checked", 1));
}

/* ------------------------------------------------------------------ */
/* Begin and end                                                       */

/**
 * struct pair - what is accessed, on two pages of a buffer
 * @plain, @explicit: buffers: the first needs no word with araxd where nothing is in flight
 * @log:	a kernel that writes when it began
 * @long_task:	of it, on the second page of @on
 * @begun_beside: accesses that began while it was in flight
 * @stayed:	and ended so
 */
struct pair {
	struct session *s;
	struct arax_buffer *plain, *explicit;
	struct arax_kernel log;
	struct arax_event long_task;
	struct arax_buffer *on;
	uint64_t line;
	long begun_beside, stayed;
};

static void access_first(struct pair *p, struct arax_buffer *buffer)
{
	struct arax_range first = arax_part(buffer, ARAX_INOUT, 0, HALF);

	must(arax_access_begin(p->s->queue, first, ARAX_DEADLINE_NONE), "beginning an access");
	must(arax_access_end(p->s->queue, first), "ending an access");
}

static void nothing(struct pair *p)
{
}

static void plain_pairs(struct pair *p)
{
	int i;

	for (i = 0; i < PAIRS; i++)
		access_first(p, p->plain);
}

/* As a lock that nobody else wants is taken and dropped. */
static void exchanges(struct pair *p)
{
	int i;

	for (i = 0; i < PAIRS; i++) {
		__atomic_exchange_n(&p->line, 1, __ATOMIC_SEQ_CST);
		__atomic_exchange_n(&p->line, 0, __ATOMIC_SEQ_CST);
	}
}

static void explicit_pair(struct pair *p)
{
	access_first(p, p->explicit);
}

ROUND(plain_round, struct pair, nothing, plain_pairs)
ROUND(exchange_round, struct pair, nothing, exchanges)
ROUND(explicit_round, struct pair, nothing, explicit_pair)

static void start_long(struct pair *p)
{
	struct arax_range second = arax_part(p->on, ARAX_OUT, HALF, HALF);
	uint64_t ns = LONG_NS;

	p->long_task = (struct arax_event)ARAX_EVENT_INIT;
	must(arax_launch(p->s->queue, &p->log, arax_grid(1, 1, 1), ARAX_ARGS(ns), &second, 1,
			 &p->long_task), "a long task");
}

static void end_long(struct pair *p)
{
	must(arax_wait(&p->long_task, ARAX_DEADLINE_NONE), "a long task");
}

static void keep_long(struct pair *p)
{
	if (!arax_event_done(&p->long_task))
		return;
	end_long(p);
	start_long(p);
}

static void access_beside(struct pair *p)
{
	access_first(p, p->on);
	p->begun_beside++;
	p->stayed += !arax_event_done(&p->long_task);
}

ROUND(beside, struct pair, keep_long, access_beside)

static void beside_round(void *arg, double seconds, struct samples *samples)
{
	struct pair *p = arg;

	start_long(p);
	beside(p, seconds, samples);
	end_long(p);
}

/* Who accesses what the task writes has it, and so waited for its end. */
static void check_waits(struct pair *p)
{
	struct arax_range second = arax_part(p->on, ARAX_INOUT, HALF, HALF);
	uint64_t *start = (uint64_t *)((char *)arax_buffer_data(p->on) + HALF);

	must(arax_access_begin(p->s->queue, second, ARAX_DEADLINE_NONE), "beginning an access");
	*start = 0;
	must(arax_access_end(p->s->queue, second), "ending an access");
	start_long(p);
	must(arax_access_begin(p->s->queue, second, ARAX_DEADLINE_NONE), "beginning an access");
	if (!*start || clock_ns() - *start < LONG_NS)
		bench_fail("an access did not wait for the task that writes its bytes");
	must(arax_access_end(p->s->queue, second), "ending an access");
	end_long(p);
}

static void pair_part(json_t *result, const struct measure *m, const struct measure *floor,
		      double bar)
{
	struct part p = { .name = m->name, .unit = "ns", .of = bar ? BAR_P99 : BAR_NONE,
			  .bar = bar };

	part_measured(&p, m, floor);
	result_part(result, &p);
	result_peer(result, floor->name, p.floor);
}

/* Nobody is pinned: three that want a CPU. */
static void measure_beside(json_t *result, const struct options *o, struct pair *pair)
{
	struct pair other = *pair;
	struct measure with = { .name = "beside a long task", .round = beside_round, .arg = pair };
	struct measure plain = { .round = beside_round, .arg = &other,
				 .name = "beside a long task, not explicit" };
	struct measure alone = { .name = "begin and end alone, nobody pinned",
				 .round = explicit_round, .arg = pair };
	struct measure *all[] = { &with, &alone, &plain };

	pair->on = pair->explicit;
	other.on = other.plain;
	check_waits(pair);
	check_waits(&other);
	interleave(all, 3, (size_t)o->rounds, o->seconds * (1 - LOOPS_SHARE));
	pair_part(result, &with, &alone, strcmp(o->link, "kernel") ? BAR_BESIDE_NS : 0);
	result_peer(result, plain.name, measure_p50(&plain));
	result_int(result, "begun_beside", pair->begun_beside + other.begun_beside);
	result_int(result, "stayed_beside", pair->stayed + other.stayed);
}

/* ------------------------------------------------------------------ */

/* All loops, by turns with what a begin and an end take. */
static void measure_loops(json_t *result, const struct options *o, struct session *s,
			  const struct arax_kernel *bump, struct pair *pair)
{
	static struct memory memory[SIZES][KINDS];
	static struct measure loops[SIZES][KINDS];
	struct measure plain = { .name = "begin and end", .round = plain_round, .arg = pair,
				 .scale = PAIRS };
	struct measure swap = { .name = "two atomic exchanges", .round = exchange_round,
				.arg = pair, .scale = PAIRS };
	struct measure marker = { .name = "begin and end, explicit", .round = explicit_round,
				  .arg = pair };
	struct measure lines = { .name = "two cache lines", .round = echo_round };
	struct measure *all[SIZES * KINDS + 4];
	json_t *rows = json_array();
	int i, k, n = 0;

	memset(loops, 0, sizeof(loops));
	for (i = 0; i < SIZES; i++)
		for (k = 0; k < KINDS; k++) {
			memory[i][k] = (struct memory){ .s = s, .bump = bump, .kind = k,
							.bytes = sizes[i], .passes = 1 };
			if (sizes[i] < SAMPLE_BYTES)
				memory[i][k].passes = SAMPLE_BYTES / sizes[i];
			loops[i][k] = (struct measure){ .name = kinds[k], .round = loop_round,
							.arg = &memory[i][k] };
			all[n++] = &loops[i][k];
		}
	lines.arg = echo_start(ECHO_LINES, place_cpu[1]);
	all[n++] = &plain;
	all[n++] = &swap;
	all[n++] = &marker;
	all[n++] = &lines;
	interleave(all, (size_t)n, (size_t)o->rounds, o->seconds * LOOPS_SHARE);
	for (i = 0; i < SIZES; i++)
		loop_part(result, rows, i, memory[i], loops[i], strcmp(o->link, "kernel"));
	pair_part(result, &plain, &swap, 0);
	pair_part(result, &marker, &lines, 0);
	echo_stop(lines.arg);
	json_object_set_new(result, "rows", rows);
}

json_t *bench_access(const struct options *o)
{
	json_t *result = result_new("access", o->link);
	struct arax_kernel bump;
	struct server server;
	struct session s;
	struct pair pair = { .s = &s };

	server_start(&server, o->link);
	session_open(&s, server.link);
	session_find(&s, "bench_bump", &bump);
	session_find(&s, "bench_log", &pair.log);
	must(arax_buffer_create(s.ax, 2 * HALF, 0, &pair.plain), "a buffer");
	must(arax_buffer_create(s.ax, 2 * HALF, ARAX_BUFFER_EXPLICIT, &pair.explicit),
	     "a buffer");
	place_self(place_cpu[0]);
	server_place(&server, place_cpu[1]);
	measure_loops(result, o, &s, &bump, &pair);
	place_self(-1);
	server_place(&server, -1);
	measure_beside(result, o, &pair);
	session_close(&s);
	server_stop(&server);
	result_int(result, "l2_kib", sysconf(_SC_LEVEL2_CACHE_SIZE) / 1024);
	result_int(result, "l3_kib", sysconf(_SC_LEVEL3_CACHE_SIZE) / 1024);
	result_note(result, "note_value",
		    "bytes that a loop of x[i]++ reads and writes between arax_access_begin() and "
		    "arax_access_end(); the floor is the same code on private memory; what begin "
		    "and end take is not in it");
	result_note(result, "note_placement",
		    "client on pinned_cpus[0], araxd and the floor's other side on [1]; "
		    "'beside a long task' and its floor: nobody pinned");
	return result;
}
