/* Converts a model to a pack: open, plan, write shards, text files and manifest, publish. */
#include "loader/convert/convert.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "core/base/log.h"
#include "core/base/mem.h"
#include "loader/convert/convert_plan.h"
#include "loader/convert/convert_rowless.h"
#include "loader/convert/gguf_export.h"
#include "loader/rdrr/chat_files.h"
#include "loader/rdrr/rdrr_format.h"
#include "loader/tensor/model_files.h"

#define TO_PACK "rdrr"
#define TO_GGUF "gguf"

/* State of one conversion; convert_model() releases all of it. */
struct job {
    const struct dgl_log *log;
    const struct dgl_convert_params *params;
    struct convert_recipe recipe;
    uint64_t shard_bytes;
    enum dgl_hash_kind hash;
    struct dgl_model_file *model;
    struct convert_folder folder;
    struct convert_plan plan;
    struct rdrr_writer *writer;
    struct convert_copy copies[RDRR_MAX_COPIED];
    size_t num_copies;
    struct dgl_arena names; /* file names of chat templates */
};

static bool wants_gguf(const struct dgl_convert_params *p)
{
    static const char ending[] = ".gguf";
    const size_t len = strlen(p->out), end = sizeof(ending) - 1;
    if (p->to)
        return strcmp(p->to, TO_GGUF) == 0;
    return len > end && strcasecmp(p->out + len - end, ending) == 0;
}

static enum dgl_status job_options(struct job *job)
{
    const struct dgl_convert_params *p = job->params;
    const struct {
        const char *option, *why;
        bool given;
    } of_packs[] = {{"q4k-layout", "has one layout", p->q4k_layout},
                    {"fuse-gate-up", "has one layout", p->fuse_gate_up},
                    {"transpose-weights", "has one layout", p->transpose_weights},
                    {"hash", "carries no hashes", p->hash},
                    {"shard-size", "has no shards", p->shard_bytes > 0}};
    if (!p->in || !p->out || !*p->out)
        return dgl_fail(job->log, DGL_ERR_INVALID_ARG, "convert: input and output are required");
    enum dgl_status status = convert_recipe_init(job->log, p, &job->recipe);
    if (status != DGL_OK)
        return status;
    if (p->to && strcmp(p->to, TO_PACK) != 0 && strcmp(p->to, TO_GGUF) != 0)
        return dgl_fail(job->log, DGL_ERR_INVALID_ARG,
                        "convert: to is \"%s\", wanted " TO_PACK " or " TO_GGUF, p->to);
    for (size_t i = 0; i < sizeof(of_packs) / sizeof(of_packs[0]) && wants_gguf(p); i++) {
        if (of_packs[i].given)
            return dgl_fail(job->log, DGL_ERR_INVALID_ARG,
                            "convert: %s is for packs, and a GGUF file %s; leave it out, or make "
                            "a pack (--to rdrr)",
                            of_packs[i].option, of_packs[i].why);
    }
    if (p->threads < 0)
        return dgl_fail(job->log, DGL_ERR_INVALID_ARG,
                        "convert: threads is %d, 0 is one per processor", p->threads);
    job->hash = DGL_HASH_SHA256;
    if (p->hash && !dgl_hash_parse_name(p->hash, &job->hash))
        return dgl_fail(job->log, DGL_ERR_INVALID_ARG,
                        "convert: hash is \"%s\", wanted sha256 or blake3", p->hash);
    job->shard_bytes = p->shard_bytes ? p->shard_bytes : RDRR_SHARD_BYTES;
    if (job->shard_bytes % RDRR_ALIGN)
        return dgl_fail(job->log, DGL_ERR_INVALID_ARG,
                        "convert: shards of %" PRIu64 " bytes, wanted a multiple of %" PRIu64,
                        job->shard_bytes, RDRR_ALIGN);
    return DGL_OK;
}

static enum dgl_status open_input(struct job *job)
{
    const struct dgl_convert_params *p = job->params;
    struct model_open_params open = {.path = p->in,
                                     .verify = true,
                                     .override_kv = p->override_kv,
                                     .progress_cb = p->progress_cb,
                                     .progress_priv = p->progress_priv};
    enum dgl_status status;
    TRY(model_file_open(job->log, &open, &job->model));
    TRY(model_file_write_tokenizer(job->log, job->model));
    TRY(convert_drop_rowless(job->log, job->model, wants_gguf(p)));
    if (job->model->hint_pinned)
        dgl_warn(job->log,
                 "%s: its pinned kernel hints were made for other weights and are left out",
                 job->model->path);
    if (p->text_only && !(job->model->desc.parts & PART_OTHER_MODES))
        TRY(dgl_fail(job->log, DGL_ERR_INVALID_ARG,
                     "convert: text-only was given, but %s is a text model already",
                     job->model->path));
done:
    return status;
}

static enum dgl_status write_file(const struct dgl_log *log, const char *dir, const char *name,
                                  const char *text, size_t len)
{
    struct dgl_atomic_file *file = NULL;
    char *path = dgl_path_join(dir, name);
    if (!path)
        return dgl_fail_memory(log, name, strlen(dir));
    enum dgl_status status;
    TRY(dgl_atomic_create(log, path, &file));
    TRY(dgl_atomic_write(file, text, len));
    TRY(dgl_atomic_commit(&file));
done:
    dgl_atomic_abort(&file);
    free(path);
    return status;
}

/* Adds a text to the pack; `label` is for messages. */
static enum dgl_status add_text(struct job *job, const char *label, const char *name,
                                const char *text, size_t len)
{
    if (job->num_copies == RDRR_MAX_COPIED)
        return dgl_fail(job->log, DGL_ERR_UNSUPPORTED,
                        "%s: a pack has room for %d text files, chat templates among them; take "
                        "those that are not needed away",
                        label, RDRR_MAX_COPIED);
    struct convert_copy *copy = &job->copies[job->num_copies];
    copy->name = name;
    copy->size = len;
    if (!dgl_hash_bytes(DGL_HASH_SHA256, text, len, copy->sha256))
        return dgl_fail(job->log, DGL_ERR_NO_MEMORY, "%s: cannot compute its sha256", label);
    enum dgl_status status = write_file(job->log, job->folder.temp, name, text, len);
    if (status == DGL_OK)
        job->num_copies++;
    return status;
}

static enum dgl_status copy_text(struct job *job, const char *from, const char *name)
{
    char *text = NULL;
    size_t len = 0;
    enum dgl_status status = dgl_file_slurp(job->log, from, RDRR_MAX_COPIED_BYTES, &text, &len);
    if (status == DGL_OK)
        status = add_text(job, from, name, text, len);
    free(text);
    return status;
}

/* Copies a chat template that has a file of its own, under the name it has in packs. */
static enum dgl_status copy_template(void *priv, const char *file, struct dgl_str name)
{
    struct job *job = priv;
    const char *flat = dgl_arena_printf(&job->names, CHAT_FILE_PREFIX "%.*s" CHAT_FILE_SUFFIX,
                                        (int)name.len, name.p);
    char *from = dgl_path_join(job->model->path, file);
    enum dgl_status status = flat && from
                                 ? copy_text(job, from, flat)
                                 : dgl_fail_memory(job->log, file, strlen(job->model->path));
    free(from);
    return status;
}

static enum dgl_status copy_texts(struct job *job)
{
    const struct dgl_model_file *m = job->model;
    /* Opening the model has loaded these, and convert_drop_rowless() may have changed them. */
    const struct {
        const char *name, *text;
        size_t len;
    } loaded[] = {{FILE_TOKENIZER, m->tokenizer_json, m->tokenizer_json_len},
                  {FILE_TOKENIZER_CONFIG, m->tokenizer_config_json, m->tokenizer_config_len},
                  {FILE_SPECIAL_TOKENS, m->special_tokens_json, m->special_tokens_len},
                  {FILE_ADDED_TOKENS, m->added_tokens_json, m->added_tokens_len}};
    char *from = NULL;
    enum dgl_status status = DGL_OK;
    for (size_t i = 0; rdrr_copied_files[i]; i++) {
        if (strcmp(rdrr_copied_files[i], FILE_MODULES) == 0)
            continue; /* add_modules() adds them with the files of folders */
        free(from);
        from = dgl_path_join(job->model->path, rdrr_copied_files[i]);
        if (!from)
            TRY(dgl_fail_memory(job->log, rdrr_copied_files[i], strlen(job->model->path)));
        const char *text = NULL;
        for (size_t k = 0; k < sizeof(loaded) / sizeof(loaded[0]) && !text; k++) {
            if (strcmp(loaded[k].name, rdrr_copied_files[i]) == 0 && loaded[k].text) {
                text = loaded[k].text;
                TRY(add_text(job, from, rdrr_copied_files[i], text, loaded[k].len));
            }
        }
        if (!text && dgl_path_exists(from))
            TRY(copy_text(job, from, rdrr_copied_files[i]));
    }
    TRY(chat_files_each(job->log, job->model->source, job->model->path,
                        job->model->format == MODEL_RDRR, copy_template, job));
done:
    free(from);
    return status;
}

/* A GGUF file has no text files. The texts made from its keys are written instead. */
static enum dgl_status write_texts(struct job *job)
{
    const struct dgl_model_file *m = job->model;
    enum dgl_status status = DGL_OK;
    if (m->tokenizer_json)
        TRY(add_text(job, m->path, FILE_TOKENIZER, m->tokenizer_json, m->tokenizer_json_len));
    if (m->tokenizer_config_json)
        TRY(add_text(job, m->path, FILE_TOKENIZER_CONFIG, m->tokenizer_config_json,
                     m->tokenizer_config_len));
    if (m->generation_config_json)
        TRY(add_text(job, m->path, FILE_GENERATION_CONFIG, m->generation_config_json,
                     m->generation_config_len));
done:
    return status;
}

static enum dgl_status add_modules(struct job *job)
{
    const struct dgl_model_file *m = job->model;
    if (!m->modules_json)
        return DGL_OK;
    return add_text(job, m->path, FILE_MODULES, m->modules_json, m->modules_len);
}

static enum dgl_status pack_begin(void *priv, uint64_t *offset)
{
    return rdrr_writer_begin(priv, offset);
}

static enum dgl_status pack_write(void *priv, const void *bytes, size_t len)
{
    return rdrr_writer_write(priv, bytes, len);
}

enum dgl_status convert_check(const struct dgl_log *log, const struct dgl_convert_params *params)
{
    struct job job = {.log = log, .params = params};
    return job_options(&job);
}

enum dgl_status convert_model(const struct dgl_log *log, const struct dgl_convert_params *params,
                              struct dgl_convert_result *out)
{
    struct job job = {.log = log, .params = params};
    struct dgl_buf text = {0};
    enum dgl_status status;
    *out = (struct dgl_convert_result){0};
    TRY(job_options(&job));
    if (wants_gguf(params)) {
        TRY(open_input(&job));
        TRY(gguf_export(log, params, &job.recipe, job.model, out));
        goto done;
    }

    /* All refusals happen before large files are written. */
    TRY(convert_folder_begin(log, params->out, params->force, &job.folder));
    TRY(open_input(&job));
    TRY(convert_plan_init(log, job.model, &job.recipe, &job.plan));
    TRY(convert_plan_check(log, &job.plan, params));
    TRY(convert_plan_arrange(log, job.model, params, &job.plan));
    TRY(convert_plan_check_fast(log, &job.plan, params));
    convert_plan_warn_padded(log, &job.plan, job.model->path);
    TRY(job.model->format == MODEL_GGUF ? write_texts(&job) : copy_texts(&job));
    TRY(add_modules(&job));

    struct rdrr_writer_params writer = {
        .dir = job.folder.temp, .shard_bytes = job.shard_bytes, .hash = job.hash};
    TRY(rdrr_writer_create(log, &writer, &job.writer));
    struct convert_work work = {.log = log,
                                .model = job.model,
                                .threads = params->threads,
                                .fast = job.recipe.fast,
                                .sink = {pack_begin, pack_write, job.writer}};
    struct convert_progress progress = {
        .cb = params->progress_cb, .priv = params->progress_priv, .total = job.plan.bytes_in};
    for (size_t i = 0; i < job.plan.count; i++)
        TRY(convert_tensor(&work, &job.plan.items[i], &progress));
    TRY(rdrr_writer_end(job.writer));

    struct convert_manifest manifest = {.model = job.model,
                                        .plan = &job.plan,
                                        .writer = job.writer,
                                        .copies = job.copies,
                                        .num_copies = job.num_copies,
                                        .shard_bytes = job.shard_bytes,
                                        .hash = job.hash};
    TRY(convert_manifest_write(log, &manifest, &text));
    TRY(write_file(log, job.folder.temp, RDRR_MANIFEST, text.p, text.len));
    TRY(convert_folder_publish(log, &job.folder));
    *out = (struct dgl_convert_result){.tensors = job.plan.count,
                                       .bytes_in = job.plan.bytes_in,
                                       .bytes_out = rdrr_writer_size(job.writer)};
done:
    dgl_buf_finish(&text);
    rdrr_writer_destroy(&job.writer);
    convert_plan_finish(&job.plan);
    /* Closing the model first frees descriptors, which removing an unfinished folder needs. */
    model_file_close(&job.model);
    convert_folder_finish(&job.folder);
    dgl_arena_finish(&job.names);
    return status;
}
