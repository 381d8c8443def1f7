/* Reads answers of models, which may be hostile. Input: a byte for the template, a byte of options,
 * a byte for the size of the pieces; text that the answer continues and a NUL byte; then the
 * answer. Pieces of any size give the same content, reasoning and calls. */
#include "tests/fuzz/fuzz.h"

#include <string.h>

#include "loader/chat/chat_template.h"
#include "loader/chat/reply.h"

/* Signs of each family, with and without reasoning. */
static const char *const templates[] = {
    "",
    "<tool_call>",
    "<tool_call><think>",
    "<|start_header_id|>ipython<|end_header_id|>",
    "[TOOL_CALLS]<think>",
    "<|channel|>",
};

struct heard {
    struct dgl_buf text; /* kinds, names and texts; adjacent texts of a kind are joined */
    size_t told;         /* bytes of text */
    int open;
};

static bool hear(void *priv, const struct dgl_reply_part *part)
{
    struct heard *h = priv;
    const bool call = part->kind == DGL_REPLY_CALL;
    struct dgl_json_doc *doc = NULL;
    FUZZ_CHECK(call ? part->name && part->name[0] : part->len > 0);
    if (call) {
        FUZZ_CHECK(dgl_json_parse(NULL, "A", part->text, part->len, &doc) == DGL_OK &&
                   dgl_json_is(dgl_json_root(doc), DGL_JSON_OBJECT));
        dgl_json_destroy(&doc);
    }
    if (call || h->open != (int)part->kind + 1)
        dgl_buf_printf(&h->text, "\n%d %s %s ", (int)part->kind, call ? part->name : "",
                       call && part->id ? part->id : "");
    h->open = call ? 0 : (int)part->kind + 1;
    dgl_buf_append(&h->text, part->text, part->len);
    h->told += call ? 0 : part->len;
    return true;
}

static void read_reply(unsigned tmpl, unsigned flags, const char *continues, struct dgl_str answer,
                       size_t size, struct heard *out)
{
    static const char *const functions[] = {"f", "g"};
    const struct dgl_str text =
        dgl_str_of(templates[tmpl % (sizeof(templates) / sizeof(templates[0]))]);
    const struct dgl_reply_params params = {.prompt_end = flags & 1 ? "<think>" : NULL,
                                            .continues = flags & 2 ? continues : NULL,
                                            .calls = flags & 4,
                                            .functions = functions,
                                            .num_functions = flags & 8 ? 2 : 0,
                                            .keep_reasoning = flags & 16,
                                            .part_cb = hear,
                                            .priv = out};
    struct dgl_reply *reply = NULL;
    FUZZ_CHECK(reply_create(NULL, reply_format_find(text), reply_format_thinks(text), &params,
                            &reply) == DGL_OK);
    for (size_t at = 0; at < answer.len; at += size) {
        const size_t left = answer.len - at;
        FUZZ_CHECK(reply_push(reply, (struct dgl_str){answer.p + at, left < size ? left : size},
                              false) == DGL_OK);
    }
    FUZZ_CHECK(reply_push(reply, (struct dgl_str){"", 0}, true) == DGL_OK);
    reply_destroy(&reply);
    FUZZ_CHECK(out->told <= answer.len);
}

void fuzz_one(struct dgl_str input)
{
    const unsigned tmpl = fuzz_byte(&input), flags = fuzz_byte(&input), size = fuzz_byte(&input);
    const struct dgl_str begun = fuzz_section(&input);
    struct heard whole = {0}, cut = {0};
    struct dgl_buf continues = {0};
    dgl_buf_append(&continues, begun.p, begun.len);
    dgl_buf_puts(&continues, "");
    read_reply(tmpl, flags, continues.p, input, input.len + 1, &whole);
    read_reply(tmpl, flags, continues.p, input, size + 1, &cut);
    FUZZ_CHECK(whole.text.len == cut.text.len &&
               (whole.text.len == 0 || memcmp(whole.text.p, cut.text.p, cut.text.len) == 0));
    dgl_buf_finish(&continues);
    dgl_buf_finish(&whole.text);
    dgl_buf_finish(&cut.text);
}
