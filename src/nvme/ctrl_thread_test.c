/* SPDX-License-Identifier: BSD-2-Clause */
/* The controller with workers of its own, and hosts on several threads. */
#include "fth_test.h"

#include "nvme/ctrl_fixture.h"

#include "fathom/base/rng.h"
#include "fathom/hd/wait.h"

#include <pthread.h>
#include <string.h>

#define HOSTS	 4u
#define ENTRIES	 16u
#define REGION	 64u /* blocks that belong to one host */
#define BLOCK	 512u
#define COMMANDS 3000u
#define WAIT_NS	 20000000000ull

static void write_then_read(struct host *host, uint16_t qid, char *page, uint64_t block)
{
	struct fth_nvme_sqe sqe = host_rw(FTH_NVME_WRITE, block, 8, host_iova(host, page), 0);

	memset(page, (int)block, HOST_PAGE);
	assert_int_equal(host_run(host, qid, &sqe, NULL), FTH_NVME_SUCCESS);
	memset(page, 0xee, HOST_PAGE);
	sqe = host_rw(FTH_NVME_READ, block, 8, host_iova(host, page), 0);
	assert_int_equal(host_run(host, qid, &sqe, NULL), FTH_NVME_SUCCESS);
	for (unsigned i = 0; i < HOST_PAGE; i++)
		assert_int_equal((uint8_t)page[i], (uint8_t)block);
}

static void one_host_reads_what_it_wrote(void **state)
{
	struct fth_nvme_sqe flush = {.opcode = FTH_NVME_FLUSH, .nsid = 1};
	struct fth_dev *dev;
	struct host host;
	char *page;

	(void)state;
	assert_ok(fth_dev_open("mem:1M", &dev));
	host_open(&host, dev, NULL);
	host_enable(&host, 16);
	assert_int_equal(host_create_cq(&host, 1, 16), FTH_NVME_SUCCESS);
	assert_int_equal(host_create_sq(&host, 1, 1, 16), FTH_NVME_SUCCESS);
	page = host_pages(&host, 1);
	for (uint64_t i = 0; i < 50; i++)
		write_then_read(&host, 1, page, i * 8);
	assert_int_equal(host_run(&host, 1, &flush, NULL), FTH_NVME_SUCCESS);
	host_down(&host);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(one_host_reads_what_it_wrote),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
