/* The tuner's search. It begins with the default and tries all candidates that differ in one
 * tunable, and once all other kernels that can serve. It repeats this from the best candidate until
 * no candidate is faster. The winner must beat the default in paired rounds by more than their
 * spread. */
#include <stdio.h>
#include <string.h>

#include "core/base/clock.h"
#include "core/base/stats.h"
#include "core/measure/tuner.h"

#define BATCH         32   /* candidates that are compiled at once, at most */
#define SEARCH_ROUNDS 3    /* neighbourhoods that are looked at, at most */
#define PAIRED_TRIES  2    /* a disturbance of the machine may spoil one of them */
#define GAIN          0.99 /* less is noise */

/* Adds a candidate that combines all single steps away from candidate `of`, among those from
 * `first` on, that were faster. */
static enum dgl_status add_jump(struct tuner *t, const struct target *target, size_t of,
                                size_t first)
{
    const struct candidate *c = t->candidates[of];
    const struct kernel_choice *base = &c->use->choice;
    char tunes[sizeof(c->report->tunes)], next[sizeof(c->report->tunes)];
    snprintf(tunes, sizeof(tunes), "%s", c->report->tunes);
    for (uint32_t i = 0; i < base->num_tunes; i++) {
        const struct candidate *step = NULL;
        for (size_t k = first; k < t->num; k++) {
            const struct candidate *n = t->candidates[k];
            char wanted[sizeof(tunes)];
            const int64_t value = n->use->choice.vars[base->num_consts + i].value;
            if (n->use->choice.kernel == base->kernel && candidate_is_fit(n) &&
                n->report->us < GAIN * c->report->us &&
                tune_with(c->report->tunes, base->kernel->tunes[i].name, value, wanted,
                          sizeof(wanted)) &&
                strcmp(n->report->tunes, wanted) == 0 &&
                (!step || n->report->us < step->report->us))
                step = n;
        }
        if (step &&
            tune_with(tunes, base->kernel->tunes[i].name,
                      step->use->choice.vars[base->num_consts + i].value, next, sizeof(next)))
            memcpy(tunes, next, sizeof(tunes));
    }
    return tuner_add(t, target, base->kernel->name, tunes);
}

/* Compiles and times candidates from `first` on in batches, and drops those that would end too
 * late. A batch fills half of the remaining time, because the next may take longer. */
static enum dgl_status try_from(struct tuner *t, const struct target *target, size_t first,
                                size_t *best)
{
    enum dgl_status status = DGL_OK;
    while (first < t->num) {
        const uint64_t start = dgl_now_ns(), pair_ns = tuner_pair_ns(t, target);
        const uint64_t left = start + pair_ns < t->end_ns ? t->end_ns - start - pair_ns : 0;
        const uint64_t fit = left / (t->candidate_ns + 1);
        size_t batch = fit / 2 < 1 ? 1 : fit / 2 < BATCH ? (size_t)fit / 2 : BATCH;
        batch = batch < t->num - first ? batch : t->num - first;
        if (fit == 0) {
            t->late = true;
            tuner_drop(t, first);
            break;
        }
        TRY(tuner_compile(t, target, first, first + batch));
        TRY(tuner_time(t, target, first, first + batch, best));
        tuner_note(&t->candidate_ns, (dgl_now_ns() - start) / batch);
        first += batch;
    }
done:
    return status;
}

enum dgl_status tuner_search(struct tuner *t, const struct target *target, size_t *best)
{
    enum dgl_status status = DGL_OK;
    for (int round = 0; round < SEARCH_ROUNDS; round++) {
        const size_t from = *best, first = round == 0 ? 1 : t->num; /* [1] may be timed already */
        const double from_us = t->candidates[from]->report->us;
        TRY(tuner_add_neighbours(t, target, from));
        if (round == 0)
            TRY(tuner_add_variants(t, target));
        TRY(try_from(t, target, first, best));
        const size_t jump = t->num;
        if (!t->late)
            TRY(add_jump(t, target, from, first));
        TRY(try_from(t, target, jump, best));
        if (t->late || t->candidates[*best]->report->us >= GAIN * from_us)
            break;
    }
done:
    return status;
}

enum dgl_status tuner_pair(struct tuner *t, const struct target *target, size_t winner,
                           struct dgl_tune_op *out, bool *beats)
{
    enum dgl_status status = DGL_OK;
    *beats = false;
    for (int tries = 0; tries < PAIRED_TRIES && !*beats; tries++) {
        if (tries > 0 && dgl_now_ns() + tuner_pair_ns(t, target) > t->end_ns)
            break;
        *beats = true;
        for (uint32_t u = 0; u < target->num_passes && *beats; u++) {
            const struct target_pass *pass = &target->pass[u];
            double us[2][TUNER_PAIRED_ROUNDS], ratio[TUNER_PAIRED_ROUNDS];
            TRY(tuner_prepare(t, pass));
            TRY(tuner_warm(t, pass, t->candidates[0], u));
            for (int i = -1; i < TUNER_PAIRED_ROUNDS; i++)
                for (int k = 0; k < 2; k++)
                    TRY(tuner_span(t, pass, t->candidates[k ? winner : 0], u, pass->lists,
                                   &us[k][i < 0 ? 0 : i]));
            for (int i = 0; i < TUNER_PAIRED_ROUNDS; i++)
                ratio[i] = us[1][i] / us[0][i];
            const double median = dgl_median(ratio, TUNER_PAIRED_ROUNDS); /* sorts them */
            const double spread = ratio[TUNER_PAIRED_ROUNDS - 1] - ratio[0];
            *beats = u == 0 ? median < 1 - spread : median <= 1 + spread;
            if (u > 0)
                continue;
            out->default_us = dgl_median(us[0], TUNER_PAIRED_ROUNDS);
            out->best_us = dgl_median(us[1], TUNER_PAIRED_ROUNDS);
            out->spread = spread;
        }
    }
done:
    return status;
}
