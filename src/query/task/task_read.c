/* SPDX-License-Identifier: BSD-2-Clause */
/* Task text: sources, steps, reducers, tasks. task_read_internal.h names the siblings. */
#include "query/task/task_read.h"

#include "fathom/base/error.h"
#include "query/task/task_names.h"
#include "query/task/task_read_internal.h"
#include "query/task/slot.h"
#include "scalar/num.h"

#include <errno.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* ---- words ---- */

static void stop(struct reader *r, int rc)
{
	r->error = rc;
	r->lex.at = r->lex.length;
	r->token = r->ahead = (struct lex_token){.kind = LEX_END, .text = ""};
}

void reader_fail(struct reader *r, const char *format, ...)
{
	struct lex_token at = r->token;
	char text[FTH_ERROR_TEXT_MAX / 2];
	va_list args;

	if (r->error != 0)
		return;
	va_start(args, format);
	vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	stop(r, fth_fail(EINVAL, "line %u, column %u: %s", at.line, at.column, text));
}

void reader_error(struct reader *r, int rc)
{
	char where[48];

	if (r->error != 0)
		return;
	snprintf(where, sizeof(where), "line %u, column %u", r->token.line, r->token.column);
	stop(r, rc == -ENOMEM ? rc : fth_fail_in(rc, where));
}

void reader_next(struct reader *r)
{
	if (r->error != 0)
		return;
	r->token = r->ahead;
	r->ahead = lex_next(&r->lex);
}

bool reader_at(const struct reader *r, const char *word)
{
	return lex_is(&r->token, LEX_WORD, word) || lex_is(&r->token, LEX_MARK, word);
}

bool reader_skip(struct reader *r, const char *word)
{
	if (!reader_at(r, word))
		return false;
	reader_next(r);
	return true;
}

static void expected(struct reader *r, const char *what)
{
	const struct lex_token *t = &r->token;

	if (t->kind == LEX_END)
		reader_fail(r, "expected %s, found the end of the text", what);
	else
		reader_fail(r, "expected %s, found %.*s", what,
			    (int)(t->length < 40 ? t->length : 40), t->text);
}

void reader_expect(struct reader *r, const char *words)
{
	while (*words != '\0') {
		char word[32] = "";
		size_t n = strcspn(words, " ");

		memcpy(word, words, n < sizeof(word) ? n : sizeof(word) - 1);
		if (!reader_skip(r, word))
			expected(r, word);
		words += n + (words[n] == ' ');
	}
}

uint64_t reader_number(struct reader *r, uint64_t most)
{
	struct fth_str digits = {r->token.text, (uint32_t)r->token.length, 0};
	fth_i128 value = 0;

	if (r->token.kind != LEX_NUMBER || digits.len > 20 || fth_int_parse(digits, &value) < 0)
		expected(r, "a number");
	else if (value > (fth_i128)most)
		reader_fail(r, "%.*s is more than %llu", (int)digits.len, digits.data,
			    (unsigned long long)most);
	reader_next(r);
	return (uint64_t)value;
}

/* Quotes inside are doubled. */
static char *copy_token(struct reader *r, size_t *length)
{
	const struct lex_token *t = &r->token;
	char quote = t->kind == LEX_NAME ? '"' : t->kind == LEX_STRING ? '\'' : '\0';
	char *copy = reader_alloc(r, t->length + 1);
	size_t n = 0;

	for (size_t i = 0; i < t->length && copy; i++) {
		copy[n++] = t->text[i];
		i += t->text[i] == quote && quote != '\0';
	}
	*length = n;
	return copy;
}

char *reader_name(struct reader *r)
{
	size_t length;
	char *name;

	if (r->token.kind != LEX_WORD && r->token.kind != LEX_NAME)
		expected(r, "a name");
	name = copy_token(r, &length);
	if (name && strlen(name) != length)
		reader_fail(r, "the name contains a zero byte");
	reader_next(r);
	return name;
}

struct fth_str reader_string(struct reader *r)
{
	size_t length = 0;
	char *text;

	if (r->token.kind != LEX_STRING)
		expected(r, "a string");
	text = copy_token(r, &length);
	if (length > UINT32_MAX)
		reader_fail(r, "the string is longer than 4 GiB");
	reader_next(r);
	return (struct fth_str){text ? text : "", text ? (uint32_t)length : 0, 0};
}

/* ---- memory ---- */

void *reader_alloc(struct reader *r, size_t size)
{
	void *memory = r->error != 0 ? NULL : fth_arena_alloc(r->arena, size + 1, 16);

	if (!memory && r->error == 0)
		stop(r, -ENOMEM);
	return memory ? memset(memory, 0, size + 1) : NULL;
}

void *reader_grow(struct reader *r, void *array, unsigned count, unsigned *room, size_t size)
{
	void *larger;

	if (r->error != 0)
		return NULL;
	if (count < *room)
		return array;
	*room = *room == 0 ? 8 : *room * 2;
	larger = reader_alloc(r, *room * size);
	if (larger && count > 0)
		memcpy(larger, array, count * size);
	return larger;
}

/* ---- sources ---- */

static struct fth_table *read_table(struct reader *r)
{
	struct lex_token at = r->token;
	const char *name = reader_name(r);
	struct fth_table *table = r->error != 0 ? NULL : r->how->open(r->how->self, name);

	if (!table && r->error == 0)
		stop(r, fth_fail(ENOENT, "line %u, column %u: table %s does not exist", at.line,
				 at.column, name));
	return table;
}

static unsigned find_column(struct reader *r, const struct fth_table *table, const char *name)
{
	uint32_t column = r->error != 0 ? 0 : fth_table_schema_find(fth_table_schema(table), name);

	if (column != FTH_TABLE_NO_COLUMN)
		return column;
	reader_fail(r, "table %s has no column %s", fth_table_name(table), name);
	return 0;
}

/* Columns of a table, each made a slot; nullable: also if the column has no nulls. */
static unsigned read_table_columns(struct reader *r, const struct fth_table *table, bool nullable,
				   struct task_source_column **out)
{
	unsigned n = 0, room = 0;

	*out = NULL;
	while (r->error == 0 && !(reader_at(r, "row") && lex_is(&r->ahead, LEX_WORD, "number"))) {
		struct made made = read_made(r);
		const char *name = reader_skip(r, "=") ? reader_name(r) : made.name;
		unsigned column = find_column(r, table, name);
		struct task_slot proved;

		if (n == READ_LIST_MAX)
			reader_fail(r, "more than %u columns", READ_LIST_MAX);
		*out = reader_grow(r, *out, n, &room, sizeof(**out));
		if (!*out)
			return 0;
		proved = task_slot_of_column(table, column);
		proved.nullable |= nullable;
		settle(r, &made, &proved);
		(*out)[n++] = (struct task_source_column){column, made.slot};
		if (!reader_skip(r, ","))
			break;
	}
	return n;
}

static bool at_name(const struct reader *r)
{
	return lex_is(&r->ahead, LEX_MARK, "#") &&
	       (r->token.kind == LEX_WORD || r->token.kind == LEX_NAME);
}

static void read_nested(struct reader *r, struct task *t)
{
	const char *key;

	reader_expect(r, "once for each row group of task");
	t->nested = true;
	t->parent = (uint32_t)reader_number(r, READ_TASKS_MAX);
	reader_expect(r, "where");
	key = reader_name(r);
	t->key_column = find_column(r, t->source.table, key);
	reader_expect(r, "=");
	/* The parent's table is not known yet: the column is found at the end. */
	t->name = reader_name(r);
}

static void read_table_source(struct reader *r, struct task *t)
{
	struct task_source *s = &t->source;
	bool row;

	s->kind = TASK_TABLE;
	s->table = read_table(r);
	reader_expect(r, ":");
	if (r->error != 0)
		return;
	t->name = fth_table_name(s->table);
	r->rows_most = (double)fth_table_rows(s->table);
	row = reader_at(r, "row") && lex_is(&r->ahead, LEX_WORD, "number");
	if (at_name(r) || row)
		s->column_count = read_table_columns(r, s->table, false, &s->columns);
	if (reader_at(r, "row") && lex_is(&r->ahead, LEX_WORD, "number")) {
		struct task_slot proved = task_slot_of_row(s->table);
		struct made made;

		reader_expect(r, "row number");
		made = read_made(r);
		settle(r, &made, &proved);
		s->row_slot = made.slot;
	}
	if (reader_skip(r, ";"))
		read_nested(r, t);
}

/* Type, nullability and range of a column that hold for the rows of all inputs. */
static struct task_slot input_slot(struct reader *r, const struct task_source *s, unsigned column)
{
	struct task_slot slot = {.lo = 1, .hi = 0};

	for (unsigned i = 0; i < s->input_count && r->error == 0; i++) {
		const struct task *input = &r->tasks[s->inputs[i]];
		const struct task_slot *x;

		if (column >= input->result_count) {
			reader_fail(r, "task %u has no column %u", s->inputs[i], column);
			break;
		}
		x = &input->result[column];
		if (i == 0) {
			slot = *x;
			continue;
		}
		if (!task_same_type(slot.type, x->type))
			reader_fail(r, "the tasks have different types in column %u", column);
		if (slot.type.precision != x->type.precision)
			slot.type.precision = 0;
		slot.nullable |= x->nullable;
		if (slot.lo > slot.hi || x->lo > x->hi) {
			slot.lo = 1;
			slot.hi = 0;
		} else {
			slot.lo = x->lo < slot.lo ? x->lo : slot.lo;
			slot.hi = x->hi > slot.hi ? x->hi : slot.hi;
		}
	}
	return slot;
}

static uint32_t read_earlier(struct reader *r)
{
	if (r->task_count == 0)
		reader_fail(r, "the first task cannot refer to an earlier task");
	return (uint32_t)reader_number(r, r->task_count == 0 ? 0 : r->task_count - 1);
}

static void read_rows_source(struct reader *r, struct task *t)
{
	struct task_source *s = &t->source;
	unsigned room = 0;

	s->kind = TASK_ROWS;
	t->name = "rows";
	reader_expect(r, "of");
	r->rows_most = 0;
	do {
		s->inputs = reader_grow(r, s->inputs, s->input_count, &room, sizeof(*s->inputs));
		if (!s->inputs || s->input_count == READ_LIST_MAX)
			return;
		s->inputs[s->input_count] = read_earlier(r);
		if (r->error == 0)
			r->rows_most += r->rows[s->inputs[s->input_count++]];
	} while (reader_skip(r, ","));
	reader_expect(r, ":");
	for (room = 0; r->error == 0 && at_name(r) && s->column_count < READ_LIST_MAX;) {
		struct made made = read_made(r);
		unsigned i = s->column_count, column = i;
		struct task_slot proved;

		if (reader_skip(r, "="))
			column = (unsigned)reader_number(r, READ_LIST_MAX);
		proved = input_slot(r, s, column);
		settle(r, &made, &proved);
		s->columns = reader_grow(r, s->columns, i, &room, sizeof(*s->columns));
		if (!s->columns)
			return;
		s->columns[s->column_count++] = (struct task_source_column){column, made.slot};
		if (!reader_skip(r, ","))
			break;
	}
}

static void read_value_row(struct reader *r, struct task_source *s, unsigned *count, unsigned *room)
{
	reader_expect(r, "(");
	for (unsigned i = 0; i < s->column_count && r->error == 0; i++) {
		struct fth_expr *e;

		if (i > 0)
			reader_expect(r, ",");
		e = read_constant(r);
		if (e && s->value_rows > 0 && !task_same_type(e->type, s->values[i]->type))
			reader_fail(r, "constants of one column have different types");
		s->values = reader_grow(r, s->values, *count, room, sizeof(struct fth_expr *));
		if (!s->values)
			return;
		if (!e)
			reader_error(r, -ENOMEM);
		s->values[(*count)++] = e;
	}
	reader_expect(r, ")");
	s->value_rows++;
}

static void read_values_source(struct reader *r, struct task *t)
{
	struct task_source *s = &t->source;
	struct made *made = reader_alloc(r, READ_LIST_MAX * sizeof(*made));
	unsigned count = 0, room = 0;

	s->kind = TASK_VALUES;
	t->name = "values";
	reader_expect(r, ":");
	while (r->error == 0 && at_name(r) && s->column_count < READ_LIST_MAX) {
		made[s->column_count++] = read_made(r);
		if (!reader_skip(r, ","))
			break;
	}
	reader_expect(r, "of");
	while (r->error == 0 && reader_at(r, "(") && s->value_rows < READ_VALUES_MAX) {
		read_value_row(r, s, &count, &room);
		if (!reader_skip(r, ","))
			break;
	}
	r->rows_most = s->value_rows;
	s->columns = reader_alloc(r, s->column_count * sizeof(*s->columns));
	for (unsigned i = 0; i < s->column_count && r->error == 0; i++) {
		struct task_slot proved = {.nullable = true, .lo = 1, .hi = 0};

		if (s->value_rows == 0 && !made[i].has_facts)
			reader_fail(r, "the type of %s is not known", made[i].name);
		else
			proved.type = s->value_rows == 0 ? made[i].facts.type : s->values[i]->type;
		if (s->value_rows > 0)
			proved.type.precision = 0;
		settle(r, &made[i], &proved);
		s->columns[i] = (struct task_source_column){i, made[i].slot};
	}
}

static void read_source(struct reader *r, struct task *t)
{
	if (reader_skip(r, "table"))
		read_table_source(r, t);
	else if (reader_skip(r, "result"))
		read_rows_source(r, t);
	else if (reader_skip(r, "values"))
		read_values_source(r, t);
	else
		expected(r, "table, result or values");
}

/* ---- aggregates ---- */

static void read_aggregate_op(struct reader *r, struct task_aggregate *a)
{
	a->op = TASK_COUNT;
	while (a->op <= TASK_ANY && !reader_at(r, task_aggregate_names[a->op]))
		a->op++;
	if (a->op > TASK_ANY) {
		a->op = TASK_COUNT_ROWS;
		expected(r, "an aggregate");
	}
	reader_next(r);
}

static void read_aggregate(struct reader *r, struct task_aggregate *a)
{
	int rc;

	a->slot = TASK_NONE;
	read_aggregate_op(r, a);
	reader_expect(r, "(");
	if (a->op == TASK_COUNT && reader_skip(r, "*")) {
		a->op = TASK_COUNT_ROWS;
	} else {
		/* A slot may have this name. */
		if (reader_at(r, "distinct") && !lex_is(&r->ahead, LEX_MARK, "#"))
			a->distinct = reader_skip(r, "distinct");
		a->slot = read_slot(r);
	}
	if (r->error != 0)
		return;
	rc = task_slot_of_aggregate(a->op,
				    a->op == TASK_COUNT_ROWS ? NULL : &r->task->slots[a->slot],
				    r->rows_most, &a->result);
	if (rc < 0)
		reader_error(r, rc);
	reader_expect(r, ")");
}

static unsigned read_aggregates(struct reader *r, struct task_aggregate **out)
{
	unsigned n = 0, room = 0;

	*out = NULL;
	do {
		struct made made = {0};

		*out = reader_grow(r, *out, n, &room, sizeof(**out));
		if (!*out || n == READ_LIST_MAX)
			return n;
		read_aggregate(r, &(*out)[n]);
		if (reader_skip(r, "as")) {
			made.name = reader_name(r);
			read_facts(r, &made);
			if (r->error == 0)
				(*out)[n].result = combine(r, &made, &(*out)[n].result);
		}
		n++;
	} while (reader_skip(r, ","));
	return n;
}

/* ---- steps ---- */

static void read_compute(struct reader *r, struct task_step *step)
{
	struct made made = read_made(r);
	struct task_slot proved;
	int rc;

	step->kind = TASK_COMPUTE;
	reader_expect(r, "=");
	step->compute.slot = made.slot;
	step->compute.value = read_expr(r);
	if (r->error != 0)
		return;
	rc = task_slot_of_expr(r->how->mem, step->compute.value, &proved);
	if (rc < 0)
		reader_error(r, rc);
	settle(r, &made, &proved);
}

static struct fth_expr *read_predicate(struct reader *r)
{
	struct lex_token at = r->token;
	struct fth_expr *e = read_expr(r);

	if (r->error == 0 && e->type.kind != FTH_T_BOOL) {
		r->token = at;
		reader_fail(r, "expected a condition, found a value of type %s",
			    task_type_names[e->type.kind]);
	}
	return e;
}

static void read_payload(struct reader *r, struct task_lookup *l)
{
	const struct task *built = &r->tasks[l->task];
	unsigned room = 0, slot_room = 0;

	do {
		struct made made = read_made(r);
		unsigned column = l->payload_count;
		struct task_slot proved;

		if (reader_skip(r, "="))
			column = (unsigned)reader_number(r, READ_LIST_MAX);
		l->payload =
			reader_grow(r, l->payload, l->payload_count, &room, sizeof(*l->payload));
		l->slots =
			reader_grow(r, l->slots, l->payload_count, &slot_room, sizeof(*l->slots));
		if (r->error != 0)
			return;
		if (column >= built->result_count) {
			reader_fail(r, "task %u has no column %u", l->task, column);
			return;
		}
		proved = built->result[column];
		proved.nullable |= l->match == TASK_LEFT || l->match == TASK_SINGLE;
		settle(r, &made, &proved);
		l->payload[l->payload_count] = column;
		l->slots[l->payload_count++] = made.slot;
	} while (reader_skip(r, ","));
}

static void read_lookup(struct reader *r, struct task_step *step)
{
	struct task_lookup *l = &step->lookup;

	step->kind = TASK_LOOKUP;
	reader_expect(r, "up in");
	l->task = read_earlier(r);
	reader_expect(r, ",");
	while (l->match < TASK_SINGLE && !reader_at(r, task_match_names[l->match]))
		l->match++;
	reader_expect(r, task_match_names[l->match]);
	l->null_aware = reader_skip(r, "nulls");
	if (l->null_aware)
		reader_expect(r, "match");
	reader_expect(r, ":");
	if (at_name(r))
		l->key_count = read_slots(r, &l->keys);
	if (r->error != 0)
		return;
	if (reader_skip(r, "->"))
		read_payload(r, l);
	if (r->error == 0 && reader_skip(r, "where"))
		l->condition = read_predicate(r);
	if ((l->match == TASK_INNER || l->match == TASK_LEFT) && r->error == 0 &&
	    r->tasks[l->task].reduce.kind == TASK_MULTIMAP && r->rows[l->task] > 1)
		r->rows_most *= r->rows[l->task];
}

static void read_fetch(struct reader *r, struct task_step *step)
{
	struct task_fetch *f = &step->fetch;
	const struct task_slot *row;

	step->kind = TASK_FETCH;
	reader_expect(r, "from");
	f->table = read_table(r);
	reader_expect(r, "at");
	f->row_slot = read_slot(r);
	reader_expect(r, ":");
	if (r->error != 0)
		return;
	row = &r->task->slots[f->row_slot];
	if (row->type.kind != FTH_T_INT64)
		reader_fail(r, "%s has type %s and cannot hold row numbers", row->name,
			    task_type_names[row->type.kind]);
	f->column_count = read_table_columns(r, f->table, row->nullable, &f->columns);
}

static void read_runs(struct reader *r, struct task_step *step)
{
	struct task_runs *runs = &step->runs;

	step->kind = TASK_RUNS;
	reader_expect(r, "runs by");
	runs->key_count = read_slots(r, &runs->keys);
	if (reader_skip(r, ":"))
		runs->aggregate_count = read_aggregates(r, &runs->aggregates);
	reader_expect(r, "->");
	runs->key_slots = reader_alloc(r, runs->key_count * sizeof(*runs->key_slots));
	runs->slots = reader_alloc(r, runs->aggregate_count * sizeof(*runs->slots));
	memset(r->there, 0, sizeof(r->there));
	for (unsigned i = 0; i < runs->key_count + runs->aggregate_count && r->error == 0; i++) {
		struct task_aggregate *a =
			i < runs->key_count ? NULL : &runs->aggregates[i - runs->key_count];
		struct task_slot proved = !a ? r->task->slots[runs->keys[i]] : a->result;
		struct made made;

		if (i > 0)
			reader_expect(r, ",");
		made = read_made(r);
		settle(r, &made, &proved);
		if (r->error != 0)
			return;
		if (!a) {
			runs->key_slots[i] = made.slot;
			continue;
		}
		a->result = r->task->slots[made.slot];
		runs->slots[i - runs->key_count] = made.slot;
	}
}

/* False: the present word begins no step. */
static bool read_step(struct reader *r, struct task *t)
{
	struct task_step step = {0};

	if (reader_skip(r, "select")) {
		step.kind = TASK_SELECT;
		step.predicate = read_predicate(r);
	} else if (reader_skip(r, "compute")) {
		read_compute(r, &step);
	} else if (reader_skip(r, "look")) {
		read_lookup(r, &step);
	} else if (reader_skip(r, "fetch")) {
		read_fetch(r, &step);
	} else if (reader_at(r, "group") && lex_is(&r->ahead, LEX_WORD, "runs")) {
		reader_next(r);
		read_runs(r, &step);
	} else {
		return false;
	}
	t->steps = reader_grow(r, t->steps, t->step_count, &r->step_room, sizeof(*t->steps));
	if (t->steps)
		t->steps[t->step_count++] = step;
	return r->error == 0;
}

/* ---- reducers ---- */

static void read_order(struct reader *r, struct task_reduce *d)
{
	unsigned room = 0;

	do {
		/* A slot may have this name. */
		if ((reader_at(r, "first") || reader_at(r, "after")) &&
		    !lex_is(&r->ahead, LEX_MARK, "#"))
			return;
		d->order = reader_grow(r, d->order, d->order_count, &room, sizeof(*d->order));
		if (!d->order || d->order_count == READ_LIST_MAX)
			return;
		d->order[d->order_count].slot = read_slot(r);
		d->order[d->order_count].descending = reader_skip(r, "desc");
		if (reader_skip(r, "nulls")) {
			reader_expect(r, "first");
			d->order[d->order_count].nulls_first = true;
		}
		d->order_count++;
	} while (reader_skip(r, ","));
}

static void read_sort(struct reader *r, struct task_reduce *d)
{
	if (reader_skip(r, "by"))
		read_order(r, d);
	reader_skip(r, ",");
	if (reader_skip(r, "first"))
		d->limit = reader_number(r, UINT64_MAX - 1);
	reader_skip(r, ",");
	if (reader_skip(r, "after"))
		d->offset = reader_number(r, UINT64_MAX);
}

static void read_reduce(struct reader *r, struct task_reduce *d)
{
	while (d->kind < TASK_MULTIMAP && !reader_at(r, task_reduce_names[d->kind]))
		d->kind++;
	if (!reader_skip(r, task_reduce_names[d->kind])) {
		expected(r, "a step or a reducer");
		return;
	}
	d->limit = UINT64_MAX;
	if (d->kind == TASK_GROUP && reader_skip(r, "if")) {
		reader_expect(r, "any");
		d->grouped = true;
	}
	if (d->kind == TASK_SORT)
		read_sort(r, d);
	else if (d->kind != TASK_OUTPUT && reader_skip(r, "by"))
		d->key_count = read_slots(r, &d->keys);
	d->grouped |= d->kind == TASK_GROUP && d->key_count > 0;
	if (!reader_skip(r, ":"))
		return;
	if (d->kind == TASK_GROUP)
		d->aggregate_count = read_aggregates(r, &d->aggregates);
	else
		d->column_count = read_slots(r, &d->columns);
}

/* A number of rows: sizes are chosen by it. */
static double read_double(struct reader *r)
{
	double value = 0;

	if (fth_f64_parse(reader_string(r), &value) < 0 || !(value >= 0))
		reader_fail(r, "expected a quoted number of at least 0");
	return value;
}

static void read_estimate(struct reader *r, struct task_estimate *e)
{
	reader_expect(r, "source_rows");
	e->source_rows = read_double(r);
	reader_expect(r, ", rows");
	e->rows = read_double(r);
	if (e->rows > READ_ROWS_MAX)
		e->rows = READ_ROWS_MAX;
	reader_expect(r, ",");
	e->rows_most = INFINITY;
	if (reader_skip(r, "rows_most")) {
		e->rows_most = read_double(r);
		reader_expect(r, ",");
	}
	reader_expect(r, "bytes");
	e->bytes = reader_number(r, UINT64_MAX);
	reader_expect(r, ", memory");
	e->memory = reader_number(r, UINT64_MAX);
	reader_expect(r, ", spill");
	e->spill = reader_number(r, UINT64_MAX);
	reader_expect(r, ", passes");
	e->passes = (unsigned)reader_number(r, UINT32_MAX);
}

/* ---- tasks ---- */

static void begin_task(struct reader *r, struct task *t)
{
	*t = (struct task){.name = "task", .parent = TASK_NONE};
	t->source.row_slot = TASK_NONE;
	r->task = t;
	r->slot_room = r->step_room = 0;
	r->rows_most = INFINITY;
	memset(r->used, 0, sizeof(r->used));
	memset(r->there, 0, sizeof(r->there));
}

/* Rows of the task's result, at most. */
static double result_rows(const struct reader *r, const struct task_reduce *d)
{
	double rows = r->rows_most;

	if (d->kind == TASK_GROUP && d->key_count == 0)
		rows = 1;
	if (d->kind == TASK_SORT && d->limit != UINT64_MAX && (double)d->limit < rows)
		rows = (double)d->limit;
	return rows;
}

static void read_task(struct reader *r)
{
	unsigned room = r->task_room;
	struct task *t;

	if (r->task_count == READ_TASKS_MAX)
		reader_fail(r, "more than %u tasks", READ_TASKS_MAX);
	if (reader_number(r, UINT32_MAX) != r->task_count)
		reader_fail(r, "expected task %u here", r->task_count);
	reader_expect(r, ":");
	r->tasks = reader_grow(r, r->tasks, r->task_count, &r->task_room, sizeof(*r->tasks));
	r->rows = reader_grow(r, r->rows, r->task_count, &room, sizeof(*r->rows));
	if (r->error != 0)
		return;
	t = &r->tasks[r->task_count];
	begin_task(r, t);
	read_source(r, t);
	while (read_step(r, t))
		;
	read_reduce(r, &t->reduce);
	if (reader_skip(r, "expect"))
		read_estimate(r, &t->estimate);
	if (r->error != 0)
		return;
	if (task_describe_result(r->arena, t) < 0)
		reader_error(r, -ENOMEM);
	else
		r->rows[r->task_count++] = result_rows(r, &t->reduce);
}

/* Nested tasks kept the name of their parent's column in their own name. */
static void adopt_nested(struct reader *r)
{
	for (unsigned i = 0; i < r->task_count && r->error == 0; i++) {
		struct task *t = &r->tasks[i], *parent;

		if (!t->nested)
			continue;
		if (t->parent >= r->task_count || t->parent <= i ||
		    r->tasks[t->parent].source.kind != TASK_TABLE) {
			reader_fail(r,
				    "task %u is nested in task %u, which is not a later task that "
				    "scans a table",
				    i, t->parent);
			return;
		}
		parent = &r->tasks[t->parent];
		t->parent_column = find_column(r, parent->source.table, t->name);
		t->name = fth_table_name(t->source.table);
	}
}

static void read_names(struct reader *r, struct task_set *set)
{
	const struct task *last = &set->tasks[set->task_count - 1];

	set->output_count = last->result_count;
	set->names = reader_alloc(r, last->result_count * sizeof(char *));
	for (unsigned i = 0; i < last->result_count && r->error == 0; i++)
		set->names[i] = last->result[i].name;
	if (!reader_skip(r, "result"))
		return;
	for (unsigned i = 0; i < last->result_count && r->error == 0; i++) {
		if (i > 0)
			reader_expect(r, ",");
		set->names[i] = reader_name(r);
	}
}

static int read_set(struct reader *r, struct task_set *out)
{
	if (!reader_at(r, "task"))
		expected(r, "task");
	while (reader_skip(r, "task"))
		read_task(r);
	adopt_nested(r);
	if (r->error != 0)
		return r->error;
	*out = (struct task_set){.task_count = r->task_count, .tasks = r->tasks};
	read_names(r, out);
	if (r->error == 0 && r->token.kind != LEX_END)
		expected(r, "task, result or the end");
	if (r->error != 0)
		return r->error;
	task_set_last_users(out);
	return task_check(out);
}

int task_read(const struct task_read *how, const char *text, size_t length, struct fth_arena *arena,
	      struct task_set *out)
{
	struct reader *r = fth_arena_alloc(arena, sizeof(*r), 16);
	int rc;

	memset(out, 0, sizeof(*out));
	if (!r)
		return -ENOMEM;
	memset(r, 0, sizeof(*r));
	r->how = how;
	r->arena = arena;
	lex_init(&r->lex, text, length);
	r->token = lex_next(&r->lex);
	r->ahead = lex_next(&r->lex);
	rc = read_set(r, out);
	if (rc < 0)
		memset(out, 0, sizeof(*out));
	return rc;
}
