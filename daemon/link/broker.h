/* SPDX-License-Identifier: MIT */
/*
 * broker.h - the client calls over a Unix socket
 *
 * For machines where no module can be loaded.  The core is the module's own
 * (kmod/core); this is the world around it: sockets for open files, memfds for
 * pages, eventfds for wake-ups.
 *
 * THREADS
 *
 *   The service thread owns the connections: it accepts, runs calls, answers,
 *   and releases clients.  The poller's thread consumes the rings.  They
 *   exchange struct work (to the poller) and struct reply (to the service);
 *   neither waits for the other.  What came from a client, or is shared with one, is closed
 *   by threads of the closer: that may have no end.
 *
 * CONNECTIONS
 *
 *   A connection is one context.  It is bound to the process that opened it:
 *   each message must come from that process (SCM_CREDENTIALS), else EPERM.
 *   What breaks the framing ends the connection.
 */
#ifndef ARAXD_LINK_BROKER_H
#define ARAXD_LINK_BROKER_H

#include <stdbool.h>
#include <stdint.h>

#define BROKER_PATH_MOST	107u	/* bytes of its socket's path: an address has room for no more */

struct arax_limit;
struct broker;
struct config;
struct holdings;
struct link;
struct poller;

/**
 * struct broker_params - how to make one
 * @config:	limits, socket mode and number of clients
 * @path:	of the socket
 * @mode:	of the socket
 * @own_admin:	who has araxd's own uid administrates it, whatever else he may: it is his own.  Root
 *		does in any case, if it is that of this user namespace and has CAP_SYS_ADMIN
 * @holdings:	what clients have of the process' descriptors and mappings, with those of other
 *		links; it outlives the broker.  NULL: the broker's own
 * @arriving:	called before each new client; by the service thread.  May be NULL
 * @arg:	its argument
 */
struct broker_params {
	const struct config *config;
	const char *path;
	unsigned int mode;
	bool own_admin;
	struct holdings *holdings;
	void (*arriving)(void *arg);
	void *arg;
};

/*
 * Takes the socket.  -EADDRINUSE: another araxd serves it.  Errors are logged.
 */
int broker_create(const struct broker_params *params, struct broker **out);
struct link *broker_link(struct broker *b);
/* As ARAX_IOC_LIMIT_SET; any thread, once the poller is there. */
int broker_limit_set(struct broker *b, const struct arax_limit *a);
/* After the poller was started: serve. */
int broker_start(struct broker *b);
/* Take no new connections and calls; the socket's name goes. Any thread. */
void broker_refuse(struct broker *b);
/* Ends the service thread, which uses the poller. */
void broker_stop(struct broker *b);
/* After the poller has stopped and ended: clients lose their contexts. */
void broker_destroy(struct broker *b);

#endif /* ARAXD_LINK_BROKER_H */
