/* SPDX-License-Identifier: MIT */
/*
 * mute.h - for a terminal
 *
 * Who may name a cgroup or a program, or write a file that is quoted, must not speak to it.
 */
#ifndef LIBARAX_ADMIN_MUTE_H
#define LIBARAX_ADMIN_MUTE_H

#include <stddef.h>

/* How many bytes at @s a terminal would obey: 0, or those of one character, 3 at most. */
size_t mute_at(const char *s);
/* They become '?'.  Returns @s. */
char *mute(char *s);

#endif /* LIBARAX_ADMIN_MUTE_H */
