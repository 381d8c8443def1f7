/* Actions of `kernels` in files of their own, and their shared functions. */
#ifndef DGL_TOOLS_KERNELS_H
#define DGL_TOOLS_KERNELS_H

#include "core/base/json.h"
#include "tools/cli/engine.h"

/* name, op, variant, origin, sha256, summary into the object that is open. */
void kernels_report(struct dgl_json_writer *w, const struct dgl_kernel_info *k);

/* Exit codes. The console of `e` is initialised; engine_close() is the caller's. */
int kernels_show(struct engine *e, const struct options *opt);
int kernels_diff(struct engine *e, const struct options *opt);
int kernels_new(struct engine *e, const struct options *opt);
int kernels_check(struct engine *e, const struct options *opt);
int kernels_bench(struct engine *e, const struct options *opt);
int kernels_compile(struct engine *e, const struct options *opt);
/* Returns true if the options of `check --compile-only` are valid, otherwise prints an error. */
bool kernels_compile_check(const struct options *opt);

/* Returns false after an error line if --shape of `bench` is not a list of KEY=VALUE. */
bool kernels_check_shape(const struct options *opt);

#endif
