// SPDX-License-Identifier: GPL-2.0 OR MIT
/*
 * Why tasks failed, in words: what the mediator says of a task before it commits its end, for
 * the task's context alone.  The last few texts of each context, each for many tasks that failed
 * in a row for one reason; who never fails has no room for any.  core->dispatch guards them, by
 * which a context stays whose task has its slot.
 */
#include "core.h"

#define NR_WHYS		16
#define NR_TASKS	128

/* Of a context: the last tasks that failed, and the last texts; @text as counted by @next_text. */
struct core_whys {
	u32 next, next_text;
	struct {
		u64 tag;
		u32 text;
	} tasks[NR_TASKS];
	char texts[NR_WHYS][ARAX_WHY_LEN];
};

static struct core_client *owner(struct core *core, u64 tag)
{
	u32 i = ARAX_TAG_SLOT(tag);
	struct core_client *c = NULL;
	struct core_task *t;

	if (i >= core->params.slots)
		return NULL;
	i = (u32)core_nospec(i, core->params.slots);
	t = core->slots[i].task;
	if (t && t->d.tag == tag)
		c = t->client;
	return c;
}

/* Whoever gives a bad launch gives many, and may look at the first of them alone. */
static void add(struct core_whys *w, const struct arax_task_why *a)
{
	u32 at = w->next++ % NR_TASKS;

	if (!w->next_text || strncmp(w->texts[(w->next_text - 1) % NR_WHYS], a->text, ARAX_WHY_LEN))
		memcpy(w->texts[w->next_text++ % NR_WHYS], a->text, ARAX_WHY_LEN);
	w->tasks[at].tag = a->tag;
	w->tasks[at].text = w->next_text - 1;
}

int core_task_explain(struct core *core, const struct arax_task_why *a)
{
	struct core_whys *spare;
	struct core_client *c;

	if (a->pad || !a->text[0] || strnlen(a->text, ARAX_WHY_LEN) == ARAX_WHY_LEN)
		return -EINVAL;
	spare = core_alloc(sizeof(*spare));
	if (!spare)
		return -ENOMEM;
	core_spin_lock(&core->dispatch);
	c = owner(core, a->tag);
	if (c && !c->whys) {
		c->whys = spare;
		spare = NULL;
	}
	if (c)
		add(c->whys, a);
	core_spin_unlock(&core->dispatch);
	core_free(spare);
	return c ? 0 : -ESTALE;
}

int core_task_why(struct core_client *c, struct arax_task_why *a)
{
	const struct core_whys *w;
	int err = -ENOENT;
	u32 i;

	if (a->pad)
		return -EINVAL;
	core_spin_lock(&c->core->dispatch);
	w = c->whys;
	for (i = 0; w && a->tag && i < NR_TASKS; i++) {
		if (w->tasks[i].tag != a->tag || w->next_text - w->tasks[i].text > NR_WHYS)
			continue;
		memcpy(a->text, w->texts[w->tasks[i].text % NR_WHYS], sizeof(a->text));
		err = 0;
	}
	core_spin_unlock(&c->core->dispatch);
	return err;
}
