/* Ids to text with stop strings: the text that is shown, the time of it, and the text that is held
 * back. */
#include "tests/support/test.h"

#include <stdlib.h>

#include "core/base/utf8.h"
#include "core/text/text_stream.h"
#include "tests/support/tiny_engine.h"

static struct dgl_tokenizer *tok;

static const char story[] = "Once upon a time, there was a na\xc3\xafve fox \xf0\x9f\xa6\x8a who "
                            "said: \"STOP! Stop, stop.\" "
                            "\xe4\xbd\xa0\xe5\xa5\xbd, said the end.\n\nThe end. aaaab aaaaab.";

/* Result of a run over `text`. */
struct printable {
    struct dgl_buf pieces; /* text from text_stream_ready(), concatenated */
    struct dgl_buf text;   /* text that the stream keeps */
    bool stopped;
    size_t tokens; /* pushed until it stopped */
};

static void shown_finish(struct printable *s)
{
    dgl_buf_finish(&s->pieces);
    dgl_buf_finish(&s->text);
}

static void take_ready(struct text_stream *t, struct printable *out)
{
    struct dgl_str ready = text_stream_ready(t);
    assert_int_equal(dgl_utf8_valid_prefix(ready.p, ready.len), ready.len);
    dgl_buf_append(&out->pieces, ready.p, ready.len);
}

static struct printable stream(const char *text, const char *const *stop, size_t num_stop)
{
    struct token_ids ids = {0};
    struct text_stream t;
    struct printable out = {0};
    assert_int_equal(tokenizer_encode(NULL, tok, dgl_str_of(text), (struct encode_flags){0}, &ids),
                     DGL_OK);
    assert_int_equal(
        text_stream_init(&t, NULL, tok, dgl_generate_params(.stop = stop, .num_stop = num_stop)),
        DGL_OK);
    for (size_t i = 0; i < ids.count && !t.stopped; i++, out.tokens++) {
        text_stream_push(&t, ids.ids[i]);
        take_ready(&t, &out);
    }
    text_stream_end(&t);
    take_ready(&t, &out);
    out.stopped = t.stopped;
    dgl_buf_append(&out.text, t.text.p ? t.text.p : "", t.text.len);
    text_stream_finish(&t);
    free(ids.ids);
    return out;
}

static void check(const char *text, const char *const *stop, size_t num_stop, const char *want,
                  bool stopped)
{
    struct printable s = stream(text, stop, num_stop);
    assert_string_equal(s.text.p ? s.text.p : "", want);
    assert_string_equal(s.pieces.p ? s.pieces.p : "", want);
    assert_int_equal(s.stopped, stopped);
    shown_finish(&s);
}

/* ---- cases ----------------------------------------------------------------------------------- */

struct stop_case {
    const char *name, *text, *stop[3], *want;
    bool stopped;
};

static const struct stop_case cases[] = {
    {"no stop string", "One two.", {NULL}, "One two.", false},
    {"a stop string that does not occur", "One two.", {"three"}, "One two.", false},
    {"a word", "One two three.", {"two"}, "One ", true},
    {"at the beginning", "One two.", {"One"}, "", true},
    {"at the very end", "One two.", {"."}, "One two", true},
    {"the whole text", "One two.", {"One two."}, "", true},
    {"across words", "One two three four.", {"wo thr"}, "One t", true},
    {"longer than the text", "One", {"One two three four"}, "One", false},
    {"begun but not finished", "He said END", {"END."}, "He said END", false},
    {"begun, broken off, then there", "EN ENDED END.", {"END."}, "EN ENDED ", true},
    {"a beginning inside a beginning", "aaaaab!", {"aab"}, "aaa", true},
    {"itself overlapping", "xababac", {"abac"}, "xab", true},
    {"the earlier of two", "one two three", {"three", "two"}, "one ", true},
    {"two that overlap", "one two three", {"two three", "o t"}, "one tw", true},
    {"one inside the other", "one two three", {"ne two th", "two"}, "one ", true},
    {"an empty stop string is none", "One two.", {""}, "One two.", false},
    {"an empty one beside a real one", "One two.", {"", "two"}, "One ", true},
    {"a line break", "One\nTwo\n", {"\n"}, "One", true},
    {"two line breaks", "One\nTwo\n\nThree", {"\n\n"}, "One\nTwo", true},
    {"a character of two bytes", "na\xc3\xafve", {"\xc3\xaf"}, "na", true},
    {"a character of four bytes", "a \xf0\x9f\xa6\x8a fox", {"\xf0\x9f\xa6\x8a"}, "a ", true},
    {"a text and a character", "hi \xe4\xbd\xa0\xe5\xa5\xbd you", {"hi \xe4\xbd\xa0"}, "", true},
    {"case counts", "stop Stop STOP", {"STOP"}, "stop Stop ", true},
};

static void test_case(void **state)
{
    const struct stop_case *row = *state;
    size_t count = 0;
    while (count < 3 && row->stop[count])
        count++;
    check(row->text, row->stop, count, row->want, row->stopped);
}

/* ---- properties ------------------------------------------------------------------------------ */

static void test_no_stop_is_decode(void **state)
{
    (void)state;
    check(story, NULL, 0, story, false);
}

/* Any part of the text as a stop string cuts the text where strstr() finds it, for any split into
 * tokens. */
static void test_every_part_of_a_text(void **state)
{
    (void)state;
    size_t len = strlen(story);
    for (size_t begin = 0; begin < len; begin += 3) {
        for (size_t size = 1; size < 24 && begin + size <= len; size += 2) {
            char stop[32], want[sizeof(story)];
            const char *list[] = {stop};
            snprintf(stop, sizeof(stop), "%.*s", (int)size, story + begin);
            if (((unsigned char)story[begin] & 0xc0) == 0x80 ||
                ((unsigned char)story[begin + size] & 0xc0) == 0x80)
                continue; /* half a character */
            snprintf(want, sizeof(want), "%.*s", (int)(strstr(story, stop) - story), story);
            check(story, list, 1, want, true);
        }
    }
}

static void test_nothing_is_shown_too_early(void **state)
{
    (void)state;
    static const char *const stop[] = {"time, there was nothing"};
    struct token_ids ids = {0};
    struct text_stream t;
    size_t shown = 0, kept = 0;
    assert_int_equal(tokenizer_encode(NULL, tok, dgl_str_of(story), (struct encode_flags){0}, &ids),
                     DGL_OK);
    assert_int_equal(
        text_stream_init(&t, NULL, tok, dgl_generate_params(.stop = stop, .num_stop = 1)), DGL_OK);
    for (size_t i = 0; i < ids.count; i++) {
        text_stream_push(&t, ids.ids[i]);
        struct dgl_str ready = text_stream_ready(&t);
        shown += ready.len;
        /* While the text ends with the beginning of the stop string, that is not shown. */
        if (shown < t.text.len) {
            kept++;
            assert_int_equal(shown, 12);
            assert_memory_equal(t.text.p + shown, stop[0], t.text.len - shown);
        }
    }
    assert_true(kept > 0);
    text_stream_end(&t);
    shown += text_stream_ready(&t).len;
    assert_int_equal(shown, strlen(story));
    text_stream_finish(&t);
    free(ids.ids);
}

static void test_without_stops_nothing_waits(void **state)
{
    (void)state;
    struct token_ids ids = {0};
    struct text_stream t;
    const char text[] = "Plain words only.";
    assert_int_equal(tokenizer_encode(NULL, tok, dgl_str_of(text), (struct encode_flags){0}, &ids),
                     DGL_OK);
    assert_int_equal(text_stream_init(&t, NULL, tok, dgl_generate_params(0)), DGL_OK);
    for (size_t i = 0; i < ids.count; i++) {
        text_stream_push(&t, ids.ids[i]);
        assert_true(text_stream_ready(&t).len > 0);
        assert_int_equal(text_stream_ready(&t).len, 0); /* once only */
    }
    text_stream_finish(&t);
    free(ids.ids);
}

static void test_pushes_after_a_stop_change_nothing(void **state)
{
    (void)state;
    static const char *const stop[] = {"two"};
    struct token_ids ids = {0};
    struct text_stream t;
    assert_int_equal(
        tokenizer_encode(NULL, tok, DGL_STR("one two three four"), (struct encode_flags){0}, &ids),
        DGL_OK);
    assert_int_equal(
        text_stream_init(&t, NULL, tok, dgl_generate_params(.stop = stop, .num_stop = 1)), DGL_OK);
    for (size_t i = 0; i < ids.count; i++)
        text_stream_push(&t, ids.ids[i]);
    text_stream_end(&t);
    assert_true(t.stopped);
    assert_string_equal(t.text.p, "one ");
    text_stream_finish(&t);
    free(ids.ids);
}

static void test_without_a_tokenizer(void **state)
{
    (void)state;
    static const char *const stop[] = {"x"};
    struct text_stream t;
    assert_int_equal(
        text_stream_init(&t, NULL, NULL, dgl_generate_params(.stop = stop, .num_stop = 1)), DGL_OK);
    text_stream_push(&t, 5);
    assert_int_equal(text_stream_ready(&t).len, 0);
    text_stream_end(&t);
    assert_int_equal(text_stream_ready(&t).len, 0);
    assert_false(t.stopped);
    text_stream_finish(&t);
}

/* Only special tokens in `shown` have text. */
static void test_special_tokens(void **state)
{
    (void)state;
    struct token_ids ids = {0};
    const struct encode_flags flags = {.add_special = true};
    assert_int_equal(tokenizer_encode(NULL, tok, DGL_STR("one two"), flags, &ids), DGL_OK);
    const int32_t special = ids.ids[0], shown[] = {ids.ids[1], special};
    struct dgl_str spelling;
    assert_true(tokenizer_is_special(tok, special) && tokenizer_spelling(tok, special, &spelling));
    for (size_t num_shown = 0; num_shown <= 2; num_shown++) {
        struct text_stream t;
        struct dgl_buf want = {0};
        assert_int_equal(
            text_stream_init(&t, NULL, tok,
                             dgl_generate_params(.shown = shown, .num_shown = num_shown)),
            DGL_OK);
        for (size_t i = 0; i < ids.count; i++)
            text_stream_push(&t, ids.ids[i]);
        text_stream_end(&t);
        dgl_buf_append(&want, spelling.p, num_shown == 2 ? spelling.len : 0);
        dgl_buf_puts(&want, "one two");
        assert_string_equal(t.text.p, want.p);
        dgl_buf_finish(&want);
        text_stream_finish(&t);
    }
    free(ids.ids);
}

static void test_finish_twice(void **state)
{
    (void)state;
    struct text_stream t;
    assert_int_equal(text_stream_init(&t, NULL, tok, dgl_generate_params(0)), DGL_OK);
    text_stream_push(&t, 300);
    text_stream_finish(&t);
    text_stream_finish(&t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_no_stop_is_decode),
        cmocka_unit_test(test_every_part_of_a_text),
        cmocka_unit_test(test_nothing_is_shown_too_early),
        cmocka_unit_test(test_without_stops_nothing_waits),
        cmocka_unit_test(test_pushes_after_a_stop_change_nothing),
        cmocka_unit_test(test_without_a_tokenizer),
        cmocka_unit_test(test_special_tokens),
        cmocka_unit_test(test_finish_twice),
    };
    assert_int_equal(dgl_tokenizer_load(NULL, BUNDLED_MODEL, &tok), DGL_OK);
    int failures = test_run_table("stop strings", test_case, cases);
    failures += cmocka_run_group_tests(tests, NULL, NULL);
    dgl_tokenizer_destroy(&tok);
    return failures;
}
