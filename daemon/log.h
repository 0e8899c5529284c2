/* SPDX-License-Identifier: MIT */
/*
 * log.h - one line per event: a fixed message and fields
 *
 *	log_warn("kernel library refused", log_str("file", path),
 *		 log_str("reason", "writable by its group"), log_oct("mode", mode));
 *
 * writes
 *
 *	<4>warning: kernel library refused file=/x/y.so reason="writable by ..." mode=0664
 *
 * with the <n> only when standard error is the journal.  On a terminal or in a
 * file a time stamp stands in its place.  Values are escaped (quotes,
 * backslashes, anything that is not printable ASCII), so that no client can
 * forge a line; messages and keys are the program's own constants.
 *
 * Thread-safe; a line is one write(2).  Lines over 2 KiB are cut and end in
 * "...".  errno is preserved.
 */
#ifndef ARAX_DAEMON_LOG_H
#define ARAX_DAEMON_LOG_H

#include <stddef.h>
#include <stdint.h>

/* As in syslog(3). */
enum log_level {
	LOG_LEVEL_ERR		= 3,
	LOG_LEVEL_WARNING	= 4,
	LOG_LEVEL_NOTICE	= 5,
	LOG_LEVEL_INFO		= 6,
	LOG_LEVEL_DEBUG		= 7,
};

enum log_format {
	LOG_FORMAT_AUTO,	/* journal if JOURNAL_STREAM says so, else time */
	LOG_FORMAT_JOURNAL,	/* <n> prefix */
	LOG_FORMAT_TIME,	/* UTC, microseconds */
	LOG_FORMAT_PLAIN,	/* no prefix */
};

enum log_type { LOG_END, LOG_STR, LOG_U64, LOG_I64, LOG_HEX, LOG_OCT, LOG_ERRNO };

struct log_field {
	const char *key;
	enum log_type type;
	union {
		const char *s;
		uint64_t u;
		int64_t i;
	};
};

#define log_str(k, v)	((struct log_field){ .key = (k), .type = LOG_STR, .s = (v) })
#define log_u64(k, v)	((struct log_field){ .key = (k), .type = LOG_U64, .u = (v) })
#define log_i64(k, v)	((struct log_field){ .key = (k), .type = LOG_I64, .i = (v) })
#define log_hex(k, v)	((struct log_field){ .key = (k), .type = LOG_HEX, .u = (v) })
#define log_oct(k, v)	((struct log_field){ .key = (k), .type = LOG_OCT, .u = (v) })
/* A positive or negative errno: error="No such file or directory". */
#define log_errno(v)	((struct log_field){ .key = "error", .type = LOG_ERRNO, .i = (v) })

#define log_at(level, msg, ...)							\
	do {									\
		if ((int)(level) <= log_max_level)				\
			log_write((level), (msg), (const struct log_field[]){	\
				__VA_ARGS__ __VA_OPT__(,) { .type = LOG_END } }); \
	} while (0)

#define log_err(msg, ...)	log_at(LOG_LEVEL_ERR, msg __VA_OPT__(,) __VA_ARGS__)
#define log_warn(msg, ...)	log_at(LOG_LEVEL_WARNING, msg __VA_OPT__(,) __VA_ARGS__)
#define log_notice(msg, ...)	log_at(LOG_LEVEL_NOTICE, msg __VA_OPT__(,) __VA_ARGS__)
#define log_info(msg, ...)	log_at(LOG_LEVEL_INFO, msg __VA_OPT__(,) __VA_ARGS__)
#define log_debug(msg, ...)	log_at(LOG_LEVEL_DEBUG, msg __VA_OPT__(,) __VA_ARGS__)

/* Lines above this level are dropped.  LOG_LEVEL_INFO until log_init(). */
extern int log_max_level;

/* Before other threads start.  @fd is not closed by the log. */
void log_init(int fd, enum log_level max, enum log_format format);
/* What a process that we start gives to its own log_init(); the format is never AUTO. */
int log_settings(enum log_level *max, enum log_format *format);

void log_write(enum log_level level, const char *msg, const struct log_field *fields);

/*
 * The line that log_write() would write, without prefix; cut to @len bytes with
 * its NUL.  Returns the bytes written, without the NUL.
 */
size_t log_format_line(char *buf, size_t len, enum log_level level, const char *msg,
		       const struct log_field *fields);

/* "err", "warning", ... to a level; -1 if it is none. */
int log_level_from_name(const char *name);

#endif /* ARAX_DAEMON_LOG_H */
