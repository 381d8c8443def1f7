/* Grammars of the answers of chat models: reasoning before the required text, and calls of
 * tools. */
#ifndef DGL_CORE_CONSTRAINT_CALLS_H
#define DGL_CORE_CONSTRAINT_CALLS_H

#include "loader/chat/chat_template.h"
#include "loader/grammar/grammar.h"
#include "loader/tokenizer/tokenizer.h"

/* Chat that an answer with a constraint belongs to. */
struct answer_form {
    const struct dgl_template *tmpl;
    const struct dgl_tokenizer *tok;
    const char *prompt_end; /* as in dgl_reply_params */
};

/* Returns true if the prompt has opened a block of reasoning. `tok` is not used. */
bool answer_form_is_open(const struct answer_form *form);
/* Returns `body` as a message for the user. */
struct gr_expr answer_form_message(struct grammar_builder *b, const struct answer_form *form,
                                   struct gr_expr body);
/* Returns `body` after the reasoning that the template's models may write first. */
struct gr_expr answer_form_lead(struct grammar_builder *b, const struct answer_form *form,
                                struct gr_expr body);
/* Sets *out to one call, or, if `several`, one or more calls, of the tools, a JSON list as in
 * OpenAI's `tools`. If `function` is not NULL, only that one is called. */
enum dgl_status answer_form_calls(struct grammar_builder *b, const struct dgl_log *log,
                                  const struct answer_form *form, struct dgl_str tools,
                                  const char *function, bool several, struct gr_expr *out);

#endif
