/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * TLS by OpenSSL, if the build has its headers. A session reads and writes as a socket does.
 *
 * Sessions use a BIO of this file: that of OpenSSL raises SIGPIPE, which would end the program that
 * uses the client.
 *
 * The library is loaded when TLS is first asked for: neither libfathom nor the tool depends on it
 * otherwise.
 */
#include "base/net/tls.h"

#include "fathom/base/error.h"

#include <errno.h>

#ifdef FTH_TLS

#include <dlfcn.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/x509_vfy.h>
#include <poll.h>
#include <pthread.h>
#include <sys/socket.h>

/* All of OpenSSL that is used. The macros of its headers end in SSL_CTX_ctrl(). */
#define FUNCTIONS(X)                          \
	X(BIO_clear_flags)                    \
	X(BIO_get_data)                       \
	X(BIO_get_new_index)                  \
	X(BIO_meth_new)                       \
	X(BIO_meth_set_ctrl)                  \
	X(BIO_meth_set_read)                  \
	X(BIO_meth_set_write)                 \
	X(BIO_new)                            \
	X(BIO_set_data)                       \
	X(BIO_set_flags)                      \
	X(BIO_set_init)                       \
	X(ERR_clear_error)                    \
	X(ERR_peek_last_error)                \
	X(ERR_reason_error_string)            \
	X(SSL_CTX_check_private_key)          \
	X(SSL_CTX_ctrl)                       \
	X(SSL_CTX_free)                       \
	X(SSL_CTX_load_verify_locations)      \
	X(SSL_CTX_new)                        \
	X(SSL_CTX_set_default_verify_paths)   \
	X(SSL_CTX_set_options)                \
	X(SSL_CTX_set_verify)                 \
	X(SSL_CTX_use_PrivateKey_file)        \
	X(SSL_CTX_use_certificate_chain_file) \
	X(SSL_do_handshake)                   \
	X(SSL_ctrl)                           \
	X(SSL_free)                           \
	X(SSL_get0_param)                     \
	X(SSL_get_error)                      \
	X(SSL_get_verify_result)              \
	X(SSL_is_init_finished)               \
	X(SSL_new)                            \
	X(SSL_pending)                        \
	X(SSL_read)                           \
	X(SSL_set_accept_state)               \
	X(SSL_set_bio)                        \
	X(SSL_set_connect_state)              \
	X(SSL_shutdown)                       \
	X(SSL_write)                          \
	X(TLS_client_method)                  \
	X(TLS_server_method)                  \
	X(X509_VERIFY_PARAM_set1_host)        \
	X(X509_VERIFY_PARAM_set1_ip_asc)      \
	X(X509_verify_cert_error_string)

#define DECLARE(name) __typeof__(&name) name##_;
static struct {
	FUNCTIONS(DECLARE)
} ssl;
static pthread_mutex_t load_lock = PTHREAD_MUTEX_INITIALIZER;
static bool loaded; /* under load_lock */
static BIO_METHOD *method;

/* ---- a BIO over a socket ---- */

static int bio_result(BIO *bio, ssize_t n, int flag)
{
	ssl.BIO_clear_flags_(bio, BIO_FLAGS_RWS | BIO_FLAGS_SHOULD_RETRY);
	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		ssl.BIO_set_flags_(bio, flag | BIO_FLAGS_SHOULD_RETRY);
	return (int)n;
}

static int bio_read(BIO *bio, char *to, int n)
{
	int fd = (int)(intptr_t)ssl.BIO_get_data_(bio);

	return bio_result(bio, recv(fd, to, (size_t)n, 0), BIO_FLAGS_READ);
}

static int bio_write(BIO *bio, const char *from, int n)
{
	int fd = (int)(intptr_t)ssl.BIO_get_data_(bio);

	return bio_result(bio, send(fd, from, (size_t)n, MSG_NOSIGNAL), BIO_FLAGS_WRITE);
}

static long bio_ctrl(BIO *bio, int command, long number, void *pointer)
{
	(void)bio;
	(void)number;
	(void)pointer;
	return command == BIO_CTRL_FLUSH;
}

static int make_method(void)
{
	method = ssl.BIO_meth_new_(ssl.BIO_get_new_index_() | BIO_TYPE_SOURCE_SINK, "socket");
	if (!method || !ssl.BIO_meth_set_read_(method, bio_read) ||
	    !ssl.BIO_meth_set_write_(method, bio_write) ||
	    !ssl.BIO_meth_set_ctrl_(method, bio_ctrl))
		return fth_fail(ENOMEM, "TLS: no memory");
	return 0;
}

/* ---- loading ---- */

/* libssl brings libcrypto along; dlsym() on its handle finds the functions of both. */
static int load_all(void)
{
	void *library = dlopen("libssl.so.3", RTLD_NOW | RTLD_LOCAL);
	int rc;

	if (!library)
		return fth_fail(ENOTSUP, "TLS requires OpenSSL 3: %s", dlerror());
#define LOAD(name)                                      \
	*(void **)&ssl.name##_ = dlsym(library, #name); \
	if (!ssl.name##_)                               \
		return fth_fail(ENOTSUP, "TLS: libssl.so.3 has no " #name);
	FUNCTIONS(LOAD)
	rc = make_method();
	loaded = rc == 0; /* and never unloaded */
	return rc;
}

static int load(void)
{
	int rc;

	pthread_mutex_lock(&load_lock);
	rc = loaded ? 0 : load_all();
	pthread_mutex_unlock(&load_lock);
	return rc;
}

static const char *reason(void)
{
	const char *text = ssl.ERR_reason_error_string_(ssl.ERR_peek_last_error_());

	return text ? text : "unknown error";
}

/* ---- contexts ---- */

int tls_open(const char *certificate, const char *key, void **out)
{
	SSL_CTX *context;
	int rc = load();

	if (rc < 0)
		return rc;
	ssl.ERR_clear_error_();
	context = ssl.SSL_CTX_new_(ssl.TLS_server_method_());
	if (!context)
		return fth_fail(ENOMEM, "TLS: %s", reason());
	if (ssl.SSL_CTX_ctrl_(context, SSL_CTRL_SET_MIN_PROTO_VERSION, TLS1_2_VERSION, NULL) != 1)
		rc = fth_fail(EINVAL, "TLS: %s", reason());
	else if (ssl.SSL_CTX_use_certificate_chain_file_(context, certificate) != 1)
		rc = fth_fail(EINVAL, "%s: cannot read a certificate: %s", certificate, reason());
	else if (ssl.SSL_CTX_use_PrivateKey_file_(context, key, SSL_FILETYPE_PEM) != 1)
		rc = fth_fail(EINVAL, "%s: cannot read a private key: %s", key, reason());
	else if (ssl.SSL_CTX_check_private_key_(context) != 1)
		rc = fth_fail(EINVAL, "%s is not the key of %s: %s", key, certificate, reason());
	if (rc < 0) {
		ssl.SSL_CTX_free_(context);
		return rc;
	}
	/* Answers move in memory between two tries to send them; a client cannot renegotiate. */
	(void)ssl.SSL_CTX_ctrl_(context, SSL_CTRL_MODE,
				SSL_MODE_ENABLE_PARTIAL_WRITE |
					SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER |
					SSL_MODE_RELEASE_BUFFERS,
				NULL);
	ssl.SSL_CTX_set_options_(context, SSL_OP_NO_RENEGOTIATION);
	*out = context;
	return 0;
}

int tls_open_client(const char *authorities, void **out)
{
	SSL_CTX *context;
	int rc = load();

	if (rc < 0)
		return rc;
	ssl.ERR_clear_error_();
	context = ssl.SSL_CTX_new_(ssl.TLS_client_method_());
	if (!context)
		return fth_fail(ENOMEM, "TLS: %s", reason());
	if (ssl.SSL_CTX_ctrl_(context, SSL_CTRL_SET_MIN_PROTO_VERSION, TLS1_2_VERSION, NULL) != 1)
		rc = fth_fail(EINVAL, "TLS: %s", reason());
	else if (authorities && ssl.SSL_CTX_load_verify_locations_(context, authorities, NULL) != 1)
		rc = fth_fail(EINVAL, "%s: cannot read a certificate: %s", authorities, reason());
	else if (!authorities && ssl.SSL_CTX_set_default_verify_paths_(context) != 1)
		rc = fth_fail(EINVAL, "TLS: cannot read the certificates of the system: %s",
			      reason());
	if (rc < 0) {
		ssl.SSL_CTX_free_(context);
		return rc;
	}
	ssl.SSL_CTX_set_verify_(context, SSL_VERIFY_PEER, NULL);
	ssl.SSL_CTX_set_options_(context, SSL_OP_NO_RENEGOTIATION);
	(void)ssl.SSL_CTX_ctrl_(context, SSL_CTRL_MODE,
				SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER,
				NULL);
	*out = context;
	return 0;
}

/* An address is compared with those of the certificate, a name with its names, and sent (SNI). */
static bool expect_host(SSL *session, const char *host)
{
	X509_VERIFY_PARAM *param = ssl.SSL_get0_param_(session);

	if (ssl.X509_VERIFY_PARAM_set1_ip_asc_(param, host) == 1)
		return true;
	return ssl.X509_VERIFY_PARAM_set1_host_(param, host, 0) == 1 &&
	       ssl.SSL_ctrl_(session, SSL_CTRL_SET_TLSEXT_HOSTNAME, TLSEXT_NAMETYPE_host_name,
			     (void *)(uintptr_t)host) == 1;
}

void tls_close(void *tls)
{
	if (!tls)
		return;
	ssl.SSL_CTX_free_(tls);
}

/* ---- sessions ---- */

static SSL *new_session(void *tls, int fd)
{
	SSL *session = ssl.SSL_new_(tls);
	BIO *bio = session ? ssl.BIO_new_(method) : NULL;

	if (!bio) {
		ssl.SSL_free_(session); /* accepts NULL */
		return NULL;
	}
	ssl.BIO_set_data_(bio, (void *)(intptr_t)fd);
	ssl.BIO_set_init_(bio, 1);
	ssl.SSL_set_bio_(session, bio, bio);
	return session;
}

void *tls_attach(void *tls, int fd)
{
	SSL *session = new_session(tls, fd);

	if (session)
		ssl.SSL_set_accept_state_(session); /* the handshake is part of the first read */
	return session;
}

void *tls_attach_client(void *tls, int fd, const char *host)
{
	SSL *session = new_session(tls, fd);

	if (session && host && !expect_host(session, host)) {
		ssl.SSL_free_(session);
		session = NULL;
	}
	if (session)
		ssl.SSL_set_connect_state_(session);
	return session;
}

int tls_handshake(void *session, short *events)
{
	long verdict;
	int rc, error;

	ssl.ERR_clear_error_();
	errno = 0;
	rc = ssl.SSL_do_handshake_(session);
	if (rc == 1)
		return 0;
	error = ssl.SSL_get_error_(session, rc);
	*events = error == SSL_ERROR_WANT_READ ? POLLIN : POLLOUT;
	if (error == SSL_ERROR_WANT_READ || error == SSL_ERROR_WANT_WRITE)
		return -EAGAIN;
	verdict = ssl.SSL_get_verify_result_(session);
	if (verdict != X509_V_OK)
		return fth_fail(EPROTO, "TLS: %s", ssl.X509_verify_cert_error_string_(verdict));
	if (!ssl.ERR_peek_last_error_())
		return fth_fail(EPROTO, "TLS: the server closed the connection");
	return fth_fail(EPROTO, "TLS: %s", reason());
}

void tls_detach(void *session)
{
	if (!session)
		return;
	if (ssl.SSL_is_init_finished_(session))
		(void)ssl.SSL_shutdown_(session); /* says goodbye if the socket has room */
	ssl.ERR_clear_error_();
	ssl.SSL_free_(session);
}

static ssize_t result(SSL *session, int rc)
{
	switch (ssl.SSL_get_error_(session, rc)) {
	case SSL_ERROR_WANT_READ:
	case SSL_ERROR_WANT_WRITE:
		errno = EAGAIN;
		return -1;
	case SSL_ERROR_ZERO_RETURN:
		return 0;
	default:
		errno = EPROTO;
		return -1;
	}
}

static int limited(size_t n)
{
	return n > 1u << 30 ? 1 << 30 : (int)n;
}

ssize_t tls_read(void *session, void *to, size_t n)
{
	int rc;

	ssl.ERR_clear_error_();
	rc = ssl.SSL_read_(session, to, limited(n));
	return rc > 0 ? rc : result(session, rc);
}

ssize_t tls_send(void *session, const void *from, size_t n)
{
	ssize_t sent;
	int rc;

	ssl.ERR_clear_error_();
	rc = ssl.SSL_write_(session, from, limited(n));
	if (rc > 0)
		return rc;
	sent = result(session, rc);
	if (sent == 0)
		errno = EPIPE;
	return -1;
}

bool tls_pending(void *session)
{
	return ssl.SSL_pending_(session) > 0;
}

#else

int tls_open(const char *certificate, const char *key, void **out)
{
	(void)key;
	(void)out;
	return fth_fail(ENOTSUP, "%s: this build has no TLS support: OpenSSL was not found",
			certificate);
}

int tls_open_client(const char *authorities, void **out)
{
	(void)authorities;
	(void)out;
	return fth_fail(ENOTSUP, "this build has no TLS support: OpenSSL was not found");
}

void tls_close(void *tls)
{
	(void)tls;
}

void *tls_attach(void *tls, int fd)
{
	(void)tls;
	(void)fd;
	return NULL;
}

void *tls_attach_client(void *tls, int fd, const char *host)
{
	(void)host;
	return tls_attach(tls, fd);
}

int tls_handshake(void *session, short *events)
{
	(void)session;
	(void)events;
	return -ENOTSUP;
}

void tls_detach(void *session)
{
	(void)session;
}

ssize_t tls_read(void *session, void *to, size_t n)
{
	(void)session;
	(void)to;
	(void)n;
	errno = ENOTSUP;
	return -1;
}

ssize_t tls_send(void *session, const void *from, size_t n)
{
	return tls_read(session, (void *)(uintptr_t)from, n);
}

bool tls_pending(void *session)
{
	(void)session;
	return false;
}

#endif
