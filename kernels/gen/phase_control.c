/* kernels/phase_control.h as #defines of GLSL. */
#include "kernels/phase_control.h"

#include <stddef.h>

#include "kernels/kernels.h"
#include "kernels/step.h"

void phase_control_put(struct dgl_buf *out)
{
    const size_t step = offsetof(struct dgl_step_table, seq);
#define X(name)                                                                                    \
    dgl_buf_printf(out, "#define CONTROL_" #name " %zuu\n",                                        \
                   offsetof(struct dgl_phase_control, name) / 4);
    DGL_PHASE_CONTROL_FIELDS(X)
#undef X
    dgl_buf_printf(out, "#define PHASE_RUN %du\n#define PHASE_COUNT %du\n#define PHASE_TEST %du\n",
                   DGL_PHASE_RUN, DGL_PHASE_COUNT, DGL_PHASE_TEST);
    dgl_buf_printf(out, "#define PHASE_TEST_FLOATS %du\n#define PHASE_TEST_ROUNDS %du\n",
                   DGL_PHASE_TEST_FLOATS, DGL_PHASE_TEST_ROUNDS);
    dgl_buf_printf(out, "#define PHASE_ABORTED_ID %uu\n", DGL_PHASE_ABORTED_ID);
    dgl_buf_printf(out, "#define STEP_WORD_pos %zuu\n#define STEP_WORD_context %zuu\n",
                   (step + offsetof(struct dgl_step, pos)) / 4,
                   (step + offsetof(struct dgl_step, context)) / 4);
}
