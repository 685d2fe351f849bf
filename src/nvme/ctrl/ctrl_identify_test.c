/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The identify pages of the software controller, byte for byte. The offsets are those of the tables
 * in NVMe 1.4, 5.15, written out: so the structures of spec.h are checked as well.
 */
#include "fth_test.h"

#include "nvme/ctrl/test/ctrl_fixture.h"

#include <stdio.h>
#include <string.h>

static struct host host;
static unsigned char expected[4096];

static const unsigned char *identify(uint8_t cns, uint32_t nsid)
{
	unsigned char *page = host_pages(&host, 1);
	struct fth_nvme_sqe sqe = {.opcode = FTH_NVME_IDENTIFY,
				   .nsid = nsid,
				   .prp1 = host_iova(&host, page),
				   .cdw10 = cns};

	memset(page, 0xa5, 4096);
	assert_int_equal(host_run(&host, 0, &sqe, NULL), FTH_NVME_SUCCESS);
	memset(expected, 0, sizeof(expected));
	return page;
}

/* A little-endian number of `bytes` bytes. */
static void put(unsigned at, unsigned bytes, uint64_t value)
{
	for (unsigned i = 0; i < bytes; i++)
		expected[at + i] = (unsigned char)(value >> 8 * i);
}

static void put_text(unsigned at, unsigned bytes, const char *text)
{
	memset(expected + at, ' ', bytes);
	memcpy(expected + at, text, strlen(text));
}

static void compare(const unsigned char *page)
{
	for (unsigned i = 0; i < 4096; i++)
		if (page[i] != expected[i])
			fail_msg("byte %u is 0x%02x, expected 0x%02x", i, page[i], expected[i]);
}

static void the_controller(void **state)
{
	const unsigned char *page;

	(void)state;
	host_up(&host, "mem:1M", 16);
	page = identify(FTH_NVME_CNS_CONTROLLER, 0);
	put_text(4, 20, "FATHOM-SOFT");			     /* SN */
	put_text(24, 40, "Fathom software NVMe controller"); /* MN */
	put_text(64, 8, "1.0");				     /* FR */
	put(77, 1, 8);					     /* MDTS */
	put(80, 4, 0x10400);				     /* VER */
	put(111, 1, 1);					     /* CNTRLTYPE: I/O controller */
	put(258, 1, 3);					     /* ACL: 4 aborts */
	put(259, 1, 3);					     /* AERL: 4 event requests */
	put(260, 1, 3);					     /* FRMW: one slot, read only */
	put(261, 1, 4);					     /* LPA: extended data */
	put(262, 1, 15);				     /* ELPE: 16 entries */
	put(266, 2, 343);				     /* WCTEMP */
	put(268, 2, 353);				     /* CCTEMP */
	put(280, 8, 1u << 20);				     /* TNVMCAP */
	put(512, 1, 0x66);				     /* SQES */
	put(513, 1, 0x44);				     /* CQES */
	put(516, 4, 1);					     /* NN */
	put(520, 2, 0x1d); /* ONCS: compare, dataset management, write zeroes, select */
	put(525, 1, 7);	   /* VWC: there is one; flush of all namespaces */
	/* AWUN 526 and AWUPF 528: one block, 0's based. SUBNQN has a random part. */
	memcpy(expected + 768, page + 768, 256);
	compare(page);
	host_down(&host);
}

static void the_namespace(void **state)
{
	const unsigned char *page;

	(void)state;
	host_up(&host, "mem:1M?block=4096", 16);
	page = identify(FTH_NVME_CNS_NAMESPACE, 1);
	put(0, 8, 256);	       /* NSZE */
	put(8, 8, 256);	       /* NCAP */
	put(16, 8, 256);       /* NUSE */
	put(48, 8, 1u << 20);  /* NVMCAP */
	put(128, 4, 12 << 16); /* LBAF0: LBADS, no metadata */
	compare(page);
	host_down(&host);
}

static void the_lists(void **state)
{
	const unsigned char *page, *ids, *controller;
	char name[33] = "";
	unsigned at = 0;

	(void)state;
	host_up(&host, "mem:1M", 16);
	page = identify(FTH_NVME_CNS_ACTIVE_NAMESPACES, 0);
	put(0, 4, 1);
	compare(page);
	page = identify(FTH_NVME_CNS_ACTIVE_NAMESPACES, 1);
	compare(page);
	/* The identifier is the UUID that the subsystem's name has. */
	ids = identify(FTH_NVME_CNS_NAMESPACE_IDS, 1);
	put(0, 1, 3);  /* NIDT: UUID */
	put(1, 1, 16); /* NIDL */
	memcpy(expected + 4, ids + 4, 16);
	compare(ids);
	controller = identify(FTH_NVME_CNS_CONTROLLER, 0);
	assert_memory_equal(controller + 768, "nqn.2014-08.org.nvmexpress:uuid:", 32);
	for (const unsigned char *c = controller + 768 + 32; *c; c++)
		if (*c != '-')
			name[at++] = (char)*c;
	assert_int_equal(at, 32);
	for (unsigned i = 0; i < 16; i++) {
		char hex[3];

		snprintf(hex, sizeof(hex), "%02x", ids[4 + i]);
		assert_memory_equal(hex, name + 2 * i, 2);
	}
	host_down(&host);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_controller),
		cmocka_unit_test(the_namespace),
		cmocka_unit_test(the_lists),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
