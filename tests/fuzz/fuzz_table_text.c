/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A text to be loaded. The first byte picks the layout, the rest is the text, whose first line may
 * be a header. What is parsed is inside its types: writing it fails nowhere.
 */
#include "table/text/parse.h"
#include "table/write/writer.h"

#include "fathom/table.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const char columns[] =
	"a int not null, b decimal(9,2), c decimal(30,4), d date, e bool, f double, g char(5), "
	"h varchar";

/*
 * The first line names the columns of the others. Returns where they begin; at the end if it is
 * wrong.
 */
static char *take_header(struct parser *p, char *text, size_t length)
{
	uint32_t order[FTH_TABLE_COLUMNS_MAX], fields;
	size_t n = (size_t)((char *)memchr(text, '\n', length + 1) - text);
	int rc = text_parser_header(p, text, n, order, &fields);

	if (rc < 0 && (rc != -EINVAL || !p->error[0]))
		abort();
	if (rc < 0)
		return text + length;
	text_parser_fields(p, order, fields);
	return n < length ? text + n + 1 : text + length;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct fth_table_text csv = FTH_TABLE_TEXT_CSV, bar = FTH_TABLE_TEXT_BAR, *text;
	struct fth_table_schema schema;
	struct parser parser;
	size_t length, whole;
	char *copy, *from;
	int rc;

	if (size < 1)
		return 0;
	text = data[0] & 1 ? &csv : &bar;
	if (data[0] & 2)
		text->null = data[0] & 4 ? "NULL" : "";
	length = size - 1;
	copy = calloc(1, length + 1 + PARSE_PADDING);
	memcpy(copy, data + 1, length);
	whole = parse_whole(text, copy, length);
	if (whole > length)
		abort();
	/* As the loader cuts blocks: whole lines, or the rest of a file. */
	length = whole && data[0] & 8 ? whole - 1 : length;
	copy[length] = '\n';
	memset(copy + length + 1, 0, PARSE_PADDING);
	if (fth_table_schema_parse(&schema, columns) < 0 ||
	    text_parser_init(&parser, &schema, text) < 0)
		abort();
	from = data[0] & 16 ? take_header(&parser, copy, length) : copy;
	rc = text_parser_run(&parser, from, length - (size_t)(from - copy));
	if (rc == 0 && writer_check(&schema, parser.vector, parser.rows, 0) < 0)
		abort();
	if (rc < 0 && (rc != -EINVAL || !parser.error[0]))
		abort();
	text_parser_release(&parser);
	fth_table_schema_release(&schema);
	free(copy);
	return 0;
}
