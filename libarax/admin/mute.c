// SPDX-License-Identifier: MIT
#include "libarax/admin/mute.h"

#include <string.h>

size_t mute_at(const char *s)
{
	const unsigned char *c = (const unsigned char *)s;

	if (*c < ' ' || *c == 0x7f)
		return *c ? 1 : 0;
	/* U+0080 to U+009F in UTF-8: a CSI is one. */
	return c[0] == 0xc2 && c[1] >= 0x80 && c[1] < 0xa0 ? 2 : 0;
}

char *mute(char *s)
{
	char *c = s;

	while (*c) {
		size_t n = mute_at(c);

		memset(c, '?', n);
		c += n ? n : 1;
	}
	return s;
}
