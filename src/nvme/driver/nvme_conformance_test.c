/* SPDX-License-Identifier: BSD-2-Clause */
/* The NVMe device keeps the promises of every device, in every shape and under every wrapper. */
#include "fth_test.h"

#include "dev/testkit/dev_conformance.h"

static const char *const stacks[] = {
	"softnvme(mem:1M)",
	"softnvme(mem:1M)?queues=1&depth=2",
	"softnvme(mem:1M)?queues=1&depth=4&mdts=1",
	"softnvme(mem:1M)?queues=4&depth=64&threads=2",
	"softnvme(mem:1M)?lba=4096&mdts=2",
	"softnvme(mem:1M?block=4096)",
	"softnvme(mem:1M?block=1)",
	"softnvme(delay(mem:1M)?read_us=20&write_us=10&jitter=0.9)",
	"softnvme(crash(mem:1M))",
	"crash(softnvme(mem:1M))",
	"fault(delay(softnvme(mem:1M)?queues=1)?read_us=3)",
	"softnvme(softnvme(mem:1M)?queues=1)?queues=1&depth=8",
};

static void every_stack_keeps_the_promises(void **state)
{
	struct fth_conformance_options options = FTH_CONFORMANCE_DEFAULTS;

	(void)state;
	options.operations = 1500;
	for (unsigned i = 0; i < sizeof(stacks) / sizeof(stacks[0]); i++) {
		int rc = fth_dev_conformance(stacks[i], &options);

		if (rc < 0)
			fail_msg("%s: %s", stacks[i], fth_error_text(rc));
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_stack_keeps_the_promises),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
