// SPDX-License-Identifier: MIT
/* outlook.c - how long the ways to a program's end are, and how much is left */
#include "daemon/sched/outlook.h"

#include <stdlib.h>

/* Tasks, and lines from one to another, that one call looks at. */
#define LINES		8192u
/* By what part of it more is not known, for it to be made anew. */
#define NEWS		4u
#define NEWS_LEAST	16u

/* So many times as long as the best a slow device takes for what is left. */
#define SLOWER		2
/* Tasks placed until it is seen anew which these are. */
#define AGAIN		64u
/* What is left may end so much sooner than it seems: a task that is left to a slow device ends by then. */
#define LEAVE		0.9

/**
 * struct ahead - tasks that take equally long
 * @nr:		that are known, and have no device yet
 * @way_ns:	that one takes at best, as the ways have it: for they were added up once
 * @best_ns:	the same when the sides were found
 * @quick_ns, @slow_ns: in which all devices of one of the two sides get through one more; 0: never
 * @slow_part:	that the slow side should do of them
 */
struct ahead {
	uint64_t kind;
	double nr;
	double way_ns, best_ns;
	double quick_ns, slow_ns;
	double slow_part;
};

/**
 * struct outlook - of one program
 * @number:	unlike all others'; a task's way is of this one if it has its number
 * @live:	tasks that it has seen
 * @placed:	of them that have a device, or need none any more
 * @all:	it has seen all that there were; @vain: it can't be finished
 * @ends_ns:	the latest end of a way whose first task has a device
 * @quick:	which side each device is on, @nr_slow on the slow one; found when @sides_at tasks had been
 *		placed, for so many @lanes of all devices
 * @left_ns:	at @left_at, when @left_placed tasks had been placed
 */
struct outlook {
	uint32_t number;
	uint32_t nr;
	uint64_t live, placed;
	bool all, vain;
	double ends_ns;
	struct ahead kinds[OUTLOOK_KINDS];
	bool sides_made;
	uint32_t lanes, nr_slow;
	uint64_t sides_at;
	double left_ns;
	uint64_t left_at, left_placed;
	bool quick[SCHED_MAX_DEVICES];
};

uint32_t outlook_number(struct sched *s)
{
	if (!++s->outlooks)
		s->outlooks = 1;
	return s->outlooks;
}

struct outlook *outlook_make(void)
{
	return calloc(1, sizeof(struct outlook));
}

void outlook_free(struct outlook *o)
{
	free(o);
}

static uint64_t kind_of(const struct graph_node *n)
{
	/* The scheduler's own word in it. */
	return task_kind((struct graph_node *)n);
}

/* 0: nobody knows. */
static double best_ns(struct sched *s, uint64_t kind)
{
	double best = 0;

	for (uint32_t i = 0; i < s->nr_devices; i++) {
		double ns = s->devices[i].lanes ?
			    (double)model_predict_ns(&s->model, model_id(kind, i)) : 0;

		if (ns > 0 && (best <= 0 || ns < best))
			best = ns;
	}
	return best;
}

static struct ahead *ahead_of(struct sched *s, struct outlook *o, uint64_t kind, bool make)
{
	struct ahead *a = o->kinds;

	for (uint32_t i = 0; i < o->nr; i++, a++)
		if (a->kind == kind)
			return a;
	if (!make || o->nr == OUTLOOK_KINDS)
		return NULL;
	*a = (struct ahead){ .kind = kind, .way_ns = best_ns(s, kind) };
	o->nr++;
	o->sides_made = false;
	return a;
}

/* ------------------------------------------------------------------ */
/* Ways                                                                */

/**
 * struct walk - from a program's newest task to its oldest
 * @lines:	that may be looked at yet
 * @longest:	of the ways of those that wait for the task at hand
 */
struct walk {
	struct sched *s;
	struct outlook *o;
	uint32_t lines;
	float longest;
};

static void look_behind(void *to, const struct graph_node *n, uint32_t waits)
{
	struct walk *w = to;

	w->lines -= w->lines > 0;
	/* Those that are not known came after it was begun. */
	if (n->sched.outlook == w->o->number && n->sched.way_ns > w->longest)
		w->longest = n->sched.way_ns;
}

/* A way has begun on a device.  Where others are booked, nobody knows which one ends when. */
static void on_its_way(struct sched *s, struct outlook *o, const struct graph_node *n,
		       float longest)
{
	const struct sched_lane *l = &s->devices[n->device].lane[n->sched.lane];

	if (!n->sched.left && l->tasks == 1 && (double)l->until + longest > o->ends_ns)
		o->ends_ns = (double)l->until + longest;
}

/* All behind it is known. */
static bool look_at(void *to, struct graph_node *n)
{
	struct walk *w = to;
	struct outlook *o = w->o;
	struct ahead *a;

	w->lines -= w->lines > 0;
	w->longest = 0;
	w->s->ops.followers(w->s->arg, n, look_behind, w);
	o->live++;
	if (is_placed(n)) {
		o->placed++;
		on_its_way(w->s, o, n, w->longest);
		return w->lines;
	}
	a = ahead_of(w->s, o, kind_of(n), true);
	if (!a) {
		o->vain = true;
		return false;
	}
	a->nr++;
	n->sched.way_ns = w->longest + (float)a->way_ns;
	n->sched.outlook = o->number;
	return w->lines;
}

/* Whether the program has submitted so much since that it should be made anew. */
static bool is_old(struct sched *s, const struct outlook *o, const struct graph_node *n)
{
	uint64_t live = s->ops.live(s->arg, n), known = o->live - o->placed;
	uint64_t more = live / NEWS > NEWS_LEAST ? live / NEWS : NEWS_LEAST;

	known += n->sched.program ? n->sched.program->running : 0;
	return live > known + more;
}

static void begin(struct sched *s, struct outlook *o)
{
	o->number = outlook_number(s);
	o->nr = 0;
	o->sides_made = false;
	o->live = 0;
	o->placed = 0;
	o->all = false;
	o->vain = false;
	o->ends_ns = 0;
}

bool outlook_is_known(const struct outlook *o)
{
	return o->all && !o->vain;
}

bool outlook_look(struct sched *s, struct outlook *o, const struct graph_node *n)
{
	struct walk w = { .s = s, .o = o, .lines = LINES };
	bool done = o->all || o->vain, anew;

	if (!s->ops.followers || !s->ops.look_back || !s->ops.live)
		return false;
	anew = !o->number || (done && is_old(s, o, n));
	if (done && !anew)
		return outlook_is_known(o);
	if (anew)
		begin(s, o);
	o->all = s->ops.look_back(s->arg, n, anew, look_at, &w);
	/* As many kinds would be found again, until there is as much more. */
	if (o->vain) {
		o->live = s->ops.live(s->arg, n);
		o->placed = 0;
	}
	return outlook_is_known(o);
}

bool outlook_tail_ns(struct sched *s, const struct outlook *o, const struct graph_node *n,
		     double *ns)
{
	const struct ahead *a = ahead_of(s, (struct outlook *)o, kind_of(n), false);

	if (!outlook_is_known(o) || n->sched.outlook != o->number || !a)
		return false;
	*ns = n->sched.way_ns - a->way_ns;
	return true;
}

void outlook_left(struct sched *s, struct outlook *o, const struct graph_node *n,
		  uint64_t end_ns)
{
	struct ahead *a = ahead_of(s, o, kind_of(n), false);
	double end;

	if (n->sched.outlook != o->number || !a)
		return;
	o->placed++;
	if (a->nr > 0)
		a->nr--;
	if (!end_ns)
		return;
	end = (double)end_ns + n->sched.way_ns - a->way_ns;
	if (end > o->ends_ns)
		o->ends_ns = end;
}

/* ------------------------------------------------------------------ */
/* What is left                                                        */

/* In which device @i alone would do all that is left and that it can do, over what the best would. */
static double times_slower(struct sched *s, const struct outlook *o, uint32_t i)
{
	double ns = 0, least = 0;

	for (uint32_t k = 0; k < o->nr; k++) {
		const struct ahead *a = &o->kinds[k];
		uint64_t each = model_predict_ns(&s->model, model_id(a->kind, i));

		if (!each)
			continue;
		ns += (a->nr + 1) * (double)each;
		least += (a->nr + 1) * a->best_ns;
	}
	return least > 0 ? ns / least : SLOWER;
}

static void find_sides(struct sched *s, struct outlook *o)
{
	o->nr_slow = 0;
	for (uint32_t k = 0; k < o->nr; k++)
		o->kinds[k].best_ns = best_ns(s, o->kinds[k].kind);
	for (uint32_t i = 0; i < s->nr_devices; i++) {
		o->quick[i] = !s->devices[i].lanes || times_slower(s, o, i) < SLOWER;
		o->nr_slow += !o->quick[i];
	}
	for (uint32_t k = 0; k < o->nr; k++) {
		struct ahead *a = &o->kinds[k];
		double quick = 0, slow = 0;

		for (uint32_t i = 0; i < s->nr_devices; i++) {
			uint64_t ns = s->devices[i].lanes ?
				      model_predict_ns(&s->model, model_id(a->kind, i)) : 0;

			if (ns)
				*(o->quick[i] ? &quick : &slow) += device_rate(&s->devices[i]) / (double)ns;
		}
		a->quick_ns = quick > 0 ? 1 / quick : 0;
		a->slow_ns = slow > 0 ? 1 / slow : 0;
	}
	o->sides_made = true;
	o->sides_at = o->placed;
	o->lanes = all_lanes(s);
}

/* What the devices of each side have to do before they can begin with it, on average. */
static void add_begun(const struct sched *s, const struct outlook *o, uint64_t now_ns,
		      double *quick, double *slow)
{
	uint32_t nr[2] = { 0 };
	double ns[2] = { 0 };

	for (uint32_t i = 0; i < s->nr_devices; i++) {
		const struct sched_device *d = &s->devices[i];

		if (!d->lanes)
			continue;
		nr[o->quick[i]]++;
		ns[o->quick[i]] += (double)busy_for_ns(d, now_ns);
	}
	*quick += nr[1] ? ns[1] / nr[1] : 0;
	*slow += nr[0] ? ns[0] / nr[0] : 0;
}

static void find_left(struct sched *s, struct outlook *o, uint64_t now_ns)
{
	double quick = 0, slow = 0;
	uint32_t order[OUTLOOK_KINDS], n = 0;

	if (!o->sides_made || o->lanes != all_lanes(s) || o->placed - o->sides_at >= AGAIN)
		find_sides(s, o);
	add_begun(s, o, now_ns, &quick, &slow);
	for (uint32_t k = 0; k < o->nr; k++) {
		struct ahead *a = &o->kinds[k];
		uint32_t at = n;

		a->slow_part = a->quick_ns <= 0;
		if (a->quick_ns <= 0) {
			slow += a->nr * a->slow_ns;
			continue;
		}
		quick += a->nr * a->quick_ns;
		if (a->slow_ns <= 0)
			continue;
		/* First what the slow side is least slow at. */
		while (at && o->kinds[order[at - 1]].slow_ns * a->quick_ns >
			     a->slow_ns * o->kinds[order[at - 1]].quick_ns) {
			order[at] = order[at - 1];
			at--;
		}
		order[at] = k;
		n++;
	}
	for (uint32_t i = 0; i < n && slow < quick; i++) {
		struct ahead *a = &o->kinds[order[i]];
		double all = a->nr, moved = (quick - slow) / (a->quick_ns + a->slow_ns);

		a->slow_part = moved < all ? moved / all : 1;
		moved = moved < all ? moved : all;
		quick -= moved * a->quick_ns;
		slow += moved * a->slow_ns;
	}
	o->left_ns = quick > slow ? quick : slow;
	o->left_at = now_ns;
	o->left_placed = o->placed;
}

static void update(struct sched *s, struct outlook *o, uint64_t now_ns)
{
	if (!o->sides_made || o->left_at != now_ns || o->left_placed != o->placed)
		find_left(s, o, now_ns);
}

double outlook_left_ns(struct sched *s, struct outlook *o, uint64_t now_ns)
{
	double path = o->ends_ns - (double)now_ns;

	update(s, o, now_ns);
	return path > o->left_ns ? path : o->left_ns;
}

bool outlook_is_quick(struct sched *s, struct outlook *o, uint32_t device, uint64_t now_ns)
{
	update(s, o, now_ns);
	return o->quick[device];
}

double outlook_slow_part(struct sched *s, struct outlook *o, const struct graph_node *n,
			 uint64_t now_ns)
{
	const struct ahead *a = ahead_of(s, o, kind_of(n), false);

	update(s, o, now_ns);
	return a ? a->slow_part : 0;
}

/* Where all are alike this is found out now and then. */
static bool has_slow(struct sched *s, struct outlook *o, uint64_t now_ns)
{
	if (!outlook_is_known(o))
		return false;
	if (!o->sides_made || o->nr_slow || o->placed - o->sides_at >= AGAIN)
		update(s, o, now_ns);
	return o->nr_slow;
}

/* When a slow device would be done with @n first, from now on; negative: none can run it. */
static double slow_end_ns(struct sched *s, struct outlook *o, const struct graph_node *n,
			  uint64_t now_ns)
{
	double end, first = -1;

	for (uint32_t i = 0; i < s->nr_devices; i++) {
		const struct sched_device *d = &s->devices[i];
		uint64_t ns, at = UINT64_MAX;

		if (o->quick[i] || !can_run(s, n, i))
			continue;
		ns = model_predict_ns(&s->model, model_id(kind_of(n), i));
		for (uint32_t l = 0; l < d->lanes_size; l++)
			if (d->lane[l].until < at)
				at = d->lane[l].until;
		end = (double)ns + (at > now_ns ? (double)(at - now_ns) : 0);
		if (ns && (first < 0 || end < first))
			first = end;
	}
	return first;
}

bool outlook_leaves(struct sched *s, struct outlook *o, struct leaving *of,
		    const struct graph_node *n, uint64_t now_ns)
{
	const struct ahead *a = ahead_of(s, o, kind_of(n), false);
	double tail, *end;
	uint32_t kind;

	if (!has_slow(s, o, now_ns) || n->d.deadline_ns || !outlook_tail_ns(s, o, n, &tail))
		return false;
	kind = (uint32_t)(a - o->kinds);
	end = &of->end_ns[kind];
	if (!(of->found >> kind & 1)) {
		of->found |= 1u << kind;
		*end = outlook_slow_part(s, o, n, now_ns) < 1 ? -1 : slow_end_ns(s, o, n, now_ns);
	}
	return *end >= 0 && *end + tail <= outlook_left_ns(s, o, now_ns) * LEAVE;
}
