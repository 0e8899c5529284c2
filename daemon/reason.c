// SPDX-License-Identifier: MIT
#include "daemon/reason.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

_Thread_local char reason_text[REASON_LEN];

void reason_set(const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(reason_text, sizeof(reason_text), fmt, ap);
	va_end(ap);
}

void reason_take(char *text)
{
	memcpy(text, reason_text, REASON_LEN);
	reason_forget();
}
