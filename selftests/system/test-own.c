// SPDX-License-Identifier: MIT
/* Kernels that a program brings itself: nobody has installed anything. */
#include "stack.h"

#include "daemon/worker/sandbox.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

enum { ADD, SPIN, BEGIN, CRASH, WHOAMI, FAIL, NR_OWN };

static const struct arax_own_kernel own[NR_OWN] = {
	[ADD] = { .signature = "mine(inout u32 x[], u32 value)", .symbol = "st_add" },
	[SPIN] = { .signature = "st_spin(inout u32 x[], u32 value)" },
	[BEGIN] = { .signature = "st_begin(inout u32 x[], u32 value)" },
	[CRASH] = { .signature = "st_crash(inout u32 x[], u32 value)" },
	[WHOAMI] = { .signature = "st_whoami(out u32 who[])" },
	[FAIL] = { .signature = "st_fail(inout u32 x[], u32 value)" },
};

/* The library of the other tests, but as a file that anybody could have. */
static const char *image_path(void)
{
	static const char *const places[] = { "kernels", "../kernels" };
	static char path[PATH_MAX];
	char self[PATH_MAX], *slash;
	ssize_t n = readlink("/proc/self/exe", self, sizeof(self) - 1);

	CHECK(n > 0);
	self[n] = '\0';
	slash = strrchr(self, '/');
	*slash = '\0';
	for (int i = 0; i < 2; i++) {
		snprintf(path, sizeof(path), "%.3000s/%s/systest.so", self, places[i]);
		if (!access(path, R_OK))
			return path;
	}
	CHECK(0);
	return NULL;
}

/* Where devices have memory of their own alone no worker could run it. */
static void need_workers(struct stack *s)
{
	struct arax_device d = { .size = sizeof(d) };
	struct arax_kernel k[NR_OWN];
	uint32_t i;

	if (sandbox_kernel_lacks())
		tap_skip(sandbox_kernel_lacks());
	for (i = 0; !arax_get_device(s->ax, i, &d); i++)
		if (d.kind == ARAX_DEVICE_CPU && d.lanes && !d.memory)
			return;
	CHECK_EQ(arax_module_load_file(s->ax, ARAX_DEVICE_CPU, image_path(), own, NR_OWN, k),
		 -EOPNOTSUPP);
	CHECK(strstr(arax_error_text(), "no device here runs code that programs bring"));
	tap_skip("no device works on host pages: refused, as it should be");
}

static struct stack open_with(struct arax_kernel k[NR_OWN])
{
	struct stack s = stack_open(ARAX_QUEUE_DATAFLOW);
	int err;

	need_workers(&s);
	err = arax_module_load_file(s.ax, ARAX_DEVICE_CPU, image_path(), own, NR_OWN, k);
	if (err)
		printf("# arax_module_load_file: %d, %s\n", err, arax_error_text());
	CHECK_EQ(err, 0);
	return s;
}

TEST(own_kernels_run)
{
	struct arax_kernel k[NR_OWN];
	struct stack s = open_with(k);
	struct arax_buffer *b = stack_buffer(&s, 4096), *c = stack_buffer(&s, 8);
	uint32_t *x = arax_buffer_data(b), *who = arax_buffer_data(c), i, value = 2;
	struct arax_event e = { 0 };

	CHECK(!strcmp(k[ADD].name, "mine"));
	CHECK(!strcmp(k[ADD].text, "mine(inout u32 x[], u32 value)"));
	CHECK_EQ(k[ADD].sig.nr_ranges, 1);
	CHECK_EQ(k[ADD].sig.arg_len, 4);
	CHECK_EQ(k[ADD].kinds, 1u << ARAX_DEVICE_CPU);
	/* A chain of theirs and an installed one, ordered by what they touch. */
	for (i = 0; i < 50; i++) {
		CHECK_EQ(arax_launch(s.q, &k[ADD], arax_grid(1, 1, 1), ARAX_ARGS(value),
				     ARAX_RANGES(arax_inout(b)), NULL), 0);
		stack_launch(&s, s.q, "st_add", b, 1, NULL);
	}
	CHECK_EQ(stack_run(&s, &k[ADD], 1, b, 1000), 0);
	CHECK_EQ(x[0], 1150);
	CHECK_EQ(x[1023], 1150);
	CHECK_EQ(arax_launch(s.q, &k[WHOAMI], arax_grid(1, 1, 1), NULL, 0,
			     ARAX_RANGES(arax_out(c)), &e), 0);
	CHECK_EQ(arax_wait(&e, arax_deadline(60 * SECOND)), 0);
	CHECK_EQ(who[0], getuid());
	CHECK_EQ(stack_run(&s, &k[FAIL], 1, b, 5), -5);
	stack_close(&s);
}

TEST(own_kernels_are_nobody_elses)
{
	struct stack other = stack_open(ARAX_QUEUE_DATAFLOW);
	struct arax_kernel k[NR_OWN], none;
	struct stack s = open_with(k);
	struct arax_buffer *b = stack_buffer(&other, 4096);

	CHECK_EQ(stack_run(&other, &k[ADD], 1, b, 1), -ENOEXEC);
	CHECK_EQ(arax_module_unload(other.ax, &k[ADD]), -ENOENT);
	CHECK_EQ(arax_kernel_find(other.ax, "mine", 0, &none), -ENOENT);
	CHECK_EQ(stack_run(&s, &k[ADD], 1, stack_buffer(&s, 4096), 1), 0);
	/* A number that never was one. */
	none = k[ADD];
	none.id += 1000000;
	CHECK_EQ(stack_run(&s, &none, 1, stack_buffer(&s, 4096), 1), -ENOEXEC);
	stack_close(&s);
	stack_close(&other);
}

/* The core can't know, and who says what the library looks at? */
TEST(own_kernels_get_what_they_declare)
{
	struct arax_kernel k[NR_OWN], lie;
	struct stack s = open_with(k);
	struct arax_buffer *b = stack_buffer(&s, 4096);
	struct arax_range ranges[2] = { arax_inout(b), arax_inout(b) };
	struct arax_event e = { 0 };
	uint64_t wide = 1;
	int i;

	for (i = 0; i < 4; i++) {
		uint32_t nr = 1, len = 4;

		lie = k[ADD];
		ranges[0].access = ARAX_INOUT;
		if (i == 0) {
			lie.sig.arg_len = len = 8;
		} else if (i == 1) {
			lie.sig.access = ranges[0].access = ARAX_IN;
		} else if (i == 2) {
			lie.sig.nr_ranges = nr = 2;
			lie.sig.access |= ARAX_INOUT << 2;
		}
		CHECK_EQ(arax_launch(s.q, &lie, arax_grid(1, 1, 1), &wide, len, ranges, nr, &e), 0);
		CHECK_EQ(arax_wait(&e, arax_deadline(60 * SECOND)), i == 3 ? 0 : -EINVAL);
	}
	CHECK_EQ(*(uint32_t *)arax_buffer_data(b), 1);
	stack_close(&s);
}

TEST(own_kernels_harm_themselves)
{
	struct arax_kernel k[NR_OWN];
	struct stack s = open_with(k);
	struct arax_buffer *b = stack_buffer(&s, 4096);
	struct arax_range r = arax_inout(b);
	struct arax_event e = { 0 };
	uint32_t long_us = 60000000;
	struct arax_desc d = {
		.opcode = ARAX_OP_LAUNCH, .kernel = &k[SPIN], .grid = arax_grid(1, 1, 1),
		.args = &long_us, .arg_len = sizeof(long_us), .ranges = &r, .nr_ranges = 1,
		.event = &e,
	};
	int i;

	for (i = 0; i < 3; i++) {
		CHECK_EQ(stack_run(&s, &k[CRASH], 1, b, 16), -EFAULT);
		d.deadline = arax_deadline(SECOND / 2);
		CHECK_EQ(arax_submit(s.q, &d, 1, 0), 1);
		CHECK_EQ(arax_wait(&e, arax_deadline(60 * SECOND)), -ETIMEDOUT);
		CHECK_EQ(stack_run(&s, &k[ADD], 1, b, 1), 0);
	}
	CHECK_EQ(*(uint32_t *)arax_buffer_data(b), 3);
	stack_close(&s);
}

TEST(own_kernels_are_unloaded)
{
	struct arax_kernel k[NR_OWN], again[NR_OWN];
	struct stack s = open_with(k);
	struct arax_buffer *b = stack_buffer(&s, 4096);
	volatile uint32_t *begun = arax_buffer_data(b);
	struct arax_event e = { 0 };
	uint32_t us = 300000;

	/* What runs is not disturbed. */
	CHECK_EQ(arax_launch(s.q, &k[BEGIN], arax_grid(1, 1, 1), ARAX_ARGS(us),
			     ARAX_RANGES(arax_inout(b)), &e), 0);
	while (!*begun)
		usleep(1000);
	CHECK_EQ(arax_module_unload(s.ax, &k[WHOAMI]), 0);
	CHECK_EQ(arax_wait(&e, arax_deadline(60 * SECOND)), 0);
	CHECK_EQ(stack_run(&s, &k[ADD], 1, b, 1), -ENOEXEC);
	CHECK_EQ(arax_module_unload(s.ax, &k[ADD]), -ENOENT);
	CHECK_EQ(arax_module_load_file(s.ax, ARAX_DEVICE_CPU, image_path(), own, NR_OWN, again), 0);
	CHECK(again[ADD].id != k[ADD].id);
	CHECK_EQ(stack_run(&s, &again[ADD], 1, b, 1), 0);
	CHECK_EQ(stack_run(&s, &k[ADD], 1, b, 1), -ENOEXEC);
	stack_close(&s);
}

static void refused(struct stack *s, const char *path, const struct arax_own_kernel *k, uint32_t nr,
		    int err)
{
	struct arax_kernel loaded[2];

	CHECK_EQ(arax_module_load_file(s->ax, ARAX_DEVICE_CPU, path, k, nr, loaded), err);
	CHECK(strlen(arax_error_text()) > 0);
}

TEST(own_kernels_are_refused)
{
	struct arax_kernel k[NR_OWN];
	struct stack s = open_with(k);
	struct arax_own_kernel bad[2] = { own[ADD], own[ADD] };
	char zeros[4096] = { 0 };

	refused(&s, "/nonexistent", own, 1, -ENOENT);
	refused(&s, "/", own, 1, -EINVAL);
	refused(&s, image_path(), own, 0, -EINVAL);
	refused(&s, image_path(), bad, 2, -EINVAL);
	CHECK(strstr(arax_error_text(), "twice"));
	bad[0].symbol = "st_nothing";
	refused(&s, image_path(), bad, 1, -ENOENT);
	CHECK(strstr(arax_error_text(), "st_nothing"));
	bad[0].signature = "mine(inout x32 x[])";
	refused(&s, image_path(), bad, 1, -EINVAL);
	bad[0] = own[ADD];
	bad[0].flags = 0x100;
	refused(&s, image_path(), bad, 1, -EINVAL);
	CHECK_EQ(arax_module_load(s.ax, ARAX_DEVICE_CPU, zeros, sizeof(zeros), own, 1, k), -ENOEXEC);
	CHECK_EQ(arax_module_load(s.ax, ARAX_DEVICE_CPU, zeros, 0, own, 1, k), -EINVAL);
	CHECK_EQ(arax_module_load(s.ax, ARAX_DEVICE_CPU, zeros, ARAX_MODULE_MAX_BYTES + 1ull, own, 1,
				  k), -E2BIG);
	CHECK_EQ(arax_module_load(s.ax, ARAX_DEVICE_CUDA, zeros, sizeof(zeros), own, 1, k),
		 -EOPNOTSUPP);
	stack_close(&s);
}

/* The call itself, as no library would make it. */
TEST(own_kernels_calls_that_are_wrong)
{
	struct stack s = stack_open(ARAX_QUEUE_DATAFLOW);
	struct arax_buffer *b = stack_buffer(&s, 65536);
	uint64_t before = stack_settled_memory(&s, NULL);
	struct arax_module_load a = { .size = sizeof(a), .nr_kernels = 1 };
	struct arax_range ranges[3] = {
		arax_part(b, ARAX_IN, 0, 4096), arax_part(b, ARAX_INOUT, 4096, 4096),
		arax_part(b, ARAX_OUT, 8192, 4096),
	};
	struct arax_event e = { 0 };
	uint32_t i;

	need_workers(&s);
	for (i = 0; i < 6; i++) {
		struct arax_module_load x = a;
		struct arax_range r[3] = { ranges[0], ranges[1], ranges[2] };
		uint32_t nr = 3, len = sizeof(x);

		if (i == 0)
			nr = 2;
		else if (i == 1)
			len = 8;
		else if (i == 2)
			r[0].access = ARAX_INOUT;
		else if (i == 3)
			x.nr_kernels = 100;	/* more than there is room for */
		else if (i == 4)
			x.nr_kernels = ~0u;
		else
			r[1] = arax_rows(b, ARAX_INOUT, 4096, 1024, 2048, 2);
		CHECK_EQ(arax_call(s.q, ARAX_SERVICE_LOAD, &x, len, r, nr, &e), 0);
		CHECK_EQ(arax_wait(&e, arax_deadline(60 * SECOND)), -EINVAL);
	}
	CHECK_EQ(arax_call(s.q, ARAX_SERVICE_UNLOAD, &a, 4, NULL, 0, &e), 0);
	CHECK_EQ(arax_wait(&e, arax_deadline(60 * SECOND)), -EINVAL);
	stack_wait_memory(&s, before);
	stack_close(&s);
}

/* An image counts while it is there, and a context has so many. */
TEST(own_kernels_are_counted)
{
	struct stack s = stack_open(ARAX_QUEUE_DATAFLOW), other = stack_open(ARAX_QUEUE_DATAFLOW);
	struct arax_kernel more;
	uint64_t empty, one;
	struct stat st;
	int i, err;

	need_workers(&s);
	CHECK_EQ(stat(image_path(), &st), 0);
	empty = stack_settled_memory(&other, &s);
	CHECK_EQ(arax_module_load_file(s.ax, ARAX_DEVICE_CPU, image_path(), own, 1, &more), 0);
	one = stack_settled_memory(&other, &s) - empty;
	/* And some for what is known of its kernels. */
	CHECK(one > (uint64_t)st.st_size && one < (uint64_t)st.st_size + 65536);
	for (i = 1, err = 0; !err; i++)
		err = arax_module_load_file(s.ax, ARAX_DEVICE_CPU, image_path(), own, 1, &more);
	CHECK_EQ(err, -ENOSPC);
	CHECK_EQ(i, ARAX_MAX_MODULES + 1);
	stack_wait_memory(&other, empty + ARAX_MAX_MODULES * one);
	more.id--;
	CHECK_EQ(arax_module_unload(s.ax, &more), 0);
	stack_wait_memory(&other, empty + (ARAX_MAX_MODULES - 1) * one);
	CHECK_EQ(arax_module_load_file(s.ax, ARAX_DEVICE_CPU, image_path(), own, 1, &more), 0);
	stack_close(&s);
	for (i = 0; stack_memory(&other) >= empty && i < 6000; i++)
		usleep(10000);
	CHECK(stack_memory(&other) < empty);
	stack_close(&other);
}

/* All of them in one image: it costs its process one descriptor. */
TEST(own_kernels_are_many)
{
	static struct arax_own_kernel many[ARAX_MODULE_MAX_KERNELS];
	static struct arax_kernel k[ARAX_MODULE_MAX_KERNELS];
	static char text[ARAX_MODULE_MAX_KERNELS][64];
	struct stack s = stack_open(ARAX_QUEUE_DATAFLOW);
	struct arax_buffer *b = stack_buffer(&s, 4096);
	int i, round;

	need_workers(&s);
	for (i = 0; i < ARAX_MODULE_MAX_KERNELS; i++) {
		snprintf(text[i], sizeof(text[i]), "own_%d(inout u32 x[], u32 value)", i);
		many[i].signature = text[i];
		many[i].symbol = "st_add";
	}
	for (round = 0; round < 3; round++) {
		CHECK_EQ(arax_module_load_file(s.ax, ARAX_DEVICE_CPU, image_path(), many,
					       ARAX_MODULE_MAX_KERNELS, k), 0);
		CHECK_EQ(stack_run(&s, &k[0], 1, b, 1), 0);
		CHECK_EQ(stack_run(&s, &k[ARAX_MODULE_MAX_KERNELS - 1], 1, b, 1), 0);
	}
	CHECK_EQ(*(uint32_t *)arax_buffer_data(b), 6);
	stack_close(&s);
}

static _Atomic int cut_enough;

static void *cut(void *arg)
{
	const char *path = arg;

	while (!cut_enough)
		CHECK(!truncate(path, 0) && !truncate(path, 16 << 20));
	return NULL;
}

/* As a compiler does that writes it anew: an error, perhaps, and no signal. */
TEST(own_kernels_in_a_file_that_is_written)
{
	struct stack s = stack_open(ARAX_QUEUE_DATAFLOW);
	char path[] = "/tmp/arax-own.XXXXXX";
	struct arax_kernel k;
	pthread_t thread;
	int fd = mkstemp(path), i;

	need_workers(&s);
	CHECK(fd >= 0 && !ftruncate(fd, 16 << 20));
	cut_enough = 0;
	CHECK_EQ(pthread_create(&thread, NULL, cut, path), 0);
	for (i = 0; i < 50; i++)
		CHECK(arax_module_load_file(s.ax, ARAX_DEVICE_CPU, path, own, 1, &k) < 0);
	cut_enough = 1;
	pthread_join(thread, NULL);
	close(fd);
	unlink(path);
	stack_close(&s);
}

static _Atomic int loaded_whole;

static void *load_canceled(void *ax)
{
	struct arax_kernel k;

	CHECK_EQ(pthread_cancel(pthread_self()), 0);
	CHECK_EQ(arax_module_load_file(ax, ARAX_DEVICE_CPU, image_path(), own, 1, &k), 0);
	loaded_whole = 1;
	pthread_testcancel();
	return NULL;
}

/* It ends afterwards: what it has opened and allocated would be nobody's. */
TEST(own_kernels_of_a_thread_that_is_cancelled)
{
	struct stack s = stack_open(ARAX_QUEUE_DATAFLOW);
	pthread_t thread;
	void *ret;

	need_workers(&s);
	CHECK_EQ(pthread_create(&thread, NULL, load_canceled, s.ax), 0);
	CHECK_EQ(pthread_join(thread, &ret), 0);
	CHECK(loaded_whole && ret == PTHREAD_CANCELED);
	stack_close(&s);
}

/* Killed at any instant of loading. */
TEST(own_kernels_of_who_dies)
{
	struct stack s = stack_open(ARAX_QUEUE_DATAFLOW);
	struct arax_usage before = stack_user(&s);
	int i, status;
	pid_t pid;

	need_workers(&s);
	for (i = 0; i < 8; i++) {
		pid = fork();
		if (!pid) {
			struct arax_kernel k[NR_OWN];
			struct stack t = open_with(k);
			struct arax_buffer *b = stack_buffer(&t, 4096);

			for (;;) {
				stack_run(&t, &k[ADD], 1, b, 1);
				arax_module_unload(t.ax, &k[0]);
				arax_module_load_file(t.ax, ARAX_DEVICE_CPU, image_path(), own,
						      NR_OWN, k);
			}
		}
		usleep(50000 + 13000 * (uint32_t)i);
		kill(pid, SIGKILL);
		CHECK_EQ(waitpid(pid, &status, 0), pid);
		CHECK(WIFSIGNALED(status));
	}
	stack_wait_books(&s, before.counters[ARAX_RES_MEMORY].used,
			 before.counters[ARAX_RES_TASKS].used,
			 before.counters[ARAX_RES_CONTEXTS].used);
	stack_close(&s);
}
