// SPDX-License-Identifier: GPL-2.0
/*
 * /dev/arax: an open file is a context.  It is bound to the process that
 * opened it, by its mm: a forked child, the image after an exec, or who got
 * the descriptor sent may poll and close it, no more.
 */
#include <linux/cred.h>
#include <linux/file.h>
#include <linux/mm.h>
#include <linux/sched/mm.h>
#include <linux/seq_file.h>
#include <linux/slab.h>
#include <linux/user_namespace.h>
#include <linux/vmalloc.h>

#include "compat.h"
#include "module.h"
#include "trace.h"

bool arax_client_mine(const struct arax_client *ac)
{
	return current->mm == ac->mm;
}

#define WAKE_AT_ONCE	16	/* sleeping calls that are woken under core->dispatch */

static void client_wake(struct work_struct *work)
{
	struct arax_client *ac = container_of(work, struct arax_client, wake);
	int what = atomic_xchg(&ac->wakes, 0);

	if (what & CORE_WAKE_POINTS)
		wake_up(&ac->points);
	if (!(what & CORE_WAKE_TASKS))
		return;
	wake_up(&ac->wait);
	/* The core can't be asked any more what there is: whoever waits for any of it looks. */
	wake_up_poll(&ac->polled, EPOLLIN | EPOLLRDNORM | EPOLLERR | EPOLLHUP);
}

/* What is asked for before the work begins, or while it runs, it does: that is queued again then. */
static void wake_later(struct arax_client *ac, u32 what)
{
	atomic_or(what, &ac->wakes);
	queue_work(arax.wakes, &ac->wake);
}

/*
 * One file may have any number of pollers, and a process as many threads as it likes:
 * they are not walked through with core->dispatch held, nor by who commits.
 */
void arax_client_wake(struct core_client *c, u32 what)
{
	struct arax_client *ac = c->link;
	bool few = atomic_read(&ac->asleep) <= WAKE_AT_ONCE;

	if (few && what & CORE_WAKE_TASKS)
		wake_up(&ac->wait);
	if (few && what & CORE_WAKE_POINTS)
		wake_up(&ac->points);
	/* The full barrier in core.c: wake() pairs with that in client_poll(). */
	if (!few || (what & CORE_WAKE_TASKS && waitqueue_active(&ac->polled)))
		wake_later(ac, what);
}

/* ------------------------------------------------------------------ */
/* What can be mapped                                                  */

static void map_free(struct arax_map *m)
{
	if (m->memfd)
		mapping_unmap_writable(m->file->f_mapping);
	fput(m->file);
	kfree(m);
}

int arax_client_map_add(struct arax_client *ac, unsigned long index, struct arax_buffer *ab,
			bool ring)
{
	struct arax_map *m = kzalloc(sizeof(*m), CORE_GFP);
	int err;

	if (!m)
		return -ENOMEM;
	m->memfd = ab->backing == ARAX_BACKING_MEMFD;
	/*
	 * What could be mapped for writing counts as if it were, so that it can't be sealed
	 * against that (EBUSY): mmap() counts a mapping of our node, not of the memfd.
	 */
	if (m->memfd && mapping_map_writable(ab->origin->f_mapping)) {
		kfree(m);
		return -EINVAL;
	}
	/* What it brought it may map, and pin, as it likes. */
	m->file = get_file(ab->origin ?: ab->file);
	m->bytes = ab->core->bytes;
	m->ring = ring;
	m->dmabuf = ab->backing == ARAX_BACKING_DMABUF;
	err = xa_insert(&ac->maps, index, m, CORE_GFP);
	if (err)
		map_free(m);
	return err;
}

static void free_removed(struct arax_client *ac)
{
	struct arax_map *m, *tmp;

	list_for_each_entry_safe(m, tmp, &ac->removed, node)
		map_free(m);
	INIT_LIST_HEAD(&ac->removed);
}

void arax_client_map_remove(struct arax_client *ac, unsigned long index)
{
	struct arax_map *m = xa_erase(&ac->maps, index);

	if (!m)
		return;
	if (!m->memfd) {
		map_free(m);
		return;
	}
	/*
	 * Who has found it in mmap(), which is under this lock, has linked his mapping then.  A
	 * fault may keep it for as long as whoever serves it likes: who is killed meanwhile
	 * leaves it to the next one, or to the file's end.
	 */
	list_add(&m->node, &ac->removed);
	if (mmap_read_lock_killable(ac->mm))
		return;
	mmap_read_unlock(ac->mm);
	free_removed(ac);
}

/*
 * Under mmap_lock: takes none of the core's locks, for they are held where
 * user memory may be faulted in.
 */
static int client_mmap(struct file *file, struct vm_area_struct *vma)
{
	struct arax_client *ac = file->private_data;
	struct arax_map *m, map;
	int err;

	if (!arax_client_mine(ac))
		return -EPERM;
	if (READ_ONCE(ac->core->dead))
		return -EPIPE;
	if (!(vma->vm_flags & VM_SHARED))
		return -EINVAL;
	xa_lock(&ac->maps);
	m = xa_load(&ac->maps, vma->vm_pgoff);
	if (m) {
		map = *m;
		get_file(map.file);
	}
	xa_unlock(&ac->maps);
	if (!m)
		return -EINVAL;

	err = -EINVAL;
	if (vma->vm_end - vma->vm_start > map.bytes)
		goto put;
	if (map.dmabuf) {
		err = arax_dmabuf_mmap(map.file, vma);
		goto put;
	}
	err = -ESTALE;
	if (!i_size_read(file_inode(map.file)))		/* revoked */
		goto put;
	if (map.memfd) {
		err = arax_memfd_check_map(map.file, vma);
		if (err)
			goto put;
	}
	if (map.ring)
		compat_vm_flags_set(vma, VM_DONTCOPY | VM_DONTEXPAND | VM_DONTDUMP);
	vma_set_file(vma, map.file);
	vma->vm_pgoff = 0;
	err = compat_mmap_file(map.file, vma);
put:
	fput(map.file);
	return err;
}

/* ------------------------------------------------------------------ */
/* Sleeping                                                            */

/*
 * Who sleeps adds itself to the sleepers and then looks; pairs with the full
 * barrier in core.c: wake(), between the completion and the look at sleepers.
 * @counter: of the core's client; NULL: the control page says for what it sleeps,
 * and has said so for longer than that.
 */
static void sleeper_add(struct arax_client *ac, core_atomic *counter)
{
	atomic_inc(&ac->asleep);
	if (counter)
		core_atomic_add(counter, 1);
	smp_mb();	/* with wake(), see above */
}

static void sleeper_remove(struct arax_client *ac, core_atomic *counter)
{
	if (counter)
		core_atomic_add(counter, -1);
	atomic_dec(&ac->asleep);
}

static int wait_completions(struct arax_client *ac, const struct arax_submit *a)
{
	struct core_client *c = ac->core;
	core_atomic *counter = a->flags & ARAX_SUBMIT_AS_ASKED ? NULL : &c->sleepers;
	struct arax_sleep s;
	int err = 0;

	if (core_submit_done(c, a))
		return 0;
	arax_sleep_begin(&s, &ac->wait, a->deadline_ns);
	sleeper_add(ac, counter);
	while (!core_submit_done(c, a)) {
		if (READ_ONCE(c->dead)) {
			err = -(int)READ_ONCE(c->dead);
			break;
		}
		err = s.err;
		if (err)
			break;
		arax_sleep(&s);
	}
	sleeper_remove(ac, counter);
	arax_sleep_end(&s);
	return err;
}

int arax_client_submit(struct arax_client *ac, struct arax_submit *a)
{
	struct core_client *c = ac->core;
	int n;

	n = core_submit_check(c, a);
	if (n)
		return n;
	a->submitted = 0;
	if (a->to_submit) {
		n = core_submit(c, a->to_submit);
		trace_arax_submit(c->id, a->to_submit, n);
		if (n < 0)
			return n;
		a->submitted = n;
	}
	/* What waits for room can't complete, and nobody else takes it. */
	if (a->submitted < a->to_submit && READ_ONCE(c->awaits_room))
		return 0;
	return a->min_complete ? wait_completions(ac, a) : 0;
}

int arax_client_wait(struct arax_client *ac, struct arax_wait *a)
{
	struct core_client *c = ac->core;
	struct core_wait w;
	struct arax_sleep s;
	int err;

	err = core_wait_begin(c, a, &w);
	if (err)
		return err;
	arax_sleep_begin(&s, &ac->points, a->deadline_ns);
	sleeper_add(ac, &c->waiters);
	for (;;) {
		err = core_wait_poll(&w, &a->index);
		if (err != CORE_WAIT_PENDING)
			break;
		err = s.err;
		if (err)
			break;
		arax_sleep(&s);
	}
	sleeper_remove(ac, &c->waiters);
	arax_sleep_end(&s);
	core_wait_end(&w);
	return err;
}

static __poll_t client_poll(struct file *file, struct poll_table_struct *wait)
{
	struct arax_client *ac = file->private_data;
	struct core_client *c = ac->core;
	__poll_t events = 0;
	bool ready;

	poll_wait(file, &ac->polled, wait);
	/* Pairs with the release in core_context_init(). */
	ready = smp_load_acquire(&c->ready);
	/*
	 * For pollers that didn't.  Also if there is something to read: an edge-triggered one
	 * comes again only when it is woken, and one that waits for EPOLLHUP sleeps on.
	 */
	if (ready)
		WRITE_ONCE(core_ctl(c)->cq_need_wakeup, ARAX_WAKE_ANY);
	/*
	 * With core.c: wake(): it sees the word and us waiting, or we what it is about.  And
	 * with arax_client_init(): it sees us waiting, or we have seen a ready context.
	 */
	smp_mb();
	if (ready && core_client_unread(c))
		events |= EPOLLIN | EPOLLRDNORM;
	if (READ_ONCE(c->dead))
		events |= EPOLLERR | EPOLLHUP;
	return events;
}

int arax_client_init(struct arax_client *ac, const struct core_call *call, union core_args *a)
{
	int err = core_call_run(call, arax.core, ac->core, a);

	if (err)
		return err;
	smp_mb();	/* with client_poll(), see there */
	/* Who polled before there was a word to set looks again. */
	if (waitqueue_active(&ac->polled))
		wake_later(ac, CORE_WAKE_TASKS);
	return 0;
}

/* ------------------------------------------------------------------ */
/* Life                                                                */

static int client_open(struct inode *inode, struct file *file)
{
	struct core *core = arax.core;
	struct core_tenant *tenant;
	struct arax_client *ac;
	char comm[TASK_COMM_LEN];
	int err;

	/* A kernel thread is no process that a context could be bound to. */
	if (!current->mm)
		return -EPERM;
	ac = kzalloc(sizeof(*ac), CORE_GFP);
	if (!ac)
		return -ENOMEM;
	init_waitqueue_head(&ac->wait);
	init_waitqueue_head(&ac->points);
	init_waitqueue_head(&ac->polled);
	INIT_WORK(&ac->wake, client_wake);
	mutex_init(&ac->calls);
	xa_init_flags(&ac->maps, XA_FLAGS_ACCOUNT);
	INIT_LIST_HEAD(&ac->removed);
	err = -ENOMEM;
	ac->signals = arax_signals_new();
	if (!ac->signals)
		goto free;
	err = arax_tenant_current(core, &tenant);
	if (err)
		goto put_signals;
	get_task_comm(comm, current);
	ac->core = core_client_create(core, ac, from_kuid(&init_user_ns, current_uid()),
				      from_kgid(&init_user_ns, current_gid()),
				      task_tgid_nr(current), comm, tenant, &err);
	if (!ac->core)
		goto put_tenant;
	ac->mm = current->mm;
	mmgrab(ac->mm);
	file->private_data = ac;
	trace_arax_context_create(ac->core->id, ac->core->uid, tenant->id);
	return 0;
put_tenant:
	mutex_lock(&core->lock);
	core_tenant_put(core, tenant);
	mutex_unlock(&core->lock);
put_signals:
	arax_signals_put(ac->signals);
free:
	mutex_destroy(&ac->calls);
	kfree(ac);
	return err;
}

static int client_release(struct inode *inode, struct file *file)
{
	struct arax_client *ac = file->private_data;
	struct arax_map *m;
	unsigned long index;

	trace_arax_context_release(ac->core->id);
	/* It may live on until its tasks are committed, but wakes nobody. */
	core_client_release(ac->core);
	cancel_work_sync(&ac->wake);
	/* In mmap() is nobody: each there has the file. */
	xa_for_each(&ac->maps, index, m) {
		map_free(m);
		cond_resched();
	}
	xa_destroy(&ac->maps);
	free_removed(ac);
	arax_signals_put(ac->signals);
	mmdrop(ac->mm);
	mutex_destroy(&ac->calls);
	kfree(ac);
	return 0;
}

/* In the memory itself, at its beginning. */
static void memory_work(struct work_struct *work)
{
	vfree(work);
}

/* As the pages of its buffers, see arax_buffer_idle(): a ring of 65,536 tasks has 37 MB. */
void arax_client_memory_free(const struct core_client *c, void *mem)
{
	struct work_struct *work = mem;

	if (!is_vmalloc_addr(mem) || arax_own_time(c->pid)) {
		kvfree(mem);
		return;
	}
	INIT_WORK(work, memory_work);
	queue_work(arax.graves, work);
}

static void end_clients(struct work_struct *work)
{
	struct core_client *c;

	for (;;) {
		spin_lock(&arax.ended_lock);
		c = clist_empty(&arax.ended) ? NULL :
		    clist_first(&arax.ended, struct core_client, wake);
		if (c)
			clist_del(&c->wake);
		spin_unlock(&arax.ended_lock);
		if (!c)
			return;
		core_client_free(c);
		cond_resched();
	}
}

/*
 * Mostly its own close() ends it, or else the commit of its last task, while the mediator serves
 * everybody: that is not to wait for whoever holds core->lock.
 */
void arax_client_end(struct core_client *c)
{
	if (arax_own_time(c->pid)) {
		core_client_free(c);
		return;
	}
	spin_lock(&arax.ended_lock);
	clist_add_tail(&c->wake, &arax.ended);
	spin_unlock(&arax.ended_lock);
	queue_work(arax.graves, &arax.end_clients);
}

void arax_clients_init(void)
{
	spin_lock_init(&arax.ended_lock);
	clist_init(&arax.ended);
	INIT_WORK(&arax.end_clients, end_clients);
}

/* The keys of Documentation/gpu/drm-usage-stats.rst, and our own. */
static void client_show_fdinfo(struct seq_file *m, struct file *file)
{
	struct arax_client *ac = file->private_data;
	struct core_client *c = ac->core;
	struct arax_usage u = { .size = sizeof(u), .scope = ARAX_USAGE_CONTEXT };

	if (core_usage_query(c, &u))
		return;
	seq_puts(m, "drm-driver:\tarax\n");
	seq_printf(m, "drm-client-id:\t%u\n", c->id);
	seq_printf(m, "drm-engine-arax:\t%llu ns\n", u.device_ns);
	seq_printf(m, "drm-total-host:\t%llu KiB\n",
		   u.counters[ARAX_RES_MEMORY].used >> 10);
	seq_printf(m, "arax-context:\t%u\n", c->id);
	seq_printf(m, "arax-tenant:\t%llu\n", c->tenant->id);
	seq_printf(m, "arax-memory:\t%llu\n", u.counters[ARAX_RES_MEMORY].used);
	seq_printf(m, "arax-device-memory:\t%llu\n",
		   u.counters[ARAX_RES_DEVICE_MEMORY].used);
	seq_printf(m, "arax-tasks:\t%llu\n", u.counters[ARAX_RES_TASKS].used);
	seq_printf(m, "arax-tasks-done:\t%llu\n", u.tasks_done);
	seq_printf(m, "arax-tasks-failed:\t%llu\n", u.tasks_failed);
	seq_printf(m, "arax-device-ns:\t%llu\n", u.device_ns);
	seq_printf(m, "arax-wait-ns:\t%llu\n", u.wait_ns);
}

const struct file_operations arax_client_fops = {
	.owner		= THIS_MODULE,
	.open		= client_open,
	.release	= client_release,
	.poll		= client_poll,
	.mmap		= client_mmap,
	.unlocked_ioctl	= arax_client_ioctl,
	.compat_ioctl	= compat_ptr_ioctl,
	.show_fdinfo	= client_show_fdinfo,
	.llseek		= noop_llseek,
};
