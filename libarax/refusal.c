// SPDX-License-Identifier: MIT
/*
 * What was refused, in words.  A refusal comes back as an errno alone, but the entry that it is
 * about still lies in the ring: nobody may write there before its ticket is free again.
 */
#include <stdio.h>
#include <stdlib.h>

#include "internal.h"

#define KEPT	16u	/* as many texts as the core keeps of what a daemon says */

struct refused {
	uint64_t tag;
	int result;
	bool cut;			/* what did not fit the entry has been written over */
	uint32_t nr_ranges;
	struct arax_task task;
	struct arax_range ranges[ARAX_MAX_RANGES];
};

struct refusals {
	uint32_t next;			/* counted for ever */
	uint32_t hint;			/* where in the ring the next one is looked for first */
	struct refused at[KEPT];
};

int refusals_init(struct arax *ax)
{
	ax->refusals = calloc(1, sizeof(*ax->refusals));
	return ax->refusals ? 0 : -ENOMEM;
}

void refusals_destroy(struct arax *ax)
{
	free(ax->refusals);
	ax->refusals = NULL;
}

/* ------------------------------------------------------------------ */
/* Noted when they come back, with ring_lock held                      */

/* Those of a batch come in order. */
static const struct arax_task *find_entry(struct ring *r, uint32_t *hint, uint64_t ticket)
{
	uint32_t i, at;

	for (i = 0; i < r->depth; i++) {
		at = (*hint + i) & r->mask;
		if (ring_sq_at(r, at)->user_data != ticket)
			continue;
		*hint = at + 1;
		return ring_sq_at(r, at);
	}
	return NULL;
}

static void take_short(struct refused *f, const struct arax_task_short *t)
{
	uint32_t i;

	f->task = (struct arax_task){
		.opcode = t->opcode, .flags = t->flags, .queue = t->queue, .kernel = t->kernel,
		.grid = { t->grid, 1, 1 }, .block = { 1, 1, 1 },
	};
	f->nr_ranges = t->nr_ranges < 2 ? t->nr_ranges : 2;
	for (i = 0; i < f->nr_ranges; i++)
		f->ranges[i] = (struct arax_range){
			.buffer = t->buffer[i], .length = t->length[i], .count = 1,
		};
}

/* Its room in the arena came back when it was consumed. */
static void take_ext(struct ring *r, struct refused *f, uint32_t place)
{
	uint64_t end = r->arena_end[place & r->mask];
	struct arax_task_ext x;
	uint32_t len, max = ARAX_MAX_RANGES - f->nr_ranges;

	memcpy(&x, r->arena + f->task.ext, sizeof(x));
	len = (uint32_t)(sizeof(x) + x.nr_ranges * sizeof(struct arax_range) + x.arg_len + 7) & ~7u;
	if (r->arena_head - end + len > r->arena_size || len > r->arena_size - f->task.ext ||
	    x.nr_ranges > max) {
		f->cut = true;
		return;
	}
	memcpy(f->ranges + f->nr_ranges, r->arena + f->task.ext + sizeof(x),
	       x.nr_ranges * sizeof(struct arax_range));
	f->nr_ranges += x.nr_ranges;
	if (x.arg_len)
		f->task.arg_len = x.arg_len;
}

/* There may be as many others as the ring holds, whose entries are long gone, when a daemon dies. */
static bool can_explain(int result)
{
	return result == -EINVAL || result == -EBADF || result == -ENOENT || result == -ESTALE ||
	       result == -EDQUOT;
}

void refusal_note(struct arax *ax, const struct arax_completion *c)
{
	struct refusals *all = ax->refusals;
	const struct arax_task *t;
	struct ring *r = &ax->ring;
	struct refused *f;
	uint32_t i;

	if (!all || ARAX_TAG_EPOCH(c->tag) || c->origin || !can_explain(c->result))
		return;
	t = find_entry(r, &all->hint, c->user_data);
	if (!t)
		return;
	f = &all->at[all->next++ % KEPT];
	memset(f, 0, sizeof(*f));
	f->tag = c->tag;
	f->result = c->result;
	if (t->flags & ARAX_TASK_SHORT) {
		take_short(f, (const struct arax_task_short *)t);
		return;
	}
	f->task = *t;
	f->nr_ranges = t->nr_ranges < r->max_inline ? t->nr_ranges : r->max_inline;
	for (i = 0; i < f->nr_ranges; i++)
		f->ranges[i] = i < 2 ? t->ranges[i] : ((const struct arax_task256 *)t)->more[i - 2];
	if (t->flags & ARAX_TASK_EXT && t->ext <= r->arena_size - sizeof(struct arax_task_ext))
		take_ext(r, f, all->hint - 1);
}

/* ------------------------------------------------------------------ */
/* Told when somebody asks: as the core looks, but at leisure           */

/* @most: whole pages, which is what the core looks at. */
static bool buffer_bytes(struct arax *ax, uint32_t handle, unsigned long long *bytes,
			 unsigned long long *most)
{
	const struct buffer *b;

	pthread_mutex_lock(&ax->object_lock);
	for (b = ax->buffers; b && b->pub.handle != handle; b = b->next)
		;
	if (b) {
		*bytes = b->pub.bytes;
		*most = b->mapped > *bytes ? b->mapped : *bytes;
	}
	pthread_mutex_unlock(&ax->object_lock);
	return b;
}

static bool is_beyond(const struct arax_range *r, uint64_t bytes)
{
	uint64_t end = (uint64_t)(r->count ? r->count - 1 : 0) * r->stride;

	return __builtin_add_overflow(end, r->offset, &end) ||
	       __builtin_add_overflow(end, r->length, &end) || end > bytes;
}

static bool wrong_range(struct arax *ax, const struct refused *f, uint32_t i, const char *whose,
			char *text, size_t len)
{
	const struct arax_range *r = &f->ranges[i];
	unsigned long long bytes = 0, most = 0;

	if (!buffer_bytes(ax, r->buffer, &bytes, &most)) {
		snprintf(text, len, "range %u of %s: the context has no buffer with handle %#x: it may have been destroyed",
			 i, whose, r->buffer);
		return true;
	}
	if (f->result != -EINVAL)
		return false;
	/* A short entry has none: the kernel's are meant. */
	if (!(f->task.flags & ARAX_TASK_SHORT) && (r->access < ARAX_IN || r->access > ARAX_INOUT))
		snprintf(text, len, "range %u of %s has an access of %u: want ARAX_IN, ARAX_OUT or ARAX_INOUT",
			 i, whose, r->access);
	else if (!r->count)
		snprintf(text, len, "range %u of %s has no rows: want a count of 1 at least", i, whose);
	else if (r->count > 1 ? r->stride < r->length : r->stride)
		snprintf(text, len, "range %u of %s: %u rows of %llu bytes with a stride of %u: want %s",
			 i, whose, r->count, r->length, r->stride,
			 r->count > 1 ? "at least a row's bytes" : "0 for one row");
	else if (is_beyond(r, most) && r->count > 1)
		snprintf(text, len, "range %u of %s, %u rows of %llu bytes from byte %llu on, %u from one's start to the next's, is beyond its buffer, which has %llu",
			 i, whose, r->count, r->length, r->offset, r->stride, bytes);
	else if (is_beyond(r, most))
		snprintf(text, len, "range %u of %s, %llu bytes from byte %llu on, is beyond its buffer, which has %llu",
			 i, whose, r->length, r->offset, bytes);
	else
		return false;
	return true;
}

static unsigned long long bytes_of(const struct arax_range *r)
{
	return r->length * r->count;
}

static bool too_many_items(const struct arax_task *t)
{
	uint64_t n = 1;
	int i;

	for (i = 0; i < 3; i++) {
		if (__builtin_mul_overflow(n, (uint64_t)t->grid[i] * t->block[i], &n) || n >> 63)
			return true;
	}
	return false;
}

static bool wrong_launch(const struct refused *f, const struct arax_kernel *k, const char *whose,
			 char *text, size_t len)
{
	const struct arax_task *t = &f->task;

	if (too_many_items(t))
		snprintf(text, len, "%s: grid %u x %u x %u of blocks of %u x %u x %u: a launch has less than 2^63 work-items",
			 whose, t->grid[0], t->grid[1], t->grid[2], t->block[0], t->block[1],
			 t->block[2]);
	else if (k)
		snprintf(text, len, "%s is now %s: ask arax_kernel_find() again", whose, k->text);
	else
		return false;
	return true;
}

static bool is_like(const struct refused *f, uint32_t nr_ranges, const uint32_t *access)
{
	uint32_t i;

	for (i = 0; i < nr_ranges && i < f->nr_ranges; i++)
		if (f->ranges[i].access != access[i])
			return false;
	return f->nr_ranges == nr_ranges;
}

static bool wrong_copy(const struct refused *f, char *text, size_t len)
{
	static const uint32_t access[] = { ARAX_IN, ARAX_OUT };

	if (!is_like(f, 2, access) || f->task.arg_len)
		snprintf(text, len, "a copy takes two ranges, the first of them ARAX_IN and the second ARAX_OUT, and no arguments");
	else if (bytes_of(&f->ranges[0]) != bytes_of(&f->ranges[1]))
		snprintf(text, len, "a copy from %llu bytes to %llu: they have to be as many",
			 bytes_of(&f->ranges[0]), bytes_of(&f->ranges[1]));
	else
		return false;
	return true;
}

static bool wrong_fill(const struct refused *f, char *text, size_t len)
{
	static const uint32_t access[] = { ARAX_OUT };
	uint32_t n = f->task.arg_len;

	if (!is_like(f, 1, access) || !n || n > 16 || n & (n - 1))
		snprintf(text, len, "a fill takes one range, ARAX_OUT, and as its arguments a pattern of 1, 2, 4, 8 or 16 bytes");
	else if (f->ranges[0].length % n)
		snprintf(text, len, "a fill of rows of %llu bytes, which is no multiple of its pattern's %u",
			 f->ranges[0].length, n);
	else
		return false;
	return true;
}

static bool wrong_rest(const struct refused *f, const struct arax_kernel *k, const char *whose,
		       char *text, size_t len)
{
	const struct arax_task *t = &f->task;

	switch (t->opcode) {
	case ARAX_OP_LAUNCH:
		return wrong_launch(f, k, whose, text, len);
	case ARAX_OP_COPY:
		return wrong_copy(f, text, len);
	case ARAX_OP_FILL:
		return wrong_fill(f, text, len);
	case ARAX_OP_MARKER:
		if (!t->arg_len)
			return false;
		snprintf(text, len, "a marker takes no arguments, %u bytes given", t->arg_len);
		return true;
	}
	return false;
}

/* A kernel that is not the program's own, by its id; NULL: there is none. */
static const struct arax_kernel *find_kernel(struct arax *ax, const struct arax_task *t,
					     struct arax_kernel *k)
{
	if (t->opcode != ARAX_OP_LAUNCH || t->kernel & ARAX_KERNEL_OWN ||
	    kernel_by_id(ax, t->kernel, k) || k->id != t->kernel)
		return NULL;
	return k;
}

static bool explain(struct arax *ax, const struct refused *f, char *text, size_t len)
{
	static const char *const kinds[] = { "a marker", "a launch", "the copy", "the fill", "the call" };
	const struct arax_task *t = &f->task;
	const struct arax_kernel *k;
	char whose[ARAX_NAME_LEN + 16];
	struct arax_kernel found;
	uint32_t i;

	if (f->result == -EDQUOT) {
		/* They have ended meanwhile: whatever limit there is was in the way. */
		quota_text(ax, ARAX_RES_TASKS, ARAX_LIMIT_MAX, text, len);
		return true;
	}
	k = find_kernel(ax, t, &found);
	if (k)
		snprintf(whose, sizeof(whose), "kernel %.*s", ARAX_NAME_LEN - 1, k->name);
	else if (t->opcode == ARAX_OP_LAUNCH && t->kernel & ARAX_KERNEL_OWN)
		snprintf(whose, sizeof(whose), "own kernel %#x", t->kernel);
	else
		snprintf(whose, sizeof(whose), "%s", kinds[t->opcode < ARAX_OP_MAX ? t->opcode : 0]);
	switch (f->result) {
	case -ENOENT:
		snprintf(text, len, "no kernel has the id %u, or no device runs it any more: ask arax_kernel_find() again",
			 t->kernel);
		return true;
	case -ESTALE:
		snprintf(text, len, "%s: one of its buffers has been revoked", whose);
		return true;
	case -EBADF:
	case -EINVAL:
		for (i = 0; i < f->nr_ranges; i++)
			if (wrong_range(ax, f, i, whose, text, len))
				return true;
		return !f->cut && f->result == -EINVAL && wrong_rest(f, k, whose, text, len);
	}
	return false;
}

bool refusal_text(struct arax *ax, uint64_t tag, int result, char *text, size_t len)
{
	/* A whole batch may be over a limit: which one can be told without the entry. */
	struct refused f = { .result = result == -EDQUOT ? result : 0 };
	uint32_t i;

	if (!ax->refusals)
		return false;
	lock_take(&ax->ring_lock);
	for (i = 0; i < KEPT; i++) {
		if (ax->refusals->at[i].tag == tag)
			f = ax->refusals->at[i];
	}
	lock_drop(&ax->ring_lock);
	return f.result && explain(ax, &f, text, len);
}
