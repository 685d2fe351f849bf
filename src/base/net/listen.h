/* SPDX-License-Identifier: BSD-2-Clause */
/* Sockets that a server listens on: TCP, Unix, or such that somebody else has bound. */
#ifndef BASE_LISTEN_H
#define BASE_LISTEN_H

#define FTH_LISTEN_MAX 16u

/* Begin with zeroes. */
struct fth_listen {
	int fd[FTH_LISTEN_MAX];
	unsigned count;
	char *unlink[FTH_LISTEN_MAX]; /* paths of Unix sockets that we made */
	unsigned port;		      /* of the first TCP socket, or 0 */
	/*
	 * Why addresses that other machines can reach are refused, the end of the error text; NULL:
	 * they are not.
	 */
	const char *local_only;
};

/*
 * Listen on HOST:PORT, on all addresses of the host; on unix:PATH; or on fd:N, a socket that is
 * bound already. The sockets do not block. Returns 0 or a negative errno with a text, -EACCES for
 * an address that local_only forbids; what was opened before stays open.
 */
int fth_listen_open(struct fth_listen *l, const char *where);
/* Close all, and remove the Unix sockets. */
void fth_listen_close(struct fth_listen *l);

/* One socket, on one address of HOST:PORT. */
int fth_listen_one(const char *where, int *fd, unsigned *port);

#endif
