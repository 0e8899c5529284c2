// SPDX-License-Identifier: MIT
/*
 * From a file to a program: by the cache, or by the driver's compiler.
 *
 * A program comes with a table of its kernels, one line each: the name and, for
 * each argument, a tab and
 *
 *	SPACE ':' TYPE ':' ['c']	address space (g, l, c, p), type, const
 *	'?'				the driver doesn't say
 *
 * Drivers know that after compiling source, and many no longer when they load a
 * binary: so it is kept beside the binary.
 */
#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "daemon/backends/opencl/built.h"
#include "daemon/backends/opencl/cache.h"
#include "daemon/backends/opencl/build_log.h"
#include "daemon/backends/opencl/compiler.h"
#include "daemon/backends/opencl/opencl.h"

#define OPTIONS		"-cl-kernel-arg-info"
#define SPIRV_MAGIC	0x07230203u
#define REFUSED		(-EBADF)	/* nor will it be asked for the file's other kernels; p->table: why */

static uint64_t hash(const char *p, size_t n)
{
	uint64_t h = 0xcbf29ce484222325ull;

	for (size_t i = 0; i < n; i++)
		h = (h ^ (unsigned char)p[i]) * 0x100000001b3ull;
	return h;
}

/* Other devices read it at the same time: no file position. */
static int read_file(const struct arax_backend_kernel *k, struct blob *file)
{
	size_t room = 64u << 10;
	char *text = malloc(room + 1), *more;
	ssize_t n;

	file->bytes = 0;
	while (text) {
		n = pread(k->fd, text + file->bytes, room - file->bytes, (off_t)file->bytes);
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0) {
			n = -errno;
			free(text);
			return (int)n;
		}
		if (!n)
			break;
		file->bytes += (size_t)n;
		if (file->bytes > OPENCL_MAX_FILE) {
			opencl_log(ARAX_LOG_ERR, "%s: longer than %u bytes", k->file, OPENCL_MAX_FILE);
			free(text);
			return -E2BIG;
		}
		if (file->bytes < room)
			continue;
		room *= 2;
		more = realloc(text, room + 1);
		if (!more)
			free(text);
		text = more;
	}
	if (!text)
		return -ENOMEM;
	text[file->bytes] = '\0';
	file->data = text;
	return 0;
}

static bool is_spirv(const struct blob *file)
{
	uint32_t magic;

	if (file->bytes < sizeof(magic))
		return false;
	memcpy(&magic, file->data, sizeof(magic));
	return magic == SPIRV_MAGIC || magic == __builtin_bswap32(SPIRV_MAGIC);
}

/* ------------------------------------------------------------------ */
/* The table of kernels                                                  */

static void put_arg(FILE *out, cl_kernel k, cl_uint i)
{
	cl_kernel_arg_address_qualifier space = 0;
	cl_kernel_arg_type_qualifier how = 0;
	char type[128] = "", letter = 'p';
	size_t n = 0;

	if (!cl.GetKernelArgInfo ||
	    cl.GetKernelArgInfo(k, i, CL_KERNEL_ARG_TYPE_NAME, sizeof(type), type, &n) || !n ||
	    cl.GetKernelArgInfo(k, i, CL_KERNEL_ARG_ADDRESS_QUALIFIER, sizeof(space), &space, NULL) ||
	    cl.GetKernelArgInfo(k, i, CL_KERNEL_ARG_TYPE_QUALIFIER, sizeof(how), &how, NULL)) {
		fputs("\t?", out);
		return;
	}
	type[sizeof(type) - 1] = '\0';
	if (space == CL_KERNEL_ARG_ADDRESS_GLOBAL)
		letter = 'g';
	else if (space == CL_KERNEL_ARG_ADDRESS_LOCAL)
		letter = 'l';
	else if (space == CL_KERNEL_ARG_ADDRESS_CONSTANT)
		letter = 'c';
	fprintf(out, "\t%c:%s:%s", letter, type, how & CL_KERNEL_ARG_TYPE_CONST ? "c" : "");
}

static int put_kernel(FILE *out, cl_program program, const char *name)
{
	cl_uint nr = 0;
	cl_kernel k;
	cl_int err;

	k = cl.CreateKernel(program, name, &err);
	if (err)
		return opencl_errno(err);
	cl.GetKernelInfo(k, CL_KERNEL_NUM_ARGS, sizeof(nr), &nr, NULL);
	fputs(name, out);
	for (cl_uint i = 0; i < nr; i++)
		put_arg(out, k, i);
	fputc('\n', out);
	cl.ReleaseKernel(k);
	return 0;
}

static int make_table(cl_program program, char **table)
{
	char *names, *name, *state;
	size_t bytes = 0, unused;
	FILE *out;
	int err = 0;

	if (cl.GetProgramInfo(program, CL_PROGRAM_KERNEL_NAMES, 0, NULL, &bytes))
		return -ENOEXEC;
	names = calloc(1, bytes + 1);
	out = open_memstream(table, &unused);
	if (!names || !out) {
		free(names);
		if (out) {
			fclose(out);
			free(*table);
		}
		*table = NULL;
		return -ENOMEM;
	}
	cl.GetProgramInfo(program, CL_PROGRAM_KERNEL_NAMES, bytes, names, NULL);
	for (name = strtok_r(names, ";", &state); !err && name; name = strtok_r(NULL, ";", &state))
		err = put_kernel(out, program, name);
	free(names);
	if (fclose(out) && !err)
		err = -ENOMEM;
	if (err) {
		free(*table);
		*table = NULL;
	}
	return err;
}

const char *opencl_program_line(const struct opencl_program *p, const char *symbol)
{
	size_t n = strlen(symbol);

	for (const char *line = p->table; line && *line; line = strchr(line, '\n') + 1)
		if (!strncmp(line, symbol, n) && (line[n] == '\t' || line[n] == '\n'))
			return line + n;
	return NULL;
}

/* ------------------------------------------------------------------ */
/* Building                                                              */

/* For who asks, now and for the file's other kernels. */
static int refuse(struct opencl_program *p, const char *why)
{
	opencl_explain("%s", why);
	p->table = strdup(why);
	return REFUSED;
}

struct telling {
	const char *file;
	uint32_t lines;
	char first[160];
};

static void tell_line(void *arg, const char *line)
{
	struct telling *t = arg;

	if (!t->lines)
		build_log_shorten(line, t->first, sizeof(t->first));
	if (t->lines++ < opencl_options.log_lines)
		opencl_log(ARAX_LOG_ERR, "%s: %s", t->file, line);
}

static void tell_build_log(struct opencl_device *d, cl_program program,
			   const struct arax_backend_kernel *k, cl_int cerr, char *why, size_t len)
{
	struct telling t = { .file = k->file };
	size_t bytes = 0;
	char *text;

	opencl_log(ARAX_LOG_ERR, "%s: does not compile for %s: %s (wanted for kernel %s)", k->file,
		   d->name, opencl_error_name(cerr), k->symbol);
	snprintf(why, len, "it does not compile: %s", opencl_error_name(cerr));
	cl.GetProgramBuildInfo(program, d->id, CL_PROGRAM_BUILD_LOG, 0, NULL, &bytes);
	text = calloc(1, bytes + 1);
	if (!text)
		return;
	cl.GetProgramBuildInfo(program, d->id, CL_PROGRAM_BUILD_LOG, bytes, text, NULL);
	build_log_each(text, bytes, tell_line, &t);
	if (t.lines > opencl_options.log_lines)
		opencl_log(ARAX_LOG_ERR, "%s: the build log goes on", k->file);
	if (t.lines)
		snprintf(why, len, "it does not compile: %s", t.first);
	free(text);
}

static bool has_assembly(const struct blob *file);

/* PoCL's own cache goes by what the preprocessor leaves of a text, and would have the old program. */
static void put_mark(char *text, size_t len)
{
	struct timespec ts;

	clock_gettime(CLOCK_REALTIME, &ts);
	snprintf(text, len, "struct arax_%jd_%09ld_%d;\n", (intmax_t)ts.tv_sec, ts.tv_nsec, (int)getpid());
}

/* @why: of REFUSED. */
static int compile(struct opencl_device *d, const struct arax_backend_kernel *k,
		   const struct blob *file, cl_program *program, char *why, size_t len)
{
	char mark[64] = "";
	const char *prelude = opencl_prelude(d->is_gpu);
	const char *texts[] = { mark, prelude, file->data };
	size_t sizes[] = { 0, strlen(prelude), file->bytes };
	cl_int err;

	if (!is_spirv(file) && has_assembly(file))
		put_mark(mark, sizeof(mark));
	sizes[0] = strlen(mark);
	if (is_spirv(file) && !d->has_il) {
		opencl_log(ARAX_LOG_ERR, "%s: %s takes no SPIR-V: give it OpenCL C source", k->file,
			   d->name);
		return -ENOEXEC;
	}
	*program = is_spirv(file) ?
		cl.CreateProgramWithIL(d->context, file->data, file->bytes, &err) :
		cl.CreateProgramWithSource(d->context, 3, texts, sizes, &err);
	if (err) {
		opencl_log(ARAX_LOG_ERR, "%s: %s", k->file, opencl_error_name(err));
		return opencl_errno(err);
	}
	err = cl.BuildProgram(*program, 1, &d->id, OPTIONS, NULL, NULL);
	if (!err)
		return 0;
	tell_build_log(d, *program, k, err, why, len);
	cl.ReleaseProgram(*program);
	if (err == CL_BUILD_PROGRAM_FAILURE)
		return REFUSED;
	/* Whatever the driver calls it, the text is at fault. */
	return opencl_errno(err) == -ENODEV ? opencl_check(d, err) : -ENOEXEC;
}

/* The binary for one device; the caller frees it.  -ENOENT: the driver gives none. */
static int get_binary(struct opencl_device *d, cl_program program, struct blob *binary)
{
	cl_uint nr = 0;
	size_t bytes[OPENCL_MAX_DEVICES] = { 0 };
	unsigned char *all[OPENCL_MAX_DEVICES] = { NULL };
	cl_device_id ids[OPENCL_MAX_DEVICES];

	/*
	 * A program has all devices of its context: ask for ours alone.  One that has a single
	 * device has ours, whatever that is called: PoCL names the whole device for a part.
	 */
	if (cl.GetProgramInfo(program, CL_PROGRAM_NUM_DEVICES, sizeof(nr), &nr, NULL) ||
	    nr > OPENCL_MAX_DEVICES ||
	    cl.GetProgramInfo(program, CL_PROGRAM_DEVICES, sizeof(ids), ids, NULL) ||
	    cl.GetProgramInfo(program, CL_PROGRAM_BINARY_SIZES, sizeof(bytes), bytes, NULL))
		return -ENOENT;
	*binary = (struct blob){ NULL, 0 };
	for (cl_uint i = 0; i < nr && !binary->data; i++)
		if ((nr == 1 || ids[i] == d->id) && bytes[i] && bytes[i] < CACHE_MAX_ENTRY) {
			all[i] = malloc(bytes[i]);
			*binary = (struct blob){ all[i], bytes[i] };
		}
	if (!binary->data)
		return -ENOENT;
	if (!cl.GetProgramInfo(program, CL_PROGRAM_BINARIES, nr * sizeof(all[0]), all, NULL))
		return 0;
	free(binary->data);
	return -ENOENT;
}

/* A driver without any is no error. */
static void keep(struct opencl_device *d, const char *key, const struct blob *file,
		 const struct opencl_program *p)
{
	struct blob binary;

	if (!cache_path() || get_binary(d, p->program, &binary))
		return;
	cache_put(key, file, p->table, &binary);
	free(binary.data);
}

int opencl_program_save(struct opencl_device *d, const struct opencl_program *p, int fd)
{
	struct blob binary;
	int err = get_binary(d, p->program, &binary);

	if (err)
		return err;
	err = built_write(fd, p->table, &binary);
	free(binary.data);
	return err;
}

int opencl_program_compile(struct opencl_device *d, const struct arax_backend_kernel *k,
			   const struct blob *source, int fd)
{
	struct opencl_program p = { .program = NULL };
	char why[256];
	int err = compile(d, k, source, &p.program, why, sizeof(why));

	if (!err)
		err = make_table(p.program, &p.table);
	/* PoCL compiles the greater part now. */
	return err ? err : opencl_program_save(d, &p, fd);
}

static int load_binary(struct opencl_device *d, const struct blob *binary, cl_program *program)
{
	cl_int err, status = CL_SUCCESS;

	*program = cl.CreateProgramWithBinary(d->context, 1, &d->id, &binary->bytes,
					      (const unsigned char **)&binary->data, &status, &err);
	if (err)
		return -ENOEXEC;
	if (!status && !cl.BuildProgram(*program, 1, &d->id, OPTIONS, NULL, NULL))
		return 0;
	cl.ReleaseProgram(*program);
	return -ENOEXEC;
}

static int refuse_crashing(struct opencl_device *d, const struct arax_backend_kernel *k,
			   const char *what, bool before, struct opencl_program *p);

/* What was too slow for less time than there is now. */
static bool has_more_time(const char *why)
{
	uint32_t seconds;

	return sscanf(why, "did not answer within %" SCNu32 " s", &seconds) == 1 &&
	       seconds < opencl_options.compile_seconds;
}

static int load_cached(struct opencl_device *d, const char *key, const struct arax_backend_kernel *k,
		       const struct blob *file, struct opencl_program *p)
{
	struct blob binary;
	int err = cache_get(key, file, &p->table, &binary);

	if (err == CACHE_FAILURE) {
		char *what = p->table;

		p->table = NULL;
		err = has_more_time(what) ? -ENOENT : refuse_crashing(d, k, what, true, p);
		free(what);
		return err;
	}
	if (err)
		return -ENOENT;
	err = load_binary(d, &binary, &p->program);
	free(binary.data);
	if (err) {
		free(p->table);
		p->table = NULL;
	}
	return err;
}

static int load_built(struct opencl_device *d, const struct blob *file, struct opencl_program *p)
{
	struct blob binary;
	int err = built_read(file, &p->table, &binary);

	if (err)
		return err;
	err = load_binary(d, &binary, &p->program);
	if (err) {
		free(p->table);
		p->table = NULL;
	}
	return err;
}

static bool is_blank(char c)
{
	return !c || isspace((unsigned char)c);
}

/* A copy in which no line goes on, for whatever ends the first one.  NULL: no memory. */
static char *join_lines(const struct blob *file, size_t *bytes)
{
	const char *p = file->data, *end = p + file->bytes;
	char *text = malloc(file->bytes + 1), *to = text;

	while (text && p < end) {
		size_t n = *p == '\\' ? 1 : end - p >= 3 && !memcmp(p, "?\?/", 3) ? 3 : 0;

		if (!n)
			*to++ = *p++;
		else
			for (p += n; p < end && is_blank(*p); p++)
				;
	}
	*bytes = (size_t)(to - text);
	return text;
}

static bool names_a_file(const char *begin, const char *end, const char *word)
{
	/* What a directive begins with, or a comment behind that; and what is asked for in an #if. */
	static const char *const before[] = { "#", "%:", "?\?=", "*/", "__has_" };
	const char *p = begin, *at;

	/* Also in a comment: that costs a compilation. */
	for (; (p = memmem(p, (size_t)(end - p), word, strlen(word))); p++) {
		for (at = p; at > begin && is_blank(at[-1]); at--)
			;
		for (size_t i = 0; i < sizeof(before) / sizeof(before[0]); i++) {
			size_t n = strlen(before[i]);

			if ((size_t)(at - begin) >= n && !memcmp(at - n, before[i], n))
				return true;
		}
	}
	return false;
}

static bool is_of_a_word(char c)
{
	return c == '_' || isalnum((unsigned char)c);
}

/*
 * An assembler reads files as well, by .incbin, which both the preprocessor and its own macros can
 * put together from parts.
 */
static bool has_assembly_in(const char *begin, const char *end)
{
	static const char *const words[] = { "asm", "__asm", "__asm__" };
	const char *p = begin, *from, *to;

	for (; (p = memmem(p, (size_t)(end - p), words[0], strlen(words[0]))); p = to) {
		for (from = p; from > begin && is_of_a_word(from[-1]); from--)
			;
		for (to = p; to < end && is_of_a_word(*to); to++)
			;
		for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++)
			if ((size_t)(to - from) == strlen(words[i]) &&
			    !memcmp(from, words[i], strlen(words[i])))
				return true;
	}
	return false;
}

static bool has_assembly(const struct blob *file)
{
	size_t bytes;
	char *text = join_lines(file, &bytes);
	bool found = !text || has_assembly_in(text, text + bytes);

	free(text);
	return found;
}

/*
 * Then the text is not all there is: a driver looks such a file up when it compiles, and neither the
 * cache nor anybody else here knows which one it was, and whether it has changed.
 */
static bool includes(const struct blob *file)
{
	static const char *const words[] = { "include", "import", "embed" };
	size_t bytes;
	char *text = join_lines(file, &bytes);
	bool found = !text;

	for (size_t i = 0; !found && i < sizeof(words) / sizeof(words[0]); i++)
		found = names_a_file(text, text + bytes, words[i]);
	free(text);
	return found || has_assembly(file);
}

/* ------------------------------------------------------------------ */
/* Compilers that don't survive a source                                 */

/* Whether that was by the source: others send the other signals, ^C, a stop, want of memory. */
static bool is_its_own(const struct child_end *e)
{
	static const int crashes[] = { SIGABRT, SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGTRAP, SIGSYS };
	bool own = e->hung || !WIFSIGNALED(e->status);

	for (size_t i = 0; !own && i < sizeof(crashes) / sizeof(crashes[0]); i++)
		own = WTERMSIG(e->status) == crashes[i];
	return own;
}

static int refuse_crashing(struct opencl_device *d, const struct arax_backend_kernel *k,
			   const char *what, bool before, struct opencl_program *p)
{
	const char *cache = cache_path();
	char why[256];

	opencl_log(ARAX_LOG_ERR, "%s: no kernel of it is there on %s: the compiler of this driver (%s) %s%s (wanted for kernel %s): use another version of the driver, or give a kernel that it does not survive a file of its own; to have it asked again start araxd anew%s%s",
		   k->file, d->name, d->key, what,
		   before ? ", as the cache says, and is asked again by an araxd that starts a day after that" : "",
		   k->symbol, cache ? ", with nothing in " : "", cache ? cache : "");
	snprintf(why, sizeof(why), "the driver's compiler %s", what);
	return refuse(p, why);
}

/* The next one may be luckier. */
static int tell_ended(struct opencl_device *d, const struct arax_backend_kernel *k,
		      const struct child_end *e)
{
	int signal = WTERMSIG(e->status);
	char why[160];

	snprintf(why, sizeof(why), "something else has ended the driver's compiler (%s)%s",
		 strsignal(signal), signal == SIGKILL ? ", for want of memory perhaps" : "");
	opencl_log(ARAX_LOG_ERR, "%s: no kernel %s of it is there on %s: %s", k->file, k->symbol, d->name,
		   why);
	opencl_explain("%s", why);
	return -ENOEXEC;
}

/* Whether it is the source's fault nobody knows: nothing is kept. */
static int refuse_unanswered(struct opencl_device *d, const struct arax_backend_kernel *k, int err,
			     struct opencl_program *p)
{
	const char *what = err == -ETIMEDOUT ? "does not answer, nor does who watches it" :
			   "is gone, and so is who watched it";
	char why[256];

	opencl_log(ARAX_LOG_ERR, "%s: no kernel of it is there on %s: the driver's compiler %s (wanted for kernel %s): it is asked again when araxd starts anew",
		   k->file, d->name, what, k->symbol);
	snprintf(why, sizeof(why), "the driver's compiler %s", what);
	return refuse(p, why);
}

/* > 0: by who asks; it does no harm, or there is nobody to try it out. */
static int make_apart(struct opencl_device *d, const struct arax_backend_kernel *k,
		      const struct blob *file, const char *key, struct opencl_program *p)
{
	struct compiled c;
	struct blob binary;
	char what[400];
	int err = compiler_ask(d, k, file, &c);

	if (err == -ENOENT)
		return 1;
	if (err)
		return refuse_unanswered(d, k, err, p);
	if (!c.end.answered && !is_its_own(&c.end))
		return tell_ended(d, k, &c.end);
	if (!c.end.answered) {
		child_describe(&c.end, " (option compile-seconds)", what, sizeof(what));
		if (key)
			cache_put_failure(key, file, what);
		return refuse_crashing(d, k, what, false, p);
	}
	if (c.err)
		return 1;
	err = built_read(&c.built, &p->table, &binary);
	if (!err) {
		err = load_binary(d, &binary, &p->program);
		if (!err && key)
			cache_put(key, file, p->table, &binary);
		if (err)
			free(p->table);
	}
	free(c.built.data);
	if (err)
		p->table = NULL;
	return err ? 1 : 0;
}

static int make_here(struct opencl_device *d, const struct arax_backend_kernel *k,
		     const struct blob *file, const char *key, struct opencl_program *p)
{
	char why[256] = "";
	int err = compile(d, k, file, &p->program, why, sizeof(why));

	/* What it includes may be mended. */
	if (err == REFUSED && includes(file)) {
		opencl_explain("%s", why);
		return -ENOEXEC;
	}
	if (err)
		return err == REFUSED ? refuse(p, why) : err;
	err = make_table(p->program, &p->table);
	if (err) {
		opencl_log(ARAX_LOG_ERR, "%s: its kernels can't be listed", k->file);
		cl.ReleaseProgram(p->program);
		return err;
	}
	if (key)
		keep(d, key, file, p);
	return 0;
}

static int make(struct opencl_device *d, const struct arax_backend_kernel *k,
		const struct blob *file, struct opencl_program *p)
{
	const char *prelude = opencl_prelude(d->is_gpu), *key;
	char text[sizeof(d->key) + 128];
	int err;

	if (opencl_options.built)
		return load_built(d, file, p);
	key = includes(file) ? NULL : text;
	snprintf(text, sizeof(text), "%s|" OPTIONS "|%016" PRIx64, d->key,
		 hash(prelude, strlen(prelude)));
	err = key ? load_cached(d, key, k, file, p) : -ENOENT;
	if (!err)
		opencl_log(ARAX_LOG_DEBUG, "%s: for %s from the cache", k->file, d->name);
	if (!err || err == REFUSED)
		return err;
	err = make_apart(d, k, file, key, p);
	if (err > 0)
		err = make_here(d, k, file, key, p);
	if (!err)
		opencl_log(ARAX_LOG_DEBUG, "%s: compiled for %s", k->file, d->name);
	return err;
}

int opencl_program_again(struct opencl_device *d, const struct arax_backend_kernel *k,
			 struct opencl_program *p)
{
	const struct blob file = { p->text, p->bytes };
	char *table = p->table;
	int err;

	p->table = NULL;
	err = make(d, k, &file, p);
	if (!err) {
		free(table);
		return 0;
	}
	free(p->table);
	p->table = table;
	p->program = NULL;
	return err == REFUSED ? -ENOEXEC : err;
}

static struct opencl_program *find(struct opencl_program *among, const struct blob *file, uint64_t h)
{
	for (struct opencl_program *p = among; p; p = p->next)
		if (p->hash == h && p->bytes == file->bytes &&
		    !memcmp(p->text, file->data, file->bytes))
			return p;
	return NULL;
}

int opencl_program_get(struct opencl_device *d, const struct arax_backend_kernel *k,
		       struct opencl_program **program)
{
	struct opencl_program *p, *refused, **list;
	struct blob file;
	uint64_t h;
	int err = read_file(k, &file);

	if (err)
		return err;
	h = hash(file.data, file.bytes);
	pthread_mutex_lock(&d->programs_lock);
	p = find(d->programs, &file, h);
	refused = p ? NULL : find(d->refused, &file, h);
	if (p) {
		free(file.data);
	} else if (refused) {
		free(file.data);
		if (refused->table)
			opencl_explain("%s", refused->table);
		err = -ENOEXEC;
	} else {
		p = calloc(1, sizeof(*p));
		err = p ? make(d, k, &file, p) : -ENOMEM;
		if (err && err != REFUSED) {
			free(p);
			free(file.data);
			goto out;
		}
		p->hash = h;
		p->text = file.data;
		p->bytes = file.bytes;
		list = err ? &d->refused : &d->programs;
		p->next = *list;
		*list = p;
		err = err ? -ENOEXEC : 0;
	}
	if (err)
		goto out;
	p->users++;
	*program = p;
out:
	pthread_mutex_unlock(&d->programs_lock);
	return err;
}

void opencl_program_forget(struct opencl_device *d)
{
	struct opencl_program *p;

	while ((p = d->refused)) {
		d->refused = p->next;
		free(p->table);
		free(p->text);
		free(p);
	}
}

void opencl_program_put(struct opencl_device *d, struct opencl_program *p)
{
	struct opencl_program **link = &d->programs;

	pthread_mutex_lock(&d->programs_lock);
	if (!--p->users) {
		while (*link != p)
			link = &(*link)->next;
		*link = p->next;
		if (p->program)
			cl.ReleaseProgram(p->program);
		free(p->table);
		free(p->text);
		free(p);
	}
	pthread_mutex_unlock(&d->programs_lock);
}
