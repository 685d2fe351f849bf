/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The environment by which bench_flatredis.py tells the library that it preloads into its peer what
 * to do.
 */
#ifndef FTH_BENCH_FILE_HEAP_H
#define FTH_BENCH_FILE_HEAP_H

#define FILE_HEAP_PATH	 "FTH_BENCH_FILE_HEAP"	      /* a file of the size of all memory */
#define FILE_HEAP_RANDOM "FTH_BENCH_FILE_HEAP_RANDOM" /* set: its mappings are MADV_RANDOM */
#define FILE_HEAP_LEAST	 (1u << 20)		      /* bytes, as `flat run --min-alloc` */

#endif
