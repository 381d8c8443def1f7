/*
 * phase_schedule.h: the operations of a recipe as rows of a table, for a program that runs many of
 * them in one dispatch (kernels/phases.h). The schedule lists the kernels, the views of the
 * buffers, the entries of every row, and the rows after which work groups wait for each other. If
 * one dispatch cannot bind all buffers, the schedule splits a token into parts. A recipe that
 * cannot run so is refused with a reason. Pure host arithmetic.
 */
#ifndef DGL_CORE_PHASE_SCHEDULE_H
#define DGL_CORE_PHASE_SCHEDULE_H

#include "core/plan/plan.h"
#include "kernels/phases.h"

/* Place of an operation's buffer: a range of one of a few large buffers, which the caller
 * numbers. */
struct phase_place {
    uint32_t buffer;
    uint64_t offset;
};

/* An operation with its kernel as a phase. */
struct phase_op {
    const struct op *op;                        /* borrowed */
    const struct kernel_choice *choice;         /* borrowed; equal pointers = one text */
    struct phase_place place[KERNEL_MAX_BINDS]; /* of the kernel's binds */
    uint32_t groups[3];
};

struct phase_schedule_params {
    const struct dgl_log *log;
    const struct phase_op *ops; /* in order */
    size_t count;
    /* The step table, the ids, and scratch that does not outlive a token, all in one buffer. */
    struct phase_place step, ids, scratch;
    bool one_row;             /* a dispatch for each row */
    uint32_t columns;         /* as in struct phase_program */
    uint32_t local;           /* invocations of a work group */
    uint32_t max_views;       /* storage bindings, the control words' included */
    uint64_t max_table_bytes; /* of a uniform block */
    uint32_t max_shared_bytes;
    const struct kernel_lib *barrier;
};

/* Consecutive rows of one dispatch: as many as the views can serve. */
struct phase_part {
    uint32_t first, last;             /* rows [first, last) */
    uint32_t buffer[PHASE_MAX_VIEWS]; /* buffer of each view, except for the control words */
};

struct phase_schedule {
    struct phase_program program;
    struct phase_part *parts; /* [num_parts] of a token, in order */
    uint32_t num_parts;
    uint32_t wanted_views; /* of one part for all rows */
    uint32_t *table;       /* the uniform block: shared words, then the rows */
    uint64_t table_bytes;
};

/* Returns DGL_ERR_UNSUPPORTED, without a log line, and sets `reason` if the operations cannot run
 * so. On failure *out is empty. */
enum dgl_status phase_schedule_init(struct phase_schedule *out,
                                    const struct phase_schedule_params *params, char reason[256]);
/* Accepts one that is all zero. */
void phase_schedule_finish(struct phase_schedule *schedule);

#endif
