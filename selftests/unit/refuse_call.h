/* SPDX-License-Identifier: MIT */
/* refuse_call.h - as containers do whose filter of system calls does not know one */
#ifndef ARAX_SELFTESTS_UNIT_REFUSE_CALL_H
#define ARAX_SELFTESTS_UNIT_REFUSE_CALL_H

#include <check.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

/* To all threads of the process, for good. */
static inline void refuse_call(uint32_t nr, uint32_t err)
{
	struct sock_filter code[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, nr, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | err),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	struct sock_fprog filter = { sizeof(code) / sizeof(code[0]), code };

	ck_assert_int_eq(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), 0);
	ck_assert_int_eq(syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER,
				 SECCOMP_FILTER_FLAG_TSYNC, &filter), 0);
}

#endif /* ARAX_SELFTESTS_UNIT_REFUSE_CALL_H */
