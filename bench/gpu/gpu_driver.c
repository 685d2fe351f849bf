/* SPDX-License-Identifier: BSD-2-Clause */
/* The front of all benchmarks of GPU threads. Siblings: workloads.c has the table of them, setup.cu
 * what they share on the GPU. */
#include "gpu_driver.h"

#include "app_options.h"
#include "common/report.h"

#include "fathom/base/error.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CASES_MAX    1024
#define OPTIONS_MAX  32
#define COLUMN_LEAST 9
#define NAME_MAX_GPU 64

struct gpu_value {
	const char *key;
	enum { NUMBER, COUNT, TEXT } kind;
	double number;
	uint64_t count;
	char *text;
};

/* Values of cases one after the other in `values`; those of the whole run in `facts`. */
struct gpu_report {
	const struct gpu_workload *workload;
	const struct gpu_settings *settings;
	char gpu[NAME_MAX_GPU];
	double ours, peer;
	bool open; /* a case is */
	unsigned cases, values, facts;
	unsigned first[CASES_MAX + 1]; /* value of each case, and where the last one ends */
	struct gpu_value value[GPU_VALUES_MAX];
	struct gpu_value fact[OPTIONS_MAX];
};

/* ---- collecting ---- */

static void add(struct gpu_report *r, struct gpu_value value)
{
	bool full = r->open ? r->values == GPU_VALUES_MAX : r->facts == OPTIONS_MAX;

	if (full)
		free(value.text);
	else if (r->open)
		r->value[r->values++] = value;
	else
		r->fact[r->facts++] = value;
}

void gpu_number(struct gpu_report *r, const char *key, double value)
{
	add(r, (struct gpu_value){.key = key, .kind = NUMBER, .number = value});
}

void gpu_count(struct gpu_report *r, const char *key, uint64_t value)
{
	add(r, (struct gpu_value){.key = key, .kind = COUNT, .count = value});
}

void gpu_text(struct gpu_report *r, const char *key, const char *value)
{
	add(r, (struct gpu_value){.key = key, .kind = TEXT, .text = value ? strdup(value) : NULL});
}

void gpu_sum(struct gpu_report *r, double ours, double peer)
{
	r->ours = ours;
	r->peer = peer;
}

void gpu_name(struct gpu_report *r, const char *name)
{
	snprintf(r->gpu, sizeof(r->gpu), "%s", name);
	if (!fth_cli_json() && !r->settings->sweep)
		printf("%s\n", r->gpu);
}

int gpu_stopped(void)
{
	return fth_cli_stopped() ? -EINTR : 0;
}

void gpu_progress(const char *what, uint64_t done, uint64_t total)
{
	fth_cli_progress(what, done, total);
}

static void report_release(struct gpu_report *r)
{
	for (unsigned i = 0; i < r->values; i++)
		free(r->value[i].text);
	for (unsigned i = 0; i < r->facts; i++)
		free(r->fact[i].text);
	free(r);
}

/* ---- JSON ---- */

static void json_values(struct fth_json *j, const struct gpu_value *v, unsigned n)
{
	for (; n > 0; n--, v++) {
		if (v->kind == NUMBER)
			fth_json_double(j, v->key, v->number);
		else if (v->kind == COUNT)
			fth_json_u64(j, v->key, v->count);
		else
			fth_json_string(j, v->key, v->text);
	}
}

/* Is there a value of this name among them? */
static bool has_key(const struct gpu_value *v, unsigned n, const char *key)
{
	for (; n > 0; n--, v++)
		if (strcmp(v->key, key) == 0)
			return true;
	return false;
}

static const void *field_of(const struct gpu_settings *s, const struct gpu_option *option)
{
	return (const char *)s + option->field;
}

/* All options with their values, but those whose place `v` has taken. */
static void json_options(struct fth_json *j, const struct gpu_report *r, const struct gpu_value *v,
			 unsigned n)
{
	for (const struct gpu_option *o = r->workload->options; o->name; o++) {
		const void *field = field_of(r->settings, o);
		char key[32];

		snprintf(key, sizeof(key), "%s", o->name);
		for (char *c = key; *c; c++)
			*c = *c == '-' ? '_' : *c;
		if (has_key(v, n, key))
			continue;
		if (o->kind == FTH_CLI_FLAG)
			fth_json_bool(j, key, *(const bool *)field);
		else if (o->kind == FTH_CLI_STRING)
			fth_json_string(j, key, *(const char *const *)field);
		else
			fth_json_u64(j, key, *(const uint64_t *)field);
	}
}

/* A case on a line of its own, with all parameters: what scripts/plot.py reads. */
static void print_line(const struct gpu_report *r, const struct gpu_value *v, unsigned n)
{
	struct fth_json j;

	fth_json_begin(&j, stdout);
	fth_json_string(&j, "bench", r->workload->command.name);
	json_values(&j, v, n);
	fth_json_string(&j, "gpu", r->gpu);
	json_options(&j, r, v, n);
	fth_json_finish(&j);
}

static void print_json(const struct gpu_report *r)
{
	struct fth_json j;

	fth_bench_json(&j, r->workload->command.name, r->ours, r->peer, r->ours / r->peer);
	fth_json_string(&j, "peer_name", r->workload->peer);
	fth_json_string(&j, "unit", r->workload->unit);
	fth_json_string(&j, "gpu", r->gpu);
	json_options(&j, r, r->fact, r->facts);
	json_values(&j, r->fact, r->facts);
	fth_json_array(&j, "cases");
	for (unsigned i = 0; i < r->cases; i++) {
		fth_json_object(&j, NULL);
		json_values(&j, r->value + r->first[i], r->first[i + 1] - r->first[i]);
		fth_json_end(&j);
	}
	fth_json_end(&j);
	fth_json_finish(&j);
}

/* ---- text ---- */

static int width_of(const struct gpu_value *v)
{
	int width = (int)strlen(v->key);

	return width < COLUMN_LEAST ? COLUMN_LEAST : width;
}

static void print_header(const struct gpu_value *v, unsigned n)
{
	for (; n > 0; n--, v++)
		printf(v->kind == TEXT ? "%-*s " : "%*s ", width_of(v), v->key);
	printf("\n");
}

static void print_row(const struct gpu_value *v, unsigned n)
{
	for (; n > 0; n--, v++) {
		if (v->kind == NUMBER)
			printf("%*.4g ", width_of(v), v->number);
		else if (v->kind == COUNT)
			printf("%*llu ", width_of(v), (unsigned long long)v->count);
		else
			printf("%-*s ", width_of(v), v->text ? v->text : "");
	}
	printf("\n");
	fflush(stdout);
}

static void print_facts(const struct gpu_report *r)
{
	for (unsigned i = 0; i < r->facts; i++) {
		printf("%-20s ", r->fact[i].key);
		print_row(&r->fact[i], 1);
	}
	printf("%-20s %.4g of %s\n", "ratio", r->ours / r->peer, r->workload->peer);
}

static bool same_columns(const struct gpu_report *r, unsigned a, unsigned b)
{
	unsigned n = r->first[a + 1] - r->first[a];

	if (n != r->first[b + 1] - r->first[b])
		return false;
	for (unsigned i = 0; i < n; i++)
		if (strcmp(r->value[r->first[a] + i].key, r->value[r->first[b] + i].key) != 0)
			return false;
	return true;
}

void gpu_case(struct gpu_report *r)
{
	r->open = true;
	r->first[r->cases] = r->values;
}

void gpu_case_end(struct gpu_report *r)
{
	const struct gpu_value *v = r->value + r->first[r->cases];
	unsigned n = r->values - r->first[r->cases], last = r->cases;

	r->open = false;
	r->first[last + 1] = r->values;
	fth_cli_progress_end();
	if (r->settings->sweep) {
		print_line(r, v, n);
	} else if (!fth_cli_json()) {
		if (last == 0 || !same_columns(r, last - 1, last))
			print_header(v, n);
		print_row(v, n);
	}
	if (last < CASES_MAX - 1)
		r->cases++;
}

/* ---- the command ---- */

static const struct gpu_workload *find_workload(const char *name)
{
	for (unsigned i = 0; i < GPU_WORKLOADS; i++)
		if (strcmp(fth_bench_gpu[i].command.name, name) == 0)
			return &fth_bench_gpu[i];
	return NULL;
}

static void set_number(struct gpu_settings *s, const struct gpu_option *o, uint64_t value)
{
	if (o->kind == FTH_CLI_U64 || o->kind == FTH_CLI_SIZE)
		*(uint64_t *)((char *)s + o->field) = value;
}

/* Earlier names of options, and those of now. */
static const char *const former[][2] = {{"cache", "memory"},
					{"device", "flash"},
					{"memory", "kind"},
					{"scan-cache", "scan-memory"}};
#define FORMER (sizeof(former) / sizeof(former[0]))

static bool has_option(const struct gpu_option *options, const char *name)
{
	while (options->name && strcmp(options->name, name) != 0)
		options++;
	return options->name;
}

static int parse(const struct gpu_workload *w, struct gpu_settings *s, int argc, char **argv)
{
	struct fth_cli_option table[OPTIONS_MAX + 2 + FORMER] = {0};
	struct fth_cli_usage usage = {.text = w->text, .options = table};
	const struct gpu_option *o = w->options;
	char synopsis[64], **args;
	unsigned n = 0;
	int rc;

	snprintf(synopsis, sizeof(synopsis), "bench %s [OPTION]...", w->command.name);
	usage.synopsis = synopsis;
	for (; o[n].name && n < OPTIONS_MAX; n++) {
		set_number(s, &o[n], o[n].value);
		table[n] = (struct fth_cli_option){o[n].name, o[n].kind, (char *)s + o[n].field,
						   o[n].min,  o[n].max,	 o[n].help};
	}
	table[n] = (struct fth_cli_option){
		"smallest", FTH_CLI_FLAG, &s->smallest, 0, 0, "a second's worth, for tests"};
	for (unsigned i = 0; i < FORMER; i++)
		if (has_option(o, former[i][1]) && !has_option(o, former[i][0]))
			table[++n] = (struct fth_cli_option)FTH_CLI_WAS(former[i][0], former[i][1]);
	rc = fth_cli_parse(&usage, argc, argv, &args);
	for (; s->smallest && o->name; o++)
		if (o->smallest)
			set_number(s, o, o->smallest);
	return rc;
}

static int run_workload(const struct gpu_workload *w, const struct gpu_settings *s)
{
	struct gpu_report *report = calloc(1, sizeof(*report));
	int rc;

	if (!report)
		return -ENOMEM;
	report->workload = w;
	report->settings = s;
#ifdef FTH_BENCH_CUDA
	rc = gpu_run(w->run, s, report);
#else
	rc = fth_fail(EOPNOTSUPP, "built without CUDA");
#endif
	if (rc == 0 && !fth_cli_json() && !s->sweep)
		print_facts(report);
	if (rc == 0)
		print_json(report);
	report_release(report);
	return rc;
}

int gpu_bench(int argc, char **argv)
{
	const struct gpu_workload *w = find_workload(argv[0]);
	struct gpu_settings s = {0};
	char name[32];
	int rc = parse(w, &s, argc, argv);

	if (rc != FTH_CLI_GO_ON)
		return rc;
	rc = w->check ? w->check(&s) : 0;
	if (rc < 0) {
		fth_cli_error("%s", fth_error_text(rc));
		return FTH_EXIT_USAGE;
	}
	snprintf(name, sizeof(name), "bench %s", w->command.name);
	rc = run_workload(w, &s);
	/* No GPU, or a system that does not allow io_uring. */
	return fth_app_exit_or_skip(name, rc, rc == -EOPNOTSUPP || rc == -ENOSYS || rc == -EPERM);
}
