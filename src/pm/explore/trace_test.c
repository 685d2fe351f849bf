/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The explorer itself: it makes exactly the states that the model allows, and finds a fence or
 * flush that is missing.
 */
#include "pm/explore/trace.h"
#include "fth_test.h"
#include "pm/explore/explore.h"

#include "fathom/detail/pm/view.h"

#include <stdbool.h>
#include <string.h>

#define WORDS 8u

static struct fth_pm_control control;

static struct fth_pm_view view_of(void *memory)
{
	return (struct fth_pm_view){.base = memory, .size = 4096, .control = &control};
}

/* Each word of a state as a decimal digit, in a set. */
static unsigned states_at(const struct pm_trace *trace, unsigned moment, uint64_t limit, bool *set)
{
	struct pm_states states;
	uint64_t memory[WORDS];
	unsigned n = 0;

	memset(set, 0, 1000 * sizeof(*set));
	assert_int_equal(pm_states_begin(&states, trace, moment, limit, 1), 0);
	for (; pm_states_next(&states, memory); n++)
		set[memory[0] * 100 + memory[1] * 10 + memory[2]] = true;
	pm_states_end(&states);
	return n;
}

static void states_follow_the_model(void **unused)
{
	static bool set[1000];
	uint64_t memory[WORDS] = {0};
	struct fth_pm_view v = view_of(memory);
	struct pm_trace *trace = pm_trace_begin(memory, sizeof(memory));

	(void)unused;
	fth_pm_put64(&v, &memory[0], 1);
	fth_pm_put64(&v, &memory[0], 2);
	fth_pm_put64(&v, &memory[1], 3);
	fth_pm_flush_range(&v, &memory[0], 8);
	fth_pm_put64(&v, &memory[0], 4); /* behind the flush */
	fth_pm_fence(&v);
	fth_pm_put64(&v, &memory[2], 5);
	fth_pm_fence(&v); /* without a flush */
	fth_pm_flush_range(&v, memory, sizeof(memory));
	fth_pm_fence(&v);
	pm_trace_pause(trace);

	assert_int_equal(pm_trace_moments(trace), 4);
	assert_int_equal(states_at(trace, 0, 1000, set), 8); /* {0,1,2,4} x {0,3} */
	assert_true(set[0] && set[100] && set[200] && set[400] && set[30] && set[430]);
	assert_int_equal(states_at(trace, 1, 1000, set), 8); /* {2,4} x {0,3} x {0,5} */
	assert_true(set[200] && set[435] && !set[100] && !set[0]);
	assert_int_equal(states_at(trace, 2, 1000, set), 8);
	assert_int_equal(states_at(trace, 3, 1000, set), 1);
	assert_true(set[435]);
	/* Sampled: both extremes are there. */
	assert_int_equal(states_at(trace, 1, 3, set), 3);
	assert_true(set[200] && set[435]);
	pm_trace_free(trace);
}

/* ---- faults that it has to find ---- */

static bool leave_out_fence, leave_out_flush, in_recovery;

/* A value and, after it, a word that says that it is there. */
static void publish(void *memory)
{
	uint64_t *word = memory;
	struct fth_pm_view v = view_of(memory);

	for (uint64_t i = 1; i < 5; i++) {
		fth_pm_put64(&v, &word[i], i + 100);
		if (!leave_out_flush)
			fth_pm_flush_range(&v, &word[i], 8);
		if (!leave_out_fence)
			fth_pm_fence(&v);
		fth_pm_put64(&v, &word[0], i);
		fth_pm_persist_range(&v, &word[0], 8);
		explore_note(i);
	}
}

/* Copies word 0 to word 8 by way of word 9; wrong if it is interrupted, when in_recovery is set. */
static int copy_over(void *memory)
{
	uint64_t *word = memory;
	struct fth_pm_view v = view_of(memory);

	if (in_recovery && word[9] == 0) {
		fth_pm_put64(&v, &word[9], 1);
		fth_pm_persist_range(&v, &word[9], 8);
		fth_pm_put64(&v, &word[8], word[0]);
		fth_pm_persist_range(&v, &word[8], 8);
	}
	return 0;
}

static const char *is_published(void *memory, uint64_t note)
{
	const uint64_t *word = memory;

	if (word[0] < note)
		return "an acknowledged value is lost";
	for (uint64_t i = 1; i <= word[0]; i++)
		if (word[i] != i + 100)
			return "a value is announced and not there";
	if (in_recovery && word[8] != word[0])
		return "the copy is not there";
	return NULL;
}

static const struct explore subject = {.name = "publish",
				       .bytes = 4096,
				       .run = publish,
				       .recover = copy_over,
				       .check = is_published,
				       .states = 100,
				       .recovery_states = 100,
				       .recovery_every = 1,
				       .long_factor = 1};

static void faults_are_found(void **unused)
{
	char text[256];

	(void)unused;
	explore_try(&subject, text, sizeof(text));
	assert_string_equal(text, "");
	leave_out_fence = true;
	explore_try(&subject, text, sizeof(text));
	assert_non_null(strstr(text, "announced and not there"));
	leave_out_fence = false;
	leave_out_flush = true;
	explore_try(&subject, text, sizeof(text));
	assert_non_null(strstr(text, "announced and not there"));
	leave_out_flush = false;
	in_recovery = true;
	explore_try(&subject, text, sizeof(text));
	assert_non_null(strstr(text, "crash in the recovery"));
	in_recovery = false;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(states_follow_the_model),
		cmocka_unit_test(faults_are_found),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
