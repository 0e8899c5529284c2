// SPDX-License-Identifier: MIT
/*
 * bfs.c in OpenCL C.  volatile: read once, see there.  Work-items don't know of each other's rows,
 * which may say that all neighbours are theirs: that there are not too many such is seen to by
 * "work" in the manifest.
 */

__kernel void rodinia_bfs_start(__global int *cost, ulong ncost, __global uint *found, ulong nfound,
				uint nodes, uint slots, uint source, __global int *result)
{
	uint v = get_global_id(0);

	if (ncost < nodes || nfound < slots || source >= nodes || slots > RO_BFS_ITEMS ||
	    !ro_row(nodes, RO_BFS_ITEMS)) {
		*result = -EINVAL;
		return;
	}
	if (v < nodes)
		cost[v] = v == source ? 0 : -1;
	if (v < slots)
		found[v] = !v;
}

__kernel void rodinia_bfs_level(__global const uint *first, ulong nfirst, __global const uint *to,
				ulong nto, __global int *cost, ulong ncost, __global uint *found,
				ulong nfound, uint nodes, uint edges, uint most, uint level,
				uint slot, __global int *result)
{
	uint v = get_global_id(0), begin, end;

	if (nfirst <= nodes || nto < edges || ncost < nodes || nfound < (ulong)slot + 2 ||
	    level >= INT_MAX || !ro_row(nodes, RO_BFS_ITEMS)) {
		*result = -EINVAL;
		return;
	}
	if (!found[slot] || v >= nodes || cost[v] != (int)level)
		return;
	begin = ((volatile __global const uint *)first)[v];
	end = ((volatile __global const uint *)first)[v + 1];
	if (begin > end || end > edges || end - begin > most) {
		*result = -EINVAL;
		return;
	}
	/* Where kernels run on CPU cores min() is no branch to run ahead of. */
	end = min(end, edges);
	for (uint e = begin; e < end; e++) {
		uint w = ((volatile __global const uint *)to)[e];

		if (w >= nodes) {
			*result = -EINVAL;
			return;
		}
		w = min(w, nodes - 1);
		if (cost[w] < 0) {
			cost[w] = level + 1;
			found[slot + 1] = 1;
		}
	}
}
