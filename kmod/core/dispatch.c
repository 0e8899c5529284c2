// SPDX-License-Identifier: GPL-2.0 OR MIT
/*
 * The dispatch ring, written under core->dispatch and read by the mediator
 * without a lock; slots and tags; notes; the backlog.
 *
 * The first word at the position behind an entry is made invalid before the
 * entry is published: what an earlier lap left there may be bytes that a
 * client chose, and must not be taken for a sequence word.
 */
#include "core.h"

#define BACKLOG_TURN	16	/* tasks of one client before the next has its turn */
#define FLUSH_MAX	256	/* tasks and notes under one hold of core->dispatch */
#define DISPATCH_AT(field)	__builtin_offsetof(struct arax_dispatch, field)
#define NOTE_CELLS	((u32)(sizeof(struct arax_dispatch) / ARAX_CELL_SIZE))

static struct arax_dispatch *cell(struct core *core, u32 pos)
{
	return (void *)(core->ring + (size_t)(pos & (core->params.cells - 1)) * ARAX_CELL_SIZE);
}

/* @d: the cell at the tail. */
static inline void publish(struct core *core, struct arax_dispatch *d, u32 cells)
{
	u32 tail = core->tail, next = tail + cells;

	core_write_once(cell(core, next)->seq, next);	/* anything but next + 1 */
	/* Pairs with the acquire in core_ring_peek(). */
	core_store_release(&d->seq, tail + 1);
	core->tail = next;
}

/* Written by the mediator; out of range it only starves itself. */
static core_noinline bool look_for_room(struct core *core, u32 cells)
{
	/* Pairs with the mediator's release when it has read the cells before. */
	u32 head = core_load_acquire(&core->page->head), used = core->tail - head;

	if (used > core->params.cells)
		return false;
	core->head_seen = head;
	return used + cells <= core->params.cells;
}

/* Room for an entry of so many cells in one piece, or NULL. */
static inline struct arax_dispatch *reserve(struct core *core, u32 cells)
{
	u32 total = core->params.cells, tail = core->tail, to_end, need;
	struct arax_dispatch *d;

	if (core->state != CORE_LIVE)
		return NULL;
	to_end = total - (tail & (total - 1));
	need = (core_likely(to_end >= cells) ? cells : to_end + cells) + 1;
	/* Its line is the mediator's, who writes it for each task: only if we must. */
	if (!core_likely(tail - core->head_seen + need <= total) && !look_for_room(core, need))
		return NULL;
	d = cell(core, tail);
	if (core_likely(to_end >= cells))
		return d;
	d->type = ARAX_DISPATCH_PAD;
	d->cells = (u16)to_end;
	publish(core, d, to_end);
	return cell(core, core->tail);
}

static u32 task_cells(const struct core_task *t)
{
	u32 bytes = sizeof(t->d) + t->d.nr_ranges * (u32)sizeof(*t->ranges);

	if (t->d.arg_len > ARAX_INLINE_ARGS)
		bytes += t->d.arg_len;
	return (bytes + ARAX_CELL_SIZE - 1) / ARAX_CELL_SIZE;
}

static void slot_take(struct core *core, struct core_task *t)
{
	u32 i = core->slot_free;
	struct core_slot *s = &core->slots[i];

	core->slot_free = s->next_free;	/* 0: none; slot_last means nothing then */
	core->slots_used++;
	s->task = t;
	t->d.tag = (u64)core->epoch << 48 | (u64)s->gen << 24 | i;
	core_write_once(core->states[i], ARAX_SLOT_IDLE);
}

void core_tag_undispatched(struct core *core, struct core_task *t)
{
	core_spin_assert(&core->dispatch);
	t->d.tag = ++core->undispatched & ((1ull << 48) - 1);
}

void core_slot_free(struct core *core, struct core_task *t)
{
	u32 i = ARAX_TAG_SLOT(t->d.tag);
	struct core_slot *s = &core->slots[i];

	core_warn_on(s->task && s->task != t);	/* NULL: claimed by a commit */
	s->task = NULL;
	s->gen = (s->gen + 1) & 0xffffff;
	s->next_free = 0;
	if (core->slot_free)
		core->slots[core->slot_last].next_free = i;
	else
		core->slot_free = i;
	core->slot_last = i;
	core->slots_used--;
}

static inline void copy_part(struct arax_dispatch *to, const struct arax_dispatch *from,
			     size_t begin, size_t end)
{
	memcpy((u8 *)to + begin, (const u8 *)from + begin, end - begin);
}

/* As the present mediator counts; none of what could not be true. */
static u32 known_failures(const struct core_task *t)
{
	const struct core_client *c = t->client;
	u32 n = t->d.known - c->failures_before;

	return n <= c->failures - c->failures_before ? n : 0;
}

static inline bool try_dispatch(struct core *core, struct core_task *t, struct core_garbage *g)
{
	const struct arax_dispatch_range *from = t->ranges, *end = from + t->d.nr_ranges;
	u32 cells = task_cells(t);
	struct arax_dispatch_range *r;
	struct arax_dispatch *d;

	if (!core->slot_free)
		return false;
	d = reserve(core, cells);
	if (!d)
		return false;
	slot_take(core, t);
	if (t->blocked)
		t->d.flags |= ARAX_DISPATCH_BLOCKED;
	else if (t->d.flags & ARAX_DISPATCH_BLOCKED)
		t->d.flags &= ~ARAX_DISPATCH_BLOCKED;
	/*
	 * All but the sequence word; what was written just now by itself: the copies
	 * are by larger pieces, which would have to wait for it.
	 */
	d->type = t->d.type;
	d->opcode = t->d.opcode;
	d->cells = (u16)cells;
	d->tag = t->d.tag;
	copy_part(d, &t->d, DISPATCH_AT(tenant), DISPATCH_AT(submit_ns));
	d->submit_ns = t->d.submit_ns;
	copy_part(d, &t->d, DISPATCH_AT(deadline_ns), sizeof(*d));
	if (t->d.known)
		d->known = known_failures(t);
	r = (struct arax_dispatch_range *)(d + 1);
	for (; from < end; from++)
		*r++ = *from;
	if (t->d.arg_len > ARAX_INLINE_ARGS)
		memcpy(r, t->args, t->d.arg_len);
	publish(core, d, cells);
	t->state = CORE_TASK_DISPATCHED;
	t->started = false;
	clist_add_tail(&t->node, &t->client->dispatched);
	g->mediator = true;
	return true;
}

/* For room in the ring; else a task would pass those before it, or a note. */
static bool nobody_waits(const struct core *core)
{
	return clist_empty(&core->backlog) && clist_empty(&core->task_notes) &&
	       clist_empty(&core->drop_notes) && clist_empty(&core->gone_notes);
}

void core_dispatch_requeue(struct core *core, struct core_task *t)
{
	struct core_client *c = t->client;

	clist_add_tail(&t->node, &c->queued);
	if (clist_empty(&c->backlog))
		clist_add_tail(&c->backlog, &core->backlog);
}

bool core_dispatch_is_free(const struct core_client *c)
{
	return nobody_waits(c->core) && clist_empty(&c->exam) && clist_empty(&c->queued);
}

bool core_dispatch_queue(struct core *core, struct core_task *t, bool is_free,
			 struct core_garbage *g)
{
	struct core_client *c = t->client;

	t->notes = 0;
	t->canceled = false;
	if (is_free && core_share_allows(core, c) && try_dispatch(core, t, g)) {
		core_share_changed(core, c->tenant, c->user);
		return true;
	}
	t->state = CORE_TASK_QUEUED;
	core_share_queued(core, c, 1);
	t->order = ++c->queue_order;
	if (clist_empty(&c->exam))
		core_dispatch_requeue(core, t);
	else
		clist_add_tail(&t->node, &c->exam);
	return false;
}

void core_note_task(struct core *core, struct core_task *t, u8 note)
{
	core_spin_assert(&core->dispatch);
	t->notes |= note;
	if (clist_empty(&t->note))
		clist_add_tail(&t->note, &core->task_notes);
}

static bool send_note(struct core *core, u8 type, u64 tag, u32 context, u64 object, s32 error,
		      struct core_garbage *g)
{
	struct arax_dispatch *d = reserve(core, NOTE_CELLS);

	if (!d)
		return false;
	memset((u8 *)d + sizeof(d->seq), 0, sizeof(*d) - sizeof(d->seq));
	d->type = type;
	d->cells = NOTE_CELLS;
	d->tag = tag;
	d->context = context;
	d->object = object;
	d->error = error;
	publish(core, d, NOTE_CELLS);
	g->mediator = true;
	return true;
}

bool core_note_devices(struct core *core, struct core_garbage *g)
{
	core_spin_assert(&core->dispatch);
	return core->state == CORE_LIVE && nobody_waits(core) &&
	       send_note(core, ARAX_DISPATCH_DEVICES, 0, 0, 0, 0, g);
}

/* Returns false if one found no room, or no turn. */
static bool flush_notes(struct core *core, u32 *max, struct core_garbage *g)
{
	struct clist *pos, *tmp;

	clist_for_each_safe(pos, tmp, &core->task_notes) {
		struct core_task *t = clist_entry(pos, struct core_task, note);

		if (!*max)
			return false;
		(*max)--;

		if (t->notes & CORE_NOTE_UNBLOCK) {
			if (!send_note(core, ARAX_DISPATCH_UNBLOCK, t->d.tag, t->client->id, 0,
				       t->d.error, g))
				return false;
			t->notes &= ~CORE_NOTE_UNBLOCK;
		}
		if (t->notes & CORE_NOTE_CANCEL) {
			if (!send_note(core, ARAX_DISPATCH_CANCEL, t->d.tag, t->client->id, 0, 0,
				       g))
				return false;
			t->notes &= ~CORE_NOTE_CANCEL;
		}
		clist_del(&t->note);
	}
	clist_for_each_safe(pos, tmp, &core->drop_notes) {
		struct core_buffer *buf = clist_entry(pos, struct core_buffer, note);

		if (!*max)
			return false;
		(*max)--;
		if (!send_note(core, ARAX_DISPATCH_BUFFER, 0, buf->context, buf->id, 0, g))
			return false;
		clist_del(&buf->note);
		core_garbage_throw(&g->buffers, &buf->garbage);
	}
	clist_for_each_safe(pos, tmp, &core->gone_notes) {
		struct core_client *c = clist_entry(pos, struct core_client, note);

		if (!*max)
			return false;
		(*max)--;
		if (!send_note(core, ARAX_DISPATCH_CONTEXT, 0, c->id, 0, 0, g))
			return false;
		clist_del(&c->note);
		c->noted = true;
		core_client_check_free(c, g);
	}
	return true;
}

/* Some tasks of the client whose turn it is.  Returns false if one found no room. */
static bool flush_client(struct core *core, struct core_client *c, u32 *max,
			 struct core_garbage *g)
{
	u32 turn = 0;

	/* The mediator was told that it is gone; whoever killed it drops what is queued. */
	if (c->dead) {
		core_backlog_leave(c);
		return true;
	}
	while (turn < BACKLOG_TURN && *max && !clist_empty(&c->queued)) {
		struct core_task *t = clist_first(&c->queued, struct core_task, node);

		(*max)--;
		if (c->fail_mark && t->order > c->fail_last)
			core_fail_end(core, c);
		if (core_fail_reaches(core, t, g)) {
			if (core_step_over(g))
				*max = 0;
			continue;
		}
		if (core->slot_free && !core_share_allows(core, c)) {
			core_share_wait(core, c);
			return true;
		}
		clist_del(&t->node);
		if (!try_dispatch(core, t, g)) {
			clist_add(&t->node, &c->queued);
			/*
			 * Room comes in small pieces: who had some is not the
			 * first to have the next.
			 */
			if (turn) {
				core_backlog_leave(c);
				clist_add_tail(&c->backlog, &core->backlog);
			}
			return false;
		}
		core_share_queued(core, c, -1);
		turn++;
	}
	core_backlog_leave(c);
	if (!clist_empty(&c->queued))
		clist_add_tail(&c->backlog, &core->backlog);
	else if (clist_empty(&c->exam))
		core_fail_end(core, c);
	return true;
}

bool core_dispatch_flush(struct core *core, struct core_garbage *g)
{
	u32 max = FLUSH_MAX;
	bool more;

	core_spin_assert(&core->dispatch);
	core_timeline_release(core, CORE_STEP);
	if (core->state != CORE_LIVE)
		return false;
	if (flush_notes(core, &max, g)) {
		/* Also while others keep us busy. */
		core_share_return(core);
		while (max && (!clist_empty(&core->backlog) || core_share_return(core)))
			if (!flush_client(core, clist_first(&core->backlog, struct core_client,
							    backlog), &max, g))
				break;
	}
	/* The rest is for its fetch. */
	more = !max || !clist_empty(&core->reached);
	g->mediator |= more;
	return more;
}
