/* SPDX-License-Identifier: MIT */
/*
 * memory.h - buffers on devices that have memory of their own
 *
 *   memory_enter()  on the lane's thread: room for every range, inputs copied in
 *   ... the kernel runs on the addresses ...
 *   memory_leave()  on the lane's thread: outputs copied back to the host
 *   memory_settle() on the poller's, before the task is committed
 *
 * WHOSE COPY COUNTS
 *
 *   The host's pages are current whenever a task is committed: a client maps
 *   them and may read and write them like any memory from then on.  It says
 *   nothing when it does, so a copy on a device is trusted only by tasks that
 *   were added before the last one that used it was committed: whoever had
 *   submitted them by then could not yet have seen that task's end, and to write
 *   to memory that a task is using was an error.  A chain of tasks submitted
 *   together so moves its data once; a program that waits after each task gets
 *   its inputs copied afresh.  Waiting for a timeline ends all trust of who waited
 *   (see memory_distrust()): others may have written before they signalled it.
 *
 *   A lazy buffer is one that its program touches only where it has said so first
 *   (ARAX_BUFFER_EXPLICIT).  Its copies are trusted for as long as they are there, and
 *   what a task writes stays where it was written, alone, until somebody needs it at
 *   the host: memory_flush() for a host access or a task on the host's pages, another
 *   extent that needs those bytes and can't copy them from there, or an extent that has
 *   to go.  What is overwritten before that is never copied.  After a task failed, what
 *   it was to write is undefined.
 *
 * WHERE
 *
 *   An extent is a contiguous piece of a buffer on a device; a small buffer is
 *   one extent as a whole.  Extents of one buffer may overlap (a task may need
 *   bytes in one piece that lie in two); each is a copy in its own right, and
 *   writing to one makes the bytes of the others stale.
 *
 *   When a device is full, the extent goes that is needed last by the tasks that are known
 *   of (memory_will_use(); Belady 1966).  Of those that none of them needs, the one that is
 *   cheapest to have back for its size and was not used for longest (GreedyDual-Size,
 *   Cao and Irani 1997).  Nothing is lost by that: the host has every byte, or gets it first.  Bytes that a task only
 *   writes are not copied in, unless the extent is new there: what a kernel
 *   leaves out then keeps the host's bytes, never another buffer's.
 *
 * WHO PAYS
 *
 *   What a task's ranges take on a device is charged to its owner while the task
 *   is between memory_enter() and memory_settle(), once where several tasks share an
 *   extent.  Extents that no task uses are the manager's cache: whoever needs the
 *   room gets it.
 *
 * COST
 *
 *   A buffer may be in very many extents.  Those that have certain bytes, and the one that goes
 *   next, are found in O(log n): what a call takes grows with its rows and the extents that have
 *   bytes of them.  Who has much to do lets others go on in between.
 *
 *   What is known of an extent, piece by piece, takes no more than a quarter of its bytes, or some
 *   hundred bytes.  Pieces that lie close go to the host by one copy of up to 1 MiB, through memory
 *   of araxd's own; but each by itself from a device that copies to the buffer's own pages alone.
 *   So what it takes to have an extent at the host grows with its bytes, not with its pieces: of
 *   those far apart there is one for each 16 KiB at most.  Who is canceled, or late, waits for no
 *   more than his own copy that is under way, not for others'.
 *
 * THREADS
 *
 *   Any, one call at a time for one task.  memory_buffer_gone(): no task uses
 *   the buffer.  It may wait for an extent of it that is just going.
 */
#ifndef ARAXD_MEMORY_MEMORY_H
#define ARAXD_MEMORY_MEMORY_H

#include <stdbool.h>
#include <stdint.h>

/*
 * Rows of a task's ranges together, those that touch counted as one.  What is known of an
 * extent is known of each, and looked at while nobody else can.
 */
#define MEMORY_MAX_ROWS	4096u

struct memory;
struct memory_buffer;
struct memory_extent;

/**
 * struct memory_ops - a device's memory; as of backend.h
 * @alloc:	for a copy of what is at @host: all copies between the two are at the same
 *		offset in both
 * @copy_peer:	from another device with the same @peers; -EOPNOTSUPP: these two never can.
 *		After an error it goes by way of the host
 * @moves:	an allocation may later be for a copy of what is elsewhere on the host
 * @peers:	NULL: it has none
 * @largest:	bytes that @alloc gives at most, however much is free; 0: all of them
 */
struct memory_ops {
	int (*alloc)(void *dev, uint64_t bytes, void *host, uint64_t *address);
	void (*free)(void *dev, uint64_t address);
	int (*copy_in)(void *dev, uint32_t lane, uint64_t to, const void *from, uint64_t bytes);
	int (*copy_out)(void *dev, uint32_t lane, void *to, uint64_t from, uint64_t bytes);
	/* May be NULL: prepare a buffer's host memory for copies, once.  Failing does no harm. */
	int (*host_register)(void *dev, void *host, uint64_t bytes);
	void (*host_unregister)(void *dev, void *host);
	int (*copy_peer)(void *dev, uint64_t to, void *src, uint64_t from, uint64_t bytes);
	bool moves;
	const void *peers;
	uint64_t largest;
};

/**
 * struct memory_range - a task's range
 * @buffer:	from memory_buffer_create()
 * @offset, @length, @stride, @count, @access: as in struct arax_dispatch_range
 * @trust:	memory_trust() of the task's context
 * @address:	out: of its first byte on the device
 * @moved:	out, added to: bytes copied between host and device for it
 * @tenant:	of memory_will_use(): its task's; else the manager's
 * @extent ... @pays: the manager's, who reads them from memory_enter() to memory_settle(): the
 *		range stays in its place
 */
struct memory_range {
	struct memory_buffer *buffer;
	uint64_t offset;
	uint64_t length;
	uint32_t stride;
	uint32_t count;
	uint32_t access;
	uint32_t trust;
	uint64_t address;
	uint64_t moved;
	struct memory_extent *extent;
	struct memory_range *next_user;
	struct memory_range *next_holder;
	uint64_t payer, tenant;
	uint64_t came;
	uint32_t lane;
	bool loaded;
	bool left;
	bool holds;
	bool pays;
};

/**
 * struct memory_owner - who pays for what a task holds
 *
 * However many of its tasks hold the same, it pays once for it.  Another one that holds it too
 * pays as well: whose it is may go at any time.
 *
 * @id:		for the function that charges
 * @tenant:	whose quota it is
 */
struct memory_owner {
	uint64_t id;
	uint64_t tenant;
};

/**
 * struct memory_until - how long a task waits for room and its data, or at a gate before (dispatch/gate.h)
 * @deadline_ns: CLOCK_MONOTONIC; 0: for as long as it takes
 * @canceled:	atomic: no longer, see memory_cancel()
 * @waits:	out, atomic: it does
 */
struct memory_until {
	uint64_t deadline_ns;
	bool canceled;
	bool waits;
};

/* -ENOMEM */
int memory_create(uint32_t nr_devices, struct memory **out);
/*
 * @charge is called, from any thread and without a lock, with bytes that owner @id has more
 * or (negative, always possible) less.  -EDQUOT: may not have; any other error: is
 * gone, and pays nothing any more.
 */
void memory_set_charge(struct memory *m, int (*charge)(void *arg, uint64_t id, int64_t bytes),
		       void *arg);
/*
 * @limit: called likewise: the least maximum of the owner's tenant and those above it, with
 * what others below these hold left out of account.  A task that would fit waits for
 * whoever holds something now.  Without it only tasks of its own tenant are waited for.
 * In *@left, if not NULL: what @charge would grant now.
 */
void memory_set_limit(struct memory *m,
		      uint64_t (*limit)(void *arg, struct memory_owner owner, uint64_t *left));
/* Nobody settles any more: whoever waits for room gets -ECANCELED, now and from now on. */
void memory_stop(struct memory *m);
/* All buffers are gone. */
void memory_destroy(struct memory *m);

/* A device with @bytes of memory.  Before any task; -EINVAL, -ENOMEM. */
int memory_add_device(struct memory *m, uint32_t device, const struct memory_ops *ops, void *dev,
		      uint64_t bytes);
bool memory_has_device(const struct memory *m, uint32_t device);

#define MEMORY_HOST	(~0u)

/*
 * What copies by the link from one device, or MEMORY_HOST, to another take, as measured; the copies
 * to come correct it.  False: there is no such link.  As long as nothing is known of one between
 * two devices it is taken for that from the host.
 */
bool memory_set_rate(struct memory *m, uint32_t to, uint32_t from, double latency_ns,
		     double ns_per_byte);
/* To a device and back. */
void memory_set_rates(struct memory *m, uint32_t device, double in_latency_ns,
		      double in_ns_per_byte, double out_latency_ns, double out_ns_per_byte);
/* What it is by now.  False: there is no such link, or nothing is known of it. */
bool memory_rate(struct memory *m, uint32_t to, uint32_t from, double *latency_ns,
		 double *ns_per_byte);

/* @host holds @bytes bytes until memory_buffer_gone().  NULL: no memory. */
struct memory_buffer *memory_buffer_create(struct memory *m, uint8_t *host, uint64_t bytes);
void memory_buffer_gone(struct memory *m, struct memory_buffer *b);
/* Before any task: it is a lazy one, see above. */
void memory_buffer_lazy(struct memory_buffer *b);
bool memory_is_lazy(const struct memory_buffer *b);

/* Of memory_enter(): not now, but when others have ended. */
#define MEMORY_LATER	1

/**
 * memory_enter - make a task's ranges valid on @device, and keep them there
 * @seq: the task's place in its graph
 * @owner: who pays, for memory_set_charge()
 *
 * At most MEMORY_MAX_ROWS rows.  Waits for room while others hold what is in the way, but not for
 * its owner's quota.  0, MEMORY_LATER (others hold what the owner may have: again when
 * memory_settles() is another number than before the call), -ENOMEM (all of the device's memory
 * would not do; logged with figures), -EDQUOT (more than the owner may have, whoever gives back
 * what he holds), -ECANCELED (memory_stop()), or what a copy returned.
 * After an error the task holds nothing.
 */
int memory_enter(struct memory *m, uint32_t device, uint32_t lane, struct memory_range *ranges,
		 uint32_t nr, uint64_t seq, struct memory_owner owner);
/* The same, but -ETIMEDOUT or -ECANCELED instead of waiting for room, or copying more, beyond @until. */
int memory_enter_until(struct memory *m, uint32_t device, uint32_t lane,
		       struct memory_range *ranges, uint32_t nr, uint64_t seq,
		       struct memory_owner owner, struct memory_until *until);
/* Any thread: who waits for room on @device until then waits no more, nor will, nor has it more copied. */
void memory_cancel(struct memory *m, uint32_t device, struct memory_until *until);
/*
 * The same for a thread that has other tasks between memory_enter() and memory_leave(): -EAGAIN
 * where it would have to wait for tasks, which might be these, or for others' copies.  MEMORY_LATER
 * as above: nobody waits for that in there.
 */
int memory_try_enter(struct memory *m, uint32_t device, uint32_t lane, struct memory_range *ranges,
		     uint32_t nr, uint64_t seq, struct memory_owner owner);

/*
 * The same before tasks have left that it waits for: all of these are on @lane, have entered, and
 * the device runs them before it.  What they write there counts as there.  -EAGAIN also where it has
 * to wait for them, or for more than @most_ns of copies.  It leaves after them, and with an error if
 * one of them did.
 */
int memory_enter_behind(struct memory *m, uint32_t device, uint32_t lane,
			struct memory_range *ranges, uint32_t nr, uint64_t seq,
			struct memory_owner owner, uint64_t most_ns);

/*
 * The same where nothing is to be done for it: all that the task needs is on @device, and its
 * results stay there.  -EAGAIN where that is not so, at once.
 */
int memory_enter_ready(struct memory *m, uint32_t device, struct memory_range *ranges, uint32_t nr,
		       uint64_t seq, struct memory_owner owner);

/**
 * struct memory_ahead - a task whose inputs come before it has a lane
 * @seq, @owner: as of memory_enter()
 * @last:	of the task that was added last; those up to there trust what comes
 * @beside:	bytes that were brought so for other tasks of its tenant which have not begun: it has
 *		to be allowed as much as all of them
 * @piece:	bytes at a time, for which who needs room, or that extent, may have to wait
 * @go_on:	whether anybody wants it still; called from memory_bring(), also with the manager locked.
 *		Its answer is no before the task begins, or anything that comes after it, on any device
 *		or at the host, and stays no
 */
struct memory_ahead {
	uint64_t seq;
	uint64_t last;
	struct memory_owner owner;
	uint64_t beside;
	uint64_t piece;
	bool (*go_on)(void *arg);
	void *arg;
};

/*
 * Bring what the task needs to @device; @ranges are a copy, for this alone.
 *
 * It is ready: nobody but itself writes there before it has ended.  It may begin meanwhile, here or
 * elsewhere, or end without having begun.  Takes memory that is free; what a task needs goes first.
 * What can't be had, or a device has alone, is not brought.  Its buffers are kept meanwhile
 * (memory_buffer_keep()).  False: its owner could not pay for that now.
 */
bool memory_bring(struct memory *m, uint32_t device, struct memory_range *ranges, uint32_t nr,
		  const struct memory_ahead *a);
/* Any thread: some go_on() on @device says no now, which is to be seen soon. */
void memory_bring_stopped(struct memory *m, uint32_t device);
/* How long it would take for its inputs: of those the ones that the host has. */
uint64_t memory_bring_ns(struct memory *m, uint32_t device, const struct memory_range *ranges,
			 uint32_t nr, uint64_t seq);
/* memory_buffer_gone() waits until it is let go: which it is soon, once no task uses it. */
void memory_buffer_keep(struct memory *m, struct memory_buffer *b);
void memory_buffer_let_go(struct memory *m, struct memory_buffer *b);

/* Any thread: another number each time that tasks have given back what was paid for. */
uint64_t memory_settles(const struct memory *m);

/**
 * memory_leave - the kernel has ended with @result
 *
 * Returns it, or what a copy back returned.  Outputs of a failed task stay where
 * they are and count as nothing; after -ENODEV, and -ECANCELED (it has run, though one had failed
 * that it was to come after), what @device alone had before is lost, and who reads it is told so.
 */
int memory_leave(struct memory *m, uint32_t device, uint32_t lane, struct memory_range *ranges,
		 uint32_t nr, int result);

/**
 * memory_settle - the task is about to be committed
 * @seq: of the task that was added last
 *
 * After memory_leave(); lets go of the ranges.
 */
void memory_settle(struct memory *m, uint32_t device, struct memory_range *ranges, uint32_t nr,
		   uint64_t seq);

/* What they take on a device: bytes between rows count, and those that several have but once. */
uint64_t memory_bytes(const struct memory_range *ranges, uint32_t nr);
/* And what the largest of their allocations takes. */
uint64_t memory_largest(const struct memory_range *ranges, uint32_t nr);

/*
 * Whether the task writes over bytes that it reads and that are on @device, where it runs, alone:
 * if it fails nobody has them any more, and it can't be run again.  Before memory_leave().
 */
bool memory_consumes(struct memory *m, uint32_t device, const struct memory_range *ranges,
		     uint32_t nr);

/*
 * Whether bytes of the range are on a device alone.  What is lost is nothing to who only writes there,
 * with the same exception as for memory_flush().
 */
bool memory_is_dirty(struct memory *m, const struct memory_range *r);
/* How many, and how long it would take to have them at the host; ns. */
uint64_t memory_dirty(struct memory *m, const struct memory_range *ranges, uint32_t nr,
		      uint64_t *ns);

/*
 * Have the range's bytes at the host, for who is next to use them there.  Of a lazy
 * buffer; for others there is nothing to do.  0, or -EIO: a device doesn't give them.
 * What went with a device is no error to who only writes there, unless in more rows than
 * MEMORY_MAX_ROWS.  @r->moved: what came for it.
 */
int memory_flush(struct memory *m, struct memory_range *r);
/*
 * The next piece of @r for memory_flush(), at most @bytes of it or, at a stride, rows with what lies
 * between them.  @at: 0 for the first one, then where the last one ended.  False: there is none
 * any more.
 */
bool memory_piece(const struct memory_range *r, uint64_t bytes, uint64_t *at,
		  struct memory_range *piece);

/* A task on the host wrote these rows: every copy of them is stale. */
void memory_host_wrote(struct memory *m, struct memory_buffer *b, uint64_t offset,
		       uint64_t length, uint32_t stride, uint32_t count);
/* It may have, or not, as it failed: so are they, but what is lost stays so. */
void memory_host_failed(struct memory *m, struct memory_buffer *b, uint64_t offset,
			uint64_t length, uint32_t stride, uint32_t count);

/*
 * The device is about to forget what its memory holds: all of it is freed, after what is
 * there alone has come to the host.  No task is between memory_enter() and
 * memory_settle() there.  -EIO: the device doesn't give it, and keeps the rest; -ENODEV: as it is
 * lost, which is no fault of whoever wants it dropped.
 */
int memory_drop(struct memory *m, uint32_t device);
/* The same of a device that forgets it in any case: who reads what it doesn't give gets -EIO. */
void memory_lose(struct memory *m, uint32_t device);

/*
 * Whether a device is so full that it matters what is used next: then is the time to tell.
 * Without a lock: it may be another answer the next time.
 */
bool memory_is_tight(const struct memory *m);
/* Whether what comes to @device makes something else go, or nearly. */
bool memory_is_full(const struct memory *m, uint32_t device);

/*
 * A task that has not ended yet will use @ranges; or has ended, with or without having used
 * them.  @seq: its place among others, the least first; no other task's with a range alike.
 * It is a hint: a task that nothing was told of is treated as any other.
 */
void memory_will_use(struct memory *m, const struct memory_range *ranges, uint32_t nr,
		     uint64_t seq);
void memory_has_used(struct memory *m, const struct memory_range *ranges, uint32_t nr,
		     uint64_t seq);
/* Of no task is anything known any more. */
void memory_forget_uses(struct memory *m);
/*
 * Uses known of: how many there can be at most, of all buffers together; of one tenant (@tenant of the
 * first one's range of a buffer) a quarter.
 */
#define MEMORY_MAX_USES	(1u << 16)

/*
 * A task of a context that waited for a timeline goes on: no copy made before now is trusted by
 * tasks with that memory_range.trust.  A few contexts share each.
 */
void memory_distrust(struct memory *m, uint32_t trust);
uint32_t memory_trust(const struct memory *m, uint64_t context);

/*
 * Time to bring what is missing of @ranges to @device and take the results back, by
 * the copies so far; ns.  A buffer of NULL is nowhere but on the host.
 */
uint64_t memory_transfer_ns(struct memory *m, uint32_t device, const struct memory_range *ranges,
			    uint32_t nr, uint64_t seq);

/* Time to take the results of a task that ran back to the host; ns. */
uint64_t memory_back_ns(struct memory *m, uint32_t device, const struct memory_range *ranges,
			uint32_t nr);

/**
 * memory_reach_ns - time until what @device lacks of @ranges' inputs would be there; ns
 * @slowest: each piece by the slowest way from a place that holds it, not by the quickest
 *
 * A piece that the host has comes from there, and that is the quickest way.  Else it comes from a
 * device that has it: directly, where the two are peers, or by way of the host.  @device may have
 * no memory of its own.
 */
uint64_t memory_reach_ns(struct memory *m, uint32_t device, const struct memory_range *ranges,
			 uint32_t nr, uint64_t seq, bool slowest);

/**
 * memory_way - how much of @ranges is worth being near
 * @again_ns: to bring what is missing on @device of their inputs, and is on others
 * @kept_ns: to bring all of them that stays on devices from task to task: of lazy buffers
 *
 * @device has no memory of its own: @again_ns is for what the host lacks.
 */
void memory_way(struct memory *m, uint32_t device, const struct memory_range *ranges,
		uint32_t nr, uint64_t seq, uint64_t *again_ns, uint64_t *kept_ns);

/* Of @ranges' inputs, the bytes that a task would find on @device. */
uint64_t memory_resident(struct memory *m, uint32_t device, const struct memory_range *ranges,
			 uint32_t nr, uint64_t seq);

/* Whether all of a range, of a task @seq, is valid on @device, or at the host. */
bool memory_holds(struct memory *m, uint32_t device, const struct memory_range *range,
		  uint64_t seq);

/**
 * struct memory_link - what copies take, as learnt
 * @in_latency_ns, @in_byte_ns: from the host; @out_...: to it
 * @peers:	as of its memory_ops
 */
struct memory_link {
	double in_latency_ns, in_byte_ns, out_latency_ns, out_byte_ns;
	const void *peers;
};

/* False: @device has no memory of its own. */
bool memory_link(struct memory *m, uint32_t device, struct memory_link *link);

/**
 * struct memory_stats - of a device, since the start
 * @used:	bytes allocated now
 * @copied_in, @copied_out, @copied_peer: bytes from the host, to it, from other devices
 * @evictions:	extents that had to go for others
 * @behind:	tasks that entered before those had left which they waited for
 * @waits:	times that a task waited for room, or was told to for its quota
 */
struct memory_stats {
	uint64_t bytes;
	uint64_t used;
	uint64_t extents;
	uint64_t copied_in;
	uint64_t copied_out;
	uint64_t copied_peer;
	uint64_t evictions;
	uint64_t behind;
	uint64_t waits;
};

void memory_query(struct memory *m, uint32_t device, struct memory_stats *stats);

/* For tests: extents that were looked at, ever, to find some of the buffer's or one to go. */
uint64_t memory_steps(struct memory *m, const struct memory_buffer *b);
/* For tests: dirty pieces of an extent are many from here on. */
void memory_many_dirty(struct memory *m, uint32_t pieces);
/* For tests: violations of what must hold, each printed to stderr. */
int memory_check(struct memory *m);

#endif /* ARAXD_MEMORY_MEMORY_H */
