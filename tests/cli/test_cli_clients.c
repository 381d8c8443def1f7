/* Requests of OpenAI's Python client and of llm, byte for byte as recorded by `make check-clients
 * RECORD=tests/data/clients`, sent to a running server. Each answer has the recorded status and the
 * recorded fields with their types. */
#include <dirent.h>
#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

#include "core/base/file.h"
#include "tests/support/server.h"
#include "tests/support/test.h"

#define VECTORS "tests/data/clients"

static struct server server;

/* Lines "PATH TYPE", each once, of a value and all below it; elements of a list share a path. */
static void write_shape(const struct dgl_json *value, const char *path, struct dgl_buf *lines)
{
    static const char *const types[] = {
        [DGL_JSON_NULL] = "null",     [DGL_JSON_BOOL] = "bool",   [DGL_JSON_NUMBER] = "number",
        [DGL_JSON_STRING] = "string", [DGL_JSON_ARRAY] = "array", [DGL_JSON_OBJECT] = "object"};
    struct dgl_buf line = {0}, below = {0};
    const bool list = dgl_json_is(value, DGL_JSON_ARRAY);
    dgl_buf_printf(&line, "\n%s %s\n", path, types[dgl_json_type(value)]);
    if (!strstr(lines->p, line.p))
        dgl_buf_puts(lines, line.p + 1);
    for (const struct dgl_json *v = dgl_json_first(value); v; v = dgl_json_next(v)) {
        const struct dgl_str key = dgl_json_key(v);
        below.len = 0;
        dgl_buf_printf(&below, "%s%s%.*s", path, list ? "[]" : ".", (int)key.len, key.p);
        write_shape(v, below.p, lines);
    }
    dgl_buf_finish(&line);
    dgl_buf_finish(&below);
}

static void add_shape(const char *text, size_t len, struct dgl_buf *lines)
{
    struct dgl_json_doc *doc = NULL;
    if (dgl_json_parse(NULL, "answer", text, len, &doc) != DGL_OK)
        fail_msg("not JSON: %.*s", (int)len, text);
    write_shape(dgl_json_root(doc), "$", lines);
    dgl_json_destroy(&doc);
}

static char *vector(const char *name, const char *suffix, size_t *len)
{
    char path[512];
    char *text = NULL;
    snprintf(path, sizeof(path), VECTORS "/%s%s", name, suffix);
    if (dgl_file_slurp(NULL, path, 1 << 20, &text, len) != DGL_OK)
        fail_msg("%s cannot be read", path);
    return text;
}

struct row {
    const char *name; /* of both files, without their suffixes */
};

static void test_request(void **state)
{
    const struct row *row = *state;
    size_t len, shape_len;
    char *request = vector(row->name, ".request", &len);
    char *shape = vector(row->name, ".shape", &shape_len);
    struct dgl_buf held = {0}, lines = {0}, missing = {0};
    struct reply r;
    const int fd = server_connect(&server);
    assert_true(server_send(fd, request, len));
    server_receive(fd, &held, &r);
    assert_int_equal(held.len, 0);
    close(fd);
    struct dgl_str rest = {shape, shape_len}, line;
    assert_true(dgl_str_split(&rest, '\n', &line));
    if (r.status != (int)strtol(shape, NULL, 10))
        fail_msg("status %d, wanted %.*s: %s", r.status, (int)line.len, line.p, r.body);
    dgl_buf_puts(&lines, "\n");
    if (strstr(r.head, "text/event-stream")) {
        struct dgl_str body = {r.body, r.len}, event;
        while (body.len > 0 && dgl_str_split(&body, '\n', &event))
            if (dgl_str_eq(event, "data: [DONE]"))
                dgl_buf_puts(&lines, "[DONE]\n");
            else if (dgl_str_starts(event, "data: "))
                add_shape(event.p + 6, event.len - 6, &lines);
    } else {
        add_shape(r.body, r.len, &lines);
    }
    size_t wanted = 0;
    while (rest.len > 0 && dgl_str_split(&rest, '\n', &line)) {
        struct dgl_buf whole = {0};
        dgl_buf_printf(&whole, "\n%.*s\n", (int)line.len, line.p);
        if (line.len > 0 && !strstr(lines.p, whole.p))
            dgl_buf_puts(&missing, whole.p);
        wanted += line.len > 0;
        dgl_buf_finish(&whole);
    }
    assert_true(wanted > 2);
    if (missing.len > 0)
        fail_msg("the answer has no\n%s\nbut\n%s", missing.p, lines.p);
    reply_finish(&r);
    dgl_buf_finish(&held);
    dgl_buf_finish(&lines);
    dgl_buf_finish(&missing);
    free(request);
    free(shape);
}

static int is_request(const struct dirent *entry)
{
    return dgl_str_ends(dgl_str_of(entry->d_name), ".request");
}

int main(void)
{
    struct dirent **found = NULL;
    const int count = scandir(VECTORS, &found, is_request, alphasort);
    if (count <= 0)
        return 1;
    struct row *rows = checked(calloc((size_t)count, sizeof(*rows)));
    for (int i = 0; i < count; i++) {
        *strrchr(found[i]->d_name, '.') = '\0';
        rows[i].name = found[i]->d_name;
    }
    /* The bundled model's own template does not read tools. */
    server_start(&server, (const char *const[]){"-c", "512", "--template",
                                                "tests/data/templates/tools.jinja", NULL});
    int failures =
        test_run_rows("clients: request", test_request, rows, (size_t)count, sizeof(*rows));
    failures += server_stop(&server, SIGTERM) != 0;
    server_finish(&server);
    for (int i = 0; i < count; i++)
        free(found[i]);
    free(found);
    free(rows);
    return failures;
}
