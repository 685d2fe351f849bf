/* SPDX-License-Identifier: BSD-2-Clause */
/* A new program: its strings are copied, however many there are. */
#include "flat/preload/calls.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>

struct strings {
	char *at, *end; /* NULL: only count */
	size_t bytes;
};

static uintptr_t keep_string(struct strings *s, uintptr_t from)
{
	size_t length;
	char *to = s->at;

	if (!run_touches(from, 1))
		return from;
	length = strlen((const char *)from) + 1;
	s->bytes += length;
	if (!to || length > (size_t)(s->end - to))
		return from;
	memcpy(to, (const char *)from, length);
	s->at += length;
	return (uintptr_t)to;
}

/* The copy of a vector of strings, ended by NULL. */
static uintptr_t keep_strings(struct strings *s, uintptr_t from)
{
	uintptr_t *to, one = 1;
	size_t n = 0;

	if (!from)
		return 0;
	while (one && calls_get(&one, from + n * sizeof(one), sizeof(one)) == 0)
		n++;
	to = (uintptr_t *)s->at;
	s->bytes += (n + 1) * sizeof(one);
	if (to && n * sizeof(one) <= (size_t)(s->end - s->at))
		s->at += n * sizeof(one);
	else
		to = NULL;
	for (size_t i = 0; i < n; i++) {
		if (calls_get(&one, from + i * sizeof(one), sizeof(one)) < 0)
			return from;
		one = keep_string(s, one);
		if (to)
			to[i] = one;
	}
	return to ? (uintptr_t)to : from;
}

static void keep_exec(struct strings *s, long b[6], unsigned path)
{
	b[path + 1] = (long)keep_strings(s, (uintptr_t)b[path + 1]);
	b[path + 2] = (long)keep_strings(s, (uintptr_t)b[path + 2]);
	b[path] = (long)keep_string(s, (uintptr_t)b[path]);
}

bool exec_touches(long nr, const long a[6])
{
	unsigned path = nr == SYS_execveat;

	if (run_touches((uintptr_t)a[path], 1))
		return true;
	for (unsigned v = path + 1; v <= path + 2; v++)
		for (uintptr_t at = (uintptr_t)a[v], one = 1; at && one; at += sizeof(one))
			if (run_touches(at, sizeof(one)) || calls_get(&one, at, sizeof(one)) < 0 ||
			    run_touches(one, 1))
				return true;
	return false;
}

long exec_do(long nr, const long a[6], run_mask mask)
{
	unsigned path = nr == SYS_execveat;
	struct strings s = {0};
	long b[6], rc;
	size_t size;

	memcpy(b, a, sizeof(b));
	keep_exec(&s, b, path);
	size = (s.bytes + 4096) & ~(size_t)4095;
	s.at = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (s.at == MAP_FAILED)
		return -ENOMEM;
	s.end = s.at + size;
	memcpy(b, a, sizeof(b));
	keep_exec(&s, b, path);
	rc = calls_kernel(nr, b, mask);
	munmap(s.end - size,
	       size); /* a child that borrows our memory and succeeds leaves it there */
	return rc;
}
