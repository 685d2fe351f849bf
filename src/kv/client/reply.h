/* SPDX-License-Identifier: BSD-2-Clause */
/* Answers of a server, one line or one value at a time. Nothing here touches a socket. */
#ifndef FTH_KVC_REPLY_H
#define FTH_KVC_REPLY_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

enum kvc_reply_kind {
	KVC_VALUE,
	KVC_END,
	KVC_STORED,
	KVC_NOT_STORED,
	KVC_EXISTS,
	KVC_NOT_FOUND,
	KVC_DELETED,
	KVC_NUMBER,
	KVC_ERROR,	  /* the command is unknown */
	KVC_CLIENT_ERROR, /* text: what was wrong with it */
	KVC_SERVER_ERROR, /* text: likewise */
	KVC_REPLY_KINDS
};

struct kvc_reply {
	enum kvc_reply_kind kind;
	const char *key; /* VALUE */
	uint32_t key_length;
	const char *data; /* VALUE */
	uint32_t length;
	uint32_t flags;
	uint64_t cas;	  /* VALUE of gets; else 0 */
	uint64_t number;  /* NUMBER */
	const char *text; /* of errors */
	uint32_t text_length;
};

#define KVC_LINE_MAX 2048u

/*
 * Parse the answer at the beginning of n bytes. Returns its length; 0 if it is not complete, then
 * *need is how many bytes it has at least; -EPROTO if it is none, or a value of more than value_max
 * bytes. What *out points to is inside data.
 */
ssize_t kvc_reply_parse(const char *data, size_t n, uint32_t value_max, struct kvc_reply *out,
			size_t *need);

#endif
