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
/* What is set free unseen, or allowed anew, is found by then. */
#define LATE_US		100000u

/**
 * struct quota_tenant - one with tasks that wait
 * @first, @last: these, in the order in which they came
 * @tried:	was the first one, and is queued or on its way to a device; NULL: none is
 * @entered:	atomic: it has what it waited for
 * @vain:	times in a row that it has not
 * @settles:	memory_settles() before the last try; when it is another one @first is tried again
 * @soon:	ticks: but not before that
 * @late:	ticks: then in any case
 */
struct quota_tenant {
	struct quota_tenant *next;
	uint64_t tenant;
	struct graph_node *first, **last;
	const struct graph_node *tried;
	bool entered;
	uint32_t vain;
	uint64_t settles;
	uint64_t soon, late;
};

static struct quota_tenant *find(const struct poller *p, uint64_t tenant)
{
	struct quota_tenant *t = p->quota.tenants;

	while (t && t->tenant != tenant)
		t = t->next;
	return t;
}

static struct quota_tenant *add(struct poller *p, uint64_t tenant)
{
	struct quota_tenant *t = calloc(1, sizeof(*t));

	if (!t)
		return NULL;
	t->tenant = tenant;
	t->last = &t->first;
	t->next = p->quota.tenants;
	p->quota.tenants = t;
	return t;
}

static void drop_idle(struct poller *p)
{
	struct quota_tenant **at = &p->quota.tenants, *t;

	while ((t = *at)) {
		if (t->first || t->tried) {
			at = &t->next;
			continue;
		}
		*at = t->next;
		free(t);
	}
}

static void unlink_task(struct quota_tenant *t, struct graph_node *node)
{
	*node->prev = node->next;
	if (node->next)
		node->next->prev = node->prev;
	else
		t->last = node->prev;
	node->prev = NULL;
}

int quota_wait(struct poller *p, struct graph_node *node, uint64_t settles)
{
	struct quota_tenant *t = find(p, node->d.tenant);
	uint64_t now = ticks_now(&p->ticks);

	if (!t)
		t = add(p, node->d.tenant);
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
	struct quota_tenant *t = find(run->poller, run->node->d.tenant);

	run->quota = t && t->tried == run->node ? t : NULL;
	/* On the host's pages, where it needs none. */
	if (!run->remote)
		quota_entered(run);
}

void quota_entered(struct run *run)
{
	struct poller *p = run->poller;

	if (!run->quota)
		return;
	__atomic_store_n(&run->quota->entered, true, __ATOMIC_RELEASE);
	__atomic_store_n(&p->quota.entered, true, __ATOMIC_RELEASE);
	poller_kick(p);
}

void quota_gone(struct poller *p, struct graph_node *node)
{
	struct quota_tenant *t = find(p, node->d.tenant);

	if (!t)
		return;
	if (node->prev)
		unlink_task(t, node);
	else if (t->tried == node)
		t->tried = NULL;
	/* What it did not take may be another one's. */
	p->quota.due = 0;
	drop_idle(p);
}

/* The task goes its way again, as any that has just become ready. */
static void go_on(struct poller *p, struct quota_tenant *t)
{
	struct graph_node *node = t->first;

	unlink_task(t, node);
	t->tried = node;
	t->entered = false;
	if (!run_anywhere(p, node))
		run_refuse_for_good(p, node);
	else if (sched_push(p->sched, node, poller_ns(p)))
		run_refuse(p, node, -ENOMEM);
}

/* Ticks until then; 0: now; UINT64_MAX: when the one that is tried has come back. */
static uint64_t next_try(struct quota_tenant *t, uint64_t settles, uint64_t now)
{
	uint64_t at;

	if (t->tried && !__atomic_load_n(&t->entered, __ATOMIC_ACQUIRE))
		return UINT64_MAX;
	if (t->tried) {
		/* There may be more left than it took. */
		t->tried = NULL;
		t->vain = 0;
		return 0;
	}
	at = t->settles != settles && t->soon < t->late ? t->soon : t->late;
	return at > now ? at - now : 0;
}

void quota_look(struct poller *p)
{
	uint64_t now = ticks_now(&p->ticks), settles = memory_settles(p->memory);
	uint64_t in, soonest = UINT64_MAX - now;
	struct quota_tenant *t, *next;
	struct quota *q = &p->quota;
	bool entered = __atomic_load_n(&q->entered, __ATOMIC_RELAXED) &&
		       __atomic_exchange_n(&q->entered, false, __ATOMIC_ACQUIRE);

	if (p->stopping ||
	    (!entered && (now < q->next || (settles == q->settles && now < q->due))))
		return;
	q->settles = settles;
	q->next = now + LOOK_US * p->ticks.per_us;
	q->due = UINT64_MAX;
	for (t = q->tenants; t; t = next) {
		/* If it ends here its tenant may be gone. */
		next = t->next;
		in = next_try(t, settles, now);
		if (in && in < soonest)
			soonest = in;
		if (!in && t->first)
			go_on(p, t);
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

	if (!q->tenants || p->stopping)
		return UINT64_MAX;
	now = ticks_now(&p->ticks);
	at = memory_settles(p->memory) != q->settles || q->due < q->next ? q->next : q->due;
	if (__atomic_load_n(&q->entered, __ATOMIC_RELAXED))
		at = now;
	return at == UINT64_MAX ? at : ticks_ns(&p->ticks, at > now ? at : now);
}

void quota_end(struct poller *p)
{
	struct quota_tenant *t;

	while ((t = p->quota.tenants)) {
		p->quota.tenants = t->next;
		free(t);
	}
}
