// SPDX-License-Identifier: MIT
/*
 * arax-worker: runs a tenant's launches with that tenant's rights.
 *
 * araxd starts it (see spawn.c) with the descriptors of proto.h.  It has no
 * other way in, and ends when araxd does.  One launch at a time.  For code that a
 * program brought it locks itself up first (sandbox.h).
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "arax/kernel.h"
#include "daemon/backends/relax.h"
#include "daemon/worker/engine.h"
#include "daemon/worker/idmap.h"
#include "daemon/worker/proto.h"
#include "daemon/worker/sandbox.h"

#define SPIN_ROUNDS 4000	/* about 20 us: the next launch often comes at once */

struct mapping {
	uint64_t bytes;
	void *data;		/* NULL: can't be mapped, see err */
	int err;
};

static struct {
	enum worker_role role;
	const struct engine *engine;
	struct worker_slot *slot;
	struct idmap buffers, kernels, images;
	uint32_t messages;	/* handled so far */
	bool has_device;
} w;

static _Noreturn void give_up(uint32_t step, int err, const char *why)
{
	struct worker_msg msg = { .type = WORKER_MSG_FAILED, .flags = step, .id = (uint64_t)-err };

	snprintf(msg.symbol, sizeof(msg.symbol), "%s", why);
	_exit(write(WORKER_FD_SOCKET, &msg, sizeof(msg)) < 0 ? 2 : 1);
}

static void add_buffer(const struct worker_msg *msg, int fd)
{
	struct mapping *m = calloc(1, sizeof(*m));

	if (!m)
		_exit(1);
	m->bytes = msg->bytes;
	m->data = mmap(NULL, msg->bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (m->data == MAP_FAILED) {
		m->err = -errno;
		m->data = NULL;
	}
	if (idmap_put(&w.buffers, msg->id, m))
		_exit(1);
}

static void drop_buffer(uint64_t id)
{
	struct mapping *m = idmap_del(&w.buffers, id);

	if (!m)
		return;
	if (m->data)
		munmap(m->data, m->bytes);
	free(m);
}

static void set_device(const struct worker_msg *msg)
{
	const char *why = NULL;
	int err = w.engine->device((uint32_t)msg->id, msg->symbol, &why);

	if (err)
		give_up(WORKER_STEP_DEVICE, err, why ?: "");
	w.has_device = true;
}

/* One image's kernels come with its descriptor the first time. */
static int image_fd(uint64_t image, int fd)
{
	if (fd >= 0 && idmap_put(&w.images, image, (void *)(uintptr_t)(fd + 1)))
		_exit(1);
	return (int)(uintptr_t)idmap_get(&w.images, image) - 1;
}

/* Whether the descriptor is kept. */
static bool add_kernel(struct worker_msg *msg, int fd)
{
	struct loaded *k = calloc(1, sizeof(*k));
	bool keep = false;

	if (!k || idmap_put(&w.kernels, msg->id, k))
		_exit(1);
	msg->symbol[sizeof(msg->symbol) - 1] = '\0';
	msg->text[sizeof(msg->text) - 1] = '\0';
	k->flags = msg->flags;
	w.engine->load(msg, image_fd(msg->bytes, fd), &keep, k);
	return keep;
}

/* One message, if there is one; araxd's death ends the worker. */
static bool receive(bool wait)
{
	union {
		struct cmsghdr head;
		char space[CMSG_SPACE(sizeof(int))];
	} control;
	struct worker_msg msg;
	struct iovec iov = { &msg, sizeof(msg) };
	struct msghdr h = { .msg_iov = &iov, .msg_iovlen = 1, .msg_control = &control,
			    .msg_controllen = sizeof(control) };
	struct cmsghdr *c;
	ssize_t n;
	int fd = -1;

	do {
		n = recvmsg(WORKER_FD_SOCKET, &h, MSG_CMSG_CLOEXEC | (wait ? 0 : MSG_DONTWAIT));
	} while (n < 0 && errno == EINTR);
	if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK))
		return false;
	if (n == sizeof(msg.type) && msg.type == WORKER_MSG_WAKE)
		return true;
	if (n != sizeof(msg))
		_exit(0);
	c = CMSG_FIRSTHDR(&h);
	if (c && c->cmsg_level == SOL_SOCKET && c->cmsg_type == SCM_RIGHTS)
		memcpy(&fd, CMSG_DATA(c), sizeof(fd));
	w.messages++;
	switch (msg.type) {
	case WORKER_MSG_KERNEL:
		if (add_kernel(&msg, fd))
			fd = -1;
		break;
	case WORKER_MSG_BUFFER:
		add_buffer(&msg, fd);
		break;
	case WORKER_MSG_DROP:
		drop_buffer(msg.id);
		break;
	case WORKER_MSG_OPTION:
		if (w.engine->option)
			w.engine->option(msg.symbol);
		break;
	case WORKER_MSG_DEVICE:
		if (w.engine->device)
			set_device(&msg);
		break;
	case WORKER_MSG_OUTPUT:
		if (!w.engine->output)
			break;
		w.engine->output(fd);
		fd = -1;
		break;
	}
	if (fd >= 0)
		close(fd);
	/* Release: what was unmapped is; pairs with the acquire in worker_caught_up(). */
	atomic_store_explicit(&w.slot->handled, w.messages, memory_order_release);
	return true;
}

/* Where arguments are else. */
static void say(enum worker_says what, const char *words)
{
	snprintf((char *)w.slot->args, sizeof(w.slot->args), "%s", words);
	atomic_store_explicit(&w.slot->says, what, memory_order_relaxed);
}

static int not_loaded(const struct loaded *k)
{
	say(WORKER_SAYS_UNLOADED, k && k->why ? k->why : "");
	return k ? k->err : -ENOEXEC;
}

static int run(const struct worker_slot *s)
{
	struct arax_launch_range ranges[ARAX_MAX_RANGES];
	_Alignas(8) uint8_t args[ARAX_MAX_ARGS];
	struct arax_launch l = {
		.size = sizeof(l), .nr_ranges = s->nr_ranges, .ranges = ranges, .args = args,
		.arg_len = s->arg_len,
	};
	const struct loaded *k;
	int err;

	while ((int32_t)(s->messages - w.messages) > 0)
		receive(true);
	k = idmap_get(&w.kernels, s->kernel);
	if (!k || k->err)
		return not_loaded(k);
	if (w.slot->what == WORKER_TRY)
		return 0;
	if (l.nr_ranges > ARAX_MAX_RANGES || l.arg_len > sizeof(args))
		return -EINVAL;
	for (uint32_t i = 0; i < l.nr_ranges; i++) {
		const struct worker_range *r = &s->ranges[i];
		const struct mapping *m = idmap_get(&w.buffers, r->buffer);

		if (!m || !m->data)
			return m ? m->err : -EBADF;
		ranges[i] = (struct arax_launch_range){ (char *)m->data + r->offset, r->length,
							r->stride, r->count };
	}
	memcpy(args, s->args, l.arg_len);
	memcpy(l.grid, s->grid, sizeof(l.grid));
	memcpy(l.block, s->block, sizeof(l.block));
	l.group_end = arax_launch_groups(&l);
	err = w.engine->run(k, &l, &(struct engine_how){ s->what == WORKER_RUN_INLINE, s->cores });
	if (err && w.engine->why)
		say(WORKER_SAYS_FAILED, w.engine->why());
	return err;
}

/* Until there is a launch beyond `done`. */
static void wait_for_request(uint32_t done)
{
	struct pollfd p = { .fd = WORKER_FD_SOCKET, .events = POLLIN };
	int rounds = atomic_load_explicit(&w.slot->spin, memory_order_relaxed) ? SPIN_ROUNDS : 0;

	/* Acquire: the launch; pairs with araxd's release of `request`. */
	while (atomic_load_explicit(&w.slot->request, memory_order_acquire) == done) {
		if (rounds-- > 0) {
			relax();
			continue;
		}
		/*
		 * seq_cst: `worker_sleeps` is set before `request` is looked at;
		 * pairs with the opposite order in araxd's post().
		 */
		atomic_store(&w.slot->worker_sleeps, 1);
		if (atomic_load(&w.slot->request) == done)
			poll(&p, 1, -1);
		atomic_store(&w.slot->worker_sleeps, 0);
		while (receive(false))
			;
	}
}

static void serve(void)
{
	struct worker_msg ready = { .type = WORKER_MSG_READY, .id = WORKER_VERSION };
	const uint64_t one = 1;
	uint32_t done = 0;

	/* In a sandbox there is no send(). */
	if (write(WORKER_FD_SOCKET, &ready, sizeof(ready)) != sizeof(ready))
		return;
	for (;;) {
		int result;

		wait_for_request(done);
		atomic_store_explicit(&w.slot->says, WORKER_SAYS_NOTHING, memory_order_relaxed);
		result = run(w.slot);
		atomic_store_explicit(&w.slot->result, result, memory_order_relaxed);
		done++;
		/*
		 * seq_cst: `reply` before the look at `araxd_sleeps`; pairs with
		 * the opposite order in araxd's await().  It releases the result
		 * and all that the kernel wrote, too.
		 */
		atomic_store(&w.slot->reply, done);
		if (atomic_load(&w.slot->araxd_sleeps) &&
		    write(WORKER_FD_REPLY, &one, sizeof(one)) < 0)
			return;
	}
}

/* A helper's place is set from outside it: so calls are forbidden after that. */
static void prepare(void)
{
	const char *missing = "";
	int err = w.role == WORKER_PLAIN ? 0 : sandbox_files(w.role, &missing);

	if (err)
		give_up(WORKER_STEP_SANDBOX, err, missing);
	err = w.engine->open();
	if (err)
		give_up(WORKER_STEP_ENGINE, err,
			"threads or memory: worker.memory, worker.threads");
	while (w.engine->device && !w.has_device)
		receive(true);
	err = w.role == WORKER_PLAIN ? 0 : sandbox_calls(w.role, &missing);
	if (err)
		give_up(WORKER_STEP_SANDBOX, err, missing);
}

int main(int argc, char **argv)
{
	static const struct engine *const engines[WORKER_NR_ROLES] = {
		[WORKER_PLAIN] = &engine_native, [WORKER_FOREIGN] = &engine_native,
#ifndef OPENCL_ABSENT
		[WORKER_OPENCL_BUILD] = &engine_opencl_build, [WORKER_OPENCL] = &engine_opencl,
#endif
	};
	unsigned long role = argc > 1 ? strtoul(argv[1], NULL, 10) : WORKER_PLAIN;

	/* Other processes of the tenant may not look into this one. */
	prctl(PR_SET_DUMPABLE, 0, 0, 0, 0);
	prctl(PR_SET_NAME, "arax-worker", 0, 0, 0);
	/* No linker that a compiler starts needs them. */
	for (int fd = WORKER_FD_SOCKET; fd < WORKER_NR_FDS; fd++)
		fcntl(fd, F_SETFD, FD_CLOEXEC);
	w.slot = mmap(NULL, sizeof(*w.slot), PROT_READ | PROT_WRITE, MAP_SHARED, WORKER_FD_SLOT, 0);
	if (w.slot == MAP_FAILED || role >= WORKER_NR_ROLES) {
		static const char text[] = "arax-worker: is started by araxd, not by hand\n";

		return write(STDERR_FILENO, text, sizeof(text) - 1) < 0 ? 1 : 2;
	}
	close(WORKER_FD_SLOT);
	w.role = (enum worker_role)role;
	w.engine = engines[role];
	if (!w.engine)
		give_up(WORKER_STEP_DEVICE, -EOPNOTSUPP,
			"arax-worker was built without OpenCL's headers (opencl-headers)");
	prepare();
	serve();
	return 1;
}
