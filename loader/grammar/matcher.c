/* Matchers: configurations of a grammar, and the steps between them. */
#include "loader/grammar/matcher.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/mem.h"
#include "loader/grammar/matcher_conf.h"

enum {
    STACK_NONE = 0,   /* no stack: a call that was too deep */
    STACK_BOTTOM = 1, /* the stack of the root rule */
    STEP_SLOTS = 1 << 16,
    UNION_SLOTS = 1 << 10,
    TOP_SLOTS = 1 << 14,
    /* The store is collected before an operation if it has more than this. */
    KEEP_CONFS = 50000,
    KEEP_TOPS = 500000,
    KEEP_STACKS = 200000,
    /* An operation that needs more than this is too ambiguous. */
    MAX_CONFS = 500000,
    MAX_STACKS = 500000,
    PART_BYTES = 4096 /* of a text, which are one operation */
};

/* A set of stacks: for each state to return to, the set of stacks below it. Equal sets are one
 * node. */
struct stack_entry {
    uint32_t ret, below;
};
struct stack_set {
    uint32_t first, count; /* entries, sorted by `ret` */
    uint32_t depth, cost;  /* cost: least number of bytes until the text is complete */
    uint32_t hash;
    bool has_bottom; /* the root rule may be the caller */
};

/* Numbers by hash; 0 is a free slot. */
struct id_table {
    uint32_t *slots;
    size_t num_slots, count;
};

/* All configurations and stacks of a matcher. Their numbers are indices. */
struct store {
    struct stack_set *stacks;
    struct stack_entry *entries;
    struct gr_conf *confs;
    struct gr_top *tops;
    size_t num_stacks, cap_stacks, num_entries, cap_entries;
    size_t num_confs, cap_confs, num_tops, cap_tops;
    struct id_table stack_table, conf_table;
};

struct step_memo {
    uint32_t key, to; /* key: configuration and byte */
};
struct union_memo {
    uint32_t left, right, result;
};

struct matcher {
    struct grammar *grammar;
    const struct dgl_log *log;
    struct store store;
    uint32_t conf;
    uint64_t offset;
    struct {
        uint32_t conf;
        uint64_t offset;
    } marks[MATCHER_MAX_MARKS + 1]; /* the last one is for operations */
    uint32_t num_marks;
    /* The running operation. */
    enum dgl_status status;
    bool too_deep;
    uint32_t steps_left;
    /* The configuration in the making. A slot is used if its top exists and names the slot. */
    struct {
        struct gr_top top;
        uint32_t slot;
        bool queued;
    } made[MATCHER_MAX_TOPS];
    uint32_t num_made, queue[MATCHER_MAX_TOPS], num_queued;
    bool made_end;
    uint16_t top_slots[TOP_SLOTS];
    struct stack_entry *merge; /* entries of sets in the making */
    size_t num_merge, cap_merge;
    struct step_memo steps[STEP_SLOTS];
    struct union_memo unions[UNION_SLOTS];
};

/* --- store --- */

static void store_finish(struct store *s)
{
    free(s->stacks);
    free(s->entries);
    free(s->confs);
    free(s->tops);
    free(s->stack_table.slots);
    free(s->conf_table.slots);
}

static uint32_t mix(uint32_t hash, uint32_t value)
{
    hash = (hash ^ value) * 0x9E3779B1u;
    return hash ^ hash >> 15;
}

/* Makes room for one more number. `hash_of` returns the hash of a number in the store. */
static bool table_reserve(struct id_table *table, const struct store *s,
                          uint32_t (*hash_of)(const struct store *, uint32_t))
{
    if (table->count * 2 < table->num_slots)
        return true;
    size_t num_slots = table->num_slots ? table->num_slots * 2 : 256;
    uint32_t *slots = dgl_new_array(uint32_t, num_slots);
    if (!slots)
        return false;
    for (size_t i = 0; i < table->num_slots; i++)
        if (table->slots[i]) {
            size_t at = hash_of(s, table->slots[i]);
            while (slots[at &= num_slots - 1])
                at++;
            slots[at] = table->slots[i];
        }
    free(table->slots);
    table->slots = slots;
    table->num_slots = num_slots;
    return true;
}

static uint32_t stack_hash(const struct store *s, uint32_t id)
{
    return s->stacks[id].hash;
}

static uint32_t conf_hash(const struct store *s, uint32_t id)
{
    return s->confs[id].hash;
}

static uint32_t fail_memory(struct matcher *m)
{
    m->status = DGL_ERR_NO_MEMORY;
    return 0;
}

static uint32_t fail_ambiguous(struct matcher *m)
{
    if (m->status == DGL_OK)
        m->status = DGL_ERR_INVALID_ARG;
    return 0;
}

bool matcher_steps(struct matcher *m, uint32_t count)
{
    if (count > m->steps_left)
        return fail_ambiguous(m);
    m->steps_left -= count;
    return m->status == DGL_OK;
}

/* Returns the set with these entries, sorted. Returns STACK_NONE if it is too deep, or on failure.
 */
static uint32_t stack_intern(struct matcher *m, struct store *s, const struct stack_entry *entries,
                             size_t count, bool has_bottom)
{
    uint32_t hash = has_bottom, depth = 0, cost = has_bottom ? 0 : GR_COST_MOST;
    if (!matcher_steps(m, 1 + (uint32_t)count))
        return STACK_NONE;
    for (size_t i = 0; i < count; i++) {
        const struct stack_set *below = &s->stacks[entries[i].below];
        uint32_t way = m->grammar->states[entries[i].ret].cost + below->cost;
        hash = mix(mix(hash, entries[i].ret), entries[i].below);
        depth = below->depth >= depth ? below->depth + 1 : depth;
        cost = way < cost ? way : cost;
    }
    if (depth > MATCHER_MAX_DEPTH) {
        m->too_deep = true;
        return STACK_NONE;
    }
    if (s->num_stacks >= MAX_STACKS)
        return fail_ambiguous(m);
    if (!table_reserve(&s->stack_table, s, stack_hash) ||
        !dgl_grow((void **)&s->stacks, &s->cap_stacks, s->num_stacks + 1, sizeof(*s->stacks)) ||
        !dgl_grow((void **)&s->entries, &s->cap_entries, s->num_entries + count,
                  sizeof(*s->entries)))
        return fail_memory(m);
    size_t at = hash;
    for (; s->stack_table.slots[at &= s->stack_table.num_slots - 1]; at++) {
        uint32_t id = s->stack_table.slots[at];
        const struct stack_set *set = &s->stacks[id];
        if (set->hash == hash && set->count == count && set->has_bottom == has_bottom &&
            !memcmp(s->entries + set->first, entries, count * sizeof(*entries)))
            return id;
    }
    memcpy(s->entries + s->num_entries, entries, count * sizeof(*entries));
    s->stacks[s->num_stacks] = (struct stack_set){.first = (uint32_t)s->num_entries,
                                                  .count = (uint32_t)count,
                                                  .depth = depth,
                                                  .cost = cost,
                                                  .hash = hash,
                                                  .has_bottom = has_bottom};
    s->num_entries += count;
    s->stack_table.slots[at] = (uint32_t)s->num_stacks;
    s->stack_table.count++;
    return (uint32_t)s->num_stacks++;
}

/* Returns the configuration with these tops, sorted. */
static uint32_t conf_intern(struct matcher *m, struct store *s, const struct gr_top *tops,
                            size_t count, bool may_end)
{
    uint32_t hash = may_end;
    bool reads_tokens = false;
    if (!matcher_steps(m, 1 + (uint32_t)count))
        return CONF_DEAD;
    for (size_t i = 0; i < count; i++) {
        const struct gr_state *state = &m->grammar->states[tops[i].state];
        hash = mix(mix(mix(hash, tops[i].state), tops[i].count), tops[i].stack);
        reads_tokens |= state->first_token < state[1].first_token;
    }
    if (s->num_confs >= MAX_CONFS)
        return fail_ambiguous(m);
    if (!table_reserve(&s->conf_table, s, conf_hash) ||
        !dgl_grow((void **)&s->confs, &s->cap_confs, s->num_confs + 1, sizeof(*s->confs)) ||
        !dgl_grow((void **)&s->tops, &s->cap_tops, s->num_tops + count, sizeof(*s->tops)))
        return fail_memory(m);
    size_t at = hash;
    for (; s->conf_table.slots[at &= s->conf_table.num_slots - 1]; at++) {
        uint32_t id = s->conf_table.slots[at];
        const struct gr_conf *conf = &s->confs[id];
        if (conf->hash == hash && conf->count == count && conf->may_end == may_end &&
            !memcmp(s->tops + conf->first, tops, count * sizeof(*tops)))
            return id;
    }
    memcpy(s->tops + s->num_tops, tops, count * sizeof(*tops));
    s->confs[s->num_confs] =
        (struct gr_conf){(uint32_t)s->num_tops, (uint32_t)count, hash, may_end, reads_tokens};
    s->num_tops += count;
    s->conf_table.slots[at] = (uint32_t)s->num_confs;
    s->conf_table.count++;
    return (uint32_t)s->num_confs++;
}

/* Makes the store with CONF_DEAD and STACK_BOTTOM. */
static bool store_init(struct matcher *m, struct store *s)
{
    static const struct stack_entry no_entry;
    static const struct gr_top no_top;
    *s = (struct store){.num_stacks = 1, .num_confs = 1};
    if (!dgl_grow((void **)&s->stacks, &s->cap_stacks, 1, sizeof(*s->stacks)) ||
        !dgl_grow((void **)&s->confs, &s->cap_confs, 1, sizeof(*s->confs)) ||
        !dgl_grow((void **)&s->entries, &s->cap_entries, 1, sizeof(*s->entries)) ||
        !dgl_grow((void **)&s->tops, &s->cap_tops, 1, sizeof(*s->tops)))
        return fail_memory(m);
    s->stacks[0] = (struct stack_set){.cost = GR_COST_MOST};
    s->confs[0] = (struct gr_conf){0};
    s->entries[0] = no_entry;
    s->tops[0] = no_top;
    return stack_intern(m, s, &no_entry, 0, true) == STACK_BOTTOM;
}

/* Copies a set of stacks to another store. `copies` maps the numbers of copied sets. */
static uint32_t copy_stack(struct matcher *m, struct store *to, uint32_t id, uint32_t *copies)
{
    const struct stack_set *set = &m->store.stacks[id];
    size_t base = m->num_merge;
    if (copies[id])
        return copies[id];
    if (!dgl_grow((void **)&m->merge, &m->cap_merge, base + set->count, sizeof(*m->merge)))
        return fail_memory(m);
    m->num_merge += set->count;
    for (uint32_t i = 0; i < set->count; i++) {
        struct stack_entry entry = m->store.entries[set->first + i];
        entry.below = copy_stack(m, to, entry.below, copies);
        if (!entry.below)
            return STACK_NONE;
        m->merge[base + i] = entry;
    }
    copies[id] = stack_intern(m, to, m->merge + base, set->count, set->has_bottom);
    m->num_merge = base;
    return copies[id];
}

/* Copies a configuration to another store. */
static uint32_t copy_conf(struct matcher *m, struct store *to, uint32_t id, uint32_t *copies)
{
    const struct gr_conf *conf = &m->store.confs[id];
    struct gr_top *tops = dgl_new_array(struct gr_top, conf->count);
    uint32_t copy = CONF_DEAD;
    if (!tops)
        return fail_memory(m);
    for (uint32_t i = 0; i < conf->count; i++) {
        tops[i] = m->store.tops[conf->first + i];
        tops[i].stack = copy_stack(m, to, tops[i].stack, copies);
        if (!tops[i].stack)
            goto done;
    }
    copy = conf_intern(m, to, tops, conf->count, conf->may_end);
done:
    free(tops);
    return copy;
}

/* Keeps the current configuration and those of the marks, and drops all others. */
static bool collect(struct matcher *m)
{
    uint32_t confs[MATCHER_MAX_MARKS + 2];
    uint32_t *copies = dgl_new_array(uint32_t, m->store.num_stacks);
    struct store fresh = {0};
    bool ok = false;
    if (!copies) {
        fail_memory(m);
        goto done;
    }
    m->num_merge = 0;
    if (!store_init(m, &fresh))
        goto done;
    copies[STACK_BOTTOM] = STACK_BOTTOM;
    for (uint32_t i = 0; i <= m->num_marks; i++) {
        uint32_t old = i < m->num_marks ? m->marks[i].conf : m->conf;
        confs[i] = copy_conf(m, &fresh, old, copies);
        if (!confs[i])
            goto done;
    }
    for (uint32_t i = 0; i < m->num_marks; i++)
        m->marks[i].conf = confs[i];
    m->conf = confs[m->num_marks];
    store_finish(&m->store);
    m->store = fresh;
    fresh = (struct store){0};
    memset(m->steps, 0, sizeof(m->steps));
    memset(m->unions, 0, sizeof(m->unions));
    ok = true;
done:
    store_finish(&fresh);
    free(copies);
    return ok;
}

/* --- stacks --- */

/* Returns the union of two sets. Sets below equal states are united in turn. */
static uint32_t stack_union(struct matcher *m, uint32_t left, uint32_t right)
{
    struct store *s = &m->store;
    if (left == right)
        return left;
    if (left > right) {
        uint32_t swap = left;
        left = right;
        right = swap;
    }
    struct union_memo *memo = &m->unions[mix(left, right) % UNION_SLOTS];
    if (memo->left == left && memo->right == right)
        return memo->result;
    struct stack_set a = s->stacks[left], b = s->stacks[right];
    size_t base = m->num_merge;
    if (!matcher_steps(m, a.count + b.count + 1))
        return STACK_NONE;
    if (!dgl_grow((void **)&m->merge, &m->cap_merge, base + a.count + b.count, sizeof(*m->merge)))
        return fail_memory(m);
    uint32_t i = 0, j = 0, count = 0;
    m->num_merge += a.count + b.count;
    while (i < a.count || j < b.count) {
        struct stack_entry none = {UINT32_MAX, 0};
        struct stack_entry l = i < a.count ? s->entries[a.first + i] : none;
        struct stack_entry r = j < b.count ? s->entries[b.first + j] : none;
        struct stack_entry entry = l.ret <= r.ret ? l : r;
        if (l.ret == r.ret) {
            entry.below = stack_union(m, l.below, r.below);
            if (!entry.below) {
                m->num_merge = base;
                return STACK_NONE;
            }
        }
        i += l.ret <= r.ret;
        j += r.ret <= l.ret;
        m->merge[base + count++] = entry;
    }
    uint32_t result = stack_intern(m, s, m->merge + base, count, a.has_bottom || b.has_bottom);
    m->num_merge = base;
    if (result)
        *memo = (struct union_memo){left, right, result};
    return result;
}

/* --- a configuration in the making --- */

static void make_begin(struct matcher *m)
{
    m->num_made = m->num_queued = 0;
    m->made_end = false;
}

/* Adds a top. Tops of the same state and count are one, with the union of their stacks. */
static void make_add(struct matcher *m, uint32_t state, uint32_t count, uint32_t stack)
{
    uint32_t at = mix(mix(0, state), count), index;
    if (!matcher_steps(m, 1))
        return;
    for (;; at++) {
        at &= TOP_SLOTS - 1;
        index = m->top_slots[at];
        if (index >= m->num_made || m->made[index].slot != at)
            break;
        if (m->made[index].top.state == state && m->made[index].top.count == count) {
            uint32_t whole = stack_union(m, m->made[index].top.stack, stack);
            if (!whole || whole == m->made[index].top.stack)
                return;
            m->made[index].top.stack = whole;
            if (!m->made[index].queued)
                m->queue[m->num_queued++] = index;
            m->made[index].queued = true;
            return;
        }
    }
    if (m->num_made >= MATCHER_MAX_TOPS) {
        fail_ambiguous(m);
        return;
    }
    index = m->num_made++;
    m->top_slots[at] = (uint16_t)index;
    m->made[index].top = (struct gr_top){state, count, stack};
    m->made[index].slot = at;
    m->made[index].queued = true;
    m->queue[m->num_queued++] = index;
}

/* Ends the rule of a top: its callers continue. */
static void make_return(struct matcher *m, uint32_t stack)
{
    struct stack_set set = m->store.stacks[stack];
    m->made_end |= set.has_bottom;
    for (uint32_t i = 0; i < set.count && m->status == DGL_OK; i++) {
        struct stack_entry entry = m->store.entries[set.first + i];
        make_add(m, entry.ret, 0, entry.below);
    }
}

/* Follows calls and ends of rules from all queued tops. */
static void make_close(struct matcher *m)
{
    const struct grammar *g = m->grammar;
    while (m->num_queued && m->status == DGL_OK) {
        uint32_t index = m->queue[--m->num_queued];
        struct gr_top top = m->made[index].top;
        const struct gr_state *state = &g->states[top.state];
        m->made[index].queued = false;
        for (uint32_t e = state->first_call; e < state[1].first_call; e++) {
            struct stack_entry entry = {g->calls[e].ret, top.stack};
            uint32_t stack =
                entry.ret == GR_TAIL ? top.stack : stack_intern(m, &m->store, &entry, 1, false);
            if (stack)
                make_add(m, g->calls[e].entry, 0, stack);
        }
        if (state->accept && (!state->counter || top.count >= g->counters[state->counter].min))
            make_return(m, top.stack);
    }
}

static int compare_tops(const void *a, const void *b)
{
    const struct gr_top *left = a, *right = b;
    if (left->state != right->state)
        return left->state < right->state ? -1 : 1;
    return left->count < right->count ? -1 : left->count > right->count;
}

/* Closes the configuration and returns its number. Drops tops that read nothing. */
static uint32_t make_end(struct matcher *m)
{
    const struct grammar *g = m->grammar;
    struct gr_top kept[64], *tops = kept;
    uint32_t count = 0, conf = CONF_DEAD;
    make_close(m);
    if (m->status != DGL_OK)
        return CONF_DEAD;
    if (m->num_made > 64 && !(tops = dgl_new_array(struct gr_top, m->num_made)))
        return fail_memory(m);
    for (uint32_t i = 0; i < m->num_made; i++) {
        struct gr_top top = m->made[i].top;
        const struct gr_state *state = &g->states[top.state];
        bool is_full =
            state->counter && state->accept && top.count >= g->counters[state->counter].max;
        if ((state->first_byte < state[1].first_byte && !is_full) ||
            state->first_token < state[1].first_token)
            tops[count++] = top;
    }
    if (count > 1)
        qsort(tops, count, sizeof(*tops), compare_tops);
    if (count || m->made_end)
        conf = conf_intern(m, &m->store, tops, count, m->made_end);
    if (tops != kept)
        free(tops);
    return conf;
}

uint32_t matcher_step(struct matcher *m, uint32_t conf, uint8_t byte)
{
    const struct grammar *g = m->grammar;
    uint32_t key = conf << 8 | byte;
    struct step_memo *memo = &m->steps[mix(0, key) % STEP_SLOTS];
    if (conf == CONF_DEAD || memo->key == key)
        return conf == CONF_DEAD ? CONF_DEAD : memo->to;
    struct gr_conf from = m->store.confs[conf];
    make_begin(m);
    for (uint32_t i = 0; i < from.count && m->status == DGL_OK; i++) {
        struct gr_top top = m->store.tops[from.first + i];
        const struct gr_state *state = &g->states[top.state];
        matcher_steps(m, 1 + (state[1].first_byte - state->first_byte) / 8);
        for (uint32_t e = state->first_byte; e < state[1].first_byte; e++) {
            const struct gr_byte_edge *edge = &g->bytes[e];
            if (byte < edge->first || byte > edge->last)
                continue;
            uint32_t count = top.count;
            if (edge->counts) {
                const struct gr_counter *counter = &g->counters[state->counter];
                bool stays = counter->max == GR_UNBOUNDED && count >= counter->min;
                count += !stays;
            }
            make_add(m, edge->target, count, top.stack);
        }
    }
    uint32_t to = make_end(m);
    if (m->status == DGL_OK)
        *memo = (struct step_memo){key, to};
    return to;
}

uint32_t matcher_conf_of(struct matcher *m, const struct gr_top *tops, size_t count)
{
    return count ? conf_intern(m, &m->store, tops, count, false) : CONF_DEAD;
}

uint32_t matcher_conf_after(struct matcher *m, struct gr_top top)
{
    make_begin(m);
    make_return(m, top.stack);
    return make_end(m);
}

/* --- operations --- */

const struct grammar *matcher_grammar(const struct matcher *m)
{
    return m->grammar;
}

const struct dgl_log *matcher_log(const struct matcher *m)
{
    return m->log;
}

uint32_t matcher_conf(const struct matcher *m)
{
    return m->conf;
}

const struct gr_conf *matcher_conf_at(const struct matcher *m, uint32_t conf)
{
    return &m->store.confs[conf];
}

const struct gr_top *matcher_tops(const struct matcher *m, uint32_t conf)
{
    return m->store.tops + m->store.confs[conf].first;
}

bool matcher_was_deep(const struct matcher *m)
{
    return m->too_deep;
}

enum dgl_status matcher_begin(struct matcher *m)
{
    const struct store *s = &m->store;
    m->status = DGL_OK;
    m->too_deep = false;
    m->num_merge = 0;
    m->steps_left = UINT32_MAX; /* collecting is not the work of this operation */
    if (s->num_confs > KEEP_CONFS || s->num_tops > KEEP_TOPS || s->num_stacks > KEEP_STACKS)
        collect(m);
    m->steps_left = MATCHER_MAX_STEPS;
    return m->status == DGL_OK ? DGL_OK : matcher_end(m);
}

enum dgl_status matcher_end(struct matcher *m)
{
    if (m->status == DGL_ERR_NO_MEMORY)
        return dgl_fail_memory(m->log, "the matcher of a grammar", sizeof(struct matcher));
    if (m->status != DGL_OK)
        return dgl_fail(m->log, m->status,
                        "grammar: too ambiguous at output byte %" PRIu64
                        ": more than %u states or %u steps; make its alternatives disjoint",
                        m->offset, MATCHER_MAX_TOPS, MATCHER_MAX_STEPS);
    return DGL_OK;
}

/* Sets the configuration at the start of the text. */
static enum dgl_status start(struct matcher *m)
{
    enum dgl_status status = matcher_begin(m);
    if (status != DGL_OK)
        return status;
    make_begin(m);
    make_add(m, m->grammar->root, 0, STACK_BOTTOM);
    m->conf = make_end(m);
    return matcher_end(m);
}

enum dgl_status matcher_create(const struct dgl_log *log, struct grammar *grammar,
                               struct matcher **out)
{
    enum dgl_status status = DGL_OK;
    struct matcher *m = dgl_new(struct matcher);
    *out = NULL;
    if (!m)
        return dgl_fail_memory(log, "the matcher of a grammar", sizeof(*m));
    m->log = log;
    m->grammar = grammar_ref(grammar);
    m->steps_left = MATCHER_MAX_STEPS;
    if (!store_init(m, &m->store)) {
        status = matcher_end(m);
        goto done;
    }
    TRY(start(m));
    /* Mark 0 is the start of the text. */
    m->marks[0].conf = m->conf;
    m->num_marks = 1;
    *out = m;
    m = NULL;
done:
    matcher_destroy(&m);
    return status;
}

void matcher_destroy(struct matcher **m)
{
    if (!*m)
        return;
    grammar_unref(&(*m)->grammar);
    store_finish(&(*m)->store);
    free((*m)->merge);
    free(*m);
    *m = NULL;
}

void matcher_reset(struct matcher *m)
{
    m->num_marks = 1;
    m->conf = m->marks[0].conf;
    m->offset = 0;
}

/* Long texts are read in parts, so that the store is collected between them. Until the end the old
 * configuration is a mark. */
enum dgl_status matcher_advance(struct matcher *m, const void *bytes, size_t len, bool *ok)
{
    enum dgl_status status = DGL_OK;
    const uint8_t *at = bytes;
    uint32_t mark = m->num_marks++;
    m->marks[mark].conf = m->conf;
    m->marks[mark].offset = m->offset;
    *ok = true;
    for (size_t i = 0; i < len && *ok && status == DGL_OK; i++) {
        if (i % PART_BYTES == 0)
            TRY(matcher_begin(m));
        uint32_t next = matcher_step(m, m->conf, at[i]);
        *ok = next;
        if (next) {
            m->conf = next;
            m->offset++;
        } else {
            status = matcher_end(m);
        }
    }
done:
    *ok = *ok && status == DGL_OK;
    if (!*ok) {
        m->conf = m->marks[mark].conf;
        m->offset = m->marks[mark].offset;
    }
    m->num_marks = mark;
    return status;
}

/* Reads a token by its bytes, if it has any, and by its id. If `is_end`, negated tokens do not
 * match. */
static enum dgl_status read_token(struct matcher *m, int32_t id, bool is_end, const void *bytes,
                                  size_t len, bool *ok)
{
    const struct grammar *g = m->grammar;
    enum dgl_status status;
    *ok = false;
    status = matcher_begin(m);
    if (status != DGL_OK)
        return status;
    uint32_t by_bytes = len ? m->conf : CONF_DEAD;
    for (size_t i = 0; i < len && by_bytes; i++)
        by_bytes = matcher_step(m, by_bytes, ((const uint8_t *)bytes)[i]);
    make_begin(m);
    struct gr_conf from = m->store.confs[m->conf], read = m->store.confs[by_bytes];
    for (uint32_t i = 0; i < from.count && m->status == DGL_OK; i++) {
        struct gr_top top = m->store.tops[from.first + i];
        const struct gr_state *state = &g->states[top.state];
        matcher_steps(m, 1 + (state[1].first_token - state->first_token) / 8);
        for (uint32_t e = state->first_token; e < state[1].first_token; e++)
            if (g->tokens[e].negated ? g->tokens[e].id != id && !is_end : g->tokens[e].id == id)
                make_add(m, g->tokens[e].target, 0, top.stack);
    }
    for (uint32_t i = 0; i < read.count; i++) {
        struct gr_top top = m->store.tops[read.first + i];
        make_add(m, top.state, top.count, top.stack);
    }
    m->made_end |= read.may_end;
    uint32_t conf = make_end(m);
    status = matcher_end(m);
    *ok = status == DGL_OK && conf;
    if (*ok) {
        m->conf = conf;
        m->offset += len;
    }
    return status;
}

enum dgl_status matcher_advance_token(struct matcher *m, int32_t id, const void *bytes, size_t len,
                                      bool *ok)
{
    if (!m->store.confs[m->conf].reads_tokens && len)
        return matcher_advance(m, bytes, len, ok);
    return read_token(m, id, false, bytes, len, ok);
}

enum dgl_status matcher_advance_end(struct matcher *m, int32_t id, bool *ok)
{
    return read_token(m, id, true, NULL, 0, ok);
}

bool matcher_may_end(const struct matcher *m)
{
    return m->store.confs[m->conf].may_end;
}

bool matcher_must_end(const struct matcher *m)
{
    return m->store.confs[m->conf].may_end && !m->store.confs[m->conf].count;
}

uint64_t matcher_offset(const struct matcher *m)
{
    return m->offset;
}

uint32_t matcher_work(const struct matcher *m)
{
    return MATCHER_MAX_STEPS - m->steps_left;
}

/* Returns the only byte that a configuration reads, or -1. */
static int only_byte(const struct matcher *m, uint32_t id)
{
    const struct gr_conf *conf = &m->store.confs[id];
    int byte = -1;
    if (conf->may_end || conf->reads_tokens)
        return -1;
    for (uint32_t i = 0; i < conf->count; i++) {
        const struct gr_state *state = &m->grammar->states[m->store.tops[conf->first + i].state];
        for (uint32_t e = state->first_byte; e < state[1].first_byte; e++) {
            const struct gr_byte_edge *edge = &m->grammar->bytes[e];
            if (edge->first != edge->last || (byte >= 0 && byte != edge->first))
                return -1;
            byte = edge->first;
        }
    }
    return byte;
}

enum dgl_status matcher_forced(struct matcher *m, size_t most, struct dgl_buf *out)
{
    enum dgl_status status = matcher_begin(m);
    uint32_t conf = m->conf;
    for (size_t i = 0; status == DGL_OK && i < most; i++) {
        int byte = only_byte(m, conf);
        uint32_t next = byte < 0 ? CONF_DEAD : matcher_step(m, conf, (uint8_t)byte);
        if (!next)
            break;
        dgl_buf_putc(out, (char)byte);
        conf = next;
    }
    if (status == DGL_OK && out->failed)
        fail_memory(m);
    return status == DGL_OK ? matcher_end(m) : status;
}

/* --- shortest completion --- */

/* Returns the least number of bytes from a state to the end of its rule. */
static uint32_t top_cost(const struct grammar *g, uint32_t state, uint32_t count)
{
    const struct gr_state *s = &g->states[state];
    uint64_t cost = s->cost;
    if (s->counter) {
        uint32_t min = g->counters[s->counter].min;
        count += !s->accept; /* the item that the state is in */
        cost += count < min ? (uint64_t)(min - count) * g->counters[s->counter].item_cost : 0;
    }
    return cost < GR_COST_MOST ? (uint32_t)cost : GR_COST_MOST;
}

/* A path through the grammar: its calls, above the stacks of a configuration. */
struct path {
    struct gr_top top;
    uint32_t *rets;
    size_t num_rets, cap_rets;
};

/* Returns from a rule to the caller with the least cost. Returns false at the end of the text. */
static bool path_return(const struct matcher *m, struct path *path)
{
    const struct stack_set *set = &m->store.stacks[path->top.stack];
    uint32_t best = UINT32_MAX;
    path->top.count = 0;
    if (path->num_rets) {
        path->top.state = path->rets[--path->num_rets];
        return true;
    }
    if (set->has_bottom)
        return false;
    for (uint32_t i = 0; i < set->count; i++) {
        struct stack_entry entry = m->store.entries[set->first + i];
        uint32_t cost = m->grammar->states[entry.ret].cost + m->store.stacks[entry.below].cost;
        if (cost < best) {
            best = cost;
            path->top = (struct gr_top){entry.ret, 0, entry.below};
        }
    }
    return true;
}

/* Returns a byte of an edge: a letter or another printable one if possible. */
static uint8_t plain_byte(const struct gr_byte_edge *edge)
{
    if (edge->first <= 'a' && 'a' <= edge->last)
        return 'a';
    return edge->first < ' ' && ' ' <= edge->last ? ' ' : edge->first;
}

/* Follows the cheapest edge of a state. Returns false if it is a token, or on failure. */
static bool path_follow(const struct matcher *m, struct path *path, struct dgl_buf *out)
{
    const struct grammar *g = m->grammar;
    const struct gr_state *state = &g->states[path->top.state];
    const struct gr_byte_edge *byte = NULL;
    const struct gr_call_edge *call = NULL;
    uint32_t best = UINT32_MAX;
    for (uint32_t e = state->first_byte; e < state[1].first_byte; e++) {
        uint32_t cost = g->bytes[e].counts ? 1 : 1 + g->states[g->bytes[e].target].cost;
        if (cost < best || (cost == best && byte && plain_byte(byte) < ' ')) {
            best = cost;
            byte = &g->bytes[e];
        }
    }
    for (uint32_t e = state->first_call; e < state[1].first_call; e++) {
        uint32_t cost = grammar_entry_cost(g, g->calls[e].entry);
        /* A rule that may be empty is not called for that: the state has the edges after it. */
        if (!cost)
            continue;
        if (g->calls[e].ret != GR_TAIL)
            cost += g->states[g->calls[e].ret].cost;
        if (cost < best) {
            best = cost;
            call = &g->calls[e];
        }
    }
    if (!state->counter && state->cost < best)
        return false; /* the way by a token is cheaper */
    if (call) {
        if (call->ret != GR_TAIL) {
            if (!dgl_grow((void **)&path->rets, &path->cap_rets, path->num_rets + 1,
                          sizeof(*path->rets)))
                return false;
            path->rets[path->num_rets++] = call->ret;
        }
        path->top.state = call->entry;
        path->top.count = 0;
        return true;
    }
    if (!byte)
        return false;
    dgl_buf_putc(out, (char)plain_byte(byte));
    path->top.state = byte->target;
    path->top.count += byte->counts;
    return !out->failed;
}

bool matcher_completion(const struct matcher *m, size_t most, struct dgl_buf *out)
{
    const struct grammar *g = m->grammar;
    const struct gr_conf *conf = &m->store.confs[m->conf];
    struct path path = {0};
    size_t start_len = out->len;
    uint32_t best = UINT32_MAX;
    bool ok = conf->may_end;
    if (ok)
        return true;
    for (uint32_t i = 0; i < conf->count; i++) {
        struct gr_top top = m->store.tops[conf->first + i];
        uint32_t cost = top_cost(g, top.state, top.count) + m->store.stacks[top.stack].cost;
        if (cost < best) {
            best = cost;
            path.top = top;
        }
    }
    while (best != UINT32_MAX && path.num_rets <= most && out->len - start_len <= most) {
        bool ends = !top_cost(g, path.top.state, path.top.count);
        if (ends && !path_return(m, &path)) {
            ok = out->len - start_len <= most;
            break;
        }
        if (!ends && !path_follow(m, &path, out))
            break;
    }
    free(path.rets);
    return ok && !out->failed;
}

/* --- marks --- */

enum dgl_status matcher_mark(struct matcher *m, uint32_t *mark)
{
    if (m->num_marks >= MATCHER_MAX_MARKS)
        return dgl_fail(m->log, DGL_ERR_INVALID_ARG, "grammar: %u marks are in use, at most %u",
                        m->num_marks - 1, MATCHER_MAX_MARKS - 1);
    *mark = m->num_marks++;
    m->marks[*mark].conf = m->conf;
    m->marks[*mark].offset = m->offset;
    return DGL_OK;
}

void matcher_rewind(struct matcher *m, uint32_t mark)
{
    m->conf = m->marks[mark].conf;
    m->offset = m->marks[mark].offset;
    m->num_marks = mark + 1;
}

void matcher_drop_marks(struct matcher *m)
{
    m->num_marks = 1;
}
