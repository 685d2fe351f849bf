/* SPDX-License-Identifier: BSD-2-Clause */
/* An object is a device: it keeps all that fathom/dev.h promises, whatever its shape. */
#include "fth_test.h"

#include "dev/testkit/dev_conformance.h"
#include "dev/testkit/dev_narrow.h"

#include "fathom/dev/driver.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Each line: the device, how many of them, and the object's options. %s is a path. */
static const struct {
	const char *device;
	unsigned count;
	const char *options;
} entries[] = {
	{"mem:2M", 1, "unit=64K"},
	{"mem:2M", 2, "unit=512"},
	{"mem:2M", 3, "unit=4K"},
	{"mem:2M", 4, "unit=64K"},
	{"mem:2M?block=4096", 2, "unit=4K"},
	{"mem:2M?block=1", 2, "unit=1K"},
	{"mem:2M", 2, "unit=4K&replicas=2"},
	{"mem:2M", 3, "unit=512&replicas=2"},
	{"mem:2M", 3, "unit=8K&replicas=3"},
	{"mem:2M", 3, "unit=8K&replicas=2&width=1"},
	{"fault(mem:2M)", 2, "unit=4K&replicas=2"},
	{"delay(mem:2M)?read_us=20&write_us=30&jitter=2", 3, "unit=16K"},
	{"delay(mem:2M)?read_us=20&write_us=30&jitter=2", 2, "unit=16K&replicas=2"},
	{"crash(mem:2M)", 2, "unit=4K&replicas=2"},
	{"narrow(mem:2M)", 2, "unit=4K"},
	{"narrow(mem:2M)", 3, "unit=4K&replicas=3"},
	{"softnvme(mem:2M)", 2, "unit=4K"},
	{"file:%s", 2, "unit=4K"},
	{"file:%s?direct=off", 2, "unit=4K&replicas=2"},
	{"file:%s?engine=threads", 2, "unit=4K"},
	{"delay(file:%s?engine=threads&direct=off)?write_us=10", 3, "unit=4K&replicas=2"},
};

static char folder[] = "/tmp/fathom-vol-XXXXXX";

static void add_device(char *uri, size_t room, const char *device, unsigned i)
{
	const char *rest = strstr(device, "%s");
	size_t used = strlen(uri);
	char path[64];
	FILE *file;

	if (!rest) {
		snprintf(uri + used, room - used, "%s%s", i ? "," : "", device);
		return;
	}
	snprintf(path, sizeof(path), "%s/%u", folder, i);
	file = fopen(path, "w");
	assert_non_null(file);
	assert_int_equal(ftruncate(fileno(file), 2 << 20), 0);
	fclose(file);
	snprintf(uri + used, room - used, "%s%.*s%s%s", i ? "," : "", (int)(rest - device), device,
		 path, rest + 2);
}

static void run(unsigned which)
{
	struct fth_conformance_options options = {
		.bytes = 256 << 10, .operations = 600, .threads = 3, .seed = which + 1};
	char uri[1024] = "vol(";
	int rc;

	for (unsigned i = 0; i < entries[which].count; i++)
		add_device(uri, sizeof(uri), entries[which].device, i);
	snprintf(uri + strlen(uri), sizeof(uri) - strlen(uri),
		 ")?object=x&format=on&create=300000&%s", entries[which].options);
	rc = fth_dev_conformance(uri, &options);
	if (rc < 0)
		fail_msg("%s: %s", uri, fth_error_text(rc));
}

static void every_shape_of_object_conforms(void **state)
{
	(void)state;
	for (unsigned i = 0; i < sizeof(entries) / sizeof(entries[0]); i++)
		run(i);
}

static void wrappers_go_around_objects_and_volumes_inside_volumes(void **state)
{
	static const char *const uris[] = {
		"fault(vol(mem:1M,mem:1M)?object=x&format=on&create=256K)",
		"vol(vol(mem:2M,mem:2M)?object=y&format=on&create=1M,mem:1M)"
		"?object=x&format=on&create=256K&unit=4K&replicas=2",
	};
	struct fth_conformance_options options = {
		.bytes = 128 << 10, .operations = 300, .threads = 2, .seed = 1};

	(void)state;
	for (unsigned i = 0; i < 2; i++)
		assert_ok(fth_dev_conformance(uris[i], &options));
}

static int make_folder(void **state)
{
	(void)state;
	return mkdtemp(folder) ? 0 : -1;
}

static int remove_folder(void **state)
{
	char path[64];

	(void)state;
	for (unsigned i = 0; i < 4; i++) {
		snprintf(path, sizeof(path), "%s/%u", folder, i);
		unlink(path);
	}
	return rmdir(folder);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_shape_of_object_conforms),
		cmocka_unit_test(wrappers_go_around_objects_and_volumes_inside_volumes),
	};

	if (fth_dev_scheme_register(&fth_dev_scheme_narrow) < 0)
		return 1;
	return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
