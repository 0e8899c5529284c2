// SPDX-License-Identifier: MIT
#include "daemon/dispatch/quota.h"

#include <errno.h>
#include <stdlib.h>

#include "daemon/dispatch/run.h"
#include "daemon/memory/memory.h"

/* Between two looks: others' tasks may end much more often than that. */
#define LOOK_US		100u
/* Who tries in vain waits for twice as long before the next time, so often. */
#define DOUBLED		6
/* Others of its tenant's, which can run elsewhere, may have what the first one wants so often. */
#define MOST_OVERTAKEN	8u
/* What is set free unseen, or allowed anew, is found by then. */
#define LATE_US		100000u

/**
 * struct quota_line - a tenant's tasks that wait, of those that can run on the same devices
 * @devices:	these (bits; several have one where there are very many)
 * @first, @last: these, in the order in which they came
 * @tried:	was the first one, and is queued or on its way to a device; NULL: none is
 * @entered:	atomic: it has what it waited for
 * @vain:	times in a row that it has not
 * @overtaken:	times that the first one of another line has, while this line's waited
 * @claims:	it has tried in vain since it was overtaken so often
 * @run:	of the one that is tried, while it runs
 * @busy:	no device has had time for that one, or the room
 * @settles:	memory_settles() before the last try; when it is another one @first is tried again
 * @soon:	ticks: but not before that
 * @late:	ticks: then in any case
 */
struct quota_line {
	struct quota_line *next;
	uint64_t tenant;
	uint64_t devices;
	struct graph_node *first, **last;
	const struct graph_node *tried;
	const struct run *run;
	bool entered, claims, busy;
	uint32_t vain, overtaken;
	uint64_t settles;
	uint64_t soon, late;
};

/* Also those that are being rebuilt: who came before stays in one line with who comes after that. */
static uint64_t devices_for(const struct poller *p, const struct graph_node *node)
{
	uint64_t devices = 0;
	uint32_t i;

	for (i = 0; i < p->nr_devs; i++)
		if (run_could(p, node, i))
			devices |= 1ull << i % 64;
	return devices;
}

/* In which it is tried, or the first one, or the last. */
static struct quota_line *find(const struct poller *p, const struct graph_node *node)
{
	struct quota_line *t = p->quota.lines;

	while (t && t->tried != node &&
	       (!node->prev || (node->prev != &t->first && t->last != &node->next)))
		t = t->next;
	return t;
}

/* For one that has not been in any.  NULL: no memory. */
static struct quota_line *find_or_add(struct poller *p, const struct graph_node *node)
{
	uint64_t devices = devices_for(p, node);
	struct quota_line **at = &p->quota.lines, *t;

	while (*at && (*at)->tenant != node->d.tenant)
		at = &(*at)->next;
	for (t = *at; t && t->tenant == node->d.tenant; t = t->next)
		if (t->devices == devices)
			return t;
	t = calloc(1, sizeof(*t));
	if (!t)
		return NULL;
	t->tenant = node->d.tenant;
	t->devices = devices;
	t->last = &t->first;
	if (!*at)
		at = &p->quota.lines;
	t->next = *at;
	*at = t;
	return t;
}

static void drop_idle(struct poller *p)
{
	struct quota_line **at = &p->quota.lines, *t;

	while ((t = *at)) {
		if (t->first || t->tried) {
			at = &t->next;
			continue;
		}
		*at = t->next;
		free(t);
	}
}

/* @t: its line, if it is the first one there, or the last */
static void unlink_task(struct quota_line *t, struct graph_node *node)
{
	*node->prev = node->next;
	if (node->next)
		node->next->prev = node->prev;
	else
		t->last = node->prev;
	node->prev = NULL;
}

static void forget_overtaken(struct quota_line *t)
{
	t->overtaken = 0;
	t->claims = false;
}

/* The one that was tried has what it wanted: there may be more left. */
static void note_entered(struct poller *p, struct quota_line *t)
{
	struct quota_line *o;

	for (o = p->quota.lines; o; o = o->next)
		if (o != t && o->tenant == t->tenant && (o->tried || o->first))
			o->overtaken++;
	t->tried = NULL;
	t->vain = 0;
	forget_overtaken(t);
	t->late = ticks_now(&p->ticks);
}

/* On a lane that has several tasks. */
static bool is_behind_others(const struct run *run)
{
	const struct poller_device *pd = &run->poller->devs[run->device];

	for (const struct run *o = pd->runs; pd->depth > 1 && o < run_end(pd); o++)
		if (o->node && o->handed && o->lane == run->lane &&
		    (int32_t)(o->rt.ticket - run->rt.ticket) < 0)
			return true;
	return false;
}

/* The one that is tried waits for a device: for its time, at its gate, or for room there. */
static bool is_busy(const struct quota_line *t)
{
	/* The scheduler has been asked since it went there. */
	if (!t->tried || graph_node_state(t->tried) == GRAPH_POPPED)
		return t->tried;
	return t->run && (__atomic_load_n(&t->run->until.waits, __ATOMIC_RELAXED) ||
			  is_behind_others(t->run));
}

static void let_next(struct poller *p)
{
	struct quota_line *t;

	for (t = p->quota.lines; t; t = t->next) {
		if (t->tried && __atomic_load_n(&t->entered, __ATOMIC_ACQUIRE))
			note_entered(p, t);
		t->busy = is_busy(t);
	}
	drop_idle(p);
}

int quota_wait(struct poller *p, struct graph_node *node, uint64_t settles)
{
	struct quota_line *t = find(p, node) ?: find_or_add(p, node);
	uint64_t now = ticks_now(&p->ticks);

	if (!t)
		return -ENOMEM;
	/* When to look next is seen then. */
	p->quota.due = 0;
	if (!t->first && !t->tried) {
		t->settles = settles;
		t->late = now + LATE_US * p->ticks.per_us;
	}
	node->next = NULL;
	if (t->tried == node) {
		/* It has tried in vain, and keeps its place. */
		t->tried = NULL;
		t->settles = settles;
		t->soon = now + (LOOK_US << t->vain) * p->ticks.per_us;
		t->late = now + LATE_US * p->ticks.per_us;
		t->vain += t->vain < DOUBLED;
		t->claims = t->overtaken >= MOST_OVERTAKEN;
		node->next = t->first;
		node->prev = &t->first;
	} else {
		node->prev = t->last;
	}
	*node->prev = node;
	if (node->next)
		node->next->prev = &node->next;
	else
		t->last = &node->next;
	return 0;
}

void quota_started(struct run *run)
{
	run->quota = find(run->poller, run->node);
	if (run->quota)
		run->quota->run = run;
	/* On the host's pages, where it needs none. */
	if (!run->remote)
		quota_entered(run);
}

static void enter(struct poller *p, struct quota_line *t)
{
	__atomic_store_n(&t->entered, true, __ATOMIC_RELEASE);
	__atomic_store_n(&p->quota.entered, true, __ATOMIC_RELEASE);
	poller_kick(p);
}

void quota_entered(struct run *run)
{
	if (run->quota)
		enter(run->poller, run->quota);
}

void quota_needs_none(struct poller *p, struct graph_node *node)
{
	struct quota_line *t = find(p, node);

	if (t && t->tried == node)
		enter(p, t);
}

void quota_gone(struct poller *p, struct graph_node *node)
{
	struct quota_line *t = find(p, node);

	if (!t && !node->prev)
		return;
	if (t && !node->prev && __atomic_load_n(&t->entered, __ATOMIC_ACQUIRE))
		note_entered(p, t);
	if (t && (t->tried == node || t->first == node))
		forget_overtaken(t);
	if (node->prev)
		unlink_task(t, node);
	else
		t->tried = NULL;
	/* What it did not take may be another one's. */
	p->quota.due = 0;
	drop_idle(p);
}

/* The task goes its way again, as any that has just become ready.  False: it ends. */
static bool go_on(struct poller *p, struct quota_line *t)
{
	struct graph_node *node = t->first;

	unlink_task(t, node);
	t->tried = node;
	t->entered = false;
	t->busy = false;
	t->run = NULL;
	if (!run_anywhere(p, node))
		run_refuse_for_good(p, node);
	else if (sched_push(p->sched, node, poller_ns(p)))
		run_refuse(p, node, -ENOMEM);
	else
		return true;
	return false;
}

/* Ticks until then; 0: now; UINT64_MAX: when the one that is tried has come back. */
static uint64_t next_try(const struct quota_line *t, uint64_t settles, uint64_t now)
{
	uint64_t at;

	if (t->tried)
		return UINT64_MAX;
	at = t->settles != settles && t->soon < t->late ? t->soon : t->late;
	return at > now ? at - now : 0;
}

/*
 * It has let its tenant's others go first for long enough.  While it is not quota that it waits for, but a
 * device, they need not stand back; unless what it wanted was theirs when that last had time.
 */
static bool must_be_next(const struct quota_line *t)
{
	return t->overtaken >= MOST_OVERTAKEN && (!t->busy || t->claims);
}

/* Of @tenant's lines from @t on the one that holds up the others; NULL: none does. */
static const struct quota_line *holds_up(const struct quota_line *t, uint64_t tenant)
{
	while (t && t->tenant == tenant && !must_be_next(t))
		t = t->next;
	return t && t->tenant == tenant ? t : NULL;
}

void quota_look(struct poller *p)
{
	uint64_t now = ticks_now(&p->ticks), settles = memory_settles(p->memory);
	uint64_t in, soonest = UINT64_MAX - now;
	const struct quota_line *first = NULL;
	struct quota_line *t, *next;
	uint64_t tenant = 0;
	struct quota *q = &p->quota;
	bool entered = __atomic_load_n(&q->entered, __ATOMIC_RELAXED) &&
		       __atomic_exchange_n(&q->entered, false, __ATOMIC_ACQUIRE);
	bool holds;

	if (p->stopping ||
	    (!entered && (now < q->next || (settles == q->settles && now < q->due))))
		return;
	q->settles = settles;
	q->next = now + LOOK_US * p->ticks.per_us;
	q->due = UINT64_MAX;
	let_next(p);
	for (t = q->lines; t; t = next) {
		/* If it ends here its line may be gone. */
		next = t->next;
		if (t == q->lines || t->tenant != tenant)
			first = holds_up(t, t->tenant);
		tenant = t->tenant;
		in = next_try(t, settles, now);
		/* That one's end is seen, but not that it begins to wait where it is tried. */
		if (first && t->first && t->overtaken < MOST_OVERTAKEN)
			in = first->tried ? LATE_US * p->ticks.per_us : UINT64_MAX;
		if (in && in < soonest)
			soonest = in;
		if (in || !t->first)
			continue;
		holds = t == first;
		if (!go_on(p, t) && holds)
			first = holds_up(next, tenant);
		/* Whether a device has time for it. */
		if (LOOK_US * p->ticks.per_us < soonest)
			soonest = LOOK_US * p->ticks.per_us;
	}
	/* Unless one of these has ended at once: then it is the next one's turn. */
	if (now + soonest < q->due)
		q->due = now + soonest;
	drop_idle(p);
}

uint64_t quota_next(const struct poller *p)
{
	const struct quota *q = &p->quota;
	uint64_t now, at;

	if (!q->lines || p->stopping)
		return UINT64_MAX;
	now = ticks_now(&p->ticks);
	at = memory_settles(p->memory) != q->settles || q->due < q->next ? q->next : q->due;
	if (__atomic_load_n(&q->entered, __ATOMIC_RELAXED))
		at = now;
	return at == UINT64_MAX ? at : ticks_ns(&p->ticks, at > now ? at : now);
}

void quota_end(struct poller *p)
{
	struct quota_line *t;

	while ((t = p->quota.lines)) {
		p->quota.lines = t->next;
		free(t);
	}
}
