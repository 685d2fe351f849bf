/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * TLS over a socket that does not block, for servers, clients and tools. One thread at a
 * time uses a session.
 */
#ifndef BASE_TLS_H
#define BASE_TLS_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

/* What sessions of a server share. 0 or a negative errno with a text. */
int tls_open(const char *certificate, const char *key, void **out);
/*
 * The same of a client. authorities: PEM file of the certificates that a server's is verified by;
 * NULL: those of the system.
 */
int tls_open_client(const char *authorities, void **out);
void tls_close(void *tls);
/* A session; the handshake is part of the first read or write. NULL: no memory. */
void *tls_attach(void *tls, int fd);
/*
 * A session of a client; tls_handshake() must follow. host: the name or address that the server's
 * certificate must have; NULL: any. NULL: no memory.
 */
void *tls_attach_client(void *tls, int fd, const char *host);
/*
 * Go on with the handshake. Returns 0: it is complete; -EAGAIN: call again when the socket has
 * *events of poll(); or another negative errno with a text, which says why the certificate does not
 * verify.
 */
int tls_handshake(void *session, short *events);
void tls_detach(void *session);
/* As read() and send(): -1 and errno, EAGAIN if the socket has to be waited for. */
ssize_t tls_read(void *session, void *to, size_t n);
ssize_t tls_send(void *session, const void *from, size_t n);
/* Bytes that were read from the socket already, so that no event tells of them. */
bool tls_pending(void *session);

#endif
