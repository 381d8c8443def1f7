/* tokenize: text to ids and back, one JSON object per line or one text at a time. No device. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/json.h"
#include "core/base/log.h"
#include "core/base/mem.h"
#include "core/base/status.h"
#include "tools/cli/commands.h"
#include "tools/cli/engine.h"
#include "tools/cli/input.h"
#include "tools/cli/report.h"

struct tokenize {
    const struct options *opt;
    struct console console;
    struct dgl_tokenizer *tok;
};

static enum dgl_status encode(const struct tokenize *t, const char *name, struct dgl_str text,
                              bool special, int32_t **ids, size_t *count)
{
    return dgl_encode(&t->console.log, t->tok, text.p, text.len,
                      dgl_encode_params(.add_special = special, .source = name,
                                        .no_parse_special = t->opt->no_parse_special),
                      ids, count);
}

/* Ids, their spellings in the vocabulary, and their parts of the text. */
struct pieces {
    const struct tokenize *t;
    const int32_t *ids;
    size_t count;
    size_t *ends;
    char *text;
    size_t text_len;
};

static enum dgl_status pieces_init(const struct tokenize *t, const int32_t *ids, size_t count,
                                   struct pieces *out)
{
    *out = (struct pieces){.t = t, .ids = ids, .count = count};
    out->ends = dgl_malloc((count + 1) * sizeof(*out->ends));
    if (!out->ends)
        return dgl_fail_memory(&t->console.log, "pieces", count);
    return dgl_decode_pieces(&t->console.log, t->tok, ids, count, out->ends, &out->text,
                             &out->text_len);
}

static void pieces_finish(struct pieces *p)
{
    free(p->ends);
    dgl_free(p->text);
}

static struct dgl_str piece_spelling(const struct pieces *p, size_t i)
{
    size_t len;
    const char *text = dgl_token_spelling(p->t->tok, p->ids[i], &len);
    return (struct dgl_str){text ? text : "", len};
}

static struct dgl_str piece_text(const struct pieces *p, size_t i)
{
    size_t start = i ? p->ends[i - 1] : 0;
    return (struct dgl_str){p->text + start, p->ends[i] - start};
}

/* "pieces": [{"id":..., "token":..., "text":...}] */
static enum dgl_status write_pieces(const struct tokenize *t, struct dgl_json_writer *w,
                                    const int32_t *ids, size_t count)
{
    struct pieces pieces;
    enum dgl_status status = DGL_OK;
    TRY(pieces_init(t, ids, count, &pieces));
    dgl_jw_field_array(w, "pieces");
    for (size_t i = 0; i < count; i++) {
        dgl_jw_object(w);
        dgl_jw_field_i64(w, "id", ids[i]);
        dgl_jw_field_str(w, "token", piece_spelling(&pieces, i));
        dgl_jw_field_str(w, "text", piece_text(&pieces, i));
        dgl_jw_end_object(w);
    }
    dgl_jw_end_array(w);
done:
    pieces_finish(&pieces);
    return status;
}

/* Prints a line per id, separated by tabs: the id, and its spelling and its text as JSON
 * strings. */
static enum dgl_status print_pieces(const struct tokenize *t, const int32_t *ids, size_t count,
                                    struct dgl_buf *out)
{
    struct pieces pieces;
    enum dgl_status status = DGL_OK;
    TRY(pieces_init(t, ids, count, &pieces));
    for (size_t i = 0; i < count; i++) {
        struct dgl_str parts[2] = {piece_spelling(&pieces, i), piece_text(&pieces, i)};
        dgl_buf_printf(out, "%d", ids[i]);
        for (size_t k = 0; k < 2; k++) {
            struct dgl_json_writer w = dgl_json_writer(out, 0);
            dgl_buf_putc(out, '\t');
            dgl_jw_str(&w, parts[k]);
        }
        dgl_buf_putc(out, '\n');
    }
done:
    pieces_finish(&pieces);
    return status;
}

/* Writes {"ids":[...],"ids_special":[...]}. With --pieces also the pieces of ids_special. */
static enum dgl_status write_both(const struct tokenize *t, const char *name, struct dgl_str text,
                                  struct dgl_buf *out)
{
    static const char *const key[2] = {"ids", "ids_special"};
    struct dgl_json_writer w = dgl_json_writer(out, 0);
    int32_t *ids[2] = {NULL, NULL};
    size_t count[2];
    enum dgl_status status = DGL_OK;
    dgl_jw_object(&w);
    for (int i = 0; i < 2; i++) {
        TRY(encode(t, name, text, i == 1, &ids[i], &count[i]));
        report_ids(&w, key[i], ids[i], count[i]);
    }
    if (t->opt->pieces)
        TRY(write_pieces(t, &w, ids[1], count[1]));
    report_end(&w);
done:
    dgl_free(ids[0]);
    dgl_free(ids[1]);
    return status;
}

/* Reads the ids of a line. The library ignores ids outside the vocabulary, so a warning names
 * them. */
static enum dgl_status read_ids(const struct tokenize *t, struct dgl_json_reader r,
                                const struct dgl_json *root, struct id_list *out)
{
    const struct dgl_json *array = NULL;
    int64_t first = 0;
    size_t unknown = 0;
    enum dgl_status status = dgl_json_need(r, root, "ids", DGL_JSON_ARRAY, &array);
    if (status != DGL_OK)
        return status;
    free(out->ids);
    out->ids = dgl_malloc((dgl_json_count(array) + 1) * sizeof(*out->ids));
    out->count = 0;
    if (!out->ids)
        return dgl_fail_memory(r.log, "ids", dgl_json_count(array) * sizeof(*out->ids));
    for (const struct dgl_json *v = dgl_json_first(array); v; v = dgl_json_next(v)) {
        int64_t id;
        size_t len;
        if (!dgl_json_i64(v, &id))
            return dgl_json_fail(r, v, "an id is not a whole number");
        if (id >= 0 && id <= INT32_MAX && dgl_token_spelling(t->tok, (int32_t)id, &len))
            out->ids[out->count++] = (int32_t)id;
        else if (unknown++ == 0)
            first = id;
    }
    if (unknown)
        dgl_warn(&t->console.log,
                 "%s: id %lld is no token's, the vocabulary has ids 0 to %d; %zu left out",
                 dgl_json_name(r.doc), (long long)first, dgl_tokenizer_max_id(t->tok), unknown);
    return DGL_OK;
}

static enum dgl_status one_line(const struct tokenize *t, const char *name, struct dgl_str line,
                                struct dgl_buf *out)
{
    struct dgl_json_doc *doc = NULL;
    struct id_list ids = {0};
    const struct dgl_json *text = NULL;
    char *decoded = NULL;
    size_t len = 0;
    enum dgl_status status = DGL_OK;
    TRY(dgl_json_parse(&t->console.log, name, line.p, line.len, &doc));
    struct dgl_json_reader r = {&t->console.log, doc};
    const struct dgl_json *root = dgl_json_root(doc);
    if (!dgl_json_is(root, DGL_JSON_OBJECT))
        TRY(dgl_json_fail(r, root, "%s, wanted {\"%s\": ...}",
                          dgl_json_type_name(dgl_json_type(root)),
                          t->opt->decode ? "ids" : "text"));
    if (t->opt->decode) {
        TRY(read_ids(t, r, root, &ids));
        TRY(dgl_decode(&t->console.log, t->tok, ids.ids, ids.count, t->opt->skip_special, &decoded,
                       &len));
        struct dgl_json_writer w = report_object(out);
        dgl_jw_field_str(&w, "text", (struct dgl_str){decoded, len});
        report_end(&w);
    } else {
        TRY(dgl_json_need(r, root, "text", DGL_JSON_STRING, &text));
        TRY(write_both(t, name, dgl_json_str(text), out));
    }
done:
    dgl_free(decoded);
    free(ids.ids);
    dgl_json_destroy(&doc);
    return status;
}

static int all_lines(const struct tokenize *t)
{
    struct dgl_buf line = {0}, out = {0};
    enum dgl_status status = DGL_OK;
    bool ok = true;
    char name[48];
    for (size_t n = 1; ok && !interrupted() && input_line(&line); n++) {
        if (line.len == 0)
            continue;
        snprintf(name, sizeof(name), "line %zu", n);
        TRY(one_line(t, name, (struct dgl_str){line.p, line.len}, &out));
        ok = out_buf(&out);
    }
    if (line.failed)
        status = dgl_fail_memory(&t->console.log, "line", line.len);
done:
    dgl_buf_finish(&out);
    dgl_buf_finish(&line);
    if (interrupted())
        return EXIT_CANCELLED;
    return status != DGL_OK ? exit_code(status) : out_exit(ok);
}

/* Without --jsonl: tokenizes one text. Prints its ids on one line, or with --json one object like
 * those of --jsonl. */
static int one_text(const struct tokenize *t)
{
    struct dgl_buf text = {0}, out = {0};
    int32_t *ids = NULL;
    size_t count = 0;
    enum dgl_status status = DGL_ERR_INVALID_ARG;
    if (t->opt->prompt)
        dgl_buf_puts(&text, t->opt->prompt);
    else if (!input_slurp("-", &text))
        return interrupted() ? EXIT_CANCELLED : EXIT_FAILED;
    struct dgl_str whole = {text.p ? text.p : "", text.len};
    if (!input_is_utf8("tokenize: the text", whole))
        goto done;
    if (t->opt->json) {
        TRY(write_both(t, NULL, whole, &out));
        goto done;
    }
    TRY(encode(t, NULL, whole, true, &ids, &count));
    if (t->opt->pieces) {
        TRY(print_pieces(t, ids, count, &out));
        goto done;
    }
    for (size_t i = 0; i < count; i++)
        dgl_buf_printf(&out, "%s%d", i ? "," : "", ids[i]);
    dgl_buf_putc(&out, '\n');
done:;
    int code = status == DGL_OK ? out_exit(out_buf(&out)) : exit_code(status);
    dgl_buf_finish(&out);
    dgl_buf_finish(&text);
    dgl_free(ids);
    return code;
}

bool command_tokenize_check(const struct options *opt)
{
    if ((opt->jsonl || opt->decode) && opt->prompt)
        return console_refuse(
            "tokenize: --jsonl and --decode read standard input, -p does not go with "
            "them");
    if (opt->decode && opt->pieces)
        return console_refuse(
            "tokenize: --pieces shows ids of texts, it does not go with --decode");
    return true;
}

int command_tokenize(const struct options *opt)
{
    struct tokenize t = {.opt = opt};
    console_init(&t.console, opt);
    char bundled[MODEL_PATH_MAX];
    bool lines = opt->jsonl || opt->decode;
    const char *path = model_path(opt, bundled);
    if (!path)
        return EXIT_FAILED;
    enum dgl_status status = dgl_tokenizer_open(
        &t.console.log, dgl_tokenizer_params(.path = path, .override_kv = opt->override_kv.item),
        &t.tok);
    int code = exit_code(status);
    if (status == DGL_OK)
        code = lines ? all_lines(&t) : one_text(&t);
    dgl_tokenizer_destroy(&t.tok);
    return code;
}
