/* Monotonic time. */
#ifndef DGL_BASE_CLOCK_H
#define DGL_BASE_CLOCK_H

#include <stdint.h>

uint64_t dgl_now_ns(void);

#endif
