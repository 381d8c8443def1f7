/* Masks of configurations: slices for loops, and walks over tries for all else. */
#include "loader/grammar/token_mask.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/mem.h"
#include "loader/grammar/matcher_conf.h"
#include "loader/grammar/token_slice.h"

#define NONE UINT32_MAX

enum {
    LOOP_STATES = 512, /* largest loop with a slice */
    LOOP_BYTES = 20,   /* a loop needs so many ASCII bytes, else walks are quick enough */
    NEAR_BYTES = 48,   /* ASCII bytes by which a state must lead to a loop to be beside it */
    MAX_NEAR = 4,      /* tops that are compared with a loop, in one mask */
    MAX_MADE = 8,      /* slices that one grammar may add to the trie */
    /* Edges that the search for loops reads, which takes 0.1 s. Later loops have no slice. */
    SEARCH_STEPS = 1 << 25
};

/* A loop: a state that reads characters and returns to itself. */
struct gr_loop {
    struct token_slice *slice; /* a reference */
    uint32_t *states;          /* by state of the slice: the state of the grammar */
};
struct token_masks {
    struct grammar *grammar;
    struct token_trie *trie;
    struct gr_loop *loops;
    size_t num_loops, cap_loops;
    uint32_t *loop_of; /* by state: the loop that it begins, or NONE */
    uint32_t *near_of; /* by state: a loop that texts soon enter, or NONE */
    bool *beside;      /* by state: most bytes lead to that loop */
};

/* --- loops --- */

/* Counts the ASCII bytes by which a state leads to `target`. */
static uint32_t ascii_bytes(const struct grammar *g, uint32_t from, uint32_t target)
{
    uint32_t count = 0;
    for (uint32_t e = g->states[from].first_byte; e < g->states[from + 1].first_byte; e++) {
        const struct gr_byte_edge *edge = &g->bytes[e];
        if (edge->target == target && edge->first < 128)
            count += (edge->last < 128 ? edge->last : 127) - edge->first + 1u;
    }
    return count;
}

/* The states near the head of a loop, in the order of a walk by breadth. */
struct loop_states {
    uint32_t *index; /* by state of the grammar: its place in the list plus 1, or 0 */
    uint32_t state[LOOP_STATES];
    bool leaves[LOOP_STATES]; /* some way leads out of the loop */
    uint32_t count;
    uint32_t may_make;  /* slices */
    int64_t steps_left; /* of the search for all loops; none are left below 1 */
};

/* Returns the place of a state that is in the loop, or NONE. */
static uint32_t find_state(const struct loop_states *l, uint32_t state)
{
    uint32_t index = l->index[state];
    return index && !l->leaves[index - 1] ? index - 1 : NONE;
}

/* Finds the states from which every way returns to the head. Returns false if two edges of a state
 * read the same byte, or if no steps are left: such loops have no slice. */
static bool find_loop(const struct grammar *g, uint32_t head, struct loop_states *l)
{
    bool changed = true;
    for (uint32_t i = 0; i < l->count; i++)
        l->index[l->state[i]] = 0;
    l->state[0] = head;
    l->index[head] = l->count = 1;
    for (uint32_t i = 0; i < l->count; i++) {
        const struct gr_state *state = &g->states[l->state[i]];
        l->steps_left -= 1 + state[1].first_byte - state->first_byte;
        l->leaves[i] = i > 0 && (state->accept || state->first_call < state[1].first_call ||
                                 state->first_token < state[1].first_token);
        for (uint32_t e = state->first_byte; e < state[1].first_byte; e++) {
            const struct gr_byte_edge *edge = &g->bytes[e];
            if (e > state->first_byte && edge->first <= edge[-1].last)
                return false;
            if (!l->leaves[i] && !l->index[edge->target] && l->count < LOOP_STATES) {
                l->state[l->count++] = edge->target;
                l->index[edge->target] = l->count;
            }
        }
    }
    while (changed && l->steps_left > 0) {
        changed = false;
        for (uint32_t i = l->count; i-- > 1;) {
            const struct gr_state *state = &g->states[l->state[i]];
            if (!l->leaves[i])
                l->steps_left -= 1 + state[1].first_byte - state->first_byte;
            for (uint32_t e = state->first_byte; e < state[1].first_byte && !l->leaves[i]; e++)
                if (find_state(l, g->bytes[e].target) == NONE)
                    l->leaves[i] = changed = true;
        }
    }
    return l->steps_left > 0;
}

/* Adds the loop of a head with its slice. Adds none if the trie has no room for the slice. */
static enum dgl_status add_loop(const struct dgl_log *log, struct token_masks *masks,
                                struct loop_states *found, uint32_t head)
{
    enum dgl_status status = DGL_OK;
    const struct grammar *g = masks->grammar;
    uint32_t number[LOOP_STATES], count = 0;
    uint16_t *next = NULL;
    uint32_t *states = NULL;
    struct token_slice *slice;
    for (uint32_t i = 0; i < found->count; i++)
        number[i] = found->leaves[i] ? NONE : count++;
    found->steps_left -= (int64_t)count * 64; /* for the table */
    next = dgl_malloc((size_t)count * 512);
    states = dgl_new_array(uint32_t, count);
    if (!next || !states) {
        status = dgl_fail_memory(log, "a loop of a grammar", (size_t)count * 516);
        goto done;
    }
    memset(next, 0xFF, (size_t)count * 512);
    for (uint32_t i = 0; i < found->count; i++) {
        if (number[i] == NONE)
            continue;
        const struct gr_state *state = &g->states[found->state[i]];
        states[number[i]] = found->state[i];
        for (uint32_t e = state->first_byte; e < state[1].first_byte; e++) {
            uint32_t to = find_state(found, g->bytes[e].target);
            for (uint32_t byte = g->bytes[e].first; to != NONE && byte <= g->bytes[e].last; byte++)
                next[number[i] * 256 + byte] = (uint16_t)number[to];
        }
    }
    TRY(token_trie_slice(log, masks->trie, (struct slice_loop){count, next}, &found->may_make,
                         &slice));
    if (!slice)
        goto done;
    if (!dgl_grow((void **)&masks->loops, &masks->cap_loops, masks->num_loops + 1,
                  sizeof(*masks->loops))) {
        token_trie_release(masks->trie, slice);
        status = dgl_fail_memory(log, "a loop of a grammar", sizeof(*masks->loops));
        goto done;
    }
    masks->loops[masks->num_loops] = (struct gr_loop){slice, states};
    for (uint32_t i = 1; i < count && !g->states[head].counter; i++)
        masks->near_of[states[i]] = (uint32_t)masks->num_loops;
    masks->loop_of[head] = (uint32_t)masks->num_loops++;
    states = NULL;
done:
    free(next);
    free(states);
    return status;
}

/* Finds the loop to which most bytes of a state lead. */
static void find_beside(struct token_masks *masks, struct loop_states *found, uint32_t state)
{
    const struct grammar *g = masks->grammar;
    uint32_t last = NONE;
    if (masks->loop_of[state] != NONE)
        return;
    uint32_t first = g->states[state].first_byte, end = g->states[state + 1].first_byte;
    for (uint32_t e = first; e < end && found->steps_left > 0; e++) {
        uint32_t target = g->bytes[e].target;
        if (target == last || masks->loop_of[target] == NONE || g->states[target].counter)
            continue;
        last = target;
        found->steps_left -= end - first;
        if (ascii_bytes(g, state, target) >= NEAR_BYTES) {
            masks->near_of[state] = masks->loop_of[target];
            masks->beside[state] = true;
            return;
        }
    }
}

enum dgl_status token_masks_create(const struct dgl_log *log, struct grammar *grammar,
                                   struct token_trie *trie, struct token_masks **out)
{
    enum dgl_status status = DGL_OK;
    const struct grammar *g = grammar;
    struct token_masks *masks = dgl_new(struct token_masks);
    struct loop_states *found = dgl_new(struct loop_states);
    *out = NULL;
    if (!masks || !found) {
        status = dgl_fail_memory(log, "masks of a grammar", sizeof(*found));
        goto done;
    }
    found->may_make = MAX_MADE;
    found->steps_left = SEARCH_STEPS;
    masks->grammar = grammar_ref(grammar);
    masks->trie = trie;
    masks->loop_of = dgl_new_array(uint32_t, g->num_states);
    masks->near_of = dgl_new_array(uint32_t, g->num_states);
    masks->beside = dgl_new_array(bool, g->num_states);
    found->index = dgl_new_array(uint32_t, g->num_states);
    if (!masks->loop_of || !masks->near_of || !masks->beside || !found->index) {
        status = dgl_fail_memory(log, "masks of a grammar", (size_t)g->num_states * 12);
        goto done;
    }
    memset(masks->loop_of, 0xFF, (size_t)g->num_states * 4);
    memset(masks->near_of, 0xFF, (size_t)g->num_states * 4);
    for (uint32_t s = 0; s < g->num_states; s++)
        if (found->steps_left > 0 && ascii_bytes(g, s, s) >= LOOP_BYTES && find_loop(g, s, found))
            TRY(add_loop(log, masks, found, s));
    for (uint32_t s = 0; s < g->num_states; s++)
        find_beside(masks, found, s);
    *out = masks;
    masks = NULL;
done:
    if (found)
        free(found->index);
    free(found);
    token_masks_destroy(&masks);
    return status;
}

void token_masks_destroy(struct token_masks **masks)
{
    if (!*masks)
        return;
    for (size_t i = 0; i < (*masks)->num_loops; i++) {
        token_trie_release((*masks)->trie, (*masks)->loops[i].slice);
        free((*masks)->loops[i].states);
    }
    grammar_unref(&(*masks)->grammar);
    free((*masks)->loops);
    free((*masks)->loop_of);
    free((*masks)->near_of);
    free((*masks)->beside);
    free(*masks);
    *masks = NULL;
}

/* --- walks --- */

/* A node on the path of a walk: the children that are left, and the configuration there. `loop` and
 * `leaving` are for walks beside a loop. */
struct frame {
    uint32_t child, end, conf;
    uint32_t loop, leaving;
};

/* A mask in the making. */
struct walker {
    const struct token_masks *masks;
    struct matcher *m;
    uint32_t *bits;
    struct frame *frames;       /* one per depth of the trie */
    struct frame *inner_frames; /* for a walk within a walk */
    uint32_t *spare;            /* another mask */
};

static void set_bits(uint32_t *bits, const int32_t *ids, uint32_t first, uint32_t end)
{
    for (uint32_t rank = first; rank < end; rank++)
        bits[ids[rank] / 32] |= 1u << ids[rank] % 32;
}

static void clear_bits(uint32_t *bits, const int32_t *ids, uint32_t first, uint32_t end)
{
    for (uint32_t rank = first; rank < end; rank++)
        bits[ids[rank] / 32] &= ~(1u << ids[rank] % 32);
}

/* Sets the bits of all tokens below a node that the configuration accepts. */
static void walk(struct matcher *m, const struct trie_nodes *t, uint32_t node, uint32_t conf,
                 struct frame *frames, uint32_t *bits)
{
    size_t depth = 1;
    frames[0] = (struct frame){.child = t->nodes[node].first_child,
                               .end = t->nodes[node].first_child + t->nodes[node].num_children,
                               .conf = conf};
    while (depth) {
        struct frame *frame = &frames[depth - 1];
        if (frame->child == frame->end) {
            depth--;
            continue;
        }
        const struct trie_node *child = &t->nodes[frame->child++];
        if (!matcher_steps(m, 1))
            return;
        uint32_t to = matcher_step(m, frame->conf, child->byte);
        if (!to)
            continue;
        set_bits(bits, t->ids, child->rank, trie_own_end(t, child));
        if (child->num_children)
            frames[depth++] = (struct frame){.child = child->first_child,
                                             .end = child->first_child + child->num_children,
                                             .conf = to};
    }
}

/*
 * Walks a configuration near a loop, beside the loop itself: where both are in the same state, the
 * tokens below are those of the slice. If most texts enter the loop, begins with the mask of the
 * slice and clears what the configuration rejects. Otherwise begins with an empty mask.
 */
static void walk_near(struct walker *w, const struct gr_loop *loop, uint32_t conf, bool most,
                      uint32_t *bits)
{
    const struct trie_nodes *t = token_trie_nodes(w->masks->trie);
    const struct token_slice *slice = loop->slice;
    size_t depth = 1, bytes = token_trie_mask_words(w->masks->trie) * sizeof(*bits);
    if (most)
        memcpy(bits, slice->inside, bytes);
    else
        memset(bits, 0, bytes);
    w->frames[0] = (struct frame){t->nodes[0].first_child,
                                  t->nodes[0].first_child + t->nodes[0].num_children, conf, 0, 0};
    while (depth) {
        struct frame *frame = &w->frames[depth - 1];
        if (frame->child == frame->end) {
            depth--;
            continue;
        }
        const struct trie_node *child = &t->nodes[frame->child++];
        uint32_t state = NONE, leaving = NONE;
        if (!matcher_steps(w->m, 2))
            return;
        if (frame->loop != NONE && slice->next[frame->loop * 256 + child->byte] != UINT16_MAX)
            state = slice->next[frame->loop * 256 + child->byte];
        if (frame->leaving != NONE)
            leaving = trie_child(&slice->leaving, frame->leaving, child->byte);
        uint32_t to = matcher_step(w->m, frame->conf, child->byte);
        if (!to) {
            if (state != NONE && most)
                clear_bits(bits, t->ids, child->rank, child->rank_end);
            continue;
        }
        if (state != NONE && matcher_conf_at(w->m, to)->count == 1 &&
            matcher_tops(w->m, to)->state == loop->states[state]) {
            for (uint32_t rank = child->rank; rank < child->rank_end && !most; rank++)
                if (slice->items[t->ids[rank]])
                    bits[t->ids[rank] / 32] |= 1u << t->ids[rank] % 32;
            if (leaving != NONE) {
                const struct trie_node *node = &slice->leaving.nodes[leaving];
                set_bits(bits, slice->leaving.ids, node->rank, trie_own_end(&slice->leaving, node));
                walk(w->m, &slice->leaving, leaving, to, w->inner_frames, bits);
            }
            continue;
        }
        set_bits(bits, t->ids, child->rank, trie_own_end(t, child));
        if (child->num_children)
            w->frames[depth++] = (struct frame){
                child->first_child, child->first_child + child->num_children, to, state, leaving};
    }
}

/* --- masks --- */

/* Returns how many items the loop of a top may still read. The items of a loop within an item of a
 * counted repeat are not those that the repeat counts. */
static uint32_t items_left(const struct grammar *g, const struct gr_top *top)
{
    uint32_t counter = g->states[top->state].counter;
    bool counts = counter && g->states[top->state].accept;
    if (!counts || g->counters[counter].max == GR_UNBOUNDED)
        return NONE;
    return g->counters[counter].max - top->count;
}

/* Returns true if what follows a counted repeat may begin with a byte of the repeated items. */
static bool overlaps(struct matcher *m, const struct token_slice *slice, struct gr_top top)
{
    const struct grammar *g = matcher_grammar(m);
    uint32_t conf = matcher_conf_after(m, top);
    const struct gr_top *tops = matcher_tops(m, conf);
    for (uint32_t i = 0; i < matcher_conf_at(m, conf)->count; i++) {
        const struct gr_state *state = &g->states[tops[i].state];
        if (!matcher_steps(m, 1 + state[1].first_byte - state->first_byte))
            return false;
        for (uint32_t e = state->first_byte; e < state[1].first_byte; e++)
            for (uint32_t byte = g->bytes[e].first; byte <= g->bytes[e].last; byte++)
                if (slice->next[byte] != UINT16_MAX)
                    return true;
    }
    return false;
}

/* Adds the tokens that stay in a loop for at most `left` items, which is not 0. */
static void add_inside(const struct token_slice *slice, size_t words, uint32_t left, uint32_t *bits)
{
    const uint32_t *inside = left >= slice->max_items ? slice->inside
                             : left < SLICE_COUNTS    ? slice->inside_most[left - 1]
                                                      : slice->inside_most[SLICE_COUNTS - 1];
    for (size_t i = 0; i < words; i++)
        bits[i] |= inside[i];
    for (uint32_t i = 0; i < slice->num_long && slice->items[slice->long_ids[i]] <= left; i++)
        bits[slice->long_ids[i] / 32] |= 1u << slice->long_ids[i] % 32;
}

/* Adds the mask of all tops whose loops have one slice. Returns false if the slice cannot be used:
 * a text may leave a bounded repeat before the bound by a character of the repeat itself. */
static bool add_slice(struct walker *w, const struct gr_top *tops, size_t count)
{
    const struct grammar *g = matcher_grammar(w->m);
    const struct token_slice *slice = w->masks->loops[w->masks->loop_of[tops[0].state]].slice;
    uint32_t left = 0;
    for (size_t i = 0; i < count; i++) {
        uint32_t most = items_left(g, &tops[i]);
        left = most > left ? most : left;
    }
    for (size_t i = 0; i < count && left < slice->max_items; i++)
        if (overlaps(w->m, slice, tops[i]))
            return false;
    add_inside(slice, token_trie_mask_words(w->masks->trie), left, w->bits);
    walk(w->m, &slice->leaving, 0, matcher_conf_of(w->m, tops, count), w->frames, w->bits);
    return true;
}

/* Adds all tokens but one and those that end the sequence. */
static void add_other_tokens(struct walker *w, int32_t id)
{
    size_t words = token_trie_mask_words(w->masks->trie), num_ends;
    int32_t num_tokens = token_trie_num_tokens(w->masks->trie);
    const int32_t *ends = token_trie_ends(w->masks->trie, &num_ends);
    memset(w->spare, 0xFF, words * sizeof(*w->spare));
    if (num_tokens % 32)
        w->spare[words - 1] = (1u << num_tokens % 32) - 1;
    if (id >= 0 && id < num_tokens)
        w->spare[id / 32] &= ~(1u << id % 32);
    for (size_t i = 0; i < num_ends; i++)
        if (ends[i] >= 0 && ends[i] < num_tokens)
            w->spare[ends[i] / 32] &= ~(1u << ends[i] % 32);
    for (size_t i = 0; i < words; i++)
        w->bits[i] |= w->spare[i];
}

/* Adds tokens that the grammar names. */
static void add_named_tokens(struct walker *w, const struct gr_top *tops, size_t count)
{
    const struct grammar *g = matcher_grammar(w->m);
    const uint32_t words = (uint32_t)token_trie_mask_words(w->masks->trie);
    for (size_t i = 0; i < count; i++) {
        const struct gr_state *state = &g->states[tops[i].state];
        for (uint32_t e = state->first_token; e < state[1].first_token; e++) {
            int32_t id = g->tokens[e].id;
            if (!matcher_steps(w->m, g->tokens[e].negated ? words / 8 + 1 : 1))
                return;
            if (g->tokens[e].negated)
                add_other_tokens(w, id);
            else if (id >= 0 && id < token_trie_num_tokens(w->masks->trie))
                w->bits[id / 32] |= 1u << id % 32;
        }
    }
}

/* Adds the masks of all tops. Tops with one slice are added together, tops near a loop one by one,
 * and all others by one walk over the whole trie. `rest` has room for the tops twice. */
static void add_tops(struct walker *w, struct gr_top *tops, uint32_t count, struct gr_top *rest)
{
    const struct token_masks *masks = w->masks;
    const struct trie_nodes *t = token_trie_nodes(masks->trie);
    size_t words = token_trie_mask_words(masks->trie);
    struct gr_top *group = rest + count;
    uint32_t num_rest = 0, num_near = 0;
    bool *done = (bool *)(group + count);
    memset(done, 0, count);
    for (uint32_t i = 0; i < count; i++) {
        uint32_t loop = masks->loop_of[tops[i].state], near = masks->near_of[tops[i].state];
        size_t num_group = 0;
        if (done[i])
            continue;
        if (loop == NONE && near != NONE && num_near < MAX_NEAR) {
            num_near++;
            walk_near(w, &masks->loops[near], matcher_conf_of(w->m, &tops[i], 1),
                      masks->beside[tops[i].state], w->spare);
            for (size_t k = 0; k < words; k++)
                w->bits[k] |= w->spare[k];
            continue;
        }
        if (loop == NONE) {
            rest[num_rest++] = tops[i];
            continue;
        }
        for (uint32_t k = i; k < count; k++) {
            uint32_t other = masks->loop_of[tops[k].state];
            if (other != NONE && masks->loops[other].slice == masks->loops[loop].slice) {
                group[num_group++] = tops[k];
                done[k] = true;
            }
        }
        if (!add_slice(w, group, num_group)) {
            memcpy(rest + num_rest, group, num_group * sizeof(*group));
            num_rest += (uint32_t)num_group;
        }
    }
    if (num_rest)
        walk(w->m, t, 0, matcher_conf_of(w->m, rest, num_rest), w->frames, w->bits);
}

/* Fails because no token can follow. */
static enum dgl_status fail_empty(const struct matcher *m)
{
    if (matcher_was_deep(m))
        return dgl_fail(matcher_log(m), DGL_ERR_INVALID_ARG,
                        "grammar: rules are nested deeper than %u calls at output byte %" PRIu64,
                        MATCHER_MAX_DEPTH, matcher_offset(m));
    return dgl_fail(matcher_log(m), DGL_ERR_INVALID_ARG,
                    "grammar: no token of the vocabulary can follow at output byte %" PRIu64,
                    matcher_offset(m));
}

enum dgl_status token_mask(const struct token_masks *masks, struct matcher *m, uint32_t *bits)
{
    enum dgl_status status = matcher_begin(m);
    size_t words = token_trie_mask_words(masks->trie), num_ends;
    const int32_t *ends = token_trie_ends(masks->trie, &num_ends);
    size_t depth = token_trie_nodes(masks->trie)->max_depth + 1;
    uint32_t conf = matcher_conf(m), any = 0;
    struct walker w = {.masks = masks, .m = m, .bits = bits};
    struct gr_top *tops = NULL;
    if (status != DGL_OK)
        return status;
    uint32_t count = matcher_conf_at(m, conf)->count;
    memset(bits, 0, words * sizeof(*bits));
    w.frames = dgl_new_array(struct frame, depth * 2);
    w.spare = dgl_new_array(uint32_t, words);
    /* Three lists of tops, and a flag for each top. */
    tops = dgl_calloc((size_t)count + 1, 3 * sizeof(*tops) + sizeof(bool));
    if (!w.frames || !w.spare || !tops) {
        status = dgl_fail_memory(matcher_log(m), "a mask of tokens", words * sizeof(*bits));
        goto done;
    }
    w.inner_frames = w.frames + depth;
    if (count)
        memcpy(tops, matcher_tops(m, conf), count * sizeof(*tops));
    if (matcher_conf_at(m, conf)->reads_tokens)
        add_named_tokens(&w, tops, count);
    add_tops(&w, tops, count, tops + count);
    for (size_t i = 0; i < num_ends; i++)
        if (matcher_conf_at(m, conf)->may_end && ends[i] >= 0 &&
            ends[i] < token_trie_num_tokens(masks->trie))
            bits[ends[i] / 32] |= 1u << ends[i] % 32;
    TRY(matcher_end(m));
    for (size_t i = 0; i < words; i++)
        any |= bits[i];
    if (!any && !matcher_may_end(m))
        status = fail_empty(m);
done:
    free(w.frames);
    free(w.spare);
    free(tops);
    return status;
}
