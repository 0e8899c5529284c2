// SPDX-License-Identifier: MIT
/* The tracepoints are there, and each fires with the right numbers. */
#include "ktest.h"

#include <stdarg.h>

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
	CHECK_OK(write_text("/sys/kernel/tracing/trace", " "));
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
