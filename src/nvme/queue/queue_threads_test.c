/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The queue pair under many threads: every answer must be the one to the question asked, with a
 * controller that answers out of order, holds answers back past the deadline, and is taken away
 * and brought back in the middle.
 */
#include "queue_fixture.h"

#include "fathom/base/rng.h"

#include <errno.h>
#include <pthread.h>

#define HELD_MAX 64

/*
 * Clients and controller take turns by sched_yield(), and beside busy processes each turn can take
 * tens of milliseconds. So a run ends after all rounds, or after this time if every client has had
 * its least number of rounds.
 */
#define RUN_NS	   2000000000u
#define ROUNDS_MIN 20u
#define PATIENCE   600000000000u

struct run {
	struct fake fake;
	uint32_t calm;	  /* the disturber may go home */
	uint32_t stop;	  /* and then the controller */
	uint32_t pause;	  /* the controller shall stand still */
	uint32_t paused;  /* and does */
	uint32_t wrong;	  /* answers to another question */
	uint32_t late;	  /* -ETIME seen */
	uint32_t cancels; /* -ECANCELED seen */
	uint32_t rounds;  /* per thread */
	uint32_t hold;	  /* one answer in this many is held back; 0: none */
	uint64_t patience;
	uint64_t enough; /* the time at which the least number of rounds will do */
};

static uint32_t answer_to(uint32_t question)
{
	return (uint32_t)fth_mix64(question);
}

struct held {
	uint16_t cid;
	uint32_t question;
};

/* Fetch all there is, answer in random order, and keep some for later. */
static void controller_step(struct run *run, struct held *held, unsigned *n, struct fth_rng *rng)
{
	const struct fth_nvme_sqe *command;
	bool keep;

	while (*n < HELD_MAX && (command = fake_fetch(&run->fake)) != NULL)
		held[(*n)++] = (struct held){command->cid, command->cdw10};
	keep = run->hold && fth_rng_below(rng, run->hold) == 0;
	while (*n > (keep ? 1u : 0u) && !fake_cq_full(&run->fake)) {
		unsigned pick = (unsigned)fth_rng_below(rng, *n);

		fake_post(&run->fake, held[pick].cid, 0, answer_to(held[pick].question));
		held[pick] = held[--*n];
	}
	if (keep && *n)
		sched_yield();
}

static void *controller(void *arg)
{
	struct run *run = arg;
	struct held held[HELD_MAX];
	struct fth_rng rng = {1};
	unsigned n = 0;

	while (!fth_load_acquire_dev32(&run->stop)) {
		if (fth_load_acquire_dev32(&run->pause)) {
			n = 0; /* what it knew is forgotten */
			fth_store_release_dev32(&run->paused, 1);
			sched_yield();
			continue;
		}
		fth_store_release_dev32(&run->paused, 0);
		controller_step(run, held, &n, &rng);
		sched_yield();
	}
	return NULL;
}

static void *client(void *arg)
{
	struct run *run = arg;
	static uint32_t names;
	uint32_t me = fth_add_relaxed_dev32(&names, 1);

	for (uint32_t i = 0; i < run->rounds; i++) {
		if (i >= ROUNDS_MIN && fth_now_ns() > run->enough)
			break;
		struct fth_nvme_sqe command = {.opcode = FTH_NVME_READ, .cdw10 = me << 20 | i};
		struct fth_nvme_done done = {0, 0};
		int rc = fth_nvme_qp_exec(&run->fake.qp, &command, me,
					  fth_deadline_ns(run->patience), &done, NULL);

		if (rc == -ETIME)
			fth_add_relaxed_dev32(&run->late, 1);
		else if (rc == -ECANCELED) {
			fth_add_relaxed_dev32(&run->cancels, 1);
			i--; /* ask again */
			sched_yield();
		} else if (rc != 0 || done.result != answer_to(command.cdw10))
			fth_add_relaxed_dev32(&run->wrong, 1);
	}
	return NULL;
}

/* Take the controller away, end every wait, start anew; then let it run a little. */
static void *disturber(void *arg)
{
	struct run *run = arg;

	while (!fth_load_acquire_dev32(&run->calm)) {
		fth_store_release_dev32(&run->pause, 1);
		while (!fth_load_acquire_dev32(&run->paused))
			sched_yield();
		fth_nvme_qp_cancel(&run->fake.qp, ECANCELED);
		while (fth_nvme_qp_reset(&run->fake.qp) == -EBUSY)
			sched_yield();
		fake_disable(&run->fake);
		fth_nvme_qp_resume(&run->fake.qp);
		fth_store_release_dev32(&run->pause, 0);
		while (fth_load_acquire_dev32(&run->paused))
			sched_yield();
		for (unsigned i = 0; i < 200; i++)
			sched_yield();
	}
	return NULL;
}

static void run_threads(struct run *run, uint32_t shift, unsigned threads, bool disturb)
{
	pthread_t clients[16], ctrl, chaos;

	fake_open(&run->fake, shift, 0);
	run->enough = fth_deadline_ns(RUN_NS);
	pthread_create(&ctrl, NULL, controller, run);
	for (unsigned i = 0; i < threads; i++)
		pthread_create(&clients[i], NULL, client, run);
	if (disturb)
		pthread_create(&chaos, NULL, disturber, run);
	for (unsigned i = 0; i < threads; i++)
		pthread_join(clients[i], NULL);
	fth_store_release_dev32(&run->calm, 1);
	if (disturb)
		pthread_join(chaos, NULL);
	fth_store_release_dev32(&run->stop, 1);
	pthread_join(ctrl, NULL);
	assert_int_equal(run->wrong, 0);
	fake_close(&run->fake);
}

static void every_answer_finds_its_question(void **state)
{
	(void)state;
	for (uint32_t shift = 1; shift <= 6; shift++) {
		struct run run = {.rounds = 3000, .patience = PATIENCE};

		run_threads(&run, shift, 8, false);
		assert_int_equal(run.late + run.cancels, 0);
	}
}

static void late_answers_go_to_nobody(void **state)
{
	uint32_t late = 0;

	(void)state;
	for (uint32_t shift = 2; shift <= 5; shift++) {
		struct run run = {.rounds = 2000, .patience = 100000, .hold = 5};

		run_threads(&run, shift, 6, false);
		late += run.late;
	}
	assert_true(late > 0);
}

static void reset_in_the_middle_loses_nobody(void **state)
{
	uint32_t cancels = 0;

	(void)state;
	for (uint32_t shift = 1; shift <= 5; shift++) {
		struct run run = {.rounds = 3000, .patience = PATIENCE};

		run_threads(&run, shift, 6, true);
		assert_int_equal(run.late, 0);
		cancels += run.cancels;
	}
	assert_true(cancels > 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_answer_finds_its_question),
		cmocka_unit_test(late_answers_go_to_nobody),
		cmocka_unit_test(reset_in_the_middle_loses_nobody),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
