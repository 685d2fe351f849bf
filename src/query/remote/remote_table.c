/* SPDX-License-Identifier: BSD-2-Clause */
/* Tables of a storage daemon, for a host that reads their columns itself. */
#include "query/remote/remote.h"

#include "fathom/base/error.h"
#include "fathom/dev/driver.h"
#include "fathom/hd/wait.h"
#include "table/place/db.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- a file as a device ---- */

/* A request is done when it is submitted; reap hands it back. */
struct remote_dev {
	struct fth_dev dev;
	struct remote *remote;
	char table[FTH_TABLE_NAME_MAX + 1];
	uint64_t id, bytes;
	uint32_t file;
};

struct remote_chan {
	struct fth_dev_chan chan;
	struct remote_conn *conn;
	uint32_t handle; /* of the file on this connection */
	unsigned head, count, capacity;
	struct fth_dev_req *ring[];
};

static void dev_close(struct fth_dev *dev)
{
	free(dev);
}

static int open_handle(struct remote_dev *d, struct remote_conn *c, uint32_t *handle,
		       uint64_t *size, uint32_t *block)
{
	int rc;

	wire_begin(&c->out, WIRE_OPEN);
	wire_string(&c->out, d->table);
	wire_u64(&c->out, d->id);
	wire_u32(&c->out, d->file);
	wire_u64(&c->out, d->bytes);
	rc = remote_ask(c, WIRE_OPENED);
	if (rc < 0)
		return rc;
	*handle = wire_get_u32(&c->payload);
	*size = wire_get_u64(&c->payload);
	*block = wire_get_u32(&c->payload);
	if (!wire_get_end(&c->payload) || *block == 0 || (*block & (*block - 1)) != 0 ||
	    *block > WIRE_READ_MAX || *size % *block != 0)
		return fth_fail(EBADMSG, "the storage daemon sent an invalid file number");
	return 0;
}

static int chan_open(struct fth_dev *dev, unsigned depth, struct fth_dev_chan **out)
{
	struct remote_dev *d = (struct remote_dev *)dev;
	struct remote_chan *chan = calloc(1, sizeof(*chan) + depth * sizeof(chan->ring[0]));
	uint64_t size;
	uint32_t block;
	int rc;

	if (!chan)
		return -ENOMEM;
	chan->capacity = depth;
	rc = remote_take(d->remote, &chan->conn);
	if (rc == 0)
		rc = open_handle(d, chan->conn, &chan->handle, &size, &block);
	if (rc < 0) {
		remote_give(chan->conn);
		free(chan);
		return rc;
	}
	*out = &chan->chan;
	return 0;
}

static void chan_close(struct fth_dev_chan *base)
{
	struct remote_chan *chan = (struct remote_chan *)base;

	/* The daemon closes the files of a connection with it. */
	if (chan->conn)
		chan->conn->broken = true;
	remote_give(chan->conn);
	free(chan);
}

/* `length` bytes at an offset, of which the payload of the answer holds all. */
static int read_piece(struct remote_chan *chan, uint64_t offset, uint32_t length, char *to)
{
	struct remote_conn *c = chan->conn;
	const void *bytes;
	int rc;

	wire_begin(&c->out, WIRE_READ);
	wire_u32(&c->out, chan->handle);
	wire_u64(&c->out, offset);
	wire_u32(&c->out, length);
	rc = remote_ask(c, WIRE_BYTES);
	if (rc < 0)
		return rc;
	bytes = wire_get(&c->payload, length);
	if (!bytes || !wire_get_end(&c->payload))
		return fth_fail(EBADMSG, "the storage daemon sent a reply to a different request");
	memcpy(to, bytes, length);
	atomic_fetch_add_explicit(&c->remote->column_bytes, length, memory_order_relaxed);
	return 0;
}

static int read_request(struct remote_chan *chan, struct fth_dev_req *req)
{
	char *whole = malloc(req->length == 0 ? 1 : req->length);
	int rc = whole ? 0 : -ENOMEM;

	for (uint64_t at = 0; at < req->length && rc == 0; at += WIRE_READ_MAX) {
		uint64_t left = req->length - at;

		rc = read_piece(chan, req->offset + at,
				(uint32_t)(left < WIRE_READ_MAX ? left : WIRE_READ_MAX),
				whole + at);
	}
	if (rc == 0)
		fth_dev_req_scatter(req, whole);
	free(whole);
	return rc;
}

static int submit(struct fth_dev_chan *base, struct fth_dev_req *const *reqs, unsigned n)
{
	struct remote_chan *chan = (struct remote_chan *)base;

	for (unsigned i = 0; i < n; i++) {
		reqs[i]->result = reqs[i]->op == FTH_DEV_READ	 ? read_request(chan, reqs[i])
				  : reqs[i]->op == FTH_DEV_FLUSH ? 0
								 : -EROFS;
		chan->ring[(chan->head + chan->count++) % chan->capacity] = reqs[i];
	}
	return (int)n;
}

static int reap(struct fth_dev_chan *base, struct fth_dev_req **done, unsigned max, unsigned min,
		uint64_t deadline)
{
	struct remote_chan *chan = (struct remote_chan *)base;
	unsigned n = chan->count < max ? chan->count : max;

	(void)min;
	(void)deadline;
	for (unsigned i = 0; i < n; i++)
		done[i] = chan->ring[(chan->head + i) % chan->capacity];
	chan->head = (chan->head + n) % chan->capacity;
	chan->count -= n;
	return (int)n;
}

static int chan_fd(struct fth_dev_chan *chan)
{
	(void)chan;
	return fth_fail(EOPNOTSUPP, "files of a storage daemon have no file descriptor to poll");
}

static const struct fth_dev_ops dev_ops = {
	.close = dev_close,
	.chan_open = chan_open,
	.chan_close = chan_close,
	.submit = submit,
	.reap = reap,
	.chan_fd = chan_fd,
};

/* ---- the place ---- */

struct remote_place {
	struct place place;
	struct remote *remote;
};

static struct remote *remote_of(struct place *place)
{
	return ((struct remote_place *)(void *)place)->remote;
}

static void place_close(struct place *place)
{
	free(place);
}

static int visit_names(struct remote_conn *c, int (*visit)(const char *name, void *user),
		       void *user)
{
	/* visit may use the database, and thereby a connection; the payload of this one stays. */
	uint32_t n = wire_get_u32(&c->payload);
	char name[FTH_TABLE_NAME_MAX + 1];
	int rc = 0;

	for (uint32_t i = 0; i < n && rc == 0 && !c->payload.bad; i++) {
		wire_get_string(&c->payload, name, sizeof(name));
		if (!c->payload.bad)
			rc = visit(name, user);
	}
	return c->payload.bad
		       ? fth_fail(EBADMSG, "the storage daemon sent a damaged list of tables")
		       : rc;
}

static int place_list(struct place *place, int (*visit)(const char *name, void *user), void *user)
{
	struct remote_conn *c;
	int rc = remote_take(remote_of(place), &c);

	if (rc < 0)
		return rc;
	wire_begin(&c->out, WIRE_LIST);
	rc = remote_ask(c, WIRE_NAMES);
	if (rc == 0)
		rc = visit_names(c, visit, user);
	remote_give(c);
	return rc;
}

/*
 * The parts of a manifest: each has the length of the whole. The blob has one byte more, as those
 * of others.
 */
static int receive_manifest(struct remote_conn *c, const struct fth_table_memory *memory,
			    struct blob *blob)
{
	uint64_t total = wire_get_u64(&c->payload), at = 0;
	enum wire_type type;
	int rc = 0;

	if (total > (uint64_t)1 << 32)
		return fth_fail(EBADMSG, "the storage daemon sent a manifest of more than 4 GiB");
	blob->length = (size_t)total;
	blob->bytes = memory->alloc(memory->user, blob->length + 1);
	if (!blob->bytes)
		return -ENOMEM;
	while (rc == 0) {
		size_t n = c->payload.length - c->payload.at;

		if (c->payload.bad || n > total - at || (n == 0 && at < total)) {
			rc = fth_fail(EBADMSG, "the storage daemon sent a damaged manifest");
			break;
		}
		memcpy((char *)blob->bytes + at, wire_get(&c->payload, n), n);
		at += n;
		if (at == total)
			break;
		rc = remote_receive(c, fth_now_ns() + REMOTE_TIMEOUT_NS, &type);
		if (rc == 0 && (type != WIRE_BYTES || wire_get_u64(&c->payload) != total))
			rc = fth_fail(EBADMSG, "the storage daemon sent a damaged manifest");
	}
	if (rc < 0) {
		c->broken = true;
		memory->release(memory->user, blob->bytes, blob->length + 1);
	}
	return rc;
}

static int place_read(struct place *place, const char *name, const struct fth_table_memory *memory,
		      struct blob *manifest)
{
	struct remote_conn *c;
	int rc = remote_take(remote_of(place), &c);

	if (rc < 0)
		return rc;
	wire_begin(&c->out, WIRE_MANIFEST);
	wire_string(&c->out, name);
	rc = remote_ask(c, WIRE_BYTES);
	if (rc == 0)
		rc = receive_manifest(c, memory, manifest);
	remote_give(c);
	return rc;
}

static int place_open_file(struct place *place, const char *name, uint64_t id, uint32_t file,
			   uint64_t bytes, struct fth_dev **out)
{
	struct remote_dev *d = calloc(1, sizeof(*d));
	char uri[FTH_TABLE_NAME_MAX + 32];
	struct remote_conn *c = NULL;
	uint32_t handle, block;
	uint64_t size;
	int rc;

	if (!d)
		return -ENOMEM;
	d->remote = remote_of(place);
	d->id = id;
	d->file = file;
	d->bytes = bytes;
	strncpy(d->table, name, FTH_TABLE_NAME_MAX);
	rc = remote_take(d->remote, &c);
	if (rc == 0) {
		rc = open_handle(d, c, &handle, &size, &block);
		c->broken = true;
	}
	remote_give(c);
	if (rc < 0) {
		free(d);
		return rc;
	}
	d->dev.ops = &dev_ops;
	d->dev.info = (struct fth_dev_info){.size = size,
					    .block = block,
					    .align = 1,
					    .max_iov = 1024,
					    .max_length = (uint64_t)1 << 30,
					    .engine = "storaged"};
	snprintf(uri, sizeof(uri), "storaged:%s/%u", name, file);
	*out = &d->dev;
	return fth_dev_adopt(&d->dev, uri);
}

static int refuse_write(void)
{
	return fth_fail(EROFS, "tables opened through a storage daemon are read-only");
}

static int place_create(struct place *place, const char *name, const struct blob *manifest)
{
	(void)place;
	(void)name;
	(void)manifest;
	return refuse_write();
}

static int place_remove(struct place *place, const char *name)
{
	(void)place;
	(void)name;
	return refuse_write();
}

static int place_output(struct place *place, const char *name, struct output **out)
{
	(void)place;
	(void)name;
	*out = NULL;
	return refuse_write();
}

static const struct place_ops remote_place_ops = {
	.close = place_close,
	.list = place_list,
	.create = place_create,
	.remove = place_remove,
	.read = place_read,
	.open_file = place_open_file,
	.open_output = place_output,
};

int remote_tables(struct remote *r, struct fth_table_db **out)
{
	struct remote_place *s = calloc(1, sizeof(*s));
	struct fth_table_db *db = calloc(1, sizeof(*db));

	*out = NULL;
	if (!s || !db) {
		free(s);
		free(db);
		return -ENOMEM;
	}
	s->place.ops = &remote_place_ops;
	s->place.readonly = true;
	s->remote = r;
	db->place = &s->place;
	*out = db;
	return 0;
}
