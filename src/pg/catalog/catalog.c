/* SPDX-License-Identifier: BSD-2-Clause */
#include "pg/catalog/catalog.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* Relations that a statement names: of the catalogs, and others. */
struct names {
	struct pg_session *session;
	unsigned catalogs, others;
};

static void count_names(const ProtobufCMessage *m, struct names *names)
{
	const ProtobufCMessageDescriptor *d = m->descriptor;

	if (d == &pg_query__range_var__descriptor) {
		const PgQuery__RangeVar *var = (const PgQuery__RangeVar *)m;
		bool schema = var->schemaname && *var->schemaname;

		if (schema && (strcmp(var->schemaname, "pg_catalog") == 0 ||
			       strcmp(var->schemaname, "information_schema") == 0))
			names->catalogs++;
		else if (!schema && strncmp(var->relname, "pg_", 3) == 0)
			names->catalogs++;
		else
			names->others++;
		return;
	}
	for (unsigned i = 0; i < d->n_fields; i++) {
		const ProtobufCFieldDescriptor *f = &d->fields[i];
		const char *at = (const char *)m + f->offset;

		if (f->type != PROTOBUF_C_TYPE_MESSAGE)
			continue;
		if (f->label == PROTOBUF_C_LABEL_REPEATED) {
			size_t n = *(const size_t *)((const char *)m + f->quantifier_offset);
			ProtobufCMessage *const *items = *(ProtobufCMessage *const *const *)at;

			for (size_t k = 0; k < n; k++)
				count_names(items[k], names);
		} else if (!(f->flags & PROTOBUF_C_FIELD_FLAG_ONEOF) ||
			   *(const uint32_t *)((const char *)m + f->quantifier_offset) == f->id) {
			if (*(ProtobufCMessage *const *)at)
				count_names(*(ProtobufCMessage *const *)at, names);
		}
	}
}

static int ignore_columns(const struct fth_query_batch *batch, void *user)
{
	(void)batch;
	(void)user;
	return 0;
}

/*
 * A statement that names catalogs is for the interpreter. One that names no tables at all is for
 * the engine, unless the engine refuses it: "select version()".
 */
bool pg_is_catalog(struct pg_session *s, const char *text)
{
	struct fth_query_parameter parameters[64] = {0};
	struct names names = {.session = s};
	struct sql_error error;
	struct pg_tree tree;
	unsigned count = 0;
	bool is = false;

	if (pg_tree_parse(&tree, text, &error) == 0 && tree.node &&
	    tree.node->node_case == PG_QUERY__NODE__NODE_SELECT_STMT) {
		count_names(&tree.node->base, &names);
		is = names.catalogs > 0;
		if (!is && names.others == 0) {
			int rc = fth_query_describe(s->query, text, parameters, 64, &count,
						    ignore_columns, NULL);

			is = rc == -EOPNOTSUPP || rc == -EINVAL;
		}
	}
	pg_tree_free(&tree);
	return is;
}

static int run_guarded(struct cat *c, const struct pg_tree *tree, struct cat_rel **rel)
{
	if (setjmp(c->ctx->trap))
		return c->ctx->rc;
	*rel = cat_select(c, NULL, tree->node->select_stmt);
	return 0;
}

static int take_columns(const struct cat_rel *rel, struct pg_column **columns, unsigned *count)
{
	*columns = calloc(rel->width + 1, sizeof(**columns));
	*count = rel->width;
	for (unsigned i = 0; *columns && i < rel->width; i++) {
		(*columns)[i] = (struct pg_column){strdup(rel->columns[i].name),
						   rel->columns[i].oid, -1, 0, 0};
		if (!(*columns)[i].name) {
			pg_free_columns(*columns, rel->width);
			*columns = NULL;
		}
	}
	return *columns ? 0 : -ENOMEM;
}

/* Numbers of relations and types are shown by name. */
static const char *shown(struct cat *c, struct cat_value v, uint32_t oid)
{
	const char *name = NULL;

	if (v.text && oid == PG_REGCLASS)
		name = cat_relation_name(c, v.text);
	else if (v.text && oid == PG_REGTYPE)
		name = cat_type_name(c, (uint32_t)strtoul(v.text, NULL, 10), -1);
	return name ? name : v.text;
}

static int put_rows(struct cat *c, const struct cat_rel *rel, struct pg_wire *w,
		    const int16_t *formats, unsigned format_count)
{
	int rc = 0;

	for (unsigned i = 0; i < rel->count && rc == 0; i++) {
		pg_put_begin(w, 'D');
		pg_put_i16(w, (int)rel->width);
		for (unsigned k = 0; k < rel->width; k++) {
			struct cat_value v = rel->cells[(size_t)i * rel->width + k];
			uint32_t oid = rel->columns[k].oid;
			bool binary = pg_is_binary(formats, format_count, k);
			const char *text = binary ? v.text : shown(c, v, oid);

			if (text)
				pg_value_out(w, oid, binary, text, strlen(text));
			else
				pg_put_i32(w, -1);
		}
		rc = pg_put_end(w);
	}
	return rc;
}

/* The names that shown() needs are read outside of the guard: load them first. */
static int show_guarded(struct cat *c, const struct cat_rel *rel, struct pg_wire *w,
			const int16_t *formats, unsigned format_count)
{
	if (setjmp(c->ctx->trap))
		return c->ctx->rc;
	return put_rows(c, rel, w, formats, format_count);
}

int pg_catalog_run(struct pg_session *s, const char *text, const struct pg_portal *portal,
		   struct pg_column **columns, unsigned *count, struct pg_wire *w, bool describe,
		   const int16_t *formats, unsigned format_count, uint64_t *rows)
{
	struct cat c = {.session = s, .portal = portal};
	struct sql_error error;
	struct pg_tree tree;
	struct cat_rel *rel = NULL;
	int rc = pg_tree_parse(&tree, text, &error);

	if (rc == 0) {
		c.ctx = tree.ctx;
		rc = run_guarded(&c, &tree, &rel);
		if (rc < 0)
			error = tree.ctx->error;
	}
	if (rc == 0)
		rc = take_columns(rel, columns, count);
	if (rc == -ENOMEM && rel)
		error = (struct sql_error){.at = -1, .text = "out of memory"};
	if (rc < 0) {
		pg_error_at(s, pg_sqlstate(rc, error.text),
			    error.at < 0 ? 0 : (unsigned)error.at + 1, error.text);
		pg_tree_free(&tree);
		return -1;
	}
	if (w) {
		if (describe)
			(void)pg_put_columns(w, *columns, *count, formats, format_count);
		rc = show_guarded(&c, rel, w, formats, format_count);
		*rows = rel->count;
	}
	pg_tree_free(&tree);
	return rc < 0 ? -1 : 0;
}
