/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * fathom bench gpugraph: graphs with more edges than the GPU's cache holds, through the cache and
 * by zero copy from pinned host memory, the same kernels on the same bytes. What computing takes is
 * seen with all edges in GPU memory, what the cache takes with one that has everything; the rest is
 * storage (as Qureshi, dissertation, 9.2).
 */
#include "gpugraph.h"

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

/*
 * A search as the papers' peer does it is EMOGI's: push, by zero copy. Ours is in either direction.
 * What the same search gives by zero copy is in the cases.
 */
static struct gpugraph_result against_emogi(const struct gpugraph_result *cases)
{
	struct gpugraph_result search = cases[GPUGRAPH_BFS];

	search.zero_copy = cases[GPUGRAPH_BFS_PUSH].zero_copy;
	if (!(search.zero_copy > 0))
		search.cached = 0;
	return search;
}

static void json_case(struct fth_json *j, enum gpugraph_kind kind, enum gpugraph_algorithm a,
		      const struct table *t)
{
	const struct gpugraph_result *r = &t->cases[kind][a];
	struct gpugraph_result emogi = against_emogi(t->cases[kind]);

	fth_json_object(j, NULL);
	fth_json_string(j, "graph", kind_names[kind]);
	fth_json_string(j, "algorithm", algorithm_names[a]);
	fth_json_double(j, "ours", r->cached);
	fth_json_double(j, "peer", r->zero_copy);
	fth_json_double(j, "ratio", ratio_of(r));
	if (a == GPUGRAPH_BFS && emogi.cached > 0)
		fth_json_double(j, "ratio_to_push", ratio_of(&emogi));
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

/* The worst of search and components on both graphs. */
static struct gpugraph_result worst_case(const struct table *t)
{
	struct gpugraph_result worst = {.cached = 0};

	for (int kind = 0; kind < GPUGRAPH_KINDS; kind++) {
		struct gpugraph_result found[2] = {against_emogi(t->cases[kind]),
						   t->cases[kind][GPUGRAPH_CC]};

		for (int i = 0; i < 2; i++)
			if (found[i].cached > 0 &&
			    (!(worst.cached > 0) || ratio_of(&found[i]) < ratio_of(&worst)))
				worst = found[i];
	}
	return worst;
}

/* The lowest ratio of a search to the same search by zero copy. */
static double worst_search(const struct table *t)
{
	double worst = 0;

	for (int kind = 0; kind < GPUGRAPH_KINDS; kind++)
		for (int a = GPUGRAPH_BFS_PUSH; a <= GPUGRAPH_BFS; a++) {
			const struct gpugraph_result *r = &t->cases[kind][a];

			if (r->cached > 0 && (!(worst > 0) || ratio_of(r) < worst))
				worst = ratio_of(r);
		}
	return worst;
}

static void print_json(const struct gpugraph *bench, const struct gpugraph_setup *setup,
		       const struct table *t)
{
	struct gpugraph_result worst = worst_case(t);
	struct fth_json j;

	fth_json_begin(&j, stdout);
	fth_json_string(&j, "bench", "gpugraph");
	fth_json_double(&j, "ours", 1 / worst.cached);
	fth_json_double(&j, "peer", 1 / worst.zero_copy);
	fth_json_double(&j, "ratio", ratio_of(&worst));
	fth_json_string(&j, "peer_name", "zero copy from pinned host memory; a search as EMOGI's");
	fth_json_string(&j, "unit", "runs/s, of the worst of bfs and cc");
	fth_json_double(&j, "worst_of_same_search", worst_search(t));
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
	if (rc == 0)
		print_json(bench, setup, &table);
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
			"GPU memory that holds a part of them, against zero copy.",
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
	rc = run_bench(&s, only);
	if (rc == -EINTR)
		return FTH_EXIT_INTERRUPTED;
	if (rc < 0)
		fth_cli_error("%s", fth_error_text(rc));
	if (rc == -EOPNOTSUPP)
		return FTH_EXIT_IMPOSSIBLE;
	return rc < 0 ? FTH_EXIT_FAILED : FTH_EXIT_OK;
}

const struct fth_command fth_bench_gpugraph = {
	.name = "gpugraph",
	.summary = "graphs on a GPU, edges through its cache or by zero copy",
	.run = run,
};
