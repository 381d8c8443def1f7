/* Values for fields that requests omit: OpenAI's, those of the model, and those of the options. */
#include <string.h>

#include "core/base/status.h"
#include "tools/serve/serve.h"

static const struct dgl_sampling openai_sampling = {
    .temperature = 1, .top_p = 1, .repeat_last_n = -1, .dry_penalty_last_n = -1};

/* Parses --chat-template-kwargs. */
static bool read_variables(const struct options *opt, struct dgl_json_doc **doc)
{
    static const char name[] = "--chat-template-kwargs";
    const char *text = opt->template_kwargs;
    struct dgl_error why = {""};
    if (dgl_json_parse(&(const struct dgl_log){.error = &why}, name, text, strlen(text), doc) !=
        DGL_OK)
        return console_refuse("%s", why.text);
    const struct dgl_json *root = dgl_json_root(*doc);
    if (!dgl_json_is(root, DGL_JSON_OBJECT))
        return console_refuse("%s: %s, wanted an object such as {\"enable_thinking\": false}", name,
                              dgl_json_type_name(dgl_json_type(root)));
    static const char *const own[] = {"messages", "tools", "add_generation_prompt",
                                      "continue_final_message"};
    for (size_t i = 0; i < sizeof(own) / sizeof(own[0]); i++)
        if (dgl_json_get(root, own[i]))
            return console_refuse("%s: %s comes with each request", name, own[i]);
    return true;
}

bool serve_defaults_check(const struct options *opt)
{
    struct dgl_json_doc *doc = NULL;
    const char *prefix = opt->api_prefix;
    bool ok = !opt->template_kwargs || read_variables(opt, &doc);
    dgl_json_destroy(&doc);
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
    if (opt->template_kwargs) {
        if (!read_variables(opt, &s->variables))
            TRY(DGL_ERR_INVALID_ARG);
        d->variables = dgl_json_root(s->variables);
    }
    d->keep_reasoning = opt->reasoning_format && strcmp(opt->reasoning_format, "none") == 0;
done:
    return status;
}

void serve_defaults_close(struct serve *s)
{
    generation_lists_finish(&s->lists);
    dgl_json_destroy(&s->variables);
}
