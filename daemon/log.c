// SPDX-License-Identifier: MIT
#include "daemon/log.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define LINE_MAX_BYTES 2048

int log_max_level = LOG_LEVEL_INFO;
static int log_fd = STDERR_FILENO;
static enum log_format log_format = LOG_FORMAT_PLAIN;

static const char *const level_names[] = {
	[LOG_LEVEL_ERR] = "err",
	[LOG_LEVEL_WARNING] = "warning",
	[LOG_LEVEL_NOTICE] = "notice",
	[LOG_LEVEL_INFO] = "info",
	[LOG_LEVEL_DEBUG] = "debug",
};

#define NR_LEVELS ((int)(sizeof(level_names) / sizeof(level_names[0])))

int log_level_from_name(const char *name)
{
	for (int i = LOG_LEVEL_ERR; i < NR_LEVELS; i++)
		if (!strcmp(name, level_names[i]))
			return i;
	return -1;
}

/* JOURNAL_STREAM=device:inode names the stream that goes to the journal. */
static bool is_journal(int fd)
{
	const char *stream = getenv("JOURNAL_STREAM");
	unsigned long long dev, ino;
	struct stat st;

	return stream && sscanf(stream, "%llu:%llu", &dev, &ino) == 2 &&
	       fstat(fd, &st) == 0 && st.st_dev == dev && st.st_ino == ino;
}

void log_init(int fd, enum log_level max, enum log_format format)
{
	log_fd = fd;
	log_max_level = (int)max;
	if (format == LOG_FORMAT_AUTO)
		format = is_journal(fd) ? LOG_FORMAT_JOURNAL : LOG_FORMAT_TIME;
	log_format = format;
}

int log_settings(enum log_level *max, enum log_format *format)
{
	*max = (enum log_level)log_max_level;
	*format = log_format;
	return log_fd;
}

/* A buffer that drops what doesn't fit and remembers that it did. */
struct line {
	char *buf;
	size_t len, used;
	bool cut;
};

static void put(struct line *l, char c)
{
	if (l->used + 1 < l->len)
		l->buf[l->used++] = c;
	else
		l->cut = true;
}

static void puts_raw(struct line *l, const char *s)
{
	while (*s)
		put(l, *s++);
}

static bool needs_quotes(const char *s)
{
	if (!*s)
		return true;
	for (; *s; s++)
		if (*s <= ' ' || *s >= 0x7f || *s == '"' || *s == '\\' || *s == '=')
			return true;
	return false;
}

static void put_value(struct line *l, const char *s)
{
	static const char hex[] = "0123456789abcdef";

	if (!s)
		s = "";
	if (!needs_quotes(s)) {
		puts_raw(l, s);
		return;
	}
	put(l, '"');
	for (; *s; s++) {
		unsigned char c = (unsigned char)*s;

		if (c == '"' || c == '\\') {
			put(l, '\\');
			put(l, (char)c);
		} else if (c < ' ' || c >= 0x7f) {
			puts_raw(l, "\\x");
			put(l, hex[c >> 4]);
			put(l, hex[c & 15]);
		} else {
			put(l, (char)c);
		}
	}
	put(l, '"');
}

static void put_field(struct line *l, const struct log_field *f)
{
	char tmp[128];

	put(l, ' ');
	puts_raw(l, f->key);
	put(l, '=');
	switch (f->type) {
	case LOG_U64:
		snprintf(tmp, sizeof(tmp), "%llu", (unsigned long long)f->u);
		break;
	case LOG_I64:
		snprintf(tmp, sizeof(tmp), "%lld", (long long)f->i);
		break;
	case LOG_HEX:
		snprintf(tmp, sizeof(tmp), "0x%llx", (unsigned long long)f->u);
		break;
	case LOG_OCT:
		snprintf(tmp, sizeof(tmp), "%#llo", (unsigned long long)f->u);
		break;
	case LOG_ERRNO: {
		char text[96];

		put_value(l, strerror_r((int)(f->i < 0 ? -f->i : f->i), text, sizeof(text)));
		return;
	}
	case LOG_STR:
	case LOG_END:
		put_value(l, f->s);
		return;
	}
	puts_raw(l, tmp);
}

size_t log_format_line(char *buf, size_t len, enum log_level level, const char *msg,
		       const struct log_field *fields)
{
	struct line l = { .buf = buf, .len = len };

	if (!len)
		return 0;
	puts_raw(&l, level_names[level]);
	puts_raw(&l, ": ");
	puts_raw(&l, msg);
	for (; fields && fields->type != LOG_END; fields++)
		put_field(&l, fields);
	if (l.cut && len > 4)
		memcpy(buf + len - 4, "...", 3);
	buf[l.used] = '\0';
	return l.used;
}

void log_write(enum log_level level, const char *msg, const struct log_field *fields)
{
	char buf[LINE_MAX_BYTES];
	int saved = errno;
	size_t n = 0;
	ssize_t done;

	if (log_format == LOG_FORMAT_JOURNAL) {
		n = (size_t)snprintf(buf, sizeof(buf), "<%d>", level);
	} else if (log_format == LOG_FORMAT_TIME) {
		struct timespec ts;
		struct tm tm;

		clock_gettime(CLOCK_REALTIME, &ts);
		gmtime_r(&ts.tv_sec, &tm);
		n = strftime(buf, sizeof(buf), "%Y-%m-%dT%H:%M:%S", &tm);
		n += (size_t)snprintf(buf + n, sizeof(buf) - n, ".%06ldZ ", ts.tv_nsec / 1000);
	}
	n += log_format_line(buf + n, sizeof(buf) - n - 1, level, msg, fields);
	buf[n++] = '\n';
	/* A log that can't be written has nowhere to complain. */
	do {
		done = write(log_fd, buf, n);
	} while (done < 0 && errno == EINTR);
	errno = saved;
}
