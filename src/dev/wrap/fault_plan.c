/* SPDX-License-Identifier: BSD-2-Clause */
#include "dev/wrap/fault_plan.h"

#include "fathom/base/error.h"
#include "fathom/base/rng.h"

#include <errno.h>
#include <string.h>

#define SECTOR	       512u
#define HOLD_MAX_MS    (3600u * 1000u)
#define TIMEOUT_HOLD   1000000000u
#define NS_PER_MS      1000000u
#define ERRNO_MAX      4095
#define COUNT_OF(list) (sizeof(list) / sizeof((list)[0]))

static const struct {
	const char *name;
	int value;
} error_names[] = {
	{"EIO", EIO},
	{"ENOSPC", ENOSPC},
	{"EROFS", EROFS},
	{"ENODATA", ENODATA},
	{"ENODEV", ENODEV},
	{"ENXIO", ENXIO},
	{"ETIMEDOUT", ETIMEDOUT},
	{"ETIME", ETIME},
	{"EBUSY", EBUSY},
	{"EAGAIN", EAGAIN},
	{"ENOMEM", ENOMEM},
	{"EILSEQ", EILSEQ},
	{"EPERM", EPERM},
	{"EACCES", EACCES},
	{"EINVAL", EINVAL},
	{"EFAULT", EFAULT},
	{"EBADMSG", EBADMSG},
	{"EREMOTEIO", EREMOTEIO},
	{"ECANCELED", ECANCELED},
	{"EPROTO", EPROTO},
	{"EDQUOT", EDQUOT},
	{"EFBIG", EFBIG},
	{"EINTR", EINTR},
	{"ENOTSUP", ENOTSUP},
};

static const char *const mode_names[] = {
	[FTH_DEV_FAULT_FAIL] = "fail",
	[FTH_DEV_FAULT_LATE] = "late",
	[FTH_DEV_FAULT_TORN] = "torn",
	[FTH_DEV_FAULT_TIMEOUT] = "timeout",
};

/* ---- from a URI ---- */

static int parse_kind(const char *word, size_t len, uint32_t *kinds)
{
	if (len == 3 && memcmp(word, "all", 3) == 0) {
		*kinds = FTH_DEV_FAULT_ALL_KINDS;
		return 0;
	}
	for (unsigned op = 0; op < FTH_DEV_OP_COUNT; op++) {
		const char *name = fth_dev_op_name((enum fth_dev_op)op);

		if (strlen(name) == len && memcmp(word, name, len) == 0) {
			*kinds |= 1u << op;
			return 0;
		}
	}
	return fth_fail(EINVAL,
			"fault: kind=%.*s is not one of read, write, flush, discard, zero and all",
			(int)len, word);
}

static int parse_kinds(const char *list, uint32_t *kinds)
{
	*kinds = 0;
	for (;;) {
		size_t len = strcspn(list, ",");
		int rc = parse_kind(list, len, kinds);

		if (rc < 0 || list[len] == '\0')
			return rc;
		list += len + 1;
	}
}

static int parse_error(const char *name, int *error)
{
	for (unsigned i = 0; i < COUNT_OF(error_names); i++) {
		if (strcmp(error_names[i].name, name) == 0) {
			*error = error_names[i].value;
			return 0;
		}
	}
	return fth_fail(EINVAL, "fault: unknown error=%s", name);
}

static int parse_mode(const char *name, enum fth_dev_fault_mode *mode)
{
	for (unsigned i = 0; i < COUNT_OF(mode_names); i++) {
		if (strcmp(mode_names[i], name) == 0) {
			*mode = (enum fth_dev_fault_mode)i;
			return 0;
		}
	}
	return fth_fail(EINVAL, "fault: mode=%s is not one of fail, late, torn and timeout", name);
}

static int parse_words(struct fth_uri *uri, struct fth_dev_fault_plan *plan)
{
	const char *text;
	int rc = 0;

	if (fth_uri_take_string(uri, "kind", &text))
		rc = parse_kinds(text, &plan->kinds);
	if (rc == 0 && fth_uri_take_string(uri, "mode", &text))
		rc = parse_mode(text, &plan->mode);
	if (plan->mode == FTH_DEV_FAULT_TIMEOUT) {
		plan->error = ETIMEDOUT;
		plan->hold_ns = TIMEOUT_HOLD;
	}
	if (rc == 0 && fth_uri_take_string(uri, "error", &text))
		rc = parse_error(text, &plan->error);
	return rc;
}

static int parse_numbers(struct fth_uri *uri, struct fth_dev_fault_plan *plan)
{
	uint64_t hold_ms = plan->hold_ns / NS_PER_MS;
	int rc;

	if ((rc = fth_uri_take_u64(uri, "nth", 1, UINT64_MAX, &plan->nth)) < 0 ||
	    (rc = fth_uri_take_u64(uri, "every", 1, UINT64_MAX, &plan->every)) < 0 ||
	    (rc = fth_uri_take_double(uri, "rate", 0, 1, &plan->rate)) < 0 ||
	    (rc = fth_uri_take_u64(uri, "seed", 0, UINT64_MAX, &plan->seed)) < 0 ||
	    (rc = fth_uri_take_u64(uri, "count", 0, UINT64_MAX, &plan->count)) < 0 ||
	    (rc = fth_uri_take_size(uri, "from", 0, UINT64_MAX, &plan->from)) < 0 ||
	    (rc = fth_uri_take_size(uri, "to", 0, UINT64_MAX, &plan->to)) < 0 ||
	    (rc = fth_uri_take_u64(uri, "hold_ms", 0, HOLD_MAX_MS, &hold_ms)) < 0)
		return rc;
	plan->hold_ns = hold_ms * NS_PER_MS;
	return 0;
}

/* Options that are left for us: ?model= is taken before. */
static bool has_any(const struct fth_uri *uri)
{
	for (unsigned i = 0; i < uri->option_count; i++)
		if (!uri->options[i].taken)
			return true;
	return false;
}

static bool has_when(const struct fth_uri *uri)
{
	for (unsigned i = 0; i < uri->option_count; i++) {
		const char *key = uri->options[i].key;

		if (!strcmp(key, "nth") || !strcmp(key, "every") || !strcmp(key, "rate"))
			return true;
	}
	return false;
}

int fth_fault_plan_parse(struct fth_uri *uri, struct fth_dev_fault_plan *plan, bool *given)
{
	int rc;

	*plan = (struct fth_dev_fault_plan)FTH_DEV_FAULT_PLAN_INIT;
	*given = has_any(uri);
	rc = parse_words(uri, plan);
	if (rc == 0)
		rc = parse_numbers(uri, plan);
	if (rc == 0)
		rc = fth_uri_finish(uri);
	if (rc < 0 || !*given)
		return rc;
	if (!has_when(uri))
		return fth_fail(EINVAL,
				"fault: no operation is selected; specify nth=, every= or rate=");
	return fth_fault_plan_check(plan);
}

int fth_fault_plan_check(const struct fth_dev_fault_plan *plan)
{
	if (plan->size != sizeof(*plan))
		return fth_fail(EINVAL, "fault: plan.size is %zu, expected %zu", plan->size,
				sizeof(*plan));
	if (plan->kinds == 0 || plan->kinds & ~FTH_DEV_FAULT_ALL_KINDS)
		return fth_fail(EINVAL, "fault: kinds %#x are not between 1 and 0x1f", plan->kinds);
	if (plan->from >= plan->to)
		return fth_fail(EINVAL, "fault: from=%llu is not below to=%llu",
				(unsigned long long)plan->from, (unsigned long long)plan->to);
	if (!(plan->rate >= 0 && plan->rate <= 1))
		return fth_fail(EINVAL, "fault: rate=%g is not between 0 and 1", plan->rate);
	if (plan->error <= 0 || plan->error > ERRNO_MAX)
		return fth_fail(EINVAL, "fault: error %d is not an errno", plan->error);
	if ((unsigned)plan->mode > FTH_DEV_FAULT_TIMEOUT)
		return fth_fail(EINVAL, "fault: unknown mode %u", (unsigned)plan->mode);
	return 0;
}

/* ---- what a plan says ---- */

bool fth_fault_plan_matches(const struct fth_dev_fault_plan *plan, const struct fth_dev_req *req)
{
	if (!(plan->kinds & 1u << req->op))
		return false;
	if (req->op == FTH_DEV_FLUSH)
		return plan->from == 0 && plan->to == UINT64_MAX;
	return req->offset < plan->to && req->offset + req->length > plan->from;
}

/* The random numbers that belong to the number-th operation. */
static struct fth_rng rng_of(const struct fth_dev_fault_plan *plan, uint64_t number)
{
	struct fth_rng rng = {fth_mix64(plan->seed) ^ fth_mix64(number + 0x9e3779b97f4a7c15u)};

	return rng;
}

static bool hits_by_number(const struct fth_dev_fault_plan *plan, uint64_t number)
{
	uint64_t first = plan->nth ? plan->nth : plan->every;

	if (first == 0 || number < first)
		return false;
	return number == first || (plan->every && (number - first) % plan->every == 0);
}

bool fth_fault_plan_hits(const struct fth_dev_fault_plan *plan, uint64_t number)
{
	struct fth_rng rng = rng_of(plan, number);

	return hits_by_number(plan, number) || fth_rng_unit(&rng) < plan->rate;
}

uint64_t fth_fault_plan_prefix(const struct fth_dev_fault_plan *plan, uint64_t number,
			       const struct fth_dev_req *req, uint32_t block)
{
	uint64_t unit = block > SECTOR ? block : SECTOR;
	uint64_t first = (req->offset / unit + 1) * unit; /* the first boundary inside */
	uint64_t end = req->offset + req->length;
	uint64_t inside = first < end ? (end - 1 - first) / unit + 1 : 0;
	struct fth_rng rng = rng_of(plan, number);
	uint64_t chosen;

	(void)fth_rng_next(&rng); /* the one that decided whether it is hit */
	chosen = fth_rng_below(&rng, inside + 1);
	return chosen == 0 ? 0 : first + (chosen - 1) * unit - req->offset;
}
