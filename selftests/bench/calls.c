// SPDX-License-Identifier: MIT
/* System calls as floors and peers. */
#include "calls.h"

#include <arax/uapi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "clock.h"

void calls_null(void *arg, double seconds, struct samples *s)
{
	uint64_t t0, t1 = ticks(), end = t1 + ns_to_ticks(seconds * 1e9);

	while (t1 < end && !samples_full(s)) {
		t0 = ticks();
		syscall(SYS_getppid);
		t1 = ticks();
		samples_add(s, t1 - t0);
	}
}

/* In batches: in an emulated guest, reading the clock costs like the call. */
#define IOCTLS 32

void calls_ioctl(void *arg, double seconds, struct samples *s)
{
	uint64_t t0, t1 = ticks(), end = t1 + ns_to_ticks(seconds * 1e9);
	const int *fd = arg;
	struct arax_info info;
	int i;

	while (t1 < end && !samples_full(s)) {
		t0 = ticks();
		for (i = 0; i < IOCTLS; i++) {
			info.size = sizeof(info);
			if (ioctl(*fd, ARAX_IOC_INFO, &info) < 0) {
				perror("arax-bench: ARAX_IOC_INFO");
				exit(1);
			}
		}
		t1 = ticks();
		samples_add(s, (t1 - t0) / IOCTLS);
	}
}

#ifdef HAVE_LIBURING
#include <liburing.h>

struct uring {
	struct io_uring ring;
	unsigned int batch;
};

struct uring *uring_open(unsigned int batch, const char **why)
{
	struct uring *u = calloc(1, sizeof(*u));
	int rc;

	rc = u ? io_uring_queue_init(batch, &u->ring, 0) : -1;
	if (rc < 0) {
		free(u);
		*why = "io_uring_setup() is refused here";
		return NULL;
	}
	u->batch = batch;
	return u;
}

void uring_round(void *arg, double seconds, struct samples *s)
{
	uint64_t t0, t1 = ticks(), end = t1 + ns_to_ticks(seconds * 1e9);
	struct uring *u = arg;
	unsigned int i;

	while (t1 < end && !samples_full(s)) {
		t0 = ticks();
		for (i = 0; i < u->batch; i++)
			io_uring_prep_nop(io_uring_get_sqe(&u->ring));
		if (io_uring_submit_and_wait(&u->ring, u->batch) < 0) {
			fprintf(stderr, "arax-bench: io_uring failed\n");
			exit(1);
		}
		io_uring_cq_advance(&u->ring, u->batch);
		t1 = ticks();
		samples_add(s, t1 - t0);
	}
}

void uring_close(struct uring *u)
{
	if (u)
		io_uring_queue_exit(&u->ring);
	free(u);
}
#else
struct uring *uring_open(unsigned int batch, const char **why)
{
	*why = "built without liburing";
	return NULL;
}

void uring_round(void *arg, double seconds, struct samples *s)
{
}

void uring_close(struct uring *u)
{
}
#endif
