// SPDX-License-Identifier: MIT
/* Every call's own checks: each field that can be wrong is wrong once. */
#include "ktest.h"

#include <stddef.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/resource.h>

/* Calls with a struct that is right but for what is named. */
#define BAD(fd, NR, type, err, ...) do { \
	struct type bad_ = { .size = sizeof(bad_), __VA_ARGS__ }; \
	CHECK_SAME("bad " #NR ": " #__VA_ARGS__, CALL(fd, NR, &bad_), -(err)); \
} while (0)

static int pipe_end(void)
{
	int fds[2];

	CHECK_SYS(pipe(fds));
	return fds[0];
}

KTEST(info)
{
	struct arax_info i = { .size = sizeof(i) };
	struct mediator m;
	int fd = open_node("/dev/arax");

	CHECK_OK(CALL(fd, INFO, &i));
	CHECK_EQ(i.size, sizeof(i));
	CHECK_EQ(i.abi_version, ARAX_ABI_VERSION);
	CHECK_EQ(i.link, ARAX_LINK_KERNEL);
	CHECK_EQ(i.guarantees, ARAX_GUAR_SURVIVES_DAEMON | ARAX_GUAR_CHARGED_MAPS |
			       ARAX_GUAR_CGROUP_TENANT | ARAX_GUAR_PINNED | ARAX_GUAR_DMABUF |
			       ARAX_GUAR_OWN_MEMORY);
	CHECK_EQ(i.epoch, 0);
	CHECK_EQ(i.max_depth, ARAX_MAX_DEPTH);
	CHECK(i.max_handles > 0);
	CHECK_EQ(i.page_size, PAGE);
	CHECK_EQ(i.sq_entry_sizes, 64 | 128 | 256);
	CHECK_OK(strcmp(i.version, ARAX_VERSION));
	mediator_open(&m, 0);
	CHECK_OK(CALL(fd, INFO, &i));
	CHECK_EQ(i.epoch, m.at.epoch);
	CHECK_OK(CALL(m.fd, INFO, &i));
	CHECK_EQ(i.epoch, m.at.epoch);
	mediator_close(&m);
	CHECK_OK(CALL(fd, INFO, &i));
	CHECK_EQ(i.epoch, 0);
	BAD(fd, INFO, arax_info, EINVAL, .pad = 1);
	close(fd);
}

static int init(int fd, struct arax_context_init i)
{
	return CALL(fd, CONTEXT_INIT, &i);
}

KTEST(context_init)
{
	struct arax_context_init i = NO_INIT(4, 128, 0), bad;
	int fd = open_node("/dev/arax");

	bad = i, bad.flags = 1;
	CHECK_ERR(init(fd, bad), EOPNOTSUPP);
	bad = i, bad.pad = 1;
	CHECK_ERR(init(fd, bad), EINVAL);
	CHECK_ERR(init(fd, NO_INIT(0, 128, 0)), EINVAL);
	CHECK_ERR(init(fd, NO_INIT(1, 128, 0)), EINVAL);
	CHECK_ERR(init(fd, NO_INIT(3, 128, 0)), EINVAL);
	CHECK_ERR(init(fd, NO_INIT(2 * ARAX_MAX_DEPTH, 128, 0)), EINVAL);
	CHECK_ERR(init(fd, NO_INIT(4, 0, 0)), EINVAL);
	CHECK_ERR(init(fd, NO_INIT(4, 64, 0)), EINVAL);
	CHECK_ERR(init(fd, NO_INIT(4, 129, 0)), EINVAL);
	CHECK_ERR(init(fd, NO_INIT(4, 512, 0)), EINVAL);
	CHECK_ERR(init(fd, NO_INIT(4, 128, 100)), EINVAL);
	CHECK_ERR(init(fd, NO_INIT(4, 128, ARAX_MAX_ARENA + PAGE)), EINVAL);
	CHECK_ERR(init(fd, NO_INIT(4, 128, 0xfffff000u)), EINVAL);
	bad = i, bad.ring_fd = 0;
	CHECK_ERR(init(fd, bad), EINVAL);
	bad = i, bad.wake_fd = 0;
	CHECK_ERR(init(fd, bad), EINVAL);
	/* None of that made it, and none is left of it. */
	CHECK_OK(CALL(fd, CONTEXT_INIT, &i));
	CHECK_EQ(i.doorbell_fd, -1);
	CHECK(i.context);
	CHECK_ERR(init(fd, i), EBUSY);
	close(fd);
}

KTEST(context_layouts)
{
	static const uint32_t depths[] = { 2, 4, 64, 4096 };
	struct arax_layout l;
	struct client c;
	unsigned int d, e, a;

	for (d = 0; d < sizeof(depths) / sizeof(depths[0]); d++)
		for (e = 128; e <= 256; e += 128)
			for (a = 0; a <= 2 * PAGE; a += PAGE) {
				CHECK_OK(arax_layout(depths[d], e, a, &l));
				client_open(&c, depths[d], e, a);
				CHECK_EQ(c.init.sq_offset, l.sq_offset);
				CHECK_EQ(c.init.cq_offset, l.cq_offset);
				CHECK_EQ(c.init.arena_offset, l.arena_offset);
				CHECK_EQ(c.init.region_size, l.region_size);
				CHECK_EQ(usage(&c, ARAX_USAGE_CONTEXT)
						 .counters[ARAX_RES_MEMORY].used, l.region_size);
				/* Its last byte is there, the next is not. */
				CHECK(!faults(c.region + l.region_size - 1, true));
				CHECK_SYS_ERR((long)mmap(NULL, l.region_size + PAGE, PROT_READ,
							 MAP_SHARED, c.fd, 0), EINVAL);
				client_close(&c);
			}
}

KTEST(mmap_checks)
{
	struct arax_buffer_create b;
	struct client c;

	client_open(&c, 4, 128, 0);
	b = buffer_new(&c, 2 * PAGE);
	CHECK_SYS_ERR((long)mmap(NULL, PAGE, PROT_READ, MAP_PRIVATE, c.fd, 0), EINVAL);
	CHECK_SYS_ERR((long)mmap(NULL, b.bytes, PROT_READ, MAP_PRIVATE, c.fd,
				 (off_t)b.map_offset), EINVAL);
	CHECK_SYS_ERR((long)mmap(NULL, b.bytes + PAGE, PROT_READ, MAP_SHARED, c.fd,
				 (off_t)b.map_offset), EINVAL);
	/* There is nothing between handles. */
	CHECK_SYS_ERR((long)mmap(NULL, PAGE, PROT_READ, MAP_SHARED, c.fd,
				 (off_t)(b.map_offset + PAGE)), EINVAL);
	CHECK_OK(buffer_destroy(&c, b.handle));
	CHECK_SYS_ERR((long)mmap(NULL, PAGE, PROT_READ, MAP_SHARED, c.fd,
				 (off_t)b.map_offset), EINVAL);
	client_close(&c);
}

KTEST(submit)
{
	struct client c;
	uint32_t n;

	client_open(&c, 4, 128, 0);
	BAD(c.fd, SUBMIT, arax_submit, EOPNOTSUPP, .flags = ARAX_SUBMIT_FLAGS + 1);
	BAD(c.fd, SUBMIT, arax_submit, EINVAL, .flags = ARAX_SUBMIT_AS_ASKED);
	BAD(c.fd, SUBMIT, arax_submit, EINVAL, .seen = 1);
	BAD(c.fd, SUBMIT, arax_submit, EINVAL, .min_complete = 5);
	BAD(c.fd, SUBMIT, arax_submit, EINVAL, .to_submit = 1);
	BAD(c.fd, SUBMIT, arax_submit, EINVAL, .to_submit = ~0u);
	BAD(c.fd, SUBMIT, arax_submit, ETIMEDOUT, .min_complete = 1, .deadline_ns = 1);
	CHECK_OK(client_submit(&c, 0, &n));
	CHECK_EQ(n, 0);
	client_close(&c);
}

KTEST(wait)
{
	struct client c;
	uint32_t t;

	client_open(&c, 4, 128, 0);
	t = timeline_new(&c, 7);
	BAD(c.fd, WAIT, arax_wait, EOPNOTSUPP, .flags = 2, .count = 1);
	BAD(c.fd, WAIT, arax_wait, EINVAL, .count = 0);
	BAD(c.fd, WAIT, arax_wait, EINVAL, .count = ARAX_WAIT_MAX + 1);
	BAD(c.fd, WAIT, arax_wait, EINVAL, .count = 1, .points = { { t, 1, 7 } });
	BAD(c.fd, WAIT, arax_wait, EBADF, .count = 1);
	BAD(c.fd, WAIT, arax_wait, EBADF, .count = 2, .points = { { t, 0, 7 }, { t + 1, 0, 0 } });
	BAD(c.fd, WAIT, arax_wait, EBADF, .count = 1,
	    .points = { { queue_new(&c, 0), 0, 0 } });
	BAD(c.fd, WAIT, arax_wait, ETIMEDOUT, .count = 1, .points = { { t, 0, 8 } },
	    .deadline_ns = 1);
	client_close(&c);
}

KTEST(cancel)
{
	struct client c;

	client_open(&c, 4, 128, 0);
	BAD(c.fd, CANCEL, arax_cancel, EOPNOTSUPP, .flags = 2);
	BAD(c.fd, CANCEL, arax_cancel, EINVAL, .queue = queue_new(&c, 0));
	BAD(c.fd, CANCEL, arax_cancel, EINVAL, .flags = ARAX_CANCEL_QUEUE,
	    .queue = queue_new(&c, 0), .user_data = 1);
	BAD(c.fd, CANCEL, arax_cancel, EBADF, .flags = ARAX_CANCEL_QUEUE);
	BAD(c.fd, CANCEL, arax_cancel, EBADF, .flags = ARAX_CANCEL_QUEUE,
	    .queue = timeline_new(&c, 0));
	client_close(&c);
}

KTEST(buffer_create)
{
	struct arax_buffer_create b;
	struct arax_tenant was;
	struct client c;
	int ctl = open_node("/dev/arax-ctl"), root = cgroup_new("");

	client_open(&c, 4, 128, 0);
	BAD(c.fd, BUFFER_CREATE, arax_buffer_create, EOPNOTSUPP, .flags = 2, .bytes = 1, .fd = -1);
	BAD(c.fd, BUFFER_CREATE, arax_buffer_create, EINVAL, .bytes = 0, .fd = -1);
	BAD(c.fd, BUFFER_CREATE, arax_buffer_create, EINVAL, .bytes = (1ull << 48) + 1, .fd = -1);
	BAD(c.fd, BUFFER_CREATE, arax_buffer_create, EINVAL, .bytes = ~0ull, .fd = -1);
	BAD(c.fd, BUFFER_CREATE, arax_buffer_create, EINVAL, .bytes = 1, .fd = 0);
	BAD(c.fd, BUFFER_CREATE, arax_buffer_create, EDQUOT, .bytes = 1ull << 40, .fd = -1);
	/* More than there is, where the quota would allow it. */
	was = tenant_query(ctl, root);
	CHECK_OK(limit_set(ctl, root, ARAX_SET_MAX + ARAX_RES_MEMORY, 1ull << 50));
	BAD(c.fd, BUFFER_CREATE, arax_buffer_create, ENOMEM, .bytes = 1ull << 40, .fd = -1);
	CHECK_OK(limit_set(ctl, root, ARAX_SET_MAX + ARAX_RES_MEMORY,
			   was.usage.counters[ARAX_RES_MEMORY].max));
	b = buffer_new(&c, 1);
	CHECK_EQ(b.bytes, PAGE);
	CHECK(b.map_offset && b.map_offset % PAGE == 0);
	b = buffer_new(&c, PAGE + 1);
	CHECK_EQ(b.bytes, 2 * PAGE);
	client_close(&c);
}

KTEST(buffer_handles)
{
	struct arax_buffer_create b;
	struct arax_buffer_query q = { .size = sizeof(q) };
	struct client c;
	uint32_t queue, timeline;

	client_open(&c, 4, 128, 0);
	queue = queue_new(&c, 0);
	timeline = timeline_new(&c, 0);
	BAD(c.fd, BUFFER_DESTROY, arax_handle, EBADF, .handle = 0);
	BAD(c.fd, BUFFER_DESTROY, arax_handle, EBADF, .handle = ~0u);
	BAD(c.fd, BUFFER_DESTROY, arax_handle, EBADF, .handle = queue);
	BAD(c.fd, BUFFER_REVOKE, arax_handle, EBADF, .handle = queue);
	BAD(c.fd, BUFFER_QUERY, arax_buffer_query, EBADF, .handle = queue);
	BAD(c.fd, BUFFER_EXPORT, arax_buffer_export, EBADF, .handle = queue);
	BAD(c.fd, QUEUE_DESTROY, arax_handle, EBADF, .handle = timeline);
	BAD(c.fd, TIMELINE_DESTROY, arax_handle, EBADF, .handle = queue);

	b = buffer_new(&c, 3 * PAGE);
	q = buffer_query(&c, b.handle);
	CHECK_EQ(q.bytes, 3 * PAGE);
	CHECK_EQ(q.type, 0);
	CHECK_EQ(q.flags, 0);
	CHECK(q.id);
	CHECK_OK(buffer_destroy(&c, b.handle));
	CHECK_ERR(buffer_destroy(&c, b.handle), EBADF);
	/* Its successor has its place, not its name. */
	CHECK(buffer_new(&c, PAGE).handle != b.handle);
	CHECK_ERR(buffer_destroy(&c, b.handle), EBADF);
	client_close(&c);
}

KTEST(handles_run_out)
{
	struct arax_timeline_create t = { .size = sizeof(t) };
	struct arax_queue_create q = { .size = sizeof(q) };
	struct arax_info i = { .size = sizeof(i) };
	struct arax_buffer_create b;
	struct client c;
	uint32_t n = 0;
	int err;

	/* A table is a table. */
	if (sizeof(long) == 4 && ktest_debug_kernel())
		tap_skip("the debug kernel fills a table for 64-bit programs alone: it takes long");
	client_open(&c, 4, 128, 0);
	CHECK_OK(CALL(c.fd, INFO, &i));
	while (!(err = CALL(c.fd, TIMELINE_CREATE, &t)))
		n++;
	CHECK_ERR(err, ENOSPC);
	CHECK_EQ(n, i.max_handles);
	CHECK_ERR(CALL(c.fd, QUEUE_CREATE, &q), ENOSPC);
	CHECK_ERR(buffer_try(&c, PAGE, &b), ENOSPC);
	/* And what could not be named is not charged. */
	CHECK_EQ(usage(&c, ARAX_USAGE_TENANT).counters[ARAX_RES_MEMORY].used,
		 c.init.region_size);
	BAD(c.fd, TIMELINE_DESTROY, arax_handle, EBADF, .handle = 0);
	CHECK_OK(CALL(c.fd, TIMELINE_DESTROY,
		      (&(struct arax_handle) { .size = sizeof(struct arax_handle),
					       .handle = t.handle })));
	CHECK_OK(buffer_try(&c, PAGE, &b));
	client_close(&c);
}

KTEST(buffer_import)
{
	struct arax_buffer_import i;
	struct client c;
	char path[64];
	int pipe = pipe_end(), fd, ro;

	client_open(&c, 4, 128, 0);
	fd = memfd_sealed(PAGE, F_SEAL_SHRINK);
#define IMPORT(err, ...) BAD(c.fd, BUFFER_IMPORT, arax_buffer_import, err, __VA_ARGS__)
	IMPORT(EOPNOTSUPP, .flags = 1, .type = ARAX_IMPORT_MEMFD, .fd = fd);
	IMPORT(EINVAL, .pad = 1, .type = ARAX_IMPORT_MEMFD, .fd = fd);
	IMPORT(EOPNOTSUPP, .type = ARAX_IMPORT_DMABUF + 1, .fd = fd);
	IMPORT(EINVAL, .type = ARAX_IMPORT_MEMFD, .fd = fd, .address = PAGE);
	IMPORT(EINVAL, .type = ARAX_IMPORT_USER, .fd = -1, .address = 1, .bytes = PAGE);
	IMPORT(EINVAL, .type = ARAX_IMPORT_USER, .fd = -1, .address = PAGE, .bytes = 0);
	IMPORT(EINVAL, .type = ARAX_IMPORT_USER, .fd = -1, .address = PAGE, .bytes = 1);
	IMPORT(EFAULT, .type = ARAX_IMPORT_USER, .fd = -1, .address = PAGE, .bytes = PAGE);
	IMPORT(EBADF, .type = ARAX_IMPORT_ARAX, .fd = -1);
	IMPORT(EBADF, .type = ARAX_IMPORT_MEMFD, .fd = -1);
	IMPORT(EBADF, .type = ARAX_IMPORT_DMABUF, .fd = -1);
	IMPORT(EINVAL, .type = ARAX_IMPORT_ARAX, .fd = pipe);
	IMPORT(EINVAL, .type = ARAX_IMPORT_MEMFD, .fd = pipe);
	IMPORT(EINVAL, .type = ARAX_IMPORT_DMABUF, .fd = pipe);
	IMPORT(EINVAL, .type = ARAX_IMPORT_ARAX, .fd = fd);
	IMPORT(EINVAL, .type = ARAX_IMPORT_DMABUF, .fd = fd);
	IMPORT(EINVAL, .type = ARAX_IMPORT_ARAX, .fd = c.fd);
	IMPORT(EINVAL, .type = ARAX_IMPORT_MEMFD, .fd = memfd_sealed(PAGE, F_SEAL_GROW));
	IMPORT(EINVAL, .type = ARAX_IMPORT_MEMFD,
	       .fd = memfd_sealed(PAGE, F_SEAL_SHRINK | F_SEAL_WRITE));
	IMPORT(EINVAL, .type = ARAX_IMPORT_MEMFD,
	       .fd = memfd_sealed(PAGE, F_SEAL_SHRINK | 0x10 /* F_SEAL_FUTURE_WRITE */));
	IMPORT(EINVAL, .type = ARAX_IMPORT_MEMFD, .fd = memfd_sealed(0, F_SEAL_SHRINK));
	IMPORT(EINVAL, .type = ARAX_IMPORT_MEMFD, .fd = memfd_sealed(100, F_SEAL_SHRINK));
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	ro = open(path, O_RDONLY | O_CLOEXEC);
	CHECK(ro >= 0);
	IMPORT(EACCES, .type = ARAX_IMPORT_MEMFD, .fd = ro);
	/* Our own pages are no memfd. */
	fd = buffer_export(&c, buffer_new(&c, PAGE).handle, ARAX_EXPORT_ARAX);
	CHECK(fd >= 0);
	IMPORT(EINVAL, .type = ARAX_IMPORT_MEMFD, .fd = fd);
	CHECK_OK(buffer_import(&c, ARAX_IMPORT_ARAX, fd, &i));
	client_close(&c);
}

KTEST(buffer_export)
{
	struct rlimit none = { 0, 0 }, was;
	struct arax_buffer_import i;
	struct client a, b;
	uint32_t h;
	int fd;

	client_open(&a, 4, 128, 0);
	client_open(&b, 4, 128, 0);
	h = buffer_new(&a, PAGE).handle;
#define EXPORT(c, err, ...) BAD((c).fd, BUFFER_EXPORT, arax_buffer_export, err, __VA_ARGS__)
	EXPORT(a, EOPNOTSUPP, .handle = h, .flags = 1);
	EXPORT(a, EOPNOTSUPP, .handle = h, .type = 2);
	EXPORT(a, EINVAL, .handle = h, .pad = 1);
	EXPORT(a, EBADF, .handle = 0);
	CHECK_SYS(getrlimit(RLIMIT_NOFILE, &was));
	none.rlim_max = was.rlim_max;
	CHECK_SYS(setrlimit(RLIMIT_NOFILE, &none));
	EXPORT(a, EMFILE, .handle = h);
	EXPORT(a, EMFILE, .handle = h, .type = ARAX_EXPORT_DMABUF);
	CHECK_SYS(setrlimit(RLIMIT_NOFILE, &was));
	fd = buffer_export(&a, h, ARAX_EXPORT_ARAX);
	CHECK(fd >= 0);
	CHECK_EQ(fcntl(fd, F_GETFD), FD_CLOEXEC);
	CHECK_OK(buffer_import(&b, ARAX_IMPORT_ARAX, fd, &i));
	CHECK_EQ(i.bytes, PAGE);
	EXPORT(b, EPERM, .handle = i.handle);
	EXPORT(b, EPERM, .handle = i.handle, .type = ARAX_EXPORT_DMABUF);
	BAD(b.fd, BUFFER_REVOKE, arax_handle, EPERM, .handle = i.handle);
	/* An import has a descriptor already. */
	CHECK_OK(buffer_import(&b, ARAX_IMPORT_MEMFD, memfd_sealed(PAGE, F_SEAL_SHRINK), &i));
	EXPORT(b, EOPNOTSUPP, .handle = i.handle);
	CHECK_OK(CALL(a.fd, BUFFER_REVOKE,
		      (&(struct arax_handle) { .size = sizeof(struct arax_handle), .handle = h })));
	EXPORT(a, ESTALE, .handle = h);
	CHECK_EQ(buffer_query(&a, h).flags, ARAX_BUFFER_IS_REVOKED);
	BAD(b.fd, BUFFER_IMPORT, arax_buffer_import, ESTALE, .type = ARAX_IMPORT_ARAX, .fd = fd);
	client_close(&b);
	client_close(&a);
}

KTEST(queues)
{
	struct client c;

	client_open(&c, 4, 128, 0);
	BAD(c.fd, QUEUE_CREATE, arax_queue_create, EOPNOTSUPP, .flags = ARAX_QUEUE_FLAGS + 1);
	BAD(c.fd, QUEUE_CREATE, arax_queue_create, EINVAL, .priority = -21);
	BAD(c.fd, QUEUE_CREATE, arax_queue_create, EINVAL, .priority = 20);
	BAD(c.fd, QUEUE_CREATE, arax_queue_create, EINVAL, .target_ns = ARAX_TARGET_MAX + 1);
	BAD(c.fd, QUEUE_DESTROY, arax_handle, EBADF, .handle = 0);
	queue_new(&c, ARAX_QUEUE_DATAFLOW | ARAX_QUEUE_CONTINUE);
	client_close(&c);
}

KTEST(timelines)
{
	struct arax_timeline_point p = { .size = sizeof(p) };
	struct arax_timeline_share s = { .size = sizeof(s) };
	struct client c;
	uint32_t t;
	int ev = eventfd(0, EFD_CLOEXEC);

	client_open(&c, 4, 128, 0);
	t = timeline_new(&c, 5);
#define ADVANCE(err, ...) BAD(c.fd, TIMELINE_ADVANCE, arax_timeline_point, err, __VA_ARGS__)
	ADVANCE(EBADF, .value = 9);
	ADVANCE(EINVAL, .handle = t, .value = 9, .pad = 1);
	ADVANCE(EINVAL, .handle = t, .value = 9, .error = 1);
	ADVANCE(EINVAL, .handle = t, .value = 9, .error = -4096);
	ADVANCE(EINVAL, .handle = t, .value = 4);
	BAD(c.fd, TIMELINE_QUERY, arax_timeline_point, EBADF, .handle = 0);
	BAD(c.fd, TIMELINE_QUERY, arax_timeline_point, EINVAL, .handle = t, .pad = 1);
	BAD(c.fd, TIMELINE_DESTROY, arax_handle, EBADF, .handle = 0);
#define EVENT(err, ...) BAD(c.fd, TIMELINE_EVENTFD, arax_timeline_eventfd, err, __VA_ARGS__)
	EVENT(EBADF, .handle = 0, .fd = ev);
	EVENT(EBADF, .handle = t, .fd = -1);
	EVENT(EINVAL, .handle = t, .fd = pipe_end());
	EVENT(EINVAL, .handle = t, .fd = ev, .pad = 1);
	BAD(c.fd, TIMELINE_EXPORT, arax_timeline_share, EBADF, .handle = 0);
	BAD(c.fd, TIMELINE_EXPORT, arax_timeline_share, EINVAL, .handle = t, .pad = 1);
	BAD(c.fd, TIMELINE_IMPORT, arax_timeline_share, EBADF, .fd = -1);
	BAD(c.fd, TIMELINE_IMPORT, arax_timeline_share, EINVAL, .fd = ev);
	BAD(c.fd, TIMELINE_IMPORT, arax_timeline_share, EINVAL, .fd = c.fd);
	s.handle = t;
	CHECK_OK(CALL(c.fd, TIMELINE_EXPORT, &s));
	CHECK_EQ(fcntl(s.fd, F_GETFD), FD_CLOEXEC);
	BAD(c.fd, TIMELINE_IMPORT, arax_timeline_share, EINVAL, .fd = s.fd, .pad = 1);
	BAD(c.fd, BUFFER_IMPORT, arax_buffer_import, EINVAL, .type = ARAX_IMPORT_ARAX,
	    .fd = s.fd);
	p.handle = t;
	CHECK_OK(CALL(c.fd, TIMELINE_QUERY, &p));
	CHECK_EQ(p.value, 5);
	CHECK_EQ(p.error, 0);
	client_close(&c);
}

KTEST(lookups)
{
	struct arax_kernel_lookup k = { .size = sizeof(k) };
	struct client c;

	client_open(&c, 4, 128, 0);
	BAD(c.fd, KERNEL_LOOKUP, arax_kernel_lookup, ENOENT, .name = "no such kernel");
	BAD(c.fd, KERNEL_LOOKUP, arax_kernel_lookup, ENOENT, .id = ~0u);
	BAD(c.fd, KERNEL_LOOKUP, arax_kernel_lookup, EINVAL, .pad = 1);
	memset(k.name, 'x', sizeof(k.name));
	CHECK_ERR(CALL(c.fd, KERNEL_LOOKUP, &k), EINVAL);
	BAD(c.fd, DEVICE_QUERY, arax_device, ENOENT, .index = 999);
	BAD(c.fd, TASK_WHY, arax_task_why, ENOENT, .tag = 1);
	BAD(c.fd, TASK_WHY, arax_task_why, EINVAL, .tag = 1, .pad = 1);
	BAD(c.fd, USAGE_QUERY, arax_usage, EOPNOTSUPP, .scope = 3);
	BAD(c.fd, USAGE_QUERY, arax_usage, EINVAL, .pad = 1);
	client_close(&c);
}

KTEST(attach)
{
	struct mediator m;
	int fd = open_node("/dev/arax-ctl");

	BAD(fd, ATTACH, arax_attach, EOPNOTSUPP, .flags = 4);
	BAD(fd, ATTACH, arax_attach, EINVAL, .flags = ARAX_ATTACH_FLAGS);
	mediator_open(&m, 0);
	CHECK(m.at.epoch);
	CHECK_EQ(m.at.dispatch_bytes, (uint64_t)m.at.cells * ARAX_CELL_SIZE);
	CHECK_OK(m.at.cells & (m.at.cells - 1));
	BAD(fd, ATTACH, arax_attach, EBUSY);
	BAD(fd, ATTACH, arax_attach, EBUSY, .flags = ARAX_ATTACH_RECOVER);
	BAD(m.fd, ATTACH, arax_attach, EBUSY);
	mediator_close(&m);
	close(fd);
}

KTEST(mediator_calls)
{
	struct arax_buffer_get g;
	struct arax_buffer_create b;
	struct mediator m;
	struct client c;

	client_open(&c, 4, 128, 0);
	mediator_open(&m, 0);
	BAD(m.fd, FETCH, arax_fetch, EOPNOTSUPP, .flags = 1);
	BAD(m.fd, FETCH, arax_fetch, EINVAL, .pad = 1);
	BAD(m.fd, FETCH, arax_fetch, ETIMEDOUT, .deadline_ns = 1);
	BAD(m.fd, COMMIT, arax_commit, EOPNOTSUPP, .flags = 1);
	BAD(m.fd, COMMIT, arax_commit, EINVAL, .count = m.at.commit_entries + 1);
	BAD(m.fd, COMMIT, arax_commit, EINVAL, .count = ~0u);
	BAD(m.fd, BUFFER_GET, arax_buffer_get, EOPNOTSUPP, .flags = 1);
	BAD(m.fd, BUFFER_GET, arax_buffer_get, ENOENT, .id = 0);
	BAD(m.fd, BUFFER_GET, arax_buffer_get, ENOENT, .id = ~0ull);
	BAD(m.fd, BUFFER_GET, arax_buffer_get, ENOENT, .id = ~0u);
	b = buffer_new(&c, PAGE);
	g.id = buffer_query(&c, b.handle).id;
	BAD(m.fd, BUFFER_GET, arax_buffer_get, ENOENT, .id = g.id | 1ull << 32);
	CHECK_OK(mediator_get(&m, g.id, &g));
	CHECK_EQ(g.bytes, PAGE);
	CHECK_EQ(g.context, c.init.context);
	CHECK_EQ(g.uid, 0);
	CHECK_EQ(fcntl(g.fd, F_GETFD), FD_CLOEXEC);

	BAD(m.fd, CHARGE, arax_charge, EINVAL, .resource = ARAX_RES_DEVICE_MEMORY,
	    .context = c.init.context, .pad = 1);
	BAD(m.fd, CHARGE, arax_charge, EOPNOTSUPP, .resource = ARAX_RES_TASKS,
	    .context = c.init.context, .delta = 1);
	BAD(m.fd, CHARGE, arax_charge, EINVAL, .resource = ARAX_RES_MEMORY,
	    .context = c.init.context, .delta = -1);
	BAD(m.fd, CHARGE, arax_charge, EOPNOTSUPP, .resource = 99);
	BAD(m.fd, CHARGE, arax_charge, ENOENT, .resource = ARAX_RES_DEVICE_MEMORY,
	    .context = ~0u, .delta = 1);
	BAD(m.fd, CHARGE, arax_charge, EINVAL, .resource = ARAX_RES_DEVICE_MEMORY,
	    .context = c.init.context, .delta = INT64_MIN);
	BAD(m.fd, CHARGE, arax_charge, EINVAL, .resource = ARAX_RES_DEVICE_MEMORY,
	    .context = c.init.context, .delta = -1);
	BAD(m.fd, TENANTS_TELL, arax_tenants_tell, EOPNOTSUPP, .flags = 1);
	BAD(m.fd, TENANTS_TELL, arax_tenants_tell, EINVAL, .count = ARAX_TELL_MAX + 1);
	BAD(m.fd, TENANTS_TELL, arax_tenants_tell, EINVAL, .count = ~0u);
	mediator_close(&m);
	client_close(&c);
}

/* ------------------------------------------------------------------ */
/* Descriptors                                                         */

/* The process has no room for one more. */
KTEST(no_descriptor_left_is_EMFILE)
{
	struct rlimit none = { 0, 0 }, was;
	struct arax_buffer_create b;
	struct mediator m;
	struct client c;
	uint64_t id;
	uint32_t t;

	client_open(&c, 4, 128, 0);
	mediator_open(&m, 0);
	b = buffer_new(&c, PAGE);
	id = buffer_query(&c, b.handle).id;
	t = timeline_new(&c, 0);
	CHECK_SYS(getrlimit(RLIMIT_NOFILE, &was));
	none.rlim_max = was.rlim_max;
	CHECK_SYS(setrlimit(RLIMIT_NOFILE, &none));
	BAD(c.fd, TIMELINE_EXPORT, arax_timeline_share, EMFILE, .handle = t);
	BAD(m.fd, BUFFER_GET, arax_buffer_get, EMFILE, .id = id);
	EXPORT(c, EMFILE, .handle = b.handle);
	EXPORT(c, EMFILE, .handle = b.handle, .type = ARAX_EXPORT_DMABUF);
	CHECK_SYS(setrlimit(RLIMIT_NOFILE, &was));
	mediator_close(&m);
	client_close(&c);
}

static struct meet ready, full;

/* A user: root's files are not counted against the system's. */
static int without_files(void *arg)
{
	struct arax_buffer_create b, x;
	struct arax_buffer_import own = { .size = sizeof(own), .type = ARAX_IMPORT_USER,
					  .fd = -1, .bytes = PAGE };
	struct client c;
	uint32_t t;

	(void)arg;
	become(USER1);
	client_open(&c, 4, 128, 0);
	b = buffer_new(&c, PAGE);
	t = timeline_new(&c, 0);
	own.address = (uintptr_t)mmap(NULL, PAGE, PROT_READ | PROT_WRITE,
				      MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	meet_say(&ready);
	meet_hear(&full);
	CHECK_ERR(open_node("/dev/arax"), ENFILE);
	CHECK_ERR(buffer_try(&c, PAGE, &x), ENFILE);
	CHECK_ERR(CALL(c.fd, BUFFER_IMPORT, &own), ENFILE);
	EXPORT(c, ENFILE, .handle = b.handle, .type = ARAX_EXPORT_DMABUF);
	BAD(c.fd, TIMELINE_EXPORT, arax_timeline_share, ENFILE, .handle = t);
	return 0;
}

/* The system has none. */
KTEST(no_file_left_is_ENFILE)
{
	long long was = read_number("/proc/sys/fs/file-max");
	char text[32];
	pid_t pid;
	int err;

	meet_init(&ready);
	meet_init(&full);
	pid = child_run(without_files, NULL);
	meet_hear(&ready);
	CHECK_OK(write_text("/proc/sys/fs/file-max", "0"));
	meet_say(&full);
	err = child_wait(pid);
	snprintf(text, sizeof(text), "%lld", was);
	CHECK_OK(write_text("/proc/sys/fs/file-max", text));
	CHECK_OK(err);
}

KTEST(publishing)
{
	struct arax_kernel_publish k = { .size = sizeof(k) };
	struct arax_kernel_lookup l = { .size = sizeof(l) };
	struct arax_device d = { .size = sizeof(d) }, q;
	struct arax_info i = { .size = sizeof(i) };
	struct arax_signature sig = { .nr_ranges = 2, .arg_len = 8, .access = 0xd };
	struct mediator m;
	char name[32];
	uint32_t id;

	mediator_open(&m, 0);
	CHECK_OK(CALL(m.fd, INFO, &i));
#define DEVICE(err, ...) BAD(m.fd, DEVICE_PUBLISH, arax_device, err, __VA_ARGS__)
	DEVICE(ENOSPC, .index = 256, .name = "x");
	DEVICE(EINVAL, .index = i.nr_devices + 1, .name = "x");
	DEVICE(EINVAL, .index = 0);
	DEVICE(EINVAL, .index = 0, .name = "x", .flags = 2);
	DEVICE(EINVAL, .index = 0, .name = "x", .pad = 1);
	DEVICE(EINVAL, .index = 0, .name = "x", .known = ARAX_DEVICE_KNOWN + 1);
	memset(d.name, 'x', sizeof(d.name));
	CHECK_ERR(CALL(m.fd, DEVICE_PUBLISH, &d), EINVAL);
	d = (struct arax_device) { .size = sizeof(d), .name = "x" };
	memset(d.reason, 'x', sizeof(d.reason));
	CHECK_ERR(CALL(m.fd, DEVICE_PUBLISH, &d), EINVAL);
	memset(&d, 0, sizeof(d));
	d = (struct arax_device) { .size = sizeof(d), .index = 0, .name = "test", .lanes = 3,
				   .flags = ARAX_DEVICE_ONLINE, .memory = 77 };
	CHECK_OK(CALL(m.fd, DEVICE_PUBLISH, &d));
	d.lanes = 4;
	CHECK_OK(CALL(m.fd, DEVICE_PUBLISH, &d));
	q = (struct arax_device) { .size = sizeof(q) };
	CHECK_OK(CALL(m.fd, DEVICE_QUERY, &q));
	CHECK_OK(memcmp(&q, &d, sizeof(q)));
	memset(d.reason, 'x', sizeof(d.reason) - 1);
	CHECK_OK(CALL(m.fd, DEVICE_PUBLISH, &d));
	CHECK_OK(CALL(m.fd, DEVICE_QUERY, &q));
	CHECK_OK(memcmp(&q, &d, sizeof(q)));
	/* Figures grow old, and who looks at such has the mediator asked for others, if it knows of them. */
	d.known = ARAX_DEVICE_BUSY | ARAX_DEVICE_POWER;
	d.busy = 42;
	d.power_mw = 71300;
	d.age_ns = 3000000000u;
	/* None are older than the machine's clock, and a guest may be here within seconds. */
	while (now_ns() < d.age_ns)
		sleep_ms(10);
	CHECK_OK(CALL(m.fd, DEVICE_PUBLISH, &d));
	CHECK_OK(CALL(m.fd, DEVICE_QUERY, &q));
	CHECK(q.age_ns >= d.age_ns && q.age_ns < 60 * d.age_ns);
	q.age_ns = d.age_ns;
	CHECK_OK(memcmp(&q, &d, sizeof(q)));
	mediator_note(&m, ARAX_DISPATCH_DEVICES);
	/* A program of before there were reasons gets what it knows, and no byte more. */
	memset(&q, 0x5a, sizeof(q));
	q.size = offsetof(struct arax_device, reason);
	q.index = 0;
	memset(&q.kind, 0, q.size - offsetof(struct arax_device, kind));
	CHECK_OK(CALL(m.fd, DEVICE_QUERY, &q));
	CHECK_OK(strcmp(q.name, "test"));
	CHECK(q.reason[0] == 0x5a && q.reason[sizeof(q.reason) - 1] == 0x5a);
	CHECK_OK(CALL(m.fd, INFO, &i));
	BAD(m.fd, DEVICE_QUERY, arax_device, ENOENT, .index = i.nr_devices);

#define WHY(err, ...) BAD(m.fd, TASK_EXPLAIN, arax_task_why, err, __VA_ARGS__)
	WHY(EINVAL, .tag = 1);
	WHY(EINVAL, .tag = 1, .text = "x", .pad = 1);
	WHY(ESTALE, .tag = 1, .text = "x");
	WHY(ESTALE, .tag = ~0ull, .text = "x");

#define KERNEL(err, ...) BAD(m.fd, KERNEL_PUBLISH, arax_kernel_publish, err, .kinds = 1, __VA_ARGS__)
	KERNEL(EINVAL, .name = "");
	KERNEL(EINVAL, .name = "x", .pad = 1);
	KERNEL(EINVAL, .name = "x", .sig = { .nr_ranges = ARAX_MAX_RANGES + 1 });
	KERNEL(EINVAL, .name = "x", .sig = { .arg_len = ARAX_MAX_ARGS + 1 });
	KERNEL(EINVAL, .name = "x", .sig = { .nr_ranges = 2, .access = 1 });
	KERNEL(EINVAL, .name = "x", .sig = { .nr_ranges = 2, .access = 4 });
	KERNEL(EINVAL, .name = "x", .sig = { .nr_ranges = 1, .access = 5 });
	memset(k.name, 'x', sizeof(k.name));
	CHECK_ERR(CALL(m.fd, KERNEL_PUBLISH, &k), EINVAL);
	memset(k.name, 0, sizeof(k.name));
	k.name[0] = 'x';
	memset(k.text, 'x', sizeof(k.text));
	CHECK_ERR(CALL(m.fd, KERNEL_PUBLISH, &k), EINVAL);

	snprintf(name, sizeof(name), "publishing-%d", getpid());
	id = kernel_publish(&m, name, &sig);
	CHECK(id);
	CHECK_EQ(kernel_publish(&m, name, &sig), id);
	snprintf(l.name, sizeof(l.name), "%s", name);
	CHECK_OK(CALL(m.fd, KERNEL_LOOKUP, &l));
	CHECK_EQ(l.id, id);
	CHECK_EQ(l.kinds, 1);
	CHECK_OK(memcmp(&l.sig, &sig, sizeof(sig)));
	/* By its id; and another signature is another kernel. */
	memset(l.name, 0, sizeof(l.name));
	CHECK_OK(CALL(m.fd, KERNEL_LOOKUP, &l));
	CHECK_EQ(l.id, id);
	CHECK_OK(strcmp(l.name, name));
	sig.arg_len = 12;
	CHECK(kernel_publish(&m, name, &sig) != id);
	mediator_close(&m);
	/* Kernels and devices outlive a mediator. */
	mediator_open(&m, 0);
	CHECK_OK(CALL(m.fd, KERNEL_LOOKUP, &l));
	CHECK(l.id != id);
	mediator_close(&m);
}

KTEST(limits_and_queries)
{
	struct arax_context x = { .size = sizeof(x) };
	struct arax_tenant t = { .size = sizeof(t), .cgroup_fd = -1 };
	int ctl = open_node("/dev/arax-ctl"), cg = cgroup_new("fields"), pipe = pipe_end();
	struct client c;

	client_open(&c, 4, 128, 0);
#define LIMIT(err, ...) BAD(ctl, LIMIT_SET, arax_limit, err, __VA_ARGS__)
	LIMIT(EINVAL, .cgroup_fd = cg, .pad = 1);
	LIMIT(EOPNOTSUPP, .cgroup_fd = cg, .what = ARAX_RES_MAX);
	LIMIT(EOPNOTSUPP, .cgroup_fd = cg, .what = 0x102);
	LIMIT(EOPNOTSUPP, .cgroup_fd = cg, .what = ~0u);
	LIMIT(EINVAL, .cgroup_fd = cg, .what = ARAX_SET_WEIGHT, .value = 0);
	LIMIT(EINVAL, .cgroup_fd = cg, .what = ARAX_SET_WEIGHT, .value = 10001);
	LIMIT(EINVAL, .cgroup_fd = cg, .what = ARAX_SET_WEIGHT, .value = 1, .period_ns = 1);
	LIMIT(EINVAL, .cgroup_fd = cg, .what = ARAX_SET_DEVICE_TIME, .value = 1);
	LIMIT(EINVAL, .cgroup_fd = cg, .what = ARAX_RES_MEMORY, .value = 1, .period_ns = 1);
	LIMIT(EBADF, .cgroup_fd = -1, .value = 1);
	LIMIT(EBADF, .cgroup_fd = pipe, .value = 1);
	BAD(ctl, TENANT_QUERY, arax_tenant, EBADF, .cgroup_fd = pipe);
	BAD(ctl, TENANT_QUERY, arax_tenant, ENOENT, .cgroup_fd = -1, .id = ~0ull);
	BAD(ctl, CONTEXT_QUERY, arax_context, ENOENT, .id = ~0u);
	BAD(ctl, CONTEXT_KILL, arax_kill, ENOENT, .context = ~0u);

	/* What was set is what is read, and is forgotten when set back. */
	CHECK_OK(limit_set(ctl, cg, ARAX_SET_WEIGHT, 500));
	CHECK_OK(CALL(ctl, LIMIT_SET,
		      (&(struct arax_limit) { .size = sizeof(struct arax_limit), .cgroup_fd = cg,
					      .what = ARAX_SET_DEVICE_TIME, .value = 10,
					      .period_ns = 100 })));
	CHECK_OK(limit_set(ctl, cg, ARAX_RES_CONTEXTS, 3));
	t = tenant_query(ctl, cg);
	CHECK_EQ(t.usage.weight, 500);
	CHECK_EQ(t.usage.max_ns, 10);
	CHECK_EQ(t.usage.period_ns, 100);
	CHECK_EQ(t.usage.counters[ARAX_RES_CONTEXTS].max, 3);
	CHECK_OK(strcmp(t.path, "/fields"));
	CHECK(t.parent);
	CHECK_OK(limit_set(ctl, cg, ARAX_SET_WEIGHT, 100));
	CHECK_OK(limit_set(ctl, cg, ARAX_SET_DEVICE_TIME, ARAX_LIMIT_MAX));
	CHECK_OK(limit_set(ctl, cg, ARAX_RES_CONTEXTS, ARAX_LIMIT_MAX));
	t.cgroup_fd = -1;
	CHECK(CALL(ctl, TENANT_QUERY, (&(struct arax_tenant) { .size = sizeof(t),
		.cgroup_fd = -1, .id = t.id })) == -ENOENT || t.id);

	x.id = c.init.context;
	queue_new(&c, 0);
	timeline_new(&c, 0);
	buffer_new(&c, PAGE);
	CHECK_OK(CALL(ctl, CONTEXT_QUERY, &x));
	CHECK_EQ(x.id, c.init.context);
	CHECK_EQ(x.pid, getpid());
	CHECK_EQ(x.uid, 0);
	CHECK_EQ(x.nr_queues, 1);
	CHECK_EQ(x.nr_buffers, 1);
	CHECK_EQ(x.nr_timelines, 1);
	CHECK_EQ(x.depth, 4);
	CHECK_EQ(x.flags, 0);
	CHECK_EQ(x.usage.counters[ARAX_RES_MEMORY].used, c.init.region_size + PAGE);
	client_close(&c);
	cgroup_remove("fields");
}
