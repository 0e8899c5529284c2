// SPDX-License-Identifier: MIT
/*
 * The frame of every call: its size, its node, when it may be made, and what
 * an address can be.  What each call does with its fields is in fields.c.
 */
#include "ktest.h"

#include <stddef.h>
#include <sys/ioctl.h>
#include <sys/mman.h>

enum who { CLIENT = 1, ADMIN = 2, MEDIATOR = 4, INIT = 8 };

static const struct call_row {
	const char *name;
	unsigned int nr, size, who;
} rows[] = {
#define ROW(NR, type, who)	{ #NR, ARAX_NR_##NR, sizeof(struct type), who }
	ROW(INFO, arax_info, CLIENT | ADMIN),
	ROW(CONTEXT_INIT, arax_context_init, CLIENT),
	ROW(SUBMIT, arax_submit, CLIENT | INIT),
	ROW(WAIT, arax_wait, CLIENT | INIT),
	ROW(CANCEL, arax_cancel, CLIENT | INIT),
	ROW(TASK_WHY, arax_task_why, CLIENT | INIT),
	ROW(BUFFER_CREATE, arax_buffer_create, CLIENT | INIT),
	ROW(BUFFER_IMPORT, arax_buffer_import, CLIENT | INIT),
	ROW(BUFFER_EXPORT, arax_buffer_export, CLIENT | INIT),
	ROW(BUFFER_DESTROY, arax_handle, CLIENT | INIT),
	ROW(BUFFER_QUERY, arax_buffer_query, CLIENT | INIT),
	ROW(BUFFER_REVOKE, arax_handle, CLIENT | INIT),
	ROW(QUEUE_CREATE, arax_queue_create, CLIENT | INIT),
	ROW(QUEUE_DESTROY, arax_handle, CLIENT | INIT),
	ROW(TIMELINE_CREATE, arax_timeline_create, CLIENT | INIT),
	ROW(TIMELINE_DESTROY, arax_handle, CLIENT | INIT),
	ROW(TIMELINE_QUERY, arax_timeline_point, CLIENT | INIT),
	ROW(TIMELINE_ADVANCE, arax_timeline_point, CLIENT | INIT),
	ROW(TIMELINE_EVENTFD, arax_timeline_eventfd, CLIENT | INIT),
	ROW(TIMELINE_EXPORT, arax_timeline_share, CLIENT | INIT),
	ROW(TIMELINE_IMPORT, arax_timeline_share, CLIENT | INIT),
	ROW(KERNEL_LOOKUP, arax_kernel_lookup, CLIENT | ADMIN),
	ROW(DEVICE_QUERY, arax_device, CLIENT | ADMIN),
	ROW(USAGE_QUERY, arax_usage, CLIENT),
	ROW(ATTACH, arax_attach, ADMIN),
	ROW(FETCH, arax_fetch, MEDIATOR),
	ROW(COMMIT, arax_commit, MEDIATOR),
	ROW(BUFFER_GET, arax_buffer_get, MEDIATOR),
	ROW(CHARGE, arax_charge, MEDIATOR),
	ROW(TASK_EXPLAIN, arax_task_why, MEDIATOR),
	ROW(TENANTS_TELL, arax_tenants_tell, MEDIATOR),
	ROW(DEVICE_PUBLISH, arax_device, MEDIATOR),
	ROW(KERNEL_PUBLISH, arax_kernel_publish, MEDIATOR),
	ROW(LIMIT_SET, arax_limit, ADMIN),
	ROW(TENANT_QUERY, arax_tenant, ADMIN),
	ROW(CONTEXT_QUERY, arax_context, ADMIN),
	ROW(CONTEXT_KILL, arax_kill, ADMIN),
};

#define NR_ROWS	(sizeof(rows) / sizeof(rows[0]))

/* Any size bits will do: the number alone selects a call. */
static unsigned long number(unsigned int nr)
{
	return _IOC(_IOC_READ | _IOC_WRITE, ARAX_IOC_TYPE, nr, 0);
}

static struct client client;
static struct mediator mediator;

static void open_both(void)
{
	client_open(&client, 4, 128, 4096);
	mediator_open(&mediator, 0);
}

static void close_both(void)
{
	mediator_close(&mediator);
	client_close(&client);
}

static int node_of(const struct call_row *r)
{
	return r->who & CLIENT ? client.fd : mediator.fd;
}

/* A struct of which the call is sure to take the size and refuse the rest. */
static void hopeless(const struct call_row *r, void *arg)
{
	memset(arg, 0, 2 * PAGE);
	switch (r->nr) {
	case ARAX_NR_SUBMIT:
		((struct arax_submit *)arg)->flags = ~0u;
		break;
	case ARAX_NR_CANCEL:
		((struct arax_cancel *)arg)->flags = 2;
		break;
	case ARAX_NR_QUEUE_CREATE:
		((struct arax_queue_create *)arg)->flags = ~0u;
		break;
	case ARAX_NR_ATTACH:
		((struct arax_attach *)arg)->flags = ~0u;
		break;
	case ARAX_NR_CHARGE:
		((struct arax_charge *)arg)->resource = 99;
		break;
	case ARAX_NR_TENANTS_TELL:
		((struct arax_tenants_tell *)arg)->flags = ~0u;
		break;
	case ARAX_NR_LIMIT_SET:
		((struct arax_limit *)arg)->what = 99;
		break;
	}
}

/* What programs of old pass: without what has been added since. */
static uint32_t least(const struct call_row *r)
{
	switch (r->nr) {
	case ARAX_NR_QUEUE_CREATE:
		return offsetof(struct arax_queue_create, target_ns);
	case ARAX_NR_DEVICE_QUERY:
	case ARAX_NR_DEVICE_PUBLISH:
		return offsetof(struct arax_device, reason);
	case ARAX_NR_TENANT_QUERY:
		return offsetof(struct arax_tenant, nr_periods);
	}
	return r->size;
}

#define EACH(r)	for (const struct call_row *r = rows; r < rows + NR_ROWS; r++)

#define CHECK_ROW(r, expr, want) do { \
	int got_ = (expr); \
	if (got_ != (want)) { \
		printf("# %s:\n", (r)->name); \
		CHECK_EQ(got_, want); \
	} \
} while (0)

KTEST(size_too_short)
{
	uint32_t *arg = calloc(2, PAGE);

	open_both();
	EACH(r) {
		memset(arg, 0, PAGE);
		CHECK_ROW(r, call(node_of(r), number(r->nr), arg), -EINVAL);
		arg[0] = 4;
		CHECK_ROW(r, call(node_of(r), number(r->nr), arg),
			  r->size == 4 ? 0 : -EINVAL);
		arg[0] = least(r) - 1;
		CHECK_ROW(r, call(node_of(r), number(r->nr), arg), -EINVAL);
	}
	close_both();
}

KTEST(size_longer_with_a_zero_tail)
{
	uint32_t *arg = calloc(2, PAGE);
	int exact;

	open_both();
	EACH(r) {
		hopeless(r, arg);
		arg[0] = r->size;
		exact = call(node_of(r), number(r->nr), arg);
		CHECK(exact != -E2BIG);
		hopeless(r, arg);
		arg[0] = r->size + 8;
		/* What the first call created, initialised or found, is as it was. */
		if (r->nr != ARAX_NR_TIMELINE_CREATE)
			CHECK_ROW(r, call(node_of(r), number(r->nr), arg), exact);
		CHECK_EQ(arg[0], r->size + 8);
		hopeless(r, arg);
		arg[0] = PAGE;
		CHECK_ROW(r, call(node_of(r), number(r->nr), arg), exact);
	}
	close_both();
}

KTEST(size_longer_with_a_tail_is_E2BIG)
{
	uint32_t *arg = calloc(2, PAGE);

	open_both();
	EACH(r) {
		hopeless(r, arg);
		arg[0] = r->size + 8;
		arg[r->size / 4 + 1] = 1;
		CHECK_ROW(r, call(node_of(r), number(r->nr), arg), -E2BIG);
		hopeless(r, arg);
		arg[0] = PAGE;
		((uint8_t *)arg)[PAGE - 1] = 1;
		CHECK_ROW(r, call(node_of(r), number(r->nr), arg), -E2BIG);
		hopeless(r, arg);
		arg[0] = PAGE + 4;
		CHECK_ROW(r, call(node_of(r), number(r->nr), arg), -E2BIG);
		arg[0] = ~0u;
		CHECK_ROW(r, call(node_of(r), number(r->nr), arg), -E2BIG);
	}
	close_both();
}

KTEST(bad_addresses_are_EFAULT)
{
	uint8_t *two = mmap(NULL, 2 * PAGE, PROT_READ | PROT_WRITE,
			    MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	uint32_t *edge;

	CHECK(two != MAP_FAILED);
	CHECK_SYS(munmap(two + PAGE, PAGE));
	open_both();
	EACH(r) {
		CHECK_ROW(r, call(node_of(r), number(r->nr), NULL), -EFAULT);
		CHECK_ROW(r, call(node_of(r), number(r->nr), (void *)~0ul), -EFAULT);
		/* The size can be read, the rest can't. */
		edge = (uint32_t *)(two + PAGE - 4);
		*edge = r->size;
		CHECK_ROW(r, call(node_of(r), number(r->nr), edge), -EFAULT);
	}
	close_both();
}

/* What can't be told to the caller must not leave a descriptor behind. */
KTEST(results_that_cannot_be_written)
{
	struct arax_buffer_export *e;
	struct arax_timeline_share *t;
	struct arax_buffer_get *g;
	struct arax_buffer_create b;
	unsigned int fds;
	void *page = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	open_both();
	b = buffer_new(&client, PAGE);
	fds = count_fds();

	e = page;
	*e = (struct arax_buffer_export) { .size = sizeof(*e), .handle = b.handle };
	CHECK_SYS(mprotect(page, PAGE, PROT_READ));
	CHECK_ERR(CALL(client.fd, BUFFER_EXPORT, e), EFAULT);
	CHECK_SYS(mprotect(page, PAGE, PROT_READ | PROT_WRITE));
	e->type = ARAX_EXPORT_DMABUF;
	CHECK_SYS(mprotect(page, PAGE, PROT_READ));
	CHECK_ERR(CALL(client.fd, BUFFER_EXPORT, e), EFAULT);
	CHECK_SYS(mprotect(page, PAGE, PROT_READ | PROT_WRITE));
	t = page;
	*t = (struct arax_timeline_share) { .size = sizeof(*t),
					    .handle = timeline_new(&client, 0) };
	CHECK_SYS(mprotect(page, PAGE, PROT_READ));
	CHECK_ERR(CALL(client.fd, TIMELINE_EXPORT, t), EFAULT);
	CHECK_SYS(mprotect(page, PAGE, PROT_READ | PROT_WRITE));
	g = page;
	*g = (struct arax_buffer_get) { .size = sizeof(*g),
					.id = buffer_query(&client, b.handle).id };
	CHECK_SYS(mprotect(page, PAGE, PROT_READ));
	CHECK_ERR(CALL(mediator.fd, BUFFER_GET, g), EFAULT);
	CHECK_EQ(count_fds(), fds);
	close_both();
}

KTEST(unknown_numbers_and_types)
{
	struct arax_info i = { .size = sizeof(i) };
	unsigned int nr;

	open_both();
	for (nr = 0; nr < 256; nr++) {
		bool known = false;

		EACH(r)
			known |= r->nr == nr;
		if (known)
			continue;
		CHECK_ERR(call(client.fd, number(nr), &i), ENOTTY);
		CHECK_ERR(call(mediator.fd, number(nr), &i), ENOTTY);
	}
	CHECK_ERR(call(client.fd, _IOWR(0xBB, ARAX_NR_INFO, struct arax_info), &i), ENOTTY);
	CHECK_ERR(call(client.fd, ARAX_NR_INFO, &i), ENOTTY);
	CHECK_ERR(call(client.fd, 0, &i), ENOTTY);
	close_both();
}

KTEST(calls_belong_to_their_node)
{
	uint32_t *arg = calloc(2, PAGE);

	open_both();
	EACH(r) {
		hopeless(r, arg);
		arg[0] = r->size;
		if (!(r->who & CLIENT))
			CHECK_ROW(r, call(client.fd, number(r->nr), arg), -ENOTTY);
		if (!(r->who & (ADMIN | MEDIATOR)))
			CHECK_ROW(r, call(mediator.fd, number(r->nr), arg), -ENOTTY);
	}
	close_both();
}

KTEST(before_init_is_ENXIO)
{
	uint32_t *arg = calloc(2, PAGE);
	int fd = open_node("/dev/arax");

	CHECK(fd >= 0);
	EACH(r) {
		if (!(r->who & INIT))
			continue;
		memset(arg, 0, PAGE);
		arg[0] = r->size;
		CHECK_ROW(r, call(fd, number(r->nr), arg), -ENXIO);
	}
	CHECK_SYS_ERR((long)mmap(NULL, PAGE, PROT_READ, MAP_SHARED, fd, 0), EINVAL);
	close(fd);
}

KTEST(after_a_kill_is_EPIPE)
{
	uint32_t *arg = calloc(2, PAGE);
	struct arax_kill k = { .size = sizeof(k) };
	struct arax_buffer_create b;

	open_both();
	b = buffer_new(&client, PAGE);
	k.context = client.init.context;
	CHECK_OK(CALL(mediator.fd, CONTEXT_KILL, &k));
	CHECK_EQ(client.ctl->dead, EPIPE);
	EACH(r) {
		if (!(r->who & CLIENT))
			continue;
		memset(arg, 0, PAGE);
		arg[0] = r->size;
		CHECK_ROW(r, call(client.fd, number(r->nr), arg), -EPIPE);
	}
	CHECK_SYS_ERR((long)mmap(NULL, b.bytes, PROT_READ, MAP_SHARED, client.fd,
				 (off_t)b.map_offset), EPIPE);
	/* A second time is as good as the first. */
	CHECK_OK(CALL(mediator.fd, CONTEXT_KILL, &k));
	close_both();
}

/* Without the seat there is nothing for the mediator's calls to work on. */
KTEST(not_attached_is_EPERM)
{
	uint32_t *arg = calloc(2, PAGE);
	int fd = open_node("/dev/arax-ctl");

	CHECK(fd >= 0);
	open_both();
	EACH(r) {
		if (!(r->who & MEDIATOR))
			continue;
		memset(arg, 0, PAGE);
		arg[0] = r->size;
		CHECK_ROW(r, call(fd, number(r->nr), arg), -EPERM);
	}
	CHECK_SYS_ERR((long)mmap(NULL, PAGE, PROT_READ, MAP_SHARED, fd, 0), EPERM);
	close(fd);
	close_both();
}

/* Each of its calls tells a mediator that another one has the seat. */
KTEST(taken_over_is_ESTALE)
{
	uint32_t *arg = calloc(2, PAGE);
	struct mediator next;

	open_both();
	CHECK_OK(mediator_try(&next, ARAX_ATTACH_TAKEOVER));
	EACH(r) {
		if (!(r->who & MEDIATOR))
			continue;
		memset(arg, 0, PAGE);
		arg[0] = r->size;
		CHECK_ROW(r, call(mediator.fd, number(r->nr), arg), -ESTALE);
	}
	close_both();
	mediator_close(&next);
}

/* The size is in memory that another thread may write: see that none matters. */
KTEST(other_file_operations)
{
	char buf[16];

	open_both();
	CHECK(read(client.fd, buf, sizeof(buf)) < 0);
	CHECK(write(client.fd, buf, sizeof(buf)) < 0);
	CHECK(read(mediator.fd, buf, sizeof(buf)) < 0);
	CHECK(pwrite(mediator.fd, buf, sizeof(buf), 0) < 0);
	close_both();
}
