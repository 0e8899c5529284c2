// SPDX-License-Identifier: MIT
#include "daemon/link/patience.h"

#include <stdlib.h>

struct spender {
	struct clist node;
	uid_t uid;
	uint64_t spent_ns, at_ns;	/* so much is still to be regained, and when it was */
	bool over;
};

void patience_init(struct patience *p, uint32_t slowness)
{
	pthread_mutex_init(&p->lock, NULL);
	clist_init(&p->spenders);
	p->nr = 0;
	p->slowness = slowness;
}

static void forget(struct patience *p, struct spender *s)
{
	clist_del(&s->node);
	free(s);
	__atomic_fetch_sub(&p->nr, 1, __ATOMIC_RELAXED);
}

void patience_destroy(struct patience *p)
{
	struct clist *pos, *tmp;

	clist_for_each_safe(pos, tmp, &p->spenders)
		forget(p, clist_entry(pos, struct spender, node));
	pthread_mutex_destroy(&p->lock);
}

static void regain(struct spender *s, uint64_t now_ns)
{
	uint64_t ns = now_ns > s->at_ns ? (now_ns - s->at_ns) / PATIENCE_SHARE : 0;

	if (now_ns > s->at_ns)
		s->at_ns = now_ns;
	s->spent_ns = s->spent_ns > ns ? s->spent_ns - ns : 0;
	if (s->spent_ns <= PATIENCE_NS / 2)
		s->over = false;
}

/* (locked) NULL: of @uid nothing is known.  Who has regained all is forgotten by the way. */
static struct spender *find(struct patience *p, uid_t uid, uint64_t now_ns)
{
	struct spender *s, *found = NULL;
	struct clist *pos, *tmp;

	clist_for_each_safe(pos, tmp, &p->spenders) {
		s = clist_entry(pos, struct spender, node);
		regain(s, now_ns);
		if (!s->spent_ns)
			forget(p, s);
		else if (s->uid == uid)
			found = s;
	}
	return found;
}

/* (locked) */
static struct spender *begin(struct patience *p, uid_t uid, uint64_t now_ns)
{
	struct spender *s = calloc(1, sizeof(*s));

	if (!s)
		return NULL;
	s->uid = uid;
	s->at_ns = now_ns;
	clist_add_tail(&s->node, &p->spenders);
	__atomic_fetch_add(&p->nr, 1, __ATOMIC_RELAXED);
	return s;
}

bool patience_spend(struct patience *p, uid_t uid, uint64_t ns, uint64_t now_ns)
{
	struct spender *s;
	bool over = true;

	ns /= p->slowness;
	pthread_mutex_lock(&p->lock);
	s = find(p, uid, now_ns) ?: begin(p, uid, now_ns);
	if (s) {
		/* More than ten times as much would only be to wait for. */
		s->spent_ns += ns < 10 * PATIENCE_NS ? ns : 10 * PATIENCE_NS;
		if (s->spent_ns > 10 * PATIENCE_NS)
			s->spent_ns = 10 * PATIENCE_NS;
		s->over = s->over || s->spent_ns > PATIENCE_NS;
		over = s->over;
	}
	pthread_mutex_unlock(&p->lock);
	return !over;
}

bool patience_is_over(struct patience *p, uid_t uid, uint64_t now_ns)
{
	struct spender *s;
	bool over;

	if (!__atomic_load_n(&p->nr, __ATOMIC_RELAXED))
		return false;
	pthread_mutex_lock(&p->lock);
	s = find(p, uid, now_ns);
	over = s && s->over;
	pthread_mutex_unlock(&p->lock);
	return over;
}
