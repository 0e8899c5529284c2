// SPDX-License-Identifier: MIT
#include "libarax/admin/mute.h"

#include <stdbool.h>
#include <string.h>

/*
 * The controls of writing from right to left show what follows in another order than it has, so
 * that one user's name may look like another one's.
 */
static bool turns_text(const unsigned char *c)
{
	/* U+061C. */
	if (c[0] == 0xd8)
		return c[1] == 0x9c;
	if (c[0] != 0xe2)
		return false;
	/* U+200E and F; U+202A to E, and the separators of lines and paragraphs before them. */
	if (c[1] == 0x80)
		return c[2] == 0x8e || c[2] == 0x8f || (c[2] >= 0xa8 && c[2] <= 0xae);
	/* U+2066 to U+2069. */
	return c[1] == 0x81 && c[2] >= 0xa6 && c[2] <= 0xa9;
}

size_t mute_at(const char *s)
{
	const unsigned char *c = (const unsigned char *)s;

	if (*c < ' ' || *c == 0x7f)
		return *c ? 1 : 0;
	if (turns_text(c))
		return c[0] == 0xd8 ? 2 : 3;
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
