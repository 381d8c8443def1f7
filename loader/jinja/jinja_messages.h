/* jinja_messages.h: the changes of transformers' apply_chat_template() to `messages`. */
#ifndef DGL_LOADER_JINJA_MESSAGES_H
#define DGL_LOADER_JINJA_MESSAGES_H

#include "loader/jinja/jinja_value.h"

/* Changes the messages before a render. Members that are null are removed. The names of reasoning
 * are filled from each other. If params->continue_field is set, JINJA_CONTINUE_TAG is appended to
 * that member of the last message. Roles, texts of the model and answers get their taint (see
 * jinja.h). */
bool jinja_prepare_messages(struct jinja_run *run, const struct jinja_params *params,
                            struct jinja_value *messages);

#endif
