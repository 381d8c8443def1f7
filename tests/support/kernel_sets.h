/* Sets of kernels that must load. */
#ifndef DGL_TESTS_KERNEL_SETS_H
#define DGL_TESTS_KERNEL_SETS_H

#include "kernels/kernels.h"

/* Fails the test with the log's words when the set is refused; NULL: the built-in kernels. */
struct kernel_set *loaded_set(const struct dgl_kernels_params *params);

#endif
