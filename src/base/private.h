/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * FTH_PRIVATE before a declaration: libfathom_cuda calls this function. It is a library of its own,
 * so libfathom exports the function to it, with the version FATHOM_PRIVATE (src/fathom.map), and no
 * installed header declares it.
 */
#ifndef BASE_PRIVATE_H
#define BASE_PRIVATE_H

#define FTH_PRIVATE __attribute__((visibility("default")))

#endif
