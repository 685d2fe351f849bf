/* SPDX-License-Identifier: BSD-2-Clause */
/* One connection of the storage daemon: requests, one after the other. */
#include "query/remote/storaged.h"

#include "fathom/base/error.h"
#include "fathom/dev.h"
#include "fathom/hd/wait.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define IDLE_NS	     600000000000u /* a connection that asks nothing for so long is closed */
#define BUFFER_ALIGN 4096u
#define WAIT_NS	     2000000
#define RESERVED     (16u << 10)
#define KEPT_MAX     (64u << 10) /* bytes of a buffer that is kept between requests */

uint64_t session_deadline(const struct session *s)
{
	return fth_now_ns() + s->storage->timeout_ns;
}

/* ---- memory ---- */

bool session_wait(const struct session *s, uint64_t deadline)
{
	struct timespec nap = {.tv_nsec = WAIT_NS};

	if (fth_now_ns() >= deadline || atomic_load(&s->storage->stopping))
		return false;
	nanosleep(&nap, NULL);
	return true;
}

/* Large frames are rare; their memory is for others. */
static void shrink(struct session *s)
{
	if (s->out.room > KEPT_MAX) {
		fth_qmem_free(s->mem, s->out.bytes, s->out.room);
		s->out.bytes = NULL;
		s->out.room = 0;
	}
	if (s->in_room > KEPT_MAX) {
		fth_qmem_free(s->mem, s->in, s->in_room);
		s->in = NULL;
		s->in_room = 0;
	}
}

static void *grow(void *user, void *bytes, size_t old_room, size_t room)
{
	return fth_qmem_realloc(user, bytes, old_room, room);
}

static int make_room(struct session *s, size_t length)
{
	void *larger;

	uint64_t deadline = session_deadline(s);

	if (length <= s->in_room)
		return 0;
	do
		larger = fth_qmem_realloc(s->mem, s->in, s->in_room, length);
	while (!larger && session_wait(s, deadline));
	if (!larger)
		return -ENOMEM;
	s->in = larger;
	s->in_room = length;
	return 0;
}

/* ---- frames ---- */

int session_receive(struct session *s, uint64_t first_byte, enum wire_type *type)
{
	unsigned char header[WIRE_HEADER];
	struct wire_frame frame;
	int rc = wire_wait(&s->socket, first_byte);

	if (rc == 0)
		rc = wire_receive(&s->socket, header, sizeof(header), session_deadline(s));
	if (rc == 0)
		rc = wire_header(header, WIRE_REQUEST_MAX, &frame);
	if (rc == 0)
		rc = make_room(s, frame.length + 1);
	if (rc == 0)
		rc = wire_receive(&s->socket, s->in, frame.length, session_deadline(s));
	if (rc == 0)
		rc = wire_verify(header, s->in, frame.length);
	if (rc < 0)
		return rc;
	s->request = (struct wire_in){s->in, frame.length, 0, false};
	*type = frame.type;
	return 0;
}

static int answer(struct session *s)
{
	return wire_send_frame(&s->socket, &s->out, session_deadline(s));
}

/* An error of a request: the connection goes on. */
static int answer_error(struct session *s, int error)
{
	wire_begin(&s->out, WIRE_ERROR);
	wire_u32(&s->out, (uint32_t)error);
	wire_string(&s->out, fth_error_text(error));
	return answer(s);
}

static int bad_request(void)
{
	return fth_fail(EBADMSG, "malformed request");
}

/* ---- requests ---- */

static int greet(struct session *s)
{
	uint32_t version;
	enum wire_type type;
	int rc = session_receive(s, session_deadline(s), &type);

	if (rc < 0)
		return rc;
	version = wire_get_u32(&s->request);
	if (type != WIRE_HELLO || !wire_get_end(&s->request))
		return bad_request();
	if (version != WIRE_VERSION) {
		rc = fth_fail(EPROTO, "protocol version %u is not supported, expected %u", version,
			      WIRE_VERSION);
		(void)answer_error(s, rc);
		return rc;
	}
	wire_begin(&s->out, WIRE_WELCOME);
	wire_u32(&s->out, WIRE_VERSION);
	wire_u64(&s->out, s->storage->budget);
	return answer(s);
}

struct names {
	struct session *session;
	uint32_t count;
};

static int put_name(const char *name, void *user)
{
	struct names *n = user;

	wire_string(&n->session->out, name);
	n->count++;
	return 0;
}

static int count_name(const char *name, void *user)
{
	(void)name;
	++*(uint32_t *)user;
	return 0;
}

static int list_tables(struct session *s)
{
	struct names names = {s, 0};
	uint32_t count = 0;
	int rc = fth_table_list(s->storage->db, count_name, &count);

	if (!wire_get_end(&s->request))
		return bad_request();
	wire_begin(&s->out, WIRE_NAMES);
	wire_u32(&s->out, count);
	if (rc == 0)
		rc = fth_table_list(s->storage->db, put_name, &names);
	if (rc == 0 && names.count != count)
		rc = fth_fail(EAGAIN, "tables were created or dropped during the request; retry");
	return rc < 0 ? answer_error(s, rc) : answer(s);
}

static void *blob_alloc(void *user, size_t bytes)
{
	return fth_qmem_alloc(user, bytes);
}

static void blob_release(void *user, void *memory, size_t bytes)
{
	fth_qmem_free(user, memory, bytes);
}

static int send_blob(struct session *s, const struct blob *blob)
{
	uint64_t deadline = session_deadline(s);
	size_t at = 0;
	int rc;

	do {
		size_t left = blob->length - at;
		size_t n = left < WIRE_READ_MAX ? left : WIRE_READ_MAX;

		do {
			wire_begin(&s->out, WIRE_BYTES);
			wire_u64(&s->out, blob->length);
			wire_put(&s->out, (const char *)blob->bytes + at, n);
		} while (s->out.error == -ENOMEM && session_wait(s, deadline));
		rc = answer(s);
		at += n;
	} while (rc == 0 && at < blob->length);
	return rc;
}

static int send_manifest(struct session *s)
{
	struct fth_table_memory memory = {blob_alloc, blob_release, s->mem};
	struct place *place = s->storage->db->place;
	char name[FTH_TABLE_NAME_MAX + 1], lower[FTH_TABLE_NAME_MAX + 1];
	struct blob blob = {0};
	uint64_t deadline;
	int rc;

	wire_get_string(&s->request, name, sizeof(name));
	if (!wire_get_end(&s->request))
		return bad_request();
	rc = db_name(name, lower);
	deadline = session_deadline(s);
	while (rc == 0) {
		rc = place->ops->read(place, lower, &memory, &blob);
		if (rc != -ENOMEM || !session_wait(s, deadline))
			break;
		rc = 0;
	}
	if (rc < 0)
		return answer_error(s, rc);
	rc = send_blob(s, &blob);
	memory.release(memory.user, blob.bytes, blob.length + 1);
	return rc;
}

static int open_file(struct session *s)
{
	struct place *place = s->storage->db->place;
	char name[FTH_TABLE_NAME_MAX + 1], lower[FTH_TABLE_NAME_MAX + 1];
	uint64_t id, bytes;
	uint32_t file;
	int rc;

	wire_get_string(&s->request, name, sizeof(name));
	id = wire_get_u64(&s->request);
	file = wire_get_u32(&s->request);
	bytes = wire_get_u64(&s->request);
	if (!wire_get_end(&s->request))
		return bad_request();
	rc = db_name(name, lower);
	if (rc == 0 && s->file_count == SESSION_FILES)
		rc = fth_fail(EMFILE, "more than %u files are open on one connection",
			      SESSION_FILES);
	if (rc == 0)
		rc = place->ops->open_file(place, lower, id, file, bytes, &s->files[s->file_count]);
	if (rc < 0)
		return answer_error(s, rc);
	wire_begin(&s->out, WIRE_OPENED);
	wire_u32(&s->out, s->file_count);
	wire_u64(&s->out, fth_dev_info(s->files[s->file_count])->size);
	wire_u32(&s->out, fth_dev_info(s->files[s->file_count])->block);
	s->file_count++;
	return answer(s);
}

static int read_into(struct session *s, struct fth_dev *dev, uint64_t offset, uint32_t length)
{
	uint64_t room = ((uint64_t)length + BUFFER_ALIGN - 1) / BUFFER_ALIGN * BUFFER_ALIGN;
	void *buffer;
	int rc = fth_qmem_charge(s->mem, room);

	if (rc < 0)
		return rc;
	buffer = aligned_alloc(BUFFER_ALIGN, room);
	rc = buffer ? fth_dev_read(dev, buffer, length, offset, session_deadline(s)) : -ENOMEM;
	if (rc == 0) {
		wire_begin(&s->out, WIRE_BYTES);
		wire_put(&s->out, buffer, length);
		rc = s->out.error;
	}
	free(buffer);
	fth_qmem_discharge(s->mem, room);
	return rc;
}

static int read_file(struct session *s)
{
	uint32_t handle = wire_get_u32(&s->request);
	uint64_t offset = wire_get_u64(&s->request);
	uint32_t length = wire_get_u32(&s->request);
	const struct fth_dev_info *info;
	uint64_t deadline;
	int rc;

	if (!wire_get_end(&s->request) || handle >= s->file_count)
		return bad_request();
	info = fth_dev_info(s->files[handle]);
	if (length == 0 || length > WIRE_READ_MAX || length % info->block != 0 ||
	    offset % info->block != 0 || offset > info->size || length > info->size - offset)
		return bad_request();
	deadline = session_deadline(s);
	do
		rc = read_into(s, s->files[handle], offset, length);
	while (rc == -ENOMEM && session_wait(s, deadline));
	return rc < 0 ? answer_error(s, rc) : answer(s);
}

static int serve_request(struct session *s, enum wire_type type)
{
	switch (type) {
	case WIRE_LIST:
		return list_tables(s);
	case WIRE_MANIFEST:
		return send_manifest(s);
	case WIRE_OPEN:
		return open_file(s);
	case WIRE_READ:
		return read_file(s);
	case WIRE_RUN:
		return session_run(s);
	case WIRE_CANCEL: /* what it was for is done already */
		return wire_get_end(&s->request) ? 0 : bad_request();
	default:
		return bad_request();
	}
}

/* ---- the session ---- */

static void end_session(struct session *s, int rc)
{
	struct fth_storage *storage = s->storage;

	if (rc == -EBADMSG) {
		pthread_mutex_lock(&storage->lock);
		storage->stats.bad_frames++;
		pthread_mutex_unlock(&storage->lock);
	}
	if (rc < 0 && rc != -ECONNRESET && !atomic_load(&storage->stopping))
		storage_log(storage, "disconnected", "a client: %s", fth_error_text(rc));
	for (unsigned i = 0; i < s->file_count; i++)
		fth_dev_close(s->files[i]);
	if (!s->mem)
		return;
	fth_qmem_free(s->mem, s->out.bytes, s->out.room);
	fth_qmem_free(s->mem, s->in, s->in_room);
	fth_qmem_close(s->mem);
}

void session_serve(struct session *s)
{
	uint64_t deadline = session_deadline(s);
	enum wire_type type;
	int rc;

	do
		s->mem = fth_qmem_child(s->storage->mem, "client", FTH_QMEM_NO_LIMIT);
	while (!s->mem && session_wait(s, deadline));
	s->out.grow = grow;
	s->out.user = s->mem;
	/* Small frames always fit. */
	do
		rc = s->mem ? fth_qmem_reserve(s->mem, RESERVED) : -ENOMEM;
	while (rc == -ENOMEM && s->mem && session_wait(s, deadline));
	if (rc == 0)
		rc = greet(s);
	while (rc == 0) {
		rc = session_receive(s, fth_now_ns() + IDLE_NS, &type);
		if (rc == 0)
			rc = serve_request(s, type);
		shrink(s);
	}
	end_session(s, rc);
}
