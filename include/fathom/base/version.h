/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The version, of the headers at compile time and of the library at run time. The build reads it
 * from here. Before 1.0 a program needs the minor version that it was compiled with:
 *
 *	printf("compiled with %s, runs with %s\n", FTH_VERSION_STRING, fth_version());
 */
#ifndef FATHOM_BASE_VERSION_H
#define FATHOM_BASE_VERSION_H

#include "fathom/base/decls.h"

FTH_BEGIN_DECLS

#define FTH_VERSION_MAJOR 0
#define FTH_VERSION_MINOR 1
#define FTH_VERSION_PATCH 0

/* "MAJOR.MINOR.PATCH" */
#define FTH_VERSION_STRING                  \
	FTH_VERSION_TEXT(FTH_VERSION_MAJOR) \
	"." FTH_VERSION_TEXT(FTH_VERSION_MINOR) "." FTH_VERSION_TEXT(FTH_VERSION_PATCH)
#define FTH_VERSION_TEXT(number)    FTH_VERSION_LITERAL(number)
#define FTH_VERSION_LITERAL(number) #number

/* The version of the library that this program runs with, as FTH_VERSION_STRING. Any thread. */
const char *fth_version(void);

FTH_END_DECLS
#endif
