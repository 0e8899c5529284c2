// SPDX-License-Identifier: MIT
/* line.c - one launch at a time, the most urgent of a program first */
#include "daemon/backends/line.h"

#include <stddef.h>

struct line_place {
	struct line_place *next;
	uint32_t program;
	uint64_t due_ns;
};

void line_init(struct line *l)
{
	*l = (struct line){ .first = NULL };
	pthread_mutex_init(&l->lock, NULL);
	pthread_cond_init(&l->cond, NULL);
}

void line_destroy(struct line *l)
{
	pthread_mutex_destroy(&l->lock);
	pthread_cond_destroy(&l->cond);
}

/*
 * Each place is used once, or a program whose launches become ever more urgent would pass the
 * others with all of them: @me goes by the first one, and that one waits on in the place of @me.
 */
static void leave_line(struct line *l, const struct line_place *me)
{
	struct line_place *first = l->first, **p = &l->first;

	while (*p != me)
		p = &(*p)->next;
	if (first == me || first->next == me) {
		*p = me->next;
		return;
	}
	l->first = first->next;
	*p = first;
	first->next = me->next;
}

static const struct line_place *next_in(const struct line *l)
{
	const struct line_place *next = l->first;

	for (const struct line_place *p = l->first; p; p = p->next)
		if (p->program == l->first->program && p->due_ns < next->due_ns)
			next = p;
	return next;
}

uint64_t line_enter(struct line *l, uint32_t program, uint64_t due_ns, uint64_t now_ns)
{
	struct line_place me = { .program = program, .due_ns = due_ns }, **p;
	uint64_t begin;

	pthread_mutex_lock(&l->lock);
	for (p = &l->first; *p; p = &(*p)->next)
		;
	*p = &me;
	while (l->taken || next_in(l) != &me)
		pthread_cond_wait(&l->cond, &l->lock);
	leave_line(l, &me);
	l->taken = true;
	begin = l->free_at > now_ns ? l->free_at : now_ns;
	pthread_mutex_unlock(&l->lock);
	return begin;
}

void line_leave(struct line *l, uint64_t end_ns)
{
	pthread_mutex_lock(&l->lock);
	l->taken = false;
	if (l->free_at < end_ns)
		l->free_at = end_ns;
	pthread_cond_broadcast(&l->cond);
	pthread_mutex_unlock(&l->lock);
}
