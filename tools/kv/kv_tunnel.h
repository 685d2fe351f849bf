/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A way to a server that wants TLS or a password, for code that speaks neither: a Unix socket of this
 * process alone, whose connections are carried on to the server.
 */
#ifndef FTH_TOOLS_KV_TUNNEL_H
#define FTH_TOOLS_KV_TUNNEL_H

#include <stdbool.h>

/* Options of a command; zero-initialise. */
struct fth_kv_tunnel_options {
	bool tls;	/* speak TLS; the server's certificate is verified by those of the system */
	const char *ca; /* PEM file to verify it by instead; implies tls */
	const char *auth; /* "user password" that each connection begins with; NULL: none */
};

struct fth_kv_tunnel;

/*
 * Open a tunnel to a server (HOST:PORT, HOST or unix:PATH) and make one connection to see that it
 * works. *server is replaced by the address to connect to, which is valid until the tunnel is closed. If
 * the options ask for nothing, nothing is done and *out is NULL. 0 or a negative errno with a text.
 */
int fth_kv_tunnel_open(const struct fth_kv_tunnel_options *options, const char **server,
		       struct fth_kv_tunnel **out);
/* Ends its connections. Accepts NULL. */
void fth_kv_tunnel_close(struct fth_kv_tunnel *tunnel);

#endif
