/* jinja_text.h: building a text and its taint. */
#ifndef DGL_LOADER_JINJA_TEXT_H
#define DGL_LOADER_JINJA_TEXT_H

#include "loader/jinja/jinja_value.h"

/* `{0}` is empty. Taint is kept per byte only once two bytes differ in it. */
struct jinja_text {
    struct dgl_buf bytes, taint;
    bool mixed, data;
};

/* Both report a text that passes the limit. */
bool jinja_text_put(struct jinja_run *run, struct jinja_text *text, struct dgl_str part, bool data);
bool jinja_text_add(struct jinja_run *run, struct jinja_text *text,
                    const struct jinja_value *string);
/* One taint per byte, whatever they are; false: out of memory. */
bool jinja_text_write_taint(const struct jinja_text *text, struct dgl_buf *out);
/* Ends the text. With ok, its value; `ok` or a fault is returned, so that builders end with
 * "return jinja_text_end(run, &text, ok, out)". */
bool jinja_text_end(struct jinja_run *run, struct jinja_text *text, bool ok,
                    struct jinja_value *out);

/* str(value) and repr(value) appended. */
bool jinja_text_add_str(struct jinja_run *run, struct jinja_text *text,
                        const struct jinja_value *value);
bool jinja_text_add_repr(struct jinja_run *run, struct jinja_text *text,
                         const struct jinja_value *value);
/* A float as Python prints it: the fewest digits that read back as the same number. */
void jinja_print_float(struct dgl_buf *out, double value);
/* str(value): a text stays what it is. */
bool jinja_to_text(struct jinja_run *run, const struct jinja_value *value, struct jinja_value *out);

#endif
