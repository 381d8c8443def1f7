/* Values for fields that requests omit: OpenAI's, those of the model, and those of the options. */
#include <string.h>

#include "core/base/status.h"
#include "tools/cli/variables.h"
#include "tools/serve/serve.h"

static const struct dgl_sampling openai_sampling = {
    .temperature = 1, .top_p = 1, .repeat_last_n = -1, .dry_penalty_last_n = -1};

bool serve_defaults_check(const struct options *opt)
{
    const char *prefix = opt->api_prefix;
    bool ok = variables_check(opt, "serve");
    if (ok && prefix && (prefix[0] != '/' || strlen(prefix) > 64 || strpbrk(prefix, "?#% ")))
        return console_refuse("--api-prefix %s: wanted a path such as /llm", prefix);
    return ok && generation_check(opt) == DGL_OK;
}

enum dgl_status serve_defaults_open(struct serve *s)
{
    const struct options *opt = s->opt;
    struct serve_defaults *d = &s->defaults;
    enum dgl_status status = DGL_OK;
    *d = (struct serve_defaults){.sampling = openai_sampling,
                                 .seed = opt->seed,
                                 .limits_tokens = opt->tokens_given,
                                 .max_tokens = opt->tokens == 0 ? DGL_TOKENS_NONE : opt->tokens};
    TRY(dgl_model_sampling(s->engine.model, &d->sampling));
    if (!generation_lists_init(&s->lists, opt))
        TRY(DGL_ERR_INVALID_ARG);
    generation_apply_given(opt, "serve", &s->lists, &d->sampling);
    if (!variables_parse(opt, "serve", &s->variables))
        TRY(DGL_ERR_INVALID_ARG);
    d->variables = s->variables ? dgl_json_root(s->variables) : NULL;
    d->keep_reasoning = opt->reasoning_format && strcmp(opt->reasoning_format, "none") == 0;
done:
    return status;
}

void serve_defaults_close(struct serve *s)
{
    generation_lists_finish(&s->lists);
    dgl_json_destroy(&s->variables);
}
