// SPDX-License-Identifier: MIT
/* The tracepoints are there, and each fires with the right numbers. */
#include "ktest.h"

#include <stdarg.h>
#include <sys/mman.h>

#define EVENTS	"/sys/kernel/tracing/events/arax/"

static char *trace_text(void)
{
	static char text[65536];
	int fd = open("/sys/kernel/tracing/trace", O_RDONLY | O_CLOEXEC);
	size_t n = 0;
	ssize_t got;

	CHECK(fd >= 0);
	while (n < sizeof(text) - 1 && (got = read(fd, text + n, sizeof(text) - 1 - n)) > 0)
		n += (size_t)got;
	text[n] = '\0';
	close(fd);
	return text;
}

static void trace_clear(void)
{
	int fd = open("/sys/kernel/tracing/trace", O_WRONLY | O_TRUNC | O_CLOEXEC);

	CHECK(fd >= 0);
	close(fd);
}

/* "NAME: ARGUMENTS" is a line of the trace. */
static void fired(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
static void fired(const char *fmt, ...)
{
	char want[256];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(want, sizeof(want), fmt, ap);
	va_end(ap);
	if (!strstr(trace_text(), want)) {
		printf("# no '%s' in the trace\n", want);
		CHECK(false);
	}
}

KTEST(each_event_fires)
{
	static const char *const names[] = {
		"arax_context_create", "arax_context_release", "arax_submit", "arax_commit",
		"arax_buffer_create", "arax_buffer_free", "arax_attach", "arax_detach",
	};
	struct arax_buffer_create b;
	uint32_t id, context, epoch;
	struct mediator m;
	struct client c;
	struct work w;
	char path[256];
	unsigned int i;

	if (access("/sys/kernel/tracing/events", F_OK))
		tap_skip("this kernel has no tracing");
	for (i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		snprintf(path, sizeof(path), EVENTS "%s/format", names[i]);
		CHECK_SYS(access(path, R_OK));
	}
	trace_clear();
	CHECK_OK(write_text(EVENTS "enable", "1"));
	client_open(&c, 4, 128, 0);
	context = c.init.context;
	mediator_open(&m, 0);
	epoch = m.at.epoch;
	b = buffer_new(&c, 3 * PAGE);
	id = (uint32_t)buffer_query(&c, b.handle).id;
	client_marker(&c, queue_new(&c, 0), 1, 0);
	w = mediator_task(&m);
	mediator_result(&m, w.d.tag, 0);
	mediator_result(&m, w.d.tag, 0);
	mediator_flush(&m, 2);
	CHECK_OK(buffer_destroy(&c, b.handle));
	mediator_close(&m);
	client_close(&c);
	CHECK_OK(write_text(EVENTS "enable", "0"));

	fired("arax_context_create: context=%u uid=0", context);
	fired("arax_attach: epoch=%u flags=0", epoch);
	fired("arax_buffer_create: context=%u buffer=%u bytes=%lu type=0", context, id, 3 * PAGE);
	fired("arax_submit: context=%u asked=1 consumed=1", context);
	fired("arax_commit: count=2 done=2 stale=1");
	fired("arax_buffer_free: buffer=%u bytes=%lu", id, 3 * PAGE);
	fired("arax_detach: epoch=%u", epoch);
	fired("arax_context_release: context=%u", context);
}

/* ------------------------------------------------------------------ */
/* In whose time                                                       */

static struct meet ready, go;

static int leaves_its_buffer_to_a_task(void *id)
{
	struct arax_buffer_create b;
	struct client c;

	client_open(&c, 4, 128, 0);
	b = buffer_new(&c, 4 * PAGE);
	*(uint32_t *)id = (uint32_t)buffer_query(&c, b.handle).id;
	client_range_task(&c, queue_new(&c, 0), 1, 0, b.handle, ARAX_IN, 0, PAGE);
	CHECK_OK(buffer_destroy(&c, b.handle));
	meet_say(&ready);
	meet_hear(&go);
	client_close(&c);
	return 0;
}

/* A line of the trace, "COMM-PID [CPU] ...: EVENT", that says so; or NULL. */
static const char *traced(const char *what)
{
	static char line[256];
	const char *text = trace_text(), *at = strstr(text, what);
	size_t n;

	if (!at)
		return NULL;
	while (at > text && at[-1] != '\n')
		at--;
	n = strcspn(at, "\n");
	snprintf(line, sizeof(line), "%.*s", (int)n, at);
	return line;
}

/* Pages of GiBs take a second: not the mediator's, who ends the last task that uses them. */
KTEST(others_pages_are_freed_in_no_time_of_the_mediators)
{
	uint32_t *id = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	char what[64], mine[32];
	struct mediator m;
	struct work w;
	pid_t pid;

	if (access("/sys/kernel/tracing/events", F_OK))
		tap_skip("this kernel has no tracing");
	CHECK(id != MAP_FAILED);
	meet_init(&ready);
	meet_init(&go);
	mediator_open(&m, 0);
	trace_clear();
	CHECK_OK(write_text(EVENTS "arax_buffer_free/enable", "1"));
	pid = child_run(leaves_its_buffer_to_a_task, id);
	meet_hear(&ready);
	w = mediator_task(&m);
	mediator_done(&m, w.d.tag, 0);
	snprintf(what, sizeof(what), "arax_buffer_free: buffer=%u bytes=%lu", *id, 4 * PAGE);
	snprintf(mine, sizeof(mine), "-%d ", (int)getpid());
	CHECK(COMES(traced(what)));
	CHECK_OK(write_text(EVENTS "arax_buffer_free/enable", "0"));
	CHECK(!strstr(traced(what), mine));
	meet_say(&go);
	CHECK_OK(child_wait(pid));
	mediator_close(&m);
}

/* By its name: those of queues that are bound to no CPU have a 'u', the one of fput() has not. */
static bool on_a_thread_of_the_modules(const char *what)
{
	return strstr(traced(what), "kworker/u");
}

static struct meet attached, submitted;

static int dies_with_what_it_has_begun(void *arg)
{
	struct mediator m;
	struct work w;

	mediator_open(&m, 0);
	meet_say(&attached);
	meet_hear(&submitted);
	w = mediator_task(&m);
	mediator_start(&m, w.d.tag);
	return 0;
}

/* The module's own work ends what a mediator has left, where it is nobody's time. */
KTEST(what_a_dead_mediator_used_last_is_freed_on_a_thread_of_the_modules)
{
	struct arax_buffer_create b;
	struct client c;
	char what[64];
	uint32_t id;
	pid_t pid;

	if (access("/sys/kernel/tracing/events", F_OK))
		tap_skip("this kernel has no tracing");
	meet_init(&attached);
	meet_init(&submitted);
	pid = child_run(dies_with_what_it_has_begun, NULL);
	meet_hear(&attached);
	client_open(&c, 4, 128, 0);
	b = buffer_new(&c, 4 * PAGE);
	id = (uint32_t)buffer_query(&c, b.handle).id;
	client_range_task(&c, queue_new(&c, 0), 1, 0, b.handle, ARAX_IN, 0, PAGE);
	CHECK_OK(buffer_destroy(&c, b.handle));
	trace_clear();
	CHECK_OK(write_text(EVENTS "arax_buffer_free/enable", "1"));
	meet_say(&submitted);
	CHECK_OK(child_wait(pid));
	CHECK_EQ(client_wait(&c).result, -EOWNERDEAD);
	snprintf(what, sizeof(what), "arax_buffer_free: buffer=%u bytes=%lu", id, 4 * PAGE);
	CHECK(COMES(traced(what)));
	CHECK_OK(write_text(EVENTS "arax_buffer_free/enable", "0"));
	CHECK(on_a_thread_of_the_modules(what));
	client_close(&c);
}

#define VMALLOC	"/sys/kernel/tracing/events/vmalloc/free_vmap_area_noflush/enable"

static int dies_with_a_task_and_many_places(void *arg)
{
	struct client c;

	/* Tables of such sizes are vmalloc()'s. */
	client_open(&c, 16384, 128, 0);
	client_marker(&c, queue_new(&c, 0), 1, 0);
	meet_say(&ready);
	meet_hear(&go);
	return 0;
}

/* What its tasks were in, up to 37 MB, goes with the last of them. */
KTEST(others_tasks_are_freed_in_no_time_of_the_mediators)
{
	char mine[32];
	struct mediator m;
	struct work w;
	pid_t pid;

	if (access(VMALLOC, F_OK))
		tap_skip("this kernel does not trace vfree()");
	meet_init(&ready);
	meet_init(&go);
	mediator_open(&m, 0);
	pid = child_run(dies_with_a_task_and_many_places, NULL);
	meet_hear(&ready);
	w = mediator_task(&m);
	meet_say(&go);
	CHECK_OK(child_wait(pid));
	mediator_note(&m, ARAX_DISPATCH_CONTEXT);
	snprintf(mine, sizeof(mine), "-%d ", (int)getpid());
	trace_clear();
	CHECK_OK(write_text(VMALLOC, "1"));
	mediator_done(&m, w.d.tag, 0);
	CHECK(!strstr(trace_text(), mine));
	CHECK(COMES(strstr(trace_text(), "free_vmap_area_noflush")));
	CHECK_OK(write_text(VMALLOC, "0"));
	mediator_close(&m);
}

static int leaves_a_dma_buf_to_a_task(void *arg)
{
	int memfd = memfd_sealed(4 * PAGE, F_SEAL_SHRINK), fd = udmabuf_new(memfd, 4 * PAGE);
	struct arax_buffer_import i;
	struct client c;

	client_open(&c, 4, 128, 0);
	CHECK_OK(buffer_import(&c, ARAX_IMPORT_DMABUF, fd, &i));
	client_range_task(&c, queue_new(&c, 0), 1, 0, i.handle, ARAX_IN, 0, PAGE);
	close(fd);
	close(memfd);
	CHECK_OK(buffer_destroy(&c, i.handle));
	meet_say(&ready);
	meet_hear(&go);
	client_close(&c);
	return 0;
}

/* Nobody's memory is freed there by the way: what another driver does at its end takes its time. */
KTEST(a_dma_buf_ends_on_a_thread_of_the_modules)
{
	struct mediator m;
	struct work w;
	pid_t pid;

	if (access("/dev/udmabuf", F_OK))
		tap_skip("this kernel has no udmabuf");
	if (write_text("/sys/kernel/tracing/set_ftrace_filter", "dma_buf_release"))
		tap_skip("this kernel does not trace functions");
	meet_init(&ready);
	meet_init(&go);
	mediator_open(&m, 0);
	pid = child_run(leaves_a_dma_buf_to_a_task, NULL);
	meet_hear(&ready);
	w = mediator_task(&m);
	trace_clear();
	CHECK_OK(write_text("/sys/kernel/tracing/current_tracer", "function"));
	mediator_done(&m, w.d.tag, 0);
	CHECK(COMES(traced("dma_buf_release")));
	CHECK(on_a_thread_of_the_modules("dma_buf_release"));
	CHECK_OK(write_text("/sys/kernel/tracing/current_tracer", "nop"));
	meet_say(&go);
	CHECK_OK(child_wait(pid));
	mediator_close(&m);
}
