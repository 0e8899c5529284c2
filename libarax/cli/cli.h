/* SPDX-License-Identifier: MIT */
/* The `arax` command: a table of subcommands, each in a file of its own. */
#ifndef LIBARAX_CLI_H
#define LIBARAX_CLI_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include <arax/arax.h>

#define EXIT_OK		0
#define EXIT_FAILED	1
#define EXIT_USAGE	2

struct command {
	const char *name;
	const char *args;
	const char *summary;
	const char *help;	/* what --help adds, or NULL */
	/* argv[0] is the subcommand's name.  Returns the exit status. */
	int (*run)(const struct command *self, int argc, char **argv);
};

extern const struct command cmd_bench, cmd_devices, cmd_info, cmd_kernels, cmd_kill, cmd_models,
	cmd_ps, cmd_run, cmd_sim, cmd_tenant, cmd_trace;

/* main.c */

/*
 * Takes --json (unless @json is NULL), --help and --version from the front and the
 * middle of argv; other options are usage errors.  Returns -1 to go on, else the exit status.  Operands
 * are then argv[1] to argv[*argc - 1].
 */
int cli_options(const struct command *self, int *argc, char **argv, bool *json);
int cli_usage(const struct command *self, const char *format, ...)
	__attribute__((format(printf, 2, 3)));
/* Says what failed, with arax_error_text() if @text is NULL.  Returns EXIT_FAILED. */
int cli_fail(const char *text);
/* Runs NAME that lies beside this program, or is found in PATH. */
void cli_exec(const char *name, char **argv);

/* out.c */

enum column_kind {
	COLUMN_TEXT,
	COLUMN_NUMBER,
	COLUMN_BYTES,		/* of memory; null: no limit */
	COLUMN_COUNT,		/* null: no limit */
	COLUMN_NS,
	COLUMN_SHARE,		/* of an object's max_ns in each period_ns; null: no limit */
	COLUMN_STAT,		/* an object as cgroup's cpu.stat has it; null: not known */
	COLUMN_PRESSURE,	/* one as a line of its cpu.pressure */
	COLUMN_PERCENT,
};

struct column {
	const char *key;
	const char *title;
	enum column_kind kind;
};

/* A JSON integer; null for what doesn't fit, above all ARAX_LIMIT_MAX. */
json_t *out_u64(uint64_t n);
/* The same, but what doesn't fit as in a trace: a string, "0x...". */
json_t *out_id(uint64_t id);
/* At most @size bytes of @s, which need not end; wrong UTF-8 becomes '?'. */
json_t *out_string(const char *s, size_t size);
json_t *out_usage(const struct arax_usage *u);
/* As json_dumpf() to standard output, but what a terminal would obey is escaped. */
void out_json(const json_t *j, size_t flags);
/*
 * Prints and releases @rows, an array of objects: as it is, or as a table with a
 * line for each.  @columns ends with a NULL key; dots in a key lead into objects.
 * Returns the exit status.
 */
int out_rows(json_t *rows, const struct column *columns, bool json);
/* The same for one object, a line for each column. */
int out_object(json_t *object, const struct column *columns, bool json);

/* admin.c: calls for administrators */

struct admin;

/* Says why, and returns NULL, if that fails. */
struct admin *admin_open(void);
int admin_call(struct admin *a, unsigned int nr, void *arg);
void admin_close(struct admin *a);
/* Prints what failed with @err.  Returns EXIT_FAILED. */
int admin_fail(int err, const char *format, ...) __attribute__((format(printf, 2, 3)));

#endif /* LIBARAX_CLI_H */
