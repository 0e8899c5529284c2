// SPDX-License-Identifier: MIT
/* Which CPU whom. */
#include "place.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>

#define MAX_MOVED 256

int place_cpu[2];
int place_ncpus;
static cpu_set_t all;

void place_init(void)
{
	int cpu;

	CPU_ZERO(&all);
	sched_getaffinity(0, sizeof(all), &all);
	place_ncpus = 0;
	for (cpu = 0; cpu < CPU_SETSIZE; cpu++) {
		if (!CPU_ISSET(cpu, &all))
			continue;
		if (place_ncpus == 0)
			place_cpu[0] = place_cpu[1] = cpu;
		else if (place_ncpus == 1)
			place_cpu[1] = cpu;
		place_ncpus++;
	}
}

static void place(pid_t tid, int cpu)
{
	cpu_set_t one;

	CPU_ZERO(&one);
	if (cpu >= 0)
		CPU_SET(cpu, &one);
	/* A thread that has just gone is none to place. */
	sched_setaffinity(tid, sizeof(one), cpu >= 0 ? &one : &all);
}

void place_self(int cpu)
{
	place(0, cpu);
}

/* Threads that are where place_process() put them. */
static pid_t moved[MAX_MOVED];
static int nr_moved;

static void place_thread(pid_t tid, int cpu)
{
	cpu_set_t now;
	int i;

	for (i = 0; i < nr_moved && moved[i] != tid; i++)
		;
	if (i == nr_moved) {
		if (cpu < 0 || i == MAX_MOVED || sched_getaffinity(tid, sizeof(now), &now) ||
		    !CPU_EQUAL(&now, &all))
			return;
		moved[nr_moved++] = tid;
	}
	place(tid, cpu);
}

void place_process(pid_t pid, int cpu)
{
	struct dirent *e;
	char path[64];
	DIR *dir;

	snprintf(path, sizeof(path), "/proc/%d/task", pid);
	dir = opendir(path);
	if (!dir)
		return;
	while ((e = readdir(dir))) {
		if (atoi(e->d_name) > 0)
			place_thread(atoi(e->d_name), cpu);
	}
	closedir(dir);
}
