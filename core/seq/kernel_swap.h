/* Other kernels on a live model: programs of the new engine beside those of the old one, and known
 * answers before a token depends on them. */
#ifndef DGL_CORE_KERNEL_SWAP_H
#define DGL_CORE_KERNEL_SWAP_H

#include "core/seq/model.h"

/* Makes the programs of `engine`, which is to replace m->engine: those of equal texts are shared;
 * compiled is what a user's text is part of, or what the old engine had compiled. Each use of a
 * user's text that the old engine did not run then has to pass its known-answer test, unless
 * `unchecked`. DGL_ERR_KERNEL names what is wrong; nothing has changed then. The device is
 * entered. */
enum dgl_status kernel_swap_prepare(const struct dgl_model *m, struct engine *engine,
                                    bool unchecked);

#endif
