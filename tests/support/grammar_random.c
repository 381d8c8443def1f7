/* Random grammars: few rules over a small alphabet, so that texts meet every part. */
#include "tests/support/grammar_random.h"

#include <stdlib.h>

#include "core/base/mem.h"

enum { MAX_RULES = 5 };

static const char *const pieces[] = {"a",
                                     "b",
                                     "c",
                                     "ab",
                                     "abc",
                                     "ba",
                                     "\"",
                                     "\\",
                                     "1",
                                     "z",
                                     "\xC3\xA9",
                                     "\xE2\x82\xAC",
                                     "\xF0\x9F\x98\x80",
                                     " ",
                                     "\n"};
#define NUM_PIECES (sizeof(pieces) / sizeof(*pieces))

static uint32_t below(uint64_t *seed, uint32_t count)
{
    return (uint32_t)(test_rand(seed) % count);
}

static struct gr_expr random_class(struct grammar_builder *b, uint64_t *seed)
{
    static const struct gr_cp_range ranges[][2] = {
        {{'a', 'z'}, {'a', 'a'}},      {{'"', '"'}, {'\\', '\\'}}, {{'a', 'b'}, {'1', '9'}},
        {{0, 0x7F}, {0xE9, 0xE9}},     {{0, 0x10FFFF}, {0, 0}},    {{'b', 'c'}, {0xE9, 0x20AC}},
        {{0x20AC, 0x20AC}, {'z', 'z'}}};
    return gr_class(b, ranges[below(seed, 7)], 2, below(seed, 3) == 0);
}

static struct gr_expr random_expr(struct grammar_builder *b, const struct gr_rule *rules,
                                  uint32_t num_rules, uint32_t depth, uint64_t *seed)
{
    struct gr_expr items[3], item;
    uint32_t kind = below(seed, depth ? 12 : 5), count = 2 + below(seed, 2), min, max;
    switch (kind) {
    case 0:
    case 1:
        return gr_literal(b, dgl_str_of(pieces[below(seed, NUM_PIECES)]));
    case 2:
        return random_class(b, seed);
    case 3:
        return gr_call(b, rules[below(seed, num_rules)]);
    case 4:
        return below(seed, 4) ? gr_any(b) : below(seed, 2) ? gr_empty(b) : gr_never(b);
    case 5:
    case 6:
    case 7:
        for (uint32_t i = 0; i < count; i++)
            items[i] = random_expr(b, rules, num_rules, depth - 1, seed);
        return gr_seq(b, items, count);
    case 8:
    case 9:
        for (uint32_t i = 0; i < count; i++)
            items[i] = random_expr(b, rules, num_rules, depth - 1, seed);
        return gr_alt(b, items, count);
    case 10:
        item = random_expr(b, rules, num_rules, depth - 1, seed);
        min = below(seed, 3);
        max = min + below(seed, below(seed, 4) ? 4 : 25);
        return gr_repeat(b, item, min, below(seed, 3) ? max : GR_UNBOUNDED);
    default:
        /* A repeat of characters, perhaps with escapes: often counted. */
        item = random_class(b, seed);
        if (below(seed, 2)) {
            static const struct gr_cp_range plain[] = {{'"', '"'}, {'\\', '\\'}};
            static const struct gr_cp_range escaped[] = {{'b', 'c'}, {'"', '"'}};
            item =
                gr_alt2(b, gr_class(b, plain, 2, true),
                        gr_seq2(b, gr_literal(b, DGL_STR("\\")), gr_class(b, escaped, 2, false)));
        }
        if (!below(seed, 4))
            item = gr_seq2(b, gr_repeat(b, item, below(seed, 2), GR_UNBOUNDED),
                           gr_literal(b, dgl_str_of(pieces[below(seed, NUM_PIECES)])));
        min = below(seed, 5);
        return gr_repeat(b, item, min, below(seed, 3) ? min + below(seed, 20) : GR_UNBOUNDED);
    }
}

bool grammar_random(struct grammar_case *c, uint64_t *seed)
{
    struct gr_rule rules[MAX_RULES];
    uint32_t num_rules = 1 + below(seed, MAX_RULES);
    grammar_case_begin(c);
    for (uint32_t i = 0; i < num_rules; i++) {
        char name[2] = {(char)('a' + i), '\0'};
        rules[i] = gr_rule_new(c->b, dgl_str_of(name));
    }
    for (uint32_t i = 0; i < num_rules; i++)
        gr_rule_set(c->b, rules[i], random_expr(c->b, rules, num_rules, 3, seed));
    c->root = rules[0];
    return grammar_compile(c->b, c->root, &c->grammar) == DGL_OK &&
           matcher_create(&c->t.log, c->grammar, &c->m) == DGL_OK;
}

static void add_token(struct grammar_vocabulary *v, const void *bytes, size_t len)
{
    dgl_buf_append(&v->bytes, bytes, len);
    v->offsets[++v->num_tokens] = (uint32_t)v->bytes.len;
}

/* The last token ends the sequence. */
static void make_trie(struct grammar_vocabulary *v)
{
    struct test_log t;
    test_log_init(&t, DGL_LOG_ERROR);
    v->end_id = v->num_tokens;
    add_token(v, "</s>", 4);
    assert_false(v->bytes.failed);
    struct token_spellings spellings = {.num_tokens = v->num_tokens,
                                        .bytes = (const uint8_t *)v->bytes.p,
                                        .offsets = v->offsets,
                                        .end_ids = &v->end_id,
                                        .num_end_ids = 1};
    if (token_trie_create(&t.log, &spellings, &v->trie) != DGL_OK)
        fail_msg("%s", t.text);
}

void grammar_vocabulary_random(struct grammar_vocabulary *v, int32_t others, uint64_t *seed)
{
    *v = (struct grammar_vocabulary){0};
    v->offsets = checked(dgl_new_array(uint32_t, 256 + (size_t)others + 2));
    for (int byte = 0; byte < 256; byte++)
        add_token(v, &(uint8_t){(uint8_t)byte}, 1);
    for (int32_t i = 0; i < others; i++) {
        struct dgl_buf text = {0};
        for (uint32_t k = 1 + below(seed, 5); k > 0; k--)
            dgl_buf_puts(&text, pieces[below(seed, NUM_PIECES)]);
        /* Some begin or end within a character. */
        size_t skip = below(seed, 4) ? 0 : below(seed, 2), cut = below(seed, 4) ? 0 : 1;
        if (text.len > skip + cut)
            add_token(v, text.p + skip, text.len - skip - cut);
        else
            add_token(v, "", 0);
        dgl_buf_finish(&text);
    }
    make_trie(v);
}

void grammar_vocabulary_of(struct grammar_vocabulary *v, const char *const *tokens)
{
    size_t count = 0;
    while (tokens[count])
        count++;
    *v = (struct grammar_vocabulary){0};
    v->offsets = checked(dgl_new_array(uint32_t, count + 2));
    for (size_t i = 0; i < count; i++)
        add_token(v, tokens[i], strlen(tokens[i]));
    make_trie(v);
}

void grammar_vocabulary_finish(struct grammar_vocabulary *v)
{
    token_trie_destroy(&v->trie);
    dgl_buf_finish(&v->bytes);
    free(v->offsets);
}

struct dgl_str grammar_vocabulary_spelling(const struct grammar_vocabulary *v, int32_t id)
{
    return (struct dgl_str){v->bytes.p + v->offsets[id], v->offsets[id + 1] - v->offsets[id]};
}
