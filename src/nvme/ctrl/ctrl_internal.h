/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Inside the software controller. ctrl/README.md tells the idea and who may touch what.
 *
 *	ctrl.c			registers, and the state machine of enable, reset and shutdown
 *	ctrl_new.c		new and free
 *	grant.c			memory that was granted; bus address to pointer
 *	prp.c			walks PRP entries and lists
 *	ctrl_queue.c		rings: fetch, credits, posting, doorbells
 *	worker.c		the pass that does the work, and the threads that repeat it
 *	io.c			I/O commands
 *	admin.c			admin commands on queues, abort, asynchronous events
 *	ctrl_identify.c		identify
 *	feature.c		get and set features
 *	log_page.c		get log page, and the error log behind it
 *	ctrl_window.c		the windows: their registers, and the CMB
 *	pmr.c			the persistent memory region
 *	test/ctrl_invariants.c	the invariants as code, for tests
 */
#ifndef FTH_SRC_NVME_CTRL_H
#define FTH_SRC_NVME_CTRL_H

#include "fathom/base/stats.h"
#include "nvme/ctrl.h"
#include "fathom/detail/nvme/spec.h"
#include "nvme/ctrl/ctrl_window.h"

#include <pthread.h>

#define CTRL_PIECES	  257		/* of one device request: 1 MiB in scattered pages */
#define CTRL_BOUNCE_COUNT 16		/* per worker */
#define CTRL_BOUNCE_SIZE  (64u * 1024u) /* at least; a multiple of the device's block */
#define CTRL_BATCH	  64		/* commands taken from a queue at a visit */
#define CTRL_AER_MAX	  4
#define CTRL_ABORT_MAX	  4
#define CTRL_ERROR_LOG	  16
#define CTRL_CID_WORDS	  (65536 / 64)
#define CTRL_FEATURES	  0x0c /* feature ids below this one */
#define CTRL_VECTORS	  2048
#define CTRL_NO_VECTOR	  UINT32_MAX
#define CTRL_CACHE_LINE	  64

/* ---- memory ---- */

struct ctrl_grant {
	char *addr;
	uint64_t iova;
	uint64_t len;
};

/* Where a transfer is in its PRP entries. Plain data: saving a copy and going back is fine. */
struct ctrl_prp {
	uint64_t prp1, prp2;
	uint64_t remaining; /* bytes whose entries were not loaded yet */
	uint64_t list;	    /* bus address of the next list entry, when in_list */
	uint64_t at, left;  /* what was not handed out yet of the page loaded last */
	bool begun, in_list;
};

/* ---- queues ---- */

struct ctrl_cq {
	uint32_t lock; /* guards what follows down to `reserved`; held briefly */
	uint32_t head, tail, phase;
	uint32_t used;	   /* posted, and not yet consumed by the host */
	uint32_t reserved; /* slots promised to commands that were fetched */
	uint64_t bad_head; /* the last refused doorbell value, so that it is told only once */

	/* Constant while the queue exists. */
	bool exists;
	uint32_t size;
	uint32_t sq_count; /* submission queues that complete into this one */
	struct fth_nvme_cqe *ring;
	uint32_t *doorbell;
	uint32_t vector; /* fires when completions were posted; CTRL_NO_VECTOR: none */
} __attribute__((aligned(CTRL_CACHE_LINE)));

enum ctrl_sq_state { CTRL_SQ_NONE, CTRL_SQ_LIVE, CTRL_SQ_DELETING };

struct ctrl_sq {
	uint32_t lock;	    /* try-lock: who fetches. Guards head (for writing) to abort_marks */
	uint32_t head;	    /* stored with release after the entries before it were copied */
	uint32_t last_tail; /* the doorbell value seen last */
	uint64_t bad_tail;
	uint32_t abort_marks; /* how many of ctrl->aborts point into this ring */

	uint32_t in_flight; /* commands fetched and not completed; any worker */

	/* Constant while the queue exists. */
	enum ctrl_sq_state state;
	uint16_t id;
	uint16_t delete_cid; /* of the delete command that waits for in_flight to become 0 */
	uint32_t size;
	struct ctrl_cq *cq;
	const struct fth_nvme_sqe *ring;
	uint32_t *doorbell;
	uint64_t *cids; /* bit per command id in flight; atomic */
} __attribute__((aligned(CTRL_CACHE_LINE)));

/* ---- commands ---- */

enum ctrl_stage { CTRL_DATA, CTRL_ZERO, CTRL_RANGES, CTRL_NOTHING };

enum ctrl_cmd_state { CTRL_CMD_FREE, CTRL_CMD_WAITING, CTRL_CMD_ON_DEV };

struct ctrl_cmd {
	struct fth_dev_req req;
	struct fth_nvme_sqe sqe; /* the only copy that is looked at */
	struct ctrl_sq *sq;
	struct ctrl_cmd *next; /* in the worker's waiting list */
	enum ctrl_cmd_state state;
	enum ctrl_stage stage;
	bool owns_cid;	   /* its bit in sq->cids is ours */
	bool flush_after;  /* FUA, or the write cache is off */
	bool abort_wanted; /* ends at its next step */
	uint16_t status;
	uint32_t result;

	struct ctrl_prp prp;
	uint64_t offset, remaining; /* on the device, in bytes */
	uint64_t chunk;		    /* what the request in flight moves */
	bool chunk_bounced;
	char *bounce; /* from the worker's pool, kept until the command ends */
	uint32_t range, range_count;

	unsigned piece_count;
	struct iovec pieces[CTRL_PIECES];
};

/* ---- workers ---- */

struct ctrl_worker {
	struct fth_nvme_ctrl *ctrl;
	uint32_t busy; /* try-lock: who is in the pass; guards everything below */
	pthread_t thread;
	bool started;

	struct fth_dev_chan *chan;
	struct ctrl_cmd *cmds;
	struct ctrl_cmd **free; /* a stack */
	unsigned free_count;
	struct ctrl_cmd *waiting, **waiting_end; /* for a bounce buffer or for the channel */
	struct fth_dev_req **batch;		 /* what the pass will submit */
	unsigned batch_count;
	struct fth_dev_req **done;
	char *bounce_memory;
	char *bounces[CTRL_BOUNCE_COUNT]; /* free ones */
	unsigned bounce_count;
	unsigned next_queue;	 /* where the round robin goes on */
	bool kick;		 /* look at the waiting ones, one was aborted */
	struct ctrl_cmd **ended; /* to be posted; also where fetched commands wait a moment */
	unsigned ended_count;
} __attribute__((aligned(CTRL_CACHE_LINE)));

/* ---- the controller ---- */

enum ctrl_state {
	CTRL_OFF,
	CTRL_READY,
	CTRL_STOPPING, /* shutdown: commands in flight end, no new ones are fetched */
	CTRL_FLUSHING, /* shutdown: the device is being flushed */
	CTRL_SHUT,
	CTRL_RESETTING,
	CTRL_FAILED
};

/* An Abort whose target was still in its ring; it ends when that entry is fetched. */
struct ctrl_abort {
	bool used, resolved, hit;
	uint16_t cid; /* of the Abort */
	uint16_t sqid;
	uint16_t target;
	uint32_t position;
};

struct fth_nvme_ctrl {
	/*
	 * Shared: passes of the workers. Exclusive: admin commands, registers, grants, and every
	 * other change of structure. Writers first, or busy workers would starve them.
	 */
	pthread_rwlock_t world;
	struct fth_dev *dev; /* borrowed */
	const struct fth_dev_info *info;
	struct fth_stats *stats;
	uint32_t stop;	    /* atomic: the workers shall end */
	uint32_t attention; /* atomic: something for fth_ctrl_service() has turned up */

	/* Constant after fth_nvme_ctrl_new(). */
	uint32_t queue_entries, io_queues, mdts, depth, lba_shift;
	uint64_t blocks; /* of the namespace */
	uint64_t bounce_size;
	uint64_t transfer_max; /* bytes; 0: no limit */
	unsigned piece_max;    /* of one device request */
	char serial[FTH_NVME_CTRL_SERIAL_MAX];
	uint8_t uuid[16];
	uint32_t *doorbells;
	size_t doorbells_size;
	struct ctrl_window window; /* with locks of its own */

	/* Written under exclusive world; the words of regs are read at any time. */
	enum ctrl_state state;
	uint32_t regs[16];	   /* BAR0 0x00 to 0x3f, less what ctrl/ctrl_window.c has */
	struct ctrl_grant *grants; /* sorted by iova */
	unsigned grant_count;
	struct ctrl_sq *sqs; /* [0] is the admin queue */
	struct ctrl_cq *cqs;
	int *vector_fds;  /* io_queues + 1: what an interrupt is written to, or -1 */
	uint16_t *active; /* ids of live I/O submission queues */
	unsigned active_count;
	unsigned deleting;
	uint32_t features[CTRL_FEATURES];
	bool write_through;		    /* the write cache feature is off */
	uint32_t temperature_thresholds[2]; /* over, under */
	uint64_t vectors_uncoalesced[CTRL_VECTORS / 64];
	uint16_t aers[CTRL_AER_MAX];
	unsigned aer_count;
	uint32_t events_masked; /* bit per event type */
	struct ctrl_abort aborts[CTRL_ABORT_MAX];
	struct fth_dev_req flush; /* of a shutdown */
	bool flush_sent;	  /* and not yet answered for */
	uint32_t flush_done;	  /* atomic: the flush came back, its result is in it */

	uint32_t events; /* atomic; bit per enum fth_nvme_event_error that waits to be told */

	pthread_mutex_t error_lock; /* guards the error log */
	struct fth_nvme_error_entry errors[CTRL_ERROR_LOG];
	uint64_t error_count;

	struct ctrl_worker *workers;
	unsigned worker_count, thread_count;
};

/* ctrl/grant.c. world held, at least shared. NULL when any byte was not granted. */
void *fth_ctrl_translate(const struct fth_nvme_ctrl *ctrl, uint64_t iova, uint64_t len);

/* ctrl/prp.c. world held, at least shared. All return a status. */
void fth_ctrl_prp_init(struct ctrl_prp *prp, const struct fth_nvme_sqe *sqe, uint64_t length);
uint16_t fth_ctrl_prp_pieces(const struct fth_nvme_ctrl *ctrl, struct ctrl_prp *prp, uint64_t max,
			     struct iovec *pieces, unsigned piece_max, unsigned *count,
			     uint64_t *bytes);
uint16_t fth_ctrl_prp_to_host(const struct fth_nvme_ctrl *ctrl, const struct fth_nvme_sqe *sqe,
			      const void *from, uint64_t bytes, uint64_t total);
uint16_t fth_ctrl_prp_from_host(const struct fth_nvme_ctrl *ctrl, const struct fth_nvme_sqe *sqe,
				void *to, uint64_t length);

/* ctrl/ctrl_queue.c */
bool fth_ctrl_try_lock(uint32_t *lock);
void fth_ctrl_unlock(uint32_t *lock);
void fth_ctrl_sq_open(struct fth_nvme_ctrl *ctrl, uint16_t id, struct ctrl_cq *cq, uint32_t size,
		      const void *ring);
void fth_ctrl_sq_close(struct ctrl_sq *sq);
void fth_ctrl_cq_open(struct fth_nvme_ctrl *ctrl, uint16_t id, uint32_t size, uint32_t vector,
		      void *ring);
void fth_ctrl_cq_close(struct ctrl_cq *cq);
uint32_t fth_ctrl_sq_pending(struct fth_nvme_ctrl *ctrl, struct ctrl_sq *sq);
bool fth_ctrl_sq_rung(const struct ctrl_sq *sq);
void fth_ctrl_sq_copy(const struct ctrl_sq *sq, uint32_t position, struct fth_nvme_sqe *to);
uint32_t fth_ctrl_sq_after(const struct ctrl_sq *sq, uint32_t position);
uint32_t fth_ctrl_cq_reserve(struct fth_nvme_ctrl *ctrl, struct ctrl_cq *cq, uint32_t wanted);
void fth_ctrl_cq_lock(struct ctrl_cq *cq);
void fth_ctrl_cq_post(struct ctrl_cq *cq, const struct ctrl_sq *sq, uint16_t cid, uint16_t status,
		      uint32_t result);
/* Completions were posted: interrupt the host, if it asked for that. world held; no lock. */
void fth_ctrl_interrupt(const struct fth_nvme_ctrl *ctrl, const struct ctrl_cq *cq);
void fth_ctrl_doorbell_event(struct fth_nvme_ctrl *ctrl, enum fth_nvme_event_error kind);
unsigned fth_ctrl_doorbells_stray(struct fth_nvme_ctrl *ctrl);

/* ctrl/worker.c */
int fth_ctrl_workers_open(struct fth_nvme_ctrl *ctrl);
int fth_ctrl_workers_start(struct fth_nvme_ctrl *ctrl);
void fth_ctrl_workers_close(struct fth_nvme_ctrl *ctrl);
unsigned fth_ctrl_workers_in_flight(const struct fth_nvme_ctrl *ctrl);
void fth_ctrl_workers_drop_waiting(struct fth_nvme_ctrl *ctrl);
void fth_ctrl_attention(struct fth_nvme_ctrl *ctrl);

/* ctrl/io.c: what a worker calls, world shared. */
enum ctrl_step { CTRL_STEP_SUBMIT, CTRL_STEP_WAIT, CTRL_STEP_END };
enum ctrl_step fth_ctrl_io_start(struct ctrl_worker *w, struct ctrl_cmd *cmd);
enum ctrl_step fth_ctrl_io_next(struct ctrl_worker *w, struct ctrl_cmd *cmd);
void fth_ctrl_io_settle(struct ctrl_cmd *cmd, struct fth_nvme_ctrl *ctrl);
unsigned fth_ctrl_io_stat(uint8_t opcode);

/* ctrl/admin.c: world exclusive. */
unsigned fth_ctrl_admin_service(struct fth_nvme_ctrl *ctrl);
bool fth_ctrl_admin_wanted(const struct fth_nvme_ctrl *ctrl);
void fth_ctrl_admin_reset(struct fth_nvme_ctrl *ctrl);
void fth_ctrl_abort_check(struct fth_nvme_ctrl *ctrl, struct ctrl_sq *sq, uint32_t position,
			  struct ctrl_cmd *cmd);

/* ctrl/ctrl_identify.c, ctrl/feature.c, ctrl/log_page.c: world exclusive. */
uint16_t fth_ctrl_identify(struct fth_nvme_ctrl *ctrl, const struct fth_nvme_sqe *sqe);
void fth_ctrl_features_reset(struct fth_nvme_ctrl *ctrl);
uint16_t fth_ctrl_get_features(struct fth_nvme_ctrl *ctrl, const struct fth_nvme_sqe *sqe,
			       uint32_t *result);
uint16_t fth_ctrl_set_features(struct fth_nvme_ctrl *ctrl, const struct fth_nvme_sqe *sqe,
			       uint32_t *result);
uint16_t fth_ctrl_get_log_page(struct fth_nvme_ctrl *ctrl, const struct fth_nvme_sqe *sqe);
/* Any holder of world. */
void fth_ctrl_log_error(struct fth_nvme_ctrl *ctrl, uint16_t sqid, const struct fth_nvme_sqe *sqe,
			uint16_t status);

/* ctrl.c: world exclusive. */
unsigned fth_ctrl_service(struct ctrl_worker *w);
void fth_ctrl_registers_init(struct fth_nvme_ctrl *ctrl);
bool fth_ctrl_in_transition(const struct fth_nvme_ctrl *ctrl);

/*
 * test/ctrl_invariants.c: 0, or -EFAULT with a text that says what does not hold. Stops the world.
 */
int fth_ctrl_check(struct fth_nvme_ctrl *ctrl);

/* The status as it goes into a completion: with "do not retry" where retrying is no use. */
static inline uint16_t fth_ctrl_status_field(uint16_t status)
{
	switch (status) {
	case FTH_NVME_SUCCESS:
	case FTH_NVME_DATA_TRANSFER_ERROR:
	case FTH_NVME_INTERNAL_ERROR:
	case FTH_NVME_ABORT_REQUESTED:
	case FTH_NVME_ABORT_SQ_DELETED:
	case FTH_NVME_ABORT_LIMIT:
	case FTH_NVME_CAPACITY_EXCEEDED:
	case FTH_NVME_WRITE_FAULT:
	case FTH_NVME_READ_ERROR:
		return status;
	default:
		return status | FTH_NVME_STATUS_DO_NOT_RETRY;
	}
}

#endif
