/* SPDX-License-Identifier: BSD-2-Clause */
/* What the driver takes from identify pages: every field that it looks at, and their limits. */
#include "fth_test.h"

#include "nvme/driver.h"

#include <errno.h>
#include <string.h>

/* Raw pages, by the offsets of NVMe 1.4: so the structures of spec.h are checked as well. */
static union {
	unsigned char bytes[4096];
	struct fth_nvme_id_ctrl id;
} ctrl;
static union {
	unsigned char bytes[4096];
	struct fth_nvme_id_ns id;
} ns;
static struct fth_nvme_info info;

static void put(unsigned char *page, unsigned at, unsigned bytes, uint64_t value)
{
	for (unsigned i = 0; i < bytes; i++)
		page[at + i] = (unsigned char)(value >> 8 * i);
}

/* A small good drive: 4 KiB blocks in the third of three formats. */
static void good(void)
{
	memset(&ctrl, 0, sizeof(ctrl));
	memset(&ns, 0, sizeof(ns));
	memset(ctrl.bytes + 4, ' ', 20 + 40 + 8);
	memcpy(ctrl.bytes + 4, "SN-1", 4);
	memcpy(ctrl.bytes + 24, "A Model", 7);
	memcpy(ctrl.bytes + 64, "FW1", 3);
	ctrl.bytes[77] = 5;		/* MDTS */
	ctrl.bytes[512] = 0x66;		/* SQES */
	ctrl.bytes[513] = 0x44;		/* CQES */
	put(ns.bytes, 0, 8, 1000);	/* NSZE */
	ns.bytes[25] = 2;		/* NLBAF: three */
	ns.bytes[26] = 2;		/* FLBAS */
	ns.bytes[128 + 2 * 4 + 2] = 12; /* LBAF2.LBADS */
}

static int parse(void)
{
	memset(&info, 0xff, sizeof(info));
	return fth_nvme_parse_identify(&ctrl.id, &ns.id, &info);
}

/* Change one byte of a good page and parse. */
static int with(unsigned char *page, unsigned at, unsigned value)
{
	unsigned char was = page[at];
	int rc;

	page[at] = (unsigned char)value;
	rc = parse();
	page[at] = was;
	return rc;
}

static void texts(void **state)
{
	(void)state;
	good();
	assert_ok(parse());
	assert_string_equal(info.serial, "SN-1");
	assert_string_equal(info.model, "A Model");
	assert_string_equal(info.firmware, "FW1");
	/* Without padding, with characters that a terminal would act on, with zeroes for spaces. */
	memset(ctrl.bytes + 4, 's', 20);
	memset(ctrl.bytes + 24, 'm', 40);
	memset(ctrl.bytes + 64, 'f', 8);
	ctrl.bytes[4] = 0x1f;
	ctrl.bytes[5] = ' ';
	ctrl.bytes[6] = '~';
	ctrl.bytes[7] = 0x7f;
	ctrl.bytes[8] = 0xff;
	ctrl.bytes[23] = 0;
	ctrl.bytes[22] = ' ';
	assert_ok(parse());
	assert_string_equal(info.serial, "? ~??sssssssssssss");
	assert_int_equal(strlen(info.model), 40);
	assert_int_equal(strlen(info.firmware), 8);
	memset(ctrl.bytes + 4, ' ', 20);
	assert_ok(parse());
	assert_string_equal(info.serial, "");
}

static void entry_sizes(void **state)
{
	static const struct {
		unsigned sqes, cqes;
		int rc;
	} cases[] = {
		{0x66, 0x44, 0},	   {0x76, 0x44, 0},	      {0xf0, 0xf0, 0},
		{0x65, 0x43, 0},	   {0x67, 0x44, -EOPNOTSUPP}, {0x56, 0x44, -EOPNOTSUPP},
		{0x66, 0x45, -EOPNOTSUPP}, {0x66, 0x34, -EOPNOTSUPP}, {0, 0, -EOPNOTSUPP},
	};

	(void)state;
	for (unsigned i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		good();
		ctrl.bytes[512] = (unsigned char)cases[i].sqes;
		ctrl.bytes[513] = (unsigned char)cases[i].cqes;
		if (parse() != cases[i].rc)
			fail_msg("SQES 0x%x, CQES 0x%x", cases[i].sqes, cases[i].cqes);
	}
}

static void transfers(void **state)
{
	(void)state;
	good();
	for (unsigned mdts = 0; mdts < 256; mdts++) {
		uint64_t most = 2u << 20; /* one page of PRP entries */

		assert_ok(with(ctrl.bytes, 77, mdts));
		if (mdts >= 1 && mdts <= 8)
			most = 4096u << mdts;
		assert_int_equal(info.max_transfer, most);
	}
	/* Blocks as large as a command carries, and larger. */
	ns.bytes[128 + 2 * 4 + 2] = 16;
	assert_ok(with(ctrl.bytes, 77, 4));
	assert_int_equal(with(ctrl.bytes, 77, 3), -EOPNOTSUPP);
}

static void formats(void **state)
{
	(void)state;
	good();
	assert_ok(parse());
	assert_int_equal(info.lba_shift, 12);
	assert_int_equal(info.blocks, 1000);
	assert_int_equal(with(ns.bytes, 26, 3), -EINVAL); /* of formats 0 to 2 */
	assert_int_equal(with(ns.bytes, 25, 1), -EINVAL);
	assert_ok(with(ns.bytes, 26, 0xf2)); /* the upper half says nothing about the number */
	for (unsigned shift = 0; shift < 256; shift++)
		assert_int_equal(with(ns.bytes, 128 + 2 * 4 + 2, shift),
				 shift >= 9 && shift <= 16 ? 0 : -EOPNOTSUPP);
	/* Relative performance, which lies beside it, is not looked at; metadata is. */
	assert_ok(with(ns.bytes, 128 + 2 * 4 + 3, 3));
	assert_int_equal(with(ns.bytes, 128 + 2 * 4, 8), -EOPNOTSUPP);
	assert_int_equal(with(ns.bytes, 128 + 2 * 4 + 1, 1), -EOPNOTSUPP);
	assert_ok(with(ns.bytes, 128, 8)); /* of another format */
	for (unsigned type = 1; type < 8; type++)
		assert_int_equal(with(ns.bytes, 29, type), -EOPNOTSUPP); /* DPS: protection */
	assert_ok(with(ns.bytes, 29, 8));				 /* where it would lie */
}

static void sizes(void **state)
{
	(void)state;
	good();
	put(ns.bytes, 0, 8, 0);
	assert_int_equal(parse(), -ENODEV);
	put(ns.bytes, 0, 8, 1);
	assert_ok(parse());
	assert_int_equal(info.blocks, 1);
	put(ns.bytes, 0, 8, UINT64_MAX >> 12);
	assert_ok(parse());
	assert_int_equal(info.blocks, UINT64_MAX >> 12);
	put(ns.bytes, 0, 8, (UINT64_MAX >> 12) + 1);
	assert_int_equal(parse(), -EINVAL);
}

static void abilities(void **state)
{
	(void)state;
	good();
	assert_ok(parse());
	assert_false(info.write_cache || info.has_discard || info.has_write_zeroes);
	for (unsigned bit = 0; bit < 8; bit++) {
		assert_ok(with(ctrl.bytes, 520, 1u << bit)); /* ONCS */
		assert_int_equal(info.has_discard, bit == 2);
		assert_int_equal(info.has_write_zeroes, bit == 3);
		assert_false(info.write_cache);
		assert_ok(with(ctrl.bytes, 525, 1u << bit)); /* VWC */
		assert_int_equal(info.write_cache, bit == 0);
		assert_false(info.has_discard || info.has_write_zeroes);
	}
	/* What the caller fills in is not left as it was. */
	assert_int_equal(info.nsid, 0);
	assert_int_equal(info.queues, 0);
	assert_int_equal(info.ids, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(texts),     cmocka_unit_test(entry_sizes),
		cmocka_unit_test(transfers), cmocka_unit_test(formats),
		cmocka_unit_test(sizes),     cmocka_unit_test(abilities),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
