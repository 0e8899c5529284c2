/* SPDX-License-Identifier: MIT */
/* serve.h - what arax-device does with a call; see proto.h */
#ifndef ARAX_DAEMON_BACKENDS_APART_SERVE_H
#define ARAX_DAEMON_BACKENDS_APART_SERVE_H

#include "daemon/backends/apart/channel.h"

/* By the thread of that channel; the answer is in it then. */
void serve_call(struct slot *s);
/* A descriptor that came; it is the callee's. */
void serve_fd(uint64_t id, int fd);

#endif /* ARAX_DAEMON_BACKENDS_APART_SERVE_H */
