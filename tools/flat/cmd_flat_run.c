/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * fathom flat run: starts a program with a library (src/flat/preload) whose allocator puts large
 * allocations into a region on a scratch file. This process stays: it holds the scratch file, which
 * has no name, passes signals on, shows the figures, and ends as the program ended.
 */
#include "commands.h"
#include "flat_program.h"
#include "flat_report.h"

#include "dev/lock.h"
#include "flat/region/fork.h"

#include "fathom/base/error.h"
#include "fathom/base/fd.h"
#include "fathom/base/uri.h"
#include "fathom/flat.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#ifndef PR_SET_SYSCALL_USER_DISPATCH
#define PR_SET_SYSCALL_USER_DISPATCH 59
#endif

#define DRAM_MIN    (4u << 20)
#define SIZE_MOST   ((uint64_t)1 << 40)
#define SCRATCH_DIR "/var/tmp"
#define PROGRESS_MS 500

struct job {
	uint64_t dram, min_alloc, size, page;
	const char *file, *policy_name, *output, *fork;
	bool force, progress, copies; /* copies: children of fork() have the region */
	char **argv;		      /* of the program */
	char program[PATH_MAX], library[PATH_MAX];
	int scratch, memfd, fork_memfd;
	int lock; /* of the device that the user named, until this process ends */
	struct run_shared *shared;
	sigset_t mask; /* that we were started with */
	pid_t pid;
};

static int parse(struct job *job, int argc, char **argv)
{
	const struct fth_cli_option options[] = {
		FTH_CLI_WAS("dram", "memory"),
		{"memory", FTH_CLI_SIZE, &job->dram, DRAM_MIN, SIZE_MOST,
		 "memory that the region holds at most"},
		{"min-alloc", FTH_CLI_SIZE, &job->min_alloc, 4096, SIZE_MOST,
		 "allocations of this size and larger are in the region"},
		FTH_CLI_WAS("file", "flash"),
		{"flash", FTH_CLI_STRING, &job->file, 0, 0,
		 "folder or new file for the scratch file, or URI of a device"},
		FTH_CLI_FORCE(&job->force, "overwrite an existing file or device, which stays"),
		{"size", FTH_CLI_SIZE, &job->size, 1u << 20, (uint64_t)1 << 44,
		 "of the region; 0: most of what is free on the disk"},
		{"page", FTH_CLI_SIZE, &job->page, FTH_FLAT_PAGE_MIN, FTH_FLAT_PAGE_MAX,
		 "unit of movement, a power of two"},
		{"policy", FTH_CLI_STRING, &job->policy_name, 0, 0,
		 "when a page moves to DRAM: always, counters, paper, never"},
		{"fork", FTH_CLI_STRING, &job->fork, 0, 0,
		 "children of fork(): copy (the region as of the fork) or stop (ended at its first "
		 "use)"},
		{"output", FTH_CLI_STRING, &job->output, 0, 0,
		 "file for the figures, instead of standard error"},
		{"progress", FTH_CLI_FLAG, &job->progress, 0, 0, "a line of figures, all the time"},
		{0},
	};
	const struct fth_cli_usage usage = {
		.synopsis = "flat run [options] -- PROGRAM [ARGUMENTS]",
		.text = "Run a program with its large allocations on flash: they are in a region "
			"on "
			"a scratch\n"
			"file, of which at most --memory is in memory. The program is unchanged; "
			"it "
			"must be\n"
			"dynamically linked. Figures are printed on standard error when it ends, "
			"and the exit\n"
			"status is the program's.",
		.options = options,
		.min_args = 1,
		.max_args = INT_MAX,
	};

	return fth_cli_parse(&usage, argc, argv, &job->argv);
}

/* ---- what can be said before the program starts ---- */

static int find_policy(const char *name, uint32_t *out)
{
	for (unsigned i = 0; i < FTH_FLAT_POLICY_COUNT; i++)
		if (strcmp(name, fth_flat_policy_name((enum fth_flat_policy)i)) == 0) {
			*out = i;
			return 0;
		}
	return fth_fail(EINVAL, "--policy %s: expected counters, paper, always or never", name);
}

static int find_library(char path[PATH_MAX])
{
	static const char *const places[] = {"", FTH_LIB_FROM_BIN "/"};
	char folder[PATH_MAX];
	ssize_t length = readlink("/proc/self/exe", folder, sizeof(folder) - 1);
	char *slash;

	folder[length < 0 ? 0 : length] = '\0';
	slash = strrchr(folder, '/');
	if (slash)
		slash[1] = '\0';
	for (unsigned i = 0; i < 2; i++) {
		if (snprintf(path, PATH_MAX, "%s%s" RUN_LIBRARY, folder, places[i]) < PATH_MAX &&
		    access(path, R_OK) == 0)
			return 0;
	}
	return fth_fail(ENOENT,
			RUN_LIBRARY " is not in %s or %s" FTH_LIB_FROM_BIN
				    " (it is built for x86-64, without sanitizers)",
			folder, folder);
}

static int check_kernel(void)
{
	struct fth_flat *flat;
	int rc = fth_flat_open("mem:1M", 512u << 10, NULL, &flat);

	if (rc < 0)
		return rc;
	fth_flat_discard(flat);
	/* off is what it is: only whether the kernel knows it */
	if (prctl(PR_SET_SYSCALL_USER_DISPATCH, 0, 0, 0, 0) < 0)
		return fth_fail(
			ENOTSUP,
			"this kernel lacks syscall user dispatch; Linux 5.11 or later is needed");
	return 0;
}

/* ---- the scratch file ---- */

static int open_scratch(struct job *job, const char *path)
{
	char name[PATH_MAX];
	struct stat st;

	if (stat(path, &st) == 0 && S_ISDIR(st.st_mode)) {
		snprintf(name, sizeof(name), "%.4000s/fathom-flat-XXXXXX", path);
		job->scratch = fth_fd_high(mkostemp(name, O_CLOEXEC));
	} else {
		snprintf(name, sizeof(name), "%.4095s", path);
		job->scratch = fth_fd_open(name, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
		if (job->scratch == -EEXIST)
			return fth_fail(EEXIST, "%s exists; --force overwrites it", name);
	}
	if (job->scratch < 0)
		return fth_fail(-job->scratch, "cannot create the scratch file %s: %s", name,
				strerror(-job->scratch));
	if (unlink(name) < 0)
		return fth_fail(errno, "cannot unlink %s: %s", name, strerror(errno));
	return 0;
}

static int size_scratch(struct job *job)
{
	struct statvfs fs;

	if (job->size == 0 && fstatvfs(job->scratch, &fs) == 0)
		job->size = (uint64_t)fs.f_bavail * fs.f_frsize / 10 * 9;
	if (job->size > SIZE_MOST)
		job->size = SIZE_MOST;
	job->size -= job->size % FTH_FLAT_PAGE_MAX;
	if (job->size < DRAM_MIN)
		return fth_fail(ENOSPC, "%llu bytes are too small for a scratch file",
				(unsigned long long)job->size);
	if (ftruncate(job->scratch, (off_t)(job->size * (job->copies ? FORK_FACTOR : 1))) < 0)
		return fth_fail(errno, "cannot create a scratch file of %llu bytes: %s",
				(unsigned long long)job->size, strerror(errno));
	snprintf(job->shared->uri, sizeof(job->shared->uri), "file:/proc/%d/fd/%d", getpid(),
		 job->scratch);
	return 0;
}

/* The memory that the program and its children share; see src/flat/region/fork.h. */
static int prepare_children(struct job *job)
{
	uint64_t blocks = job->size / job->page * FORK_FACTOR;

	job->fork_memfd = fth_fd_high(memfd_create(RUN_MEMFD "-children", MFD_CLOEXEC));
	if (job->fork_memfd < 0 || ftruncate(job->fork_memfd, (off_t)fork_shared_bytes(blocks)) < 0)
		return fth_fail(errno, "memfd_create: %s", strerror(errno));
	snprintf(job->shared->fork_memory, sizeof(job->shared->fork_memory), "/proc/%d/fd/%d",
		 getpid(), job->fork_memfd);
	snprintf(job->shared->fork_file, sizeof(job->shared->fork_file), "/proc/%d/fd/%d", getpid(),
		 job->scratch);
	return 0;
}

/* Memory that is made for this run, with wrappers around it or not: nothing is lost there. */
static bool is_memory(const char *text)
{
	struct fth_uri uri;
	bool is = false;

	if (fth_uri_parse(&uri, text) < 0)
		return false;
	if (uri.inner && strcmp(uri.scheme, "vol") != 0)
		is = is_memory(uri.inner); /* ends: it is shorter */
	else
		is = strcmp(uri.scheme, "mem") == 0;
	fth_uri_release(&uri);
	return is;
}

static int open_device(struct job *job)
{
	struct fth_dev *dev;
	int rc = fth_dev_lock_uri(job->file, true, &job->lock);
	bool created = rc == -ENOENT; /* by create=on */

	if (rc < 0 && !created)
		return rc;
	if (job->lock >= 0 && !job->force)
		return fth_fail(EEXIST, "%s exists; --force overwrites it", job->file);
	rc = fth_dev_open(job->file, &dev);
	if (rc < 0)
		return rc;
	job->size = fth_dev_info(dev)->size;
	fth_dev_close(dev);
	if (!created && !job->force &&
	    !is_memory(job->file)) /* an object of a volume, or a drive */
		return fth_fail(EEXIST, "%s exists; --force overwrites it", job->file);
	if (job->lock < 0)
		rc = fth_dev_lock_uri(job->file, true, &job->lock);
	if (rc < 0)
		return rc;
	if ((size_t)snprintf(job->shared->uri, sizeof(job->shared->uri), "%s", job->file) >=
	    sizeof(job->shared->uri))
		return fth_fail(EINVAL, "the URI %s is too long", job->file);
	return 0;
}

/* A path has a slash before any colon, or no colon. */
static bool is_uri(const char *text)
{
	size_t name = strcspn(text, ":(/");

	return text[name] == ':' || text[name] == '(';
}

static bool is_existing_file(const char *path)
{
	struct stat st;

	return path && !is_uri(path) && stat(path, &st) == 0 && !S_ISDIR(st.st_mode);
}

static int prepare_device(struct job *job)
{
	static char existing[sizeof("file:") + 3 * PATH_MAX] = "file:";
	const char *folder = getenv("TMPDIR");
	int rc;

	if (job->fork && strcmp(job->fork, "copy") != 0 && strcmp(job->fork, "stop") != 0)
		return fth_fail(EINVAL, "--fork %s is neither copy nor stop", job->fork);
	if (job->force && is_existing_file(job->file)) {
		rc = fth_uri_escape(job->file, existing + strlen("file:"),
				    sizeof(existing) - strlen("file:"));
		if (rc < 0)
			return rc;
		job->file = existing;
	}
	if (job->file && is_uri(job->file)) {
		if (job->fork && strcmp(job->fork, "copy") == 0)
			return fth_fail(EINVAL, "--fork copy needs a scratch file, not a device");
		return open_device(job);
	}
	if (!folder || !folder[0])
		folder = SCRATCH_DIR;
	job->copies = !job->fork || strcmp(job->fork, "copy") == 0;
	rc = open_scratch(job, job->file ? job->file : folder);
	if (rc == 0)
		rc = size_scratch(job);
	return rc < 0 || !job->copies ? rc : prepare_children(job);
}

static int prepare_shared(struct job *job)
{
	const char *name = strrchr(job->argv[0], '/');

	job->memfd = fth_fd_high(memfd_create(RUN_MEMFD, MFD_CLOEXEC));
	if (job->memfd < 0 || ftruncate(job->memfd, sizeof(*job->shared)) < 0)
		return fth_fail(errno, "memfd_create: %s", strerror(errno));
	job->shared =
		mmap(NULL, sizeof(*job->shared), PROT_READ | PROT_WRITE, MAP_SHARED, job->memfd, 0);
	if (job->shared == MAP_FAILED)
		return fth_fail(errno, "mmap: %s", strerror(errno));
	snprintf(job->shared->program, sizeof(job->shared->program), "%s",
		 name ? name + 1 : job->argv[0]);
	return find_policy(job->policy_name, &job->shared->policy);
}

static int prepare(struct job *job)
{
	int rc = fth_flat_find_program(job->argv[0], job->program);

	if (rc == 0)
		rc = fth_flat_check_program(job->program);
	if (rc == 0)
		rc = find_library(job->library);
	if (rc == 0)
		rc = check_kernel();
	if (rc == 0)
		rc = prepare_shared(job);
	if (rc == 0)
		rc = prepare_device(job);
	if (rc < 0)
		return rc;
	job->shared->dram = job->dram;
	job->shared->size = job->size;
	job->shared->min_alloc = job->min_alloc;
	job->shared->page = (uint32_t)job->page;
	job->shared->magic = RUN_MAGIC;
	return 0;
}

/* ---- the program ---- */

static void set_environment(const struct job *job)
{
	const char *old = getenv("LD_PRELOAD");
	char path[64], preload[2 * PATH_MAX];

	snprintf(preload, sizeof(preload), "%s%s%.4000s", job->library, old && old[0] ? ":" : "",
		 old ? old : "");
	snprintf(path, sizeof(path), "/proc/%d/fd/%d", getppid(), job->memfd);
	setenv("LD_PRELOAD", preload, 1);
	setenv(RUN_VARIABLE, path, 1);
}

__attribute__((noreturn)) static void become(const struct job *job)
{
	job->shared->pid = getpid();
	set_environment(job);
	fth_cli_restore_signals();
	sigprocmask(SIG_SETMASK, &job->mask, NULL);
	execv(job->program, job->argv);
	snprintf(job->shared->failure, sizeof(job->shared->failure), "cannot start %.200s: %s",
		 job->program, strerror(errno));
	job->shared->state = RUN_FAILED;
	_exit(FTH_EXIT_FAILED);
}

/* Signals that this process waits for. Those of a terminal reach the program by themselves. */
static void watched_signals(sigset_t *set)
{
	static const int signals[] = {SIGCHLD, SIGINT,	SIGQUIT, SIGTERM, SIGHUP,
				      SIGUSR1, SIGUSR2, SIGALRM, SIGCONT};

	sigemptyset(set);
	for (unsigned i = 0; i < sizeof(signals) / sizeof(signals[0]); i++)
		sigaddset(set, signals[i]);
}

static void show_progress(const struct job *job, bool end)
{
	static bool shown;

	if (!job->progress || (end && !shown))
		return;
	fputs("\r\033[K", stderr);
	if (!end)
		fth_flat_report_short(stderr, job->shared);
	fflush(stderr);
	shown = true;
}

/* The status as of waitpid(). */
static int wait_for(const struct job *job)
{
	const struct timespec pause = {.tv_nsec = PROGRESS_MS * 1000000};
	sigset_t set;
	int status;

	watched_signals(&set);
	for (;;) {
		siginfo_t info = {0};
		pid_t pid = waitpid(job->pid, &status, WNOHANG | WUNTRACED);
		int sig;

		if (pid == job->pid && WIFSTOPPED(status)) {
			raise(SIGSTOP); /* the shell sees what it expects */
			kill(job->pid, SIGCONT);
			continue;
		}
		if (pid == job->pid || (pid < 0 && errno != EINTR))
			return status;
		sig = sigtimedwait(&set, &info, job->progress ? &pause : NULL);
		if (sig > 0 && sig != SIGCHLD && info.si_code <= 0)
			kill(job->pid, sig);
		show_progress(job, false);
	}
}

static void report(const struct job *job)
{
	FILE *out = job->output ? fopen(job->output, "we") : stderr;

	if (!out) {
		fth_cli_error("flat run: %s: %s", job->output, strerror(errno));
		return;
	}
	if (fth_cli_json()) {
		fth_flat_report_json(out, job->shared);
	} else {
		if (!job->output)
			fputs("fathom: flat run: ", out);
		fth_flat_report(out, job->shared);
	}
	if (job->output && fclose(out) != 0)
		fth_cli_error("flat run: %s: %s", job->output, strerror(errno));
}

/* As the program ended, so do we. */
static int end_as(int status)
{
	struct rlimit none = {0};
	sigset_t set;

	if (WIFEXITED(status))
		return WEXITSTATUS(status);
	setrlimit(RLIMIT_CORE, &none); /* the program has left one, if any */
	signal(WTERMSIG(status), SIG_DFL);
	sigemptyset(&set);
	sigaddset(&set, WTERMSIG(status));
	fflush(NULL);
	raise(WTERMSIG(status));
	sigprocmask(SIG_UNBLOCK, &set, NULL);
	return 128 + WTERMSIG(status);
}

static int run_program(struct job *job)
{
	sigset_t set;
	int status;

	watched_signals(&set);
	sigprocmask(SIG_BLOCK, &set, &job->mask);
	fflush(NULL);
	job->pid = fork();
	if (job->pid < 0) {
		fth_cli_error("flat run: fork: %s", strerror(errno));
		return FTH_EXIT_FAILED;
	}
	if (job->pid == 0)
		become(job);
	status = wait_for(job);
	show_progress(job, true);
	if (__atomic_load_n(&job->shared->state, __ATOMIC_ACQUIRE) == RUN_FAILED) {
		fth_cli_error("flat run: %s", job->shared->failure);
		return FTH_EXIT_FAILED;
	}
	report(job);
	return end_as(status);
}

static int run(int argc, char **argv)
{
	struct job job = {
		.dram = 1u << 30,
		.min_alloc = 1u << 20,
		.page = FTH_FLAT_PAGE_MIN,
		.policy_name = "always",
		.scratch = -1,
		.memfd = -1,
		.fork_memfd = -1,
		.lock = -1,
	};
	int rc = parse(&job, argc, argv);

	if (rc != FTH_CLI_GO_ON)
		return rc;
	rc = prepare(&job);
	if (rc < 0) {
		fth_cli_error("flat run: %s", fth_error_text(rc));
		return rc == -ENOTSUP ? FTH_EXIT_IMPOSSIBLE : FTH_EXIT_FAILED;
	}
	return run_program(&job);
}

const struct fth_command fth_cmd_flat_run = {
	.name = "run",
	.summary = "run a program with its large allocations on flash",
	.run = run,
};
