/* Which edits are tried together: each wrong one is found, no right one is held back, and there are
 * no more trials than is said. */
#include "tests/support/test.h"

#include "tools/watch/watch_halves.h"

enum { MOST = 1000, NONE = MOST };

static const struct halves_row {
    const char *name;
    size_t count;
    size_t wrong[4];        /* NONE: no more */
    size_t lacks, of;       /* `lacks` is right once `of` is taken; NONE: nothing is so */
    size_t trials, refused; /* at most; in the end */
} rows[] = {
    {"one", 1, {NONE}, NONE, NONE, 1, 0},
    {"one that is wrong", 1, {0, NONE}, NONE, NONE, 1, 1},
    {"all are right", 300, {NONE}, NONE, NONE, 1, 0},
    {"three of 300", 300, {77, 150, 233, NONE}, NONE, NONE, 2 * 3 * 9 + 1 + 3, 3},
    {"the first and the last", 1000, {0, 999, NONE}, NONE, NONE, 2 * 2 * 10 + 1 + 2, 2},
    {"neighbours", 5, {3, 4, NONE}, NONE, NONE, 2 * 2 * 3 + 1 + 2, 2},
    {"both of two", 2, {0, 1, NONE}, NONE, NONE, 3, 2},
    {"one that lacks a later one", 7, {6, NONE}, 0, 5, 2 * 2 * 3 + 1 + 4, 1},
};

static bool is_wrong(const struct halves_row *row, size_t i, const bool *taken)
{
    for (size_t k = 0; k < 4 && row->wrong[k] != NONE; k++)
        if (row->wrong[k] == i)
            return true;
    return i == row->lacks && !taken[row->of];
}

static void halves_case(void **state)
{
    const struct halves_row *row = *state;
    struct watch_halves h;
    bool taken[MOST] = {false}, refused[MOST] = {false}, right;
    size_t trials = 0, left = 0;
    watch_halves_begin(&h, row->count);
    do {
        assert_true(h.first < h.end && h.end <= row->count);
        right = true;
        for (size_t i = h.first; i < h.end && right; i++)
            right = !is_wrong(row, i, taken);
        for (size_t i = h.first; i < h.end && (right || h.end - h.first == 1); i++) {
            taken[i] = right;
            refused[i] = !right;
        }
        trials++;
    } while (trials < 2 * MOST && watch_halves_next(&h, right, refused));
    for (size_t i = 0; i < row->count; i++) {
        left += refused[i];
        if (taken[i] == is_wrong(row, i, taken) || taken[i] == refused[i])
            fail_msg("%zu of %zu: taken %d, wrong %d", i, row->count, taken[i],
                     is_wrong(row, i, taken));
    }
    if (trials > row->trials || left != row->refused)
        fail_msg("%zu trials, at most %zu wanted; %zu refused, %zu wanted", trials, row->trials,
                 left, row->refused);
}

int main(void)
{
    return test_run_table("halves", halves_case, rows);
}
