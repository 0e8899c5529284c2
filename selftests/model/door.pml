/* SPDX-License-Identifier: MIT */
/*
 * door.pml - a sleeping poller, its door, and those who bring it work
 *
 * daemon/dispatch/door.h, visit.c and the sleep of poller.c, step by step: LANES threads
 * that visit, one poster that can't (it rings, as poller_post() does), and the poller.
 * Checked in all interleavings: the poller's state has one owner at a time; everybody's work
 * is done; nobody waits for ever (an end state in which somebody still waits is an error).
 *
 * Memory is sequentially consistent here.  What makes it so in C are the full barriers named
 * in door.h.  -DWEAK_OPEN, -DWEAK_LEAVE and -DWEAK_POST show what happens where the look comes
 * before the store instead, -DNO_LOOK_OPEN, -DNO_LOOK_LEAVE and -DSTEAL what without a look or
 * a wake-up: selftests/model/run.sh wants spin to find an error in each.
 */
#define LANES	2
#define EACH	2	/* tasks of a lane */
#define POSTS	2

mtype = { SHUT, OPEN, TAKEN, AWAITED };

mtype door = SHUT;
byte work;		/* in the queue */
byte done;		/* taken out of it */
bool asleep;		/* struct poller's */
bool rung;		/* the eventfd */
byte inside;		/* who has the poller's state */
bool over;		/* poller_destroy() */

#define ALL	(LANES * EACH + POSTS)

inline turn()
{
	inside++;
	assert(inside == 1);
	d_step { done = done + work; work = 0; }
	inside--;
}

/* poller_bring() */
inline bring()
{
	work++;
	do
	:: work == 0 -> break
	:: else ->
		/* change(OPEN, TAKEN) */
		if
		:: atomic { door == OPEN -> door = TAKEN }
			turn();
#ifdef WEAK_LEAVE
			seen = work;
#endif
			if
			:: atomic { door == TAKEN -> door = OPEN }
			:: atomic { door == AWAITED -> door = SHUT }
			fi;
#ifdef NO_LOOK_LEAVE
			break
#endif
#ifdef WEAK_LEAVE
			if
			:: seen == 0 -> break
			:: else -> skip
			fi
#endif
		:: door != OPEN -> break
		fi
	od
}

active [LANES] proctype lane()
{
	byte i;
#ifdef WEAK_LEAVE
	byte seen;
#endif

	for (i : 1 .. EACH) {
		bring()
	}
}

/* poller_post(), by somebody who can't visit */
active proctype poster()
{
	byte i;
#ifdef WEAK_POST
	bool sleeps;
#endif

	for (i : 1 .. POSTS) {
#ifdef WEAK_POST
		sleeps = asleep;
		work++;
		if
		:: sleeps -> rung = true
		:: else -> skip
		fi
#else
		work++;
		if
		:: asleep -> rung = true
		:: else -> skip
		fi
#endif
	}
	/* poller_destroy() comes when all is done. */
	(done == ALL);
	over = true;
	rung = true
}

active proctype poller()
{
	byte seen;

	do
	:: over -> break
	:: else ->
		turn();
		asleep = true;
		if
		:: work != 0 || over -> skip
		:: else ->
#ifdef WEAK_OPEN
			seen = work;
			door = OPEN;
#else
			door = OPEN;
			seen = work;
#endif
#ifdef NO_LOOK_OPEN
			seen = 0;
#endif
			if
			:: seen != 0 -> skip
			:: else -> (rung)	/* ppoll(): it may end for other reasons, too */
			fi;
			/* door_shut() */
			do
			:: atomic { door == OPEN -> door = SHUT }
				break
			:: atomic { door == TAKEN -> door = AWAITED }
#ifdef STEAL
				break		/* without waiting for the visitor */
#else
				(door == SHUT);
				break
#endif
			od;
			rung = false
		fi;
		asleep = false
	od
}
