/* Models that are loaded from a source of the caller, here memory, through the public functions. */
#include "tests/support/memory_source.h"

#include <stdlib.h>

#include "core/base/file.h"
#include "tests/support/tiny_engine.h"

#define ROOT   "store/model"
#define PROMPT 9
#define ANSWER 16

enum form { PACK, GGUF, SAFETENSORS };
struct form_case {
    const char *name;
    enum form form;
    const char *path; /* below the folder */
    int files;        /* of safetensors */
};
static const struct form_case form_cases[] = {
    {"pack", PACK, "", 0},
    {"GGUF file", GGUF, "/model.gguf", 0},
    {"folder with a GGUF file", GGUF, "", 0},
    {"safetensors, one file", SAFETENSORS, "", 1},
    {"safetensors with an index", SAFETENSORS, "", 3},
};

/* Writes a model to a new folder. */
static char *model_write(enum form form, int files)
{
    struct tiny_llama m = tiny_llama_default();
    const struct tiny_pack pack = tiny_pack_default();
    static const char template[] = "{{ messages[0].content }}";
    char *dir = test_tmpdir();
    if (form == PACK) {
        tiny_pack_write(dir, &pack);
    } else if (form == SAFETENSORS) {
        m.files = files;
        tiny_llama_write(dir, &m);
        test_write_file(dir, "chat_template.jinja", template, sizeof(template) - 1);
    } else {
        struct dgl_convert_result result = {.size = sizeof(result)};
        char *from = test_tmpdir(), *to = dgl_path_join(dir, "model.gguf");
        tiny_llama_write(from, &m);
        const struct dgl_convert_params params = {.in = from, .out = to};
        assert_int_equal(dgl_convert(NULL, &params, &result), DGL_OK);
        test_tmpdir_remove(from);
        free(to);
    }
    return dir;
}

static struct dgl_device *open_device(struct test_log *log)
{
    struct dgl_device *dev = NULL;
    test_log_init(log, DGL_LOG_WARN);
    assert_int_equal(dgl_device_create(&log->log, dgl_device_params(.select = "any"), &dev),
                     DGL_OK);
    return dev;
}

/* Loads the model and generates. */
static void greedy(struct dgl_device *dev, const struct test_log *log, const char *path,
                   const struct dgl_source *source, int32_t out[ANSWER])
{
    struct dgl_model *model = NULL;
    struct dgl_session *session = NULL;
    int32_t prompt[PROMPT];
    if (dgl_model_load(dev, dgl_model_params(.path = path, .source = source), &model) != DGL_OK)
        fail_msg("%s", log->text);
    assert_int_equal(dgl_session_create(model, NULL, &session), DGL_OK);
    tiny_ids(prompt, PROMPT, dgl_model_get_info(model)->vocab, 5);
    tiny_greedy(session, prompt, PROMPT, out, ANSWER);
    dgl_session_destroy(&session);
    dgl_model_destroy(&model);
}

static void same_tokens_as_from_files(void **state)
{
    const struct form_case *row = *state;
    struct memory_source store;
    struct test_log log;
    struct dgl_device *dev = open_device(&log);
    struct dgl_model_file *file = NULL;
    struct dgl_template *template = NULL;
    struct dgl_verify_result verified = {.size = sizeof(verified)};
    int32_t want[ANSWER], have[ANSWER];
    char *dir = model_write(row->form, row->files), path[512];
    snprintf(path, sizeof(path), "%s%s", dir, row->path);
    greedy(dev, &log, path, NULL, want);
    memory_source_move(&store, ROOT, dir);
    snprintf(path, sizeof(path), ROOT "%s", row->path);
    assert_int_equal(dgl_model_find(NULL, path), DGL_ERR_IO); /* not in the file system */
    const char *found = row->form == GGUF ? ROOT "/model.gguf" : path;

    greedy(dev, &log, path, &store.source, have);
    assert_memory_equal(have, want, sizeof(want));
    assert_true((store.hashes > 0) == (row->form == PACK));
    const struct dgl_inspect_params inspect = {.path = path, .source = &store.source};
    if (dgl_inspect(&log.log, &inspect, &file) != DGL_OK)
        fail_msg("%s", log.text);
    assert_string_equal(dgl_model_file_info(file)->path, found);
    assert_int_equal(dgl_model_file_num_templates(file), row->form == SAFETENSORS);
    dgl_model_file_destroy(&file);
    const struct dgl_template_params params = {.path = path, .source = &store.source};
    if (row->form == SAFETENSORS && dgl_template_load(&log.log, &params, &template) != DGL_OK)
        fail_msg("%s", log.text);
    dgl_template_destroy(&template);
    const struct dgl_verify_params verify = {
        .path = path, .source = &store.source, .cache_dir = ""};
    assert_int_equal(dgl_verify(NULL, &verify, &verified),
                     row->form == PACK ? DGL_OK : DGL_ERR_UNSUPPORTED);
    assert_true((verified.files > 0) == (row->form == PACK));
    dgl_device_destroy(&dev);
    memory_source_finish(&store);
}

static enum dgl_status list_a_path(void *priv, const char *folder,
                                   void (*add)(void *to, const char *name), void *to,
                                   struct dgl_error *why)
{
    (void)priv;
    (void)folder;
    (void)why;
    add(to, "sub/model.gguf");
    return DGL_OK;
}

struct failure {
    const char *name;
    enum form form;
    const char *path, *broken, *unread;
    bool list_a_path, no_read, flip; /* flip: a bit of the last file */
    enum dgl_status status;
    const char *said[2];
};
static const struct failure failures[] = {
    {.name = "absent",
     .path = "elsewhere",
     .status = DGL_ERR_IO,
     .said = {"elsewhere", "the source has no such file or folder"}},
    {.name = "a name of the Hub cache",
     .path = "org/name",
     .status = DGL_ERR_IO,
     .said = {"org/name", "the source has no such file or folder"}},
    {.name = "a failed search",
     .form = SAFETENSORS,
     .path = ROOT,
     .broken = "tokenizer.json",
     .status = DGL_ERR_IO,
     .said = {"cannot tell whether there is", "tokenizer.json"}},
    {.name = "a failed read",
     .form = SAFETENSORS,
     .path = ROOT,
     .unread = "model.safetensors",
     .status = DGL_ERR_IO,
     .said = {"model.safetensors", "the source cannot read it"}},
    {.name = "no function",
     .path = ROOT,
     .no_read = true,
     .status = DGL_ERR_INVALID_ARG,
     .said = {"dgl_source", "read"}},
    {.name = "a path in a list",
     .form = GGUF,
     .path = ROOT,
     .list_a_path = true,
     .status = DGL_ERR_FORMAT,
     .said = {"sub/model.gguf", "not a file name"}},
    {.name = "a flipped bit",
     .form = PACK,
     .path = ROOT,
     .flip = true,
     .status = DGL_ERR_INTEGRITY,
     .said = {ROOT, "damaged"}},
};

static void failure_is_reported(void **state)
{
    const struct failure *row = *state;
    struct memory_source store;
    struct test_log log;
    struct dgl_model *model = NULL;
    struct dgl_device *dev = open_device(&log);
    const char *const parts[] = {row->said[0], row->said[1]};
    memory_source_move(&store, ROOT, model_write(row->form, 1));
    store.broken = row->broken;
    store.unread = row->unread;
    if (row->list_a_path)
        store.source.list = list_a_path;
    if (row->no_read)
        store.source.read = NULL;
    for (size_t i = 0; i < store.count && row->flip; i++)
        if (dgl_str_starts(dgl_str_of(store.files[i].name), ROOT "/shard"))
            store.files[i].bytes[store.files[i].size / 2] ^= 1;
    enum dgl_status status =
        dgl_model_load(dev, dgl_model_params(.path = row->path, .source = &store.source), &model);
    assert_refusal(&log, status, row->status, parts);
    assert_null(model);
    dgl_device_destroy(&dev);
    memory_source_finish(&store);
}

int main(void)
{
    int failed = test_run_table("forms", same_tokens_as_from_files, form_cases);
    return failed + test_run_table("failures", failure_is_reported, failures);
}
