/* SPDX-License-Identifier: BSD-2-Clause */
#include "text_input.h"

#include "cli.h"

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
#define LOOK_MS	     200 /* how often a waiting read looks whether it should stop */

struct fth_text_input {
	const char *path;
	int fd;
	bool waits; /* a read may: it is no regular file */
	FILE *stream;
	const struct format *format;
	uint8_t in[IN_BYTES]; /* what was read and not unpacked */
	size_t at, used;
	bool ended;	 /* the file */
	bool in_frame;	 /* the end of the packed data has not come */
	uint64_t packed; /* bytes that were read */
	char error[160]; /* why unpacking failed */
#ifdef FTH_ZLIB
	z_stream zlib;
#endif
#ifdef FTH_ZSTD
	ZSTD_DStream *zstd;
#endif
};

struct format {
	const char *name, *magic;
	size_t magic_bytes;
	const char *missing; /* why it cannot be read, or NULL */
	int (*open)(struct fth_text_input *input);
	/* Unpack some of in[] to `to`: the number of bytes, or -1 with input->error set. */
	ssize_t (*unpack)(struct fth_text_input *input, char *to, size_t size);
	void (*close)(struct fth_text_input *input);
};

/* ---- the file ---- */

static int wait_for_input(const struct fth_text_input *input)
{
	struct pollfd ready = {.fd = input->fd, .events = POLLIN};

	while (input->waits && poll(&ready, 1, LOOK_MS) == 0)
		if (fth_cli_stopped())
			break;
	if (!fth_cli_stopped())
		return 0;
	errno = EINTR;
	return -1;
}

/* Add to in[], whose bytes are moved to its start. 0, or -1 with errno. */
static int read_more(struct fth_text_input *input)
{
	ssize_t n;

	memmove(input->in, input->in + input->at, input->used - input->at);
	input->used -= input->at;
	input->at = 0;
	do
		n = wait_for_input(input) < 0
			    ? -1
			    : read(input->fd, input->in + input->used, IN_BYTES - input->used);
	while (n < 0 && errno == EINTR && !fth_cli_stopped());
	if (n < 0)
		return -1;
	input->ended = n == 0;
	input->used += (size_t)n;
	input->packed += (uint64_t)n;
	return 0;
}

static ssize_t damaged(struct fth_text_input *input, const char *why)
{
	snprintf(input->error, sizeof(input->error), "damaged %s data before byte %llu: %s",
		 input->format->name, (unsigned long long)(input->packed - input->used + input->at),
		 why);
	errno = EILSEQ;
	return -1;
}

/* ---- plain text ---- */

static ssize_t copy_plain(struct fth_text_input *input, char *to, size_t size)
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
static int gzip_open(struct fth_text_input *input)
{
	return inflateInit2(&input->zlib, 15 + 16) == Z_OK ? 0 : -ENOMEM;
}

static ssize_t gzip_unpack(struct fth_text_input *input, char *to, size_t size)
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

static void gzip_close(struct fth_text_input *input)
{
	inflateEnd(&input->zlib);
}
#define GZIP NULL, gzip_open, gzip_unpack, gzip_close
#else
#define GZIP "zlib (zlib1g-dev)", NULL, NULL, NULL
#endif

/* ---- zstd ---- */

#ifdef FTH_ZSTD
static int zstd_open(struct fth_text_input *input)
{
	input->zstd = ZSTD_createDStream();
	return input->zstd ? 0 : -ENOMEM;
}

static ssize_t zstd_unpack(struct fth_text_input *input, char *to, size_t size)
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

static void zstd_close(struct fth_text_input *input)
{
	ZSTD_freeDStream(input->zstd);
}
#define ZSTD NULL, zstd_open, zstd_unpack, zstd_close
#else
#define ZSTD "zstd (libzstd-dev)", NULL, NULL, NULL
#endif

/* ---- which it is ---- */

static const struct format formats[] = {
	{"gzip", "\x1f\x8b", 2, GZIP},
	{"zstd", "\x28\xb5\x2f\xfd", 4, ZSTD},
	{"xz", "\xfd\x37zXZ", 5, "xz", NULL, NULL, NULL},
	{"bzip2", "BZh", 3, "bzip2", NULL, NULL, NULL},
};
static const struct format plain = {.name = "text", .unpack = copy_plain};

static int find_format(struct fth_text_input *input)
{
	input->format = &plain;
	while (!input->ended && input->used < 8)
		if (read_more(input) < 0)
			return fth_fail(errno, "%s: %s", input->path, strerror(errno));
	for (unsigned i = 0; i < sizeof(formats) / sizeof(formats[0]); i++)
		if (input->used >= formats[i].magic_bytes &&
		    memcmp(input->in, formats[i].magic, formats[i].magic_bytes) == 0)
			input->format = &formats[i];
	if (input->format->missing)
		return fth_fail(EOPNOTSUPP,
				"%s: %s data, but fathom was built without %s; decompress it to "
				"standard input",
				input->path, input->format->name, input->format->missing);
	return input->format->open ? input->format->open(input) : 0;
}

/* ---- the stream ---- */

static ssize_t stream_read(void *cookie, char *to, size_t size)
{
	struct fth_text_input *input = cookie;
	ssize_t n = 0;

	while (n == 0) {
		/* Packed input may hold back output without more input, so unpack first. */
		if (input->at < input->used || input->in_frame)
			n = input->format->unpack(input, to, size);
		if (n != 0)
			return n;
		if (input->ended && input->at == input->used)
			return input->in_frame ? damaged(input, "its end is missing") : 0;
		if (read_more(input) < 0)
			return -1;
	}
	return n;
}

static int open_file(struct fth_text_input *input)
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
	return 0;
}

int fth_text_input_open(const char *path, struct fth_text_input **out)
{
	const cookie_io_functions_t functions = {.read = stream_read};
	struct fth_text_input *input = calloc(1, sizeof(*input));
	int rc;

	*out = NULL;
	if (!input)
		return -ENOMEM;
	input->path = path;
	input->fd = -1;
	rc = open_file(input);
	if (rc == 0)
		rc = find_format(input);
	if (rc == 0) {
		input->stream = fopencookie(input, "r", functions);
		rc = input->stream ? 0 : -ENOMEM;
	}
	if (rc < 0)
		return fth_text_input_close(input, rc);
	setvbuf(input->stream, NULL, _IOFBF, STREAM_BYTES);
	*out = input;
	return 0;
}

FILE *fth_text_input_stream(const struct fth_text_input *input)
{
	return input->stream;
}

int fth_text_input_close(struct fth_text_input *input, int rc)
{
	if (!input)
		return rc;
	if (rc < 0 && input->error[0])
		fth_fail(-rc, "%s: %s", input->path, input->error);
	if (input->stream)
		fclose(input->stream);
	if (input->format && input->format->close)
		input->format->close(input);
	if (input->fd >= 0)
		close(input->fd);
	free(input);
	return rc;
}
