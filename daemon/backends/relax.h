/* SPDX-License-Identifier: MIT */
/* relax.h - tell the core that this is a spin loop */
#ifndef ARAX_DAEMON_BACKENDS_RELAX_H
#define ARAX_DAEMON_BACKENDS_RELAX_H

static inline void relax(void)
{
#if defined(__x86_64__) || defined(__i386__)
	__builtin_ia32_pause();
#elif defined(__aarch64__)
	__asm__ volatile("yield" ::: "memory");
#else
	__asm__ volatile("" ::: "memory");
#endif
}

#endif /* ARAX_DAEMON_BACKENDS_RELAX_H */
