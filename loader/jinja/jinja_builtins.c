/* Tests, which stand behind "is", and the functions that every template has. */
#include <string.h>

#include "core/base/utf8.h"
#include "loader/jinja/jinja_call.h"

/* ---- tests ---- */

static bool answer(struct jinja_value *out, bool yes)
{
    *out = jinja_bool(yes);
    return true;
}

#define TYPE_TEST(name, condition)                                                                 \
    static bool test_##name(struct jinja_run *run, struct jinja_invocation *in,                    \
                            struct jinja_value *out)                                               \
    {                                                                                              \
        const struct jinja_value *value = &in->self;                                               \
        (void)run;                                                                                 \
        return answer(out, condition);                                                             \
    }

TYPE_TEST(defined, value->type != JINJA_UNDEFINED)
TYPE_TEST(undefined, value->type == JINJA_UNDEFINED)
TYPE_TEST(none, value->type == JINJA_NONE)
TYPE_TEST(boolean, value->type == JINJA_BOOL)
TYPE_TEST(true, value->type == JINJA_BOOL && value->boolean)
TYPE_TEST(false, value->type == JINJA_BOOL && !value->boolean)
TYPE_TEST(integer, value->type == JINJA_INT)
TYPE_TEST(float, value->type == JINJA_FLOAT)
TYPE_TEST(number, jinja_is_number(value))
TYPE_TEST(string, jinja_is_text(value))
TYPE_TEST(mapping, value->type == JINJA_DICT)
TYPE_TEST(iterable, jinja_can_iterate(value))
TYPE_TEST(escaped, jinja_is_text(value) && value->safe)
TYPE_TEST(sequence, jinja_is_text(value) || jinja_is_sequence(value) || value->type == JINJA_DICT ||
                        value->type == JINJA_RANGE || value->type == JINJA_UNDEFINED)
TYPE_TEST(callable, value->type == JINJA_FUNCTION || value->type == JINJA_MACRO ||
                        value->type == JINJA_LOOP || value->type == JINJA_UNDEFINED ||
                        (value->type == JINJA_CYCLER && !value->cycler->list))

#undef TYPE_TEST

/* ---- comparisons ---- */

static bool compare(struct jinja_run *run, struct jinja_invocation *in, enum jinja_cmp cmp,
                    struct jinja_value *out)
{
    bool holds;
    return jinja_compare(run, cmp, &in->self, &in->arg[0], &holds) && answer(out, holds);
}

#define COMPARISON(name, cmp)                                                                      \
    static bool test_##name(struct jinja_run *run, struct jinja_invocation *in,                    \
                            struct jinja_value *out)                                               \
    {                                                                                              \
        return compare(run, in, (cmp), out);                                                       \
    }

COMPARISON(eq, JINJA_CMP_EQ)
COMPARISON(ne, JINJA_CMP_NE)
COMPARISON(lt, JINJA_CMP_LT)
COMPARISON(le, JINJA_CMP_LE)
COMPARISON(gt, JINJA_CMP_GT)
COMPARISON(ge, JINJA_CMP_GE)
COMPARISON(in, JINJA_CMP_IN)

#undef COMPARISON

static bool test_sameas(struct jinja_run *run, struct jinja_invocation *in, struct jinja_value *out)
{
    const struct jinja_value *a = &in->self, *b = &in->arg[0];
    bool same = a->type == b->type;
    if (same && jinja_is_sequence(a))
        same = a->list == b->list;
    else if (same && a->type == JINJA_DICT)
        same = a->dict == b->dict;
    else if (same)
        return jinja_equal(run, a, b, &same) && answer(out, same);
    return answer(out, same);
}

/* ---- numbers ---- */

static bool rest_of_division(struct jinja_run *run, const struct jinja_value *value,
                             struct jinja_value divisor, bool *zero)
{
    struct jinja_value rest;
    if (jinja_is_text(value))
        return jinja_error(run, "not all arguments converted during string formatting");
    if (!jinja_arithmetic(run, JINJA_OP_MOD, value, &divisor, &rest))
        return false;
    *zero = !jinja_truth(&rest);
    return true;
}

static bool test_even(struct jinja_run *run, struct jinja_invocation *in, struct jinja_value *out)
{
    bool even;
    return rest_of_division(run, &in->self, jinja_int(2), &even) && answer(out, even);
}

/* value % 2 == 1: 1.5 is neither odd nor even. */
static bool test_odd(struct jinja_run *run, struct jinja_invocation *in, struct jinja_value *out)
{
    bool even;
    if (!rest_of_division(run, &in->self, jinja_int(2), &even))
        return false;
    double rest = jinja_real(&in->self);
    return answer(out, !even && (jinja_is_integral(&in->self) || rest == (double)(int64_t)rest));
}

static bool test_divisibleby(struct jinja_run *run, struct jinja_invocation *in,
                             struct jinja_value *out)
{
    bool zero;
    return rest_of_division(run, &in->self, in->arg[0], &zero) && answer(out, zero);
}

/* ---- texts ---- */

/* Whether changing the case changes nothing, and there is a case at all. */
static bool has_case(struct jinja_run *run, const struct jinja_value *value,
                     enum jinja_casing casing, struct jinja_value *out)
{
    struct jinja_value text, same, other;
    if (!jinja_to_text(run, value, &text) || !jinja_change_case(run, &text, casing, &same) ||
        !jinja_change_case(run, &text, casing == JINJA_UPPER ? JINJA_LOWER : JINJA_UPPER, &other))
        return false;
    bool kept, changed;
    if (!jinja_equal(run, &text, &same, &kept) || !jinja_equal(run, &text, &other, &changed))
        return false;
    return answer(out, kept && !changed);
}

static bool test_lower(struct jinja_run *run, struct jinja_invocation *in, struct jinja_value *out)
{
    return has_case(run, &in->self, JINJA_LOWER, out);
}

static bool test_upper(struct jinja_run *run, struct jinja_invocation *in, struct jinja_value *out)
{
    return has_case(run, &in->self, JINJA_UPPER, out);
}

static bool test_filter(struct jinja_run *run, struct jinja_invocation *in, struct jinja_value *out)
{
    (void)run;
    return answer(out, jinja_is_text(&in->self) && jinja_find_filter(jinja_str(&in->self)));
}

static bool test_test(struct jinja_run *run, struct jinja_invocation *in, struct jinja_value *out)
{
    (void)run;
    return answer(out, jinja_is_text(&in->self) && jinja_find_test(jinja_str(&in->self)));
}

const struct jinja_builtin jinja_tests[] = {
    {"defined", test_defined, ""},
    {"undefined", test_undefined, ""},
    {"none", test_none, ""},
    {"boolean", test_boolean, ""},
    {"true", test_true, ""},
    {"false", test_false, ""},
    {"integer", test_integer, ""},
    {"float", test_float, ""},
    {"number", test_number, ""},
    {"string", test_string, ""},
    {"mapping", test_mapping, ""},
    {"iterable", test_iterable, ""},
    {"sequence", test_sequence, ""},
    {"callable", test_callable, ""},
    {"escaped", test_escaped, ""},
    {"sameas", test_sameas, "other!"},
    {"==", test_eq, "other!"},
    {"eq", test_eq, "other!"},
    {"equalto", test_eq, "other!"},
    {"!=", test_ne, "other!"},
    {"ne", test_ne, "other!"},
    {"<", test_lt, "other!"},
    {"lt", test_lt, "other!"},
    {"lessthan", test_lt, "other!"},
    {"<=", test_le, "other!"},
    {"le", test_le, "other!"},
    {">", test_gt, "other!"},
    {"gt", test_gt, "other!"},
    {"greaterthan", test_gt, "other!"},
    {">=", test_ge, "other!"},
    {"ge", test_ge, "other!"},
    {"in", test_in, "seq!"},
    {"even", test_even, ""},
    {"odd", test_odd, ""},
    {"divisibleby", test_divisibleby, "num!"},
    {"lower", test_lower, ""},
    {"upper", test_upper, ""},
    {"filter", test_filter, ""},
    {"test", test_test, ""},
    {NULL, NULL, NULL},
};

/* ---- dates ---- */

static const char *const day_names[] = {"Sunday",   "Monday", "Tuesday", "Wednesday",
                                        "Thursday", "Friday", "Saturday"};
static const char *const month_names[] = {"January",   "February", "March",    "April",
                                          "May",       "June",     "July",     "August",
                                          "September", "October",  "November", "December"};

/* A date with what follows from it. */
struct date {
    int year, month, day; /* month from 1 */
    int hour, minute, second;
    int week_day, year_day; /* from 0 = Sunday and from 0 = 1 January */
};

static bool is_leap(int year)
{
    return (year % 4 == 0 && year % 100 != 0) || year % 400 == 0;
}

static int days_before(int year, int month)
{
    static const int days[] = {0, 31, 59, 90, 120, 151, 181, 212, 243, 273, 304, 334};
    return days[month - 1] + (month > 2 && is_leap(year));
}

/* Fields out of range are brought into it, so that no caller can make us read beyond the names. */
static int within(int value, int low, int high)
{
    return value < low ? low : value > high ? high : value;
}

static struct date date_of(const struct tm *now)
{
    struct date d = {.year = within(now->tm_year, -1899, 8099) + 1900,
                     .month = within(now->tm_mon, 0, 11) + 1,
                     .day = within(now->tm_mday, 1, 31),
                     .hour = within(now->tm_hour, 0, 23),
                     .minute = within(now->tm_min, 0, 59),
                     .second = within(now->tm_sec, 0, 60)};
    d.year_day = days_before(d.year, d.month) + d.day - 1;
    int past = d.year - 1; /* 1 January of the year 1 was a Monday */
    d.week_day = (1 + past * 365 + past / 4 - past / 100 + past / 400 + d.year_day) % 7;
    return d;
}

/* The year and week that ISO 8601 counts the date to. */
static int iso_week(const struct date *d, int *year)
{
    int monday_based = (d->week_day + 6) % 7;
    int thursday = d->year_day - monday_based + 3; /* decides the year */
    int days = is_leap(d->year) ? 366 : 365;
    *year = d->year;
    if (thursday < 0) {
        *year = d->year - 1;
        thursday += is_leap(*year) ? 366 : 365;
    } else if (thursday >= days) {
        *year = d->year + 1;
        thursday -= days;
    }
    return thursday / 7 + 1;
}

static void put_number(struct dgl_buf *out, int value, int width, char pad)
{
    if (pad == '-')
        dgl_buf_printf(out, "%d", value);
    else
        dgl_buf_printf(out, pad == '0' ? "%0*d" : "%*d", width, value);
}

/* Numbers of fixed width; false: the letter is none of them. `pad` is '-' for no padding, else 0.
 */
static bool put_numeric(struct dgl_buf *out, char letter, const struct date *d, char pad)
{
    int week_year, week = iso_week(d, &week_year);
    const struct {
        char letter;
        int value, width;
        char pad;
    } fields[] = {
        {'d', d->day, 2, '0'},
        {'e', d->day, 2, ' '},
        {'m', d->month, 2, '0'},
        {'y', d->year % 100, 2, '0'},
        {'Y', d->year, 1, '0'},
        {'C', d->year / 100, 2, '0'},
        {'H', d->hour, 2, '0'},
        {'k', d->hour, 2, ' '},
        {'I', (d->hour + 11) % 12 + 1, 2, '0'},
        {'l', (d->hour + 11) % 12 + 1, 2, ' '},
        {'M', d->minute, 2, '0'},
        {'S', d->second, 2, '0'},
        {'f', 0, 6, '0'},
        {'j', d->year_day + 1, 3, '0'},
        {'w', d->week_day, 1, '0'},
        {'u', (d->week_day + 6) % 7 + 1, 1, '0'},
        {'U', (d->year_day + 7 - d->week_day) / 7, 2, '0'},
        {'W', (d->year_day + 7 - (d->week_day + 6) % 7) / 7, 2, '0'},
        {'V', week, 2, '0'},
        {'G', week_year, 1, '0'},
        {'g', week_year % 100, 2, '0'},
    };
    for (size_t i = 0; i < sizeof(fields) / sizeof(fields[0]); i++) {
        if (fields[i].letter == letter) {
            put_number(out, fields[i].value, fields[i].width, pad ? pad : fields[i].pad);
            return true;
        }
    }
    return false;
}

static bool put_name(struct dgl_buf *out, char letter, const struct date *d)
{
    switch (letter) {
    case 'a':
        dgl_buf_append(out, day_names[d->week_day], 3);
        return true;
    case 'A':
        dgl_buf_puts(out, day_names[d->week_day]);
        return true;
    case 'b':
    case 'h':
        dgl_buf_append(out, month_names[d->month - 1], 3);
        return true;
    case 'B':
        dgl_buf_puts(out, month_names[d->month - 1]);
        return true;
    case 'p':
    case 'P':
        dgl_buf_puts(out,
                     letter == 'p' ? (d->hour < 12 ? "AM" : "PM") : (d->hour < 12 ? "am" : "pm"));
        return true;
    case 'z': /* there is no zone */
    case 'Z':
        return true;
    case 'n':
    case 't':
    case '%':
        dgl_buf_putc(out, letter == 'n' ? '\n' : letter == 't' ? '\t' : '%');
        return true;
    default:
        return false;
    }
}

/* What a conversion that is made of others stands for. */
static const char *composite(char letter)
{
    switch (letter) {
    case 'c':
        return "%a %b %e %H:%M:%S %Y";
    case 'x':
    case 'D':
        return "%m/%d/%y";
    case 'X':
    case 'T':
        return "%H:%M:%S";
    case 'F':
        return "%Y-%m-%d";
    case 'R':
        return "%H:%M";
    case 'r':
        return "%I:%M:%S %p";
    default:
        return NULL;
    }
}

/* One conversion that is not made of others. */
static bool put_single(struct dgl_buf *out, char letter, const struct date *d, char pad)
{
    return put_numeric(out, letter, d, pad) || put_name(out, letter, d);
}

static void put_composite(struct dgl_buf *out, const char *format, const struct date *d)
{
    for (; *format; format++) {
        if (*format != '%')
            dgl_buf_putc(out, *format);
        else
            put_single(out, *++format, d, '\0');
    }
}

/* strftime in the C locale for a time without a zone; "%-d" leaves out the padding. The day of the
 * week and of the year are counted from the date. False: `format` has a conversion that is not
 * known, *unknown is its letter. */
static bool format_time(struct dgl_buf *out, struct dgl_str format, const struct tm *now,
                        char *unknown)
{
    struct date d = date_of(now);
    for (size_t i = 0; i < format.len; i++) {
        if (format.p[i] != '%' || i + 1 == format.len) {
            dgl_buf_putc(out, format.p[i]);
            continue;
        }
        char pad = format.p[++i] == '-' && i + 1 < format.len ? '-' : '\0';
        char letter = pad ? format.p[++i] : format.p[i];
        const char *parts = composite(letter);
        if (parts) {
            put_composite(out, parts, &d);
        } else if (!put_single(out, letter, &d, pad)) {
            *unknown = letter;
            return false;
        }
    }
    return true;
}

/* ---- functions ---- */

/* As jinja's sandbox has it: a longer range raises. */
enum { max_range = 100000 };

static bool global_range(struct jinja_run *run, struct jinja_invocation *in,
                         struct jinja_value *out)
{
    struct jinja_value range = {.type = JINJA_RANGE, .range = {.step = 1}};
    int64_t first, stop = 0;
    if (!jinja_arg_int(run, in, 0, 0, &first) || !jinja_arg_int(run, in, 1, 0, &stop) ||
        !jinja_arg_int(run, in, 2, 1, &range.range.step))
        return false;
    bool from_zero = in->arg[1].type == JINJA_ABSENT;
    range.range.start = from_zero ? 0 : first;
    range.range.stop = from_zero ? first : stop;
    if (range.range.step == 0)
        return jinja_error(run, "range() arg 3 must not be zero");
    if (jinja_range_count(&range) > max_range)
        return jinja_error(
            run, "Range too big. The sandbox blocks ranges larger than MAX_RANGE (%d)", max_range);
    *out = range;
    return true;
}

/* Pairs of the arguments: dicts, lists of pairs, keywords. */
static bool fill_dict(struct jinja_run *run, const struct jinja_call *call, struct jinja_dict *dict)
{
    struct jinja_iter iter;
    struct jinja_value item, pair;
    if (call->num_args > 1)
        return jinja_error(run, "dict expected at most 1 argument, got %zu", call->num_args);
    if (call->num_args && !jinja_iter_init(run, &call->args[0], &iter))
        return false;
    while (call->num_args && jinja_iter_next(&iter, &item)) {
        if (call->args[0].type == JINJA_DICT) {
            struct jinja_value *value;
            if (!jinja_dict_find(run, call->args[0].dict, &item, &value) ||
                !jinja_dict_set(run, dict, &item, value))
                return false;
            continue;
        }
        if (!jinja_collect(run, &item, JINJA_TUPLE, &pair))
            return false;
        if (pair.list->count != 2)
            return jinja_error(run,
                               "dictionary update sequence element has length %zu; 2 is "
                               "required",
                               pair.list->count);
        if (!jinja_dict_set(run, dict, &pair.list->items[0], &pair.list->items[1]))
            return false;
    }
    for (size_t i = 0; i < call->num_named; i++) {
        item = jinja_text_of(call->named[i].name, false);
        if (!jinja_dict_set(run, dict, &item, &call->named[i].value))
            return false;
    }
    return true;
}

static bool global_dict(struct jinja_run *run, struct jinja_invocation *in, struct jinja_value *out)
{
    return jinja_new_dict(run, JINJA_DICT, out) && fill_dict(run, in->call, out->dict);
}

static bool global_namespace(struct jinja_run *run, struct jinja_invocation *in,
                             struct jinja_value *out)
{
    return jinja_new_dict(run, JINJA_NAMESPACE, out) && fill_dict(run, in->call, out->dict);
}

static bool new_cycler(struct jinja_run *run, struct jinja_value *out)
{
    struct jinja_cycler *cycler = jinja_alloc(run, 1, sizeof(*cycler));
    *out = (struct jinja_value){.type = JINJA_CYCLER, .cycler = cycler};
    return cycler != NULL;
}

static bool global_cycler(struct jinja_run *run, struct jinja_invocation *in,
                          struct jinja_value *out)
{
    struct jinja_value items;
    if (in->call->num_args == 0)
        return jinja_error(run, "at least one item has to be provided");
    if (!new_cycler(run, out) || !jinja_new_list(run, JINJA_LIST, in->call->num_args, &items))
        return false;
    out->cycler->list = items.list;
    for (size_t i = 0; i < in->call->num_args; i++) {
        if (!jinja_list_push(run, items.list, in->call->args[i]))
            return false;
    }
    return true;
}

static bool global_joiner(struct jinja_run *run, struct jinja_invocation *in,
                          struct jinja_value *out)
{
    if (!new_cycler(run, out))
        return false;
    out->cycler->separator = in->arg[0].type == JINJA_ABSENT ? jinja_literal(", ") : in->arg[0];
    return true;
}

static bool is_blank(char c)
{
    return c == ' ' || c == '\t' || c == '\r' || c == '\n';
}

/* An error is one line: a line end in the template's words, with the blanks around it, reads as one
 * blank. Long words are cut, not within a character. */
static size_t make_message(struct dgl_str words, char *out, size_t room)
{
    size_t len = 0, from = 0; /* of the blanks before a word */
    bool ends_line = false;
    words = dgl_str_trim(words);
    for (size_t i = 0; i < words.len && len < room; i++) {
        ends_line |= words.p[i] == '\n' || words.p[i] == '\r';
        if (is_blank(words.p[i]))
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

static bool global_raise(struct jinja_run *run, struct jinja_invocation *in,
                         struct jinja_value *out)
{
    struct jinja_value message;
    char line[2048];
    (void)out;
    if (!jinja_to_text(run, &in->arg[0], &message))
        return false;
    size_t len = make_message(jinja_str(&message), line, sizeof(line));
    return jinja_error(run, "%.*s", (int)len, line);
}

static bool global_strftime(struct jinja_run *run, struct jinja_invocation *in,
                            struct jinja_value *out)
{
    struct jinja_value format;
    struct dgl_buf space = {0};
    struct jinja_text text = {0};
    char unknown = '\0';
    if (!jinja_arg_text(run, in, 0, jinja_literal(""), &format) ||
        !jinja_step(run, format.text.len + 1))
        return false;
    bool ok = format_time(&space, jinja_str(&format), run->now, &unknown) ||
              jinja_fail(run, DGL_ERR_UNSUPPORTED, "strftime_now() does not know '%%%c'",
                         unknown >= 0x20 && unknown < 0x7F ? unknown : '?');
    ok = ok && jinja_text_put(run, &text, (struct dgl_str){space.p, space.len}, format.data);
    text.bytes.failed |= space.failed;
    dgl_buf_finish(&space);
    return jinja_text_end(run, &text, ok, out);
}

static bool cycler_next(struct jinja_run *run, struct jinja_invocation *in, struct jinja_value *out)
{
    struct jinja_cycler *cycler = in->self.cycler;
    (void)run;
    *out = cycler->list->items[cycler->next];
    cycler->next = (cycler->next + 1) % cycler->list->count;
    return true;
}

static bool cycler_reset(struct jinja_run *run, struct jinja_invocation *in,
                         struct jinja_value *out)
{
    (void)run;
    in->self.cycler->next = 0;
    *out = jinja_none();
    return true;
}

const struct jinja_builtin jinja_cycler_methods[] = {
    {"next", cycler_next, ""}, {"reset", cycler_reset, ""}, {NULL, NULL, NULL}};

const struct jinja_builtin jinja_globals[] = {
    {"range", global_range, "start! stop step"},
    {"dict", global_dict, NULL},
    {"namespace", global_namespace, NULL},
    {"cycler", global_cycler, NULL},
    {"joiner", global_joiner, "sep"},
    {"raise_exception", global_raise, "message!"},
    {"strftime_now", global_strftime, "format!"},
    {"lipsum", NULL, NULL},
    {NULL, NULL, NULL},
};
