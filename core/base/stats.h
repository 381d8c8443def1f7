/* Statistics of repeated measurements: quantiles, and whether two samples differ. */
#ifndef DGL_BASE_STATS_H
#define DGL_BASE_STATS_H

#include <stddef.h>

/* Ascending, in place. */
void dgl_sort_f64(double *values, size_t count);
/* Of sorted values: the value below which `share` (0 to 1) of them lie, linear between neighbours
 * as in numpy; NaN of none. */
double dgl_quantile(const double *sorted, size_t count, double share);
double dgl_median(double *values, size_t count);     /* sorts them; NaN of none */
double dgl_mean(const double *values, size_t count); /* NaN of none */

/* Welch's t-test of two means, variances unknown and not assumed equal. */
struct dgl_welch {
    double t;  /* positive when a's mean is the larger */
    double df; /* degrees of freedom, by Welch and Satterthwaite */
    double p;  /* two-sided: how likely means of one source differ as much; NaN: too few values */
};
/* Each sample needs two values. Samples without any variance have p 1 when equal, else 0. */
struct dgl_welch dgl_welch_test(const double *a, size_t num_a, const double *b, size_t num_b);

#endif
