/* SPDX-License-Identifier: MIT */
/* locate.h - in which line of a JSON text something stands */
#ifndef SIM_LOCATE_H
#define SIM_LOCATE_H

#include <stddef.h>

/*
 * @text is valid JSON and ends with a NUL; @path names a value in it: machine.devices[3].lanes.
 * What is not there has the line of what should hold it.  From 1.
 */
int locate_line(const char *text, const char *path);

#endif /* SIM_LOCATE_H */
