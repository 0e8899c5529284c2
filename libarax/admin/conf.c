// SPDX-License-Identifier: MIT
#include "libarax/admin/conf.h"

#include <errno.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* libconfuse's lexer has global state, and its error callback no argument of ours. */
static pthread_mutex_t one_parse = PTHREAD_MUTEX_INITIALIZER;
static struct {
	const char *name;
	char *text;
	size_t len;
} sink;

/* Those that there are, for who meant one of them. */
static void list_keys(const cfg_t *cfg)
{
	const char *before = "; there are ";
	const cfg_opt_t *o;
	size_t used;

	for (o = cfg->opts; o && o->name; o++) {
		used = strlen(sink.text);
		if (!strcmp(o->name, CONF_SENTINEL))
			continue;
		snprintf(sink.text + used, sink.len - used, "%s%s", before, o->name);
		before = ", ";
	}
}

/* What libconfuse leaves to be guessed. */
static const char *remedy(const char *fmt)
{
	static const struct { const char *begins, *remedy; } all[] = {
		{ "invalid boolean", ": want true or false" },
		{ "invalid integer", ": want a whole number" },
		{ "missing title", ": want its name in front of the {, in quotes" },
		{ "found duplicate title", ": one section of a name is all there may be" },
	};

	for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++)
		if (!strncmp(fmt, all[i].begins, strlen(all[i].begins)))
			return all[i].remedy;
	return "";
}

/* The first error is the cause; what follows it is noise. */
static void on_error(cfg_t *cfg, const char *fmt, va_list ap)
{
	size_t used;

	if (!sink.len || sink.text[0])
		return;
	snprintf(sink.text, sink.len, "%s:%d: ", sink.name, cfg ? cfg->line : 0);
	used = strlen(sink.text);
	vsnprintf(sink.text + used, sink.len - used, fmt, ap);
	if (cfg && !strncmp(fmt, "no such option", 14))
		list_keys(cfg);
	used = strlen(sink.text);
	snprintf(sink.text + used, sink.len - used, "%s", remedy(fmt));
	for (char *p = sink.text; *p; p++)
		if ((unsigned char)*p < ' ' || (unsigned char)*p >= 0x7f)
			*p = '?';
}

/* Behind the end of what begins at @at and ends with @end; NULL: it does not. */
static char *skip_to(char *at, const char *end)
{
	at = strstr(at, end);
	return at ? at + strlen(end) : NULL;
}

static char *skip_string(char *at)
{
	const char quote = *at++;

	for (; *at && *at != quote; at++) {
		char *end = NULL;

		if (*at == '\\' && at[1])
			at++;
		else if (quote == '"' && !strncmp(at, "${", 2))
			end = skip_to(at, "}");
		if (end)
			at = end - 1;
	}
	return *at ? at + 1 : at;
}

/*
 * libconfuse counts lines of comments more than once, so that errors would name a
 * line further down.  Comments become blanks; the newlines in them stay.
 */
static void blank_comments(char *text)
{
	bool in_word = false;	/* "a//b" is one */
	char *at = text, *end;

	while (*at) {
		end = NULL;
		if (*at == '#' || (!in_word && !strncmp(at, "//", 2)))
			end = strchrnul(at, '\n');
		else if (!in_word && !strncmp(at, "/*", 2))
			end = skip_to(at + 2, "*/");
		if (end) {
			for (; at < end; at++)
				if (*at != '\n')
					*at = ' ';
			in_word = false;
			continue;
		}
		if (*at == '"' || *at == '\'')
			end = skip_string(at);
		else if (!in_word && !strncmp(at, "${", 2))
			end = skip_to(at, "}");
		in_word = !end && !strchr(" \t\r\n={}()+,", *at);
		at = end ? end : at + 1;
	}
}

static int parse_stream(cfg_t *cfg, FILE *f)
{
	int err = cfg_parse_fp(cfg, f) == CFG_SUCCESS ? 0 : -EINVAL;

	if (strstr(sink.text, CONF_SENTINEL) || (!err && !cfg_getbool(cfg, CONF_SENTINEL))) {
		snprintf(sink.text, sink.len,
			 "%s: ends inside a section, string or comment: '}', '\"' or '*/' is missing",
			 sink.name);
		err = -EINVAL;
	}
	if (err && !sink.text[0])
		snprintf(sink.text, sink.len, "%s: %s", sink.name, strerror(-err));
	return err;
}

static int parse_text(cfg_t *cfg, const char *text, size_t bytes)
{
	static const char sentinel[] = "\n" CONF_SENTINEL " = true\n";
	char *whole = malloc(bytes + sizeof(sentinel));
	FILE *f;
	int err;

	if (!whole)
		return -ENOMEM;
	memcpy(whole, text, bytes);
	whole[bytes] = '\0';
	blank_comments(whole);
	memcpy(whole + bytes, sentinel, sizeof(sentinel));
	f = fmemopen(whole, bytes + sizeof(sentinel) - 1, "r");
	err = f ? parse_stream(cfg, f) : -ENOMEM;
	if (f)
		fclose(f);
	free(whole);
	return err;
}

/* With one_parse held. */
static int parse(cfg_opt_t *opts, conf_checks *checks, void *arg, const char *text,
		 size_t bytes, cfg_t **out)
{
	int err;

	if (bytes > CONF_MAX_BYTES) {
		snprintf(sink.text, sink.len, "%s: longer than %u bytes", sink.name,
			 CONF_MAX_BYTES);
		return -E2BIG;
	}
	*out = cfg_init(opts, CFGF_NONE);
	if (!*out)
		return -ENOMEM;
	cfg_set_error_function(*out, on_error);
	checks(*out, arg);
	if (memchr(text, '\0', bytes)) {
		snprintf(sink.text, sink.len, "%s: has a NUL byte", sink.name);
		return -EINVAL;
	}
	err = parse_text(*out, text, bytes);
	if (err == -ENOMEM) {
		cfg_free(*out);
		*out = NULL;
	}
	return err;
}

int conf_parse(cfg_opt_t *opts, conf_checks *checks, void *arg, const char *name,
	       const char *text, size_t bytes, cfg_t **out, char *error, size_t len)
{
	char spare[256];
	int err;

	*out = NULL;
	pthread_mutex_lock(&one_parse);
	sink.name = name;
	sink.text = len ? error : spare;
	sink.len = len ? len : sizeof(spare);
	sink.text[0] = '\0';
	err = parse(opts, checks, arg, text, bytes, out);
	pthread_mutex_unlock(&one_parse);
	return err;
}

void conf_free(cfg_t *cfg)
{
	if (!cfg)
		return;
	pthread_mutex_lock(&one_parse);
	cfg_free(cfg);
	pthread_mutex_unlock(&one_parse);
}
