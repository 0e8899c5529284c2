/* SPDX-License-Identifier: MIT */
/* loader.h - what dlopen() keeps to itself */
#ifndef ARAX_DAEMON_BACKENDS_LOADER_H
#define ARAX_DAEMON_BACKENDS_LOADER_H

#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <link.h>
#include <stddef.h>
#include <string.h>
#include <unistd.h>

/* The program's own. */
extern const ElfW(Ehdr) __ehdr_start __attribute__((visibility("hidden")));

/*
 * Why @path, /proc/self/fd/@fd, can't be loaded, where the C library says that there is no such
 * file; NULL: there is nothing to be added to its words.
 */
static inline const char *loader_hides(const char *path, int fd)
{
	const ElfW(Ehdr) *own = &__ehdr_start;
	ElfW(Ehdr) e;
	int again;

	if (pread(fd, &e, sizeof(e), 0) == sizeof(e) && !memcmp(e.e_ident, own->e_ident, EI_CLASS + 1) &&
	    (e.e_machine != own->e_machine || e.e_ident[EI_DATA] != own->e_ident[EI_DATA]))
		return "it was built for another kind of processor than this machine's: see file(1)";
	/* Not access(): a sandbox has none. */
	again = open(path, O_RDONLY | O_CLOEXEC);
	if (again >= 0)
		close(again);
	return again < 0 && errno == ENOENT ?
		"there is no /proc here, through which it is loaded: mount it where araxd runs" : NULL;
}

#endif /* ARAX_DAEMON_BACKENDS_LOADER_H */
