/* The converter's output appears complete or not at all; values and options that do not fit are
 * refused. */
#include "tests/support/test.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "core/base/file.h"
#include "tests/support/convert_fixture.h"

/* A file system without RENAME_EXCHANGE and RENAME_NOREPLACE, made by the linker (tests.mk). */
static bool plain_renames_only;
int __real_renameat2(int from_dir, const char *from, int to_dir, const char *to, unsigned flags);
int __wrap_renameat2(int from_dir, const char *from, int to_dir, const char *to, unsigned flags);

int __wrap_renameat2(int from_dir, const char *from, int to_dir, const char *to, unsigned flags)
{
    if (!plain_renames_only)
        return __real_renameat2(from_dir, from, to_dir, to, flags);
    errno = EINVAL;
    return -1;
}

/* ---- files left by killed processes ---- */

/* A process id that was given out and is free again. */
static long dead_pid(void)
{
    pid_t pid = fork();
    if (pid == 0)
        _exit(0);
    assert_int_equal(waitpid(pid, NULL, 0), pid);
    return (long)pid;
}

struct left {
    const char *name;
    const char *format; /* of the name beside the output, with %ld for the process */
    bool alive;         /* ours instead of a dead one's */
    bool locked, link;
    bool stays;
};

static const struct left lefts[] = {
    {"of a dead process", "out.tmp-%ld-1f", .stays = false},
    {"of a live one", "out.tmp-%ld-1f", .alive = true, .stays = true},
    {"of one that is not seen from here", "out.tmp-%ld-1f", .locked = true, .stays = true},
    {"former pack that was moved aside", "out.tmp-%ld-1f-old", .stays = true},
    {"without a time", "out.tmp-%ld-", .stays = true},
    {"without a second dash", "out.tmp-%ld", .stays = true},
    {"with another end", "out.tmp-%ld-1f.bak", .stays = true},
    {"with capital letters", "out.tmp-%ld-1F", .stays = true},
    {"with a sign", "out.tmp--%ld-1f", .stays = true},
    {"of another output", "out2.tmp-%ld-1f", .stays = true},
    {"behind another name", "an-out.tmp-%ld-1f", .stays = true},
    {"a link", "out.tmp-%ld-1f", .link = true, .stays = true},
};

/* Leaves a folder with a file, as when a pack is written, or a file, as when a GGUF file is
 * written. */
static void leave(const struct fixture *f, const struct left *row, const char *name, bool gguf)
{
    char *path = dgl_path_join(f->dir, name);
    if (row->link) {
        assert_int_equal(symlink("in", path), 0);
    } else if (gguf) {
        test_write_file(f->dir, name, "x", 1);
    } else {
        assert_int_equal(mkdir(path, 0777), 0);
        test_write_file(path, "shard_00000.bin", "x", 1);
    }
    free(path);
}

static void check_left(const struct left *row, bool gguf)
{
    void *holder = NULL;
    assert_int_equal(fixture_setup(&holder), 0);
    struct fixture *f = holder;
    char name[64];
    snprintf(name, sizeof(name), row->format, row->alive ? (long)getpid() : dead_pid());
    leave(f, row, name, gguf);
    char *path = dgl_path_join(f->dir, name);
    int fd = row->locked ? open(path, O_RDONLY | O_CLOEXEC) : -1;
    if (row->locked)
        assert_int_equal(flock(fd, LOCK_EX | LOCK_NB), 0);
    if (convert(f, .to = gguf ? "gguf" : "rdrr") != DGL_OK)
        fail_msg("%s", f->log.text);
    assert_int_equal(dgl_path_present(path), row->stays);
    if (fd >= 0)
        close(fd);
    free(path);
    fixture_teardown(&holder);
}

static void only_dead_remains_go(void **state)
{
    check_left(*state, false);
    check_left(*state, true);
}

/* ---- complete output or no output ---- */

static void existing_output_is_refused(void **state)
{
    struct fixture *f = *state;
    assert_converts(f, f->in, f->out, "bf16");
    assert_int_equal(convert(f, .quantize = "f32"), DGL_ERR_INVALID_ARG);
    assert_contains(f->log.text, f->out);
    assert_contains(f->log.text, "--force");
    assert_int_equal(f->log.errors, 1);
    assert_quantization(f->out, "bf16");
    assert_only(f, "in", "out");
}

static void force_replaces_a_pack(void **state)
{
    struct fixture *f = *state;
    assert_converts(f, f->in, f->out, "bf16");
    assert_int_equal(convert(f, .quantize = "q8_0", .force = true), DGL_OK);
    assert_quantization(f->out, "q8_0");
    assert_only(f, "in", "out");
}

static void plain_renames_suffice(void **state)
{
    struct fixture *f = *state;
    plain_renames_only = true;
    enum dgl_status first = convert(f, .quantize = "bf16");
    enum dgl_status second = convert(f, .quantize = "q8_0", .force = true);
    plain_renames_only = false;
    assert_int_equal(first, DGL_OK);
    assert_int_equal(second, DGL_OK);
    assert_quantization(f->out, "q8_0");
    assert_only(f, "in", "out");
}

static void force_replaces_the_input_itself(void **state)
{
    struct fixture *f = *state;
    assert_converts(f, f->in, f->out, "f32");
    assert_int_equal(convert(f, .in = f->out, .quantize = "f16", .force = true), DGL_OK);
    assert_quantization(f->out, "f16");
    assert_only(f, "in", "out");
}

static void force_fills_an_empty_folder(void **state)
{
    struct fixture *f = *state;
    assert_int_equal(mkdir(f->out, 0777), 0);
    assert_int_equal(convert(f, .quantize = "q8_0", .force = true), DGL_OK);
    struct dgl_model_file *model = open_model(f->out);
    model_file_close(&model);
    assert_only(f, "in", "out");
}

static void force_spares_what_is_no_pack(void **state)
{
    struct fixture *f = *state;
    assert_int_equal(mkdir(f->out, 0777), 0);
    test_write_file(f->out, "letters.txt", "dear", 4);
    assert_int_equal(convert(f, .quantize = "q8_0", .force = true), DGL_ERR_INVALID_ARG);
    assert_contains(f->log.text, "not a pack");
    free(read_text(f->out, "letters.txt"));
    assert_only(f, "in", "out");
}

static void force_spares_a_file(void **state)
{
    struct fixture *f = *state;
    test_write_file(f->dir, "out", "text", 4);
    assert_int_equal(convert(f, .quantize = "q8_0", .force = true), DGL_ERR_INVALID_ARG);
    assert_contains(f->log.text, "not a folder");
    assert_only(f, "in", "out");
}

static void assert_is_link(const char *path)
{
    struct stat st;
    assert_int_equal(lstat(path, &st), 0);
    assert_true(S_ISLNK(st.st_mode));
}

/* The pack that a link names is replaced, where it is; the link stays. */
static void force_follows_a_link(void **state)
{
    struct fixture *f = *state;
    char *room = test_tmpdir(), *link = dgl_path_join(room, "link");
    assert_converts(f, f->in, f->out, "bf16");
    assert_int_equal(symlink(f->out, link), 0);
    assert_int_equal(convert(f, .out = link, .quantize = "f16"), DGL_ERR_INVALID_ARG);
    assert_int_equal(convert(f, .out = link, .quantize = "q8_0", .force = true), DGL_OK);
    assert_is_link(link);
    assert_quantization(f->out, "q8_0");
    assert_only(f, "in", "out");
    free(link);
    test_tmpdir_remove(room);
}

/* It is not known to have named a pack. */
static void a_link_to_nothing_is_refused(void **state)
{
    struct fixture *f = *state;
    assert_int_equal(symlink("nowhere", f->out), 0);
    assert_int_equal(convert(f, .quantize = "q8_0"), DGL_ERR_INVALID_ARG);
    assert_int_equal(convert(f, .quantize = "q8_0", .force = true), DGL_ERR_INVALID_ARG);
    assert_contains(f->log.text, "not a folder");
    assert_is_link(f->out);
    assert_only(f, "in", "out");
}

static void trailing_slashes_are_ignored(void **state)
{
    struct fixture *f = *state;
    char *out = dgl_path_join(f->dir, "out//");
    assert_converts(f, f->in, out, "q8_0");
    assert_only(f, "in", "out");
    free(out);
}

struct countdown {
    int calls;
    uint64_t done, total;
    bool backwards;
};

static bool count_down(void *priv, const char *what, uint64_t done, uint64_t total)
{
    struct countdown *c = priv;
    assert_string_equal(what, "bytes");
    c->backwards |= done < c->done || done > total;
    c->done = done;
    c->total = total;
    return c->calls-- > 0;
}

static void cancelling_leaves_nothing(void **state)
{
    struct fixture *f = *state;
    for (int calls = 0; calls < 4; calls++) {
        struct countdown count = {.calls = calls};
        enum dgl_status status =
            convert(f, .quantize = "q4_k_m", .progress_cb = count_down, .progress_priv = &count);
        assert_int_equal(status, DGL_ERR_CANCELLED);
        assert_only(f, "in", NULL);
    }
    assert_int_equal(f->log.errors, 0);
}

static void cancelling_keeps_the_old_pack(void **state)
{
    struct fixture *f = *state;
    struct countdown count = {.calls = 2};
    assert_converts(f, f->in, f->out, "bf16");
    enum dgl_status status = convert(f, .quantize = "q8_0", .force = true,
                                     .progress_cb = count_down, .progress_priv = &count);
    assert_int_equal(status, DGL_ERR_CANCELLED);
    assert_quantization(f->out, "bf16");
    assert_only(f, "in", "out");
}

static void progress_ends_at_the_total(void **state)
{
    struct fixture *f = *state;
    struct countdown count = {.calls = 1000000};
    assert_int_equal(
        convert(f, .quantize = "q8_0", .progress_cb = count_down, .progress_priv = &count), DGL_OK);
    assert_true(count.total > 0);
    assert_int_equal(count.done, count.total);
    assert_false(count.backwards);
}

/* A limit on file size fails writes as a full disk does. */
static void full_disk_leaves_nothing(void **state)
{
    struct fixture *f = *state;
    struct rlimit before, small = {16384, RLIM_INFINITY};
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
    small.rlim_max = before.rlim_max;
    void (*handler)(int) = signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
    enum dgl_status status = convert(f, .quantize = "f32");
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &before), 0);
    signal(SIGXFSZ, handler);
    assert_int_equal(status, DGL_ERR_IO);
    assert_int_equal(f->log.errors, 1);
    assert_contains(f->log.text, "shard_00000.bin");
    assert_only(f, "in", NULL);
}

/* With 0, 1, 2 ... free descriptors: for each file that cannot be opened, no output is left, and
 * one line names the reason. */
static void too_few_descriptors_leave_nothing(void **state)
{
    struct fixture *f = *state;
    enum { most = 40 };
    int spare = 0, next = dup(STDIN_FILENO);
    bool converted = false;
    struct rlimit before;
    assert_true(next >= 0);
    close(next);
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
    for (; spare < most && !converted; spare++) {
        struct rlimit few = {(rlim_t)(next + spare), before.rlim_max};
        test_log_clear(&f->log);
        f->log.errors = 0;
        assert_int_equal(setrlimit(RLIMIT_NOFILE, &few), 0);
        enum dgl_status status = convert(f, .threads = 1);
        assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
        converted = status == DGL_OK;
        if (!converted) {
            assert_int_equal(status, DGL_ERR_IO);
            assert_int_equal(f->log.errors, 1);
            assert_contains(f->log.text, "Too many open files");
            assert_contains(f->log.text, "ulimit -n");
            assert_only(f, "in", NULL);
        }
    }
    assert_true(converted);
    assert_true(spare > 1);
    assert_only(f, "in", "out");
}

static void unwritable_place_is_an_error(void **state)
{
    struct fixture *f = *state;
    char *inside_a_file = dgl_path_join(f->in, "config.json/out");
    char *nowhere = dgl_path_join(f->dir, "missing/out");
    assert_int_equal(convert(f, .out = inside_a_file), DGL_ERR_IO);
    assert_int_equal(convert(f, .out = nowhere), DGL_ERR_IO);
    assert_contains(f->log.text, nowhere);
    assert_int_equal(f->log.errors, 2);
    assert_only(f, "in", NULL);
    free(inside_a_file);
    free(nowhere);
}

static void missing_input_leaves_nothing(void **state)
{
    struct fixture *f = *state;
    char *in = dgl_path_join(f->dir, "nothing");
    assert_int_not_equal(convert(f, .in = in, .quantize = "q8_0"), DGL_OK);
    assert_int_equal(f->log.errors, 1);
    assert_only(f, "in", NULL);
    free(in);
}

static void corrupt_pack_is_not_converted(void **state)
{
    struct fixture *f = *state;
    char *again = dgl_path_join(f->dir, "again");
    assert_converts(f, f->in, f->out, "q8_0");
    size_t len;
    char *bytes = tiny_file_read(f->out, "shard_00000.bin", &len);
    bytes[len / 2] ^= 4;
    test_write_file(f->out, "shard_00000.bin", bytes, len);
    free(bytes);
    assert_int_equal(convert(f, .in = f->out, .out = again, .quantize = "f16"), DGL_ERR_INTEGRITY);
    assert_only(f, "in", "out");
    free(again);
}

/* ---- values and options that do not fit ---- */

/* Overwrites the last value of the only safetensors file of an f32 model: the last tensor's. */
static void poke_last_value(struct fixture *f, float value)
{
    size_t len;
    f->tiny.dtype = DGL_F32;
    fixture_write(f);
    char *bytes = tiny_file_read(f->in, "model.safetensors", &len);
    memcpy(bytes + len - 4, &value, 4);
    test_write_file(f->in, "model.safetensors", bytes, len);
    free(bytes);
}

/* The tiny model with lm_head as the last tensor in the file, a matrix. */
static void refuse_value(struct fixture *f, float value, const char *quantize, const char *words)
{
    f->tiny.tied = false;
    poke_last_value(f, value);
    struct dgl_model_file *in = open_model(f->in);
    const struct tensor_info *last =
        tensor_source_at(in->tensors, tensor_source_count(in->tensors) - 1);
    if (last->rank != 2)
        fail_msg("the last tensor is %s, this case wants a matrix", last->name);
    assert_int_equal(convert(f, .quantize = quantize), DGL_ERR_INVALID_ARG);
    assert_contains(f->log.text, words);
    assert_contains(f->log.text, last->name);
    assert_int_equal(f->log.errors, 1);
    assert_only(f, "in", NULL);
    model_file_close(&in);
}

static void nan_is_not_quantised(void **state)
{
    refuse_value(*state, NAN, "q4_k_m", "nan");
}

static void infinity_is_not_quantised(void **state)
{
    refuse_value(*state, INFINITY, "q8_0", "inf");
}

/* The manifest would be deeper than readers allow. */
static void a_config_of_the_deepest_nesting_is_refused(void **state)
{
    struct fixture *f = *state;
    char *text = calloc(1, 512);
    assert_non_null(text);
    strcat(text, "\"x\": ");
    memset(text + 5, '[', 63);
    memset(text + 68, ']', 63);
    strcat(text, ", \"model_type\"");
    tiny_file_replace(f->in, "config.json", "\"model_type\"", text);
    assert_int_equal(convert(f), DGL_ERR_FORMAT);
    assert_contains(f->log.text, "manifest.json: line ");
    assert_contains(f->log.text, "wanted nesting of at most 64 levels");
    assert_only(f, "in", NULL);
    free(text);
}

static void values_beyond_f16_are_refused(void **state)
{
    refuse_value(*state, 65520.0f, "f16", "65520");
}

static void values_beyond_bf16_are_refused(void **state)
{
    refuse_value(*state, 3.4028234e38f, "bf16", "bf16 cannot hold");
}

static void largest_half_is_kept(void **state)
{
    struct fixture *f = *state;
    poke_last_value(f, 65504.0f);
    assert_int_equal(convert(f, .quantize = "f16"), DGL_OK);
}

struct option_row {
    const char *name;
    struct dgl_convert_params params;
    const char *words;
};
static const struct option_row option_rows[] = {
    {"unknown recipe", {.quantize = "q7_k"}, "q7_k"},
    {"empty recipe", {.quantize = ""}, "f32, f16"},
    {"unknown type of the embedding", {.embed = "q3"}, "embed is \"q3\""},
    {"type without an encoder", {.experts = "iq4_nl"}, "iq4_nl"},
    {"type of a head that is the embedding", {.head = "q8_0"}, "no lm_head"},
    {"experts of a dense model", {.experts = "mxfp4"}, "no expert"},
    {"unknown hash", {.hash = "md5"}, "md5"},
    {"odd shard size", {.shard_bytes = 5000}, "5000"},
};

static void option_is_refused(void **state)
{
    const struct option_row *row = *state;
    void *holder = NULL;
    fixture_setup(&holder);
    struct fixture *f = holder;
    assert_int_equal(convert_with(f, row->params), DGL_ERR_INVALID_ARG);
    assert_contains(f->log.text, row->words);
    assert_int_equal(f->log.errors, 1);
    assert_only(f, "in", NULL);
    fixture_teardown(&holder);
}

int main(void)
{
    static const struct CMUnitTest cases[] = {
        FIXTURE_CASE(existing_output_is_refused),
        FIXTURE_CASE(force_replaces_a_pack),
        FIXTURE_CASE(plain_renames_suffice),
        FIXTURE_CASE(force_replaces_the_input_itself),
        FIXTURE_CASE(force_fills_an_empty_folder),
        FIXTURE_CASE(force_spares_what_is_no_pack),
        FIXTURE_CASE(force_spares_a_file),
        FIXTURE_CASE(force_follows_a_link),
        FIXTURE_CASE(a_link_to_nothing_is_refused),
        FIXTURE_CASE(trailing_slashes_are_ignored),
        FIXTURE_CASE(cancelling_leaves_nothing),
        FIXTURE_CASE(cancelling_keeps_the_old_pack),
        FIXTURE_CASE(progress_ends_at_the_total),
        FIXTURE_CASE(full_disk_leaves_nothing),
        FIXTURE_CASE(too_few_descriptors_leave_nothing),
        FIXTURE_CASE(unwritable_place_is_an_error),
        FIXTURE_CASE(missing_input_leaves_nothing),
        FIXTURE_CASE(corrupt_pack_is_not_converted),
        FIXTURE_CASE(nan_is_not_quantised),
        FIXTURE_CASE(infinity_is_not_quantised),
        FIXTURE_CASE(a_config_of_the_deepest_nesting_is_refused),
        FIXTURE_CASE(values_beyond_f16_are_refused),
        FIXTURE_CASE(values_beyond_bf16_are_refused),
        FIXTURE_CASE(largest_half_is_kept),
    };
    int failed = test_run_table("options", option_is_refused, option_rows);
    failed += test_run_table("left behind", only_dead_remains_go, lefts);
    return failed + cmocka_run_group_tests_name("convert output", cases, NULL, NULL);
}
