/* SPDX-License-Identifier: BSD-2-Clause */
/* The certificate of a query, before it runs and afterwards, as a table or as JSON. */
#ifndef FTH_QUERY_CERTIFICATE_H
#define FTH_QUERY_CERTIFICATE_H

#include <stdio.h>

#include "query/exec/exec.h"

struct certificate {
	const struct task_set *set;	/* with estimates */
	uint64_t budget, least;		/* what there is; what the query needs in any case */
	const struct exec_stats *stats; /* what happened; NULL: the query has not run */
	enum exec_thrift thrift;	/* how it ended */
	uint64_t rows, memory;		/* of the result; the most in use, of the whole query */
};

void certificate_text(FILE *out, const struct certificate *c);
void certificate_json(FILE *out, const struct certificate *c);

/* Whether the task kept what it promised: bytes and memory. */
bool certificate_kept(const struct certificate *c, unsigned task);

#endif
