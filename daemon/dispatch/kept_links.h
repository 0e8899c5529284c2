/* SPDX-License-Identifier: MIT */
/*
 * kept_links.h - what copies take, across restarts
 *
 * A link is what tasks' copies taught of it, unless it was measured at this start and is quite
 * another one now: see link_agrees().
 */
#ifndef ARAXD_DISPATCH_KEPT_LINKS_H
#define ARAXD_DISPATCH_KEPT_LINKS_H

#include <stdbool.h>
#include <stddef.h>

struct link_model;
struct poller;
struct store_link;

/**
 * struct kept_links - of a poller's devices with memory of their own
 * @at:		as they are in the file, by where they lead to and from
 */
struct kept_links {
	struct poller *poller;
	struct link_model *at;
};

/* Links were measured, as far as they can be.  0, -ENOMEM. */
int kept_links_init(struct kept_links *k, struct poller *p);
void kept_links_free(struct kept_links *k);

/* What the file says of one.  Whether there is such a link. */
bool kept_links_import(struct kept_links *k, const struct store_link *l);
/* Whether they are others than those in the file.  @nr: how many there are. */
bool kept_links_have_news(const struct kept_links *k, size_t *nr);
/* At most @most of them, which are to be in the file now.  Returns how many. */
size_t kept_links_export(struct kept_links *k, struct store_link *l, size_t most);

#endif /* ARAXD_DISPATCH_KEPT_LINKS_H */
