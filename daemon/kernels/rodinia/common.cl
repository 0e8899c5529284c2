// SPDX-License-Identifier: MIT
/* What the sources that follow share; shape.h stands in front. */

static int ro_geometry(ulong gx, ulong gy, ulong gz, ulong x, ulong y, ulong z)
{
	return get_num_groups(0) == gx && get_num_groups(1) == gy && get_num_groups(2) == gz &&
	       get_local_size(0) == x && get_local_size(1) == y && get_local_size(2) == z;
}

/* In a row: ceil(n / items) groups. */
static int ro_row(ulong n, ulong items)
{
	return ro_geometry(RO_GROUPS(n, items), 1, 1, items, 1, 1);
}
