/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * fathom bench flatredis: redis-server, unchanged, with four times as much data as memory: by `fathom flat run`, against the same
 * server in a memory cgroup of the same size with a swap file on the same disk. Ours is in such a group too, so
 * that the kernel enforces on both sides that all of it (program, data, tables) is not more.
 */
#include "app_options.h"
#include "beside.h"
#include "cgroup.h"
#include "cli.h"
#include "json.h"
#include "median.h"
#include "redis_load.h"
#include "report.h"
#include "scratch.h"
#include "swap_file.h"

#include "fathom/base/error.h"
#include "fathom/hd/wait.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define RECORD_BESIDE 540u	  /* bytes of a record beside its value, as jemalloc rounds them */
#define OURS_BESIDE   (24u << 20) /* the program, its tables and this process: not for the region */
#define END_MS	      20000

enum side { OURS, PEER, SIDES };

static const char *const workload_names[REDIS_WORKLOADS] = {"b", "d"};
static const char *const workload_texts[REDIS_WORKLOADS] = {
	"95 % reads, 5 % updates, zipf", "95 % reads of the latest, 5 % inserts"};

struct bench {
	uint64_t memory, times, value, ops, warm, clients, rounds, seed;
	const char *folder, *redis, *policy;
	bool smallest, no_peer;
	char fathom[PATH_MAX], place[4096], socket[100];
	enum side side; /* of the run in progress */
	uint64_t round;
	struct redis_result results[SIDES][REDIS_WORKLOADS][FTH_ROUNDS_MAX];
	struct fth_cgroup_usage usage[SIDES]; /* last round */
};

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
		{"dir", FTH_CLI_STRING, &b->folder, 0, 0, "for scratch file and swap file"},
		{"policy", FTH_CLI_STRING, &b->policy, 0, 0, "of `fathom flat run`"},
		{"no-peer", FTH_CLI_FLAG, &b->no_peer, 0, 0, "ours alone"},
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
			"with a swap file, in memory cgroups of the same size. Loads like YCSB's B "
			"and D. Every\n"
			"value that is read is checked. The ratio is that of the 99th percentiles "
			"of B.",
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
	return status;
}

/* ---- the server ---- */

__attribute__((noreturn)) static void become_server(const struct bench *b)
{
	char dram[32], *argv[32];
	int n = 0, null = open("/dev/null", O_RDWR);

	snprintf(dram, sizeof(dram), "%" PRIu64, b->memory - OURS_BESIDE);
	if (b->side == OURS) {
		argv[n++] = (char *)b->fathom;
		argv[n++] = "flat";
		argv[n++] = "run";
		argv[n++] = "--dram";
		argv[n++] = dram;
		argv[n++] = "--policy";
		argv[n++] = (char *)b->policy;
		argv[n++] = "--file";
		argv[n++] = (char *)b->place;
		argv[n++] = "--";
	}
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

static int measure(const struct redis_plan *plan, struct redis_data *data,
		   struct redis_result results[REDIS_WORKLOADS], uint64_t warm)
{
	struct redis_plan before = *plan;
	int rc = redis_wait(plan);

	before.ops = warm;
	before.seed += 1000;
	if (rc == 0)
		rc = redis_fill(plan, data);
	for (int w = 0; w < REDIS_WORKLOADS && rc == 0; w++) {
		rc = redis_run(&before, data, (enum redis_workload)w, &results[w]);
		if (rc == 0)
			rc = redis_run(plan, data, (enum redis_workload)w, &results[w]);
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

/* ---- both sides ---- */

static int measure_side(struct bench *b, uint64_t round, enum side side)
{
	struct redis_result results[REDIS_WORKLOADS];
	struct fth_cgroup_job job = {.memory = b->memory,
				     .fn = run_side,
				     .context = b,
				     .result = results,
				     .result_size = sizeof(results),
				     .swap = side == PEER,
				     .stopped = fth_cli_stopped};
	struct fth_swap_file swap = {0};
	int rc = 0;

	b->side = side;
	b->round = round;
	if (side == PEER)
		rc = fth_swap_file_on(&swap, b->place, (b->memory * (b->times + 2)) & ~4095ull);
	if (rc == 0)
		rc = fth_cgroup_run(&job, &b->usage[side]);
	fth_swap_file_off(&swap);
	for (int w = 0; w < REDIS_WORKLOADS && rc == 0; w++)
		b->results[side][w][round] = results[w];
	return rc;
}

static int measure_all(struct bench *b)
{
	int rc = 0;

	for (uint64_t round = 0; round < b->rounds && rc == 0; round++)
		for (unsigned side = 0; side < (b->no_peer ? PEER : SIDES) && rc == 0; side++) {
			fth_cli_progress("flatredis", round * SIDES + side, b->rounds * SIDES);
			rc = measure_side(b, round, (enum side)side);
		}
	fth_cli_progress_end();
	return rc;
}

/* ---- results ---- */

enum figure { OPS, P50, P99, P999, FIGURES };

static double figure(const struct bench *b, enum side side, unsigned w, enum figure which)
{
	double values[FTH_ROUNDS_MAX];

	for (uint64_t i = 0; i < b->rounds; i++) {
		const struct redis_result *r = &b->results[side][w][i];
		const double all[FIGURES] = {r->ops_per_s, (double)r->p50_ns / 1000,
					     (double)r->p99_ns / 1000, (double)r->p999_ns / 1000};

		values[i] = all[which];
	}
	return fth_median(values, (unsigned)b->rounds);
}

static void print_table(const struct bench *b)
{
	static const char *const names[SIDES] = {"flat run", "swap"};

	printf("%-8s %-38s %-9s %10s %10s %10s %10s\n", "load", "", "", "ops/s", "p50 us", "p99 us",
	       "p99.9 us");
	for (unsigned w = 0; w < REDIS_WORKLOADS; w++)
		for (unsigned side = 0; side < (b->no_peer ? PEER : SIDES); side++)
			printf("%-8s %-38s %-9s %10.0f %10.0f %10.0f %10.0f\n",
			       side ? "" : workload_names[w], side ? "" : workload_texts[w],
			       names[side], figure(b, (enum side)side, w, OPS),
			       figure(b, (enum side)side, w, P50),
			       figure(b, (enum side)side, w, P99),
			       figure(b, (enum side)side, w, P999));
}

static void json_side(struct fth_json *j, const struct bench *b, const char *key, enum side side,
		      unsigned w)
{
	fth_json_object(j, key);
	fth_json_double(j, "ops_per_s", figure(b, side, w, OPS));
	fth_json_double(j, "p50_us", figure(b, side, w, P50));
	fth_json_double(j, "p99_us", figure(b, side, w, P99));
	fth_json_double(j, "p999_us", figure(b, side, w, P999));
	fth_json_end(j);
}

/* Of the last round, with loading. */
static void json_usage(struct fth_json *j, const char *key, const struct fth_cgroup_usage *usage)
{
	fth_json_object(j, key);
	fth_json_u64(j, "peak", usage->peak);
	fth_json_u64(j, "bytes_read", usage->bytes_read);
	fth_json_u64(j, "bytes_written", usage->bytes_written);
	fth_json_u64(j, "major_faults", usage->major_faults);
	fth_json_end(j);
}

static void print_json(const struct bench *b)
{
	struct fth_json j;

	fth_bench_json(&j, "flatredis", figure(b, OURS, REDIS_B, P99),
		       figure(b, PEER, REDIS_B, P99),
		       figure(b, PEER, REDIS_B, P99) / figure(b, OURS, REDIS_B, P99));
	fth_json_string(&j, "peer_name", "redis-server with a swap file");
	fth_json_string(&j, "unit", "us, 99th percentile; the ratio is the peer's to ours");
	fth_json_u64(&j, "memory", b->memory);
	fth_json_u64(&j, "times", b->times);
	fth_json_u64(&j, "value", b->value);
	fth_json_u64(&j, "ops", b->ops);
	fth_json_u64(&j, "clients", b->clients);
	fth_json_u64(&j, "rounds", b->rounds);
	for (unsigned w = 0; w < REDIS_WORKLOADS; w++) {
		fth_json_object(&j, workload_names[w]);
		json_side(&j, b, "ours", OURS, w);
		json_side(&j, b, "peer", PEER, w);
		fth_json_double(&j, "p99_ratio", figure(b, PEER, w, P99) / figure(b, OURS, w, P99));
		fth_json_end(&j);
	}
	json_usage(&j, "usage_ours", &b->usage[OURS]);
	json_usage(&j, "usage_peer", &b->usage[PEER]);
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
	return 0;
}

static int run(int argc, char **argv)
{
	static struct bench b = {.memory = 256u << 20,
				 .times = 4,
				 .value = 1024,
				 .ops = 20000,
				 .warm = 20000,
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
	.summary = "redis-server with more data than memory, against swapping",
	.run = run,
};
