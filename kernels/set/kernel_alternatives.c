/* Lists the other kernels of an operation, each with the reason why it was not chosen. */
#include <stdio.h>
#include <string.h>

#include "kernels/kernels.h"
#include "kernels/set/kernel_fit.h"
#include "kernels/set/kernel_hints.h"

void kernel_alternatives(const struct kernel_set *set, const struct kernel_request *request,
                         const struct kernel_var *device, size_t num_device,
                         const struct kernel_choice *chosen,
                         bool (*cb)(void *priv, const struct kernel_alternative *alternative),
                         void *priv)
{
    const struct kernel_fit fit = {
        .set = set, .request = request, .device = device, .num_device = num_device};
    const bool allow_f16 = kernel_set_allows_f16(set);
    for (size_t i = 0; i < kernel_set_count(set); i++) {
        const struct kernel *kernel = kernel_set_at(set, i);
        struct kernel_choice choice;
        if (kernel == chosen->kernel || strcmp(kernel->op, request->op) != 0)
            continue;
        struct kernel_alternative a = {.kernel = kernel, .serves = kernel_serves(kernel, request)};
        a.runs = kernel_fit_hinted(&fit, kernel, &choice, &a.rank, a.why);
        if (a.runs && kernel->f16 && !allow_f16) {
            a.runs = false;
            snprintf(a.why, sizeof(a.why), "PRECISION f16, without computePrecision=f16");
        } else if (a.runs && chosen->asked) {
            snprintf(a.why, sizeof(a.why), "another was asked for");
        } else if (a.runs && choice.spills > 0 && chosen->spills == 0) {
            kernel_spill_text(&choice, a.why);
        } else if (a.runs && a.rank == chosen->rank) {
            snprintf(a.why, sizeof(a.why), "PREFER %lld too, and later in the list",
                     (long long)a.rank);
        } else if (a.runs) {
            snprintf(a.why, sizeof(a.why), "PREFER %lld, below %lld", (long long)a.rank,
                     (long long)chosen->rank);
        }
        if (!cb(priv, &a))
            return;
    }
}
