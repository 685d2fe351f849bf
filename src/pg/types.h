/* SPDX-License-Identifier: BSD-2-Clause */
/* PostgreSQL's types: their numbers, and values in the text and binary formats of the protocol. */
#ifndef PG_TYPES_H
#define PG_TYPES_H

#include "pg/wire.h"

#include "fathom/query.h"

enum pg_oid {
	PG_BOOL = 16,
	PG_BYTEA = 17,
	PG_CHAR = 18, /* "char", one byte */
	PG_NAME = 19,
	PG_INT8 = 20,
	PG_INT2 = 21,
	PG_INT2VECTOR = 22,
	PG_INT4 = 23,
	PG_REGPROC = 24,
	PG_TEXT = 25,
	PG_OID = 26,
	PG_XID = 28,
	PG_OIDVECTOR = 30,
	PG_JSON = 114,
	PG_NODE_TREE = 194,
	PG_FLOAT4 = 700,
	PG_FLOAT8 = 701,
	PG_UNKNOWN = 705,
	PG_CHAR_ARRAY = 1002,
	PG_NAME_ARRAY = 1003,
	PG_INT2_ARRAY = 1005,
	PG_INT4_ARRAY = 1007,
	PG_TEXT_ARRAY = 1009,
	PG_VARCHAR_ARRAY = 1015,
	PG_INT8_ARRAY = 1016,
	PG_OID_ARRAY = 1028,
	PG_ACLITEM_ARRAY = 1034,
	PG_BPCHAR = 1042,
	PG_VARCHAR = 1043,
	PG_DATE = 1082,
	PG_TIMESTAMP = 1114,
	PG_TIMESTAMPTZ = 1184,
	PG_INTERVAL = 1186,
	PG_NUMERIC = 1700,
	PG_REGCLASS = 2205,
	PG_REGTYPE = 2206,
	PG_ANYARRAY = 2277,
	PG_VOID = 2278,
	PG_REGNAMESPACE = 4089,
};

/* A column of a result. */
struct pg_column {
	char *name;
	uint32_t oid;
	int32_t typmod;
	uint32_t table; /* of which it is a column; 0: unknown */
	int attribute;
};

/* The number of an engine's type, and its modifier. */
uint32_t pg_type_of(const struct fth_query_column *c, int32_t *typmod);
/* The bytes of a value of a type; -1: they vary. */
int pg_type_size(uint32_t oid);
/* The engine's type for a parameter; 0: by its context. */
enum fth_table_type pg_parameter_type(uint32_t oid);
/* The number for a parameter of the engine's type. */
uint32_t pg_parameter_oid(enum fth_table_type type);
/* Of an array type, the type of its elements; 0: it is none. */
uint32_t pg_element_type(uint32_t oid);

/*
 * A value of a client as text, to be freed with free(). binary: in the binary format of type oid.
 * 0; -EINVAL: the bytes are no such value; -EOPNOTSUPP: the type has no binary form here; -ENOMEM.
 */
int pg_value_in(uint32_t oid, bool binary, const char *bytes, size_t n, char **out);

/* Append the length and a value that is given as text. binary: in the binary format of the type. */
void pg_value_out(struct pg_wire *w, uint32_t oid, bool binary, const char *text, size_t n);
/* Append a decimal, as text or value, in the binary format of numeric. */
void pg_numeric_out(struct pg_wire *w, const char *text, size_t n);

#define PG_EPOCH_DAYS 10957 /* from 1970-01-01 to 2000-01-01 */

#endif
