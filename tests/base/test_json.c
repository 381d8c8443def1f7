/* Tests of JSON: refused texts, values, messages, the writer, large documents. */
#include "tests/support/test.h"

#include <locale.h>
#include <math.h>
#include <stdlib.h>

#include "core/base/clock.h"
#include "core/base/json.h"

struct text_case {
    const char *name, *text;
    const char *message; /* part of the message; NULL if the text is accepted */
    size_t len;          /* 0 means up to the NUL */
};

#define TIMES8(s) s s s s s s s s

static const struct text_case text_cases[] = {
    {"accepts: object", "{\"a\": [1, -2.5e3, true, false, null, \"x\"]}", NULL, 0},
    {"accepts: scalars", " 12 ", NULL, 0},
    {"accepts: empty containers", "[[], {}, [ ], { }]", NULL, 0},
    {"accepts: all escapes", "\"\\\"\\\\\\/\\b\\f\\n\\r\\t\\u00e9\\ud83d\\ude00\"", NULL, 0},
    {"accepts: blanks", "\t\r\n [ 1 ,\n2 ] \n", NULL, 0},
    {"accepts: 64 levels", TIMES8(TIMES8("[")) TIMES8(TIMES8("]")), NULL, 0},
    {"accepts: same key in two objects", "[{\"a\":1},{\"a\":1}]", NULL, 0},
    {"accepts: keys that differ in case", "{\"a\":1,\"A\":2}", NULL, 0},
    {"accepts: number that becomes zero", "1e-999", NULL, 0},
    {"refuses: nothing", "", "byte 1: found the end of the text, wanted a value", 0},
    {"refuses: blanks only", " \n", "found the end of the text, wanted a value", 0},
    {"refuses: 65 levels", "[" TIMES8(TIMES8("[")) TIMES8(TIMES8("]")) "]",
     "byte 65: found '[', wanted nesting of at most 64 levels", 0},
    {"refuses: two values", "1 2", "found '2', wanted nothing after the value", 0},
    {"refuses: closing bracket too many", "[1]]", "found ']', wanted nothing after", 0},
    {"refuses: NUL after the value", "{}\0", "found byte 0x00, wanted nothing after", 3},
    {"refuses: NUL in a string", "\"a\0b\"", "found byte 0x00, wanted control characters", 5},
    {"refuses: cut object", "{\"a\": 1", "found the end of the text, wanted ',' or '}'", 0},
    {"refuses: cut string", "[\"abc", "wanted a closing quotation mark", 0},
    {"refuses: cut escape", "\"\\", "after a backslash", 0},
    {"refuses: cut unicode escape", "\"\\u12", "four hexadecimal digits", 0},
    {"refuses: trailing comma in array", "[1,]", "found ']', wanted a value", 0},
    {"refuses: trailing comma in object", "{\"a\":1,}", "found '}', wanted a key", 0},
    {"refuses: leading comma", "[,1]", "found ',', wanted a value", 0},
    {"refuses: mismatched brackets", "[1}", "found '}', wanted ',' or ']'", 0},
    {"refuses: missing colon", "{\"a\" 1}", "found '1', wanted ':' after the key", 0},
    {"refuses: missing value", "{\"a\":}", "found '}', wanted a value", 0},
    {"refuses: bare key", "{a:1}", "found 'a', wanted a key in quotation marks", 0},
    {"refuses: single quotes", "['a']", "found ''', wanted a value", 0},
    {"refuses: comment", "// x\n1", "found '/', wanted a value", 0},
    {"refuses: byte order mark", "\xEF\xBB\xBF{}", "found byte 0xEF, wanted a value", 0},
    {"refuses: invalid UTF-8", "{\n \"a\": \"\xC3(\"}",
     "line 2, byte 8: found byte 0xC3, wanted valid", 0},
    {"refuses: overlong NUL", "\"\xC0\x80\"", "wanted valid UTF-8", 0},
    {"refuses: encoded surrogate", "\"\xED\xA0\x80\"", "wanted valid UTF-8", 0},
    {"refuses: raw control character", "\"a\nb\"", "found byte 0x0A, wanted control characters", 0},
    {"refuses: unknown escape", "\"\\x41\"", "found 'x', wanted one of", 0},
    {"refuses: lone high surrogate", "\"\\ud83d\"", "a pair of surrogates", 0},
    {"refuses: lone low surrogate", "\"\\ude00\"", "a pair of surrogates", 0},
    {"refuses: high surrogate and text", "\"\\ud83dabcdef\"", "a pair of surrogates", 0},
    {"refuses: two high surrogates", "\"\\ud83d\\ud83d\"", "a pair of surrogates", 0},
    {"refuses: high surrogate and bad escape", "\"\\ud83d\\uZZZZ\"", "a pair of surrogates", 0},
    {"refuses: leading zero", "01", "no digit after a leading 0", 0},
    {"refuses: plus sign", "+1", "found '+', wanted a value", 0},
    {"refuses: minus only", "[-]", "found ']', wanted a digit", 0},
    {"refuses: no digit before the point", ".5", "found '.', wanted a value", 0},
    {"refuses: no digit after the point", "[1.]", "found ']', wanted a digit", 0},
    {"refuses: empty exponent", "[1e]", "wanted a digit", 0},
    {"refuses: hexadecimal", "0x10", "found 'x', wanted nothing after", 0},
    {"refuses: NaN", "NaN", "found 'N', wanted a value", 0},
    {"refuses: Infinity", "[-Infinity]", "found 'I', wanted a digit", 0},
    {"refuses: infinite number", "[1e999]", "a number that a double can hold", 0},
    {"refuses: endless number", "1111111111111111111111111111111111111111111111111111111111111111",
     "a number of at most 63 characters", 0},
    {"refuses: cut word", "tru", "wanted true, false or null", 0},
    {"refuses: wrong case", "True", "found 'T', wanted a value", 0},
    {"refuses: longer word", "[nullx]", "found 'x', wanted ',' or ']'", 0},
    {"refuses: duplicate key", "{\"a\":{\"k\":1,\"k\":2}}", "t.json: a: the key \"k\" occurs twice",
     0},
    {"refuses: duplicate key, one escaped", "{\"k\":1,\"\\u006b\":2}", "\"k\" occurs twice", 0},
    {"refuses: duplicate key with a NUL", "{\"a\\u0000b\":1,\"a\\u0000b\":2}", "occurs twice", 0},
};

static void check_text(void **state)
{
    const struct text_case *c = *state;
    struct test_log t;
    struct dgl_json_doc *doc = NULL;
    test_log_init(&t, DGL_LOG_ERROR);
    size_t len = c->len ? c->len : strlen(c->text);
    /* A copy without a final NUL lets AddressSanitizer detect reads beyond the end. */
    char *exact = malloc(len ? len : 1);
    assert_non_null(exact);
    memcpy(exact, c->text, len);
    enum dgl_status status = dgl_json_parse(&t.log, "t.json", exact, len, &doc);
    free(exact);
    if (!c->message) {
        assert_string_equal(t.text, "");
        assert_int_equal(status, DGL_OK);
        assert_non_null(doc);
    } else {
        assert_contains(t.text, c->message);
        assert_contains(t.text, "t.json: ");
        assert_int_equal(t.errors, 1);
        assert_int_equal(status, DGL_ERR_FORMAT);
        assert_null(doc);
    }
    dgl_json_destroy(&doc);
}

static struct dgl_json_doc *parse(const char *text)
{
    struct test_log t;
    struct dgl_json_doc *doc = NULL;
    test_log_init(&t, DGL_LOG_ERROR);
    if (dgl_json_parse(&t.log, "t.json", text, strlen(text), &doc) != DGL_OK)
        fail_msg("%s", t.text);
    return doc;
}

static void strings_are_unescaped(void **state)
{
    (void)state;
    struct dgl_json_doc *doc = parse("\"\\\"\\\\\\/\\b\\f\\n\\r\\t\\u00e9\\ud83d\\ude00\\uFFFD\"");
    assert_string_equal(dgl_json_str(dgl_json_root(doc)).p,
                        "\"\\/\b\f\n\r\t\xC3\xA9\xF0\x9F\x98\x80\xEF\xBF\xBD");
    dgl_json_destroy(&doc);
}

static void strings_keep_their_nuls(void **state)
{
    (void)state;
    struct dgl_json_doc *doc =
        parse("{\"a\": [\"\\u0000x\\u0000\", \"\\\\u0000\"], \"k\\u0000\": 1}");
    const struct dgl_json *array = dgl_json_get(dgl_json_root(doc), "a");
    struct dgl_str text = dgl_json_str(dgl_json_at(array, 0));
    assert_int_equal(text.len, 3);
    assert_memory_equal(text.p, "\0x\0", 4);
    assert_string_equal(dgl_json_str(dgl_json_at(array, 1)).p, "\\u0000");
    struct dgl_str key = dgl_json_key(dgl_json_next(array));
    assert_int_equal(key.len, 2);
    assert_memory_equal(key.p, "k\0", 3);
    assert_null(dgl_json_get(dgl_json_root(doc), "k"));
    dgl_json_destroy(&doc);
}

static void a_lone_string_keeps_its_nul(void **state)
{
    (void)state;
    struct dgl_json_doc *doc = parse("\"a\\u0000b\"");
    assert_int_equal(dgl_json_str(dgl_json_root(doc)).len, 3);
    dgl_json_destroy(&doc);
}

static void values_have_types(void **state)
{
    (void)state;
    struct dgl_json_doc *doc = parse("[null, true, 1, \"s\", [], {}]");
    for (int i = 0; i < 6; i++) {
        const struct dgl_json *value = dgl_json_at(dgl_json_root(doc), (size_t)i);
        assert_int_equal(dgl_json_type(value), i);
        assert_true(dgl_json_is(value, (enum dgl_json_type)i));
        assert_non_null(dgl_json_type_name((enum dgl_json_type)i));
    }
    assert_null(dgl_json_at(dgl_json_root(doc), 6));
    dgl_json_destroy(&doc);
}

static void null_pointers_are_harmless(void **state)
{
    (void)state;
    int64_t number = 5;
    assert_int_equal(dgl_json_type(NULL), DGL_JSON_NULL);
    assert_false(dgl_json_is(NULL, DGL_JSON_NULL));
    assert_int_equal(dgl_json_str(NULL).len, 0);
    assert_true(dgl_json_f64(NULL) == 0);
    assert_false(dgl_json_bool(NULL));
    assert_false(dgl_json_i64(NULL, &number));
    assert_int_equal(dgl_json_count(NULL), 0);
    assert_null(dgl_json_first(NULL));
    assert_null(dgl_json_next(NULL));
    assert_int_equal(dgl_json_key(NULL).len, 0);
    assert_null(dgl_json_get(NULL, "a"));
    assert_null(dgl_json_at(NULL, 0));
    struct dgl_json_doc *none = NULL;
    dgl_json_destroy(&none);
}

struct number_case {
    const char *name, *text;
    bool exact;
    int64_t value;
};

static const struct number_case number_cases[] = {
    {"integer: zero", "0", true, 0},
    {"integer: minus zero", "-0", true, 0},
    {"integer: negative", "-17", true, -17},
    {"integer: written with a fraction", "2.0", true, 2},
    {"integer: written with an exponent", "1e3", true, 1000},
    {"integer: 2^53 - 1", "9007199254740991", true, 9007199254740991},
    {"integer: -(2^53 - 1)", "-9007199254740991", true, -9007199254740991},
    {"integer: 2^53", "9007199254740992", true, 9007199254740992},
    {"integer: 2^53 + 1, which a double rounds", "9007199254740993", true, 9007199254740993},
    {"integer: -(2^53 + 1)", "-9007199254740993", true, -9007199254740993},
    {"integer: 2^63 - 1", "9223372036854775807", true, INT64_MAX},
    {"integer: -2^63", "-9223372036854775808", true, INT64_MIN},
    {"integer: 2^63", "9223372036854775808", false, 0},
    {"integer: 2^53 as a fraction", "9007199254740992.0", false, 0},
    {"integer: with a zero fraction", "12.0", true, 12},
    {"integer: with an exponent", "2e3", true, 2000},
    {"integer: fraction", "0.5", false, 0},
    {"integer: string", "\"1\"", false, 0},
    {"integer: true", "true", false, 0},
    {"integer: huge", "1e300", false, 0},
};

static void check_number(void **state)
{
    const struct number_case *c = *state;
    struct dgl_json_doc *doc = parse(c->text);
    int64_t value = 77;
    assert_int_equal(dgl_json_i64(dgl_json_root(doc), &value), c->exact);
    assert_true(value == (c->exact ? c->value : 77));
    dgl_json_destroy(&doc);
}

/* Digits inside of strings do not shift the spellings of the numbers. */
static void spellings_stay_with_their_numbers(void **state)
{
    (void)state;
    struct dgl_json_doc *doc =
        parse("{\"1.0\": [\"-2.0 \\\" 3.0\", 1, 4.0, \"\\u0000\\\\\"], \"b\": "
              "{\"c\": 0.5, \"d\": [[], 6, -7e0]}, \"e\": 18446744073709551615}");
    const struct dgl_json *root = dgl_json_root(doc), *a = dgl_json_get(root, "1.0");
    const struct dgl_json *b = dgl_json_get(root, "b"), *d = dgl_json_get(b, "d");
    const struct {
        const struct dgl_json *value;
        bool real;
        const char *spelling;
    } want[] = {{dgl_json_at(a, 0), false, ""},
                {dgl_json_at(a, 1), false, ""},
                {dgl_json_at(a, 2), true, "4.0"},
                {dgl_json_at(a, 3), false, ""},
                {dgl_json_get(b, "c"), true, ""},
                {dgl_json_at(d, 0), false, ""},
                {dgl_json_at(d, 1), false, ""},
                {dgl_json_at(d, 2), true, "-7e0"},
                {dgl_json_get(root, "e"), false, "18446744073709551615"}};
    for (size_t i = 0; i < sizeof(want) / sizeof(want[0]); i++) {
        assert_int_equal(dgl_json_is_real(want[i].value), want[i].real);
        assert_string_equal(dgl_json_spelling(want[i].value).p, want[i].spelling);
    }
    dgl_json_destroy(&doc);
}

static void doubles_are_exact(void **state)
{
    (void)state;
    struct dgl_json_doc *doc = parse("[0.1, 1.7976931348623157e308, 5e-324, -2.5]");
    static const double want[] = {0.1, 1.7976931348623157e308, 5e-324, -2.5};
    for (size_t i = 0; i < 4; i++)
        assert_true(dgl_json_f64(dgl_json_at(dgl_json_root(doc), i)) == want[i]);
    dgl_json_destroy(&doc);
}

static void numbers_do_not_depend_on_the_locale(void **state)
{
    (void)state;
    if (!test_set_comma_locale())
        SKIP("no locale with a decimal comma is installed");
    struct dgl_json_doc *doc = parse("[1.5]");
    double value = dgl_json_f64(dgl_json_at(dgl_json_root(doc), 0));
    setlocale(LC_ALL, "C");
    assert_true(value == 1.5);
    dgl_json_destroy(&doc);
}

static void iteration_is_in_file_order(void **state)
{
    (void)state;
    struct dgl_json_doc *doc = parse("{\"z\":0,\"a\":1,\"\":2,\"m\":3}");
    static const char *const keys[] = {"z", "a", "", "m"};
    int64_t i = 0, value = -1;
    const struct dgl_json *root = dgl_json_root(doc);
    for (const struct dgl_json *v = dgl_json_first(root); v; v = dgl_json_next(v), i++) {
        assert_true(dgl_str_eq(dgl_json_key(v), keys[i]));
        assert_true(dgl_json_i64(v, &value) && value == i);
        assert_ptr_equal(dgl_json_get(root, keys[i]), v);
    }
    assert_int_equal(i, 4);
    assert_int_equal(dgl_json_count(root), 4);
    assert_null(dgl_json_get(root, "Z"));
    dgl_json_destroy(&doc);
}

static void objects_of_any_size_find_their_keys(void **state)
{
    (void)state;
    for (int count = 0; count <= 300; count = count < 20 ? count + 1 : count * 2) {
        struct dgl_buf text = {0};
        dgl_buf_putc(&text, '{');
        for (int i = 0; i < count; i++)
            dgl_buf_printf(&text, "%s\"key%d\":%d", i ? "," : "", i, i);
        dgl_buf_putc(&text, '}');
        struct dgl_json_doc *doc = parse(text.p);
        for (int i = 0; i < count; i++) {
            char key[32];
            int64_t value = -1;
            snprintf(key, sizeof(key), "key%d", i);
            assert_true(dgl_json_i64(dgl_json_get(dgl_json_root(doc), key), &value));
            assert_int_equal(value, i);
        }
        assert_null(dgl_json_get(dgl_json_root(doc), "key"));
        assert_null(dgl_json_get(dgl_json_root(doc), "key300"));
        assert_int_equal(dgl_json_count(dgl_json_root(doc)), count);
        dgl_json_destroy(&doc);
        dgl_buf_finish(&text);
    }
}

static void duplicate_in_a_large_object_is_found(void **state)
{
    (void)state;
    struct dgl_buf text = {0};
    struct test_log t;
    struct dgl_json_doc *doc = NULL;
    test_log_init(&t, DGL_LOG_ERROR);
    dgl_buf_puts(&text, "{\"model\":{\"vocab\":{");
    for (int i = 0; i < 5000; i++)
        dgl_buf_printf(&text, "\"t%d\":%d,", i, i);
    dgl_buf_puts(&text, "\"t1234\":0}}}");
    assert_int_equal(dgl_json_parse(&t.log, "t.json", text.p, text.len, &doc), DGL_ERR_FORMAT);
    assert_contains(t.text, "t.json: model.vocab: the key \"t1234\" occurs twice");
    dgl_buf_finish(&text);
}

/* A vocabulary of 260,000 tokens and 500,000 merges is the size of the largest tokenizers. The
 * limit is ten times the usual time on a slow machine, so that only quadratic behaviour
 * exceeds it. */
/* The array is a value too, so the 5 millionth element exceeds the limit. The check runs before
 * memory is allocated. */
static void tiny_values_are_counted(void **state)
{
    (void)state;
    struct test_log t;
    struct dgl_json_doc *doc = NULL;
    struct dgl_buf text = {0};
    test_log_init(&t, DGL_LOG_ERROR);
    dgl_buf_puts(&text, "[0");
    for (int i = 1; i < 5000000; i++)
        dgl_buf_append(&text, ",0", 2);
    dgl_buf_puts(&text, "]");
    const char *const parts[] = {"T: byte 10000000: found '0', wanted at most 5000000 values"};
    assert_refusal(&t, dgl_json_parse(&t.log, "T", text.p, text.len, &doc), DGL_ERR_FORMAT, parts);
    dgl_buf_finish(&text);
}

static void large_documents_take_linear_time(void **state)
{
    (void)state;
    struct dgl_buf text = {0};
    dgl_buf_puts(&text, "{\"vocab\":{");
    for (int i = 0; i < 260000; i++)
        dgl_buf_printf(&text, "%s\"token%d\":%d", i ? "," : "", i, i);
    dgl_buf_puts(&text, "},\"merges\":[");
    for (int i = 0; i < 500000; i++)
        dgl_buf_printf(&text, "%s[\"a%d\",\"b\"]", i ? "," : "", i);
    dgl_buf_puts(&text, "]}");
    assert_false(text.failed);
    uint64_t start = dgl_now_ns();
    struct dgl_json_doc *doc = parse(text.p);
    const struct dgl_json *vocab = dgl_json_get(dgl_json_root(doc), "vocab");
    size_t found = 0;
    for (const struct dgl_json *v = dgl_json_first(vocab); v; v = dgl_json_next(v))
        found += dgl_json_get(vocab, dgl_json_key(v).p) == v;
    assert_int_equal(found, 260000);
    assert_int_equal(dgl_json_count(dgl_json_get(dgl_json_root(doc), "merges")), 500000);
    dgl_json_destroy(&doc);
    dgl_buf_finish(&text);
    assert_at_most((double)(dgl_now_ns() - start) * 1e-9, 20);
}

struct field_case {
    const char *name, *json, *message; /* NULL if 7 is read */
};

static const struct field_case field_cases[] = {
    {"field: there", "{\"a\":{\"n\":7}}", NULL},
    {"field: missing", "{\"a\":{}}", "t.json: a.n is missing, wanted an integer from 1 to 10"},
    {"field: null", "{\"a\":{\"n\":null}}", "a.n is null, wanted an integer"},
    {"field: fraction", "{\"a\":{\"n\":3.5}}",
     "t.json: a.n is 3.5, wanted an integer from 1 to 10"},
    {"field: too small", "{\"a\":{\"n\":0}}", "a.n is 0, wanted an integer from 1 to 10"},
    {"field: too large", "{\"a\":{\"n\":11}}", "a.n is 11, wanted"},
    {"field: inexact", "{\"a\":{\"n\":9007199254740993}}", "a.n is 9007199254740993, wanted"},
    {"field: string", "{\"a\":{\"n\":\"7\"}}", "a.n is \"7\", wanted"},
    {"field: true", "{\"a\":{\"n\":true}}", "a.n is true, wanted"},
    {"field: array", "{\"a\":{\"n\":[1,2]}}", "a.n is an array of 2, wanted"},
    {"field: object", "{\"a\":{\"n\":{}}}", "a.n is an object with 0 keys, wanted"},
};

static void check_field(void **state)
{
    const struct field_case *c = *state;
    struct test_log t;
    test_log_init(&t, DGL_LOG_ERROR);
    struct dgl_json_doc *doc = parse(c->json);
    struct dgl_json_reader r = {&t.log, doc};
    const struct dgl_json *object = dgl_json_get(dgl_json_root(doc), "a");
    int64_t value = 77;
    enum dgl_status status = dgl_json_need_i64(r, object, "n", 1, 10, &value);
    assert_int_equal(status, c->message ? DGL_ERR_FORMAT : DGL_OK);
    assert_int_equal(value, c->message ? 77 : 7);
    assert_int_equal(t.errors, c->message ? 1 : 0);
    if (c->message)
        assert_contains(t.text, c->message);
    dgl_json_destroy(&doc);
}

static void needed_values_are_checked_for_type(void **state)
{
    (void)state;
    struct test_log t;
    test_log_init(&t, DGL_LOG_ERROR);
    struct dgl_json_doc *doc = parse("{\"s\":\"x\",\"o\":{}}");
    struct dgl_json_reader r = {&t.log, doc};
    const struct dgl_json *root = dgl_json_root(doc), *value = root;
    assert_int_equal(dgl_json_need(r, root, "s", DGL_JSON_STRING, &value), DGL_OK);
    assert_string_equal(dgl_json_str(value).p, "x");
    assert_int_equal(dgl_json_need(r, root, "s", DGL_JSON_OBJECT, &value), DGL_ERR_FORMAT);
    assert_null(value);
    assert_string_equal(t.text, "t.json: s is \"x\", wanted an object\n");
    test_log_clear(&t);
    assert_int_equal(dgl_json_need(r, root, "q", DGL_JSON_ARRAY, &value), DGL_ERR_FORMAT);
    assert_string_equal(t.text, "t.json: q is missing, wanted an array\n");
    dgl_json_destroy(&doc);
}

static void optional_fields_keep_their_defaults(void **state)
{
    (void)state;
    struct test_log t;
    test_log_init(&t, DGL_LOG_ERROR);
    struct dgl_json_doc *doc = parse("{\"null\":null,\"i\":3,\"f\":0.25,\"b\":true,\"s\":\"x\"}");
    struct dgl_json_reader r = {&t.log, doc};
    const struct dgl_json *root = dgl_json_root(doc), *value = root;
    int64_t i = 9;
    double f = 9;
    bool b = false;
    assert_int_equal(dgl_json_opt(r, root, "none", DGL_JSON_STRING, &value), DGL_OK);
    assert_null(value);
    assert_int_equal(dgl_json_opt_i64(r, root, "none", 0, 5, &i), DGL_OK);
    assert_int_equal(dgl_json_opt_i64(r, root, "null", 0, 5, &i), DGL_OK);
    assert_int_equal(dgl_json_opt_f64(r, root, "null", 0, 5, &f), DGL_OK);
    assert_int_equal(dgl_json_opt_bool(r, root, "null", &b), DGL_OK);
    assert_true(i == 9 && f == 9 && !b);
    assert_int_equal(dgl_json_opt_i64(r, root, "i", 0, 5, &i), DGL_OK);
    assert_int_equal(dgl_json_opt_f64(r, root, "f", 0, 5, &f), DGL_OK);
    assert_int_equal(dgl_json_opt_bool(r, root, "b", &b), DGL_OK);
    assert_true(i == 3 && f == 0.25 && b);
    assert_int_equal(t.errors, 0);
    dgl_json_destroy(&doc);
}

static void optional_fields_of_a_wrong_type_are_errors(void **state)
{
    (void)state;
    struct test_log t;
    test_log_init(&t, DGL_LOG_ERROR);
    struct dgl_json_doc *doc = parse("{\"i\":6,\"f\":-1,\"b\":1,\"s\":\"x\"}");
    struct dgl_json_reader r = {&t.log, doc};
    const struct dgl_json *root = dgl_json_root(doc), *value = root;
    int64_t i = 9;
    double f = 9;
    bool b = false;
    assert_int_equal(dgl_json_opt_i64(r, root, "i", 0, 5, &i), DGL_ERR_FORMAT);
    assert_int_equal(dgl_json_opt_f64(r, root, "f", 0, 0.5, &f), DGL_ERR_FORMAT);
    assert_contains(t.text, "t.json: f is -1, wanted a number from 0 to 0.5");
    assert_int_equal(dgl_json_opt_f64(r, root, "s", 0, 0.5, &f), DGL_ERR_FORMAT);
    assert_int_equal(dgl_json_opt_bool(r, root, "b", &b), DGL_ERR_FORMAT);
    assert_contains(t.text, "t.json: b is 1, wanted true or false");
    assert_int_equal(dgl_json_opt(r, root, "s", DGL_JSON_ARRAY, &value), DGL_ERR_FORMAT);
    assert_true(i == 9 && f == 9 && !b);
    assert_int_equal(t.errors, 5);
    dgl_json_destroy(&doc);
}

static void messages_name_the_path(void **state)
{
    (void)state;
    struct test_log t;
    test_log_init(&t, DGL_LOG_ERROR);
    struct dgl_json_doc *doc = parse("{\"x\":[[0],{\"deep\":[1,{\"k\":2}]}]}");
    struct dgl_json_reader r = {&t.log, doc};
    const struct dgl_json *x = dgl_json_get(dgl_json_root(doc), "x");
    const struct dgl_json *deep = dgl_json_get(dgl_json_at(x, 1), "deep");
    const struct dgl_json *k = dgl_json_get(dgl_json_at(deep, 1), "k");
    assert_int_equal(dgl_json_fail(r, k, "%s %d", "is odd:", 2), DGL_ERR_FORMAT);
    assert_string_equal(t.text, "t.json: x[1].deep[1].k: is odd: 2\n");
    test_log_clear(&t);
    dgl_json_fail(r, dgl_json_root(doc), "empty");
    dgl_json_fail(r, NULL, "nowhere");
    assert_string_equal(t.text, "t.json: empty\nt.json: nowhere\n");
    dgl_json_destroy(&doc);
}

static void messages_cut_long_strings(void **state)
{
    (void)state;
    struct test_log t;
    test_log_init(&t, DGL_LOG_ERROR);
    struct dgl_buf text = {0};
    dgl_buf_puts(&text, "{\"s\":\"");
    for (int i = 0; i < 4000; i++)
        dgl_buf_putc(&text, 'y');
    dgl_buf_puts(&text, "\"}");
    struct dgl_json_doc *doc = parse(text.p);
    const struct dgl_json *value;
    dgl_json_need((struct dgl_json_reader){&t.log, doc}, dgl_json_root(doc), "s", DGL_JSON_ARRAY,
                  &value);
    assert_contains(t.text, "yyy...\", wanted an array");
    assert_true(t.len < 200);
    dgl_json_destroy(&doc);
    dgl_buf_finish(&text);
}

static void load_reads_a_file_and_keeps_its_name(void **state)
{
    (void)state;
    char *dir = test_tmpdir();
    char path[4096];
    struct test_log t;
    struct dgl_json_doc *doc = NULL;
    test_log_init(&t, DGL_LOG_ERROR);
    test_write_file(dir, "c.json", "{\"a\":1}", 7);
    snprintf(path, sizeof(path), "%s/c.json", dir);
    assert_int_equal(dgl_json_load(&t.log, path, 100, &doc), DGL_OK);
    assert_string_equal(dgl_json_name(doc), path);
    dgl_json_destroy(&doc);
    assert_int_equal(dgl_json_load(&t.log, path, 6, &doc), DGL_ERR_FORMAT);
    assert_contains(t.text, "7 bytes, wanted at most 6");
    assert_null(doc);
    snprintf(path, sizeof(path), "%s/none.json", dir);
    assert_int_equal(dgl_json_load(&t.log, path, 100, &doc), DGL_ERR_IO);
    assert_null(doc);
    test_tmpdir_remove(dir);
}

static void write_sample(struct dgl_buf *out, int indent)
{
    struct dgl_json_writer w = dgl_json_writer(out, indent);
    dgl_jw_object(&w);
    dgl_jw_field_array(&w, "a");
    dgl_jw_i64(&w, INT64_MIN);
    dgl_jw_u64(&w, UINT64_MAX);
    dgl_jw_f64(&w, 0.1);
    dgl_jw_f64(&w, NAN);
    dgl_jw_f64(&w, INFINITY);
    dgl_jw_end_array(&w);
    dgl_jw_field_object(&w, "e");
    dgl_jw_end_object(&w);
    dgl_jw_field_array(&w, "f");
    dgl_jw_end_array(&w);
    dgl_jw_field_bool(&w, "b", true);
    dgl_jw_field_cstr(&w, "n", NULL);
    dgl_jw_end_object(&w);
}

static void writer_on_one_line(void **state)
{
    (void)state;
    struct dgl_buf out = {0};
    write_sample(&out, 0);
    assert_string_equal(out.p,
                        "{\"a\": [-9223372036854775808, 18446744073709551615, 0.1, null, null], "
                        "\"e\": {}, \"f\": [], \"b\": true, \"n\": null}");
    dgl_buf_finish(&out);
}

static void writer_with_indentation(void **state)
{
    (void)state;
    struct dgl_buf out = {0};
    write_sample(&out, 2);
    assert_string_equal(out.p,
                        "{\n  \"a\": [\n    -9223372036854775808,\n    18446744073709551615,\n"
                        "    0.1,\n    null,\n    null\n  ],\n  \"e\": {},\n  \"f\": [],\n"
                        "  \"b\": true,\n  \"n\": null\n}");
    dgl_buf_finish(&out);
}

static void writer_escapes(void **state)
{
    (void)state;
    struct dgl_buf out = {0};
    struct dgl_json_writer w = dgl_json_writer(&out, 0);
    dgl_jw_str(&w, DGL_STR("q\" b\\ \b\f\n\r\t \x01\x1f\x7f \0 \xC3\xA9 /\xC2\x9B\xC2\xA0"));
    assert_string_equal(
        out.p,
        "\"q\\\" b\\\\ \\b\\f\\n\\r\\t \\u0001\\u001f\\u007f \\u0000 \xC3\xA9 /\\u009b\xC2\xA0\"");
    dgl_buf_finish(&out);
}

static void writer_repairs_invalid_text(void **state)
{
    (void)state;
    struct dgl_buf out = {0};
    struct dgl_json_writer w = dgl_json_writer(&out, 0);
    dgl_jw_str(&w, DGL_STR("a\xFFz\n"));
    assert_string_equal(out.p, "\"a\xEF\xBF\xBDz\\n\"");
    dgl_buf_finish(&out);
}

/* A value as deep as the parser allows, inside of others. */
static void deep_values_are_written(void **state)
{
    enum { DEEPEST = 64, AROUND = 16 };
    char text[2 * DEEPEST + 1] = "", want[2 * (DEEPEST + AROUND) + 1] = "";
    struct dgl_buf out = {0};
    struct dgl_json_writer w = dgl_json_writer(&out, 0);
    struct dgl_json_doc *doc = NULL;
    (void)state;
    memset(text, '[', DEEPEST);
    memset(text + DEEPEST, ']', DEEPEST);
    memset(want, '[', DEEPEST + AROUND);
    memset(want + DEEPEST + AROUND, ']', DEEPEST + AROUND);
    assert_int_equal(dgl_json_parse(NULL, "t", text, 2 * DEEPEST, &doc), DGL_OK);
    for (int i = 0; i < AROUND; i++)
        dgl_jw_array(&w);
    dgl_jw_value(&w, dgl_json_root(doc));
    for (int i = 0; i < AROUND; i++)
        dgl_jw_end_array(&w);
    assert_string_equal(out.p, want);
    dgl_json_destroy(&doc);
    dgl_buf_finish(&out);
}

static void written_values_parse_to_the_same(void **state)
{
    (void)state;
    static const char text[] =
        "{\"z\": [1, 0.1, -1e-07, \"\\u0000\\n\\\"\", null, {\"a\\u0000\": true}], "
        "\"a\": {}, \"b\": [], \"c\": 9007199254740991, \"d\": 1e+300, "
        "\"e\": [1.0, 10000.00, 2E3, -0.0, 12345678901234567890, {\"f-1\": [9007199254740993]}]}";
    struct dgl_json_doc *doc = parse(text);
    struct dgl_buf out = {0};
    struct dgl_json_writer w = dgl_json_writer(&out, 0);
    dgl_jw_value(&w, dgl_json_root(doc));
    assert_string_equal(out.p, text);
    dgl_buf_finish(&out);
    dgl_json_destroy(&doc);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(strings_are_unescaped),
        cmocka_unit_test(strings_keep_their_nuls),
        cmocka_unit_test(a_lone_string_keeps_its_nul),
        cmocka_unit_test(values_have_types),
        cmocka_unit_test(null_pointers_are_harmless),
        cmocka_unit_test(doubles_are_exact),
        cmocka_unit_test(spellings_stay_with_their_numbers),
        cmocka_unit_test(numbers_do_not_depend_on_the_locale),
        cmocka_unit_test(iteration_is_in_file_order),
        cmocka_unit_test(objects_of_any_size_find_their_keys),
        cmocka_unit_test(duplicate_in_a_large_object_is_found),
        cmocka_unit_test(tiny_values_are_counted),
        cmocka_unit_test(large_documents_take_linear_time),
        cmocka_unit_test(needed_values_are_checked_for_type),
        cmocka_unit_test(optional_fields_keep_their_defaults),
        cmocka_unit_test(optional_fields_of_a_wrong_type_are_errors),
        cmocka_unit_test(messages_name_the_path),
        cmocka_unit_test(messages_cut_long_strings),
        cmocka_unit_test(load_reads_a_file_and_keeps_its_name),
        cmocka_unit_test(writer_on_one_line),
        cmocka_unit_test(writer_with_indentation),
        cmocka_unit_test(writer_escapes),
        cmocka_unit_test(writer_repairs_invalid_text),
        cmocka_unit_test(deep_values_are_written),
        cmocka_unit_test(written_values_parse_to_the_same),
    };
    return cmocka_run_group_tests_name("json", tests, NULL, NULL) +
           test_run_table("json texts", check_text, text_cases) +
           test_run_table("json integers", check_number, number_cases) +
           test_run_table("json fields", check_field, field_cases);
}
