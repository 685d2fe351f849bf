/* SPDX-License-Identifier: BSD-2-Clause */
#include "query/task/task_names.h"

const char *const task_type_names[FTH_T_COUNT] = {
	[FTH_T_BOOL] = "bool",	     [FTH_T_INT32] = "int32", [FTH_T_INT64] = "int64",
	[FTH_T_DECIMAL] = "decimal", [FTH_T_DATE] = "date",   [FTH_T_DOUBLE] = "double",
	[FTH_T_TEXT] = "text",	     [FTH_T_CHAR] = "char",
};

const char *const task_aggregate_names[7] = {
	[TASK_COUNT_ROWS] = "count", [TASK_COUNT] = "count", [TASK_SUM] = "sum", [TASK_AVG] = "avg",
	[TASK_MIN] = "min",	     [TASK_MAX] = "max",     [TASK_ANY] = "any",
};

const char *const task_match_names[5] = {
	[TASK_SEMI] = "semi", [TASK_ANTI] = "anti",	[TASK_INNER] = "inner",
	[TASK_LEFT] = "left", [TASK_SINGLE] = "single",
};

const char *const task_reduce_names[6] = {
	[TASK_OUTPUT] = "output", [TASK_GROUP] = "group", [TASK_SORT] = "sort",
	[TASK_SET] = "set",	  [TASK_MAP] = "map",	  [TASK_MULTIMAP] = "multimap",
};

bool task_op_is_infix(enum fth_op op)
{
	return (op >= FTH_OP_ADD && op <= FTH_OP_MOD) || (op >= FTH_OP_EQ && op <= FTH_OP_OR) ||
	       op == FTH_OP_CONCAT;
}

const char *task_op_name(enum fth_op op)
{
	if (op == FTH_OP_NEG)
		return "neg";
	return op == FTH_OP_IS_NULL ? "is_null" : fth_op_name(op);
}
