/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * fathom bench flatredis: redis-server, unchanged, with four times as much data as memory: by `fathom flat run`, against the same
 * server in a memory cgroup of the same size, with a swap file on the same disk, and with an allocator on a mapped file there
 * (file_heap.c). Ours is in such a group too, so that the kernel enforces on all sides that all of it (program, data, tables, page
 * cache) is not more.
 */
#include "app_options.h"
#include "common/find_program.h"
#include "cgroup.h"
#include "cli.h"
#include "file_heap.h"
#include "json.h"
#include "common/median.h"
#include "redis_load.h"
#include "common/report.h"
#include "common/scratch.h"
#include "swap_file.h"

#include "fathom/base/error.h"
#include "fathom/hd/wait.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <math.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define RECORD_BESIDE 540u	  /* bytes of a record beside its value, as jemalloc rounds them */
#define OURS_BESIDE   (24u << 20) /* the program, its tables and this process: not for the region */
#define PAGE	      4096u
#define END_MS	      20000

enum side { OURS, SWAP, SWAP_DEFAULT, MMAP_RANDOM, MMAP_DEFAULT, SIDES };

static const char *const side_names[SIDES] = {"flat run", "swap, single pages", "swap",
					      "mmap, MADV_RANDOM", "mmap"};
static const char *const side_keys[SIDES] = {"ours", "swap", "swap_default", "mmap_random",
					     "mmap_default"};

static const char *const workload_names[REDIS_WORKLOADS] = {"b", "d"};
static const char *const workload_texts[REDIS_WORKLOADS] = {
	"95 % reads, 5 % updates, zipf", "95 % reads of the latest, 5 % inserts"};

/* What the kernel counts of the server. */
struct server_use {
	uint64_t bytes_read, bytes_written, cpu_ns, major_faults;
};

struct outcome {
	struct redis_result result;
	struct server_use use;
};

struct bench {
	uint64_t memory, times, value, ops, warm, clients, rounds, seed;
	const char *folder, *redis, *policy, *peer;
	bool has[SIDES];
	bool smallest, no_peer;
	char fathom[PATH_MAX], file_heap[PATH_MAX]; /* a program and a library */
	char place[4096], socket[100], heap[4200];
	enum side side; /* of the run in progress */
	uint64_t round;
	struct outcome outcomes[SIDES][REDIS_WORKLOADS][FTH_ROUNDS_MAX];
	struct fth_cgroup_usage usage[SIDES]; /* last round */
};

/* Ours always, and the peers that are wanted. */
static int choose_sides(struct bench *b)
{
	bool known = !b->peer;

	b->has[OURS] = true;
	for (unsigned side = SWAP; side < SIDES; side++) {
		bool named = b->peer && strcmp(b->peer, side_keys[side]) == 0;

		b->has[side] = !b->no_peer && (!b->peer || named);
		known |= named;
	}
	if (known)
		return FTH_CLI_GO_ON;
	fth_cli_error("--peer %s: expected swap, swap_default, mmap_random or mmap_default",
		      b->peer);
	return FTH_EXIT_USAGE;
}

static int parse(struct bench *b, int argc, char **argv)
{
	const struct fth_cli_option options[] = {
		{"memory", FTH_CLI_SIZE, &b->memory, 48u << 20, (uint64_t)1 << 40,
		 "of a server, all of it"},
		{"times", FTH_CLI_U64, &b->times, 1, 64, "data are larger than that"},
		{"value", FTH_CLI_SIZE, &b->value, 32, 32768, "bytes of a value"},
		{"ops", FTH_CLI_U64, &b->ops, 100, (uint64_t)1 << 32, "requests per run"},
		{"warm", FTH_CLI_U64, &b->warm, 1, (uint64_t)1 << 32, "requests before"},
		{"clients", FTH_CLI_U64, &b->clients, 1, 64, "connections"},
		{"seed", FTH_CLI_U64, &b->seed, 0, UINT64_MAX, "of all random choices"},
		{"dir", FTH_CLI_STRING, &b->folder, 0, 0, "for the files on disk"},
		{"policy", FTH_CLI_STRING, &b->policy, 0, 0, "of `fathom flat run`"},
		{"no-peer", FTH_CLI_FLAG, &b->no_peer, 0, 0, "ours alone"},
		{"peer", FTH_CLI_STRING, &b->peer, 0, 0,
		 "only swap, swap_default, mmap_random or mmap_default"},
		{"redis", FTH_CLI_STRING, &b->redis, 0, 0, "the server"},
		FTH_BENCH_ROUNDS(&b->rounds),
		FTH_BENCH_SMALLEST(&b->smallest),
		{0},
	};
	const struct fth_cli_usage usage = {
		.synopsis = "bench flatredis [options]",
		.text = "redis-server with more data than memory, by `fathom flat run`, against "
			"the "
			"same server\n"
			"with a swap file, and with an allocator on a mapped file, in memory "
			"cgroups of the same\n"
			"size. Loads like YCSB's B and D. Every value that is read is checked. The "
			"ratio is that\n"
			"of the 99th percentiles of B, swap's to ours.",
		.options = options,
	};
	char **args;
	int status = fth_cli_parse(&usage, argc, argv, &args);

	if (status == FTH_CLI_GO_ON && b->smallest) {
		b->memory = 64u << 20;
		b->times = 1;
		b->ops = b->warm = 1000;
		b->rounds = 1;
	}
	return status == FTH_CLI_GO_ON ? choose_sides(b) : status;
}

/* ---- the server ---- */

static bool is_swap(enum side side)
{
	return side == SWAP || side == SWAP_DEFAULT;
}

static int add_flat_run(const struct bench *b, char *dram, char **argv)
{
	int n = 0;

	argv[n++] = (char *)b->fathom;
	argv[n++] = "flat";
	argv[n++] = "run";
	argv[n++] = "--memory";
	argv[n++] = dram;
	argv[n++] = "--policy";
	argv[n++] = (char *)b->policy;
	argv[n++] = "--flash";
	argv[n++] = (char *)b->place;
	argv[n++] = "--";
	return n;
}

static void set_file_heap(const struct bench *b)
{
	setenv("LD_PRELOAD", b->file_heap, 1);
	setenv(FILE_HEAP_PATH, b->heap, 1);
	if (b->side == MMAP_RANDOM)
		setenv(FILE_HEAP_RANDOM, "1", 1);
}

__attribute__((noreturn)) static void become_server(const struct bench *b)
{
	char dram[32], *argv[32];
	int n = 0, null = open("/dev/null", O_RDWR);

	snprintf(dram, sizeof(dram), "%" PRIu64, b->memory - OURS_BESIDE);
	if (b->side == OURS)
		n = add_flat_run(b, dram, argv);
	else if (!is_swap(b->side))
		set_file_heap(b);
	argv[n++] = (char *)b->redis;
	argv[n++] = "--port";
	argv[n++] = "0";
	argv[n++] = "--unixsocket";
	argv[n++] = (char *)b->socket;
	argv[n++] = "--save";
	argv[n++] = "";
	argv[n++] = "--dir";
	argv[n++] = (char *)b->place;
	argv[n] = NULL;
	fth_cli_restore_signals();
	dup2(null, STDIN_FILENO);
	dup2(null, STDOUT_FILENO);
	if (!getenv("FTH_BENCH_VERBOSE"))
		dup2(null, STDERR_FILENO);
	execvp(argv[0], argv);
	_exit(127);
}

static void end_server(const struct redis_plan *plan, pid_t pid)
{
	redis_end(plan);
	for (int ms = 0; ms < END_MS; ms += 10) {
		if (waitpid(pid, NULL, WNOHANG) == pid)
			return;
		poll(NULL, 0, 10);
	}
	kill(pid, SIGTERM);
	waitpid(pid, NULL, 0);
}

/* ---- what it uses ---- */

static void read_file(pid_t pid, const char *name, char *text, size_t size)
{
	char path[64];
	FILE *file;
	size_t n = 0;

	snprintf(path, sizeof(path), "/proc/%d/%s", (int)pid, name);
	file = fopen(path, "re");
	if (file) {
		n = fread(text, 1, size - 1, file);
		fclose(file);
	}
	text[n] = '\0';
}

static uint64_t number_after(const char *text, const char *name)
{
	const char *at = strstr(text, name);

	return at ? strtoull(at + strlen(name), NULL, 10) : 0;
}

/* Of all its threads. Fields of /proc/PID/stat: proc(5). */
static struct server_use use_of(pid_t pid)
{
	char text[1024] = "\n";
	unsigned long faults = 0, user = 0, system = 0;
	struct server_use use = {0};
	const char *after_name;

	read_file(pid, "io", text + 1, sizeof(text) - 1);
	use.bytes_read = number_after(text, "\nread_bytes: ");
	use.bytes_written = number_after(text, "\nwrite_bytes: ");
	read_file(pid, "stat", text, sizeof(text));
	after_name = strrchr(text, ')');
	if (after_name &&
	    sscanf(after_name + 1, " %*c %*d %*d %*d %*d %*d %*u %*u %*u %lu %*u %lu %lu", &faults,
		   &user, &system) == 3) {
		use.major_faults = faults;
		use.cpu_ns =
			(uint64_t)(user + system) * 1000000000u / (uint64_t)sysconf(_SC_CLK_TCK);
	}
	return use;
}

static struct server_use difference(struct server_use after, struct server_use before)
{
	return (struct server_use){.bytes_read = after.bytes_read - before.bytes_read,
				   .bytes_written = after.bytes_written - before.bytes_written,
				   .cpu_ns = after.cpu_ns - before.cpu_ns,
				   .major_faults = after.major_faults - before.major_faults};
}

/* ---- a run ---- */

static int measure_load(const struct redis_plan *plan, struct redis_data *data,
			enum redis_workload workload, struct outcome *out)
{
	pid_t pid = redis_pid(plan);
	struct server_use before;
	int rc;

	if (pid < 0)
		return (int)pid;
	before = use_of(pid);
	rc = redis_run(plan, data, workload, &out->result);
	out->use = difference(use_of(pid), before);
	return rc;
}

static int measure(const struct redis_plan *plan, struct redis_data *data,
		   struct outcome outcomes[REDIS_WORKLOADS], uint64_t warm)
{
	struct redis_plan before = *plan;
	int rc = redis_wait(plan);

	before.ops = warm;
	before.seed += 1000;
	if (rc == 0)
		rc = redis_fill(plan, data);
	for (int w = 0; w < REDIS_WORKLOADS && rc == 0; w++) {
		rc = redis_run(&before, data, (enum redis_workload)w, &outcomes[w].result);
		if (rc == 0)
			rc = measure_load(plan, data, (enum redis_workload)w, &outcomes[w]);
	}
	return rc;
}

/* In the group: the server and its clients. */
static int run_side(void *context, void *result)
{
	const struct bench *b = context;
	struct redis_plan plan = {
		.socket = b->socket,
		.records = b->memory * b->times / (b->value + RECORD_BESIDE),
		.value = (uint32_t)b->value,
		.ops = b->ops > b->warm ? b->ops : b->warm,
		.clients = (unsigned)b->clients,
		.seed = b->seed + b->round * 97,
		.stopped = fth_cli_stopped,
	};
	struct redis_data *data = redis_data_new(&plan);
	pid_t pid;
	int rc;

	plan.ops = b->ops;
	if (!data)
		return -ENOMEM;
	pid = fork();
	if (pid == 0)
		become_server(b);
	rc = pid < 0 ? -errno : measure(&plan, data, result, b->warm);
	if (pid > 0)
		end_server(&plan, pid);
	redis_data_free(data);
	return rc;
}

/* ---- all sides ---- */

/* More than the data: allocators leave gaps. */
static uint64_t disk_space(const struct bench *b)
{
	return (b->memory * (b->times + 2)) & ~4095ull;
}

static int make_heap(const struct bench *b)
{
	int fd = open(b->heap, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600), rc;

	if (fd < 0)
		return fth_fail(errno, "%s: %s", b->heap, strerror(errno));
	rc = posix_fallocate(fd, 0, (off_t)disk_space(b));
	close(fd);
	return rc ? fth_fail(rc, "%s: %s", b->heap, strerror(rc)) : 0;
}

static int measure_side(struct bench *b, uint64_t round, enum side side)
{
	struct outcome outcomes[REDIS_WORKLOADS];
	struct fth_cgroup_job job = {.memory = b->memory,
				     .fn = run_side,
				     .context = b,
				     .result = outcomes,
				     .result_size = sizeof(outcomes),
				     .swap = is_swap(side),
				     .stopped = fth_cli_stopped};
	struct fth_swap_file swap = {0};
	int rc = 0;

	b->side = side;
	b->round = round;
	if (is_swap(side))
		rc = fth_swap_file_on(&swap, b->place, disk_space(b), side == SWAP);
	else if (side != OURS)
		rc = make_heap(b);
	if (rc == 0)
		rc = fth_cgroup_run(&job, &b->usage[side]);
	fth_swap_file_off(&swap);
	unlink(b->heap);
	for (int w = 0; w < REDIS_WORKLOADS && rc == 0; w++)
		b->outcomes[side][w][round] = outcomes[w];
	return rc;
}

static int measure_all(struct bench *b)
{
	int rc = 0;

	for (uint64_t i = 0; i < b->rounds * SIDES && rc == 0; i++) {
		fth_cli_progress("flatredis", i, b->rounds * SIDES);
		if (b->has[i % SIDES])
			rc = measure_side(b, i / SIDES, (enum side)(i % SIDES));
	}
	fth_cli_progress_end();
	return rc;
}

/* ---- results ---- */

enum figure { OPS, P50, P99, P999, READS, WRITES, CPU, FIGURES };

static double figure(const struct bench *b, enum side side, unsigned w, enum figure which)
{
	double values[FTH_ROUNDS_MAX];

	if (!b->has[side])
		return NAN;
	for (uint64_t i = 0; i < b->rounds; i++) {
		const struct redis_result *r = &b->outcomes[side][w][i].result;
		const struct server_use *use = &b->outcomes[side][w][i].use;
		const double all[FIGURES] = {
			[OPS] = r->ops_per_s,
			[P50] = (double)r->p50_ns / 1000,
			[P99] = (double)r->p99_ns / 1000,
			[P999] = (double)r->p999_ns / 1000,
			[READS] = (double)use->bytes_read / PAGE / (double)b->ops,
			[WRITES] = (double)use->bytes_written / PAGE / (double)b->ops,
			[CPU] = (double)use->cpu_ns / 1000 / (double)b->ops,
		};

		values[i] = all[which];
	}
	return fth_median(values, (unsigned)b->rounds);
}

/* How many times ours the 99th percentile of that side is; not a number without that side. */
static double p99_ratio(const struct bench *b, enum side side, unsigned w)
{
	return figure(b, side, w, P99) / figure(b, OURS, w, P99);
}

static void print_side(const struct bench *b, enum side side, unsigned w)
{
	printf("%-4s %-19s %9.0f %8.0f %8.0f %8.0f %8.2f %8.2f %8.1f",
	       side ? "" : workload_names[w], side_names[side], figure(b, side, w, OPS),
	       figure(b, side, w, P50), figure(b, side, w, P99), figure(b, side, w, P999),
	       figure(b, side, w, READS), figure(b, side, w, WRITES), figure(b, side, w, CPU));
	if (side != OURS)
		printf(" %10.2f", 1 / p99_ratio(b, side, w));
	printf("\n");
}

static void print_table(const struct bench *b)
{
	for (unsigned w = 0; w < REDIS_WORKLOADS; w++)
		printf("%s: %s\n", workload_names[w], workload_texts[w]);
	printf("pages read and written, and the server's CPU time, are per request\n\n");
	printf("%-4s %-19s %9s %8s %8s %8s %8s %8s %8s %10s\n", "load", "", "ops/s", "p50 us",
	       "p99 us", "p99.9 us", "read", "written", "CPU us", "our p99 of");
	for (unsigned w = 0; w < REDIS_WORKLOADS; w++)
		for (unsigned side = 0; side < SIDES; side++)
			if (b->has[side])
				print_side(b, (enum side)side, w);
}

static void json_side(struct fth_json *j, const struct bench *b, enum side side, unsigned w)
{
	fth_json_object(j, side_keys[side]);
	fth_json_double(j, "ops_per_s", figure(b, side, w, OPS));
	fth_json_double(j, "p50_us", figure(b, side, w, P50));
	fth_json_double(j, "p99_us", figure(b, side, w, P99));
	fth_json_double(j, "p999_us", figure(b, side, w, P999));
	fth_json_double(j, "pages_read", figure(b, side, w, READS));
	fth_json_double(j, "pages_written", figure(b, side, w, WRITES));
	fth_json_double(j, "cpu_us", figure(b, side, w, CPU));
	if (side != OURS)
		fth_json_double(j, "p99_ratio", p99_ratio(b, side, w));
	fth_json_end(j);
}

static void print_json(const struct bench *b)
{
	struct fth_json j;

	fth_bench_json(&j, "flatredis", figure(b, OURS, REDIS_B, P99),
		       figure(b, SWAP, REDIS_B, P99), p99_ratio(b, SWAP, REDIS_B));
	fth_json_double(
		&j, "mmap_ratio",
		fmin(p99_ratio(b, MMAP_RANDOM, REDIS_B), p99_ratio(b, MMAP_DEFAULT, REDIS_B)));
	fth_json_string(&j, "peer_name", "redis-server with a swap file, single pages read");
	fth_json_string(&j, "unit", "us, 99th percentile; a ratio is the peer's to ours");
	fth_json_u64(&j, "memory", b->memory);
	fth_json_u64(&j, "times", b->times);
	fth_json_u64(&j, "value", b->value);
	fth_json_u64(&j, "ops", b->ops);
	fth_json_u64(&j, "clients", b->clients);
	fth_json_u64(&j, "rounds", b->rounds);
	for (unsigned w = 0; w < REDIS_WORKLOADS; w++) {
		fth_json_object(&j, workload_names[w]);
		for (unsigned side = 0; side < SIDES; side++)
			if (b->has[side])
				json_side(&j, b, (enum side)side, w);
		fth_json_end(&j);
	}
	fth_json_object(&j, "peak_memory"); /* of the last round, with loading */
	for (unsigned side = 0; side < SIDES; side++)
		if (b->has[side])
			fth_json_u64(&j, side_keys[side], b->usage[side].peak);
	fth_json_end(&j);
	fth_json_finish(&j);
}

/* ---- all ---- */

static int check_redis(const struct bench *b)
{
	char command[4200];

	snprintf(command, sizeof(command), "'%.4000s' --version >/dev/null 2>&1", b->redis);
	return system(command) == 0 ? 0 : fth_fail(ENOTSUP, "%s is not installed", b->redis);
}

static int prepare(struct bench *b)
{
	int rc = check_redis(b);

	if (rc == 0)
		rc = fth_cgroup_available();
	if (rc < 0)
		return rc;
	bench_find_fathom(b->fathom);
	snprintf(b->place, sizeof(b->place), "%.4000s/fathom-redis-XXXXXX",
		 fth_scratch_folder(b->folder));
	if (!mkdtemp(b->place))
		return fth_fail(errno, "%s: %s", b->place, strerror(errno));
	if ((size_t)snprintf(b->socket, sizeof(b->socket), "%s/socket", b->place) >=
	    sizeof(b->socket))
		return fth_fail(ENAMETOOLONG, "%s is too long for a socket path", b->place);
	snprintf(b->heap, sizeof(b->heap), "%s/heap", b->place);
	if (!bench_find_beside(FILE_HEAP_LIBRARY, b->file_heap))
		return fth_fail(ENOENT, "%s is not beside this program", FILE_HEAP_LIBRARY);
	return 0;
}

static int run(int argc, char **argv)
{
	static struct bench b = {.memory = 256u << 20,
				 .times = 4,
				 .value = 1024,
				 .ops = 50000,
				 .warm = 100000,
				 .clients = 4,
				 .rounds = 1,
				 .seed = 1,
				 .redis = "redis-server",
				 .policy = "always"};
	int rc = parse(&b, argc, argv);

	if (rc != FTH_CLI_GO_ON)
		return rc;
	rc = prepare(&b);
	if (rc == 0)
		rc = measure_all(&b);
	unlink(b.socket);
	if (b.place[0])
		rmdir(b.place);
	if (rc == 0 && !fth_cli_json())
		print_table(&b);
	if (rc == 0)
		print_json(&b);
	return fth_app_exit_or_skip("bench flatredis", rc, rc == -ENOTSUP);
}

const struct fth_command fth_bench_flatredis = {
	.name = "flatredis",
	.summary = "redis-server with more data than memory, against swap and a mapped file",
	.run = run,
};
