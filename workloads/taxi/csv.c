/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The CSV files of the New York City Taxi and Limousine Commission, a character at a time, so that
 * input may be cut anywhere. Quoting is that of RFC 4180.
 *
 * 1. field, length, quoted belong to the field being read; fields counts those before it on its
 *    line.
 * 2. target[f] says to which of our columns field f is added. It is set by the first line that is
 *    not blank; known_fields is 0 until then.
 * 3. trip holds the sums of the present line so far, and is clean when a line begins.
 */
#include "workloads/taxi/taxi.h"
#include "fathom/base/error.h"

#include <ctype.h>
#include <errno.h>
#include <locale.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define FIELD_MAX  64	/* longer ones hold no number and name no column of ours */
#define FIELDS_MAX 1024 /* of a line */
#define NO_TARGET  (-1)

enum state {
	BEFORE_FIELD,
	IN_FIELD,
	IN_QUOTES,
	AFTER_QUOTE, /* a quote in quotes: the end of them, or half of a doubled one */
};

struct fth_taxi_csv {
	struct fth_taxi_csv_options options;
	fth_taxi_trip_fn fn;
	void *context;
	locale_t locale; /* numbers have a point, whatever the user's language */
	enum state state;
	char field[FIELD_MAX];
	unsigned length; /* of the field; more than fits is counted, not kept */
	bool quoted;
	unsigned fields;
	unsigned known_fields;
	int8_t target[FIELDS_MAX];
	uint32_t seen; /* which of the names have come */
	struct fth_taxi_trip trip;
	bool bad; /* lenient, and this line is to be skipped */
	struct fth_taxi_csv_counts counts;
};

/* Published names, in small letters, over the years and for yellow and green cabs. */
static const struct {
	const char *name;
	enum fth_taxi_column column;
} names[] = {
	{"trip_distance", FTH_TAXI_DISTANCE},
	{"total_amount", FTH_TAXI_TOTAL},
	{"total_amt", FTH_TAXI_TOTAL},
	{"extra", FTH_TAXI_SURCHARGES},
	{"surcharge", FTH_TAXI_SURCHARGES},
	{"improvement_surcharge", FTH_TAXI_SURCHARGES},
	{"congestion_surcharge", FTH_TAXI_SURCHARGES},
	{"cbd_congestion_fee", FTH_TAXI_SURCHARGES},
	{"airport_fee", FTH_TAXI_SURCHARGES},
	{"ehail_fee", FTH_TAXI_HAIL_FEE},
	{"tolls_amount", FTH_TAXI_TOLLS},
	{"tolls_amt", FTH_TAXI_TOLLS},
	{"mta_tax", FTH_TAXI_TAXES},
};
#define NAMES (sizeof(names) / sizeof(names[0]))

static unsigned long long line_number(const struct fth_taxi_csv *csv)
{
	return (unsigned long long)csv->counts.lines + 1;
}

/* ---- fields ---- */

/* The field without blanks around it, ended by 0; NULL if it was too long to keep. */
static char *trimmed(struct fth_taxi_csv *csv)
{
	char *text = csv->field;
	unsigned length = csv->length;

	if (length >= FIELD_MAX)
		return NULL;
	while (length && isspace((unsigned char)text[length - 1]))
		length--;
	text[length] = '\0';
	while (isspace((unsigned char)*text))
		text++;
	return text;
}

static int take_name(struct fth_taxi_csv *csv)
{
	char *text = trimmed(csv);
	int8_t *target = &csv->target[csv->fields];

	*target = NO_TARGET;
	/* A byte order mark may come before the very first name. */
	if (text && csv->fields == 0 && strncmp(text, "\xef\xbb\xbf", 3) == 0)
		text += 3;
	for (unsigned i = 0; i < NAMES && text; i++) {
		if (strcasecmp(text, names[i].name) != 0)
			continue;
		if (csv->seen & 1u << i)
			return fth_fail(EINVAL, "line %llu: duplicate column %s", line_number(csv),
					names[i].name);
		csv->seen |= 1u << i;
		*target = (int8_t)names[i].column;
	}
	return 0;
}

static bool is_number(struct fth_taxi_csv *csv, const char *text, double *value)
{
	char *end;

	/* strtod() also takes words and hexadecimal digits, which are mistakes here. */
	if (text[strspn(text, "+-.0123456789eE")] != '\0')
		return false;
	*value = strtod_l(text, &end, csv->locale);
	return end != text && *end == '\0' && isfinite(*value);
}

static int take_value(struct fth_taxi_csv *csv)
{
	int column = csv->fields < csv->known_fields ? csv->target[csv->fields] : NO_TARGET;
	char *text;
	double value;

	if (column == NO_TARGET)
		return 0;
	text = trimmed(csv);
	if (text && *text == '\0') {
		csv->counts.empty++;
		return 0;
	}
	if (text && is_number(csv, text, &value)) {
		csv->trip.column[column] += value;
		return 0;
	}
	csv->bad = true;
	if (csv->options.lenient)
		return 0;
	return fth_fail(EINVAL, "line %llu, field %u (%s): \"%.*s\" is not a number",
			line_number(csv), csv->fields + 1, fth_taxi_column_name(column), 40,
			text ? text : csv->field);
}

static int end_field(struct fth_taxi_csv *csv)
{
	int rc;

	if (csv->fields == FIELDS_MAX)
		return fth_fail(EINVAL, "line %llu: more than %d fields", line_number(csv),
				FIELDS_MAX);
	rc = csv->known_fields ? take_value(csv) : take_name(csv);
	csv->fields++;
	csv->length = 0;
	csv->quoted = false;
	csv->state = BEFORE_FIELD;
	return rc;
}

/* ---- lines ---- */

static int end_names(struct fth_taxi_csv *csv)
{
	unsigned have = 0;

	for (unsigned i = 0; i < NAMES; i++)
		if (csv->seen & 1u << i)
			have |= 1u << names[i].column;
	for (unsigned c = FTH_TAXI_DISTANCE; c <= FTH_TAXI_TOTAL; c++)
		if (!(have & 1u << c))
			return fth_fail(EINVAL, "line %llu: column %s is missing", line_number(csv),
					c == FTH_TAXI_DISTANCE ? "trip_distance" : "total_amount");
	csv->counts.absent = ~have & ((1u << FTH_TAXI_COLUMNS) - 1);
	csv->known_fields = csv->fields;
	return 0;
}

static void count_missing(struct fth_taxi_csv *csv)
{
	if (csv->fields < csv->known_fields)
		csv->counts.short_lines++;
	if (csv->fields > csv->known_fields)
		csv->counts.long_lines++;
	for (unsigned f = csv->fields; f < csv->known_fields; f++)
		if (csv->target[f] != NO_TARGET)
			csv->counts.empty++;
}

static int end_trip(struct fth_taxi_csv *csv)
{
	count_missing(csv);
	if (csv->bad) {
		csv->counts.skipped++;
		return 0;
	}
	csv->counts.trips++;
	return csv->fn(csv->context, &csv->trip);
}

/* Old files have a blank line behind the first. */
static bool is_blank(struct fth_taxi_csv *csv)
{
	return csv->fields == 0 && csv->length == 0 && !csv->quoted;
}

static int end_line(struct fth_taxi_csv *csv)
{
	int rc = 0;

	if (!is_blank(csv)) {
		bool first = !csv->known_fields;

		rc = end_field(csv);
		if (rc == 0)
			rc = first ? end_names(csv) : end_trip(csv);
	}
	csv->counts.lines++;
	csv->fields = 0;
	csv->bad = false;
	csv->state = BEFORE_FIELD;
	memset(&csv->trip, 0, sizeof(csv->trip));
	return rc;
}

/* ---- characters ---- */

static void keep(struct fth_taxi_csv *csv, char c)
{
	if (csv->length < FIELD_MAX - 1)
		csv->field[csv->length] = c;
	if (csv->length < FIELD_MAX)
		csv->length++;
}

static int take_quoted(struct fth_taxi_csv *csv, char c)
{
	if (c == '"')
		csv->state = AFTER_QUOTE;
	else
		keep(csv, c);
	/* The line's number is for messages; one inside quotes counts too. */
	if (c == '\n')
		csv->counts.lines++;
	return 0;
}

static int take_plain(struct fth_taxi_csv *csv, char c)
{
	if (c == ',')
		return end_field(csv);
	if (c == '\n')
		return end_line(csv);
	if (c == '\r')
		return 0;
	if (c == '"' && csv->state == BEFORE_FIELD) {
		csv->state = IN_QUOTES;
		csv->quoted = true;
		return 0;
	}
	if (c == '"' && csv->state == AFTER_QUOTE) {
		csv->state = IN_QUOTES;
		keep(csv, c);
		return 0;
	}
	if (csv->state == AFTER_QUOTE && c != ' ' && c != '\t')
		return fth_fail(EINVAL,
				"line %llu, field %u: unexpected text after the closing quote",
				line_number(csv), csv->fields + 1);
	if (csv->state == BEFORE_FIELD)
		csv->state = IN_FIELD;
	keep(csv, c);
	return 0;
}

int fth_taxi_csv_feed(struct fth_taxi_csv *csv, const char *text, size_t length)
{
	int rc = 0;

	for (size_t i = 0; i < length && rc == 0; i++)
		rc = csv->state == IN_QUOTES ? take_quoted(csv, text[i]) : take_plain(csv, text[i]);
	return rc < 0 ? rc : 0;
}

int fth_taxi_csv_finish(struct fth_taxi_csv *csv)
{
	int rc = 0;

	if (csv->state == IN_QUOTES)
		return fth_fail(EINVAL, "line %llu: unexpected end of file inside quotes",
				line_number(csv));
	if (!is_blank(csv))
		rc = end_line(csv);
	if (rc == 0 && !csv->known_fields)
		rc = fth_fail(EINVAL,
			      "the file is empty: expected a header line with column names");
	return rc < 0 ? rc : 0;
}

/* ---- the object ---- */

int fth_taxi_csv_open(const struct fth_taxi_csv_options *options, fth_taxi_trip_fn fn,
		      void *context, struct fth_taxi_csv **out)
{
	struct fth_taxi_csv *csv = calloc(1, sizeof(*csv));

	*out = NULL;
	if (!csv)
		return -ENOMEM;
	csv->locale = newlocale(LC_ALL_MASK, "C", (locale_t)0);
	if (!csv->locale) {
		free(csv);
		return -ENOMEM;
	}
	if (options)
		csv->options = *options;
	csv->fn = fn;
	csv->context = context;
	*out = csv;
	return 0;
}

void fth_taxi_csv_counts(const struct fth_taxi_csv *csv, struct fth_taxi_csv_counts *out)
{
	*out = csv->counts;
}

void fth_taxi_csv_close(struct fth_taxi_csv *csv)
{
	if (!csv)
		return;
	freelocale(csv->locale);
	free(csv);
}
