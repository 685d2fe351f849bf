/* SPDX-License-Identifier: BSD-2-Clause */
#include "base/text_input.h"

#include "fathom/base/error.h"
#include "fathom/base/fd.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#ifdef FTH_ZLIB
#include <zlib.h>
#endif
#ifdef FTH_ZSTD
#include <zstd.h>
#endif

#define IN_BYTES     (64u << 10)
#define STREAM_BYTES (256u << 10)
#define MAGIC_BYTES  10u /* what formats are recognised by */
#define LOOK_MS	     200 /* how often a waiting read looks whether it should stop */

struct text_input {
	const char *path;
	int fd;
	bool waits; /* a read may: it is no regular file */
	bool (*stopped)(void *user);
	void *user;
	FILE *stream;
	const struct format *format;
	uint8_t in[IN_BYTES]; /* what was read and not unpacked */
	size_t at, used;
	bool ended;	 /* the file */
	bool in_frame;	 /* the end of the packed data has not come */
	uint64_t packed; /* bytes that were read */
	int rc;		 /* of a read of the stream that failed */
	char error[FTH_ERROR_TEXT_MAX];
#ifdef FTH_ZLIB
	z_stream zlib;
#endif
#ifdef FTH_ZSTD
	ZSTD_DStream *zstd;
#endif
};

struct format {
	const char *name, *magic;
	size_t magic_at, magic_bytes;
	const char *missing; /* why it cannot be read, or NULL */
	int (*open)(struct text_input *input);
	/* Unpack some of in[] to `to`: the number of bytes, or a negative errno with a text. */
	ssize_t (*unpack)(struct text_input *input, char *to, size_t size);
	void (*close)(struct text_input *input);
};

/* ---- the file ---- */

/* False if the reader should stop. */
static bool wait_for_input(const struct text_input *input)
{
	struct pollfd poll_fd = {.fd = input->fd, .events = POLLIN};
	bool ready;

	do {
		ready = !input->waits || poll(&poll_fd, 1, LOOK_MS) > 0;
		if (input->stopped && input->stopped(input->user))
			return false;
	} while (!ready);
	return true;
}

/* As text_input_read(), of the file itself. */
static ssize_t read_file(struct text_input *input, void *to, size_t size)
{
	ssize_t n;

	do {
		if (!wait_for_input(input))
			return fth_fail(ECANCELED, "%s: canceled", input->path);
		n = read(input->fd, to, size);
	} while (n < 0 && errno == EINTR);
	if (n < 0)
		return fth_fail(errno, "%s: %s", input->path, strerror(errno));
	input->ended = n == 0;
	input->packed += (uint64_t)n;
	return n;
}

/* Add to in[], whose bytes are moved to its start. */
static int read_more(struct text_input *input)
{
	ssize_t n;

	memmove(input->in, input->in + input->at, input->used - input->at);
	input->used -= input->at;
	input->at = 0;
	n = read_file(input, input->in + input->used, IN_BYTES - input->used);
	if (n < 0)
		return (int)n;
	input->used += (size_t)n;
	return 0;
}

static ssize_t damaged(const struct text_input *input, const char *why)
{
	return fth_fail(EILSEQ, "%s: damaged %s data before byte %llu: %s", input->path,
			input->format->name,
			(unsigned long long)(input->packed - input->used + input->at), why);
}

/* ---- plain text ---- */

static ssize_t copy_plain(struct text_input *input, char *to, size_t size)
{
	size_t n = input->used - input->at;

	if (n > size)
		n = size;
	memcpy(to, input->in + input->at, n);
	input->at += n;
	return (ssize_t)n;
}

/* ---- gzip ---- */

#ifdef FTH_ZLIB
static int gzip_open(struct text_input *input)
{
	return inflateInit2(&input->zlib, 15 + 16) == Z_OK ? 0 : -ENOMEM;
}

static ssize_t gzip_unpack(struct text_input *input, char *to, size_t size)
{
	z_stream *z = &input->zlib;
	int status;

	z->next_in = input->in + input->at;
	z->avail_in = (uInt)(input->used - input->at);
	z->next_out = (Bytef *)to;
	z->avail_out = (uInt)size;
	status = inflate(z, Z_NO_FLUSH);
	input->at = input->used - z->avail_in;
	input->in_frame = status != Z_STREAM_END;
	if (status == Z_STREAM_END)
		inflateReset(z); /* another member may follow */
	else if (status != Z_OK && status != Z_BUF_ERROR)
		return damaged(input, z->msg ? z->msg : "invalid data");
	return (ssize_t)(size - z->avail_out);
}

static void gzip_close(struct text_input *input)
{
	inflateEnd(&input->zlib);
}
#define GZIP NULL, gzip_open, gzip_unpack, gzip_close
#else
#define GZIP "zlib (zlib1g-dev)", NULL, NULL, NULL
#endif

/* ---- zstd ---- */

#ifdef FTH_ZSTD
static int zstd_open(struct text_input *input)
{
	input->zstd = ZSTD_createDStream();
	return input->zstd ? 0 : -ENOMEM;
}

static ssize_t zstd_unpack(struct text_input *input, char *to, size_t size)
{
	ZSTD_inBuffer in = {input->in, input->used, input->at};
	ZSTD_outBuffer out = {to, size, 0};
	size_t left = ZSTD_decompressStream(input->zstd, &out, &in);

	input->at = in.pos;
	if (ZSTD_isError(left))
		return damaged(input, ZSTD_getErrorName(left));
	input->in_frame = left != 0;
	return (ssize_t)out.pos;
}

static void zstd_close(struct text_input *input)
{
	ZSTD_freeDStream(input->zstd);
}
#define ZSTD NULL, zstd_open, zstd_unpack, zstd_close
#else
#define ZSTD "zstd (libzstd-dev)", NULL, NULL, NULL
#endif

/* ---- which it is ---- */

static const struct format formats[] = {
	{"gzip", "\x1f\x8b", 0, 2, GZIP},
	{"zstd", "\x28\xb5\x2f\xfd", 0, 4, ZSTD},
	{"xz", "\xfd\x37zXZ", 0, 5, "xz", NULL, NULL, NULL},
	{"bzip2", "1AY&SY", 4, 6, "bzip2", NULL, NULL,
	 NULL}, /* BZh9, as text may begin, stands before it */
};
static const struct format plain = {.name = "text", .unpack = copy_plain};

static int find_format(struct text_input *input)
{
	int rc = 0;

	input->format = &plain;
	while (rc == 0 && !input->ended && input->used < MAGIC_BYTES)
		rc = read_more(input);
	if (rc < 0)
		return rc;
	for (unsigned i = 0; i < sizeof(formats) / sizeof(formats[0]); i++)
		if (input->used >= formats[i].magic_at + formats[i].magic_bytes &&
		    memcmp(input->in + formats[i].magic_at, formats[i].magic,
			   formats[i].magic_bytes) == 0)
			input->format = &formats[i];
	if (input->format->missing)
		return fth_fail(EOPNOTSUPP,
				"%s: %s data, but fathom was built without %s; decompress it to "
				"standard input",
				input->path, input->format->name, input->format->missing);
	rc = input->format->open ? input->format->open(input) : 0;
	if (rc < 0)
		input->format = NULL;
	return rc;
}

/* ---- reading ---- */

ssize_t text_input_read(struct text_input *input, char *to, size_t size)
{
	ssize_t n = 0;
	int rc;

	if (input->format == &plain && input->at == input->used)
		return input->ended ? 0 : read_file(input, to, size);
	while (n == 0) {
		/* Packed input may hold back output without more input, so unpack first. */
		if (input->at < input->used || input->in_frame)
			n = input->format->unpack(input, to, size);
		if (n != 0)
			return n;
		if (input->ended && input->at == input->used)
			return input->in_frame ? damaged(input, "its end is missing") : 0;
		rc = read_more(input);
		if (rc < 0)
			return rc;
	}
	return n;
}

uint64_t text_input_position(const struct text_input *input)
{
	return input->packed;
}

/* ---- the stream ---- */

static ssize_t stream_read(void *cookie, char *to, size_t size)
{
	struct text_input *input = cookie;
	ssize_t n = text_input_read(input, to, size);

	if (n >= 0)
		return n;
	input->rc = (int)n;
	snprintf(input->error, sizeof(input->error), "%s", fth_error_text(input->rc));
	errno = -input->rc;
	return -1;
}

FILE *text_input_stream(struct text_input *input)
{
	const cookie_io_functions_t functions = {.read = stream_read};

	if (!input->stream) {
		input->stream = fopencookie(input, "r", functions);
		if (input->stream)
			setvbuf(input->stream, NULL, _IOFBF, STREAM_BYTES);
	}
	return input->stream;
}

int text_input_error(const struct text_input *input)
{
	return input->rc < 0 ? fth_fail(-input->rc, "%s", input->error) : 0;
}

/* ---- opening ---- */

static int open_file(struct text_input *input)
{
	bool standard = strcmp(input->path, "-") == 0;
	struct stat st;

	if (standard)
		input->path = "standard input";
	input->fd = standard ? fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, 3)
			     : fth_fd_open(input->path, O_RDONLY | O_CLOEXEC, 0);
	if (input->fd < 0 || fstat(input->fd, &st) < 0)
		return fth_fail(errno, "%s: %s", input->path, strerror(errno));
	if (S_ISDIR(st.st_mode))
		return fth_fail(EISDIR, "%s: %s", input->path, strerror(EISDIR));
	input->waits = !S_ISREG(st.st_mode);
	if (!input->waits)
		(void)posix_fadvise(input->fd, 0, 0, POSIX_FADV_SEQUENTIAL);
	return 0;
}

int text_input_open(const char *path, bool (*stopped)(void *user), void *user,
		    struct text_input **out)
{
	struct text_input *input = calloc(1, sizeof(*input));
	int rc;

	*out = NULL;
	if (!input)
		return -ENOMEM;
	input->path = path;
	input->fd = -1;
	input->stopped = stopped;
	input->user = user;
	rc = open_file(input);
	if (rc == 0)
		rc = find_format(input);
	if (rc < 0) {
		text_input_close(input);
		return rc;
	}
	*out = input;
	return 0;
}

void text_input_close(struct text_input *input)
{
	if (!input)
		return;
	if (input->stream)
		fclose(input->stream);
	if (input->format && input->format->close)
		input->format->close(input);
	if (input->fd >= 0)
		close(input->fd);
	free(input);
}
