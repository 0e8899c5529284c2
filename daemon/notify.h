/* SPDX-License-Identifier: MIT */
/* notify.h - tell who started us how we are */
#ifndef ARAXD_NOTIFY_H
#define ARAXD_NOTIFY_H

/* "READY=1" and the like to $NOTIFY_SOCKET (sd_notify(3)), if there is one. */
void notify_manager(const char *state);
/* One byte to @fd, which is to be closed then; nothing if it is negative. */
void notify_ready_fd(int fd);

#endif /* ARAXD_NOTIFY_H */
