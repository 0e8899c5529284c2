/* SPDX-License-Identifier: MIT */
/*
 * signature.h - the text form of a kernel's signature
 *
 *	vadd(in f32 a[], in f32 b[], out f32 c[], u32 n)
 *
 *	signature := name '(' [ param { ',' param } ] ')'
 *	param     := access type ident '[' ']'		a buffer range
 *		   | type ident				a plain argument
 *	access    := 'in' | 'out' | 'inout'
 *	type      := i8 u8 i16 u16 i32 u32 i64 u64 f32 f64
 *	name, ident := [A-Za-z_][A-Za-z0-9_]*, a name at most 63 bytes
 *
 * White space (space, tab) is free between words.  Ranges are numbered in
 * order, plain arguments are laid out as the members of a C struct: natural
 * alignment, total rounded up to the largest.  The canonical text has one
 * space after a comma, an access and a type, and no other; its FNV-1a 64 hash
 * is the ABI hash.
 */
#ifndef ARAX_DAEMON_KERNELS_SIGNATURE_H
#define ARAX_DAEMON_KERNELS_SIGNATURE_H

#include <stddef.h>
#include <stdint.h>

#include "uapi/arax.h"

#define SIGNATURE_TEXT_MAX	256	/* canonical, with its NUL; as in the uapi */

struct signature {
	char name[ARAX_NAME_LEN];
	char text[SIGNATURE_TEXT_MAX];
	struct arax_signature abi;
	uint32_t nr_params;
};

/*
 * -EINVAL: not the grammar, a name twice; -E2BIG: more parameters, longer name
 * or longer text than the uapi holds.  `error` says what and at which byte.
 */
int signature_parse(struct signature *s, const char *text, char *error, size_t len);

/*
 * Where the plain argument @name, a u32, stands among a launch's; -EINVAL: that is something else;
 * -ENOENT: there is no such name.
 */
int signature_u32(const struct signature *s, const char *name);

uint64_t signature_hash(const char *text);

#endif /* ARAX_DAEMON_KERNELS_SIGNATURE_H */
