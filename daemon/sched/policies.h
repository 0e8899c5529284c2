/* SPDX-License-Identifier: MIT */
/*
 * policies.h - the policies there are: C name, name in araxd.conf
 *
 * To add one: write policy_NAME.c with a struct sched_policy (see policy.h; policy_rr.c
 * is a short one to begin from), and a line here, in araxd.conf(5) and araxd.conf.sample.
 * The first one is the default.
 */
#ifndef ARAXD_SCHED_POLICIES_H
#define ARAXD_SCHED_POLICIES_H

#define SCHED_POLICIES(policy)				\
	policy(eft, "eft")				\
	policy(fair, "fair")				\
	policy(rr, "rr")				\
	policy(stream_aware, "stream-aware")		\
	policy(min_transfer_size, "min-transfer-size")	\
	policy(minmin, "minmin-transfer-time")		\
	policy(minmax, "minmax-transfer-time")		\
	policy(pinned, "static")

#endif /* ARAXD_SCHED_POLICIES_H */
