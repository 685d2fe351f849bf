/* SPDX-License-Identifier: BSD-2-Clause */
/* Which column a name means. */
#include "query/sql/bind/bind.h"

#include <string.h>

void sql_scope_add(struct sql_ctx *ctx, struct sql_scope *scope, const char *table,
		   const char *name, int column, bool nullable)
{
	struct sql_scope_column *entry = sql_alloc(ctx, sizeof(*entry));

	*entry = (struct sql_scope_column){
		.table = table, .name = name, .column = column, .nullable = nullable};
	sql_list_add(ctx, &scope->columns, entry);
}

/* Levenshtein's distance, cut off above 3. */
static unsigned edit_distance(const char *a, const char *b)
{
	size_t n = strlen(a), m = strlen(b);
	unsigned row[65];

	if (n > 64 || m > 64 || n > m + 3 || m > n + 3)
		return 4;
	for (size_t j = 0; j <= m; j++)
		row[j] = (unsigned)j;
	for (size_t i = 1; i <= n; i++) {
		unsigned diagonal = row[0];

		row[0] = (unsigned)i;
		for (size_t j = 1; j <= m; j++) {
			unsigned best = diagonal + (a[i - 1] != b[j - 1]);

			diagonal = row[j];
			if (row[j] + 1 < best)
				best = row[j] + 1;
			if (row[j - 1] + 1 < best)
				best = row[j - 1] + 1;
			row[j] = best;
		}
	}
	return row[m];
}

void sql_suggest(struct sql_suggestion *s, const char *name)
{
	unsigned distance = edit_distance(s->wanted, name);

	if (distance <= 3 && distance <= strlen(s->wanted) / 2 &&
	    (!s->best || distance < s->distance)) {
		s->best = name;
		s->distance = distance;
	}
}

const char *sql_suggested(struct sql_ctx *ctx, const struct sql_suggestion *s)
{
	return s->best ? sql_format(ctx, "; did you mean \"%.60s\"?", s->best) : "";
}

static bool entry_matches(const struct sql_scope_column *entry, const char *table, const char *name)
{
	if (strcmp(entry->name, name) != 0)
		return false;
	return table ? entry->table && !strcmp(entry->table, table) : !entry->hidden;
}

static _Noreturn void not_found(struct sql_ctx *ctx, const struct sql_scope *scope,
				const char *table, const char *name, int at)
{
	struct sql_suggestion column = {.wanted = name}, alias = {.wanted = table ? table : ""};
	bool table_known = !table;

	for (; scope; scope = scope->parent) {
		for (unsigned i = 0; i < scope->columns.count; i++) {
			const struct sql_scope_column *entry = scope->columns.items[i];
			bool same = table && entry->table && !strcmp(entry->table, table);

			table_known |= same;
			if (!table || same)
				sql_suggest(&column, entry->name);
			if (table && entry->table)
				sql_suggest(&alias, entry->table);
		}
	}
	if (!table_known)
		sql_wrong(ctx, at, "table or alias \"%s\" is not in the FROM clause%s", table,
			  sql_suggested(ctx, &alias));
	if (table)
		sql_wrong(ctx, at, "table \"%s\" has no column \"%s\"%s", table, name,
			  sql_suggested(ctx, &column));
	sql_wrong(ctx, at, "column \"%s\" does not exist%s", name, sql_suggested(ctx, &column));
}

struct sql_expr *sql_resolve(struct sql_ctx *ctx, const struct sql_scope *scope, const char *table,
			     const char *name, int at)
{
	for (const struct sql_scope *s = scope; s; s = s->parent) {
		const struct sql_scope_column *found = NULL;

		for (unsigned i = 0; i < s->columns.count; i++) {
			const struct sql_scope_column *entry = s->columns.items[i];

			if (!entry_matches(entry, table, name))
				continue;
			if (found && found->table && entry->table)
				sql_wrong(ctx, at,
					  "column \"%s\" is ambiguous: both \"%s\" and \"%s\" have "
					  "one",
					  name, found->table, entry->table);
			if (found)
				sql_wrong(ctx, at, "column \"%s\" is ambiguous", name);
			found = entry;
		}
		if (found) {
			struct sql_expr *e = sql_column_expr(ctx, found->column, at);

			e->nullable = found->nullable;
			return e;
		}
	}
	not_found(ctx, scope, table, name, at);
}
