/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Building an index. Threads append rows, each with a writer of its own; then one call makes the
 * structure, with the help of other threads.
 *
 * What does not fit into spec.room is left out: the range of numbers that the index holds becomes
 * smaller while rows come in. index_to() of the result tells where it ends, and the rest is built
 * by another run over the same rows with a range that begins there.
 */
#ifndef FTH_QUERY_INDEX_BUILD_H
#define FTH_QUERY_INDEX_BUILD_H

#include "query/join/index.h"

struct build;
struct build_writer;

/* Returns 0 or -ENOMEM. The spec is copied, its columns are not. */
int build_open(struct fth_qmem *mem, const struct index_spec *spec, struct build **out);
/* Writers must be closed. Accepts NULL. */
void build_free(struct build *b);

/*
 * The room with which a structure is built in one part, if it has so many rows at most. Of text,
 * strings that are longer than usual are not thought of.
 */
double build_need(const struct index_spec *spec, double rows, unsigned threads);

int build_writer_open(struct build *b, struct build_writer **out);
void build_writer_close(struct build_writer *w); /* accepts NULL */

/*
 * Append the selected rows; columns[i] is the vector of column i. Rows with a null key are left
 * out. Returns 0; -EAGAIN if text of rows that were left out since takes too much memory: build
 * again, up to build_to(); -EOVERFLOW if not even the rows with the number spec.from fit: build
 * again, as a list; -ENOMEM.
 */
int build_append(struct build_writer *w, struct fth_vec *const *columns, struct fth_sel *sel);

/*
 * All rows were appended. Returns 1 if they have to be appended once more, 0 if not, or -ENOMEM.
 * Writers may stay open.
 */
int build_second(struct build *b);
/* Whether a structure of so many rows at most may ask for that. */
bool build_runs_twice(const struct index_spec *spec, double rows, unsigned threads);

/* The range of numbers that is being held now. */
uint64_t build_to(const struct build *b);

/*
 * Make the index from everything that writers appended. Returns 0, -ENOMEM, -EOVERFLOW as
 * build_append(), an error of the scratch file, or -EEXIST with a text for a key of a map that came
 * twice.
 */
int build_finish(struct build *b, unsigned threads, struct index **out);

#endif
