// SPDX-License-Identifier: MIT
/* Who may: users, forked children, receivers of descriptors, openers without rights. */
#include "ktest.h"

#include <linux/capability.h>
#include <poll.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>

/* Everything but poll and close is refused to who is not the opener. */
static int stranger(int fd, uint32_t handle, uint64_t map_offset)
{
	struct pollfd p = { .fd = fd, .events = POLLIN };
	uint32_t arg[1024];
	unsigned int nr;

	for (nr = 0; nr < 0x80; nr++) {
		int err;

		memset(arg, 0, sizeof(arg));
		arg[0] = 16;
		err = call(fd, _IOC(3, ARAX_IOC_TYPE, nr, 0), arg);
		if (err != -EPERM && err != -ENOTTY) {
			printf("# call %#x: %d\n", nr, err);
			return 1;
		}
	}
	arg[0] = sizeof(struct arax_info);
	CHECK_ERR(call(fd, ARAX_IOC_INFO, arg), EPERM);
	CHECK_ERR(call(fd, ARAX_IOC_SUBMIT, (&(struct arax_submit) {
		.size = sizeof(struct arax_submit), .to_submit = 1 })), EPERM);
	CHECK_ERR(call(fd, ARAX_IOC_BUFFER_EXPORT, (&(struct arax_buffer_export) {
		.size = sizeof(struct arax_buffer_export), .handle = handle })), EPERM);
	CHECK_SYS_ERR((long)mmap(NULL, PAGE, PROT_READ, MAP_SHARED, fd, 0), EPERM);
	CHECK_SYS_ERR((long)mmap(NULL, PAGE, PROT_READ, MAP_SHARED, fd, (off_t)map_offset),
		      EPERM);
	CHECK_SYS(poll(&p, 1, 0));
	CHECK_SYS(close(fd));
	return 0;
}

static struct client c;
static struct arax_buffer_create b;

static int forked_child(void *arg)
{
	(void)arg;
	return stranger(c.fd, b.handle, b.map_offset);
}

KTEST(a_forked_child_has_no_context)
{
	client_open(&c, 4, 128, 0);
	b = buffer_new(&c, PAGE);
	CHECK_OK(child_wait(child_run(forked_child, NULL)));
	/* And did no harm. */
	CHECK_EQ(buffer_query(&c, b.handle).bytes, PAGE);
	client_close(&c);
}

static int touches_region(void *arg)
{
	(void)arg;
	return !faults(c.region, false);
}

KTEST(the_region_is_not_inherited)
{
	client_open(&c, 4, 128, 0);
	CHECK_OK(child_wait(child_run(touches_region, NULL)));
	CHECK(!faults(c.region, true));
	client_close(&c);
}

static int sockets[2];

static int receiver(void *arg)
{
	(void)arg;
	become(USER1);
	return stranger(fd_receive(sockets[1]), 0, 0);
}

KTEST(a_receiver_of_the_descriptor_has_no_context)
{
	pid_t pid;

	CHECK_SYS(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, sockets));
	pid = child_run(receiver, NULL);
	client_open(&c, 4, 128, 0);
	fd_send(sockets[0], c.fd);
	CHECK_OK(child_wait(pid));
	client_close(&c);
}

/* After an exec the memory is another's. */
__attribute__((constructor)) static void after_exec(void)
{
	const char *fd = getenv("KTEST_EXEC_FD");

	if (fd)
		_exit(stranger(atoi(fd), 1, PAGE));
}

static int execs(void *arg)
{
	char text[16];

	(void)arg;
	client_open(&c, 4, 128, 0);
	CHECK_SYS(fcntl(c.fd, F_SETFD, 0));
	snprintf(text, sizeof(text), "%d", c.fd);
	setenv("KTEST_EXEC_FD", text, 1);
	execl("/proc/self/exe", "access", NULL);
	return 1;
}

KTEST(the_image_after_an_exec_has_no_context)
{
	CHECK_OK(child_wait(child_run(execs, NULL)));
}

/* The file goes on by its other holders; what it held does with the last. */
static struct meet ready, go;

static int holds(void *arg)
{
	(void)arg;
	meet_say(&ready);
	meet_hear(&go);
	return 0;
}

KTEST(a_context_lives_as_long_as_its_file)
{
	struct client watch;
	uint64_t base;
	pid_t pid;

	meet_init(&ready);
	meet_init(&go);
	client_open(&watch, 4, 128, 0);
	base = usage(&watch, ARAX_USAGE_TENANT).counters[ARAX_RES_CONTEXTS].used;
	client_open(&c, 4, 128, 0);
	pid = child_run(holds, NULL);
	meet_hear(&ready);
	client_close(&c);
	CHECK_EQ(usage(&watch, ARAX_USAGE_TENANT).counters[ARAX_RES_CONTEXTS].used, base + 1);
	meet_say(&go);
	CHECK_OK(child_wait(pid));
	while (usage(&watch, ARAX_USAGE_TENANT).counters[ARAX_RES_CONTEXTS].used != base)
		sleep_ms(1);
	client_close(&watch);
}

/* ------------------------------------------------------------------ */
/* Users                                                               */

static int other_user(void *arg)
{
	struct arax_buffer_create *theirs = arg, ours;
	struct client x;

	become(USER2);
	client_open(&x, 4, 128, 0);
	/* The same handle means nothing here, or something of ours. */
	CHECK_ERR(CALL(x.fd, BUFFER_QUERY, (&(struct arax_buffer_query) {
		.size = sizeof(struct arax_buffer_query), .handle = theirs->handle })), EBADF);
	CHECK_ERR(buffer_export(&x, theirs->handle, ARAX_EXPORT_ARAX), EBADF);
	CHECK_ERR(buffer_destroy(&x, theirs->handle), EBADF);
	CHECK_SYS_ERR((long)mmap(NULL, PAGE, PROT_READ, MAP_SHARED, x.fd,
				 (off_t)theirs->map_offset), EINVAL);
	client_marker(&x, 1 << 20 | 2, 1, 0);		/* their queue's handle */
	CHECK_EQ(client_wait(&x).result, -EBADF);
	ours = buffer_new(&x, PAGE);
	CHECK_EQ(ours.handle, theirs->handle);
	CHECK_EQ(*(uint8_t *)buffer_map(&x, &ours), 0);
	CHECK_ERR(open_node("/dev/arax-ctl"), EACCES);
	client_close(&x);
	return 0;
}

static int first_user(void *arg)
{
	struct arax_buffer_create mine;
	struct client x;
	uint8_t *p;

	(void)arg;
	become(USER1);
	client_open(&x, 4, 128, 0);
	mine = buffer_new(&x, PAGE);
	queue_new(&x, 0);
	p = buffer_map(&x, &mine);
	*p = 77;
	meet_say(&ready);
	meet_hear(&go);
	CHECK_EQ(*p, 77);
	client_close(&x);
	return 0;
}

KTEST(users_can_not_reach_each_others_handles)
{
	struct arax_buffer_create theirs;
	pid_t pid;

	/* The first buffer of any context has the same name. */
	client_open(&c, 4, 128, 0);
	theirs = buffer_new(&c, PAGE);
	client_close(&c);
	meet_init(&ready);
	meet_init(&go);
	pid = child_run(first_user, NULL);
	meet_hear(&ready);
	CHECK_OK(child_wait(child_run(other_user, &theirs)));
	meet_say(&go);
	CHECK_OK(child_wait(pid));
}

static int opens(void *arg)
{
	become(USER1);
	return open(arg, O_RDWR | O_CLOEXEC) < 0 ? errno : 0;
}

KTEST(nodes_have_their_modes)
{
	struct stat st;

	CHECK_SYS(stat("/dev/arax", &st));
	CHECK_EQ(st.st_mode, S_IFCHR | 0666);
	CHECK_SYS(stat("/dev/arax-ctl", &st));
	CHECK_EQ(st.st_mode, S_IFCHR | 0600);
	CHECK_EQ(child_wait(child_run(opens, "/dev/arax")), 0);
	CHECK_EQ(child_wait(child_run(opens, "/dev/arax-ctl")), EACCES);
}

/* ------------------------------------------------------------------ */
/* The mediator's seat                                                 */

static void drop_capabilities(void)
{
	struct __user_cap_header_struct h = { _LINUX_CAPABILITY_VERSION_3, 0 };
	struct __user_cap_data_struct d[2] = { { 0, 0, 0 } };

	CHECK_SYS(syscall(SYS_capset, &h, d));
}

KTEST(attach_asks_for_the_openers_rights)
{
	struct arax_attach a = { .size = sizeof(a) };
	int before = open_node("/dev/arax-ctl"), after;

	drop_capabilities();
	/* uid 0 may still open it, that is all. */
	after = open_node("/dev/arax-ctl");
	CHECK(after >= 0);
	CHECK_ERR(CALL(after, ATTACH, &a), EPERM);
	CHECK_OK(CALL(before, ATTACH, &a));
	close(before);
}

static int receives_and_attaches(void *arg)
{
	struct arax_attach a = { .size = sizeof(a) };
	int fd;

	(void)arg;
	fd = open_node("/dev/arax-ctl");
	CHECK(fd >= 0);
	fd_send(sockets[1], fd);
	meet_hear(&go);
	/* The seat is the other's. */
	CHECK_ERR(CALL(fd, ATTACH, &a), EBUSY);
	CHECK_ERR(CALL(fd, FETCH, (&(struct arax_fetch) {
		.size = sizeof(struct arax_fetch) })), EPERM);
	CHECK_SYS_ERR((long)mmap(NULL, PAGE, PROT_READ, MAP_SHARED, fd, 0), EPERM);
	return 0;
}

KTEST(the_seat_is_the_process_that_attached)
{
	struct arax_attach a = { .size = sizeof(a) };
	pid_t pid;
	int fd;

	meet_init(&go);
	CHECK_SYS(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, sockets));
	pid = child_run(receives_and_attaches, NULL);
	fd = fd_receive(sockets[0]);
	CHECK_OK(CALL(fd, ATTACH, &a));
	meet_say(&go);
	CHECK_OK(child_wait(pid));
	close(fd);
}

static struct mediator m;

static int uses_the_seat(void *arg)
{
	struct arax_commit co = { .size = sizeof(co), .count = 1 };

	(void)arg;
	CHECK_ERR(CALL(m.fd, COMMIT, &co), EPERM);
	CHECK_ERR(CALL(m.fd, ATTACH, (&(struct arax_attach) {
		.size = sizeof(struct arax_attach) })), EBUSY);
	CHECK_SYS_ERR((long)mmap(NULL, PAGE, PROT_READ, MAP_SHARED, m.fd, 0), EPERM);
	/* Nor does it have the maps. */
	CHECK(faults((void *)(uintptr_t)m.ring, false));
	CHECK(faults(m.shared, false));
	return 0;
}

KTEST(a_mediators_child_has_no_seat)
{
	mediator_open(&m, 0);
	CHECK_OK(child_wait(child_run(uses_the_seat, NULL)));
	CHECK_OK(CALL(m.fd, FETCH, (&(struct arax_fetch) { .size = sizeof(struct arax_fetch) })));
	mediator_close(&m);
}

static int attaches(void *arg)
{
	struct mediator other;

	(void)arg;
	CHECK_ERR(mediator_try(&other, 0), EBUSY);
	CHECK_ERR(mediator_try(&other, ARAX_ATTACH_RECOVER), EBUSY);
	return 0;
}

KTEST(the_seat_is_taken_once)
{
	mediator_open(&m, 0);
	CHECK_OK(child_wait(child_run(attaches, NULL)));
	mediator_close(&m);
}

KTEST(the_dispatch_ring_is_read_only)
{
	uint8_t *ring, byte = 1;
	int mem;

	mediator_open(&m, 0);
	ring = (uint8_t *)(uintptr_t)m.ring;
	CHECK_SYS_ERR((long)mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, m.fd, 0), EPERM);
	CHECK_SYS_ERR((long)mmap(NULL, PAGE, PROT_WRITE, MAP_SHARED, m.fd, 0), EPERM);
	CHECK_SYS_ERR((long)mmap(NULL, PAGE, PROT_READ, MAP_PRIVATE, m.fd, 0), EINVAL);
	CHECK_SYS_ERR(mprotect(ring, PAGE, PROT_READ | PROT_WRITE), EACCES);
	CHECK_SYS_ERR(mprotect(ring, m.at.dispatch_bytes, PROT_WRITE), EACCES);
	CHECK(faults(ring, true));
	/* A debugger's way of writing. */
	mem = open("/proc/self/mem", O_RDWR | O_CLOEXEC);
	CHECK(mem >= 0);
	CHECK(pwrite(mem, &byte, 1, (off_t)(uintptr_t)ring) < 0);
	/* Not beyond either end, and the other region not as this one. */
	CHECK_SYS_ERR((long)mmap(NULL, m.at.dispatch_bytes + PAGE, PROT_READ, MAP_SHARED, m.fd, 0),
		      EINVAL);
	CHECK_SYS_ERR((long)mmap(NULL, m.at.shared_bytes + PAGE, PROT_READ, MAP_SHARED, m.fd,
				 (off_t)m.at.shared_offset), EINVAL);
	CHECK_SYS_ERR((long)mmap(NULL, PAGE, PROT_READ, MAP_SHARED, m.fd,
				 (off_t)(m.at.shared_offset + m.at.shared_bytes)), EINVAL);
	CHECK_SYS_ERR((long)mremap(ring, m.at.dispatch_bytes, m.at.dispatch_bytes + PAGE,
				   MREMAP_MAYMOVE), EFAULT);
	mediator_close(&m);
}

/* Its memory goes with its last map, not with the seat. */
KTEST(maps_outlive_the_seat)
{
	mediator_open(&m, 0);
	m.states[5] = 42;
	CHECK_SYS(close(m.fd));
	CHECK_EQ(m.states[5], 42);
	CHECK(!faults((void *)(uintptr_t)m.ring, false));
	munmap((void *)(uintptr_t)m.ring, m.at.dispatch_bytes);
	munmap(m.shared, m.at.shared_bytes);
}
