/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Device URIs: any text is parsed or refused with a reason; what was parsed holds together; and
 * what fth_dev_open() makes of it, it can close again. Seeds: a URI each.
 */
#include "fathom/base/error.h"
#include "fathom/base/uri.h"
#include "fathom/dev.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(bool condition, const char *what)
{
	if (!condition) {
		fprintf(stderr, "not so: %s\n", what);
		abort();
	}
}

static void take_options(struct fth_uri *uri)
{
	const char *text = "";
	uint64_t number = 0;
	double real = 0;
	bool flag = false;

	(void)fth_uri_take_string(uri, "s", &text);
	require(text != NULL, "a string option is there");
	if (fth_uri_take_u64(uri, "n", 3, 9, &number) == 1)
		require(number >= 3 && number <= 9, "a number is in its range");
	if (fth_uri_take_size(uri, "block", 512, 65536, &number) == 1)
		require(number >= 512 && number <= 65536, "a size is in its range");
	if (fth_uri_take_double(uri, "rate", 0, 1, &real) == 1)
		require(real >= 0 && real <= 1, "a fraction is in its range");
	(void)fth_uri_take_bool(uri, "direct", &flag);
	if (fth_uri_finish(uri) < 0)
		require(fth_error_text(-22)[0] != '\0', "a reason is given");
}

static void check_parse(const char *text)
{
	struct fth_uri uri;
	int rc = fth_uri_parse(&uri, text);

	if (rc < 0) {
		require(fth_error_text(rc)[0] != '\0', "a reason is given");
		return;
	}
	require((uri.path != NULL) != (uri.inner != NULL), "either a leaf or a wrapper");
	require(uri.option_count <= FTH_URI_OPTIONS_MAX, "not too many options");
	require(strlen(uri.scheme) > 0 && strlen(uri.scheme) < FTH_URI_SCHEME_MAX, "a scheme");
	for (unsigned i = 0; i < uri.option_count; i++)
		require(uri.options[i].key && uri.options[i].value, "key and value");
	if (uri.inner)
		check_parse(uri.inner);
	take_options(&uri);
	fth_uri_release(&uri);
}

/* Only memory: an input shall not open the files of who runs this. */
static void check_open(const char *text)
{
	struct fth_dev *dev = NULL;
	int rc;

	if (strncmp(text, "mem:", 4) != 0)
		return;
	rc = fth_dev_open(text, &dev);
	require((rc == 0) == (dev != NULL), "a device, or an error");
	if (rc == 0) {
		const struct fth_dev_info *info = fth_dev_info(dev);

		require(info->size > 0 && info->block > 0 && info->size % info->block == 0,
			"whole blocks");
		require(strcmp(fth_dev_uri(dev), text) == 0, "its name is kept");
	}
	fth_dev_close(dev);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char *text = malloc(size + 1);

	if (!text)
		return 0;
	memcpy(text, data, size);
	text[size] = '\0';
	check_parse(text);
	check_open(text);
	free(text);
	return 0;
}
