// SPDX-License-Identifier: MIT
/*
 * Is linked statically and has functions of its own by names that files of the library have for
 * theirs.  The exit status is 0 if each gets its own.
 */
#include <stdint.h>
#include <stdio.h>

#include <arax/arax.h>

struct link;

uint64_t now_ns(void);
int error_set(int err, const char *format, ...);
int complete_all(struct arax *ax);
int context_call(struct arax *ax, const char *what, unsigned int nr, void *arg);
int link_open(struct link **l, const char *want, int admin);

static int called;

uint64_t now_ns(void)
{
	called++;
	return (uint64_t)called;
}

int error_set(int err, const char *format, ...)
{
	return ++called;
}

int complete_all(struct arax *ax)
{
	return ++called;
}

int context_call(struct arax *ax, const char *what, unsigned int nr, void *arg)
{
	return ++called;
}

int link_open(struct link **l, const char *want, int admin)
{
	return ++called;
}

int main(void)
{
	struct arax_event event = ARAX_EVENT_INIT;
	struct arax_queue *queue;
	struct arax_info info;
	struct arax *ax;
	int err;

	err = arax_open(&ax, NULL);
	if (!err)
		err = arax_get_info(ax, &info);
	if (!err)
		err = arax_queue_create(ax, 0, 0, &queue);
	if (!err)
		err = arax_marker(queue, &event);
	if (!err)
		err = arax_wait(&event, arax_deadline(60000000000));
	if (err) {
		printf("%s\n", arax_error_text());
		return 1;
	}
	arax_close(ax);
	return called || now_ns() != 1 || error_set(0, "") != 2 || complete_all(NULL) != 3 ||
	       context_call(NULL, "", 0, NULL) != 4 || link_open(NULL, "", 0) != 5;
}
