/* SPDX-License-Identifier: BSD-2-Clause */
/* fio, the peer of `fathom bench dev`: run it and take the one number that counts. */
#ifndef FTH_BENCH_FIO_H
#define FTH_BENCH_FIO_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct fth_fio {
	const char *path;
	uint64_t offset, size; /* the part of the file to use */
	bool write;
	bool direct;
	unsigned depth;
	unsigned batch; /* at most so many are submitted, and collected, at once */
	unsigned milliseconds;
};

/* fio's version, "fio-3.33", into buf. 0, or -ENOENT when it is not installed. */
int fth_fio_version(char *buf, size_t len);

/* Run it; *iops is what it reached. 0 or a negative errno with an error text. */
int fth_fio_run(const struct fth_fio *job, double *iops);

/* The iops of the "read" or "write" object in fio's JSON. 0, or -EINVAL if there is none. */
int fth_fio_parse(const char *json, bool write, double *iops);

#endif
