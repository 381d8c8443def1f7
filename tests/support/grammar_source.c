/* Backtracking over expressions, with a list of what is still to match. */
#include "tests/support/grammar_source.h"

#include <stdlib.h>

#include "core/base/mem.h"
#include "tests/support/test.h"

/* An expression that is still to match. A repeat has matched its item `count` times; the last match
 * began at `from`. */
struct todo {
    uint32_t node, count;
    size_t from;
    const struct todo *next;
};
struct run {
    struct grammar_source *s;
    const uint8_t *text;
    size_t len;
    bool as_prefix;
};

static bool node_productive(const struct grammar_source *s, uint32_t id)
{
    const struct gr_node *node = &s->b->nodes[id];
    const uint32_t *children = s->b->children + node->first;
    bool all = true, any = false;
    switch (node->kind) {
    case GR_NEVER:
        return false;
    case GR_SEQ:
        for (uint32_t i = 0; i < node->count; i++)
            all &= node_productive(s, children[i]);
        return all;
    case GR_ALT:
        for (uint32_t i = 0; i < node->count; i++)
            any |= node_productive(s, children[i]);
        return any;
    case GR_REPEAT:
        return node->min == 0 || node_productive(s, node->first);
    case GR_CALL:
        return s->productive[node->first];
    default:
        return true;
    }
}

void grammar_source_init(struct grammar_source *s, const struct grammar_builder *b,
                         struct gr_rule root)
{
    *s = (struct grammar_source){.b = b, .root = root.id, .most_steps = 2000000};
    s->productive = checked(dgl_new_array(bool, b->num_rules));
    for (bool changed = true; changed;) {
        changed = false;
        for (size_t i = 0; i < b->num_rules; i++)
            if (!s->productive[i] && b->rules[i].is_set && node_productive(s, b->rules[i].expr))
                s->productive[i] = changed = true;
    }
}

void grammar_source_finish(struct grammar_source *s)
{
    free(s->productive);
}

static bool match_next(struct run *run, const struct todo *next, size_t at);

/* Whether a class has a code point that is encoded by these bytes, of which the last may be
 * missing. *size is the length of its encoding. */
static bool class_matches(const struct grammar_source *s, const struct gr_node *node,
                          const uint8_t *p, size_t len, size_t *size)
{
    uint32_t low, high;
    size_t n = p[0] < 0x80 ? 1 : p[0] < 0xC2 ? 0 : p[0] < 0xE0 ? 2 : p[0] < 0xF0 ? 3 : 4;
    if (!n || p[0] > 0xF4)
        return false;
    low = n == 1 ? p[0] : p[0] & (0x7Fu >> n);
    for (size_t i = 1; i < n && i < len; i++) {
        if ((p[i] & 0xC0) != 0x80)
            return false;
        low = low << 6 | (p[i] & 0x3F);
    }
    size_t missing = n > len ? n - len : 0;
    high = (low << 6 * missing) | ((1u << 6 * missing) - 1);
    low <<= 6 * missing;
    static const uint32_t least[] = {0, 0, 0x80, 0x800, 0x10000};
    low = low < least[n] ? least[n] : low;
    high = high > 0x10FFFF ? 0x10FFFF : high;
    *size = n;
    for (uint32_t i = 0; i < node->count; i++) {
        struct gr_cp_range range = s->b->ranges[node->first + i];
        uint32_t first = range.first > low ? range.first : low;
        uint32_t last = range.last < high ? range.last : high;
        /* The builder's ranges have no surrogates. */
        if (first <= last)
            return true;
    }
    return false;
}

/* Matches an expression at a place, and then what follows. */
static bool match(struct run *run, uint32_t id, size_t at, const struct todo *next)
{
    struct grammar_source *s = run->s;
    const struct gr_node *node = &s->b->nodes[id];
    const uint32_t *children = s->b->children + node->first;
    size_t size;
    if (++s->steps > s->most_steps) {
        s->gave_up = true;
        return false;
    }
    if (!node_productive(s, id))
        return false;
    switch (node->kind) {
    case GR_NEVER:
    case GR_TOKEN:
        return false;
    case GR_EMPTY:
        return match_next(run, next, at);
    case GR_LITERAL:
        for (uint32_t i = 0; i < node->count; i++, at++) {
            if (at == run->len)
                return run->as_prefix;
            if (run->text[at] != (uint8_t)s->b->bytes.p[node->first + i])
                return false;
        }
        return match_next(run, next, at);
    case GR_CLASS:
        if (at == run->len)
            return run->as_prefix;
        if (!class_matches(s, node, run->text + at, run->len - at, &size))
            return false;
        if (size > run->len - at)
            return run->as_prefix;
        return match_next(run, next, at + size);
    case GR_SEQ: {
        struct todo *list = checked(dgl_new_array(struct todo, node->count));
        for (uint32_t i = 1; i < node->count; i++)
            list[i] = (struct todo){children[i], UINT32_MAX, 0,
                                    i + 1 < node->count ? &list[i + 1] : next};
        bool ok = match(run, children[0], at, node->count > 1 ? &list[1] : next);
        free(list);
        return ok;
    }
    case GR_ALT:
        for (uint32_t i = 0; i < node->count; i++)
            if (match(run, children[i], at, next))
                return true;
        return false;
    case GR_REPEAT:
        return match_next(run, &(struct todo){id, 0, SIZE_MAX, next}, at);
    case GR_CALL:
        return match(run, s->b->rules[node->first].expr, at, next);
    case GR_DFA: {
        const struct automaton *a = &s->b->dfas[node->first];
        for (uint32_t state = 0; state != UINT32_MAX; at++) {
            if (a->states[state].accept && match_next(run, next, at))
                return true;
            if (at == run->len)
                return run->as_prefix;
            state = automaton_next(a, state, run->text[at]);
        }
        return false;
    }
    }
    return false;
}

static bool match_next(struct run *run, const struct todo *next, size_t at)
{
    struct grammar_source *s = run->s;
    if (!next)
        return at == run->len;
    if (next->count == UINT32_MAX)
        return match(run, next->node, at, next->next);
    const struct gr_node *node = &s->b->nodes[next->node];
    /* An item that matched the empty text may do so as often as needed. */
    bool empty = next->from == at;
    if ((next->count >= node->min || empty) && match_next(run, next->next, at))
        return true;
    if (empty || (node->max != GR_UNBOUNDED && next->count >= node->max))
        return false;
    return match(run, node->first, at, &(struct todo){next->node, next->count + 1, at, next->next});
}

bool grammar_source_matches(struct grammar_source *s, const void *text, size_t len, bool as_prefix)
{
    struct run run = {s, text, len, as_prefix};
    s->steps = 0;
    s->gave_up = false;
    if (as_prefix && !len)
        return true;
    return match(&run, s->b->rules[s->root].expr, 0, NULL);
}
