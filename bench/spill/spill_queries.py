# SPDX-License-Identifier: BSD-2-Clause
"""The queries of `fathom bench spill`, on the tables of TPC-H: name, digest of the answer at scale
factor 0.01, after that had been compared with DuckDB's, and statement. The order of rows in the
tables changes no answer. {rows} stands for two thirds of the rows of lineitem, so that a sort is
of all rows, not a choice of the first few."""

LINEITEM_ROWS = 6000000  # at scale factor 1, about

# Large groups, distinct values, sorts and joins on text.
SPILL = [
    # Groups
    ("g-part-text", 0xdf0cbcc999487de7,
     """select count(*), max(a), min(b) from (select l_partkey, min(l_comment) a, max(l_comment) b
     from lineitem group by l_partkey) t"""),
    ("g-comment", 0x2f46370866c14a56,
     """select count(*), max(n), min(c) from (select l_comment c, count(*) n from lineitem group by
     l_comment) t"""),
    ("g-order", 0x9b2c1f2c8dfc1dc9,
     """select count(*), sum(n), max(q) from (select l_orderkey, count(*) n, sum(l_quantity) q from
     lineitem group by l_orderkey) t"""),
    ("g-order-text", 0x2244cdd1ee181f1f,
     """select count(*), max(a), min(b) from (select l_orderkey, l_shipmode, min(l_comment) a,
     max(l_shipinstruct) b from lineitem group by l_orderkey, l_shipmode) t"""),
    ("g-part-supplier", 0x7be37c722e314579,
     """select count(*), max(q), min(d) from (select l_partkey, l_suppkey, sum(l_quantity) q,
     min(l_shipdate) d from lineitem group by l_partkey, l_suppkey) t"""),
    ("g-part-date", 0xc0a1c8ad5460a609,
     """select count(*), max(n), sum(p) from (select l_partkey, l_shipdate, count(*) n,
     sum(l_extendedprice) p from lineitem group by l_partkey, l_shipdate) t"""),
    ("g-order-comment", 0x7dd5492bf119024d,
     """select count(*), max(n), max(c) from (select o_comment, count(*) n, max(o_clerk) c from
     orders group by o_comment) t"""),
    ("g-customer-text", 0x24ad65787c2418f6,
     """select count(*), max(a), min(b), sum(p) from (select o_custkey, min(o_comment) a,
     max(o_clerk) b, sum(o_totalprice) p from orders group by o_custkey) t"""),
    ("g-prefix", 0x63f556cc31950c44,
     """select count(*), max(n), sum(q) from (select substring(l_comment from 1 for 12) c, count(*)
     n, sum(l_quantity) q from lineitem group by 1) t"""),
    ("g-join", 0x29c5b4ebc7c67a61,
     """select count(*), max(a), min(b), sum(p) from (select o_custkey, min(l_comment) a,
     max(o_comment) b, sum(l_extendedprice) p from lineitem join orders on l_orderkey =
     o_orderkey group by o_custkey) t"""),
    # Distinct values
    ("d-comment", 0xe967d322d2d14729,
     "select count(distinct l_comment) from lineitem"),
    ("d-keys", 0xfce9dc8b4e655729,
     """select count(distinct l_orderkey), count(distinct l_partkey), count(distinct
     l_extendedprice) from lineitem"""),
    ("d-per-supplier", 0x06117e614dfa3be2,
     """select count(*), sum(n), max(n) from (select l_suppkey, count(distinct l_comment) n from
     lineitem group by l_suppkey) t"""),
    ("d-per-mode", 0xd18c07c9175639b2,
     """select l_shipmode, count(distinct l_partkey), count(distinct l_comment) from lineitem group
     by l_shipmode order by l_shipmode"""),
    ("d-rows", 0x0a2ca6a2245b3457,
     "select count(*) from (select distinct l_partkey, l_suppkey, l_shipdate from lineitem) t"),
    ("d-clerks", 0x37c08cc40f4d706b,
     "select count(*), max(o_clerk) from (select distinct o_custkey, o_clerk from orders) t"),
    ("d-union", 0xb2fe638481816f23,
     """select count(*), min(c), max(c) from (select l_comment c from lineitem union select
     o_comment from orders) t"""),
    ("d-except", 0x1c4154a344598e9c,
     """select count(*), min(c), max(c) from (select l_comment c from lineitem except select
     o_comment from orders) t"""),
    # Sorts
    ("s-comment", 0xb019975498075e8d,
     """select l_comment, l_orderkey, l_linenumber from lineitem order by l_comment, l_orderkey,
     l_linenumber limit 10 offset {rows}"""),
    ("s-price", 0xca731a9dbbae992c,
     """select l_extendedprice, l_orderkey, l_linenumber, l_comment from lineitem order by
     l_extendedprice desc, l_orderkey, l_linenumber limit 10 offset {rows}"""),
    ("s-join", 0x5efbf66cbac2645c,
     """select p_name, l_orderkey, l_linenumber, l_shipmode from lineitem join part on l_partkey =
     p_partkey order by p_name, l_orderkey, l_linenumber limit 10 offset {rows}"""),
    # Joins on text, and of large tables
    ("j-self", 0x3a55a7cf66c5b9ca,
     "select count(*) from lineitem a join lineitem b on a.l_comment = b.l_comment"),
    ("j-comments", 0x2732e143bd9d82c2,
     "select count(*), max(o_clerk) from lineitem join orders on l_comment = o_comment"),
    ("j-not-in", 0x334efd84476e635d,
     """select count(*) from lineitem where l_comment not in (select o_comment from orders) and
     l_orderkey not in (select o_orderkey from orders where o_custkey % 3 = 0)"""),
    ("j-six", 0x00c83f6dc0f8dda6,
     """select count(*), sum(l_extendedprice), max(c_name), min(s_name), max(p_name),
     min(ps_comment) from lineitem, orders, customer, supplier, part, partsupp where l_orderkey =
     o_orderkey and o_custkey = c_custkey and l_suppkey = s_suppkey and l_partkey = p_partkey and
     ps_partkey = l_partkey and ps_suppkey = l_suppkey"""),
    ("j-exists", 0x27c2acb139d6c4de,
     """select count(*), sum(l_quantity) from lineitem where exists (select 1 from orders where
     o_comment = l_comment)"""),
    ("j-left", 0x89246d41a59970b9,
     """select count(*), count(o_orderkey), max(o_clerk) from lineitem left join orders on l_comment
     = o_comment and o_totalprice > 100000"""),
    ("j-full", 0xe0e7813d348f858f,
     """select count(*), count(a), count(b), max(n), max(m) from (select substring(l_comment from 1
     for 10) a, count(*) n from lineitem group by 1) x full join (select substring(o_comment from
     1 for 10) b, count(*) m from orders group by 1) y on a = b"""),
    ("j-clerks", 0x9ea26af2334ea258,
     """select count(*), max(a.o_comment) from orders a join orders b on a.o_clerk = b.o_clerk and
     a.o_orderdate = b.o_orderdate and a.o_orderkey < b.o_orderkey"""),
    ("j-above-average", 0x3cef47dc52666c00,
     """select count(*), sum(l_extendedprice), max(l_comment) from lineitem join (select l_partkey
     p, avg(l_quantity) q from lineitem group by l_partkey) t on l_partkey = p where l_quantity >
     q"""),
]

# Joins that carry text along.
TEXT = [
    ("t-part", 0x3d2482ae8cbcffde,
     """select p_name, sum(l_quantity) q from lineitem join part on l_partkey = p_partkey group by
     p_name order by q desc, p_name limit 20"""),
    ("t-customer", 0xb5a8b7a632428245,
     """select c_name, sum(o_totalprice) p from orders join customer on o_custkey = c_custkey group
     by c_name order by p desc, c_name limit 20"""),
    ("t-supplier", 0x9329a093340642a4,
     """select s_name, sum(l_extendedprice) p from lineitem join supplier on l_suppkey = s_suppkey
     group by s_name order by p desc, s_name limit 20"""),
    ("t-part-supplier", 0x2f50491de14bfee4,
     """select p_name, s_name, sum(l_quantity) q from lineitem join part on l_partkey = p_partkey
     join supplier on l_suppkey = s_suppkey group by p_name, s_name order by q desc, p_name,
     s_name limit 20"""),
    ("t-address", 0x8100a0d60a69239f,
     """select c_name, c_address, c_phone, sum(l_extendedprice) p from lineitem join orders on
     l_orderkey = o_orderkey join customer on o_custkey = c_custkey group by c_name, c_address,
     c_phone order by p desc, c_name limit 20"""),
    ("t-clerk", 0xd62d74b3f0f1da1d,
     """select o_clerk, sum(l_quantity) q from lineitem join orders on l_orderkey = o_orderkey group
     by o_clerk order by q desc, o_clerk limit 20"""),
    ("t-stock", 0x72354c355e2a2750,
     """select p_name, p_type, p_brand, sum(ps_supplycost * ps_availqty) v from partsupp join part
     on ps_partkey = p_partkey group by p_name, p_type, p_brand
     order by v desc, p_name limit 20"""),
    ("t-cost", 0xb959c4789c055046,
     """select s_name, p_name, min(ps_supplycost) c from partsupp join part on ps_partkey =
     p_partkey join supplier on ps_suppkey = s_suppkey group by s_name, p_name order by c,
     s_name, p_name limit 20"""),
    ("t-mode", 0xfcf7fbce7249c56c,
     """select l_shipmode, min(o_comment), max(o_comment) from lineitem join orders on l_orderkey =
     o_orderkey group by l_shipmode order by l_shipmode"""),
    ("t-comment", 0x424bfa1e75f351b3,
     """select c_name, max(o_comment) m, sum(o_totalprice) p from orders join customer on o_custkey
     = c_custkey group by c_name order by m desc, c_name limit 20"""),
    ("t-nation", 0x3dc417498ab3514e,
     """select n_name, max(s_name), max(c_name), min(p_name), sum(l_extendedprice) from lineitem
     join orders on l_orderkey = o_orderkey join customer on o_custkey = c_custkey join supplier
     on l_suppkey = s_suppkey join part on l_partkey = p_partkey join nation on s_nationkey =
     n_nationkey where s_nationkey = c_nationkey group by n_name order by n_name"""),
    ("t-bought", 0xbf71fddb518054d5,
     """select c_name, p_name, sum(l_quantity) q from lineitem join orders on l_orderkey =
     o_orderkey join customer on o_custkey = c_custkey join part on l_partkey = p_partkey where
     o_orderdate >= date '1995-01-01' and o_orderdate < date '1996-01-01' group by c_name, p_name
     order by q desc, c_name, p_name limit 20"""),
]

GROUPS = {"spill": SPILL, "text": TEXT}
KNOWN_SF = 0.01
KNOWN = {name: digest for queries in GROUPS.values() for name, digest, _ in queries}


def statement(sql, scale):
    return sql.replace("{rows}", str(int(LINEITEM_ROWS * scale * 2 / 3)))
