/* Tests ("x is TEST") and global functions. */
#include <locale.h>
#include <string.h>
#include <time.h>

#include "core/base/utf8.h"
#include "loader/jinja/jinja_call.h"

/* ---- tests ---- */

/* Sets of types. */
#define TYPE(name) (1 << JINJA_##name)

/* Variant: the set of types for which the test is true. */
static bool test_type(struct jinja_invocation *in, struct jinja_value *out)
{
    *out = jinja_bool((unsigned)in->builtin->variant >> in->self.type & 1);
    return true;
}

/* Variant: the value that a bool must have. */
static bool test_bool(struct jinja_invocation *in, struct jinja_value *out)
{
    *out = jinja_bool(in->self.type == JINJA_BOOL && in->self.boolean == in->builtin->variant);
    return true;
}

static bool test_escaped(struct jinja_invocation *in, struct jinja_value *out)
{
    *out = jinja_bool(jinja_is_text(&in->self) && in->self.safe);
    return true;
}

static bool test_callable(struct jinja_invocation *in, struct jinja_value *out)
{
    const int types = TYPE(FUNCTION) | TYPE(MACRO) | TYPE(LOOP) | TYPE(UNDEFINED);
    bool joiner = in->self.type == JINJA_CYCLER && !in->self.cycler->list;
    *out = jinja_bool(joiner || types >> in->self.type & 1);
    return true;
}

/* Variant: enum jinja_cmp. */
static bool test_compare(struct jinja_invocation *in, struct jinja_value *out)
{
    bool holds;
    if (!jinja_compare(in->run, (enum jinja_cmp)in->builtin->variant, &in->self, &in->arg[0],
                       &holds))
        return false;
    *out = jinja_bool(holds);
    return true;
}

static bool test_sameas(struct jinja_invocation *in, struct jinja_value *out)
{
    const struct jinja_value *a = &in->self, *b = &in->arg[0];
    bool same = a->type == b->type;
    if (same && jinja_is_sequence(a))
        same = a->list == b->list;
    else if (same && a->type == JINJA_DICT)
        same = a->dict == b->dict;
    else if (same && !jinja_equal(in->run, a, b, &same))
        return false;
    *out = jinja_bool(same);
    return true;
}

enum parity { EVEN, ODD };

/* even, odd and divisibleby. 1.5 is neither even nor odd. Variant: enum parity, or -1 if the
 * divisor is an argument. */
static bool test_divisible(struct jinja_invocation *in, struct jinja_value *out)
{
    const struct jinja_value two = jinja_int(2);
    int parity = in->builtin->variant;
    struct jinja_value rest;
    if (jinja_is_text(&in->self))
        return jinja_error(in->run, "not all arguments converted during string formatting");
    if (!jinja_arithmetic(in->run, JINJA_OP_MOD, &in->self, parity < 0 ? &in->arg[0] : &two, &rest))
        return false;
    *out = jinja_bool(parity == ODD ? jinja_real(&rest) == 1 : !jinja_truth(&rest));
    return true;
}

enum table { FILTERS, TESTS };

/* True if the value is the name of a filter or test. Variant: enum table. */
static bool test_name(struct jinja_invocation *in, struct jinja_value *out)
{
    struct dgl_str name = jinja_is_text(&in->self) ? jinja_str(&in->self) : (struct dgl_str){0};
    *out = jinja_bool((in->builtin->variant == FILTERS ? jinja_find_filter(name)
                                                       : jinja_find_test(name)) != NULL);
    return true;
}

const struct jinja_builtin jinja_tests[] = {
    {"defined", test_type, "", ~TYPE(UNDEFINED)},
    {"undefined", test_type, "", TYPE(UNDEFINED)},
    {"none", test_type, "", TYPE(NONE)},
    {"boolean", test_type, "", TYPE(BOOL)},
    {"true", test_bool, "", true},
    {"false", test_bool, "", false},
    {"integer", test_type, "", TYPE(INT)},
    {"float", test_type, "", TYPE(FLOAT)},
    {"number", test_type, "", TYPE(BOOL) | TYPE(INT) | TYPE(FLOAT)},
    {"string", test_type, "", TYPE(STRING)},
    {"mapping", test_type, "", TYPE(DICT)},
    {"iterable", test_type, "",
     TYPE(UNDEFINED) | TYPE(STRING) | TYPE(LIST) | TYPE(TUPLE) | TYPE(GENERATOR) | TYPE(VIEW) |
         TYPE(RANGE) | TYPE(DICT) | TYPE(LOOP)},
    {"sequence", test_type, "",
     TYPE(UNDEFINED) | TYPE(STRING) | TYPE(LIST) | TYPE(TUPLE) | TYPE(RANGE) | TYPE(DICT)},
    {"callable", test_callable, "", 0},
    {"escaped", test_escaped, "", 0},
    {"sameas", test_sameas, "other!", 0},
    {"==", test_compare, "other!", JINJA_CMP_EQ},
    {"eq", test_compare, "other!", JINJA_CMP_EQ},
    {"equalto", test_compare, "other!", JINJA_CMP_EQ},
    {"!=", test_compare, "other!", JINJA_CMP_NE},
    {"ne", test_compare, "other!", JINJA_CMP_NE},
    {"<", test_compare, "other!", JINJA_CMP_LT},
    {"lt", test_compare, "other!", JINJA_CMP_LT},
    {"lessthan", test_compare, "other!", JINJA_CMP_LT},
    {"<=", test_compare, "other!", JINJA_CMP_LE},
    {"le", test_compare, "other!", JINJA_CMP_LE},
    {">", test_compare, "other!", JINJA_CMP_GT},
    {"gt", test_compare, "other!", JINJA_CMP_GT},
    {"greaterthan", test_compare, "other!", JINJA_CMP_GT},
    {">=", test_compare, "other!", JINJA_CMP_GE},
    {"ge", test_compare, "other!", JINJA_CMP_GE},
    {"in", test_compare, "seq!", JINJA_CMP_IN},
    {"even", test_divisible, "", EVEN},
    {"odd", test_divisible, "", ODD},
    {"divisibleby", test_divisible, "num!", -1},
    {"lower", jinja_filter_has_case, "", JINJA_LOWER},
    {"upper", jinja_filter_has_case, "", JINJA_UPPER},
    {"filter", test_name, "", FILTERS},
    {"test", test_name, "", TESTS},
    {.name = NULL},
};

/* ---- dates ---- */

static int within(int value, int low, int high)
{
    return value < low ? low : value > high ? high : value;
}

/* Formats a time by strftime() in the C locale, without a time zone; "%-d" omits the padding.
 * Fields of `now` that are out of range are clamped. The day of the week and of the year are
 * computed from the date. Returns false and sets *unknown to the letter if a conversion is unknown.
 * If memory is exhausted, sets out->failed. */
static bool format_time(struct dgl_buf *out, struct dgl_str format, const struct tm *now,
                        char *unknown)
{
    static const char known[] = "aAbBcCdDeFgGhHIjklmMnpPrRStTuUVwWxXyY%";
    const locale_t locale = newlocale(LC_ALL_MASK, "C", (locale_t)0);
    struct tm time = {.tm_year = within(now->tm_year, -1899, 8099),
                      .tm_mon = within(now->tm_mon, 0, 11),
                      .tm_mday = within(now->tm_mday, 1, 31)};
    struct tm day = time;
    bool ok = true;
    timegm(&day);
    time.tm_wday = day.tm_wday;
    time.tm_yday = day.tm_yday;
    time.tm_hour = within(now->tm_hour, 0, 23);
    time.tm_min = within(now->tm_min, 0, 59);
    time.tm_sec = within(now->tm_sec, 0, 60);
    out->failed |= !locale;
    for (size_t i = 0; locale && i < format.len; i++) {
        if (format.p[i] != '%' || i + 1 == format.len) {
            dgl_buf_putc(out, format.p[i]);
            continue;
        }
        bool bare = format.p[i + 1] == '-' && i + 2 < format.len;
        char letter = format.p[i += bare ? 2 : 1];
        if (letter == 'f') { /* microseconds, a conversion of Python only */
            dgl_buf_puts(out, bare ? "0" : "000000");
        } else if (letter == 'z' || letter == 'Z') {
            continue;
        } else if (letter && strchr(known, letter)) {
            const char conversion[] = {'%', bare ? '-' : letter, bare ? letter : '\0', '\0'};
            char text[64];
            dgl_buf_append(out, text, strftime_l(text, sizeof(text), conversion, &time, locale));
        } else {
            *unknown = letter;
            ok = false;
            break;
        }
    }
    if (locale)
        freelocale(locale);
    return ok;
}

/* ---- functions ---- */

/* The same limit as the sandbox of jinja2. */
enum { max_range = 100000 };

static bool global_range(struct jinja_invocation *in, struct jinja_value *out)
{
    struct jinja_value range = {.type = JINJA_RANGE, .range = {.step = 1}};
    int64_t first, stop = 0;
    if (!jinja_arg_int(in, 0, 0, &first) || !jinja_arg_int(in, 1, 0, &stop) ||
        !jinja_arg_int(in, 2, 1, &range.range.step))
        return false;
    bool from_zero = in->arg[1].type == JINJA_ABSENT;
    range.range.start = from_zero ? 0 : first;
    range.range.stop = from_zero ? first : stop;
    if (range.range.step == 0)
        return jinja_error(in->run, "range() arg 3 must not be zero");
    if (jinja_range_count(&range) > max_range)
        return jinja_error(in->run,
                           "Range too big. The sandbox blocks ranges larger than MAX_RANGE (%d).",
                           max_range);
    *out = range;
    return true;
}

/* dict() and namespace(): accepts a dict or pairs, and keywords. Variant: enum jinja_type. */
static bool global_dict(struct jinja_invocation *in, struct jinja_value *out)
{
    const struct jinja_call *call = in->call;
    const struct jinja_value *from = call->num_args ? &call->args[0] : NULL;
    struct jinja_iter iter;
    struct jinja_value item, pair;
    if (!jinja_new_dict(in->run, (enum jinja_type)in->builtin->variant, out))
        return false;
    if (call->num_args > 1)
        return jinja_error(in->run, "dict expected at most 1 argument, got %zu", call->num_args);
    if (from && !jinja_iter_init(in->run, from, &iter))
        return false;
    while (from && jinja_iter_next(&iter, &item)) {
        struct jinja_value *value;
        if (from->type == JINJA_DICT) {
            if (!jinja_dict_find(in->run, from->dict, &item, &value) ||
                !jinja_dict_set(in->run, out->dict, &item, value))
                return false;
            continue;
        }
        if (!jinja_collect(in->run, &item, JINJA_TUPLE, &pair))
            return false;
        if (pair.list->count != 2)
            return jinja_error(in->run,
                               "dictionary update sequence element has length %zu; 2 is required",
                               pair.list->count);
        if (!jinja_dict_set(in->run, out->dict, &pair.list->items[0], &pair.list->items[1]))
            return false;
    }
    return jinja_dict_set_named(in->run, out->dict, call);
}

static bool new_cycler(struct jinja_run *run, struct jinja_value *out)
{
    struct jinja_cycler *cycler = jinja_alloc(run, 1, sizeof(*cycler));
    *out = (struct jinja_value){.type = JINJA_CYCLER, .cycler = cycler};
    return cycler != NULL;
}

static bool global_cycler(struct jinja_invocation *in, struct jinja_value *out)
{
    struct jinja_value items;
    if (in->call->num_args == 0)
        return jinja_error(in->run, "at least one item has to be provided");
    if (!new_cycler(in->run, out) ||
        !jinja_new_list(in->run, JINJA_LIST, in->call->num_args, &items))
        return false;
    out->cycler->list = items.list;
    return jinja_list_extend(in->run, items.list, in->call->args, in->call->num_args);
}

static bool global_joiner(struct jinja_invocation *in, struct jinja_value *out)
{
    if (!new_cycler(in->run, out))
        return false;
    out->cycler->separator = in->arg[0].type == JINJA_ABSENT ? jinja_literal(", ") : in->arg[0];
    return true;
}

/* Copies an error message to `out` as one line and returns its length. A line end with the
 * whitespace around it becomes one space. A long message is cut between two characters. */
static size_t make_message(struct dgl_str words, char *out, size_t room)
{
    size_t len = 0, from = 0; /* start of the whitespace before a word */
    bool ends_line = false;
    words = dgl_str_trim(words);
    for (size_t i = 0; i < words.len && len < room; i++) {
        ends_line |= words.p[i] == '\n' || words.p[i] == '\r';
        if (words.p[i] == ' ' || words.p[i] == '\t' || words.p[i] == '\r' || words.p[i] == '\n')
            continue;
        if (ends_line)
            out[len++] = ' ';
        else
            while (from < i && len < room)
                out[len++] = words.p[from++];
        if (len < room)
            out[len++] = words.p[i];
        from = i + 1;
        ends_line = false;
    }
    return dgl_utf8_valid_prefix(out, len);
}

static bool global_raise(struct jinja_invocation *in, struct jinja_value *out)
{
    struct jinja_value message;
    char line[2048];
    (void)out;
    if (!jinja_to_text(in->run, &in->arg[0], &message))
        return false;
    size_t len = make_message(jinja_str(&message), line, sizeof(line));
    return jinja_error(in->run, "%.*s", (int)len, line);
}

static bool global_strftime(struct jinja_invocation *in, struct jinja_value *out)
{
    struct jinja_value format;
    struct dgl_buf space = {0};
    struct jinja_text text = {0};
    char unknown = '\0';
    if (!jinja_arg_text(in, 0, jinja_literal(""), &format) ||
        !jinja_step(in->run, format.text.len + 1))
        return false;
    bool ok = format_time(&space, jinja_str(&format), in->run->now, &unknown) ||
              jinja_fail(in->run, DGL_ERR_UNSUPPORTED, "strftime_now() does not support '%%%c'",
                         unknown >= 0x20 && unknown < 0x7F ? unknown : '?');
    ok = ok && jinja_text_put(in->run, &text, (struct dgl_str){space.p, space.len}, format.data);
    text.bytes.failed |= space.failed;
    dgl_buf_finish(&space);
    return jinja_text_end(in->run, &text, ok, out);
}

static bool cycler_next(struct jinja_invocation *in, struct jinja_value *out)
{
    struct jinja_cycler *cycler = in->self.cycler;
    *out = cycler->list->items[cycler->next];
    cycler->next = (cycler->next + 1) % cycler->list->count;
    return true;
}

static bool cycler_reset(struct jinja_invocation *in, struct jinja_value *out)
{
    in->self.cycler->next = 0;
    *out = jinja_none();
    return true;
}

const struct jinja_builtin jinja_cycler_methods[] = {
    {"next", cycler_next, "", 0}, {"reset", cycler_reset, "", 0}, {.name = NULL}};

const struct jinja_builtin jinja_globals[] = {
    {"range", global_range, "start! stop step", 0},
    {"dict", global_dict, NULL, JINJA_DICT},
    {"namespace", global_dict, NULL, JINJA_NAMESPACE},
    {"cycler", global_cycler, NULL, 0},
    {"joiner", global_joiner, "sep", 0},
    {"raise_exception", global_raise, "message!", 0},
    {"strftime_now", global_strftime, "format!", 0},
    {.name = "lipsum"}, /* not supported in chat templates */
    {.name = NULL},
};
