/* tokenize: text to ids and back, one JSON object per line or one text at a time. No device. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/json.h"
#include "tools/commands.h"
#include "tools/engine.h"
#include "tools/input.h"
#include "tools/report.h"

struct tokenize {
    const struct options *opt;
    struct console console;
    struct dgl_tokenizer *tok;
};

static enum dgl_status encode(const struct tokenize *t, struct dgl_str text, bool special,
                              int32_t **ids, size_t *count)
{
    return dgl_encode(
        t->tok, text.p, text.len,
        dgl_encode_params(.add_special = special, .no_parse_special = t->opt->no_parse_special),
        ids, count);
}

/* {"ids":[...],"ids_special":[...]} */
static enum dgl_status write_both(const struct tokenize *t, struct dgl_str text,
                                  struct dgl_buf *out)
{
    static const char *const key[2] = {"ids", "ids_special"};
    struct dgl_json_writer w = dgl_json_writer(out, 0);
    enum dgl_status st = DGL_OK;
    dgl_jw_object(&w);
    for (int i = 0; i < 2 && st == DGL_OK; i++) {
        int32_t *ids = NULL;
        size_t count = 0;
        st = encode(t, text, i == 1, &ids, &count);
        if (st == DGL_OK)
            report_ids(&w, key[i], ids, count);
        dgl_free(ids);
    }
    dgl_jw_end_object(&w);
    dgl_buf_putc(out, '\n');
    return st;
}

static enum dgl_status read_ids(struct dgl_json_reader r, const struct dgl_json *root,
                                struct id_list *out)
{
    const struct dgl_json *array = NULL;
    enum dgl_status st = dgl_json_need(r, root, "ids", DGL_JSON_ARRAY, &array);
    if (st != DGL_OK)
        return st;
    free(out->ids);
    out->ids = malloc((dgl_json_count(array) + 1) * sizeof(*out->ids));
    out->count = 0;
    if (!out->ids)
        return dgl_fail_memory(r.log, "ids", dgl_json_count(array) * sizeof(*out->ids));
    for (const struct dgl_json *v = dgl_json_first(array); v; v = dgl_json_next(v)) {
        int64_t id;
        if (!dgl_json_i64(v, &id))
            return dgl_json_fail(r, v, "an id is not a whole number");
        /* Ids outside any vocabulary are ignored by the decoder, these too. */
        out->ids[out->count++] = id < 0 || id > INT32_MAX ? -1 : (int32_t)id;
    }
    return DGL_OK;
}

static enum dgl_status write_decoded(const struct tokenize *t, const struct id_list *ids,
                                     struct dgl_buf *out)
{
    char *text = NULL;
    size_t len = 0;
    enum dgl_status st =
        dgl_decode(t->tok, ids->ids, ids->count, t->opt->skip_special, &text, &len);
    if (st == DGL_OK) {
        struct dgl_json_writer w = dgl_json_writer(out, 0);
        dgl_jw_object(&w);
        dgl_jw_key(&w, "text");
        dgl_jw_str(&w, (struct dgl_str){text, len});
        dgl_jw_end_object(&w);
        dgl_buf_putc(out, '\n');
    }
    dgl_free(text);
    return st;
}

static enum dgl_status one_line(const struct tokenize *t, const char *name, struct dgl_str line,
                                struct dgl_buf *out)
{
    struct dgl_json_doc *doc = NULL;
    struct id_list ids = {0};
    const struct dgl_json *text = NULL;
    enum dgl_status st = dgl_json_parse(&t->console.log, name, line.p, line.len, &doc);
    if (st != DGL_OK)
        return st;
    struct dgl_json_reader r = {&t->console.log, doc};
    if (t->opt->decode) {
        st = read_ids(r, dgl_json_root(doc), &ids);
        if (st == DGL_OK)
            st = write_decoded(t, &ids, out);
    } else {
        st = dgl_json_need(r, dgl_json_root(doc), "text", DGL_JSON_STRING, &text);
        if (st == DGL_OK)
            st = write_both(t, dgl_json_str(text), out);
    }
    free(ids.ids);
    dgl_json_destroy(&doc);
    return st;
}

static int all_lines(const struct tokenize *t)
{
    struct dgl_buf line = {0};
    enum dgl_status st = DGL_OK;
    bool ok = true;
    char name[48];
    for (size_t n = 1; st == DGL_OK && ok && !interrupted() && input_line(&line); n++) {
        struct dgl_buf out = {0};
        if (line.len == 0)
            continue;
        snprintf(name, sizeof(name), "line %zu", n);
        st = one_line(t, name, (struct dgl_str){line.p, line.len}, &out);
        if (st == DGL_OK)
            ok = out_buf(&out);
        else
            dgl_buf_finish(&out);
    }
    if (line.failed)
        st = dgl_fail_memory(&t->console.log, "line", line.len);
    dgl_buf_finish(&line);
    if (interrupted())
        return EXIT_CANCELLED;
    return st != DGL_OK ? exit_code(st) : out_exit(ok);
}

/* Without --jsonl: one text, its ids on one line (or the same object with --json). */
static int one_text(const struct tokenize *t)
{
    struct dgl_buf text = {0}, out = {0};
    int32_t *ids = NULL;
    size_t count = 0;
    enum dgl_status st;
    if (t->opt->prompt)
        dgl_buf_puts(&text, t->opt->prompt);
    else if (!input_slurp("-", &text))
        return interrupted() ? EXIT_CANCELLED : EXIT_FAILED;
    struct dgl_str whole = {text.p ? text.p : "", text.len};
    if (t->opt->json) {
        st = write_both(t, whole, &out);
    } else {
        st = encode(t, whole, true, &ids, &count);
        for (size_t i = 0; i < count; i++)
            dgl_buf_printf(&out, "%s%d", i ? "," : "", ids[i]);
        dgl_buf_putc(&out, '\n');
    }
    int code = st == DGL_OK ? out_exit(out_buf(&out)) : exit_code(st);
    dgl_buf_finish(&out);
    dgl_buf_finish(&text);
    dgl_free(ids);
    return code;
}

int command_tokenize(const struct options *opt)
{
    struct tokenize t = {.opt = opt};
    console_init(&t.console, opt);
    char bundled[MODEL_PATH_MAX];
    bool lines = opt->jsonl || opt->decode;
    if (lines && opt->prompt) {
        console_error("tokenize: --jsonl and --decode read standard input, -p does not go with "
                      "them");
        return EXIT_USAGE;
    }
    const char *path = model_path(opt, bundled);
    if (!path)
        return EXIT_FAILED;
    enum dgl_status st = dgl_tokenizer_load(&t.console.log, path, &t.tok);
    int code = exit_code(st);
    if (st == DGL_OK)
        code = lines ? all_lines(&t) : one_text(&t);
    dgl_tokenizer_destroy(&t.tok);
    return code;
}
