/* SPDX-License-Identifier: BSD-2-Clause */
/* What `fathom flat run` and `fathom flat stat` say of a program. */
#ifndef FTH_TOOLS_FLAT_REPORT_H
#define FTH_TOOLS_FLAT_REPORT_H

#include <stdio.h>

#include "flat/preload/run_shared.h"

/* For people, or one line of JSON. */
void fth_flat_report(FILE *out, const struct run_shared *run);
void fth_flat_report_json(FILE *out, const struct run_shared *run);
/* A part of a line, without an end. */
void fth_flat_report_short(FILE *out, const struct run_shared *run);

#endif
