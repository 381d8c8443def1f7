/* Masks: every bit against a slow matcher of the source form, or against the bytes of each token,
 * and the language that masks allow against an enumeration. */
#include "tests/support/grammar_random.h"

#include <stdlib.h>

#include "core/base/clock.h"
#include "core/base/file.h"
#include "core/base/mem.h"
#include "core/base/thread.h"
#include "loader/grammar/token_mask.h"
#include "loader/tokenizer/tokenizer.h"
#include "tests/support/grammar_source.h"

static bool has_bit(const uint32_t *bits, int32_t id)
{
    return bits[id / 32] >> id % 32 & 1;
}

/* --- random grammars --- */

enum { GRAMMARS = 400, POINTS = 12, TOKENS = 160 };

/* Compares the mask after a text with the source form. Returns the number of set bits. */
static uint32_t compare_source(struct grammar_source *s, const struct grammar_vocabulary *v,
                               const uint32_t *bits, const struct dgl_buf *text, uint64_t grammar)
{
    uint32_t set = 0;
    for (int32_t id = 0; id < v->num_tokens; id++) {
        struct dgl_str token = grammar_vocabulary_spelling(v, id);
        struct dgl_buf whole = {0};
        bool wanted;
        dgl_buf_append(&whole, text->p, text->len);
        dgl_buf_append(&whole, token.p, token.len);
        if (id == v->end_id)
            wanted = grammar_source_matches(s, text->p, text->len, false);
        else
            wanted = token.len && grammar_source_matches(s, whole.p, whole.len, true);
        if (!s->gave_up && wanted != has_bit(bits, id))
            fail_msg("grammar %llu: after \"%s\" token %d (\"%.*s\") is %s, wanted %s",
                     (unsigned long long)grammar, text->p ? text->p : "", id, (int)token.len,
                     token.p, has_bit(bits, id) ? "allowed" : "not allowed",
                     wanted ? "allowed" : "not allowed");
        set += has_bit(bits, id);
        dgl_buf_finish(&whole);
    }
    return set;
}

/* Returns a random token of a mask that has `set` bits. */
static int32_t pick(const struct grammar_vocabulary *v, const uint32_t *bits, uint32_t set,
                    uint64_t *seed)
{
    uint32_t skip = (uint32_t)(test_rand(seed) % set);
    for (int32_t id = 0; id < v->num_tokens; id++)
        if (has_bit(bits, id) && skip-- == 0)
            return id;
    return -1;
}

/* A shortest completion makes a text of the grammar, and forced bytes are its start. */
static void check_completion(struct grammar_case *c, struct grammar_source *s,
                             const struct dgl_buf *text)
{
    struct dgl_buf whole = {0}, forced = {0};
    dgl_buf_append(&whole, text->p, text->len);
    if (!matcher_completion(c->m, 10000, &whole))
        fail_msg("\"%s\" has no completion", text->p ? text->p : "");
    if (!grammar_source_matches(s, whole.p, whole.len, false) && !s->gave_up)
        fail_msg("\"%s\" completes \"%s\", but is no text of the grammar", whole.p, text->p);
    assert_int_equal(matcher_forced(c->m, 100, &forced), DGL_OK);
    if (forced.len &&
        (whole.len - text->len < forced.len || memcmp(whole.p + text->len, forced.p, forced.len)))
        fail_msg("after \"%s\" the bytes \"%s\" are forced, but \"%s\" is a text", text->p,
                 forced.p, whole.p);
    dgl_buf_finish(&whole);
    dgl_buf_finish(&forced);
}

/* Walks through a grammar by random tokens, and compares each mask. */
static void check_walks(struct grammar_case *c, uint64_t number, uint64_t seed, size_t *compared)
{
    struct grammar_source s;
    struct grammar_vocabulary v;
    struct token_masks *masks = NULL;
    bool ok;
    grammar_source_init(&s, c->b, c->root);
    s.most_steps = 20000;
    grammar_vocabulary_random(&v, TOKENS, &seed);
    assert_int_equal(token_masks_create(&c->t.log, c->grammar, v.trie, &masks), DGL_OK);
    uint32_t *bits = checked(dgl_new_array(uint32_t, token_trie_mask_words(v.trie)));
    for (int walk = 0; walk < 2; walk++) {
        struct dgl_buf text = {0};
        matcher_reset(c->m);
        for (int point = 0; point < POINTS; point++) {
            enum dgl_status status = token_mask(masks, c->m, bits);
            /* Counters in counters may be too ambiguous. */
            if (status != DGL_OK && strstr(c->t.text, "too ambiguous"))
                break;
            if (status != DGL_OK)
                fail_msg("grammar %llu: %s", (unsigned long long)number, c->t.text);
            uint32_t set = compare_source(&s, &v, bits, &text, number);
            check_completion(c, &s, &text);
            ++*compared;
            int32_t id = set ? pick(&v, bits, set, &seed) : v.end_id;
            if (id == v.end_id)
                break;
            struct dgl_str token = grammar_vocabulary_spelling(&v, id);
            assert_int_equal(matcher_advance(c->m, token.p, token.len, &ok), DGL_OK);
            assert_true(ok);
            dgl_buf_append(&text, token.p, token.len);
        }
        dgl_buf_finish(&text);
    }
    free(bits);
    token_masks_destroy(&masks);
    grammar_vocabulary_finish(&v);
    grammar_source_finish(&s);
}

static void test_random(void **state)
{
    size_t compared = 0;
    uint64_t first = 0;
    (void)state;
    test_is_sample(&first);
    for (uint64_t i = first * GRAMMARS; i < (first + 1) * GRAMMARS; i++) {
        uint64_t seed = i * 1000003 + 17;
        struct grammar_case c;
        if (grammar_random(&c, &seed))
            check_walks(&c, i, seed, &compared);
        grammar_case_finish(&c);
    }
    printf("# %zu masks compared\n", compared);
    assert_true(compared > GRAMMARS);
}

/* Grammars as people write them. */
static void test_written(void **state)
{
    static const char *const grammars[] = {
        grammar_json,
        "root ::= (expr \"=\" term \"\\n\")+\nexpr ::= term ([-+*/] term)*\n"
        "term ::= [a-z]+ | [0-9]+ | \"(\" expr \")\"",
        "root ::= \"<\" [a-z]{1,8} \">\" (root | [^<>]){0,40} \"</\" [a-z]{1,8} \">\"",
        "root ::= \"\\\"\" (\"ab\\\"\" | \"abc\\\"\" | [^\"\\\\]* \"\\\"z\")",
    };
    size_t compared = 0;
    (void)state;
    for (uint64_t i = 0; i < 4 * sizeof(grammars) / sizeof(*grammars); i++) {
        struct grammar_case c;
        grammar_case_gbnf(&c, grammars[i / 4]);
        check_walks(&c, i, i + 1, &compared);
        grammar_case_finish(&c);
    }
    assert_true(compared > 40);
}

/* --- enumeration --- */

static const char *const small_tokens[] = {"a", "b",  "ab", "ba", "(",   ")",    "()",
                                           "1", "11", "\"", "\\", "a\"", "\\\"", NULL};
struct language {
    const char *name, *grammar;
};
static const struct language languages[] = {
    {"brackets", "root ::= \"(\" root? \")\" | [ab]{0,3}"},
    {"strings", "root ::= \"\\\"\" ([^\"\\\\()1] | \"\\\\\" [\"\\\\])* \"\\\"\""},
    {"bounded strings", "root ::= \"\\\"\" ([^\"\\\\()1] | \"\\\\\" [\"\\\\]){1,2} \"\\\"\""},
    {"keys", "root ::= \"\\\"\" (\"ab\" \"\\\"1\" | \"a\" \"\\\"11\" | [^\"\\\\]* \"\\\"a\")"},
    {"counted, then its own characters", "root ::= [^\"]{1,3} \"a\" \"1\""},
    {"identifiers", "root ::= [\\x20-\\x60b-\\x7e] [\\x20-\\x7e]* \"\\\"\""},
    {"no small DFA", "root ::= [ab]* \"a\" [ab]{12} \"1\""},
    {"a loop in a counted item", "root ::= ([a1b]+ \"(\" | [^a1b()]+ \")\"){1,2} \"()\""},
    {"ambiguous", "root ::= (\"a\" | \"ab\" | \"b\" | \"aba\")+ \"1\""},
};

/* Counts the texts of up to `left` tokens more that masks allow, and checks each mask. The number
 * of token sequences that the source form allows must be the same. */
static void enumerate(struct grammar_case *c, struct grammar_source *s,
                      const struct token_masks *masks, const struct grammar_vocabulary *v,
                      struct dgl_buf *text, int left, uint64_t counts[2])
{
    uint32_t bits[4], mark;
    size_t len = text->len;
    bool ok;
    assert_int_equal(token_mask(masks, c->m, bits), DGL_OK);
    for (int32_t id = 0; id < v->num_tokens; id++) {
        struct dgl_str token = grammar_vocabulary_spelling(v, id);
        dgl_buf_append(text, token.p, token.len);
        bool wanted = id == v->end_id ? grammar_source_matches(s, text->p, len, false)
                                      : grammar_source_matches(s, text->p, text->len, true);
        counts[0] += has_bit(bits, id);
        counts[1] += wanted;
        if (wanted != has_bit(bits, id))
            fail_msg("\"%s\": %d, wanted %d", text->p, has_bit(bits, id), wanted);
        if (wanted && id != v->end_id && left > 0) {
            assert_int_equal(matcher_mark(c->m, &mark), DGL_OK);
            assert_int_equal(matcher_advance(c->m, token.p, token.len, &ok), DGL_OK);
            assert_true(ok);
            enumerate(c, s, masks, v, text, left - 1, counts);
            matcher_rewind(c->m, mark);
        }
        text->len = len;
    }
}

static void test_enumeration(void **state)
{
    const struct language *row = *state;
    struct grammar_case c;
    struct grammar_source s;
    struct grammar_vocabulary v;
    struct token_masks *masks = NULL;
    struct dgl_buf text = {0};
    uint64_t counts[2] = {0};
    dgl_buf_puts(&text, "");
    grammar_case_gbnf(&c, row->grammar);
    grammar_source_init(&s, c.b, c.root);
    grammar_vocabulary_of(&v, small_tokens);
    assert_int_equal(token_masks_create(&c.t.log, c.grammar, v.trie, &masks), DGL_OK);
    enumerate(&c, &s, masks, &v, &text, 4, counts);
    assert_int_equal(counts[0], counts[1]);
    assert_true(counts[0] > 20);
    dgl_buf_finish(&text);
    token_masks_destroy(&masks);
    grammar_vocabulary_finish(&v);
    grammar_source_finish(&s);
    grammar_case_finish(&c);
}

/* --- named tokens --- */

static void test_named_tokens(void **state)
{
    static const char *const tokens[] = {"<think>", "a", "b", "", "x", NULL};
    struct grammar_case c;
    struct grammar_vocabulary v;
    struct token_masks *masks = NULL;
    uint32_t bits[1];
    bool ok;
    (void)state;
    grammar_case_gbnf(&c, "root ::= <[3]> !<[3]>* <[3]> \"x\"");
    grammar_vocabulary_of(&v, tokens);
    assert_int_equal(token_masks_create(&c.t.log, c.grammar, v.trie, &masks), DGL_OK);
    assert_int_equal(token_mask(masks, c.m, bits), DGL_OK);
    assert_int_equal(bits[0], 1u << 3);
    assert_int_equal(matcher_advance_token(c.m, 3, "", 0, &ok), DGL_OK);
    assert_true(ok);
    assert_int_equal(token_mask(masks, c.m, bits), DGL_OK);
    assert_int_equal(bits[0], 31); /* all but the end */
    assert_int_equal(matcher_advance_end(c.m, v.end_id, &ok), DGL_OK);
    assert_false(ok);
    assert_int_equal(matcher_advance_token(c.m, 1, "a", 1, &ok), DGL_OK);
    assert_true(ok);
    assert_int_equal(matcher_advance_token(c.m, 3, "", 0, &ok), DGL_OK);
    assert_true(ok);
    assert_int_equal(token_mask(masks, c.m, bits), DGL_OK);
    assert_int_equal(bits[0], 1u << 4);
    assert_int_equal(matcher_advance_token(c.m, 4, "x", 1, &ok), DGL_OK);
    assert_true(ok && matcher_must_end(c.m));
    assert_int_equal(token_mask(masks, c.m, bits), DGL_OK);
    assert_int_equal(bits[0], 1u << v.end_id);
    token_masks_destroy(&masks);
    grammar_case_finish(&c);
    /* The end is a part of the text where the grammar names it. */
    grammar_case_gbnf(&c, "root ::= (<[5]> | !<[1]>) \"x\"");
    assert_int_equal(v.end_id, 5);
    assert_int_equal(token_masks_create(&c.t.log, c.grammar, v.trie, &masks), DGL_OK);
    assert_int_equal(token_mask(masks, c.m, bits), DGL_OK);
    assert_int_equal(bits[0], 63 - (1u << 1));
    assert_int_equal(matcher_advance_end(c.m, 4, &ok), DGL_OK);
    assert_false(ok);
    assert_int_equal(matcher_advance_end(c.m, 5, &ok), DGL_OK);
    assert_true(ok);
    token_masks_destroy(&masks);
    grammar_vocabulary_finish(&v);
    grammar_case_finish(&c);
}

/* A vocabulary without the needed byte: the mask fails, with the place. */
static void test_no_token(void **state)
{
    static const char *const tokens[] = {"a", NULL}, *const parts[] = {"no token", "byte 1"};
    struct grammar_case c;
    struct grammar_vocabulary v;
    struct token_masks *masks = NULL;
    uint32_t bits[1];
    bool ok;
    (void)state;
    grammar_case_gbnf(&c, "root ::= \"ab\"");
    grammar_vocabulary_of(&v, tokens);
    assert_int_equal(token_masks_create(&c.t.log, c.grammar, v.trie, &masks), DGL_OK);
    assert_int_equal(matcher_advance(c.m, "a", 1, &ok), DGL_OK);
    assert_refusal(&c.t, token_mask(masks, c.m, bits), DGL_ERR_INVALID_ARG, parts);
    token_masks_destroy(&masks);
    grammar_vocabulary_finish(&v);
    grammar_case_finish(&c);
}

/* --- sharing --- */

struct shared {
    struct grammar *grammar;
    struct token_trie *trie;
    uint32_t bits[8][16]; /* by thread */
};

static enum dgl_status mask_in_thread(void *ctx, size_t index)
{
    struct shared *shared = ctx;
    struct token_masks *masks = NULL;
    struct matcher *m = NULL;
    bool ok;
    enum dgl_status status = token_masks_create(NULL, shared->grammar, shared->trie, &masks);
    if (status == DGL_OK)
        status = matcher_create(NULL, shared->grammar, &m);
    for (int i = 0; i < 50 && status == DGL_OK; i++) {
        status = token_mask(masks, m, shared->bits[index]);
        if (status == DGL_OK)
            status = matcher_advance(m, i ? "a" : "\"", 1, &ok);
    }
    matcher_destroy(&m);
    token_masks_destroy(&masks);
    return status;
}

/* Threads share a grammar and a trie, and make its slices at once. */
static void test_threads(void **state)
{
    struct grammar_case c;
    struct grammar_vocabulary v;
    struct shared shared = {0};
    uint64_t seed = 5;
    (void)state;
    grammar_case_gbnf(&c, "root ::= \"\\\"\" [^\"\\\\]{1,90} \"\\\"\"");
    grammar_vocabulary_random(&v, 200, &seed);
    assert_true(token_trie_mask_words(v.trie) <= 16);
    shared.grammar = c.grammar;
    shared.trie = v.trie;
    assert_int_equal(dgl_parallel_for(4, 8, mask_in_thread, &shared), DGL_OK);
    for (size_t i = 1; i < 8; i++)
        assert_memory_equal(shared.bits[i], shared.bits[0], sizeof(shared.bits[0]));
    grammar_vocabulary_finish(&v);
    grammar_case_finish(&c);
}

/* --- wrong spellings --- */

static void test_wrong_spellings(void **state)
{
    static const uint32_t offsets[] = {0, 2, 1};
    static const char *const none[] = {"0 tokens", "at least 1"};
    static const char *const descending[] = {"token 1", "begins at 2", "ends at 1"};
    struct token_trie *trie = NULL;
    struct test_log t;
    (void)state;
    struct token_spellings spellings = {.bytes = (const uint8_t *)"ab", .offsets = offsets};
    test_log_init(&t, DGL_LOG_ERROR);
    assert_refusal(&t, token_trie_create(&t.log, &spellings, &trie), DGL_ERR_INVALID_ARG, none);
    spellings.num_tokens = 2;
    test_log_clear(&t);
    assert_refusal(&t, token_trie_create(&t.log, &spellings, &trie), DGL_ERR_INVALID_ARG,
                   descending);
    assert_null(trie);
}

/* --- many loops --- */

enum { LOOPS = 40, LETTERS = 26, FEW_STEPS = 100 };

/* All words of three letters that begin with a, b or c, and parts of strings. */
static void vocabulary_of_words(struct grammar_vocabulary *v)
{
    static const char *const others[] = {"\"",   "a\"", "\\", "\\n",
                                         "\\\"", "\n",  "1",  "\xE4\xB8\x85"};
    static char words[3 * LETTERS * LETTERS][4];
    const char *tokens[3 * LETTERS * LETTERS + 9] = {NULL};
    size_t count = 0;
    for (size_t i = 0; i < 3 * LETTERS * LETTERS; i++) {
        snprintf(words[i], sizeof(words[i]), "%c%c%c", (char)('a' + i / (LETTERS * LETTERS)),
                 (char)('a' + i / LETTERS % LETTERS), (char)('a' + i % LETTERS));
        tokens[count++] = words[i];
    }
    for (size_t i = 0; i < sizeof(others) / sizeof(*others); i++)
        tokens[count++] = others[i];
    grammar_vocabulary_of(v, tokens);
}

/* Whether the matcher accepts the bytes of a token, without its trie and slices. */
static bool accepts(struct matcher *m, struct dgl_str token)
{
    uint32_t mark;
    bool ok = false;
    assert_int_equal(matcher_mark(m, &mark), DGL_OK);
    if (token.len)
        assert_int_equal(matcher_advance(m, token.p, token.len, &ok), DGL_OK);
    matcher_rewind(m, mark);
    matcher_drop_marks(m);
    return ok;
}

struct string_case {
    struct grammar_case c;
    struct token_masks *masks;
};

/* Makes masks of a JSON string, or, if `number` is not 0, of a string with another loop. */
static void string_begin(struct string_case *s, const struct grammar_vocabulary *v, int number)
{
    char text[128];
    if (number)
        snprintf(text, sizeof(text), "root ::= \"\\\"\" [ !#-Za-z\\U%08X]* \"\\\"\"",
                 0x4E00u + (unsigned)number);
    else
        snprintf(text, sizeof(text),
                 "root ::= \"\\\"\" ([^\"\\\\\\x00-\\x1F] | \"\\\\\" [\"\\\\/bfnrt])* \"\\\"\"");
    s->masks = NULL;
    grammar_case_gbnf(&s->c, text);
    assert_int_equal(token_masks_create(&s->c.t.log, s->c.grammar, v->trie, &s->masks), DGL_OK);
}

static void string_end(struct string_case *s)
{
    token_masks_destroy(&s->masks);
    grammar_case_finish(&s->c);
}

/* Compares the mask after a text with the bytes of each token. Returns the steps of the mask. */
static uint32_t check_after(struct string_case *s, const struct grammar_vocabulary *v,
                            const char *text)
{
    uint32_t bits[80], steps;
    bool ok;
    assert_true(token_trie_mask_words(v->trie) <= 80);
    matcher_reset(s->c.m);
    assert_int_equal(matcher_advance(s->c.m, text, strlen(text), &ok), DGL_OK);
    assert_true(ok);
    assert_int_equal(token_mask(s->masks, s->c.m, bits), DGL_OK);
    steps = matcher_work(s->c.m);
    for (int32_t id = 0; id < v->num_tokens; id++) {
        struct dgl_str token = grammar_vocabulary_spelling(v, id);
        bool wanted = id != v->end_id && accepts(s->c.m, token);
        if (has_bit(bits, id) != wanted)
            fail_msg("after '%s' token %d (\"%.*s\") is %d, wanted %d", text, id, (int)token.len,
                     token.p, has_bit(bits, id), wanted);
    }
    return steps;
}

/* Grammars one after the other: each has a slice, and old slices are freed. */
static void test_loops_in_turn(void **state)
{
    struct grammar_vocabulary v;
    struct string_case s;
    size_t limit = SIZE_MAX;
    (void)state;
    vocabulary_of_words(&v);
    for (int i = 1; i <= LOOPS + 1; i++) {
        string_begin(&s, &v, i <= LOOPS ? i : 0);
        uint32_t steps = check_after(&s, &v, "\"");
        size_t bytes = token_trie_bytes(v.trie);
        if (steps > FEW_STEPS)
            fail_msg("loop %d: %u steps, wanted at most %d", i, steps, FEW_STEPS);
        if (bytes > limit)
            fail_msg("loop %d: the trie has %zu bytes, wanted at most %zu", i, bytes, limit);
        if (i == 10) /* the slices differ a little in size */
            limit = bytes + bytes / 8;
        string_end(&s);
    }
    grammar_vocabulary_finish(&v);
}

/* Grammars at the same time: the last ones have no slice until others are destroyed. */
static void test_loops_at_once(void **state)
{
    struct grammar_vocabulary v;
    struct string_case s[LOOPS], last;
    size_t with_slice = 0;
    (void)state;
    vocabulary_of_words(&v);
    for (int i = 0; i < LOOPS; i++) {
        string_begin(&s[i], &v, i + 1);
        with_slice += check_after(&s[i], &v, "\"") <= FEW_STEPS;
    }
    assert_int_equal(with_slice, 32);
    string_begin(&last, &v, 0);
    assert_true(check_after(&last, &v, "\"") > FEW_STEPS);
    string_end(&last);
    string_end(&s[5]);
    string_begin(&last, &v, 0);
    assert_true(check_after(&last, &v, "\"") <= FEW_STEPS);
    string_end(&last);
    string_begin(&s[5], &v, 6);
    for (int i = 0; i < LOOPS; i++) {
        check_after(&s[i], &v, "\"a");
        string_end(&s[i]);
    }
    grammar_vocabulary_finish(&v);
}

/* One grammar of many loops makes 8 slices. Those that the trie has cost nothing. */
static void test_loops_of_one_grammar(void **state)
{
    struct grammar_vocabulary v;
    struct string_case s = {0}, other;
    struct dgl_buf text = {0};
    size_t with_slice = 0;
    (void)state;
    vocabulary_of_words(&v);
    string_begin(&other, &v, LOOPS);
    dgl_buf_puts(&text, "root ::= \"0\"");
    for (int i = 1; i <= LOOPS; i++)
        dgl_buf_printf(&text, " | \"%c\" [ !#-Za-z\\U%08X]* \"\\\"\"", '0' + i,
                       0x4E00u + (unsigned)i);
    grammar_case_gbnf(&s.c, text.p);
    assert_int_equal(token_masks_create(&s.c.t.log, s.c.grammar, v.trie, &s.masks), DGL_OK);
    for (int i = 1; i <= LOOPS; i++) {
        const char start[2] = {(char)('0' + i), '\0'};
        with_slice += check_after(&s, &v, start) <= FEW_STEPS;
    }
    assert_int_equal(with_slice, 9);
    string_end(&s);
    string_end(&other);
    dgl_buf_finish(&text);
    grammar_vocabulary_finish(&v);
}

/* The search for loops is bounded: of very many loops, the last ones have no slice. */
static void test_search_ends(void **state)
{
    enum { HEADS = 25000 };
    struct grammar_vocabulary v;
    struct string_case s = {0};
    struct dgl_buf text = {0}, start = {0};
    (void)state;
    vocabulary_of_words(&v);
    dgl_buf_puts(&text, "root ::= ");
    for (int i = 0; i < HEADS; i++) {
        dgl_buf_printf(&text, "[a-z]* \"%d\" ", i % 10);
        if (i + 1 < HEADS)
            dgl_buf_putc(&start, (char)('0' + i % 10));
    }
    grammar_case_gbnf(&s.c, text.p);
    assert_int_equal(token_masks_create(&s.c.t.log, s.c.grammar, v.trie, &s.masks), DGL_OK);
    uint32_t first = check_after(&s, &v, "0a"), last = check_after(&s, &v, start.p);
    if (first > FEW_STEPS || last <= FEW_STEPS)
        fail_msg("%u steps in the first loop, %u in the last one", first, last);
    string_end(&s);
    dgl_buf_finish(&start);
    dgl_buf_finish(&text);
    grammar_vocabulary_finish(&v);
}

/* --- a large vocabulary --- */

struct text_row {
    const char *name, *grammar, *text;
};
static const struct text_row text_rows[] = {
    {"json", grammar_json,
     "{\"name\": \"caf\xC3\xA9 \\u00e9\\n x\", \"list\": [1, -2.5e10, true, {}]}"},
    {"bounded strings",
     "root ::= \"\\\"\" ([^\"\\\\\\x00-\\x1F] | \"\\\\\" [\"\\\\/bfnrt]){5,25} \"\\\"\"",
     "\"abcdefghij \\n klmnopqr"},
    {"counted, then its own characters", "root ::= [a-z]{3,12} \"er\" [0-9]", "abcdefgher1"},
    {"keys",
     "root ::= \"{\\\"\" (\"name\\\": 1\" | \"number\\\": 2\" | [^\"\\\\]* \"\\\": 3\") \"}\"",
     "{\"name\": 3}"},
    {"letters of any script", "root ::= [^\\x00-\\x40\\x5b-\\x60\\x7b-\\xbf]+ \" \" [0-9]{4}",
     "\xE6\xBC\xA2\xE5\xAD\x97"
     "Caf\xC3\xA9 2024"},
};

/* Loads the spellings of a published tokenizer, or skips. */
static void load_vocabulary(struct grammar_vocabulary *v, const char *archive, const char *folder)
{
    struct test_log t;
    struct dgl_tokenizer *tok = NULL;
    char path[4096], *json = NULL;
    size_t len;
    const char *dir = test_unpacked(archive, folder);
    if (!dir)
        SKIP("the test data has no %s", archive);
    test_log_init(&t, DGL_LOG_ERROR);
    snprintf(path, sizeof(path), "%s/tokenizer.json", dir);
    if (dgl_file_slurp(&t.log, path, 256u << 20, &json, &len) != DGL_OK ||
        tokenizer_create(&t.log, path, json, len, &tok) != DGL_OK)
        fail_msg("%s", t.text);
    *v = (struct grammar_vocabulary){.num_tokens = tokenizer_max_id(tok) + 1};
    v->offsets = checked(dgl_new_array(uint32_t, (size_t)v->num_tokens + 1));
    v->end_id = v->num_tokens - 1;
    for (int32_t id = 0; id < v->num_tokens; id++) {
        if (!tokenizer_is_special(tok, id))
            assert_int_equal(tokenizer_token_bytes(&t.log, tok, id, &v->bytes), DGL_OK);
        v->offsets[id + 1] = (uint32_t)v->bytes.len;
    }
    struct token_spellings spellings = {.num_tokens = v->num_tokens,
                                        .bytes = (const uint8_t *)v->bytes.p,
                                        .offsets = v->offsets,
                                        .end_ids = &v->end_id,
                                        .num_end_ids = 1};
    uint64_t start = dgl_now_ns();
    if (token_trie_create(&t.log, &spellings, &v->trie) != DGL_OK)
        fail_msg("%s", t.text);
    printf("# %s: %d tokens, trie in %.1f ms, %.1f MB\n", folder, v->num_tokens,
           (double)(dgl_now_ns() - start) / 1e6, (double)token_trie_bytes(v->trie) / 1e6);
    free(json);
    tokenizer_destroy(&tok);
}

/* Compares masks at every byte of a text, and prints the median time of each. */
static void check_text(const struct grammar_vocabulary *v, const struct text_row *row)
{
    struct grammar_case c;
    struct token_masks *masks = NULL;
    bool ok;
    grammar_case_gbnf(&c, row->grammar);
    uint64_t start = dgl_now_ns();
    assert_int_equal(token_masks_create(&c.t.log, c.grammar, v->trie, &masks), DGL_OK);
    printf("# %s: prepared in %.1f ms, grammar %.1f KB\n", row->name,
           (double)(dgl_now_ns() - start) / 1e6, (double)grammar_bytes(c.grammar) / 1e3);
    uint32_t *bits = checked(dgl_new_array(uint32_t, token_trie_mask_words(v->trie)));
    for (size_t i = 0; i <= strlen(row->text); i++) {
        uint64_t times[5];
        uint32_t set = 0;
        for (int k = 0; k < 5; k++) {
            start = dgl_now_ns();
            if (token_mask(masks, c.m, bits) != DGL_OK)
                fail_msg("%s", c.t.text);
            times[k] = dgl_now_ns() - start;
        }
        for (int32_t id = 0; id < v->num_tokens; id++) {
            struct dgl_str token = grammar_vocabulary_spelling(v, id);
            bool wanted = id == v->end_id ? matcher_may_end(c.m) : accepts(c.m, token);
            if (wanted != has_bit(bits, id))
                fail_msg("after %zu bytes token %d (\"%.*s\") is %d, wanted %d", i, id,
                         (int)token.len, token.p, has_bit(bits, id), wanted);
            set += wanted;
        }
        if (getenv("DOPPLERGL_TEST_TIMES"))
            printf("# %-24.*s first %7.1f us, then %7.1f us, %u tokens\n", (int)i, row->text,
                   (double)times[0] / 1e3, (double)times[2] / 1e3, set);
        if (i < strlen(row->text)) {
            assert_int_equal(matcher_advance(c.m, row->text + i, 1, &ok), DGL_OK);
            assert_true(ok);
        }
    }
    free(bits);
    token_masks_destroy(&masks);
    grammar_case_finish(&c);
}

static void test_large(void **state)
{
    struct grammar_vocabulary v;
    (void)state;
    load_vocabulary(&v, "tokenizers/llama3.tar.xz", "llama3");
    for (size_t i = 0; i < sizeof(text_rows) / sizeof(*text_rows); i++)
        check_text(&v, &text_rows[i]);
    grammar_vocabulary_finish(&v);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_random),
                                       cmocka_unit_test(test_written),
                                       cmocka_unit_test(test_named_tokens),
                                       cmocka_unit_test(test_no_token),
                                       cmocka_unit_test(test_threads),
                                       cmocka_unit_test(test_wrong_spellings),
                                       cmocka_unit_test(test_loops_in_turn),
                                       cmocka_unit_test(test_loops_at_once),
                                       cmocka_unit_test(test_loops_of_one_grammar),
                                       cmocka_unit_test(test_search_ends),
                                       cmocka_unit_test(test_large)};
    return test_run_table("languages", test_enumeration, languages) +
           cmocka_run_group_tests_name("masks", tests, NULL, NULL);
}
