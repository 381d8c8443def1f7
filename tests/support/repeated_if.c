/* The search for repeated conditions, in SPIR-V as glslang and spirv-opt make it of a text. */
#include "tests/support/repeated_if.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/support/test.h"

/* Opcodes of SPIR-V. */
enum {
    OP_NAME = 5,
    OP_LINE = 8,
    OP_CONSTANT = 43,
    OP_FUNCTION = 54,
    OP_FUNCTION_END = 56,
    OP_LOAD = 61,
    OP_STORE = 62,
    OP_COPY_MEMORY = 63,
    OP_LOGICAL_NOT = 168,
    OP_COMPARE_FIRST = 170,
    OP_COMPARE_LAST = 191,
    OP_BARRIER = 224,
    OP_MEMORY_BARRIER = 225,
    OP_ATOMIC_FIRST = 227,
    OP_ATOMIC_LAST = 242,
    OP_PHI = 245,
    OP_LOOP_MERGE = 246,
    OP_SELECTION_MERGE = 247,
    OP_LABEL = 248,
    OP_BRANCH = 249,
    OP_BRANCH_CONDITIONAL = 250,
    OP_SWITCH = 251,
};

struct module {
    uint32_t *words;
    size_t count, bound;
    size_t *made_at; /* by id: word of the instruction that makes it; 0 = none */
};

struct block {
    uint32_t label;
    size_t first, last; /* words of its first instruction, and of the one that ends it */
    uint32_t merge;     /* of a selection; 0 = none */
    unsigned line;      /* of the end */
};

struct graph {
    const struct module *m;
    struct block *blocks;
    size_t count;
    uint32_t *index;  /* by label: block + 1 */
    size_t *block_at; /* by word: block + 1 */
};

static uint32_t opcode(const struct module *m, size_t at)
{
    return m->words[at] & 0xffffu;
}

static size_t next_at(const struct module *m, size_t at)
{
    return at + (m->words[at] >> 16);
}

static bool module_read(const char *path, struct module *m)
{
    FILE *file = fopen(path, "rb");
    *m = (struct module){0};
    if (!file)
        return false;
    assert_int_equal(fseek(file, 0, SEEK_END), 0);
    m->count = (size_t)ftell(file) / 4;
    rewind(file);
    m->words = checked(calloc(m->count + 1, 4));
    m->count = fread(m->words, 4, m->count, file);
    fclose(file);
    m->bound = m->count > 5 ? m->words[3] : 0;
    m->made_at = checked(calloc(m->bound + 1, sizeof(*m->made_at)));
    for (size_t at = 5; at < m->count && m->words[at] >> 16; at = next_at(m, at)) {
        const uint32_t op = opcode(m, at), len = m->words[at] >> 16;
        const bool typed = op == OP_CONSTANT || op == OP_LOAD || op == OP_PHI || op == 59 ||
                           op == 65 || (op >= 77 && op <= 221) ||
                           (op >= OP_ATOMIC_FIRST && op <= OP_ATOMIC_LAST && op != 228);
        if (typed && len >= 3 && m->words[at + 2] < m->bound)
            m->made_at[m->words[at + 2]] = at;
    }
    return true;
}

static void module_free(struct module *m)
{
    free(m->words);
    free(m->made_at);
}

/* The name that the text gives an id; "": none. */
static const char *name_of(const struct module *m, uint32_t id)
{
    for (size_t at = 5; at < m->count && opcode(m, at) != OP_FUNCTION; at = next_at(m, at))
        if (opcode(m, at) == OP_NAME && m->words[at + 1] == id)
            return (const char *)&m->words[at + 2];
    return "";
}

/* The variable that a value is stored in, where variables are still there. */
static const char *variable_of(const struct module *m, uint32_t value)
{
    for (size_t at = 5; at < m->count && m->words[at] >> 16; at = next_at(m, at))
        if (opcode(m, at) == OP_STORE && m->words[at + 2] == value &&
            name_of(m, m->words[at + 1])[0])
            return name_of(m, m->words[at + 1]);
    return "";
}

/* Short loops with a constant bound are marked, so that spirv-opt writes them out. */
static void mark_short_loops(struct module *m)
{
    for (size_t at = 5; at < m->count && m->words[at] >> 16; at = next_at(m, at)) {
        size_t end = next_at(m, at);
        if (opcode(m, at) != OP_LOOP_MERGE || end >= m->count)
            continue;
        /* glslang places the condition in the block after the header. */
        if (opcode(m, end) == OP_BRANCH)
            for (end = next_at(m, end); end < m->count && m->words[end] >> 16;
                 end = next_at(m, end))
                if (opcode(m, end) >= OP_BRANCH && opcode(m, end) <= 255)
                    break;
        if (end >= m->count || opcode(m, end) != OP_BRANCH_CONDITIONAL)
            continue;
        const size_t compare = m->made_at[m->words[end + 1]];
        const size_t bound = compare ? m->made_at[m->words[compare + 4]] : 0;
        if (bound && opcode(m, bound) == OP_CONSTANT && m->words[bound + 3] <= 8)
            m->words[at + 3] |= 1u;
    }
}

static void graph_make(const struct module *m, struct graph *g)
{
    unsigned line = 0;
    *g = (struct graph){.m = m};
    g->blocks = checked(calloc(m->count + 1, sizeof(*g->blocks)));
    g->index = checked(calloc(m->bound + 1, sizeof(*g->index)));
    g->block_at = checked(calloc(m->count + 1, sizeof(*g->block_at)));
    struct block *block = NULL;
    for (size_t at = 5; at < m->count && m->words[at] >> 16; at = next_at(m, at)) {
        const uint32_t op = opcode(m, at);
        if (op == OP_LINE)
            line = m->words[at + 2];
        if (op == OP_LABEL) {
            block = &g->blocks[g->count++];
            *block = (struct block){.label = m->words[at + 1], .first = next_at(m, at)};
            g->index[block->label] = (uint32_t)g->count;
        }
        if (!block)
            continue;
        g->block_at[at] = g->count;
        if (op == OP_SELECTION_MERGE)
            block->merge = m->words[at + 1];
        if (op >= OP_BRANCH && op <= 255) {
            block->last = at;
            block->line = line;
            block = NULL;
        }
    }
}

static void graph_free(struct graph *g)
{
    free(g->blocks);
    free(g->index);
    free(g->block_at);
}

/* Marks the blocks from `label` on that come before `merge`. */
static void mark_leg(const struct graph *g, uint32_t label, uint32_t merge, bool *in)
{
    const uint32_t b = g->index[label];
    if (label == merge || b == 0 || in[b - 1])
        return;
    in[b - 1] = true;
    const size_t at = g->blocks[b - 1].last;
    const uint32_t op = opcode(g->m, at);
    if (op == OP_BRANCH)
        mark_leg(g, g->m->words[at + 1], merge, in);
    if (op == OP_BRANCH_CONDITIONAL) {
        mark_leg(g, g->m->words[at + 2], merge, in);
        mark_leg(g, g->m->words[at + 3], merge, in);
    }
    for (size_t i = at + 2; op == OP_SWITCH && i < next_at(g->m, at); i += 2)
        mark_leg(g, g->m->words[i], merge, in);
}

/* The condition without the negations around it. */
static uint32_t bare_condition(const struct module *m, uint32_t id)
{
    while (m->made_at[id] && opcode(m, m->made_at[id]) == OP_LOGICAL_NOT)
        id = m->words[m->made_at[id] + 3];
    return id;
}

static bool touches_memory(const struct graph *g, const struct block *b)
{
    for (size_t at = b->first; at < b->last; at = next_at(g->m, at)) {
        const uint32_t op = opcode(g->m, at);
        if (op == OP_LOAD || op == OP_STORE || op == OP_COPY_MEMORY || op == OP_BARRIER ||
            op == OP_MEMORY_BARRIER || (op >= OP_ATOMIC_FIRST && op <= OP_ATOMIC_LAST))
            return true;
    }
    return false;
}

/* Every use of the phi is in one leg of the `if` that ends block b. */
static bool used_in_one_leg(const struct graph *g, const struct block *b, uint32_t phi)
{
    const struct module *m = g->m;
    bool *legs[2], used[2] = {false, false}, outside = false;
    for (int i = 0; i < 2; i++) {
        legs[i] = checked(calloc(g->count, sizeof(bool)));
        mark_leg(g, m->words[b->last + 2 + (size_t)i], b->merge, legs[i]);
    }
    for (size_t k = 0; k < g->count; k++)
        for (size_t at = g->blocks[k].first; at <= g->blocks[k].last; at = next_at(m, at)) {
            const uint32_t op = opcode(m, at);
            const bool made = at == m->made_at[phi];
            for (size_t w = at + 1; w < next_at(m, at) && op != OP_LINE; w++) {
                if (m->words[w] != phi || made)
                    continue;
                /* A phi uses a value at the end of the block that it comes from. */
                const size_t where = op == OP_PHI ? g->index[m->words[w + 1]] - 1 : k;
                const int leg = legs[0][where] ? 0 : legs[1][where] ? 1 : -1;
                if (leg < 0)
                    outside = true;
                else
                    used[leg] = true;
            }
        }
    free(legs[0]);
    free(legs[1]);
    return !outside && used[0] != used[1];
}

static void describe(const struct graph *g, const struct module *named, const struct block *b,
                     size_t phi, struct repeated_if *out)
{
    const struct module *m = g->m;
    const uint32_t condition = bare_condition(m, m->words[b->last + 1]);
    const size_t compare = m->made_at[condition];
    const char *variable = "", *left = "";
    for (size_t w = phi + 3; w < next_at(m, phi) && !variable[0]; w += 2)
        variable = variable_of(named, m->words[w]);
    if (compare && opcode(m, compare) >= OP_COMPARE_FIRST && opcode(m, compare) <= OP_COMPARE_LAST)
        left = variable_of(named, m->words[compare + 3]);
    if (!left[0])
        left = variable_of(named, condition);
    out->line = b->line;
    snprintf(out->variable, sizeof(out->variable), "%s", variable[0] ? variable : "?");
    snprintf(out->condition, sizeof(out->condition), "%s", left[0] ? left : "?");
}

/* The later `if` over the condition of `head` that alone uses the phi; NULL if there is none. Mesa
 * merges `if`s of one condition as long as nothing between them accesses memory. */
static const struct block *later_if(const struct graph *g, const struct block *head, size_t phi)
{
    const struct module *m = g->m;
    const uint32_t condition = bare_condition(m, m->words[head->last + 1]);
    const struct block *b = head;
    do {
        if (g->index[b->merge] == 0)
            return NULL;
        b = &g->blocks[g->index[b->merge] - 1];
        if (!b->merge || opcode(m, b->last) != OP_BRANCH_CONDITIONAL ||
            bare_condition(m, m->words[b->last + 1]) != condition)
            return NULL;
    } while (!touches_memory(g, b));
    return used_in_one_leg(g, b, m->words[phi + 2]) ? b : NULL;
}

static int search(const struct module *m, const struct module *named, struct repeated_if *found,
                  size_t cap)
{
    struct graph g;
    int count = 0;
    graph_make(m, &g);
    for (size_t h = 0; h < g.count; h++) {
        const struct block *head = &g.blocks[h];
        const uint32_t next = head->merge ? g.index[head->merge] : 0;
        if (!next || opcode(m, head->last) != OP_BRANCH_CONDITIONAL)
            continue;
        const struct block *merge = &g.blocks[next - 1];
        for (size_t at = merge->first; at < merge->last; at = next_at(m, at)) {
            const struct block *b = opcode(m, at) == OP_PHI ? later_if(&g, head, at) : NULL;
            if (!b)
                continue;
            if ((size_t)count < cap)
                describe(&g, named, b, at, &found[count]);
            count++;
        }
    }
    graph_free(&g);
    return count;
}

static int run(const char *command, char why[512])
{
    FILE *pipe = popen(command, "r");
    assert_non_null(pipe);
    size_t len = fread(why, 1, 511, pipe);
    why[len] = '\0';
    while (fgetc(pipe) != EOF)
        ;
    return pclose(pipe);
}

bool repeated_if_can_look(void)
{
    return system("command -v glslangValidator > /dev/null && command -v spirv-opt > /dev/null") ==
           0;
}

int repeated_if_look(const char *glsl, struct repeated_if *found, size_t cap, char why[512])
{
    struct module named = {0}, looped = {0}, m = {0};
    char command[1024], path[512];
    char *dir = test_tmpdir();
    int count = -1;
    test_write_file(dir, "x.comp", glsl, strlen(glsl));
    snprintf(command, sizeof(command),
             "cd %s && ulimit -s unlimited && glslangValidator -V -g x.comp -o a.spv && spirv-opt "
             "--inline-entry-points-exhaustive --eliminate-dead-functions --private-to-local "
             "a.spv -o b.spv && spirv-opt --convert-local-access-chains "
             "--eliminate-dead-code-aggressive --ssa-rewrite --ccp b.spv "
             "-o c.spv 2>&1",
             dir);
    if (run(command, why) != 0)
        goto done;
    snprintf(path, sizeof(path), "%s/b.spv", dir);
    assert_true(module_read(path, &named));
    snprintf(path, sizeof(path), "%s/c.spv", dir);
    assert_true(module_read(path, &looped));
    mark_short_loops(&looped);
    test_write_file(dir, "d.spv", looped.words, looped.count * 4);
    /* spirv-opt of Debian 12 crashes on some loops: those texts are looked at as they are. */
    snprintf(command, sizeof(command),
             "cd %s && ulimit -s unlimited && REST='--scalar-replacement=100 "
             "--convert-local-access-chains "
             "--eliminate-dead-code-aggressive --ssa-rewrite --ccp "
             "--redundancy-elimination --eliminate-dead-branches --merge-blocks' && "
             "(spirv-opt --loop-unroll --ccp $REST d.spv -o e.spv > /dev/null 2>&1 || "
             "spirv-opt $REST c.spv -o e.spv 2>&1)",
             dir);
    if (run(command, why) != 0)
        goto done;
    snprintf(path, sizeof(path), "%s/e.spv", dir);
    assert_true(module_read(path, &m));
    count = search(&m, &named, found, cap);
done:
    module_free(&named);
    module_free(&looped);
    module_free(&m);
    test_tmpdir_remove(dir);
    return count;
}
