/* Statistics of repeated measurements: quantiles, and a test for a difference of two samples. */
#ifndef DGL_BASE_STATS_H
#define DGL_BASE_STATS_H

#include <stddef.h>

/* Sorts ascending, in place. */
void dgl_sort_f64(double *values, size_t count);
/* Returns the quantile `share` (0 to 1) of sorted values, interpolated linearly as in numpy.
 * Returns NaN if there are no values. */
double dgl_quantile(const double *sorted, size_t count, double share);
double dgl_median(double *values, size_t count);     /* sorts the values; NaN if empty */
double dgl_mean(const double *values, size_t count); /* NaN if empty */

/* Welch's t-test: compares two means without assuming equal variances. */
struct dgl_welch {
    double t;  /* positive if the mean of `a` is larger */
    double df; /* degrees of freedom (Welch-Satterthwaite) */
    double p;  /* two-sided p-value; NaN if a sample has fewer than two values */
};
/* Each sample needs two values. If both samples have zero variance, p is 1 for equal means,
 * else 0. */
struct dgl_welch dgl_welch_test(const double *a, size_t num_a, const double *b, size_t num_b);

#endif
