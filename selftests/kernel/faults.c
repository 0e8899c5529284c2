// SPDX-License-Identifier: MIT
/* Faults that last as long as whoever serves them likes: who waits for them, and who does not. */
#include "ktest.h"

#include <linux/fuse.h>
#include <pthread.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/stat.h>

#define SERVED	"/tmp/served"

/* ------------------------------------------------------------------ */
/* A file system of one file, its root, that never answers to reads    */

static struct meet mounted, asked;

static void answer(int fd, uint64_t unique, const void *what, size_t bytes)
{
	uint8_t buf[256] = { 0 };
	struct fuse_out_header h = { .len = (uint32_t)(sizeof(h) + bytes), .unique = unique };

	CHECK(h.len <= sizeof(buf));
	memcpy(buf, &h, sizeof(h));
	if (bytes)
		memcpy(buf + sizeof(h), what, bytes);
	CHECK_EQ(write(fd, buf, h.len), h.len);
}

static void serve(int fd, const struct fuse_in_header *in)
{
	struct fuse_init_out init = { .major = FUSE_KERNEL_VERSION, .minor = 31,
				      .max_write = PAGE };
	struct fuse_attr_out attr = { .attr = { .ino = FUSE_ROOT_ID, .size = PAGE, .nlink = 1,
						.mode = S_IFREG | 0444 } };
	struct fuse_open_out open_out = { 0 };

	switch (in->opcode) {
	case FUSE_INIT:
		answer(fd, in->unique, &init, sizeof(init));
		break;
	case FUSE_GETATTR:
		answer(fd, in->unique, &attr, sizeof(attr));
		break;
	case FUSE_OPEN:
		answer(fd, in->unique, &open_out, sizeof(open_out));
		break;
	case FUSE_READ:
		meet_say(&asked);
		break;
	default:
		answer(fd, in->unique, NULL, 0);
	}
}

static int server(void *arg)
{
	static uint8_t buf[1 << 17] __attribute__((aligned(8)));
	int fd = open("/dev/fuse", O_RDWR | O_CLOEXEC);
	char options[128];

	CHECK(fd >= 0);
	snprintf(options, sizeof(options), "fd=%d,rootmode=100444,user_id=0,group_id=0", fd);
	CHECK_SYS(mount("served", SERVED, "fuse", MS_NOSUID | MS_NODEV, options));
	meet_say(&mounted);
	/* Until it is unmounted, or killed. */
	while (read(fd, buf, sizeof(buf)) > 0)
		serve(fd, (const void *)buf);
	return 0;
}

static pid_t fuse_start(void)
{
	int fd = open(SERVED, O_CREAT | O_RDWR | O_CLOEXEC, 0600);
	pid_t pid;

	CHECK(fd >= 0);
	close(fd);
	if (access("/dev/fuse", F_OK))
		tap_skip("this kernel has no FUSE");
	meet_init(&mounted);
	meet_init(&asked);
	pid = child_run(server, NULL);
	meet_hear(&mounted);
	return pid;
}

static void fuse_end(pid_t pid)
{
	kill(pid, SIGKILL);
	CHECK_EQ(child_wait(pid), 1000 + SIGKILL);
	CHECK_SYS(umount2(SERVED, MNT_DETACH));
}

/* ------------------------------------------------------------------ */

/* A page of the file, that faults for ever. */
static void *fuse_map(void)
{
	int fd = open(SERVED, O_RDONLY | O_CLOEXEC);
	struct stat st;
	void *at;

	CHECK(fd >= 0);
	/* Which tells the kernel its size. */
	CHECK_SYS(fstat(fd, &st));
	CHECK_EQ(st.st_size, PAGE);
	at = mmap(NULL, PAGE, PROT_READ, MAP_PRIVATE, fd, 0);
	CHECK(at != MAP_FAILED);
	close(fd);
	return at;
}

/* By its descriptor: such a fault holds the lock of the address space for as long as it takes. */
static void *reads_what_is_served(void *at)
{
	int fd = open("/proc/self/mem", O_RDONLY | O_CLOEXEC);
	char byte;

	if (fd >= 0 && pread(fd, &byte, 1, (off_t)(uintptr_t)at) < 0)
		close(fd);
	return NULL;
}

KTEST(a_memfd_is_destroyed_beside_a_fault_that_lasts)
{
	struct arax_buffer_import i;
	pid_t pid = fuse_start();
	pthread_t reader;
	struct client c;
	int memfd;
	void *at;

	client_open(&c, 4, 128, 0);
	memfd = memfd_sealed(4 * PAGE, F_SEAL_SHRINK);
	CHECK_OK(buffer_import(&c, ARAX_IMPORT_MEMFD, memfd, &i));
	at = fuse_map();
	CHECK_OK(pthread_create(&reader, NULL, reads_what_is_served, at));
	meet_hear(&asked);
	CHECK_OK(buffer_destroy(&c, i.handle));
	/* It can be sealed again: nothing of ours counts as a mapping. */
	CHECK_SYS(fcntl(memfd, F_ADD_SEALS, F_SEAL_WRITE));
	fuse_end(pid);
	CHECK_OK(pthread_join(reader, NULL));
	client_close(&c);
}

static struct meet ready;

/* Which takes the file's lock first. */
static int writes_what_is_served(void *memfd)
{
	return pwrite(*(int *)memfd, fuse_map(), PAGE, 0) == PAGE;
}

static int imports(void *memfd)
{
	struct arax_buffer_import i;
	struct client c;

	client_open(&c, 4, 128, 0);
	meet_say(&ready);
	return buffer_import(&c, ARAX_IMPORT_MEMFD, *(int *)memfd, &i);
}

/* In a sleep that no signal but a deadly one ends. */
static bool waits(pid_t pid)
{
	char path[64], text[256] = "";
	const char *state;
	int fd;

	snprintf(path, sizeof(path), "/proc/%d/stat", (int)pid);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	CHECK(fd >= 0);
	CHECK(read(fd, text, sizeof(text) - 1) > 0);
	close(fd);
	state = strrchr(text, ')');
	return state && state[2] == 'D';
}

KTEST(who_imports_a_memfd_that_is_written_to_can_be_killed)
{
	pid_t server = fuse_start(), writer, importer;
	int memfd = memfd_sealed(PAGE, F_SEAL_SHRINK);

	meet_init(&ready);
	writer = child_run(writes_what_is_served, &memfd);
	meet_hear(&asked);
	importer = child_run(imports, &memfd);
	meet_hear(&ready);
	CHECK(COMES(waits(importer)));
	kill(importer, SIGKILL);
	CHECK_EQ(child_wait(importer), 1000 + SIGKILL);
	fuse_end(server);
	kill(writer, SIGKILL);
	child_wait(writer);
}

static uint64_t filled(int memfd)
{
	struct stat s;

	CHECK_SYS(fstat(memfd, &s));
	return (uint64_t)s.st_blocks * 512;
}

/* Which may take minutes, of a memfd of holes that is as large as the machine. */
KTEST(who_imports_a_memfd_of_holes_can_be_killed)
{
	const uint64_t bytes = 64ull << 20;
	int memfd = memfd_sealed(bytes, F_SEAL_SHRINK);
	pid_t importer;

	meet_init(&ready);
	importer = child_run(imports, &memfd);
	meet_hear(&ready);
	while (!filled(memfd))
		;
	kill(importer, SIGKILL);
	CHECK_EQ(child_wait(importer), 1000 + SIGKILL);
	CHECK(filled(memfd) < bytes);
	CHECK_SYS(close(memfd));
}
