/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What lets a client in: the server's certificate, and the passwords of users. Both are read again
 * while the server runs. A TLS session holds a reference to the certificate it began with, and a
 * connection that has given a password is not asked again.
 */
#include "kv/server/server.h"

#include <errno.h>
#include <stdlib.h>

struct access {
	/* Paths do not change. */
	char *auth_file; /* NULL: everybody may */
	char *tls_certificate, *tls_key;
	pthread_mutex_t lock; /* what follows */
	struct auth auth;
	void *tls; /* NULL: none */
};

static bool copy_path(char **to, const char *from)
{
	*to = from ? strdup(from) : NULL;
	return !from || *to;
}

/* All files, or none of them. */
static int load_files(const struct access *a, struct auth *auth, void **tls)
{
	int rc = 0;

	memset(auth, 0, sizeof(*auth));
	*tls = NULL;
	if (a->auth_file)
		rc = auth_load(auth, a->auth_file);
	if (rc == 0 && a->tls_certificate)
		rc = tls_open(a->tls_certificate, a->tls_key, tls);
	if (rc < 0)
		auth_release(auth);
	return rc;
}

int access_open(const struct fth_kv_server_options *o, struct access **out)
{
	struct access *a = calloc(1, sizeof(*a));
	int rc = -ENOMEM;

	if (!a)
		return rc;
	pthread_mutex_init(&a->lock, NULL);
	if (copy_path(&a->auth_file, o->auth_file) &&
	    copy_path(&a->tls_certificate, o->tls_certificate) &&
	    copy_path(&a->tls_key, o->tls_key))
		rc = load_files(a, &a->auth, &a->tls);
	*out = a;
	return rc;
}

void access_close(struct access *a)
{
	if (!a)
		return;
	auth_release(&a->auth);
	tls_close(a->tls);
	pthread_mutex_destroy(&a->lock);
	free(a->auth_file);
	free(a->tls_certificate);
	free(a->tls_key);
	free(a);
}

int access_reload(struct access *a)
{
	struct auth auth, old_auth;
	void *tls, *old_tls;
	int rc = load_files(a, &auth, &tls);

	if (rc < 0)
		return rc;
	pthread_mutex_lock(&a->lock);
	old_auth = a->auth;
	old_tls = a->tls;
	a->auth = auth;
	a->tls = tls;
	pthread_mutex_unlock(&a->lock);
	auth_release(&old_auth);
	tls_close(old_tls);
	return 0;
}

bool access_has_users(const struct access *a)
{
	return a->auth_file != NULL;
}

bool access_has_tls(const struct access *a)
{
	return a->tls_certificate != NULL;
}

bool access_check(struct access *a, const char *text, size_t length)
{
	bool good;

	pthread_mutex_lock(&a->lock);
	good = auth_check(&a->auth, text, length);
	pthread_mutex_unlock(&a->lock);
	return good;
}

void *access_attach(struct access *a, int fd)
{
	void *session;

	pthread_mutex_lock(&a->lock);
	session = tls_attach(a->tls, fd);
	pthread_mutex_unlock(&a->lock);
	return session;
}
