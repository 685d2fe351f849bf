/* SPDX-License-Identifier: BSD-2-Clause */
/* Names of vertices: their order, their sort, and graphs that were imported with them. */
#include "graph/format.h"
#include "graph/label/label.h"
#include "graph/build/text.h"

#include "fathom/base/rng.h"

#include "fth_test.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct fth_label label_of(const char *text)
{
	size_t length = strlen(text);

	return (struct fth_label){fth_graph_label_prefix(text, length), text, (uint32_t)length};
}

static void numbers_come_first_and_by_value(void **state)
{
	static const char *const ascending[] = {
		"0",
		"1",
		"7",
		"10",
		"4294967296",
		"9223372036854775807",
		"+1",
		"-1",
		"007",
		"1.5",
		"9223372036854775808",
		"99999999999999999999",
		"A",
		"a",
		"aa",
		"aaaaaaaa",
		"aaaaaaaaa",
		"aaaaaaaab",
		"aaaaaaab",
		"b",
		"\xc3\xa4",
	};

	(void)state;
	for (unsigned i = 0; i < sizeof(ascending) / sizeof(ascending[0]); i++)
		for (unsigned k = 0; k < sizeof(ascending) / sizeof(ascending[0]); k++) {
			struct fth_label a = label_of(ascending[i]), b = label_of(ascending[k]);
			int order = fth_label_compare(&a, &b);

			if ((order > 0) - (order < 0) != (i > k) - (i < k))
				fail_msg("%s and %s: %d", a.text, b.text, order);
		}
}

/* Words that share beginnings, and numbers; many of them several times. */
static int make_text(struct fth_rng *rng, char text[64])
{
	uint64_t n = fth_rng_below(rng, 20000);

	if (n % 3 == 0)
		return snprintf(text, 64, "%llu", (unsigned long long)n * 1000003);
	return snprintf(text, 64, n % 2 ? "http://example.org/%llx" : "x%llu",
			(unsigned long long)n);
}

static void assert_sorted(uint64_t records, uint64_t memory, bool in_file)
{
	struct fth_label_sort *sort;
	struct fth_label label, before = {0};
	struct fth_rng rng = {7};
	char text[64], last[64] = "";
	uint64_t place, sum = 0, count = 0;
	const struct fth_graph_job job = {0};

	assert_ok(fth_label_sort_new(memory, NULL, &sort));
	for (uint64_t i = 0; i < records; i++) {
		int length = make_text(&rng, text);

		assert_ok(fth_label_sort_add(sort, text, (uint32_t)length, i));
	}
	assert_ok(fth_label_sort_finish(sort, &job));
	if (in_file)
		assert_true(fth_label_sort_runs(sort) > 8);
	else
		assert_int_equal(fth_label_sort_runs(sort), 0);
	for (; fth_label_sort_next(sort, &label, &place) > 0; count++) {
		if (count > 0)
			assert_true(fth_label_compare(&before, &label) <= 0);
		snprintf(last, sizeof(last), "%.*s", (int)label.length, label.text);
		before = (struct fth_label){label.prefix, last, label.length};
		assert_true(label.prefix == fth_graph_label_prefix(last, label.length));
		sum += place;
	}
	assert_int_equal(fth_label_sort_next(sort, &label, &place), 0);
	assert_true(count == records && sum == records * (records - 1) / 2);
	fth_label_sort_free(sort);
}

static void labels_are_sorted_in_memory_and_in_files(void **state)
{
	(void)state;
	assert_sorted(1, 1 << 20, false);
	assert_sorted(5000, 1 << 20, false);
	assert_sorted(100000, 0, true); /* of the least memory: merged in two steps */
}

static void a_list_is_read_as_often_as_one_likes(void **state)
{
	char text[FTH_GRAPH_LABEL_MAX + 1];
	struct fth_label_list list;
	const char *got;
	uint32_t length;

	(void)state;
	memset(text, 'x', sizeof(text));
	assert_ok(fth_label_list_init(&list, NULL));
	for (uint32_t i = 1; i <= FTH_GRAPH_LABEL_MAX; i++)
		assert_ok(fth_label_list_add(&list, text, i));
	for (int pass = 0; pass < 2; pass++) {
		assert_ok(fth_label_list_rewind(&list));
		for (uint32_t i = 1; i <= FTH_GRAPH_LABEL_MAX; i++) {
			assert_int_equal(fth_label_list_next(&list, &got, &length), 1);
			assert_int_equal(length, i);
			assert_memory_equal(got, text, i);
		}
		assert_int_equal(fth_label_list_next(&list, &got, &length), 0);
	}
	fth_label_list_release(&list);
}

/* ---- graphs ---- */

struct target {
	struct fth_dev *dev;
	struct fth_cache *cache;
	struct fth_graph *graph;
	struct fth_graph_info info;
	struct fth_graph_counts counts;
};

static int open_target(void *context, uint64_t bytes, struct fth_dev **out)
{
	struct target *target = context;
	char uri[64];
	int rc;

	snprintf(uri, sizeof(uri), "mem:%llu", (unsigned long long)bytes);
	rc = fth_dev_open(uri, &target->dev);
	*out = target->dev;
	return rc;
}

static int import(struct target *target, struct fth_graph_import what, const char *text)
{
	struct fth_graph_build build = {.memory = 1 << 20, .open = open_target, .context = target};
	int rc;

	*target = (struct target){0};
	what.relabel = true;
	what.counts = &target->counts;
	what.in = fmemopen((void *)(uintptr_t)text, strlen(text), "r");
	rc = fth_graph_import(&what, &build, NULL, &target->info);
	fclose(what.in);
	if (rc == 0) {
		assert_ok(fth_cache_open(NULL, &target->cache));
		assert_ok(fth_graph_open_dev(target->cache, target->dev, NULL, &target->graph));
	}
	return rc;
}

static void release(struct target *target)
{
	assert_ok(fth_graph_close(target->graph));
	if (target->cache)
		assert_ok(fth_cache_close(target->cache));
	fth_dev_close(target->dev);
}

static void assert_label(struct target *target, uint64_t vertex, const char *label)
{
	char text[FTH_GRAPH_LABEL_MAX + 1];
	uint64_t found;

	assert_int_equal(fth_graph_label(target->graph, vertex, text, sizeof(text)), strlen(label));
	assert_string_equal(text, label);
	assert_ok(fth_graph_find(target->graph, label, &found));
	assert_int_equal(found, vertex);
}

static void names_become_numbers_and_back(void **state)
{
	struct target t;
	char text[FTH_GRAPH_LABEL_MAX + 1];
	uint64_t vertex;

	(void)state;
	assert_ok(import(&t, (struct fth_graph_import){.weighted = true},
			 "# who knows whom\nbob alice 3\n1000000000 bob 4\nalice alice 1\n"
			 "bob alice 2\n7 bob 1\n"));
	assert_int_equal(t.info.vertices, 4);
	assert_int_equal(t.info.edges, 3);
	assert_true(t.info.labels && !t.info.labels_numeric);
	assert_int_equal(t.info.label_max, 10);
	assert_int_equal(t.counts.edges, 5);
	assert_int_equal(t.counts.vertices, 4);
	assert_int_equal(t.counts.loops, 1);
	assert_int_equal(t.counts.duplicates, 1);
	assert_label(&t, 0, "7");
	assert_label(&t, 1, "1000000000");
	assert_label(&t, 2, "alice");
	assert_label(&t, 3, "bob");
	assert_ok(fth_graph_load_labels(t.graph));
	assert_ok(fth_graph_load_labels(t.graph));
	for (uint64_t v = 0; v < 4; v++) {
		static const char *const names[] = {"7", "1000000000", "alice", "bob"};

		assert_label(&t, v, names[v]);
	}
	assert_int_equal(fth_graph_find(t.graph, "carol", &vertex), -ENOENT);
	assert_int_equal(fth_graph_find(t.graph, "0", &vertex), -ENOENT);
	assert_int_equal(fth_graph_find(t.graph, "", &vertex), -ENOENT);
	assert_int_equal(fth_graph_label(t.graph, 4, text, sizeof(text)), -ERANGE);
	assert_int_equal(fth_graph_label(t.graph, 1, text, 10), -ENAMETOOLONG);
	assert_ok(fth_graph_check_data(t.dev, NULL));
	release(&t);
}

/* The graph of names is the graph of numbers, with other numbers. */
static void edges_keep_their_ends_and_weights(void **state)
{
	enum { VERTICES = 300, EDGES = 20000 };
	char *text = malloc(EDGES * 40), name[FTH_GRAPH_LABEL_MAX + 1];
	static uint32_t lightest[VERTICES][VERTICES];
	struct fth_graph_memory memory;
	struct fth_rng rng = {3};
	struct target t;
	size_t used = 0;
	uint64_t edges = 0;

	(void)state;
	for (int i = 0; i < EDGES; i++) {
		uint64_t from = fth_rng_below(&rng, VERTICES), to = fth_rng_below(&rng, VERTICES);
		uint32_t weight = 1 + (uint32_t)fth_rng_below(&rng, 1000);

		used += (size_t)sprintf(text + used, "v%llx v%llx %u\n", (unsigned long long)from,
					(unsigned long long)to, weight);
		if (from == to)
			continue;
		edges += lightest[from][to] == 0;
		if (lightest[from][to] == 0 || weight < lightest[from][to])
			lightest[from][to] = weight;
	}
	assert_ok(import(&t, (struct fth_graph_import){.weighted = true}, text));
	free(text);
	assert_int_equal(t.info.vertices, VERTICES);
	assert_int_equal(t.info.edges, edges);
	assert_int_equal(t.counts.duplicates, EDGES - t.counts.loops - edges);
	assert_ok(fth_graph_load(t.graph, &memory));
	for (uint64_t v = 0; v < VERTICES; v++) {
		uint64_t from;

		assert_true(fth_graph_label(t.graph, v, name, sizeof(name)) > 0);
		from = strtoull(name + 1, NULL, 16);
		for (uint64_t e = memory.offsets[v]; e < memory.offsets[v + 1]; e++) {
			assert_true(fth_graph_label(t.graph, memory.neighbours[e], name,
						    sizeof(name)) > 0);
			assert_int_equal(memory.weights[e],
					 lightest[from][strtoull(name + 1, NULL, 16)]);
		}
	}
	fth_graph_unload(&memory);
	release(&t);
}

static void numeric_labels_are_known_as_such(void **state)
{
	struct target t;

	(void)state;
	assert_ok(import(&t, (struct fth_graph_import){.undirected = true},
			 "9223372036854775807 5\n5 40\n40 5\n"));
	assert_true(t.info.labels_numeric && t.info.undirected);
	assert_int_equal(t.info.edges, 4);
	assert_int_equal(t.counts.duplicates, 1);
	assert_label(&t, 0, "5");
	assert_label(&t, 2, "9223372036854775807");
	release(&t);
}

static void without_labels_names_are_numbers(void **state)
{
	struct fth_graph_build build = {.memory = 1 << 20, .open = open_target};
	struct fth_graph_import what = {.vertices = 3};
	char text[4], list[] = "0 1\n";
	struct target t = {0};
	uint64_t vertex;

	(void)state;
	build.context = &t;
	what.in = fmemopen(list, sizeof(list) - 1, "r");
	assert_ok(fth_graph_import(&what, &build, NULL, &t.info));
	fclose(what.in);
	assert_ok(fth_cache_open(NULL, &t.cache));
	assert_ok(fth_graph_open_dev(t.cache, t.dev, NULL, &t.graph));
	assert_label(&t, 2, "2");
	assert_ok(fth_graph_load_labels(t.graph));
	assert_int_equal(fth_graph_find(t.graph, "3", &vertex), -ENOENT);
	assert_int_equal(fth_graph_find(t.graph, "x", &vertex), -ENOENT);
	assert_int_equal(fth_graph_find(t.graph, "-1", &vertex), -ENOENT);
	assert_int_equal(fth_graph_label(t.graph, 2, text, 1), -ENAMETOOLONG);
	release(&t);
}

static void what_cannot_be_relabelled_is_refused(void **state)
{
	char name[FTH_GRAPH_LABEL_MAX + 4];
	struct target t;

	(void)state;
	assert_int_equal(import(&t, (struct fth_graph_import){.one_based = true}, "1 2\n"),
			 -EINVAL);
	assert_int_equal(import(&t, (struct fth_graph_import){.vertices = 9}, "1 2\n"), -EINVAL);
	assert_int_equal(
		import(&t, (struct fth_graph_import){.format = FTH_GRAPH_MATRIX_MARKET}, "1 2\n"),
		-EINVAL);
	assert_int_equal(import(&t, (struct fth_graph_import){0}, "# none\n"), -EINVAL);
	assert_int_equal(import(&t, (struct fth_graph_import){0}, "a b\nc\n"), -EINVAL);
	assert_non_null(strstr(fth_error_text(-EINVAL), "line 2: expected a vertex name"));
	memset(name, 'n', sizeof(name));
	memcpy(name + FTH_GRAPH_LABEL_MAX + 1, " b", 3);
	assert_int_equal(import(&t, (struct fth_graph_import){0}, name), -EINVAL);
	assert_non_null(
		strstr(fth_error_text(-EINVAL), "line 1: the vertex name is longer than 1000"));
	assert_int_equal(import(&t, (struct fth_graph_import){.weighted = true}, "a b c\n"),
			 -EINVAL);
}

/* A label that points elsewhere is an error, never a crash. */
static void damaged_labels_are_errors(void **state)
{
	const uint64_t bad[] = {UINT64_MAX, 3, 1 << 20};
	char text[FTH_GRAPH_LABEL_MAX + 1];
	uint64_t block[64], vertex;
	struct target t;

	(void)state;
	for (unsigned i = 0; i < 3; i++) {
		assert_ok(import(&t, (struct fth_graph_import){0}, "a b\nb c\n"));
		assert_ok(fth_graph_close(t.graph));
		assert_ok(fth_dev_read(t.dev, block, 512, t.info.label_index_at, FTH_DEV_TIMEOUT));
		block[1] = bad[i];
		assert_ok(fth_dev_write(t.dev, block, 512, t.info.label_index_at, FTH_DEV_TIMEOUT));
		assert_int_equal(fth_graph_check_data(t.dev, NULL), -EBADMSG);
		assert_ok(fth_graph_open_dev(t.cache, t.dev, NULL, &t.graph));
		assert_int_equal(fth_graph_label(t.graph, 1, text, sizeof(text)), -EBADMSG);
		assert_int_equal(fth_graph_find(t.graph, "b", &vertex), -EBADMSG);
		assert_ok(fth_graph_load_labels(t.graph));
		assert_int_equal(fth_graph_label(t.graph, 1, text, sizeof(text)), -EBADMSG);
		release(&t);
	}
}

/* A header with one field changed, and its checksums put right. */
static void headers_with_impossible_labels_are_refused(void **state)
{
	struct fth_graph_info good = {.vertices = 100, .edges = 1000, .labels = true}, out;
	struct fth_graph_header header, bad;

	(void)state;
	good.label_bytes = 400;
	good.label_max = 4;
	fth_graph_lay_out(&good, 1000);
	fth_graph_encode(&good, &header);
	assert_ok(fth_graph_decode(&header, good.bytes, &out));
	assert_true(out.labels && out.label_text_at == good.label_text_at);
	for (int i = 0; i < 7; i++) {
		bad = header;
		if (i == 0)
			bad.label_max = FTH_GRAPH_LABEL_MAX + 1;
		else if (i == 1)
			bad.label_bytes = UINT64_MAX;
		else if (i == 2)
			bad.label_index_at = bad.offsets_at;
		else if (i == 3)
			bad.label_text_at = bad.label_index_at;
		else if (i == 4)
			bad.label_text_at = bad.edges_at;
		else if (i == 5)
			bad.labels_numeric = 2;
		else
			bad.label_text_at = UINT64_MAX - FTH_GRAPH_SECTION + 1;
		fth_graph_seal(&bad);
		assert_int_equal(fth_graph_decode(&bad, good.bytes, &out), -EBADMSG);
	}
	bad = header;
	bad.label_checksum++;
	assert_int_equal(fth_graph_decode(&bad, good.bytes, &out), -EBADMSG);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(numbers_come_first_and_by_value),
		cmocka_unit_test(labels_are_sorted_in_memory_and_in_files),
		cmocka_unit_test(a_list_is_read_as_often_as_one_likes),
		cmocka_unit_test(names_become_numbers_and_back),
		cmocka_unit_test(edges_keep_their_ends_and_weights),
		cmocka_unit_test(numeric_labels_are_known_as_such),
		cmocka_unit_test(without_labels_names_are_numbers),
		cmocka_unit_test(what_cannot_be_relabelled_is_refused),
		cmocka_unit_test(damaged_labels_are_errors),
		cmocka_unit_test(headers_with_impossible_labels_are_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
