/* SPDX-License-Identifier: BSD-2-Clause */
/* From a URI to a device: find the scheme, open what is inside, then the device itself. */
#include "dev/blocking.h"
#include "dev/schemes.h"

#include "fathom/base/error.h"
#include "fathom/dev/delay.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define REGISTERED_MAX 32

static pthread_mutex_t registry_lock = PTHREAD_MUTEX_INITIALIZER;
static const struct fth_dev_scheme *registered[REGISTERED_MAX];
static unsigned registered_count;

static const struct fth_dev_scheme *find_builtin(const char *name)
{
	for (unsigned i = 0; fth_dev_builtin_schemes[i]; i++)
		if (strcmp(fth_dev_builtin_schemes[i]->name, name) == 0)
			return fth_dev_builtin_schemes[i];
	return NULL;
}

static const struct fth_dev_scheme *find_registered(const char *name)
{
	for (unsigned i = 0; i < registered_count; i++)
		if (strcmp(registered[i]->name, name) == 0)
			return registered[i];
	return NULL;
}

static const struct fth_dev_scheme *find_scheme(const char *name)
{
	const struct fth_dev_scheme *scheme = find_builtin(name);

	if (scheme)
		return scheme;
	pthread_mutex_lock(&registry_lock);
	scheme = find_registered(name);
	pthread_mutex_unlock(&registry_lock);
	return scheme;
}

/* A thread that had the mutex during fork() is not in the child. */
static void registry_forked(void)
{
	pthread_mutex_init(&registry_lock, NULL);
}

__attribute__((constructor)) static void registry_watch_forks(void)
{
	(void)pthread_atfork(NULL, NULL, registry_forked);
}

int fth_dev_scheme_register(const struct fth_dev_scheme *scheme)
{
	int rc = 0;

	pthread_mutex_lock(&registry_lock);
	if (find_builtin(scheme->name) || find_registered(scheme->name))
		rc = fth_fail(EEXIST, "device scheme \"%s\" is already registered", scheme->name);
	else if (registered_count == REGISTERED_MAX)
		rc = fth_fail(ENOSPC, "cannot register more than %d device schemes",
			      REGISTERED_MAX);
	else
		registered[registered_count++] = scheme;
	pthread_mutex_unlock(&registry_lock);
	return rc;
}

int fth_dev_adopt(struct fth_dev *dev, const char *text)
{
	pthread_mutex_init(&dev->lock, NULL);
	dev->blocking = fth_blocking_new();
	dev->uri = strdup(text);
	dev->stats = fth_stats_new(FTH_DEV_STAT_COUNT);
	if (dev->blocking && dev->uri && dev->stats)
		return 0;
	fth_dev_close(dev);
	return -ENOMEM;
}

static int open_scheme(const struct fth_dev_scheme *scheme, struct fth_uri *uri, const char *text,
		       struct fth_dev **out)
{
	struct fth_dev *inner = NULL, *dev = NULL;
	int rc;

	if (scheme->wrapper != (uri->inner != NULL))
		return fth_fail(EINVAL, "%s: expected %s%s", uri->scheme, scheme->name,
				scheme->wrapper ? "(DEVICE)" : ":PATH");
	if (uri->inner && !scheme->list) {
		rc = fth_dev_open_flags(uri->inner, uri->readonly ? FTH_DEV_READONLY : 0, &inner);
		if (rc < 0)
			return rc;
	}
	rc = scheme->open(uri, inner, &dev);
	if (rc < 0) {
		fth_dev_close(inner);
		return rc;
	}
	rc = fth_dev_adopt(dev, text);
	if (rc == 0)
		*out = dev;
	return rc;
}

/*
 * Any scheme but delay itself, which has an option of that name, may say model=NAME. It is taken
 * before the scheme looks at its options, and refused before anything is opened.
 */
static int take_model(struct fth_uri *uri, const char **model)
{
	*model = NULL;
	if (strcmp(uri->scheme, fth_dev_scheme_delay.name) == 0 ||
	    !fth_uri_take_string(uri, "model", model) || fth_dev_model(*model))
		return 0;
	return fth_fail(EINVAL, "unknown device model \"%s\"", *model);
}

/* Put a delay device around *dev; on failure *dev is left for the caller to close, or NULL. */
static int add_model(const char *model, const char *text, struct fth_dev **dev)
{
	struct fth_dev *outer;
	int rc = fth_dev_delay_wrap(*dev, model, &outer);

	if (rc < 0)
		return rc;
	/* From here on *dev belongs to outer, which fth_dev_adopt() closes when it fails. */
	*dev = NULL;
	rc = fth_dev_adopt(outer, text);
	if (rc == 0)
		*dev = outer;
	return rc;
}

static int open_uri(struct fth_uri *uri, const char *text, struct fth_dev **out)
{
	const struct fth_dev_scheme *scheme = find_scheme(uri->scheme);
	const char *model;
	int rc;

	if (!scheme)
		return fth_fail(EINVAL, "unknown device scheme \"%s\"", uri->scheme);
	rc = take_model(uri, &model);
	if (rc < 0)
		return rc;
	rc = open_scheme(scheme, uri, text, out);
	if (rc == 0 && model)
		rc = add_model(model, text, out);
	if (rc == 0)
		rc = fth_uri_finish(uri);
	return rc;
}

int fth_dev_open_flags(const char *text, unsigned flags, struct fth_dev **out)
{
	struct fth_uri uri;
	int rc;

	*out = NULL;
	if (flags & ~FTH_DEV_READONLY)
		return fth_fail(EINVAL, "flags 0x%x: expected 0 or FTH_DEV_READONLY", flags);
	rc = fth_uri_parse(&uri, text);
	if (rc < 0)
		return rc;
	uri.readonly = flags & FTH_DEV_READONLY;
	rc = open_uri(&uri, text, out);
	if (rc < 0) {
		fth_dev_close(*out);
		*out = NULL;
	}
	fth_uri_release(&uri);
	return rc;
}

int fth_dev_open(const char *text, struct fth_dev **out)
{
	return fth_dev_open_flags(text, 0, out);
}
