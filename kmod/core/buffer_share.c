// SPDX-License-Identifier: GPL-2.0 OR MIT
/*
 * Shares of the buffers' ids, of which there is one table for all; a context takes one, too.
 * A user may have an eighth of it, and one person with subordinate user ids is many users.
 *
 * So the more of them somebody has the more he must leave free, as with slots (share.c), in
 * parts of the whole table.  Somebody is a user, and the nearest cgroup above with a
 * memory.max: of both that which has less counts.
 *
 * That makes the last ones dear for many users, and does not keep them from all of them.  Who
 * is below one memory.max shares that with the others there already: so what these have
 * together counts as well, and as one that has many they leave an eighth to who is outside.
 */
#include "core.h"

/* So many ids of @all stay free for those who have less; it grows with @n. */
static u32 left_by(u32 all, u32 n)
{
	if (n < all / 4096)
		return 0;
	if (n < all / 512)
		return all / 16;
	if (n < all / 128)
		return all / 8;
	return n < all / 32 ? all / 4 : all / 2;
}

/* What they have together is judged more mildly by this. */
#define TOGETHER	4

bool core_buffer_share_left(const struct core *core, const struct core_client *c)
{
	/* Place 0 is none, and the table's size is one less than a power of two. */
	u32 all = core->buffers.max + 1, free = core->buffers.max - 1 - core->buffers.used;
	u32 less = c->user->buffers;
	const struct core_tenant *t;

	core_mutex_assert(&core->lock);
	if (less >= core->params.user_buffers)
		return false;
	for (t = c->tenant; t; t = t->parent)
		if (core_atomic_read(&t->res[ARAX_RES_MEMORY].max) != ARAX_LIMIT_MAX)
			break;
	if (t && free <= left_by(all, t->buffers) / TOGETHER)
		return false;
	if (t && t->buffers < less)
		less = t->buffers;
	return free > left_by(all, less);
}

void core_buffer_share_count(struct core_tenant *leaf, struct core_tenant *user, int by)
{
	for (; leaf; leaf = leaf->parent)
		leaf->buffers += (u32)by;
	user->buffers += (u32)by;
}
