/* SPDX-License-Identifier: BSD-2-Clause */
/* Which values a type has. */
#ifndef TABLE_VALUE_H
#define TABLE_VALUE_H

#include "fathom/table/schema.h"

#include <stdbool.h>
#include <stdint.h>

struct value_limits {
	int64_t min, max;
};

/* The smallest and largest value of a column of kind INT. */
struct value_limits value_limits(const struct fth_table_column *column);

/* Whether a wide decimal has at most `precision` digits. */
bool value_wide_fits(const struct fth_table_wide *value, unsigned precision);

#endif
