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
 * Sets the validators.  These have no argument: what they need of @arg is to be
 * left in a variable here, which is theirs until the parse has ended.
 */
typedef void conf_checks(cfg_t *cfg, void *arg);

/*
 * *out is there for what was read, and is the caller's to conf_free(), also if this
 * fails with -EINVAL: it then holds what stood before the error.  It is NULL after
 * -E2BIG and -ENOMEM.  Any thread may call it: they wait for each other, so no
 * validator may parse in turn.
 */
int conf_parse(cfg_opt_t *opts, conf_checks *checks, void *arg, const char *name,
	       const char *text, size_t bytes, cfg_t **out, char *error, size_t len);
/* NULL is nothing.  cfg_free() would take the lexer from who parses meanwhile. */
void conf_free(cfg_t *cfg);

#endif /* LIBARAX_ADMIN_CONF_H */
