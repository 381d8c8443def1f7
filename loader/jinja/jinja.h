/*
 * jinja.h: interpreter for chat templates. It supports the part of Jinja that chat templates use,
 * with the settings of Hugging Face transformers (docs/templates.md). A template can read its
 * variables only: it cannot read files or the environment, and it sees a clock only if the caller
 * passes one. Limits stop templates that would run or grow without end.
 *
 * Each rendered byte has a taint: it comes from the template or from data. Filters, slices and
 * concatenation keep the taint of every byte. The caller uses it to avoid reading control tokens in
 * text that a user or a tool wrote.
 */
#ifndef DGL_LOADER_JINJA_H
#define DGL_LOADER_JINJA_H

#include <time.h>

#include "core/base/json.h"
#include "loader/text/taint.h"

struct jinja_template; /* immutable after jinja_parse; threads may share it */

/* Parses a template. `name` appears in messages; usually it is the path. Returns DGL_ERR_FORMAT for
 * invalid templates, and DGL_ERR_UNSUPPORTED for statements that chat templates do not use
 * (include, import, extends ...). Both messages name the line. The caller destroys *out. */
enum dgl_status jinja_parse(const struct dgl_log *log, const char *name, const char *text,
                            size_t len, struct jinja_template **out);
void jinja_destroy(struct jinja_template **tmpl);

/* A variable of the template. Set `trusted` for text of the model itself (bos_token, eos_token): it
 * gets the taint of the template. All other values are data, with one exception. The `role` of an
 * element of `messages` comes from the application. It is trusted if it is one plain word (letters,
 * digits, '_' and '-'), because templates build tokens from it ('<|' + message.role + '|>').
 * `messages` that are not trusted are changed as in transformers (jinja_messages.h). */
struct jinja_variable {
    struct dgl_str name;
    const struct dgl_json *value;
    bool trusted;
};

/* Limits of one render; 0 selects the default. A render that exceeds a limit returns
 * DGL_ERR_INVALID_ARG. */
struct jinja_limits {
    uint64_t steps;      /* expressions, statements, elements, 16-byte parts of text: 20 million */
    size_t output_bytes; /* of the result and of each intermediate string: 64 MiB */
    size_t memory_bytes; /* of all values: 256 MiB */
    uint32_t depth;      /* nested calls, loops and expressions: 1000, fits a stack of 1 MiB */
};

/* All text that is not from the template is data. The content and reasoning of the role `assistant`
 * is text of the model. The content of each message that the caller lists as an answer has its own
 * taint. Characters that a filter rewrites become plain data again. */
enum jinja_taint {
    JINJA_TAINT_TEMPLATE = TAINT_NONE,
    JINJA_TAINT_DATA = TAINT_DATA,
    JINJA_TAINT_MODEL = TAINT_MODEL,
    JINJA_TAINT_ANSWER = 2 * TAINT_MODEL
};
enum { JINJA_ANSWER_MARKS = 126 };
/* Taint of the message that params->answers[index] names. The values repeat after 126 answers. */
static inline uint8_t jinja_taint_of_answer(size_t index)
{
    return (uint8_t)(JINJA_TAINT_ANSWER + index % JINJA_ANSWER_MARKS * TAINT_MODEL);
}

/* Marks the end of a text that the model continues; the value is that of transformers. */
#define JINJA_CONTINUE_TAG "CONTINUE_FINAL_MESSAGE_TAG "

/* Parameters of a render; borrowed for the call. */
struct jinja_params {
    const struct jinja_variable *variables; /* the last one wins if a name repeats */
    size_t num_variables;
    const struct tm *now;  /* time of strftime_now(); NULL removes that function */
    const size_t *answers; /* indices of messages whose content gets its own taint */
    size_t num_answers;
    struct dgl_str continue_field; /* member of the last message that gets the tag, or empty */
    bool developer_is_system;      /* the template gets the role system for developer */
    struct jinja_limits limits;
};

/* Returns true if the template uses this name, such as that of a variable. */
bool jinja_reads(const struct jinja_template *tmpl, struct dgl_str name);

/* Renders a template. Appends the result to `text`, and one taint (enum jinja_taint) per byte to
 * `taint`, which may be NULL. On failure neither buffer changes. If the template raises an error,
 * returns DGL_ERR_INVALID_ARG and logs "NAME:LINE: " and the message of the template. Safe to call
 * from several threads with one template. */
enum dgl_status jinja_render(const struct dgl_log *log, const struct jinja_template *tmpl,
                             const struct jinja_params *params, struct dgl_buf *text,
                             struct dgl_buf *taint);

#endif
