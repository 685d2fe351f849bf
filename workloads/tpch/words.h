/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The lists of strings that columns and comments draw from (TPC-H specification, clauses 4.2.2.13
 * and 4.2.2.14; the weights are those of the reference generator's distributions).
 */
#ifndef FTH_WORKLOADS_TPCH_WORDS_H
#define FTH_WORKLOADS_TPCH_WORDS_H

#include "workloads/tpch/tpch.h"

/* A list of equally likely strings. */
struct tpch_list {
	const char *const *strings;
	unsigned count;
};

extern const struct tpch_list tpch_colors, tpch_containers, tpch_instructions, tpch_priorities,
	tpch_regions, tpch_return_flags, tpch_segments, tpch_ship_modes;

/* Part types are three words, of which the last changes fastest. */
#define TPCH_TYPES 150
extern const struct tpch_list tpch_type_sizes, tpch_type_coatings, tpch_type_metals;

#define TPCH_NATIONS 25
struct tpch_nation {
	const char *name;
	unsigned region;
};
extern const struct tpch_nation tpch_nations[TPCH_NATIONS];

/* A list of words with weights; ended by an empty string. */
struct tpch_weighted {
	const char *text;
	unsigned weight;
};

extern const struct tpch_weighted tpch_adjectives[], tpch_adverbs[], tpch_auxiliaries[],
	tpch_nouns[], tpch_prepositions[], tpch_terminators[], tpch_verbs[];

/*
 * The grammar of sentences. In a sentence N is a noun phrase, V a verb phrase, P a preposition with
 * "the" and a noun phrase, T a terminator. In phrases N is a noun, J an adjective, D an adverb, V a
 * verb, X an auxiliary, and a comma joins the word before.
 */
extern const struct tpch_weighted tpch_sentences[], tpch_noun_phrases[], tpch_verb_phrases[];

#endif
