/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * fathom bench gpugraph: graphs with more edges than the GPU's cache holds, through the cache and
 * by zero copy from pinned host memory, the same kernels on the same bytes. What computing takes is
 * seen with all edges in GPU memory, what the cache takes with one that has everything; the rest is
 * storage (as Qureshi, dissertation, 9.2).
 *
 * Two numbers sum it up. `ratio` compares the same algorithm on both sides: the worst of push-only
 * search and components on both graphs. `bfs_against_push` compares searches: ours, which goes in
 * either direction, with the one that EMOGI does, push by zero copy.
 */
#include "gpugraph.h"
#include "report.h"

#include "app_options.h"
#include "cli.h"
#include "json.h"

#include "fathom/base/error.h"

#include <errno.h>
#include <string.h>
#include <time.h>

static const char *const kind_names[GPUGRAPH_KINDS] = {"kronecker", "uniform"};
static const char *const algorithm_names[GPUGRAPH_ALGORITHMS] = {"bfs_push", "bfs", "cc",
								 "pagerank", "sssp"};

struct table {
	struct gpugraph_result cases[GPUGRAPH_KINDS][GPUGRAPH_ALGORITHMS];
	int registers[GPUGRAPH_ALGORITHMS];
};

static double now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

/* ---- measuring ---- */

static void print_case(enum gpugraph_kind kind, enum gpugraph_algorithm a,
		       const struct gpugraph_result *r)
{
	if (fth_cli_json())
		return;
	printf("%-9s %-8s %8.1f ms  %5.2f of zero copy's %8.1f ms; read %5.1f of %5.1f GB; "
	       "compute %7.1f, hot %7.1f ms; %llu rounds, lines of %u, %d registers\n",
	       kind_names[kind], algorithm_names[a], r->cached * 1e3, r->zero_copy / r->cached,
	       r->zero_copy * 1e3, (double)r->bytes_read * 1e-9, (double)r->bytes * 1e-9,
	       r->hbm * 1e3, r->hot * 1e3, (unsigned long long)r->rounds, r->line,
	       gpugraph_registers(a));
	fflush(stdout);
}

static int measure_graph(struct gpugraph *bench, const struct gpugraph_setup *setup,
			 enum gpugraph_kind kind, const char *only, struct table *t)
{
	double begin = now();
	int rc = gpugraph_make(bench, kind);

	if (rc == 0 && !fth_cli_json()) {
		printf("%s: %.1f GB of edges made in %.1f s\n", kind_names[kind],
		       (double)gpugraph_edges(bench) * 4e-9, now() - begin);
		fflush(stdout);
	}
	for (int a = 0; rc == 0 && a < GPUGRAPH_ALGORITHMS; a++) {
		if ((a == GPUGRAPH_SSSP && !setup->weighted) ||
		    (only && strcmp(only, algorithm_names[a]) != 0))
			continue;
		rc = gpugraph_run(bench, (enum gpugraph_algorithm)a, &t->cases[kind][a]);
		if (rc == 0)
			print_case(kind, (enum gpugraph_algorithm)a, &t->cases[kind][a]);
		if (rc == 0 && fth_cli_stopped())
			rc = -EINTR;
	}
	return rc;
}

/* ---- telling ---- */

static double ratio_of(const struct gpugraph_result *r)
{
	return r->zero_copy / r->cached;
}

/* Our search in either direction against push by zero copy, as EMOGI's; 0: not measured. */
static double search_against_push(const struct gpugraph_result *cases)
{
	double ours = cases[GPUGRAPH_BFS].cached, push = cases[GPUGRAPH_BFS_PUSH].zero_copy;

	return ours > 0 && push > 0 ? push / ours : 0;
}

/* The worst of both graphs; 0: not measured. */
static double worst_against_push(const struct table *t)
{
	double worst = 0;

	for (int kind = 0; kind < GPUGRAPH_KINDS; kind++) {
		double ratio = search_against_push(t->cases[kind]);

		if (ratio > 0 && (!(worst > 0) || ratio < worst))
			worst = ratio;
	}
	return worst;
}

/* A case of the table. */
struct found {
	enum gpugraph_kind kind;
	enum gpugraph_algorithm algorithm;
	const struct gpugraph_result *result; /* NULL: none */
};

/* The one with the lowest ratio, of one algorithm on both graphs and `worst`. */
static struct found worse_of(const struct table *t, enum gpugraph_algorithm a, struct found worst)
{
	for (int kind = 0; kind < GPUGRAPH_KINDS; kind++) {
		const struct gpugraph_result *r = &t->cases[kind][a];

		if (r->cached > 0 && (!worst.result || ratio_of(r) < ratio_of(worst.result)))
			worst = (struct found){(enum gpugraph_kind)kind, a, r};
	}
	return worst;
}

/* The worst of push-only search and components; with --only of something else, that one. */
static struct found worst_case(const struct table *t)
{
	struct found worst = {.result = NULL};

	worst = worse_of(t, GPUGRAPH_BFS_PUSH, worst);
	worst = worse_of(t, GPUGRAPH_CC, worst);
	for (int a = 0; a < GPUGRAPH_ALGORITHMS && !worst.result; a++)
		worst = worse_of(t, (enum gpugraph_algorithm)a, worst);
	return worst;
}

static void print_summary(const struct table *t)
{
	struct found worst = worst_case(t);
	double push = worst_against_push(t);

	if (fth_cli_json())
		return;
	printf("at worst %.2f of zero copy's speed with the same algorithm (%s, %s)",
	       ratio_of(worst.result), kind_names[worst.kind], algorithm_names[worst.algorithm]);
	if (push > 0)
		printf("; bfs at worst %.2f of the speed of bfs_push by zero copy", push);
	printf("\n");
}

static void json_case(struct fth_json *j, enum gpugraph_kind kind, enum gpugraph_algorithm a,
		      const struct table *t)
{
	const struct gpugraph_result *r = &t->cases[kind][a];
	double push = search_against_push(t->cases[kind]);

	fth_json_object(j, NULL);
	fth_json_string(j, "graph", kind_names[kind]);
	fth_json_string(j, "algorithm", algorithm_names[a]);
	fth_json_double(j, "ours", r->cached);
	fth_json_double(j, "peer", r->zero_copy);
	fth_json_double(j, "ratio", ratio_of(r));
	if (a == GPUGRAPH_BFS && push > 0)
		fth_json_double(j, "against_push", push);
	fth_json_double(j, "compute", r->hbm);
	fth_json_double(j, "cache", r->hot - r->hbm);
	fth_json_double(j, "storage", r->cached - r->hot);
	fth_json_u64(j, "edge_bytes", r->bytes);
	fth_json_u64(j, "line", r->line);
	fth_json_u64(j, "cache_bytes", r->cache);
	fth_json_u64(j, "bytes_read", r->bytes_read);
	fth_json_u64(j, "rounds", r->rounds);
	fth_json_u64(j, "answer", r->answer);
	fth_json_u64(j, "registers", (uint64_t)t->registers[a]);
	fth_json_end(j);
}

static void print_json(const struct gpugraph *bench, const struct gpugraph_setup *setup,
		       const struct table *t)
{
	struct found worst = worst_case(t);
	double push = worst_against_push(t);
	struct fth_json j;

	fth_bench_json(&j, "gpugraph", 1 / worst.result->cached, 1 / worst.result->zero_copy,
		       ratio_of(worst.result));
	fth_json_string(&j, "peer_name", "the same algorithm by zero copy from pinned host memory");
	fth_json_string(&j, "unit", "runs/s");
	fth_json_string(&j, "worst_algorithm", algorithm_names[worst.algorithm]);
	fth_json_string(&j, "worst_graph", kind_names[worst.kind]);
	if (push > 0)
		fth_json_double(&j, "bfs_against_push", push);
	fth_json_string(&j, "gpu", gpugraph_gpu(bench));
	fth_json_u64(&j, "scale", setup->scale);
	fth_json_u64(&j, "degree", setup->degree);
	fth_json_u64(&j, "queues", setup->queues);
	fth_json_u64(&j, "controller_warps", setup->warps);
	fth_json_u64(&j, "cache_share", setup->share);
	fth_json_u64(&j, "pagerank_iterations", setup->iterations);
	fth_json_u64(&j, "rounds", setup->rounds);
	fth_json_array(&j, "cases");
	for (int kind = 0; kind < GPUGRAPH_KINDS; kind++)
		for (int a = 0; a < GPUGRAPH_ALGORITHMS; a++)
			if (t->cases[kind][a].cached > 0)
				json_case(&j, (enum gpugraph_kind)kind, (enum gpugraph_algorithm)a,
					  t);
	fth_json_finish(&j);
}

/* ---- the command ---- */

static bool is_algorithm(const char *name)
{
	for (int a = 0; a < GPUGRAPH_ALGORITHMS; a++)
		if (strcmp(name, algorithm_names[a]) == 0)
			return true;
	return false;
}

static int run_bench(const struct gpugraph_setup *setup, const char *only)
{
	static struct table table;
	struct gpugraph *bench;
	double begin = now();
	int rc = gpugraph_open(setup, &bench);

	if (rc < 0)
		return rc;
	if (!fth_cli_json())
		printf("%s, memory pinned in %.1f s\n", gpugraph_gpu(bench), now() - begin);
	for (int a = 0; a < GPUGRAPH_ALGORITHMS; a++)
		table.registers[a] = gpugraph_registers((enum gpugraph_algorithm)a);
	for (int kind = 0; rc == 0 && kind < GPUGRAPH_KINDS; kind++)
		rc = measure_graph(bench, setup, (enum gpugraph_kind)kind, only, &table);
	if (rc == 0) {
		print_summary(&table);
		print_json(bench, setup, &table);
	}
	gpugraph_close(bench);
	return rc;
}

static int run(int argc, char **argv)
{
	uint64_t scale = 27, degree = 16, line = 0, queues = 128, warps = 0, share = 4, rounds = 3,
		 iterations = 3;
	bool smallest = false, unweighted = false;
	const char *only = NULL;
	const struct fth_cli_option table[] = {
		{"scale", FTH_CLI_U64, &scale, 8, 30, "2^N vertices"},
		{"degree", FTH_CLI_U64, &degree, 1, 64, "edges per vertex, in both directions"},
		{"line", FTH_CLI_SIZE, &line, 512, 8192,
		 "bytes of a line; default: what suits each"},
		{"queues", FTH_CLI_U64, &queues, 1, 1024, "queue pairs"},
		{"warps", FTH_CLI_U64, &warps, 0, 16,
		 "of the controller for each; default: as fits"},
		{"share", FTH_CLI_U64, &share, 1, 1024, "the cache has one Nth of the edges"},
		{"only", FTH_CLI_STRING, &only, 0, 0, "bfs_push, bfs, cc, pagerank or sssp"},
		{"iterations", FTH_CLI_U64, &iterations, 1, 100, "of PageRank"},
		{"rounds", FTH_CLI_U64, &rounds, 1, GPUGRAPH_ROUNDS_MAX, "medians are of"},
		{"unweighted", FTH_CLI_FLAG, &unweighted, 0, 0,
		 "no shortest paths: half the memory"},
		{"smallest", FTH_CLI_FLAG, &smallest, 0, 0, "a second's worth, for tests"},
		{0},
	};
	const struct fth_cli_usage usage = {
		.synopsis = "bench gpugraph [OPTION]...",
		.text = "Graphs whose edges are in host memory, worked on by a GPU: through a "
			"cache in\n"
			"GPU memory that holds a part of them, against the same by zero copy. The "
			"ratio\n"
			"is the worst of bfs_push and cc on both graphs; bfs_against_push is our "
			"search in\n"
			"either direction against push by zero copy, which is what EMOGI does.",
		.options = table,
	};
	struct gpugraph_setup s = {0};
	char **args;
	int rc = fth_cli_parse(&usage, argc, argv, &args);

	if (rc != FTH_CLI_GO_ON)
		return rc;
	if (smallest) {
		scale = 14;
		queues = 16;
		rounds = 1;
	}
	if (line & (line - 1)) {
		fth_cli_error("--line: a power of two");
		return FTH_EXIT_USAGE;
	}
	s = (struct gpugraph_setup){.scale = (unsigned)scale,
				    .degree = (unsigned)degree,
				    .line = (uint32_t)line,
				    .queues = (uint32_t)queues,
				    .warps = (uint32_t)warps,
				    .share = (unsigned)share,
				    .rounds = (unsigned)rounds,
				    .iterations = (unsigned)iterations,
				    .weighted = !unweighted};
	if (only && !is_algorithm(only)) {
		fth_cli_error("--only: there is no algorithm %s", only);
		return FTH_EXIT_USAGE;
	}
	if (only && unweighted && strcmp(only, algorithm_names[GPUGRAPH_SSSP]) == 0) {
		fth_cli_error("--only sssp needs weights");
		return FTH_EXIT_USAGE;
	}
	return fth_app_exit_gpu("bench gpugraph", run_bench(&s, only));
}

const struct fth_command fth_bench_gpugraph = {
	.name = "gpugraph",
	.summary = "graphs on a GPU, edges through its cache or by zero copy",
	.run = run,
};
