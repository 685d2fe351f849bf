/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef BASE_PORT_H
#define BASE_PORT_H

/*
 * Before getaddrinfo(), which takes the lower 16 bits of a port: 0, or -EINVAL with a text if
 * `where`, HOST:PORT, has a port above 65535. An address without a port passes.
 */
int fth_port_check(const char *where);

#endif
