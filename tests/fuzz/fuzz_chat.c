/* Converts a conversation to ids: user text stays plain text, answers keep their ids. Input: a byte
 * for the tokenizer; a template and the JSON of messages, each followed by a NUL byte; then the ids
 * of answers, two bytes each, distributed over every second message. */
#include "tests/fuzz/fuzz.h"

#include <stdlib.h>
#include <string.h>

#include "core/base/mem.h"
#include "loader/chat/chat_template.h"
#include "loader/tokenizer/tokenizer.h"

enum { max_answers = 4 };

static size_t count_messages(struct dgl_str messages)
{
    struct dgl_json_doc *doc = NULL;
    if (dgl_json_parse(NULL, "M", messages.p, messages.len, &doc) != DGL_OK)
        return 0;
    const struct dgl_json *root = dgl_json_root(doc), *list = dgl_json_get(root, "messages");
    size_t count = dgl_json_count(list ? list : root);
    dgl_json_destroy(&doc);
    return count;
}

static enum dgl_status create_template(struct fuzz_log *log, struct dgl_str text,
                                       struct dgl_template **out)
{
    struct chat_source source;
    chat_source_init(&source);
    enum dgl_status status = chat_source_add(&log->log, &source, "T", DGL_STR(CHAT_DEFAULT), text);
    if (status == DGL_OK)
        status = chat_source_add_token(&log->log, &source, "bos_token", DGL_STR("<s>"));
    if (status == DGL_OK)
        status = chat_template_create(&log->log, &source, dgl_template_params(.path = "M"), out);
    chat_source_finish(&source);
    return status;
}

static void render(struct fuzz_log *log, const struct dgl_template *tmpl,
                   const struct dgl_tokenizer *tok, struct dgl_str messages, struct dgl_str rest)
{
    struct dgl_answer answers[max_answers];
    size_t total = rest.len / 2, num_answers = 0, most = count_messages(messages) / 2;
    int32_t *said = dgl_new_array(int32_t, total), *ids = NULL;
    size_t count = 0;
    FUZZ_CHECK(said);
    for (size_t i = 0; i < total; i++) {
        said[i] = (int32_t)fuzz_byte(&rest);
        said[i] |= (int32_t)(fuzz_byte(&rest) << 8);
    }
    for (; num_answers < most && num_answers < max_answers; num_answers++) {
        size_t from = total * num_answers / max_answers,
               to = total * (num_answers + 1) / max_answers;
        answers[num_answers] = (struct dgl_answer){num_answers * 2 + 1, said + from, to - from};
    }
    static const char word[] = "continue_final_message";
    const bool continues = memmem(messages.p, messages.len, word, sizeof(word) - 1) != NULL;
    static const struct tm now = {.tm_year = 125, .tm_mon = 5, .tm_mday = 15};
    enum dgl_status status = dgl_render_ids(
        &log->log, tmpl, tok,
        dgl_render_params(.messages = messages.p, .messages_len = messages.len,
                          .add_generation_prompt = !continues, .map_developer = true, .now = &now,
                          .answers = answers, .num_answers = num_answers),
        &ids, &count);
    fuzz_check_status(log, status);
    FUZZ_CHECK((status == DGL_OK) == (ids != NULL));
    dgl_free(ids);
    free(said);
}

void fuzz_one(struct dgl_str input)
{
    struct dgl_template *tmpl = NULL;
    struct fuzz_log log;
    const struct dgl_tokenizer *tok = fuzz_tokenizer(fuzz_byte(&input));
    struct dgl_str text = fuzz_section(&input), messages = fuzz_section(&input);
    if (!messages.len) /* a length of 0 would mean strlen() */
        return;
    fuzz_log_init(&log);
    enum dgl_status status = create_template(&log, text, &tmpl);
    fuzz_check_status(&log, status);
    if (status == DGL_OK)
        render(&log, tmpl, tok, messages, input);
    dgl_template_destroy(&tmpl);
}
