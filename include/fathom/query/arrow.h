/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Results of queries as Arrow streams, for every library that reads them.
 *
 *	struct fth_query_db *database;
 *	struct ArrowArrayStream stream;
 *	struct fth_query *query;
 *	struct ArrowArray batch;
 *
 *	fth_query_open("/data/db", NULL, &database);
 *	fth_query_new(database, &query);
 *	if (fth_query_arrow(query, "select * from people", &stream) == 0) {
 *		while (stream.get_next(&stream, &batch) == 0 && batch.release != NULL)
 *			batch.release(&batch);
 *		stream.release(&stream);
 *	}
 *	fth_query_free(query);
 *	fth_query_close(database);
 *
 * The structs are those of the Arrow C data and C stream interfaces, as
 * https://arrow.apache.org/docs/format/ CDataInterface.html and CStreamInterface.html define them
 * for copying. Types: boolean is bool, int and bigint are int32 and int64, date is date32 (days),
 * decimal is decimal128 with 38 digits where SQL has no limit, double is float64, char and varchar
 * are utf8.
 */
#ifndef FATHOM_QUERY_ARROW_H
#define FATHOM_QUERY_ARROW_H

#include "fathom/query.h"

FTH_BEGIN_DECLS

#ifndef ARROW_C_DATA_INTERFACE
#define ARROW_C_DATA_INTERFACE

#define ARROW_FLAG_DICTIONARY_ORDERED 1
#define ARROW_FLAG_NULLABLE	      2
#define ARROW_FLAG_MAP_KEYS_SORTED    4

struct ArrowSchema {
	const char *format;
	const char *name;
	const char *metadata;
	int64_t flags;
	int64_t n_children;
	struct ArrowSchema **children;
	struct ArrowSchema *dictionary;
	void (*release)(struct ArrowSchema *);
	void *private_data;
};

struct ArrowArray {
	int64_t length;
	int64_t null_count;
	int64_t offset;
	int64_t n_buffers;
	int64_t n_children;
	const void **buffers;
	struct ArrowArray **children;
	struct ArrowArray *dictionary;
	void (*release)(struct ArrowArray *);
	void *private_data;
};
#endif

#ifndef ARROW_C_STREAM_INTERFACE
#define ARROW_C_STREAM_INTERFACE

struct ArrowArrayStream {
	int (*get_schema)(struct ArrowArrayStream *, struct ArrowSchema *out);
	int (*get_next)(struct ArrowArrayStream *, struct ArrowArray *out);
	const char *(*get_last_error)(struct ArrowArrayStream *);
	void (*release)(struct ArrowArrayStream *);
	void *private_data;
};
#endif

/*
 * Run a SELECT or EXPLAIN as a stream. Its batches have at most 4096 rows and own their memory,
 * which is allocated with malloc(), outside of the budget; one batch at most waits for get_next.
 * The statement runs in a thread of the stream: until the stream is released, the query must not be
 * used except for fth_query_cancel(). release ends the statement. Blocks until the columns are
 * known. Returns 0, or an error of fth_query_run(); out->release is NULL then. Errors of rows are
 * errors of get_next. The stream is to be used by one thread at a time, and released before the
 * query.
 */
int fth_query_arrow(struct fth_query *query, const char *sql, struct ArrowArrayStream *out);

FTH_END_DECLS
#endif
