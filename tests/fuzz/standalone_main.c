/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Runs a fuzz target without libFuzzer: every file of a corpus as it is, then seeded mutations of
 * them. Any compiler will do, the same seed gives the same inputs, and the time is bounded, so a
 * short run is part of the tests.
 *
 *	fuzz_NAME [--runs N] [--seconds N] [--seed N] [--max-len N] [FILE | DIRECTORY]...
 *
 * An input that crashes is written to crash-NAME-SEED-RUN in the current directory, and can be
 * given as FILE to see it again. Exit 0: all inputs passed; 2: wrong use.
 */
#include "fathom/base/rng.h"
#include "fathom/hd/wait.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

struct input {
	uint8_t *bytes;
	size_t size;
};

static struct {
	uint64_t runs, seconds, seed, max_len;
} options = {.runs = 2000, .seconds = 20, .seed = 1, .max_len = 8192};

static struct input *corpus;
static unsigned corpus_count;

/* What the crash handler writes: the input that is running. */
static const uint8_t *running;
static size_t running_size;
static char crash_name[512];

/* ---- crashes ---- */

static void save_running(void)
{
	size_t done = 0;
	int fd;

	if (!running)
		return;
	fd = open(crash_name, O_WRONLY | O_CREAT | O_TRUNC, 0644);
	while (fd >= 0 && done < running_size) {
		ssize_t n = write(fd, running + done, running_size - done);

		if (n <= 0)
			break;
		done += (size_t)n;
	}
	if (fd >= 0)
		close(fd);
	running = NULL;
	if (write(2, "\nthe input is in ", 17) < 0 ||
	    write(2, crash_name, strlen(crash_name)) < 0 || write(2, "\n", 1) < 0)
		return;
}

/* Save, and let the signal do what it would have done. */
static void on_signal(int number)
{
	save_running();
	signal(number, SIG_DFL);
	raise(number);
}

/* A sanitizer that ends the program by itself calls this through atexit(). */
static void on_exit_while_running(void)
{
	save_running();
}

static void catch_crashes(void)
{
	static const int numbers[] = {SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGABRT, SIGALRM, SIGTERM};

	for (unsigned i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++)
		signal(numbers[i], on_signal);
	atexit(on_exit_while_running);
}

/* Sanitizers that end with _exit() call this first; absent in builds without one. */
void __sanitizer_set_death_callback(void (*callback)(void)) __attribute__((weak));

/* ---- the corpus ---- */

static int add_input(const uint8_t *bytes, size_t size)
{
	struct input *grown = realloc(corpus, (corpus_count + 1) * sizeof(*grown));
	uint8_t *copy = malloc(size ? size : 1);

	if (grown)
		corpus = grown;
	if (!grown || !copy) {
		free(copy);
		return -ENOMEM;
	}
	if (size)
		memcpy(copy, bytes, size);
	corpus[corpus_count++] = (struct input){.bytes = copy, .size = size};
	return 0;
}

static int load_file(const char *path)
{
	static uint8_t buffer[1 << 20];
	FILE *file = fopen(path, "rb");
	size_t size;

	if (!file)
		return -errno;
	size = fread(buffer, 1, sizeof(buffer), file);
	fclose(file);
	return add_input(buffer, size);
}

static int by_name(const struct dirent **a, const struct dirent **b)
{
	return strcmp((*a)->d_name, (*b)->d_name); /* not the locale's order */
}

static int load_directory(const char *path)
{
	struct dirent **names;
	int n = scandir(path, &names, NULL, by_name), rc = 0;
	char full[4096];

	if (n < 0)
		return -errno;
	for (int i = 0; i < n; i++) {
		if (rc == 0 && names[i]->d_name[0] != '.') {
			snprintf(full, sizeof(full), "%s/%s", path, names[i]->d_name);
			rc = load_file(full);
		}
		free(names[i]);
	}
	free(names);
	return rc;
}

static int load(const char *path)
{
	struct stat st;

	if (stat(path, &st) < 0)
		return -errno;
	return S_ISDIR(st.st_mode) ? load_directory(path) : load_file(path);
}

/* ---- mutations ---- */

static size_t insert_bytes(uint8_t *bytes, size_t size, struct fth_rng *rng)
{
	size_t n = (size_t)fth_rng_below(rng, 32) + 1, at = (size_t)fth_rng_below(rng, size + 1);

	if (size + n > options.max_len)
		return size;
	memmove(bytes + at + n, bytes + at, size - at);
	for (size_t i = 0; i < n; i++)
		bytes[at + i] = (uint8_t)fth_rng_next(rng);
	return size + n;
}

static size_t remove_bytes(uint8_t *bytes, size_t size, struct fth_rng *rng)
{
	size_t n = (size_t)fth_rng_below(rng, size < 32 ? size : 32) + 1;
	size_t at = (size_t)fth_rng_below(rng, size - n + 1);

	memmove(bytes + at, bytes + at + n, size - at - n);
	return size - n;
}

static void copy_within(uint8_t *bytes, size_t size, struct fth_rng *rng)
{
	size_t n = (size_t)fth_rng_below(rng, size) + 1;

	memmove(bytes + fth_rng_below(rng, size - n + 1), bytes + fth_rng_below(rng, size - n + 1),
		n);
}

/* Values at which code tends to change its mind. */
static void put_edge(uint8_t *bytes, size_t size, struct fth_rng *rng)
{
	static const uint64_t edges[] = {0,	  1,	      0x7f,	  0x80,	      0xff,
					 0xfff,	  0x1000,     0x7fff,	  0xffff,     0x10000,
					 1 << 31, 0xffffffff, UINT64_MAX, 1ull << 63, 511};
	uint64_t edge = edges[fth_rng_below(rng, sizeof(edges) / sizeof(edges[0]))];
	size_t width = (size_t)1 << fth_rng_below(rng, 4);

	if (width > size)
		width = 1;
	memcpy(bytes + fth_rng_below(rng, size - width + 1), &edge, width);
}

/* Take the end of another input. */
static size_t take_end(uint8_t *bytes, size_t size, struct fth_rng *rng)
{
	const struct input *other = &corpus[fth_rng_below(rng, corpus_count)];
	size_t from = (size_t)fth_rng_below(rng, other->size + 1);
	size_t at = (size_t)fth_rng_below(rng, size + 1), n = other->size - from;

	if (at + n > options.max_len)
		n = options.max_len - at;
	memcpy(bytes + at, other->bytes + from, n);
	return at + n;
}

static size_t mutate_once(uint8_t *bytes, size_t size, struct fth_rng *rng)
{
	uint64_t kind = fth_rng_below(rng, 8);

	if (size == 0 || kind == 0)
		return insert_bytes(bytes, size, rng);
	switch (kind) {
	case 1:
		return remove_bytes(bytes, size, rng);
	case 2:
		copy_within(bytes, size, rng);
		return size;
	case 3:
		return take_end(bytes, size, rng);
	case 4:
	case 5:
		put_edge(bytes, size, rng);
		return size;
	case 6:
		bytes[fth_rng_below(rng, size)] ^= (uint8_t)(1u << fth_rng_below(rng, 8));
		return size;
	default:
		bytes[fth_rng_below(rng, size)] = (uint8_t)fth_rng_next(rng);
		return size;
	}
}

static size_t mutate(uint8_t *bytes, struct fth_rng *rng)
{
	const struct input *from = &corpus[fth_rng_below(rng, corpus_count)];
	size_t size = from->size < options.max_len ? from->size : options.max_len;
	uint64_t times = fth_rng_below(rng, 6) + 1;

	memcpy(bytes, from->bytes, size);
	while (times-- > 0)
		size = mutate_once(bytes, size, rng);
	return size;
}

/* ---- running ---- */

/* In memory of its exact size, so that a sanitizer sees a read beyond its end. */
static int run_one(const char *name, uint64_t run, const uint8_t *bytes, size_t size)
{
	uint8_t *exact = malloc(size ? size : 1);

	if (!exact)
		return -ENOMEM;
	memcpy(exact, bytes, size);
	snprintf(crash_name, sizeof(crash_name), "crash-%s-%llu-%llu", name,
		 (unsigned long long)options.seed, (unsigned long long)run);
	running_size = size;
	running = exact;
	alarm(30); /* an input that hangs is a crash */
	LLVMFuzzerTestOneInput(exact, size);
	alarm(0);
	running = NULL;
	free(exact);
	return 0;
}

static int run_all(const char *name)
{
	uint64_t deadline = fth_deadline_ns(options.seconds * 1000000000u), run = 0;
	uint8_t *bytes = malloc(options.max_len ? options.max_len : 1);
	int rc = bytes ? 0 : -ENOMEM;

	for (; rc == 0 && run < corpus_count; run++)
		rc = run_one(name, run, corpus[run].bytes, corpus[run].size);
	for (; rc == 0 && run < corpus_count + options.runs && fth_now_ns() < deadline; run++) {
		struct fth_rng rng = {.state = options.seed << 32 ^ run};

		rc = run_one(name, run, bytes, mutate(bytes, &rng));
	}
	free(bytes);
	printf("%s: %u files and %llu mutations passed\n", name, corpus_count,
	       (unsigned long long)(run - corpus_count));
	return rc;
}

static bool take_option(const char *name, const char *value)
{
	static const struct {
		const char *name;
		uint64_t *value;
	} known[] = {{"--runs", &options.runs},
		     {"--seconds", &options.seconds},
		     {"--seed", &options.seed},
		     {"--max-len", &options.max_len}};

	for (unsigned i = 0; i < sizeof(known) / sizeof(known[0]); i++) {
		if (strcmp(name, known[i].name) == 0 && value) {
			*known[i].value = strtoull(value, NULL, 0);
			return true;
		}
	}
	return false;
}

static int parse(int argc, char **argv)
{
	for (int i = 1; i < argc; i++) {
		int rc;

		if (argv[i][0] == '-') {
			if (!take_option(argv[i], argv[i + 1])) {
				fprintf(stderr, "%s: unknown option, or no value\n", argv[i]);
				return 2;
			}
			i++;
			continue;
		}
		rc = load(argv[i]);
		if (rc < 0) {
			fprintf(stderr, "%s: %s\n", argv[i], strerror(-rc));
			return 2;
		}
	}
	return corpus_count || add_input(NULL, 0) == 0 ? 0 : 2;
}

int main(int argc, char **argv)
{
	const char *slash = strrchr(argv[0], '/');
	int rc = parse(argc, argv);

	if (rc)
		return rc;
	catch_crashes();
	if (__sanitizer_set_death_callback)
		__sanitizer_set_death_callback(save_running);
	rc = run_all(slash ? slash + 1 : argv[0]);
	for (unsigned i = 0; i < corpus_count; i++)
		free(corpus[i].bytes);
	free(corpus);
	return rc ? 1 : 0;
}
