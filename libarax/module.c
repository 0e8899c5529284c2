// SPDX-License-Identifier: MIT
/* Kernels of the program's own: calls of a service, in a queue for that alone. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "internal.h"

#define TEXT_BYTES	65536u

/**
 * struct loading - what a load needs
 * @nr, @table:	kernels as araxd reads and writes them, in @entries
 */
struct loading {
	struct arax *ax;
	struct arax_queue *queue;
	struct arax_buffer *image, *entries, *text;
	struct arax_module_kernel *table;
	uint32_t nr;
};

static int set_text(char *to, size_t size, const char *from, size_t n, const char *what)
{
	if (n >= size)
		return error_set(-E2BIG, "a kernel's %s of more than %zu bytes", what, size - 1);
	memcpy(to, from, n);
	to[n] = '\0';
	return 0;
}

static int set_kernel(struct arax_module_kernel *to, const struct arax_own_kernel *k)
{
	size_t name;
	int err;

	if (!k->signature || k->reserved)
		return error_set(-EINVAL, "a kernel without a signature, or with reserved bits");
	to->flags = k->flags;
	err = set_text(to->text, sizeof(to->text), k->signature, strlen(k->signature), "signature");
	if (err)
		return err;
	if (k->symbol)
		return set_text(to->symbol, sizeof(to->symbol), k->symbol, strlen(k->symbol),
				"symbol");
	name = strspn(k->signature, " \t");
	return set_text(to->symbol, sizeof(to->symbol), k->signature + name,
			strcspn(k->signature + name, " \t("), "name");
}

static void finish(struct loading *l)
{
	arax_buffer_destroy(l->image);
	arax_buffer_destroy(l->entries);
	arax_buffer_destroy(l->text);
	arax_queue_destroy(l->queue);
}

static int begin(struct loading *l, const void *image, uint64_t bytes,
		 const struct arax_own_kernel *kernels)
{
	int err = arax_queue_create(l->ax, 0, 0, &l->queue);
	uint32_t i;

	if (!err)
		err = arax_buffer_create(l->ax, bytes, 0, &l->image);
	if (!err)
		err = arax_buffer_create(l->ax, l->nr * sizeof(*l->table), 0, &l->entries);
	if (!err)
		err = arax_buffer_create(l->ax, TEXT_BYTES, 0, &l->text);
	if (err)
		return err;
	memcpy(l->image->data, image, bytes);
	l->table = l->entries->data;
	for (i = 0; !err && i < l->nr; i++)
		err = set_kernel(&l->table[i], &kernels[i]);
	return err;
}

/*
 * Also that there are none: words of another load would be taken for this one's.  Without memory
 * for it there are the first words, as the error's text.
 */
static void keep_log(struct arax *ax, const char *text)
{
	char *log = strdup(text), *old;

	pthread_mutex_lock(&ax->object_lock);
	old = ax->module_log;
	ax->module_log = log;
	pthread_mutex_unlock(&ax->object_lock);
	free(old);
}

size_t arax_module_log(struct arax *ax, char *text, size_t size)
{
	const char *log;
	size_t n, fits;

	/* The lock may have been held when the child was made. */
	if (!is_owner(ax)) {
		if (size)
			text[0] = '\0';
		return 0;
	}
	pthread_mutex_lock(&ax->object_lock);
	log = ax->module_log ? ax->module_log : "";
	n = strlen(log);
	fits = n < size ? n : size - 1;
	if (size) {
		memcpy(text, log, fits);
		text[fits] = '\0';
	}
	pthread_mutex_unlock(&ax->object_lock);
	return n;
}

static int call(struct loading *l, uint32_t kind)
{
	struct arax_module_load a = { .size = sizeof(a), .kind = kind, .nr_kernels = l->nr };
	struct arax_range ranges[3] = {
		arax_in(l->image), arax_inout(l->entries), arax_out(l->text),
	};
	struct arax_event event = ARAX_EVENT_INIT;
	char why[WHY_LEN];
	int err = arax_call(l->queue, ARAX_SERVICE_LOAD, &a, sizeof(a), ranges, 3, &event);
	char *text = l->text->data;

	if (err)
		return err;
	err = arax_wait(&event, ARAX_DEADLINE_NONE);
	if (!err)
		return 0;
	text[TEXT_BYTES - 1] = '\0';
	if (text[0])
		return error_set(err, "loading a module: %s", text);
	/* It didn't come to be loaded. */
	task_why(l->ax, event.tag, err, why);
	return error_set(err, "loading a module for devices of kind %u%s", kind, why);
}

static int check_sizes(uint64_t bytes, uint32_t nr)
{
	if (!nr || nr > ARAX_MODULE_MAX_KERNELS)
		return error_set(nr ? -E2BIG : -EINVAL, "a module with %u kernels: 1 to %u can be",
				 nr, ARAX_MODULE_MAX_KERNELS);
	if (!bytes || bytes > ARAX_MODULE_MAX_BYTES)
		return error_set(bytes ? -E2BIG : -EINVAL,
				 "a module of %llu bytes: 1 to %u can be", (unsigned long long)bytes,
				 ARAX_MODULE_MAX_BYTES);
	return 0;
}

int arax_module_load(struct arax *ax, uint32_t kind, const void *image, uint64_t bytes,
		     const struct arax_own_kernel *kernels, uint32_t nr, struct arax_kernel *loaded)
{
	struct loading l = { .ax = ax, .nr = nr };
	int err, cancel;
	uint32_t i;

	if (!is_owner(ax))
		return not_owner();
	/* Its event is here on the stack. */
	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel);
	err = check_sizes(bytes, nr);
	if (!err)
		err = begin(&l, image, bytes, kernels);
	if (!err)
		err = call(&l, kind);
	if (err)
		keep_log(ax, l.text ? l.text->data : "");
	for (i = 0; !err && i < nr; i++) {
		loaded[i] = (struct arax_kernel){
			.id = l.table[i].id, .kinds = 1u << kind, .sig = l.table[i].sig,
		};
		memcpy(loaded[i].name, l.table[i].name, sizeof(loaded[i].name));
		memcpy(loaded[i].text, l.table[i].text, sizeof(loaded[i].text));
	}
	finish(&l);
	pthread_setcancelstate(cancel, NULL);
	return err;
}

/* Not by mapping it: a compiler may write it anew just now, and who cuts it off would end us. */
static int read_image(int fd, const char *path, char *image, size_t bytes)
{
	size_t done = 0;
	ssize_t n;

	while (done < bytes) {
		n = read(fd, image + done, bytes - done);
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return error_set(-errno, "module %s", path);
		if (!n)
			return error_set(-EIO, "module %s: became shorter while it was read: is it being written?",
					 path);
		done += (size_t)n;
	}
	return 0;
}

int arax_module_load_file(struct arax *ax, uint32_t kind, const char *path,
			  const struct arax_own_kernel *kernels, uint32_t nr,
			  struct arax_kernel *loaded)
{
	char *image = NULL;
	int fd, err, cancel;
	struct stat st;

	if (!is_owner(ax))
		return not_owner();
	/* The file and its copy are here. */
	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel);
	/* A FIFO that nobody writes to would be waited for before it is seen to be one. */
	fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	if (fd < 0 || fstat(fd, &st))
		err = error_set(-errno, "module %s", path);
	else if (!S_ISREG(st.st_mode))
		err = error_set(-EINVAL, "module %s: is no regular file", path);
	else if (st.st_size <= 0)
		err = error_set(-EINVAL, "module %s: is empty", path);
	else if (st.st_size > ARAX_MODULE_MAX_BYTES)
		err = error_set(-E2BIG, "module %s: %lld bytes; at most %u can be", path,
				(long long)st.st_size, ARAX_MODULE_MAX_BYTES);
	else
		err = 0;
	if (!err) {
		image = malloc((size_t)st.st_size);
		err = image ? read_image(fd, path, image, (size_t)st.st_size) :
			      error_set(-ENOMEM, "module %s", path);
	}
	if (fd >= 0)
		close(fd);
	if (err)
		keep_log(ax, "");
	else
		err = arax_module_load(ax, kind, image, (uint64_t)st.st_size, kernels, nr, loaded);
	free(image);
	pthread_setcancelstate(cancel, NULL);
	return err;
}

int arax_module_unload(struct arax *ax, const struct arax_kernel *kernel)
{
	struct arax_module_unload a = { .size = sizeof(a), .id = kernel->id };
	struct arax_event event = ARAX_EVENT_INIT;
	struct arax_queue *queue;
	int err = arax_queue_create(ax, 0, 0, &queue), cancel;

	if (err)
		return err;
	/* Its event is here on the stack. */
	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel);
	err = arax_call(queue, ARAX_SERVICE_UNLOAD, &a, sizeof(a), NULL, 0, &event);
	if (!err)
		err = arax_wait(&event, ARAX_DEADLINE_NONE);
	if (err)
		error_set(err, "unloading kernel %s%s", kernel->name,
			  err == -ENOENT ? ", which is none of this context's own" : "");
	arax_queue_destroy(queue);
	pthread_setcancelstate(cancel, NULL);
	return err;
}
