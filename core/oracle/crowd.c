/* Maps the words of each row to the buffers of the whole pass. */
#include "core/oracle/crowd.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

#define NOWHERE SIZE_MAX
/* Index of a row's sequence in the step table. It never equals the row's number. */
#define SEQ_OF(row) ((PROBLEM_SEQ + 5 * (row)) % 11)
#define NUM_SEQS    11
#define FIRST_ENTRY 6          /* of the page table */
#define LARGE_WORDS (1u << 20) /* of all buffers of a row */

enum sharing {
    BY_ROW,
    BY_ROW_VEC4, /* a row begins at a multiple of four words */
    BY_SEQUENCE,
    BY_PAGE,
    BY_STATE, /* the step table */
    SHARED,
    NOT_ASKED, /* one for all, which a pass over several rows leaves as anything */
    NOT_BOUND,
};

/* Buffers that are not named here are by row. */
static const struct {
    const char *name;
    enum sharing sharing;
} named[] = {{"P", BY_ROW_VEC4}, {"IDS", BY_SEQUENCE}, {"ADJUST", BY_SEQUENCE},
             {"KV", BY_PAGE},    {"STEP", BY_STATE},   {"W", SHARED},
             {"G", SHARED},      {"S", SHARED},        {"ROPE", SHARED},
             {"STOPS", SHARED},  {"ARGS", NOT_ASKED},  {"merged P", NOT_BOUND}};

/* Maps a page of the cache: page 0 is unused, and the others are dealt out to the rows in turn. */
static size_t page_of(uint32_t rows, uint32_t row, size_t page)
{
    return page == 0 ? 0 : (page - 1) * rows + row + 1;
}

/* How a buffer of all rows is laid out. */
struct layout {
    enum sharing sharing;
    uint32_t rows;
    size_t words;  /* of it */
    size_t stride; /* from one row, sequence or page to the next */
};

static struct layout layout_of(const struct crowd *crowd, uint32_t buffer)
{
    const struct problem_buffer *first = &crowd->row[0].buffers[buffer];
    struct layout l = {.sharing = BY_ROW, .rows = crowd->rows};
    for (size_t i = 0; i < sizeof(named) / sizeof(named[0]); i++)
        if (strcmp(named[i].name, first->name) == 0)
            l.sharing = named[i].sharing;
    for (uint32_t r = 0; r < crowd->rows; r++)
        if (crowd->row[r].buffers[buffer].words > l.stride)
            l.stride = crowd->row[r].buffers[buffer].words;
    l.words = l.stride;
    if (l.sharing == BY_ROW_VEC4)
        l.stride = (l.stride + 3) / 4 * 4;
    if (l.sharing == BY_ROW || l.sharing == BY_ROW_VEC4)
        l.words = crowd->rows * l.stride;
    if (l.sharing == BY_SEQUENCE)
        l.words = NUM_SEQS * l.stride;
    if (l.sharing == BY_PAGE) {
        l.stride = first->words / (crowd->row[0].num_pages + 1);
        l.words = l.stride * (crowd->row[0].num_pages * crowd->rows + 1ull);
    }
    return l;
}

/* Returns the place of a row's word, or NOWHERE if it has no meaning in a pass over several. */
static size_t place_of(const struct layout *l, uint32_t row, size_t word)
{
    const size_t step = sizeof(struct dgl_step) / 4;
    const size_t own = offsetof(struct dgl_step_table, seq) / 4 + PROBLEM_SEQ * step;
    switch (l->sharing) {
    case BY_ROW:
    case BY_ROW_VEC4:
        return row * l->stride + word;
    case BY_SEQUENCE:
        return SEQ_OF(row) * l->stride + word;
    case BY_PAGE:
        return page_of(l->rows, row, word / l->stride) * l->stride + word % l->stride;
    case BY_STATE:
        return word >= own && word < own + step ? word - PROBLEM_SEQ * step + SEQ_OF(row) * step
                                                : NOWHERE;
    case SHARED:
    case NOT_ASKED:
        return word;
    case NOT_BOUND:
        break;
    }
    return NOWHERE;
}

/* The step table and the page table of the pass. */
static void make_tables(struct crowd *crowd, struct dgl_step_table *steps,
                        struct dgl_kv_table *pages)
{
    const struct problem *first = &crowd->row[0];
    const uint32_t entries = (first->num_pages + 3) & ~1u;
    memset(steps, 0xEE, sizeof(*steps)); /* other sequences and rows are not used */
    steps->rows = crowd->rows;
    steps->seqs = NUM_SEQS;
    steps->ids_stride = steps->adjust_stride = 0;
    for (uint32_t i = 0; i < first->num_buffers; i++) {
        if (strcmp(first->buffers[i].name, "IDS") == 0)
            steps->ids_stride = (uint32_t)layout_of(crowd, i).stride;
        if (strcmp(first->buffers[i].name, "ADJUST") == 0)
            steps->adjust_stride = (uint32_t)layout_of(crowd, i).stride;
    }
    for (uint32_t r = 0; r < crowd->rows; r++) {
        struct dgl_step *step = &steps->seq[SEQ_OF(r)];
        *step = crowd->row[r].step;
        step->tokens = 1;
        if (first->num_pages)
            step->kv_first = FIRST_ENTRY + r * entries;
        steps->row[r] = DGL_STEP_ROW(SEQ_OF(r), 0);
        for (uint32_t i = 0; i < crowd->row[r].num_pages; i++)
            pages->page[first->entry + step->kv_first + i] =
                (uint16_t)page_of(crowd->rows, r, crowd->row[r].pages[i]);
    }
}

/* One buffer of all rows. */
static void stack(struct crowd *crowd, uint32_t buffer, const struct dgl_step_table *steps)
{
    struct problem *all = &crowd->all;
    const struct problem_buffer *first = &crowd->row[0].buffers[buffer];
    const struct layout l = layout_of(crowd, buffer);
    uint32_t *before = problem_new(all, uint32_t, l.words);
    if (l.sharing == NOT_BOUND || all->failed)
        return;
    for (size_t i = 0; i < l.words; i++)
        before[i] = PROBLEM_POISON;
    if (l.sharing == BY_STATE)
        memcpy(before, steps, sizeof(*steps));
    for (uint32_t r = 0; r < crowd->rows; r++) {
        const struct problem_buffer *b = &crowd->row[r].buffers[buffer];
        assert(strcmp(b->name, first->name) == 0);
        for (size_t w = 0; w < b->words; w++) {
            const size_t at = place_of(&l, r, w);
            const uint32_t word = b->before ? b->before[w] : PROBLEM_POISON;
            /* Shared words must be equal in all rows. */
            assert(l.sharing != SHARED || r == 0 || before[at] == word);
            if (at != NOWHERE && l.sharing != BY_STATE)
                before[at] = word;
        }
    }
    if (first->after)
        problem_out(all, first->name, before, l.words);
    else
        problem_in(all, first->name, before, l.words);
}

bool crowd_make(const struct op_rule *rule, const struct kernel_case *c, struct crowd *out)
{
    struct problem *all = &out->all;
    bool several = rule->member != NULL;
    out->rows = CROWD_ROWS;
    for (uint32_t r = 0; r < out->rows && several; r++) {
        struct kernel_case one = *c;
        one.tokens = 1;
        one.row = r;
        several = rule->member(&one, r);
        out->row[r].seed = c->seed ? c->seed : 1;
        if (several)
            rule->make(&out->row[r], &one);
        all->failed |= out->row[r].failed;
        size_t words = 0;
        for (uint32_t i = 0; i < out->row[r].num_buffers; i++)
            words += out->row[r].buffers[i].words;
        if (r == 0 && words > LARGE_WORDS)
            out->rows = 2; /* a case is in memory several times, besides the model */
    }
    if (!several || all->failed)
        return several;
    struct dgl_step_table *steps = problem_new(all, struct dgl_step_table, 1);
    struct dgl_kv_table *pages = problem_new(all, struct dgl_kv_table, 1);
    if (all->failed)
        return true;
    make_tables(out, steps, pages);
    all->steps = steps;
    all->table = pages;
    all->seed = out->row[0].seed;
    all->step = (struct dgl_step){.tokens = out->rows};
    all->repeats = out->row[0].repeats;
    for (uint32_t i = 0; i < out->row[0].num_buffers; i++)
        stack(out, i, steps);
    memcpy(all->idle, out->row[0].idle, sizeof(all->idle));
    all->num_idle = out->row[0].num_idle;
    memcpy(all->stages, out->row[0].stages, sizeof(all->stages));
    all->num_stages = out->row[0].num_stages;
    return true;
}

void crowd_finish(struct crowd *crowd)
{
    for (uint32_t r = 0; r < CROWD_ROWS; r++)
        problem_finish(&crowd->row[r]);
    problem_finish(&crowd->all);
}

/* Copies each row's part of the result buffer to that row. Returns false and sets `why` if the
 * kernel changed words outside of all rows. */
static bool part(struct crowd *crowd, uint32_t buffer, char why[512])
{
    const struct problem_buffer *first = &crowd->row[0].buffers[buffer];
    const struct problem_buffer *all = problem_buffer(&crowd->all, first->name);
    const struct layout l = layout_of(crowd, buffer);
    if (!all || !all->after)
        return true;
    bool *owned = problem_new(&crowd->all, bool, all->words);
    if (!owned) {
        snprintf(why, 512, "out of memory");
        return false;
    }
    for (uint32_t r = 0; r < crowd->rows; r++) {
        const struct problem_buffer *b = &crowd->row[r].buffers[buffer];
        for (size_t w = 0; w < b->words; w++) {
            const size_t at = place_of(&l, r, w);
            b->after[w] = b->before ? b->before[w] : PROBLEM_POISON;
            if (l.sharing == NOT_ASKED)
                b->after[w] = b->want_words ? b->want_words[w] : b->after[w];
            else if (at != NOWHERE)
                b->after[w] = all->after[at];
            if (at != NOWHERE)
                owned[at] = true;
        }
    }
    for (size_t i = 0; i < all->words && l.sharing != BY_ROW_VEC4; i++)
        if (!owned[i] && all->after[i] != all->before[i]) {
            snprintf(why, 512, "word %zu of %s, of no row's sequence, is %08x and was %08x", i,
                     first->name, (unsigned)all->after[i], (unsigned)all->before[i]);
            return false;
        }
    return true;
}

bool crowd_check(struct crowd *crowd, double tolerance, double *worst, char why[512])
{
    char line[512];
    for (uint32_t i = 0; i < crowd->row[0].num_buffers; i++)
        if (!part(crowd, i, why))
            return false;
    for (uint32_t r = 0; r < crowd->rows; r++)
        if (!problem_check(&crowd->row[r], tolerance, worst, line)) {
            snprintf(why, 512, "row %u, of sequence %u at position %u: %.420s", (unsigned)r,
                     (unsigned)SEQ_OF(r), (unsigned)crowd->row[r].step.pos, line);
            return false;
        }
    return true;
}
