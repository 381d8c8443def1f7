/*
 * jinja.h: chat templates. An interpreter for the part of Jinja that templates of chat models use,
 * as Hugging Face sets it up (docs/templates.md). A template sees its variables and nothing else:
 * no files, no environment, no clock that the caller did not hand in. Every render has limits, so
 * that no template runs or grows for ever.
 *
 * A rendered byte carries taint: it stems from the template, or from data. Taint goes through
 * filters, slices and concatenation byte by byte, so that text that a user or a tool wrote is never
 * taken for a control token.
 */
#ifndef DGL_LOADER_JINJA_H
#define DGL_LOADER_JINJA_H

#include <time.h>

#include "core/base/json.h"

struct jinja_template; /* immutable after jinja_parse: may be shared by threads */

/* `name` is what messages call the template, usually its path. Text that is no template is
 * DGL_ERR_FORMAT, a statement that is not part of chat templates (include, import, extends ...)
 * DGL_ERR_UNSUPPORTED; both name the line. */
enum dgl_status jinja_parse(const struct dgl_log *log, const char *name, const char *text,
                            size_t len, struct jinja_template **out);
void jinja_destroy(struct jinja_template **tmpl);

/* A variable of the template, `name: value`. What is `trusted` is the model's own text (bos_token
 * and its kin), and counts as the template's. Anything else is data, with one exception: the `role`
 * of an element of `messages` is the word of the application, when it is one plain word (letters,
 * digits, '_' and '-'), because templates build tokens of it ('<|' + message.role + '|>'). */
struct jinja_variable {
    struct dgl_str name;
    const struct dgl_json *value;
    bool trusted;
};

/* What one render may use; 0 means the default. Beyond it the render is DGL_ERR_INVALID_ARG. */
struct jinja_limits {
    uint64_t steps; /* expressions, statements, elements and 16-byte parts of text: 20 million */
    size_t output_bytes; /* of the result, and of any text on the way to it: 64 MiB */
    size_t memory_bytes; /* of all values: 256 MiB */
    uint32_t depth;      /* nesting of calls, loops and expressions: 1000, for stacks of 1 MiB */
};

/* Whatever is not the template's is data. The contents of messages that the caller names as answers
 * have taint of their own; characters that were rewritten on the way are plain data again. */
enum jinja_taint { JINJA_TAINT_TEMPLATE = 0, JINJA_TAINT_DATA = 1, JINJA_TAINT_ANSWER = 2 };
enum { JINJA_ANSWER_MARKS = 254 };
/* Of the content of the answer params->answers[index]; the taint of later ones repeat. */
static inline uint8_t jinja_taint_of_answer(size_t index)
{
    return (uint8_t)(JINJA_TAINT_ANSWER + index % JINJA_ANSWER_MARKS);
}

/* Borrowed during the call. */
struct jinja_params {
    const struct jinja_variable *variables; /* of two with one name the later one counts */
    size_t num_variables;
    const struct tm *now;  /* what strftime_now() tells; NULL = there is no such function */
    const size_t *answers; /* indices of `messages` whose content is to be told from other data */
    size_t num_answers;
    struct jinja_limits limits;
};

/* Appends the text to `text`, and one taint (enum jinja_taint) per byte to `taint` (NULL: not
 * wanted). On failure both are as before. A template that raises gives DGL_ERR_INVALID_ARG; the
 * logged line is "NAME:LINE: " and the template's own words. */
enum dgl_status jinja_render(const struct dgl_log *log, const struct jinja_template *tmpl,
                             const struct jinja_params *params, struct dgl_buf *text,
                             struct dgl_buf *taint);

#endif
