/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Changes to the chunks of a table, with checksums that are right all the same: opening a page
 * refuses them, or everything that decodes it stays inside the image.
 *
 * Input: a byte that picks the column, then groups of 3 bytes: place (two bytes) and value.
 */
#include "table/format.h"
#include "table/table.h"

#include "fathom/base/checksum.h"
#include "fathom/table.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define ROWS	2500u
#define COLUMNS 7u

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static struct fth_table_db *db;
static struct fth_table *table;
static unsigned char *images[COLUMNS];

/* Packed, runs, delta, wide, codes, local, blocks. */
static const char columns[] =
	"a bigint, b bigint, c bigint, d decimal(38,0), e text, f text, g text";

static void must(int rc)
{
	if (rc < 0)
		abort();
}

static void append(void)
{
	static int64_t ints[3][ROWS];
	static struct fth_table_wide wides[ROWS];
	static uint32_t offsets[3][ROWS + 1];
	static char bytes[3][ROWS * 40];
	static uint8_t nulls[ROWS];
	struct fth_table_vector v[COLUMNS] = {{0}};
	struct fth_table_writer *writer;

	for (uint32_t i = 0; i < ROWS; i++) {
		ints[0][i] = (int64_t)(i * 2654435761u % 100000);
		ints[1][i] = (int64_t)(i / 50) * 1000003;
		ints[2][i] = (int64_t)i * 1000 + i % 3;
		wides[i] = (struct fth_table_wide){i, i % 2 ? 5 : -5};
		nulls[i] = i % 11 == 0;
		offsets[0][i + 1] =
			offsets[0][i] + (uint32_t)sprintf(bytes[0] + offsets[0][i], "c%u", i % 5);
		offsets[1][i + 1] =
			offsets[1][i] + (uint32_t)sprintf(bytes[1] + offsets[1][i], "l%u", i);
		offsets[2][i + 1] = offsets[2][i] + (uint32_t)sprintf(bytes[2] + offsets[2][i],
								      "text of number %u", i);
	}
	for (unsigned c = 0; c < 3; c++) {
		v[c].values = ints[c];
		v[4 + c].offsets = offsets[c];
		v[4 + c].bytes = bytes[c];
	}
	v[3].values = wides;
	v[0].nulls = nulls;
	must(fth_table_writer_open(db, "t", NULL, &writer));
	must(fth_table_writer_append(writer, v, ROWS));
	must(fth_table_writer_commit(writer));
	fth_table_writer_close(writer);
}

/*
 * Column f again, with few values: the dictionary of the column is off, so the chunk has its own.
 */
static void append_local(void)
{
	static int64_t zeroes[ROWS];
	static struct fth_table_wide wides[ROWS];
	static uint32_t offsets[ROWS + 1];
	static char bytes[ROWS * 4];
	struct fth_table_vector v[COLUMNS];
	struct fth_table_writer *writer;

	for (uint32_t i = 0; i < ROWS; i++)
		offsets[i + 1] = offsets[i] + (uint32_t)sprintf(bytes + offsets[i], "%u", i % 20);
	for (unsigned c = 0; c < COLUMNS; c++)
		v[c] = c == 3  ? (struct fth_table_vector){.values = wides}
		       : c < 3 ? (struct fth_table_vector){.values = zeroes}
			       : (struct fth_table_vector){.offsets = offsets, .bytes = bytes};
	must(fth_table_writer_open(db, "t", NULL, &writer));
	must(fth_table_writer_append(writer, v, ROWS));
	must(fth_table_writer_commit(writer));
	fth_table_writer_close(writer);
}

/* The group of a column that is changed: the second one where the dictionary is local. */
static uint32_t group_of(uint32_t column)
{
	return column == 5;
}

static void make_table(void)
{
	char path[] = "/tmp/fuzz-table-XXXXXX", command[64];
	struct fth_table_schema schema;

	if (!mkdtemp(path))
		abort();
	must(fth_table_db_open(path, 0, &db));
	must(fth_table_schema_parse(&schema, columns));
	must(fth_table_create(db, "t", &schema));
	append();
	append_local();
	must(fth_table_open(db, "t", NULL, &table));
	for (uint32_t c = 0; c < COLUMNS; c++) {
		struct fth_table_page page;
		void *image;

		must(fth_table_page_read(&page, table, c, group_of(c), &image));
		if (page.chunk->encoding != FTH_TABLE_PACKED + c)
			abort();
		images[c] = malloc(page.chunk->bytes);
		memcpy(images[c], image, page.chunk->bytes);
		fth_table_page_free(table, c, group_of(c), image);
	}
	/* The files are open or not needed any more. */
	snprintf(command, sizeof(command), "rm -rf %s", path);
	if (system(command) != 0)
		abort();
	fth_table_schema_release(&schema);
}

static void decode_strings(const struct fth_table_page *page, const unsigned char *image)
{
	static uint32_t numbers[ROWS + 1];
	struct fth_table_strings s;
	struct fth_table_block block;
	volatile char sink = 0;

	if (fth_table_page_codes(page, 0, page->rows, numbers, 4) == 0) {
		fth_table_page_dictionary(page, &s);
		if (!s.count)
			fth_table_dictionary(page->table, page->column, &s);
		for (uint32_t i = 0; i < page->rows; i++)
			for (uint32_t k = s.offsets[numbers[i]]; k < s.offsets[numbers[i] + 1]; k++)
				sink ^= s.bytes[k];
	}
	for (uint32_t b = 0; b < fth_table_page_block_count(page); b++) {
		char *text;

		must(fth_table_page_block(page, b, &block));
		if (fth_table_page_block_of(page, block.first) != b || block.text > 64 << 20)
			continue;
		text = malloc(block.text + 1);
		if (fth_table_page_unpack(page, b, image + block.at, text, numbers) == 0)
			for (uint32_t i = 0; i < block.rows; i++)
				for (uint32_t k = numbers[i]; k < numbers[i + 1]; k++)
					sink ^= text[k];
		free(text);
	}
}

static void decode_everything(const struct fth_table_page *page, const unsigned char *image)
{
	static uint64_t bits[ROWS / 64 + 1];
	static int64_t values[ROWS];
	static struct fth_table_wide wides[ROWS];

	must(fth_table_page_nulls(page, 1, page->rows, bits));
	if (fth_table_page_ints(page, 0, page->rows, values, 8) == 0)
		for (uint32_t i = 0; i < page->rows; i += 7)
			if (fth_table_page_int_at(page, i) != values[i])
				abort();
	fth_table_page_ints(page, 1000, 1030, values, 4);
	fth_table_page_wides(page, 0, page->rows, wides);
	decode_strings(page, image);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const struct fth_table_chunk *chunk;
	struct fth_table_page page;
	struct chunk_header header;
	unsigned char *image;
	uint32_t column;

	if (!table)
		make_table();
	if (size < 1)
		return 0;
	column = data[0] % COLUMNS;
	chunk = fth_table_chunk(table, column, group_of(column));
	image = malloc(chunk->bytes);
	memcpy(image, images[column], chunk->bytes);
	for (size_t i = 1; i + 3 <= size; i += 3)
		image[(data[i] | data[i + 1] << 8) % chunk->bytes] = data[i + 2];
	memcpy(&header, image, sizeof(header));
	header.checksum = fth_checksum(image + 8, chunk->head - 8,
				       chunk_seed(table->manifest.id, column, chunk->offset));
	memcpy(image, &header, sizeof(header));
	if (fth_table_page_open(&page, table, column, group_of(column), image) == 0)
		decode_everything(&page, image);
	free(image);
	return 0;
}
