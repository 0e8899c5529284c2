// SPDX-License-Identifier: MIT
#include "daemon/complaints.h"

#include <pthread.h>
#include <time.h>

bool complaint_say(struct complaint *c, uint64_t now_ns, uint64_t *unsaid)
{
	if (now_ns < c->next_ns) {
		c->unsaid++;
		return false;
	}
	*unsaid = c->unsaid;
	c->unsaid = 0;
	c->next_ns = now_ns + COMPLAINTS_NS;
	return true;
}

bool complaints_say(struct complaints *c, uid_t uid, uint64_t now_ns, uint64_t *unsaid)
{
	return complaint_say(&c->of[uid % COMPLAINTS_PLACES], now_ns, unsaid);
}

bool complaints_say_now(struct complaints *c, uid_t uid, uint64_t *unsaid)
{
	static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
	struct timespec ts;
	bool say;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	pthread_mutex_lock(&lock);
	say = complaints_say(c, uid, (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec,
			     unsaid);
	pthread_mutex_unlock(&lock);
	return say;
}
