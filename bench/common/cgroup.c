/* SPDX-License-Identifier: BSD-2-Clause */
#include "common/cgroup.h"

#include "fathom/base/error.h"

#include <errno.h>
#include <fcntl.h>
#include <mntent.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define PATH_SIZE    512
#define LOOK_MS	     100 /* how often a waiting parent looks whether it should stop */
#define REMOVE_TRIES 50

/* ---- files of the kernel ---- */

/* One write, as these files want it. */
static int put(const char *folder, const char *name, const char *text)
{
	char path[2 * PATH_SIZE];
	ssize_t n;
	int fd, rc;

	snprintf(path, sizeof(path), "%s/%s", folder, name);
	fd = open(path, O_WRONLY | O_CLOEXEC);
	if (fd < 0)
		return fth_fail(errno, "%s: %s", path, strerror(errno));
	n = write(fd, text, strlen(text));
	rc = n == (ssize_t)strlen(text) ? 0 : fth_fail(errno, "%s: %s", path, strerror(errno));
	close(fd);
	return rc;
}

static int get_text(const char *folder, const char *name, char *buf, size_t len)
{
	char path[2 * PATH_SIZE];
	FILE *file;
	size_t n;

	snprintf(path, sizeof(path), "%s/%s", folder, name);
	file = fopen(path, "re");
	if (!file)
		return -errno;
	n = fread(buf, 1, len - 1, file);
	buf[n] = '\0';
	fclose(file);
	return 0;
}

static uint64_t get_number(const char *folder, const char *name)
{
	char text[64];

	return get_text(folder, name, text, sizeof(text)) < 0 ? 0 : strtoull(text, NULL, 10);
}

/* ---- the group ---- */

struct group {
	char path[PATH_SIZE];
	bool v2;
};

static bool is_memory_v1(const struct mntent *entry)
{
	return strcmp(entry->mnt_type, "cgroup") == 0 && hasmntopt(entry, "memory");
}

/* Is there a memory controller below this mount, to give to groups in it? */
static bool is_memory_v2(const struct mntent *entry)
{
	char controllers[512];

	return strcmp(entry->mnt_type, "cgroup2") == 0 &&
	       get_text(entry->mnt_dir, "cgroup.controllers", controllers, sizeof(controllers)) ==
		       0 &&
	       strstr(controllers, "memory") &&
	       put(entry->mnt_dir, "cgroup.subtree_control", "+memory") == 0;
}

static int find_mount(struct group *group)
{
	FILE *mounts = setmntent("/proc/self/mounts", "re");
	struct mntent *entry;
	int rc = -ENOTSUP;

	while (mounts && rc < 0 && (entry = getmntent(mounts))) {
		group->v2 = is_memory_v2(entry);
		if (!group->v2 && !is_memory_v1(entry))
			continue;
		snprintf(group->path, sizeof(group->path), "%s", entry->mnt_dir);
		rc = 0;
	}
	if (mounts)
		endmntent(mounts);
	return rc < 0 ? fth_fail(ENOTSUP, "no memory cgroup is mounted or writable") : 0;
}

static void remove_group(const struct group *group)
{
	/* The kernel may still be busy with the process that left; tries are counted. */
	for (int i = 0; i < REMOVE_TRIES && rmdir(group->path) < 0 && errno == EBUSY; i++)
		poll(NULL, 0, 10);
}

static int set_limits(const struct group *group, uint64_t memory, bool swap)
{
	char limit[32];
	int rc;

	snprintf(limit, sizeof(limit), "%llu", (unsigned long long)memory);
	rc = put(group->path, group->v2 ? "memory.max" : "memory.limit_in_bytes", limit);
	/* Swapping the child out would be no comparison; where there is no swap neither file is
	 * needed, so that a failure is none. */
	if (rc == 0 && !swap)
		put(group->path, group->v2 ? "memory.swap.max" : "memory.swappiness", "0");
	return rc;
}

static int make_group(struct group *group, uint64_t memory, bool swap)
{
	static unsigned number;
	size_t used;
	int rc = find_mount(group);

	if (rc < 0)
		return rc;
	used = strlen(group->path);
	snprintf(group->path + used, sizeof(group->path) - used, "/fathom-%ld-%u", (long)getpid(),
		 number++);
	if (mkdir(group->path, 0755) < 0)
		return fth_fail(ENOTSUP, "cannot create cgroup %s: %s", group->path,
				strerror(errno));
	rc = set_limits(group, memory, swap);
	if (rc < 0) {
		remove_group(group);
		return fth_fail(ENOTSUP, "cannot set the memory limit of cgroup %s", group->path);
	}
	return 0;
}

int fth_cgroup_available(void)
{
	struct group group;
	int rc = make_group(&group, 16 << 20, false);

	if (rc == 0)
		remove_group(&group);
	return rc;
}

/* ---- the child ---- */

/* What both processes see. The result follows it. */
struct shared {
	int rc;
	bool finished;
	char error[FTH_ERROR_TEXT_MAX];
	struct fth_cgroup_usage usage;
	_Alignas(64) char result[];
};

static uint64_t field(const char *text, const char *name)
{
	const char *at = strstr(text, name);

	return at ? strtoull(at + strlen(name), NULL, 10) : 0;
}

static void count_usage(struct fth_cgroup_usage *usage)
{
	char text[512] = "\n";
	struct rusage own;

	/* The names begin lines: "write_bytes" is also the end of another one's. */
	if (get_text("/proc/self", "io", text + 1, sizeof(text) - 1) == 0) {
		usage->bytes_read = field(text, "\nread_bytes: ");
		usage->bytes_written = field(text, "\nwrite_bytes: ");
	}
	if (getrusage(RUSAGE_SELF, &own) == 0)
		usage->major_faults = (uint64_t)own.ru_majflt;
}

static void be_child(const struct group *group, const struct fth_cgroup_job *job,
		     struct shared *shared)
{
	struct fth_cgroup_usage before = {0};

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	fth_error_clear();
	shared->rc = put(group->path, "cgroup.procs", "0");
	count_usage(&before);
	if (shared->rc == 0)
		shared->rc = job->fn(job->context, shared->result);
	count_usage(&shared->usage);
	shared->usage.bytes_read -= before.bytes_read;
	shared->usage.bytes_written -= before.bytes_written;
	shared->usage.major_faults -= before.major_faults;
	if (shared->rc < 0)
		snprintf(shared->error, sizeof(shared->error), "%s", fth_error_text(shared->rc));
	shared->finished = true;
	_exit(0);
}

/* Ends when the child does; it is killed once job->stopped() says so. */
static int wait_for(pid_t child, const struct fth_cgroup_job *job)
{
	int fd = (int)syscall(SYS_pidfd_open, child, 0), status;
	struct pollfd ready = {.fd = fd, .events = POLLIN};
	bool killed = false;

	while (poll(&ready, 1, LOOK_MS) <= 0 || !(ready.revents & POLLIN)) {
		if (!killed && (fd < 0 || (job->stopped && job->stopped()))) {
			kill(child, SIGKILL);
			killed = true;
		}
		if (fd < 0)
			break;
	}
	if (fd >= 0)
		close(fd);
	while (waitpid(child, &status, 0) < 0)
		if (errno != EINTR)
			return -errno;
	if (killed)
		return fth_fail(EINTR, "the child process was interrupted");
	if (WIFSIGNALED(status))
		return WTERMSIG(status) == SIGKILL
			       ? fth_fail(ENOMEM,
					  "the child process was killed, probably out of memory")
			       : fth_fail(ECHILD, "the child process was killed by signal %d",
					  WTERMSIG(status));
	return 0;
}

static int run_in(const struct group *group, const struct fth_cgroup_job *job,
		  struct shared *shared)
{
	pid_t child;
	int rc;

	fflush(NULL); /* or both would print what is buffered */
	child = fork();
	if (child < 0)
		return fth_fail(errno, "cannot start a process");
	if (child == 0)
		be_child(group, job, shared);
	rc = wait_for(child, job);
	if (rc < 0)
		return rc;
	if (!shared->finished)
		return fth_fail(ECHILD, "the child process exited early");
	shared->usage.peak =
		get_number(group->path, group->v2 ? "memory.peak" : "memory.max_usage_in_bytes");
	return shared->rc < 0 ? fth_fail(-shared->rc, "%s", shared->error) : 0;
}

int fth_cgroup_run(const struct fth_cgroup_job *job, struct fth_cgroup_usage *usage)
{
	size_t size = sizeof(struct shared) + job->result_size;
	struct shared *shared;
	struct group group;
	int rc = make_group(&group, job->memory, job->swap);

	if (rc < 0)
		return rc;
	shared = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (shared == MAP_FAILED) {
		remove_group(&group);
		return -ENOMEM;
	}
	rc = run_in(&group, job, shared);
	if (rc == 0 && job->result_size)
		memcpy(job->result, shared->result, job->result_size);
	if (usage)
		*usage = shared->usage;
	munmap(shared, size);
	remove_group(&group);
	return rc;
}

int fth_cgroup_drop_pages(const char *path)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC), rc = 0;

	if (fd < 0)
		return fth_fail(errno, "%s: %s", path, strerror(errno));
	if (fsync(fd) < 0)
		rc = fth_fail(errno, "%s: %s", path, strerror(errno));
	if (rc == 0)
		rc = -posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
	close(fd);
	return rc;
}
