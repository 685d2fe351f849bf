/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Rows of a file gathered into GPU memory: any row size, offset and end of file; ids from both
 * ends; errors by id and by device. Skipped (77) without a GPU.
 */
#include "fathom/gpu/rows.h"

#include "fathom/base/error.h"

#include <cuda_runtime.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define N 5000u

#define CHECK(condition)                                                                       \
	do {                                                                                   \
		if (!(condition)) {                                                            \
			fprintf(stderr, "%s:%d: %s failed\n", __FILE__, __LINE__, #condition); \
			exit(1);                                                               \
		}                                                                              \
	} while (0)

static uint8_t byte_at(uint64_t i)
{
	return (uint8_t)((i * 2654435761u) >> 13);
}

static void make_file(char *path, uint64_t bytes)
{
	int fd = mkstemp(path);
	FILE *file = fdopen(fd, "wb");

	CHECK(file);
	for (uint64_t i = 0; i < bytes; i++)
		CHECK(fputc(byte_at(i), file) != EOF);
	CHECK(fclose(file) == 0);
}

struct place {
	int64_t *ids;
	uint8_t *out;
	int64_t host_ids[N];
	uint8_t *host_out;
};

static void check_rows(const struct fth_gpu_rows_options *o, const struct place *p)
{
	for (uint32_t k = 0; k < N; k++) {
		uint64_t row = (uint64_t)(p->host_ids[k] < 0 ? p->host_ids[k] + (int64_t)o->rows
							     : p->host_ids[k]);

		for (uint64_t b = 0; b < o->row; b++)
			CHECK(p->host_out[k * o->row + b] == byte_at(o->offset + row * o->row + b));
	}
}

static void gather_and_check(struct fth_gpu_rows *rows, const struct fth_gpu_rows_options *o,
			     struct place *p, cudaStream_t stream)
{
	size_t bytes = (size_t)(N * o->row);

	for (uint32_t k = 0; k < N; k++)
		p->host_ids[k] = (int64_t)((k * 7919ull) % (2 * o->rows)) - (int64_t)o->rows;
	CHECK(!cudaMemcpy(p->ids, p->host_ids, sizeof(p->host_ids), cudaMemcpyHostToDevice));
	CHECK(!cudaMemset(p->out, 0x5a, bytes));
	CHECK(fth_gpu_rows_gather(rows, p->ids, N, p->out, stream) == 0);
	CHECK(fth_gpu_rows_wait(rows, stream) == 0);
	CHECK(!cudaMemcpy(p->host_out, p->out, bytes, cudaMemcpyDeviceToHost));
	check_rows(o, p);
}

static void check_bad_id(struct fth_gpu_rows *rows, const struct fth_gpu_rows_options *o,
			 struct place *p, cudaStream_t stream)
{
	int64_t bad[2] = {0, (int64_t)o->rows};

	CHECK(!cudaMemcpy(p->ids, bad, sizeof(bad), cudaMemcpyHostToDevice));
	CHECK(fth_gpu_rows_gather(rows, p->ids, 2, p->out, stream) == 0);
	CHECK(fth_gpu_rows_wait(rows, stream) == -ERANGE);
	CHECK(strstr(fth_error_text(-ERANGE), "index 1"));
	CHECK(fth_gpu_rows_wait(rows, stream) == 0);
}

/* A file of `rows` rows, gathered twice through a cache much smaller than it. */
static void test_rows(uint64_t row, uint64_t count, uint64_t offset, uint32_t line)
{
	struct fth_gpu_rows_options o = FTH_GPU_ROWS_OPTIONS_INIT;
	char path[] = "/tmp/fathom-rows-XXXXXX", uri[128];
	struct fth_gpu_rows *rows;
	static struct place p;
	cudaStream_t stream;
	uint64_t bytes = 0;

	make_file(path, offset + count * row);
	snprintf(uri, sizeof(uri), "file:%s?tail=on&readonly=on", path);
	o.memory = 1u << 20;
	o.line = line;
	o.offset = offset;
	o.row = row;
	o.rows = count;
	CHECK(!cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
	CHECK(!cudaMalloc(&p.ids, sizeof(p.host_ids)) && !cudaMalloc(&p.out, N * row));
	p.host_out = (uint8_t *)malloc(N * row);
	CHECK(p.host_out);
	CHECK(fth_gpu_rows_open(uri, &o, &rows) == 0);
	gather_and_check(rows, &o, &p, stream);
	gather_and_check(rows, &o, &p, stream);
	check_bad_id(rows, &o, &p, stream);
	gather_and_check(rows, &o, &p, stream);
	CHECK(fth_gpu_rows_bytes_read(rows, &bytes) == 0 && bytes > 0);
	CHECK(fth_gpu_rows_close(rows) == 0);
	o.rows = count + 8192 / row + 1;
	CHECK(fth_gpu_rows_open(uri, &o, &rows) < 0);
	CHECK(!cudaFree(p.ids) && !cudaFree(p.out) && !cudaStreamDestroy(stream));
	free(p.host_out);
	unlink(path);
	printf("rows of %llu bytes at %llu, lines of %u: right\n", (unsigned long long)row,
	       (unsigned long long)offset, line);
}

/* Reads of the device fail: the wait returns the error, and the bytes are not taken for rows. */
static void test_fault(void)
{
	struct fth_gpu_rows_options o = FTH_GPU_ROWS_OPTIONS_INIT;
	struct fth_gpu_rows *rows;
	int64_t id = 3, *ids;
	uint8_t *out;
	int rc;

	o.memory = 1u << 20;
	o.row = 4096;
	o.rows = 100;
	CHECK(fth_gpu_rows_open("fault(mem:1M)?kind=read&every=1", &o, &rows) == 0);
	CHECK(!cudaMalloc(&ids, sizeof(id)) && !cudaMalloc(&out, o.row));
	CHECK(!cudaMemcpy(ids, &id, sizeof(id), cudaMemcpyHostToDevice));
	CHECK(fth_gpu_rows_gather(rows, ids, 1, out, NULL) == 0);
	rc = fth_gpu_rows_wait(rows, NULL);
	CHECK(rc < 0 && rc != -ERANGE);
	printf("a device that fails: %s\n", fth_error_text(rc));
	CHECK(fth_gpu_rows_close(rows) == 0);
	CHECK(!cudaFree(ids) && !cudaFree(out));
}

int main(void)
{
	int devices = 0;

	if (cudaGetDeviceCount(&devices) != cudaSuccess || devices == 0) {
		puts("no GPU here");
		return 77;
	}
	test_rows(4096, 2000, 0, 4096);
	test_rows(4096, 2000, 128, 4096);
	test_rows(100, 3000, 80, 512);
	test_rows(1, 70000, 3, 4096);
	test_rows(10000, 500, 128, 8192);
	test_fault();
	return 0;
}
