/* SPDX-License-Identifier: MIT */
/* The araxd that is measured. */
#ifndef BENCH_SERVER_H
#define BENCH_SERVER_H

#include <stdint.h>
#include <sys/types.h>

/**
 * struct server - an araxd
 * @link:	what ARAX_LINK is to be for its clients
 * @pid:	0: it is not ours (kernel link) and can't be found
 */
struct server {
	char link[160];
	pid_t pid;
	char dir[64];
};

/*
 * @link "broker": start a private one with the default configuration (and the
 * bench's kernels).  "kernel": start none, use the one that is attached.
 */
void server_start(struct server *s, const char *link);
/*
 * A private one that has the standard kernels too, and one device of one core on
 * each of the pinned CPUs: on both if @devices is 2, on the second one if it is 1.
 */
void server_start_devices(struct server *s, const char *link, int devices);
/* A private one with devices of this kind alone, and the Rodinia programs' kernels. */
void server_start_kind(struct server *s, const char *kind);
/*
 * Likewise with null, saxpy and distances_f32 of the standard kernels, and with @config in
 * its configuration: devices with memory of their own, say.
 */
void server_start_config(struct server *s, const char *kind, const char *config);
/* Likewise with all of the standard kernels, but for what is launched by functions. */
void server_start_standard(struct server *s, const char *kind, const char *config);
/* One that comes to a bad end, or to none, fails the bench. */
void server_stop(struct server *s);

/**
 * struct server_memory - what went through a device's memory so far
 * @copied_in, @copied_out: bytes
 * @evictions:	pieces that went for others
 * @waits:	times that a task waited for room
 */
struct server_memory {
	uint64_t copied_in;
	uint64_t copied_out;
	uint64_t evictions;
	uint64_t waits;
};

/* Of its one device. */
void server_memory(const struct server *s, struct server_memory *m);
/* All its threads on @cpu, -1: on all. */
void server_place(const struct server *s, int cpu);
/* Ticks (sysconf(_SC_CLK_TCK) a second) of CPU time used so far; -1: unknown. */
long server_cpu_ticks(const struct server *s);

/* Path of something in the build folder, by the place of this program. */
void build_path(char *path, size_t size, const char *name);

#endif
