/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The 22 queries of TPC-H (Standard Specification, clauses 2.4.1 to 2.4.22), with the substitution
 * values for query validation that each clause gives.
 */
#include "workloads/tpch/tpch.h"

#include <stddef.h>

/* clang-format off */
static const char *const queries[FTH_TPCH_QUERIES] = {
	/* 1 */
	"select l_returnflag, l_linestatus,\n"
	"       sum(l_quantity) as sum_qty,\n"
	"       sum(l_extendedprice) as sum_base_price,\n"
	"       sum(l_extendedprice * (1 - l_discount)) as sum_disc_price,\n"
	"       sum(l_extendedprice * (1 - l_discount) * (1 + l_tax)) as sum_charge,\n"
	"       avg(l_quantity) as avg_qty,\n"
	"       avg(l_extendedprice) as avg_price,\n"
	"       avg(l_discount) as avg_disc,\n"
	"       count(*) as count_order\n"
	"from lineitem\n"
	"where l_shipdate <= date '1998-12-01' - interval '90' day\n"
	"group by l_returnflag, l_linestatus\n"
	"order by l_returnflag, l_linestatus;\n",

	/* 2 */
	"select s_acctbal, s_name, n_name, p_partkey, p_mfgr, s_address, s_phone, s_comment\n"
	"from part, supplier, partsupp, nation, region\n"
	"where p_partkey = ps_partkey\n"
	"  and s_suppkey = ps_suppkey\n"
	"  and p_size = 15\n"
	"  and p_type like '%BRASS'\n"
	"  and s_nationkey = n_nationkey\n"
	"  and n_regionkey = r_regionkey\n"
	"  and r_name = 'EUROPE'\n"
	"  and ps_supplycost = (\n"
	"        select min(ps_supplycost)\n"
	"        from partsupp, supplier, nation, region\n"
	"        where p_partkey = ps_partkey\n"
	"          and s_suppkey = ps_suppkey\n"
	"          and s_nationkey = n_nationkey\n"
	"          and n_regionkey = r_regionkey\n"
	"          and r_name = 'EUROPE')\n"
	"order by s_acctbal desc, n_name, s_name, p_partkey\n"
	"limit 100;\n",

	/* 3 */
	"select l_orderkey,\n"
	"       sum(l_extendedprice * (1 - l_discount)) as revenue,\n"
	"       o_orderdate, o_shippriority\n"
	"from customer, orders, lineitem\n"
	"where c_mktsegment = 'BUILDING'\n"
	"  and c_custkey = o_custkey\n"
	"  and l_orderkey = o_orderkey\n"
	"  and o_orderdate < date '1995-03-15'\n"
	"  and l_shipdate > date '1995-03-15'\n"
	"group by l_orderkey, o_orderdate, o_shippriority\n"
	"order by revenue desc, o_orderdate\n"
	"limit 10;\n",

	/* 4 */
	"select o_orderpriority, count(*) as order_count\n"
	"from orders\n"
	"where o_orderdate >= date '1993-07-01'\n"
	"  and o_orderdate < date '1993-07-01' + interval '3' month\n"
	"  and exists (\n"
	"        select *\n"
	"        from lineitem\n"
	"        where l_orderkey = o_orderkey\n"
	"          and l_commitdate < l_receiptdate)\n"
	"group by o_orderpriority\n"
	"order by o_orderpriority;\n",

	/* 5 */
	"select n_name, sum(l_extendedprice * (1 - l_discount)) as revenue\n"
	"from customer, orders, lineitem, supplier, nation, region\n"
	"where c_custkey = o_custkey\n"
	"  and l_orderkey = o_orderkey\n"
	"  and l_suppkey = s_suppkey\n"
	"  and c_nationkey = s_nationkey\n"
	"  and s_nationkey = n_nationkey\n"
	"  and n_regionkey = r_regionkey\n"
	"  and r_name = 'ASIA'\n"
	"  and o_orderdate >= date '1994-01-01'\n"
	"  and o_orderdate < date '1994-01-01' + interval '1' year\n"
	"group by n_name\n"
	"order by revenue desc;\n",

	/* 6 */
	"select sum(l_extendedprice * l_discount) as revenue\n"
	"from lineitem\n"
	"where l_shipdate >= date '1994-01-01'\n"
	"  and l_shipdate < date '1994-01-01' + interval '1' year\n"
	"  and l_discount between 0.06 - 0.01 and 0.06 + 0.01\n"
	"  and l_quantity < 24;\n",

	/* 7 */
	"select supp_nation, cust_nation, l_year, sum(volume) as revenue\n"
	"from (\n"
	"        select n1.n_name as supp_nation,\n"
	"               n2.n_name as cust_nation,\n"
	"               extract(year from l_shipdate) as l_year,\n"
	"               l_extendedprice * (1 - l_discount) as volume\n"
	"        from supplier, lineitem, orders, customer, nation n1, nation n2\n"
	"        where s_suppkey = l_suppkey\n"
	"          and o_orderkey = l_orderkey\n"
	"          and c_custkey = o_custkey\n"
	"          and s_nationkey = n1.n_nationkey\n"
	"          and c_nationkey = n2.n_nationkey\n"
	"          and ((n1.n_name = 'FRANCE' and n2.n_name = 'GERMANY')\n"
	"               or (n1.n_name = 'GERMANY' and n2.n_name = 'FRANCE'))\n"
	"          and l_shipdate between date '1995-01-01' and date '1996-12-31') as shipping\n"
	"group by supp_nation, cust_nation, l_year\n"
	"order by supp_nation, cust_nation, l_year;\n",

	/* 8 */
	"select o_year,\n"
	"       sum(case when nation = 'BRAZIL' then volume else 0 end) / sum(volume) as mkt_share\n"
	"from (\n"
	"        select extract(year from o_orderdate) as o_year,\n"
	"               l_extendedprice * (1 - l_discount) as volume,\n"
	"               n2.n_name as nation\n"
	"        from part, supplier, lineitem, orders, customer, nation n1, nation n2, region\n"
	"        where p_partkey = l_partkey\n"
	"          and s_suppkey = l_suppkey\n"
	"          and l_orderkey = o_orderkey\n"
	"          and o_custkey = c_custkey\n"
	"          and c_nationkey = n1.n_nationkey\n"
	"          and n1.n_regionkey = r_regionkey\n"
	"          and r_name = 'AMERICA'\n"
	"          and s_nationkey = n2.n_nationkey\n"
	"          and o_orderdate between date '1995-01-01' and date '1996-12-31'\n"
	"          and p_type = 'ECONOMY ANODIZED STEEL') as all_nations\n"
	"group by o_year\n"
	"order by o_year;\n",

	/* 9 */
	"select nation, o_year, sum(amount) as sum_profit\n"
	"from (\n"
	"        select n_name as nation,\n"
	"               extract(year from o_orderdate) as o_year,\n"
	"               l_extendedprice * (1 - l_discount) - ps_supplycost * l_quantity as amount\n"
	"        from part, supplier, lineitem, partsupp, orders, nation\n"
	"        where s_suppkey = l_suppkey\n"
	"          and ps_suppkey = l_suppkey\n"
	"          and ps_partkey = l_partkey\n"
	"          and p_partkey = l_partkey\n"
	"          and o_orderkey = l_orderkey\n"
	"          and s_nationkey = n_nationkey\n"
	"          and p_name like '%green%') as profit\n"
	"group by nation, o_year\n"
	"order by nation, o_year desc;\n",

	/* 10 */
	"select c_custkey, c_name,\n"
	"       sum(l_extendedprice * (1 - l_discount)) as revenue,\n"
	"       c_acctbal, n_name, c_address, c_phone, c_comment\n"
	"from customer, orders, lineitem, nation\n"
	"where c_custkey = o_custkey\n"
	"  and l_orderkey = o_orderkey\n"
	"  and o_orderdate >= date '1993-10-01'\n"
	"  and o_orderdate < date '1993-10-01' + interval '3' month\n"
	"  and l_returnflag = 'R'\n"
	"  and c_nationkey = n_nationkey\n"
	"group by c_custkey, c_name, c_acctbal, c_phone, n_name, c_address, c_comment\n"
	"order by revenue desc\n"
	"limit 20;\n",

	/* 11 */
	"select ps_partkey, sum(ps_supplycost * ps_availqty) as value\n"
	"from partsupp, supplier, nation\n"
	"where ps_suppkey = s_suppkey\n"
	"  and s_nationkey = n_nationkey\n"
	"  and n_name = 'GERMANY'\n"
	"group by ps_partkey\n"
	"having sum(ps_supplycost * ps_availqty) > (\n"
	"        select sum(ps_supplycost * ps_availqty) * 0.0001\n"
	"        from partsupp, supplier, nation\n"
	"        where ps_suppkey = s_suppkey\n"
	"          and s_nationkey = n_nationkey\n"
	"          and n_name = 'GERMANY')\n"
	"order by value desc;\n",

	/* 12 */
	"select l_shipmode,\n"
	"       sum(case when o_orderpriority = '1-URGENT' or o_orderpriority = '2-HIGH'\n"
	"                then 1 else 0 end) as high_line_count,\n"
	"       sum(case when o_orderpriority <> '1-URGENT' and o_orderpriority <> '2-HIGH'\n"
	"                then 1 else 0 end) as low_line_count\n"
	"from orders, lineitem\n"
	"where o_orderkey = l_orderkey\n"
	"  and l_shipmode in ('MAIL', 'SHIP')\n"
	"  and l_commitdate < l_receiptdate\n"
	"  and l_shipdate < l_commitdate\n"
	"  and l_receiptdate >= date '1994-01-01'\n"
	"  and l_receiptdate < date '1994-01-01' + interval '1' year\n"
	"group by l_shipmode\n"
	"order by l_shipmode;\n",

	/* 13 */
	"select c_count, count(*) as custdist\n"
	"from (\n"
	"        select c_custkey, count(o_orderkey)\n"
	"        from customer\n"
	"        left outer join orders on c_custkey = o_custkey\n"
	"                              and o_comment not like '%special%requests%'\n"
	"        group by c_custkey) as c_orders (c_custkey, c_count)\n"
	"group by c_count\n"
	"order by custdist desc, c_count desc;\n",

	/* 14 */
	"select 100.00 * sum(case when p_type like 'PROMO%'\n"
	"                         then l_extendedprice * (1 - l_discount)\n"
	"                         else 0 end)\n"
	"       / sum(l_extendedprice * (1 - l_discount)) as promo_revenue\n"
	"from lineitem, part\n"
	"where l_partkey = p_partkey\n"
	"  and l_shipdate >= date '1995-09-01'\n"
	"  and l_shipdate < date '1995-09-01' + interval '1' month;\n",

	/* 15 */
	"with revenue (supplier_no, total_revenue) as (\n"
	"        select l_suppkey, sum(l_extendedprice * (1 - l_discount))\n"
	"        from lineitem\n"
	"        where l_shipdate >= date '1996-01-01'\n"
	"          and l_shipdate < date '1996-01-01' + interval '3' month\n"
	"        group by l_suppkey)\n"
	"select s_suppkey, s_name, s_address, s_phone, total_revenue\n"
	"from supplier, revenue\n"
	"where s_suppkey = supplier_no\n"
	"  and total_revenue = (select max(total_revenue) from revenue)\n"
	"order by s_suppkey;\n",

	/* 16 */
	"select p_brand, p_type, p_size, count(distinct ps_suppkey) as supplier_cnt\n"
	"from partsupp, part\n"
	"where p_partkey = ps_partkey\n"
	"  and p_brand <> 'Brand#45'\n"
	"  and p_type not like 'MEDIUM POLISHED%'\n"
	"  and p_size in (49, 14, 23, 45, 19, 3, 36, 9)\n"
	"  and ps_suppkey not in (\n"
	"        select s_suppkey\n"
	"        from supplier\n"
	"        where s_comment like '%Customer%Complaints%')\n"
	"group by p_brand, p_type, p_size\n"
	"order by supplier_cnt desc, p_brand, p_type, p_size;\n",

	/* 17 */
	"select sum(l_extendedprice) / 7.0 as avg_yearly\n"
	"from lineitem, part\n"
	"where p_partkey = l_partkey\n"
	"  and p_brand = 'Brand#23'\n"
	"  and p_container = 'MED BOX'\n"
	"  and l_quantity < (\n"
	"        select 0.2 * avg(l_quantity)\n"
	"        from lineitem\n"
	"        where l_partkey = p_partkey);\n",

	/* 18 */
	"select c_name, c_custkey, o_orderkey, o_orderdate, o_totalprice, sum(l_quantity)\n"
	"from customer, orders, lineitem\n"
	"where o_orderkey in (\n"
	"        select l_orderkey\n"
	"        from lineitem\n"
	"        group by l_orderkey\n"
	"        having sum(l_quantity) > 300)\n"
	"  and c_custkey = o_custkey\n"
	"  and o_orderkey = l_orderkey\n"
	"group by c_name, c_custkey, o_orderkey, o_orderdate, o_totalprice\n"
	"order by o_totalprice desc, o_orderdate\n"
	"limit 100;\n",

	/* 19 */
	"select sum(l_extendedprice * (1 - l_discount)) as revenue\n"
	"from lineitem, part\n"
	"where (p_partkey = l_partkey\n"
	"       and p_brand = 'Brand#12'\n"
	"       and p_container in ('SM CASE', 'SM BOX', 'SM PACK', 'SM PKG')\n"
	"       and l_quantity >= 1 and l_quantity <= 1 + 10\n"
	"       and p_size between 1 and 5\n"
	"       and l_shipmode in ('AIR', 'AIR REG')\n"
	"       and l_shipinstruct = 'DELIVER IN PERSON')\n"
	"   or (p_partkey = l_partkey\n"
	"       and p_brand = 'Brand#23'\n"
	"       and p_container in ('MED BAG', 'MED BOX', 'MED PKG', 'MED PACK')\n"
	"       and l_quantity >= 10 and l_quantity <= 10 + 10\n"
	"       and p_size between 1 and 10\n"
	"       and l_shipmode in ('AIR', 'AIR REG')\n"
	"       and l_shipinstruct = 'DELIVER IN PERSON')\n"
	"   or (p_partkey = l_partkey\n"
	"       and p_brand = 'Brand#34'\n"
	"       and p_container in ('LG CASE', 'LG BOX', 'LG PACK', 'LG PKG')\n"
	"       and l_quantity >= 20 and l_quantity <= 20 + 10\n"
	"       and p_size between 1 and 15\n"
	"       and l_shipmode in ('AIR', 'AIR REG')\n"
	"       and l_shipinstruct = 'DELIVER IN PERSON');\n",

	/* 20 */
	"select s_name, s_address\n"
	"from supplier, nation\n"
	"where s_suppkey in (\n"
	"        select ps_suppkey\n"
	"        from partsupp\n"
	"        where ps_partkey in (\n"
	"                select p_partkey\n"
	"                from part\n"
	"                where p_name like 'forest%')\n"
	"          and ps_availqty > (\n"
	"                select 0.5 * sum(l_quantity)\n"
	"                from lineitem\n"
	"                where l_partkey = ps_partkey\n"
	"                  and l_suppkey = ps_suppkey\n"
	"                  and l_shipdate >= date '1994-01-01'\n"
	"                  and l_shipdate < date '1994-01-01' + interval '1' year))\n"
	"  and s_nationkey = n_nationkey\n"
	"  and n_name = 'CANADA'\n"
	"order by s_name;\n",

	/* 21 */
	"select s_name, count(*) as numwait\n"
	"from supplier, lineitem l1, orders, nation\n"
	"where s_suppkey = l1.l_suppkey\n"
	"  and o_orderkey = l1.l_orderkey\n"
	"  and o_orderstatus = 'F'\n"
	"  and l1.l_receiptdate > l1.l_commitdate\n"
	"  and exists (\n"
	"        select *\n"
	"        from lineitem l2\n"
	"        where l2.l_orderkey = l1.l_orderkey\n"
	"          and l2.l_suppkey <> l1.l_suppkey)\n"
	"  and not exists (\n"
	"        select *\n"
	"        from lineitem l3\n"
	"        where l3.l_orderkey = l1.l_orderkey\n"
	"          and l3.l_suppkey <> l1.l_suppkey\n"
	"          and l3.l_receiptdate > l3.l_commitdate)\n"
	"  and s_nationkey = n_nationkey\n"
	"  and n_name = 'SAUDI ARABIA'\n"
	"group by s_name\n"
	"order by numwait desc, s_name\n"
	"limit 100;\n",

	/* 22 */
	"select cntrycode, count(*) as numcust, sum(c_acctbal) as totacctbal\n"
	"from (\n"
	"        select substring(c_phone from 1 for 2) as cntrycode, c_acctbal\n"
	"        from customer\n"
	"        where substring(c_phone from 1 for 2) in ('13', '31', '23', '29', '30', '18', '17')\n"
	"          and c_acctbal > (\n"
	"                select avg(c_acctbal)\n"
	"                from customer\n"
	"                where c_acctbal > 0.00\n"
	"                  and substring(c_phone from 1 for 2)\n"
	"                        in ('13', '31', '23', '29', '30', '18', '17'))\n"
	"          and not exists (\n"
	"                select *\n"
	"                from orders\n"
	"                where o_custkey = c_custkey)) as custsale\n"
	"group by cntrycode\n"
	"order by cntrycode;\n",
};
/* clang-format on */

const char *fth_tpch_query(unsigned number)
{
	return number >= 1 && number <= FTH_TPCH_QUERIES ? queries[number - 1] : NULL;
}
