/* The safetensors reader: accepted files, and one case for each possible false claim of a header or
 * a file. */
#include "tests/support/test.h"

#include <stdlib.h>
#include <unistd.h>

#include "core/base/file.h"
#include "loader/hf/hf_model.h"
#include "loader/hf/safetensors.h"
#include "tests/support/tiny_model.h"

/* ---- headers, as text ---- */

struct bad_header {
    const char *name;
    const char *header;
    uint64_t data_bytes;
    const char *parts[3]; /* of the message */
};

#define T(name, dtype, shape, offsets)                                                             \
    "\"" name "\":{\"dtype\":\"" dtype "\",\"shape\":" shape ",\"data_offsets\":" offsets "}"
#define ONE(dtype, shape, offsets) "{" T("a", dtype, shape, offsets) "}"

static const struct bad_header bad_headers[] = {
    {"header is empty", "", 0, {"t.safetensors", "'{'"}},
    {"header begins with a blank", " {}", 0, {"t.safetensors", "'{'"}},
    {"header is an array", "[]", 0, {"t.safetensors", "'{'"}},
    {"header is cut off", "{\"a\":{\"dtype\":", 0, {"t.safetensors"}},
    {"text after the header", "{} x", 0, {"t.safetensors"}},
    {"name occurs twice",
     "{" T("a", "F32", "[1]", "[0,4]") "," T("a", "F32", "[1]", "[4,8]") "}",
     8,
     {"t.safetensors", "a"}},
    {"name is empty", "{" T("", "F32", "[1]", "[0,4]") "}", 4, {"empty"}},
    {"name holds U+0000", "{" T("a\\u0000b", "F32", "[1]", "[0,4]") "}", 4, {"U+0000"}},
    {"tensor is not an object", "{\"a\":3}", 0, {"a", "number"}},
    {"dtype is missing",
     "{\"a\":{\"shape\":[1],\"data_offsets\":[0,4]}}",
     4,
     {"a.dtype", "missing"}},
    {"dtype is a number",
     "{\"a\":{\"dtype\":7,\"shape\":[1],\"data_offsets\":[0,4]}}",
     4,
     {"a.dtype", "7"}},
    {"shape is missing",
     "{\"a\":{\"dtype\":\"F32\",\"data_offsets\":[0,4]}}",
     4,
     {"a.shape", "missing"}},
    {"five dimensions", ONE("F32", "[1,1,1,1,1]", "[0,4]"), 4, {"a.shape", "5", "4"}},
    {"dimension is 0", ONE("F32", "[0]", "[0,0]"), 0, {"a.shape[0] is 0, wanted"}},
    {"dimension is negative", ONE("F32", "[-1]", "[0,4]"), 4, {"a.shape[0] is -1, wanted"}},
    {"dimension is fractional", ONE("F32", "[1.5]", "[0,6]"), 6, {"a.shape"}},
    {"dimension is text", ONE("F32", "[\"1\"]", "[0,4]"), 4, {"a.shape[0] is \"1\", wanted"}},
    {"dimension is 2^63", ONE("F32", "[9223372036854775808]", "[0,4]"), 4, {"a.shape"}},
    {"product of dimensions overflows",
     ONE("F32", "[4294967296,4294967296]", "[0,0]"),
     0,
     {"a", "overflow"}},
    {"product times element size overflows to 0",
     ONE("F32", "[4503599627370496,1024]", "[0,0]"),
     0,
     {"a", "overflow"}},
    {"one offset", ONE("F32", "[1]", "[4]"), 4, {"a.data_offsets"}},
    {"three offsets", ONE("F32", "[1]", "[0,4,8]"), 4, {"a.data_offsets"}},
    {"offset is negative", ONE("F32", "[1]", "[-4,0]"), 4, {"a.data_offsets"}},
    {"end is negative", ONE("F32", "[1]", "[0,-16]"), 4, {"a.data_offsets"}},
    {"end before begin", ONE("F32", "[1]", "[8,4]"), 8, {"a.data_offsets: is [8, 4], wanted"}},
    {"offset is 2^63",
     ONE("F32", "[1]", "[9223372036854775808,9223372036854775812]"),
     4,
     {"a.data_offsets"}},
    {"size does not follow from shape",
     ONE("F32", "[1000]", "[0,16]"),
     16,
     {"a.data_offsets", "16", "4000"}},
    {"first tensor does not start at 0",
     ONE("F32", "[1]", "[4,8]"),
     8,
     {"a.data_offsets", "4", "hole"}},
    {"hole between tensors",
     "{" T("a", "F32", "[1]", "[0,4]") "," T("b", "F32", "[1]", "[8,12]") "}",
     12,
     {"b.data_offsets", "8", "hole"}},
    {"tensors overlap",
     "{" T("a", "F32", "[2]", "[0,8]") "," T("b", "F32", "[2]", "[4,12]") "}",
     12,
     {"b.data_offsets", "4", "overlap"}},
    {"two tensors in one place",
     "{" T("a", "F32", "[1]", "[0,4]") "," T("b", "F32", "[1]", "[0,4]") "}",
     4,
     {"overlap"}},
    {"tensor beyond the file", ONE("F32", "[4]", "[0,16]"), 12, {"16", "12", "truncated"}},
    {"bytes left over", ONE("F32", "[1]", "[0,4]"), 9, {"4", "9", "left over"}},
    {"metadata is not an object", "{\"__metadata__\":1}", 0, {"__metadata__"}},
    {"metadata holds a number", "{\"__metadata__\":{\"x\":1}}", 0, {"__metadata__.x"}},
};

/* Well formed, but of types that safetensors or this library does not have. */
static const struct bad_header other_types[] = {
    {"dtype is unknown", ONE("F8_E4M3", "[4]", "[0,4]"), 4, {"a.dtype", "F8_E4M3", "BF16"}},
    {"dtype of another format", ONE("Q8_0", "[32]", "[0,34]"), 34, {"a.dtype", "Q8_0"}},
    {"dtype in lower case", ONE("f32", "[1]", "[0,4]"), 4, {"a.dtype", "f32"}},
};

static void check_refusal(const struct bad_header *row, enum dgl_status want)
{
    struct test_log log;
    struct safetensors_header header;
    test_log_init(&log, DGL_LOG_ERROR);
    enum dgl_status status = safetensors_parse(&log.log, "t.safetensors", row->header,
                                               strlen(row->header), row->data_bytes, &header);
    assert_refusal(&log, status, want, row->parts);
    assert_null(header.entries);
}

static void header_is_refused(void **state)
{
    check_refusal(*state, DGL_ERR_FORMAT);
}

static void type_is_refused(void **state)
{
    check_refusal(*state, DGL_ERR_UNSUPPORTED);
}

static void header_good(void **state)
{
    (void)state;
    static const char text[] =
        "{" T("b", "BF16", "[2,3]", "[4,16]") ",\"__metadata__\":{\"k\":\"v\"}," T(
            "a", "F32", "[]", "[0,4]") "," T("c", "I64", "[1,1,1,2]", "[16,32]") "}   ";
    struct safetensors_header h;
    assert_int_equal(safetensors_parse(NULL, "x", text, strlen(text), 32, &h), DGL_OK);
    assert_int_equal(h.count, 3);
    assert_string_equal(h.entries[0].info.name, "a"); /* by offset, not by position in the text */
    assert_int_equal(h.entries[0].info.rank, 0);
    assert_int_equal(h.entries[0].info.bytes, 4);
    assert_string_equal(h.entries[1].info.name, "b");
    assert_int_equal(h.entries[1].begin, 4);
    assert_int_equal(h.entries[1].info.shape[1], 3);
    assert_int_equal(h.entries[2].info.dtype, DGL_I64);
    safetensors_header_finish(&h);
}

static void header_without_tensors(void **state)
{
    (void)state;
    struct safetensors_header h;
    assert_int_equal(safetensors_parse(NULL, "x", "{}", 2, 0, &h), DGL_OK);
    assert_int_equal(h.count, 0);
    safetensors_header_finish(&h);
}

/* Any prefix and any single changed byte of a valid header must cause success or one error (run
 * under the sanitizers). */
static void header_mutations_are_safe(void **state)
{
    (void)state;
    static const char text[] =
        "{" T("a", "F32", "[2]", "[0,8]") "," T("b", "F16", "[1,4]", "[8,16]") "}";
    char copy[sizeof(text)];
    struct safetensors_header h;
    for (size_t len = 0; len < strlen(text); len++)
        assert_int_not_equal(safetensors_parse(NULL, "x", text, len, 16, &h), DGL_OK);
    static const char bytes[] = {0, '"', '{', '}', '[', ']', ',', '-', '9', (char)0xff};
    for (size_t i = 0; i < strlen(text); i++) {
        for (size_t b = 0; b < sizeof(bytes); b++) {
            memcpy(copy, text, sizeof(text));
            copy[i] = bytes[b];
            if (safetensors_parse(NULL, "x", copy, strlen(text), 16, &h) == DGL_OK)
                safetensors_header_finish(&h);
        }
    }
}

/* ---- whole files ---- */

struct bad_file {
    const char *name;
    const char *bytes;
    size_t len;
    const char *parts[3];
};

#define B(text) text, sizeof(text) - 1

static const struct bad_file bad_files[] = {
    {"file is empty", B(""), {"model.safetensors", "0 bytes"}},
    {"file of 7 bytes", B("\2\0\0\0\0\0\0"), {"model.safetensors", "7 bytes"}},
    {"header longer than the file",
     B("\100\0\0\0\0\0\0\0{}"),
     {"model.safetensors", "64", "10 bytes"}},
    {"header length above the limit", B("\0\0\0\20\0\0\0\0{}"), {"268435456", "104857600"}},
    {"header length 2^64-1", B("\377\377\377\377\377\377\377\377{}"), {"18446744073709551615"}},
    {"header length 2^63", B("\0\0\0\0\0\0\0\200{}"), {"9223372036854775808"}},
    {"Git LFS pointer",
     B("version https://git-lfs.github.com/spec/v1\n"),
     {"model.safetensors", "git lfs pull"}},
};

static void file_is_refused(void **state)
{
    const struct bad_file *row = *state;
    struct test_log log;
    struct tensor_source *src = NULL;
    char *dir = test_tmpdir();
    test_log_init(&log, DGL_LOG_ERROR);
    test_write_file(dir, "model.safetensors", row->bytes, row->len);
    assert_refusal(&log, hf_tensors_open(&log.log, &blob_files, dir, &src), DGL_ERR_FORMAT,
                   row->parts);
    assert_null(src);
    test_tmpdir_remove(dir);
}

/* ---- folders ---- */

static void assert_same_weights(const char *dir, const struct tiny_llama *m)
{
    struct tensor_source *src = NULL;
    struct tiny_tensor tensors[TINY_MAX_TENSORS];
    size_t count = tiny_llama_tensors(m, tensors);
    assert_int_equal(hf_tensors_open(NULL, &blob_files, dir, &src), DGL_OK);
    assert_int_equal(tensor_source_count(src), count);
    for (size_t i = 0; i < count; i++) {
        size_t len;
        unsigned char *want = tiny_llama_bytes(m, i, &len);
        unsigned char *have = malloc(len);
        long at = tensor_source_find(src, tensors[i].name);
        assert_true(at >= 0);
        assert_int_equal(tensor_source_at(src, (size_t)at)->bytes, len);
        assert_int_equal(tensor_source_read(NULL, src, (size_t)at, 0, have, len), DGL_OK);
        assert_memory_equal(have, want, len);
        assert_int_equal(tensor_source_read(NULL, src, (size_t)at, len - 3, have, 3), DGL_OK);
        assert_memory_equal(have, want + len - 3, 3);
        free(want);
        free(have);
    }
    tensor_source_destroy(&src);
    assert_null(src);
}

static void folder_single(void **state)
{
    (void)state;
    char *dir = test_tmpdir();
    struct tiny_llama m = tiny_llama_default();
    tiny_llama_write(dir, &m);
    assert_same_weights(dir, &m);
    test_tmpdir_remove(dir);
}

static void folder_indexed(void **state)
{
    (void)state;
    char *dir = test_tmpdir();
    struct tiny_llama m = tiny_llama_default();
    m.files = 3;
    m.dtype = DGL_F32;
    tiny_llama_write(dir, &m);
    assert_same_weights(dir, &m);
    test_tmpdir_remove(dir);
}

/* The index decides; a model.safetensors beside it is somebody else's. */
static void folder_single_wins_over_index(void **state)
{
    (void)state;
    char *dir = test_tmpdir();
    struct tiny_llama m = tiny_llama_default();
    tiny_llama_write(dir, &m);
    test_write_file(dir, "model.safetensors.index.json", "junk", 4);
    test_write_file(dir, "adapter.safetensors", "junk", 4);
    assert_same_weights(dir, &m);
    test_tmpdir_remove(dir);
}

/* Hub caches consist of links. */
static void folder_of_links(void **state)
{
    (void)state;
    char *blobs = test_tmpdir(), *dir = test_tmpdir();
    struct tiny_llama m = tiny_llama_default();
    tiny_llama_write(blobs, &m);
    char *from = dgl_path_join(blobs, "model.safetensors");
    char *to = dgl_path_join(dir, "model.safetensors");
    assert_int_equal(symlink(from, to), 0);
    assert_same_weights(dir, &m);
    free(from);
    free(to);
    test_tmpdir_remove(blobs);
    test_tmpdir_remove(dir);
}

static void read_beyond_a_tensor_is_refused(void **state)
{
    (void)state;
    char *dir = test_tmpdir(), byte;
    struct tiny_llama m = tiny_llama_default();
    struct tensor_source *src = NULL;
    struct test_log log;
    test_log_init(&log, DGL_LOG_ERROR);
    tiny_llama_write(dir, &m);
    assert_int_equal(hf_tensors_open(NULL, &blob_files, dir, &src), DGL_OK);
    size_t bytes = (size_t)tensor_source_at(src, 0)->bytes;
    assert_int_equal(tensor_source_read(&log.log, src, 0, bytes, &byte, 1), DGL_ERR_INVALID_ARG);
    assert_contains(log.text, "embed_tokens");
    assert_int_equal(tensor_source_read(NULL, src, 0, UINT64_MAX, &byte, 1), DGL_ERR_INVALID_ARG);
    tensor_source_destroy(&src);
    test_tmpdir_remove(dir);
}

static void file_that_shrinks_later_is_an_error(void **state)
{
    (void)state;
    char *dir = test_tmpdir(), bytes[64];
    struct tiny_llama m = tiny_llama_default();
    struct tensor_source *src = NULL;
    struct test_log log;
    test_log_init(&log, DGL_LOG_ERROR);
    tiny_llama_write(dir, &m);
    assert_int_equal(hf_tensors_open(NULL, &blob_files, dir, &src), DGL_OK);
    char *path = dgl_path_join(dir, "model.safetensors");
    assert_int_equal(truncate(path, 100), 0);
    long last = tensor_source_find(src, "model.norm.weight");
    assert_int_equal(tensor_source_read(&log.log, src, (size_t)last, 0, bytes, 64), DGL_ERR_IO);
    assert_contains(log.text, "model.safetensors");
    tensor_source_destroy(&src);
    free(path);
    test_tmpdir_remove(dir);
}

#define FILE1      "model-00001-of-00002.safetensors"
#define FILE2      "model-00002-of-00002.safetensors"
#define NORM(file) "\"model.norm.weight\": \"" file "\""
#define INDEX      "model.safetensors.index.json"

static void index_may_name_files_of_inner_folders(void **state)
{
    (void)state;
    char *dir = test_tmpdir(), *sub = dgl_path_join(dir, "inner"), *text = NULL;
    char *from = dgl_path_join(dir, FILE2), *to = dgl_path_join(sub, FILE2);
    struct tiny_llama m = tiny_llama_default();
    struct tensor_source *src = NULL;
    struct test_log log;
    size_t len;
    test_log_init(&log, DGL_LOG_ERROR);
    m.files = 2;
    tiny_llama_write(dir, &m);
    assert_int_equal(dgl_dir_make(NULL, sub), DGL_OK);
    assert_int_equal(rename(from, to), 0);
    while (text = tiny_file_read(dir, INDEX, &len), strstr(text, "\"" FILE2)) {
        tiny_file_replace(dir, INDEX, "\"" FILE2, "\"inner/" FILE2);
        free(text);
    }
    if (hf_tensors_open(&log.log, &blob_files, dir, &src) != DGL_OK)
        fail_msg("%s", log.text);
    assert_true(tensor_source_find(src, "model.norm.weight") >= 0);
    tensor_source_destroy(&src);
    free(text);
    free(sub);
    free(from);
    free(to);
    test_tmpdir_remove(dir);
}

/* A folder with two files whose index is changed in one place. */
struct bad_index {
    const char *name;
    const char *find, *replace;
    enum dgl_status status;
    const char *parts[3];
};

static const struct bad_index bad_indexes[] = {
    {"index is not JSON", "{\"metadata\"", "[\"metadata\"", DGL_ERR_FORMAT, {"index.json"}},
    {"weight_map is missing",
     "weight_map",
     "weightmap",
     DGL_ERR_FORMAT,
     {"index.json", "weight_map"}},
    {"weight_map holds a number",
     NORM(FILE2),
     "\"model.norm.weight\": 2",
     DGL_ERR_FORMAT,
     {"model.norm.weight", "number"}},
    {"file name climbs",
     NORM(FILE2),
     NORM("../" FILE2),
     DGL_ERR_FORMAT,
     {"index.json", "../" FILE2}},
    {"file name is absolute",
     NORM(FILE2),
     NORM("/etc/passwd"),
     DGL_ERR_FORMAT,
     {"index.json", "/etc/passwd"}},
    {"file name is ..", NORM(FILE2), NORM(".."), DGL_ERR_FORMAT, {"index.json", "\"..\""}},
    {"named file is missing",
     NORM(FILE2),
     NORM("model-00003-of-00002.safetensors"),
     DGL_ERR_IO,
     {"model-00003-of-00002.safetensors"}},
    {"tensor listed in the wrong file",
     NORM(FILE2),
     NORM(FILE1),
     DGL_ERR_FORMAT,
     {"model.norm.weight", FILE1, FILE2}},
    {"tensor of a file not listed",
     ",\n  " NORM(FILE2),
     "",
     DGL_ERR_FORMAT,
     {"weight_map", "model.norm.weight", FILE2}},
    {"listed tensor in no file",
     NORM(FILE2),
     NORM(FILE2) ", \"extra\": \"" FILE1 "\"",
     DGL_ERR_FORMAT,
     {"extra", FILE1, "does not hold"}},
    {"tensor listed twice",
     NORM(FILE2),
     NORM(FILE2) ", " NORM(FILE2),
     DGL_ERR_FORMAT,
     {"index.json", "model.norm.weight"}},
};

static void index_is_refused(void **state)
{
    const struct bad_index *row = *state;
    char *dir = test_tmpdir();
    struct tiny_llama m = tiny_llama_default();
    struct tensor_source *src = NULL;
    struct test_log log;
    test_log_init(&log, DGL_LOG_ERROR);
    m.files = 2;
    tiny_llama_write(dir, &m);
    /* 20 tensors: an odd number would put the last one into the first file. */
    tiny_file_replace(dir, "model.safetensors.index.json", row->find, row->replace);
    assert_refusal(&log, hf_tensors_open(&log.log, &blob_files, dir, &src), row->status,
                   row->parts);
    assert_null(src);
    test_tmpdir_remove(dir);
}

/* Folders with weights in another form: the error names a remedy. */
struct other_folder {
    const char *name;
    const char *file;
    enum dgl_status status;
    const char *parts[3];
};

static const struct other_folder other_folders[] = {
    {"no weights", "README.md", DGL_ERR_IO, {"no weights", "model.safetensors"}},
    {"only pytorch_model.bin",
     "pytorch_model.bin",
     DGL_ERR_UNSUPPORTED,
     {"pytorch_model.bin", "safe_serialization"}},
    {"only a .pth", "consolidated.00.pth", DGL_ERR_UNSUPPORTED, {".pth", "safe_serialization"}},
    {"only another safetensors",
     "consolidated.safetensors",
     DGL_ERR_UNSUPPORTED,
     {"consolidated.safetensors", "only model.safetensors"}},
    {"only GGUF", "model-q4.gguf", DGL_ERR_UNSUPPORTED, {"model-q4.gguf"}},
};

static void other_weights_are_refused(void **state)
{
    const struct other_folder *row = *state;
    char *dir = test_tmpdir();
    struct tensor_source *src = NULL;
    struct test_log log;
    test_log_init(&log, DGL_LOG_ERROR);
    test_write_file(dir, row->file, "x", 1);
    assert_refusal(&log, hf_tensors_open(&log.log, &blob_files, dir, &src), row->status,
                   row->parts);
    test_tmpdir_remove(dir);
}

/* ---- traits and names ---- */

static void dtype_spellings(void **state)
{
    (void)state;
    enum dgl_dtype t;
    assert_true(dgl_dtype_parse("Q4_K_M", 6, &t) && t == DGL_Q4_K);
    assert_true(dgl_dtype_parse("q4_k", 4, &t) && t == DGL_Q4_K);
    assert_true(dgl_dtype_parse("bf16", 4, &t) && t == DGL_BF16);
    assert_true(dgl_dtype_parse("MXFP4", 5, &t) && t == DGL_MXFP4);
    assert_true(dgl_dtype_parse("iq4_nl", 6, &t) && t == DGL_IQ4_NL);
    assert_true(dgl_dtype_parse("I64xx", 3, &t) && t == DGL_I64);
    assert_false(dgl_dtype_parse("F8", 2, &t));
    assert_false(dgl_dtype_parse("", 0, &t));
}

static void dtype_sizes(void **state)
{
    (void)state;
    uint64_t bytes;
    assert_true(dgl_dtype_row_bytes(DGL_Q4_K, 1152, &bytes));
    assert_int_equal(bytes, 5 * 144); /* 4.5 blocks are stored as 5 */
    assert_true(dgl_dtype_tensor_bytes(DGL_Q4_K, 2, (uint64_t[]){1152, 6912}, &bytes));
    assert_int_equal(bytes, 4478976);
    assert_true(dgl_dtype_tensor_bytes(DGL_Q8_0, 2, (uint64_t[]){3, 33}, &bytes));
    assert_int_equal(bytes, 3 * 2 * 34);
    assert_true(dgl_dtype_row_bytes(DGL_Q6_K, 1152, &bytes));
    assert_int_equal(bytes, 5 * 210);
    assert_true(dgl_dtype_row_bytes(DGL_MXFP4, 2880, &bytes));
    assert_int_equal(bytes, 90 * 17);
    assert_true(dgl_dtype_tensor_bytes(DGL_BF16, 3, (uint64_t[]){2, 3, 5}, &bytes));
    assert_int_equal(bytes, 60);
    assert_false(dgl_dtype_tensor_bytes(DGL_F32, 2, (uint64_t[]){UINT64_MAX, 2}, &bytes));
    assert_false(dgl_dtype_row_bytes(DGL_I64, UINT64_C(1) << 61, &bytes));
}

struct role_case {
    const char *name, *role;
};

static const struct role_case role_cases[] = {
    {"model.embed_tokens.weight", "embedding"},
    {"lm_head.weight", "lm_head"},
    {"model.norm.weight", "norm"},
    {"model.layers.3.input_layernorm.weight", "norm"},
    {"model.layers.3.self_attn.q_norm.weight", "norm"},
    {"model.layers.3.self_attn.q_proj.weight", "matmul"},
    {"model.layers.3.self_attn.q_proj.bias", "other"},
    {"model.layers.3.mlp.gate_proj.weight", "matmul"},
    {"model.layers.3.block_sparse_moe.gate.weight", "router"},
    {"model.layers.3.block_sparse_moe.experts.7.w1.weight", "expert"},
    {"blk.0.attn_output.weight", "matmul"},
    {"something.else", "other"},
};

static void role_from_name(void **state)
{
    const struct role_case *row = *state;
    assert_string_equal(tensor_role_from_name(row->name), row->role);
}

static void story_llama_opens(void **state)
{
    (void)state;
    const char *dir = test_unpacked("models/story-llama.tar.xz", "story-llama");
    if (!dir)
        SKIP("story-llama needs the shared test data");
    struct tensor_source *src = NULL;
    assert_int_equal(hf_tensors_open(NULL, &blob_files, dir, &src), DGL_OK);
    assert_int_equal(tensor_source_count(src), 74);
    long embed = tensor_source_find(src, "model.embed_tokens.weight");
    assert_int_equal(tensor_source_at(src, (size_t)embed)->shape[0], 4096);
    assert_int_equal(tensor_source_find(src, "model.embed_tokens.weigh"), -1);
    tensor_source_destroy(&src);
}

int main(void)
{
    const struct CMUnitTest cases[] = {
        cmocka_unit_test(header_good),
        cmocka_unit_test(header_without_tensors),
        cmocka_unit_test(header_mutations_are_safe),
        cmocka_unit_test(folder_single),
        cmocka_unit_test(folder_indexed),
        cmocka_unit_test(folder_single_wins_over_index),
        cmocka_unit_test(folder_of_links),
        cmocka_unit_test(read_beyond_a_tensor_is_refused),
        cmocka_unit_test(file_that_shrinks_later_is_an_error),
        cmocka_unit_test(index_may_name_files_of_inner_folders),
        cmocka_unit_test(dtype_spellings),
        cmocka_unit_test(dtype_sizes),
        cmocka_unit_test(story_llama_opens),
    };
    int failures = cmocka_run_group_tests(cases, NULL, NULL);
    failures += test_run_table("headers", header_is_refused, bad_headers);
    failures += test_run_table("types", type_is_refused, other_types);
    failures += test_run_table("files", file_is_refused, bad_files);
    failures += test_run_table("indexes", index_is_refused, bad_indexes);
    failures += test_run_table("other weights", other_weights_are_refused, other_folders);
    failures += test_run_table("roles", role_from_name, role_cases);
    return failures;
}
