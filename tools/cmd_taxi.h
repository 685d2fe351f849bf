/* SPDX-License-Identifier: BSD-2-Clause */
/* What the help texts of `fathom taxi` share. */
#ifndef FTH_TOOLS_CMD_TAXI_H
#define FTH_TOOLS_CMD_TAXI_H

#define TAXI_NOTE "This is a benchmark: for data of your own use `fathom sql`."

#endif
