/* Parses request bodies of the server, which are untrusted. Input: a byte for the path, then the
 * body. */
#include "tests/fuzz/fuzz.h"

#include <string.h>

#include "tools/serve/serve_request.h"

static void check_refusal(const struct serve_error *error)
{
    struct dgl_buf out = {0};
    struct dgl_json_doc *doc = NULL;
    FUZZ_CHECK(error->status == 400 || error->status == 500);
    FUZZ_CHECK(error->type && error->message[0] && strlen(error->param) < sizeof(error->param));
    serve_error_write(error, &out);
    FUZZ_CHECK(dgl_json_parse(NULL, "error", out.p, out.len, &doc) == DGL_OK);
    dgl_json_destroy(&doc);
    dgl_buf_finish(&out);
}

static void check_prompts(const struct serve_request *r)
{
    FUZZ_CHECK(r->num_prompts <= SERVE_MAX_CHOICES && (r->kind == SERVE_CHAT) == !r->prompts);
    for (size_t i = 0; i < r->num_prompts; i++) {
        FUZZ_CHECK(!r->prompts[i].ids || r->prompts[i].text.len == 0);
        for (size_t k = 0; k < r->prompts[i].num_ids; k++)
            FUZZ_CHECK(r->prompts[i].ids[k] >= 0);
    }
}

/* The library must accept the values of an accepted request, except those that depend on the
 * model. */
static void check_request(const struct serve_request *r)
{
    struct fuzz_log log;
    struct dgl_json_doc *doc = NULL;
    fuzz_log_init(&log);
    check_prompts(r);
    if (r->kind == SERVE_EMBEDDING || r->kind == SERVE_TOKENIZE || r->kind == SERVE_DETOKENIZE)
        return;
    fuzz_check_status(&log, dgl_sampling_check(&log.log, &r->sampling));
    FUZZ_CHECK(dgl_sampling_check(NULL, &r->sampling) == DGL_OK);
    FUZZ_CHECK(r->n >= 1 && r->n <= SERVE_MAX_CHOICES && r->num_stop <= SERVE_MAX_STOPS);
    FUZZ_CHECK(r->num_prompts * (size_t)r->n <= SERVE_MAX_CHOICES);
    FUZZ_CHECK(r->max_tokens >= DGL_TOKENS_NONE);
    FUZZ_CHECK(r->top_logprobs >= 0 && r->top_logprobs <= DGL_TOP_LOGPROBS_MAX &&
               (r->logprobs || r->top_logprobs == 0));
    for (size_t i = 0; i < r->num_stop; i++)
        FUZZ_CHECK(r->stop[i][0]);
    if (r->kind != SERVE_CHAT)
        return;
    FUZZ_CHECK(dgl_json_parse(&log.log, "messages", r->messages.p, r->messages.len, &doc) ==
               DGL_OK);
    FUZZ_CHECK(dgl_json_count(dgl_json_get(dgl_json_root(doc), "messages")) > 0);
    FUZZ_CHECK((dgl_json_get(dgl_json_root(doc), "tools") != NULL) == (r->num_functions > 0));
    for (size_t i = 0; i < r->num_functions; i++)
        FUZZ_CHECK(r->functions[i][0]);
    dgl_json_destroy(&doc);
}

void fuzz_one(struct dgl_str input)
{
    static const struct serve_defaults defaults = {.sampling = {.temperature = 1, .top_p = 1},
                                                   .seed = -1};
    const enum serve_kind kind = (enum serve_kind)(fuzz_byte(&input) % (SERVE_DETOKENIZE + 1));
    struct serve_request r;
    struct serve_error error = {0};
    if (serve_request_read(kind, &defaults, input.len ? input.p : "", input.len, &r, &error))
        check_request(&r);
    else
        check_refusal(&error);
    serve_request_finish(&r);
}
