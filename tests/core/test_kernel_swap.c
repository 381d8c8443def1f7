/* Other kernels on a model that generates. Tokens are generated while the driver compiles on its
 * own threads (here a driver that reports such threads, and is done when the test says so), and
 * change at the swap. */
#include "tests/support/gl_fail.h"

#include <stdlib.h>

#include "core/base/file.h"
#include "core/seq/session.h"
#include "tests/support/tiny_engine.h"

#define PROMPT 12
#define TOKENS 40
#define START  4 /* tokens before the edit */
#define BUSY   9 /* calls while the compiler is at work */

static char *dir, *model_dir;
static int32_t prompt[PROMPT], greedy[TOKENS];

/* ---- a driver with compiler threads ---------------------------------------------------------- */

static bool aside, compiling;
static size_t asked; /* reports programs as ready or not, as the test requires */

bool __wrap_gl_compiles_aside(const struct gl_device *dev);
bool __wrap_gl_compiles_aside(const struct gl_device *dev)
{
    (void)dev;
    return aside;
}

bool __wrap_gl_pending_is_ready(struct gl_device *dev, const struct gl_pending *pending);
bool __wrap_gl_pending_is_ready(struct gl_device *dev, const struct gl_pending *pending)
{
    (void)dev;
    (void)pending;
    asked += compiling;
    return !compiling;
}

static int setup(void **state)
{
    aside = compiling = false;
    asked = 0;
    return gl_fail_setup(state);
}

/* ---- an edit --------------------------------------------------------------------------------- */

/* sample_pick, which every token needs, with a changed result. */
static struct dgl_kernels *edited(const char *result, bool unchecked)
{
    struct dgl_kernels *kernels = NULL;
    struct dgl_buf out = {0};
    size_t len = 0;
    assert_int_equal(dgl_kernels_create(NULL, NULL, &kernels), DGL_OK);
    const char *text = dgl_kernels_source(kernels, "sample_pick", &len), *find = "return best.y;",
               *at = strstr(checked((char *)text), find);
    assert_non_null(at);
    dgl_buf_append(&out, text, (size_t)(at - text));
    dgl_buf_puts(&out, result);
    dgl_buf_puts(&out, at + strlen(find));
    test_write_file(dir, "pick.comp", out.p, out.len);
    dgl_buf_finish(&out);
    dgl_kernels_destroy(&kernels);
    assert_int_equal(dgl_kernels_create(NULL,
                                        dgl_kernels_params(.dirs = (const char *const[]){dir},
                                                           .num_dirs = 1, .unchecked = unchecked),
                                        &kernels),
                     DGL_OK);
    return kernels;
}

static uint64_t links(struct dgl_device *device)
{
    struct dgl_counters counters;
    dgl_device_get_counters(device, &counters);
    return counters.programs_linked;
}

struct row {
    const char *name, *result;
    bool unchecked, aside;
    enum dgl_status status;
    int32_t change; /* of the tokens that the new kernel picks */
};

static const struct row rows[] = {
    {"another result", "return best.y ^ 1u;", true, true, DGL_OK, 1},
    {"the same result", "return best.y | 0u;", false, true, DGL_OK, 0},
    {"a wrong result", "return best.y ^ 1u;", false, true, DGL_ERR_KERNEL, 0},
    {"does not compile", "return best.z;", false, true, DGL_ERR_KERNEL, 0},
    {"another result, compiled in the loop", "return best.y ^ 1u;", true, false, DGL_OK, 1},
    {"the same result, compiled in the loop", "return best.y | 0u;", false, false, DGL_OK, 0},
    {"a wrong result, compiled in the loop", "return best.y ^ 1u;", false, false, DGL_ERR_KERNEL,
     0},
};

struct live {
    struct tiny_engine e;
    const struct row *row;
    struct dgl_kernels *kernels;
    size_t tokens, calls, swapped; /* swapped: after so many tokens; 0 = not */
    uint64_t links;
    enum dgl_status status;
};

static bool take_token(void *priv, int32_t id)
{
    struct live *l = priv;
    bool ready;
    (void)id;
    if (++l->tokens < START || l->swapped || l->status != DGL_OK)
        return true;
    if (l->calls == 0)
        l->links = links(l->e.device);
    compiling = l->row->aside && ++l->calls <= BUSY;
    l->status = dgl_model_prepare_kernels(l->e.model, l->kernels, &ready);
    if (compiling && (ready || l->status != DGL_OK || links(l->e.device) != l->links))
        fail_msg("%s: call %zu: status %d, ready %d, %llu programs linked, wanted %llu: it did not "
                 "leave the compiler alone",
                 l->row->name, l->calls, (int)l->status, ready,
                 (unsigned long long)links(l->e.device), (unsigned long long)l->links);
    if (!ready || l->status != DGL_OK)
        return true;
    l->links = links(l->e.device);
    assert_int_equal(dgl_model_set_kernels(l->e.model, l->kernels), DGL_OK);
    assert_int_equal(links(l->e.device), l->links); /* only the change was left */
    l->swapped = l->tokens;
    return true;
}

static void tokens_go_on(void **state)
{
    const struct row *row = *state;
    struct live l = {.row = row, .kernels = edited(row->result, row->unchecked)};
    setup(NULL);
    tiny_engine_open(&l.e, &(struct tiny_engine_params){.path = model_dir, .context = 64});
    aside = row->aside;
    struct dgl_generate_result r = tiny_generate(
        l.e.session, dgl_generate_params(.ids = prompt, .num_ids = PROMPT, .max_tokens = TOKENS,
                                         .ignore_eos = true, .token_cb = take_token, .priv = &l));
    assert_int_equal(r.num_tokens, TOKENS);
    if (l.status != row->status || !l.swapped != (row->status != DGL_OK))
        fail_msg("%s: status %d, wanted %d; swapped after %zu tokens: %s", row->name, (int)l.status,
                 (int)row->status, l.swapped, l.e.log.text);
    if (row->aside && (l.calls <= BUSY || asked < BUSY))
        fail_msg("%s: %zu calls, asked %zu times, wanted more than %d", row->name, l.calls, asked,
                 BUSY);
    /* The next token is the new kernel's, and no earlier one. */
    const size_t same = row->change ? l.swapped : TOKENS;
    for (size_t i = 0; i < same; i++)
        if (r.tokens[i] != greedy[i])
            fail_msg("%s: token %zu is %d, wanted %d", row->name, i, r.tokens[i], greedy[i]);
    if (row->change && r.tokens[same] != (greedy[same] ^ row->change))
        fail_msg("%s: token %zu is %d, wanted %d", row->name, same, r.tokens[same],
                 greedy[same] ^ row->change);
    dgl_generate_result_finish(&r);
    dgl_kernels_destroy(&l.kernels);
    tiny_engine_close(&l.e);
    assert_int_equal(gl_fail.live_buffers, 0);
}

/* ---- unfinished preparations --------------------------------------------------------------------
 */

enum end { END_CLOSED, END_OTHERS, END_LOST, END_RETURN };
static const struct left {
    const char *name;
    enum end end;
} ends[] = {
    {"the model is closed", END_CLOSED},
    {"other kernels are set", END_OTHERS},
    {"the device is lost", END_LOST},
    {"it is gone back to", END_RETURN},
};

static void is_left(void **state)
{
    const struct left *row = *state;
    struct tiny_engine e;
    struct dgl_kernels *mine = edited("return best.y ^ 1u;", true);
    int32_t out[TOKENS];
    bool ready;
    setup(NULL);
    tiny_engine_open(&e, &(struct tiny_engine_params){.path = model_dir, .context = 64});
    tiny_greedy(e.session, prompt, PROMPT, out, TOKENS);
    aside = compiling = true;
    for (int i = 0; i < 3; i++) {
        assert_int_equal(dgl_model_prepare_kernels(e.model, mine, &ready), DGL_OK);
        assert_false(ready);
    }
    if (row->end == END_OTHERS) {
        assert_int_equal(dgl_model_set_kernels(e.model, NULL), DGL_OK);
    } else if (row->end == END_LOST) {
        gl_fail.submits = 0;
        dgl_session_trim(e.session, 0);
        assert_int_equal(dgl_session_sync(e.session, prompt, PROMPT, NULL), DGL_ERR_DEVICE_LOST);
        gl_fail_reset();
        assert_int_equal(dgl_model_prepare_kernels(e.model, mine, &ready), DGL_ERR_DEVICE_LOST);
        assert_int_equal(dgl_model_rebuild(e.model, NULL), DGL_OK);
    } else if (row->end == END_RETURN) {
        compiling = false; /* a call waits for compilations that have started */
        assert_int_equal(dgl_model_set_kernels(e.model, mine), DGL_OK);
    }
    if (row->end != END_CLOSED) {
        const int32_t want = row->end == END_RETURN ? greedy[0] ^ 1 : greedy[0];
        dgl_session_trim(e.session, 0);
        tiny_greedy(e.session, prompt, PROMPT, out, 1);
        if (out[0] != want)
            fail_msg("%s: token 0 is %d, wanted %d", row->name, out[0], want);
    }
    dgl_kernels_destroy(&mine);
    tiny_engine_close(&e);
    assert_int_equal(gl_fail.live_buffers, 0);
}

/* A set from which an invalid file was left out may only be used to check files. */
static void sets_with_faults_are_refused(void **state)
{
    static const char broken[] = "// Broken.\n//! NAMES broken\n";
    struct tiny_engine e;
    struct dgl_kernels *faulty = NULL;
    char *folder = test_tmpdir();
    (void)state;
    test_write_file(folder, "broken.comp", broken, strlen(broken));
    assert_int_equal(dgl_kernels_create(NULL,
                                        dgl_kernels_params(.dirs = (const char *const[]){folder},
                                                           .num_dirs = 1, .keep_faults = true),
                                        &faulty),
                     DGL_OK);
    tiny_engine_open(&e, &(struct tiny_engine_params){.path = model_dir});
    test_log_clear(&e.log);
    assert_int_equal(dgl_model_set_kernels(e.model, faulty), DGL_ERR_KERNEL);
    assert_contains(e.log.text, "broken.comp:2:5: 'NAMES' is not a directive");
    tiny_engine_close(&e);
    dgl_kernels_destroy(&faulty);
    test_tmpdir_remove(folder);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(sets_with_faults_are_refused, setup),
    };
    struct tiny_engine e;
    dir = test_tmpdir();
    model_dir = test_tmpdir();
    make_tiny_llama(model_dir, 11, NULL);
    tiny_tokenizer_write(model_dir);
    tiny_ids(prompt, PROMPT, 320, 5);
    tiny_engine_open(&e, &(struct tiny_engine_params){.path = model_dir, .context = 64});
    tiny_greedy(e.session, prompt, PROMPT, greedy, TOKENS);
    tiny_engine_close(&e);
    int failures = test_run_table("tokens", tokens_go_on, rows);
    failures += test_run_table("left", is_left, ends);
    failures += cmocka_run_group_tests_name("kernel swap", tests, NULL, NULL);
    test_tmpdir_remove(model_dir);
    test_tmpdir_remove(dir);
    return failures;
}
