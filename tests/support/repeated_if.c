/* Searches the SPIR-V of a shader for repeated conditions. glslang compiles the shader. spirv-opt
 * inlines functions, unrolls short loops, turns variables into phis and merges equal expressions.
 *
 * Such a place has these parts: an `if`; a phi after it, which is the value; a second `if` with the
 * same condition; every use of the phi in one branch of the second `if`. */
#include "tests/support/repeated_if.h"

#include <ctype.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/support/test.h"

/* Opcodes of SPIR-V. */
enum {
    OP_LINE = 8,
    OP_CONSTANT = 43,
    OP_VARIABLE = 59,
    OP_LOAD = 61,
    OP_STORE = 62,
    OP_COPY_MEMORY = 63,
    OP_ACCESS_CHAIN = 65,
    OP_VALUE_FIRST = 77, /* first and last of the opcodes that compute a value */
    OP_SHUFFLE = 79,
    OP_EXTRACT = 81,
    OP_INSERT = 82,
    OP_LOGICAL_NOT = 168,
    OP_VALUE_LAST = 221,
    OP_BARRIER = 224,
    OP_MEMORY_BARRIER = 225,
    OP_ATOMIC_FIRST = 227,
    OP_ATOMIC_STORE = 228,
    OP_ATOMIC_LAST = 242,
    OP_PHI = 245,
    OP_LOOP_MERGE = 246,
    OP_SELECTION_MERGE = 247,
    OP_LABEL = 248,
    OP_BRANCH = 249,
    OP_BRANCH_CONDITIONAL = 250,
    OP_SWITCH = 251,
    OP_END_LAST = 255, /* OP_BRANCH to here: the last instruction of a block */
};

#define HEADER_WORDS 5
/* Loops with this constant bound or a smaller one are unrolled. */
#define SHORT_LOOP 8
/* Phis that lead to one value, and computations on the way to a condition. */
#define MAX_PHIS  64
#define MAX_DEPTH 8

struct module {
    uint32_t *words;
    size_t count, bound;
    size_t *made_at; /* by id: index of the instruction that computes it, or 0 */
};

struct block {
    uint32_t label;
    size_t first, last; /* indexes of the first and the last instruction */
    uint32_t merge;     /* label after the `if` that ends the block, or 0 */
    unsigned line;      /* of the last instruction */
};

struct graph {
    const struct module *m;
    struct block *blocks;
    size_t count;
    uint32_t *index; /* by label: index of the block + 1 */
};

static uint32_t opcode(const struct module *m, size_t at)
{
    return m->words[at] & 0xffffu;
}

static size_t next_at(const struct module *m, size_t at)
{
    return at + (m->words[at] >> 16);
}

static bool is_in(const struct module *m, size_t at)
{
    return at < m->count && m->words[at] >> 16;
}

static bool module_read(const char *dir, const char *name, struct module *m)
{
    char path[512];
    snprintf(path, sizeof(path), "%s/%s", dir, name);
    FILE *file = fopen(path, "rb");
    *m = (struct module){0};
    if (!file || fseek(file, 0, SEEK_END) != 0)
        goto failed;
    m->count = (size_t)ftell(file) / 4;
    rewind(file);
    m->words = calloc(m->count + 1, 4);
    if (!m->words || m->count < HEADER_WORDS || fread(m->words, 4, m->count, file) != m->count)
        goto failed;
    m->bound = m->words[3];
    m->made_at = calloc(m->bound + 1, sizeof(*m->made_at));
    if (!m->made_at)
        goto failed;
    for (size_t at = HEADER_WORDS; is_in(m, at); at = next_at(m, at)) {
        const uint32_t op = opcode(m, at), len = m->words[at] >> 16;
        const bool computes =
            op == OP_CONSTANT || op == OP_LOAD || op == OP_PHI || op == OP_VARIABLE ||
            op == OP_ACCESS_CHAIN || (op >= OP_VALUE_FIRST && op <= OP_VALUE_LAST) ||
            (op >= OP_ATOMIC_FIRST && op <= OP_ATOMIC_LAST && op != OP_ATOMIC_STORE);
        if (computes && len >= 3 && m->words[at + 2] < m->bound)
            m->made_at[m->words[at + 2]] = at;
    }
    fclose(file);
    return true;
failed:
    if (file)
        fclose(file);
    return false;
}

static void module_free(struct module *m)
{
    free(m->words);
    free(m->made_at);
}

/* Marks short loops, because spirv-opt unrolls only marked loops. */
static void mark_short_loops(struct module *m)
{
    for (size_t at = HEADER_WORDS; is_in(m, at); at = next_at(m, at)) {
        size_t end = next_at(m, at);
        if (opcode(m, at) != OP_LOOP_MERGE || !is_in(m, end))
            continue;
        /* glslang places the condition in the block after the header. */
        if (opcode(m, end) == OP_BRANCH)
            for (end = next_at(m, end); is_in(m, end); end = next_at(m, end))
                if (opcode(m, end) >= OP_BRANCH && opcode(m, end) <= OP_END_LAST)
                    break;
        if (!is_in(m, end) || opcode(m, end) != OP_BRANCH_CONDITIONAL)
            continue;
        const size_t compare = m->made_at[m->words[end + 1]];
        /* A condition with one operand, such as a load, has no bound. */
        const uint32_t id = compare && m->words[compare] >> 16 > 4 ? m->words[compare + 4] : 0;
        const size_t bound = id < m->bound ? m->made_at[id] : 0;
        if (bound && opcode(m, bound) == OP_CONSTANT && m->words[bound + 3] <= SHORT_LOOP)
            m->words[at + 3] |= 1u;
    }
}

static void graph_make(const struct module *m, struct graph *g)
{
    unsigned line = 0;
    *g = (struct graph){.m = m};
    g->blocks = checked(calloc(m->count + 1, sizeof(*g->blocks)));
    g->index = checked(calloc(m->bound + 1, sizeof(*g->index)));
    struct block *block = NULL;
    for (size_t at = HEADER_WORDS; is_in(m, at); at = next_at(m, at)) {
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
        if (op == OP_SELECTION_MERGE)
            block->merge = m->words[at + 1];
        if (op >= OP_BRANCH && op <= OP_END_LAST) {
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
}

/* Marks the blocks of the branch that begins at `label` and ends before `merge`. */
static void mark_branch(const struct graph *g, uint32_t label, uint32_t merge, bool *in)
{
    const uint32_t b = g->index[label];
    if (label == merge || b == 0 || in[b - 1])
        return;
    in[b - 1] = true;
    const size_t at = g->blocks[b - 1].last;
    const uint32_t op = opcode(g->m, at);
    if (op == OP_BRANCH)
        mark_branch(g, g->m->words[at + 1], merge, in);
    if (op == OP_BRANCH_CONDITIONAL) {
        mark_branch(g, g->m->words[at + 2], merge, in);
        mark_branch(g, g->m->words[at + 3], merge, in);
    }
    for (size_t i = at + 2; op == OP_SWITCH && i < next_at(g->m, at); i += 2)
        mark_branch(g, g->m->words[i], merge, in);
}

/* Returns the only value from outside that reaches a set of phis. Returns `id` if there are more
 * values or `id` is not a phi. Unrolled loops leave phis that select between equal values. */
static uint32_t behind_phis(const struct module *m, uint32_t id)
{
    uint32_t phis[MAX_PHIS] = {id}, value = 0;
    size_t count = 1;
    if (!m->made_at[id] || opcode(m, m->made_at[id]) != OP_PHI)
        return id;
    for (size_t i = 0; i < count; i++) {
        const size_t phi = m->made_at[phis[i]];
        for (size_t w = phi + 3; w < next_at(m, phi); w += 2) {
            const uint32_t source = m->words[w];
            size_t k = 0;
            if (!m->made_at[source] || opcode(m, m->made_at[source]) != OP_PHI) {
                if (value && value != source)
                    return id;
                value = source;
                continue;
            }
            while (k < count && phis[k] != source)
                k++;
            if (k == MAX_PHIS)
                return id;
            if (k == count)
                phis[count++] = source;
        }
    }
    return value ? value : id;
}

/* Returns true if two values are equal because they have the same computation. */
static bool equal_values(const struct module *m, uint32_t a, uint32_t b, int depth)
{
    if (a >= m->bound || b >= m->bound)
        return false;
    a = behind_phis(m, a);
    b = behind_phis(m, b);
    if (a == b)
        return true;
    const size_t at = m->made_at[a], other = m->made_at[b];
    if (!at || !other || m->words[at] != m->words[other] || m->words[at + 1] != m->words[other + 1])
        return false;
    const uint32_t op = opcode(m, at);
    if (op < OP_VALUE_FIRST || op > OP_VALUE_LAST || depth == 0)
        return false;
    /* These instructions have literal numbers after their operands. */
    const size_t ids = op == OP_EXTRACT ? 1 : op == OP_INSERT || op == OP_SHUFFLE ? 2 : SIZE_MAX;
    for (size_t w = 3; at + w < next_at(m, at); w++) {
        const uint32_t x = m->words[at + w], y = m->words[other + w];
        if (x != y && (w - 3 >= ids || !equal_values(m, x, y, depth - 1)))
            return false;
    }
    return true;
}

/* Returns true if the conditions of two `if`s, without their negations, are equal. */
static bool equal_conditions(const struct module *m, const struct block *a, const struct block *b)
{
    uint32_t ids[] = {m->words[a->last + 1], m->words[b->last + 1]};
    for (int i = 0; i < 2; i++)
        while (m->made_at[ids[i]] && opcode(m, m->made_at[ids[i]]) == OP_LOGICAL_NOT)
            ids[i] = m->words[m->made_at[ids[i]] + 3];
    return equal_values(m, ids[0], ids[1], MAX_DEPTH);
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

/* Returns true if every use of the phi is in one branch of the `if` that ends block b. */
static bool used_in_one_branch(const struct graph *g, const struct block *b, uint32_t phi)
{
    const struct module *m = g->m;
    bool *branches[2], used[2] = {false, false}, outside = false;
    for (int i = 0; i < 2; i++) {
        branches[i] = checked(calloc(g->count, sizeof(bool)));
        mark_branch(g, m->words[b->last + 2 + (size_t)i], b->merge, branches[i]);
    }
    for (size_t k = 0; k < g->count; k++)
        for (size_t at = g->blocks[k].first; at <= g->blocks[k].last; at = next_at(m, at)) {
            const uint32_t op = opcode(m, at);
            const bool made = at == m->made_at[phi];
            for (size_t w = at + 1; w < next_at(m, at) && op != OP_LINE; w++) {
                if (m->words[w] != phi || made)
                    continue;
                /* A phi uses a value at the end of the block that defines the value. */
                const size_t where = op == OP_PHI ? g->index[m->words[w + 1]] - 1 : k;
                const int branch = branches[0][where] ? 0 : branches[1][where] ? 1 : -1;
                if (branch < 0)
                    outside = true;
                else
                    used[branch] = true;
            }
        }
    free(branches[0]);
    free(branches[1]);
    return !outside && used[0] != used[1];
}

/* Copies the line with this number, as #line counts, without the spaces around it. */
static void copy_line(const char *glsl, unsigned line, char *out, size_t size)
{
    unsigned number = 1;
    *out = '\0';
    while (*glsl) {
        size_t len = strcspn(glsl, "\n");
        const char *next = glsl[len] ? glsl + len + 1 : glsl + len;
        if (sscanf(glsl, "#line %u", &number) == 1) {
            glsl = next;
            continue;
        }
        if (number++ == line) {
            while (len && isspace((unsigned char)*glsl))
                glsl++, len--;
            snprintf(out, size, "%.*s", (int)len, glsl);
        }
        glsl = next;
    }
}

/* Returns the block of the second `if`, or NULL. It has the condition of `head`, and every use of
 * the phi is in one of its branches. Mesa merges `if`s with the same condition unless there is an
 * access to memory between them. */
static const struct block *second_if(const struct graph *g, const struct block *head, size_t phi)
{
    const struct module *m = g->m;
    const struct block *b = head;
    do {
        if (g->index[b->merge] == 0)
            return NULL;
        b = &g->blocks[g->index[b->merge] - 1];
        if (!b->merge || opcode(m, b->last) != OP_BRANCH_CONDITIONAL ||
            !equal_conditions(m, head, b))
            return NULL;
    } while (!touches_memory(g, b));
    return used_in_one_branch(g, b, m->words[phi + 2]) ? b : NULL;
}

static int search(const struct module *m, const char *glsl, struct repeated_if *first)
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
            const struct block *b = opcode(m, at) == OP_PHI ? second_if(&g, head, at) : NULL;
            if (!b)
                continue;
            if (count++ == 0) {
                first->line = head->line;
                first->second_line = b->line;
                copy_line(glsl, head->line, first->source, sizeof(first->source));
                copy_line(glsl, b->line, first->second_source, sizeof(first->second_source));
            }
        }
    }
    graph_free(&g);
    return count;
}

/* Runs a command in a folder. Returns false with its first output in `why` if it fails. */
static bool run(const char *dir, const char *command, char why[REPEATED_IF_WHY])
{
    char line[1024];
    /* spirv-opt recurses over long functions. */
    snprintf(line, sizeof(line), "cd '%s' && ulimit -s unlimited && (%s) 2>&1", dir, command);
    FILE *pipe = popen(line, "r");
    if (!pipe) {
        snprintf(why, REPEATED_IF_WHY, "cannot start a shell");
        return false;
    }
    size_t len = fread(why, 1, REPEATED_IF_WHY - 1, pipe);
    why[len] = '\0';
    while (fgetc(pipe) != EOF)
        ;
    return pclose(pipe) == 0;
}

bool repeated_if_can_look(void)
{
    return system("command -v glslangValidator > /dev/null && command -v spirv-opt > /dev/null") ==
           0;
}

int repeated_if_look(const char *glsl, struct repeated_if *first, char why[REPEATED_IF_WHY])
{
    static const char compile[] =
        "glslangValidator -V --target-env vulkan1.1 -g x.comp -o a.spv && spirv-opt "
        "--inline-entry-points-exhaustive "
        "--eliminate-dead-functions --private-to-local --convert-local-access-chains "
        "--eliminate-dead-code-aggressive --ssa-rewrite --ccp a.spv -o b.spv";
    /* spirv-opt of Debian 12 crashes on some loops. Those texts are examined without unrolling. */
    static const char optimize[] =
        "rest='--scalar-replacement=100 --convert-local-access-chains "
        "--eliminate-dead-code-aggressive --ssa-rewrite --ccp --redundancy-elimination "
        "--eliminate-dead-branches --merge-blocks'; "
        "spirv-opt --loop-unroll --ccp $rest c.spv -o d.spv > /dev/null 2>&1 || "
        "spirv-opt $rest b.spv -o d.spv";
    struct module compiled = {0}, optimized = {0};
    char *dir = test_tmpdir();
    int count = -1;
    *first = (struct repeated_if){0};
    test_write_file(dir, "x.comp", glsl, strlen(glsl));
    if (!run(dir, compile, why) || !module_read(dir, "b.spv", &compiled))
        goto done;
    mark_short_loops(&compiled);
    test_write_file(dir, "c.spv", compiled.words, compiled.count * 4);
    if (run(dir, optimize, why) && module_read(dir, "d.spv", &optimized))
        count = search(&optimized, glsl, first);
done:
    module_free(&compiled);
    module_free(&optimized);
    test_tmpdir_remove(dir);
    return count;
}
