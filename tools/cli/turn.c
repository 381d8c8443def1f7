/* Decides if an answer continues the last message. */
#include "tools/cli/turn.h"

struct turn turn_read(const struct dgl_json *root)
{
    const bool object = dgl_json_is(root, DGL_JSON_OBJECT);
    const struct dgl_json *go_on = object ? dgl_json_get(root, "continue_final_message") : NULL,
                          *prompt = object ? dgl_json_get(root, "add_generation_prompt") : NULL,
                          *last = NULL;
    for (const struct dgl_json *v = dgl_json_first(object ? dgl_json_get(root, "messages") : root);
         v; v = dgl_json_next(v))
        last = v;
    const bool field = dgl_json_is(go_on, DGL_JSON_STRING); /* the continued member */
    const bool said = field || dgl_json_is(go_on, DGL_JSON_BOOL),
               prompted = dgl_json_is(prompt, DGL_JSON_BOOL);
    const bool text = dgl_json_type(dgl_json_get(last, "content")) != DGL_JSON_NULL &&
                      dgl_str_eq(dgl_json_str(dgl_json_get(last, "role")), "assistant") &&
                      dgl_json_count(dgl_json_get(last, "tool_calls")) == 0;
    struct turn turn = {.implied = text && !said && !prompted};
    turn.continues = turn.implied || field || dgl_json_bool(go_on);
    turn.new_answer = prompted ? dgl_json_bool(prompt) : !turn.continues;
    return turn;
}
