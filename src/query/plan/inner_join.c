/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Inner joins. A block of them is flattened into its inputs (leaves) and conditions. The leaves
 * become a tree: the root's rows stream, each other leaf is built into a structure which its parent
 * looks up, after its own children reduced it. An equality between a leaf and its parent is a key;
 * other conditions are tested in the first pipe that has all their columns. Semi and anti joins
 * above the block move to the leaf that has their columns.
 *
 * The root is the leaf for which the structures are smallest; a leaf with several rows for a key is
 * a much larger structure than one whose key is unique, the more so the more rows a key has. A pipe
 * looks up first what removes most rows for its price, by the part of the keys that is expected in
 * the structure.
 *
 * A leaf that is built and has a key in common with a leaf of which few rows are left is reduced
 * before: only rows with one of these keys are built, or grouped if the leaf is an aggregate by the
 * key.
 */
#include "query/plan/plan_internal.h"

#include "fathom/base/error.h"

#include <errno.h>
#include <math.h>
#include <string.h>

#define LEAVES_MAX 64u
#define MANY_COST \
	8.0 /* of a row in a structure with several rows for a key, against one with one */
#define NESTED_COST \
	4.0 /* of a look-up in a nested structure, its building included, against others */
#define SEMIS_MAX  8u
#define FEW	   0.4	   /* a leaf with this part of its keys reduces others */
#define LARGE	   4.0	   /* which have so many times its rows at least, ... */
#define LARGE_ROWS 50000.0 /* ... and so many */

struct leaf {
	const struct sql_rel *rel;
	const struct sql_rel *semis[SEMIS_MAX]; /* semi and anti joins with this leaf on the left */
	bool semi_done[SEMIS_MAX];
	unsigned semi_count;
	double rows, base; /* expected; before its filters */
	int parent;	   /* in the tree; -1: root */
	bool done;
};

struct condition {
	const struct sql_expr *expr;
	uint64_t leaves; /* that its columns come from */
	bool is_equality;
	uint64_t sides[2]; /* equality: leaves of each argument, one each */
	bool used;	   /* a key, or tested already */
};

struct block {
	struct leaf leaves[LEAVES_MAX];
	unsigned leaf_count;
	struct condition *conditions;
	unsigned condition_count, condition_room;
	const int *outputs;
	unsigned output_count;
	/* Memory for questions about one edge, which the search for a tree asks very often. */
	struct join_key *edge; /* as many as conditions */
	int *edge_columns;
	double *edge_costs; /* by parent and child; negative: not computed yet */
};

/* ---- flattening ---- */

static int add_condition(struct planner *p, struct block *b, const struct sql_expr *expr)
{
	const struct sql_expr **parts;
	unsigned n = join_conjuncts(p, expr, &parts);

	for (unsigned i = 0; i < n; i++) {
		b->conditions = plan_grow(p, b->conditions, b->condition_count, &b->condition_room,
					  sizeof(*b->conditions));
		if (!b->conditions)
			return p->error;
		memset(&b->conditions[b->condition_count], 0, sizeof(*b->conditions));
		b->conditions[b->condition_count++].expr = parts[i];
	}
	return p->error;
}

static bool is_inner(const struct sql_rel *rel)
{
	if (rel->kind == SQL_FILTER)
		return is_inner(rel->left);
	return rel->kind == SQL_JOIN && rel->join.kind == SQL_INNER;
}

static bool is_semi(const struct sql_rel *rel)
{
	return rel->kind == SQL_JOIN &&
	       (rel->join.kind == SQL_SEMI || rel->join.kind == SQL_ANTI) &&
	       (is_inner(rel->left) || is_semi(rel->left));
}

static bool part_of_side(const struct sql_expr *e, const struct sql_rel *leaf,
			 const struct sql_rel *right)
{
	if (e->kind == SQL_COLUMN)
		return rel_has(leaf, e->column) || rel_has(right, e->column);
	for (unsigned i = 0; i < e->count; i++)
		if (!part_of_side(e->args[i], leaf, right))
			return false;
	return true;
}

/* Whether the semi or anti join needs only columns of this leaf and of its right side. */
static bool is_on_leaf(const struct sql_rel *semi, const struct leaf *leaf)
{
	return leaf->semi_count < SEMIS_MAX &&
	       (!semi->join.condition ||
		part_of_side(semi->join.condition, leaf->rel, semi->right)) &&
	       (!semi->join.null_condition ||
		part_of_side(semi->join.null_condition, leaf->rel, semi->right));
}

/* The join with the leaf on its left side, instead of the block. */
static const struct sql_rel *on_leaf(struct planner *p, const struct sql_rel *semi,
				     const struct sql_rel *leaf)
{
	struct sql_rel *moved = plan_alloc(p, sizeof(*moved));

	if (!moved)
		return NULL;
	*moved = *semi;
	moved->left = (struct sql_rel *)leaf;
	moved->width = leaf->width;
	moved->columns = leaf->columns;
	return moved;
}

static int flatten(struct planner *p, struct block *b, const struct sql_rel *rel)
{
	if (rel->kind == SQL_FILTER && (is_inner(rel->left) || is_semi(rel->left))) {
		add_condition(p, b, rel->predicate);
		return flatten(p, b, rel->left);
	}
	if (rel->kind == SQL_JOIN && rel->join.kind == SQL_INNER) {
		add_condition(p, b, rel->join.condition);
		flatten(p, b, rel->left);
		return flatten(p, b, rel->right);
	}
	if (is_semi(rel)) {
		unsigned before = b->leaf_count, conditions = b->condition_count;

		flatten(p, b, rel->left);
		for (unsigned i = before; i < b->leaf_count; i++) {
			struct leaf *leaf = &b->leaves[i];

			if (is_on_leaf(rel, leaf)) {
				leaf->semis[leaf->semi_count++] = on_leaf(p, rel, leaf->rel);
				return p->error;
			}
		}
		b->leaf_count = before; /* not possible: the join is a leaf as a whole */
		b->condition_count = conditions;
	}
	if (b->leaf_count == LEAVES_MAX) {
		fth_fail(EOPNOTSUPP, "a join of more than %u tables is not supported", LEAVES_MAX);
		return plan_fail(p, -EOPNOTSUPP);
	}
	b->leaves[b->leaf_count++] = (struct leaf){.rel = rel};
	return p->error;
}

static uint64_t leaves_of(const struct block *b, const struct sql_expr *e)
{
	uint64_t set = 0;

	if (e->kind == SQL_COLUMN) {
		for (unsigned i = 0; i < b->leaf_count; i++)
			if (rel_has(b->leaves[i].rel, e->column))
				return (uint64_t)1 << i;
		return 0;
	}
	for (unsigned i = 0; i < e->count; i++)
		set |= leaves_of(b, e->args[i]);
	return set;
}

static bool is_one(uint64_t set)
{
	return set != 0 && (set & (set - 1)) == 0;
}

static void classify(struct block *b)
{
	for (unsigned i = 0; i < b->condition_count; i++) {
		struct condition *c = &b->conditions[i];

		c->leaves = leaves_of(b, c->expr);
		if (c->expr->kind != SQL_CALL || c->expr->op != SQL_EQ)
			continue;
		c->sides[0] = leaves_of(b, c->expr->args[0]);
		c->sides[1] = leaves_of(b, c->expr->args[1]);
		c->is_equality =
			is_one(c->sides[0]) && is_one(c->sides[1]) && c->sides[0] != c->sides[1];
	}
}

/* ---- the tree ---- */

static int open_edges(struct planner *p, struct block *b)
{
	unsigned n = b->leaf_count * b->leaf_count;

	b->edge = plan_alloc(p, (b->condition_count + 1) * sizeof(*b->edge));
	b->edge_columns = plan_alloc(p, (b->condition_count + 1) * sizeof(*b->edge_columns));
	b->edge_costs = plan_alloc(p, n * sizeof(*b->edge_costs));
	for (unsigned i = 0; i < n && p->error == 0; i++)
		b->edge_costs[i] = -1;
	return p->error;
}

/* The keys that join leaf `child` to leaf `parent`, in b->edge; returns their number. */
static unsigned edge_keys(struct block *b, unsigned parent, unsigned child)
{
	struct join_key *keys = b->edge;
	unsigned n = 0;

	for (unsigned i = 0; i < b->condition_count; i++) {
		struct condition *c = &b->conditions[i];

		if (!c->is_equality || c->leaves != ((uint64_t)1 << parent | (uint64_t)1 << child))
			continue;
		keys[n].probe = c->expr->args[c->sides[0] == (uint64_t)1 << parent ? 0 : 1];
		keys[n++].build = c->expr->args[c->sides[0] == (uint64_t)1 << child ? 0 : 1];
	}
	return n;
}

/* Whether a leaf has at most one row for each value of the keys in b->edge. */
static bool edge_unique(struct block *b, unsigned child, unsigned n)
{
	unsigned count = 0;

	for (unsigned i = 0; i < n; i++)
		if (b->edge[i].build->kind == SQL_COLUMN)
			b->edge_columns[count++] = b->edge[i].build->column;
	return rel_unique(b->leaves[child].rel, b->edge_columns, count);
}

/* The rows that a leaf is expected to have for one value of the keys. */
static double rows_of_key(struct planner *p, const struct leaf *leaf, const struct join_key *keys,
			  unsigned n)
{
	double distinct = 1;

	for (unsigned i = 0; i < n && distinct < leaf->rows; i++) {
		const struct fth_table_facts *f = keys[i].build->kind == SQL_COLUMN
							  ? column_facts(p, keys[i].build->column)
							  : NULL;

		distinct *= f && f->distinct > 0 ? (double)f->distinct : leaf->rows;
	}
	return distinct < leaf->rows ? leaf->rows / distinct : 1;
}

static double compute_cost(struct planner *p, struct block *b, unsigned parent, unsigned child)
{
	unsigned n = edge_keys(b, parent, child);

	if (n == 0)
		return INFINITY;
	if (edge_unique(b, child, n))
		return b->leaves[child].rows;
	/* A row that finds many is many rows for all that follows. */
	return b->leaves[child].rows * MANY_COST * MANY_COST *
	       rows_of_key(p, &b->leaves[child], b->edge, n);
}

/*
 * How good it is to attach `child` to `parent` next; smaller is better, infinite without an
 * equality.
 */
static double edge_cost(struct planner *p, struct block *b, unsigned parent, unsigned child)
{
	double *cost = &b->edge_costs[parent * b->leaf_count + child];

	if (*cost < 0)
		*cost = compute_cost(p, b, parent, child);
	return *cost;
}

/*
 * Attach every leaf to a parent, beginning at root, cheapest first. Returns the cost of the tree.
 */
static double make_tree(struct planner *p, struct block *b, unsigned root)
{
	double cost = b->leaves[root].rows * 0.5;

	for (unsigned i = 0; i < b->leaf_count; i++) {
		b->leaves[i].done = i == root;
		b->leaves[i].parent = -1;
	}
	for (unsigned turn = 1; turn < b->leaf_count && p->error == 0; turn++) {
		double best = INFINITY, best_parent_rows = INFINITY;
		int child = -1, parent = (int)root;

		for (unsigned c = 0; c < b->leaf_count; c++) {
			for (unsigned q = 0; q < b->leaf_count && !b->leaves[c].done; q++) {
				double e = b->leaves[q].done ? edge_cost(p, b, q, c) : INFINITY;

				if (e < best || (e == best && e < INFINITY &&
						 b->leaves[q].rows < best_parent_rows)) {
					best = e;
					best_parent_rows = b->leaves[q].rows;
					child = (int)c;
					parent = (int)q;
				}
			}
		}
		for (unsigned c = 0; c < b->leaf_count && child < 0; c++)
			if (!b->leaves[c].done) {
				child = (int)c; /* no equality: a cross join */
				best = b->leaves[c].rows * MANY_COST * MANY_COST * MANY_COST;
			}
		b->leaves[child].done = true;
		b->leaves[child].parent = parent;
		cost += best;
	}
	return cost;
}

static unsigned choose_root(struct planner *p, struct block *b)
{
	double best = INFINITY;
	unsigned root = 0;

	for (unsigned r = 0; r < b->leaf_count && p->error == 0; r++) {
		double cost = make_tree(p, b, r);

		if (cost < best) {
			best = cost;
			root = r;
		}
	}
	make_tree(p, b, root);
	return root;
}

/* ---- pipes ---- */

static void mark_columns(const struct sql_expr *e, bool *wanted)
{
	if (e->kind == SQL_COLUMN)
		wanted[e->column] = true;
	for (unsigned i = 0; i < e->count && e->kind != SQL_COLUMN; i++)
		mark_columns(e->args[i], wanted);
}

/* Columns of the build pipe that the block's result or a condition still needs. */
static unsigned wanted_columns(struct planner *p, struct block *b, struct pipe *build, int **out)
{
	bool *wanted = plan_alloc(p, p->query->column_count * sizeof(*wanted) + 1);
	unsigned n = 0;

	*out = plan_alloc(p, (build->binding_count + 1) * sizeof(**out));
	if (!wanted || !*out)
		return 0;
	for (unsigned i = 0; i < b->output_count; i++)
		wanted[b->outputs[i]] = true;
	for (unsigned i = 0; i < b->condition_count; i++)
		if (!b->conditions[i].used)
			mark_columns(b->conditions[i].expr, wanted);
	for (unsigned i = 0; i < build->binding_count; i++)
		if (wanted[build->bindings[i].column])
			(*out)[n++] = build->bindings[i].column;
	return n;
}

static int test_conditions(struct planner *p, struct block *b, struct pipe *pipe, uint64_t leaves)
{
	for (unsigned i = 0; i < b->condition_count && p->error == 0; i++) {
		struct condition *c = &b->conditions[i];

		if (!c->used && (c->leaves & ~leaves) == 0) {
			c->used = true;
			pipe_select(p, pipe, c->expr);
		}
	}
	return p->error;
}

static void use_edge(struct block *b, unsigned parent, unsigned child)
{
	for (unsigned i = 0; i < b->condition_count; i++)
		if (b->conditions[i].is_equality &&
		    b->conditions[i].leaves == ((uint64_t)1 << parent | (uint64_t)1 << child))
			b->conditions[i].used = true;
}

static struct pipe *plan_leaf(struct planner *p, struct block *b, unsigned leaf, uint64_t *leaves);

static int attach(struct planner *p, struct block *b, struct pipe *pipe, unsigned parent,
		  unsigned child, uint64_t *leaves)
{
	struct join_spec spec = {.match = TASK_INNER};
	uint64_t below = 0;
	struct join_key *keys;
	struct pipe *build;
	int *payload;

	spec.key_count = edge_keys(b, parent, child);
	spec.unique = edge_unique(b, child, spec.key_count);
	spec.keys = keys = plan_alloc(p, (spec.key_count + 1) * sizeof(*keys));
	if (!keys)
		return p->error;
	memcpy(keys, b->edge, spec.key_count * sizeof(*keys)); /* planning the child asks again */
	use_edge(b, parent, child);
	build = plan_leaf(p, b, child, &below);
	if (!build)
		return p->error;
	spec.unique = spec.unique && !build->multiplied;
	spec.payload_count = wanted_columns(p, b, build, &payload);
	spec.payload = payload;
	if (plan_lookup(p, pipe, build, &spec) < 0)
		return p->error;
	*leaves |= below;
	return test_conditions(p, b, pipe, *leaves);
}

/* ---- what to look up first ---- */

/* The part of its table's rows that a leaf and what is below it leave. */
static double part_left(const struct block *b, unsigned leaf)
{
	double part = b->leaves[leaf].base > 0 ? b->leaves[leaf].rows / b->leaves[leaf].base : 1;

	for (unsigned c = 0; c < b->leaf_count; c++)
		if (b->leaves[c].parent == (int)leaf)
			part *= part_left(b, c);
	return part < 1 ? part : 1;
}

/* The price of removing all rows at this rate: small is good. */
static double rank(double left, double cost)
{
	return left >= 0.999 ? INFINITY : cost / (1 - left);
}

static double rank_child(struct planner *p, struct block *b, unsigned parent, unsigned child)
{
	unsigned n = edge_keys(b, parent, child);
	bool unique = edge_unique(b, child, n);
	bool nested = keys_sorted(p, b->edge, n) && b->leaves[child].rows >= NESTED_ROWS;

	/* Several rows for a key: whatever follows has more to do. */
	return n == 0 || !unique ? INFINITY : rank(part_left(b, child), nested ? NESTED_COST : 1);
}

/*
 * A right side with many rows is nested, or a structure that takes a scan, and perhaps groups, of
 * its own: what is looked up before makes that smaller (wanted_keys.c).
 */
static double rank_semi(struct planner *p, const struct sql_rel *semi)
{
	bool large = rel_rows(p, semi->right) >= (semi_sorted(p, semi) ? NESTED_ROWS : LARGE_ROWS);

	return rank(semi_part(p, semi), large ? NESTED_COST : 1);
}

/* The child or semi join that comes next; false: none is left. */
static bool choose_next(struct planner *p, struct block *b, unsigned leaf, int *child, int *semi)
{
	struct leaf *l = &b->leaves[leaf];
	double best = INFINITY;

	*child = *semi = -1;
	for (unsigned i = 0; i < l->semi_count; i++) {
		double r = l->semi_done[i] ? INFINITY : rank_semi(p, l->semis[i]);

		if (!l->semi_done[i] && (*semi < 0 || r < best)) {
			best = r;
			*semi = (int)i;
		}
	}
	for (unsigned c = 0; c < b->leaf_count; c++) {
		double r;

		if (b->leaves[c].parent != (int)leaf || b->leaves[c].done)
			continue;
		r = rank_child(p, b, leaf, c);
		/* Equal ones, such as all that remove nothing: small structures first. */
		if ((*child < 0 && *semi < 0) || r < best ||
		    (r == best && *child >= 0 && b->leaves[c].rows < b->leaves[*child].rows)) {
			best = r;
			*child = (int)c;
			*semi = -1;
		}
	}
	return *child >= 0 || *semi >= 0;
}

static struct pipe *plan_leaf(struct planner *p, struct block *b, unsigned leaf, uint64_t *leaves)
{
	struct pipe *pipe = plan_rel(p, b->leaves[leaf].rel);
	int child, semi;

	*leaves |= (uint64_t)1 << leaf;
	if (!pipe || test_conditions(p, b, pipe, *leaves) < 0)
		return NULL;
	pipe->multiplied = false; /* rel_unique() knows of joins inside the leaf */
	while (choose_next(p, b, leaf, &child, &semi)) {
		if (semi >= 0) {
			b->leaves[leaf].semi_done[semi] = true;
			if (plan_outer_on(p, pipe, b->leaves[leaf].semis[semi]) < 0)
				return NULL;
			continue;
		}
		b->leaves[child].done = true;
		if (attach(p, b, pipe, leaf, (unsigned)child, leaves) < 0)
			return NULL;
	}
	return pipe;
}

/* ---- reducing leaves ---- */

static bool same_representation(const struct sql_expr *a, const struct sql_expr *b)
{
	return a->type.kind == b->type.kind && a->type.scale == b->type.scale;
}

/* The column that a condition equates with this one; -1: none. */
static int other_side(const struct condition *c, int column)
{
	for (unsigned side = 0; side < 2 && c->is_equality; side++) {
		const struct sql_expr *a = c->expr->args[side], *b = c->expr->args[1 - side];

		if (a->kind == SQL_COLUMN && b->kind == SQL_COLUMN && a->column == column &&
		    same_representation(a, b))
			return b->column;
	}
	return -1;
}

/* A column of leaf y that equals this one of another leaf, directly or over a third; -1: none. */
static int equal_in_leaf(const struct block *b, unsigned y, int column)
{
	for (unsigned i = 0; i < b->condition_count; i++) {
		int next = other_side(&b->conditions[i], column);

		if (next < 0)
			continue;
		if (rel_has(b->leaves[y].rel, next))
			return next;
		for (unsigned k = 0; k < b->condition_count; k++) {
			int far = other_side(&b->conditions[k], next);

			if (far >= 0 && rel_has(b->leaves[y].rel, far))
				return far;
		}
	}
	return -1;
}

/* The leaf with its semi and anti joins. */
static const struct sql_rel *with_semis(struct planner *p, const struct leaf *leaf)
{
	const struct sql_rel *rel = leaf->rel;

	for (unsigned i = 0; i < leaf->semi_count && rel; i++)
		rel = on_leaf(p, leaf->semis[i], rel);
	return rel;
}

/* The part of the values of a column that is expected to be left in a leaf. */
static double keys_left(struct planner *p, const struct leaf *leaf, int column)
{
	const struct fth_table_facts *f = column_facts(p, column);
	double distinct = f && f->distinct > 0 ? (double)f->distinct : leaf->base;

	if (leaf->base <= 0 || distinct <= 0 || leaf->rows >= leaf->base)
		return 1;
	return 1 - pow(1 - leaf->rows / leaf->base, leaf->base / distinct);
}

struct reduction {
	double part; /* of the rows that is left */
	int by;	     /* leaf */
	int key, by_key;
};

/* The best way to reduce leaf y by leaf x, if it is better than what is known. */
static void consider(struct planner *p, struct block *b, unsigned y, unsigned x,
		     struct reduction *best)
{
	const struct sql_rel *rel = b->leaves[x].rel;

	for (unsigned i = 0; i < rel->width; i++) {
		double part = keys_left(p, &b->leaves[x], rel->columns[i]);
		int key = part < best->part ? equal_in_leaf(b, y, rel->columns[i]) : -1;

		if (key >= 0)
			*best = (struct reduction){part, (int)x, key, rel->columns[i]};
	}
}

static bool is_below(const struct block *b, unsigned leaf, unsigned top)
{
	for (int i = (int)leaf; i >= 0; i = b->leaves[i].parent)
		if (i == (int)top)
			return true;
	return false;
}

/* Reduce the leaves that are built by leaves of which few rows are left. */
static void reduce_leaves(struct planner *p, struct block *b, unsigned root)
{
	for (unsigned y = 0; y < b->leaf_count && p->error == 0; y++) {
		struct reduction best = {.part = FEW, .by = -1};
		double rows = input_rows(p, b->leaves[y].rel);

		for (unsigned x = 0; x < b->leaf_count && y != root && rows >= LARGE_ROWS; x++)
			/* The relations below y reduce it anyway. */
			if (!is_below(b, x, y) && rows >= LARGE * b->leaves[x].rows &&
			    rows >= b->leaves[x].base)
				consider(p, b, y, x, &best);
		if (best.by >= 0)
			b->leaves[y].rel =
				plan_reduce(p, b->leaves[y].rel, best.key,
					    with_semis(p, &b->leaves[best.by]), best.by_key);
	}
}

static void estimate_leaf(struct planner *p, struct leaf *leaf)
{
	leaf->rows = rel_rows(p, leaf->rel);
	leaf->base = base_rows(p, leaf->rel);
	for (unsigned i = 0; i < leaf->semi_count; i++)
		leaf->rows *= semi_part(p, leaf->semis[i]);
}

struct pipe *plan_inner(struct planner *p, const struct sql_rel *rel)
{
	struct block *b = plan_alloc(p, sizeof(*b));
	uint64_t leaves = 0;
	unsigned root;

	if (!b || flatten(p, b, rel) < 0)
		return NULL;
	if (b->leaf_count == 1 && b->leaves[0].rel == rel)
		return plan_outer(p, rel);
	b->outputs = rel->columns;
	b->output_count = rel->width;
	for (unsigned i = 0; i < b->leaf_count; i++)
		estimate_leaf(p, &b->leaves[i]);
	classify(b);
	if (open_edges(p, b) < 0)
		return NULL;
	root = choose_root(p, b);
	reduce_leaves(p, b, root);
	for (unsigned i = 0; i < b->leaf_count; i++)
		b->leaves[i].done = false;
	return p->error != 0 ? NULL : plan_leaf(p, b, root, &leaves);
}
