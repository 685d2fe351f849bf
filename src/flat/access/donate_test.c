/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Pages that are donated: exactly those that were asked for, with their contents; or none, and all
 * go on as before.
 */
#include "flat/flat_internal.h"
#include "fth_test.h"

#include "fathom/dev/fault.h"
#include "fathom/flat.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

#define PAGE   4096u
#define PAGES  512u
#define BUDGET (64u * PAGE)
#define FIRST  100u
#define END    110u
#define BAD    (END - 1) /* the last one: all before it have been copied when its read fails */

/* cmocka installs handlers for each test, after the library's. */
static void on_fault(int sig, siginfo_t *info, void *context)
{
	if (!fth_flat_fault(sig, info, context))
		signal(sig, SIG_DFL);
}

static struct fth_flat *open_region(struct fth_dev *dev)
{
	struct sigaction action = {.sa_sigaction = on_fault, .sa_flags = SA_SIGINFO | SA_NODEFER};
	struct fth_flat_options options = FTH_FLAT_OPTIONS_INIT;
	struct fth_flat *flat;

	options.policy = FTH_FLAT_NEVER;
	options.foreground = true; /* pages move only when the test wants it */
	assert_ok(fth_flat_open_dev(dev, BUDGET, &options, &flat));
	sigaction(SIGBUS, &action, NULL);
	sigaction(SIGSEGV, &action, NULL);
	return flat;
}

static uint8_t *make_memory(void)
{
	void *at = mmap(NULL, (END - FIRST) * PAGE, PROT_READ | PROT_WRITE,
			MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	assert_true(at != MAP_FAILED);
	return at;
}

/*
 * Each page has its number in its first byte; pages before, in and behind the range are in all
 * states, and BAD is on flash.
 */
static void scatter_states(struct fth_flat *flat)
{
	uint8_t *at = fth_flat_base(flat);

	for (unsigned page = 0; page < PAGES; page++) {
		uint8_t byte = (uint8_t)page;

		assert_ok(fth_flat_store(flat, at + page * PAGE, &byte, 1));
	}
	assert_ok(fth_flat_advise(flat, at, (uint64_t)PAGES * PAGE, FTH_FLAT_COLD));
	for (unsigned page = FIRST - 5; page < END + 5; page++) {
		uint8_t *here = at + page * PAGE, byte = (uint8_t)(page + 1);

		if (page % 5 < 2) /* DRAM */
			assert_ok(fth_flat_advise(flat, here, PAGE, FTH_FLAT_HOT));
		else if (page % 5 == 2) /* the SSD-cache */
			assert_ok(fth_flat_advise(flat, here, PAGE, FTH_FLAT_WILL_NEED));
		else if (page % 5 == 3)
			discard_pages(flat, page, page + 1);
		if (page % 5 == 0) /* changed */
			assert_ok(fth_flat_store(flat, here + 1, &byte, 1));
	}
	assert_int_equal(word_state(&flat->words[BAD]), WORD_FLASH);
	assert_int_equal(word_state(&flat->words[END]), WORD_DRAM);
	assert_int_equal(word_state(&flat->words[FIRST - 1]), WORD_FLASH);
	assert_int_equal(word_state(&flat->words[FIRST]), WORD_DRAM);
}

static uint8_t first_byte(unsigned page)
{
	bool discarded = page >= FIRST - 5 && page < END + 5 && page % 5 == 3;

	return discarded ? 0 : (uint8_t)page;
}

static uint8_t second_byte(unsigned page)
{
	return page >= FIRST - 5 && page < END + 5 && page % 5 == 0 ? (uint8_t)(page + 1) : 0;
}

/* Read and changed by the program itself. */
static void check_and_store(struct fth_flat *flat, unsigned first, unsigned end)
{
	volatile uint8_t *at = fth_flat_base(flat);

	for (unsigned page = first; page < end; page++) {
		assert_int_equal(at[page * PAGE], first_byte(page));
		assert_int_equal(at[page * PAGE + 1], second_byte(page));
		at[page * PAGE + 2] = 77;
	}
}

static void check_device(struct fth_dev *dev, unsigned first, unsigned end)
{
	static uint8_t bytes[PAGE];

	for (unsigned page = first; page < end; page++) {
		assert_ok(fth_dev_read(dev, bytes, PAGE, (uint64_t)page * PAGE, FTH_DEV_TIMEOUT));
		assert_int_equal(bytes[0], first_byte(page));
		assert_int_equal(bytes[1], second_byte(page));
		assert_int_equal(bytes[2], 77);
	}
}

static void exactly_the_pages_asked_for_are_lent(void **unused)
{
	uint32_t before[PAGES];
	struct fth_flat *flat;
	struct fth_dev *dev;
	uint64_t dram, cached;
	uint8_t *memory;

	(void)unused;
	assert_ok(fth_dev_open("mem:2M", &dev));
	flat = open_region(dev);
	memory = make_memory();
	scatter_states(flat);
	memcpy(before, flat->words, sizeof(before));
	dram = fth_flat_stat(flat, FTH_FLAT_STAT_PAGES_DRAM);
	cached = fth_flat_stat(flat, FTH_FLAT_STAT_PAGES_CACHED);
	assert_ok(donate_pages(flat, FIRST, END, true, memory));
	for (unsigned page = 0; page < PAGES; page++) {
		assert_int_equal(word_is_donated(&flat->words[page]), page >= FIRST && page < END);
		if (page < FIRST || page >= END)
			assert_int_equal(flat->words[page], before[page]);
	}
	assert_int_equal(fth_flat_stat(flat, FTH_FLAT_STAT_PAGES_DRAM), dram - 4);
	assert_int_equal(fth_flat_stat(flat, FTH_FLAT_STAT_PAGES_CACHED), cached - 2);
	check_and_store(flat, 0, PAGES);
	assert_ok(donate_end(flat, FIRST, END));
	for (unsigned page = 0; page < PAGES; page++) {
		volatile uint8_t *at = (uint8_t *)fth_flat_base(flat) + page * PAGE;
		bool was_lent = page >= FIRST && page < END;

		assert_false(word_is_donated(&flat->words[page]));
		assert_int_equal(at[0], was_lent ? 0 : first_byte(page));
		assert_int_equal(at[2], was_lent ? 0 : 77);
	}
	assert_ok(fth_flat_close(flat));
	check_device(dev, 0, FIRST);
	check_device(dev, END, PAGES);
	fth_dev_close(dev);
}

/*
 * A page of the range cannot be read. Stores to those that were copied before it have been stopped,
 * and go on.
 */
static void pages_that_cannot_be_lent_are_what_they_were(void **unused)
{
	uint32_t before[PAGES];
	struct fth_flat *flat;
	struct fth_dev *dev;
	uint8_t *memory;
	char uri[80];

	(void)unused;
	snprintf(uri, sizeof(uri), "fault(mem:2M)?kind=read&from=%u&to=%u&rate=1", BAD * PAGE,
		 END * PAGE);
	assert_ok(fth_dev_open(uri, &dev));
	assert_ok(fth_dev_fault_disarm(dev));
	flat = open_region(dev);
	memory = make_memory();
	scatter_states(flat);
	memcpy(before, flat->words, sizeof(before));
	assert_ok(fth_dev_fault_arm(dev));
	assert_int_equal(donate_pages(flat, FIRST, END, true, memory), -EIO);
	assert_ok(fth_dev_fault_disarm(dev));
	assert_memory_equal(flat->words, before, sizeof(before));
	memory[0] = 1; /* it is where it was */
	check_and_store(flat, 0, PAGES);
	assert_ok(fth_flat_close(flat));
	check_device(dev, 0, PAGES);
	fth_dev_close(dev);
	munmap(memory, (END - FIRST) * PAGE);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(exactly_the_pages_asked_for_are_lent),
		cmocka_unit_test(pages_that_cannot_be_lent_are_what_they_were),
	};
	struct fth_flat *flat;
	int rc = fth_flat_open("mem:2M", BUDGET, NULL, &flat);

	if (rc == -ENOTSUP) {
		printf("skipped: %s\n", fth_error_text(rc));
		return 77;
	}
	fth_flat_discard(flat);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
