/* --watch-kernels: edits of a kernel author while a model generates or waits, and the report after
 * each edit. All waits are for a line, never for a time. */
#include "tests/support/test.h"

#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/base/file.h"
#include "core/base/hash.h"
#include "tests/support/process.h"
#include "tests/support/server.h"
#include "tests/support/terminal.h"
#include "tests/support/tiny_model.h"

/* A folder with sample_pick.comp, which every token needs. */
struct author {
    struct terminal t;
    char *dir, *text;
};

static char *kernel_text(const char *name)
{
    struct process_result r;
    process_command(&r, "kernels", "show", name, NULL);
    assert_code(&r, 0);
    char *text = checked(strdup(r.out));
    process_finish(&r);
    return text;
}

/* The text with `find` replaced; free(). */
static char *with(const char *text, const char *find, const char *replace)
{
    struct dgl_buf out = {0};
    const char *at = strstr(text, find);
    assert_non_null(at);
    dgl_buf_append(&out, text, (size_t)(at - text));
    dgl_buf_puts(&out, replace);
    dgl_buf_puts(&out, at + strlen(find));
    return checked(dgl_buf_take(&out));
}

static void expect_taken(struct author *a, const char *name, const char *text)
{
    char line[200], hex[65];
    assert_true(dgl_hash_bytes(DGL_HASH_SHA256, text, strlen(text), hex));
    snprintf(line, sizeof(line), "watch: %s: taken %s", name, hex);
    terminal_expect(&a->t, line);
}

static void save(const struct author *a, const char *file, const char *text)
{
    test_write_file(a->dir, file, text, strlen(text));
}

/* Starts a generation without end, until it is stopped. `more` is another option, or NULL. */
static void author_begin(struct author *a, const char *more)
{
    *a = (struct author){.dir = test_tmpdir(), .text = kernel_text("sample_pick")};
    save(a, "sample_pick.comp", a->text);
    const char *args[] = {"generate",
                          "--device",
                          "any",
                          "-p",
                          "Once",
                          "-n",
                          "-1",
                          "--ignore-eos",
                          "-c",
                          "64",
                          "--temp",
                          "0",
                          "--kernel-dir",
                          a->dir,
                          "--context-shift",
                          "--watch-kernels",
                          more,
                          NULL};
    terminal_start(&a->t, args, NULL);
    terminal_expect(&a->t, "watch: edits of 1 kernel file are taken while it runs");
}

static void author_end(struct author *a)
{
    kill(a->t.pid, SIGINT);
    assert_int_equal(terminal_wait(&a->t), 130);
    terminal_finish(&a->t);
    test_tmpdir_remove(a->dir);
    free(a->text);
}

/* ---- a session, edit by edit ----------------------------------------------------------------- */

static struct author author;

static void an_edit_is_taken(void)
{
    char *text = with(author.text, "return best.y;", "return best.y + 0u;");
    save(&author, "sample_pick.comp", text);
    expect_taken(&author, "sample_pick", text);
    free(text);
}

static void a_failing_edit_is_refused(void)
{
    char *text = with(author.text, "return best.y;", "return best.z;");
    save(&author, "sample_pick.comp", text);
    terminal_expect(&author.t, "watch: refused: ");
    terminal_expect(&author.t, "sample_pick does not compile");
    terminal_expect(&author.t, " | "); /* the numbered lines */
    terminal_expect(&author.t, "return best.z;");
    free(text);
}

/* Arithmetic that is invalid on every device. */
static void impossible_arithmetic_is_refused(void)
{
    char *text =
        with(author.text, "//! OP sample_pick\n", "//! OP sample_pick\n//! PREFER 1 / 0\n");
    const char *at = strstr(text, "//! PREFER 1 / 0");
    char error[96];
    int line = 1;
    for (const char *c = text; c < at; c++)
        line += *c == '\n';
    snprintf(error, sizeof(error),
             "/sample_pick.comp:%d: PREFER cannot be evaluated: division by zero", line);
    save(&author, "sample_pick.comp", text);
    terminal_expect(&author.t, "watch: refused: ");
    terminal_expect(&author.t, error);
    free(text);
}

/* Closed in the middle, as by a copy that was interrupted. */
static void a_half_written_file_is_refused(void)
{
    char *half = checked(strndup(author.text, strlen(author.text) / 2));
    save(&author, "sample_pick.comp", half);
    terminal_expect(&author.t, "watch: refused: ");
    free(half);
}

/* While the file is open, its first half is not reported. Such a report would be the next line and
 * fail the test. */
static void a_file_is_left_alone_while_it_is_written(void)
{
    char *path = dgl_path_join(author.dir, "sample_pick.comp");
    const size_t len = strlen(author.text);
    int fd = open(path, O_WRONLY | O_TRUNC);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, author.text, len / 2), len / 2);
    fsync(fd);
    assert_int_equal(write(fd, author.text + len / 2, len - len / 2), len - len / 2);
    close(fd);
    expect_taken(&author, "sample_pick", author.text);
    free(path);
}

static void a_wrong_kernel_is_refused(void)
{
    char *text = with(author.text, "return best.y;", "return best.y ^ 1u;");
    save(&author, "sample_pick.comp", text);
    terminal_expect(&author.t, "watch: refused: ");
    terminal_expect(&author.t, "it fails its known-answer test");
    free(text);
}

static void junk_is_refused(void)
{
    static const char junk[] = "\x7f"
                               "ELF\0\1\2\3";
    test_write_file(author.dir, "sample_pick.comp", junk, sizeof(junk));
    terminal_expect(&author.t, "watch: refused: ");
}

static void a_deleted_file_brings_the_built_in_one_back(void)
{
    char *path = dgl_path_join(author.dir, "sample_pick.comp");
    unlink(path);
    expect_taken(&author, "sample_pick", author.text);
    terminal_expect(&author.t, ", the built-in one: ");
    terminal_expect(&author.t, "is gone");
    free(path);
}

/* Several temporary files are renamed to the kernel's name, one after the other: the last one is
 * used. */
static void a_storm_of_renames_ends_with_the_last(void)
{
    char *path = dgl_path_join(author.dir, "sample_pick.comp"), *text = NULL;
    for (int i = 0; i < 20; i++) {
        char remark[40], *temp = dgl_path_join(author.dir, "sample_pick.comp~");
        snprintf(remark, sizeof(remark), "// Version %d.\n//! NAME", i);
        free(text);
        text = with(author.text, "//! NAME", remark);
        save(&author, "sample_pick.comp~", text);
        assert_int_equal(rename(temp, path), 0);
        free(temp);
    }
    expect_taken(&author, "sample_pick", text);
    free(text);
    free(path);
}

static void two_edits_in_a_row_end_with_the_second(void)
{
    char *first = with(author.text, "return best.y;", "return best.y - 0u;");
    char *second = with(author.text, "return best.y;", "return best.y + 0u;");
    save(&author, "sample_pick.comp", first);
    save(&author, "sample_pick.comp", second);
    expect_taken(&author, "sample_pick", second);
    free(first);
    free(second);
}

/* A kernel beside the built-in ones, in a folder that is new too. */
static void a_new_kernel_in_a_new_folder_is_taken(void)
{
    char *folder = dgl_path_join(author.dir, "more"), *path = dgl_path_join(folder, "own.comp");
    char *text = with(author.text, "//! NAME sample_pick", "//! NAME own_pick");
    struct author inside = {.dir = folder};
    assert_int_equal(dgl_dir_make(NULL, folder), DGL_OK);
    save(&inside, "own.comp", text);
    expect_taken(&author, "own_pick", text);
    unlink(path);
    terminal_expect(&author.t, "watch: own_pick: removed: ");
    /* The removed kernel is the one in use, also if a text with another NAME was refused since. */
    char *other = with(author.text, "//! NAME sample_pick", "//! NAME embed_rows");
    save(&inside, "own.comp", text);
    expect_taken(&author, "own_pick", text);
    save(&inside, "own.comp", other);
    terminal_expect(&author.t, "watch: refused: ");
    unlink(path);
    terminal_expect(&author.t, "watch: own_pick: removed: ");
    free(other);
    free(text);
    free(path);
    free(folder);
}

static void a_lib_is_taken(void)
{
    size_t len;
    char *text = tiny_file_read("kernels/lib/sample", "step_end.glsl", &len);
    char *edited = with(text, "//", "// Mine.\n//");
    save(&author, "step_end.glsl", edited);
    expect_taken(&author, "step_end", edited);
    free(text);
    free(edited);
}

static void a_lib_that_no_kernel_splices_is_told(void)
{
    static const char text[] = "// Spare.\nuint spare(uint id) { return id; }\n";
    char *path = dgl_path_join(author.dir, "spare.glsl");
    save(&author, "spare.glsl", text);
    expect_taken(&author, "spare", text);
    terminal_expect(&author.t, "(spare, a lib that no kernel splices); ");
    unlink(path);
    terminal_expect(&author.t, "watch: spare: removed: ");
    free(path);
}

/* Returns a kernel of another name that no step of the model uses. `find` and `replace` can make it
 * wrong. free() it. */
static char *beside(const char *name, const char *find, const char *replace)
{
    char directive[100];
    snprintf(directive, sizeof(directive), "//! NAME %s", name);
    char *text = with(author.text, "//! NAME sample_pick", directive), *out = NULL;
    out = with(text, find, replace);
    free(text);
    return out;
}

static void remove_file(const char *file)
{
    char *path = dgl_path_join(author.dir, file);
    assert_int_equal(unlink(path), 0);
    free(path);
}

static void a_refused_file_holds_back_others_until_it_is_mended(void)
{
    char *bad = beside("own_pick", "//! OP sample_pick", "//! OP nothing"),
         *good = with(author.text, "return best.y;", "return best.y | 0u;"),
         *mended = beside("own_pick", "return best.y;", "return best.y - 0u;");
    save(&author, "own.comp", bad);
    terminal_expect(&author.t, "watch: refused: ");
    terminal_expect(&author.t, "OP: no operation is called nothing; there are: ");
    save(&author, "sample_pick.comp", good);
    terminal_expect(&author.t, "watch: refused: ");
    terminal_expect(&author.t, "own.comp:");
    save(&author, "own.comp", mended);
    expect_taken(&author, "sample_pick", good);
    expect_taken(&author, "own_pick", mended);
    remove_file("own.comp");
    terminal_expect(&author.t, "watch: own_pick: removed: ");
    free(bad);
    free(good);
    free(mended);
}

/* Unused kernels are compiled and tested like used ones. The model has no experts. */
static void what_serves_no_step_is_judged(void)
{
    size_t len;
    char *combine = kernel_text("moe_combine"),
         *rank = tiny_file_read("kernels/lib/math", "moe_rank.glsl", &len);
    char *texts[] = {with(combine, "+= scale * sum;", "+= scales * sum;"),
                     with(combine, "+= scale * sum;", "+= sum;"),
                     with(combine, "REQUIRE H % 4 == 0", "REQUIRE MAX_LOCAL_X > 10000000"),
                     with(combine, "+= scale * sum;", "+= sum * scale;"),
                     with(rank, "uint key_of(float logit)", "uint key_of(float logits)")};
    save(&author, "moe_combine.comp", texts[0]);
    terminal_expect(&author.t, "watch: refused: ");
    terminal_expect(&author.t, "moe_combine does not compile");
    terminal_expect(&author.t, " | ");
    save(&author, "moe_combine.comp", texts[1]);
    terminal_expect(&author.t, "watch: refused: ");
    terminal_expect(&author.t, "moe_combine.comp: it fails its known-answer test: moe_combine: ");
    save(&author, "moe_combine.comp", texts[2]);
    expect_taken(&author, "moe_combine", texts[2]);
    terminal_expect(&author.t, "moe_combine.comp: it is not compiled here: moe_combine: REQUIRE ");
    save(&author, "moe_combine.comp", texts[3]);
    expect_taken(&author, "moe_combine", texts[3]);
    save(&author, "moe_rank.glsl", texts[4]);
    terminal_expect(&author.t, "watch: refused: ");
    terminal_expect(&author.t, "moe_rank.glsl:");
    remove_file("moe_rank.glsl");
    terminal_expect(&author.t, "watch: no kernel has changed");
    remove_file("moe_combine.comp");
    terminal_expect(&author.t, "watch: moe_combine: taken ");
    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++)
        free(texts[i]);
    free(combine);
    free(rank);
}

/* Several files appear at once in a folder. */
static void come_together(const char *const (*files)[2], size_t count)
{
    struct author stage = {.dir = checked(dgl_path_join(author.dir, ".stage"))};
    char *path = dgl_path_join(author.dir, "stage");
    assert_int_equal(dgl_dir_make(NULL, stage.dir), DGL_OK);
    for (size_t i = 0; i < count; i++)
        save(&stage, files[i][0], files[i][1]);
    assert_int_equal(rename(stage.dir, path), 0);
    free(stage.dir);
    free(path);
}

static void several_files_are_one_set(void)
{
    char *wrong = beside("c_pick", "//! CONST VOCAB", "//! CONST VOCAB VOCABULARY"),
         *mended = beside("c_pick", "//! CONST VOCAB", "//! CONST VOCAB"),
         *other = kernel_text("moe_combine"),
         *good = with(other, "//! NAME moe_combine", "//! NAME b_pick");
    const char *const files[][2] = {{"b.comp", good}, {"c.comp", wrong}};
    come_together(files, 2);
    terminal_expect(&author.t, "watch: refused: ");
    terminal_expect(&author.t, "CONST: no operation supplies VOCABULARY; ");
    struct author inside = {.dir = checked(dgl_path_join(author.dir, "stage"))};
    save(&inside, "c.comp", mended);
    expect_taken(&author, "b_pick", good);
    expect_taken(&author, "c_pick", mended);
    dgl_dir_remove(inside.dir);
    terminal_expect(&author.t, "watch: b_pick: removed: ");
    terminal_expect(&author.t, "watch: c_pick: removed: ");
    free(inside.dir);
    free(other);
    free(wrong);
    free(mended);
    free(good);
}

/* The lib is right and the kernel is not: neither is taken before the kernel is mended, then both.
 */
static void a_kernel_and_its_lib_are_taken_together(void)
{
    static const char lib[] = "// Mine.\nuint own(uint id) { return id; }\n";
    char *bad =
             beside("own_pick", "//! LIB step_end\n", "//! LIB own_lib\n//! LIB step_end\n//! X\n"),
         *good = beside("own_pick", "//! LIB step_end\n", "//! LIB own_lib\n//! LIB step_end\n");
    const char *const files[][2] = {{"own.comp", bad}, {"own_lib.glsl", lib}};
    struct author inside = {.dir = checked(dgl_path_join(author.dir, "stage"))};
    come_together(files, 2);
    terminal_expect(&author.t, "watch: refused: ");
    save(&inside, "own.comp", good);
    expect_taken(&author, "own_pick", good);
    expect_taken(&author, "own_lib", lib);
    /* Without the lib the kernel has no valid text: the old kernel stays. */
    remove_file("stage/own_lib.glsl");
    terminal_expect(&author.t, "watch: refused: ");
    terminal_expect(&author.t, "there is no lib own_lib");
    dgl_dir_remove(inside.dir);
    terminal_expect(&author.t, "watch: own_pick: removed: ");
    terminal_expect(&author.t, "watch: own_lib: removed: ");
    free(inside.dir);
    free(bad);
    free(good);
}

static void a_name_that_is_there_twice(void)
{
    char *text = with(author.text, "return best.y;", "return best.y + 0u;");
    save(&author, "sample_pick.comp", text);
    expect_taken(&author, "sample_pick", text);
    save(&author, "twice.comp", text);
    terminal_expect(&author.t, "watch: refused: ");
    terminal_expect(&author.t, "the NAME sample_pick is also that of ");
    remove_file("twice.comp");
    terminal_expect(&author.t, "watch: no kernel has changed");
    free(text);
}

static void a_file_that_is_renamed_keeps_its_kernel(void)
{
    char *from = dgl_path_join(author.dir, "sample_pick.comp"),
         *to = dgl_path_join(author.dir, "renamed.comp"), wanted[1400];
    snprintf(wanted, sizeof(wanted), ", that of %s: %s is gone", to, from);
    assert_int_equal(rename(from, to), 0);
    terminal_expect(&author.t, wanted);
    assert_int_equal(rename(to, from), 0);
    snprintf(wanted, sizeof(wanted), ", that of %s: %s is gone", from, to);
    const char *line = strstr(terminal_expect(&author.t, wanted), "watch: sample_pick: taken ");
    assert_non_null(line); /* one for each of the two edits */
    assert_null(strstr(line + 1, "watch: "));
    free(from);
    free(to);
}

/* Three edits: the folder's first file is found when the folder is, the later ones by its watch. */
static void expect_edits(void)
{
    static const char *const edits[] = {"return best.y - 0u;", "return best.y | 0u;",
                                        "return best.y + 0u;"};
    for (size_t i = 0; i < sizeof(edits) / sizeof(edits[0]); i++) {
        char *text = with(author.text, "return best.y;", edits[i]);
        save(&author, "sample_pick.comp", text);
        expect_taken(&author, "sample_pick", text);
        free(text);
    }
}

static void a_folder_that_is_made_again_is_watched(void)
{
    dgl_dir_remove(author.dir);
    assert_int_equal(dgl_dir_make(NULL, author.dir), DGL_OK);
    expect_edits();
    dgl_dir_remove(author.dir);
    terminal_expect(&author.t, "is gone");
    assert_int_equal(dgl_dir_make(NULL, author.dir), DGL_OK);
    expect_edits();
}

/* The program would refuse these files at its start. They are refused until they are removed. */
static void what_is_no_file_is_refused(void)
{
    static const struct {
        const char *path, *error;
    } rows[] = {{"pipe.comp", "pipe.comp"},
                {"folder.comp", "folder.comp"},
                {"1/2/3/4/5/6/7/8/9", "a kernel directory has at most"}};
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        char *path = checked(dgl_path_join(author.dir, rows[i].path));
        assert_int_equal(i == 0 ? mkfifo(path, 0600) : (int)dgl_dir_make(NULL, path), 0);
        terminal_expect(&author.t, "watch: refused: ");
        terminal_expect(&author.t, rows[i].error);
        assert_int_equal(i == 0 ? unlink(path) : rmdir(path), 0);
        terminal_expect(&author.t, "watch: no kernel has changed");
        free(path);
    }
    expect_edits();
}

/* Fills a hidden folder with `count` kernels and renames it to `stage`. The file `wrong` has no
 * kernel. */
static void many_come(int count, const char *wrong)
{
    struct author stage = {.dir = checked(dgl_path_join(author.dir, ".stage"))};
    char *path = checked(dgl_path_join(author.dir, "stage")), name[32], file[40];
    assert_int_equal(dgl_dir_make(NULL, stage.dir), DGL_OK);
    for (int i = 0; i < count; i++) {
        snprintf(name, sizeof(name), "z%04d", i);
        snprintf(file, sizeof(file), "z%04d.comp", i);
        char *text = beside(name, "return best.y;", "return best.y + 0u;");
        save(&stage, file, strcmp(file, wrong) == 0 ? "junk" : text);
        free(text);
    }
    assert_int_equal(rename(stage.dir, path), 0);
    free(stage.dir);
    free(path);
}

static void more_files_than_are_read_are_refused(void)
{
    char *path = checked(dgl_path_join(author.dir, "stage")),
         *hidden = checked(dgl_path_join(author.dir, ".stage"));
    many_come(1001, "");
    terminal_expect(&author.t, "watch: refused: ");
    terminal_expect(&author.t, "at most 1000 files");
    assert_int_equal(rename(path, hidden), 0);
    terminal_expect(&author.t, "watch: no kernel has changed");
    dgl_dir_remove(hidden);
    free(hidden);
    free(path);
    expect_edits();
}

static void many_files_at_once_are_taken_or_refused(void)
{
    char *path = checked(dgl_path_join(author.dir, "stage")), line[100];
    struct author stage = {.dir = path};
    many_come(30, "z0020.comp");
    terminal_expect(&author.t, "watch: refused: ");
    terminal_expect(&author.t, "z0020.comp");
    char *text = beside("z0020", "return best.y;", "return best.y + 0u;");
    save(&stage, "z0020.comp", text);
    for (int i = 0; i < 30; i++) {
        snprintf(line, sizeof(line), "watch: z%04d: taken ", i);
        terminal_expect(&author.t, line);
    }
    dgl_dir_remove(path);
    terminal_expect(&author.t, "watch: z0029: removed: ");
    free(text);
    free(path);
}

/* One file is still being written when another one is saved: the set is refused, and used once the
 * first file is closed. */
static void a_file_that_was_read_half_written_heals(void)
{
    char *path = checked(dgl_path_join(author.dir, "sample_pick.comp"));
    char *own = beside("own_pick", "return best.y;", "return best.y - 0u;"),
         *text = with(author.text, "return best.y;", "return best.y - 0u;");
    int fd = open(path, O_WRONLY | O_TRUNC);
    assert_true(fd >= 0);
    save(&author, "own.comp", own);
    terminal_expect(&author.t, "watch: refused: ");
    assert_int_equal(write(fd, text, strlen(text)), strlen(text));
    close(fd);
    expect_taken(&author, "sample_pick", text);
    expect_taken(&author, "own_pick", own);
    remove_file("own.comp");
    terminal_expect(&author.t, "watch: own_pick: removed: ");
    free(path);
    free(own);
    free(text);
}

/* The link is reported once, not after every edit, and the files in the linked folder are not read.
 */
static void a_link_to_a_folder_is_told_once(void)
{
    char *path = checked(dgl_path_join(author.dir, "linked")), *target = test_tmpdir();
    char *text = with(author.text, "return best.y;", "return best.y ^ 0u;");
    test_write_file(target, "own.comp", "junk", 4);
    assert_int_equal(symlink(target, path), 0);
    terminal_expect(&author.t, "linked: a link to a folder is not followed");
    save(&author, "sample_pick.comp", author.text);
    expect_taken(&author, "sample_pick", author.text);
    save(&author, "sample_pick.comp", text);
    const char *before = terminal_expect(&author.t, "watch: sample_pick: taken ");
    if (strstr(before, "followed") || strstr(before, "refused"))
        fail_msg("said with another edit: %s", before);
    unlink(path);
    test_tmpdir_remove(target);
    free(path);
    free(text);
}

/* Locks and backups of editors: the next line is that of the next edit. */
static void hidden_files_are_left_alone(void)
{
    char *lock = checked(dgl_path_join(author.dir, ".#sample_pick.comp"));
    char *text = with(author.text, "return best.y;", "return best.y & ~0u;");
    assert_int_equal(symlink("author@host.1:2", lock), 0);
    save(&author, ".own.comp", "junk");
    save(&author, "sample_pick.comp", text);
    assert_null(strstr(terminal_expect(&author.t, "watch: sample_pick: taken "), "refused"));
    unlink(lock);
    remove_file(".own.comp");
    free(lock);
    free(text);
}

static void a_folder_that_is_moved_away_and_back_is_watched(void)
{
    char away[600];
    snprintf(away, sizeof(away), "%s-away", author.dir);
    assert_int_equal(rename(author.dir, away), 0);
    terminal_expect(&author.t, "the built-in one: ");
    terminal_expect(&author.t, "is gone");
    assert_int_equal(rename(away, author.dir), 0);
    terminal_expect(&author.t, "watch: sample_pick: taken ");
    expect_edits();
}

struct edit {
    const char *name;
    void (*make)(void);
};

static const struct edit edits[] = {
    {"an edit is taken", an_edit_is_taken},
    {"a failing edit is refused", a_failing_edit_is_refused},
    {"impossible arithmetic is refused", impossible_arithmetic_is_refused},
    {"a half-written file is refused", a_half_written_file_is_refused},
    {"a file is left alone while it is written", a_file_is_left_alone_while_it_is_written},
    {"a wrong kernel is refused", a_wrong_kernel_is_refused},
    {"junk is refused", junk_is_refused},
    {"a deleted file brings the built-in one back", a_deleted_file_brings_the_built_in_one_back},
    {"a storm of renames ends with the last", a_storm_of_renames_ends_with_the_last},
    {"two edits in a row end with the second", two_edits_in_a_row_end_with_the_second},
    {"a new kernel in a new folder is taken", a_new_kernel_in_a_new_folder_is_taken},
    {"a lib is taken", a_lib_is_taken},
    {"a lib that no kernel splices is told", a_lib_that_no_kernel_splices_is_told},
    {"a refused file holds back others until it is mended",
     a_refused_file_holds_back_others_until_it_is_mended},
    {"what serves no step is judged", what_serves_no_step_is_judged},
    {"several files are one set", several_files_are_one_set},
    {"a kernel and its lib are taken together", a_kernel_and_its_lib_are_taken_together},
    {"a NAME that is there twice", a_name_that_is_there_twice},
    {"a file that is renamed keeps its kernel", a_file_that_is_renamed_keeps_its_kernel},
    {"many files at once are taken or refused", many_files_at_once_are_taken_or_refused},
    {"more files than are read are refused", more_files_than_are_read_are_refused},
    {"a file that was read half written heals", a_file_that_was_read_half_written_heals},
    {"a link to a folder is told once", a_link_to_a_folder_is_told_once},
    {"hidden files are left alone", hidden_files_are_left_alone},
    {"what is no file is refused", what_is_no_file_is_refused},
    {"a folder that is made again is watched", a_folder_that_is_made_again_is_watched},
    {"a folder that is moved away and back is watched",
     a_folder_that_is_moved_away_and_back_is_watched},
};

static void edit_case(void **state)
{
    const struct edit *row = *state;
    row->make();
}

/* ---- other ways ------------------------------------------------------------------------------ */

static void unsafe_kernels_are_taken_as_they_are(void **state)
{
    struct author a;
    (void)state;
    author_begin(&a, "--unsafe-kernels");
    terminal_expect(&a.t, "watch: --unsafe-kernels: edits are used without known-answer tests");
    char *text = with(a.text, "return best.y;", "return best.y ^ 1u;");
    save(&a, "sample_pick.comp", text);
    expect_taken(&a, "sample_pick", text);
    author_end(&a);
    free(text);
}

/* A file named by an option, in a folder with other files that are not watched, before the first
 * message. */
static void a_chat_takes_edits_while_it_waits(void **state)
{
    struct author a = {.dir = test_tmpdir(), .text = kernel_text("sample_pick")};
    (void)state;
    save(&a, "sample_pick.comp", a.text);
    char *path = dgl_path_join(a.dir, "sample_pick.comp");
    terminal_start(&a.t,
                   (const char *const[]){"chat", "--device", "any", "--watch-kernels",
                                         "--kernel-file", path, NULL},
                   NULL);
    terminal_expect(&a.t, "watch: edits of 1 kernel file are");
    terminal_expect(&a.t, "> ");
    char *text = with(a.text, "return best.y;", "return best.y + 0u;");
    save(&a, "other.comp", "junk");
    save(&a, "sample_pick.comp", text);
    expect_taken(&a, "sample_pick", text);
    terminal_send(&a.t, "/quit\n");
    assert_int_equal(terminal_wait(&a.t), 0);
    terminal_finish(&a.t);
    free(text);
    free(path);
    free(a.text);
    test_tmpdir_remove(a.dir);
}

/* Replacements of a file named by an option, without writing to it: a link, a link's target in
 * another folder, another name of a file, a folder. */
static void a_named_file_is_followed(void **state)
{
    struct author a = {.dir = test_tmpdir(), .text = kernel_text("sample_pick")};
    struct author elsewhere = {.dir = test_tmpdir()};
    char *path = dgl_path_join(a.dir, "sample_pick.comp");
    char *target = dgl_path_join(elsewhere.dir, "mine.comp");
    char *texts[] = {with(a.text, "return best.y;", "return best.y + 0u;"),
                     with(a.text, "return best.y;", "return best.y - 0u;")};
    (void)state;
    save(&a, "sample_pick.comp", a.text);
    save(&elsewhere, "mine.comp", texts[0]);
    terminal_start(&a.t,
                   (const char *const[]){"chat", "--device", "any", "--watch-kernels",
                                         "--kernel-file", path, NULL},
                   NULL);
    terminal_expect(&a.t, "> ");
    unlink(path);
    terminal_expect(&a.t, "the built-in one: ");
    assert_int_equal(symlink(target, path), 0);
    expect_taken(&a, "sample_pick", texts[0]);
    save(&elsewhere, "mine.comp", texts[1]);
    expect_taken(&a, "sample_pick", texts[1]);
    unlink(path);
    terminal_expect(&a.t, "the built-in one: ");
    save(&elsewhere, "mine.comp", texts[0]);
    assert_int_equal(link(target, path), 0);
    expect_taken(&a, "sample_pick", texts[0]);
    unlink(path);
    terminal_expect(&a.t, "the built-in one: ");
    assert_int_equal(dgl_dir_make(NULL, path), DGL_OK);
    terminal_expect(&a.t, "watch: refused: ");
    assert_int_equal(rmdir(path), 0);
    terminal_expect(&a.t, "watch: no kernel has changed");
    save(&a, "sample_pick.comp", texts[1]);
    expect_taken(&a, "sample_pick", texts[1]);
    terminal_send(&a.t, "/quit\n");
    assert_int_equal(terminal_wait(&a.t), 0);
    terminal_finish(&a.t);
    for (int i = 0; i < 2; i++)
        free(texts[i]);
    free(path);
    free(target);
    free(a.text);
    test_tmpdir_remove(a.dir);
    test_tmpdir_remove(elsewhere.dir);
}

/* The folder of a pack that may bring kernels. */
static void kernels_of_a_pack_are_watched(void **state)
{
    struct author a = {.dir = test_tmpdir(), .text = kernel_text("sample_pick")}, inside = {0};
    char *pack = dgl_path_join(a.dir, "pack");
    struct process_result r;
    (void)state;
    process_command(&r, "convert", "tests/models/story-llama-q4_k_m", pack, NULL);
    assert_code(&r, 0);
    process_finish(&r);
    inside.dir = dgl_path_join(pack, "kernels");
    assert_int_equal(dgl_dir_make(NULL, inside.dir), DGL_OK);
    save(&inside, "sample_pick.comp", a.text);
    terminal_start(&a.t,
                   (const char *const[]){"chat", "--device", "any", "-m", pack, "--watch-kernels",
                                         "--allow-pack-kernels", NULL},
                   NULL);
    terminal_expect(&a.t, "watch: edits of 1 kernel file are");
    char *text = with(a.text, "return best.y;", "return best.y + 0u;");
    save(&inside, "sample_pick.comp", text);
    expect_taken(&a, "sample_pick", text);
    char *path = dgl_path_join(inside.dir, "sample_pick.comp");
    unlink(path);
    terminal_expect(&a.t, "the built-in one: ");
    terminal_send(&a.t, "/quit\n");
    assert_int_equal(terminal_wait(&a.t), 0);
    terminal_finish(&a.t);
    free(path);
    free(text);
    free(pack);
    free(inside.dir);
    free(a.text);
    test_tmpdir_remove(a.dir);
}

/* Only the path of the user's hints is known: both the file and its folder are new. */
static void new_hints_of_the_user_are_taken(void **state)
{
    struct author a = {.dir = test_tmpdir()}, config = {0};
    char set[4200], *path = dgl_path_join(a.dir, "dopplergl/kernels.json"), line[4400];
    (void)state;
    snprintf(set, sizeof(set), "XDG_CONFIG_HOME=%s", a.dir);
    snprintf(line, sizeof(line), "watch: no kernel file yet; %s is watched", path);
    config.dir = dgl_path_join(a.dir, "dopplergl");
    terminal_start(&a.t, (const char *const[]){"chat", "--device", "any", "--watch-kernels", NULL},
                   (const char *const[]){set, NULL});
    terminal_expect(&a.t, line);
    terminal_expect(&a.t, "> ");
    for (int i = 0; i < 2; i++) {
        static const char hints[] = "{\"attentionDecode\": \"auto\"}",
                          wrong[] = "{\"attentionDecode\": 1}";
        assert_int_equal(dgl_dir_make(NULL, config.dir), DGL_OK);
        save(&config, "kernels.json", hints);
        terminal_expect(&a.t, "watch: kernels.json: taken");
        save(&config, "kernels.json", wrong);
        terminal_expect(&a.t, "watch: refused: ");
        dgl_dir_remove(config.dir);
        terminal_expect(&a.t, "watch: kernels.json: removed: ");
    }
    terminal_send(&a.t, "/quit\n");
    assert_int_equal(terminal_wait(&a.t), 0);
    terminal_finish(&a.t);
    free(config.dir);
    free(path);
    test_tmpdir_remove(a.dir);
}

/* Reported once for each text of the hint, not with every edit. */
static void a_hint_for_nothing_is_told_once(void **state)
{
    struct author a = {.dir = test_tmpdir()}, config = {0};
    char set[4200];
    (void)state;
    snprintf(set, sizeof(set), "XDG_CONFIG_HOME=%s", a.dir);
    config.dir = dgl_path_join(a.dir, "dopplergl");
    assert_int_equal(dgl_dir_make(NULL, config.dir), DGL_OK);
    terminal_start(&a.t, (const char *const[]){"chat", "--device", "any", "--watch-kernels", NULL},
                   (const char *const[]){set, NULL});
    terminal_expect(&a.t, "> ");
#define FOR_NONE(n) "{\"variants\": {\"matmul/decode/N=" #n "\": \"matmul_decode\"}"
    save(&config, "kernels.json", FOR_NONE(77) "}");
    terminal_expect(&a.t, "the hint variants.matmul/decode/N=77=");
    save(&config, "kernels.json", FOR_NONE(77) ", \"attentionDecode\": \"auto\"}");
    terminal_expect(&a.t, "watch: kernels.json: taken");
    save(&config, "kernels.json", FOR_NONE(78) "}");
    const char *between = terminal_expect(&a.t, "N=78=");
    if (strstr(between, "N=77="))
        fail_msg("the hint for N=77 is told again: %s", between);
#undef FOR_NONE
    terminal_send(&a.t, "/quit\n");
    assert_int_equal(terminal_wait(&a.t), 0);
    terminal_finish(&a.t);
    free(config.dir);
    test_tmpdir_remove(a.dir);
}

/* If a file is written under another of its names, the folder reports no change. SIGHUP makes the
 * program read it, and later edits are compared with it. */
static void a_hangup_has_all_files_read_again(void **state)
{
    struct author a = {.dir = test_tmpdir(), .text = kernel_text("sample_pick")};
    struct author elsewhere = {.dir = test_tmpdir()};
    struct server s;
    char *path = dgl_path_join(a.dir, "sample_pick.comp"), hex[65], line[200];
    char *other = dgl_path_join(elsewhere.dir, "other");
    char *texts[] = {with(a.text, "return best.y;", "return best.y + 0u;"),
                     with(a.text, "return best.y;", "return best.y ^ 1u;")};
    static const char spare[] = "// Spare.\nuint spare(uint id) { return id; }\n";
    (void)state;
    save(&a, "sample_pick.comp", a.text);
    assert_int_equal(link(path, other), 0);
    server_start(&s,
                 (const char *const[]){"-c", "64", "--watch-kernels", "--kernel-dir", a.dir, NULL});
    save(&elsewhere, "other", texts[0]);
    kill(s.pid, SIGHUP);
    assert_true(dgl_hash_bytes(DGL_HASH_SHA256, texts[0], strlen(texts[0]), hex));
    snprintf(line, sizeof(line), "watch: sample_pick: taken %s\n", hex);
    server_wait_for(&s, line);
    server_wait_for(&s, "kernels were read again");
    /* A text in use is not reported again, and a wrong text is refused. */
    dgl_buf_finish(&s.said);
    save(&elsewhere, "other", texts[1]);
    kill(s.pid, SIGHUP);
    server_wait_for(&s, "watch: refused: ");
    server_wait_for(&s, "kernels were read again");
    save(&elsewhere, "other", texts[0]);
    dgl_buf_finish(&s.said);
    kill(s.pid, SIGHUP);
    server_wait_for(&s, "kernels were read again");
    assert_null(strstr(s.said.p, "watch: "));
    save(&a, "spare.glsl", spare);
    server_wait_for(&s, "watch: spare: taken ");
    server_end(&s);
    for (int i = 0; i < 2; i++)
        free(texts[i]);
    free(path);
    free(other);
    free(a.text);
    test_tmpdir_remove(a.dir);
    test_tmpdir_remove(elsewhere.dir);
}

/* A folder in which there is no kernel yet. */
static void an_empty_folder_is_watched(void **state)
{
    struct author a = {.dir = test_tmpdir(), .text = kernel_text("sample_pick")};
    (void)state;
    terminal_start(&a.t,
                   (const char *const[]){"chat", "--device", "any", "--watch-kernels",
                                         "--kernel-dir", a.dir, NULL},
                   NULL);
    terminal_expect(&a.t, "watch: no kernel file yet; ");
    terminal_expect(&a.t, "> ");
    save(&a, "sample_pick.comp", a.text);
    expect_taken(&a, "sample_pick", a.text);
    terminal_send(&a.t, "/quit\n");
    assert_int_equal(terminal_wait(&a.t), 0);
    terminal_finish(&a.t);
    free(a.text);
    test_tmpdir_remove(a.dir);
}

struct refused {
    const char *name;
    const char *args[12];
    int code;
    const char *error;
};

static const struct refused refusals[] = {
    {"unsafe without watching",
     {"generate", "-p", "a", "--unsafe-kernels"},
     2,
     "does nothing without --watch-kernels"},
    {"unsafe without watching, in a server",
     {"serve", "--port", "0", "--unsafe-kernels"},
     2,
     "does nothing without --watch-kernels"},
    {"with a profile",
     {"generate", "-p", "a", "--watch-kernels", "--profile", "--kernel-dir", "tests"},
     2,
     "does not go with --profile"},
    {"nothing to watch",
     {"generate", "--device", "any", "-p", "a", "-n", "1", "--watch-kernels"},
     1,
     "there is nothing to watch"},
    {"chat without anything to watch",
     {"chat", "--device", "any", "--watch-kernels"},
     1,
     "there is nothing to watch"},
};

static void refused_case(void **state)
{
    const struct refused *row = *state;
    struct process_result r;
    process_run(
        &(struct process_params){.args = row->args,
                                 .env = (const char *const[]){"XDG_CONFIG_HOME=", "HOME=", NULL}},
        &r);
    assert_code(&r, row->code);
    assert_one_error(&r, row->error);
    process_finish(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(unsafe_kernels_are_taken_as_they_are),
        cmocka_unit_test(a_chat_takes_edits_while_it_waits),
        cmocka_unit_test(a_named_file_is_followed),
        cmocka_unit_test(kernels_of_a_pack_are_watched),
        cmocka_unit_test(new_hints_of_the_user_are_taken),
        cmocka_unit_test(a_hint_for_nothing_is_told_once),
        cmocka_unit_test(a_hangup_has_all_files_read_again),
        cmocka_unit_test(an_empty_folder_is_watched),
    };
    author_begin(&author, NULL);
    int failures = test_run_table("edits", edit_case, edits);
    author_end(&author);
    failures += test_run_table("refused", refused_case, refusals);
    return failures + cmocka_run_group_tests_name("watch", tests, NULL, NULL);
}
