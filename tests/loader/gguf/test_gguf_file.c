/* The GGUF container: accepted files, and one case for each possible false claim of a header. Each
 * class of faults published as a CVE of another reader has a case. */
#include "tests/support/test.h"

#include <math.h>
#include <stdlib.h>

#include "loader/gguf/gguf_file.h"
#include "loader/gguf/gguf_sampling.h"
#include "tests/support/gguf_build.h"

/* ---- small files to start from ---- */

static const uint64_t dims_8x2[] = {8, 2};

static void add_plain(struct gguf_build *b)
{
    gb_str(b, "general.architecture", "llama");
    gb_u32(b, "llama.block_count", 1);
    gb_matrix(b, "a.weight", 2, 8, 0, 1);
    gb_matrix(b, "b.weight", 0, 4, 0, 1);
}

/* The preamble with any numbers, followed by `room` zeros. */
static void preamble(struct dgl_buf *out, uint64_t tensors, uint64_t keys, size_t room)
{
    *out = (struct dgl_buf){0};
    dgl_buf_puts(out, GGUF_MAGIC);
    gb_raw_u32(out, 3);
    gb_raw_u64(out, tensors);
    gb_raw_u64(out, keys);
    for (size_t i = 0; i < room; i++)
        dgl_buf_putc(out, 0);
}

static void set_byte(struct dgl_buf *out, size_t at, int value)
{
    assert_true(at < out->len);
    out->p[at] = (char)value;
}

/* ---- ways to be wrong ---- */

static void make_empty(struct dgl_buf *out)
{
    *out = (struct dgl_buf){0};
    dgl_buf_puts(out, "");
}

static void make_plain(struct dgl_buf *out)
{
    struct gguf_build b = {0};
    add_plain(&b);
    gb_finish(&b, out);
}

static void make_wrong_magic(struct dgl_buf *out)
{
    make_plain(out);
    set_byte(out, 3, 'L');
}

static void make_lfs_pointer(struct dgl_buf *out)
{
    *out = (struct dgl_buf){0};
    dgl_buf_puts(out, "version https://git-lfs.github.com/spec/v1\noid sha256:0\n");
}

static void make_version_1(struct dgl_buf *out)
{
    struct gguf_build b = {.version = 1};
    add_plain(&b);
    gb_finish(&b, out);
}

static void make_version_4(struct dgl_buf *out)
{
    struct gguf_build b = {.version = 4};
    add_plain(&b);
    gb_finish(&b, out);
}

static void make_big_endian(struct dgl_buf *out)
{
    struct gguf_build b = {.version = 3u << 24};
    add_plain(&b);
    gb_finish(&b, out);
}

static void make_many_keys(struct dgl_buf *out)
{
    preamble(out, 0, GGUF_MAX_KEYS + 1, 64);
}

/* CVE-2024-21802, -21825: number of keys not checked before allocation. */
static void make_keys_beyond_file(struct dgl_buf *out)
{
    preamble(out, 0, 90000, 64);
}

static void make_keys_overflow(struct dgl_buf *out)
{
    preamble(out, 0, UINT64_MAX, 64);
}

/* CVE-2024-23605: number of tensors not checked before allocation. */
static void make_tensors_beyond_file(struct dgl_buf *out)
{
    preamble(out, 90000, 0, 64);
}

static void make_tensors_overflow(struct dgl_buf *out)
{
    preamble(out, UINT64_C(1) << 63, 0, 64);
}

/* CVE-2024-21836: length of a string not checked. */
static void make_key_length(struct dgl_buf *out)
{
    preamble(out, 0, 1, 0);
    gb_raw_u64(out, 60000);
    dgl_buf_puts(out, "general.architecture");
}

static void make_key_length_overflow(struct dgl_buf *out)
{
    preamble(out, 0, 1, 0);
    gb_raw_u64(out, UINT64_MAX); /* length + 1 is 0 */
    dgl_buf_puts(out, "general.architecture");
}

static void make_string_beyond_file(struct dgl_buf *out)
{
    preamble(out, 0, 1, 0);
    gb_raw_str(out, "general.name");
    gb_raw_u32(out, GGUF_STRING);
    gb_raw_u64(out, 1000000);
    dgl_buf_puts(out, "short");
}

/* CVE-2024-23496: number of elements of an array times their size overflows. */
static void make_array_overflow(struct dgl_buf *out)
{
    preamble(out, 0, 1, 0);
    gb_raw_str(out, "tokenizer.ggml.scores");
    gb_raw_u32(out, GGUF_ARRAY);
    gb_raw_u32(out, GGUF_F32);
    gb_raw_u64(out, (UINT64_C(1) << 62) + 1); /* times 4 is 4 */
    gb_raw_u64(out, 0);
}

static void make_array_of_strings_overflow(struct dgl_buf *out)
{
    preamble(out, 0, 1, 0);
    gb_raw_str(out, "tokenizer.ggml.tokens");
    gb_raw_u32(out, GGUF_ARRAY);
    gb_raw_u32(out, GGUF_STRING);
    gb_raw_u64(out, (UINT64_C(1) << 60) + 1);
    gb_raw_u64(out, 0);
}

/* CVE-2024-32878: an array that fails half-way leaves pointers that were never set. */
static void make_array_cut_off(struct dgl_buf *out)
{
    preamble(out, 0, 1, 0);
    gb_raw_str(out, "tokenizer.ggml.tokens");
    gb_raw_u32(out, GGUF_ARRAY);
    gb_raw_u32(out, GGUF_STRING);
    gb_raw_u64(out, 3);
    gb_raw_str(out, "first");
    gb_raw_u64(out, 4);
    dgl_buf_puts(out, "secondthird......"); /* 4 bytes of text, then an invalid length */
}

static void make_array_of_arrays(struct dgl_buf *out)
{
    preamble(out, 0, 1, 0);
    gb_raw_str(out, "nested");
    gb_raw_u32(out, GGUF_ARRAY);
    gb_raw_u32(out, GGUF_ARRAY);
    gb_raw_u64(out, 1);
}

static void make_value_type(struct dgl_buf *out)
{
    preamble(out, 0, 1, 0);
    gb_raw_str(out, "general.name");
    gb_raw_u32(out, GGUF_TYPE_COUNT);
    gb_raw_u64(out, 0);
}

static void make_bool_2(struct dgl_buf *out)
{
    preamble(out, 0, 1, 0);
    gb_raw_str(out, "a.flag");
    gb_raw_u32(out, GGUF_BOOL);
    dgl_buf_putc(out, 2);
}

static void make_empty_key(struct dgl_buf *out)
{
    struct gguf_build b = {0};
    gb_u32(&b, "", 1);
    gb_finish(&b, out);
}

static void make_key_not_text(struct dgl_buf *out)
{
    struct gguf_build b = {0};
    gb_u32(&b, "a\xff", 1);
    gb_finish(&b, out);
}

static void make_key_twice(struct dgl_buf *out)
{
    struct gguf_build b = {0};
    gb_u32(&b, "same.key", 1);
    gb_u32(&b, "other.key", 1);
    gb_u32(&b, "same.key", 2);
    gb_finish(&b, out);
}

static void make_alignment(struct dgl_buf *out, uint32_t alignment)
{
    struct gguf_build b = {0};
    gb_u32(&b, "general.alignment", alignment);
    add_plain(&b);
    gb_finish(&b, out);
}

/* A division by zero in some readers. */
static void make_alignment_0(struct dgl_buf *out)
{
    make_alignment(out, 0);
}

static void make_alignment_24(struct dgl_buf *out)
{
    make_alignment(out, 24);
}

static void make_alignment_huge(struct dgl_buf *out)
{
    make_alignment(out, UINT32_C(1) << 31);
}

static void make_alignment_string(struct dgl_buf *out)
{
    struct gguf_build b = {0};
    gb_str(&b, "general.alignment", "32");
    gb_finish(&b, out);
}

/* One described tensor over 64 bytes of data. */
static void make_described(struct dgl_buf *out, const char *name, uint32_t type, uint32_t rank,
                           const uint64_t *dims, uint64_t offset)
{
    struct gguf_build b = {0};
    gb_tensor_info(&b, name, type, rank, dims, offset);
    for (int i = 0; i < 64; i++)
        dgl_buf_putc(&b.data, 1);
    gb_finish(&b, out);
}

static void make_rank_0(struct dgl_buf *out)
{
    make_described(out, "t", GB_F32, 0, dims_8x2, 0);
}

static void make_rank_5(struct dgl_buf *out)
{
    static const uint64_t dims[] = {1, 1, 1, 1, 16};
    make_described(out, "t", GB_F32, 5, dims, 0);
}

static void make_rank_huge(struct dgl_buf *out)
{
    struct gguf_build b = {0};
    b.num_tensors = 1;
    gb_raw_str(&b.tensors, "t");
    gb_raw_u32(&b.tensors, UINT32_MAX);
    for (int i = 0; i < 8; i++)
        gb_raw_u64(&b.tensors, 1);
    gb_finish(&b, out);
}

/* CVE-2024-41130: a tensor that has no values. */
static void make_dim_0(struct dgl_buf *out)
{
    static const uint64_t dims[] = {8, 0};
    make_described(out, "t", GB_F32, 2, dims, 0);
}

static void make_dim_negative(struct dgl_buf *out)
{
    static const uint64_t dims[] = {8, UINT64_MAX - 1};
    make_described(out, "t", GB_F32, 2, dims, 0);
}

static void make_dims_overflow(struct dgl_buf *out)
{
    static const uint64_t dims[] = {UINT64_C(1) << 32, UINT64_C(1) << 32}; /* product is 0 */
    make_described(out, "t", GB_F32, 2, dims, 0);
}

static void make_dims_overflow_bytes(struct dgl_buf *out)
{
    static const uint64_t dims[] = {UINT64_C(1) << 62}; /* times 4 is 0 */
    make_described(out, "t", GB_F32, 1, dims, 0);
}

/* CVE-2024-42477: a type number used as an index without a look. */
static void make_type_unknown(struct dgl_buf *out)
{
    make_described(out, "t", 4711, 2, dims_8x2, 0);
}

static void make_type_removed(struct dgl_buf *out)
{
    make_described(out, "t", 4, 2, dims_8x2, 0); /* ggml's Q4_2, gone since 2023 */
}

static void make_type_nvfp4(struct dgl_buf *out)
{
    make_described(out, "t", 40, 2, dims_8x2, 0);
}

static void make_part_block(struct dgl_buf *out)
{
    static const uint64_t dims[] = {40, 1};
    make_described(out, "t", GB_Q8_0, 2, dims, 0);
}

static void make_name_long(struct dgl_buf *out)
{
    char name[GGUF_MAX_NAME_LEN + 2];
    memset(name, 'n', sizeof(name));
    name[sizeof(name) - 1] = 0;
    make_described(out, name, GB_F32, 2, dims_8x2, 0);
}

static void make_name_empty(struct dgl_buf *out)
{
    make_described(out, "", GB_F32, 2, dims_8x2, 0);
}

/* CVE-2026-7482: an offset beyond the file lets a reader hand out foreign memory. */
static void make_offset_beyond_file(struct dgl_buf *out)
{
    make_described(out, "t", GB_F32, 2, dims_8x2, UINT64_C(1) << 40);
}

static void make_offset_overflow(struct dgl_buf *out)
{
    make_described(out, "t", GB_F32, 2, dims_8x2, UINT64_MAX - 31);
}

static void make_offset_unaligned(struct dgl_buf *out)
{
    make_described(out, "t", GB_F32, 2, dims_8x2, 4);
}

static void make_data_truncated(struct dgl_buf *out)
{
    static const uint64_t dims[] = {8, 4};
    make_described(out, "t", GB_F32, 2, dims, 0); /* 128 bytes, 64 are there */
}

static void make_data_left_over(struct dgl_buf *out)
{
    make_plain(out);
    for (int i = 0; i < 32; i++)
        dgl_buf_putc(out, 'x');
}

static void make_pair(struct dgl_buf *out, const uint64_t *dims, uint64_t second)
{
    struct gguf_build b = {0};
    gb_tensor_info(&b, "first", GB_F32, 2, dims, 0);
    gb_tensor_info(&b, "second", GB_F32, 2, dims, second);
    for (int i = 0; i < 160; i++)
        dgl_buf_putc(&b.data, 1);
    gb_finish(&b, out);
}

static void make_overlap(struct dgl_buf *out)
{
    make_pair(out, dims_8x2, 32);
}

static void make_hole(struct dgl_buf *out)
{
    make_pair(out, dims_8x2, 96);
}

/* CVE-2025-53630: sizes that are fine alone overflow when they are added up. */
static void make_sum_overflow(struct dgl_buf *out)
{
    static const uint64_t dims[] = {UINT64_C(1) << 60, 2}; /* 2^63 bytes each */
    make_pair(out, dims, UINT64_C(1) << 63);
}

/* CVE-2026-27940: the same after rounding to the alignment, which that fix had left out. */
static void make_sum_overflow_padding(struct dgl_buf *out)
{
    static const uint64_t dims[] = {(UINT64_C(1) << 62) - 1, 1}; /* 2^64 - 4 bytes */
    make_pair(out, dims, 0);
}

struct bad_file {
    const char *name;
    void (*make)(struct dgl_buf *out);
    enum dgl_status status;
    const char *parts[3]; /* of the message */
};

static const struct bad_file bad_files[] = {
    {"file is empty", make_empty, DGL_ERR_FORMAT, {"t.gguf", "0 bytes"}},
    {"magic is another", make_wrong_magic, DGL_ERR_FORMAT, {"t.gguf", "47 47 55 4c"}},
    {"file is a Git LFS pointer", make_lfs_pointer, DGL_ERR_FORMAT, {"git lfs pull"}},
    {"version 1", make_version_1, DGL_ERR_UNSUPPORTED, {"version 1", "2 and 3"}},
    {"version 4", make_version_4, DGL_ERR_UNSUPPORTED, {"version 4", "2 and 3"}},
    {"file is big-endian", make_big_endian, DGL_ERR_UNSUPPORTED, {"big-endian"}},
    {"more keys than the limit", make_many_keys, DGL_ERR_FORMAT, {"100001", "100000"}},
    {"CVE-2024-21802: keys beyond the file", make_keys_beyond_file, DGL_ERR_FORMAT, {"90000"}},
    {"CVE-2024-21825: number of keys overflows", make_keys_overflow, DGL_ERR_FORMAT, {"keys"}},
    {"CVE-2024-23605: tensors beyond the file",
     make_tensors_beyond_file,
     DGL_ERR_FORMAT,
     {"90000"}},
    {"number of tensors overflows", make_tensors_overflow, DGL_ERR_FORMAT, {"tensors"}},
    {"CVE-2024-21836: key longer than the file", make_key_length, DGL_ERR_FORMAT, {"60000"}},
    {"length of a key overflows", make_key_length_overflow, DGL_ERR_FORMAT, {"65535"}},
    {"string longer than the file",
     make_string_beyond_file,
     DGL_ERR_FORMAT,
     {"1000000", "general.name"}},
    {"CVE-2024-23496: size of an array overflows", make_array_overflow, DGL_ERR_FORMAT, {"scores"}},
    {"size of an array of strings overflows",
     make_array_of_strings_overflow,
     DGL_ERR_FORMAT,
     {"tokens"}},
    {"CVE-2024-32878: array of strings is cut off", make_array_cut_off, DGL_ERR_FORMAT, {"tokens"}},
    {"array of arrays", make_array_of_arrays, DGL_ERR_UNSUPPORTED, {"nested", "arrays"}},
    {"value type beyond the list", make_value_type, DGL_ERR_FORMAT, {"general.name", "13"}},
    {"bool is 2", make_bool_2, DGL_ERR_FORMAT, {"a.flag", "2"}},
    {"key is empty", make_empty_key, DGL_ERR_FORMAT, {"empty"}},
    {"key is not text", make_key_not_text, DGL_ERR_FORMAT, {"not text"}},
    {"key occurs twice", make_key_twice, DGL_ERR_FORMAT, {"same.key", "twice"}},
    {"alignment is 0", make_alignment_0, DGL_ERR_FORMAT, {"general.alignment", "0"}},
    {"alignment is 24", make_alignment_24, DGL_ERR_FORMAT, {"24", "power of two"}},
    {"alignment is huge", make_alignment_huge, DGL_ERR_FORMAT, {"general.alignment", "65536"}},
    {"alignment is a string", make_alignment_string, DGL_ERR_FORMAT, {"string", "integer"}},
    {"tensor has no dimensions", make_rank_0, DGL_ERR_FORMAT, {"0 dimensions"}},
    {"tensor has five dimensions", make_rank_5, DGL_ERR_FORMAT, {"5 dimensions"}},
    {"number of dimensions is huge", make_rank_huge, DGL_ERR_FORMAT, {"4294967295"}},
    {"CVE-2024-41130: dimension is 0", make_dim_0, DGL_ERR_FORMAT, {"dimension 1", "is 0"}},
    {"dimension is negative", make_dim_negative, DGL_ERR_FORMAT, {"dimension 1"}},
    {"product of dimensions overflows", make_dims_overflow, DGL_ERR_FORMAT, {"overflows"}},
    {"bytes of a tensor overflow", make_dims_overflow_bytes, DGL_ERR_FORMAT, {"overflows"}},
    {"CVE-2024-42477: type beyond the list",
     make_type_unknown,
     DGL_ERR_UNSUPPORTED,
     {"4711", "Q4_K"}},
    {"type that ggml removed", make_type_removed, DGL_ERR_UNSUPPORTED, {"type 4"}},
    {"type without a decoder", make_type_nvfp4, DGL_ERR_UNSUPPORTED, {"NVFP4", "IQ4_XS"}},
    {"row is not whole blocks", make_part_block, DGL_ERR_FORMAT, {"[1, 40]", "32"}},
    {"tensor name is too long", make_name_long, DGL_ERR_FORMAT, {"tensor name", "65", "64"}},
    {"tensor name is empty", make_name_empty, DGL_ERR_FORMAT, {"tensor name", "empty"}},
    {"CVE-2026-7482: offset beyond the file",
     make_offset_beyond_file,
     DGL_ERR_FORMAT,
     {"tensor t", "hole"}},
    {"offset overflows", make_offset_overflow, DGL_ERR_FORMAT, {"tensor t"}},
    {"offset is not aligned", make_offset_unaligned, DGL_ERR_FORMAT, {"tensor t", "alignment 32"}},
    {"data is truncated", make_data_truncated, DGL_ERR_FORMAT, {"128", "64", "truncated"}},
    {"data is left over", make_data_left_over, DGL_ERR_FORMAT, {"left over"}},
    {"tensors overlap", make_overlap, DGL_ERR_FORMAT, {"second", "overlap"}},
    {"a hole between tensors", make_hole, DGL_ERR_FORMAT, {"second", "hole"}},
    {"CVE-2025-53630: sum of sizes overflows", make_sum_overflow, DGL_ERR_FORMAT, {"first"}},
    {"CVE-2026-27940: sum with padding overflows",
     make_sum_overflow_padding,
     DGL_ERR_FORMAT,
     {"overflow"}},
};

static enum dgl_status parse(const struct dgl_log *log, const struct dgl_buf *bytes,
                             struct gguf_file *out)
{
    struct gguf_input in = {
        .name = "t.gguf", .bytes = (const uint8_t *)bytes->p, .size = bytes->len};
    return gguf_file_parse(log, &in, out);
}

static void refuses(void **state)
{
    const struct bad_file *row = *state;
    struct dgl_buf bytes;
    struct gguf_file file;
    struct test_log log;
    test_log_init(&log, DGL_LOG_ERROR);
    row->make(&bytes);
    assert_refusal(&log, parse(&log.log, &bytes, &file), row->status, row->parts);
    dgl_buf_finish(&bytes);
}

/* Every beginning of a good file is refused without reading beyond it. */
static void refuses_every_truncation(void **state)
{
    (void)state;
    struct dgl_buf whole;
    make_plain(&whole);
    for (size_t len = 0; len < whole.len; len++) {
        uint8_t *copy = malloc(len ? len : 1); /* its end is where the sanitizer looks */
        assert_non_null(copy);
        memcpy(copy, whole.p, len);
        struct gguf_input in = {.name = "t.gguf", .bytes = copy, .size = len};
        struct gguf_file file;
        enum dgl_status status = gguf_file_parse(NULL, &in, &file);
        /* The padding behind the last tensor may be missing. */
        if (status == DGL_OK && len < whole.len - 16)
            fail_msg("%zu of %zu bytes were accepted", len, whole.len);
        gguf_file_finish(&file);
        free(copy);
    }
    dgl_buf_finish(&whole);
}

/* Only the start of the file is available: the header suffices, and less than the header does not.
 */
static void reads_a_header_without_its_data(void **state)
{
    (void)state;
    struct dgl_buf whole;
    struct gguf_file file;
    make_plain(&whole);
    assert_int_equal(parse(NULL, &whole, &file), DGL_OK);
    uint64_t data_start = file.data_start, header = 0;
    gguf_file_finish(&file);
    for (size_t len = 1; len <= data_start; len++) {
        uint8_t *copy = malloc(len); /* its end is where the sanitizer looks */
        assert_non_null(copy);
        memcpy(copy, whole.p, len);
        struct gguf_input in = {.name = "t.gguf", .bytes = copy, .size = whole.len, .stored = len};
        if (gguf_file_parse(NULL, &in, &file) == DGL_OK && header == 0)
            header = len;
        assert_int_equal(file.num_tensors > 0, header > 0);
        gguf_file_finish(&file);
        free(copy);
    }
    assert_in_range(header, data_start - GGUF_ALIGNMENT + 1, data_start);
    dgl_buf_finish(&whole);
}

static void survives_every_changed_byte(void **state)
{
    (void)state;
    struct dgl_buf whole;
    make_plain(&whole);
    for (size_t at = 0; at < whole.len; at++) {
        for (int bit = 0; bit < 8; bit++) {
            struct gguf_file file;
            whole.p[at] = (char)(whole.p[at] ^ 1 << bit);
            (void)parse(NULL, &whole, &file);
            gguf_file_finish(&file);
            whole.p[at] = (char)(whole.p[at] ^ 1 << bit);
        }
    }
    dgl_buf_finish(&whole);
}

/* ---- accepted files ---- */

static void reads_keys_and_tensors(void **state)
{
    static const char *const words[] = {"one", "", "drei"};
    (void)state;
    struct gguf_build b = {0};
    struct dgl_buf bytes;
    struct gguf_file file;
    add_plain(&b);
    gb_f32(&b, "x.eps", 1e-5f);
    gb_u64(&b, "x.big", UINT64_C(1) << 40);
    gb_bool(&b, "x.flag", true);
    gb_strs(&b, "x.words", words, 3);
    gb_finish(&b, &bytes);
    assert_int_equal(parse(NULL, &bytes, &file), DGL_OK);
    struct gguf_reader r = {.log = NULL, .file = &file};
    int64_t big = 0;
    double eps = 0;
    bool flag = false;
    const struct gguf_kv *list;
    assert_int_equal(gguf_opt_i64(r, "x.big", 0, INT64_MAX, &big), DGL_OK);
    assert_int_equal(gguf_opt_f64(r, "x.eps", &eps), DGL_OK);
    assert_int_equal(gguf_opt_bool(r, "x.flag", &flag), DGL_OK);
    assert_int_equal(gguf_opt_array(r, "x.words", GGUF_STRING, &list), DGL_OK);
    assert_true(big == INT64_C(1) << 40);
    assert_true(eps == 1e-5); /* the decimal number, not the float's expansion */
    assert_true(flag);
    assert_int_equal(list->count, 3);
    assert_string_equal(list->strings[2].p, "drei");
    assert_int_equal(file.num_tensors, 2);
    const struct tensor_info *t = &file.tensors[0].info;
    assert_string_equal(t->name, "a.weight");
    assert_int_equal(t->rank, 2);
    assert_int_equal(t->shape[0], 2); /* rows first, unlike the file */
    assert_int_equal(t->shape[1], 8);
    gguf_file_finish(&file);
    dgl_buf_finish(&bytes);
}

static void accepts_version_2_and_other_alignment(void **state)
{
    (void)state;
    struct gguf_build b = {.version = 2, .alignment = 64};
    struct dgl_buf bytes;
    struct gguf_file file;
    gb_u32(&b, "general.alignment", 64);
    add_plain(&b);
    gb_finish(&b, &bytes);
    assert_int_equal(parse(NULL, &bytes, &file), DGL_OK);
    assert_int_equal(file.version, 2);
    assert_int_equal(file.data_start % 64, 0);
    assert_int_equal(file.tensors[1].begin, 64);
    gguf_file_finish(&file);
    dgl_buf_finish(&bytes);
}

static void wrong_types_of_values_are_named(void **state)
{
    (void)state;
    struct gguf_build b = {0};
    struct dgl_buf bytes;
    struct gguf_file file;
    struct test_log log;
    int64_t i64 = 7;
    test_log_init(&log, DGL_LOG_ERROR);
    gb_str(&b, "a", "text");
    gb_u32(&b, "n", 12);
    gb_finish(&b, &bytes);
    assert_int_equal(parse(NULL, &bytes, &file), DGL_OK);
    struct gguf_reader r = {.log = &log.log, .file = &file};
    assert_int_equal(gguf_opt_i64(r, "a", 0, 10, &i64), DGL_ERR_FORMAT);
    assert_contains(log.text, "a is string, wanted an integer");
    test_log_clear(&log);
    assert_int_equal(gguf_opt_i64(r, "n", 0, 10, &i64), DGL_ERR_FORMAT);
    assert_contains(log.text, "n is 12, wanted an integer from 0 to 10");
    test_log_clear(&log);
    assert_int_equal(gguf_need_i64(r, "b", 0, 10, &i64), DGL_ERR_FORMAT);
    assert_contains(log.text, "b is missing");
    assert_int_equal(gguf_opt_i64(r, "b", 0, 10, &i64), DGL_OK);
    assert_int_equal(i64, 7);
    gguf_file_finish(&file);
    dgl_buf_finish(&bytes);
}

/* Numbers of any type and texts of numbers are read, as in llama.cpp. Other values are left out. */
static void sampling_values_of_other_types(void **state)
{
    static const char want[] = "{\n  \"temperature\": 2,\n  \"top_k\": 20,\n  \"min_p\": 0.1\n}\n";
    struct gguf_build b = {0};
    struct dgl_buf bytes = {0}, json = {0};
    struct gguf_file file;
    struct test_log log;
    (void)state;
    test_log_init(&log, DGL_LOG_WARN);
    gb_u32(&b, "general.sampling.temp", 2);
    gb_f32(&b, "general.sampling.top_k", 20.5f);
    gb_str(&b, "general.sampling.min_p", "0.1");
    gb_str(&b, "general.sampling.top_p", "high");
    gb_f32(&b, "general.sampling.penalty_repeat", NAN);
    gb_f32(&b, "general.sampling.penalty_last_n", 1e20f);
    gb_bool(&b, "general.sampling.mirostat", true);
    gb_u32(&b, "general.sampling.sequence", 1);
    gb_f32s(&b, "general.sampling.xtc_threshold", &(const float){0.5f}, 1);
    gb_finish(&b, &bytes);
    assert_int_equal(parse(NULL, &bytes, &file), DGL_OK);
    assert_int_equal(gguf_sampling_read(&log.log, &file, &json), DGL_OK);
    dgl_buf_append(&json, "", 1);
    assert_string_equal(json.p, want);
    assert_int_equal(test_occurrences(log.text, " and is not used"), 6);
    assert_contains(log.text, "general.sampling.top_p is no number and is not used");
    assert_contains(log.text, "general.sampling.penalty_last_n is no integer and is not used");
    assert_contains(log.text, "general.sampling.sequence is no text and is not used");
    gguf_file_finish(&file);
    dgl_buf_finish(&bytes);
    dgl_buf_finish(&json);
}

/* The keys become a generation_config.json, and that becomes the same keys. */
static void sampling_values_go_there_and_back(void **state)
{
    static const char want[] = "{\n  \"temperature\": 0,\n  \"top_k\": 40,\n  \"top_p\": 0.95,\n"
                               "  \"mirostat\": 2\n}\n";
    static const char off[] = "{\"do_sample\": false, \"temperature\": 0.6, \"top_k\": -1}";
    struct gguf_build b = {0};
    struct gguf_writer w = {0};
    struct dgl_buf bytes = {0}, json = {0};
    struct gguf_file file;
    (void)state;
    gb_str(&b, "general.architecture", "llama");
    gb_f32(&b, "general.sampling.temp", 0);
    gb_u32(&b, "general.sampling.top_k", 40);
    gb_f32(&b, "general.sampling.top_p", 0.95f);
    gb_u32(&b, "general.sampling.mirostat", 2);
    gb_finish(&b, &bytes);
    assert_int_equal(parse(NULL, &bytes, &file), DGL_OK);
    assert_int_equal(gguf_sampling_read(NULL, &file, &json), DGL_OK);
    dgl_buf_append(&json, "", 1);
    assert_string_equal(json.p, want);
    assert_int_equal(gguf_sampling_write(NULL, "t", json.p, json.len - 1, &w), DGL_OK);
    assert_int_equal(w.num_keys, 4);
    assert_non_null(memmem(w.keys.p, w.keys.len, "general.sampling.mirostat", 25));
    dgl_buf_finish(&w.keys);
    w = (struct gguf_writer){0};
    assert_int_equal(gguf_sampling_write(NULL, "t", off, strlen(off), &w), DGL_OK);
    assert_int_equal(w.num_keys, 2); /* a temperature of 0, and top_k */
    dgl_buf_finish(&w.keys);
    gguf_file_finish(&file);
    dgl_buf_finish(&bytes);
    /* A file without the keys. */
    json.len = 0;
    gb_str(&b, "general.architecture", "llama");
    gb_finish(&b, &bytes);
    assert_int_equal(parse(NULL, &bytes, &file), DGL_OK);
    assert_int_equal(gguf_sampling_read(NULL, &file, &json), DGL_OK);
    assert_int_equal(json.len, 0);
    gguf_file_finish(&file);
    dgl_buf_finish(&bytes);
    dgl_buf_finish(&json);
}

int main(void)
{
    const struct CMUnitTest good[] = {
        cmocka_unit_test(sampling_values_of_other_types),
        cmocka_unit_test(sampling_values_go_there_and_back),
        cmocka_unit_test(reads_keys_and_tensors),
        cmocka_unit_test(accepts_version_2_and_other_alignment),
        cmocka_unit_test(wrong_types_of_values_are_named),
        cmocka_unit_test(refuses_every_truncation),
        cmocka_unit_test(reads_a_header_without_its_data),
        cmocka_unit_test(survives_every_changed_byte),
    };
    int failed = test_run_table("bad files", refuses, bad_files);
    return failed + cmocka_run_group_tests_name("good files", good, NULL, NULL);
}
