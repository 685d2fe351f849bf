/* SPDX-License-Identifier: BSD-2-Clause */
/* Schemas and batches of results in Arrow's structs. */
#ifndef FTH_QUERY_ARROW_H
#define FTH_QUERY_ARROW_H

#include "fathom/query/arrow.h"

/* Fill *out, which the caller releases. Return 0, or a negative errno with nothing to release. */
int arrow_schema(const struct fth_query_column *columns, unsigned count, struct ArrowSchema *out);
int arrow_array(const struct fth_query_batch *batch, struct ArrowArray *out);

#endif
