/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Rows of a file or device, gathered into GPU memory by their numbers: the host's interface, for
 * programs that have no kernel of their own. The Python module fathom.gpu uses it.
 *
 *	struct fth_gpu_rows_options options = FTH_GPU_ROWS_OPTIONS_INIT;
 *	struct fth_gpu_rows *rows;
 *
 *	options.row = 4096;
 *	options.rows = 1000000;
 *	rc = fth_gpu_rows_open("file:/data/features?readonly=on", &options, &rows);
 *	rc = fth_gpu_rows_gather(rows, ids, n, out, stream);
 *	rc = fth_gpu_rows_wait(rows, stream);
 *	fth_gpu_rows_close(rows);
 *
 * Rows are read-only. A row begins at any byte; a cache in GPU memory holds lines that were read.
 *
 * In libfathom_cuda. One host thread at a time uses a struct fth_gpu_rows, on the CUDA device that
 * was current when it was opened. Functions return 0 or a negative errno and leave a text.
 */
#ifndef FATHOM_GPU_ROWS_H
#define FATHOM_GPU_ROWS_H

#include "fathom/base/decls.h"

#include <stddef.h>
#include <stdint.h>

FTH_BEGIN_DECLS

/* Start from FTH_GPU_ROWS_OPTIONS_INIT. */
struct fth_gpu_rows_options {
	size_t size;	     /* of this struct */
	uint64_t memory;     /* bytes of GPU memory for lines; the index of lines comes on top */
	uint64_t offset;     /* byte of the device where row 0 begins */
	uint64_t rows;	     /* number of rows, not 0 */
	uint64_t row;	     /* bytes of a row, not 0 */
	uint32_t line;	     /* bytes that are read at once, a power of two from 512 to 8192 */
	uint32_t timeout_ms; /* of each wait in a kernel */
};
#define FTH_GPU_ROWS_OPTIONS_INIT                                                              \
	{                                                                                      \
		sizeof(struct fth_gpu_rows_options), (uint64_t)1 << 30, 0, 0, 0, 4096u, 10000u \
	}

struct fth_gpu_rows;

/*
 * Open the rows of a device. CPU threads execute the reads; no kernel keeps running between calls.
 * Blocks. -EINVAL if the rows end beyond the device, or for invalid options.
 */
int fth_gpu_rows_open(const char *uri, const struct fth_gpu_rows_options *options,
		      struct fth_gpu_rows **out);

/*
 * Copy rows ids[0] to ids[n - 1] to `out`, n * row bytes. ids and out are in GPU memory; a negative
 * id counts from the end. Launches a kernel on `stream`, a cudaStream_t, and returns; out is
 * complete when the stream gets there, and correct if fth_gpu_rows_wait() returns 0.
 */
int fth_gpu_rows_gather(struct fth_gpu_rows *rows, const int64_t *ids, uint64_t n, void *out,
			void *stream);

/*
 * Wait for `stream`, and return the first error of the gathers that ended since the last wait:
 * -ERANGE for an id outside the rows, or the error of the device. Gathers on several streams share
 * the error: the first wait returns it.
 */
int fth_gpu_rows_wait(struct fth_gpu_rows *rows, void *stream);

/* Bytes read from the device so far. A little behind while kernels run. */
int fth_gpu_rows_bytes_read(struct fth_gpu_rows *rows, uint64_t *bytes);

/* Release everything. Accepts NULL. No gather may be in progress. Returns the first error. */
int fth_gpu_rows_close(struct fth_gpu_rows *rows);

FTH_END_DECLS
#endif
