/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The journal of names. On the medium:
 *
 *	0	header, one of two that are written in turn, in blocks of their own
 *	4096	the other
 *	8192	the first half: entries, one behind the other
 *	...	the second half
 *
 * Invariants
 *  1. The newest valid header says which half counts. Entries of it have its generation and the
 *     next number each; the first that does not is the end.
 *  2. An operation persists every entry up to its own that was not known to be durable: a later
 *     entry is never acknowledged before an earlier one.
 *  3. A half is written, and durable, before the header names it.
 */
#include "workloads/names/names.h"

#include "fathom/base/checksum.h"
#include "fathom/base/error.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#define NAMES_MAGIC 0x73656d616e687466u /* "fthnames" */
#define HEADER_SEED 0x6e616d65732d6864u
#define ENTRY_SEED  0x6e616d65732d656eu
#define HALVES_AT   (2 * FTH_DURABLE_BLOCK)
#define BUCKETS_MIN 1024u

enum entry_op { ENTRY_CREATE = 1, ENTRY_RENAME, ENTRY_REMOVE };

struct header {
	uint64_t magic, sum;
	uint64_t generation; /* its half is generation % 2 */
	uint64_t sequence;   /* of the first entry */
	uint64_t operations; /* before it */
	uint64_t next_inode;
};

struct entry {
	uint64_t sum; /* of the rest and the names */
	uint64_t generation, sequence, inode;
	uint8_t op, length, to_length, reserved[5];
};
_Static_assert(sizeof(struct entry) == 40, "no padding");
#define ENTRY_MAX (sizeof(struct entry) + 2 * FTH_NAMES_LENGTH_MAX)

struct file {
	struct file *next;
	uint64_t inode;
	uint8_t length;
	char name[];
};

struct fth_names {
	struct fth_durable *durable;
	uint64_t half; /* bytes of one */
	pthread_mutex_t lock;
	struct header header;
	uint64_t used, durable_end; /* bytes of the half; the latter are durable */
	uint64_t sequence, operations;
	struct file **buckets;
	uint64_t bucket_count, count, live; /* live: bytes of entries for all names */
	int failed;
};

static uint64_t round8(uint64_t value)
{
	return (value + 7) / 8 * 8;
}

/* ---- names in memory ---- */

static struct file **find(struct fth_names *names, const char *name, uint8_t length)
{
	uint64_t hash = fth_checksum(name, length, 0);
	struct file **at = &names->buckets[hash % names->bucket_count];

	while (*at && ((*at)->length != length || memcmp((*at)->name, name, length) != 0))
		at = &(*at)->next;
	return at;
}

static int grow(struct fth_names *names)
{
	uint64_t old_count = names->bucket_count;
	struct file **old = names->buckets;
	struct file **new = calloc(2 * old_count, sizeof(*new));

	if (!new)
		return fth_fail(ENOMEM, "names: no memory for %llu names",
				(unsigned long long)names->count);
	names->buckets = new;
	names->bucket_count = 2 * old_count;
	for (uint64_t i = 0; i < old_count; i++)
		for (struct file *file = old[i], *next; file; file = next) {
			struct file **at = find(names, file->name, file->length);

			next = file->next;
			file->next = *at;
			*at = file;
		}
	free(old);
	return 0;
}

static int insert(struct fth_names *names, const char *name, uint8_t length, uint64_t inode)
{
	struct file *file;
	int rc = names->count > 2 * names->bucket_count ? grow(names) : 0;

	if (rc < 0)
		return rc;
	file = malloc(sizeof(*file) + length);
	if (!file)
		return fth_fail(ENOMEM, "names: no memory for a name");
	*file = (struct file){.inode = inode, .length = length};
	memcpy(file->name, name, length);
	*find(names, name, length) = file;
	names->live += round8(sizeof(struct entry) + length);
	names->count++;
	return 0;
}

static void erase(struct fth_names *names, struct file **at)
{
	struct file *file = *at;

	*at = file->next;
	names->live -= round8(sizeof(struct entry) + file->length);
	free(file);
	names->count--;
}

/* ---- entries ---- */

static uint64_t entry_length(const struct entry *entry)
{
	return round8(sizeof(*entry) + entry->length + entry->to_length);
}

static uint64_t entry_sum(const struct entry *entry)
{
	return fth_checksum(&entry->generation, entry_length(entry) - sizeof(entry->sum),
			    ENTRY_SEED);
}

static uint64_t half_at(const struct fth_names *names, uint64_t generation)
{
	return HALVES_AT + generation % 2 * names->half;
}

/* Store an entry at `at`; *length is its own. */
static int store_entry(struct fth_names *names, uint64_t at, struct entry entry, const char *name,
		       const char *new_name, uint64_t *length)
{
	_Alignas(8) uint8_t bytes[ENTRY_MAX + 8] = {0};
	struct entry *filled = (struct entry *)bytes;

	*filled = entry;
	memcpy(bytes + sizeof(entry), name, entry.length);
	if (entry.to_length)
		memcpy(bytes + sizeof(entry) + entry.length, new_name, entry.to_length);
	filled->sum = entry_sum(filled);
	*length = entry_length(filled);
	return fth_durable_store(names->durable, at, bytes, *length);
}

/* ---- the header, and the other half ---- */

static int write_header(struct fth_names *names, const struct header *header)
{
	uint64_t at = header->generation % 2 * FTH_DURABLE_BLOCK;
	struct header new = *header;
	int rc;

	new.magic = NAMES_MAGIC;
	new.sum = fth_checksum(&new.generation, sizeof(new) - 16, HEADER_SEED);
	rc = fth_durable_store(names->durable, at, &new, sizeof(new));
	return rc < 0 ? rc : fth_durable_persist(names->durable, at, sizeof(new));
}

/* Entries for all names; *used is their length. */
static int store_all(struct fth_names *names, uint64_t half, uint64_t generation, uint64_t *used)
{
	int rc = 0;

	for (uint64_t i = 0; i < names->bucket_count; i++)
		for (const struct file *file = names->buckets[i]; file && rc == 0;
		     file = file->next) {
			uint64_t length;

			rc = store_entry(names, half + *used,
					 (struct entry){.generation = generation,
							.sequence = names->sequence++,
							.inode = file->inode,
							.op = ENTRY_CREATE,
							.length = file->length},
					 file->name, NULL, &length);
			*used += length;
		}
	return rc;
}

/* All names as entries of a new generation. They fit: allowed() sees to that. */
static int switch_halves(struct fth_names *names)
{
	struct header header = names->header;
	uint64_t half = half_at(names, header.generation + 1), used = 0;
	int rc;

	header.generation++;
	header.sequence = names->sequence;
	rc = store_all(names, half, header.generation, &used);
	/* replay counts these entries too */
	header.operations = names->operations - (names->sequence - header.sequence);
	if (rc == 0)
		rc = fth_durable_persist(names->durable, half, used);
	if (rc == 0)
		rc = write_header(names, &header);
	if (rc < 0)
		return rc;
	names->header = header;
	names->used = names->durable_end = used;
	return 0;
}

/* ---- operations ---- */

/* Append an entry; the lock is held. */
static int append(struct fth_names *names, enum entry_op op, uint64_t inode, const char *name,
		  const char *new_name)
{
	struct entry entry = {.inode = inode, .op = (uint8_t)op, .length = (uint8_t)strlen(name)};
	uint64_t length;
	int rc = 0;

	if (new_name)
		entry.to_length = (uint8_t)strlen(new_name);
	if (names->used + entry_length(&entry) > names->half)
		rc = switch_halves(names);
	if (rc < 0)
		return rc;
	entry.generation = names->header.generation;
	entry.sequence = names->sequence;
	rc = store_entry(names, half_at(names, entry.generation) + names->used, entry, name,
			 new_name, &length);
	if (rc < 0)
		return rc;
	names->used += length;
	names->sequence++;
	return 0;
}

/*
 * Make everything up to here durable. The lock is held, and released meanwhile: others append, and
 * persist together with this.
 */
static int commit(struct fth_names *names)
{
	uint64_t generation = names->header.generation, from = names->durable_end, to = names->used;
	int rc;

	pthread_mutex_unlock(&names->lock);
	rc = fth_durable_persist(names->durable, half_at(names, generation) + from, to - from);
	pthread_mutex_lock(&names->lock);
	if (rc < 0)
		names->failed = rc;
	else if (names->header.generation == generation && names->durable_end < to)
		names->durable_end = to;
	return rc;
}

static int check_name(const char *name)
{
	size_t length = strlen(name);

	if (length == 0 || length > FTH_NAMES_LENGTH_MAX)
		return fth_fail(EINVAL, "names: a name has %llu bytes, expected 1 to %u",
				(unsigned long long)length, FTH_NAMES_LENGTH_MAX);
	return 0;
}

/* Change the names in memory. */
static int apply(struct fth_names *names, enum entry_op op, uint64_t inode, const char *name,
		 uint8_t length, const char *to, uint8_t to_length)
{
	struct file **at = find(names, name, length);
	int rc;

	if (op == ENTRY_CREATE)
		return *at ? -EEXIST : insert(names, name, length, inode);
	if (!*at)
		return -ENOENT;
	if (op == ENTRY_RENAME) {
		if (*find(names, to, to_length))
			return -EEXIST;
		rc = insert(names, to, to_length, (*at)->inode);
		if (rc < 0)
			return rc;
	}
	erase(names, find(names, name, length));
	return 0;
}

/*
 * A name fits if all of them leave room for one more operation in half of the journal: a remove is
 * always possible.
 */
static int fits(const struct fth_names *names, const char *name)
{
	if (names->live + round8(sizeof(struct entry) + strlen(name)) + ENTRY_MAX + 8 <=
	    names->half)
		return 0;
	return fth_fail(ENOSPC,
			"names: the journal is full: %llu names and one more exceed half of it",
			(unsigned long long)names->count);
}

/* Would it succeed? Then nothing but memory and the device can fail. */
static int allowed(struct fth_names *names, enum entry_op op, const char *name, const char *to)
{
	bool there = *find(names, name, (uint8_t)strlen(name));

	if (names->failed)
		return names->failed;
	if (op == ENTRY_CREATE)
		return there ? fth_fail(EEXIST, "names: %s already exists", name)
			     : fits(names, name);
	if (!there)
		return fth_fail(ENOENT, "names: %s does not exist", name);
	if (op == ENTRY_REMOVE)
		return 0;
	if (*find(names, to, (uint8_t)strlen(to)))
		return fth_fail(EEXIST, "names: %s already exists", to);
	return fits(names, to);
}

static int operate(struct fth_names *names, enum entry_op op, const char *name, const char *to,
		   uint64_t *inode)
{
	int rc = check_name(name);
	uint64_t number;

	if (rc == 0 && to)
		rc = check_name(to);
	if (rc < 0)
		return rc;
	pthread_mutex_lock(&names->lock);
	rc = allowed(names, op, name, to);
	number = names->header.next_inode;
	if (rc == 0)
		rc = append(names, op, number, name, to);
	if (rc == 0)
		rc = apply(names, op, number, name, (uint8_t)strlen(name), to,
			   to ? (uint8_t)strlen(to) : 0);
	if (rc == 0) {
		names->operations++;
		names->header.next_inode += op == ENTRY_CREATE;
		rc = commit(names);
	} else if (rc != -EEXIST && rc != -ENOENT && rc != -ENOSPC) {
		names->failed =
			rc; /* an entry without its change, or a half that was not written */
	}
	pthread_mutex_unlock(&names->lock);
	if (rc == 0 && inode)
		*inode = number;
	return rc;
}

int fth_names_create(struct fth_names *names, const char *name, uint64_t *inode)
{
	return operate(names, ENTRY_CREATE, name, NULL, inode);
}

int fth_names_rename(struct fth_names *names, const char *from, const char *to)
{
	return operate(names, ENTRY_RENAME, from, to, NULL);
}

int fth_names_remove(struct fth_names *names, const char *name)
{
	return operate(names, ENTRY_REMOVE, name, NULL, NULL);
}

int fth_names_find(struct fth_names *names, const char *name, uint64_t *inode)
{
	struct file *file = NULL;

	if (check_name(name) < 0)
		return -ENOENT;
	pthread_mutex_lock(&names->lock);
	file = *find(names, name, (uint8_t)strlen(name));
	if (file && inode)
		*inode = file->inode;
	pthread_mutex_unlock(&names->lock);
	return file ? 0 : -ENOENT;
}

uint64_t fth_names_count(struct fth_names *names)
{
	uint64_t count;

	pthread_mutex_lock(&names->lock);
	count = names->count;
	pthread_mutex_unlock(&names->lock);
	return count;
}

uint64_t fth_names_operations(struct fth_names *names)
{
	uint64_t operations;

	pthread_mutex_lock(&names->lock);
	operations = names->operations;
	pthread_mutex_unlock(&names->lock);
	return operations;
}

/* ---- opening ---- */

/* No header is valid: that is a new journal only if there is nothing at all. */
static bool is_zero(const struct header *header)
{
	static const struct header zero;

	return memcmp(header, &zero, sizeof(zero)) == 0;
}

static int read_header(struct fth_names *names, bool *found)
{
	bool zero = true;

	*found = false;
	for (unsigned slot = 0; slot < 2; slot++) {
		struct header header;
		int rc = fth_durable_load(names->durable, (uint64_t)slot * FTH_DURABLE_BLOCK,
					  &header, sizeof(header));

		if (rc < 0)
			return rc;
		zero &= is_zero(&header);
		if (header.magic != NAMES_MAGIC || header.generation % 2 != slot ||
		    header.sum !=
			    fth_checksum(&header.generation, sizeof(header) - 16, HEADER_SEED))
			continue;
		if (!*found || header.generation > names->header.generation)
			names->header = header;
		*found = true;
	}
	if (!*found && !zero)
		return fth_fail(EUCLEAN, "names: both headers of the journal are damaged");
	return 0;
}

/* The next entry; false at the end, or where it cannot be read. */
static bool read_entry(struct fth_names *names, uint8_t *bytes, int *rc)
{
	uint64_t at = half_at(names, names->header.generation) + names->used;
	struct entry *entry = (struct entry *)bytes;

	if (names->half - names->used < sizeof(*entry))
		return false;
	*rc = fth_durable_load(names->durable, at, bytes, sizeof(*entry));
	if (*rc < 0 || entry->generation != names->header.generation ||
	    entry->sequence != names->sequence || entry_length(entry) > ENTRY_MAX + 8 ||
	    entry_length(entry) > names->half - names->used)
		return false;
	*rc = fth_durable_load(names->durable, at, bytes, entry_length(entry));
	return *rc == 0 && entry->sum == entry_sum(entry);
}

/* Of an operation that there is, with names that it takes. */
static bool is_possible(const struct entry *entry)
{
	const char *name = (const char *)(entry + 1);

	return entry->op >= ENTRY_CREATE && entry->op <= ENTRY_REMOVE && entry->length > 0 &&
	       entry->length <= FTH_NAMES_LENGTH_MAX && entry->to_length <= FTH_NAMES_LENGTH_MAX &&
	       (entry->to_length > 0) == (entry->op == ENTRY_RENAME) &&
	       !memchr(name, 0, (size_t)entry->length + entry->to_length);
}

static int replay(struct fth_names *names)
{
	_Alignas(8) uint8_t bytes[ENTRY_MAX + 8];
	const struct entry *entry = (const struct entry *)bytes;
	int rc = 0;

	names->sequence = names->header.sequence;
	names->operations = names->header.operations;
	while (rc == 0 && read_entry(names, bytes, &rc)) {
		const char *name = (const char *)(entry + 1);

		if (!is_possible(entry))
			return fth_fail(EUCLEAN, "names: entry %llu has an unknown kind",
					(unsigned long long)entry->sequence);
		rc = apply(names, (enum entry_op)entry->op, entry->inode, name, entry->length,
			   name + entry->length, entry->to_length);
		if (rc == -EEXIST || rc == -ENOENT)
			rc = fth_fail(EUCLEAN, "names: entry %llu contradicts earlier entries",
				      (unsigned long long)entry->sequence);
		if (entry->op == ENTRY_CREATE && entry->inode >= names->header.next_inode)
			names->header.next_inode = entry->inode + 1;
		names->operations++;
		names->used += entry_length(entry);
		names->sequence++;
	}
	names->durable_end = names->used;
	return rc;
}

/* What a crash left behind the end of the entries must not be taken for the next ones. */
static int begin(struct fth_names *names)
{
	bool found;
	int rc = read_header(names, &found);

	if (rc < 0)
		return rc;
	if (found) {
		rc = replay(names);
		return rc < 0 ? rc : switch_halves(names);
	}
	names->header = (struct header){.generation = 1, .sequence = 1, .next_inode = 1};
	names->sequence = 1;
	return write_header(names, &names->header);
}

int fth_names_open(struct fth_durable *durable, struct fth_names **out)
{
	struct fth_names *names;
	int rc;

	*out = NULL;
	if (fth_durable_size(durable) < FTH_NAMES_SIZE_MIN)
		return fth_fail(EINVAL, "names: %llu bytes are too small, the minimum is %u",
				(unsigned long long)fth_durable_size(durable), FTH_NAMES_SIZE_MIN);
	names = calloc(1, sizeof(*names));
	if (!names)
		return fth_fail(ENOMEM, "names: no memory");
	names->durable = durable;
	names->half =
		(fth_durable_size(durable) - HALVES_AT) / 2 / FTH_DURABLE_BLOCK * FTH_DURABLE_BLOCK;
	names->bucket_count = BUCKETS_MIN;
	names->buckets = calloc(names->bucket_count, sizeof(*names->buckets));
	pthread_mutex_init(&names->lock, NULL);
	rc = names->buckets ? begin(names) : fth_fail(ENOMEM, "names: no memory");
	if (rc < 0) {
		fth_names_close(names);
		return rc;
	}
	*out = names;
	return 0;
}

void fth_names_close(struct fth_names *names)
{
	if (!names)
		return;
	for (uint64_t i = 0; names->buckets && i < names->bucket_count; i++)
		while (names->buckets[i])
			erase(names, &names->buckets[i]);
	free(names->buckets);
	pthread_mutex_destroy(&names->lock);
	free(names);
}
