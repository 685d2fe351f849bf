/* SPDX-License-Identifier: BSD-2-Clause */
/* EXPLAIN: the tasks of a query and their certificate; EXPLAIN ANALYZE: with what happened. */
#include "query/query.h"
#include "query/certificate.h"
#include "query/exec/estimate.h"
#include "query/task/task_show.h"

#include "fathom/base/error.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

static void show_storage(FILE *out, const struct statement *s, bool analyze)
{
	const struct offload_report *o = &s->offload;

	fprintf(out, "storage daemon: %s, budget %" PRIu64 " bytes\n", s->query->db->remote->where,
		s->query->db->remote->budget);
	if (!analyze || !o->at_storage)
		return;
	fprintf(out,
		"wire: %" PRIu64 " bytes sent, %" PRIu64
		" received; reading the columns of tasks at the "
		"storage daemon would be %" PRIu64 " bytes\n",
		o->sent, o->received, o->storage_bytes);
	if (o->suspensions > 0)
		fprintf(out, "suspended: %u times, last because: %s\n", o->suspensions, o->reason);
}

static void show_all(FILE *out, const struct statement *s, const struct exec_stats *stats)
{
	struct certificate c = {.set = &s->set,
				.budget = s->query->db->budget,
				.least = s->least,
				.stats = stats,
				.thrift = s->thrift,
				.rows = s->query->report.rows,
				.memory = fth_qmem_peak(s->mem)};

	if (s->sql->json) {
		certificate_json(out, &c);
		return;
	}
	for (unsigned i = 0; i < s->set.task_count; i++) {
		task_show_task(out, &s->set, i);
		if (s->offload.at_storage)
			fprintf(out, "    -> runs %s\n",
				s->offload.at_storage[i] ? "at the storage daemon" : "on the host");
	}
	if (s->query->db->remote)
		show_storage(out, s, stats);
	certificate_text(out, &c);
}

static int estimate(struct statement *s)
{
	struct estimate_options options = {.mem = s->mem,
					   .budget = s->query->db->budget,
					   .base = fth_qmem_used(s->mem),
					   .threads = s->query->db->threads};

	s->least = estimate_least(&s->set, options.base);
	return estimate_tasks(&s->set, &options);
}

static int count_rows(void *user, const struct fth_vec *columns, const struct fth_sel *sel)
{
	struct statement *s = user;

	(void)columns;
	s->query->report.rows += fth_bits_count(sel->bits, sel->n);
	return statement_canceled(s);
}

int statement_explain(struct statement *s)
{
	struct exec_stats *stats = NULL;
	char *text = NULL;
	size_t length;
	FILE *out;
	int rc = statement_plan(s);

	if (rc == 0)
		rc = statement_place(s);
	if (rc == 0)
		rc = estimate(s);
	if (rc == 0 && s->sql->analyze) {
		stats = fth_arena_alloc(&s->arena, s->set.task_count * sizeof(*stats), 64);
		rc = stats ? statement_exec(s, count_rows, s, stats) : -ENOMEM;
	}
	if (rc < 0)
		return rc;
	out = open_memstream(&text, &length);
	if (!out)
		return -ENOMEM;
	show_all(out, s, stats);
	s->query->report.rows = 0;
	rc = fclose(out) == 0 ? statement_lines(s, "plan", text) : -ENOMEM;
	free(text);
	return rc;
}
