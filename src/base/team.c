/* SPDX-License-Identifier: BSD-2-Clause */
#include "team.h"

#include "fathom/base/error.h"

#include <errno.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>

struct member {
	fth_team_fn fn;
	void *context;
	unsigned number;
	pthread_t thread;
	bool started;
	int rc;
	char error[FTH_ERROR_TEXT_MAX]; /* texts belong to threads; this one ends before it is read
					 */
};

static void *work(void *arg)
{
	struct member *member = arg;

	fth_error_clear();
	member->rc = member->fn(member->context, member->number);
	if (member->rc < 0)
		snprintf(member->error, sizeof(member->error), "%s", fth_error_text(member->rc));
	return NULL;
}

static int start(struct member *member)
{
	int rc = -pthread_create(&member->thread, NULL, work, member);

	member->started = rc == 0;
	return rc < 0 ? fth_fail(-rc, "cannot start a thread") : 0;
}

/* Ends when the members' functions return. */
static int join(struct member *members, unsigned threads, int rc)
{
	for (unsigned i = 1; i < threads; i++)
		if (members[i].started)
			pthread_join(members[i].thread, NULL);
	for (unsigned i = 0; i < threads && rc == 0; i++)
		if (members[i].rc < 0)
			rc = fth_fail(-members[i].rc, "%s", members[i].error);
	return rc;
}

int fth_team_run(unsigned threads, fth_team_fn fn, void *context)
{
	struct member *members;
	int rc = 0;

	if (threads == 0)
		threads = 1;
	members = calloc(threads, sizeof(*members));
	if (!members)
		return -ENOMEM;
	for (unsigned i = 0; i < threads; i++)
		members[i] = (struct member){.fn = fn, .context = context, .number = i};
	for (unsigned i = 1; i < threads && rc == 0; i++)
		rc = start(&members[i]);
	if (rc == 0)
		work(&members[0]);
	rc = join(members, threads, rc);
	free(members);
	return rc;
}

void fth_team_part(uint64_t total, uint64_t unit, unsigned threads, unsigned thread,
		   uint64_t *first, uint64_t *end)
{
	uint64_t units = (total + unit - 1) / unit, share = units / threads, more = units % threads;

	*first = (share * thread + (thread < more ? thread : more)) * unit;
	*end = *first + (share + (thread < more)) * unit;
	if (*first > total)
		*first = total;
	if (*end > total)
		*end = total;
}
