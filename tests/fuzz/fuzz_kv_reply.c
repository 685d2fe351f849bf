/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What a hostile server may answer to the client: each request is completed once at most, with a
 * value of its own key, and nothing outside the bytes that came is read. The first byte of the
 * input says how many requests are given up, the second one in what pieces the rest comes.
 */
#include "kv/client/flight.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define REQUESTS  24u
#define VALUE_MAX 4096u

static void require(bool condition, const char *what)
{
	if (!condition) {
		fprintf(stderr, "not so: %s\n", what);
		abort();
	}
}

struct state {
	struct fth_kvc_op ops[REQUESTS];
	bool done[REQUESTS];
};

static void on_done(void *context, struct fth_kvc_op *op, int result)
{
	struct state *state = context;
	size_t at = (size_t)(op - state->ops);

	require(at < REQUESTS && !state->done[at], "a request is completed once");
	require(result <= 0 && result > -4096, "a result");
	state->done[at] = true;
	if (op->verb == FTH_KV_GET && result == 0)
		require(op->data && op->length <= VALUE_MAX, "a value");
	free(op->data);
	op->data = NULL;
}

/* Gets in a row, with the same key twice, and every other verb. */
static void ask(struct kvc_flight *flight, struct state *state, struct kvc_bytes *out)
{
	static const char *const keys[] = {"a", "b", "a", "key", "c"};

	for (unsigned i = 0; i < REQUESTS; i++) {
		const char *key = keys[i % 5];
		uint32_t slot;

		state->ops[i] = (struct fth_kvc_op){
			.verb = i % 3 ? FTH_KV_GET : (enum fth_kv_verb)(i / 3 + FTH_KV_TOUCH),
			.key = key,
			.key_length = (uint32_t)strlen(key),
			.value = "v",
			.value_length = i % 2,
			.cas = i == 21,
			.want_cas = i > 16,
		};
		require(kvc_flight_put(flight, &state->ops[i], out, &slot) == 0 && slot == i,
			"requests are encoded");
	}
	kvc_flight_end(flight, out);
}

/* Give the bytes as they come: what is not consumed stays, in memory of its own length. */
static void answer(struct kvc_flight *flight, const uint8_t *data, size_t size, size_t piece)
{
	size_t from = 0, to = 0;

	while (to < size) {
		size_t n, need;
		ssize_t taken;
		char *copy;

		to = size - to < piece ? size : to + piece;
		n = to - from;
		copy = malloc(n);
		if (!copy)
			return;
		memcpy(copy, data + from, n);
		taken = kvc_flight_take(flight, copy, n, &need);
		free(copy);
		if (taken < 0) {
			require(taken == -EPROTO, "an error");
			return;
		}
		require((size_t)taken <= n && need <= VALUE_MAX + KVC_LINE_MAX + 2 + n, "a length");
		from += (size_t)taken;
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static struct kvc_flight flight;
	struct kvc_bytes out = {0};
	struct state state = {0};
	struct fth_kvc_op *op;

	if (size < 2)
		return 0;
	memset(&flight, 0, sizeof(flight));
	flight.value_max = VALUE_MAX;
	flight.done = on_done;
	flight.context = &state;
	ask(&flight, &state, &out);
	for (unsigned i = 0; i < REQUESTS && i < data[0] % 32; i++) {
		require(kvc_flight_abandon(&flight, i) == 0, "given up");
		state.done[i] = true;
	}
	answer(&flight, data + 2, size - 2, data[1] ? data[1] : 4096);
	while ((op = kvc_flight_pop(&flight)) != NULL)
		on_done(&state, op, -ECONNRESET);
	for (unsigned i = 0; i < REQUESTS; i++)
		require(state.done[i], "every request ends");
	kvc_bytes_release(&out);
	return 0;
}
