/* When an edited file is read and when a refusal may be said, by made-up observations: the clock is
 * the table's. */
#include "tests/support/test.h"

#include <stdlib.h>

#include "tools/watch/watch_calm.h"

/* Words of what happens to a file, each at a time in ms:
 *   w10  it is written to     s10  it is saved       e10  it was empty when it was looked at
 *   r10  it is read           n10  another text was found, of which nobody has told
 *   a10  it is answered       i l b c o, at 10 (c10): the state is idle, left alone, busy, calm,
 *   overdue                   S W A: a refusal is said, waits, has another text to wait for. */
static const struct calm_row {
    const char *name;
    const char *script;
} rows[] = {
    {"nothing", "i0 i100000"},
    {"a save", "s0 b59 c60 r60 i60 W119 S120 a120 i120"},
    {"two saves", "s0 s50 b100 c110"},
    {"saves without end", "s0 s50 s100 s900 s950 s990 b999 o1000 r1000 W1001 s1010 A1011"},
    {"a file that is open is left alone", "w0 i0 i100000 w100000 i200000 s200001 c200061"},
    {"an edited file that is opened again", "s0 w30 l90 l5000 s5001 o5002"},
    {"an edited file that is written for too long", "s0 w30 l29999 o30000 r30000 S30000"},
    {"it was read while it was written",
     "s0 c60 r61 w62 A70 n70 l70 s80 A90 b90 c140 r140 W199 S200"},
    {"it is written again before the refusal is said", "s0 c60 r61 W110 w115 A121"},
    {"it was saved since", "s0 c60 r61 s62 A130 c130 r130 W189 S190"},
    {"another text without a word", "s0 c60 r61 S130 n130 A130 c130 r130 W150 S190"},
    {"never right, and never left alone", "s0 r60 s61 A130 r1000 s1001 A29999 S30000"},
    {"what followed its answer is another edit", "s0 r60 s61 a70 s90 b149 c150 r150 S30100"},
    {"an empty file has a second", "s0 c60 e60 l61 l999 c1000 r1000 W1059 S1060"},
    {"an empty file gets its text", "s0 c60 e60 w100 l100 s110 b169 c170"},
    {"an empty file that is saved is looked at", "s0 e60 l61 s70 b129 c130"},
};

static void calm_case(void **state)
{
    static const char states[] = "ilbco", refusals[] = "SWA";
    const struct calm_row *row = *state;
    struct watch_calm c = {0};
    for (const char *at = row->script; *at;) {
        const char what = *at++;
        char *end;
        /* Not from 0 on, which is no time that a clock has. */
        const uint64_t ns = (strtoull(at, &end, 10) + 7) * 1000000u;
        const char *is = strchr(states, what), *says = strchr(refusals, what);
        if (what == 'w' || what == 's')
            watch_calm_note(&c, what == 'w' ? WATCH_WRITTEN : WATCH_SAVED, ns);
        else if (what == 'e')
            c.empty = true;
        else if (what == 'r')
            watch_calm_read(&c, ns);
        else if (what == 'n')
            watch_calm_again(&c, ns);
        else if (what == 'a')
            watch_calm_answered(&c);
        else if (is && states[watch_calm_state(&c, ns)] != what)
            fail_msg("%s: at %.8s: %c", row->script, at - 1, states[watch_calm_state(&c, ns)]);
        else if (says && refusals[watch_calm_refusal(&c, ns)] != what)
            fail_msg("%s: at %.8s: %c", row->script, at - 1, refusals[watch_calm_refusal(&c, ns)]);
        else if (!is && !says)
            fail_msg("%s: no word: %c", row->script, what);
        at = end + strspn(end, " ");
    }
}

int main(void)
{
    return test_run_table("calm", calm_case, rows);
}
