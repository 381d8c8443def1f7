/* Fits one kernel to one request on one device: its variables, or the reason why it cannot run. */
#include "kernels/set/kernel_fit.h"

#include <assert.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "kernels/format/kernel_format.h"

struct attempt {
    const struct kernel_fit *fit;
    const struct kernel *kernel;
    struct kernel_choice *choice;
    char *why;
    const struct kernel_lib *lib; /* lib whose lines are evaluated, or NULL for the kernel */
    struct kernel_values values;  /* of the last expression passed to blame() */
};

#define WHY_SIZE 192

static const char *const local_names[] = {"LOCAL_X", "LOCAL_Y", "LOCAL_Z"};

static bool refuse(struct attempt *a, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
static bool refuse(struct attempt *a, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    vsnprintf(a->why, WHY_SIZE, fmt, args);
    va_end(args);
    return false;
}

static struct kernel_var *add_var(struct kernel_choice *choice, const char *name, int64_t value)
{
    struct kernel_var *var = &choice->vars[choice->num_vars++];
    *var = (struct kernel_var){name, value};
    return var;
}

const struct kernel_var *kernel_find_var(const struct kernel_var *vars, size_t num_vars,
                                         const char *name)
{
    for (size_t i = 0; i < num_vars; i++)
        if (strcmp(vars[i].name, name) == 0)
            return &vars[i];
    return NULL;
}

/* Callback of kernel_expr_unknown(): appends "NAME=VALUE" to the text, once per name. `ctx` points
 * to a pointer to struct kernel_values. Always continues. */
static bool add_value(const void *ctx, const char *name)
{
    struct kernel_values *v = *(struct kernel_values *const *)ctx;
    const struct kernel_var *var = kernel_find_var(v->vars, v->num_vars, name);
    char one[64];
    for (size_t i = 0; i < v->num_told; i++)
        if (strcmp(v->told[i], name) == 0)
            return true;
    if (!var || v->num_told == sizeof(v->told) / sizeof(*v->told))
        return true;
    v->told[v->num_told++] = name;
    size_t len = (size_t)snprintf(one, sizeof(one), "%s%s=%lld", v->len ? ", " : " with ", name,
                                  (long long)var->value);
    if (len < sizeof(one) && v->len + len < sizeof(v->text)) {
        memcpy(v->text + v->len, one, len + 1);
        v->len += len;
    }
    return true;
}

struct kernel_values kernel_values_of(const struct kernel_expr *expr, const struct kernel_var *vars,
                                      size_t num_vars)
{
    struct kernel_values v = {.vars = vars, .num_vars = num_vars}, *filled = &v;
    kernel_expr_unknown(expr, add_value, &filled);
    return v;
}

/* ---- errors in a text ------------------------------------------------------------------------ */

/* Kinds of variables that an expression depends on, also through tunables and LETs. */
struct causes {
    const struct kernel *kernel;
    const struct kernel_choice *choice;                /* its libs */
    uint32_t tunes, lets[1 + KERNEL_MAX_LIBS], locals; /* bit masks of visited ones */
    bool sizes;                                        /* constants or words of the request */
    bool subgroups; /* SUBGROUP_SIZE, which can be any power of two */
    bool limits;    /* SUBGROUP_SIZE and other limits of devices */
};

static bool add_cause(const void *ctx, const char *name);

/* Visits each expression once, because expressions may use a name many times. */
static void look_into(struct causes *c, const struct kernel_expr *expr, uint32_t *seen, uint32_t i)
{
    if (!expr || (*seen & (1u << i)))
        return;
    *seen |= 1u << i;
    kernel_expr_unknown(expr, add_cause, &c);
}

static bool add_cause(const void *ctx, const char *name)
{
    struct causes *c = *(struct causes *const *)ctx;
    const struct kernel *k = c->kernel;
    for (uint32_t i = 0; i < k->num_consts; i++)
        c->sizes |= strcmp(k->consts[i].name, name) == 0;
    for (uint32_t i = 0; i < k->num_flags; i++)
        c->sizes |= strcmp(k->flags[i].name, name) == 0;
    c->subgroups |= strcmp(name, "SUBGROUP_SIZE") == 0;
    /* A text may depend on the kind of device. It cannot know the limits of a device. */
    c->limits |=
        kernel_is_fact(name) && strcmp(name, "SOFTWARE") != 0 && strcmp(name, "LLVMPIPE") != 0;
    /* The values of a tunable are chosen by the text, even if the preset depends on limits. */
    const bool limits = c->limits;
    for (uint32_t i = 0; i < k->num_tunes; i++)
        if (strcmp(k->tunes[i].name, name) == 0)
            look_into(c, k->tunes[i].preset, &c->tunes, i);
    c->limits = limits;
    for (uint32_t l = 0; l <= k->num_libs; l++) {
        const struct kernel_decls *decls = l == 0                   ? &k->decls
                                           : c->choice->libs[l - 1] ? &c->choice->libs[l - 1]->decls
                                                                    : NULL;
        for (uint32_t i = 0; decls && i < decls->num_lets; i++)
            if (strcmp(decls->lets[i].name, name) == 0)
                look_into(c, decls->lets[i].value, &c->lets[l], i);
    }
    for (uint32_t i = 0; i < 3; i++)
        if (strcmp(name, local_names[i]) == 0)
            look_into(c, k->local[i], &c->locals, i);
    return true;
}

/* Returns true unless a REQUIRE that can be evaluated excludes the request. */
static bool may_serve(struct attempt *a)
{
    const struct kernel_decls *decls = &a->kernel->decls;
    struct kernel_var *lets = &a->choice->vars[a->choice->num_consts + a->choice->num_tunes];
    const char *bad;
    int64_t value;
    for (uint32_t i = 0; i < decls->num_lets; i++)
        if (kernel_expr_eval(decls->lets[i].value, a->choice->vars, a->choice->num_vars, &value,
                             &bad))
            lets[i] = (struct kernel_var){decls->lets[i].name, value};
    for (uint32_t i = 0; i < a->kernel->num_require; i++)
        if (kernel_expr_eval(a->kernel->require[i], a->choice->vars, a->choice->num_vars, &value,
                             &bad) &&
            !value)
            return false;
    return true;
}

/* Marks the line of an unusable expression as an error of the text, unless the expression depends
 * on a limit of the device or a REQUIRE excludes the request. Sets a->values. */
static void blame(struct attempt *a, uint32_t line, const struct kernel_expr *expr)
{
    struct causes causes = {.kernel = a->kernel, .choice = a->choice}, *filled = &causes;
    a->values = kernel_values_of(expr, a->choice->vars, a->choice->num_vars);
    kernel_expr_unknown(expr, add_cause, &filled);
    if (!causes.limits && may_serve(a))
        a->choice->fault = a->lib ? (struct kernel_line){a->lib->path, line, a->lib->source}
                                  : (struct kernel_line){a->kernel->path, line, a->kernel->source};
}

static bool eval(struct attempt *a, const char *directive, uint32_t line,
                 const struct kernel_expr *expr, int64_t *out)
{
    const char *bad = NULL;
    if (kernel_expr_eval(expr, a->choice->vars, a->choice->num_vars, out, &bad))
        return true;
    blame(a, line, expr);
    return refuse(a, "%s cannot be evaluated: %s%s", directive, bad, a->values.text);
}

/* The usual packing of a weight format (docs/operations.md). Blocks are split into planes, unless
 * all of their fields are words at the places where kernels want them. */
const char *kernel_layout_default(const char *weight)
{
    return kernel_word_in("none f32 f16 bf16 q5_k", weight) ? "native" : "split";
}

const char *kernel_layout(const struct kernel *kernel, const char *weight)
{
    return kernel->layout[0] ? kernel->layout : kernel_layout_default(weight);
}

/* If the request has a layout of weights, the kernel must have the same layout. Writes the reason
 * to `why` unless that is NULL. */
static bool serves(const struct kernel *kernel, const struct kernel_request *request, char *why)
{
    const char *wanted = kernel_request_word(request, "layout");
    const char *layout = kernel_layout(kernel, kernel_request_word(request, "weight"));
    if (strcmp(wanted, "none") != 0 && strcmp(layout, wanted) != 0) {
        if (why)
            snprintf(why, WHY_SIZE, "LAYOUT %s, not %s", layout, wanted);
        return false;
    }
    for (uint32_t i = 0; i < kernel->num_when; i++) {
        const struct kernel_when *when = &kernel->when[i];
        const char *word = kernel_request_word(request, when->key);
        if (kernel_word_in(when->words, word))
            continue;
        if (why)
            snprintf(why, WHY_SIZE, "WHEN %s %s, not %s", when->key, when->words, word);
        return false;
    }
    return true;
}

bool kernel_serves(const struct kernel *kernel, const struct kernel_request *request)
{
    return strcmp(kernel->op, request->op) == 0 && serves(kernel, request, NULL);
}

bool kernel_set_serves(const struct kernel_set *set, const struct kernel_request *request)
{
    for (size_t i = 0; i < kernel_set_count(set); i++)
        if (kernel_serves(kernel_set_at(set, i), request))
            return true;
    return false;
}

/* Excludes built-in kernels that failed the self test on the device. A user's kernel of the same
 * NAME has another text and is not excluded. */
static bool check_right(struct attempt *a)
{
    const size_t len = strlen(KERNEL_WRONG_PROPERTY);
    for (size_t i = 0; i < a->fit->num_device; i++) {
        const char *name = a->fit->device[i].name;
        if (a->kernel->source == 0 && strncmp(name, KERNEL_WRONG_PROPERTY, len) == 0 &&
            strcmp(name + len, a->kernel->name) == 0)
            return a->fit->device[i].value == KERNEL_UNFIT
                       ? refuse(a, "the driver's compiler exceeds its limits on it")
                       : refuse(a, "it computes wrongly on this device (self test)");
    }
    return true;
}

/* Returns true if the hint disableFeatures hides a property of the device. */
static bool is_disabled(const char *features, const char *property)
{
    struct dgl_str rest = dgl_str_of(features), feature;
    while (kernel_word_next(&rest, &feature)) {
        const struct dgl_str name = dgl_str_of(property);
        if (dgl_str_eq(feature, "subgroups") &&
            (strcmp(property, "SUBGROUP_SIZE") == 0 ||
             dgl_str_starts(name, "HAS_GL_KHR_shader_subgroup")))
            return true;
        if (dgl_str_eq(feature, "shader-f16") && strcmp(property, "HAS_GL_NV_gpu_shader5") == 0)
            return true;
        if (dgl_str_starts(name, "HAS_") && dgl_str_eq(feature, property + strlen("HAS_")))
            return true;
    }
    return false;
}

static void fill_properties(struct attempt *a)
{
    const struct kernel_fit *fit = a->fit;
    const struct kernel_rule *disabled =
        kernel_hints_find(kernel_set_hints(fit->set), "disableFeatures");
    for (const struct kernel_var *property = kernel_property_minimum; property->name; property++)
        if (!kernel_find_var(fit->device, fit->num_device, property->name))
            add_var(a->choice, property->name, property->value);
    for (size_t i = 0; i < fit->num_device; i++)
        add_var(a->choice, fit->device[i].name,
                disabled && is_disabled(disabled->value, fit->device[i].name)
                    ? 0
                    : fit->device[i].value);
}

/* Must run before tunables are set: the size of a subgroup has no value without subgroups. */
static bool check_extensions(struct attempt *a)
{
    const struct kernel_fit *fit = a->fit;
    for (uint32_t i = 0; i < a->kernel->num_extensions; i++) {
        const char *extension = a->kernel->extensions[i];
        char name[64];
        snprintf(name, sizeof(name), "HAS_%s", extension);
        const struct kernel_var *has = kernel_find_var(a->choice->vars, a->choice->num_vars, name);
        const struct kernel_var *given = kernel_find_var(fit->device, fit->num_device, name);
        const struct kernel_var *size =
            kernel_find_var(fit->device, fit->num_device, "SUBGROUP_SIZE");
        if (has && has->value)
            continue;
        if (given && given->value)
            return refuse(a, "EXTENSION %s is switched off by the hint disableFeatures (%s)",
                          extension,
                          kernel_hints_find(kernel_set_hints(fit->set), "disableFeatures")->origin);
        const bool subgroups = dgl_str_starts(dgl_str_of(extension), "GL_KHR_shader_subgroup");
        return refuse(a, "EXTENSION %s is absent%s", extension,
                      subgroups && (!size || !size->value) ? ": the device has no subgroups" : "");
    }
    return true;
}

/* `first` is the index of the first tunable's variable. A variable has no name until it has a
 * value, so that expressions cannot find it. */
static bool fill_tunes(struct attempt *a, uint32_t first)
{
    const struct kernel_fit *fit = a->fit;
    const struct kernel_rule *rules[KERNEL_MAX_TUNES + 2];
    kernel_fit_rules(fit, a->kernel, rules);
    for (uint32_t i = 0; i < a->kernel->num_tunes; i++) {
        const struct kernel_tune *tune = &a->kernel->tunes[i];
        const struct kernel_var *forced = kernel_find_var(fit->forced, fit->num_forced, tune->name);
        uint32_t at = 0;
        int64_t value;
        a->choice->tune_rule[i] = rules[i];
        if (forced)
            value = forced->value;
        else if (rules[i])
            value = rules[i]->number[0];
        else if (!eval(a, tune->name, tune->line, tune->preset, &value))
            return false;
        while (at < tune->num_choices && tune->choices[at] != value)
            at++;
        if (at == tune->num_choices) {
            blame(a, tune->line, tune->preset);
            return refuse(a, "TUNE %s: the preset is %lld%s, which is not one of its choices",
                          tune->name, (long long)value, a->values.text);
        }
        a->choice->vars[first + i] = (struct kernel_var){tune->name, value};
    }
    return true;
}

/* Stands for a lib that an earlier LIB line has inserted. */
static const struct kernel_lib empty_lib = {.name = "", .path = "", .text = "", .body = ""};

/* Lays out the variables: constants, tunables, LETs, then the rest. Variables of tunables and LETs
 * stay empty. kernel_set_check_libs() has checked that the libs exist. */
static bool fill_names(struct attempt *a)
{
    struct kernel_choice *choice = a->choice;
    const struct kernel *kernel = a->kernel;
    const struct kernel_request *request = a->fit->request;
    for (uint32_t i = 0; i < kernel->num_consts; i++) {
        const struct kernel_const *c = &kernel->consts[i];
        const struct kernel_var *given =
            kernel_find_var(request->consts, request->num_consts, c->name);
        if (!given && !c->has_preset)
            return refuse(a, "CONST %s is not given", c->name);
        add_var(choice, c->name, given ? given->value : c->preset);
    }
    choice->num_consts = kernel->num_consts;
    choice->num_tunes = kernel->num_tunes;
    choice->num_lets = kernel->decls.num_lets;
    for (uint32_t i = 0; i < kernel->num_libs; i++) {
        char key[64], name[96];
        struct dgl_str part = kernel_lib_key(kernel->libs[i].name);
        snprintf(key, sizeof(key), "%.*s", (int)part.len, part.p);
        const struct kernel_lib *lib = kernel_set_lib_of(
            a->fit->set, &kernel->libs[i], dgl_str_of(kernel_request_word(request, key)), name);
        assert(lib);
        for (uint32_t before = 0; before < i; before++)
            if (choice->libs[before] == lib)
                lib = &empty_lib;
        choice->libs[i] = lib;
        choice->num_lets += choice->libs[i]->decls.num_lets;
    }
    for (uint32_t i = 0; i < choice->num_tunes + choice->num_lets; i++)
        add_var(choice, "", 0);
    fill_properties(a);
    for (uint32_t i = 0; i < kernel->num_flags; i++) {
        const struct kernel_flag *flag = &kernel->flags[i];
        const char *word = kernel_request_word(request, kernel->when[flag->when].key);
        add_var(choice, flag->name, strcmp(word, flag->word) == 0);
    }
    return true;
}

/* Sets the LETs from `first` to `end` - 1 of the current text. The first one is LET number `at` of
 * the choice. */
static bool fill_lets(struct attempt *a, uint32_t first, uint32_t end, uint32_t at)
{
    struct kernel_var *vars = &a->choice->vars[a->choice->num_consts + a->choice->num_tunes + at];
    const struct kernel_decls *decls = a->lib ? &a->lib->decls : &a->kernel->decls;
    for (uint32_t i = first; i < end; i++) {
        int64_t value;
        if (!eval(a, decls->lets[i].name, decls->lets[i].line, decls->lets[i].value, &value))
            return false;
        *vars++ = (struct kernel_var){decls->lets[i].name, value};
    }
    return true;
}

static int64_t property(const struct attempt *a, const char *name)
{
    return kernel_find_var(a->choice->vars, a->choice->num_vars, name)->value;
}

/* Evaluates the LETs above LOCAL, LOCAL, then all other LETs. */
static bool check_local(struct attempt *a)
{
    static const char *const limits[] = {"MAX_LOCAL_X", "MAX_LOCAL_Y", "MAX_LOCAL_Z"};
    int64_t all = 1, max = property(a, "MAX_INVOCATIONS");
    int64_t *local = a->choice->local;
    uint32_t at = a->kernel->num_lets_local;
    if (!fill_lets(a, 0, at, 0))
        return false;
    for (int i = 0; i < 3; i++) {
        local[i] = 1;
        if (a->kernel->local[i] &&
            !eval(a, "LOCAL", a->kernel->local_line, a->kernel->local[i], &local[i]))
            return false;
    }
    for (int i = 0; i < 3; i++)
        add_var(a->choice, local_names[i], local[i]);
    for (int i = 0; i < 3; i++) {
        const int64_t limit = property(a, limits[i]);
        if (local[i] < 1) {
            blame(a, a->kernel->local_line, a->kernel->local[i]);
            return refuse(a, "%s is %lld%s, wanted 1 or more", local_names[i], (long long)local[i],
                          a->values.text);
        }
        if (local[i] > limit)
            return refuse(a, "%s is %lld, %s is %lld", local_names[i], (long long)local[i],
                          limits[i], (long long)limit);
        if (__builtin_mul_overflow(all, local[i], &all) || all > max)
            return refuse(a, "LOCAL has %lld invocations or more, MAX_INVOCATIONS is %lld",
                          (long long)all, (long long)max);
    }
    if (!fill_lets(a, at, a->kernel->decls.num_lets, at))
        return false;
    at = a->kernel->decls.num_lets;
    for (uint32_t i = 0; i < a->kernel->num_libs; i++) {
        a->lib = a->choice->libs[i];
        if (!fill_lets(a, 0, a->lib->decls.num_lets, at))
            return false;
        at += a->lib->decls.num_lets;
    }
    a->lib = NULL;
    return true;
}

static bool check_shared(struct attempt *a)
{
    struct kernel_choice *choice = a->choice;
    const int64_t max = property(a, "SHARED_BYTES");
    for (uint32_t l = 0; l <= a->kernel->num_libs; l++) {
        a->lib = l ? choice->libs[l - 1] : NULL;
        const struct kernel_decls *decls = l ? &a->lib->decls : &a->kernel->decls;
        for (uint32_t i = 0; i < decls->num_shared; i++) {
            const struct kernel_shared *decl = &decls->shared[i];
            const char last = decl->type[strlen(decl->type) - 1];
            /* size and alignment of an element: drivers may store a vec3 as 12 or 16 bytes */
            const int64_t bytes = last == '2' ? 8 : last == '3' || last == '4' ? 16 : 4;
            int64_t count = 1;
            if (decl->count && !eval(a, decl->name, decl->line, decl->count, &count))
                return false;
            if (count < 0 || count > INT32_MAX) {
                blame(a, decl->line, decl->count);
                return refuse(a, "SHARED %s has %lld elements%s", decl->name, (long long)count,
                              a->values.text);
            }
            if (count == 0)
                continue;
            choice->shared[choice->num_shared++] = (struct kernel_shared_size){decl, count};
            choice->shared_bytes =
                (choice->shared_bytes + bytes - 1) / bytes * bytes + count * bytes;
        }
    }
    a->lib = NULL;
    if (choice->shared_bytes > max)
        return refuse(a, "SHARED is %lld, SHARED_BYTES is %lld", (long long)choice->shared_bytes,
                      (long long)max);
    return true;
}

static bool check_limits(struct attempt *a)
{
    int64_t max_binds = property(a, "MAX_SSBO");
    if (a->kernel->num_binds > max_binds)
        return refuse(a, "it has %u BINDs, MAX_SSBO is %lld", a->kernel->num_binds,
                      (long long)max_binds);
    return true;
}

static bool check_requires(struct attempt *a)
{
    for (uint32_t i = 0; i < a->kernel->num_require; i++) {
        int64_t value;
        if (!eval(a, "REQUIRE", a->kernel->require_line[i], a->kernel->require[i], &value))
            return false;
        if (!value)
            return refuse(a, "REQUIRE %s", a->kernel->require_text[i]);
    }
    return true;
}

/* Sets the number of registers that the kernel needs, and how many of them the device lacks. */
static bool count_registers(struct attempt *a)
{
    struct kernel_choice *choice = a->choice;
    if (!a->kernel->registers)
        return true;
    if (!eval(a, "REGISTERS", a->kernel->registers_line, a->kernel->registers, &choice->registers))
        return false;
    if (choice->registers > property(a, "REGISTERS"))
        choice->spills = choice->registers - property(a, "REGISTERS");
    return true;
}

bool kernel_fit_try(const struct kernel_fit *fit, const struct kernel *kernel,
                    struct kernel_choice *out, int64_t *rank, char why[WHY_SIZE])
{
    struct attempt a = {.fit = fit, .kernel = kernel, .choice = out, .why = why};
    *out = (struct kernel_choice){.kernel = kernel, .applies = fit->apply};
    *rank = 0;
    return serves(kernel, fit->request, why) && check_right(&a) && fill_names(&a) &&
           check_extensions(&a) && fill_tunes(&a, out->num_consts) && check_local(&a) &&
           check_shared(&a) && check_limits(&a) && check_requires(&a) && count_registers(&a) &&
           (!kernel->prefer || eval(&a, "PREFER", kernel->prefer_line, kernel->prefer, rank));
}

void kernel_spill_text(const struct kernel_choice *choice, char why[WHY_SIZE])
{
    snprintf(why, WHY_SIZE, "it would spill: it needs %lld registers, REGISTERS is %lld",
             (long long)choice->registers, (long long)(choice->registers - choice->spills));
}

bool kernel_fit_device(const struct kernel_fit *fit, const struct kernel *kernel,
                       struct kernel_choice *scratch, char why[WHY_SIZE])
{
    struct attempt a = {.fit = fit, .kernel = kernel, .choice = scratch, .why = why};
    *scratch = (struct kernel_choice){.kernel = kernel};
    fill_properties(&a);
    return check_right(&a) && check_extensions(&a) && check_limits(&a);
}

/* ---- presets --------------------------------------------------------------------------------- */

/* Returns the index of the first tunable whose preset is not one of its choices. Returns num_tunes
 * if there is none, or if the kernel does not serve the request. */
static uint32_t bad_preset(const struct kernel_fit *fit, const struct kernel *kernel,
                           struct kernel_choice *scratch, char why[WHY_SIZE])
{
    struct attempt a = {.fit = fit, .kernel = kernel, .choice = scratch, .why = why};
    uint32_t i = 0;
    *scratch = (struct kernel_choice){.kernel = kernel};
    if (!serves(kernel, fit->request, why) || !fill_names(&a) ||
        fill_tunes(&a, scratch->num_consts))
        return kernel->num_tunes;
    while (scratch->vars[scratch->num_consts + i].name[0])
        i++;
    return may_serve(&a) ? i : kernel->num_tunes;
}

bool kernel_fit_presets(const struct kernel_fit *fit, const struct kernel *kernel,
                        struct kernel_choice *scratch, char why[WHY_SIZE])
{
    const struct kernel_fit least = {
        .set = fit->set, .request = fit->request, .apply = KERNEL_APPLY_NONE};
    struct kernel_fit here = least;
    here.device = fit->device;
    here.num_device = fit->num_device;
    char other[WHY_SIZE];
    const uint32_t bad = bad_preset(&here, kernel, scratch, why);
    struct causes causes = {.kernel = kernel, .choice = scratch}, *filled = &causes;
    if (bad == kernel->num_tunes)
        return true;
    kernel_expr_unknown(kernel->tunes[bad].preset, add_cause, &filled);
    const bool holds =
        !causes.sizes || causes.subgroups || bad_preset(&least, kernel, scratch, other) != bad;
    scratch->fault =
        holds ? (struct kernel_line){NULL, 0, 0}
              : (struct kernel_line){kernel->path, kernel->tunes[bad].line, kernel->source};
    return holds;
}
