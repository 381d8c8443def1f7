/* The tuner: a tunable at its worst value is replaced, a wrong candidate never wins, and winners
 * are stored and used, with the exceptions. */
#include "tests/support/test.h"

#include <dirent.h>
#include <stdlib.h>

#include "core/base/file.h"
#include "core/base/mem.h"
#include "core/seq/session.h"
#include "core/exec/tune_store.h"
#include "tests/support/kernel_sets.h"
#include "tests/support/record_edit.h"
#include "tests/support/tiny_model.h"
#include "tests/support/worst_norm.h"

static struct test_log log_;
static struct dgl_device *device;
static char *dir;   /* of the model and of kernel files */
static char *cache; /* of the device */

static struct dgl_kernels *kernels_of(const char *file, const char *hints)
{
    struct dgl_kernels *kernels = NULL;
    char *path = checked(dgl_path_join(dir, file));
    const char *files[] = {path};
    if (dgl_kernels_create(&log_.log,
                           dgl_kernels_params(.files = files, .num_files = 1, .hints = hints),
                           &kernels) != DGL_OK)
        fail_msg("%s", log_.text);
    free(path);
    return kernels;
}

struct opened {
    struct dgl_model *model;
    struct dgl_session *session;
};

static struct opened open_model(const struct dgl_kernels *kernels, bool no_tuned)
{
    struct opened o = {0};
    if (dgl_model_load(device,
                       dgl_model_params(.path = dir, .kernels = kernels, .no_tuned = no_tuned),
                       &o.model) != DGL_OK ||
        dgl_session_create(o.model, dgl_session_params(.chunk = 64), &o.session) != DGL_OK)
        fail_msg("%s", log_.text);
    return o;
}

static void close_model(struct opened *o)
{
    dgl_session_destroy(&o->session);
    dgl_model_destroy(&o->model);
}

struct found_reason {
    const char *op;
    char text[512];
};

static bool keep_reason(void *priv, const struct dgl_plan_step *step)
{
    struct found_reason *found = priv;
    if (strcmp(step->op, found->op) != 0)
        return true;
    snprintf(found->text, sizeof(found->text), "%s", step->reason);
    return false;
}

static int set_up(void **state)
{
    struct tiny_llama sizes = tiny_llama_default();
    (void)state;
    test_log_init(&log_, DGL_LOG_NOTICE);
    dir = test_tmpdir();
    cache = test_tmpdir();
    sizes.context = 256;
    tiny_llama_write(dir, &sizes);
    worst_norm_write(dir, "worst.comp", "");
    worst_norm_write(dir, "other.comp", "// Another text.\n");
    return dgl_device_create(&log_.log, dgl_device_params(.select = "any", .cache_dir = cache),
                             &device) != DGL_OK;
}

static int tear_down(void **state)
{
    (void)state;
    dgl_device_destroy(&device);
    test_tmpdir_remove(dir);
    test_tmpdir_remove(cache);
    return 0;
}

/* ---- tuning ---------------------------------------------------------------------------------- */

static const struct dgl_tune_candidate *candidate(const struct dgl_tune_op *op, const char *tunes)
{
    for (size_t i = 0; i < op->num_candidates; i++)
        if (strcmp(op->candidates[i].tunes, tunes) == 0)
            return &op->candidates[i];
    fail_msg("no candidate %s among %zu", tunes, op->num_candidates);
    return NULL;
}

static void test_worst_is_replaced(void **state)
{
    struct dgl_kernels *kernels = kernels_of("worst.comp", NULL);
    struct opened o = open_model(kernels, true);
    struct dgl_tune_result r = {.size = sizeof(r)};
    (void)state;
    assert_int_equal(dgl_tune(o.session, dgl_tune_params(.op = "attn_norm"), &r), DGL_OK);
    assert_int_equal(r.num_ops, 1);
    assert_int_equal(r.num_left, 0);
    assert_true(r.stored);
    const struct dgl_tune_op *op = &r.ops[0];
    const struct dgl_tune_candidate *winner = &op->candidates[op->winner];
    assert_string_equal(op->op, "attn_norm");
    assert_true(op->num_candidates >= 4);
    if (op->winner == 0 || !strstr(winner->tunes, "SPIN=0"))
        fail_msg("winner %zu is %s %s, %.2f us; the default %.2f us; spread %.3f", op->winner,
                 winner->kernel, winner->tunes, winner->us, op->candidates[0].us, op->spread);
    if (!(op->tuned_us < op->default_us))
        fail_msg("tuned %.2f us, default %.2f us", op->tuned_us, op->default_us);
    assert_true(winner->verified);
    assert_true(candidate(op, "SPIN=0")->us > 0);
    /* Wrong by a factor of two: reported, and never timed. */
    assert_contains(candidate(op, "HALF=1")->reason, "norm_rms");
    assert_true(candidate(op, "HALF=1")->us == 0);
    assert_false(candidate(op, "HALF=1")->verified);
    dgl_tune_result_finish(&r);
    close_model(&o);
    dgl_kernels_destroy(&kernels);
}

/* All operations of a model that have a tunable, including those that only some calls use. */
struct operation_case {
    const char *name;
    enum dgl_phase phase;
};

static const struct operation_case operation_cases[] = {
    {"head_all", DGL_PHASE_PREFILL},
    {"sample_args", DGL_PHASE_SAMPLE},
    {"sample_adjust", DGL_PHASE_SAMPLE},
};

static void test_operation(void **state)
{
    const struct operation_case *c = *state;
    struct opened o = open_model(NULL, true);
    struct dgl_tune_result r = {.size = sizeof(r)};
    assert_int_equal(dgl_tune(o.session, dgl_tune_params(.op = c->name), &r), DGL_OK);
    assert_int_equal(r.num_ops, 1);
    const struct dgl_tune_op *op = &r.ops[0];
    assert_string_equal(op->op, c->name);
    assert_int_equal(op->phase, c->phase);
    if (op->num_candidates < 3)
        fail_msg("%s has %zu candidates, wanted 3", c->name, op->num_candidates);
    for (size_t i = 0; i < op->num_candidates; i++)
        if (op->candidates[i].us <= 0)
            fail_msg("%s: %s %s was not timed: %s", c->name, op->candidates[i].kernel,
                     op->candidates[i].tunes, op->candidates[i].reason);
    dgl_tune_result_finish(&r);
    close_model(&o);
}

/* Passes over several sequences have separate products, for that number of rows. */
static void test_batch_bodies(void **state)
{
    struct opened o = open_model(NULL, true);
    struct plan *plan = &o.model->shard->engine->plan;
    struct dgl_tune_result r = {.size = sizeof(r)};
    size_t bodies = 0, tuned = 0;
    (void)state;
    assert_int_equal(dgl_tune(o.session, dgl_tune_params(.op = "head"), &r), DGL_OK);
    for (size_t i = 0; i < plan->num_bodies; i++)
        bodies += plan->bodies[i]->shape.per_sequence && plan->bodies[i]->ops.count > 0;
    assert_true(bodies > 0);
    for (size_t i = 0; i < r.num_ops; i++) {
        const struct dgl_tune_op *op = &r.ops[i];
        assert_string_equal(op->op, "head");
        if (op->tokens == 1)
            continue;
        tuned++;
        assert_in_range(op->tokens, 2, 64);
        assert_true(op->num_candidates >= 2);
        assert_true(op->candidates[0].us > 0 && op->candidates[0].verified);
    }
    if (r.num_left == 0 && tuned < bodies)
        fail_msg("%zu of %zu bodies are tuned", tuned, bodies);
    assert_true(tuned > 0);
    dgl_tune_result_finish(&r);
    close_model(&o);
    assert_int_equal(dgl_tuned_reset(device), DGL_OK);
}

struct use_case {
    const char *name, *file, *hints;
    bool no_tuned;
    const char *want, *never; /* in the reason of the step */
};

static const struct use_case use_cases[] = {
    {"a second start", "worst.comp", .want = "SPIN=0 (tuner)"},
    {"left out", "worst.comp", .no_tuned = true, .never = "tuner"},
    {"a person says otherwise", "worst.comp", "{\"tunes\": {\"norm_rms.SPIN\": 4096}}",
     .want = "SPIN=4096 (--kernel-hints)", .never = "SPIN=0"},
    {"another text", "other.comp", .never = "tuner"},
};

static void test_use(void **state)
{
    const struct use_case *c = *state;
    struct dgl_kernels *kernels = kernels_of(c->file, c->hints);
    struct opened o = open_model(kernels, c->no_tuned);
    struct found_reason found = {.op = "attn_norm"};
    dgl_model_plan_iterate(o.model, keep_reason, &found);
    if ((c->want && !strstr(found.text, c->want)) || (c->never && strstr(found.text, c->never)))
        fail_msg("%s: the reason is \"%s\", wanted \"%s\" and not \"%s\"", c->name, found.text,
                 c->want ? c->want : "", c->never ? c->never : "");
    close_model(&o);
    dgl_kernels_destroy(&kernels);
}

static void test_compare(void **state)
{
    struct dgl_kernels *kernels = kernels_of("worst.comp", NULL);
    struct opened o = open_model(kernels, false);
    struct dgl_tune_result r = {.size = sizeof(r)};
    (void)state;
    assert_int_equal(dgl_tune(o.session, dgl_tune_params(.op = "attn_norm", .compare = true), &r),
                     DGL_OK);
    assert_int_equal(r.num_ops, 1);
    assert_int_equal(r.ops[0].num_candidates, 2);
    assert_int_equal(r.ops[0].winner, 1);
    assert_contains(r.ops[0].candidates[1].tunes, "SPIN=0");
    if (!(r.ops[0].tuned_us < r.ops[0].default_us))
        fail_msg("tuned %.2f us, default %.2f us", r.ops[0].tuned_us, r.ops[0].default_us);
    assert_false(r.stored);
    dgl_tune_result_finish(&r);
    close_model(&o);
    dgl_kernels_destroy(&kernels);
}

/* After the first operation: by the callback, or as a signal does it (`priv`: the session). */
static bool stop_after_one(void *priv, const char *what, uint64_t done, uint64_t total)
{
    (void)what;
    (void)total;
    if (priv && done == 1)
        dgl_session_cancel(priv);
    return priv || done < 1;
}

static bool count_stored(void *priv, const struct dgl_tuned *tuned)
{
    size_t *counts = priv;
    counts[strcmp(tuned->op, "sample_pick") == 0]++;
    return true;
}

struct cancel_case {
    const char *name;
    bool by_session;
};

static const struct cancel_case cancel_cases[] = {{"by the callback", false},
                                                  {"by the session", true}};

static void test_cancelled(void **state)
{
    const struct cancel_case *c = *state;
    struct opened o = open_model(NULL, true);
    struct dgl_tune_result r = {.size = sizeof(r)};
    size_t counts[2] = {0};
    assert_int_equal(dgl_tuned_reset(device), DGL_OK);
    assert_int_equal(dgl_tune(o.session,
                              dgl_tune_params(.op = "sample_pick", .progress_cb = stop_after_one,
                                              .progress_priv = c->by_session ? o.session : NULL),
                              &r),
                     DGL_ERR_CANCELLED);
    assert_int_equal(r.num_ops, 1);
    assert_int_equal(r.num_left, 2);
    assert_int_equal(dgl_tuned_iterate(device, count_stored, counts), DGL_OK);
    assert_int_equal(counts[1], 1);
    for (size_t i = 0; i < r.num_left; i++) {
        assert_string_equal(r.left[i].op, "sample_pick");
        assert_int_equal(r.left[i].phase, DGL_PHASE_SAMPLE);
    }
    dgl_tune_result_finish(&r);
    close_model(&o);
}

struct all_stored {
    char requests[8][1024];
    size_t count;
};

static bool keep_request(void *priv, const struct dgl_tuned *tuned)
{
    struct all_stored *all = priv;
    assert_true(all->count < 8 && strlen(tuned->request) < sizeof(all->requests[0]));
    strcpy(all->requests[all->count++], tuned->request);
    return true;
}

/* Calls that each have time for one operation reach all of them. */
static void test_short_calls_get_on(void **state)
{
    struct opened o = open_model(NULL, true);
    (void)state;
    assert_int_equal(dgl_tuned_reset(device), DGL_OK);
    for (size_t call = 1; call <= 3; call++) {
        struct all_stored all = {.count = 0};
        struct dgl_tune_result r = {.size = sizeof(r)};
        assert_int_equal(
            dgl_tune(o.session, dgl_tune_params(.op = "sample_pick", .progress_cb = stop_after_one),
                     &r),
            DGL_ERR_CANCELLED);
        assert_int_equal(r.num_ops, 1);
        assert_int_equal(dgl_tuned_iterate(device, keep_request, &all), DGL_OK);
        if (all.count != call)
            fail_msg("call %zu: %zu operations are stored, the last is %s", call, all.count,
                     r.ops[0].request);
        assert_string_equal(all.requests[call - 1], r.ops[0].request);
        dgl_tune_result_finish(&r);
    }
    close_model(&o);
}

struct bad_case {
    const char *name;
    struct dgl_tune_params params;
    const char *parts[3];
};

static const struct bad_case bad_cases[] = {
    {"a depth beyond the context",
     {.depth = 250},
     {"depth of 250: it is 2 to the context of 256 less"}},
    {"a depth below 0", {.depth = -1}, {"depth of -1: it is"}},
    {"time below 0", {.seconds = -1}, {"tune: -1 seconds: wanted 0 or more"}},
    {"an operation that the plan lacks", {.op = "qk_norm"}, {"no operation qk_norm"}},
};

static void test_refusal(void **state)
{
    const struct bad_case *c = *state;
    struct opened o = open_model(NULL, true);
    struct dgl_tune_result r = {.size = sizeof(r)};
    test_log_clear(&log_);
    enum dgl_status status = dgl_tune(o.session, &c->params, &r);
    assert_refusal(&log_, status, DGL_ERR_INVALID_ARG, c->parts);
    assert_int_equal(r.num_ops, 0);
    dgl_tune_result_finish(&r);
    close_model(&o);
}

/* A stored variant is taken, as a measurement, not as a person's wish. */
static void test_variant(void **state)
{
    struct opened o = open_model(NULL, true);
    const struct plan *plan = &o.model->shard->engine->plan;
    const struct kernel_use *use = NULL;
    struct tune_store store = {0};
    struct dgl_buf key = {0};
    char texts[65];
    struct dgl_tuned entry = {.op = "o",
                              .phase = DGL_PHASE_DECODE,
                              .tokens = 1,
                              .tunes = "ROW_THREADS=4",
                              .kernel = "matmul_decode"};
    (void)state;
    const struct body *body = plan_body(plan, PASS_DECODE);
    for (size_t i = 0; i < body->ops.count && !use; i++)
        use = strcmp(body->ops.ops[i].label, "o") == 0 ? body->use[i] : NULL;
    assert_non_null(use);
    kernel_request_key(&use->request, &key);
    entry.request = key.p;
    entry.default_kernel = use->choice.kernel->name;
    entry.texts = texts;
    assert_true(tune_texts(o.model->untuned, "matmul", false, texts));
    assert_true(tune_store_put(&store, &entry));
    assert_true(tune_store_save(&store, device));
    tune_store_finish(&store);
    close_model(&o);

    o = open_model(NULL, false);
    body = plan_body(&o.model->shard->engine->plan, PASS_DECODE);
    for (size_t i = 0; i < body->ops.count; i++)
        if (strcmp(body->ops.ops[i].label, "o") == 0) {
            const struct kernel_choice *choice = &body->use[i]->choice;
            assert_string_equal(choice->kernel->name, "matmul_decode");
            assert_false(choice->asked);
            assert_contains(choice->reason, "the fastest that was measured (tuner)");
            assert_contains(choice->reason, "ROW_THREADS=4 (tuner)");
        }
    close_model(&o);
    assert_int_equal(dgl_tuned_reset(device), DGL_OK);
    dgl_buf_finish(&key);
}

/* The key of a stored request is also a valid pattern for the user, and matches all such requests
 * of a model. */
static void test_keys_are_patterns(void **state)
{
    struct opened o = open_model(NULL, true);
    const struct kernel_table *kernels = &o.model->shard->engine->plan.kernels;
    (void)state;
    assert_true(kernels->count > 10);
    for (size_t i = 0; i < kernels->count; i++) {
        const struct kernel_use *use = kernels->uses[i];
        struct kernel_set *set = NULL;
        struct dgl_buf key = {0}, json = {0};
        kernel_request_key(&use->request, &key);
        dgl_buf_printf(&json, "{\"variants\": {\"%s\": \"%s\"}}", key.p, use->choice.kernel->name);
        if (kernel_set_with_hints(&log_.log, o.model->untuned, KERNEL_LAYER_HINTS, "test", json.p,
                                  &set) != DGL_OK)
            fail_msg("%s", log_.text);
        kernel_set_destroy(&set);
        dgl_buf_finish(&key);
        dgl_buf_finish(&json);
    }
    close_model(&o);
}

/* ---- the store ------------------------------------------------------------------------------- */

static const struct dgl_tuned entries[] = {
    {.request = "norm/post=store/H=64",
     .op = "attn_norm",
     .phase = DGL_PHASE_PREFILL,
     .tokens = 128,
     .texts = "1",
     .kernel = "norm_rms",
     .default_kernel = "norm_rms",
     .tunes = "WG_SIZE=128 EACH=2",
     .default_us = 3,
     .tuned_us = 2,
     .spread = 0.125,
     .time = 1795000000},
    {.request = "embed/H=64",
     .op = "embed",
     .phase = DGL_PHASE_DECODE,
     .tokens = 1,
     .texts = "2",
     .kernel = "mine",
     .default_kernel = "embed_rows",
     .tunes = "",
     .default_us = 5,
     .tuned_us = 4,
     .time = 1795000001},
    {.request = "norm/post=add/H=64",
     .op = "post",
     .phase = DGL_PHASE_SAMPLE,
     .tokens = 1,
     .texts = "1",
     .kernel = "norm_rms",
     .default_kernel = "norm_rms",
     .tunes = "",
     .default_us = 1,
     .tuned_us = 1,
     .time = 1},
};
enum { ENTRIES = sizeof(entries) / sizeof(entries[0]) };

static void put_entries(void)
{
    struct tune_store store = {0};
    assert_int_equal(dgl_tuned_reset(device), DGL_OK); /* saving keeps the stored results */
    for (int i = 0; i < ENTRIES; i++)
        assert_true(tune_store_put(&store, &entries[i]));
    assert_int_equal(store.count, ENTRIES);
    assert_true(tune_store_put(&store, &entries[1])); /* in place of itself */
    assert_int_equal(store.count, ENTRIES);
    assert_true(tune_store_save(&store, device));
    tune_store_finish(&store);
}

/* The only .tune file of the cache; free(). */
static char *stored_path(void)
{
    const char *folder = dgl_device_cache_dir(device);
    char *path = NULL;
    DIR *d = checked(opendir(folder));
    for (struct dirent *e; (e = readdir(d)) != NULL;)
        if (strstr(e->d_name, ".tune")) {
            assert_null(path);
            path = checked(dgl_path_join(folder, e->d_name));
        }
    closedir(d);
    return checked(path);
}

static void test_round_trip(void **state)
{
    struct tune_store store;
    (void)state;
    put_entries();
    tune_store_load(&store, device);
    assert_int_equal(store.count, ENTRIES);
    for (int i = 0; i < ENTRIES; i++) {
        const struct dgl_tuned *want = &entries[i];
        const struct dgl_tuned *got = tune_store_find(&store, want->request, want->texts);
        assert_non_null(got);
        assert_string_equal(got->op, want->op);
        assert_int_equal(got->phase, want->phase);
        assert_int_equal(got->tokens, want->tokens);
        assert_string_equal(got->kernel, want->kernel);
        assert_string_equal(got->default_kernel, want->default_kernel);
        assert_string_equal(got->tunes, want->tunes);
        assert_near(got->default_us, want->default_us, 0);
        assert_near(got->tuned_us, want->tuned_us, 0);
        assert_near(got->spread, want->spread, 0);
        assert_true(got->time == want->time);
    }
    assert_null(tune_store_find(&store, entries[0].request, "2"));
    tune_store_finish(&store);
}

static void test_hints_are_what_layers_read(void **state)
{
    struct dgl_buf json = {0};
    (void)state;
    tune_hints_put(entries, ENTRIES, &json);
    assert_string_equal(json.p,
                        "{\"tunes\": {\"norm/post=store/H=64\": {\"norm_rms.WG_SIZE\": 128, "
                        "\"norm_rms.EACH\": 2}}, \"variants\": {\"embed/H=64\": \"mine\"}}");
    dgl_buf_finish(&json);
}

/* An edit of the file: the first `find` becomes `with`. */
struct damage_case {
    const char *name, *find, *with;
    size_t want; /* entries that are used */
    bool told;   /* TOLD after the file's name is reported once */
};

#define TOLD ": not as `dopplergl tune` stores it, and not used: `dopplergl tune` makes it again"

static const struct damage_case damages[] = {
    {"as it was stored", "dopplergl", "dopplergl", ENTRIES, false},
    {"another format", "tunings-3", "tunings-4", 0, true},
    {"a record without a key", "\n", "\n ", 0, true},
    {"an entry without its kernel", " kernel=", " kernels=", ENTRIES - 1, true},
    {"an entry without its time", " time=", " times=", ENTRIES - 1, true},
    {"an entry of no phase", "phase=1", "phase=3", ENTRIES - 1, true},
    {"an entry of no tokens", "tokens=128", "tokens=0", ENTRIES - 1, true},
    {"an entry of a fraction of a token", "tokens=128", "tokens=1.5", ENTRIES - 1, true},
};

static void test_damage(void **state)
{
    const struct damage_case *c = *state;
    struct tune_store store;
    struct dgl_buf text = {0};
    put_entries();
    char *path = stored_path();
    test_record_edit(dgl_device_cache_dir(device), strrchr(path, '/') + 1, c->find, c->with);
    test_log_clear(&log_);
    device->told_tunings = false;
    for (int i = 0; i < 2; i++) { /* reported once */
        tune_store_load(&store, device);
        if (store.count != c->want)
            fail_msg("%s: %zu entries count, wanted %zu", c->name, store.count, c->want);
        tune_store_finish(&store);
    }
    if (c->told) {
        dgl_buf_printf(&text, "%s" TOLD, path);
        assert_int_equal(test_occurrences(log_.text, text.p), 1);
        dgl_buf_finish(&text);
    } else {
        assert_string_equal(log_.text, "");
    }
    free(path);
}

static void test_reset(void **state)
{
    struct tune_store store;
    (void)state;
    put_entries();
    assert_int_equal(dgl_tuned_reset(device), DGL_OK);
    tune_store_load(&store, device);
    assert_int_equal(store.count, 0);
    assert_int_equal(dgl_tuned_reset(device), DGL_OK); /* no results to remove */
}

static void test_texts_tell_kernels_apart(void **state)
{
    struct kernel_set *builtin = loaded_set(NULL);
    struct dgl_kernels *worst = kernels_of("worst.comp", NULL),
                       *other = kernels_of("other.comp", NULL);
    char plain[65], again[65], texts[65], others[65], embed[65], worst_embed[65];
    (void)state;
    assert_true(tune_texts(builtin, "norm", false, plain));
    assert_true(tune_texts(builtin, "norm", false, again));
    assert_true(tune_texts(worst->set, "norm", false, texts));
    assert_true(tune_texts(other->set, "norm", false, others));
    assert_true(tune_texts(builtin, "embed", false, embed));
    assert_true(tune_texts(worst->set, "embed", false, worst_embed));
    assert_string_equal(plain, again);
    assert_string_not_equal(plain, texts);
    assert_string_not_equal(texts, others);
    assert_string_equal(embed, worst_embed); /* its kernels are the same */
    assert_string_not_equal(embed, plain);
    dgl_kernels_destroy(&worst);
    dgl_kernels_destroy(&other);
    kernel_set_destroy(&builtin);
}

/* Results of one request in f16 and in f32: each is used for its precision only. */
static void test_precisions_are_apart(void **state)
{
    static const char lines[] =
        "// Summary\n//! NAME matmul_prefill\n//! OP matmul\n//! VARIANT half\n//! PRECISION f16\n"
        "//! TUNE ROWS = 1 in 1 2\n//! LOCAL 32\n//! GROUPS ROWS\nvoid body(uvec3 group)\n{\n}\n";
    static const char *const file = "half.comp", *const asked = "{\"computePrecision\":\"f16\"}";
    const struct dgl_kernel_text text = {file, lines, strlen(lines)};
    struct kernel_set *sets[2];
    struct tune_store store = {0};
    char texts[65];
    struct dgl_tuned entry = {.request = "matmul/phase=prefill/N=64",
                              .op = "o",
                              .phase = DGL_PHASE_PREFILL,
                              .tokens = 64};
    (void)state;
    for (int f16 = 0; f16 <= 1; f16++) {
        sets[f16] = loaded_set(dgl_kernels_params(.files = &file, .num_files = 1, .texts = &text,
                                                  .num_texts = 1, .hints = f16 ? asked : NULL));
        assert_true(tune_texts(sets[0], "matmul", f16, texts));
        entry.texts = texts;
        entry.tunes = f16 ? "ROWS=2" : "TOKENS=64";
        entry.kernel = f16 ? "matmul_prefill" : "matmul_prefill_wide";
        entry.default_kernel = entry.kernel;
        assert_true(tune_store_put(&store, &entry));
    }
    assert_int_equal(store.count, 2);
    entry.request = "matmul/phase=decode/N=64"; /* no kernel of PRECISION f16 is for it */
    entry.tunes = "ROWS=4";
    entry.kernel = "matmul_decode";
    assert_true(tune_texts(sets[0], "matmul", false, texts));
    assert_true(tune_store_put(&store, &entry));
    for (int f16 = 0; f16 <= 1; f16++) {
        struct dgl_buf json = {0};
        size_t count = 0;
        tune_store_hints(&store, sets[f16], &json, &count);
        assert_int_equal(count, 2);
        assert_contains(json.p, f16 ? "matmul_prefill.ROWS" : "matmul_prefill_wide.TOKENS");
        assert_null(strstr(json.p, f16 ? "wide" : "matmul_prefill.ROWS"));
        assert_contains(json.p, "matmul_decode.ROWS");
        dgl_buf_finish(&json);
        kernel_set_destroy(&sets[f16]);
    }
    tune_store_finish(&store);
}

int main(void)
{
    const struct CMUnitTest before[] = {cmocka_unit_test(test_worst_is_replaced)};
    const struct CMUnitTest after[] = {
        cmocka_unit_test(test_compare),
        cmocka_unit_test(test_short_calls_get_on),
        cmocka_unit_test(test_variant),
        cmocka_unit_test(test_round_trip),
        cmocka_unit_test(test_hints_are_what_layers_read),
        cmocka_unit_test(test_keys_are_patterns),
        cmocka_unit_test(test_reset),
        cmocka_unit_test(test_texts_tell_kernels_apart),
        cmocka_unit_test(test_precisions_are_apart),
    };
    const struct CMUnitTest batch[] = {cmocka_unit_test(test_batch_bodies)};
    void *state = NULL;
    if (set_up(&state)) {
        printf("# skip: no GLES device: %s\n", log_.text);
        return 0;
    }
    int failures = cmocka_run_group_tests_name("tune", before, NULL, NULL);
    failures += test_run_table("use", test_use, use_cases);
    failures += test_run_table("refusal", test_refusal, bad_cases);
    failures += cmocka_run_group_tests_name("store", after, NULL, NULL);
    failures += test_run_table("cancel", test_cancelled, cancel_cases);
    failures += test_run_table("damage", test_damage, damages);
    failures += test_run_table("operation", test_operation, operation_cases);
    failures += cmocka_run_group_tests_name("batch", batch, NULL, NULL);
    tear_down(&state);
    return failures;
}
