// SPDX-License-Identifier: MIT
/*
 * araxd is killed at chosen moments.  ARAX_TEST_DAEMON holds the command that
 * starts it; this program adds --ready-fd.
 */
#include "stack.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

static pid_t start_daemon_with(const char *options)
{
	const char *command = getenv("ARAX_TEST_DAEMON");
	char line[1024];
	struct pollfd p;
	int fds[2];
	char byte;
	pid_t pid;

	if (!command)
		tap_skip("ARAX_TEST_DAEMON is not set");
	CHECK_EQ(pipe(fds), 0);
	pid = fork();
	if (!pid) {
		close(fds[0]);
		snprintf(line, sizeof(line), "exec %s %s --ready-fd %d", command, options, fds[1]);
		execl("/bin/sh", "sh", "-c", line, NULL);
		_exit(127);
	}
	close(fds[1]);
	p.fd = fds[0];
	p.events = POLLIN;
	CHECK_EQ(poll(&p, 1, 60000), 1);
	CHECK_EQ(read(fds[0], &byte, 1), 1);
	close(fds[0]);
	return pid;
}

static pid_t start_daemon(void)
{
	return start_daemon_with("");
}

/*
 * A task in the midst of which the daemon can be killed; its buffer's first word becomes 1, and who
 * writes to the second one ends it.
 */
static void begin(struct stack *s, struct arax_buffer *b, uint32_t us, struct arax_event *event)
{
	uint64_t until = arax_deadline(60 * SECOND);

	stack_launch(s, s->q, "st_begin", b, us, event);
	while (!__atomic_load_n((uint32_t *)arax_buffer_data(b), __ATOMIC_ACQUIRE)) {
		CHECK(arax_deadline(0) < until);
		usleep(1000);
	}
}

static void kill_daemon(pid_t pid, int sig)
{
	int status;

	CHECK_EQ(kill(pid, sig), 0);
	CHECK_EQ(waitpid(pid, &status, 0), pid);
}

TEST(killed_with_a_task_running)
{
	pid_t daemon = start_daemon();
	struct stack s = stack_open(ARAX_QUEUE_IN_ORDER);
	struct arax_buffer *b = stack_buffer(&s, 4096);
	struct arax_event running = { 0 }, behind = { 0 };
	int err;

	begin(&s, b, 30000000, &running);
	stack_launch(&s, s.q, "st_add", b, 1, &behind);
	kill_daemon(daemon, SIGKILL);
	CHECK_EQ(arax_wait(&running, arax_deadline(60 * SECOND)), -EOWNERDEAD);
	err = arax_wait(&behind, arax_deadline(60 * SECOND));
	CHECK(err == -ECANCELED || err == -EOWNERDEAD);
	CHECK_EQ(*(uint32_t *)arax_buffer_data(b), 1);
	arax_close(s.ax);
}

/* It would end well once the task has.  Two of one kind might be one by the time that it looks. */
TEST(a_second_signal_ends_it_at_once)
{
	pid_t daemon = start_daemon();
	struct stack s = stack_open(ARAX_QUEUE_IN_ORDER);
	struct arax_buffer *b = stack_buffer(&s, 4096);
	struct arax_event running = { 0 };
	int status;

	begin(&s, b, 60000000, &running);
	CHECK_EQ(kill(daemon, SIGTERM), 0);
	CHECK_EQ(kill(daemon, SIGINT), 0);
	CHECK_EQ(waitpid(daemon, &status, 0), daemon);
	CHECK(WIFEXITED(status));
	CHECK_EQ(WEXITSTATUS(status), 1);
	CHECK_EQ(arax_wait(&running, arax_deadline(60 * SECOND)), -EOWNERDEAD);
	arax_close(s.ax);
}

TEST(calls_after_death)
{
	pid_t daemon = start_daemon();
	struct stack s = stack_open(ARAX_QUEUE_DATAFLOW);
	struct arax_buffer *b;
	int kernel = stack_on_kernel(&s);

	kill_daemon(daemon, SIGKILL);
	usleep(200000);
	/* The module outlives the daemon; the broker does not. */
	CHECK_EQ(arax_buffer_create(s.ax, 4096, 0, &b), kernel ? 0 : -ENOTCONN);
	arax_close(s.ax);
}

TEST(queued_tasks_survive_a_restart)
{
	pid_t daemon = start_daemon();
	struct stack s = stack_open(ARAX_QUEUE_IN_ORDER);
	struct arax_buffer *b = stack_buffer(&s, 4096), *c = stack_buffer(&s, 4096);
	struct arax_queue *other;
	struct arax_event running = { 0 }, events[50] = { { 0 } };
	int i;

	if (!stack_on_kernel(&s))
		tap_skip("the broker's tasks die with it (see arax info)");
	CHECK_EQ(arax_queue_create(s.ax, ARAX_QUEUE_IN_ORDER, 0, &other), 0);
	begin(&s, b, 30000000, &running);
	kill_daemon(daemon, SIGKILL);
	/* Submitted while nobody is there. */
	for (i = 0; i < 50; i++)
		stack_launch(&s, other, "st_add", c, 1, &events[i]);
	CHECK_EQ(arax_wait(&running, arax_deadline(60 * SECOND)), -EOWNERDEAD);
	CHECK_EQ(arax_test(&events[0]), 0);
	daemon = start_daemon();
	for (i = 0; i < 50; i++)
		CHECK_EQ(arax_wait(&events[i], arax_deadline(60 * SECOND)), 0);
	CHECK_EQ(*(uint32_t *)arax_buffer_data(c), 50);
	CHECK_EQ(*(uint32_t *)arax_buffer_data(b), 1);
	arax_close(s.ax);
	kill_daemon(daemon, SIGTERM);
}

/* Another one takes its seat, and its tasks fail; should it go on after all, it finds that out. */
TEST(one_that_hangs_is_thrown_out)
{
	pid_t hung = start_daemon(), daemon;
	struct stack s = stack_open(ARAX_QUEUE_DATAFLOW);
	struct arax_buffer *b = stack_buffer(&s, 4096), *c = stack_buffer(&s, 4096);
	struct arax_event running = { 0 }, next = { 0 };
	int status;

	if (!stack_on_kernel(&s))
		tap_skip("a socket stays its araxd's until that is gone");
	begin(&s, b, 60000000, &running);
	CHECK_EQ(kill(hung, SIGSTOP), 0);
	daemon = start_daemon_with("--take-over");
	CHECK_EQ(arax_wait(&running, arax_deadline(60 * SECOND)), -EOWNERDEAD);
	stack_launch(&s, s.q, "st_add", c, 1, &next);
	CHECK_EQ(arax_wait(&next, arax_deadline(60 * SECOND)), 0);
	CHECK_EQ(*(uint32_t *)arax_buffer_data(c), 1);
	__atomic_store_n((uint32_t *)arax_buffer_data(b) + 1, 1, __ATOMIC_RELAXED);
	CHECK_EQ(kill(hung, SIGCONT), 0);
	CHECK_EQ(waitpid(hung, &status, 0), hung);
	CHECK(WIFEXITED(status));
	CHECK_EQ(WEXITSTATUS(status), 1);
	arax_close(s.ax);
	kill_daemon(daemon, SIGTERM);
}

/* Whatever kernels the module has seen: those that can run are there, under their ids. */
TEST(kernels_are_those_of_the_daemon)
{
	char folder[] = "/tmp/arax-death.XXXXXX", options[64];
	struct arax_kernel before, after;
	pid_t daemon = start_daemon();
	struct stack s = stack_open(ARAX_QUEUE_IN_ORDER);
	struct arax_event e = { 0 };
	struct arax_buffer *b;
	uint32_t one = 1;

	before = stack_kernel(&s, "st_add");
	CHECK_EQ(arax_kernel_next(s.ax, 0, &after), 0);
	arax_close(s.ax);
	kill_daemon(daemon, SIGTERM);
	CHECK(mkdtemp(folder));
	snprintf(options, sizeof(options), "--kernels %s", folder);
	daemon = start_daemon_with(options);
	s = stack_open(ARAX_QUEUE_IN_ORDER);
	CHECK_EQ(arax_kernel_find(s.ax, "st_add", 0, &after), -ENOENT);
	CHECK_EQ(arax_kernel_next(s.ax, 0, &after), -ENOENT);
	b = stack_buffer(&s, 4096);
	CHECK_EQ(arax_launch(s.q, &before, arax_grid(1, 1, 1), ARAX_ARGS(one),
			     ARAX_RANGES(arax_inout(b)), &e), 0);
	CHECK_EQ(arax_wait(&e, arax_deadline(60 * SECOND)), -ENOENT);
	arax_close(s.ax);
	kill_daemon(daemon, SIGTERM);
	CHECK_EQ(rmdir(folder), 0);
	daemon = start_daemon();
	s = stack_open(ARAX_QUEUE_IN_ORDER);
	after = stack_kernel(&s, "st_add");
	CHECK_EQ(after.id, before.id);
	b = stack_buffer(&s, 4096);
	CHECK_EQ(stack_run(&s, &before, 1, b, 1), 0);
	arax_close(s.ax);
	kill_daemon(daemon, SIGTERM);
}

static unsigned int count_online(void)
{
	struct stack s = stack_open(ARAX_QUEUE_IN_ORDER);
	struct arax_device d = { .size = sizeof(d) };
	unsigned int i, n = 0;

	for (i = 0; !arax_get_device(s.ax, i, &d); i++)
		n += !!(d.flags & ARAX_DEVICE_ONLINE);
	arax_close(s.ax);
	return n;
}

TEST(devices_are_those_of_the_daemon)
{
	char config[] = "/tmp/arax-death.XXXXXX", options[64];
	int fd = mkstemp(config);
	pid_t daemon = start_daemon();
	unsigned int before = count_online();

	kill_daemon(daemon, SIGTERM);
	CHECK(dprintf(fd, "cpu { groups = { \"0\" } }\n") > 0);
	CHECK_EQ(close(fd), 0);
	snprintf(options, sizeof(options), "--config %s", config);
	daemon = start_daemon_with(options);
	CHECK_EQ(count_online(), 1);
	kill_daemon(daemon, SIGTERM);
	CHECK_EQ(unlink(config), 0);
	daemon = start_daemon();
	CHECK_EQ(count_online(), before);
	kill_daemon(daemon, SIGTERM);
	if (before < 2)
		tap_skip("one device at most");
}

TEST(clean_shutdown)
{
	pid_t daemon = start_daemon();
	struct stack s = stack_open(ARAX_QUEUE_IN_ORDER);
	struct arax_buffer *b = stack_buffer(&s, 4096);
	struct arax_event e = { 0 };
	int status;

	begin(&s, b, 300000, &e);
	CHECK_EQ(kill(daemon, SIGTERM), 0);
	/* What runs is finished, and that is known here before the link ends. */
	CHECK_EQ(arax_wait(&e, arax_deadline(60 * SECOND)), 0);
	CHECK(e.tag);
	CHECK_EQ(waitpid(daemon, &status, 0), daemon);
	CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
	arax_close(s.ax);
}
