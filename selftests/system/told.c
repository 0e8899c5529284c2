// SPDX-License-Identifier: MIT
/*
 * A program that does what it is told, a line at a time, and answers each with a
 * line: what scripts need to have a client's limits and end under their hands.
 * usage: told [UID]
 *
 *	buffer BYTES		make one, and keep it
 *	tasks N REFUSED		have N in flight at once, of which REFUSED get EDQUOT
 *	through N		have N end, all brought at once, of a queue that waits for room
 *	call			any call that a living context is answered
 *	wait			for a task that nothing but the context's end will end
 *
 * An answer is "ok", or the name of the errno.
 */
#include <arax/arax.h>
#include <errno.h>
#include <grp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define SECOND	1000000000ull
#define TASKS	64

struct told {
	struct arax *ax;
	struct arax_queue *q;
};

static void answer(int err)
{
	puts(err < 0 ? strerrorname_np(-err) : "ok");
	fflush(stdout);
}

static int make_buffer(struct told *t, uint64_t bytes)
{
	struct arax_buffer *b;

	return arax_buffer_create(t->ax, bytes, 0, &b);
}

static unsigned int count_refused(const struct arax_event *e, unsigned int n)
{
	unsigned int refused = 0;

	while (n--)
		refused += arax_event_done(&e[n]) && e[n].result == -EDQUOT;
	return refused;
}

/*
 * They wait for a timeline until as many have been refused as shall be: so those that
 * were taken were in flight at once.
 */
static int have_in_flight(struct told *t, unsigned int n, unsigned int refused)
{
	struct arax_event e[TASKS] = { 0 };
	uint64_t deadline = arax_deadline(60 * SECOND);
	struct arax_timeline *gate;
	unsigned int i;
	int err, result;

	if (n > TASKS || refused > n)
		return -EINVAL;
	err = arax_timeline_create(t->ax, 0, &gate);
	for (i = 0; !err && i < n; i++) {
		struct arax_desc d = { .opcode = ARAX_OP_MARKER, .wait = gate, .wait_value = 1,
				       .event = &e[i] };

		err = arax_submit(t->q, &d, 1, 0);
		err = err < 0 ? err : 0;
	}
	while (!err && count_refused(e, n) < refused) {
		err = arax_process(t->ax);
		if (!err && arax_deadline(0) > deadline)
			err = -ETIMEDOUT;
		err = err < 0 ? err : 0;
		usleep(1000);
	}
	if (!err)
		err = arax_timeline_advance(gate, 1, 0);
	for (i = 0; !err && i < n; i++) {
		result = arax_wait(&e[i], deadline);
		if (result && result != -EDQUOT)
			err = result;
	}
	if (!err && count_refused(e, n) != refused)
		err = -ERANGE;
	arax_timeline_destroy(gate);
	return err;
}

/* Half of them by one call, then one a call; what they name is theirs alone as soon as that is done. */
static int have_through(struct told *t, unsigned int n)
{
	struct arax_event e[TASKS] = { 0 };
	struct arax_desc d[TASKS] = { 0 };
	struct arax_range r[TASKS];
	struct arax_buffer *b[TASKS];
	uint8_t zero = 0;
	unsigned int i;
	struct arax_queue *q;
	int err;

	if (n > TASKS)
		return -EINVAL;
	err = arax_queue_create(t->ax, ARAX_QUEUE_DATAFLOW | ARAX_QUEUE_WAIT, 0, &q);
	if (err)
		return err;
	for (i = 0; i < n; i++) {
		err = arax_buffer_create(t->ax, 4096, 0, &b[i]);
		if (err)
			return err;
		r[i] = arax_out(b[i]);
		d[i] = (struct arax_desc){
			.opcode = ARAX_OP_FILL, .ranges = &r[i], .nr_ranges = 1, .args = &zero,
			.arg_len = sizeof(zero), .event = &e[i],
		};
	}
	err = arax_submit(q, d, n / 2, 0);
	if (err >= 0 && err != (int)(n / 2))
		err = -ERANGE;
	for (i = n / 2; i < n && err >= 0; i++)
		err = arax_submit(q, &d[i], 1, ARAX_SUBMIT_NOWAIT);
	for (i = 0; i < n; i++)
		arax_buffer_destroy(b[i]);
	err = err < 0 ? err : arax_queue_finish(q, arax_deadline(60 * SECOND));
	for (i = 0; i < n && !err; i++)
		err = e[i].result;
	arax_queue_destroy(q);
	return err;
}

static int wait_for_ever(struct told *t)
{
	struct arax_timeline *never;
	struct arax_event e = { 0 };
	struct arax_desc d = { .opcode = ARAX_OP_MARKER, .wait_value = 1, .event = &e };
	int err;

	err = arax_timeline_create(t->ax, 0, &never);
	if (err)
		return err;
	d.wait = never;
	err = arax_submit(t->q, &d, 1, 0);
	if (err < 0)
		return err;
	answer(0);	/* it is under way */
	return arax_wait(&e, arax_deadline(60 * SECOND));
}

static int any_call(struct told *t)
{
	struct arax_usage u;

	return arax_get_usage(t->ax, ARAX_USAGE_CONTEXT, &u);
}

static int obey(struct told *t, const char *line)
{
	unsigned long long bytes;
	unsigned int n, refused;

	if (sscanf(line, "buffer %llu", &bytes) == 1)
		return make_buffer(t, bytes);
	if (sscanf(line, "tasks %u %u", &n, &refused) == 2)
		return have_in_flight(t, n, refused);
	if (sscanf(line, "through %u", &n) == 1)
		return have_through(t, n);
	if (!strcmp(line, "call\n"))
		return any_call(t);
	if (!strcmp(line, "wait\n"))
		return wait_for_ever(t);
	return -EINVAL;
}

static int become(const char *uid)
{
	gid_t id = (gid_t)strtoul(uid, NULL, 10);

	return setgroups(0, NULL) || setresgid(id, id, id) || setresuid(id, id, id) ? -errno : 0;
}

int main(int argc, char **argv)
{
	struct told t = { 0 };
	char line[128];
	int err = argc > 1 ? become(argv[1]) : 0;

	if (!err)
		err = arax_open(&t.ax, NULL);
	if (!err)
		err = arax_queue_create(t.ax, ARAX_QUEUE_DATAFLOW, 0, &t.q);
	answer(err);
	if (err)
		return 1;
	while (fgets(line, sizeof(line), stdin))
		answer(obey(&t, line));
	arax_close(t.ax);
	return 0;
}
