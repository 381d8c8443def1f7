/*
 * crowd.h: a pass over the next tokens of several sequences as one problem: a problem of one row
 * for each, with positions, ids, pages and states of their own, stacked into the buffers of one
 * pass. What the kernel left is parted again, and each row held against its own answer: a kernel
 * that takes a row, position or page of another sequence is wrong there.
 */
#ifndef DGL_CORE_CROWD_H
#define DGL_CORE_CROWD_H

#include "core/oracle/op_problem.h"

#define CROWD_ROWS 5

struct crowd {
    struct problem row[CROWD_ROWS];
    uint32_t rows;      /* 2 if a row's buffers are large, else CROWD_ROWS */
    struct problem all; /* to be run */
};

/* Fills a crowd that is all zero from the case of one row. False: rows of such a case are never of
 * several sequences. Out of memory sets out->all.failed. */
bool crowd_make(const struct op_rule *rule, const struct kernel_case *c, struct crowd *out);
void crowd_finish(struct crowd *crowd);
/* As problem_check(), of all rows and of what belongs to none. */
bool crowd_check(struct crowd *crowd, double tolerance, double *worst, char why[512]);

#endif
