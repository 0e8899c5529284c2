// SPDX-License-Identifier: MIT
/* araxd: reads its configuration, opens devices and links, polls, and ends well. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <unistd.h>

#include "daemon/backends/device.h"
#include "daemon/cgroups.h"
#include "daemon/child.h"
#include "daemon/config.h"
#include "daemon/dispatch/models.h"
#include "daemon/dispatch/poller.h"
#include "daemon/kernels/registry.h"
#include "daemon/link/broker.h"
#include "daemon/link/holdings.h"
#include "daemon/link/kernel.h"
#include "daemon/log.h"
#include "daemon/memory/guard.h"
#include "daemon/notify.h"
#include "daemon/observe/stats.h"
#include "daemon/observe/trace.h"
#include "daemon/options.h"
#include "daemon/tenants/tenants.h"
#include "daemon/worker/cgroup.h"
#include "libarax/admin/cgroup.h"
#include "libarax/admin/saved.h"

#define SYSTEM_CONFIG	"/etc/arax/araxd.conf"
#define CONTROL_DEVICE	"/dev/arax-ctl"
#define ENDING_MS	200	/* in which who has nothing to wait for has ended */

struct daemon {
	struct options options;
	struct config config;
	bool configured;
	struct devices *devices;
	struct registry *registry;
	struct holdings *holdings;
	struct poller *poller;
	struct broker *broker;
	struct kernel_link *kernel;
	struct tenants *tenants;
	int signal_fd;
	int stopped_fd;
	int lost_fd;
	bool failed;	/* it ends, and nobody has asked for it */
	bool left;	/* devices are, as somebody is inside of one */
};

static const char *config_path(const struct daemon *d)
{
	if (!d->options.config && !d->options.user && !access(SYSTEM_CONFIG, F_OK))
		return SYSTEM_CONFIG;
	return d->options.config;
}

static int load_config(struct daemon *d)
{
	const char *path = config_path(d);
	char error[512];
	int err;

	err = path ? config_load(&d->config, path, error, sizeof(error)) :
		     config_init(&d->config);
	if (err) {
		fprintf(stderr, "araxd: %s\n", path ? error : strerror(-err));
		return err;
	}
	d->configured = true;
	d->config.shared = !d->options.user;
	if (d->options.log_level)
		d->config.log.level =
			(enum log_level)log_level_from_name(d->options.log_level);
	log_init(STDERR_FILENO, d->config.log.level, d->config.log.format);
	return 0;
}

static int leave_kinds(struct daemon *d)
{
	char error[512];
	int err;

	err = config_kinds(&d->config, d->options.kinds, error, sizeof(error));
	if (err)
		fprintf(stderr, "araxd: %s\n", error);
	return err;
}

/* Each client brings descriptors: take what we may have. */
static int raise_limits(void)
{
	struct rlimit r;

	if (getrlimit(RLIMIT_NOFILE, &r))
		return -errno;
	r.rlim_cur = r.rlim_max;
	setrlimit(RLIMIT_NOFILE, &r);
	if (r.rlim_max >= CHILD_LEAST_FILES)
		return 0;
	log_err("too few files may be open at once (RLIMIT_NOFILE)", log_u64("limit", r.rlim_max),
		log_u64("least", CHILD_LEAST_FILES),
		log_str("remedy", "a higher LimitNOFILE= of araxd's unit, or ulimit -Hn where it is started"));
	return -EMFILE;
}

/* Before the first thread, so that all inherit the mask. */
static int take_signals(struct daemon *d)
{
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, SIGTERM);
	sigaddset(&set, SIGINT);
	sigaddset(&set, SIGUSR1);
	sigaddset(&set, SIGHUP);
	if (pthread_sigmask(SIG_BLOCK, &set, NULL))
		return -EINVAL;
	signal(SIGPIPE, SIG_IGN);
	/*
	 * Whoever starts us may ignore it: then nobody could wait for a child, and its number be
	 * another's.
	 */
	signal(SIGCHLD, SIG_DFL);
	d->signal_fd = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
	d->stopped_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	d->lost_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	return d->signal_fd < 0 || d->stopped_fd < 0 || d->lost_fd < 0 ? -errno : 0;
}

/* Its cgroup may be new and have saved limits. */
static void on_arriving(void *arg)
{
	struct daemon *d = arg;

	if (d->tenants)
		tenants_event(d->tenants);
}

/* Of which there is only an errno. */
static __attribute__((cold)) void say_no_place(const struct daemon *d, int err)
{
	const char *named = d->options.socket ? d->options.socket : d->config.link.socket;

	if (err != -ENAMETOOLONG)
		log_err("no place for the socket: set XDG_RUNTIME_DIR or give --socket", log_errno(err));
	else if (named && named[0])
		log_err("socket path too long", log_str("path", named),
			log_u64("limit", BROKER_PATH_MOST),
			log_str("remedy", "give a shorter one by --socket or link.socket"));
	else
		log_err("socket path too long", log_str("XDG_RUNTIME_DIR", getenv("XDG_RUNTIME_DIR")),
			log_u64("limit", BROKER_PATH_MOST),
			log_str("remedy", "give a shorter one by --socket or link.socket, or a shorter XDG_RUNTIME_DIR"));
}

static int open_broker(struct daemon *d)
{
	struct broker_params bp = { .config = &d->config, .holdings = d->holdings,
				    .arriving = on_arriving, .arg = d };
	char path[256];
	int err;

	if (d->broker || d->options.no_broker || d->config.link.kind == CONFIG_LINK_KERNEL ||
	    (d->kernel && d->config.link.kind == CONFIG_LINK_AUTO))
		return 0;
	err = options_socket(&d->options, d->config.link.socket, path, sizeof(path));
	if (err) {
		say_no_place(d, err);
		return err;
	}
	bp.path = path;
	/* One that isn't root's has no other user that it could be for. */
	bp.own_admin = d->options.user || geteuid();
	bp.mode = d->options.user ? 0600 : d->config.link.socket_mode;
	err = broker_create(&bp, &d->broker);
	if (!err)
		log_info("listening", log_str("socket", path));
	return err;
}

static void tell(int fd)
{
	const uint64_t one = 1;
	ssize_t n = write(fd, &one, sizeof(one));

	(void)n;
}

static void on_lost(void *arg)
{
	struct daemon *d = arg;

	tell(d->lost_fd);
}

static int open_kernel(struct daemon *d)
{
	int err;

	if (d->options.no_kernel || d->options.user ||
	    d->config.link.kind == CONFIG_LINK_BROKER)
		return 0;
	err = kernel_link_open(CONTROL_DEVICE, d->options.take_over, d->holdings, on_lost, d,
			       &d->kernel);
	if (err == -ENOENT && !d->options.no_broker && d->config.link.kind != CONFIG_LINK_KERNEL) {
		log_info("no module: serving the socket only", log_str("path", CONTROL_DEVICE));
		return 0;
	}
	if (err == -ENOENT)
		log_err("the module arax is not loaded", log_str("path", CONTROL_DEVICE));
	return err;
}

/*
 * Both only where that is asked for: each link has books of its own, and who uses both has each
 * limit twice.
 */
static int open_links(struct daemon *d)
{
	char path[256] = "";
	int err = 0;

	/* First what another instance would hold. */
	if (d->config.link.kind == CONFIG_LINK_BOTH)
		err = open_broker(d);
	if (!err)
		err = open_kernel(d);
	if (!err)
		err = open_broker(d);
	if (err)
		return err;
	if (d->kernel && !d->broker && !d->options.no_broker &&
	    d->config.link.kind == CONFIG_LINK_AUTO) {
		/* Empty: there would be no place for it either. */
		options_socket(&d->options, d->config.link.socket, path, sizeof(path));
		log_notice("no socket: programs use the module", log_str("socket", path),
			   log_str("remedy", "link.kind = both, or broker, where some can't"));
	}
	if (d->broker && d->kernel)
		log_notice("both links are served: limits of tenants hold on each by itself",
			   log_str("remedy", "link.kind = auto"));
	/* Options may leave out one, the configuration the other. */
	if (d->broker || d->kernel)
		return 0;
	log_err("no link is left: see link.kind");
	return -EINVAL;
}

static int open_kernels(struct daemon *d)
{
	size_t i;
	int n;

	d->registry = registry_create();
	if (!d->registry)
		return -ENOMEM;
	for (i = 0; i < d->options.nr_kernels; i++) {
		n = registry_load_folder(d->registry, d->options.kernels[i]);
		if (n < 0) {
			log_err("kernel libraries can't be used",
				log_str("folder", d->options.kernels[i]), log_errno(n));
			return n;
		}
	}
	for (i = 0; !d->options.nr_kernels && i < d->config.kernels.path.count; i++)
		registry_load_folder(d->registry, d->config.kernels.path.items[i]);
	log_info("kernels loaded", log_u64("count", registry_count(d->registry)));
	return 0;
}

/* Programs may bring a kernel that is called so, of which nothing is known before. */
static void check_costs(const struct daemon *d, const struct config_list *options)
{
	static const char cost[] = "cost=";
	char name[ARAX_NAME_LEN];
	size_t i;

	for (i = 0; i < options->count; i++) {
		const char *o = options->items[i];

		if (strncmp(o, cost, strlen(cost)))
			continue;
		o += strlen(cost);
		snprintf(name, sizeof(name), "%.*s", (int)strcspn(o, ":"), o);
		if (!registry_find(d->registry, name))
			log_warn("a cost is of no kernel that is installed", log_str("backend", "sim"),
				 log_str("kernel", name),
				 log_str("remedy", "call it as arax kernels does, unless a program brings one of that name"));
	}
}

static int open_devices(struct daemon *d)
{
	int err = devices_open(&d->config, &d->devices);
	size_t i;

	for (i = 0; !err && i < d->config.nr_backends; i++)
		if (!strcmp(d->config.backends[i].name, "sim"))
			check_costs(d, &d->config.backends[i].options);
	return err;
}

static int set_limit(void *arg, const struct arax_limit *a)
{
	struct daemon *d = arg;
	int err = 0, ret = 0;

	if (d->broker)
		ret = broker_limit_set(d->broker, a);
	if (d->kernel)
		err = kernel_link_limit_set(d->kernel, a);
	return ret ? ret : err;
}

/* So that it can be watched before the first limit is saved.  What is @given may be misspelt. */
static void make_folder(const char *folder, bool given)
{
	bool made = !mkdir(folder, 0755);

	if (made && given)
		log_warn("the folder of saved limits was not there and has been made: none are in force",
			 log_str("folder", folder),
			 log_str("remedy", "put files there, which are read at once, or give another one by --tenants"));
	else if (!made && errno != EEXIST)
		log_warn("the folder of saved limits is not there and can't be made: none are in force",
			 log_str("folder", folder), log_errno(-errno),
			 log_str("remedy", "make it, and it is read at once, or give another one by --tenants"));
}

static int open_tenants(struct daemon *d)
{
	const char *folder = d->options.tenants;
	char mount[4096];

	if (!folder && d->options.user)
		return 0;
	if (!folder) {
		folder = SAVED_FOLDER;
		mkdir(SAVED_PARENT, 0755);
	}
	make_folder(folder, d->options.tenants);
	if (!cgroup_mount(mount, sizeof(mount))) {
		log_notice("no cgroup2 file system is mounted: no saved limits",
			   log_str("folder", folder));
		return 0;
	}
	d->tenants = tenants_create(folder, mount, set_limit, d);
	return d->tenants ? 0 : -ENOMEM;
}

static int start_trace(struct daemon *d)
{
	struct trace *t;
	int err = trace_open(d->options.trace, &t);

	if (err) {
		log_err("the trace can't be written", log_str("file", d->options.trace),
			log_errno(err));
		return err;
	}
	poller_set_trace(d->poller, t);
	return 0;
}

static int keep_models(struct daemon *d)
{
	const char *path = d->config.sched.models;
	char found[4096];

	if (path && !strcmp(path, "none"))
		return 0;
	if (!path && !models_default_path(d->options.user, found, sizeof(found))) {
		log_notice("no place for learnt run times: set XDG_STATE_HOME or HOME");
		return 0;
	}
	return poller_keep_models(d->poller, path ? path : found);
}

static int open_all(struct daemon *d)
{
	struct holdings_limits limits;
	int err;

	holdings_limits(&limits);
	d->holdings = holdings_create(&limits);
	if (!d->holdings)
		return -ENOMEM;
	err = open_links(d);
	if (!err)
		err = cgroups_open(&d->config);
	if (!err)
		err = open_kernels(d);
	if (!err)
		err = open_devices(d);
	if (!err)
		err = poller_create(&d->config, d->registry, d->devices, &d->poller);
	/* Drivers have been opened, and kernels compiled: a compiler brings handlers along. */
	if (!err)
		err = guard_init();
	if (!err && d->options.trace)
		err = start_trace(d);
	/* The module first: what it knows of a tenant counts. */
	if (!err && d->kernel)
		err = poller_add_link(d->poller, kernel_link_link(d->kernel));
	if (!err && d->broker)
		err = poller_add_link(d->poller, broker_link(d->broker));
	if (!err)
		err = keep_models(d);
	/* Before anybody is served. */
	if (!err)
		err = open_tenants(d);
	if (!err)
		err = poller_start(d->poller);
	if (!err && d->broker)
		err = broker_start(d->broker);
	return err;
}

static void close_all(struct daemon *d)
{
	/* Threads that use others first: service, poller, devices. */
	if (d->broker)
		broker_stop(d->broker);
	if (d->tenants)
		tenants_destroy(d->tenants);
	if (d->poller)
		poller_destroy(d->poller);
	if (d->broker)
		broker_destroy(d->broker);
	if (d->kernel)
		kernel_link_close(d->kernel);
	holdings_destroy(d->holdings);
	if (d->devices)
		d->left = !devices_close(d->devices);
	worker_cgroups_close();
	if (d->registry)
		registry_destroy(d->registry);
	if (d->configured)
		config_free(&d->config);
	if (d->signal_fd >= 0)
		close(d->signal_fd);
	if (d->stopped_fd >= 0)
		close(d->stopped_fd);
	if (d->lost_fd >= 0)
		close(d->lost_fd);
}

/* What can change in a running daemon; all else is taken at its start only. */
static void reload(struct daemon *d)
{
	const char *path = config_path(d);
	struct config new;
	char error[512];

	if (d->tenants)
		tenants_reload(d->tenants);
	if (!path)
		return;
	if (config_load(&new, path, error, sizeof(error))) {
		log_err("the old configuration stays", log_str("error", error));
		return;
	}
	if (poller_set_policy(d->poller, new.sched.policy))
		log_err("scheduling policy not changed", log_errno(-ENOMEM));
	config_free(&new);
}

static void on_stopped(void *arg)
{
	struct daemon *d = arg;

	tell(d->stopped_fd);
}

static void stop(struct daemon *d)
{
	notify_manager("STOPPING=1");
	if (d->broker)
		broker_refuse(d->broker);
	poller_stop(d->poller, on_stopped, d);
}

/* Who is about to end anyway isn't cut short, and nothing runs there. */
static bool stops_by_itself(const struct daemon *d)
{
	struct pollfd stopped = { .fd = d->stopped_fd, .events = POLLIN };
	int n;

	do
		n = poll(&stopped, 1, ENDING_MS);
	while (n < 0 && errno == EINTR);
	return n > 0;
}

/* Serves until everything has stopped; a second signal doesn't wait for tasks. */
static void run(struct daemon *d)
{
	struct pollfd fds[5] = {
		{ .fd = d->signal_fd, .events = POLLIN },
		{ .fd = d->stopped_fd, .events = POLLIN },
		{ .fd = d->tenants ? tenants_fd(d->tenants) : -1, .events = POLLIN },
		{ .fd = d->lost_fd, .events = POLLIN },
		{ .fd = d->tenants ? tenants_mounts_fd(d->tenants) : -1, .events = POLLPRI },
	};
	int wait_ms = d->tenants ? 0 : -1;
	bool stopping = false;

	for (;;) {
		struct signalfd_siginfo si;

		if (poll(fds, 5, wait_ms) < 0 && errno != EINTR)
			return;
		if (fds[1].revents)
			return;
		if (fds[2].revents || fds[4].revents || wait_ms >= 0)
			wait_ms = tenants_event_paced(d->tenants);
		if (fds[3].revents) {
			/* A service manager starts who failed anew, not who was stopped. */
			fds[3].fd = -1;
			d->failed = !stopping;
			if (!stopping)
				stop(d);
			stopping = true;
		}
		if (!fds[0].revents || read(d->signal_fd, &si, sizeof(si)) != sizeof(si))
			continue;
		if (si.ssi_signo == SIGUSR1) {
			stats_log(d->poller);
			poller_save_models(d->poller);
			continue;
		}
		if (si.ssi_signo == SIGHUP) {
			reload(d);
			continue;
		}
		if (stopping) {
			if (stops_by_itself(d))
				return;
			log_warn("stopped at once: tasks were running");
			if (d->broker)
				broker_refuse(d->broker);
			_exit(1);
		}
		stopping = true;
		log_info("stopping", log_str("signal", strsignal((int)si.ssi_signo)));
		stop(d);
	}
}

/* What is closed would be given to a socket or a device, and the log be written into that. */
static void open_standard(void)
{
	int fd;

	do
		fd = open("/dev/null", O_RDWR);
	while (fd >= 0 && fd <= STDERR_FILENO);
	if (fd >= 0)
		close(fd);
}

int main(int argc, char **argv)
{
	struct daemon d = { .signal_fd = -1, .stopped_fd = -1, .lost_fd = -1 };
	int ret;

	open_standard();
	ret = options_parse(&d.options, argc, argv);
	if (ret > 0 && (fflush(stdout) || ferror(stdout))) {
		perror("araxd: standard output");
		return 1;
	}
	if (ret)
		return ret > 0 ? 0 : 2;
	if (load_config(&d))
		return 1;
	if (d.options.kinds && leave_kinds(&d))
		return 2;
	ret = raise_limits();
	if (!ret)
		ret = child_reserve();
	if (!ret)
		ret = take_signals(&d);
	if (!ret)
		ret = guard_init();
	if (!ret)
		ret = open_all(&d);
	if (ret) {
		log_err("araxd can't start", log_errno(ret));
		close_all(&d);
		return 1;
	}
	log_info("araxd is ready", log_str("version", ARAX_VERSION),
		 log_u64("devices", d.poller->nr_devs));
	notify_manager("READY=1");
	notify_ready_fd(d.options.ready_fd);
	if (d.options.ready_fd >= 0)
		child_close(d.options.ready_fd);
	run(&d);
	close_all(&d);
	log_info("araxd has ended");
	/* What libraries do at the end of a process would wait for who is inside of them. */
	if (d.left)
		_exit(d.failed ? 1 : 0);
	return d.failed ? 1 : 0;
}
