/* Faults published as CVEs of other programs that do not only concern the GGUF container (for those
 * see test_gguf_file.c and test_gguf_tokenizer.c): one case per class. Faults of servers that this
 * program does not have are omitted (CVE-2024-28224, the server endpoint of CVE-2026-21869). */
#include "tests/support/gguf_build.h"

#include <stdlib.h>

#include "core/base/file.h"
#include "loader/model/model_file.h"
#include "tests/support/jinja_render.h"
#include "tests/support/tiny_model.h"

/* ---- templates ---- */

struct escape {
    const char *name, *text;
};

/* Ways from a template to the host that Jinja2 without its sandbox has. */
static const struct escape escapes[] = {
    {"CVE-2024-34359: classes of a text", "{{ ''.__class__.__mro__[1].__subclasses__() }}"},
    {"CVE-2024-34359: globals of a helper",
     "{{ cycler.__init__.__globals__.os.popen('id').read() }}"},
    {"CVE-2024-34359: globals of a function", "{{ range.__globals__['__builtins__'] }}"},
    {"CVE-2024-34359: globals of a macro",
     "{% macro m() %}{% endmacro %}{{ m.__init__.__globals__ }}{{ m.__func__.__code__ }}"},
    {"CVE-2024-34359: by a filter", "{{ ''|attr('__class__')|attr('__base__') }}"},
    {"CVE-2024-34359: by a format", "{{ '{0.__class__.__mro__}'.format('') }}"},
    {"CVE-2024-34359: by a map", "{{ ['']|map(attribute='__class__')|list }}"},
    {"CVE-2024-34359: another file", "{% include '/etc/passwd' %}"},
    {"CVE-2024-34359: a module", "{% import 'os' as os %}{{ os.system('id') }}"},
};

/* The result is an error, or contains no class, module or function of the host. */
static void template_reaches_no_host(void **state)
{
    const struct escape *row = *state;
    static const char *const signs[] = {
        "class", "object", "uid=", "root:", "module", "builtin", "function", "0x"};
    struct jinja_rendered got;
    jinja_render_json(row->text, NULL, NULL, &got);
    for (size_t i = 0; i < sizeof(signs) / sizeof(signs[0]) && got.status == DGL_OK; i++) {
        if (got.text.p && strstr(got.text.p, signs[i]))
            fail_msg("%s: %s", signs[i], got.text.p);
    }
    jinja_rendered_finish(&got);
}

/* ---- packs ---- */

struct pack_row {
    const char *name, *find, *replace, *part;
};

#define ZEROS63 "000000000000000000000000000000000000000000000000000000000000000"
#define ZEROS   "0" ZEROS63

static const struct pack_row pack_rows[] = {
    {"CVE-2024-37032: a digest that is a path", "\"hash\": \"",
     "\"hash\": \"../../../../../../../etc/passwd\", \"was\": \"", "64 lowercase hex digits"},
    {"CVE-2024-37032: a path as long as a digest", "\"hash\": \"",
     "\"hash\": \"../../../../../../../../../../../../../../../../../../../etc/passwd\", \"was\": "
     "\"",
     "64 lowercase hex digits"},
    {"CVE-2026-7020: a digest with its algorithm before it", "\"hash\": \"",
     "\"hash\": \"sha256-" ZEROS "\", \"was\": \"", "64 lowercase hex digits"},
    {"CVE-2026-7020: a digest in capitals", "\"hash\": \"",
     "\"hash\": \"F" ZEROS63 "\", \"was\": \"", "64 lowercase hex digits"},
    {"CVE-2026-7020: a digest that ends early", "\"hash\": \"",
     "\"hash\": \"" ZEROS "\\u0000/../x\", \"was\": \"", "64 lowercase hex digits"},
    {"CVE-2024-37032: a shard that is a path", "\"shard_00000.bin\"", "\"../shard_00000.bin\"",
     "../shard_00000.bin"},
    {"CVE-2026-21869: a negative offset", "\"offset\": 0", "\"offset\": -4096", "-4096"},
    {"CVE-2026-21869: a negative size", "\"size\": ", "\"size\": -1, \"was\": ", "-1"},
    {"CVE-2026-21869: a number beyond 64 bits", "\"offset\": 0", "\"offset\": 18446744073709551616",
     "18446744073709551616"},
    {"CVE-2026-21869: a negative number of layers", "\"num_hidden_layers\": 2",
     "\"num_hidden_layers\": -2", "-2"},
};

static void pack_is_refused(void **state)
{
    const struct pack_row *row = *state;
    struct tiny_pack pack = tiny_pack_default();
    struct test_log log;
    struct dgl_model_file *file = NULL;
    test_log_init(&log, DGL_LOG_ERROR);
    char *dir = test_tmpdir();
    tiny_pack_write(dir, &pack);
    tiny_file_replace(dir, "manifest.json", row->find, row->replace);
    assert_int_equal(model_file_open(&log.log, &(struct model_open_params){.path = dir}, &file),
                     DGL_ERR_FORMAT);
    assert_int_equal(log.errors, 1);
    assert_contains(log.text, row->part);
    test_tmpdir_remove(dir);
}

/* ---- single cases ---- */

/* A length that becomes another one in 32 bits. */
static void cve_2025_49847_token_longer_than_an_int(void **state)
{
    (void)state;
    static const uint64_t lengths[] = {0x80000001u, 0xffffffffu, 0x100000001u, UINT64_MAX};
    for (size_t i = 0; i < sizeof(lengths) / sizeof(lengths[0]); i++) {
        struct gguf_build b = {0};
        struct dgl_buf bytes;
        struct test_log log;
        struct gguf_file file;
        char length[32];
        test_log_init(&log, DGL_LOG_ERROR);
        gb_raw_str(&b.keys, "tokenizer.ggml.tokens");
        gb_raw_u32(&b.keys, GGUF_ARRAY);
        gb_raw_u32(&b.keys, GGUF_STRING);
        gb_raw_u64(&b.keys, 1);
        gb_raw_u64(&b.keys, lengths[i]);
        b.num_keys = 1;
        gb_finish(&b, &bytes);
        struct gguf_input in = {
            .name = "t.gguf", .bytes = (const uint8_t *)bytes.p, .size = bytes.len};
        assert_int_equal(gguf_file_parse(&log.log, &in, &file), DGL_ERR_FORMAT);
        snprintf(length, sizeof(length), "has %llu bytes", (unsigned long long)lengths[i]);
        assert_contains(log.text, "tokenizer.ggml.tokens");
        assert_contains(log.text, length);
        dgl_buf_finish(&bytes);
    }
}

/* A peer may request bytes outside of the named tensor: no byte is read or written. */
static void cve_2024_42478_reads_stay_in_their_tensor(void **state)
{
    (void)state;
    static const struct {
        uint64_t offset, size;
    } asks[] = {{UINT64_MAX - 3, 8},   {UINT64_MAX, 1},   {1ull << 63, 8},
                {320 * 64 * 2 - 4, 8}, {320 * 64 * 2, 1}, {0, SIZE_MAX}};
    struct dgl_model_file *file = NULL;
    char *dir = test_tmpdir();
    make_tiny_llama(dir, 7, NULL);
    assert_int_equal(model_file_open(NULL, &(struct model_open_params){.path = dir}, &file),
                     DGL_OK);
    long index = tensor_source_find(file->tensors, "model.embed_tokens.weight");
    for (size_t i = 0; i < sizeof(asks) / sizeof(asks[0]); i++) {
        unsigned char bytes[8] = {1, 2, 3, 4, 5, 6, 7, 8}, before[8];
        struct test_log log;
        test_log_init(&log, DGL_LOG_ERROR);
        memcpy(before, bytes, sizeof(before));
        assert_int_equal(tensor_source_read(&log.log, file->tensors, (size_t)index, asks[i].offset,
                                            bytes, (size_t)asks[i].size),
                         DGL_ERR_INVALID_ARG);
        assert_memory_equal(bytes, before, sizeof(before));
        assert_contains(log.text, "model.embed_tokens.weight has 40960 bytes");
    }
    model_file_close(&file);
    test_tmpdir_remove(dir);
}

int main(void)
{
    const struct CMUnitTest cases[] = {
        cmocka_unit_test(cve_2025_49847_token_longer_than_an_int),
        cmocka_unit_test(cve_2024_42478_reads_stay_in_their_tensor),
    };
    int failures = test_run_table("templates", template_reaches_no_host, escapes);
    failures += test_run_table("packs", pack_is_refused, pack_rows);
    return failures + cmocka_run_group_tests(cases, NULL, NULL);
}
