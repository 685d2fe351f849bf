/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The library reads pages that the program stores to by plain pointers. Page protection orders the
 * two, which ThreadSanitizer cannot see: such reads stand between these marks.
 */
#ifndef FATHOM_SRC_FLAT_PAGING_RACE_H
#define FATHOM_SRC_FLAT_PAGING_RACE_H

#ifdef __SANITIZE_THREAD__
void AnnotateIgnoreReadsBegin(const char *file, int line);
void AnnotateIgnoreReadsEnd(const char *file, int line);
#define FLAT_READS_BEGIN() AnnotateIgnoreReadsBegin(__FILE__, __LINE__)
#define FLAT_READS_END()   AnnotateIgnoreReadsEnd(__FILE__, __LINE__)
#else
#define FLAT_READS_BEGIN() (void)0
#define FLAT_READS_END()   (void)0
#endif

#endif
