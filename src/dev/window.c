/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The common part of every window: checks of kinds, guarantees and ranges. The devices that have
 * one make it: dev_mem.c, dev_file_window.c, src/nvme/driver/dev_window.c; crash_window.c and
 * dev_fault.c wrap one.
 */
#include "fathom/dev/driver.h"

#include "fathom/base/error.h"
#include "fathom/hd/wait.h"

#include <errno.h>
#include <string.h>

const char *fth_dev_window_kind_name(enum fth_dev_window_kind kind)
{
	static const char *const names[FTH_DEV_WINDOW_KINDS] = {"any", "memory", "file", "cmb",
								"pmr"};

	return kind < FTH_DEV_WINDOW_KINDS ? names[kind] : "unknown";
}

const char *fth_dev_window_guarantee_name(enum fth_dev_window_guarantee guarantee)
{
	static const char *const names[] = {"volatile", "exit", "power"};

	return guarantee <= FTH_DEV_WINDOW_POWER ? names[guarantee] : "unknown";
}

int fth_dev_window_open(struct fth_dev *dev, enum fth_dev_window_kind kind,
			enum fth_dev_window_guarantee least, struct fth_dev_window **out)
{
	struct fth_dev_window *window;
	int rc;

	*out = NULL;
	if (kind >= FTH_DEV_WINDOW_KINDS || least > FTH_DEV_WINDOW_POWER)
		return fth_fail(EINVAL, "unknown window kind %u or guarantee %u", (unsigned)kind,
				(unsigned)least);
	if (!dev->ops->window_open)
		return fth_fail(EOPNOTSUPP, "%s has no byte-addressable window", fth_dev_uri(dev));
	rc = dev->ops->window_open(dev, kind, &window);
	if (rc < 0)
		return rc;
	window->dev = dev;
	if (window->info.guarantee < least) {
		rc = fth_fail(EOPNOTSUPP,
			      "the %s window of %s has the guarantee \"%s\", not \"%s\"",
			      fth_dev_window_kind_name(window->info.kind), fth_dev_uri(dev),
			      fth_dev_window_guarantee_name(window->info.guarantee),
			      fth_dev_window_guarantee_name(least));
		window->ops->close(window);
		return rc;
	}
	*out = window;
	return 0;
}

void fth_dev_window_close(struct fth_dev_window *window)
{
	if (window)
		window->ops->close(window);
}

const struct fth_dev_window_info *fth_dev_window_info(const struct fth_dev_window *window)
{
	return &window->info;
}

const char *fth_dev_window_text(const struct fth_dev_window *window)
{
	return window->text;
}

/* ---- use ---- */

static int check_range(const struct fth_dev_window *window, uint64_t offset, uint64_t length)
{
	if (offset > window->info.size || length > window->info.size - offset)
		return fth_fail(ERANGE, "%llu bytes at offset %llu exceed the window of %llu bytes",
				(unsigned long long)length, (unsigned long long)offset,
				(unsigned long long)window->info.size);
	return 0;
}

/*
 * memcpy(), but a naturally aligned copy of 1, 2, 4 or 8 bytes is one access on the window's side.
 * Relaxed atomics: they stop the compiler from splitting it. Returns false when it is no such copy.
 */
static bool load_at_once(void *to, const void *at, uint64_t length)
{
	uint64_t value;

	if (length > 8 || (length & (length - 1)) || (uintptr_t)at % length)
		return false;
	switch (length) {
	case 1:
		value = __atomic_load_n((const uint8_t *)at, __ATOMIC_RELAXED);
		break;
	case 2:
		value = __atomic_load_n((const uint16_t *)at, __ATOMIC_RELAXED);
		break;
	case 4:
		value = __atomic_load_n((const uint32_t *)at, __ATOMIC_RELAXED);
		break;
	default:
		value = __atomic_load_n((const uint64_t *)at, __ATOMIC_RELAXED);
		break;
	}
	memcpy(to, &value, length); /* little-endian: the low bytes come first */
	return true;
}

static bool store_at_once(void *at, const void *from, uint64_t length)
{
	uint64_t value = 0;

	if (length > 8 || (length & (length - 1)) || (uintptr_t)at % length)
		return false;
	memcpy(&value, from, length);
	switch (length) {
	case 1:
		__atomic_store_n((uint8_t *)at, (uint8_t)value, __ATOMIC_RELAXED);
		break;
	case 2:
		__atomic_store_n((uint16_t *)at, (uint16_t)value, __ATOMIC_RELAXED);
		break;
	case 4:
		__atomic_store_n((uint32_t *)at, (uint32_t)value, __ATOMIC_RELAXED);
		break;
	default:
		__atomic_store_n((uint64_t *)at, value, __ATOMIC_RELAXED);
		break;
	}
	return true;
}

int fth_dev_window_load(const struct fth_dev_window *window, uint64_t offset, void *to,
			uint64_t length)
{
	const char *at = (const char *)window->info.base + offset;
	int rc = check_range(window, offset, length);

	if (rc < 0 || length == 0)
		return rc;
	if (window->ops->load)
		window->ops->load(window, offset, to, length);
	else if (!load_at_once(to, at, length))
		memcpy(to, at, length);
	return 0;
}

int fth_dev_window_store(struct fth_dev_window *window, uint64_t offset, const void *from,
			 uint64_t length)
{
	char *at = (char *)window->info.base + offset;
	int rc = check_range(window, offset, length);

	if (rc < 0 || length == 0)
		return rc;
	if (window->info.flags & FTH_DEV_WINDOW_READ_ONLY)
		return fth_fail(EROFS, "the %s window of %s is read-only",
				fth_dev_window_kind_name(window->info.kind),
				fth_dev_uri(window->dev));
	if (window->ops->store)
		window->ops->store(window, offset, from, length);
	else if (!store_at_once(at, from, length))
		memcpy(at, from, length);
	return 0;
}

int fth_dev_window_persist(struct fth_dev_window *window, uint64_t offset, uint64_t length,
			   uint64_t deadline)
{
	int rc = check_range(window, offset, length);

	if (rc < 0 || length == 0 || !window->ops->persist)
		return rc;
	if (deadline == FTH_DEV_TIMEOUT)
		deadline = fth_deadline_ns(FTH_DEV_TIMEOUT_NS);
	return window->ops->persist(window, offset, length, deadline);
}

int fth_dev_window_check(const struct fth_dev_window *window)
{
	return window->ops->check ? window->ops->check(window) : 0;
}
