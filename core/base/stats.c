/* Student's t distribution, from the continued fraction of the incomplete beta function (DLMF
 * 8.17.22), evaluated by Lentz's method. */
#include "core/base/stats.h"

#include <math.h>
#include <stdlib.h>

static int compare(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

void dgl_sort_f64(double *values, size_t count)
{
    if (count > 1)
        qsort(values, count, sizeof(*values), compare);
}

double dgl_quantile(const double *sorted, size_t count, double share)
{
    if (count == 0)
        return NAN;
    double at = share * (double)(count - 1);
    size_t below = (size_t)at, above = below + 1 < count ? below + 1 : below;
    return sorted[below] + (at - (double)below) * (sorted[above] - sorted[below]);
}

double dgl_median(double *values, size_t count)
{
    dgl_sort_f64(values, count);
    return dgl_quantile(values, count, 0.5);
}

double dgl_mean(const double *values, size_t count)
{
    double sum = 0;
    for (size_t i = 0; i < count; i++)
        sum += values[i];
    return count ? sum / (double)count : NAN;
}

/* Variance of a sample (divides by n - 1). */
static double variance(const double *values, size_t count)
{
    double mean = dgl_mean(values, count), sum = 0;
    for (size_t i = 0; i < count; i++)
        sum += (values[i] - mean) * (values[i] - mean);
    return sum / (double)(count - 1);
}

/* Continued fraction of I_x(a, b). Converges fast if x < (a + 1) / (a + b + 2). */
static double beta_fraction(double a, double b, double x)
{
    enum { TERMS = 1000 };
    const double tiny = 1e-300;
    double c = 1, d = 1 - (a + b) * x / (a + 1);
    d = 1 / (fabs(d) < tiny ? tiny : d);
    double h = d;
    for (int m = 1; m < TERMS; m++) {
        const double even = m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m));
        const double odd = -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1));
        const double terms[] = {even, odd};
        double factor = 1;
        for (int i = 0; i < 2; i++) {
            d = 1 + terms[i] * d;
            c = 1 + terms[i] / c;
            d = 1 / (fabs(d) < tiny ? tiny : d);
            c = fabs(c) < tiny ? tiny : c;
            factor = d * c;
            h *= factor;
        }
        if (fabs(factor - 1) < 1e-15)
            break;
    }
    return h;
}

/* Regularised incomplete beta function I_x(a, b). The caller passes y = 1 - x, so that the result
 * is exact for x near 1. */
static double beta_share(double a, double b, double x, double y)
{
    if (x <= 0)
        return 0;
    if (y <= 0)
        return 1;
    double front = exp(lgamma(a + b) - lgamma(a) - lgamma(b) + a * log(x) + b * log(y));
    if (x < (a + 1) / (a + b + 2))
        return front * beta_fraction(a, b, x) / a;
    return 1 - front * beta_fraction(b, a, y) / b;
}

struct dgl_welch dgl_welch_test(const double *a, size_t num_a, const double *b, size_t num_b)
{
    struct dgl_welch w = {.t = NAN, .df = NAN, .p = NAN};
    if (num_a < 2 || num_b < 2)
        return w;
    double difference = dgl_mean(a, num_a) - dgl_mean(b, num_b);
    double va = variance(a, num_a) / (double)num_a, vb = variance(b, num_b) / (double)num_b;
    if (va + vb <= 0) {
        w.t = difference == 0 ? 0 : copysign(INFINITY, difference);
        w.df = (double)(num_a + num_b - 2);
        w.p = difference == 0;
        return w;
    }
    w.t = difference / sqrt(va + vb);
    w.df = (va + vb) * (va + vb) / (va * va / (double)(num_a - 1) + vb * vb / (double)(num_b - 1));
    double square = w.t * w.t;
    w.p = beta_share(w.df / 2, 0.5, w.df / (w.df + square), square / (w.df + square));
    return w;
}
