/* turn.h: whether an answer continues the last message of a conversation. */
#ifndef DGL_TOOLS_TURN_H
#define DGL_TOOLS_TURN_H

#include "core/base/json.h"

struct turn {
    bool continues;  /* the answer continues the last message */
    bool implied;    /* only because the last message is an assistant's text */
    bool new_answer; /* the prompt ends with the start of a message */
};

/* Reads `continue_final_message` and `add_generation_prompt` of `root`, an object. Members of
 * another type, null and missing members count as omitted. If both are omitted, an assistant's text
 * at the end of `messages` is continued, as in llama-server. `root` may be an array of messages. */
struct turn turn_read(const struct dgl_json *root);

#endif
