// SPDX-License-Identifier: MIT
/*
 * Descriptors that were sent and that nobody has received.  They count for our own user, wherever they
 * are, and where that has too many of them nobody can be sent any: so each of ours has a part of that.
 * What a connection was sent stays where it is when it ends, as long as its client likes: only from the
 * socket can be told when that is over.
 */
#include <stdlib.h>
#include <unistd.h>

#include "daemon/link/broker_impl.h"

#define MAX_FLYING	64u		/* answers with descriptors that a connection has not read */
#define LOOK_ALL_NS	100000000u	/* at other users', where all together have too many */
#define LEFT_PER_LOOK	256u

/* A connection that has ended, and whose client has not read what it was sent. */
struct left {
	struct clist node;	/* broker->left */
	struct holder *holder;
	int fd;
	uint32_t nr_flying;
};

/* How many may still be unread in @fd, of the @nr that may have been. */
static uint32_t unread(const struct broker *b, int fd, uint32_t nr)
{
	int64_t most = answers_unread(&b->answers, fd);

	return most >= 0 && most < nr ? (uint32_t)most : nr;
}

static void see_landed(struct conn *c)
{
	uint32_t still = c->nr_flying ? unread(c->broker, c->fd, c->nr_flying) : 0;

	if (still != c->nr_flying)
		holder_landed(c->holder, c->nr_flying - still);
	c->nr_flying = still;
}

/* Of @c's user, and now and then of all: others' may be what is in the way. */
static void look_at_flying(struct conn *c)
{
	struct broker *b = c->broker;
	uint64_t now = monotonic_ns();
	bool all = now - b->looked_flying_ns >= LOOK_ALL_NS;
	struct clist *pos, *tmp;

	if (all)
		b->looked_flying_ns = now;
	clist_for_each_safe(pos, tmp, &b->conns) {
		struct conn *o = clist_entry(pos, struct conn, node);

		if (all || o->holder == c->holder)
			see_landed(o);
	}
}

bool conn_may_fly(struct conn *c)
{
	if (c->nr_flying >= MAX_FLYING)
		see_landed(c);
	if (c->nr_flying >= MAX_FLYING)
		return false;
	if (holder_fly(c->holder)) {
		look_at_flying(c);
		if (holder_fly(c->holder))
			return false;
	}
	c->nr_flying++;
	return true;
}

void conn_not_flown(struct conn *c)
{
	c->nr_flying--;
	holder_landed(c->holder, 1);
}

bool conn_leaves_some(struct conn *c)
{
	struct broker *b = c->broker;
	struct left *l;

	see_landed(c);
	if (!c->nr_flying)
		return false;
	l = __atomic_load_n(&b->stop, __ATOMIC_RELAXED) ? NULL : calloc(1, sizeof(*l));
	if (!l) {
		holder_landed(c->holder, c->nr_flying);
		c->nr_flying = 0;
		return false;
	}
	*l = (struct left){ .holder = c->holder, .fd = c->fd, .nr_flying = c->nr_flying };
	clist_add_tail(&l->node, &b->left);
	b->nr_left++;
	c->nr_fds--;
	return true;
}

/* It may have been told nothing yet, of which many may be told; and have sent more than was read. */
static void end_left(struct broker *b, struct left *l)
{
	closer_close(b->closer, l->holder, CLOSER_FOREIGN, l->fd);
	holder_landed(l->holder, l->nr_flying);
	clist_del(&l->node);
	b->nr_left--;
	free(l);
}

void broker_look_at_left(struct broker *b)
{
	uint32_t n = b->nr_left < LEFT_PER_LOOK ? b->nr_left : LEFT_PER_LOOK;
	uint64_t now;

	if (!n)
		return;
	now = monotonic_ns();
	if (now - b->looked_left_ns < LEFT_MS * 1000000ull)
		return;
	b->looked_left_ns = now;
	while (n--) {
		struct left *l = clist_first(&b->left, struct left, node);
		uint32_t still = unread(b, l->fd, l->nr_flying);

		if (!still) {
			end_left(b, l);
			continue;
		}
		if (still != l->nr_flying)
			holder_landed(l->holder, l->nr_flying - still);
		l->nr_flying = still;
		clist_del(&l->node);
		clist_add_tail(&l->node, &b->left);
	}
}

void broker_left_end(struct broker *b)
{
	while (b->nr_left)
		end_left(b, clist_first(&b->left, struct left, node));
}
