// SPDX-License-Identifier: MIT
#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "daemon/log.h"
#include "daemon/options.h"

static const char usage[] =
	"usage: araxd [options]\n"
	"\n"
	"Runs tasks of unprivileged programs on this machine's devices.\n"
	"\n"
	"  --user             private: serve one user, without the module\n"
	"  --config FILE      configuration (default /etc/arax/araxd.conf if it exists;\n"
	"                     with --user none)\n"
	"  --socket PATH      where the broker listens\n"
	"                     (default /run/arax/arax.sock; with --user\n"
	"                     $XDG_RUNTIME_DIR/arax/arax.sock)\n"
	"  --kernels DIR      folder of kernel libraries, instead of the configured\n"
	"                     ones; may be given several times\n"
	"  --kind KIND[,...]  only devices of these kinds (cpu, opencl, cuda, hip, xrt)\n"
	"  --tenants DIR      folder of saved limits (default /etc/arax/tenants.d; with\n"
	"                     --user none)\n"
	"  --no-kernel        don't attach to /dev/arax-ctl\n"
	"  --no-broker        don't listen on a socket\n"
	"  --take-over        take the module from an araxd that was killed and can't end\n"
	"  --foreground       stay in the foreground (araxd always does)\n"
	"  --log-level LEVEL  err, warning, notice, info or debug\n"
	"  --trace FILE       record every task there, for arax trace\n"
	"  --ready-fd N       write one byte to descriptor N when serving, and close it\n"
	"  --help, --version\n"
	"\n"
	"Exit status: 0 stopped by SIGTERM or SIGINT, 1 failed, 2 wrong usage.\n";

enum { USER = 1, CONFIG, SOCKET, KERNELS, KIND, TENANTS, NO_KERNEL, NO_BROKER, TAKE_OVER, FOREGROUND, LEVEL, TRACE, READY,
	HELP, VERSION };

static const struct option longs[] = {
	{ "user", no_argument, NULL, USER },
	{ "config", required_argument, NULL, CONFIG },
	{ "socket", required_argument, NULL, SOCKET },
	{ "kernels", required_argument, NULL, KERNELS },
	{ "kind", required_argument, NULL, KIND },
	{ "tenants", required_argument, NULL, TENANTS },
	{ "no-kernel", no_argument, NULL, NO_KERNEL },
	{ "no-broker", no_argument, NULL, NO_BROKER },
	{ "take-over", no_argument, NULL, TAKE_OVER },
	{ "foreground", no_argument, NULL, FOREGROUND },
	{ "log-level", required_argument, NULL, LEVEL },
	{ "trace", required_argument, NULL, TRACE },
	{ "ready-fd", required_argument, NULL, READY },
	{ "help", no_argument, NULL, HELP },
	{ "version", no_argument, NULL, VERSION },
	{ 0 },
};

static int fail(const char *what, const char *value)
{
	fprintf(stderr, "araxd: %s%s%s; see araxd --help\n", what, value ? ": " : "",
		value ? value : "");
	return -1;
}

static int parse_fd(const char *text, int *fd)
{
	char *end;
	long v = strtol(text, &end, 10);

	if (*end || end == text || v < 0 || v > 1 << 20)
		return -1;
	*fd = (int)v;
	return 0;
}

static int take(struct options *o, int opt)
{
	switch (opt) {
	case USER:
		o->user = true;
		break;
	case CONFIG:
		o->config = optarg;
		break;
	case SOCKET:
		/* It would be a name without a file, which has neither owner nor mode. */
		if (!*optarg)
			return fail("--socket takes a path", NULL);
		o->socket = optarg;
		break;
	case KERNELS:
		if (o->nr_kernels == OPTIONS_KERNELS)
			return fail("too many --kernels", optarg);
		o->kernels[o->nr_kernels++] = optarg;
		break;
	case KIND:
		o->kinds = optarg;
		break;
	case TENANTS:
		/* A variable that isn't set, most likely. */
		if (!*optarg)
			return fail("--tenants takes a folder", NULL);
		o->tenants = optarg;
		break;
	case NO_KERNEL:
		o->no_kernel = true;
		break;
	case NO_BROKER:
		o->no_broker = true;
		break;
	case TAKE_OVER:
		o->take_over = true;
		break;
	case FOREGROUND:
		break;
	case LEVEL:
		if (log_level_from_name(optarg) < 0)
			return fail("unknown log level", optarg);
		o->log_level = optarg;
		break;
	case TRACE:
		o->trace = optarg;
		break;
	case READY:
		if (parse_fd(optarg, &o->ready_fd))
			return fail("--ready-fd takes a descriptor", optarg);
		break;
	case HELP:
		fputs(usage, stdout);
		return 1;
	case VERSION:
		puts("araxd " ARAX_VERSION);
		return 1;
	default:
		return fail("wrong usage", NULL);
	}
	return 0;
}

int options_parse(struct options *o, int argc, char **argv)
{
	int opt, ret;

	memset(o, 0, sizeof(*o));
	o->ready_fd = -1;
	optind = 1;
	while ((opt = getopt_long(argc, argv, "", longs, NULL)) != -1) {
		ret = take(o, opt);
		if (ret)
			return ret;
	}
	if (optind < argc)
		return fail("unexpected argument", argv[optind]);
	if (o->no_broker && (o->user || o->no_kernel))
		return fail("no link is left", NULL);
	if (o->take_over && (o->user || o->no_kernel))
		return fail("--take-over is about the module, which is not used", NULL);
	return 0;
}

int options_socket(const struct options *o, const char *configured, char *path, size_t len)
{
	const char *dir;
	size_t n;

	if (o->socket || (configured && configured[0])) {
		n = (size_t)snprintf(path, len, "%s", o->socket ? o->socket : configured);
		return n < len ? 0 : -ENAMETOOLONG;
	}
	if (!o->user) {
		mkdir("/run/arax", 0755);
		n = (size_t)snprintf(path, len, "/run/arax/arax.sock");
		return n < len ? 0 : -ENAMETOOLONG;
	}
	dir = secure_getenv("XDG_RUNTIME_DIR");
	if (!dir || dir[0] != '/')
		return -EINVAL;
	n = (size_t)snprintf(path, len, "%s/arax", dir);
	if (n >= len)
		return -ENAMETOOLONG;
	mkdir(path, 0700);
	n = (size_t)snprintf(path, len, "%s/arax/arax.sock", dir);
	return n < len ? 0 : -ENAMETOOLONG;
}
