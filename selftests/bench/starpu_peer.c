// SPDX-License-Identifier: MIT
/* StarPU's empty CPU tasks. */
#include "starpu_peer.h"

#ifdef HAVE_STARPU
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <starpu.h>

#include "bench.h"
#include "child.h"
#include "clock.h"
#include "session.h"

struct starpu_peer {
	int workers;
	int handles;
	const char *home;
	int ask[2];		/* seconds, a double */
	int answer[2];		/* a count, then so many samples */
	pid_t pid;
};

static void empty(void *buffers[], void *arg)
{
}

static struct starpu_codelet codelet = {
	.cpu_funcs = { empty },
	.name = "empty",
};

static char memory[SESSION_BUFFERS][SESSION_BYTES];
static starpu_data_handle_t data[SESSION_BUFFERS];

static void submit(const struct starpu_peer *p, uint64_t i)
{
	static uint64_t args[2];
	struct starpu_task *task = starpu_task_create();

	task->cl = &codelet;
	task->cl_arg = args;
	task->cl_arg_size = sizeof(args);
	if (p->handles) {
		task->handles[0] = data[i % SESSION_BUFFERS];
		task->handles[1] = data[(i + SESSION_BUFFERS / 2) % SESSION_BUFFERS];
	}
	if (starpu_task_submit(task))
		bench_fail("StarPU took no task");
}

static void measure(const struct starpu_peer *p, double seconds, struct samples *s)
{
	uint64_t t0, t1 = ticks(), end = t1 + ns_to_ticks(seconds * 1e9), i = 0;
	int n;

	s->n = 0;
	do {
		t0 = ticks();
		for (n = 0; n < GRAIN; n++)
			submit(p, i++);
		starpu_task_wait_for_all();
		t1 = ticks();
		samples_add(s, t1 - t0);
	} while (t1 < end && !samples_full(s));
}

static void write_all(int fd, const void *buf, size_t bytes)
{
	const char *c = buf;
	ssize_t n;

	while (bytes) {
		n = write(fd, c, bytes);
		if (n <= 0)
			bench_fail("the pipe from StarPU: %s", strerror(errno));
		c += n;
		bytes -= (size_t)n;
	}
}

static int read_all(int fd, void *buf, size_t bytes)
{
	char *c = buf;
	ssize_t n;

	while (bytes) {
		n = read(fd, c, bytes);
		if (n <= 0)
			return -1;
		c += n;
		bytes -= (size_t)n;
	}
	return 0;
}

static void serve(void *arg)
{
	struct starpu_peer *p = arg;
	struct starpu_conf conf;
	struct samples s;
	double seconds;
	int i;

	close(p->ask[1]);
	close(p->answer[0]);
	setenv("STARPU_HOME", p->home, 1);
	setenv("STARPU_SILENT", "1", 1);
	starpu_conf_init(&conf);
	if (p->workers)
		conf.ncpus = p->workers;
	conf.ncuda = 0;
	conf.nopencl = 0;
	if (starpu_init(&conf))
		bench_fail("starpu_init() failed");
	if (p->handles) {
		codelet.nbuffers = 2;
		codelet.modes[0] = STARPU_R;
		codelet.modes[1] = STARPU_RW;
	}
	for (i = 0; i < SESSION_BUFFERS; i++)
		starpu_vector_data_register(&data[i], STARPU_MAIN_RAM, (uintptr_t)memory[i],
					    SESSION_BYTES, 1);
	samples_init(&s);
	starpu_pause();
	s.n = 0;
	write_all(p->answer[1], &s.n, sizeof(s.n));
	while (!read_all(p->ask[0], &seconds, sizeof(seconds))) {
		starpu_resume();
		measure(p, seconds, &s);
		starpu_pause();
		write_all(p->answer[1], &s.n, sizeof(s.n));
		write_all(p->answer[1], s.ticks, s.n * sizeof(*s.ticks));
	}
	/* No starpu_shutdown(): the process ends, and its files are not kept. */
}

static void take(struct starpu_peer *p, struct samples *s)
{
	if (read_all(p->answer[0], &s->n, sizeof(s->n)) || s->n > SAMPLES_MAX ||
	    read_all(p->answer[0], s->ticks, s->n * sizeof(*s->ticks)))
		bench_fail("StarPU's process ended");
}

struct starpu_peer *starpu_peer_start(int workers, int handles, const char *home,
				      const char **why)
{
	struct starpu_peer *p = calloc(1, sizeof(*p));
	struct samples none = { 0 };

	if (!p || pipe2(p->ask, O_CLOEXEC) < 0 || pipe2(p->answer, O_CLOEXEC) < 0)
		bench_fail("StarPU's process: %s", strerror(errno));
	p->workers = workers;
	p->handles = handles;
	p->home = home;
	p->pid = child_start(serve, p);
	close(p->ask[0]);
	close(p->answer[1]);
	take(p, &none);		/* it is ready */
	return p;
}

void starpu_peer_round(void *arg, double seconds, struct samples *s)
{
	struct starpu_peer *p = arg;

	write_all(p->ask[1], &seconds, sizeof(seconds));
	take(p, s);
}

void starpu_peer_stop(struct starpu_peer *p)
{
	close(p->ask[1]);
	child_end(p->pid);
	close(p->answer[0]);
	free(p);
}
#else
struct starpu_peer *starpu_peer_start(int workers, int handles, const char *home,
				      const char **why)
{
	*why = "built without StarPU (Debian: libstarpu-dev)";
	return NULL;
}

void starpu_peer_round(void *arg, double seconds, struct samples *s)
{
}

void starpu_peer_stop(struct starpu_peer *p)
{
}
#endif
