/* SPDX-License-Identifier: BSD-2-Clause */
/* Reading and writing of device URIs; the grammar is in the header. */
#include "fathom/base/uri.h"

#include "fathom/base/error.h"

#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

static int hex_digit(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	c = (char)tolower((unsigned char)c);
	return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* Copy [text, text + len) with %XX decoded. */
static int decode(const char *text, size_t len, char **out)
{
	char *copy = malloc(len + 1);
	size_t n = 0;

	if (!copy)
		return -ENOMEM;
	for (size_t i = 0; i < len; i++) {
		int high, low;

		if (text[i] != '%') {
			copy[n++] = text[i];
			continue;
		}
		high = i + 2 < len ? hex_digit(text[i + 1]) : -1;
		low = i + 2 < len ? hex_digit(text[i + 2]) : -1;
		if (high < 0 || low < 0 || (high == 0 && low == 0)) {
			free(copy);
			return fth_fail(EINVAL, "bad %%XX escape at \"%.*s\"", (int)(len - i),
					text + i);
		}
		copy[n++] = (char)(high << 4 | low);
		i += 2;
	}
	copy[n] = '\0';
	*out = copy;
	return 0;
}

int fth_uri_escape(const char *text, char *to, size_t size)
{
	static const char digits[] = "0123456789ABCDEF";
	size_t n = 0;

	for (const char *at = text; *at; at++) {
		unsigned char c = (unsigned char)*at;

		if (n + 4 > size)
			return fth_fail(ENAMETOOLONG, "%s: the URI is too long", text);
		if (iscntrl(c) || strchr("%?&()", c)) {
			to[n++] = '%';
			to[n++] = digits[c >> 4];
			to[n++] = digits[c & 15];
		} else {
			to[n++] = *at;
		}
	}
	to[n] = '\0';
	return 0;
}

/* The characters of the scheme that text begins with; 0 if it begins with none. */
static size_t scheme_length(const char *text)
{
	size_t n = 0;

	while (isalnum((unsigned char)text[n]) || text[n] == '-' || text[n] == '_')
		n++;
	return text[n] == ':' || text[n] == '(' ? n : 0;
}

static int parse_scheme(struct fth_uri *uri, const char *text, const char **rest)
{
	size_t n = scheme_length(text);

	if (n == 0)
		return fth_fail(EINVAL,
				"\"%s\" is not a device: expected a path, SCHEME:PATH or "
				"WRAPPER(DEVICE)",
				text);
	if (n >= sizeof(uri->scheme))
		return fth_fail(EINVAL, "scheme \"%.*s\" is too long", (int)n, text);
	memcpy(uri->scheme, text, n);
	uri->scheme[n] = '\0';
	*rest = text + n;
	return 0;
}

/* text is at "("; copy what is inside to uri->inner and move *rest behind the matching ")". */
static int parse_inner(struct fth_uri *uri, const char *text, const char **rest)
{
	const char *p = text;
	unsigned depth = 0;

	do {
		if (*p == '(' && ++depth > FTH_URI_NESTING_MAX)
			return fth_fail(EINVAL, "wrappers are nested deeper than %d",
					FTH_URI_NESTING_MAX);
		if (*p == ')')
			depth--;
		if (*p == '\0')
			return fth_fail(EINVAL, "\"(\" without \")\" in \"%s\"", text);
		p++;
	} while (depth > 0);
	uri->inner = strndup(text + 1, (size_t)(p - text) - 2);
	if (!uri->inner)
		return -ENOMEM;
	if (*p != '\0' && *p != '?')
		return fth_fail(EINVAL, "unexpected \"%s\" after \")\"", p);
	*rest = p;
	return 0;
}

static int add_option(struct fth_uri *uri, const char *text, size_t len)
{
	const char *equals = memchr(text, '=', len);
	struct fth_uri_option *option;
	int rc;

	if (!equals || equals == text)
		return fth_fail(EINVAL, "option \"%.*s\" is not KEY=VALUE", (int)len, text);
	if (uri->option_count == FTH_URI_OPTIONS_MAX)
		return fth_fail(EINVAL, "more than %d options", FTH_URI_OPTIONS_MAX);
	option = &uri->options[uri->option_count];
	option->key = strndup(text, (size_t)(equals - text));
	if (!option->key)
		return -ENOMEM;
	for (unsigned i = 0; i < uri->option_count; i++) {
		if (strcmp(uri->options[i].key, option->key) == 0) {
			rc = fth_fail(EINVAL, "option \"%s\" is given twice", option->key);
			free(option->key);
			option->key = NULL;
			return rc;
		}
	}
	rc = decode(equals + 1, len - (size_t)(equals + 1 - text), &option->value);
	if (rc < 0) {
		free(option->key);
		option->key = NULL;
		return rc;
	}
	uri->option_count++;
	return 0;
}

static int parse_options(struct fth_uri *uri, const char *text)
{
	while (*text) {
		size_t len = strcspn(text, "&");
		int rc = add_option(uri, text, len);

		if (rc < 0)
			return rc;
		text += len;
		if (*text == '&')
			text++;
	}
	return 0;
}

/* A path without a scheme is that of a file. "" is refused as well: strchr() finds the zero. */
static bool is_plain_path(const char *text)
{
	return scheme_length(text) == 0 && !strchr(":(?", text[0]);
}

/* Copy the path up to the options, and move *rest there. */
static int parse_path(struct fth_uri *uri, const char *text, const char **rest)
{
	size_t len = strcspn(text, "?");

	*rest = text + len;
	return decode(text, len, &uri->path);
}

static int parse(struct fth_uri *uri, const char *text)
{
	const char *rest = text;
	int rc;

	if (is_plain_path(text)) {
		strcpy(uri->scheme, "file");
		rc = parse_path(uri, text, &rest);
	} else {
		rc = parse_scheme(uri, text, &rest);
		if (rc == 0)
			rc = *rest == '(' ? parse_inner(uri, rest, &rest)
					  : parse_path(uri, rest + 1, &rest);
	}
	if (rc < 0)
		return rc;
	return *rest == '?' ? parse_options(uri, rest + 1) : 0;
}

int fth_uri_parse(struct fth_uri *uri, const char *text)
{
	int rc;

	memset(uri, 0, sizeof(*uri));
	rc = parse(uri, text);
	if (rc < 0)
		fth_uri_release(uri);
	return rc;
}

void fth_uri_release(struct fth_uri *uri)
{
	for (unsigned i = 0; i < uri->option_count; i++) {
		free(uri->options[i].key);
		free(uri->options[i].value);
	}
	free(uri->path);
	free(uri->inner);
	memset(uri, 0, sizeof(*uri));
}

int fth_uri_take_string(struct fth_uri *uri, const char *key, const char **out)
{
	for (unsigned i = 0; i < uri->option_count; i++) {
		if (strcmp(uri->options[i].key, key) != 0)
			continue;
		uri->options[i].taken = true;
		*out = uri->options[i].value;
		return 1;
	}
	return 0;
}

/* ---- numbers ---- */

#define FRACTION_DIGITS 9
#define FRACTION_ONE	UINT64_C(1000000000)

/* Whole digits, decimal or 0x and hexadecimal. */
static int take_digits(const char **text, uint64_t *out)
{
	bool hex = (*text)[0] == '0' && ((*text)[1] == 'x' || (*text)[1] == 'X');
	char *end;

	if (!isdigit((unsigned char)(*text)[0]))
		return -EINVAL;
	errno = 0;
	*out = strtoull(*text, &end, hex ? 16 : 10);
	*text = end;
	return errno ? -EINVAL : 0;
}

/* ".5" in units of 1 / FRACTION_ONE; 0 if there is none. */
static int take_fraction(const char **text, uint64_t *out)
{
	const char *at = *text;
	unsigned digits = 0;

	*out = 0;
	if (*at != '.')
		return 0;
	for (at++; isdigit((unsigned char)*at) && digits < FRACTION_DIGITS; at++, digits++)
		*out = *out * 10 + (unsigned)(*at - '0');
	if (digits == 0)
		return -EINVAL;
	for (; digits < FRACTION_DIGITS; digits++)
		*out *= 10;
	*text = at;
	return 0;
}

/* K and KiB are 1024, KB is 1000, and so on up to P. Nothing and B are 1. */
static int take_unit(const char *text, uint64_t *out)
{
	static const char letters[] = "KMGTP";
	const char *letter = *text ? strchr(letters, toupper((unsigned char)*text)) : NULL;
	unsigned power = letter ? (unsigned)(letter - letters) + 1 : 0;
	bool decimal;

	text += power > 0;
	decimal = power > 0 && strcasecmp(text, "B") == 0;
	if (*text && strcasecmp(text, "B") != 0 && (!power || strcasecmp(text, "iB") != 0))
		return -EINVAL;
	for (*out = 1; power > 0; power--)
		*out *= decimal ? 1000 : 1024;
	return 0;
}

int fth_parse_u64(const char *text, uint64_t *out)
{
	return take_digits(&text, out) < 0 || *text ? -EINVAL : 0;
}

int fth_parse_size(const char *text, uint64_t *out)
{
	uint64_t whole, fraction, unit, part;

	if (take_digits(&text, &whole) < 0 || take_fraction(&text, &fraction) < 0 ||
	    take_unit(text, &unit) < 0)
		return -EINVAL;
	if (fraction && unit == 1)
		return -EINVAL;
	/* fraction * unit / FRACTION_ONE, rounded down, where the product may not fit. */
	part = fraction * (unit / FRACTION_ONE) + fraction * (unit % FRACTION_ONE) / FRACTION_ONE;
	if (whole > (UINT64_MAX - part) / unit)
		return -EINVAL;
	*out = whole * unit + part;
	return 0;
}

static int take_number(struct fth_uri *uri, const char *key, uint64_t min, uint64_t max,
		       uint64_t *out, int (*parse_value)(const char *, uint64_t *))
{
	const char *text;
	uint64_t value;

	if (!fth_uri_take_string(uri, key, &text))
		return 0;
	if (parse_value(text, &value) < 0)
		return fth_fail(EINVAL, "option %s=%s is not a %s", key, text,
				parse_value == fth_parse_size ? "size" : "number");
	if (value < min || value > max)
		return fth_fail(EINVAL, "option %s=%s is outside %llu to %llu", key, text,
				(unsigned long long)min, (unsigned long long)max);
	*out = value;
	return 1;
}

int fth_uri_take_u64(struct fth_uri *uri, const char *key, uint64_t min, uint64_t max,
		     uint64_t *out)
{
	return take_number(uri, key, min, max, out, fth_parse_u64);
}

int fth_uri_take_size(struct fth_uri *uri, const char *key, uint64_t min, uint64_t max,
		      uint64_t *out)
{
	return take_number(uri, key, min, max, out, fth_parse_size);
}

int fth_uri_take_double(struct fth_uri *uri, const char *key, double min, double max, double *out)
{
	const char *text;
	char *end;
	double value;

	if (!fth_uri_take_string(uri, key, &text))
		return 0;
	errno = 0;
	value = strtod(text, &end);
	if (errno || end == text || *end)
		return fth_fail(EINVAL, "option %s=%s is not a number", key, text);
	/* Written so that NaN fails as well. */
	if (!(value >= min && value <= max))
		return fth_fail(EINVAL, "option %s=%s is outside %g to %g", key, text, min, max);
	*out = value;
	return 1;
}

int fth_uri_take_bool(struct fth_uri *uri, const char *key, bool *out)
{
	static const char *const yes[] = {"on", "yes", "true", "1"};
	static const char *const no[] = {"off", "no", "false", "0"};
	const char *text;

	if (!fth_uri_take_string(uri, key, &text))
		return 0;
	for (unsigned i = 0; i < 4; i++) {
		if (strcmp(text, yes[i]) == 0 || strcmp(text, no[i]) == 0) {
			*out = strcmp(text, yes[i]) == 0;
			return 1;
		}
	}
	return fth_fail(EINVAL, "option %s=%s is neither on nor off", key, text);
}

int fth_uri_finish(const struct fth_uri *uri)
{
	for (unsigned i = 0; i < uri->option_count; i++)
		if (!uri->options[i].taken)
			return fth_fail(EINVAL, "%s has no option \"%s\"", uri->scheme,
					uri->options[i].key);
	return 0;
}
