/* SPDX-License-Identifier: MIT */
/*
 * xml.h - tag after tag through a text, for the few attributes that are wanted
 *
 * No tree, no text between tags, no entities: values are taken as they stand.
 */
#ifndef ARAX_DAEMON_BACKENDS_XRT_XML_H
#define ARAX_DAEMON_BACKENDS_XRT_XML_H

#include <stdbool.h>
#include <stddef.h>

/**
 * struct xml - a place in a text
 * @name, @name_len: of the present tag; an end tag's begins with '/'
 * @attributes, @attributes_len: what follows the name
 * @empty:	<tag/>
 */
struct xml {
	const char *at, *end;
	const char *name, *attributes;
	size_t name_len, attributes_len;
	bool empty;
};

void xml_open(struct xml *x, const char *text, size_t bytes);
/* The next tag; comments, declarations and instructions are passed over.  false: the end. */
bool xml_next(struct xml *x);
bool xml_is(const struct xml *x, const char *name);
/* -ENOENT: the tag has none such, -E2BIG: it is longer than @len - 1. */
int xml_attribute(const struct xml *x, const char *name, char *value, size_t len);

#endif /* ARAX_DAEMON_BACKENDS_XRT_XML_H */
