/* SPDX-License-Identifier: MIT */
#ifndef LIBARAX_ERROR_H
#define LIBARAX_ERROR_H

/*
 * Notes a failure for arax_error_text() and returns @err (negative).  The text
 * names the thing, the limit and the remedy; the errno's meaning is appended.
 */
int error_set(int err, const char *format, ...) __attribute__((format(printf, 2, 3), cold));

/* Where none answers, and what there is to be done. */
#define ERROR_NO_DAEMON	"is araxd running? `arax run PROGRAM` starts one for a program, `araxd --user` one of your own, `systemctl start araxd` the system's"

#endif /* LIBARAX_ERROR_H */
