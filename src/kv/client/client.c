/* SPDX-License-Identifier: BSD-2-Clause */
/* The client: options, which connection an operation takes, and the calls. */
#include "kv/client/client.h"

#include "base/net/tls.h"

#include "base/options.h"

#include <errno.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>

#define SEGMENT_MAX (16u << 20)

/* ---- opening ---- */

static void set_default(uint32_t *field, uint32_t value)
{
	if (*field == 0)
		*field = value;
}

static int take_options(struct fth_kvc_options *o)
{
	set_default(&o->connections, 2);
	set_default(&o->segment, 16u << 10);
	set_default(&o->flush_us, 1000);
	set_default(&o->timeout_ms, 1000);
	set_default(&o->retry_ms, 50);
	set_default(&o->retry_max_ms, 5000);
	set_default(&o->value_max, 16u << 20);
	if (o->distribution > FTH_KVC_MODULA)
		return fth_fail(EINVAL, "kv client: unknown distribution %u", o->distribution);
	if (o->down > FTH_KVC_DOWN_REHASHES)
		return fth_fail(EINVAL, "kv client: unknown value %u of options.down", o->down);
	if (o->connections > FTH_KVC_CONNECTIONS_MAX)
		return fth_fail(EINVAL, "kv client: options.connections is %u, the maximum is %u",
				o->connections, FTH_KVC_CONNECTIONS_MAX);
	if (o->segment > SEGMENT_MAX)
		return fth_fail(EINVAL, "kv client: options.segment is %u bytes, the maximum is %u",
				o->segment, SEGMENT_MAX);
	return 0;
}

static int open_ring(struct fth_kvc *client)
{
	struct kvc_ring_server *list = calloc(client->count, sizeof(*list));
	int rc;

	if (!list)
		return -ENOMEM;
	for (unsigned i = 0; i < client->count; i++)
		list[i] = (struct kvc_ring_server){client->servers[i].host, client->servers[i].port,
						   client->servers[i].weight};
	rc = kvc_ring_init(&client->ring, client->options.distribution, list, client->count);
	free(list);
	return rc;
}

static int open_servers(struct fth_kvc *client, const char *const *servers)
{
	unsigned per_server = client->options.connections;
	int rc = 0;

	client->servers = calloc(client->count, sizeof(*client->servers));
	client->conns = calloc((size_t)client->count * per_server, sizeof(*client->conns));
	if (!client->servers || !client->conns)
		return -ENOMEM;
	/* All of them, so that they can be released. */
	for (unsigned i = 0; i < client->count; i++) {
		int failed = kvc_server_init(&client->servers[i], servers[i], &client->options);

		for (unsigned j = 0; j < per_server; j++) {
			int none =
				kvc_conn_init(&client->conns[i * per_server + j],
					      &client->servers[i], &client->options, client->tls);

			failed = failed < 0 ? failed : none;
		}
		rc = rc < 0 ? rc : failed;
	}
	return rc < 0 ? rc : open_ring(client);
}

/* A text of the options is the caller's: keep a copy. */
static int keep_text(const char **option, char **copy)
{
	if (!*option)
		return 0;
	*copy = strdup(*option);
	*option = *copy;
	return *copy ? 0 : -ENOMEM;
}

int fth_kvc_open(const char *const *servers, unsigned count, const struct fth_kvc_options *options,
		 struct fth_kvc **out)
{
	struct fth_kvc_options defaults = FTH_KVC_OPTIONS_INIT;
	struct fth_kvc *client;
	int rc;

	*out = NULL;
	rc = options ? fth_options_check("kv client", options->size, sizeof(*options)) : 0;
	if (rc < 0)
		return rc;
	if (count == 0 || count > FTH_KVC_SERVERS_MAX)
		return fth_fail(EINVAL, "kv client: %u servers, expected 1 to %u", count,
				FTH_KVC_SERVERS_MAX);
	client = calloc(1, sizeof(*client));
	if (!client)
		return -ENOMEM;
	client->count = count;
	client->options = options ? *options : defaults;
	rc = take_options(&client->options);
	if (rc == 0)
		rc = keep_text(&client->options.auth, &client->auth);
	if (rc == 0)
		rc = keep_text(&client->options.tls_name, &client->tls_name);
	if (rc == 0 && (client->options.tls || client->options.tls_ca))
		rc = tls_open_client(client->options.tls_ca, &client->tls);
	if (rc == 0)
		rc = open_servers(client, servers);
	if (rc < 0)
		fth_kvc_close(client);
	else
		*out = client;
	return rc;
}

void fth_kvc_close(struct fth_kvc *client)
{
	if (!client)
		return;
	for (unsigned i = 0;
	     client->conns && client->servers && i < client->count * client->options.connections;
	     i++)
		kvc_conn_release(&client->conns[i]);
	for (unsigned i = 0; client->conns && client->servers && i < client->count; i++)
		kvc_server_release(&client->servers[i]);
	kvc_ring_release(&client->ring);
	free(client->conns);
	free(client->servers);
	tls_close(client->tls);
	free(client->auth);
	free(client->tls_name);
	free(client);
}

/* ---- routes ---- */

/*
 * Each processor has its connection to every server: threads that wait for the same connection have
 * mostly run on the same processor, and waking a thread that last ran on the waker's costs less.
 *
 * Operations that a thread starts for one key take effect in their order since they use one
 * connection. A thread may change to another one only when none of its operations is on the way,
 * which is certain only for a thread that makes blocking calls, none of which has timed out. Others
 * keep their number.
 */
struct thread_conn {
	unsigned number;
	bool fixed;
};
static __thread struct thread_conn mine;

/* A blocking call begins. */
static void choose_connection(void)
{
	int cpu = mine.fixed ? -1 : sched_getcpu();

	if (cpu >= 0)
		mine.number = (unsigned)cpu;
}

/* The connection for a key; NULL if its server is down, and no other may take the key. */
static struct kvc_conn *route(struct fth_kvc *client, const struct fth_kvc_op *op)
{
	unsigned at = kvc_ring_find(&client->ring, op->key, op->key_length), from = at;

	do {
		unsigned server = kvc_ring_server(&client->ring, at);

		if (kvc_server_admits(&client->servers[server]))
			return &client->conns[server * client->options.connections +
					      mine.number % client->options.connections];
		if (client->options.down != FTH_KVC_DOWN_REHASHES)
			return NULL;
		at = kvc_ring_next(&client->ring, at);
	} while (at != from);
	return NULL;
}

unsigned fth_kvc_server_of(const struct fth_kvc *client, const void *key, uint32_t key_length)
{
	return kvc_ring_server(&client->ring, kvc_ring_find(&client->ring, key, key_length));
}

/* ---- operations ---- */

static void end_at_once(struct fth_kvc_op *op, int result)
{
	kvc_call(op)->conn = NULL;
	kvc_call(op)->state = KVC_DONE;
	op->result = result;
}

/* Hand an operation to its connection, or complete it at once. */
static void add(struct fth_kvc *client, struct fth_kvc_op *op, bool push)
{
	struct kvc_conn *conn = route(client, op);

	if (!conn) {
		__atomic_fetch_add(&client->refused, 1, __ATOMIC_RELAXED);
		end_at_once(op, -EHOSTDOWN);
		return;
	}
	kvc_call(op)->conn = conn;
	kvc_call(op)->routes++;
	kvc_conn_add(conn, op, push);
}

static void begin(struct fth_kvc *client, struct fth_kvc_op *op, bool push)
{
	memset(op->private_, 0, sizeof(op->private_));
	op->data = NULL;
	op->length = op->item_flags = 0;
	op->item_cas = op->number = 0;
	if ((unsigned)op->verb >= FTH_KV_FLUSH_ALL || !kvc_key_valid(op->key, op->key_length) ||
	    (op->value_length && !op->value))
		end_at_once(op, -EINVAL);
	else
		add(client, op, push);
}

void fth_kvc_start(struct fth_kvc *client, struct fth_kvc_op *op)
{
	choose_connection();
	mine.fixed = true; /* nobody knows when it will be complete */
	begin(client, op, true);
}

/* Leave a text for a result that says nothing about the item. */
static int explain(struct fth_kvc *client, const struct fth_kvc_op *op)
{
	const struct kvc_call *call = (const struct kvc_call *)op->private_;
	struct kvc_server *server = call->conn ? call->conn->server : NULL;
	char reason[KVC_REASON_MAX];

	switch (op->result) {
	case -EINVAL:
		return fth_fail(EINVAL,
				"kv client: invalid verb or key: a key has 1 to %u bytes, "
				"without spaces and control characters",
				FTH_KV_KEY_MAX);
	case -EHOSTDOWN:
		if (!server)
			server = &client->servers[fth_kvc_server_of(client, op->key,
								    op->key_length)];
		kvc_server_reason(server, reason);
		return fth_fail(EHOSTDOWN, "kv client: server %s is down: %s", server->name,
				reason);
	case -ETIMEDOUT:
		return fth_fail(ETIMEDOUT, "kv client: timed out waiting for server %s",
				server->name);
	case -ECONNRESET:
	case -EPROTO:
	case -EACCES:
	case -EREMOTEIO:
		return fth_fail(-op->result, "kv client: server %s: %s", server->name,
				op->result == -EPROTO	   ? "invalid reply"
				: op->result == -EACCES	   ? "authentication failed"
				: op->result == -EREMOTEIO ? "the server reports an error"
							   : "the connection broke");
	default:
		return op->result;
	}
}

int fth_kvc_wait(struct fth_kvc *client, struct fth_kvc_op *op, uint64_t deadline)
{
	struct kvc_call *call = kvc_call(op);

	if (call->conn)
		kvc_conn_wait(call->conn, op, deadline);
	/* Its server went down before it was sent: the next one has it. */
	while (op->result == -EHOSTDOWN && client->options.down == FTH_KVC_DOWN_REHASHES &&
	       call->conn && call->routes <= client->count) {
		call->state = KVC_RUNNING;
		add(client, op, true);
		if (call->conn)
			kvc_conn_wait(call->conn, op, deadline);
	}
	if (op->result == -EHOSTDOWN && client->options.down == FTH_KVC_DOWN_MISSES &&
	    op->verb == FTH_KV_GET)
		op->result = -ENOENT;
	return op->result < 0 ? explain(client, op) : op->result;
}

int fth_kvc_do(struct fth_kvc *client, struct fth_kvc_op *op, uint64_t deadline)
{
	int rc;

	choose_connection();
	begin(client, op, true);
	rc = fth_kvc_wait(client, op, deadline);
	if (rc == -ETIMEDOUT)
		mine.fixed = true;
	return rc;
}

unsigned fth_kvc_do_many(struct fth_kvc *client, struct fth_kvc_op *ops, unsigned count,
			 uint64_t deadline)
{
	unsigned good = 0;
	bool late = false;

	choose_connection();
	for (unsigned i = 0; i < count; i++)
		begin(client, &ops[i], false);
	/* Those of each connection are gathered, and sent together. */
	for (unsigned i = 0; i < count; i++)
		if (kvc_call(&ops[i])->conn)
			kvc_conn_push(kvc_call(&ops[i])->conn);
	for (unsigned i = 0; i < count; i++) {
		int rc = fth_kvc_wait(client, &ops[i], deadline);

		good += rc == 0;
		late |= rc == -ETIMEDOUT;
	}
	if (late)
		mine.fixed = true;
	return good;
}

void fth_kvc_release(struct fth_kvc_op *op)
{
	if (op->data != op->buffer)
		free(op->data);
	op->data = NULL;
}

/* ---- convenience ---- */

int fth_kvc_get(struct fth_kvc *client, const void *key, uint32_t key_length, void *buffer,
		uint32_t room, uint64_t deadline)
{
	uint8_t nothing;
	struct fth_kvc_op op = {.verb = FTH_KV_GET,
				.key = key,
				.key_length = key_length,
				.buffer = buffer ? buffer : &nothing,
				.room = buffer ? room : 0};
	int rc = fth_kvc_do(client, &op, deadline);

	return rc < 0 ? rc : (int)op.length;
}

int fth_kvc_set(struct fth_kvc *client, const void *key, uint32_t key_length, const void *value,
		uint32_t value_length, uint32_t expires, uint64_t deadline)
{
	struct fth_kvc_op op = {.verb = FTH_KV_SET,
				.key = key,
				.key_length = key_length,
				.value = value,
				.value_length = value_length,
				.expires = expires};

	return fth_kvc_do(client, &op, deadline);
}

int fth_kvc_delete(struct fth_kvc *client, const void *key, uint32_t key_length, uint64_t deadline)
{
	struct fth_kvc_op op = {.verb = FTH_KV_DELETE, .key = key, .key_length = key_length};

	return fth_kvc_do(client, &op, deadline);
}

/* ---- statistics ---- */

void fth_kvc_stats(const struct fth_kvc *client, struct fth_kvc_stats *out)
{
	memset(out, 0, sizeof(*out));
	for (unsigned i = 0; i < client->count * client->options.connections; i++)
		kvc_conn_stats(&client->conns[i], out);
	out->refused += __atomic_load_n(&client->refused, __ATOMIC_RELAXED);
}
