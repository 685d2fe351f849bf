/* SPDX-License-Identifier: BSD-2-Clause */
/* What the commands under `fathom vol` share. */
#ifndef FTH_TOOLS_VOL_SOURCE_H
#define FTH_TOOLS_VOL_SOURCE_H

#include "cli.h"

#include "fathom/vol.h"

#define FTH_VOL_SYNTAX                                                                      \
	"VOLUME is the list of its devices, URI,URI,... in any order; a comma inside one\n" \
	"of the URIs is written %2C."

/* Open a volume from its list of devices. Complains, and warns, itself. */
int fth_vol_source_open(const char *list, unsigned flags, struct fth_vol **out);

/* Say why; FTH_EXIT_INTERRUPTED after a signal, else FTH_EXIT_FAILED. */
int fth_vol_complain(const char *what, int rc);

/* Options of commands that only read: which devices may be missing. */
struct fth_vol_absence {
	bool degraded, minority;
};
#define FTH_VOL_ABSENCE_OPTIONS(absence)                                      \
	{"degraded",                                                          \
	 FTH_CLI_FLAG,                                                        \
	 &(absence).degraded,                                                 \
	 0,                                                                   \
	 0,                                                                   \
	 "devices may be missing, if the others are known to be up to date"}, \
	{                                                                     \
		"minority", FTH_CLI_FLAG, &(absence).minority, 0, 0,          \
			"the same, even if what is read may be out of date"   \
	}
unsigned fth_vol_absence_flags(const struct fth_vol_absence *absence);

/* Options for the shape of a new object. */
struct fth_vol_shape {
	uint64_t unit, replicas, width;
};
#define FTH_VOL_SHAPE_OPTIONS(shape)                                                            \
	{"unit", FTH_CLI_SIZE,	   &(shape).unit,                                               \
	 0,	 FTH_VOL_UNIT_MAX, "stripe unit; 0: the volume's default"},                     \
		{"replicas",	      FTH_CLI_U64,                                              \
		 &(shape).replicas,   0,                                                        \
		 FTH_VOL_DEVICES_MAX, "copies, on different devices; 0: the volume's default"}, \
	{                                                                                       \
		"width", FTH_CLI_U64, &(shape).width, 0, FTH_VOL_DEVICES_MAX,                   \
			"devices to stripe over; 0: all"                                        \
	}
struct fth_vol_object_options fth_vol_shape_options(const struct fth_vol_shape *shape);

#endif
