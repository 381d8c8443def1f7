/* The kernel and chunk files of the source tree as the build embedded them (tools/embed.sh). */
#ifndef DGL_KERNELS_EMBEDDED_H
#define DGL_KERNELS_EMBEDDED_H

#include <stddef.h>

struct kernel_embedded {
    const char *path; /* "gemv_q4_k.comp", "chunk/weight_q4_k.glsl" */
    const char *text; /* NUL-terminated */
    size_t len;
};
extern const struct kernel_embedded kernel_embedded[]; /* ends with a row whose path is NULL */

#endif
