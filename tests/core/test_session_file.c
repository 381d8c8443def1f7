/* Session files: the loaded state equals the saved state bit for bit, on any device, with any pages
 * and in any process. Also files that are damaged, of another kind, or cannot be written. */
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/base/file.h"
#include "core/base/hash.h"
#include "core/base/mem.h"
#include "core/model/model.h"
#include "core/seq/session.h"
#include "kernels/step.h"
#include "tests/support/family.h"
#include "tests/support/tiny_engine.h"

#define PROMPT 90 /* two pages */
#define FIRST  9  /* tokens of the answer before it is saved */
#define SECOND 12
#define VOCAB  320

static char *dir;   /* of tiny models: the usual one, and one with other weights */
static char *other; /* model */
static int32_t prompt[PROMPT];

static char *path_of(const char *name)
{
    return checked(dgl_path_join(dir, name));
}

static struct dgl_str slurp(const char *path)
{
    char *text = NULL;
    size_t len = 0;
    assert_int_equal(dgl_file_slurp(NULL, path, SIZE_MAX - 1, &text, &len), DGL_OK);
    return (struct dgl_str){text, len};
}

static void assert_same_file(const char *a, const char *b)
{
    struct dgl_str left = slurp(a), right = slurp(b);
    assert_int_equal(left.len, right.len);
    for (size_t i = 0; i < left.len; i++)
        if (left.p[i] != right.p[i])
            fail_msg("byte %zu of %s is 0x%02x, of %s 0x%02x", i, a, (unsigned char)left.p[i], b,
                     (unsigned char)right.p[i]);
    free((char *)left.p);
    free((char *)right.p);
}

/* No temporary file is left in the folder. */
static void assert_no_temporaries(void)
{
    char **names = NULL;
    size_t count = 0;
    assert_int_equal(dgl_dir_list(NULL, dir, &names, &count), DGL_OK);
    for (size_t i = 0; i < count; i++)
        if (strstr(names[i], ".tmp-"))
            fail_msg("%s was left behind", names[i]);
    dgl_names_free(names, count);
}

/* ---- going on -------------------------------------------------------------------------------- */

struct going_on {
    const char *name, *path; /* NULL = the tiny model; "family NAME" = of the test data */
    enum dgl_kv_type kv_type;
    bool limits_min;
    float temperature, repeat_penalty;
};

static const struct going_on continuations[] = {
    {"greedy, f16", NULL, DGL_KV_F16, false, 0, 0},
    {"greedy, f32", NULL, DGL_KV_F32, false, 0, 0},
    {"seeded, f16", NULL, DGL_KV_F16, false, 1, 1.3F},
    {"seeded, smallest device", NULL, DGL_KV_F16, true, 1, 0},
    {"experts and windows, seeded", "synthetic:tiny-gpt-oss:f32", DGL_KV_F16, false, 1, 1.1F},
    {"experts and windows, f32", "synthetic:tiny-gpt-oss:f32", DGL_KV_F32, false, 0, 0},
    {"Gemma's windows", "family gemma3", DGL_KV_F16, false, 1, 0},
    {"rotations that depend on the length", "family phi3-longrope", DGL_KV_F16, false, 0, 0},
};

static struct dgl_generate_result go_on(struct dgl_session *s, const struct going_on *row,
                                        const int32_t *ids, size_t count, uint32_t draws,
                                        int32_t tokens)
{
    return tiny_generate(s, dgl_generate_params(.ids = ids, .num_ids = count, .ignore_eos = true,
                                                .max_tokens = tokens,
                                                .sampling = {.temperature = row->temperature,
                                                             .repeat_penalty = row->repeat_penalty,
                                                             .repeat_last_n = 64,
                                                             .seed = 7,
                                                             .draws = draws}));
}

static void test_goes_on(void **state)
{
    const struct going_on *row = *state;
    static const char data[] = "a\0b";
    const bool family = row->path && strncmp(row->path, "family ", 7) == 0;
    const struct tiny_engine_params params = {.path = family      ? family_dir(row->path + 7)
                                                      : row->path ? row->path
                                                                  : dir,
                                              .kv_type = row->kv_type,
                                              .limits = row->limits_min ? "min" : NULL,
                                              .context = 128};
    char *first = path_of("first"), *second = path_of("second"), *got_data = NULL;
    int32_t ids[PROMPT + FIRST];
    size_t len = 0;
    struct tiny_engine e;
    tiny_engine_open(&e, &params);

    /* Without saving: the whole answer at once, and in two parts. */
    struct dgl_generate_result whole = go_on(e.session, row, prompt, PROMPT, 0, FIRST + SECOND);
    struct dgl_session *s = tiny_session(&e, 0);
    struct dgl_generate_result part = go_on(s, row, prompt, PROMPT, 0, FIRST);
    memcpy(ids, prompt, sizeof(prompt));
    memcpy(ids + PROMPT, part.tokens, FIRST * sizeof(*ids));
    dgl_generate_result_finish(&part);
    assert_int_equal(
        dgl_session_save(s, dgl_session_save_params(.path = first, .data = data, .data_len = 3)),
        DGL_OK);
    part = go_on(s, row, ids, PROMPT + FIRST, FIRST, SECOND);
    for (int i = 0; i < SECOND; i++)
        assert_int_equal(part.tokens[i], whole.tokens[FIRST + i]);
    dgl_generate_result_finish(&part);
    dgl_session_destroy(&s);
    tiny_engine_close(&e);

    /* On a new device, beside a session that has the first pages. */
    tiny_engine_open(&e, &params);
    s = tiny_session(&e, 0);
    tiny_sync(e.session, prompt, 5);
    tiny_sync(s, prompt + 20, 30);
    if (dgl_session_load(s, dgl_session_load_params(.path = first), &got_data, &len) != DGL_OK)
        fail_msg("not loaded: %s", e.log.text);
    assert_int_equal(len, 3);
    assert_memory_equal(got_data, data, sizeof(data));
    assert_int_equal(dgl_session_len(s), PROMPT + FIRST - 1);
    assert_memory_equal(dgl_session_ids(s), ids, (PROMPT + FIRST - 1) * sizeof(*ids));
    assert_int_equal(
        dgl_session_save(s, dgl_session_save_params(.path = second, .data = data, .data_len = 3)),
        DGL_OK);
    assert_same_file(first, second);
    part = go_on(s, row, ids, PROMPT + FIRST, FIRST, SECOND);
    assert_int_equal(part.num_reused, PROMPT + FIRST - 1);
    for (int i = 0; i < SECOND; i++)
        if (part.tokens[i] != whole.tokens[FIRST + i])
            fail_msg("token %d is %d, without the file it is %d", i, part.tokens[i],
                     whole.tokens[FIRST + i]);
    dgl_generate_result_finish(&part);
    dgl_generate_result_finish(&whole);
    dgl_free(got_data);
    dgl_session_destroy(&s);
    tiny_engine_close(&e);
    free(first);
    free(second);
}

/* A prompt that differs within the loaded tokens reuses the keys before the difference. */
static void test_departs_earlier(void **state)
{
    struct tiny_engine e;
    int32_t want[SECOND], got[SECOND], ids[PROMPT];
    char *path = path_of("first");
    (void)state;
    memcpy(ids, prompt, sizeof(prompt));
    ids[70]++;
    tiny_engine_open(
        &e, &(struct tiny_engine_params){.path = "synthetic:tiny-gpt-oss:f32", .context = 128});
    tiny_sync(e.session, prompt, PROMPT);
    assert_int_equal(dgl_session_save(e.session, dgl_session_save_params(.path = path)), DGL_OK);
    tiny_greedy(e.session, ids, PROMPT, want, SECOND);
    struct dgl_session *s = tiny_session(&e, 0);
    assert_int_equal(dgl_session_load(s, dgl_session_load_params(.path = path), NULL, NULL),
                     DGL_OK);
    struct dgl_generate_result r =
        tiny_generate(s, dgl_generate_params(.ids = ids, .num_ids = PROMPT, .ignore_eos = true,
                                             .max_tokens = SECOND));
    memcpy(got, r.tokens, sizeof(got));
    assert_int_equal(r.num_reused, 70);
    assert_memory_equal(got, want, sizeof(want));
    dgl_generate_result_finish(&r);
    dgl_session_destroy(&s);
    tiny_engine_close(&e);
    free(path);
}

/* Pages shared with other sessions stay unchanged if a file is loaded in their place. Shared pages
 * and unshared pages are saved alike. */
static void test_shared_pages(void **state)
{
    struct tiny_engine e;
    struct dgl_session *copy = NULL, *alike = NULL;
    int32_t want[SECOND], got[SECOND];
    char *first = path_of("first"), *second = path_of("second"), *another = path_of("another");
    (void)state;
    tiny_engine_open(&e, &(struct tiny_engine_params){.path = dir});
    struct dgl_session *s = NULL;
    assert_int_equal(dgl_session_create(e.model, dgl_session_params(.share_prefix = true), &s),
                     DGL_OK);
    tiny_sync(s, prompt + 5, PROMPT - 5);
    assert_int_equal(dgl_session_save(s, dgl_session_save_params(.path = another)), DGL_OK);
    tiny_sync(s, prompt, PROMPT - 1);
    assert_int_equal(dgl_session_clone(s, NULL, &copy), DGL_OK);
    tiny_greedy(copy, prompt, PROMPT, want, SECOND);
    dgl_session_destroy(&copy);
    assert_int_equal(dgl_session_clone(s, NULL, &copy), DGL_OK);
    assert_int_equal(dgl_session_save(s, dgl_session_save_params(.path = first)), DGL_OK);
    assert_int_equal(dgl_session_save(copy, dgl_session_save_params(.path = second)), DGL_OK);
    assert_same_file(first, second);

    /* Another text in the place of the copy, and of one that found its pages by their tokens. */
    assert_int_equal(dgl_session_create(e.model, dgl_session_params(.share_prefix = true), &alike),
                     DGL_OK);
    assert_int_equal(tiny_sync(alike, prompt, PROMPT), DGL_KV_PAGE);
    struct dgl_session *const others[] = {copy, alike};
    for (size_t i = 0; i < 2; i++) {
        assert_int_equal(
            dgl_session_load(others[i], dgl_session_load_params(.path = another), NULL, NULL),
            DGL_OK);
        assert_int_equal(dgl_session_save(others[i], dgl_session_save_params(.path = second)),
                         DGL_OK);
        assert_same_file(another, second);
    }
    tiny_greedy(s, prompt, PROMPT, got, SECOND);
    assert_memory_equal(got, want, sizeof(want));
    dgl_session_destroy(&alike);
    dgl_session_destroy(&copy);
    dgl_session_destroy(&s);
    tiny_engine_close(&e);
    free(first);
    free(second);
    free(another);
}

/* The logits of a prompt are saved too: an answer to it evaluates no tokens. An empty session can
 * be saved. dgl_session_load() into a shorter context works if it has room. */
static void test_logits_and_nothing(void **state)
{
    struct tiny_engine e;
    struct dgl_session *s = NULL;
    struct dgl_counters before, after;
    int32_t want[2], got[2];
    char *path = path_of("first"), *data = NULL;
    size_t len = 9;
    (void)state;
    tiny_engine_open(&e, &(struct tiny_engine_params){.path = dir});
    assert_int_equal(dgl_session_save(e.session, dgl_session_save_params(.path = path)), DGL_OK);
    tiny_sync(e.session, prompt, 4);
    /* A path that is not a regular file keeps its type. */
    struct stat kind;
    char *pipe = path_of("pipe");
    assert_int_equal(mkfifo(pipe, 0600), 0);
    assert_int_equal(dgl_session_save(e.session, dgl_session_save_params(.path = pipe)),
                     DGL_ERR_IO);
    assert_true(stat(pipe, &kind) == 0 && S_ISFIFO(kind.st_mode));
    test_log_clear(&e.log);
    free(pipe);
    assert_int_equal(
        dgl_session_load(e.session, dgl_session_load_params(.path = path), &data, &len), DGL_OK);
    assert_int_equal(dgl_session_len(e.session), 0);
    assert_int_equal(len, 0);
    assert_string_equal(data, "");
    dgl_free(data);

    tiny_sync(e.session, prompt, PROMPT);
    assert_int_equal(dgl_session_save(e.session, dgl_session_save_params(.path = path)), DGL_OK);
    float *logits = tiny_logits(e.session);
    tiny_greedy(e.session, prompt, PROMPT, want, 2);
    assert_int_equal(dgl_session_create(e.model, dgl_session_params(.context = PROMPT + 2), &s),
                     DGL_OK);
    assert_int_equal(dgl_session_load(s, dgl_session_load_params(.path = path), NULL, NULL),
                     DGL_OK);
    float *loaded = tiny_logits(s);
    assert_memory_equal(loaded, logits, VOCAB * sizeof(float));
    dgl_device_get_counters(e.device, &before);
    tiny_greedy(s, prompt, PROMPT, got, 1);
    dgl_device_get_counters(e.device, &after);
    assert_int_equal(after.tokens, before.tokens);
    assert_int_equal(got[0], want[0]);
    free(logits);
    free(loaded);
    dgl_session_destroy(&s);
    tiny_engine_close(&e);
    free(path);
}

/* ---- refusals -------------------------------------------------------------------------------- */

/* Offsets in a file of PROMPT tokens: docs/formats.md. */
enum {
    VERSION = 8,
    ORDER = 12,
    SIZE = 16,
    TOKENS = 24,
    ROPE_TOKENS = 28,
    LAYERS = 32,
    KV_TYPE = 44,
    LOGITS = 52,
    DATA = 56,
    MODEL = 64,
    TOKENIZER = 128,
    PRECISION = 192,
    IDS = 352,
    ROWS = IDS + PROMPT * 4 + VOCAB * 4
};

struct refused {
    const char *name;
    long at; /* of `bytes`; -1 = behind the end */
    const char *bytes;
    size_t num_bytes;
    /* 0 = the whole file; positive: only its first bytes; negative: this many bytes fewer */
    long len;
    bool hashed; /* the hash is made right again */
    enum dgl_status want;
    const char *parts[3];
    bool empties; /* the session is then empty; else it is unchanged */
};
#define BYTES(text) text, sizeof(text) - 1

static const struct refused refusals[] = {
    {"another kind of file",
     0,
     BYTES("GGUF"),
     0,
     true,
     DGL_ERR_FORMAT,
     {"damaged is no session file", "another name"},
     false},
    {"an empty file",
     -1,
     "",
     0,
     -(1 << 30),
     false,
     DGL_ERR_FORMAT,
     {"no session file", "0 bytes"},
     false},
    {"a head that was cut", -1, "", 0, 20, false, DGL_ERR_FORMAT, {"cut off", "20 bytes"}, false},
    {"a head that was cut, but tells",
     -1,
     "",
     0,
     100,
     false,
     DGL_ERR_FORMAT,
     {"100 bytes, as a session file it would have 2"},
     false},
    {"another version",
     VERSION,
     BYTES("\2"),
     0,
     true,
     DGL_ERR_UNSUPPORTED,
     {"version 2", "reads version 1"},
     false},
    {"another order of bytes",
     ORDER,
     BYTES("\1\2\3\4"),
     0,
     true,
     DGL_ERR_UNSUPPORTED,
     {"order of bytes", "04030201"},
     false},
    {"one byte less", -1, "", 0, -1, false, DGL_ERR_FORMAT, {"cut off"}, false},
    {"one byte more",
     -1,
     BYTES("x"),
     0,
     false,
     DGL_ERR_FORMAT,
     {"as a session file it would have"},
     false},
    {"another size", SIZE, BYTES("\0"), 0, true, DGL_ERR_FORMAT, {"cut off or changed"}, false},
    {"another model",
     MODEL,
     BYTES("zz"),
     0,
     true,
     DGL_ERR_INVALID_ARG,
     {"is of the model", "(zz", "give the model"},
     false},
    {"another tokenizer",
     TOKENIZER,
     BYTES("zz"),
     0,
     true,
     DGL_ERR_INVALID_ARG,
     {"another tokenizer", "(zz"},
     false},
    {"other keys and values",
     KV_TYPE,
     BYTES("\1"),
     0,
     true,
     DGL_ERR_INVALID_ARG,
     {"keys and values in f32", "session in f16", "--kv-type f32"},
     false},
    {"a type that is none", KV_TYPE, BYTES("\2"), 0, true, DGL_ERR_FORMAT, {"is 2"}, false},
    {"another precision",
     PRECISION,
     BYTES("arithmetic in f16"),
     0,
     true,
     DGL_ERR_INVALID_ARG,
     {"computed with arithmetic in f16", "are arithmetic in f32"},
     false},
    {"more tokens than bytes",
     TOKENS,
     BYTES("\xff\xff\xff\xff"),
     0,
     true,
     DGL_ERR_FORMAT,
     {"4294967295 tokens"},
     false},
    {"fewer tokens than bytes", TOKENS, BYTES("\1"), 0, true, DGL_ERR_FORMAT, {"1 tokens"}, false},
    {"more layers",
     LAYERS,
     BYTES("\xff\xff\xff\xff"),
     0,
     true,
     DGL_ERR_FORMAT,
     {"4294967295 layers"},
     false},
    {"rotations of no model",
     ROPE_TOKENS,
     BYTES("\xff\xff\xff\x7f"),
     0,
     true,
     DGL_ERR_FORMAT,
     {"rotations for 2147483647"},
     false},
    {"more of the program's than bytes",
     DATA,
     BYTES("\xff\xff\xff\xff\xff\xff\xff\xff"),
     0,
     true,
     DGL_ERR_FORMAT,
     {"18446744073709551615 bytes of the program's"},
     false},
    {"no logits",
     LOGITS,
     BYTES("\0"),
     0,
     true,
     DGL_ERR_FORMAT,
     {"bytes; what its head lists"},
     false},
    {"an id beyond the vocabulary",
     IDS + 12,
     BYTES("\xff\xff\xff\x7f"),
     0,
     true,
     DGL_ERR_FORMAT,
     {"token 3 of the session file is 2147483647"},
     false},
    {"a negative id",
     IDS,
     BYTES("\xff\xff\xff\xff"),
     0,
     true,
     DGL_ERR_FORMAT,
     {"token 0 of the session file is -1"},
     false},
    {"a changed key",
     ROWS + 7,
     BYTES("\x55"),
     0,
     false,
     DGL_ERR_INTEGRITY,
     {"has the SHA-256", "damaged"},
     true},
    {"a changed logit",
     IDS + PROMPT * 4 + 8,
     BYTES("\x55"),
     0,
     false,
     DGL_ERR_INTEGRITY,
     {"has the SHA-256"},
     true},
};

static struct tiny_engine engine; /* with a session, and a file of it called "saved" */

/* The file "saved" with the row's damage. */
static char *write_damaged(const struct refused *row)
{
    char *saved = path_of("saved"), digest[65];
    struct dgl_str text = slurp(saved);
    struct dgl_buf out = {0};
    dgl_buf_append(&out, text.p, text.len);
    if (row->at >= 0)
        memcpy(out.p + row->at, row->bytes, row->num_bytes);
    else
        dgl_buf_append(&out, row->bytes, row->num_bytes);
    if (row->hashed) {
        assert_true(dgl_hash_bytes(DGL_HASH_SHA256, out.p, out.len - 64, digest));
        memcpy(out.p + out.len - 64, digest, 64);
    }
    if (row->len > 0)
        out.len = (size_t)row->len;
    else if (row->len < 0)
        out.len = out.len > (size_t)-row->len ? out.len - (size_t)-row->len : 0;
    test_write_file(dir, "damaged", out.p, out.len);
    free((char *)text.p);
    free(saved);
    dgl_buf_finish(&out);
    return path_of("damaged");
}

static void test_refuses(void **state)
{
    const struct refused *row = *state;
    char *path = write_damaged(row), *data = (char *)1;
    size_t len = 1;
    int32_t want[2], got[2];
    struct dgl_session *s = tiny_session(&engine, 0);
    tiny_greedy(s, prompt + 3, 40, want, 2);
    const int32_t held = dgl_session_len(s);
    test_log_clear(&engine.log);
    enum dgl_status status =
        dgl_session_load(s, dgl_session_load_params(.path = path), &data, &len);
    assert_refusal(&engine.log, status, row->want, row->parts);
    assert_null(data);
    assert_int_equal(len, 0);
    assert_int_equal(dgl_session_len(s), row->empties ? 0 : held);
    tiny_greedy(s, prompt + 3, 40, got, 2);
    assert_memory_equal(got, want, sizeof(want));
    dgl_session_destroy(&s);
    free(path);
}

static int open_engine(void **state)
{
    char *saved = path_of("saved");
    (void)state;
    tiny_engine_open(&engine, &(struct tiny_engine_params){.path = dir, .context = 128});
    tiny_sync(engine.session, prompt, PROMPT);
    assert_int_equal(dgl_session_save(engine.session, dgl_session_save_params(.path = saved)),
                     DGL_OK);
    free(saved);
    return 0;
}

static int close_engine(void **state)
{
    (void)state;
    tiny_engine_close(&engine);
    return 0;
}

/* Another model, type or context is reported as such, not as a damaged file. */
static void test_refuses_others(void **state)
{
    static const struct {
        bool other;
        enum dgl_kv_type kv_type;
        int32_t context;
        enum dgl_status want;
        const char *parts[2];
    } rows[] = {
        {true, DGL_KV_F16, 128, DGL_ERR_INVALID_ARG, {"is of the model"}},
        {false, DGL_KV_F32, 128, DGL_ERR_INVALID_ARG, {"in f16, the session in f32"}},
        {false, DGL_KV_F16, PROMPT - 1, DGL_ERR_CONTEXT_FULL, {"90 tokens, the context 89"}},
        {false, DGL_KV_F16, PROMPT, DGL_OK, {""}},
    };
    char *saved = path_of("saved");
    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct tiny_engine e;
        tiny_engine_open(&e, &(struct tiny_engine_params){.path = rows[i].other ? other : dir,
                                                          .kv_type = rows[i].kv_type,
                                                          .context = rows[i].context});
        test_log_clear(&e.log);
        enum dgl_status status =
            dgl_session_load(e.session, dgl_session_load_params(.path = saved), NULL, NULL);
        if (rows[i].want != DGL_OK)
            assert_refusal(&e.log, status, rows[i].want, rows[i].parts);
        else
            assert_int_equal(status, DGL_OK);
        tiny_engine_close(&e);
    }
    free(saved);
}

/* ---- files ----------------------------------------------------------------------------------- */

static enum dgl_status save_as(const char *path)
{
    test_log_clear(&engine.log);
    return dgl_session_save(engine.session, dgl_session_save_params(.path = path));
}

/* The new file is private, for any mode of an existing file, and through a link. */
static void test_private(void **state)
{
    char *path = path_of("mine"), *link_path = path_of("link"), *saved = path_of("saved");
    struct stat st;
    (void)state;
    test_write_file(dir, "mine", "x", 1);
    assert_int_equal(chmod(path, 0666), 0);
    assert_int_equal(symlink("mine", link_path), 0);
    assert_int_equal(save_as(link_path), DGL_OK);
    assert_int_equal(lstat(link_path, &st), 0);
    assert_true(S_ISLNK(st.st_mode));
    assert_int_equal(lstat(path, &st), 0);
    assert_int_equal(st.st_mode & 07777, 0600);
    assert_same_file(path, saved);
    assert_int_equal(
        dgl_session_load(engine.session, dgl_session_load_params(.path = link_path), NULL, NULL),
        DGL_OK);
    free(path);
    free(link_path);
    free(saved);
}

static void test_paths_that_fail(void **state)
{
    static const char *const none[] = {"no path"}, *const missing[] = {"/none/file", "No such"},
                             *const folder[] = {"folder", "directory"};
    char *absent = path_of("none/file"), *a_folder = path_of("folder");
    (void)state;
    assert_int_equal(mkdir(a_folder, 0700), 0);
    assert_refusal(&engine.log, save_as(NULL), DGL_ERR_INVALID_ARG, none);
    assert_refusal(&engine.log, save_as(absent), DGL_ERR_IO, missing);
    assert_refusal(&engine.log, save_as(a_folder), DGL_ERR_IO, folder);
    const char *const paths[] = {NULL, absent, a_folder};
    for (size_t i = 0; i < 3; i++) {
        const int32_t held = dgl_session_len(engine.session);
        test_log_clear(&engine.log);
        assert_int_equal(
            dgl_session_load(engine.session, dgl_session_load_params(.path = paths[i]), NULL, NULL),
            i ? DGL_ERR_IO : DGL_ERR_INVALID_ARG);
        assert_int_equal(engine.log.errors, 1);
        assert_int_equal(dgl_session_len(engine.session), held);
    }
    test_log_clear(&engine.log);
    assert_int_equal(
        dgl_session_save(engine.session,
                         dgl_session_save_params(.path = a_folder, .data = "",
                                                 .data_len = DGL_SESSION_DATA_MAX + 1u)),
        DGL_ERR_INVALID_ARG);
    assert_int_equal(engine.log.errors, 1);
    assert_no_temporaries();
    free(absent);
    free(a_folder);
}

/* Another user's file in another user's folder can be neither read nor replaced. */
static void test_no_rights(void **state)
{
    static const char *const read_parts[] = {"saved", "ermission"}, *const write_parts[] = {
                                                                        "mine", "ermission"};
    char *path = path_of("mine"), *saved = path_of("saved");
    const bool root = geteuid() == 0;
    (void)state;
    assert_int_equal(chmod(dir, 0555), 0);
    assert_int_equal(chmod(saved, root ? 0600 : 0), 0);
    unlink(path);
    if (root && seteuid(65534) != 0) {
        chmod(dir, 0700);
        SKIP("cannot act as another user");
    }
    enum dgl_status wrote = save_as(path);
    struct test_log write_log = engine.log;
    test_log_clear(&engine.log);
    enum dgl_status got =
        dgl_session_load(engine.session, dgl_session_load_params(.path = saved), NULL, NULL);
    if (root)
        assert_int_equal(seteuid(0), 0);
    assert_int_equal(chmod(dir, 0700), 0);
    assert_int_equal(chmod(saved, 0600), 0);
    assert_refusal(&write_log, wrote, DGL_ERR_IO, write_parts);
    assert_refusal(&engine.log, got, DGL_ERR_IO, read_parts);
    assert_false(dgl_path_present(path));
    free(path);
    free(saved);
}

/* A full disk, simulated by a limit on file sizes: an existing file stays. */
static void test_full_disk(void **state)
{
    static const char *const parts[] = {"mine"};
    char *path = path_of("mine"), *saved = path_of("saved");
    struct rlimit limit;
    (void)state;
    assert_int_equal(save_as(path), DGL_OK);
    tiny_sync(engine.session, prompt, PROMPT - 1);
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &limit), 0);
    struct rlimit small = {.rlim_cur = 8192, .rlim_max = limit.rlim_max};
    void (*before)(int) = signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
    enum dgl_status status = save_as(path);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &limit), 0);
    signal(SIGXFSZ, before);
    assert_refusal(&engine.log, status, DGL_ERR_IO, parts);
    assert_no_temporaries();
    assert_same_file(path, saved);
    assert_int_equal(dgl_session_len(engine.session), PROMPT - 1);
    free(path);
    free(saved);
}

/* A session whose keys, values or logits are not finite does not replace the file of a good one. */
static void test_not_finite(void **state)
{
    /* Infinities and a NaN: two numbers of 16 bits, or one of 32. */
    static const uint32_t pairs[] = {0x7c007c00, 0xfc00fc00, 0x7e007e00},
                          words[] = {0x7f800000, 0xff800000, 0x7fc00000};
    static const struct {
        const char *name;
        bool logits;
        enum kv_part part;
    } cases[] = {{"keys", false, KV_KEYS}, {"values", false, KV_VALUES}, {"logits", true, 0}};
    char *path = path_of("mine"), *good = path_of("good");
    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
        for (size_t k = 0; k < sizeof(pairs) / sizeof(pairs[0]); k++) {
            const char *const parts[] = {"mine is not saved", cases[i].name, "infinity or NaN"};
            const uint32_t word = cases[i].logits ? words[k] : pairs[k];
            tiny_sync(engine.session, prompt, PROMPT);
            assert_int_equal(save_as(path), DGL_OK);
            assert_int_equal(save_as(good), DGL_OK);
            const struct kv_cache *kv = &engine.model->shard->kv;
            struct pass_state *pass = &engine.session->state;
            const struct kv_store *store = &kv->store[0];
            const uint64_t place =
                store->layer[1].offset +
                engine.session->seq.pages.page[0][1] * store->group.page_bytes +
                (cases[i].part == KV_VALUES ? store->group.part_bytes[KV_KEYS] : 0);
            struct gl_device *gl = engine.model->shard->dev->gl;
            struct gl_saved gl_saved;
            assert_int_equal(device_enter(engine.model->shard->dev, &gl_saved), DGL_OK);
            assert_int_equal(cases[i].logits
                                 ? pass_state_write(pass, BUF_LOGITS, 0, 4, &word, 4)
                                 : gl_buffer_write(gl, store->layer[1].buffer, place, &word, 4),
                             DGL_OK);
            device_leave(engine.model->shard->dev, &gl_saved);
            assert_refusal(&engine.log, save_as(path), DGL_ERR_GPU, parts);
            assert_no_temporaries();
            assert_same_file(path, good);
            dgl_session_trim(engine.session, 0);
        }
    free(path);
    free(good);
}

/* Temporaries of a killed process are removed by the next save. */
static void test_sweeps(void **state)
{
    char *path = path_of("mine"), *left = path_of("mine.tmp-2147483646-1a");
    FILE *file = fopen(left, "we");
    (void)state;
    assert_non_null(file);
    fclose(file);
    tiny_sync(engine.session, prompt, 3);
    assert_int_equal(save_as(path), DGL_OK);
    if (dgl_path_present(left))
        fail_msg("%s is still there after a save", left);
    free(path);
    free(left);
}

/* The progress callback can end the call at any point. */
struct stop {
    uint64_t at, last, total;
};

static bool stop_at(void *priv, const char *what, uint64_t done, uint64_t total)
{
    struct stop *stop = priv;
    assert_string_equal(what, "bytes");
    assert_true(done >= stop->last && done <= total);
    stop->last = done;
    stop->total = total;
    return done < stop->at;
}

static void test_cancelled(void **state)
{
    char *path = path_of("mine"), *fresh = path_of("fresh"), *saved = path_of("saved");
    struct stop never = {.at = UINT64_MAX};
    (void)state;
    tiny_sync(engine.session, prompt, PROMPT);
    assert_int_equal(dgl_session_save(engine.session,
                                      dgl_session_save_params(.path = path, .progress_cb = stop_at,
                                                              .progress_priv = &never)),
                     DGL_OK);
    assert_int_equal(never.last, never.total);
    for (uint64_t at = 0; at < never.total - 100; at += never.total / 3) {
        struct stop stop = {.at = at};
        assert_int_equal(
            dgl_session_save(engine.session,
                             dgl_session_save_params(.path = fresh, .progress_cb = stop_at,
                                                     .progress_priv = &stop)),
            DGL_ERR_CANCELLED);
        assert_false(dgl_path_present(fresh));
        assert_int_equal(dgl_session_len(engine.session), PROMPT);
        stop = (struct stop){.at = at};
        struct dgl_session *s = tiny_session(&engine, 0);
        tiny_sync(s, prompt, 3);
        assert_int_equal(
            dgl_session_load(s,
                             dgl_session_load_params(.path = path, .progress_cb = stop_at,
                                                     .progress_priv = &stop),
                             NULL, NULL),
            DGL_ERR_CANCELLED);
        assert_int_equal(dgl_session_len(s), 0);
        assert_int_equal(dgl_session_load(s, dgl_session_load_params(.path = saved), NULL, NULL),
                         DGL_OK);
        assert_int_equal(dgl_session_len(s), PROMPT);
        dgl_session_destroy(&s);
    }
    assert_no_temporaries();
    free(path);
    free(fresh);
    free(saved);
}

int main(void)
{
    const struct CMUnitTest lives[] = {
        cmocka_unit_test(test_departs_earlier),
        cmocka_unit_test(test_shared_pages),
        cmocka_unit_test(test_logits_and_nothing),
    };
    const struct CMUnitTest files[] = {
        cmocka_unit_test(test_refuses_others),  cmocka_unit_test(test_private),
        cmocka_unit_test(test_paths_that_fail), cmocka_unit_test(test_no_rights),
        cmocka_unit_test(test_full_disk),       cmocka_unit_test(test_cancelled),
        cmocka_unit_test(test_not_finite),      cmocka_unit_test(test_sweeps),
    };
    dir = test_tmpdir();
    other = test_tmpdir();
    make_tiny_llama(dir, 1, NULL);
    make_tiny_llama(other, 2, NULL);
    tiny_ids(prompt, PROMPT, VOCAB, 5);
    int failed = test_run_table("going on", test_goes_on, continuations);
    failed += cmocka_run_group_tests(lives, NULL, NULL);
    open_engine(NULL);
    failed += test_run_table("refusals", test_refuses, refusals);
    failed += cmocka_run_group_tests(files, NULL, NULL);
    close_engine(NULL);
    test_tmpdir_remove(dir);
    test_tmpdir_remove(other);
    return failed;
}
