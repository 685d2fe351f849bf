/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A connection to a server that speaks memcached's protocol, with TLS and a password if it asks for
 * them. Every wait has a timeout, and ends with -ECANCELED when fth_cli_stopped().
 */
#ifndef FTH_TOOLS_KV_WIRE_H
#define FTH_TOOLS_KV_WIRE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* What sessions of TLS share: the options --tls and --tls-ca. Zero-initialise. */
struct fth_kv_tls {
	bool on;	/* verify the server by the certificates of the system */
	const char *ca; /* PEM file to verify it by instead; implies `on` */
	void *context;	/* NULL: no TLS */
};

/* 0 or a negative errno with a text. Does nothing if the options ask for nothing. */
int fth_kv_tls_open(struct fth_kv_tls *tls);
void fth_kv_tls_close(struct fth_kv_tls *tls);

/* The socket does not block. Zero-initialise but for fd, which is -1. */
struct fth_kv_wire {
	const char *server; /* HOST:PORT, HOST or unix:PATH */
	int fd;
	void *session; /* of TLS; NULL: none */
};

/*
 * Connect, make TLS's handshake and give the password. tls, auth ("user password"): NULL for none.
 * 0 or a negative errno with a text; the wire is closed then.
 */
int fth_kv_wire_open(struct fth_kv_wire *wire, const char *server, const struct fth_kv_tls *tls,
		     const char *auth, uint64_t timeout_ns);
/* Accepts one that is closed. */
void fth_kv_wire_close(struct fth_kv_wire *wire);

/*
 * Send a request and wait for its answer: lines up to END, or one line that is no STAT. The caller
 * frees *answer. 0 or a negative errno with a text.
 */
int fth_kv_wire_ask(struct fth_kv_wire *wire, const char *request, size_t length,
		    uint64_t timeout_ns, char **answer);

/* As recv() and send(). */
ssize_t fth_kv_wire_read(struct fth_kv_wire *wire, void *to, size_t n);
ssize_t fth_kv_wire_send(struct fth_kv_wire *wire, const void *from, size_t n);
/* Bytes have come of which poll() and epoll do not know. */
bool fth_kv_wire_pending(const struct fth_kv_wire *wire);

#endif
