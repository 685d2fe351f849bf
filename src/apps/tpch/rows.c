/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Cursors: the rows of each table (TPC-H specification, clause 4.2.3; seeds, draws and the order of
 * roundings are those of the reference generator, as documented by its public sources and by the
 * Java implementation in https://github.com/trinodb/tpch).
 *
 * A unit takes a fixed number of draws from each sequence of its table, `uses`, whether it needs
 * them or not. seed[] is where the next unit begins; draw[] is the present unit's own copy.
 */
#include "internal.h"

#include "prose.h"
#include "random.h"
#include "words.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define LARGE_SCALE	   30000000u /* in thousandths: keys are drawn from 64-bit sequences */
#define SUPPLIERS_PER_PART 4
#define TODAY		   1263 /* 1995-06-17, in days since 1992-01-01 */
#define SHIP_DAYS	   121	/* from the order to its shipping, at most */
#define RECEIPT_DAYS	   30	/* from there to its receipt */

/* The sequences. Those of a table lie together; orders and lineitem share a part of theirs. */
enum stream {
	R_COMMENT,
	N_COMMENT,
	S_ADDRESS,
	S_NATION,
	S_PHONE,
	S_BALANCE,
	S_COMMENT,
	S_REMARK, /* does the comment tell of complaints or recommendations? */
	S_REMARK_KIND,
	S_REMARK_GAP,
	S_REMARK_PLACE,
	C_ADDRESS,
	C_NATION,
	C_PHONE,
	C_BALANCE,
	C_SEGMENT,
	C_COMMENT,
	P_NAME,
	P_MFGR,
	P_BRAND,
	P_TYPE,
	P_SIZE,
	P_CONTAINER,
	P_COMMENT,
	PS_QUANTITY,
	PS_COST,
	PS_COMMENT,
	O_CUSTOMER,
	O_PRIORITY,
	O_CLERK,
	O_COMMENT,
	O_DATE,
	O_LINES,
	L_QUANTITY,
	L_DISCOUNT,
	L_TAX,
	L_PART,
	L_SHIP,
	L_SUPPLIER,
	L_COMMIT,
	L_RECEIPT,
	L_FLAG,
	L_INSTRUCTION,
	L_MODE,
	L_COMMENT,
	STREAMS
};

static const struct {
	uint32_t seed;
	unsigned uses; /* by a unit */
} streams[STREAMS] = {
	[R_COMMENT] = {1500869201, 2},
	[N_COMMENT] = {606179079, 2},
	[S_ADDRESS] = {706178559, 9},
	[S_NATION] = {110356601, 1},
	[S_PHONE] = {884434366, 3},
	[S_BALANCE] = {962338209, 1},
	[S_COMMENT] = {1341315363, 2},
	[S_REMARK] = {202794285, 1},
	[S_REMARK_KIND] = {753643799, 1},
	[S_REMARK_GAP] = {263032577, 1},
	[S_REMARK_PLACE] = {715851524, 1},
	[C_ADDRESS] = {881155353, 9},
	[C_NATION] = {1489529863, 1},
	[C_PHONE] = {1521138112, 3},
	[C_BALANCE] = {298370230, 1},
	[C_SEGMENT] = {1140279430, 1},
	[C_COMMENT] = {1335826707, 2},
	[P_NAME] = {709314158, 92},
	[P_MFGR] = {1, 1},
	[P_BRAND] = {46831694, 1},
	[P_TYPE] = {1841581359, 1},
	[P_SIZE] = {1193163244, 1},
	[P_CONTAINER] = {727633698, 1},
	[P_COMMENT] = {804159733, 2},
	[PS_QUANTITY] = {1671059989, SUPPLIERS_PER_PART},
	[PS_COST] = {1051288424, SUPPLIERS_PER_PART},
	[PS_COMMENT] = {1961692154, 2 * SUPPLIERS_PER_PART},
	[O_CUSTOMER] = {851767375, 1},
	[O_PRIORITY] = {591449447, 1},
	[O_CLERK] = {1171034773, 1},
	[O_COMMENT] = {276090261, 2},
	[O_DATE] = {1066728069, 1},
	[O_LINES] = {1434868289, 1},
	[L_QUANTITY] = {209208115, TPCH_LINES_MAX},
	[L_DISCOUNT] = {554590007, TPCH_LINES_MAX},
	[L_TAX] = {721958466, TPCH_LINES_MAX},
	[L_PART] = {1808217256, TPCH_LINES_MAX},
	[L_SHIP] = {1769349045, TPCH_LINES_MAX},
	[L_SUPPLIER] = {2095021727, TPCH_LINES_MAX},
	[L_COMMIT] = {904914315, TPCH_LINES_MAX},
	[L_RECEIPT] = {373135028, TPCH_LINES_MAX},
	[L_FLAG] = {717419739, TPCH_LINES_MAX},
	[L_INSTRUCTION] = {1371272478, TPCH_LINES_MAX},
	[L_MODE] = {675466456, TPCH_LINES_MAX},
	[L_COMMENT] = {1095462486, 2 * TPCH_LINES_MAX},
};

static const struct {
	enum stream first, last;
} table_streams[FTH_TPCH_TABLES] = {
	[FTH_TPCH_REGION] = {R_COMMENT, R_COMMENT},
	[FTH_TPCH_NATION] = {N_COMMENT, N_COMMENT},
	[FTH_TPCH_SUPPLIER] = {S_ADDRESS, S_REMARK_PLACE},
	[FTH_TPCH_CUSTOMER] = {C_ADDRESS, C_COMMENT},
	[FTH_TPCH_PART] = {P_NAME, P_COMMENT},
	[FTH_TPCH_PARTSUPP] = {PS_QUANTITY, PS_COMMENT},
	[FTH_TPCH_ORDERS] = {O_CUSTOMER, L_SHIP},
	[FTH_TPCH_LINEITEM] = {O_DATE, L_COMMENT},
};

struct fth_tpch_cursor {
	const struct fth_tpch *tpch;
	enum fth_tpch_table table;
	uint64_t unit, end;	/* the present unit, from 1 on; the last one */
	unsigned row, rows;	/* of the present unit: rows done, rows in all */
	int64_t order_date;	/* of the present order, as days since 1992-01-01 */
	unsigned lines;		/* of the present order */
	uint64_t part_seed;	/* of the present order, where part keys have 64 bits */
	uint64_t customer_seed; /* of customer keys, likewise */
	bool large;
	int64_t parts, suppliers, customers, clerks;
	uint32_t seed[STREAMS], draw[STREAMS], step[STREAMS];
	size_t used; /* of room, by the present row */
	char room[512];
};

/* ---- part keys at large scale factors ---- */

bool tpch_uses_part_keys(const struct fth_tpch *tpch, enum fth_tpch_table table)
{
	return tpch->thousandths >= LARGE_SCALE &&
	       (table == FTH_TPCH_ORDERS || table == FTH_TPCH_LINEITEM);
}

void tpch_part_keys_init(struct tpch_part_keys *keys)
{
	*keys = (struct tpch_part_keys){0, streams[O_LINES].seed, streams[L_PART].seed};
}

void tpch_part_keys_follow(struct tpch_part_keys *keys, uint64_t order)
{
	for (; keys->order < order; keys->order++) {
		uint64_t lines = (uint64_t)tpch_draw(&keys->lines_seed, 1, TPCH_LINES_MAX);

		keys->seed = tpch_advance64(keys->seed, lines);
		keys->seed = tpch_leave_out64(keys->seed, TPCH_LINES_MAX - lines);
	}
}

/* ---- strings of a row ---- */

static char *make_room(struct fth_tpch_cursor *c, size_t length)
{
	char *room = c->room + c->used;

	c->used += length;
	assert(c->used <= sizeof(c->room));
	return room;
}

static struct fth_tpch_text constant(const char *string)
{
	return (struct fth_tpch_text){string, (uint32_t)strlen(string)};
}

static int64_t draw(struct fth_tpch_cursor *c, enum stream stream, int64_t low, int64_t high)
{
	return tpch_draw(&c->draw[stream], low, high);
}

static struct fth_tpch_text pick(struct fth_tpch_cursor *c, enum stream stream,
				 const struct tpch_list *list)
{
	return constant(list->strings[draw(c, stream, 0, list->count - 1)]);
}

/* Lengths of comments and addresses are 0.4 to 1.6 times their average. */
static struct fth_tpch_text comment(struct fth_tpch_cursor *c, enum stream stream, unsigned average)
{
	unsigned shortest = average * 4 / 10, longest = average * 16 / 10;
	uint32_t offset = (uint32_t)draw(c, stream, 0, TPCH_PROSE_LENGTH - longest);
	uint32_t length = (uint32_t)draw(c, stream, shortest, longest);
	char *text = make_room(c, length);

	tpch_prose_copy(c->tpch->prose, offset, length, text);
	return (struct fth_tpch_text){text, length};
}

/*
 * 10 to 40 characters, five from each number. The reference generator asks for 0 to 2^31 - 1 and
 * computes the range in 32 bits, where it overflows to -2^31.
 */
static struct fth_tpch_text address(struct fth_tpch_cursor *c, enum stream stream)
{
	static const char characters[] =
		"0123456789abcdefghijklmnopqrstuvwxyz ABCDEFGHIJKLMNOPQRSTUVWXYZ,";
	uint32_t length = (uint32_t)draw(c, stream, 10, 40);
	char *text = make_room(c, length);
	uint64_t bits = 0;

	for (unsigned i = 0; i < length; i++, bits >>= 6) {
		if (i % 5 == 0)
			bits = (uint64_t)draw(c, stream, 0, -INT64_C(0x80000001));
		text[i] = characters[bits & 63];
	}
	return (struct fth_tpch_text){text, length};
}

/* `number` with at least `digits` digits. */
static char *put_number(char *out, uint64_t number, unsigned digits)
{
	char reversed[20];
	unsigned n = 0;

	for (; number || n < digits; number /= 10)
		reversed[n++] = (char)('0' + number % 10);
	while (n)
		*out++ = reversed[--n];
	return out;
}

/* "Supplier#000000001" */
static struct fth_tpch_text numbered(struct fth_tpch_cursor *c, const char *tag, int64_t number,
				     unsigned digits)
{
	size_t length = strlen(tag);
	char *text = make_room(c, length + 20), *end;

	memcpy(text, tag, length);
	end = put_number(text + length, (uint64_t)number, digits);
	return (struct fth_tpch_text){text, (uint32_t)(end - text)};
}

static struct fth_tpch_text phone(struct fth_tpch_cursor *c, enum stream stream, int64_t nation)
{
	char *text = make_room(c, 15);

	put_number(text, (uint64_t)(10 + nation), 2)[0] = '-';
	put_number(text + 3, (uint64_t)draw(c, stream, 100, 999), 3)[0] = '-';
	put_number(text + 7, (uint64_t)draw(c, stream, 100, 999), 3)[0] = '-';
	put_number(text + 11, (uint64_t)draw(c, stream, 1000, 9999), 4);
	return (struct fth_tpch_text){text, 15};
}

/* ---- regions, nations, suppliers, customers ---- */

static void make_region(struct fth_tpch_cursor *c, struct fth_tpch_region *row)
{
	row->regionkey = (int64_t)c->unit - 1;
	row->name = constant(tpch_regions.strings[row->regionkey]);
	row->comment = comment(c, R_COMMENT, 72);
}

static void make_nation(struct fth_tpch_cursor *c, struct fth_tpch_nation *row)
{
	row->nationkey = (int64_t)c->unit - 1;
	row->name = constant(tpch_nations[row->nationkey].name);
	row->regionkey = tpch_nations[row->nationkey].region;
	row->comment = comment(c, N_COMMENT, 72);
}

/* 5 of 10,000 comments tell of complaints, and as many of recommendations. */
static void add_remark(struct fth_tpch_cursor *c, struct fth_tpch_text *comment)
{
	static const char customer[] = "Customer ";
	const int64_t length = 9, kind_length = 10;
	int64_t kind = draw(c, S_REMARK_KIND, 0, 100);
	int64_t gap = draw(c, S_REMARK_GAP, 0, comment->length - length - kind_length);
	int64_t place = draw(c, S_REMARK_PLACE, 0, comment->length - length - kind_length - gap);
	char *text = c->room + (comment->data - c->room) + place;

	memcpy(text, customer, (size_t)length);
	memcpy(text + length + gap, kind < 50 ? "Complaints" : "Recommends", (size_t)kind_length);
}

static void make_supplier(struct fth_tpch_cursor *c, struct fth_tpch_supplier *row)
{
	row->suppkey = (int64_t)c->unit;
	row->name = numbered(c, "Supplier#", row->suppkey, 9);
	row->address = address(c, S_ADDRESS);
	row->nationkey = draw(c, S_NATION, 0, TPCH_NATIONS - 1);
	row->phone = phone(c, S_PHONE, row->nationkey);
	row->acctbal = draw(c, S_BALANCE, -99999, 999999);
	row->comment = comment(c, S_COMMENT, 63);
	if (draw(c, S_REMARK, 1, 10000) <= 10)
		add_remark(c, &row->comment);
}

static void make_customer(struct fth_tpch_cursor *c, struct fth_tpch_customer *row)
{
	row->custkey = (int64_t)c->unit;
	row->name = numbered(c, "Customer#", row->custkey, 9);
	row->address = address(c, C_ADDRESS);
	row->nationkey = draw(c, C_NATION, 0, TPCH_NATIONS - 1);
	row->phone = phone(c, C_PHONE, row->nationkey);
	row->acctbal = draw(c, C_BALANCE, -99999, 999999);
	row->mktsegment = pick(c, C_SEGMENT, &tpch_segments);
	row->comment = comment(c, C_COMMENT, 73);
}

/* ---- parts ---- */

static int64_t retail_price(int64_t part)
{
	return 90000 + part / 10 % 20001 + part % 1000 * 100;
}

/* The n-th supplier of a part, 0 to 3. */
static int64_t supplier_of(const struct fth_tpch_cursor *c, int64_t part, int64_t n)
{
	int64_t all = c->suppliers;

	return (part + n * (all / SUPPLIERS_PER_PART + (part - 1) / all)) % all + 1;
}

static char *put_string(char *out, const char *string, char end)
{
	size_t length = strlen(string);

	memcpy(out, string, length);
	out[length] = end;
	return out + length + 1;
}

/* Five colors: the first ones of all colors after as many swaps. */
static struct fth_tpch_text part_name(struct fth_tpch_cursor *c)
{
	char *text = make_room(c, 64), *end = text;
	uint8_t order[128];

	for (unsigned i = 0; i < tpch_colors.count; i++)
		order[i] = (uint8_t)i;
	for (unsigned i = 0; i < 5; i++) {
		unsigned other = (unsigned)draw(c, P_NAME, i, tpch_colors.count - 1);
		uint8_t color = order[other];

		order[other] = order[i];
		order[i] = color;
		end = put_string(end, tpch_colors.strings[color], ' ');
	}
	return (struct fth_tpch_text){text, (uint32_t)(end - text) - 1};
}

static struct fth_tpch_text part_type(struct fth_tpch_cursor *c)
{
	unsigned metals = tpch_type_metals.count, coatings = tpch_type_coatings.count;
	unsigned type = (unsigned)draw(c, P_TYPE, 0, TPCH_TYPES - 1);
	char *text = make_room(c, 32), *end = text;

	end = put_string(end, tpch_type_sizes.strings[type / metals / coatings], ' ');
	end = put_string(end, tpch_type_coatings.strings[type / metals % coatings], ' ');
	end = put_string(end, tpch_type_metals.strings[type % metals], ' ');
	return (struct fth_tpch_text){text, (uint32_t)(end - text) - 1};
}

static void make_part(struct fth_tpch_cursor *c, struct fth_tpch_part *row)
{
	int64_t manufacturer = draw(c, P_MFGR, 1, 5);

	row->partkey = (int64_t)c->unit;
	row->name = part_name(c);
	row->mfgr = numbered(c, "Manufacturer#", manufacturer, 1);
	row->brand = numbered(c, "Brand#", manufacturer * 10 + draw(c, P_BRAND, 1, 5), 2);
	row->type = part_type(c);
	row->size = draw(c, P_SIZE, 1, 50);
	row->container = pick(c, P_CONTAINER, &tpch_containers);
	row->retailprice = retail_price(row->partkey);
	row->comment = comment(c, P_COMMENT, 14);
}

static void make_partsupp(struct fth_tpch_cursor *c, struct fth_tpch_partsupp *row)
{
	row->partkey = (int64_t)c->unit;
	row->suppkey = supplier_of(c, row->partkey, c->row);
	row->availqty = draw(c, PS_QUANTITY, 1, 9999);
	row->supplycost = draw(c, PS_COST, 100, 100000);
	row->comment = comment(c, PS_COMMENT, 124);
}

/* ---- orders ---- */

/* Of 32 keys only the first eight are used. */
static int64_t order_key(uint64_t order)
{
	return (int64_t)(order >> 3 << 5 | (order & 7));
}

/* The columns of lineitem that orders depend on. */
struct line {
	int64_t quantity, discount, tax, part, price;
	int64_t ship; /* days since 1992-01-01 */
};

static void draw_line(struct fth_tpch_cursor *c, struct line *line)
{
	line->quantity = draw(c, L_QUANTITY, 1, 50);
	line->discount = draw(c, L_DISCOUNT, 0, 10);
	line->tax = draw(c, L_TAX, 0, 8);
	line->part =
		c->large ? tpch_draw64(&c->part_seed, 1, c->parts) : draw(c, L_PART, 1, c->parts);
	line->price = retail_price(line->part) * line->quantity;
	line->ship = c->order_date + draw(c, L_SHIP, 1, SHIP_DAYS);
}

/* A third of the customers has no orders. */
static int64_t draw_customer(struct fth_tpch_cursor *c)
{
	int64_t step = 1;
	int64_t customer = c->large ? tpch_draw64(&c->customer_seed, 1, c->customers)
				    : draw(c, O_CUSTOMER, 1, c->customers);

	for (; customer % 3 == 0; step = -step) {
		customer += step;
		if (customer > c->customers)
			customer = c->customers;
	}
	return customer;
}

static void draw_order(struct fth_tpch_cursor *c)
{
	c->order_date = draw(c, O_DATE, 0, TPCH_DAYS - SHIP_DAYS - RECEIPT_DAYS - 1);
	c->lines = (unsigned)draw(c, O_LINES, 1, TPCH_LINES_MAX);
}

static void make_order(struct fth_tpch_cursor *c, struct fth_tpch_orders *row)
{
	unsigned shipped = 0;
	struct line line;

	draw_order(c);
	row->totalprice = 0;
	for (unsigned i = 0; i < c->lines; i++) {
		draw_line(c, &line);
		row->totalprice +=
			line.price * (100 - line.discount) / 100 * (100 + line.tax) / 100;
		shipped += line.ship <= TODAY;
	}
	row->orderkey = order_key(c->unit);
	row->custkey = draw_customer(c);
	row->orderstatus = constant(shipped == c->lines ? "F" : shipped ? "P" : "O");
	row->orderdate = TPCH_FIRST_DAY + c->order_date;
	row->orderpriority = pick(c, O_PRIORITY, &tpch_priorities);
	row->clerk = numbered(c, "Clerk#", draw(c, O_CLERK, 1, c->clerks), 9);
	row->shippriority = 0;
	row->comment = comment(c, O_COMMENT, 49);
}

static void make_lineitem(struct fth_tpch_cursor *c, struct fth_tpch_lineitem *row)
{
	struct line line;
	int64_t receipt;

	if (c->row == 0) {
		draw_order(c);
		c->rows = c->lines;
	}
	draw_line(c, &line);
	receipt = line.ship + draw(c, L_RECEIPT, 1, RECEIPT_DAYS);
	row->orderkey = order_key(c->unit);
	row->partkey = line.part;
	row->suppkey = supplier_of(c, line.part, draw(c, L_SUPPLIER, 0, SUPPLIERS_PER_PART - 1));
	row->linenumber = c->row + 1;
	row->quantity = line.quantity;
	row->extendedprice = line.price;
	row->discount = line.discount;
	row->tax = line.tax;
	row->returnflag = receipt <= TODAY ? pick(c, L_FLAG, &tpch_return_flags) : constant("N");
	row->linestatus = constant(line.ship <= TODAY ? "F" : "O");
	row->shipdate = TPCH_FIRST_DAY + line.ship;
	row->commitdate = TPCH_FIRST_DAY + c->order_date + draw(c, L_COMMIT, 30, 90);
	row->receiptdate = TPCH_FIRST_DAY + receipt;
	row->shipinstruct = pick(c, L_INSTRUCTION, &tpch_instructions);
	row->shipmode = pick(c, L_MODE, &tpch_ship_modes);
	row->comment = comment(c, L_COMMENT, 27);
}

/* ---- cursors ---- */

/* Go on to the next unit, and let seed[] be where the one after it begins. */
static void begin_unit(struct fth_tpch_cursor *c)
{
	if (c->large && c->row)
		c->part_seed = tpch_leave_out64(c->part_seed, TPCH_LINES_MAX - c->lines);
	for (unsigned s = table_streams[c->table].first; s <= table_streams[c->table].last; s++) {
		c->draw[s] = c->seed[s];
		c->seed[s] = tpch_multiply(c->seed[s], c->step[s]);
	}
	c->unit++;
	c->row = 0;
	c->rows = tpch_rows_per_unit(c->table);
}

static void make_row(struct fth_tpch_cursor *c, union fth_tpch_row *row)
{
	switch (c->table) {
	case FTH_TPCH_REGION:
		make_region(c, &row->region);
		break;
	case FTH_TPCH_NATION:
		make_nation(c, &row->nation);
		break;
	case FTH_TPCH_SUPPLIER:
		make_supplier(c, &row->supplier);
		break;
	case FTH_TPCH_CUSTOMER:
		make_customer(c, &row->customer);
		break;
	case FTH_TPCH_PART:
		make_part(c, &row->part);
		break;
	case FTH_TPCH_PARTSUPP:
		make_partsupp(c, &row->partsupp);
		break;
	case FTH_TPCH_ORDERS:
		make_order(c, &row->orders);
		break;
	default:
		make_lineitem(c, &row->lineitem);
		break;
	}
}

bool fth_tpch_next(struct fth_tpch_cursor *c, union fth_tpch_row *row)
{
	if (c->row == c->rows) {
		if (c->unit == c->end)
			return false;
		begin_unit(c);
	}
	c->used = 0;
	make_row(c, row);
	c->row++;
	return true;
}

static void init_limits(struct fth_tpch_cursor *c)
{
	c->parts = (int64_t)fth_tpch_units(c->tpch, FTH_TPCH_PART);
	c->suppliers = (int64_t)fth_tpch_units(c->tpch, FTH_TPCH_SUPPLIER);
	c->customers = (int64_t)fth_tpch_units(c->tpch, FTH_TPCH_CUSTOMER);
	c->clerks = c->tpch->thousandths < 1000 ? 1000 : (int64_t)c->tpch->thousandths;
}

int tpch_cursor_open_at(const struct fth_tpch *tpch, enum fth_tpch_table table, uint64_t first,
			uint64_t count, const struct tpch_part_keys *keys,
			struct fth_tpch_cursor **out)
{
	uint64_t units = fth_tpch_units(tpch, table);
	struct fth_tpch_cursor *c = calloc(1, sizeof(*c));

	if (!c)
		return -ENOMEM;
	if (first > units)
		first = units;
	c->tpch = tpch;
	c->table = table;
	c->unit = first;
	c->end = count < units - first ? first + count : units;
	c->large = keys != NULL;
	init_limits(c);
	for (unsigned s = table_streams[table].first; s <= table_streams[table].last; s++) {
		c->step[s] = tpch_power(streams[s].uses);
		c->seed[s] = tpch_multiply(streams[s].seed, tpch_power(first * streams[s].uses));
	}
	if (keys) {
		c->part_seed = keys->seed;
		c->customer_seed = tpch_advance64(streams[O_CUSTOMER].seed, first);
	}
	*out = c;
	return 0;
}

int fth_tpch_cursor_open(const struct fth_tpch *tpch, enum fth_tpch_table table, uint64_t first,
			 uint64_t count, struct fth_tpch_cursor **out)
{
	uint64_t units = fth_tpch_units(tpch, table);
	struct tpch_part_keys keys;

	if (!tpch_uses_part_keys(tpch, table))
		return tpch_cursor_open_at(tpch, table, first, count, NULL, out);
	tpch_part_keys_init(&keys);
	tpch_part_keys_follow(&keys, first < units ? first : units);
	return tpch_cursor_open_at(tpch, table, first, count, &keys, out);
}

void fth_tpch_cursor_close(struct fth_tpch_cursor *cursor)
{
	free(cursor);
}
