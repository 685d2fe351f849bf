/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * FTH_BEGIN_DECLS and FTH_END_DECLS enclose the declarations of a public header. In between,
 * functions have C linkage, and libfathom.so exports them. The library is compiled with
 * -fvisibility=hidden, so a function that no public header declares is not exported.
 */
#ifndef FATHOM_BASE_DECLS_H
#define FATHOM_BASE_DECLS_H

/* clang-format off */
#ifdef __cplusplus
#define FTH_BEGIN_DECLS extern "C" { _Pragma("GCC visibility push(default)")
#define FTH_END_DECLS   _Pragma("GCC visibility pop") }
#else
#define FTH_BEGIN_DECLS _Pragma("GCC visibility push(default)")
#define FTH_END_DECLS   _Pragma("GCC visibility pop")
#endif
/* clang-format on */

#endif
