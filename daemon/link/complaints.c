// SPDX-License-Identifier: MIT
#include "daemon/link/complaints.h"

bool complaints_say(struct complaints *c, uid_t uid, uint64_t now_ns, uint64_t *unsaid)
{
	uint32_t at = uid % COMPLAINTS_PLACES;

	if (now_ns < c->of[at].next_ns) {
		c->of[at].unsaid++;
		return false;
	}
	*unsaid = c->of[at].unsaid;
	c->of[at].unsaid = 0;
	c->of[at].next_ns = now_ns + COMPLAINTS_NS;
	return true;
}
