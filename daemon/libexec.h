/* SPDX-License-Identifier: MIT */
/* libexec.h - the programs that araxd starts */
#ifndef ARAX_DAEMON_LIBEXEC_H
#define ARAX_DAEMON_LIBEXEC_H

/*
 * @given, or where it is NULL the program @name that belongs to this araxd: installed beside
 * it, or in the folder that both were built in.  A descriptor to execute; -1: there is none, or
 * none is to be had now, see errno.
 */
int libexec_open(const char *name, const char *given);

#endif /* ARAX_DAEMON_LIBEXEC_H */
