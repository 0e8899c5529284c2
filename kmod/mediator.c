// SPDX-License-Identifier: GPL-2.0
/*
 * /dev/arax-ctl: the mediator's seat.
 *
 * One file at a time is attached, and bound to the process that attached it.
 * The seat is given up when the file is released, and also when that process closes
 * its last descriptor, or exits, while a child still has one: a worker can't hold it.  A process
 * that gave it up is a ghost until all its threads are dead, for its other
 * descriptors may be closed after ours while a device of its still writes.
 * Only then the core settles what it held; an ATTACH before that is EBUSY, unless
 * it takes over, or comes from the ghost itself, which thereby says that it has
 * stopped its devices.  A ghost that was taken over from keeps nobody out: only
 * what it held is held on.
 */
#include <linux/capability.h>
#include <linux/fdtable.h>
#include <linux/mm.h>
#include <linux/pid.h>
#include <linux/sched/mm.h>
#include <linux/sched/signal.h>
#include <linux/slab.h>
#include <linux/user_namespace.h>
#include <linux/vmalloc.h>

#include "compat.h"
#include "module.h"
#include "trace.h"

#define WATCH_MIN_MS	5	/* how often ghosts are looked at, at first */
#define WATCH_MAX_MS	500	/* and at last */

struct arax_ghost {
	struct list_head node;
	struct pid *tgid;
	u32 epoch;
};

/* An open file of the node; all by arax.seat. */
struct arax_ctl {
	struct arax_ghost *ghost;	/* what is left behind; NULL: not attached */
	struct mm_struct *mm;		/* the mediator's, mm_count held */
	bool replaced;			/* another one took over */
};

static unsigned int watch_ms;		/* arax.seat */

/* Runs the work so much later, and not when it was to run before. */
static void later(struct delayed_work *work, unsigned int ms)
{
	cancel_delayed_work(work);
	schedule_delayed_work(work, msecs_to_jiffies(ms));
}

/* ------------------------------------------------------------------ */
/* Ghosts                                                              */

/*
 * A thread's exit_state is set after its descriptors are closed and its
 * address space is gone; a zombie that nobody reaps is as good as gone.
 */
static bool process_gone(struct pid *tgid)
{
	struct task_struct *leader, *t;
	bool gone = true;

	rcu_read_lock();
	leader = pid_task(tgid, PIDTYPE_TGID);
	if (leader) {
		for_each_thread(leader, t)
			if (!READ_ONCE(t->exit_state))
				gone = false;
	}
	rcu_read_unlock();
	return gone;
}

static void ghost_free(struct arax_ghost *ghost)
{
	put_pid(ghost->tgid);
	kfree(ghost);
}

/* Settles what the ghosts that are gone have left, and @self's, each by itself. */
static void sweep_ghosts(struct pid *self)
{
	struct arax_ghost *ghost, *tmp;

	lockdep_assert_held_write(&arax.seat);
	list_for_each_entry_safe(ghost, tmp, &arax.ghosts, node) {
		if (ghost->tgid != self && !process_gone(ghost->tgid))
			continue;
		list_del(&ghost->node);
		if (core_mediator_gone(arax.core, ghost->epoch) && READ_ONCE(arax_recovery_ms))
			later(&arax.expire, READ_ONCE(arax_recovery_ms));
		ghost_free(ghost);
	}
}

static void watch_work(struct work_struct *work)
{
	down_write(&arax.seat);
	sweep_ghosts(NULL);
	if (!list_empty(&arax.ghosts)) {
		watch_ms = min(2 * watch_ms, WATCH_MAX_MS);
		later(&arax.watch, watch_ms);
	}
	up_write(&arax.seat);
}

/* Does nothing if somebody has attached meanwhile: the core looks itself. */
static void expire_work(struct work_struct *work)
{
	core_expire(arax.core);
}

/*
 * Tasks that come when the time after the last one's death is over have as much again,
 * from the first of them on.  Nothing is changed if it runs already: an attach, which
 * ends it, comes after this, for both have been under core->dispatch.
 */
void arax_recovery_begin(struct core *core)
{
	unsigned int ms = READ_ONCE(arax_recovery_ms);

	if (ms)
		schedule_delayed_work(&arax.expire, msecs_to_jiffies(ms));
}

/* ------------------------------------------------------------------ */
/* The seat                                                            */

static void leave_seat(struct arax_ctl *ctl)
{
	lockdep_assert_held_write(&arax.seat);
	trace_arax_detach(arax.core->epoch);
	core_detach(arax.core);
	arax.ctl = NULL;
	list_add_tail(&ctl->ghost->node, &arax.ghosts);
	ctl->ghost = NULL;
	mmdrop(ctl->mm);
	ctl->mm = NULL;
	watch_ms = WATCH_MIN_MS;
	later(&arax.watch, watch_ms);
	/* Who sleeps in fetch finds that the seat is not its own any more. */
	wake_up_poll(&arax.mediator_wait, EPOLLERR | EPOLLHUP);
}

int arax_mediator_check(struct arax_ctl *ctl)
{
	lockdep_assert_held(&arax.seat);
	if (ctl->replaced)
		return -ESTALE;
	return arax.ctl == ctl && current->mm == ctl->mm ? 0 : -EPERM;
}

static int attach(struct arax_ctl *ctl, struct arax_ghost *ghost, struct arax_attach *a)
{
	struct core_attachment at;
	int err;

	lockdep_assert_held_write(&arax.seat);
	if (arax.ctl == ctl)
		return -EBUSY;
	sweep_ghosts(ghost->tgid);
	err = core_attach_prepare(arax.core, a, &at);
	if (err)
		return err;
	/* It takes over, or this would have been EBUSY. */
	if (arax.ctl) {
		arax.ctl->replaced = true;
		leave_seat(arax.ctl);
	}
	err = core_attach_with(arax.core, a, &at);
	/* Who holds the seat holds all that could have changed in between. */
	if (WARN_ON_ONCE(err)) {
		core_attach_drop(arax.core, &at);
		return err;
	}
	cancel_delayed_work(&arax.expire);
	arax.ctl = ctl;
	ctl->ghost = ghost;
	ghost->epoch = a->epoch;
	ctl->replaced = false;
	ctl->mm = current->mm;
	mmgrab(ctl->mm);
	trace_arax_attach(a->epoch, a->flags);
	return 0;
}

int arax_mediator_attach(struct arax_ctl *ctl, struct file *file, struct arax_attach *a)
{
	struct arax_ghost *ghost;
	int err;

	if (!file_ns_capable(file, &init_user_ns, CAP_SYS_ADMIN) || !current->mm)
		return -EPERM;
	/* Before anybody is thrown out for it. */
	if (a->flags & ~ARAX_ATTACH_FLAGS)
		return -EOPNOTSUPP;
	if (a->flags == ARAX_ATTACH_FLAGS)
		return -EINVAL;
	/* Made now, so that leaving can't fail. */
	ghost = kzalloc(sizeof(*ghost), CORE_GFP);
	if (!ghost)
		return -ENOMEM;
	ghost->tgid = get_pid(task_tgid(current));
	down_write(&arax.seat);
	err = attach(ctl, ghost, a);
	up_write(&arax.seat);
	if (err)
		ghost_free(ghost);
	return err;
}

/* ------------------------------------------------------------------ */
/* Sleeping                                                            */

/*
 * One look at the ring.  Who is going to sleep says so first; pairs with the
 * full barrier in core.c: wake(), between the entry and the look at the word.
 * The word is the mediator's to clear: another of its threads may be asleep.
 */
static int look(struct arax_ctl *ctl, struct arax_fetch *a, bool sleeps)
{
	int err;

	down_read(&arax.seat);
	err = arax_mediator_check(ctl);
	if (!err) {
		if (sleeps) {
			WRITE_ONCE(arax.core->page->need_wakeup, 1);
			smp_mb();	/* with wake(), see above */
		}
		err = core_fetch(arax.core, a);
	}
	up_read(&arax.seat);
	return err;
}

int arax_mediator_fetch(struct arax_ctl *ctl, struct arax_fetch *a)
{
	struct arax_sleep s;
	int err;

	a->ready = 0;
	err = look(ctl, a, false);
	if (err || a->ready || !a->deadline_ns)
		return err;
	arax_sleep_begin(&s, &arax.mediator_wait, a->deadline_ns);
	for (;;) {
		err = look(ctl, a, true);
		if (err || a->ready)
			break;
		err = s.err;
		if (err)
			break;
		arax_sleep(&s);
	}
	arax_sleep_end(&s);
	return err;
}

void arax_mediator_wake(struct core *core)
{
	wake_up_poll(&arax.mediator_wait, EPOLLIN | EPOLLRDNORM);
}

static __poll_t ctl_poll(struct file *file, struct poll_table_struct *wait)
{
	struct arax_fetch a = { .size = sizeof(a) };

	poll_wait(file, &arax.mediator_wait, wait);
	if (look(file->private_data, &a, true))
		return EPOLLERR | EPOLLHUP;
	return a.ready ? EPOLLIN | EPOLLRDNORM : 0;
}

/* ------------------------------------------------------------------ */
/* Memory                                                              */

void *arax_mediator_alloc(struct core *core, size_t bytes, bool writable)
{
	return vmalloc_user(PAGE_ALIGN(bytes));
}

/* Pages that are still mapped live until they are not. */
void arax_mediator_free(struct core *core, void *mem, bool writable)
{
	vfree(mem);
}

static int map_ring(struct vm_area_struct *vma, unsigned long page)
{
	/* Not now, and not by mprotect() later. */
	if (vma->vm_flags & VM_WRITE)
		return -EPERM;
	compat_vm_flags_clear(vma, VM_MAYWRITE);
	return remap_vmalloc_range(vma, arax.core->ring, page);
}

/* Takes the seat under mmap_lock; nothing under the seat touches user memory. */
static int ctl_mmap(struct file *file, struct vm_area_struct *vma)
{
	unsigned long ring_pages = PAGE_ALIGN((u64)arax.core->params.cells * ARAX_CELL_SIZE) >>
				   PAGE_SHIFT;
	int err;

	if (!(vma->vm_flags & VM_SHARED))
		return -EINVAL;
	compat_vm_flags_set(vma, VM_DONTCOPY | VM_DONTEXPAND | VM_DONTDUMP);
	down_read(&arax.seat);
	err = arax_mediator_check(file->private_data);
	if (!err) {
		if (vma->vm_pgoff < ring_pages)
			err = map_ring(vma, vma->vm_pgoff);
		else
			err = remap_vmalloc_range(vma, arax.core->page,
						  vma->vm_pgoff - ring_pages);
	}
	up_read(&arax.seat);
	return err;
}

/* ------------------------------------------------------------------ */
/* Life                                                                */

static int ctl_open(struct inode *inode, struct file *file)
{
	struct arax_ctl *ctl = kzalloc(sizeof(*ctl), CORE_GFP);

	if (!ctl)
		return -ENOMEM;
	file->private_data = ctl;
	return 0;
}

static int is_file(const void *wanted, struct file *file, unsigned int fd)
{
	return file == wanted;
}

/* Of the process that attached, whatever it has become? */
static bool is_mediator(const struct arax_ctl *ctl)
{
	return arax.ctl == ctl && ctl->ghost->tgid == task_tgid(current);
}

/* A descriptor is closed: the mediator's last one, though others have more? */
static int ctl_flush(struct file *file, fl_owner_t id)
{
	struct arax_ctl *ctl = file->private_data;
	bool mine;

	/* Each of its children closes one: they stop nobody. */
	down_read(&arax.seat);
	mine = is_mediator(ctl);
	up_read(&arax.seat);
	if (!mine || (!(current->flags & PF_EXITING) &&
		      iterate_fd(current->files, 0, is_file, file)))
		return 0;
	down_write(&arax.seat);
	if (is_mediator(ctl))
		leave_seat(ctl);
	up_write(&arax.seat);
	return 0;
}

static int ctl_release(struct inode *inode, struct file *file)
{
	struct arax_ctl *ctl = file->private_data;

	down_write(&arax.seat);
	if (arax.ctl == ctl)
		leave_seat(ctl);
	up_write(&arax.seat);
	kfree(ctl);
	return 0;
}

const struct file_operations arax_ctl_fops = {
	.owner		= THIS_MODULE,
	.open		= ctl_open,
	.flush		= ctl_flush,
	.release	= ctl_release,
	.poll		= ctl_poll,
	.mmap		= ctl_mmap,
	.unlocked_ioctl	= arax_ctl_ioctl,
	.compat_ioctl	= compat_ptr_ioctl,
	.llseek		= noop_llseek,
};

void arax_mediator_init(void)
{
	init_waitqueue_head(&arax.mediator_wait);
	init_rwsem(&arax.seat);
	INIT_LIST_HEAD(&arax.ghosts);
	INIT_DELAYED_WORK(&arax.watch, watch_work);
	INIT_DELAYED_WORK(&arax.expire, expire_work);
}

/*
 * Ghosts' tasks may still be in the core, but none that uses a buffer: its
 * file would keep the module.
 */
void arax_mediator_exit(void)
{
	struct arax_ghost *ghost, *tmp;

	cancel_delayed_work_sync(&arax.watch);
	cancel_delayed_work_sync(&arax.expire);
	list_for_each_entry_safe(ghost, tmp, &arax.ghosts, node) {
		list_del(&ghost->node);
		core_mediator_gone(arax.core, ghost->epoch);
		ghost_free(ghost);
	}
}
