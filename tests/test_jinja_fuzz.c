/* Templates damaged at random: whatever comes out, it comes out within the limits and without
 * undefined behaviour
 * (`make san` looks for that). The seed of a case is its row. */
#include "tests/support/jinja_render.h"

#include <stdlib.h>

enum { rounds = 400 };

struct row {
    const char *name;
    uint64_t seed;
};
static const struct row rows[] = {
    {"seed 1", 1}, {"seed 2", 2}, {"seed 3", 3}, {"seed 4", 4},   {"seed 5", 5},   {"seed 6", 6},
    {"seed 7", 7}, {"seed 8", 8}, {"seed 9", 9}, {"seed 10", 10}, {"seed 11", 11}, {"seed 12", 12},
};

static struct dgl_json_doc *corpus;

static struct dgl_str pick(uint64_t *seed, const struct dgl_json **variables)
{
    const struct dgl_json *all = dgl_json_root(corpus);
    const struct dgl_json *c = dgl_json_at(all, test_rand(seed) % dgl_json_count(all));
    if (variables)
        *variables = dgl_json_get(c, "variables");
    return dgl_json_str(dgl_json_get(c, "template"));
}

/* Words of the language, so that damage often still parses. */
static const char *const words[] = {
    "{{",        "}}",      "{%",
    "%}",        "{#",      "#}",
    "-%}",       "{%-",     " if ",
    " else ",    "endif",   "for ",
    " in ",      "endfor",  "set ",
    "macro ",    "(",       ")",
    "[",         "]",       "{",
    "}",         "|",       ".",
    ",",         ":",       "~",
    "**",        "//",      "%",
    "==",        " is ",    " not ",
    "loop",      "'",       "\"",
    "\\",        "1e999",   "9223372036854775807",
    "-1",        "0",       "none",
    "true",      "range",   "tojson",
    "join",      "sort",    "map",
    "batch",     "slice",   "format",
    "split",     "replace", "indent",
    "namespace", "caller",  "recursive",
    "varargs",   "\n",      " ",
    "\xC3\xA9",  "",
};

static void insert_word(struct dgl_buf *text, uint64_t *seed, size_t at)
{
    const char *word = words[test_rand(seed) % (sizeof(words) / sizeof(words[0]))];
    struct dgl_buf out = {0};
    dgl_buf_append(&out, text->p, at);
    dgl_buf_puts(&out, word);
    dgl_buf_append(&out, text->p + at, text->len - at);
    dgl_buf_finish(text);
    *text = out;
}

/* A part of one template in the place of a part of another. */
static void splice(struct dgl_buf *text, uint64_t *seed, size_t at)
{
    struct dgl_str other = pick(seed, NULL);
    size_t start = other.len ? test_rand(seed) % other.len : 0;
    size_t len = other.len ? test_rand(seed) % (other.len - start + 1) : 0;
    text->len = at;
    dgl_buf_append(text, other.p + start, len);
}

static void damage(struct dgl_buf *text, uint64_t *seed)
{
    for (uint64_t n = test_rand(seed) % 4 + 1; n; n--) {
        size_t at = text->len ? test_rand(seed) % text->len : 0;
        switch (test_rand(seed) % 5) {
        case 0:
            if (text->len)
                text->p[at] = (char)test_rand(seed);
            break;
        case 1:
            text->len = at;
            break;
        case 2:
            splice(text, seed, at);
            break;
        default:
            insert_word(text, seed, at);
        }
    }
}

static void survives_damage(void **state)
{
    const struct row *row = *state;
    uint64_t seed = row->seed;
    size_t rendered = 0;
    const struct jinja_limits limits = {
        .steps = 20000, .output_bytes = 1 << 16, .memory_bytes = 1 << 22, .depth = 200};
    for (int i = 0; i < rounds; i++) {
        const struct dgl_json *variables;
        struct dgl_str original = pick(&seed, &variables);
        struct dgl_buf text = {0};
        struct jinja_rendered got;
        dgl_buf_append(&text, original.p, original.len);
        damage(&text, &seed);
        jinja_render_objects((struct dgl_str){text.p, text.len}, &variables, 1, 0, &limits, &got);
        bool ok = got.status == DGL_OK;
        if (got.log.errors != (ok ? 0 : 1))
            fail_msg("%.*s: %d lines in the log", (int)text.len, text.p, got.log.errors);
        rendered += ok;
        jinja_rendered_finish(&got);
        dgl_buf_finish(&text);
    }
    assert_true(rendered > rounds / 20); /* damage that always kills shows nothing */
}

int main(void)
{
    if (dgl_json_load(NULL, "tests/templates/cases.json", 1 << 24, &corpus) != DGL_OK) {
        print_error("tests/templates/cases.json cannot be read\n");
        return 1;
    }
    int failed = test_run_table("damage", survives_damage, rows);
    dgl_json_destroy(&corpus);
    return failed;
}
