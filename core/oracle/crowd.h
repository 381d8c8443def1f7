/*
 * crowd.h: a pass over the next tokens of several sequences as one problem. Each row is a problem
 * of its own, with its own position, ids, pages and state. All rows are stacked into the buffers of
 * one pass. After the run the result is split again and each row is compared with its own answer. A
 * kernel that uses a row, position or page of another sequence fails.
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

/* Fills a crowd that is all zero from the case of one row. Returns false if such a case cannot be a
 * row of several sequences. Sets out->all.failed if memory runs out. */
bool crowd_make(const struct op_rule *rule, const struct kernel_case *c, struct crowd *out);
void crowd_finish(struct crowd *crowd);
/* Like problem_check(), for all rows, and for the words outside of all rows. */
bool crowd_check(struct crowd *crowd, double tolerance, double *worst, char why[512]);

#endif
