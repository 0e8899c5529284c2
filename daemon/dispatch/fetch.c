// SPDX-License-Identifier: MIT
#include "daemon/dispatch/fetch.h"

#include <errno.h>
#include <stdlib.h>

#include "daemon/dispatch/remote.h"
#include "daemon/dispatch/run.h"
#include "daemon/dispatch/why.h"
#include "daemon/reason.h"

/*
 * How long one goes on while others wait, and what is fetched at once: between two pieces the link
 * idles for as long as it takes to see the end of one and to begin the next, so on a quick link
 * they are as large as others can wait for.
 */
#define GO_NS		5000000u
#define PIECE_BYTES	(16u << 20)
#define PIECE_NS	2000000u
#define PIECE_MOST	(128u << 20)	/* where less is known of the link than it says */
#define PIECE_LEAST	(256u << 10)	/* where what has to come is in very many places */

/* Whoever comes after this araxd begins the task. */
#define LET_GO	1

/**
 * struct fetch - one of them
 * @run:	that goes on; NULL: @node is a marker that ends, or a task that is queued then
 * @fate:	atomic: what the task ends with, or LET_GO, as nobody waits for the rest; 0: somebody does
 * @turn:	its place in struct fetch_turns, while it is counted there
 * @takes_ns:	what is expected of all of it
 * @most:	bytes of a piece
 * @moved:	bytes that have come
 * @piece:	that is next, of the range @range; @at: where in it is the one behind
 */
struct fetch {
	struct host_job job;
	struct work work;
	struct fetch *next;
	struct poller *poller;
	struct graph_node *node;
	struct run *run;
	int result, fate;
	uint32_t turn;
	uint32_t range;
	uint64_t takes_ns, most, moved, at;
	struct memory_range piece;
	struct memory_range ranges[];
};

/* Its own, if it has one; or a free one; or, when all are taken, another tenant's. */
static uint32_t turn_for(const struct fetch_turns *t, uint64_t tenant)
{
	uint32_t shared = (uint32_t)(tenant * 0x9e3779b97f4a7c15ull >> 58), i;

	for (i = 0; i < FETCH_TURNS; i++)
		if (t->of[i].live && t->of[i].tenant == tenant)
			return i;
	/* One of its own would go before what it may have there. */
	if (!~t->taken || t->of[shared].guests)
		return shared;
	return (uint32_t)__builtin_ctzll(~t->taken);
}

static void enter(struct fetch_turns *t, struct fetch *f)
{
	uint64_t tenant = f->node->d.tenant;

	f->turn = turn_for(t, tenant);
	if (!t->of[f->turn].live++) {
		t->of[f->turn].tenant = tenant;
		t->taken |= 1ull << f->turn;
	}
	t->of[f->turn].guests += t->of[f->turn].tenant != tenant;
}

static void leave(struct fetch_turns *t, const struct fetch *f)
{
	t->of[f->turn].guests -= t->of[f->turn].tenant != f->node->d.tenant;
	if (!--t->of[f->turn].live)
		t->taken &= ~(1ull << f->turn);
}

static void put(struct fetch_turns *t, struct fetch *f, bool first)
{
	uint32_t turn = f->turn;
	struct fetch **at = &t->of[turn].first;

	if (!first && *at)
		at = &t->of[turn].last->next;
	f->next = *at;
	*at = f;
	if (!f->next)
		t->of[turn].last = f;
	t->some |= 1ull << turn;
}

static struct fetch *take(struct fetch_turns *t)
{
	/* Those behind the last one, or from the first one on. */
	uint64_t behind = t->last == FETCH_TURNS - 1 ? 0 : t->some & ~0ull << (t->last + 1);
	struct fetch *f;

	t->last = (uint32_t)__builtin_ctzll(behind ? behind : t->some);
	f = t->of[t->last].first;
	t->of[t->last].first = f->next;
	if (!f->next)
		t->some &= ~(1ull << t->last);
	return f;
}

static struct fetch **place_of(struct fetch_turns *t, const struct fetch *f)
{
	struct fetch **at = t->with;

	while (*at != f)
		at++;
	return at;
}

static void hand_out(struct poller *p)
{
	struct fetch_turns *t = &p->fetches;

	while (t->some && t->out < FETCH_OUT) {
		struct fetch *f = take(t);

		t->out++;
		*place_of(t, NULL) = f;
		host_thread_push(t->thread, &f->job);
	}
}

static void add(struct poller *p, struct fetch *f)
{
	__atomic_store_n(&p->fetches.live, p->fetches.live + 1, __ATOMIC_RELAXED);
	enter(&p->fetches, f);
	put(&p->fetches, f, false);
	hand_out(p);
}

static const char *why(int result)
{
	if (result == -EIO)
		return "bytes that it uses were on a device that does not give them, or is lost";
	if (result == -ETIMEDOUT)
		return "its deadline passed before bytes that it uses had come from a device";
	return "";
}

static void refuse(struct poller *p, struct graph_node *node, int result)
{
	why_tell(node->priv, node, NULL, NULL, result, why(result));
	run_refuse(p, node, result);
}

/* A marker's are: the program is going to write there, and whoever had a copy has it no longer. */
static void end_marker(struct poller *p, struct graph_node *node, int result)
{
	if (result) {
		refuse(p, node, result);
		return;
	}
	remote_host_wrote(node->priv, node, 0);
	run_refuse(p, node, 0);
}

/* A task's bytes are there, or it ends: but it has not begun. */
static void queue(struct poller *p, struct graph_node *node, int result)
{
	struct link *l = node->priv;

	if (result < 0) {
		refuse(p, node, result);
		return;
	}
	graph_stop(l->graph, node);
	if (result == LET_GO)
		return;
	if (!run_anywhere(p, node))
		run_refuse_for_good(p, node);
	else if (sched_push(p->sched, node, poller_ns(p)))
		run_refuse(p, node, -ENOMEM);
}

/* What it ends with now; 0: it goes on. */
static int fate_of(const struct fetch *f)
{
	const struct graph_node *node = f->node;
	uint64_t deadline = run_deadline_ns(node);

	if (graph_node_gone(node) || graph_node_canceled(node))
		return -ECANCELED;
	if (deadline && poller_ns(f->poller) >= deadline)
		return -ETIMEDOUT;
	/* What it has not brought by then the next araxd has not got, whose a marker would be. */
	return f->poller->stopping && !f->run && node->d.opcode != ARAX_OP_MARKER ? LET_GO : 0;
}

static void end(struct fetch *f)
{
	struct graph_node *node = f->node;
	/* What was let go, too, may have lost its program meanwhile; and not all is looked at before this. */
	int result = graph_node_gone(node) ? -ECANCELED : f->fate ?: fate_of(f) ?: f->result;
	struct poller *p = f->poller;

	node->moved += f->moved;
	if (f->run) {
		reason_set("%s", why(result));
		run_go_on(f->run, result);
	} else if (node->d.opcode == ARAX_OP_MARKER) {
		p->running--;
		end_marker(p, node, result);
	} else {
		p->running--;
		queue(p, node, result);
	}
	free(f);
}

static bool is_over(const struct fetch *f)
{
	return f->result || f->range == f->node->d.nr_ranges ||
	       __atomic_load_n(&f->fate, __ATOMIC_RELAXED);
}

static void is_live_no_more(struct fetch_turns *t, const struct fetch *f)
{
	__atomic_store_n(&t->live, t->live - 1, __ATOMIC_RELAXED);
	leave(t, f);
}

static struct fetch *of_work(struct work *w)
{
	return (struct fetch *)((char *)w - offsetof(struct fetch, work));
}

/* It never had a turn. */
static void fetched_here(struct work *w)
{
	end(of_work(w));
}

static void fetched(struct work *w)
{
	struct fetch *f = of_work(w);
	struct poller *p = f->poller;
	bool over = is_over(f);

	p->fetches.out--;
	*place_of(&p->fetches, f) = NULL;
	if (over)
		is_live_no_more(&p->fetches, f);
	else
		put(&p->fetches, f, true);
	hand_out(p);
	if (over)
		end(f);
}

/* Which one is next, if any is left. */
static void find_piece(struct fetch *f)
{
	for (; f->range < f->node->d.nr_ranges; f->range++, f->at = 0) {
		const struct memory_range *r = &f->ranges[f->range];

		if (r->buffer && memory_piece(r, f->most, &f->at, &f->piece))
			return;
	}
}

static void fetch_piece(struct fetch *f)
{
	f->result = memory_flush(f->poller->memory, &f->piece);
	f->moved += f->piece.moved;
	find_piece(f);
}

static bool is_alone(const struct fetch *f)
{
	return __atomic_load_n(&f->poller->fetches.live, __ATOMIC_RELAXED) == 1;
}

/* On the thread. */
static void do_fetch(struct host_job *job)
{
	struct fetch *f = (struct fetch *)((char *)job - offsetof(struct fetch, job));
	uint64_t until = monotonic_ns() + GO_NS;

	if (!is_over(f))
		fetch_piece(f);
	while (!is_over(f) && (monotonic_ns() < until || is_alone(f)))
		fetch_piece(f);
	poller_post(f->poller, &f->work);
}

/* It takes about as long as to wake another thread for it. */
static bool is_quick(const struct fetch *f)
{
	const struct poller *p = f->poller;

	return f->takes_ns <= p->inline_ns && p->running == 1 && !sched_queued(p->sched) && !p->visitor &&
	       !p->stopping && role_is_watched(&p->role);
}

/* As a short kernel is run, see run.c: with the role lent out. */
static enum run_outcome fetch_here(struct fetch *f)
{
	struct poller *p = f->poller;
	struct role_seat *seat = role_lend(&p->role);

	while (!is_over(f))
		fetch_piece(f);
	if (!role_return(&p->role, seat)) {
		f->work.run = fetched_here;
		poller_post(p, &f->work);
		return RUN_LOST;
	}
	p->now = ticks_now(&p->ticks);
	p->exact = true;
	end(f);
	return RUN_DONE;
}

/* How much of @bytes takes so long as a piece may. */
static uint64_t piece_bytes(uint64_t bytes, uint64_t takes_ns)
{
	uint64_t most = (bytes / (takes_ns / PIECE_NS + 1) / PIECE_BYTES + 1) * PIECE_BYTES;

	return most < PIECE_MOST ? most : PIECE_MOST;
}

/* Nor is it more where it is few bytes of many that take so long: each place is a copy of its own. */
static uint64_t sparse_bytes(const struct fetch *f, uint64_t bytes, uint64_t most)
{
	uint64_t all = 0, part;

	for (uint32_t i = 0; i < f->node->d.nr_ranges; i++)
		if (f->ranges[i].buffer && f->ranges[i].length)
			all += (uint64_t)(f->ranges[i].count - 1) * f->ranges[i].stride + f->ranges[i].length;
	if (bytes >= all / 2 || f->takes_ns <= PIECE_NS)
		return most;
	part = (uint64_t)((double)all * PIECE_NS / (double)f->takes_ns);
	part = part > PIECE_LEAST ? part : PIECE_LEAST;
	return part < most ? part : most;
}

/* NULL: no memory. */
static struct fetch *create(struct poller *p, struct graph_node *node, struct run *run)
{
	struct fetch *f = calloc(1, sizeof(*f) + node->d.nr_ranges * sizeof(f->ranges[0]));
	uint64_t bytes;

	if (!f)
		return NULL;
	f->job.run = do_fetch;
	f->work.run = fetched;
	f->poller = p;
	f->node = node;
	f->run = run;
	remote_look_up(node, f->ranges);
	bytes = memory_dirty(p->memory, f->ranges, node->d.nr_ranges, &f->takes_ns);
	f->most = sparse_bytes(f, bytes, piece_bytes(bytes, f->takes_ns));
	find_piece(f);
	return f;
}

void fetch_for_run(struct run *run)
{
	struct fetch *f = create(run->poller, run->node, run);

	if (f)
		add(run->poller, f);
	else
		run_go_on(run, -ENOMEM);
}

/* Whatever device it comes to, also if that is none of those that are there just now. */
static bool is_for_host(const struct poller *p, const struct graph_node *node)
{
	for (uint32_t i = 0; node->d.opcode == ARAX_OP_LAUNCH && i < p->nr_devs; i++)
		if (memory_has_device(p->memory, i) && run_could(p, node, i))
			return false;
	return true;
}

bool fetch_before_queue(struct poller *p, struct graph_node *node)
{
	if (p->stopping || !is_for_host(p, node) || !remote_is_dirty(node))
		return false;
	fetch_for_task(p, node);
	return true;
}

void fetch_for_task(struct poller *p, struct graph_node *node)
{
	struct link *l = node->priv;
	struct fetch *f;

	node->fetched = true;
	/* Else its buffers might go meanwhile. */
	graph_start(l->graph, node);
	f = create(p, node, NULL);
	if (!f) {
		run_refuse(p, node, -ENOMEM);
		return;
	}
	p->running++;
	add(p, f);
}

/* Those that wait and need not any more are put behind *@last.  Returns where the next one comes. */
static struct fetch **give_up(struct fetch_turns *t, uint32_t turn, struct fetch **last)
{
	struct fetch **at = &t->of[turn].first, *f;

	while ((f = *at)) {
		f->fate = fate_of(f);
		if (!f->fate) {
			t->of[turn].last = f;
			at = &f->next;
			continue;
		}
		*at = f->next;
		*last = f;
		last = &f->next;
	}
	if (!t->of[turn].first)
		t->some &= ~(1ull << turn);
	return last;
}

void fetch_look(struct poller *p)
{
	struct fetch_turns *t = &p->fetches;
	struct fetch *over, **last = &over, *f;

	t->look = false;
	/* These end when a piece of them has come. */
	for (uint32_t i = 0; i < FETCH_OUT; i++)
		if (t->with[i] && !t->with[i]->fate)
			__atomic_store_n(&t->with[i]->fate, fate_of(t->with[i]), __ATOMIC_RELAXED);
	for (uint64_t some = t->some; some; some &= some - 1)
		last = give_up(t, (uint32_t)__builtin_ctzll(some), last);
	*last = NULL;
	while ((f = over)) {
		over = f->next;
		is_live_no_more(t, f);
		end(f);
	}
}

enum run_outcome fetch_for_host(struct poller *p, struct graph_node *node)
{
	struct link *l = node->priv;
	struct fetch *f;

	if (!remote_has_lazy(node) || !remote_is_dirty(node)) {
		if (remote_has_lazy(node))
			remote_host_wrote(l, node, 0);
		run_refuse(p, node, 0);
		return RUN_DONE;
	}
	/* As in fetch_for_task(). */
	graph_start(l->graph, node);
	f = create(p, node, NULL);
	if (!f) {
		run_refuse(p, node, -ENOMEM);
		return RUN_DONE;
	}
	p->running++;
	if (is_quick(f))
		return fetch_here(f);
	add(p, f);
	return RUN_DONE;
}
