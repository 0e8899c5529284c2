/* SPDX-License-Identifier: MIT */
/*
 * conf.h - libconfuse for files of an administrator
 *
 * What libconfuse takes in silence is an error here: a NUL byte, an open section
 * at the end of the file, a file of megabytes.  Errors begin with "FILE:LINE: ".
 */
#ifndef LIBARAX_ADMIN_CONF_H
#define LIBARAX_ADMIN_CONF_H

#include <confuse.h>
#include <stddef.h>

#define CONF_MAX_BYTES	(1u << 20)	/* of a file */

/*
 * libconfuse takes the end of the file for the end of an open section, string
 * or comment.  So this option is appended to every text: if it does not arrive
 * at the top level, something was left open.
 */
#define CONF_SENTINEL "end_of_file_"

/* The last entries of the top level's options. */
#define CONF_END()	CFG_BOOL(CONF_SENTINEL, cfg_false, CFGF_NONE), CFG_END()

/*
 * Parses; @checks sets the validators.  *out is there for what was read, and is
 * the caller's to cfg_free(), also if this fails with -EINVAL: it then holds what
 * stood before the error.  It is NULL after -E2BIG and -ENOMEM.  One parse at a
 * time: libconfuse's lexer has global state.
 */
int conf_parse(cfg_opt_t *opts, void (*checks)(cfg_t *cfg), const char *name, const char *text,
	       size_t bytes, cfg_t **out, char *error, size_t len);

#endif /* LIBARAX_ADMIN_CONF_H */
