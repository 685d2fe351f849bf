/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef TABLE_NAMES_H
#define TABLE_NAMES_H

#include <stdbool.h>

/* A letter or _, then letters, digits and _; at most FTH_TABLE_NAME_MAX bytes. */
bool table_name_valid(const char *name);

#endif
