/* SPDX-License-Identifier: MIT */
/*
 * config.h - araxd.conf as a struct
 *
 * Every key is described in araxd.conf(5) and daemon/araxd.conf.sample.
 * Unknown keys and bad values are errors that name file and line.
 */
#ifndef ARAX_DAEMON_CONFIG_H
#define ARAX_DAEMON_CONFIG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "daemon/log.h"

enum config_link { CONFIG_LINK_AUTO, CONFIG_LINK_KERNEL, CONFIG_LINK_BROKER, CONFIG_LINK_BOTH };

struct config_list {
	size_t count;
	char **items;
};

/* A `backend "NAME" { }` or `filter "NAME" { }` section. */
struct config_plugin {
	char *name;
	char *file;			/* NULL: built in */
	char *devices;			/* filter: glob on device names */
	struct config_list options;	/* "key=value" */
};

struct config {
	struct {
		enum log_level level;
		enum log_format format;
	} log;
	struct {
		enum config_link kind;
		char *socket;		/* broker's path; "": the default */
		unsigned int socket_mode;
		unsigned int max_clients;
	} link;
	struct {
		unsigned int poll_us;	/* spin this long before sleeping */
		unsigned int inline_us;	/* predicted shorter: run by the poller */
	} loop;
	struct {
		char *policy;		/* a name of daemon/sched/policies.h; SIGHUP changes it */
		char *models;		/* file of learnt run times, "none"; NULL: the default */
	} sched;
	struct {
		bool enable;
		uint64_t memory;		/* of each device; 0: works in place */
		struct config_list groups;	/* CPU lists; none: by default rule */
	} cpu;
	struct {
		struct config_list path;	/* folders of kernel libraries */
	} kernels;
	struct {
		char *program;		/* NULL: beside araxd */
		uint64_t memory;	/* RLIMIT_DATA, 0: none */
		unsigned int timeout_ms;	/* of one launch, 0: none */
		unsigned int slice_ms;	/* after which one makes way for others; 0: never */
		char *cgroup;		/* folder for theirs, "none", or "auto" */
		unsigned int threads;	/* of one, and processes, where it has a cgroup */
		unsigned int idle_s;	/* an idle worker is ended after this */
		unsigned int max;	/* workers of one device; 0: by its lanes */
	} worker;
	struct {			/* per uid, where no cgroup sets any */
		uint64_t memory;	/* bytes; 0: an eighth of RAM */
		uint64_t tasks;
		uint64_t contexts;
		uint64_t handles;	/* of one context */
	} limits;
	struct {
		bool check_access;	/* report kernels that do not keep to the access they declare */
	} debug;
	bool shared;			/* no --user: programs of several users are served */
	bool kinds;			/* --kind has said which ones: others are left out */
	size_t nr_backends;
	struct config_plugin *backends;
	size_t nr_filters;
	struct config_plugin *filters;	/* first one outermost */
};

/* Fill with defaults.  -ENOMEM. */
int config_init(struct config *c);

/*
 * Parse over the defaults (c need not be initialised).  On -EINVAL (contents),
 * -EPERM (file is not the daemon's or writable by others), -E2BIG or an error
 * of open and read, `error` says what and where, and c needs no free.
 */
int config_load(struct config *c, const char *path, char *error, size_t len);

/* The same from memory; `name` stands for the file in messages. */
int config_parse(struct config *c, const char *name, const char *text, size_t bytes,
		 char *error, size_t len);

/*
 * Only devices of these kinds, "cpu,opencl": others are switched off, and a backend
 * of that name that is built in is used without a section of its own.  -EINVAL: an
 * unknown kind, -ENOMEM; @error says it.
 */
int config_kinds(struct config *c, const char *kinds, char *error, size_t len);

void config_free(struct config *c);

#endif /* ARAX_DAEMON_CONFIG_H */
