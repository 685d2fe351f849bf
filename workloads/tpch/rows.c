/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The rows of each table (TPC-H specification, clause 4.2.3; the draws, their ranges and the order
 * of roundings are those of the reference generator, as its public sources and the Java
 * implementation in https://github.com/trinodb/tpch show them).
 */
#include "cursor.h"

#include "prose.h"
#include "random.h"
#include "words.h"

#include <assert.h>
#include <string.h>

#define TODAY	     1263 /* 1995-06-17, in days since 1992-01-01 */
#define SHIP_DAYS    121  /* from the order to its shipping, at most */
#define RECEIPT_DAYS 30	  /* from there to its receipt */

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

	return (part + n * (all / TPCH_SUPPLIERS_PER_PART + (part - 1) / all)) % all + 1;
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
	row->suppkey =
		supplier_of(c, line.part, draw(c, L_SUPPLIER, 0, TPCH_SUPPLIERS_PER_PART - 1));
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

void tpch_make_row(struct fth_tpch_cursor *c, union fth_tpch_row *row)
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
