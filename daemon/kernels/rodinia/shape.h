/* SPDX-License-Identifier: MIT */
/*
 * shape.h - how the Rodinia kernels are cut into work-groups
 *
 * For the kernels in C, the programs that launch them, and in front of the OpenCL
 * sources: so nothing but numbers stands here.  A kernel refuses another geometry
 * than its own, because then a part of what it says to write would stay unwritten.
 */
#ifndef ARAX_RODINIA_SHAPE_H
#define ARAX_RODINIA_SHAPE_H

#define RO_GROUPS(items, each)	(((items) + (each) - 1) / (each))

/* bfs: a work-item for each node. */
#define RO_BFS_ITEMS	256

/* gaussian: of the multipliers, and of the matrix. */
#define RO_GAUSS_ITEMS	256
#define RO_GAUSS_X	64
#define RO_GAUSS_Y	4

/*
 * hotspot: a group's tile in local memory, of which a border as wide as there are
 * steps in a launch is computed by the neighbours, too; 64 x 4 work-items.
 */
#define RO_HOT_X	64
#define RO_HOT_Y	32
#define RO_HOT_ITEMS_Y	4
#define RO_HOT_STEPS	4

/* hotspot3d: cells of a group. */
#define RO_HOT3_X	64
#define RO_HOT3_Y	2
#define RO_HOT3_Z	2

/* lavamd: a group for each box; at most so many particles are in one. */
#define RO_LAVA_ITEMS	128

/* nn: a group finds the nearest of a chunk of records, at most so many of them. */
#define RO_NN_ITEMS	256
#define RO_NN_CHUNK	4096
#define RO_NN_MOST	32

/* nw: a group of a work-item for each column of a square tile. */
#define RO_NW_TILE	32

/* particlefilter: a work-item for each particle. */
#define RO_PF_ITEMS	256
#define RO_PF_RADIUS	5	/* of the object, in pixels */

/* pathfinder: a group's columns in local memory, with a border of the rows of a launch. */
#define RO_PATH_ITEMS	256
#define RO_PATH_TILE	1024
#define RO_PATH_ROWS	64

#endif
