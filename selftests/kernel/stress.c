// SPDX-License-Identifier: MIT
/*
 * Many clients, a mediator and an administrator at once, each killed at any
 * instant; in the end nothing may be left.  Arguments: seconds, seed.  What
 * goes wrong under way is for the kernel's own checks to find.
 */
#include <pthread.h>
#include "common.h"

#define CLIENTS	4
#define THREADS	3
#define BUFFERS	8

static unsigned int next_random(unsigned int *seed, unsigned int n)
{
	return (unsigned int)rand_r(seed) % n;
}

/* ------------------------------------------------------------------ */
/* A client: threads that share a context and get in each other's way  */

struct shared {
	struct client c;
	int carrier;			/* socket on which clients pass descriptors */
	uint32_t handle[BUFFERS];
	uint64_t offset[BUFFERS];
	uint32_t timeline;
	pthread_mutex_t ring;		/* the ring has one producer */
	unsigned int seed;
};

static void pass_fd(int socket, int fd)
{
	char data = 0, control[CMSG_SPACE(sizeof(int))] = "";
	struct iovec v = { &data, 1 };
	struct msghdr m = { .msg_iov = &v, .msg_iovlen = 1, .msg_control = control,
			    .msg_controllen = sizeof(control) };
	struct cmsghdr *h = CMSG_FIRSTHDR(&m);

	h->cmsg_level = SOL_SOCKET;
	h->cmsg_type = SCM_RIGHTS;
	h->cmsg_len = CMSG_LEN(sizeof(int));
	memcpy(CMSG_DATA(h), &fd, sizeof(int));
	sendmsg(socket, &m, MSG_DONTWAIT);
}

static int take_fd(int socket)
{
	char data, control[CMSG_SPACE(sizeof(int))];
	struct iovec v = { &data, 1 };
	struct msghdr m = { .msg_iov = &v, .msg_iovlen = 1, .msg_control = control,
			    .msg_controllen = sizeof(control) };
	struct cmsghdr *h;
	int fd = -1;

	if (recvmsg(socket, &m, MSG_DONTWAIT) <= 0)
		return -1;
	h = CMSG_FIRSTHDR(&m);
	if (h && h->cmsg_type == SCM_RIGHTS)
		memcpy(&fd, CMSG_DATA(h), sizeof(int));
	return fd;
}

static void act(struct shared *s, unsigned int *seed)
{
	unsigned int i = next_random(seed, BUFFERS), type = next_random(seed, 2);
	struct arax_buffer_create b = { .size = sizeof(b), .fd = -1,
					.bytes = (1 + next_random(seed, 32)) * PAGE };
	struct arax_handle h = { .size = sizeof(h), .handle = s->handle[i] };
	struct arax_cancel cancel = { .size = sizeof(cancel), .flags = ARAX_CANCEL_QUEUE,
				      .queue = s->c.queue };
	struct arax_buffer_import im;
	struct pollfd p = { .fd = s->c.fd, .events = POLLIN };
	uint8_t *m;
	int fd;

	switch (next_random(seed, 14)) {
	case 0: case 1: case 2:
		if (!ioctl(s->c.fd, ARAX_IOC_BUFFER_CREATE, &b)) {
			s->handle[i] = b.handle;
			s->offset[i] = b.map_offset;
		}
		break;
	case 3: case 4:
		destroy_buffer(s->c.fd, s->handle[i]);
		break;
	case 5:
		if (!next_random(seed, 8))
			ioctl(s->c.fd, ARAX_IOC_BUFFER_REVOKE, &h);
		break;
	case 6:
		m = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, s->c.fd, s->offset[i]);
		if (m != MAP_FAILED) {
			m[0]++;
			if (next_random(seed, 4))
				munmap(m, PAGE);
		}
		break;
	case 7:
		fd = export_buffer(s->c.fd, s->handle[i], type);
		if (fd >= 0) {
			pass_fd(s->carrier, fd);
			close(fd);
		}
		break;
	case 8:
		fd = take_fd(s->carrier);
		if (fd < 0)
			break;
		if (import_buffer(s->c.fd, ARAX_IMPORT_ARAX, fd, &im))
			import_buffer(s->c.fd, ARAX_IMPORT_DMABUF, fd, &im);
		close(fd);
		break;
	case 9: case 10: case 11:
		pthread_mutex_lock(&s->ring);
		while (pop(&s->c))
			;
		push_marker(&s->c, 1, type ? ARAX_TASK_IDEMPOTENT : 0);
		/* Not taken for lack of credit: the entry is still there, go on. */
		struct arax_submit a = { .size = sizeof(a), .to_submit = 1, .min_complete = type,
					 .deadline_ns = now() + MS };
		ioctl(s->c.fd, ARAX_IOC_SUBMIT, &a);
		if (!a.submitted)
			s->c.tail--;
		pthread_mutex_unlock(&s->ring);
		break;
	case 12:
		struct arax_wait w = { .size = sizeof(w), .count = 1, .deadline_ns = now() + MS };

		w.points[0].timeline = s->timeline;
		w.points[0].value = next_random(seed, 1000);
		ioctl(s->c.fd, ARAX_IOC_WAIT, &w);
		struct arax_timeline_point point = { .size = sizeof(point), .handle = s->timeline,
						     .value = next_random(seed, 1000) };
		ioctl(s->c.fd, ARAX_IOC_TIMELINE_ADVANCE, &point);
		break;
	case 13:
		poll(&p, 1, 0);
		if (!next_random(seed, 4))
			ioctl(s->c.fd, ARAX_IOC_CANCEL, &cancel);
		break;
	}
}

static void *client_thread(void *arg)
{
	struct shared *s = arg;
	unsigned int seed = __atomic_add_fetch(&s->seed, 7919, __ATOMIC_RELAXED);

	while (!__atomic_load_n(&s->c.ctl->dead, __ATOMIC_RELAXED))
		act(s, &seed);
	return NULL;
}

static void on_bus(int sig)
{
	_exit(PASS);		/* a revoked page: as good as a kill */
}

static void run_client(int carrier, unsigned int seed)
{
	struct arax_timeline_create t = { .size = sizeof(t) };
	static struct shared s;
	pthread_t threads[THREADS];
	int i;

	signal(SIGBUS, on_bus);
	if (client_try_open(&s.c)) {
		CHECK(errno == EPIPE);		/* the administrator was quick */
		return;
	}
	s.carrier = carrier;
	s.seed = seed;
	pthread_mutex_init(&s.ring, NULL);
	if (!ioctl(s.c.fd, ARAX_IOC_TIMELINE_CREATE, &t))
		s.timeline = t.handle;
	for (i = 0; i < THREADS; i++)
		CHECK(!pthread_create(&threads[i], NULL, client_thread, &s));
	for (i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
}

/* ------------------------------------------------------------------ */
/* Others                                                              */

static void run_mediator(unsigned int seed)
{
	struct mediator m = { .fd = ctl_node() };
	struct arax_fetch f = { .size = sizeof(f) };
	const struct arax_dispatch *d;
	uint32_t flags = next_random(&seed, 3);		/* none, recover, take over */

	while (attach_to(&m, flags)) {
		if (errno == ESTALE)
			return;
		CHECK(errno == EBUSY);
		usleep(1000);
	}
	for (;;) {
		f.deadline_ns = now() + 20 * MS;
		ioctl(m.fd, ARAX_IOC_FETCH, &f);
		while ((d = next_entry(&m))) {
			uint32_t *states = (void *)(m.shared + m.page->states_offset);
			uint64_t tag = d->tag;

			if (d->type != ARAX_DISPATCH_TASK)
				continue;
			if (next_random(&seed, 2))
				states[ARAX_TAG_SLOT(tag)] = ARAX_SLOT_STARTED;
			if (next_random(&seed, 16))
				if (commit_one(&m, tag, next_random(&seed, 4) ? 0 : -EIO, NULL))
					_exit(PASS);	/* taken over */
		}
		struct arax_buffer_get g = { .size = sizeof(g), .id = next_random(&seed, 64) };

		if (!ioctl(m.fd, ARAX_IOC_BUFFER_GET, &g))
			close(g.fd);
		else if (errno == ESTALE)
			_exit(PASS);
	}
}

static void run_admin(unsigned int seed)
{
	int ctl = ctl_node();

	for (;;) {
		struct arax_context c = { .size = sizeof(c) };
		struct arax_tenant t = { .size = sizeof(t), .cgroup_fd = -1 };

		while (!ioctl(ctl, ARAX_IOC_CONTEXT_QUERY, &c)) {
			struct arax_kill k = { .size = sizeof(k), .context = c.id };

			if (!next_random(&seed, 200))
				ioctl(ctl, ARAX_IOC_CONTEXT_KILL, &k);
			c.id++;
		}
		while (!ioctl(ctl, ARAX_IOC_TENANT_QUERY, &t))
			t.id++;
		usleep(1000);
	}
}

enum { MEDIATOR_1 = CLIENTS, MEDIATOR_2, ADMIN, ACTORS };

static pid_t start(int who, const int *sockets, unsigned int seed)
{
	pid_t pid = fork();

	CHECK(pid >= 0);
	if (pid)
		return pid;
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (who < CLIENTS)
		run_client(sockets[who % 2], seed);
	else if (who < ADMIN)
		run_mediator(seed);
	else
		run_admin(seed);
	_exit(PASS);
}

int main(int argc, char **argv)
{
	unsigned int seconds = argc > 1 ? atoi(argv[1]) : 10;
	unsigned int seed = argc > 2 ? atoi(argv[2]) : time(NULL), deaths = 0, failed = 0;
	uint64_t end = now() + seconds * 1000 * MS;
	pid_t actors[ACTORS];
	int sockets[2], i, status, ctl;
	bool good;

	setvbuf(stdout, NULL, _IOLBF, 0);
	printf("TAP version 13\n1..2\n# %u s, seed %u\n", seconds, seed);
	CHECK(!socketpair(AF_UNIX, SOCK_DGRAM, 0, sockets));
	for (i = 0; i < ACTORS; i++)
		actors[i] = start(i, sockets, seed + i);
	while (now() < end) {
		usleep(next_random(&seed, 20000));
		i = next_random(&seed, ACTORS);
		kill(actors[i], SIGKILL);
		CHECK(waitpid(actors[i], &status, 0) == actors[i]);
		if (WIFEXITED(status) && WEXITSTATUS(status) != PASS)
			failed++;
		deaths++;
		actors[i] = start(i, sockets, seed + deaths);
	}
	for (i = 0; i < ACTORS; i++) {
		kill(actors[i], SIGKILL);
		waitpid(actors[i], NULL, 0);
	}
	close(sockets[0]);
	close(sockets[1]);
	printf("%sok 1 nobody failed # %u deaths\n", failed ? "not " : "", deaths);
	ctl = ctl_node();
	good = settles_to(ctl, 0) && COMES(contexts_are_gone(ctl));
	printf("%sok 2 nothing is left # %llu bytes\n", good ? "" : "not ",
	       (unsigned long long)all_memory(ctl));
	return failed || !good;
}
