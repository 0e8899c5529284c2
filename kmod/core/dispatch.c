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
#define NOTE_CELLS	((u32)(sizeof(struct arax_dispatch) / ARAX_CELL_SIZE))

static struct arax_dispatch *cell(struct core *core, u32 pos)
{
	return (void *)(core->ring + (size_t)(pos & (core->params.cells - 1)) * ARAX_CELL_SIZE);
}

static void publish(struct core *core, u32 cells)
{
	struct arax_dispatch *d = cell(core, core->tail);
	u32 next = core->tail + cells;

	core_write_once(cell(core, next)->seq, next);	/* anything but next + 1 */
	/* Pairs with the acquire in core_ring_peek(). */
	core_store_release(&d->seq, core->tail + 1);
	core->tail = next;
}

/* Room for an entry of so many cells in one piece, or NULL. */
static struct arax_dispatch *reserve(struct core *core, u32 cells)
{
	u32 total = core->params.cells, used, to_end, need = cells;
	struct arax_dispatch *d;

	if (core->state != CORE_LIVE)
		return NULL;
	/* Written by the mediator; out of range it only starves itself. */
	used = core->tail - core_load_acquire(&core->page->head);
	if (used > total)
		return NULL;
	to_end = total - (core->tail & (total - 1));
	if (to_end < cells)
		need += to_end;
	if (used + need + 1 > total)
		return NULL;
	if (to_end < cells) {
		d = cell(core, core->tail);
		d->type = ARAX_DISPATCH_PAD;
		d->cells = (u16)to_end;
		publish(core, to_end);
	}
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

static bool try_dispatch(struct core *core, struct core_task *t, struct core_garbage *g)
{
	u32 i, cells = task_cells(t);
	struct arax_dispatch_range *r;
	struct arax_dispatch *d;

	if (!core->slot_free)
		return false;
	d = reserve(core, cells);
	if (!d)
		return false;
	slot_take(core, t);
	t->d.cells = (u16)cells;
	t->d.flags &= ~ARAX_DISPATCH_BLOCKED;
	if (t->blocked)
		t->d.flags |= ARAX_DISPATCH_BLOCKED;
	/* All but the sequence word. */
	memcpy((u8 *)d + sizeof(d->seq), (u8 *)&t->d + sizeof(d->seq),
	       sizeof(*d) - sizeof(d->seq));
	r = (struct arax_dispatch_range *)(d + 1);
	for (i = 0; i < t->d.nr_ranges; i++)
		r[i] = t->ranges[i];
	if (t->d.arg_len > ARAX_INLINE_ARGS)
		memcpy(&r[i], t->args, t->d.arg_len);
	publish(core, cells);
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

void core_dispatch_queue(struct core *core, struct core_task *t, struct core_garbage *g)
{
	struct core_client *c = t->client;

	t->notes = 0;
	t->canceled = false;
	if (nobody_waits(core) && try_dispatch(core, t, g))
		return;
	t->state = CORE_TASK_QUEUED;
	clist_add_tail(&t->node, &c->queued);
	if (clist_empty(&c->backlog))
		clist_add_tail(&c->backlog, &core->backlog);
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
	publish(core, NOTE_CELLS);
	g->mediator = true;
	return true;
}

static bool flush_notes(struct core *core, struct core_garbage *g)
{
	struct clist *pos, *tmp;

	clist_for_each_safe(pos, tmp, &core->task_notes) {
		struct core_task *t = clist_entry(pos, struct core_task, note);

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

		if (!send_note(core, ARAX_DISPATCH_BUFFER, 0, buf->context, buf->id, 0, g))
			return false;
		clist_del(&buf->note);
		buf->mediated = false;
	}
	clist_for_each_safe(pos, tmp, &core->gone_notes) {
		struct core_client *c = clist_entry(pos, struct core_client, note);

		if (!send_note(core, ARAX_DISPATCH_CONTEXT, 0, c->id, 0, 0, g))
			return false;
		clist_del(&c->note);
		c->noted = true;
		core_client_check_free(c, g);
	}
	return true;
}

void core_dispatch_flush(struct core *core, struct core_garbage *g)
{
	core_spin_assert(&core->dispatch);
	if (core->state != CORE_LIVE || !flush_notes(core, g))
		return;
	while (!clist_empty(&core->backlog)) {
		struct core_client *c = clist_first(&core->backlog, struct core_client, backlog);
		u32 turn;

		for (turn = 0; turn < BACKLOG_TURN && !clist_empty(&c->queued); turn++) {
			struct core_task *t = clist_first(&c->queued, struct core_task, node);

			clist_del(&t->node);
			if (!try_dispatch(core, t, g)) {
				clist_add(&t->node, &c->queued);
				/*
				 * Room comes in small pieces: who had some is
				 * not the first to have the next.
				 */
				if (turn) {
					clist_del(&c->backlog);
					clist_add_tail(&c->backlog, &core->backlog);
				}
				return;
			}
		}
		clist_del(&c->backlog);
		if (!clist_empty(&c->queued))
			clist_add_tail(&c->backlog, &core->backlog);
	}
}
