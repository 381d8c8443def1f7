/* Kernel and lib files that the build embeds (tools/embed.sh). */
#ifndef DGL_KERNELS_EMBEDDED_H
#define DGL_KERNELS_EMBEDDED_H

#include <stddef.h>

struct kernel_embedded {
    const char *path; /* "op/norm/norm_rms.comp", "lib/kv/kv.glsl" */
    const char *text; /* NUL-terminated */
    size_t len;
};
extern const struct kernel_embedded kernel_embedded[]; /* ends with a row whose path is NULL */

#endif
