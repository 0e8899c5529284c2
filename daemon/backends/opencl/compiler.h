/* SPDX-License-Identifier: MIT */
/*
 * compiler.h - drivers' compilers, in processes of their own
 *
 * They get whatever sources there are, and don't survive all of them: some end the process, some
 * wait for ever.  So a process that has no driver and no threads stays beside araxd, and forks
 * for each source one that opens the driver and compiles it there, watched.  What comes out is
 * the file of built.h.
 */
#ifndef ARAX_DAEMON_BACKENDS_OPENCL_COMPILER_H
#define ARAX_DAEMON_BACKENDS_OPENCL_COMPILER_H

#include "daemon/backends/opencl/child.h"
#include "daemon/backends/opencl/opencl.h"

/* @err: 0, and @built, which the caller frees; else an error like any.  Only if it has answered. */
struct compiled {
	struct child_end end;
	int err;
	struct blob built;
};

/*
 * Before araxd has threads or a driver.  With the options and the environment as they are then.
 * Where it can't be started there is none.
 */
void compiler_start(void);
void compiler_stop(void);
/*
 * A source or SPIR-V, for @d.  -ENOENT: there is no such process, or none any more, which has been
 * said; another error: it was asked, and no reply came, so that nobody knows what became of it.
 */
int compiler_ask(const struct opencl_device *d, const struct arax_backend_kernel *k,
		 const struct blob *source, struct compiled *c);

#endif /* ARAX_DAEMON_BACKENDS_OPENCL_COMPILER_H */
