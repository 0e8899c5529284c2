/* SPDX-License-Identifier: MIT */
/*
 * internal.h - what the scheduler's files share
 *
 *   sched.c	tenants and their turn; devices and their lanes
 *   level.c	how far turns have come, on each device
 *   program.c	a tenant's programs and their turn
 *   share.c	the tenants' parts: weights and maxima
 *   waits.c	how long tenants wait
 *   follow.c	tasks whose data is there, where memory is short
 *   next.c	who would be given a busy device next
 *   model.c	run times learnt
 *   regress.c	... and what they say of other sizes
 *   policy_*.c	which device: see policy.h
 *   refusal.c	tasks that were asked in vain a moment ago
 *   outlook.c	what is to come after them
 *   plan.c	all tasks of a program that is alone, in advance
 *   plan_*.c	... its graph, and what is tried: see plan_impl.h
 *   list.c	... by list schedules
 *   only.c	tasks that no busy device can run, behind others
 *   spare.c	tasks for devices that those next would rather not have
 *   data.c	where a task's data is
 *   streams.c	which stream of a device: see streams.h
 */
#ifndef ARAXD_SCHED_INTERNAL_H
#define ARAXD_SCHED_INTERNAL_H

#include "daemon/sched/regress.h"
#include "daemon/sched/sched.h"

#define DEFAULT_WEIGHT	100

/**
 * struct sched_cap - device_time.max of a tenant and all below it
 * @start_ns:	of the present period
 * @spent_ns:	in it, with what earlier ones left owing
 * @owed_ns:	of that what they did, as far as it has not been given back
 * @held:	tenants that wait for a period to come, it and those below
 * @seen_ns:	while there are some: till then they are in its figures
 * @counted_ns, @throttled_ns: periods that began before are in nr_periods, in nr_throttled
 */
struct sched_cap {
	uint64_t max_ns, period_ns;
	uint64_t start_ns;
	uint64_t spent_ns, owed_ns;
	uint64_t seen_ns;
	uint64_t counted_ns, throttled_ns;
	uint32_t held;
};

/**
 * struct sched_lifts - by how much an account's start tag is larger on single devices
 * @by:		on each of the first @nr of them; valid if @of is that of struct sched_levels
 */
struct sched_lifts {
	uint32_t of, nr;
	uint64_t by[];
};

/**
 * struct sched_account - what one of those has had that take turns with one another
 * @vtime:	start tag of its next task, where it has not been lifted
 * @lifts:	where it has; NULL: nowhere so far
 */
struct sched_account {
	uint64_t vtime;
	struct sched_lifts *lifts;
};

/**
 * struct sched_level - where turns have come to on one device: see level.c
 * @at:		the largest start tag of a task picked for it
 * @held:	the same, but not beyond where those were that had tasks for it then, and had them wait
 * @until:	so long it is in use, or while tasks run there, @busy of them; 0: it never was
 * @only:	the one account that all of these are of, if that is known; compared, not looked at
 * @found:	of programs the one that was behind those that a search asks, and was found for it last
 */
struct sched_level {
	uint64_t at, held, until;
	uint32_t busy;
	const struct sched_account *only;
	struct sched_program *found;
};

/**
 * struct sched_levels - of those that take turns: all tenants, or one's programs
 * @of:		of the first @nr devices
 * @vtime:	where all began anew
 * @vtime_max:	the largest of one of them after its tasks
 * @waited:	the least start tag of those that could have had what a pick gave another one
 * @lifts:	some of them was lifted on some device
 * @lifts_of:	changes when what they were lifted by is void
 */
struct sched_levels {
	struct sched_level *of;
	uint64_t vtime, vtime_max;
	uint64_t waited;
	uint32_t nr;
	uint32_t lifts_of;
	bool lifts;
};

/**
 * struct sched_terms - on which one of them may have a task of its go to a device
 * @credit:	by so much it may be behind the level, in its virtual time
 * @head:	... and by this, as its priority goes: the level is that much lower for it
 * @waited:	others may have been before it on @held alone
 */
struct sched_terms {
	uint64_t credit, head;
	bool waited;
};

/* Priorities, of which each has a head start on the next one. */
#define SCHED_STEPS	40

/**
 * struct sched_program - a context of a tenant: it has tasks here, or had
 * @flow_next:	of its tenant's, in no order; @flow_at: what points to it there
 * @context:	task_context()
 * @account:	its start tag among its tenant's programs, ns of device time
 * @later:	while a pick looks for who is first: its turn where it would go
 * @later_next:	another one that was put off so, before it
 * @waited:	since it came it had a task wait that an idle device could have run
 * @picked_ns:	when a task of it was picked last
 * @took_ns:	what its tasks have taken lately: see struct sched_flow
 * @active:	its place among its tenant's programs that have a task queued; else ~0
 * @by_due:	among which of them: see program.c
 * @patient:	its place among those that go by turns, by @until: when its first task should have
 *		begun, or earlier
 * @step:	its first task's priority, then
 * @gone:	goes with its last task
 * @tasks:	heap: earliest due, then oldest, first
 */
struct sched_program {
	struct sched_program *hash_next;
	struct sched_program *flow_next, **flow_at;
	struct sched_flow *flow;
	struct sched_account account;
	uint64_t picked_ns;
	uint64_t took_ns;
	uint64_t context;
	uint32_t active;
	uint32_t running;
	uint32_t used, size;
	uint64_t until;
	uint32_t patient;
	bool gone, by_due, waited;
	uint8_t step;
	struct graph_node **tasks;
	uint64_t later;
	struct sched_program *later_next;
};

struct program_heap {
	struct sched_program **v;
	uint32_t nr;
	bool patience;
};

/**
 * struct sched_flow - a tenant
 * @account:	its start tag among tenants, in virtual time
 * @scale:	virtual time of one ns, in 2^-SCALE_BITS; valid if @scaled is the tree's
 *		version
 * @took_ns:	the longest that a task of it had a lane for, halved with each that had it for less
 * @charged:	what those of its tasks that run were charged, in virtual time
 * @first:	the task whose turn it is, while it is in the scheduler's heap
 * @used:	its tasks that are queued
 * @turns, @dues: its programs that have some; @nr_programs: of both
 * @patience:	those of @turns by when they would have waited long enough
 * @waiting:	those of @turns by priority; @steps: bit for each that has some
 * @all_programs: all that there are; @last_program: the one that was looked up last
 * @levels:	where their turns have come to, by devices once two had tasks at a time; until then
 *		@program_turn is how far; @program_step: by whose priority
 * @asked:	which one of @turns is asked next, of those behind as many as a pick asks
 * @active:	its place in the scheduler's heap; ~0 while it has no task queued
 * @counted:	its weight, while its parent counts it among those that are busy; else 0
 * @child_weights, @busy_children: those below that are busy
 * @children:	those below that there are
 * @capped:	it or one above has a maximum
 * @away_until:	if not 0: until then programs other than context @away's go first, with what
 *		would be before a task that came now, of these two; @away_fresh: or begins
 * @blocked:	its maximum is used up; in the list of those, until then
 * @later:	while a pick looks for who is first: its start tag where it would go
 * @waited:	since it came it had a task wait that an idle device could have run
 * @came:	in the scheduler's list of those that had a task queued since a pick found nothing
 * @waits:	a pick found nothing for a task of its own; @held: until a period to come
 * @waiters:	1 for that, and those directly below that have some
 * @waited_to:	while there are: till then it is in @stat
 * @listed:	in the list of those that may have something there
 */
struct sched_flow {
	const struct graph_node *first;
	uint64_t tenant;
	struct sched_account account;
	uint64_t scale;
	uint64_t scaled;
	uint32_t used;
	uint32_t active;
	uint32_t running;
	bool capped : 1, blocked : 1, came : 1, waits : 1, held : 1, listed : 1;
	uint16_t passed;	/* tasks in a row that went before its first one, see follow.c */
	/* a cache line so far */
	uint64_t device_ns;
	uint64_t took_ns;
	uint64_t charged;
	struct program_heap turns, dues, patience;
	uint32_t nr_programs, programs_size;
	struct sched_flow *hash_next;
	uint64_t program_turn;
	uint32_t program_step, asked;
	struct sched_levels levels;
	uint64_t steps;
	uint32_t waiting[SCHED_STEPS];
	struct sched_program *all_programs, *last_program;
	uint32_t busy_children;
	uint32_t counted;
	struct sched_flow *parent;
	uint32_t weight;
	uint32_t told;		/* round in which the weight was told */
	uint32_t children;
	struct graph_node **begun;	/* of its tasks that are queued again, @started of them */
	uint32_t started, begun_size;
	int32_t away_priority;
	uint64_t away;
	bool away_fresh;
	uint64_t away_until, away_deadline;
	uint64_t child_weights;
	struct sched_cap *cap;
	struct sched_flow *blocked_next;
	uint64_t blocked_until;
	uint64_t later;
	bool waited;
	uint32_t waiters;
	uint64_t waited_to;
	struct sched_flow *came_next, *stat_next;
	struct sched_stat stat;
} __attribute__((aligned(64)));

#define SCALE_BITS	24

/* Tasks that became ready last, where memory is short: see follow.c. */
#define LATELY		8u

/**
 * struct sched_lane - what a device does beside others
 * @until:	when it will be free, as predicted; 0: it is
 * @flow, @context: whose tasks it has, if it is busy
 * @tasks:	that it has: one runs, the others are booked behind it
 * @unsure:	of them, whose run time was not known
 * @booked_ns:	of them, by sched_book(): how long they take, as predicted
 */
struct sched_lane {
	uint64_t until;
	struct sched_flow *flow;
	uint64_t context;
	uint32_t tasks;
	uint32_t unsure;
	uint64_t booked_ns;
};

/**
 * struct sched_device - a device
 * @ahead:	tasks that a lane takes behind the one that runs
 * @room:	while a pick looks for such places: it has one for the task at hand
 * @parts:	of its capacity, in 1024ths, that all of its tasks take while they run
 * @full_until:	when its whole capacity would have been enough for them, as predicted
 * @full_ns:	of it, that those take which have not ended
 * @given_ns:	device time given out so far
 * @switched_ns: when a task was last picked that it had to be configured for
 */
struct sched_device {
	uint32_t lanes;
	uint32_t busy;
	uint32_t lanes_size;
	uint32_t ahead;
	bool room;
	uint32_t parts;
	struct sched_lane *lane;
	uint64_t full_until;
	uint64_t switched_ns;
	/* seldom needed */
	uint64_t full_ns;
	uint64_t given_ns;
};

/**
 * struct model_record - one size class of a kernel on a device
 * @id:		model_id(); 0: free
 * @ns:		moving average of run times
 * @all_ns:	moving average over some more of them, outliers too
 * @limit_ns:	longer is an outlier
 * @work:	mean
 * @deviation:	mean, absolute, ns
 * @outliers:	since the last study
 * @pass:	runs until the next study
 * @day:	of the latest run that is on disk, days since 1970; 0: it was since then
 */
struct model_record {
	uint64_t id;
	uint64_t ns;
	uint64_t all_ns;
	uint64_t limit_ns;
	uint32_t runs;
	uint32_t outliers;
	double work;
	double deviation;
	uint32_t day;
	uint32_t pass;
};

_Static_assert(sizeof(struct model_record) == 64, "a cache line");

/**
 * struct model_series - the sizes of one kernel on one device
 * @id:		model_id() without a class
 * @classes:	bit for each with SCHED_MIN_RUNS
 */
struct model_series {
	uint64_t id;
	uint64_t classes;
};

#define MODEL_LASTS	4

/* Of tenants, by whose keys kernels of their programs are known: so few have others'. */
#define MODEL_GROUPS	32u

/* In the id of a record that devices which are alike share; its device is the first of them. */
#define MODEL_SHARED	(1ull << 63)

struct sched_model {
	struct model_record *records;
	struct {
		uint64_t id;
		struct model_record *record;	/* one of them */
	} last[MODEL_LASTS];			/* looked up, by device */
	uint32_t mask, used;
	/* Of those used, of kernels of programs: by group, and those beyond a group's part. */
	uint32_t own[MODEL_GROUPS], own_more;
	struct model_series *series;
	uint32_t series_mask, nr_series;
	uint64_t outliers;
	bool news;			/* since it was last saved */
	uint64_t alike[SCHED_MAX_DEVICES];	/* as it was told; 0: like no other */
	uint16_t shares[SCHED_MAX_DEVICES];	/* the first one like it, and 1; 0: there is no other */
};

struct sched_policy;

/* Devices that have become idle which are remembered. */
#define SCHED_FREED	256u

/* By so much a device is slower that is not left idle for those that wait for a quicker one. */
#define SCHED_SLOWER	2

/**
 * struct sched_only - when tasks are looked for that no busy device can run
 * @queued, @again_ns:	after a search in vain: not before there are so many tasks, or that time
 * @times:		such searches on end
 */
struct sched_only {
	uint32_t queued, times;
	uint64_t again_ns;
};

struct sched {
	const struct sched_policy *policy;
	void *policy_state;
	struct sched_ops ops;
	void *arg;
	struct sched_device *devices;
	uint32_t nr_devices;	/* highest index + 1 */
	uint32_t idle_lanes;
	bool ahead;		/* some device's lanes take tasks ahead */
	bool booking;		/* this pick looks for such places */
	bool asking;		/* nothing is placed by what is chosen now */
	uint32_t queued, running;
	struct sched_levels levels;	/* where tenants' turns have come to */
	uint32_t round;		/* see sched_round() */
	uint64_t now_ns;	/* the latest time that was told */
	uint64_t tree_version;	/* changes with the parts of device time; from 1 on */
	bool capped;		/* some tenant has a maximum */
	const struct graph_node *chosen; /* whose place the policy wants to be told of */
	const struct graph_node *told;	/* see policy_told() */
	bool told_speed;
	/* So many times a device had an idle lane again, lately the last of these. */
	uint64_t frees;
	uint16_t freed[SCHED_FREED];
	struct sched_flow *blocked;
	uint64_t wake_ns;	/* the first of these may go on; UINT64_MAX: there is none */
	uint64_t looked_ns;	/* when that was looked for */
	bool given_back;	/* since then: time that was charged */
	struct sched_flow **active;
	uint32_t nr_active, active_size;
	uint32_t asked;		/* as in struct sched_flow, of those active */
	struct sched_flow **buckets;
	uint32_t nr_flows, flow_limit, bucket_mask;
	struct sched_flow *last_flow;
	struct sched_program **programs;
	uint32_t nr_programs, programs_mask;
	/* What sched_charge() was told of one that has no maximum, not charged yet. */
	struct sched_flow *owing;
	uint64_t owing_ns;
	/* The last pick found nothing, and nothing changed since. */
	bool stuck;
	uint64_t stuck_ns;
	struct sched_only only;
	uint32_t next_device;	/* round robin's */
	struct graph_node *lately[LATELY];
	uint8_t lately_at;	/* the next place there */
	bool follows;		/* some of them may not be NULL */
	uint32_t outlooks;	/* that were made, and plans: outlook_number() */
	uint64_t plans;		/* that were followed */
	bool thinking;		/* a pick found nothing, for a plan is being made: see plan.h */
	uint32_t near;		/* see sched_near() */
	struct sched_model model;
	/* See waits.c; @nr_stats of them. */
	struct sched_flow *came;
	struct sched_flow *stats, **stats_end;
	uint32_t nr_stats;
	bool keeps_stats;
};

/* Tasks that should run equally long on a device: sched_kernel_key() and size class. */
static inline uint64_t model_kind(uint64_t kernel, uint64_t work)
{
	return kernel << 18 | (work ? 63 - __builtin_clzll(work) : 0);
}

/* Of @device, which is below SCHED_MAX_DEVICES. */
static inline uint64_t model_id(uint64_t kind, uint32_t device)
{
	return kind | device << 8;
}

static inline uint64_t task_kind(struct graph_node *n)
{
	if (!n->sched.kind)
		n->sched.kind = model_kind(sched_kernel_key(n), sched_work(n));
	return n->sched.kind;
}

/* Two links may have a context of the same number. */
static inline uint64_t context_at(uint32_t place, uint32_t context)
{
	return (uint64_t)place << 32 | context;
}

static inline uint64_t task_context(const struct graph_node *n)
{
	return context_at(n->sched.place, n->d.context);
}

/* Steps of waiting that a priority costs. */
static inline uint64_t priority_step(int priority)
{
	return priority < -20 ? 0 : priority > 19 ? SCHED_STEPS - 1 : (uint64_t)(priority + 20);
}

/* What a task's turn goes by that came, or was first, at @now_ns. */
static inline uint64_t sched_due(int priority, uint64_t deadline_ns, uint64_t now_ns)
{
	/* Those that are pushed together keep their order: about a millisecond is nothing. */
	uint64_t at = (now_ns & ~0xfffffull) + SCHED_PATIENCE_NS;

	if (deadline_ns && deadline_ns < at)
		at = deadline_ns;
	return at + priority_step(priority) * SCHED_AGE_NS;
}

static inline bool task_before(const struct graph_node *a, const struct graph_node *b)
{
	if (a->sched.due != b->sched.due)
		return a->sched.due < b->sched.due;
	return a->seq < b->seq;
}

/* program.c */
int programs_init(struct sched *s);
/* All of @f's, which has no tasks any more. */
void programs_fini(struct sched *s, struct sched_flow *f);
/* Made if need be; NULL: no memory */
struct sched_program *program_get(struct sched *s, struct sched_flow *f, uint64_t context);
void programs_context_gone(struct sched *s, uint64_t context);
/* It has one task less; it may be gone after this. */
void program_left(struct sched *s, struct sched_program *p);
/* Before a task of @p is put: */
bool program_room(struct sched_flow *f, struct sched_program *p);
/* ... if it is a new one, @n: who had none begins where the others are. */
void program_comes(struct sched *s, struct sched_flow *f, struct sched_program *p,
		   const struct graph_node *n);
void program_put(struct sched_flow *f, struct graph_node *n);
void program_take(struct sched_flow *f, struct graph_node *n);
/*
 * It is next by turns, and could begin on @device: it does, or lets one go that finds its data.
 * Before it is taken; if @f has levels.
 */
void program_in_turn(struct sched *s, struct sched_flow *f, struct graph_node *n, uint32_t device);
/* @n was picked, and takes @ns. */
void program_picked(struct sched *s, struct sched_flow *f, struct graph_node *n, uint64_t ns,
		    uint64_t now_ns);
/* It has run for so much longer than it was charged; or less. */
void program_charge(struct sched_flow *f, struct sched_program *p, uint64_t ns);
/* One after the other, those that have tasks. */
struct sched_program *program_at(const struct sched_flow *f, uint32_t i);
/* Whose first task is next; @f has some. */
struct sched_program *program_next(struct sched_flow *f);
/* Not @p's, which has some, until a task of it is put, or this is undone. */
void program_hide(struct sched_flow *f, struct sched_program *p);
void program_show(struct sched_flow *f, struct sched_program *p);
/* Whether it is among those that go by turns. */
bool program_waits(const struct sched_program *p);
/* Of one of these. */
uint64_t program_turn(const struct sched_program *p);
/*
 * Whether the first task of @p, which is next by its turn, would be lifted on @device to where it
 * may be another one's turn, of those that are still to be asked, or that one's which would have
 * its own at @first.  Then @p->later is set.  If @f has levels.
 */
bool program_is_later(struct sched *s, struct sched_flow *f, struct sched_program *p,
		      uint32_t device, uint64_t first);
/* Its turn for its first task on @device, as it would be lifted. */
uint64_t program_turn_at(struct sched *s, struct sched_flow *f, const struct sched_program *p,
			 uint32_t device);

/* sched.c: the tenant, made if need be; NULL: no memory */
struct sched_flow *flow_get(struct sched *s, uint64_t tenant);
/* What an unknown run time is charged as until it is known. */
#define SCHED_GUESS_NS	1000
/* sched.c: whether that is where the policy would have it, if it could choose now, or had to. */
bool sched_would_have(struct sched *s, struct graph_node *n, uint32_t device, uint64_t now_ns);
/* sched.c: maxima have changed. */
void sched_wake_all(struct sched *s);

/*
 * follow.c: @node was queued; goes.  Then which task of @f goes to @device, where its @first
 * would go.
 */
void follow_queued(struct sched *s, struct graph_node *node);
void follow_gone(struct sched *s, const struct graph_node *node);
struct graph_node *follow(struct sched *s, struct sched_flow *f, struct graph_node *first,
			  uint32_t device, uint64_t now_ns);

/* only.c: taken, its device set; or NULL */
struct graph_node *only_pick(struct sched *s, uint64_t now_ns);

/*
 * level.c.  Who is behind what a device has come to by more than this, and what its task takes,
 * has not waited for it.
 */
#define SCHED_CREDIT_NS	250000000ull
/* Who comes does not begin by what a device had come to that nobody has used for so long. */
#define SCHED_RECENT_NS	1000000000ull
/*
 * The credit of who has a task that @known_ns is what was learnt of: as far as its own have taken so
 * much lately, or what fails at once would have that of a time that it never takes.
 */
static inline uint64_t sched_credit_ns(uint64_t known_ns, uint64_t took_ns)
{
	return SCHED_CREDIT_NS + (known_ns < took_ns ? known_ns : took_ns);
}

/* For all devices that there are; false: no memory. */
bool level_room(const struct sched *s, struct sched_levels *l);
void level_free(struct sched_levels *l);
/* Of the devices in use the lowest, not above @least. */
uint64_t level_lowest(const struct sched *s, const struct sched_levels *l, uint64_t least);
/* @a's start tag on @device, as it would be lifted. */
uint64_t level_lifted(const struct sched *s, const struct sched_levels *l,
		      const struct sched_account *a, uint32_t device,
		      const struct sched_terms *terms);
/* A task of @a goes to @device where level_is_at() is false.  @ahead: as below */
void level_lift(const struct sched *s, struct sched_levels *l, struct sched_account *a,
		uint32_t device, const struct sched_terms *terms, uint64_t ahead);
/* Turns have come to @at there, or are further. */
void level_reach(const struct sched *s, struct sched_levels *l, uint32_t device, uint64_t at);
/* @a is further as a whole, and so by less on single devices. */
void level_moved(const struct sched_levels *l, struct sched_account *a, uint64_t by);
/* Nobody has anything here, so no device has a level. */
void level_anew(struct sched_levels *l);

/* By how much its start tag is larger there. */
static inline uint64_t lifted_by(const struct sched_levels *l, const struct sched_account *a,
				 uint32_t device)
{
	if (__builtin_expect(!l->lifts, 1) || !a->lifts || device >= a->lifts->nr ||
	    a->lifts->of != l->lifts_of)
		return 0;
	return a->lifts->by[device];
}

/* As it is now. */
static inline uint64_t level_own(const struct sched_levels *l, const struct sched_account *a,
				 uint32_t device)
{
	return a->vtime + lifted_by(l, a, device);
}

/*
 * A task of @a goes to @device, one of @l->of, and is not behind: turns have come to its tag, which
 * is @ahead for its priority.
 */
static inline bool level_is_at(const struct sched *s, struct sched_levels *l,
			       const struct sched_account *a, uint32_t device, uint64_t ahead)
{
	struct sched_level *d = &l->of[device];
	uint64_t at = level_own(l, a, device) + ahead;

	if (__builtin_expect(at < d->at || at > l->waited, 0))
		return false;
	d->at = at;
	d->held = at;
	d->until = s->now_ns + SCHED_RECENT_NS;
	return true;
}

/* A task is on the device; is there no more. */
static inline void level_begins(struct sched_level *d, const struct sched_account *a)
{
	if (!d->busy++)
		d->only = a;
	else if (d->only != a)
		d->only = NULL;
}

static inline void level_ends(struct sched_level *d)
{
	d->busy--;
}

/* @n of @f, which was picked, is on its device no more. */
static inline void program_left_device(struct sched_flow *f, const struct graph_node *n)
{
	if (__builtin_expect(n->device < f->levels.nr, 0))
		level_ends(&f->levels.of[n->device]);
}

/* @p has used what it was charged, or has a task less: where nobody is left, all begin anew. */
static inline void program_settled(struct sched_flow *f, const struct sched_program *p)
{
	struct sched_levels *l = &f->levels;

	if (l->vtime_max < p->account.vtime)
		l->vtime_max = p->account.vtime;
	if (f->used || f->running)
		return;
	l->vtime = l->vtime_max;
	if (__builtin_expect(l->lifts, 0))
		level_anew(l);
}

/* @p is the next one of @f: whether by its turn, and not by when it is due. */
static inline bool program_by_turn(const struct sched_flow *f, const struct sched_program *p)
{
	/* Who goes because it has waited long enough may be far behind its turn. */
	return !p->by_due && (!f->dues.nr || f->turns.v[0] == p);
}

/*
 * Virtual times that have come to this begin anew; and no task alone takes them there, nor do all
 * of a tenant that run by what they were charged.
 */
#define SCHED_FAR	(1ull << 62)
#define SCHED_MOST	(SCHED_FAR >> 6)
#define SCHED_MOST_CHARGED (SCHED_FAR >> 2)

/* share.c */
int share_set(struct sched *s, struct sched_flow *f, const struct sched_tenant *t);
void share_rescale(struct sched *s, struct sched_flow *f);
/* @f has its first task; has lost its last one. */
void share_count(struct sched *s, struct sched_flow *f);
void share_uncount(struct sched *s, struct sched_flow *f);
/* Time was spent; time that was charged was not.  @ran_ns: it was for what has run until now. */
void cap_charge(struct sched *s, struct sched_flow *f, uint64_t add, uint64_t take,
		uint64_t ran_ns);
/*
 * Before what @n was charged at its pick, or since, is replaced by @run_ns: what it had too much of
 * periods that are over stays spent.
 */
void cap_keep(struct sched *s, const struct graph_node *n, uint64_t run_ns);
/* When @f may start a task again; 0, or not later than now: now. */
uint64_t cap_until(struct sched *s, struct sched_flow *f);
/* @f waits for that; does no more, if it did. */
void cap_hold(struct sched *s, struct sched_flow *f);
void cap_let_go(struct sched *s, struct sched_flow *f);
/* Brings what is known of @f's own maximum to now. */
void cap_look(struct sched *s, struct sched_flow *f);

/* waits.c */
/* Something has come to @f's figures. */
void stat_list(struct sched *s, struct sched_flow *f);
/* Of @f and those directly below one more waits, or one less. */
void waits_up(struct sched *s, struct sched_flow *f);
void waits_down(struct sched *s, struct sched_flow *f);
/* A pick found nothing: those that came since the last such one wait. */
void waits_begin(struct sched *s);
/* Of those that came, who has no task any more may be forgotten. */
void waits_forget(struct sched *s);
void waits_end(struct sched *s, struct sched_flow *f);

/* @f has a task queued. */
static inline void waits_comes(struct sched *s, struct sched_flow *f)
{
	if (f->came || f->waits || !s->keeps_stats)
		return;
	f->came = true;
	f->came_next = s->came;
	s->came = f;
}

/* @f has one less. */
static inline void waits_goes(struct sched *s, struct sched_flow *f)
{
	if (__builtin_expect(f->waits && !f->used, 0))
		waits_end(s, f);
}

static inline void told_time(struct sched *s, uint64_t now_ns)
{
	if (s->now_ns < now_ns)
		s->now_ns = now_ns;
}

/* Device time in virtual time; a weight of 256 makes them equal. */
static inline uint64_t virtual_ns(struct sched *s, struct sched_flow *f, uint64_t ns)
{
	unsigned __int128 v;

	if (__builtin_expect(f->scaled != s->tree_version, 0))
		share_rescale(s, f);
	v = (unsigned __int128)ns * f->scale >> SCALE_BITS;
	/* The scale is 2^44 at most, so that takes a minute of them. */
	return __builtin_expect(ns >> 36 != 0, 0) && v > SCHED_MOST ? SCHED_MOST : (uint64_t)v;
}

/* outlook.c: unlike all others that tasks may have (sched_task.outlook) */
uint32_t outlook_number(struct sched *s);

#define MODEL_CLASSES	63

/* model.c: as sched_predict_ns() and sched_observe() */
uint64_t model_predict_ns(struct sched_model *m, uint64_t id);
void model_observe(struct sched_model *m, uint64_t id, const struct graph_node *node, uint64_t ns);
/* The curve through the sizes that are known, without regard to @id's own class. */
struct regress_fit model_fit(const struct sched_model *m, uint64_t id);
/* By that curve; 0: there is none. */
uint64_t model_forecast_ns(const struct sched_model *m, uint64_t id, uint64_t work,
			   uint32_t *confidence);
void model_free(struct sched_model *m);

static inline bool has_idle_lane(const struct sched_device *d)
{
	return d->busy < d->lanes;
}

/* It changes where a device comes or is lost. */
static inline uint32_t all_lanes(const struct sched *s)
{
	uint32_t lanes = 0;

	for (uint32_t i = 0; i < s->nr_devices; i++)
		lanes += s->devices[i].lanes;
	return lanes;
}

/* It was given to a device, or booked. */
static inline bool is_placed(const struct graph_node *n)
{
	return n->sched.flow && n->sched.index == ~0u;
}

/* When a kernel that it is given now can begin to run there, if its data is there. */
static inline uint64_t capacity_at(const struct sched_device *d, uint64_t now_ns)
{
	return d->parts >= SCHED_WHOLE && d->full_until > now_ns ? d->full_until : now_ns;
}

/* The same, but one whose kernels are overdue will hardly be free this very instant. */
static inline uint64_t capacity_likely(const struct sched_device *d, uint64_t now_ns)
{
	bool overdue = d->parts >= SCHED_WHOLE && d->full_until < now_ns;

	return overdue ? now_ns + (now_ns - d->full_until) : capacity_at(d, now_ns);
}

/* Kernels like those that it has which run there side by side as if each were alone. */
static inline double device_rate(const struct sched_device *d)
{
	double whole = d->parts ? (double)SCHED_WHOLE * d->busy / d->parts : d->lanes;

	return whole < d->lanes ? whole : d->lanes;
}

/* For how much longer it has something to do, as predicted. */
static inline uint64_t busy_for_ns(const struct sched_device *d, uint64_t now_ns)
{
	uint64_t until = now_ns;

	for (uint32_t i = 0; i < d->lanes_size; i++)
		if (d->lane[i].until > until)
			until = d->lane[i].until;
	return until - now_ns;
}

/* Whether it can be given a task now. */
static inline bool device_idle(const struct sched_device *d)
{
	return has_idle_lane(d) || d->room;
}

/* What it takes to make @device ready for the task. */
static inline uint64_t switch_ns(struct sched *s, const struct graph_node *n, uint32_t device)
{
	return s->ops.switch_ns ? s->ops.switch_ns(s->arg, n, device) : 0;
}

/*
 * Until when @device stays as it is, if a switch takes @switch_ns: while it has
 * something to do, for as long as the latest one took.  So tasks of two kinds in turn go
 * by groups, as far as a pick looks ahead.  0: it may be switched now.
 */
static inline uint64_t stays_until(const struct sched_device *d, uint64_t switch_ns,
				   uint64_t now_ns)
{
	uint64_t until = d->switched_ns + 2 * switch_ns;

	return switch_ns && d->busy && until > now_ns ? until : 0;
}

/* No more than that on any device. */
static inline uint64_t hand_over_most_ns(const struct sched *s)
{
	return s->ops.hand_over_ns ? SCHED_HAND_OVER_MOST_NS : 0;
}

/* What it takes until a task of @run_ns given to the idle device @i can begin there. */
static inline uint64_t hand_over_ns(const struct sched *s, uint32_t i, uint64_t run_ns)
{
	uint64_t ns;

	if (s->near == i || !s->ops.hand_over_ns)
		return 0;
	ns = s->ops.hand_over_ns(s->arg, i, run_ns);
	return ns < SCHED_HAND_OVER_MOST_NS ? ns : SCHED_HAND_OVER_MOST_NS;
}

static inline bool can_run(struct sched *s, const struct graph_node *n, uint32_t device)
{
	return s->devices[device].lanes &&
	       (!s->ops.can_run || s->ops.can_run(s->arg, n, device));
}

#endif /* ARAXD_SCHED_INTERNAL_H */
