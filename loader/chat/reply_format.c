/* Table of tool call formats, for reply.c. Each model family was trained on one; its chat template
 * shows which. Sources: the templates that Meta, Mistral, Qwen, Nous Research and OpenAI publish
 * with their models, and OpenAI's description of harmony. */
#include "loader/chat/reply_format.h"

#include <stddef.h>
#include <string.h>

/* The first row whose `sign` the template contains is used: a template may quote tags of another
 * family further down. */
static const struct reply_format formats[] = {
    {.name = "harmony",
     .sign = "<|channel|>",
     .channels = true,
     .tokens = {"<|start|>", "<|channel|>", "<|constrain|>", "<|message|>", "<|end|>", "<|call|>",
                "<|return|>"}},
    {.name = "mistral",
     .sign = "[TOOL_CALLS]",
     .open = "[TOOL_CALLS]",
     .args = "[ARGS]",
     .id = "[CALL_ID]",
     .tokens = {"[TOOL_CALLS]", "[ARGS]", "[CALL_ID]"}},
    {.name = "hermes",
     .sign = "<tool_call>",
     .open = "<tool_call>",
     .close = "</tool_call>",
     .tokens = {"<tool_call>", "</tool_call>"}},
    {.name = "llama3",
     .sign = "<|start_header_id|>ipython<|end_header_id|>",
     .open = "<|python_tag|>",
     .alone = true,
     .tokens = {"<|python_tag|>"}},
};

static bool has(struct dgl_str text, const char *part)
{
    return text.len > 0 && memmem(text.p, text.len, part, strlen(part)) != NULL;
}

const struct reply_format *reply_format_find(struct dgl_str tmpl)
{
    for (size_t i = 0; i < sizeof(formats) / sizeof(formats[0]); i++)
        if (has(tmpl, formats[i].sign))
            return &formats[i];
    return NULL;
}

bool reply_format_thinks(struct dgl_str tmpl)
{
    return has(tmpl, REPLY_THINK_OPEN) || has(tmpl, REPLY_THINK_CLOSE);
}
