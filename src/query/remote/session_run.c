/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A task set of a client: read, checked and run inside the daemon's budget; rows are sent as they
 * come.
 */
#include "query/remote/storaged.h"

#include "fathom/base/error.h"
#include "fathom/base/fd.h"
#include "fathom/hd/wait.h"
#include "query/remote/wire_batch.h"
#include "query/exec/exec.h"
#include "query/task/task_read.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#define TABLES_MAX  256u
#define ARENA_CHUNK (1u << 14)
#define ALIVE_MS    10000 /* a sign of life while nothing else is sent */

struct snapshot {
	char name[FTH_TABLE_NAME_MAX + 1];
	uint64_t version; /* that the client has planned with */
	struct fth_table *table;
};

struct run {
	struct session *session;
	struct fth_qmem *mem; /* of this set */
	struct fth_arena arena;
	const char *text;
	uint32_t length;
	unsigned threads;
	unsigned table_count;
	struct snapshot *tables;
	struct task_set set;
	struct exec_stats *stats;
	uint32_t failed;
	int rc, open_error;
	char error[FTH_ERROR_TEXT_MAX];
	int done; /* eventfd */
	pthread_t thread;
	pthread_mutex_t sending; /* one of the two threads sends a frame */
	int lost; /* under it: the connection is lost, perhaps in the middle of a frame */
};

/* ---- tables ---- */

static void *table_alloc(void *user, size_t bytes)
{
	return fth_qmem_alloc(user, bytes);
}

static void table_release(void *user, void *memory, size_t bytes)
{
	fth_qmem_free(user, memory, bytes);
}

/* Tables that the client did not name have no version to compare with, so there are none. */
static struct fth_table *open_table(void *self, const char *name)
{
	struct run *r = self;
	struct fth_table_memory memory = {table_alloc, table_release, r->mem};

	for (unsigned i = 0; i < r->table_count; i++) {
		struct snapshot *t = &r->tables[i];

		if (strcmp(t->name, name) != 0)
			continue;
		if (!t->table)
			r->open_error =
				fth_table_open(r->session->storage->db, name, &memory, &t->table);
		if (t->table && fth_table_version(t->table) != t->version)
			r->open_error = fth_fail(
				ESTALE, "table %s has changed since the query was planned", name);
		return r->open_error < 0 ? NULL : t->table;
	}
	return NULL;
}

static int read_tables(struct run *r, struct wire_in *in)
{
	r->table_count = wire_get_u32(in);
	if (r->table_count > TABLES_MAX) {
		in->bad = true;
		r->table_count = 0;
	}
	r->tables = fth_arena_alloc(&r->arena, (r->table_count + 1) * sizeof(*r->tables), 16);
	if (!r->tables) {
		r->table_count = 0;
		return -ENOMEM;
	}
	memset(r->tables, 0, (r->table_count + 1) * sizeof(*r->tables));
	for (unsigned i = 0; i < r->table_count; i++) {
		wire_get_string(in, r->tables[i].name, sizeof(r->tables[i].name));
		r->tables[i].version = wire_get_u64(in);
	}
	return 0;
}

/* ---- rows ---- */

static int send_frame(struct run *r, struct wire_out *out)
{
	int rc;

	pthread_mutex_lock(&r->sending);
	rc = r->lost < 0 ? r->lost
			 : wire_send_frame(&r->session->socket, out, session_deadline(r->session));
	/* A frame that does not fit a message is none yet. */
	if (rc < 0 && out->error == 0)
		r->lost = rc;
	pthread_mutex_unlock(&r->sending);
	return rc;
}

static int send_rows(struct run *r, const struct fth_vec *columns, const uint16_t *rows, unsigned n)
{
	const struct task *last = &r->set.tasks[r->set.task_count - 1];
	struct wire_out *out = &r->session->out;
	int rc;

	wire_begin(out, WIRE_BATCH);
	batch_put(out, columns, last->result, last->result_count, rows, n);
	if (out->error != -EMSGSIZE || n < 2)
		return send_frame(r, out);
	rc = send_rows(r, columns, rows, n / 2);
	return rc < 0 ? rc : send_rows(r, columns, rows + n / 2, n - n / 2);
}

static int emit(void *user, const struct fth_vec *columns, const struct fth_sel *selected)
{
	struct run *r = user;
	uint16_t rows[FTH_BATCH + 64];
	unsigned n = fth_bits_rows(selected->bits, selected->n, rows);

	if (atomic_load_explicit(&r->session->cancel, memory_order_relaxed))
		return fth_fail(ECANCELED, "the task set was canceled");
	return n == 0 ? 0 : send_rows(r, columns, rows, n);
}

/* ---- running ---- */

static int run_set(struct run *r)
{
	struct task_read how = {.mem = r->mem, .open = open_table, .self = r};
	struct exec_options options = {.mem = r->mem,
				       .threads = r->threads,
				       .cancel = &r->session->cancel,
				       .scratch = r->session->storage->scratch,
				       .scratch_limit = r->session->storage->scratch_limit,
				       .failed = &r->failed,
				       .once = true};
	int rc = task_read(&how, r->text, r->length, &r->arena, &r->set);

	if (rc == -ENOENT && r->open_error < 0)
		return r->open_error;
	if (rc < 0)
		return rc;
	r->stats = fth_arena_alloc(&r->arena, r->set.task_count * sizeof(*r->stats), 16);
	if (!r->stats)
		return -ENOMEM;
	memset(r->stats, 0, r->set.task_count * sizeof(*r->stats));
	return exec_run(&r->set, &options, emit, r, r->stats);
}

static void *run_thread(void *user)
{
	struct run *r = user;
	uint64_t one = 1;
	ssize_t n;

	r->rc = run_set(r);
	if (r->rc < 0)
		strncpy(r->error, fth_error_text(r->rc), sizeof(r->error) - 1);
	n = write(r->done, &one, sizeof(one));
	(void)n;
	return NULL;
}

/* Messages of the client while its set runs: only a cancellation is valid. */
static int hear_client(struct session *s)
{
	enum wire_type type;
	int rc = session_receive(s, session_deadline(s), &type);

	if (rc == 0 && (type != WIRE_CANCEL || !wire_get_end(&s->request)))
		rc = fth_fail(EBADMSG, "a request arrived while another was running");
	atomic_store_explicit(&s->cancel, true, memory_order_relaxed);
	return rc;
}

static void send_alive(struct run *r)
{
	unsigned char bytes[64];
	struct wire_out out = {.bytes = bytes, .room = sizeof(bytes)};

	/* A thread that sends rows is a sign of life itself, or is stuck and gives up in time. */
	if (pthread_mutex_trylock(&r->sending) != 0)
		return;
	wire_begin(&out, WIRE_ALIVE);
	if (r->lost == 0)
		r->lost = wire_send_frame(&r->session->socket, &out, session_deadline(r->session));
	pthread_mutex_unlock(&r->sending);
}

/*
 * Watch the socket until the set is done. The text is in the buffer of requests, so that is copied
 * before.
 */
static int watch(struct run *r)
{
	struct session *s = r->session;
	int rc = 0;

	for (;;) {
		struct pollfd p[2] = {{.fd = r->done, .events = POLLIN},
				      {.fd = rc < 0 ? -1 : s->socket.fd, .events = POLLIN}};
		int n = poll(p, 2, ALIVE_MS);

		if (p[0].revents != 0)
			break;
		if (n == 0 && rc == 0)
			send_alive(r);
		if (n > 0 && p[1].revents != 0)
			rc = hear_client(s);
	}
	pthread_join(r->thread, NULL);
	return rc < 0 ? rc : r->lost;
}

/* ---- the end ---- */

static int send_done(struct run *r)
{
	struct wire_out *out = &r->session->out;
	unsigned n = r->stats ? r->set.task_count : 0;

	wire_begin(out, WIRE_DONE);
	wire_u32(out, (uint32_t)r->rc);
	wire_u32(out, r->failed);
	wire_string(out, r->error);
	wire_u32(out, n);
	for (unsigned i = 0; i < n; i++) {
		const struct exec_stats *x = &r->stats[i];

		wire_u64(out, x->source_rows);
		wire_u64(out, x->rows);
		wire_u64(out, x->groups_read);
		wire_u64(out, x->groups_skipped);
		wire_u64(out, x->bytes);
		wire_u64(out, x->chunks);
		wire_u64(out, x->chunks_skipped);
		wire_u64(out, x->spilled);
		wire_u64(out, x->memory);
		wire_u64(out, x->wall_ns);
		wire_u64(out, x->cpu_ns);
	}
	return wire_send_frame(&r->session->socket, out, session_deadline(r->session));
}

static void keep_books(struct run *r, uint64_t start)
{
	struct fth_storage *storage = r->session->storage;
	uint64_t read = 0, spilled = 0;

	for (unsigned i = 0; r->stats && i < r->set.task_count; i++) {
		read += r->stats[i].bytes;
		spilled += r->stats[i].spilled;
	}
	pthread_mutex_lock(&storage->lock);
	storage->stats.sets++;
	storage->stats.suspended += r->rc == -ENOMEM;
	storage->stats.canceled += r->rc == -ECANCELED;
	storage->stats.spilled += spilled;
	pthread_mutex_unlock(&storage->lock);
	if (r->rc < 0)
		storage_log(storage, r->rc == -ENOMEM ? "suspended" : "failed",
			    "task %d of a set, %llu bytes spilled: %s", (int)r->failed,
			    (unsigned long long)spilled, r->error);
	else
		storage_log(storage, "ran", "%u tasks in %.3f s, %llu bytes read, %llu spilled",
			    r->set.task_count, (double)(fth_now_ns() - start) / 1e9,
			    (unsigned long long)read, (unsigned long long)spilled);
}

static int start(struct run *r)
{
	struct session *s = r->session;
	struct wire_in *in = &s->request;
	const char *text;
	int rc;

	r->threads = wire_get_u32(in);
	if (s->storage->threads != 0 && (r->threads == 0 || r->threads > s->storage->threads))
		r->threads = s->storage->threads;
	rc = read_tables(r, in);
	r->length = wire_get_u32(in);
	text = wire_get(in, r->length);
	if (rc == 0 && !wire_get_end(in))
		return fth_fail(EBADMSG, "malformed request");
	if (rc == 0) {
		char *copy = fth_arena_alloc(&r->arena, r->length + 1, 1);

		if (!copy)
			return -ENOMEM;
		memcpy(copy, text, r->length);
		r->text = copy;
	}
	return rc;
}

static void close_run(struct run *r)
{
	for (unsigned i = 0; i < r->table_count; i++)
		fth_table_close(r->tables[i].table);
	fth_arena_release(&r->arena);
	fth_qmem_close(r->mem);
	if (r->done >= 0)
		close(r->done);
	pthread_mutex_destroy(&r->sending);
}

int session_run(struct session *s)
{
	struct run r = {.session = s, .failed = TASK_NONE, .done = -1};
	uint64_t begun = fth_now_ns();
	int rc;

	atomic_store_explicit(&s->cancel, atomic_load(&s->storage->stopping), memory_order_relaxed);
	r.mem = fth_qmem_child(s->mem, "task set", FTH_QMEM_NO_LIMIT);
	fth_arena_init(&r.arena, r.mem, ARENA_CHUNK);
	pthread_mutex_init(&r.sending, NULL);
	r.done = fth_fd_high(eventfd(0, EFD_CLOEXEC));
	rc = !r.mem || r.done < 0 ? -ENOMEM : start(&r);
	if (rc == 0 && pthread_create(&r.thread, NULL, run_thread, &r) != 0)
		rc = -ENOMEM;
	if (rc == 0) {
		rc = watch(&r);
		keep_books(&r, begun);
	} else if (rc == -ENOMEM) {
		r.rc = rc;
		strcpy(r.error, "the budget of the storage daemon holds no further task set");
		rc = 0;
	}
	if (rc == 0)
		rc = send_done(&r);
	close_run(&r);
	return rc;
}
