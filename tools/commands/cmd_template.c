/* template: renders messages to a prompt with a model's chat template. Opens no device. */
#include "core/base/json.h"
#include "core/base/status.h"
#include "tools/cli/commands.h"
#include "tools/cli/engine.h"
#include "tools/cli/input.h"
#include "tools/cli/report.h"
#include "tools/cli/screen.h"
#include "tools/cli/variables.h"

struct render {
    const struct options *opt;
    struct console console;
    const char *model;
    struct dgl_template *tmpl;
    struct dgl_render_params params;
    char *text;
    size_t len;
};

/* Prints the text, or {"text": ..., "ids": [...]}. */
static int print(const struct render *r)
{
    struct dgl_buf out = {0};
    struct dgl_tokenizer *tok = NULL;
    int32_t *ids = NULL;
    size_t count = 0;
    if (!r->opt->json) {
        struct screen screen;
        screen_init(&screen, false, r->opt->raw);
        bool ok = screen_write(&screen, r->text, r->len) && screen_end(&screen);
        screen_finish(&screen);
        return out_exit(ok && out_flush());
    }
    enum dgl_status status = DGL_OK;
    TRY(dgl_tokenizer_open(
        &r->console.log,
        dgl_tokenizer_params(.path = r->model, .override_kv = r->opt->override_kv.item), &tok));
    TRY(dgl_render_ids(&r->console.log, r->tmpl, tok, &r->params, &ids, &count));
    struct dgl_json_writer w = report_object(&out);
    dgl_jw_field_str(&w, "text", (struct dgl_str){r->text, r->len});
    report_ids(&w, "ids", ids, count);
    report_end(&w);
done:
    dgl_free(ids);
    dgl_tokenizer_destroy(&tok);
    return status == DGL_OK ? out_exit(out_buf(&out)) : exit_code(status);
}

bool command_template_check(const struct options *opt)
{
    if (!opt->messages)
        return console_refuse("template: --messages FILE.json is missing");
    if (opt->template && opt->template_name)
        return console_refuse(
            "template: --template and --template-name both choose the template, give one");
    if (opt->add_generation_prompt && opt->continue_final_message)
        return console_refuse("template: --continue-final-message continues the last message, "
                              "--add-generation-prompt begins a new one: give one of them");
    return variables_check(opt, "template");
}

int command_template(const struct options *opt)
{
    struct render r = {.opt = opt};
    struct dgl_buf file = {0}, messages = {0};
    char bundled[MODEL_PATH_MAX];
    console_init(&r.console, opt);
    if (!(r.model = model_path(opt, bundled)))
        return EXIT_FAILED;
    if (!input_slurp(opt->messages, &file)) {
        dgl_buf_finish(&file);
        return interrupted() ? EXIT_CANCELLED : EXIT_FAILED;
    }
    enum dgl_status status =
        dgl_template_load(&r.console.log,
                          dgl_template_params(.path = r.model, .override_kv = opt->override_kv.item,
                                              .file = opt->template, .name = opt->template_name),
                          &r.tmpl);
    if (status == DGL_OK)
        status = variables_add(&r.console.log, opt, (struct dgl_str){file.p, file.len}, &messages);
    r.params = (struct dgl_render_params){.messages = messages.p,
                                          .messages_len = messages.len,
                                          .messages_name = opt->messages,
                                          .add_generation_prompt = opt->add_generation_prompt,
                                          .continue_final_message = opt->continue_final_message,
                                          .now = opt->now_given ? &opt->now : NULL};
    if (status == DGL_OK)
        status = dgl_render(&r.console.log, r.tmpl, &r.params, &r.text, &r.len);
    int code = status == DGL_OK ? print(&r) : exit_code(status);
    dgl_free(r.text);
    dgl_template_destroy(&r.tmpl);
    dgl_buf_finish(&file);
    dgl_buf_finish(&messages);
    return code;
}
