/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Structures of joins against loops over all pairs of rows: dense, sparse, negative, composite,
 * wide and text keys, nulls, duplicates; filled by threads; whole, and in parts that fit little
 * memory.
 */
#include "fth_test.h"

#include "query/join/index_build.h"

#include "fathom/base/rng.h"

#include <errno.h>
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#define BUILT  4000u
#define PROBED 500u
#define KEYS   2u
#define LARGE  ((uint64_t)1 << 30)

struct shape {
	const char *name;
	unsigned key_count;
	bool text;		/* the first key */
	int64_t lo, step, span; /* keys are lo + step * [0, span] */
	bool declared;		/* the range is known to the structure */
	fth_i128 scale;		/* and multiplied by this: wide values */
	bool plain;		/* no text in the payload */
	uint32_t strings;	/* different ones in keys, if that is known */
};

static const struct shape shapes[] = {
	{"dense", 1, false, 1, 1, 4000, true, 1, false, 0},
	{"negative", 1, false, -90000, 7, 4000, true, 1, false, 0},
	{"sparse", 1, false, -1, 1000003, 3000, true, 1, false, 0},
	{"unknown range", 1, false, INT64_MIN + 9, 1, 3000, false, 1, false, 0},
	{"few", 1, false, 5, 1, 40, true, 1, false, 0},
	{"one", 1, false, 5, 1, 0, true, 1, false, 0},
	{"composite", 2, false, 0, 1, 70, true, 1, false, 0},
	{"sparse composite", 2, false, -50, 99991, 70, true, 1, false, 0},
	{"wide", 1, false, 1, 1, 3000, true, (fth_i128)1 << 70, false, 0},
	{"text", 1, true, 0, 1, 3000, true, 1, false, 0},
	{"text and number", 2, true, 0, 1, 70, true, 1, false, 0},
	{"no key", 0, false, 0, 1, 0, true, 1, false, 0},
	{"dense numbers", 1, false, 1, 1, 4000, true, 1, true, 0},
	{"negative numbers", 1, false, -90000, 2, 4000, true, 1, true, 0},
	{"composite numbers", 2, false, 0, 1, 70, true, 1, true, 0},
	{"known strings", 1, true, 0, 1, 3000, true, 1, false, 3001},
	{"known strings and numbers", 2, true, 0, 1, 70, true, 1, false, 71},
	{"dense with few strings", 1, false, 1, 1, 4000, true, 1, false, 1},
	{"spread numbers", 1, false, 7, 32, 4000, true, 1, true, 0},
};

struct side {
	unsigned n;
	fth_i128 *keys[KEYS];
	bool *null[KEYS];
	int64_t *payload; /* null where it is negative */
};

/* ---- rows ---- */

static void fill_side(struct side *s, unsigned n, const struct shape *shape, struct fth_rng *rng,
		      bool nulls, bool unique)
{
	s->n = n;
	s->payload = calloc(n + 1, sizeof(*s->payload));
	for (unsigned i = 0; i < n; i++)
		s->payload[i] = (int64_t)fth_rng_below(rng, 1000) - 100;
	for (unsigned k = 0; k < KEYS; k++) {
		s->keys[k] = calloc(n + 1, sizeof(fth_i128));
		s->null[k] = calloc(n + 1, 1);
		for (unsigned i = 0; i < n; i++) {
			int64_t x = (int64_t)fth_rng_below(rng, (uint64_t)shape->span + 1);

			if (unique)
				x = k == 0 ? i % (shape->span + 1) : i / (shape->span + 1);
			s->keys[k][i] = (shape->lo + (fth_i128)shape->step * x) * shape->scale;
			s->null[k][i] = nulls && fth_rng_below(rng, 9) == 0;
		}
	}
}

static void free_side(struct side *s)
{
	free(s->payload);
	for (unsigned k = 0; k < KEYS; k++) {
		free(s->keys[k]);
		free(s->null[k]);
	}
}

static bool is_match(const struct shape *shape, const struct side *a, unsigned i,
		     const struct side *b, unsigned j)
{
	for (unsigned k = 0; k < shape->key_count; k++)
		if (a->null[k][i] || b->null[k][j] || a->keys[k][i] != b->keys[k][j])
			return false;
	return true;
}

/* ---- vectors ---- */

struct vectors {
	struct fth_vec vecs[KEYS + 2], *pointers[KEYS + 2];
	fth_i128 wide[KEYS][FTH_BATCH];
	int64_t narrow[KEYS][FTH_BATCH];
	struct fth_str text[2][FTH_BATCH];
	char bytes[2][FTH_BATCH][24];
	int64_t payload[FTH_BATCH];
	uint64_t nulls[KEYS + 2][FTH_BATCH_WORDS];
	struct fth_sel sel;
};

/*
 * Values as columns have them: in fewer bits, less a base. How many is as narrow as they allow, and
 * `turn` decides.
 */
static void make_narrow(struct vectors *v, unsigned k, unsigned n, unsigned turn)
{
	fth_i128 lo = v->wide[k][0], hi = lo;
	enum fth_phys type;

	for (unsigned i = 0; i < n; i++) {
		lo = v->wide[k][i] < lo ? v->wide[k][i] : lo;
		hi = v->wide[k][i] > hi ? v->wide[k][i] : hi;
	}
	if (lo < INT64_MIN / 2 || hi > INT64_MAX / 2)
		return;
	type = fth_phys_for(0, hi - lo);
	type = turn % 2 == 0 || type > FTH_I64 ? type : FTH_I64;
	for (unsigned i = 0; i < n; i++) {
		int64_t x = (int64_t)(v->wide[k][i] - lo);

		memcpy((char *)v->narrow[k] + i * fth_phys_width(type), &x, fth_phys_width(type));
	}
	v->vecs[k].type = type;
	v->vecs[k].base = (int64_t)lo;
	v->vecs[k].data = v->narrow[k];
}

/* Rows [from, from + n) of a side; the payload as a number and as text. */
static void make_vectors(struct vectors *v, const struct shape *shape, const struct side *s,
			 unsigned from, unsigned n)
{
	unsigned columns = shape->key_count;

	memset(v->nulls, 0, sizeof(v->nulls));
	for (unsigned k = 0; k < shape->key_count; k++) {
		bool text = shape->text && k == 0;

		for (unsigned i = 0; i < n; i++) {
			v->wide[k][i] = s->keys[k][from + i];
			snprintf(v->bytes[k][i], 24, "key%lld", (long long)s->keys[k][from + i]);
			if (text)
				v->text[k][i] = fth_str_of(v->bytes[k][i]);
			if (s->null[k][from + i])
				fth_bit_set(v->nulls[k], i);
		}
		v->vecs[k] = (struct fth_vec){.type = text ? FTH_STR : FTH_I128,
					      .data = text ? (void *)v->text[k] : v->wide[k],
					      .nulls = v->nulls[k]};
		if (!text)
			make_narrow(v, k, n, from / FTH_BATCH + from);
	}
	for (unsigned i = 0; i < n; i++) {
		v->payload[i] = s->payload[from + i];
		snprintf(v->bytes[1][i], 24, "%lld", (long long)(v->payload[i] % 37));
		v->text[1][i] = fth_str_of(v->bytes[1][i]);
		if (v->payload[i] < 0)
			fth_bit_set(v->nulls[columns], i);
	}
	v->vecs[columns] =
		(struct fth_vec){.type = FTH_I64, .data = v->payload, .nulls = v->nulls[columns]};
	v->vecs[columns + 1] = (struct fth_vec){.type = FTH_STR, .data = v->text[1]};
	for (unsigned i = 0; i < KEYS + 2; i++)
		v->pointers[i] = &v->vecs[i];
	fth_sel_all(&v->sel, n);
}

static void describe(const struct shape *shape, enum index_kind kind, struct task_slot *columns,
		     struct index_spec *spec)
{
	unsigned n = shape->key_count;
	fth_i128 first = shape->lo * shape->scale,
		 last = (shape->lo + (fth_i128)shape->step * shape->span) * shape->scale;

	for (unsigned k = 0; k < n; k++) {
		columns[k] = (struct task_slot){.type = fth_type(FTH_T_INT64), .lo = 1};
		if (shape->scale > 1)
			columns[k].type = fth_type(FTH_T_DECIMAL);
		if (shape->declared) {
			columns[k].lo = first;
			columns[k].hi = last;
		}
		if (shape->text && k == 0)
			columns[k] = (struct task_slot){
				.type = fth_type(FTH_T_TEXT), .lo = 1, .strings = shape->strings};
	}
	columns[n++] = (struct task_slot){
		.type = fth_type(FTH_T_INT32), .nullable = true, .lo = -100, .hi = 899};
	if (!shape->plain)
		columns[n++] = (struct task_slot){.type = fth_type(FTH_T_TEXT),
						  .lo = 1,
						  .strings = shape->strings == 0 ? 0 : 80};
	*spec = (struct index_spec){.kind = kind,
				    .key_count = shape->key_count,
				    .column_count = kind == INDEX_SET ? shape->key_count : n,
				    .columns = columns,
				    .to = UINT64_MAX,
				    .rows = BUILT,
				    .twice = true};
}

/* ---- building ---- */

struct filler {
	struct build *build;
	const struct shape *shape;
	const struct side *side;
	unsigned from, to;
	pthread_t thread;
	int rc;
};

static void *fill(void *user)
{
	struct filler *f = user;
	struct vectors *v = malloc(sizeof(*v));
	struct build_writer *w;

	f->rc = build_writer_open(f->build, &w);
	for (unsigned at = f->from; at < f->to && f->rc == 0; at += 700) {
		make_vectors(v, f->shape, f->side, at, f->to - at < 700 ? f->to - at : 700);
		f->rc = build_append(w, v->pointers, &v->sel);
	}
	build_writer_close(w);
	free(v);
	return NULL;
}

/* All rows, by threads. */
static int fill_all(struct build *b, const struct shape *shape, const struct side *side,
		    unsigned threads)
{
	struct filler fillers[4];
	int rc = 0;

	for (unsigned i = 0; i < threads; i++) {
		fillers[i] = (struct filler){.build = b,
					     .shape = shape,
					     .side = side,
					     .from = side->n / threads * i,
					     .to = i + 1 == threads ? side->n
								    : side->n / threads * (i + 1)};
		if (i > 0)
			assert_int_equal(
				pthread_create(&fillers[i].thread, NULL, fill, &fillers[i]), 0);
	}
	fill(&fillers[0]);
	for (unsigned i = 0; i < threads; i++) {
		if (i > 0)
			pthread_join(fillers[i].thread, NULL);
		if (fillers[i].rc < 0 && rc != -EAGAIN)
			rc = fillers[i].rc;
	}
	return rc;
}

/* One part, from spec->from on. */
static int build_part(struct fth_qmem *mem, const struct shape *shape, const struct side *side,
		      struct index_spec *spec, unsigned threads, struct index **out)
{
	struct build *b;
	int rc = build_open(mem, spec, &b);

	*out = NULL;
	if (rc < 0)
		return rc;
	rc = fill_all(b, shape, side, threads);
	if (rc == 0)
		rc = build_second(b);
	if (rc > 0)
		rc = fill_all(b, shape, side, threads);
	if (rc == 0)
		rc = build_finish(b, threads, out);
	if (rc == -EAGAIN)
		spec->to = build_to(b);
	build_free(b);
	return rc;
}

/* ---- looking up ---- */

struct found {
	unsigned visits[PROBED], matches[PROBED];
	int64_t sum[PROBED];
};

/* The payload of a record as one number; the text must belong to it. */
static int64_t payload_of(const struct index *x, uint32_t record, bool plain)
{
	struct fth_vec number, text;
	int64_t value[2];
	char entry[32], want[32];
	fth_i128 code[2];
	uint64_t nulls[1];
	int64_t got;

	index_gather(x, 0, &record, 1, NULL, 0, NULL, &number, value, nulls);
	if (number.nulls && fth_bit(nulls, 0))
		return 12345;
	got = (int64_t)fth_vec_int(&number, 0);
	if (plain)
		return got;
	index_gather(x, 1, &record, 1, NULL, 0, NULL, &text, code, nulls);
	snprintf(want, sizeof(want), "%lld", (long long)(got % 37));
	snprintf(entry, sizeof(entry), "%.*s", (int)rows_text(&text, 0).len,
		 rows_text(&text, 0).data);
	assert_string_equal(entry, want);
	return got;
}

static void probe_part(struct fth_qmem *mem, const struct index *x, enum index_kind kind,
		       const struct shape *shape, const struct side *side, struct found *found)
{
	struct vectors *v = malloc(sizeof(*v));
	struct index_matches *m = malloc(sizeof(*m));
	struct index_scratch *s;

	assert_ok(index_scratch_open(mem, &s));
	for (unsigned at = 0; at < side->n; at += 1000) {
		make_vectors(v, shape, side, at, side->n - at < 1000 ? side->n - at : 1000);
		index_find(x, s, v->pointers, &v->sel, kind == INDEX_SET, m);
		for (unsigned i = 0; i < v->sel.n; i++) {
			bool hit = fth_bit(m->hits, i);
			uint32_t count = kind == INDEX_MULTIMAP ? (hit ? m->count[i] : 0) : hit;

			found->visits[at + i] += fth_bit(v->sel.bits, i);
			if (kind == INDEX_SET)
				found->matches[at + i] += hit;
			for (uint32_t r = 0; r < count && kind != INDEX_SET; r++) {
				if (!index_same(x, v->pointers, i, m->first[i] + r))
					continue;
				found->matches[at + i]++;
				found->sum[at + i] += payload_of(x, m->first[i] + r, shape->plain);
			}
		}
	}
	index_scratch_close(s);
	free(m);
	free(v);
}

/* What a loop over all pairs of rows finds. */
static void expect(const struct shape *shape, enum index_kind kind, const struct side *built,
		   const struct side *probed, struct found *want)
{
	memset(want, 0, sizeof(*want));
	for (unsigned i = 0; i < probed->n; i++) {
		want->visits[i] = 1;
		for (unsigned j = 0; j < built->n; j++) {
			if (!is_match(shape, probed, i, built, j))
				continue;
			want->matches[i] = kind == INDEX_SET ? 1 : want->matches[i] + 1;
			if (kind != INDEX_SET)
				want->sum[i] += built->payload[j] < 0 ? 12345 : built->payload[j];
		}
	}
}

/* All parts of a structure; returns how many there were, or a negative errno. */
static int check_structure(struct fth_qmem *mem, const struct shape *shape, enum index_kind kind,
			   const struct side *built, const struct side *probed,
			   const struct found *want, uint64_t room, unsigned threads)
{
	struct found *found = calloc(1, sizeof(*found));
	struct task_slot columns[KEYS + 2];
	struct index_spec spec;
	int parts = 0, rc = 0;
	uint64_t end = 0;

	describe(shape, kind, columns, &spec);
	spec.room = room;
	while (end != UINT64_MAX && rc == 0) {
		struct index *x;

		spec.from = parts == 0 ? 0 : end + 1;
		spec.to = UINT64_MAX;
		do
			rc = build_part(mem, shape, built, &spec, threads, &x);
		while (rc == -EAGAIN);
		if (rc < 0)
			break;
		probe_part(mem, x, kind, shape, probed, found);
		end = index_to(x);
		index_free(x);
		parts++;
	}
	if (rc == 0 && memcmp(found, want, sizeof(*found)) != 0)
		fail_msg("%s, kind %u, room %llu, %u threads: other matches than expected",
			 shape->name, kind, (unsigned long long)room, threads);
	free(found);
	return rc < 0 ? rc : parts;
}

static void structures_equal_loops(void **state)
{
	static const uint64_t rooms[] = {UINT64_MAX, LARGE, 256 << 10, 96 << 10};
	struct fth_qmem *mem = fth_qmem_new(LARGE);
	struct fth_rng rng = {7};
	unsigned in_parts = 0;

	(void)state;
	for (unsigned s = 0; s < sizeof(shapes) / sizeof(*shapes); s++) {
		for (unsigned kind = INDEX_SET; kind <= INDEX_MULTIMAP; kind++) {
			/* A map's keys are unique, and there are few that match a tiny domain. */
			uint64_t domain = (uint64_t)shapes[s].span + 1;
			unsigned n = BUILT;
			struct side built, probed;
			struct found want;

			if (shapes[s].key_count == 2)
				domain *= domain;
			if (kind == INDEX_MAP && n > domain)
				n = (unsigned)domain;
			if (shapes[s].key_count == 0)
				n = kind == INDEX_MAP ? 1 : 20;
			fill_side(&built, n, &shapes[s], &rng, s % 2 == 0, kind == INDEX_MAP);
			fill_side(&probed, PROBED, &shapes[s], &rng, true, false);
			expect(&shapes[s], kind, &built, &probed, &want);
			for (unsigned r = 0; r < sizeof(rooms) / sizeof(*rooms); r++)
				for (unsigned threads = 1; threads <= 4; threads *= 2) {
					int parts =
						check_structure(mem, &shapes[s], kind, &built,
								&probed, &want, rooms[r], threads);

					/* All rows of one key may be too many. */
					if (parts != -ENOMEM || domain > 100)
						assert_ok(parts);
					in_parts += parts > 1;
				}
			free_side(&built);
			free_side(&probed);
		}
	}
	assert_true(in_parts > 20);
	assert_int_equal(fth_qmem_close(mem), 0);
}

/* Chunks of 4000 rows would take 150 KB; the map takes 60 KB. */
static void maps_by_rank_need_less_room(void **state)
{
	static const struct {
		unsigned room;
		int least, most; /* parts */
	} cases[] = {{120 << 10, 1, 1}, {72 << 10, 1, 1}, {26 << 10, 2, 12}};
	const struct shape *shape = &shapes[sizeof(shapes) / sizeof(*shapes) - 1];
	struct fth_qmem *mem = fth_qmem_new(LARGE);
	struct fth_rng rng = {5};
	struct side built, probed;
	struct found want;

	(void)state;
	fill_side(&built, BUILT, shape, &rng, true, true);
	fill_side(&probed, PROBED, shape, &rng, true, false);
	expect(shape, INDEX_MAP, &built, &probed, &want);
	for (unsigned i = 0; i < sizeof(cases) / sizeof(*cases); i++)
		for (unsigned threads = 1; threads <= 4; threads *= 2) {
			struct task_slot columns[KEYS + 2];
			struct index_spec spec;

			describe(shape, INDEX_MAP, columns, &spec);
			spec.room = cases[i].room;
			assert_true(build_runs_twice(&spec, BUILT, threads));
			assert_in_range(check_structure(mem, shape, INDEX_MAP, &built, &probed,
							&want, cases[i].room, threads),
					cases[i].least, cases[i].most);
			spec.twice = false;
			assert_false(build_runs_twice(&spec, BUILT, threads));
		}
	free_side(&built);
	fill_side(&built, BUILT, shape, &rng, false, false);
	assert_int_equal(
		check_structure(mem, shape, INDEX_MAP, &built, &probed, NULL, 120 << 10, 2),
		-EEXIST);
	free_side(&built);
	free_side(&probed);
	assert_int_equal(fth_qmem_close(mem), 0);
}

static void an_empty_structure_matches_nothing(void **state)
{
	struct fth_qmem *mem = fth_qmem_new(LARGE);
	struct fth_rng rng = {3};

	(void)state;
	for (unsigned kind = INDEX_SET; kind <= INDEX_MULTIMAP; kind++) {
		struct side built, probed;
		struct found want;

		fill_side(&built, 0, &shapes[0], &rng, false, false);
		fill_side(&probed, 100, &shapes[0], &rng, true, false);
		expect(&shapes[0], kind, &built, &probed, &want);
		assert_int_equal(check_structure(mem, &shapes[0], kind, &built, &probed, &want,
						 UINT64_MAX, 2),
				 1);
		free_side(&built);
		free_side(&probed);
	}
	assert_int_equal(fth_qmem_close(mem), 0);
}

static void a_key_that_comes_twice_is_an_error(void **state)
{
	struct fth_qmem *mem = fth_qmem_new(LARGE);
	struct fth_rng rng = {3};
	struct side built, probed;

	(void)state;
	for (unsigned s = 0; s < sizeof(shapes) / sizeof(*shapes); s++) {
		if (s >= 4 && !shapes[s].plain)
			continue;
		fill_side(&built, 2000, &shapes[s], &rng, false, false);
		fill_side(&probed, 10, &shapes[s], &rng, true, false);
		assert_int_equal(check_structure(mem, &shapes[s], INDEX_MAP, &built, &probed, NULL,
						 LARGE, 2),
				 -EEXIST);
		free_side(&built);
		free_side(&probed);
	}
	assert_int_equal(fth_qmem_close(mem), 0);
}

/*
 * Each allocation fails once: the result is right, in more parts perhaps, or there is a clean
 * error.
 */
static void any_allocation_may_fail(void **state)
{
	static const unsigned some[] = {0, 2, 6, 9, 12, sizeof(shapes) / sizeof(*shapes) - 1};
	struct fth_rng rng = {11};

	(void)state;
	for (unsigned s = 0; s < sizeof(some) / sizeof(*some); s++) {
		const struct shape *shape = &shapes[some[s]];
		struct fth_qmem *mem = fth_qmem_new(LARGE);
		struct side built, probed;
		bool pending = false;

		fill_side(&built, shape->plain ? 4000 : 5000, shape, &rng, true, shape->plain);
		fill_side(&probed, 200, shape, &rng, true, false);
		for (unsigned nth = 1; !pending; nth++) {
			struct task_slot columns[KEYS + 2];
			struct index_spec spec;
			struct index *x;
			int rc;

			describe(shape, shape->plain ? INDEX_MAP : INDEX_MULTIMAP, columns, &spec);
			spec.room = some[s] > 12 ? 120 << 10 : LARGE;
			fth_qmem_fail_nth(mem, nth);
			rc = build_part(mem, shape, &built, &spec, 1, &x);
			pending = fth_qmem_fail_pending(mem);
			fth_qmem_fail_nth(mem, 0);
			assert_true(rc == 0 || rc == -ENOMEM || rc == -EAGAIN);
			index_free(x);
			assert_int_equal(fth_qmem_used(mem), 0);
		}
		free_side(&built);
		free_side(&probed);
		assert_int_equal(fth_qmem_close(mem), 0);
	}
}

/* As numbers of a column: both zeroes are one key, and all that are not numbers are one. */
static void doubles_are_keys_by_value(void **state)
{
	double built[] = {0.0, 1.5, NAN, INFINITY, 1e300},
	       probed[] = {-0.0, 1.5, -NAN, 2.5, -1e300, 1e300};
	struct task_slot column = {.type = fth_type(FTH_T_DOUBLE), .lo = 1};
	struct index_spec spec = {.kind = INDEX_SET,
				  .key_count = 1,
				  .column_count = 1,
				  .columns = &column,
				  .to = UINT64_MAX,
				  .room = UINT64_MAX,
				  .rows = 5};
	struct fth_vec v = {.type = FTH_F64, .data = built}, *keys[] = {&v};
	struct fth_qmem *mem = fth_qmem_new(LARGE);
	struct index_matches *m = malloc(sizeof(*m));
	struct index_scratch *s;
	struct build_writer *w;
	struct build *b;
	struct index *x;
	struct fth_sel sel;

	(void)state;
	assert_ok(build_open(mem, &spec, &b));
	assert_ok(build_writer_open(b, &w));
	fth_sel_all(&sel, 5);
	assert_ok(build_append(w, keys, &sel));
	build_writer_close(w);
	assert_ok(build_finish(b, 1, &x));
	build_free(b);
	assert_ok(index_scratch_open(mem, &s));
	v.data = probed;
	fth_sel_all(&sel, 6);
	index_find(x, s, keys, &sel, true, m);
	assert_int_equal(m->hits[0], 0x27); /* the first three and the last */
	index_scratch_close(s);
	index_free(x);
	free(m);
	assert_int_equal(fth_qmem_close(mem), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(structures_equal_loops),
		cmocka_unit_test(maps_by_rank_need_less_room),
		cmocka_unit_test(an_empty_structure_matches_nothing),
		cmocka_unit_test(a_key_that_comes_twice_is_an_error),
		cmocka_unit_test(any_allocation_may_fail),
		cmocka_unit_test(doubles_are_keys_by_value),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
