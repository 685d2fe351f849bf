/* SPDX-License-Identifier: BSD-2-Clause */
/* Reading fio's JSON. */
#include "fth_test.h"

#include "fio.h"

#include <errno.h>

static const char typical[] =
	"{\n  \"fio version\" : \"fio-3.33\",\n  \"global options\" : {\"rw\" : \"read\"},\n"
	"  \"jobs\" : [\n    {\n      \"job options\" : {\"name\" : \"read\", \"rw\" : "
	"\"randread\"},\n"
	"      \"read\" : {\n        \"bw_bytes\" : 1, \"iops\" : 138241.5, \"iops_min\" : 7\n     "
	" },\n"
	"      \"write\" : {\"iops\":2048}\n    }\n  ]\n}\n";

static void the_right_number_is_found(void **state)
{
	double iops = 0;

	(void)state;
	assert_ok(fth_fio_parse(typical, false, &iops));
	assert_true(iops > 138241 && iops < 138242);
	assert_ok(fth_fio_parse(typical, true, &iops));
	assert_true(iops > 2047 && iops < 2049);
}

static void anything_else_is_an_error(void **state)
{
	static const char *const bad[] = {
		"",
		"fio: failed",
		"{\"jobs\":",
		"{\"jobs\":[{\"read\":",
		"{\"jobs\":[{\"read\":\"no\",\"iops\":1}]}",
		"{\"jobs\":[{\"read\":{\"iops\":",
		"{\"jobs\":[{\"read\":{\"iops\":\"x\"}}]}",
		"{\"jobs\":[{\"read\":{\"iops\":0}}]}",
		"{\"read\":{\"iops\":1}}",
	};
	double iops;

	(void)state;
	for (unsigned i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		if (fth_fio_parse(bad[i], false, &iops) != -EINVAL)
			fail_msg("\"%s\" was taken", bad[i]);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_right_number_is_found),
		cmocka_unit_test(anything_else_is_an_error),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
