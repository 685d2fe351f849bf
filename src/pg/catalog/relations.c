/* SPDX-License-Identifier: BSD-2-Clause */
/* The rows of catalogs. */
#include "pg/catalog/catalog.h"

#include "fathom/table.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

struct cat_rel *cat_new(struct cat *c, unsigned width, const char *const *names)
{
	struct cat_rel *rel = sql_alloc(c->ctx, sizeof(*rel));

	rel->width = width;
	rel->columns = SQL_ARRAY(c->ctx, struct cat_column, width + 1);
	for (unsigned i = 0; i < width; i++)
		rel->columns[i] = (struct cat_column){names ? names[i] : "?column?", PG_TEXT};
	return rel;
}

struct cat_value *cat_add(struct cat *c, struct cat_rel *rel)
{
	if (rel->count == rel->room) {
		unsigned room = rel->room ? rel->room * 2 : 16;
		struct cat_value *cells =
			SQL_ARRAY(c->ctx, struct cat_value, (size_t)room * rel->width + 1);

		if (rel->count > 0)
			memcpy(cells, rel->cells, (size_t)rel->count * rel->width * sizeof(*cells));
		rel->cells = cells;
		rel->room = room;
	}
	for (unsigned i = 0; i < rel->width; i++)
		rel->cells[(size_t)rel->count * rel->width + i] =
			(struct cat_value){NULL, rel->columns[i].oid};
	return &rel->cells[(size_t)rel->count++ * rel->width];
}

/* ---- columns of catalogs: "name type, ..." with one letter for the type ---- */

static const struct definition {
	const char *schema, *name, *columns;
} definitions[] = {
	{"pg_catalog", "pg_class",
	 "oid o,relname n,relnamespace o,reltype o,reloftype o,relowner o,relam o,relfilenode "
	 "o,reltablespace o,"
	 "relpages i,reltuples f,relallvisible i,reltoastrelid o,relhasindex b,relisshared "
	 "b,relpersistence c,"
	 "relkind c,relnatts s,relchecks s,relhasrules b,relhastriggers b,relhassubclass "
	 "b,relrowsecurity b,"
	 "relforcerowsecurity b,relispopulated b,relreplident c,relispartition b,relrewrite "
	 "o,relfrozenxid o,"
	 "relminmxid o,relacl t,reloptions A,relpartbound t,tableoid o,xmin o"},
	{"pg_catalog", "pg_namespace", "oid o,nspname n,nspowner o,nspacl t,tableoid o"},
	{"pg_catalog", "pg_attribute",
	 "attrelid o,attname n,atttypid o,attstattarget i,attlen s,attnum s,attndims i,attcacheoff "
	 "i,atttypmod i,"
	 "attbyval b,attalign c,attstorage c,attcompression c,attnotnull b,atthasdef "
	 "b,atthasmissing b,attidentity c,"
	 "attgenerated c,attisdropped b,attislocal b,attinhcount i,attcollation o,attacl "
	 "t,attoptions A,"
	 "attfdwoptions A,attmissingval t"},
	{"pg_catalog", "pg_type",
	 "oid o,typname n,typnamespace o,typowner o,typlen s,typbyval b,typtype c,typcategory "
	 "c,typispreferred b,"
	 "typisdefined b,typdelim c,typrelid o,typsubscript t,typelem o,typarray o,typinput "
	 "t,typoutput t,"
	 "typreceive t,typsend t,typnotnull b,typbasetype o,typtypmod i,typndims i,typcollation "
	 "o,typdefault t,"
	 "typacl t,tableoid o"},
	{"pg_catalog", "pg_database",
	 "oid o,datname n,datdba o,encoding i,datlocprovider c,datistemplate b,datallowconn "
	 "b,datconnlimit i,"
	 "dattablespace o,datcollate t,datctype t,daticulocale t,datcollversion t,datacl "
	 "t,tableoid o"},
	{"pg_catalog", "pg_roles",
	 "oid o,rolname n,rolsuper b,rolinherit b,rolcreaterole b,rolcreatedb b,rolcanlogin "
	 "b,rolreplication b,"
	 "rolconnlimit i,rolpassword t,rolvaliduntil t,rolbypassrls b,rolconfig A"},
	{"pg_catalog", "pg_authid", "oid o,rolname n,rolsuper b,rolcanlogin b"},
	{"pg_catalog", "pg_user",
	 "usename n,usesysid o,usecreatedb b,usesuper b,userepl b,usebypassrls b,passwd t"},
	{"pg_catalog", "pg_settings",
	 "name t,setting t,unit t,category t,short_desc t,context t,vartype t,source t,boot_val "
	 "t,reset_val t"},
	{"pg_catalog", "pg_am", "oid o,amname n,amhandler t,amtype c"},
	{"pg_catalog", "pg_tables",
	 "schemaname n,tablename n,tableowner n,tablespace n,hasindexes b,hasrules b,hastriggers "
	 "b,rowsecurity b"},
	{"pg_catalog", "pg_views", "schemaname n,viewname n,viewowner n,definition t"},
	{"pg_catalog", "pg_collation",
	 "oid o,collname n,collnamespace o,collowner o,collprovider c,collisdeterministic "
	 "b,collencoding i,"
	 "collcollate t,collctype t,colliculocale t,collversion t"},
	{"pg_catalog", "pg_stat_activity",
	 "datid o,datname n,pid i,usename n,application_name t,state t,query t"},
	{"pg_catalog", "pg_tablespace", "oid o,spcname n,spcowner o,spcacl t,spcoptions A"},
	{"pg_catalog", "pg_index",
	 "indexrelid o,indrelid o,indnatts s,indnkeyatts s,indisunique b,indnullsnotdistinct "
	 "b,indisprimary b,"
	 "indisexclusion b,indimmediate b,indisclustered b,indisvalid b,indcheckxmin b,indisready "
	 "b,indislive b,"
	 "indisreplident b,indkey v,indcollation t,indclass t,indoption v,indexprs t,indpred t"},
	{"pg_catalog", "pg_constraint",
	 "oid o,conname n,connamespace o,contype c,condeferrable b,condeferred b,convalidated "
	 "b,conrelid o,contypid o,"
	 "conindid o,conparentid o,confrelid o,confupdtype c,confdeltype c,confmatchtype "
	 "c,conislocal b,coninhcount i,"
	 "connoinherit b,conkey a,confkey a,conbin t"},
	{"pg_catalog", "pg_attrdef", "oid o,adrelid o,adnum s,adbin t"},
	{"pg_catalog", "pg_description", "objoid o,classoid o,objsubid i,description t"},
	{"pg_catalog", "pg_shdescription", "objoid o,classoid o,description t"},
	{"pg_catalog", "pg_proc",
	 "oid o,proname n,pronamespace o,proowner o,prolang o,prokind c,prosecdef b,proisstrict "
	 "b,proretset b,"
	 "provolatile c,pronargs s,prorettype o,proargtypes v,proallargtypes a,proargmodes "
	 "A,proargnames A,prosrc t,"
	 "proacl t,proargdefaults t,pronargdefaults s,provariadic o"},
	{"pg_catalog", "pg_inherits", "inhrelid o,inhparent o,inhseqno i,inhdetachpending b"},
	{"pg_catalog", "pg_enum", "oid o,enumtypid o,enumsortorder f,enumlabel n"},
	{"pg_catalog", "pg_range", "rngtypid o,rngsubtype o,rngmultitypid o,rngcollation o"},
	{"pg_catalog", "pg_trigger",
	 "oid o,tgrelid o,tgparentid o,tgname n,tgfoid o,tgtype s,tgenabled c,tgisinternal "
	 "b,tgconstraint o"},
	{"pg_catalog", "pg_rewrite",
	 "oid o,rulename n,ev_class o,ev_type c,ev_enabled c,is_instead b"},
	{"pg_catalog", "pg_depend",
	 "classid o,objid o,objsubid i,refclassid o,refobjid o,refobjsubid i,deptype c"},
	{"pg_catalog", "pg_extension", "oid o,extname n,extowner o,extnamespace o,extversion t"},
	{"pg_catalog", "pg_language", "oid o,lanname n"},
	{"pg_catalog", "pg_operator",
	 "oid o,oprname n,oprnamespace o,oprleft o,oprright o,oprresult o"},
	{"pg_catalog", "pg_opclass",
	 "oid o,opcmethod o,opcname n,opcnamespace o,opcintype o,opcdefault b"},
	{"pg_catalog", "pg_aggregate", "aggfnoid o,aggkind c"},
	{"pg_catalog", "pg_cast", "oid o,castsource o,casttarget o,castfunc o,castcontext c"},
	{"pg_catalog", "pg_policy",
	 "oid o,polname n,polrelid o,polcmd c,polpermissive b,polroles a,polqual t,polwithcheck t"},
	{"pg_catalog", "pg_publication",
	 "oid o,pubname n,pubowner o,puballtables b,pubinsert b,pubupdate b,pubdelete "
	 "b,pubtruncate b,pubviaroot b"},
	{"pg_catalog", "pg_publication_rel", "oid o,prpubid o,prrelid o,prqual t,prattrs v"},
	{"pg_catalog", "pg_publication_namespace", "oid o,pnpubid o,pnnspid o"},
	{"pg_catalog", "pg_statistic_ext",
	 "oid o,stxrelid o,stxname n,stxnamespace o,stxstattarget i,stxkeys v,stxkind A"},
	{"pg_catalog", "pg_foreign_table", "ftrelid o,ftserver o,ftoptions A"},
	{"pg_catalog", "pg_foreign_server", "oid o,srvname n,srvowner o,srvfdw o"},
	{"pg_catalog", "pg_foreign_data_wrapper", "oid o,fdwname n"},
	{"pg_catalog", "pg_partitioned_table", "partrelid o,partstrat c,partnatts s"},
	{"pg_catalog", "pg_sequence",
	 "seqrelid o,seqtypid o,seqstart l,seqincrement l,seqmax l,seqmin l,seqcache l,seqcycle b"},
	{"pg_catalog", "pg_sequences", "schemaname n,sequencename n"},
	{"pg_catalog", "pg_matviews", "schemaname n,matviewname n,matviewowner n,definition t"},
	{"pg_catalog", "pg_indexes",
	 "schemaname n,tablename n,indexname n,tablespace n,indexdef t"},
	{"pg_catalog", "pg_event_trigger", "oid o,evtname n"},
	{"pg_catalog", "pg_auth_members", "roleid o,member o,grantor o,admin_option b"},
	{"pg_catalog", "pg_db_role_setting", "setdatabase o,setrole o,setconfig A"},
	{"pg_catalog", "pg_locks", "locktype t,database o,relation o,pid i,mode t,granted b"},
	{"pg_catalog", "pg_prepared_xacts", "transaction o,gid t"},
	{"pg_catalog", "pg_timezone_names", "name t,abbrev t,utc_offset t,is_dst b"},
	{"pg_catalog", "pg_available_extensions",
	 "name n,default_version t,installed_version t,comment t"},
	{"information_schema", "schemata",
	 "catalog_name n,schema_name n,schema_owner n,default_character_set_name n"},
	{"information_schema", "tables",
	 "table_catalog n,table_schema n,table_name n,table_type t,is_insertable_into t,is_typed "
	 "t"},
	{"information_schema", "views",
	 "table_catalog n,table_schema n,table_name n,view_definition t,check_option "
	 "t,is_updatable t"},
	{"information_schema", "columns",
	 "table_catalog n,table_schema n,table_name n,column_name n,ordinal_position "
	 "i,column_default t,is_nullable t,"
	 "data_type t,character_maximum_length i,character_octet_length i,numeric_precision "
	 "i,numeric_precision_radix i,"
	 "numeric_scale i,datetime_precision i,collation_name n,udt_catalog n,udt_schema "
	 "n,udt_name n,is_identity t,"
	 "identity_generation t,is_generated t,generation_expression t,is_updatable t"},
	{"information_schema", "table_constraints",
	 "constraint_catalog n,constraint_schema n,constraint_name n,table_catalog n,table_schema "
	 "n,table_name n,"
	 "constraint_type t"},
	{"information_schema", "key_column_usage",
	 "constraint_catalog n,constraint_schema n,constraint_name n,table_catalog n,table_schema "
	 "n,table_name n,"
	 "column_name n,ordinal_position i,position_in_unique_constraint i"},
	{"information_schema", "referential_constraints",
	 "constraint_catalog n,constraint_schema n,constraint_name n,unique_constraint_schema n,"
	 "unique_constraint_name n,update_rule t,delete_rule t"},
	{"information_schema", "constraint_column_usage",
	 "table_schema n,table_name n,column_name n,constraint_schema n,constraint_name n"},
	{"information_schema", "routines",
	 "routine_catalog n,routine_schema n,routine_name n,routine_type t"},
	{"information_schema", "sequences", "sequence_catalog n,sequence_schema n,sequence_name n"},
};

static uint32_t letter_type(char letter)
{
	switch (letter) {
	case 'o':
		return PG_OID;
	case 'n':
		return PG_NAME;
	case 'i':
		return PG_INT4;
	case 's':
		return PG_INT2;
	case 'l':
		return PG_INT8;
	case 'b':
		return PG_BOOL;
	case 'c':
		return PG_CHAR;
	case 'f':
		return PG_FLOAT8;
	case 'v':
		return PG_INT2VECTOR;
	case 'a':
		return PG_INT2_ARRAY;
	case 'A':
		return PG_TEXT_ARRAY;
	default:
		return PG_TEXT;
	}
}

static struct cat_rel *make_relation(struct cat *c, const struct definition *d)
{
	unsigned width = 1, at = 0;
	char *copy = sql_copy(c->ctx, d->columns), *save;
	struct cat_rel *rel;

	for (const char *p = d->columns; *p; p++)
		width += *p == ',';
	rel = cat_new(c, width, NULL);
	for (char *word = strtok_r(copy, ",", &save); word; word = strtok_r(NULL, ",", &save)) {
		char *space = strchr(word, ' ');

		*space = '\0';
		rel->columns[at++] = (struct cat_column){word, letter_type(space[1])};
	}
	return rel;
}

/* Set a column of a row by its name. */
static void put(struct cat *c, struct cat_rel *rel, struct cat_value *row, const char *name,
		const char *text)
{
	(void)c;
	for (unsigned i = 0; i < rel->width; i++)
		if (strcmp(rel->columns[i].name, name) == 0)
			row[i].text = text;
}

/* A row with "name=value" pairs, of which those with values come from the arguments. */
static struct cat_value *row_with(struct cat *c, struct cat_rel *rel, const char *pairs)
{
	struct cat_value *row = cat_add(c, rel);
	char *copy = sql_copy(c->ctx, pairs), *save;

	for (char *word = strtok_r(copy, "|", &save); word; word = strtok_r(NULL, "|", &save)) {
		char *equals = strchr(word, '=');

		*equals = '\0';
		put(c, rel, row, word, equals + 1);
	}
	return row;
}

/* Flags of a relation that are false: all columns of type bool that are not set. */
static void set_false(struct cat_rel *rel, struct cat_value *row)
{
	for (unsigned i = 0; i < rel->width; i++)
		if (!row[i].text && rel->columns[i].oid == PG_BOOL)
			row[i].text = "f";
}

/* ---- types ---- */

static const struct type_row {
	uint32_t oid, array;
	const char *name, *sql;
	char category;
} types[] = {
	{PG_BOOL, 1000, "bool", "boolean", 'B'},
	{PG_BYTEA, 1001, "bytea", "bytea", 'U'},
	{PG_CHAR, 1002, "char", "\"char\"", 'Z'},
	{PG_NAME, 1003, "name", "name", 'S'},
	{PG_INT8, 1016, "int8", "bigint", 'N'},
	{PG_INT2, 1005, "int2", "smallint", 'N'},
	{PG_INT2VECTOR, 1006, "int2vector", "int2vector", 'A'},
	{PG_INT4, 1007, "int4", "integer", 'N'},
	{PG_REGPROC, 1008, "regproc", "regproc", 'N'},
	{PG_TEXT, 1009, "text", "text", 'S'},
	{PG_OID, 1028, "oid", "oid", 'N'},
	{PG_XID, 1011, "xid", "xid", 'U'},
	{PG_OIDVECTOR, 1013, "oidvector", "oidvector", 'A'},
	{PG_JSON, 199, "json", "json", 'U'},
	{PG_FLOAT4, 1021, "float4", "real", 'N'},
	{PG_FLOAT8, 1022, "float8", "double precision", 'N'},
	{PG_UNKNOWN, 0, "unknown", "unknown", 'X'},
	{PG_BPCHAR, 1014, "bpchar", "character", 'S'},
	{PG_VARCHAR, 1015, "varchar", "character varying", 'S'},
	{PG_DATE, 1182, "date", "date", 'D'},
	{1083, 1183, "time", "time without time zone", 'D'},
	{PG_TIMESTAMP, 1115, "timestamp", "timestamp without time zone", 'D'},
	{PG_TIMESTAMPTZ, 1185, "timestamptz", "timestamp with time zone", 'D'},
	{PG_INTERVAL, 1187, "interval", "interval", 'T'},
	{PG_NUMERIC, 1231, "numeric", "numeric", 'N'},
	{PG_REGCLASS, 2210, "regclass", "regclass", 'N'},
	{PG_REGTYPE, 2211, "regtype", "regtype", 'N'},
	{PG_REGNAMESPACE, 4090, "regnamespace", "regnamespace", 'N'},
	{2950, 2951, "uuid", "uuid", 'U'},
	{2249, 2287, "record", "record", 'P'},
	{PG_VOID, 0, "void", "void", 'P'},
};

#define TYPES (sizeof(types) / sizeof(types[0]))

uint32_t cat_type_oid(const char *name)
{
	for (size_t i = 0; i < TYPES; i++) {
		if (strcasecmp(types[i].name, name) == 0 || strcasecmp(types[i].sql, name) == 0)
			return types[i].oid;
		if (name[0] == '_' && strcasecmp(types[i].name, name + 1) == 0)
			return types[i].array;
	}
	return strcasecmp(name, "int") == 0	  ? PG_INT4
	       : strcasecmp(name, "decimal") == 0 ? PG_NUMERIC
						  : 0;
}

const char *cat_type_name(struct cat *c, uint32_t oid, int typmod)
{
	for (size_t i = 0; i < TYPES; i++) {
		if (types[i].array == oid && oid != 0)
			return sql_format(c->ctx, "%s[]", types[i].sql);
		if (types[i].oid != oid)
			continue;
		if (typmod >= 4 && (oid == PG_VARCHAR || oid == PG_BPCHAR))
			return sql_format(c->ctx, "%s(%d)", types[i].sql, typmod - 4);
		if (typmod >= 4 && oid == PG_NUMERIC)
			return sql_format(c->ctx, "numeric(%d,%d)", (typmod - 4) >> 16,
					  (typmod - 4) & 0xffff);
		return types[i].sql;
	}
	return oid == 0 ? "-" : "???";
}

static void add_type(struct cat *c, struct cat_rel *rel, const struct type_row *t, bool array)
{
	struct cat_value *row =
		row_with(c, rel,
			 "typnamespace=11|typowner=10|typdelim=,|typisdefined=t|"
			 "typrelid=0|typbasetype=0|typtypmod=-1|typndims=0|tableoid=1247");
	int size = pg_type_size(t->oid);

	put(c, rel, row, "oid", sql_format(c->ctx, "%u", array ? t->array : t->oid));
	put(c, rel, row, "typname", array ? sql_format(c->ctx, "_%s", t->name) : t->name);
	put(c, rel, row, "typlen", sql_format(c->ctx, "%d", array ? -1 : size));
	put(c, rel, row, "typbyval", !array && size > 0 && size <= 8 ? "t" : "f");
	put(c, rel, row, "typtype", t->category == 'P' ? "p" : "b");
	put(c, rel, row, "typcategory", array ? "A" : sql_format(c->ctx, "%c", t->category));
	put(c, rel, row, "typelem",
	    sql_format(c->ctx, "%u", array ? t->oid : pg_element_type(t->oid)));
	put(c, rel, row, "typarray", sql_format(c->ctx, "%u", array ? 0 : t->array));
	put(c, rel, row, "typinput", array ? "array_in" : sql_format(c->ctx, "%sin", t->name));
	put(c, rel, row, "typoutput", array ? "array_out" : sql_format(c->ctx, "%sout", t->name));
	put(c, rel, row, "typcollation", t->category == 'S' ? "100" : "0");
	set_false(rel, row);
}

static void fill_types(struct cat *c, struct cat_rel *rel)
{
	for (size_t i = 0; i < TYPES; i++) {
		add_type(c, rel, &types[i], false);
		if (types[i].array)
			add_type(c, rel, &types[i], true);
	}
}

/* ---- tables and views of the database: name, oid, kind, rows, text ---- */

enum { T_NAME, T_OID, T_KIND, T_ROWS, T_TEXT, T_WIDTH };
enum { A_TABLE, A_NAME, A_TYPE, A_TYPMOD, A_NUMBER, A_NOTNULL, A_WIDTH };

static const char *new_oid(struct cat *c, const char *name)
{
	uint32_t hash = 2166136261u;

	for (const char *p = name; *p; p++)
		hash = (hash ^ (uint8_t)*p) * 16777619u;
	hash = 16384 + hash % (1u << 30);
	for (bool again = true; again;) {
		again = false;
		for (unsigned i = 0; i < c->tables->count; i++) {
			const char *oid = c->tables->cells[i * T_WIDTH + T_OID].text;

			if (oid && strtoul(oid, NULL, 10) == hash) {
				hash++;
				again = true;
			}
		}
	}
	return sql_format(c->ctx, "%u", hash);
}

static void add_attribute(struct cat *c, const char *table, const struct fth_query_column *column,
			  unsigned number, bool not_null)
{
	struct cat_value *row = cat_add(c, c->attributes);
	int32_t typmod;
	uint32_t oid = pg_type_of(column, &typmod);

	row[A_TABLE].text = table;
	row[A_NAME].text = sql_copy(c->ctx, column->name);
	row[A_TYPE].text = sql_format(c->ctx, "%u", oid);
	row[A_TYPMOD].text = sql_format(c->ctx, "%d", typmod);
	row[A_NUMBER].text = sql_format(c->ctx, "%u", number + 1);
	row[A_NOTNULL].text = not_null ? "t" : "f";
}

static int take_table(const char *name, void *user)
{
	struct cat *c = user;
	struct fth_table *table;
	struct cat_value *row;
	const char *oid;

	if (strncasecmp(name, "fathom_", 7) == 0 ||
	    fth_table_open(fth_query_tables(c->session->server->db), name, NULL, &table) < 0)
		return 0; /* it was dropped meanwhile, or is ours */
	oid = new_oid(c, name);
	row = cat_add(c, c->tables);
	row[T_NAME].text = sql_copy(c->ctx, name);
	row[T_OID].text = oid;
	row[T_KIND].text = "r";
	row[T_ROWS].text = sql_format(c->ctx, "%llu", (unsigned long long)fth_table_rows(table));
	for (uint32_t i = 0; i < fth_table_schema(table)->columns; i++) {
		const struct fth_table_column *t = &fth_table_schema(table)->column[i];
		struct fth_query_column column = {t->name, t->type, t->precision, t->scale,
						  t->length};

		add_attribute(c, oid, &column, i, t->not_null);
	}
	fth_table_close(table);
	return 0;
}

struct view_columns {
	struct cat *c;
	const char *oid;
};

static int take_view_columns(const struct fth_query_batch *batch, void *user)
{
	const struct view_columns *v = user;

	for (unsigned i = 0; i < fth_query_columns(batch); i++)
		add_attribute(v->c, v->oid, fth_query_column(batch, i), i, false);
	return 0;
}

static int take_view(const char *name, const char *text, void *user)
{
	struct cat *c = user;
	struct cat_value *row;
	const char *oid = new_oid(c, name);

	row = cat_add(c, c->tables);
	row[T_NAME].text = sql_copy(c->ctx, name);
	row[T_OID].text = oid;
	row[T_KIND].text = "v";
	row[T_ROWS].text = "-1";
	row[T_TEXT].text = sql_copy(c->ctx, text);
	return 0;
}

static void load_tables(struct cat *c)
{
	unsigned before;

	if (c->tables)
		return;
	c->tables = cat_new(c, T_WIDTH, NULL);
	c->attributes = cat_new(c, A_WIDTH, NULL);
	fth_table_list(fth_query_tables(c->session->server->db), take_table, c);
	before = c->tables->count;
	fth_query_views(c->session->server->db, take_view, c);
	for (unsigned i = before; i < c->tables->count; i++) {
		const struct cat_value *row = &c->tables->cells[i * T_WIDTH];
		struct view_columns v = {c, row[T_OID].text};
		const char *text = sql_format(c->ctx, "select * from \"%s\"", row[T_NAME].text);
		unsigned count = 0;

		/* A view whose tables are gone has no columns. */
		(void)fth_query_describe(c->session->query, text, NULL, 0, &count,
					 take_view_columns, &v);
	}
}

static const struct cat_value *find_table(struct cat *c, int column, const char *text)
{
	load_tables(c);
	for (unsigned i = 0; text && i < c->tables->count; i++)
		if (strcasecmp(c->tables->cells[i * T_WIDTH + (unsigned)column].text, text) == 0)
			return &c->tables->cells[i * T_WIDTH];
	return NULL;
}

/* The numbers that PostgreSQL gives its own catalogs. */
static const struct {
	const char *name, *oid;
} fixed[] = {{"pg_class", "1259"},     {"pg_type", "1247"},	 {"pg_attribute", "1249"},
	     {"pg_proc", "1255"},      {"pg_namespace", "2615"}, {"pg_constraint", "2606"},
	     {"pg_attrdef", "2604"},   {"pg_database", "1262"},	 {"pg_description", "2609"},
	     {"pg_index", "2610"},     {"pg_authid", "1260"},	 {"pg_trigger", "2620"},
	     {"pg_extension", "3079"}, {"pg_rewrite", "2618"},	 {"pg_tablespace", "1213"}};

const char *cat_relation_oid(struct cat *c, const char *name)
{
	const struct cat_value *row;
	const char *dot = strrchr(name, '.');
	char *plain = sql_copy(c->ctx, dot ? dot + 1 : name);

	if (*plain == '"') {
		plain++;
		plain[strcspn(plain, "\"")] = '\0';
	}
	for (size_t i = 0; i < sizeof(fixed) / sizeof(fixed[0]); i++)
		if (strcmp(fixed[i].name, plain) == 0)
			return fixed[i].oid;
	row = find_table(c, T_NAME, plain);
	return row ? row[T_OID].text : NULL;
}

const char *cat_relation_name(struct cat *c, const char *oid)
{
	const struct cat_value *row;

	for (size_t i = 0; i < sizeof(fixed) / sizeof(fixed[0]); i++)
		if (strcmp(fixed[i].oid, oid) == 0)
			return fixed[i].name;
	row = find_table(c, T_OID, oid);
	return row ? row[T_NAME].text : NULL;
}

const char *cat_view_text(struct cat *c, const char *oid)
{
	const struct cat_value *row = find_table(c, T_OID, oid);

	return row ? row[T_TEXT].text : NULL;
}

/* ---- rows from them ---- */

static void fill_class(struct cat *c, struct cat_rel *rel)
{
	for (unsigned i = 0; i < c->tables->count; i++) {
		const struct cat_value *t = &c->tables->cells[i * T_WIDTH];
		struct cat_value *row = row_with(
			c, rel,
			"relnamespace=2200|reltype=0|reloftype=0|relowner=10|relam=2|relfilenode=0|"
			"reltablespace=0|relpages=0|relallvisible=0|reltoastrelid=0|relpersistence="
			"p|"
			"relchecks=0|relispopulated=t|relreplident=d|relrewrite=0|relfrozenxid=0|"
			"relminmxid=0|tableoid=1259|xmin=1");
		unsigned columns = 0;

		for (unsigned a = 0; a < c->attributes->count; a++)
			columns +=
				c->attributes->cells[a * A_WIDTH + A_TABLE].text == t[T_OID].text;
		put(c, rel, row, "oid", t[T_OID].text);
		put(c, rel, row, "relname", t[T_NAME].text);
		put(c, rel, row, "relkind", t[T_KIND].text);
		put(c, rel, row, "reltuples", t[T_ROWS].text);
		put(c, rel, row, "relnatts", sql_format(c->ctx, "%u", columns));
		if (*t[T_KIND].text == 'v') {
			put(c, rel, row, "relam", "0");
			put(c, rel, row, "relhasrules", "t");
		}
		set_false(rel, row);
	}
}

static void fill_attribute(struct cat *c, struct cat_rel *rel)
{
	for (unsigned i = 0; i < c->attributes->count; i++) {
		const struct cat_value *a = &c->attributes->cells[i * A_WIDTH];
		struct cat_value *row = row_with(
			c, rel,
			"attstattarget=-1|attndims=0|attcacheoff=-1|attalign=i|attstorage=p|"
			"attcompression=|attidentity=|attgenerated=|attislocal=t|attinhcount=0");
		uint32_t oid = (uint32_t)strtoul(a[A_TYPE].text, NULL, 10);

		put(c, rel, row, "attrelid", a[A_TABLE].text);
		put(c, rel, row, "attname", a[A_NAME].text);
		put(c, rel, row, "atttypid", a[A_TYPE].text);
		put(c, rel, row, "atttypmod", a[A_TYPMOD].text);
		put(c, rel, row, "attnum", a[A_NUMBER].text);
		put(c, rel, row, "attnotnull", a[A_NOTNULL].text);
		put(c, rel, row, "attlen", sql_format(c->ctx, "%d", pg_type_size(oid)));
		put(c, rel, row, "attcollation",
		    oid == PG_TEXT || oid == PG_VARCHAR || oid == PG_BPCHAR ? "100" : "0");
		set_false(rel, row);
	}
}

static void fill_tables(struct cat *c, struct cat_rel *rel, const char *what)
{
	for (unsigned i = 0; i < c->tables->count; i++) {
		const struct cat_value *t = &c->tables->cells[i * T_WIDTH];
		bool view = *t[T_KIND].text == 'v';
		struct cat_value *row;

		if ((view && strcmp(what, "pg_tables") == 0) ||
		    (!view && (strcmp(what, "pg_views") == 0 || strcmp(what, "views") == 0)))
			continue;
		row = row_with(
			c, rel,
			"schemaname=public|table_schema=public|is_typed=NO|check_option=NONE|"
			"is_updatable=NO");
		put(c, rel, row, "table_catalog", c->session->database);
		put(c, rel, row, "tablename", t[T_NAME].text);
		put(c, rel, row, "viewname", t[T_NAME].text);
		put(c, rel, row, "table_name", t[T_NAME].text);
		put(c, rel, row, "tableowner", c->session->user);
		put(c, rel, row, "viewowner", c->session->user);
		put(c, rel, row, "definition", t[T_TEXT].text);
		put(c, rel, row, "view_definition", t[T_TEXT].text);
		put(c, rel, row, "table_type", view ? "VIEW" : "BASE TABLE");
		put(c, rel, row, "is_insertable_into", view ? "NO" : "YES");
		set_false(rel, row);
	}
}

static void fill_columns(struct cat *c, struct cat_rel *rel)
{
	for (unsigned i = 0; i < c->attributes->count; i++) {
		const struct cat_value *a = &c->attributes->cells[i * A_WIDTH];
		struct cat_value *row =
			row_with(c, rel,
				 "table_schema=public|udt_schema=pg_catalog|"
				 "is_identity=NO|is_generated=NEVER|is_updatable=YES");
		uint32_t oid = (uint32_t)strtoul(a[A_TYPE].text, NULL, 10);
		int typmod = atoi(a[A_TYPMOD].text);

		put(c, rel, row, "table_catalog", c->session->database);
		put(c, rel, row, "udt_catalog", c->session->database);
		put(c, rel, row, "table_name", cat_relation_name(c, a[A_TABLE].text));
		put(c, rel, row, "column_name", a[A_NAME].text);
		put(c, rel, row, "ordinal_position", a[A_NUMBER].text);
		put(c, rel, row, "is_nullable", *a[A_NOTNULL].text == 't' ? "NO" : "YES");
		put(c, rel, row, "data_type", cat_type_name(c, oid, -1));
		for (size_t t = 0; t < TYPES; t++)
			if (types[t].oid == oid)
				put(c, rel, row, "udt_name", types[t].name);
		if (typmod >= 4 && oid == PG_NUMERIC) {
			put(c, rel, row, "numeric_precision",
			    sql_format(c->ctx, "%d", (typmod - 4) >> 16));
			put(c, rel, row, "numeric_scale",
			    sql_format(c->ctx, "%d", (typmod - 4) & 0xffff));
			put(c, rel, row, "numeric_precision_radix", "10");
		} else if (typmod >= 4) {
			put(c, rel, row, "character_maximum_length",
			    sql_format(c->ctx, "%d", typmod - 4));
		} else if (oid == PG_INT4 || oid == PG_INT8) {
			put(c, rel, row, "numeric_precision", oid == PG_INT4 ? "32" : "64");
			put(c, rel, row, "numeric_precision_radix", "2");
			put(c, rel, row, "numeric_scale", "0");
		}
	}
}

struct setting_rows {
	struct cat *c;
	struct cat_rel *rel;
};

static void add_setting(void *user, const char *name, const char *value)
{
	const struct setting_rows *s = user;
	struct cat_value *row = row_with(
		s->c, s->rel, "category=|short_desc=|context=user|vartype=string|source=default");

	put(s->c, s->rel, row, "name", name);
	put(s->c, s->rel, row, "setting", sql_copy(s->c->ctx, value));
	put(s->c, s->rel, row, "reset_val", sql_copy(s->c->ctx, value));
}

/* Catalogs of few rows that are always the same. */
static void fill_small(struct cat *c, struct cat_rel *rel, const char *name)
{
	struct cat_value *row = NULL;

	if (strcmp(name, "pg_namespace") == 0) {
		row_with(c, rel, "oid=11|nspname=pg_catalog|nspowner=10|tableoid=2615");
		row_with(c, rel, "oid=2200|nspname=public|nspowner=10|tableoid=2615");
		row_with(c, rel, "oid=13000|nspname=information_schema|nspowner=10|tableoid=2615");
	} else if (strcmp(name, "schemata") == 0) {
		static const char *const schemas[] = {"public", "pg_catalog", "information_schema"};

		for (int i = 0; i < 3; i++) {
			row = cat_add(c, rel);
			put(c, rel, row, "catalog_name", c->session->database);
			put(c, rel, row, "schema_name", schemas[i]);
			put(c, rel, row, "schema_owner", c->session->user);
		}
	} else if (strcmp(name, "pg_database") == 0) {
		row = row_with(c, rel,
			       "oid=16383|datdba=10|encoding=6|datlocprovider=c|datallowconn=t|"
			       "datconnlimit=-1|dattablespace=1663|datcollate=C|datctype=C");
		put(c, rel, row, "datname", c->session->database);
		set_false(rel, row);
	} else if (strcmp(name, "pg_roles") == 0 || strcmp(name, "pg_authid") == 0 ||
		   strcmp(name, "pg_user") == 0) {
		row = row_with(
			c, rel,
			"oid=10|usesysid=10|rolsuper=t|rolinherit=t|rolcreaterole=t|rolcreatedb=t|"
			"rolcanlogin=t|rolconnlimit=-1|usesuper=t|usecreatedb=t");
		put(c, rel, row, "rolname", c->session->user);
		put(c, rel, row, "usename", c->session->user);
		set_false(rel, row);
	} else if (strcmp(name, "pg_am") == 0) {
		row_with(c, rel, "oid=2|amname=fathom|amtype=t");
	} else if (strcmp(name, "pg_collation") == 0) {
		row = row_with(
			c, rel,
			"oid=100|collname=default|collnamespace=11|collowner=10|collprovider=d|"
			"collisdeterministic=t|collencoding=-1");
		row_with(c, rel,
			 "oid=950|collname=C|collnamespace=11|collowner=10|collprovider=c|"
			 "collisdeterministic=t|collencoding=-1|collcollate=C|collctype=C");
	} else if (strcmp(name, "pg_tablespace") == 0) {
		row_with(c, rel, "oid=1663|spcname=pg_default|spcowner=10");
	} else if (strcmp(name, "pg_stat_activity") == 0) {
		row = row_with(c, rel, "datid=16383|state=active");
		put(c, rel, row, "datname", c->session->database);
		put(c, rel, row, "usename", c->session->user);
		put(c, rel, row, "pid", sql_format(c->ctx, "%u", c->session->pid));
	} else if (strcmp(name, "pg_settings") == 0) {
		struct setting_rows s = {c, rel};

		pg_visit_settings(c->session, add_setting, &s);
	}
}

struct cat_rel *cat_relation(struct cat *c, const char *schema, const char *name)
{
	struct cat_rel *rel = NULL;

	for (size_t i = 0; i < sizeof(definitions) / sizeof(definitions[0]) && !rel; i++) {
		const struct definition *d = &definitions[i];

		if (strcmp(d->name, name) == 0 && (schema ? strcmp(d->schema, schema) == 0
							  : strcmp(d->schema, "pg_catalog") == 0))
			rel = make_relation(c, d);
	}
	if (!rel)
		return NULL;
	load_tables(c);
	if (strcmp(name, "pg_class") == 0)
		fill_class(c, rel);
	else if (strcmp(name, "pg_attribute") == 0)
		fill_attribute(c, rel);
	else if (strcmp(name, "pg_type") == 0)
		fill_types(c, rel);
	else if (strcmp(name, "tables") == 0 || strcmp(name, "views") == 0 ||
		 strcmp(name, "pg_tables") == 0 || strcmp(name, "pg_views") == 0)
		fill_tables(c, rel, name);
	else if (strcmp(name, "columns") == 0)
		fill_columns(c, rel);
	else
		fill_small(c, rel, name);
	return rel;
}
