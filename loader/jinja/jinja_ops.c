/* Arithmetic, and the joining of texts and lists. */
#include "loader/jinja/jinja_ops.h"

#include <math.h>
#include <string.h>

#include "loader/jinja/jinja_format.h"
#include "loader/jinja/jinja_text.h"

static const char *const op_signs[] = {"+", "-", "*", "/", "//", "%", "** or pow()"};

static bool fail_operands(struct jinja_run *run, enum jinja_op op, const struct jinja_value *a,
                          const struct jinja_value *b)
{
    if (op == JINJA_OP_ADD && (jinja_is_text(a) || jinja_is_sequence(a)))
        return jinja_error(run, "can only concatenate %s (not \"%s\") to %s", jinja_type_name(a),
                           jinja_type_name(b), jinja_type_name(a));
    return jinja_error(run, "unsupported operand type(s) for %s: '%s' and '%s'", op_signs[op],
                       jinja_type_name(a), jinja_type_name(b));
}

static bool fail_overflow(struct jinja_run *run)
{
    return jinja_fail(run, DGL_ERR_UNSUPPORTED, "an integer needs more than 64 bits");
}

/* ---- integers ---- */

/* Exponent not negative. Doubles the exponent's bits away, so it ends after 63 rounds at most. */
static bool integer_power(int64_t base, int64_t exponent, int64_t *out)
{
    int64_t result = 1;
    while (exponent) {
        if ((exponent & 1) && __builtin_mul_overflow(result, base, &result))
            return false;
        exponent >>= 1;
        if (exponent && __builtin_mul_overflow(base, base, &base))
            return false;
    }
    *out = result;
    return true;
}

/* b is neither 0 nor -1. Rounds towards minus infinity; the rest has the sign of b. */
static int64_t floor_divide(int64_t a, int64_t b, int64_t *rest)
{
    int64_t quotient = a / b;
    *rest = a % b;
    if (*rest && (*rest < 0) != (b < 0)) {
        *rest += b;
        quotient--;
    }
    return quotient;
}

static bool divide_integers(struct jinja_run *run, enum jinja_op op, int64_t a, int64_t b,
                            struct jinja_value *out)
{
    int64_t quotient = 0, rest = 0;
    if (b == 0)
        return jinja_error(run, op == JINJA_OP_MOD ? "integer modulo by zero"
                                                   : "integer division or modulo by zero");
    if (b == -1) {
        if (__builtin_sub_overflow(0, a, &quotient))
            return op == JINJA_OP_MOD ? (*out = jinja_int(0), true) : fail_overflow(run);
    } else {
        quotient = floor_divide(a, b, &rest);
    }
    *out = jinja_int(op == JINJA_OP_MOD ? rest : quotient);
    return true;
}

static bool integer_arithmetic(struct jinja_run *run, enum jinja_op op, int64_t a, int64_t b,
                               struct jinja_value *out)
{
    int64_t result = 0;
    bool fits = true;
    switch (op) {
    case JINJA_OP_ADD:
        fits = !__builtin_add_overflow(a, b, &result);
        break;
    case JINJA_OP_SUB:
        fits = !__builtin_sub_overflow(a, b, &result);
        break;
    case JINJA_OP_MUL:
        fits = !__builtin_mul_overflow(a, b, &result);
        break;
    case JINJA_OP_POW:
        fits = integer_power(a, b, &result);
        break;
    case JINJA_OP_FLOORDIV:
    case JINJA_OP_MOD:
        return divide_integers(run, op, a, b, out);
    case JINJA_OP_DIV:
        if (b == 0)
            return jinja_error(run, "division by zero");
        *out = jinja_float((double)a / (double)b);
        return true;
    }
    *out = jinja_int(result);
    return fits || fail_overflow(run);
}

/* ---- floats ---- */

static double python_fmod(double a, double b)
{
    double rest = fmod(a, b);
    if (rest != 0 && (rest < 0) != (b < 0))
        return rest + b;
    return rest == 0 ? copysign(0, b) : rest;
}

static bool float_arithmetic(struct jinja_run *run, enum jinja_op op, double a, double b,
                             struct jinja_value *out)
{
    double result = 0;
    bool divides = op == JINJA_OP_DIV || op == JINJA_OP_FLOORDIV || op == JINJA_OP_MOD;
    if (divides && b == 0)
        return jinja_error(run, op == JINJA_OP_DIV        ? "float division by zero"
                                : op == JINJA_OP_FLOORDIV ? "float floor division by zero"
                                                          : "float modulo");
    switch (op) {
    case JINJA_OP_ADD:
        result = a + b;
        break;
    case JINJA_OP_SUB:
        result = a - b;
        break;
    case JINJA_OP_MUL:
        result = a * b;
        break;
    case JINJA_OP_DIV:
        result = a / b;
        break;
    case JINJA_OP_FLOORDIV:
        result = floor((a - python_fmod(a, b)) / b + 0.5);
        break;
    case JINJA_OP_MOD:
        result = python_fmod(a, b);
        break;
    case JINJA_OP_POW:
        if (a == 0 && b < 0)
            return jinja_error(run, "0.0 cannot be raised to a negative power");
        result = pow(a, b);
        if (!isfinite(result) && isfinite(a) && isfinite(b))
            return jinja_error(run, "the result of ** is no finite number");
        break;
    }
    *out = jinja_float(result);
    return true;
}

/* ---- texts and lists ---- */

bool jinja_escape(struct jinja_run *run, const struct jinja_value *text, struct jinja_value *out)
{
    static const char special[] = "&<>'\"";
    static const char *const entities[] = {"&amp;", "&lt;", "&gt;", "&#39;", "&#34;"};
    struct jinja_text result = {0};
    struct dgl_str s = jinja_str(text);
    *out = *text;
    if (text->safe)
        return true;
    bool ok = true;
    size_t start = 0;
    for (size_t i = 0; ok && i < s.len; i++) {
        const char *found = s.p[i] ? strchr(special, s.p[i]) : NULL;
        if (!found)
            continue;
        bool data = jinja_byte_is_data(text, i);
        struct jinja_value before = jinja_slice_bytes(text, start, i - start);
        ok = jinja_text_add(run, &result, &before) &&
             jinja_text_put(run, &result, dgl_str_of(entities[found - special]), data);
        start = i + 1;
    }
    struct jinja_value rest = jinja_slice_bytes(text, start, s.len - start);
    ok = jinja_text_end(run, &result, ok && jinja_text_add(run, &result, &rest), out);
    out->safe = true;
    return ok;
}

bool jinja_concat(struct jinja_run *run, const struct jinja_value *a, const struct jinja_value *b,
                  struct jinja_value *out)
{
    bool safe = a->safe || b->safe;
    struct jinja_value left = *a, right = *b;
    if (safe && !(jinja_escape(run, a, &left) && jinja_escape(run, b, &right)))
        return false;
    struct jinja_text text = {0};
    bool ok = jinja_text_add(run, &text, &left) && jinja_text_add(run, &text, &right);
    ok = jinja_text_end(run, &text, ok, out);
    out->safe = safe;
    return ok;
}

static bool concat_lists(struct jinja_run *run, const struct jinja_value *a,
                         const struct jinja_value *b, struct jinja_value *out)
{
    const struct jinja_list *first = a->list, *second = b->list;
    size_t count = first->count + second->count;
    if (!jinja_new_list(run, a->type, count, out))
        return false;
    if (first->count)
        memcpy(out->list->items, first->items, first->count * sizeof(*first->items));
    if (second->count)
        memcpy(out->list->items + first->count, second->items,
               second->count * sizeof(*second->items));
    out->list->count = count;
    out->data = a->data || b->data;
    return jinja_step(run, count);
}

static bool repeat_text(struct jinja_run *run, const struct jinja_value *text, int64_t times,
                        struct jinja_value *out)
{
    struct jinja_text result = {0};
    size_t bytes = 0;
    if (times > 0 && (__builtin_mul_overflow(text->text.len, (uint64_t)times, &bytes) ||
                      bytes > run->limits.output_bytes))
        return jinja_error(run, "the template makes a text of more than %zu bytes",
                           run->limits.output_bytes);
    bool ok = true;
    for (int64_t i = 0; ok && bytes && i < times; i++)
        ok = jinja_text_add(run, &result, text);
    ok = jinja_text_end(run, &result, ok, out);
    out->safe = text->safe;
    return ok;
}

static bool repeat_list(struct jinja_run *run, const struct jinja_value *value, int64_t times,
                        struct jinja_value *out)
{
    const struct jinja_list *list = value->list;
    size_t count = 0;
    if (times > 0 && __builtin_mul_overflow(list->count, (uint64_t)times, &count))
        count = SIZE_MAX;
    if (!jinja_step(run, count) || !jinja_new_list(run, value->type, count, out))
        return false;
    for (size_t i = 0; i < count; i++)
        out->list->items[i] = list->items[i % list->count];
    out->list->count = count;
    out->data = value->data;
    return true;
}

/* What `*` does for other things than two numbers; *done tells whether it is defined for these. */
static bool repeat(struct jinja_run *run, const struct jinja_value *a, const struct jinja_value *b,
                   struct jinja_value *out, bool *done)
{
    const struct jinja_value *what = jinja_is_integral(a) ? b : a;
    const struct jinja_value *times = jinja_is_integral(a) ? a : b;
    *done = jinja_is_integral(times) && (jinja_is_text(what) || jinja_is_sequence(what));
    if (!*done)
        return true;
    return jinja_is_text(what) ? repeat_text(run, what, jinja_integer(times), out)
                               : repeat_list(run, what, jinja_integer(times), out);
}

static bool other_arithmetic(struct jinja_run *run, enum jinja_op op, const struct jinja_value *a,
                             const struct jinja_value *b, struct jinja_value *out)
{
    if (op == JINJA_OP_MOD && jinja_is_text(a))
        return jinja_format_percent(run, a, b, out);
    if (a->type == JINJA_UNDEFINED || b->type == JINJA_UNDEFINED)
        return jinja_fail_undefined(run, a->type == JINJA_UNDEFINED ? a : b);
    if (op == JINJA_OP_ADD && jinja_is_text(a) && jinja_is_text(b))
        return jinja_concat(run, a, b, out);
    if (op == JINJA_OP_ADD && jinja_is_sequence(a) && a->type == b->type)
        return concat_lists(run, a, b, out);
    bool done = false;
    if (op == JINJA_OP_MUL && !repeat(run, a, b, out, &done))
        return false;
    return done || fail_operands(run, op, a, b);
}

bool jinja_arithmetic(struct jinja_run *run, enum jinja_op op, const struct jinja_value *a,
                      const struct jinja_value *b, struct jinja_value *out)
{
    if (!jinja_is_number(a) || !jinja_is_number(b))
        return other_arithmetic(run, op, a, b, out);
    bool integers = jinja_is_integral(a) && jinja_is_integral(b);
    if (op == JINJA_OP_POW && integers && jinja_integer(b) < 0)
        integers = false;
    bool ok = integers ? integer_arithmetic(run, op, jinja_integer(a), jinja_integer(b), out)
                       : float_arithmetic(run, op, jinja_real(a), jinja_real(b), out);
    out->data = a->data || b->data;
    return ok;
}

bool jinja_negate(struct jinja_run *run, const struct jinja_value *value, bool minus,
                  struct jinja_value *out)
{
    if (value->type == JINJA_UNDEFINED)
        return jinja_fail_undefined(run, value);
    if (!jinja_is_number(value))
        return jinja_error(run, "bad operand type for unary %c: '%s'", minus ? '-' : '+',
                           jinja_type_name(value));
    int64_t integer = jinja_is_integral(value) ? jinja_integer(value) : 0;
    if (value->type == JINJA_FLOAT)
        *out = jinja_float(minus ? -value->real : value->real);
    else if (minus && __builtin_sub_overflow(0, integer, &integer))
        return fail_overflow(run);
    else
        *out = jinja_int(integer);
    out->data = value->data;
    return true;
}
