/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * kv_words URI WORD...: count the words of standard input in a key-value cache on flash, then say
 * how often each WORD has occurred, in this text and in all before it.
 *
 *	cc kv_words.c $(pkg-config --cflags --libs fathom) -o kv_words
 *	./kv_words 'file:/tmp/words?create=on&size=64M' the and < README.md
 *
 * Shows a cache inside a program, without a server: counters that survive, and many operations in
 * flight. Which of the operations for one word comes first does not matter, as long as none is
 * lost.
 */
#include <fathom/base.h>
#include <fathom/hd/wait.h>
#include <fathom/kv.h>

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define DEPTH	 64
#define WORD_MAX 100

/* A word on its way into the cache. */
struct task {
	struct fth_kv_op op;
	char word[WORD_MAX + 1];
};

struct counter {
	struct fth_kv_worker *worker;
	struct task tasks[DEPTH];
	struct task *idle[DEPTH];
	unsigned idle_count;
};

static int submit(struct counter *c, struct task *task, enum fth_kv_verb verb);

/*
 * An increment found no item: then one is added with the value 1. Another task was faster with
 * that: then there is one to increment.
 */
static int go_on(struct counter *c, struct task *task)
{
	int result = task->op.result;

	fth_kv_release(c->worker, &task->op);
	if (task->op.verb == FTH_KV_INCREMENT && result == -ENOENT)
		return submit(c, task, FTH_KV_ADD);
	if (task->op.verb == FTH_KV_ADD && result == -EEXIST)
		return submit(c, task, FTH_KV_INCREMENT);
	c->idle[c->idle_count++] = task;
	return result;
}

static int submit(struct counter *c, struct task *task, enum fth_kv_verb verb)
{
	int rc;

	memset(&task->op, 0, sizeof(task->op));
	task->op.verb = verb;
	task->op.key = task->word;
	task->op.key_length = (uint32_t)strlen(task->word);
	task->op.value = "1";
	task->op.value_length = 1;
	task->op.delta = 1;
	rc = fth_kv_submit(c->worker, &task->op);
	return rc == 1 ? go_on(c, task) : rc;
}

/* Wait until so many tasks are idle. */
static int wait_idle(struct counter *c, unsigned count)
{
	struct fth_kv_op *done[DEPTH];
	int rc = 0;

	while (rc == 0 && c->idle_count < count) {
		int n = fth_kv_reap(c->worker, done, DEPTH, 1, FTH_NEVER);

		rc = n < 0 ? n : 0;
		for (int i = 0; i < n && rc == 0; i++)
			rc = go_on(c, (struct task *)done[i]); /* its first member */
	}
	return rc;
}

static int count_words(struct counter *c)
{
	struct task *task;
	int rc = 0;

	for (unsigned i = 0; i < DEPTH; i++)
		c->idle[c->idle_count++] = &c->tasks[i];
	for (;;) {
		rc = wait_idle(c, 1);
		if (rc < 0)
			return rc;
		task = c->idle[c->idle_count - 1];
		if (scanf("%100s", task->word) != 1)
			break;
		c->idle_count--;
		rc = submit(c, task, FTH_KV_INCREMENT);
		if (rc < 0)
			return rc;
	}
	return wait_idle(c, DEPTH);
}

static int tell(struct counter *c, char **words)
{
	for (; *words; words++) {
		struct fth_kv_op op = {
			.verb = FTH_KV_GET, .key = *words, .key_length = (uint32_t)strlen(*words)};
		int rc = fth_kv_do(c->worker, &op, FTH_NEVER);

		if (rc < 0 && rc != -ENOENT)
			return rc;
		printf("%s %.*s\n", *words, rc == 0 ? (int)op.length : 1,
		       rc == 0 ? (const char *)op.data : "0");
		fth_kv_release(c->worker, &op);
	}
	return 0;
}

int main(int argc, char **argv)
{
	struct fth_kv_options options = FTH_KV_OPTIONS_INIT;
	struct counter *c = calloc(1, sizeof(*c));
	struct fth_kv *kv = NULL;
	int rc, end;

	if (argc < 2 || !c) {
		fprintf(stderr, "usage: kv_words URI WORD... < TEXT\n");
		free(c);
		return 2;
	}
	options.flash = argv[1];
	options.memory = 8 << 20;
	options.persistence = FTH_KV_WRITE_BACK;
	rc = fth_kv_open(&options, &kv);
	if (rc == 0)
		rc = fth_kv_worker_open(kv, &c->worker);
	if (rc == 0)
		rc = count_words(c);
	if (rc == 0)
		rc = tell(c, argv + 2);
	if (rc < 0)
		fprintf(stderr, "kv_words: %s\n", fth_error_text(rc));
	fth_kv_worker_close(c->worker);
	end = kv ? fth_kv_close(kv) : 0; /* everything is durable then */
	if (end < 0)
		fprintf(stderr, "kv_words: closing: %s\n", fth_error_text(end));
	free(c);
	return rc < 0 || end < 0;
}
