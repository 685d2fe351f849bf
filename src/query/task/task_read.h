/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Reading task sets from text (task_show.h prints it).
 *
 *	task 0: table orders: o_orderkey#0, o_custkey#1, o_orderdate#2
 *	    select o_orderdate#2 < date '1995-03-15'
 *	    map by o_orderkey#0: o_orderdate#2
 *	task 1: table lineitem: l_orderkey#0, l_extendedprice#1, l_discount#2
 *	    look up in 0, inner: l_orderkey#0 -> o_orderdate#3
 *	    compute revenue#4 = l_extendedprice#1 * (1 - l_discount#2)
 *	    group by o_orderdate#3: sum(revenue#4)
 *	task 2: result of 1: o_orderdate#0, revenue#1
 *	    output: o_orderdate#0, revenue#1
 *	result "day", "revenue"
 *
 * Line breaks and indentation do not matter; -- begins a comment. In the grammar, {x} is any number
 * of x, [x] one or none, and a list has commas between its elements.
 *
 *	set       = task {task} ["result" list of "name"]
 *	task      = "task" number ":" source {step} reducer ["expect" ...]
 *	source    = "table" name ":" [list of made ["=" column]] ["," "row number" made] [nested]
 *	          | "result of" list of number ":" [list of made ["=" number]]
 *	          | "values" ":" [list of made] "of" [list of "(" [list of constant] ")"]
 *	nested    = ";" "once for each row group of task" number "where" column "=" column
 *	step      = "select" expr
 *	          | "compute" made "=" expr
 *	          | "look up in" number "," match ":" [list of slot] ["->" list of made ["=" number]]
 *	              ["where" expr]
 *	          | "fetch from" name "at" slot ":" list of made ["=" column]
 *	          | "group runs by" list of slot [":" list of aggregate] "->" list of made
 *	match     = "semi" | "anti" | "inner" | "left" | "single"
 *	reducer   = "output" [":" list of slot]
 *	          | "group" ["if any"] ["by" list of slot]
 *	              [":" list of aggregate ["as" name [facts]]]
 *	          | "sort" ["by" list of slot ["desc"] ["nulls first"]] ["," "first" number]
 *	              ["," "after" number]
 *	            [":" list of slot]
 *	          | ("set" | "map" | "multimap") ["by" list of slot] [":" list of slot]
 *	aggregate = "count(*)"
 *	          | ("count" | "sum" | "avg" | "min" | "max" | "any") "(" ["distinct"] slot ")"
 *	slot      = name "#" number
 *	made      = slot [facts]
 *	facts     = type ["null"] ["[" integer ".." integer "]"]
 *	type      = "bool" | "int32" | "int64" | "date" | "double" | "decimal(" digits "," scale ")"
 *	          | ("text" | "char") ["(" length ")"]
 *	expr      = slot | constant | "(" expr ")" | function "(" list of expr ")"
 *	          | "cast(" expr "as" type ")"
 *	          | expr operator expr     from the loosest: or; and; = <> < <= > >=; + - ||; * / %
 *	constant  = integer | digits "." digits | 'text' | "true" | "false" | type 'value'
 *	          | type "null"
 *
 * A table's column becomes the slot of the same name unless "=" names another one, a column of a
 * result or payload the one in its place. Slots have the types that tables and expressions give
 * them. Facts may be left out. If they are there, the type must be the right one; a range that the
 * tables do not prove is replaced by the one that they prove, since the executor relies on ranges.
 */
#ifndef FTH_QUERY_TASK_READ_H
#define FTH_QUERY_TASK_READ_H

#include "query/task/task.h"

struct task_read {
	struct fth_qmem *mem; /* expressions are compiled there for their ranges, and freed */
	/* The open snapshot of a table, or NULL. It must stay open as long as the set. */
	struct fth_table *(*open)(void *self, const char *name);
	void *self;
	bool trusted; /* facts come from a planner of this process: take them as they are */
};

/*
 * Read a set. It lives in the arena and has passed task_check(). Returns 0; -EINVAL with a text
 * that begins "line N, column N:" for wrong text; -ENOENT, likewise, for a table that does not
 * exist; -ENOMEM.
 */
int task_read(const struct task_read *how, const char *text, size_t length, struct fth_arena *arena,
	      struct task_set *out);

#endif
