/* Filters of numbers. */
#include <math.h>

#include "loader/jinja/jinja_call.h"
#include "loader/jinja/jinja_literal.h"
#include "loader/jinja/jinja_ops.h"

static bool filter_abs(struct jinja_run *run, struct jinja_invocation *in, struct jinja_value *out)
{
    const struct jinja_value *value = &in->self;
    if (value->type == JINJA_UNDEFINED)
        return jinja_fail_undefined(run, value);
    if (!jinja_is_number(value))
        return jinja_error(run, "bad operand type for abs(): '%s'", jinja_type_name(value));
    bool negative =
        value->type == JINJA_FLOAT ? signbit(value->real) != 0 : jinja_integer(value) < 0;
    return jinja_negate(run, value, negative, out);
}

static bool float_to_int(double value, int64_t *out)
{
    if (!(value >= -0x1p63 && value < 0x1p63))
        return false;
    *out = (int64_t)value;
    return true;
}

/* int(value) of Python, and for texts int(float(value)); false: it has none. */
static bool to_int(const struct jinja_value *value, int base, int64_t *out)
{
    double real;
    if (jinja_is_integral(value)) {
        *out = jinja_integer(value);
        return true;
    }
    if (value->type == JINJA_FLOAT)
        return float_to_int(value->real, out);
    if (!jinja_is_text(value))
        return false;
    return jinja_parse_integer(jinja_str(value), base, out) ||
           (jinja_parse_float(jinja_str(value), &real) && float_to_int(real, out));
}

static bool filter_int(struct jinja_run *run, struct jinja_invocation *in, struct jinja_value *out)
{
    int64_t base = 10, integer;
    if (in->self.type == JINJA_UNDEFINED)
        return jinja_fail_undefined(run, &in->self);
    if (jinja_is_text(&in->self) && !jinja_arg_int(run, in, 1, 10, &base))
        return false;
    if (in->self.type == JINJA_FLOAT && isinf(in->self.real))
        return jinja_error(run, "cannot convert float infinity to integer");
    *out = in->arg[0].type == JINJA_ABSENT ? jinja_int(0) : in->arg[0];
    if (base >= 0 && base <= 36 && to_int(&in->self, (int)base, &integer)) {
        *out = jinja_int(integer);
        out->data = in->self.data;
    }
    return true;
}

static bool filter_float(struct jinja_run *run, struct jinja_invocation *in,
                         struct jinja_value *out)
{
    double real;
    if (in->self.type == JINJA_UNDEFINED)
        return jinja_fail_undefined(run, &in->self);
    *out = in->arg[0].type == JINJA_ABSENT ? jinja_float(0) : in->arg[0];
    bool number = jinja_is_number(&in->self);
    if (number || (jinja_is_text(&in->self) && jinja_parse_float(jinja_str(&in->self), &real))) {
        *out = jinja_float(number ? jinja_real(&in->self) : real);
        out->data = in->self.data;
    }
    return true;
}

/* To the nearest, ties to even, as the decimal digits of the number say. */
static double round_nearest(double value, int64_t precision)
{
    struct dgl_buf space = {0};
    double rounded = value;
    if (!isfinite(value) || precision > 300)
        return value;
    if (precision < 0) {
        double unit = pow(10, (double)(precision < -310 ? 310 : -precision));
        return isfinite(unit) ? nearbyint(value / unit) * unit : 0;
    }
    dgl_buf_printf(&space, "%.*f", (int)precision, value);
    if (!space.failed)
        dgl_parse_f64((struct dgl_str){space.p, space.len}, &rounded);
    dgl_buf_finish(&space);
    return rounded;
}

static bool round_common(struct jinja_run *run, const struct jinja_value *value, int64_t precision,
                         struct jinja_value *out)
{
    int64_t integer = jinja_is_integral(value) ? jinja_integer(value) : 0;
    if (value->type == JINJA_FLOAT) {
        *out = jinja_float(round_nearest(value->real, precision));
        return true;
    }
    if (precision < 0 && !float_to_int(round_nearest((double)integer, precision), &integer))
        return jinja_fail(run, DGL_ERR_UNSUPPORTED, "an integer needs more than 64 bits");
    *out = jinja_int(integer);
    return true;
}

static bool filter_round(struct jinja_run *run, struct jinja_invocation *in,
                         struct jinja_value *out)
{
    struct jinja_value method;
    int64_t precision;
    if (in->self.type == JINJA_UNDEFINED)
        return jinja_fail_undefined(run, &in->self);
    if (!jinja_arg_int(run, in, 0, 0, &precision) ||
        !jinja_arg_text(run, in, 1, jinja_literal("common"), &method))
        return false;
    if (!jinja_is_number(&in->self))
        return jinja_error(run, "type %s doesn't define __round__ method",
                           jinja_type_name(&in->self));
    bool ceiling = dgl_str_eq(jinja_str(&method), "ceil");
    if (!ceiling && !dgl_str_eq(jinja_str(&method), "floor")) {
        if (!dgl_str_eq(jinja_str(&method), "common"))
            return jinja_error(run, "method must be common, ceil or floor");
        if (!round_common(run, &in->self, precision, out))
            return false;
    } else {
        double unit = pow(10, (double)precision), scaled = jinja_real(&in->self) * unit;
        *out = jinja_float((ceiling ? ceil(scaled) : floor(scaled)) / unit);
    }
    out->data = in->self.data;
    return true;
}

const struct jinja_builtin jinja_number_filters[] = {
    {"abs", filter_abs, ""},
    {"int", filter_int, "default base"},
    {"float", filter_float, "default"},
    {"round", filter_round, "precision method"},
    {NULL, NULL, NULL},
};
