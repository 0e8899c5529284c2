// SPDX-License-Identifier: MIT
/*
 * SUBMIT and WAIT: answered when what they wait for has come.  A pending call
 * counts in client->sleepers, or waiters; the core then calls client_wake, which makes
 * the service thread look again.
 */
#include <errno.h>
#include <stdlib.h>

#include "daemon/link/broker_impl.h"

/*
 * Timelines may be waited for as long as a program likes, so that must not keep anybody from
 * canceling a task, or giving back a buffer.
 */
static bool has_place(const struct conn *c, uint32_t nr)
{
	return c->nr_pending < CONN_MAX_PENDING &&
	       (nr != ARAX_NR_WAIT || c->nr_waits < CONN_MAX_WAITS);
}

static struct pending *pending_new(struct conn *c, uint32_t nr, uint32_t id, uint32_t size,
				   const union core_args *a)
{
	struct pending *p;

	if (!has_place(c, nr))
		return NULL;
	p = calloc(1, sizeof(*p));
	if (!p)
		return NULL;
	p->conn = c;
	p->nr = nr;
	p->id = id;
	p->size = size;
	p->args = *a;
	clist_add_tail(&p->node, nr == ARAX_NR_WAIT ? &c->waits : &c->pending);
	c->nr_waits += nr == ARAX_NR_WAIT;
	c->nr_pending++;
	return p;
}

static core_atomic *counter(struct pending *p)
{
	struct core_client *cc = p->conn->client;

	return p->nr == ARAX_NR_WAIT ? &cc->waiters : &cc->sleepers;
}

static void pending_free(struct pending *p)
{
	struct conn *c = p->conn;

	if (p->waiting)
		core_atomic_sub_return(counter(p), 1);
	if (p->timed)
		cheap_remove(&c->broker->due, &p->due);
	if (p->wait.count)
		core_wait_end(&p->wait);
	clist_del(&p->node);
	c->nr_waits -= p->nr == ARAX_NR_WAIT;
	c->nr_pending--;
	free(p);
}

static void pending_answer(struct pending *p, int result)
{
	struct conn *c = p->conn;
	union core_args a = p->args;
	uint32_t nr = p->nr, id = p->id, size = p->size;

	pending_free(p);
	conn_answer(c, nr, id, result, &a, size, -1);
}

/* Of calls that wait; the others are at the poller all their life. */
static uint64_t deadline_of(const struct pending *p)
{
	return p->nr == ARAX_NR_WAIT ? p->args.wait.deadline_ns : p->args.submit.deadline_ns;
}

/* 0 or an error: done; CORE_WAIT_PENDING: not yet. */
static int look(struct pending *p)
{
	struct core_client *cc = p->conn->client;

	if (p->nr == ARAX_NR_WAIT)
		return core_wait_poll(&p->wait, &p->args.wait.index);
	if (core_submit_done(cc, &p->args.submit))
		return 0;
	if (core_read_once(cc->dead))
		return -(int)core_read_once(cc->dead);
	return CORE_WAIT_PENDING;
}

/* Once: it does not change. */
static void await_deadline(struct pending *p)
{
	if (p->timed || deadline_of(p) == ARAX_DEADLINE_NONE)
		return;
	p->timed = true;
	cheap_insert(&p->conn->broker->due, &p->due, deadline_of(p));
}

/* Answers it, or leaves it waiting. */
static void settle(struct pending *p, uint64_t now_ns)
{
	int result;

	if (!p->waiting) {
		p->waiting = true;
		core_atomic_add(counter(p), 1);
		/* Pairs with the core's barrier before it reads that. */
		core_full_barrier();
	}
	result = look(p);
	if (result == CORE_WAIT_PENDING) {
		if (deadline_of(p) > now_ns) {
			await_deadline(p);
			return;
		}
		result = -ETIMEDOUT;
	}
	pending_answer(p, result);
}

/* The poller has consumed what it could: back on the service thread. */
static void submitted(struct work *w)
{
	struct pending *p = (struct pending *)((char *)w - offsetof(struct pending, work));

	p->at_poller = false;
	if (p->nr != ARAX_NR_SUBMIT) {
		pending_answer(p, core_call_run(core_call_find(p->nr), p->conn->broker->core,
						p->conn->client, &p->args));
		return;
	}
	if (p->result < 0 && p->result != -EAGAIN && p->result != -EINVAL) {
		pending_answer(p, p->result);
		return;
	}
	p->args.submit.submitted = p->result > 0 ? (uint32_t)p->result : 0;
	/* What waits for room can't complete before its owner has been told that it has to wait. */
	if (p->result < 0 || !p->args.submit.min_complete ||
	    (p->args.submit.submitted < p->args.submit.to_submit &&
	     core_read_once(p->conn->client->awaits_room)))
		pending_answer(p, p->result < 0 ? p->result : 0);
	else
		settle(p, monotonic_ns());
}

/*
 * (poller) Consumes at most *@room entries for a call and takes them off *@room; false: there is
 * more for it to do.  Entries that broker_poll() takes meanwhile are the call's as well.
 */
static bool consume_for(struct pending *p, uint32_t *room)
{
	const struct core_client *cc = p->conn->client;
	uint32_t max = cc->depth, done, some;
	int n;

	if (p->conn->broker->quiet) {
		p->result = -ENOTCONN;
		return true;
	}
	if (p->nr == ARAX_NR_SUBMIT && p->args.submit.to_submit < max)
		max = p->args.submit.to_submit;
	if (!p->begun)
		p->from = cc->sq_head;
	p->begun = true;
	done = cc->sq_head - p->from;
	if (done >= max) {
		p->result = (int)max;
		return true;
	}
	some = max - done < *room ? max - done : *room;
	if (!some)
		return false;
	n = conn_consume(p->conn, some);
	if (n == -EBUSY)
		return false;
	if (n > 0) {
		done += (uint32_t)n;
		*room -= (uint32_t)n;
	}
	p->result = done ? (int)done : n;
	return n < (int)some || done == max;
}

/* (poller) The oldest of those that are there. */
static struct pending *first_call(struct conn *c)
{
	if (!c->taken)
		c->taken = work_take(&c->calls);
	return (struct pending *)((char *)c->taken - offsetof(struct pending, work));
}

/*
 * (poller) So many entries of a client at each turn, whatever it asks for and however often: what
 * others have published or brought waits for no more than that.
 */
static void take_calls(struct work *w)
{
	struct conn *c = (struct conn *)((char *)w - offsetof(struct conn, take));
	struct broker *b = c->broker;
	uint32_t room = TAKE_PER_TURN;
	bool last = false;

	while (!last) {
		struct pending *p = first_call(c);

		if (!consume_for(p, &room)) {
			poller_post(b->link.poller, w);
			return;
		}
		c->taken = p->work.next;
		p->work.run = submitted;
		/*
		 * Before the answer: with the last of them the connection may go.  Pairs with
		 * post_call(), which may post @w again from here on.
		 */
		last = !__atomic_sub_fetch(&c->nr_calls, 1, __ATOMIC_ACQ_REL);
		broker_reply_later(b, &p->work);
	}
}

static void post_call(struct pending *p)
{
	struct conn *c = p->conn;

	p->at_poller = true;
	work_push(&c->calls, &p->work);
	if (__atomic_fetch_add(&c->nr_calls, 1, __ATOMIC_ACQ_REL))
		return;
	c->take.run = take_calls;
	poller_post(c->broker->link.poller, &c->take);
}

int conn_submit(struct conn *c, uint32_t nr, uint32_t id, uint32_t size,
		const union core_args *a)
{
	struct pending *p;
	int err = core_submit_check(c->client, &a->submit);

	if (err)
		return err;
	/* Each look may be at all completions: that is for the caller's own thread to do. */
	if (a->submit.flags & ARAX_SUBMIT_AS_ASKED)
		return -EOPNOTSUPP;
	p = pending_new(c, nr, id, size, a);
	if (!p)
		return -ENOSPC;
	p->args.submit.submitted = 0;
	if (!a->submit.to_submit) {
		settle(p, monotonic_ns());
		return 0;
	}
	post_call(p);
	return 0;
}

int conn_after_submitted(struct conn *c, uint32_t nr, uint32_t id, uint32_t size,
			 const union core_args *a)
{
	struct pending *p = pending_new(c, nr, id, size, a);

	if (!p)
		return -ENOSPC;
	post_call(p);
	return 0;
}

int conn_wait(struct conn *c, uint32_t id, uint32_t size, const union core_args *a)
{
	struct pending *p = pending_new(c, ARAX_NR_WAIT, id, size, a);
	int err;

	if (!p)
		return -ENOSPC;
	err = core_wait_begin(c->client, &a->wait, &p->wait);
	if (err) {
		p->wait.count = 0;
		pending_free(p);
		return err;
	}
	settle(p, monotonic_ns());
	return 0;
}

/* Those of @list that are not at the poller; that is no WAIT. */
static void settle_all(struct clist *list, uint64_t now_ns)
{
	struct clist *pos, *tmp;

	clist_for_each_safe(pos, tmp, list) {
		struct pending *p = clist_entry(pos, struct pending, node);

		if (!p->at_poller)
			settle(p, now_ns);
	}
}

/*
 * It is woken for whatever ends, as calls may wait for that.  Those that wait for timelines have
 * thousands of points, which are looked at when one of them has been reached.
 */
void conn_check_pending(struct conn *c, uint64_t now_ns)
{
	/* Pairs with the release in core_timeline_reach(): so many are seen not to wait any more. */
	uint32_t reached = core_load_acquire(&c->client->reached);

	settle_all(&c->pending, now_ns);
	if (reached == c->reached && !core_read_once(c->client->dead))
		return;
	c->reached = reached;
	settle_all(&c->waits, now_ns);
}

void conn_drop_pending(struct conn *c)
{
	struct clist *pos, *tmp;

	clist_for_each_safe(pos, tmp, &c->waits)
		pending_free(clist_entry(pos, struct pending, node));
	clist_for_each_safe(pos, tmp, &c->pending) {
		struct pending *p = clist_entry(pos, struct pending, node);

		if (!p->at_poller)
			pending_free(p);
	}
}

void broker_settle_due(struct broker *b)
{
	struct cheap *first;
	uint64_t now;

	if (!b->due)
		return;
	now = monotonic_ns();
	/* It is answered, and so is no longer the first. */
	while ((first = cheap_first(b->due)) && first->key <= now)
		settle(cheap_entry(first, struct pending, due), now);
}

bool conn_at_poller(const struct conn *c)
{
	struct clist *pos, *tmp;

	clist_for_each_safe(pos, tmp, &c->pending)
		if (clist_entry(pos, struct pending, node)->at_poller)
			return true;
	return false;
}
