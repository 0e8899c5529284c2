/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What the files of the kernel's half tell each other.
 *
 * LOCKS, outermost first
 *
 *   arax_client->calls  (mutex) calls that change which buffers the client can
 *                       map: the core's handle and the entry in ->maps change
 *                       as one; ->removed.  Held over creation, never over
 *                       copy_*_user.
 *   arax->seat          (rwsem) who is the mediator.  mmap of the mediator's
 *                       node takes it under mmap_lock, so nothing that faults
 *                       on user memory may run under it.
 *   core's own          see core/core.h.
 *   maps.xa_lock, the lists' of frames and of clients, arax_signals.lock, wait queues' locks:
 *                       innermost.
 *
 *   mmap of the clients' node takes only maps.xa_lock.
 */
#ifndef ARAX_KMOD_MODULE_H
#define ARAX_KMOD_MODULE_H

#include <linux/file.h>
#include <linux/fs.h>
#include <linux/mutex.h>
#include <linux/poll.h>
#include <linux/rwsem.h>
#include <linux/sched.h>
#include <linux/spinlock.h>
#include <linux/wait.h>
#include <linux/workqueue.h>
#include <linux/xarray.h>

#include "core/core.h"

struct arax_ctl;
struct arax_signals;

/* ------------------------------------------------------------------ */
/* main.c                                                              */

/* The one of its kind. */
struct arax {
	struct core *core;

	wait_queue_head_t mediator_wait;	/* sleepers in fetch and poll */
	/* The next block.  Written by each commit: not on a line that submissions read. */
	struct rw_semaphore seat ____cacheline_aligned_in_smp;
	struct arax_ctl *ctl;			/* attached, or NULL */
	struct list_head ghosts;		/* mediators that have not wholly gone */
	struct delayed_work watch;		/* looks after the ghosts */
	struct delayed_work expire;		/* ends the wait for the next one */

	/*
	 * Of who waits in numbers of its own choice, a work to each context.  Apart, so
	 * that no wake-up has to wait for a worker until eventfds are signalled.
	 */
	struct workqueue_struct *wakes;		/* arax_client.wake */
	struct workqueue_struct *events;	/* arax_signals.work */
	struct workqueue_struct *graves;	/* arax_buffer.bury, clients and their memory */
	struct workqueue_struct *ends;		/* arax_buffer.end: some never end */

	spinlock_t ended_lock;			/* the next one */
	struct clist ended;			/* clients that nothing refers to, until core_client_free() */
	struct work_struct end_clients;
};

extern struct arax arax;
extern const struct core_ops arax_core_ops;
extern unsigned int arax_recovery_ms;

/* ------------------------------------------------------------------ */
/* frame.c: what a call leaves for its caller while the core is between */

/**
 * struct arax_frame - a running call
 * @args:	the copied struct
 * @file, @fd:	a descriptor that the call made; it is installed only after the
 *		struct was copied back, so that a bad address leaks nothing
 * @buffer:	the buffer that the call made or found
 */
struct arax_frame {
	struct hlist_node node;
	struct task_struct *task;
	struct file *file;
	int fd;
	struct arax_buffer *buffer;
	union core_args args;
};

void arax_frames_init(void);
void arax_frames_exit(void);
void arax_frame_init(struct arax_frame *f);
/* Around the call itself: where it waits for others, or for user memory, it is not found. */
void arax_frame_begin(struct arax_frame *f);
void arax_frame_end(struct arax_frame *f);
/* Of the calling task, which must be in a call; never fails there. */
struct arax_frame *arax_frame_current(void);
/* Takes over the caller's reference of @file, also on error; fd or -errno. */
int arax_frame_publish(struct file *file);
/* Installs what was published, or drops it if @err. */
void arax_frame_settle(struct arax_frame *f, int err);

/* ------------------------------------------------------------------ */
/* ioctl.c                                                             */

long arax_client_ioctl(struct file *file, unsigned int cmd, unsigned long arg);
long arax_ctl_ioctl(struct file *file, unsigned int cmd, unsigned long arg);

/* ------------------------------------------------------------------ */
/* wait.c                                                              */

/* A sleep with an absolute deadline. */
struct arax_sleep {
	struct wait_queue_head *queue;
	struct wait_queue_entry entry;
	ktime_t expires;
	ktime_t *deadline;	/* NULL: none */
	int err;		/* why to sleep no more: -ETIMEDOUT or -EINTR */
};

/* @deadline_ns: CLOCK_MONOTONIC, ARAX_DEADLINE_NONE for none. */
void arax_sleep_begin(struct arax_sleep *s, struct wait_queue_head *queue, u64 deadline_ns);
/* Sleeps unless it was woken since the last call; sets @err. */
void arax_sleep(struct arax_sleep *s);
void arax_sleep_end(struct arax_sleep *s);

/* ------------------------------------------------------------------ */
/* client.c                                                            */

/* An open file of /dev/arax. */
struct arax_client {
	struct core_client *core;
	struct mm_struct *mm;		/* the opener's, mm_count held */
	struct arax_signals *signals;	/* of its eventfds; reference held */
	wait_queue_head_t wait;		/* calls that sleep, for completions */
	wait_queue_head_t points;	/* and for points of timelines */
	atomic_t wakes;			/* CORE_WAKE_*, for @wake to do */
	atomic_t asleep;		/* how many */
	wait_queue_head_t polled;	/* pollers, of any number */
	struct work_struct wake;	/* of those, and of very many calls */
	struct mutex calls;		/* see LOCKS */
	struct xarray maps;		/* page offset -> struct arax_map */
	struct list_head removed;	/* arax_map.node: of memfds, that mmap() may still have */
};

/* What can be mapped at a page offset: 0 the region, else a buffer's handle. */
struct arax_map {
	struct file *file;		/* reference held */
	u64 bytes;
	bool ring;
	bool dmabuf;
	bool memfd;
	struct list_head node;		/* ->removed */
};

extern const struct file_operations arax_client_fops;

/* Is the calling task one of the process that opened the file? */
bool arax_client_mine(const struct arax_client *ac);
int arax_client_init(struct arax_client *ac, const struct core_call *call,
		     union core_args *a);
int arax_client_submit(struct arax_client *ac, struct arax_submit *a);
int arax_client_wait(struct arax_client *ac, struct arax_wait *a);
int arax_client_map_add(struct arax_client *ac, unsigned long index, struct arax_buffer *ab,
			bool ring);
void arax_client_map_remove(struct arax_client *ac, unsigned long index);
void arax_client_wake(struct core_client *c, u32 what);
void arax_client_memory_free(const struct core_client *c, void *mem);
void arax_client_end(struct core_client *c);
void arax_clients_init(void);

/* ------------------------------------------------------------------ */
/* pages.c: shmem files whose owner is this module                     */

int arax_pages_init(void);
/* Before any file is made for a caller: -ENOMEM if its cgroup has no room for one. */
int arax_file_room(void);
/*
 * A sealed file of @bytes with all its pages, charged to the caller's memory
 * cgroup.  @pages, if not NULL, has room for each and gets references.
 * When the file's last reference goes, @buffer (if not NULL) is released by
 * arax_buffer_released().
 */
struct file *arax_pages_create(const char *name, u64 bytes, struct page **pages);
void arax_pages_set_owner(struct file *file, struct arax_buffer *ab);
struct arax_buffer *arax_pages_owner(struct file *file);
/* Is it one of ours?  Is it any shmem file that is not ours? */
bool arax_pages_is(struct file *file);
bool arax_pages_is_memfd(struct file *file);
u64 arax_pages_surplus(struct file *file, u64 bytes);
/* References to all pages, which are there; -ESTALE if they were taken away. */
int arax_pages_get(struct file *file, struct page **pages, unsigned long nr);
/*
 * The same of a file that may have holes, which are filled, until a deadly signal comes (-EINTR).
 * @pages NULL: only that.
 */
int arax_pages_make(struct file *file, struct page **pages, unsigned long nr);
void arax_pages_put(struct page **pages, unsigned long nr);
/* Every later access faults with SIGBUS. */
void arax_pages_revoke(struct file *file);
/* Drops the caller's reference; the pages are free when this returns. */
void arax_pages_discard(struct file *file);

/* Is what takes long, and is that process' doing, in its own time here?  Also as it exits. */
static inline bool arax_own_time(pid_t tgid)
{
	return !(current->flags & PF_KTHREAD) && task_tgid_nr(current) == tgid;
}

/*
 * As fput(), with no lock held.  On a kernel thread that would leave the file's end to the one
 * thread that there is for all of the kernel's, and it may take long.
 */
static inline void arax_file_put(struct file *file)
{
	if (current->flags & PF_KTHREAD)
		__fput_sync(file);
	else
		fput(file);
}

/* ------------------------------------------------------------------ */
/* buffer.c                                                            */

enum arax_backing {
	ARAX_BACKING_PAGES,	/* ours */
	ARAX_BACKING_MEMFD,	/* the file's, pinned */
	ARAX_BACKING_DMABUF,
	ARAX_BACKING_USER,	/* pages of the client, pinned */
};

/*
 * The link's half of a core_buffer.  @file holds the pages, and is what the mediator gets;
 * its last reference ends the buffer.
 */
struct arax_buffer {
	struct core_buffer *core;
	enum arax_backing backing;
	struct file *file;
	struct file *origin;	/* a memfd, a dma-buf: what clients map; reference held.  Or NULL */
	struct page **pins;	/* of the whole buffer, in order */
	unsigned long nr_pins;
	pid_t tgid;		/* of whoever made it */
	struct work_struct bury;
	/* Of a dma-buf, see imports.c */
	struct work_struct end;
	struct hlist_node ending;
	struct list_head behind;
};

int arax_buffer_alloc(struct core_buffer *buf, const char *name, struct page **pages);
/* Undoes it where the core never learnt of it. */
void arax_buffer_discard(struct core_buffer *buf);
void arax_buffer_released(struct arax_buffer *ab);
int arax_buffer_create(struct core_client *c, struct core_buffer *buf,
		       struct arax_buffer_create *arg);
int arax_buffer_inspect(struct core_client *c, struct arax_buffer_import *arg,
			struct core_buffer **existing);
int arax_buffer_import(struct core_client *c, struct core_buffer *buf,
		       struct arax_buffer_import *arg);
int arax_buffer_export(struct core_client *c, struct core_buffer *buf,
		       struct arax_buffer_export *arg);
void arax_buffer_idle(struct core_buffer *buf);
void arax_buffer_revoke(struct core_buffer *buf);
int arax_buffer_get(struct core_buffer *buf, struct arax_buffer_get *arg);

/* ------------------------------------------------------------------ */
/* dmabuf.c: -EOPNOTSUPP, ARAX_DMABUF 0 where the kernel has none      */

#define ARAX_DMABUF	IS_ENABLED(CONFIG_DMA_SHARED_BUFFER)

struct dma_buf;

struct file *arax_dmabuf_export(struct arax_buffer *ab);
bool arax_dmabuf_is_own(const struct dma_buf *dmabuf);
/* Of one that is: its buffer, and with a reference that buffer's file. */
struct arax_buffer *arax_dmabuf_home(const struct dma_buf *dmabuf, struct file **file);

/* ------------------------------------------------------------------ */
/* imports.c: the same                                                 */

/* Sets *@own if the descriptor is one of our exports, else *@bytes. */
int arax_dmabuf_inspect(int fd, struct arax_buffer **own, struct file **own_file, u64 *bytes);
int arax_dmabuf_import(struct arax_buffer *ab, int fd, u64 bytes);
int arax_dmabuf_mmap(struct file *file, struct vm_area_struct *vma);

/* ------------------------------------------------------------------ */
/* pins.c                                                              */

/* A file as ab->file whose mappings are of ab->pins; its end is the buffer's. */
int arax_pins_file(struct arax_buffer *ab, const char *name);

/* ------------------------------------------------------------------ */
/* memfd.c                                                             */

int arax_memfd_inspect(int fd, u64 *bytes);
int arax_memfd_import(struct arax_buffer *ab, int fd, u64 bytes);
/* What its seals say to a mapping that is to be. */
int arax_memfd_check_map(struct file *file, struct vm_area_struct *vma);
/* When ab->file has gone, as the next. */
void arax_memfd_release(struct arax_buffer *ab);

/* ------------------------------------------------------------------ */
/* user.c                                                              */

/* Of the calling process. */
int arax_user_import(struct arax_buffer *ab, u64 address, u64 bytes);
void arax_user_release(struct arax_buffer *ab);

/* ------------------------------------------------------------------ */
/* ring.c                                                              */

int arax_ring_alloc(struct core_client *c, struct arax_context_init *init, u32 bytes);
void arax_ring_free(struct core_client *c);

/* ------------------------------------------------------------------ */
/* timeline.c                                                          */

/* Of the calling process; NULL: no memory. */
struct arax_signals *arax_signals_new(void);
void arax_signals_put(struct arax_signals *s);
void *arax_event_get(struct core_client *c, int fd, int *err);
void arax_event_end(void *event, bool fired);
int arax_timeline_export(struct core_client *c, struct core_timeline *tl);
struct core_timeline *arax_timeline_import(struct core_client *c, int fd, int *err);

/* ------------------------------------------------------------------ */
/* tenant.c                                                            */

/* Of the calling task's cgroup; reference taken.  Takes core->lock. */
int arax_tenant_current(struct core *core, struct core_tenant **out);
int arax_tenant_by_fd(struct core *core, int fd, bool itself, struct core_tenant **out);
bool arax_tenant_gone(struct core *core, const struct core_tenant *t);
void arax_tenant_free(struct core *core, struct core_tenant *t);

/* ------------------------------------------------------------------ */
/* mediator.c                                                          */

extern const struct file_operations arax_ctl_fops;

void arax_mediator_init(void);
/* No file of either node is open. */
void arax_mediator_exit(void);
/* May the calling task make the attached mediator's calls on this file? */
int arax_mediator_check(struct arax_ctl *ctl);
int arax_mediator_attach(struct arax_ctl *ctl, struct file *file, struct arax_attach *a);
int arax_mediator_fetch(struct arax_ctl *ctl, struct arax_fetch *a);
void arax_mediator_wake(struct core *core);
void arax_recovery_begin(struct core *core);
void *arax_mediator_alloc(struct core *core, size_t bytes, bool writable);
void arax_mediator_free(struct core *core, void *mem, bool writable);

#endif /* ARAX_KMOD_MODULE_H */
