/* Post-processors: TemplateProcessing for one text. ByteLevel only changes offsets, which do not
 * exist here. */
#include "loader/tokenizer/tok_post.h"

#include <stdlib.h>
#include <string.h>

#include "core/base/mem.h"
#include "loader/tokenizer/tok_model.h"
#include "loader/tokenizer/tok_steps.h"

#define MAX_IDS 1024 /* on one side of a text, per template */

static enum dgl_status fail_unsupported(struct dgl_json_reader r, const char *what,
                                        struct dgl_str value)
{
    return dgl_fail(r.log, DGL_ERR_UNSUPPORTED, "%s: post_processor: %s \"%s\" is not implemented",
                    dgl_json_name(r.doc), what, DGL_PRINTABLE_STR(value));
}

/* Reads "single". Sets *out to the ids around the text, which must occur once. */
static enum dgl_status walk_template(struct dgl_json_reader r, const struct dgl_json *template,
                                     int64_t max_id, struct tok_post *out)
{
    const struct dgl_json *single, *id, *table, *entry, *ids;
    size_t texts = 0;
    enum dgl_status status;
    TRY(dgl_json_need(r, template, "single", DGL_JSON_ARRAY, &single));
    for (const struct dgl_json *v = dgl_json_first(single); v; v = dgl_json_next(v)) {
        const struct dgl_json *special = dgl_json_get(v, "SpecialToken");
        const struct dgl_json *sequence = dgl_json_get(v, "Sequence");
        if (!special && dgl_str_eq(dgl_json_str(dgl_json_get(sequence, "id")), "A")) {
            texts++;
            continue;
        }
        if (!special)
            return dgl_json_fail(r, v, "wanted SpecialToken or Sequence A");
        struct token_ids *side = texts ? &out->behind : &out->before;
        TRY(dgl_json_need(r, special, "id", DGL_JSON_STRING, &id));
        TRY(dgl_json_need(r, template, "special_tokens", DGL_JSON_OBJECT, &table));
        TRY(dgl_json_need(r, table, dgl_json_str(id).p, DGL_JSON_OBJECT, &entry));
        TRY(dgl_json_need(r, entry, "ids", DGL_JSON_ARRAY, &ids));
        for (const struct dgl_json *i = dgl_json_first(ids); i; i = dgl_json_next(i)) {
            int64_t value;
            if (!dgl_json_i64(i, &value) || value < 0 || value > max_id)
                return dgl_json_fail(r, i, "wanted an id from 0 to %lld", (long long)max_id);
            if (side->count == MAX_IDS)
                return dgl_json_fail(r, i, "more than %d ids around a text", MAX_IDS);
            TRY(token_ids_add(r.log, side, (int32_t)value));
        }
    }
    if (texts != 1)
        return fail_unsupported(r, "a template that has the text not once, but",
                                dgl_str_of(texts ? "more often" : "never"));
done:
    return status;
}

struct post_load {
    struct tok_post *out;
    int64_t max_id;
};

static enum dgl_status add_step(struct dgl_json_reader r, const struct dgl_json *json,
                                struct dgl_str type, void *ctx)
{
    const struct post_load *load = ctx;
    struct tok_post inner = *load->out, outer = {0};
    enum dgl_status status;
    if (dgl_str_eq(type, "ByteLevel"))
        return DGL_OK;
    if (!dgl_str_eq(type, "TemplateProcessing"))
        return fail_unsupported(r, "type", type);

    /* The ids of a later processor are placed around those of the earlier ones. */
    TRY(walk_template(r, json, load->max_id, &outer));
    TRY(token_ids_append(r.log, &outer.before, inner.before.ids, inner.before.count));
    TRY(token_ids_append(r.log, &load->out->behind, outer.behind.ids, outer.behind.count));
    load->out->before = outer.before;
    outer.before = inner.before;
done:
    tok_post_finish(&outer);
    return status;
}

enum dgl_status tok_post_load(struct dgl_json_reader r, const struct dgl_json *json, int64_t max_id,
                              struct tok_post *out)
{
    struct post_load load = {out, max_id};
    *out = (struct tok_post){0};
    return tok_steps_load(r, json, "processors", add_step, &load);
}

void tok_post_finish(struct tok_post *post)
{
    free(post->before.ids);
    free(post->behind.ids);
    *post = (struct tok_post){0};
}
