/* Strings, buffers, numbers as text, UTF-8. */
#include "tests/support/test.h"

#include <locale.h>
#include <math.h>
#include <stdlib.h>

#include "core/base/utf8.h"

struct integer_case {
    const char *name, *text;
    int64_t min, max, value;
    bool ok;
};

static const struct integer_case integer_cases[] = {
    {"i64: zero", "0", INT64_MIN, INT64_MAX, 0, true},
    {"i64: minus zero", "-0", INT64_MIN, INT64_MAX, 0, true},
    {"i64: leading zeros", "0042", INT64_MIN, INT64_MAX, 42, true},
    {"i64: largest", "9223372036854775807", INT64_MIN, INT64_MAX, INT64_MAX, true},
    {"i64: smallest", "-9223372036854775808", INT64_MIN, INT64_MAX, INT64_MIN, true},
    {"i64: one above the largest", "9223372036854775808", INT64_MIN, INT64_MAX, 0, false},
    {"i64: one below the smallest", "-9223372036854775809", INT64_MIN, INT64_MAX, 0, false},
    {"i64: far too large", "99999999999999999999999", INT64_MIN, INT64_MAX, 0, false},
    {"i64: below the range", "-1", 0, 10, 0, false},
    {"i64: above the range", "11", 0, 10, 0, false},
    {"i64: at the bounds", "10", 10, 10, 10, true},
    {"i64: empty", "", INT64_MIN, INT64_MAX, 0, false},
    {"i64: sign only", "-", INT64_MIN, INT64_MAX, 0, false},
    {"i64: plus sign", "+1", INT64_MIN, INT64_MAX, 0, false},
    {"i64: two signs", "--1", INT64_MIN, INT64_MAX, 0, false},
    {"i64: leading blank", " 1", INT64_MIN, INT64_MAX, 0, false},
    {"i64: trailing blank", "1 ", INT64_MIN, INT64_MAX, 0, false},
    {"i64: trailing letter", "1k", INT64_MIN, INT64_MAX, 0, false},
    {"i64: fraction", "1.0", INT64_MIN, INT64_MAX, 0, false},
    {"i64: exponent", "1e3", INT64_MIN, INT64_MAX, 0, false},
    {"i64: hexadecimal", "0x10", INT64_MIN, INT64_MAX, 0, false},
};

static void check_integer(void **state)
{
    const struct integer_case *c = *state;
    int64_t out = 77;
    assert_int_equal(dgl_parse_i64(dgl_str_of(c->text), c->min, c->max, &out), c->ok);
    assert_true(out == (c->ok ? c->value : 77));
}

static void u64_bounds(void **state)
{
    (void)state;
    uint64_t out = 77;
    assert_true(dgl_parse_u64(dgl_str_of("18446744073709551615"), UINT64_MAX, &out));
    assert_true(out == UINT64_MAX);
    assert_false(dgl_parse_u64(dgl_str_of("18446744073709551616"), UINT64_MAX, &out));
    assert_false(dgl_parse_u64(dgl_str_of("-1"), UINT64_MAX, &out));
    assert_false(dgl_parse_u64(dgl_str_of("101"), 100, &out));
    assert_true(out == UINT64_MAX);
}

static void bytes_have_suffixes(void **state)
{
    static const struct {
        const char *text;
        uint64_t want; /* 0: refused */
    } cases[] = {{"1048576", 1 << 20},
                 {"1M", 1 << 20},
                 {"2048K", 2 << 20},
                 {"3G", 3ull << 30},
                 {"4G", 4ull << 30},
                 {"5G", 0},
                 {"1K", 0},
                 {"M", 0},
                 {"", 0},
                 {"1m", 0},
                 {"-1M", 0},
                 {"1.5M", 0},
                 {"18446744073709551615G", 0}};
    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        uint64_t out = 0;
        const bool ok = dgl_parse_bytes(dgl_str_of(cases[i].text), 1 << 20, 4ull << 30, &out);
        if (ok != (cases[i].want != 0) || out != cases[i].want)
            fail_msg("'%s' is %llu, wanted %llu", cases[i].text, (unsigned long long)out,
                     (unsigned long long)cases[i].want);
    }
}

static void integer_with_a_nul_inside_is_refused(void **state)
{
    (void)state;
    int64_t out = 77;
    assert_false(dgl_parse_i64((struct dgl_str){"1\0002", 3}, 0, 1000, &out));
    assert_int_equal(out, 77);
}

struct real_case {
    const char *name, *text;
    double value;
    bool ok;
};

static const struct real_case real_cases[] = {
    {"f64: integer", "12", 12, true},
    {"f64: fraction", "-0.125", -0.125, true},
    {"f64: exponent", "1e-3", 1e-3, true},
    {"f64: signed exponent", "1.5E+2", 150, true},
    {"f64: no digit before the point", ".5", 0.5, true},
    {"f64: no digit after the point", "5.", 5, true},
    {"f64: largest", "1.7976931348623157e308", 1.7976931348623157e308, true},
    {"f64: smallest", "5e-324", 5e-324, true},
    {"f64: rounds to zero", "1e-999", 0, true},
    {"f64: infinite after rounding", "1e999", 0, false},
    {"f64: just too large", "1.8e308", 0, false},
    {"f64: inf", "inf", 0, false},
    {"f64: nan", "nan", 0, false},
    {"f64: hexadecimal", "0x1p3", 0, false},
    {"f64: comma", "1,5", 0, false},
    {"f64: empty", "", 0, false},
    {"f64: point only", ".", 0, false},
    {"f64: sign only", "-", 0, false},
    {"f64: empty exponent", "1e", 0, false},
    {"f64: sign without exponent", "1e+", 0, false},
    {"f64: leading blank", " 1", 0, false},
    {"f64: trailing text", "1.5x", 0, false},
    {"f64: two points", "1.2.3", 0, false},
};

static void check_real(void **state)
{
    const struct real_case *c = *state;
    double out = 77;
    assert_int_equal(dgl_parse_f64(dgl_str_of(c->text), &out), c->ok);
    assert_true(out == (c->ok ? c->value : 77));
}

struct shortest_case {
    const char *name;
    double value;
    const char *text;
};

static const struct shortest_case shortest_cases[] = {
    {"print f64: zero", 0, "0"},
    {"print f64: minus zero", -0.0, "-0"},
    {"print f64: integer", 42, "42"},
    {"print f64: one tenth", 0.1, "0.1"},
    {"print f64: needs 16 digits", 0.1 + 0.7, "0.7999999999999999"},
    {"print f64: needs 17 digits", 0.1 + 0.2, "0.30000000000000004"},
    {"print f64: large", 1e300, "1e+300"},
    {"print f64: 2^53", 0x1p53, "9007199254740992"},
};

static void check_shortest(void **state)
{
    const struct shortest_case *c = *state;
    struct dgl_buf buf = {0};
    dgl_buf_f64(&buf, c->value);
    assert_string_equal(buf.p, c->text);
    dgl_buf_finish(&buf);
}

static void printed_doubles_read_back_the_same(void **state)
{
    (void)state;
    uint64_t seed = 11;
    for (int i = 0; i < 20000; i++) {
        uint64_t bits = test_rand(&seed);
        double value, back = 0;
        memcpy(&value, &bits, sizeof(value));
        if (!isfinite(value))
            continue;
        struct dgl_buf buf = {0};
        dgl_buf_f64(&buf, value);
        if (!dgl_parse_f64((struct dgl_str){buf.p, buf.len}, &back) || back != value)
            fail_msg("%a became \"%s\" and then %a", value, buf.p, back);
        dgl_buf_finish(&buf);
    }
}

static void printed_floats_are_short_and_read_back(void **state)
{
    (void)state;
    struct dgl_buf buf = {0};
    dgl_buf_f32(&buf, 0.1f);
    assert_string_equal(buf.p, "0.1");
    dgl_buf_finish(&buf);
    uint64_t seed = 12;
    for (int i = 0; i < 20000; i++) {
        float value = test_rand_float(&seed) * 0x1p-20f;
        dgl_buf_f32(&buf, value);
        if (strtof(buf.p, NULL) != value)
            fail_msg("%a became \"%s\"", (double)value, buf.p);
        dgl_buf_finish(&buf);
    }
}

/* The library must read and print a decimal point even if the program has set a locale with a
 * comma. */
static void numbers_do_not_depend_on_the_locale(void **state)
{
    (void)state;
    if (!test_set_comma_locale())
        SKIP("no locale with a decimal comma is installed");
    double out = 0;
    struct dgl_buf buf = {0};
    bool parsed = dgl_parse_f64(dgl_str_of("1.5"), &out);
    dgl_buf_f64(&buf, 2.5);
    dgl_buf_printf(&buf, " %.2f", 0.25);
    setlocale(LC_ALL, "C");
    assert_true(parsed && out == 1.5);
    assert_string_equal(buf.p, "2.5 0.25");
    dgl_buf_finish(&buf);
}

struct bytes_case {
    const char *name;
    uint64_t bytes;
    const char *text;
};

static const struct bytes_case bytes_cases[] = {
    {"bytes: none", 0, "0 B"},
    {"bytes: below one KiB", 1023, "1023 B"},
    {"bytes: one KiB", 1024, "1 KiB"},
    {"bytes: one decimal", 1610612736, "1.5 GiB"},
    {"bytes: no decimal from 10 on", 851443712, "812 MiB"},
    {"bytes: rounds into the next unit", 1048575, "1 MiB"},
    {"bytes: largest", UINT64_MAX, "16 EiB"},
};

static void check_bytes(void **state)
{
    const struct bytes_case *c = *state;
    struct dgl_buf buf = {0};
    dgl_buf_bytes(&buf, c->bytes);
    assert_string_equal(buf.p, c->text);
    dgl_buf_finish(&buf);
}

/* Test vectors of RFC 4648, section 10, and inputs that produce '+' and '/'. */
struct base64_case {
    const char *name, *bytes, *text;
};
static const struct base64_case base64_cases[] = {
    {"nothing", "", ""},
    {"one byte", "f", "Zg=="},
    {"two bytes", "fo", "Zm8="},
    {"three bytes", "foo", "Zm9v"},
    {"four bytes", "foob", "Zm9vYg=="},
    {"six bytes", "foobar", "Zm9vYmFy"},
    {"high bits", "\xff\xef\xbe\x80", "/+++gA=="},
};

static void test_base64(void **state)
{
    const struct base64_case *row = *state;
    struct dgl_buf buf = {0};
    dgl_buf_base64(&buf, row->bytes, strlen(row->bytes));
    assert_string_equal(buf.p ? buf.p : "", row->text);
    dgl_buf_finish(&buf);
}

static void string_comparisons(void **state)
{
    (void)state;
    assert_true(dgl_str_ends(DGL_STR("abc"), "bc") && dgl_str_ends(DGL_STR("abc"), "abc"));
    assert_true(dgl_str_ends(DGL_STR("abc"), "") && dgl_str_ends(DGL_STR(""), ""));
    assert_false(dgl_str_ends(DGL_STR("abc"), "ab") || dgl_str_ends(DGL_STR("bc"), "abc"));
    assert_true(dgl_str_eq(DGL_STR("abc"), "abc"));
    assert_false(dgl_str_eq(DGL_STR("abc"), "abcd"));
    assert_false(dgl_str_eq(DGL_STR("abc"), "ab"));
    assert_true(dgl_str_eq(dgl_str_of(NULL), ""));
    assert_true(dgl_str_eq((struct dgl_str){NULL, 0}, ""));
    assert_true(dgl_str_equal(DGL_STR("abc"), DGL_STR("abc")));
    assert_false(dgl_str_equal(DGL_STR("abc"), DGL_STR("abd")));
    assert_false(dgl_str_equal(DGL_STR("abc"), DGL_STR("ab")));
    assert_true(dgl_str_equal((struct dgl_str){NULL, 0}, DGL_STR("")));
    assert_true(dgl_str_starts(DGL_STR("model.layers"), "model."));
    assert_false(dgl_str_starts(DGL_STR("mod"), "model."));
    assert_true(dgl_str_starts(DGL_STR(""), ""));
    assert_true(dgl_str_ends(DGL_STR("a.weight"), ".weight"));
    assert_true(dgl_str_ends(DGL_STR(".weight"), ".weight"));
    assert_false(dgl_str_ends(DGL_STR("weight"), ".weight"));
    assert_false(dgl_str_ends(DGL_STR(".weights"), ".weight"));
    assert_true(dgl_str_ends(DGL_STR(""), ""));
}

static void trim_takes_blanks_off_both_ends(void **state)
{
    (void)state;
    assert_true(dgl_str_eq(dgl_str_trim(DGL_STR(" \t\r\n a b \v\f")), "a b"));
    assert_true(dgl_str_eq(dgl_str_trim(DGL_STR("   ")), ""));
    assert_true(dgl_str_eq(dgl_str_trim(DGL_STR("")), ""));
}

static void split_gives_every_part(void **state)
{
    (void)state;
    struct dgl_str rest = DGL_STR("a,,bc,"), part;
    static const char *const want[] = {"a", "", "bc"};
    for (size_t i = 0; i < 3; i++) {
        assert_true(dgl_str_split(&rest, ',', &part));
        assert_true(dgl_str_eq(part, want[i]));
    }
    assert_false(dgl_str_split(&rest, ',', &part));
}

static void buffer_appends_and_is_terminated(void **state)
{
    (void)state;
    struct dgl_buf buf = {0};
    dgl_buf_puts(&buf, "ab");
    dgl_buf_putc(&buf, 'c');
    dgl_buf_append(&buf, "\0d", 2);
    dgl_buf_printf(&buf, "%d%s", 12, "x");
    assert_int_equal(buf.len, 8);
    assert_memory_equal(buf.p, "abc\0d12x", 9);
    char *text = dgl_buf_take(&buf);
    assert_memory_equal(text, "abc\0d12x", 9);
    assert_null(buf.p);
    free(text);
}

static void taking_an_empty_buffer_gives_an_empty_text(void **state)
{
    (void)state;
    struct dgl_buf buf = {0};
    char *text = dgl_buf_take(&buf);
    assert_string_equal(text, "");
    free(text);
}

static void buffer_failure_is_sticky(void **state)
{
    (void)state;
    struct dgl_buf buf = {0};
    dgl_buf_puts(&buf, "x");
    buf.failed = true;
    dgl_buf_puts(&buf, "y");
    dgl_buf_printf(&buf, "%d", 1);
    assert_int_equal(buf.len, 1);
    assert_null(dgl_buf_take(&buf));
    assert_false(buf.failed);
}

struct utf8_case {
    const char *name, *text;
    size_t valid;      /* length of the valid prefix */
    size_t tail;       /* incomplete tail */
    const char *lossy; /* "?" replaces U+FFFD */
};

static const struct utf8_case utf8_cases[] = {
    {"utf8: empty", "", 0, 0, ""},
    {"utf8: ASCII", "abc", 3, 0, "abc"},
    {"utf8: two, three and four bytes", "\xC3\xA9\xE2\x82\xAC\xF0\x9F\x98\x80", 9, 0,
     "\xC3\xA9\xE2\x82\xAC\xF0\x9F\x98\x80"},
    {"utf8: last code point", "\xF4\x8F\xBF\xBF", 4, 0, "\xF4\x8F\xBF\xBF"},
    {"utf8: beyond the last code point", "\xF4\x90\x80\x80", 0, 0, "????"},
    {"utf8: lead byte F5", "\xF5\x80\x80\x80", 0, 0, "????"},
    {"utf8: overlong NUL", "a\xC0\x80z", 1, 0, "a??z"},
    {"utf8: overlong solidus in three", "\xE0\x80\xAF", 0, 0, "???"},
    {"utf8: overlong in four", "\xF0\x80\x80\xAF", 0, 0, "????"},
    {"utf8: smallest three bytes", "\xE0\xA0\x80", 3, 0, "\xE0\xA0\x80"},
    {"utf8: smallest four bytes", "\xF0\x90\x80\x80", 4, 0, "\xF0\x90\x80\x80"},
    {"utf8: high surrogate", "\xED\xA0\x80", 0, 0, "???"},
    {"utf8: low surrogate", "\xED\xBF\xBF", 0, 0, "???"},
    {"utf8: just below the surrogates", "\xED\x9F\xBF", 3, 0, "\xED\x9F\xBF"},
    {"utf8: lone continuation", "a\x80z", 1, 0, "a?z"},
    {"utf8: continuations at the end", "a\x80\x80\x80\x80", 1, 0, "a????"},
    {"utf8: bytes FE and FF", "\xFE\xFF", 0, 0, "??"},
    {"utf8: cut after one of two", "a\xC3", 1, 1, "a?"},
    {"utf8: cut after one of three", "a\xE2", 1, 1, "a?"},
    {"utf8: cut after two of three", "a\xE2\x82", 1, 2, "a?"},
    {"utf8: cut after three of four", "a\xF0\x9F\x98", 1, 3, "a?"},
    {"utf8: cut, but could never become a surrogate", "a\xED\xA0", 1, 0, "a??"},
    {"utf8: cut, but overlong already", "a\xE0\x80", 1, 0, "a??"},
    {"utf8: truncated, then text", "\xF0\x9F\x98z", 0, 0, "?z"},
    {"utf8: truncated, then a character", "\xE2\x82\xC3\xA9", 0, 0, "?\xC3\xA9"},
    {"utf8: truncated twice", "\xE2\x82\xE2\x82", 0, 2, "??"},
    /* Unicode 15, table 3-8 */
    {"utf8: the standard's example", "a\xF1\x80\x80\xE1\x80\xC2\x62\x80\x63\x80\xBF\x64", 1, 0,
     "a???b?c??d"},
};

static void check_utf8(void **state)
{
    const struct utf8_case *c = *state;
    size_t len = strlen(c->text);
    assert_int_equal(dgl_utf8_valid_prefix(c->text, len), c->valid);
    assert_int_equal(dgl_utf8_incomplete_tail(c->text, len), c->tail);
    struct dgl_buf want = {0}, got = {0};
    for (const char *p = c->lossy; *p; p++) {
        if (*p == '?')
            dgl_buf_puts(&want, "\xEF\xBF\xBD");
        else
            dgl_buf_putc(&want, *p);
    }
    dgl_utf8_append_lossy(&got, c->text, len);
    assert_int_equal(got.len, want.len);
    if (want.len)
        assert_memory_equal(got.p, want.p, want.len);
    dgl_buf_finish(&want);
    dgl_buf_finish(&got);
}

static void only_hex_digits_have_a_value(void **state)
{
    (void)state;
    static const char digits[] = "0123456789abcdef", upper[] = "0123456789ABCDEF";
    for (int c = -128; c < 128; c++) {
        const char *low = c > 0 ? strchr(digits, c) : NULL, *up = c > 0 ? strchr(upper, c) : NULL;
        int want = low ? (int)(low - digits) : up ? (int)(up - upper) : -1;
        if (dgl_hex_value((char)c) != want)
            fail_msg("character %d is %d, wanted %d", c, dgl_hex_value((char)c), want);
    }
}

static void every_code_point_survives(void **state)
{
    (void)state;
    for (uint32_t cp = 0; cp <= 0x10FFFF; cp++) {
        char text[4];
        uint32_t back = 0;
        size_t len = dgl_utf8_encode(cp, text);
        size_t valid = dgl_utf8_valid_prefix(text, len);
        size_t want = cp >= 0xD800 && cp <= 0xDFFF ? 0 : len;
        if (valid != want)
            fail_msg("U+%04X: %zu of %zu bytes valid, wanted %zu", (unsigned)cp, valid, len, want);
        if (want && (dgl_utf8_decode(text, len, &back) != len || back != cp))
            fail_msg("U+%04X came back as U+%04X", (unsigned)cp, (unsigned)back);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(u64_bounds),
        cmocka_unit_test(bytes_have_suffixes),
        cmocka_unit_test(integer_with_a_nul_inside_is_refused),
        cmocka_unit_test(printed_doubles_read_back_the_same),
        cmocka_unit_test(printed_floats_are_short_and_read_back),
        cmocka_unit_test(numbers_do_not_depend_on_the_locale),
        cmocka_unit_test(only_hex_digits_have_a_value),
        cmocka_unit_test(string_comparisons),
        cmocka_unit_test(trim_takes_blanks_off_both_ends),
        cmocka_unit_test(split_gives_every_part),
        cmocka_unit_test(buffer_appends_and_is_terminated),
        cmocka_unit_test(taking_an_empty_buffer_gives_an_empty_text),
        cmocka_unit_test(buffer_failure_is_sticky),
        cmocka_unit_test(every_code_point_survives),
    };
    return cmocka_run_group_tests_name("text", tests, NULL, NULL) +
           test_run_table("integers", check_integer, integer_cases) +
           test_run_table("reals", check_real, real_cases) +
           test_run_table("shortest", check_shortest, shortest_cases) +
           test_run_table("byte counts", check_bytes, bytes_cases) +
           test_run_table("base64", test_base64, base64_cases) +
           test_run_table("utf8", check_utf8, utf8_cases);
}
