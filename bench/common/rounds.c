/* SPDX-License-Identifier: BSD-2-Clause */
#include "rounds.h"

void fth_rounds_add(struct fth_rounds *rounds, double ours, double peer)
{
	if (rounds->n == FTH_ROUNDS_MAX)
		return;
	rounds->ours[rounds->n] = ours;
	rounds->peer[rounds->n++] = peer;
}

double fth_rounds_ours(const struct fth_rounds *rounds)
{
	return rounds->n ? fth_median(rounds->ours, rounds->n) : 0;
}

double fth_rounds_peer(const struct fth_rounds *rounds)
{
	return rounds->n ? fth_median(rounds->peer, rounds->n) : 0;
}

double fth_rounds_ratio(const struct fth_rounds *rounds)
{
	return fth_rounds_ours(rounds) / fth_rounds_peer(rounds);
}

static void write_runs(struct fth_json *j, const char *key, const double *values, unsigned n)
{
	fth_json_array(j, key);
	for (unsigned i = 0; i < n; i++)
		fth_json_double(j, NULL, values[i]);
	fth_json_end(j);
}

void fth_rounds_members(struct fth_json *j, const struct fth_rounds *rounds)
{
	fth_json_double(j, "ours", fth_rounds_ours(rounds));
	fth_json_double(j, "peer", fth_rounds_peer(rounds));
	fth_json_double(j, "ratio", fth_rounds_ratio(rounds));
	write_runs(j, "ours_runs", rounds->ours, rounds->n);
	write_runs(j, "peer_runs", rounds->peer, rounds->n);
}

void fth_rounds_json(struct fth_json *j, const char *key, const struct fth_rounds *rounds)
{
	fth_json_object(j, key);
	fth_rounds_members(j, rounds);
	fth_json_end(j);
}
