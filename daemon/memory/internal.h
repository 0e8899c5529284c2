/* SPDX-License-Identifier: MIT */
/*
 * internal.h - what the memory manager's files share
 *
 *   memory.c	devices, buffers, questions
 *   reach.c	... how far a task's inputs are
 *   extent.c	room on a device: allocating, evicting
 *   find.c	the extents that have certain bytes
 *   users.c	the bytes of an extent that tasks use
 *   victim.c	the extent that goes next
 *   hold.c	a task's extents, all or none
 *   room.c	... those that wait for room, and who may go before them
 *   stage.c	a task's ranges in, its results out
 *   ahead.c	... in before it has a lane
 *   behind.c	... in before those have ended which it waits for
 *   lazy.c	results that stay where they are, until somebody needs them
 *   lost.c	... and what is lost of them
 *   bits.c	... by the byte
 *   foresee.c	what tasks to come will use
 *   upcoming.c	... of one buffer
 *   turn.c	waiting, for no longer than a task may
 *   treap.c	ordered trees
 *
 * LOCKS
 *
 *   device.entering, then memory.lock: who takes extents for a task, one task of
 *   a device at a time; not held while it waits for room.  Who takes room that another
 *   one waits for is seen to by room.c.
 *   device.entering, then memory.charging, then memory.lock: who charges.
 *   extent.load, then memory.lock: who copies into an extent.
 *   device.entering or extent.load, then buffer.flushing, then memory.lock: who has
 *   bytes of a lazy buffer brought to the host, one at a time for a buffer.
 *   Those three last as long as copies do, so they are turns (turn.c): who is canceled, or late,
 *   waits for none, and has done nothing yet.
 *   memory.lock is never held over a call of a backend, nor over a charge; and who has much to do
 *   with it lets others have it in between, see memory_let_others().
 */
#ifndef ARAXD_MEMORY_INTERNAL_H
#define ARAXD_MEMORY_INTERNAL_H

#include <pthread.h>

#include "daemon/brief_mutex.h"
#include "daemon/memory/intervals.h"
#include "daemon/memory/memory.h"
#include "daemon/memory/treap.h"
#include "daemon/memory/upcoming.h"
#include "uapi/arax.h"

#define FOREVER		UINT64_MAX

/*
 * A device is tight from here on, in 1/16 of its memory, or when something has to go; until
 * it is below the second.  It is full as well from the third on, or when something has to go.
 */
#define TIGHT_FROM	12
#define TIGHT_UNTIL	8
#define FULL_FROM	15

/* Tenants are told apart so far where each has a part, and how many there are of that. */
#define USERS		64u
#define USER_PARTS	4u

/* Contexts are told apart so far. */
#define TRUSTS		1024u

/*
 * Pieces of an extent that are dirty, before they are brought to the host to be fewer; that are known
 * at all, once nobody uses it.  Of a small one fewer, as they are araxd's memory, which nobody pays for: it
 * has one for so many of its bytes.  All that is known of it then takes no more than a quarter of them.
 */
#define MANY_DIRTY	(1u << 14)
#define MAX_KNOWN	(1u << 13)
#define BYTES_A_PIECE	512u
#define MIN_PIECES	8u

/* When dirty bytes were written: before the copy to the host that is under way, or since it began. */
#define DIRTY_BEFORE	0u
#define DIRTY_SINCE	1u

/* Devices that others can copy from: the first ones. */
#define PEERS		64u

/**
 * struct rate - what copies by a link, in one direction, took; a moving average
 * @known:	it was set, or learnt from copies
 */
struct rate {
	double latency_ns;
	double ns_per_byte;
	bool known;
};

/**
 * struct memory_turn - what one thread at a time does, and may take long with
 * @taken:	(locked; atomic: to look without) one does
 * @waiting:	(locked) so many wait for it
 */
struct memory_turn {
	bool taken;
	uint32_t waiting;
};

/**
 * struct memory_extent - bytes @start .. @end - 1 of a buffer on a device
 * @valid:	they are the buffer's: the same as the host's, or as where they are dirty
 * @filled:	they were the buffer's at some time
 * @dirty:	they are the buffer's, and the host's are not: of one extent at most; so that what lies
 *		without a gap is one piece, born DIRTY_SINCE only while @flushing
 * @flushing:	some of them are on their way to the host; @since: there are such pieces
 * @too_many:	so many pieces of @dirty are none too many: dirty_thin_out() could do nothing for half of
 *		them; until tasks that were at work there have left
 * @dirty_sum:	bytes of @dirty, as long as it is @summed
 * @pins:	tasks that use it
 * @busy:	who copies dirty bytes from it, or brings some ahead; @leaving: it goes after that, and
 *		is found by nobody
 * @bringing:	of these, who brings some; whoever may write over them meanwhile has to wait
 * @ahead:	it was made for a task that has no lane, and no task has used it yet
 * @clears:	times that some of its bytes were made stale
 * @lost:	it is on no device, but the buffer's, to know what @dirty bytes nobody has
 * @coarse:	of these some may be had all the same, and be dirty elsewhere: see lost.c
 * @map:	of these, not all of @dirty are, but those whose bits (bits.h) say so; @dirty is one piece
 *		then, from the first to the last; NULL: all are
 * @place:	in the tree of its buffer on its device, by @start
 * @number:	the newer, the larger
 * @any_dirty:	as that tree knows it; @reach, @dirty_reach: the furthest end of all from here on
 *		down, and of those with dirty bytes
 * @silent:	its device said that it is lost, and is still asked by who needs the bytes
 * @stuck:	it was to go, and could not be saved
 * @many:	pieces that are worth to look at again, while somebody uses it
 * @users:	their ranges, once all of the task's are there
 * @holders:	ranges of those tasks whose owners are asked to pay, as soon as they are pinned
 * @held_next, @held_prev: in the manager's list, if there are any of these
 * @used_next, @used_prev: in the device's list, if there are any users
 * @turn:	among those that may go; if it is @ranked
 * @counted:	in device.busy
 * @worth:	see extent_used(); while it is @ranked, neither it nor @stuck nor @ahead changes
 * @next_use, @next_adds: what foresee_next() said since it is @ranked, and buffer.adds then
 * @load:	of whoever copies in
 */
struct memory_extent {
	struct treap place;
	uint64_t number;
	uint64_t reach, dirty_reach;
	struct treap turn;
	struct memory_extent *next, **prev;	/* of the device */
	struct memory_buffer *buffer;
	uint32_t device;
	uint32_t pins;
	uint32_t busy;
	uint32_t bringing;
	uint64_t clears;
	bool leaving;
	bool ahead;
	bool lost;
	bool silent;
	bool stuck;
	bool any_dirty;
	bool flushing, since;
	uint32_t too_many;
	uint64_t dirty_sum;
	bool summed;
	bool ranked, counted, coarse;
	uint64_t start, end;
	uint64_t address;
	double worth;
	uint64_t next_use, next_adds;
	uint64_t many;
	struct intervals valid;
	struct intervals filled;
	struct intervals dirty;
	uint64_t *map;
	struct memory_range *users;
	struct memory_range *holders;
	struct memory_extent *held_next, **held_prev;
	struct memory_extent *used_next, **used_prev;
	struct memory_turn load;
};

/**
 * struct memory_wait - a task that waits for room on a device; on its thread's stack
 * @bytes:	that it needs; while it is the first one these are kept for it
 * @since:	memory_device.came when it became that
 * @beside:	when it began to enter the room was kept for another one
 */
struct memory_wait {
	struct memory_wait *next;
	uint64_t tenant;
	uint64_t bytes;
	uint64_t since;
	bool beside;
};

/**
 * struct memory_buffer - a buffer
 * @seen: devices (bits; those behind the 64th go without) that were asked to register it
 * @registered: of these, those that did
 * @copies:	of parts of it, either way; as far as anybody counts
 * @leaving:	extents of it that are
 * @kept:	by memory_buffer_keep()
 * @on:	its extents, by device
 * @lost:	what nobody has of it: one of them, from the first such bytes on; NULL: it is not lazy, or has
 *		been on no device, or is going
 * @flushing:	of whoever copies from its extents to the host
 * @crowded:	an extent of it has, or had, too many dirty pieces
 * @upcoming:	what tasks to come will use of it
 * @user:	whose part that is of, by his tenant: who was the first to use any of it
 * @adds:	times that something was added to that; from 1 on
 * @foreseen_next, @foreseen_prev: in the manager's list, if there is any of that
 */
struct memory_buffer {
	struct memory *memory;
	uint8_t *host;
	uint64_t bytes;
	uint64_t seen;
	uint64_t registered;
	uint32_t copies;
	bool lazy;
	uint32_t leaving;
	uint32_t kept;
	struct memory_turn flushing;
	bool crowded;
	struct treap_root *on;
	struct memory_extent *lost;
	struct upcoming upcoming;
	uint32_t user;
	uint64_t adds;
	struct memory_buffer *foreseen_next, **foreseen_prev;
};

/**
 * struct memory_device - a device
 * @victims:	extents that nobody uses, by who goes first
 * @busy:	of those that no task uses, how many are copied from
 * @held:	tasks between memory_enter() and memory_settle()
 * @freeing:	extents of buffers that are gone, on their way to ops.free
 * @used:	extents that have users
 * @came:	tasks that have held extents, ever
 * @first:	who waits for room, in the order in which they came; who is canceled leaves at any
 *		time
 * @turns:	times that another one has become the first
 * @inflation:	worth of the last extent that had to go
 * @tight:	see memory_is_tight()
 * @full:	it has been full since it is tight
 * @strangers:	devices (bits) that it could not copy from; those behind the 64th count as such
 * @lent:	other devices copy from it so many times just now
 * @loading:	inputs of tasks that have a lane are on their way to it, so many
 * @wanting:	so many look for something that can go
 * @yielding:	somebody waits for the end of @loading, or for @wanting
 * @ranges, @nr_ranges, @until: (entering) of the task that is; while one is that has a lane
 * @unsaved:	bytes of extents that are stuck
 */
struct memory_device {
	bool present;
	struct memory_ops ops;
	void *dev;
	struct memory_turn entering;
	struct memory_extent *extents;
	struct treap_root victims;
	uint32_t busy;
	uint32_t held;
	uint32_t freeing;
	struct memory_extent *used;
	uint64_t came;
	struct memory_wait *first;
	uint64_t turns;
	bool tight, full;
	double inflation;
	uint64_t strangers;
	uint32_t lent;
	uint32_t loading;
	uint32_t wanting;
	uint32_t yielding;
	const struct memory_range *ranges;
	uint32_t nr_ranges;
	const struct memory_until *until;
	uint64_t unsaved;
	struct rate in, out;
	struct rate *direct;
	struct memory_stats stats;
};

struct memory {
	pthread_mutex_t charging;	/* see hold.c */
	pthread_mutex_t lock;		/* all that changes, but what the copies copy */
	uint32_t waiting;		/* atomic: threads that wait for it */
	uint32_t turns;			/* atomic: times that one did, and got it */
	uint64_t clock;			/* counts what happens to copies */
	uint64_t distrusted[TRUSTS];	/* by memory_range.trust: copies born before are not trusted */
	pthread_cond_t settled;		/* signalled when a task settles, or is canceled */
	pthread_cond_t turned;		/* when a turn has ended, or a task is canceled */
	uint64_t settles;		/* atomic: memory_settles(); it changes while the lock is held */
	uint32_t refunding;		/* tasks settled whose refunds are on their way */
	int (*charge)(void *arg, uint64_t id, int64_t bytes);
	uint64_t (*limit)(void *arg, struct memory_owner owner, uint64_t *left);
	void *charge_arg;
	bool stopped;
	uint32_t tight;			/* devices that are */
	uint32_t nr_uses;		/* that are known of */
	uint32_t uses_of[USERS];	/* of these, by memory_buffer.user */
	uint32_t many_dirty;		/* in tests: for extents of any size; 0: as of extent_pieces() */
	struct memory_buffer *foreseen;	/* buffers with uses to come */
	struct memory_extent *held;	/* extents with holders */
	uint64_t random;		/* nobody outside knows it */
	uint64_t weights;		/* of trees; likewise */
	uint64_t created;		/* extents, ever */
	uint32_t nr_devices;
	struct memory_device devices[];
};

/* Rows, or extents, that are gone through before others may have the lock. */
#define MEMORY_AT_ONCE	64u

static inline void memory_lock(struct memory *m)
{
	if (!pthread_mutex_trylock(&m->lock))
		return;
	__atomic_add_fetch(&m->waiting, 1, __ATOMIC_RELAXED);
	pthread_mutex_lock(&m->lock);
	__atomic_sub_fetch(&m->waiting, 1, __ATOMIC_RELAXED);
	__atomic_add_fetch(&m->turns, 1, __ATOMIC_RELAXED);
}

/* (locked) */
static inline void memory_settled(struct memory *m)
{
	__atomic_store_n(&m->settles, m->settles + 1, __ATOMIC_RELEASE);
}

/*
 * (locked) If somebody waits for it, one who does has the lock meanwhile: a mutex that is let go
 * and taken again at once would be nobody else's.  True: extents may have come and gone.
 */
bool memory_let_others(struct memory *m);

/* One row, or all of them where they lie without gaps. */
static inline uint64_t memory_row(const struct memory_range *r, uint32_t i, uint64_t *bytes)
{
	*bytes = r->length;
	if (r->stride == r->length)
		*bytes *= r->count;
	return r->offset + (uint64_t)i * r->stride;
}

static inline uint32_t memory_rows(const struct memory_range *r)
{
	return r->stride == r->length || !r->length ? 1 : r->count;
}

/* The first row that ends behind @at; memory_rows(): none. */
static inline uint32_t memory_row_behind(const struct memory_range *r, uint64_t at)
{
	uint64_t bytes, start = memory_row(r, 0, &bytes), i;

	if (start + bytes > at)
		return 0;
	if (memory_rows(r) == 1)
		return 1;
	i = (at - start - bytes) / r->stride + 1;
	return i < r->count ? (uint32_t)i : r->count;
}

/* The rows that share bytes with start..end: the first one, and how many. */
static inline uint32_t memory_rows_in(const struct memory_range *r, uint64_t start, uint64_t end,
				      uint32_t *first)
{
	uint64_t bytes, at = memory_row(r, 0, &bytes), before;

	*first = memory_row_behind(r, start);
	if (memory_rows(r) == 1)
		before = at < end;
	else
		before = at < end ? (end - at - 1) / r->stride + 1 : 0;
	before = before < memory_rows(r) ? before : memory_rows(r);
	return before > *first ? (uint32_t)(before - *first) : 0;
}

static inline uint64_t memory_range_end(const struct memory_range *r)
{
	return r->offset + (uint64_t)(r->count - 1) * r->stride + r->length;
}

/* Copies born before this don't count. */
static inline uint64_t trusted_since(const struct memory *m, const struct memory_range *r)
{
	return r->buffer->lazy ? 0 : m->distrusted[r->trust % TRUSTS];
}

static inline bool extent_covers(const struct memory_extent *e, uint64_t start, uint64_t end)
{
	return e->start <= start && e->end >= end;
}

/* (locked) The newest that holds all of it, or NULL; of those that @is_fit says yes to. */
struct memory_extent *extent_find(const struct memory_buffer *b, uint32_t device,
				  uint64_t start, uint64_t end);
struct memory_extent *extent_newest(const struct memory_buffer *b, uint32_t device,
				    uint64_t start, uint64_t end,
				    bool (*is_fit)(const struct memory_extent *e, const void *arg),
				    const void *arg);
/* (locked) Into the buffer's tree, and out of it. */
void extent_link(struct memory *m, struct memory_extent *e);
void extent_unlink(struct memory_extent *e);
/* (locked) Its dirty bytes have changed. */
void extent_dirtied(struct memory_extent *e);

/* (locked) When bytes were born that become dirty now. */
static inline uint64_t dirty_born(struct memory_extent *e)
{
	e->since |= e->flushing;
	return e->flushing ? DIRTY_SINCE : DIRTY_BEFORE;
}

/* (locked) When bytes that it has now were; of a lazy buffer nobody asks. */
static inline uint64_t valid_born(const struct memory_extent *e, uint64_t born)
{
	return e->buffer->lazy ? 0 : born;
}

/* lost.c (locked): of start..end, by @e's map, the first that are lost; false: none. */
bool lost_first(const struct memory_extent *e, uint64_t *start, uint64_t *end);

/* (locked) As intervals_first() of what is dirty in it. */
static inline bool extent_first_dirty(const struct memory_extent *e, uint64_t start, uint64_t end,
				      uint64_t *from, uint64_t *to, uint64_t *born)
{
	return intervals_first(&e->dirty, start, end, from, to, born) &&
	       (!e->map || lost_first(e, from, to));
}

/* Pieces that it may have: at most @most, and as many as its bytes pay for. */
static inline uint32_t extent_pieces(const struct memory_extent *e, uint32_t most)
{
	const uint64_t nr = (e->end - e->start) / BYTES_A_PIECE;

	if (nr > most)
		return most;
	return nr > MIN_PIECES ? (uint32_t)nr : MIN_PIECES;
}

/* (locked) Of what is lost nothing can be brought anywhere: lost.c sees to it. */
static inline bool has_too_many_dirty(const struct memory_extent *e)
{
	const uint32_t many = e->buffer->memory->many_dirty;

	return !e->lost && e->dirty.nr > (many ? many : extent_pieces(e, MANY_DIRTY)) &&
	       e->dirty.nr > e->too_many;
}

/**
 * struct look - for extents that have bytes start..end of a buffer
 * @rows:	only for those of its rows; may be NULL
 * @from, @to:	on these devices
 * @dirty:	only for extents with dirty bytes, wherever
 *
 * Found by device, then by where they begin, in O(log n) and as much again for each.  The end may
 * be brought nearer meanwhile; no extent may come or go, but in look_on().
 */
struct look {
	const struct memory_buffer *buffer;
	const struct memory_range *rows;
	uint64_t start, end;
	uint32_t from, to;
	bool dirty;
};

/* (locked) */
struct memory_extent *look_first(const struct look *l);
struct memory_extent *look_next(const struct look *l, struct memory_extent *e);
/*
 * (locked, for a while not) The same, but that others may have the lock meanwhile; @done: rows or
 * extents that have been gone through since they could.
 */
struct memory_extent *look_on(const struct look *l, struct memory_extent *e, uint32_t *done);
/*
 * (locked, for a while not) Of the rows of @r these extents, but @keep, have nothing any more.
 * @reserve: -ENOMEM where there is no room to note it; else what lies beside them may be lost, and what was
 * lost of them may stay so.
 */
int look_clear_rows(const struct look *l, const struct memory_range *r,
		    const struct memory_extent *keep, bool reserve);
/* (locked, for a while not) ... but what is dirty there. */
void look_clear_clean(const struct look *l, const struct memory_range *r);

static inline struct look look_bytes(const struct memory_buffer *b, uint64_t start, uint64_t end)
{
	return (struct look){ .buffer = b, .start = start, .end = end, .to = UINT32_MAX };
}

static inline struct look look_dirty(const struct memory_buffer *b, uint64_t start, uint64_t end)
{
	struct look l = look_bytes(b, start, end);

	l.dirty = true;
	return l;
}

/* Lives as long as @r does. */
static inline struct look look_rows(const struct memory_buffer *b, const struct memory_range *r)
{
	struct look l = look_bytes(b, r->offset, memory_range_end(r));

	l.rows = memory_rows(r) > 1 ? r : NULL;
	return l;
}

/* FIT_ROOM: what takes the least room more; FIT_QUOTA: what costs its owner least. */
enum extent_fit { FIT_WIDE, FIT_ROOM, FIT_QUOTA };

/*
 * (entering) One that holds start..end of @b, pinned; but for FIT_WIDE no more than that, unless
 * a task has it anyhow (FIT_ROOM), or @payer pays for it (FIT_QUOTA).
 * -ENOMEM: there is no room that could be made now.
 */
int extent_get(struct memory *m, struct memory_buffer *b, uint32_t device, uint64_t start,
	       uint64_t end, enum extent_fit fit, uint64_t payer, struct memory_extent **out);
/*
 * (entering) The same for a task that has no lane: busy, not pinned, and in memory that is free and
 * not scarce.  NULL: there is none.
 */
struct memory_extent *extent_get_ahead(struct memory *m, struct memory_buffer *b, uint32_t device,
				       uint64_t start, uint64_t end);
/* (locked) Tasks wait for room on the device, or nobody is to wait any more. */
static inline bool device_is_wanted(const struct memory *m, const struct memory_device *d)
{
	return d->first || d->wanting || m->stopped;
}

/* (locked) A range that pays for @e, or at least holds it, for @payer. */
struct memory_range *extent_holder(const struct memory_extent *e, uint64_t payer, bool pays);
/* (locked) It was used: it is worth what it would cost to have it back. */
void extent_used(struct memory *m, struct memory_extent *e);
/* (locked) What of start..end it has alone, and other devices have copied from it, they have instead. */
void extent_hand_on(struct memory_extent *e, uint64_t start, uint64_t end);
/* (locked) Nobody finds it any more; then extent_free() without the lock. */
void extent_remove(struct memory *m, struct memory_extent *e);
void extent_free(struct memory *m, struct memory_extent *e);

/**
 * struct refunds - what owners pay no longer for
 */
struct refunds {
	uint32_t nr;
	struct {
		uint64_t id;
		uint64_t bytes;
	} v[ARAX_MAX_RANGES];
};

/*
 * The task's extents, in its ranges; it counts as held.  As memory_enter_until(), or, if it is not
 * to wait (NULL), as memory_try_enter().
 */
int task_hold(struct memory *m, uint32_t device, struct memory_range *ranges, uint32_t nr,
	      struct memory_owner owner, struct memory_until *until);
/* (locked) The end of that. */
void task_release(struct memory *m, uint32_t device, struct memory_range *ranges, uint32_t nr,
		  struct refunds *refunds);
/* The bytes that range @of of a task has to share an extent with. */
void task_hull(const struct memory_range *ranges, uint32_t nr, uint32_t of, uint64_t *start,
	       uint64_t *end);
/* The same but for empty ranges; false: an earlier range of the task has the same ones. */
bool task_part(const struct memory_range *ranges, uint32_t nr, uint32_t of, uint64_t *start,
	       uint64_t *end);
/* Whether its owner could pay for @bytes more, if it held them now: yes, if there are no limits. */
bool task_could_pay(struct memory *m, struct memory_owner owner, uint64_t bytes);
/* After it, without the lock. */
void task_refund(struct memory *m, const struct refunds *refunds);

/* room.c (locked): somebody waits for room, and not @w, or others before it. */
bool room_is_kept_for(const struct memory_device *d, const struct memory_wait *w);
/*
 * room.c (locked), if so: whether a task of @tenant that needs @bytes should try to enter; then,
 * with its extents, whether it may, beside what is kept.
 */
bool room_is_worth_it(const struct memory_device *d, uint64_t tenant, uint64_t bytes);
bool room_is_left_for(const struct memory_device *d, const struct memory_range *ranges, uint32_t nr,
		      uint64_t tenant);
/* room.c (entering, locked): it waits for @bytes, behind those that do. */
void room_wait(struct memory_device *d, struct memory_wait *w, uint64_t bytes);
/* room.c (locked): it does no longer. */
void room_no_wait(struct memory *m, struct memory_device *d, struct memory_wait *w);
/* room.c (locked): it has its first user; none any more. */
void room_used(struct memory_device *d, struct memory_extent *e);
void room_unused(struct memory_extent *e);

/**
 * struct bringing - a task's inputs, to a device
 * @lane:	whose thread does it
 * @seq:	the task's, in its graph
 * @until:	what comes is for tasks that were added before that
 * @born:	when that began: of all rows, so that they can become one
 * @most:	bytes at a time
 * @input:	it reads the range at hand; else bytes are brought that it leaves as they are
 * @patient:	it may wait for others' copies: it has no other task in hand
 * @over:	until then; NULL: for as long as it takes
 * @ahead:	the task has no lane yet; NULL: it has one
 * @own, @nr_own: all its ranges, if it may be before others that it waits for have ended; else NULL
 */
struct bringing {
	uint32_t lane;
	uint64_t seq;
	uint64_t until;
	uint64_t born;
	uint64_t most;
	bool input;
	bool patient;
	const struct memory_until *over;
	const struct memory_ahead *ahead;
	const struct memory_range *own;
	uint32_t nr_own;
};

/*
 * users.c (locked): the first bytes of start..end of @e that are in a range of a task that @is says yes
 * to; false: none.
 */
bool users_first(const struct memory_extent *e, uint64_t start, uint64_t end,
		 bool (*is)(const void *arg, const struct memory_range *u), const void *arg,
		 uint64_t *from, uint64_t *to);

/*
 * behind.c (locked): as intervals_gap() of @have, which is @e's; without what those are about to
 * write there behind which the task comes.
 */
bool behind_gap(const struct memory_extent *e, const struct intervals *have,
		const struct bringing *b, uint64_t start, uint64_t end, uint64_t seq, uint64_t born,
		uint64_t *gap_start, uint64_t *gap_end);
/*
 * behind.c (locked): what was there of that counts as nothing any more.  Who reads it now vouches for
 * its being good (see trust_readers()), and it may never come.
 */
void behind_forget(struct memory *m, const struct memory_range *r, const struct bringing *b);
/* behind.c: -EAGAIN: it has to wait for them, or for more than @most_ns of copies. */
int behind_check(struct memory *m, uint32_t device, const struct bringing *b, uint64_t most_ns);

/*
 * stage.c (load): the first bytes of start..end of @r that are not on its extent.  1: they are now; 0: all
 * are; or an error.
 */
int load_piece(struct memory *m, struct memory_range *r, struct bringing *b, uint64_t start,
	       uint64_t end);
/* stage.c: once for each buffer and device; whoever comes meanwhile copies without. */
void register_host(struct memory *m, uint32_t device, struct memory_buffer *b);

#ifdef __SANITIZE_THREAD__
/* Of its library, which has no header for them. */
void AnnotateIgnoreReadsBegin(const char *file, int line);
void AnnotateIgnoreReadsEnd(const char *file, int line);
#else
static inline void AnnotateIgnoreReadsBegin(const char *file, int line)
{
	(void)file;
	(void)line;
}

static inline void AnnotateIgnoreReadsEnd(const char *file, int line)
{
	(void)file;
	(void)line;
}
#endif

/* From an extent, to wherever @to is. */
int extent_copy_out(struct memory *m, const struct memory_extent *e, void *to, uint64_t start,
		    uint64_t end);
/* Between an extent and the host.  0, or what the device returned. */
int extent_copy(struct memory *m, const struct memory_extent *e, uint32_t lane, bool in,
		uint64_t start, uint64_t end);
/* (locked) Whether @device can copy from @from itself. */
static inline bool are_peers(const struct memory *m, uint32_t device, uint32_t from)
{
	const struct memory_device *d = &m->devices[device], *f = &m->devices[from];

	return device != from && from < PEERS && d->ops.copy_peer && d->ops.peers &&
	       d->ops.peers == f->ops.peers && !(d->strangers >> from & 1);
}

/* (locked) Of very many it is not worth to know which are the host's, too. */
void forget_pieces(struct memory_extent *e);

/* (locked) Of start..end it has nothing any more but what is dirty there. */
void clear_clean(struct memory_extent *e, uint64_t start, uint64_t end);
/* (locked) The same of the rows of @r; how many these are. */
uint32_t clear_clean_rows(struct memory_extent *e, const struct memory_range *r);

/*
 * lost.c (locked): room to note that bytes of @b are lost, which are to come to @device; false: no
 * memory.
 */
bool lost_reserve(struct memory_buffer *b, uint32_t device);
/* lost.c (locked): what @e alone has of those rows is lost; without memory what lies beside them, too. */
void lost_take(struct memory_extent *e, const struct memory_range *r);
/* lost.c (locked): those rows are written anew; false: there is no room to note it, and they stay lost. */
bool lost_clear_rows(struct memory_extent *e, const struct memory_range *r, uint32_t first,
		     uint32_t rows);
/* lost.c: pieces of what is lost of it, at most, where there is no map. */
uint32_t lost_most(const struct memory_buffer *b);

/*
 * (locked) What the extent of @r alone had of its rows is lost, though it may be had from there yet: it is
 * half a task's.
 */
void dirty_lose(const struct memory_range *r);
/* (locked) Room to note in @e that rows were written; false: no memory. */
bool dirty_reserve(struct memory_extent *e, uint32_t rows);
/* All that is dirty of an extent that is @busy, to the host.  @until: or NULL */
int extent_flush(struct memory *m, struct memory_extent *e, const struct memory_until *until);
/*
 * Extents of @b that have too many dirty pieces: to the host with these, but for what tasks write just
 * now.  What can't be had remains as it is.
 */
void dirty_thin_out(struct memory *m, struct memory_buffer *b);
/*
 * (locked, for a while not) Of start..end, with what lies between lost ones that have a map; the device of the
 * oldest extent that has any, and how many copies bring them to the host.  Of many pieces about.
 */
uint64_t dirty_bytes(const struct memory_buffer *b, uint64_t start, uint64_t end, uint32_t *device,
		     uint64_t *copies);
/* (locked) Whether any of start..end is, or was where it is lost. */
bool is_dirty(const struct memory_buffer *b, uint64_t start, uint64_t end);
/*
 * start..end, wherever it is dirty.  @lost: they are needed; else without what nobody has.
 * @until: or NULL.  -EAGAIN: not @patient, and somebody else is at it.
 */
int buffer_flush(struct memory *m, struct memory_buffer *b, uint64_t start, uint64_t end, bool lost,
		 bool patient, const struct memory_until *until);
/* -ECANCELED or -ETIMEDOUT, if it is over; 0: it is not, or @until is NULL. */
int memory_until_over(const struct memory_until *until);

/*
 * turn.c (locked, for a while not): till somebody signals @cond, if not as memory_until_over()
 * first: it is one of those that memory_cancel() signals.
 */
int memory_await(struct memory *m, pthread_cond_t *cond, const struct memory_until *until);
/* turn.c (locked, for a while not): the caller's now; false: it lasts longer than a moment. */
bool turn_try(struct memory *m, struct memory_turn *t);
/* turn.c (locked, for a while not): 0: it is the caller's; or as memory_until_over(): it is not. */
int turn_take(struct memory *m, struct memory_turn *t, const struct memory_until *until);
/* turn.c (locked) */
void turn_end(struct memory *m, struct memory_turn *t);

/* foresee.c (locked): more of the device is used now, or less, and not for others to come. */
void foresee_room(struct memory *m, struct memory_device *d);
/* foresee.c (locked): something had to go. */
void foresee_overflow(struct memory *m, struct memory_device *d);
/* foresee.c (locked): the first seq of a task that will use bytes of it; UPCOMING_NEVER: none */
uint64_t foresee_next(const struct memory_extent *e);
/* foresee.c (locked): whether it is what was noted with the extent, which is ranked. */
bool foresee_is_known(const struct memory_extent *e);
/* foresee.c (locked, for a while not): the buffer is going. */
void foresee_gone(struct memory *m, struct memory_buffer *b);

/*
 * victim.c (locked, for a while not): the extent to go; NULL: all are in use.  @busy: some only
 * until a copy from them has ended.
 */
struct memory_extent *victim_choose(struct memory *m, struct memory_device *d, bool *busy);
/* victim.c (locked): tasks use it, or copies from it are made; and no longer. */
void extent_pin(struct memory_extent *e);
void extent_unpin(struct memory_extent *e);
void extent_busy(struct memory_extent *e);
void extent_idle(struct memory_extent *e);
/* victim.c (locked): it was made for a task that has no lane, and goes before all others. */
void extent_is_ahead(struct memory_extent *e);
/* victim.c (locked): it could not be saved, or could after all, or need not be. */
void extent_stuck(struct memory_extent *e, bool stuck);
/* victim.c (locked): it is not on its device any more. */
void victim_never(struct memory_extent *e);
/* victim.c (locked, for a while not): what is needed next at @from to @to may not be any more. */
void victims_look_again(struct memory *m, struct memory_device *d, uint64_t from, uint64_t to);
/* victim.c (locked, for a while not), for tests: whether it is who it is by looking at all. */
bool victim_check(struct memory *m, struct memory_device *d);

uint64_t memory_now_ns(void);
void rate_learn(struct rate *r, uint64_t bytes, uint64_t ns);
static inline double rate_ns(const struct rate *r, uint64_t bytes)
{
	return r->latency_ns + r->ns_per_byte * (double)bytes;
}

static inline double rate_copies_ns(const struct rate *r, uint64_t bytes, uint64_t copies)
{
	return (double)copies * r->latency_ns + r->ns_per_byte * (double)bytes;
}

#endif /* ARAXD_MEMORY_INTERNAL_H */
