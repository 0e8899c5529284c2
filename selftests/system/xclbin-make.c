// SPDX-License-Identifier: MIT
/* xclbin-make FILE ID KERNEL...: see selftests/unit/xclbin_write.h */
#include <err.h>

#include "selftests/unit/xclbin_write.h"

int main(int argc, char **argv)
{
	if (argc < 4)
		errx(2, "usage: xclbin-make FILE ID KERNEL...");
	if (xclbin_save(argv[1], (uint8_t)atoi(argv[2]), (const char *const *)argv + 3, argc - 3))
		err(1, "%s", argv[1]);
	return 0;
}
