/* Errors of drivers' GLSL compilers in the terms of kernel files: which file, line and column. */
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "kernels/format/kernel_excerpt.h"
#include "kernels/kernels.h"

enum { SHOWN = 8, MAX_TEXT = 400 };

/* ---- one line of a driver -------------------------------------------------------------------- */

static bool take_word(struct dgl_str *rest, const char *word)
{
    size_t len = strlen(word);
    if (rest->len < len || strncasecmp(rest->p, word, len) != 0)
        return false;
    *rest = dgl_str_trim((struct dgl_str){rest->p + len, rest->len - len});
    return true;
}

static bool take_char(struct dgl_str *rest, char c)
{
    if (!rest->len || *rest->p != c)
        return false;
    rest->p++;
    rest->len--;
    return true;
}

static bool take_number(struct dgl_str *rest, uint32_t *out)
{
    uint64_t value;
    size_t len = 0;
    while (len < rest->len && rest->p[len] >= '0' && rest->p[len] <= '9')
        len++;
    if (!dgl_parse_u64((struct dgl_str){rest->p, len}, UINT32_MAX, &value))
        return false;
    *out = (uint32_t)value;
    rest->p += len;
    rest->len -= len;
    return true;
}

/* C1503, L0001: what drivers call a kind of error. */
static bool take_code(struct dgl_str *rest)
{
    size_t len = 1;
    while (len < rest->len && rest->p[len] >= '0' && rest->p[len] <= '9')
        len++;
    if (len != 5 || len == rest->len || rest->p[0] < 'A' || rest->p[0] > 'Z' || rest->p[len] != ':')
        return false;
    *rest = dgl_str_trim((struct dgl_str){rest->p + len + 1, rest->len - len - 1});
    return true;
}

bool kernel_message_parse(struct dgl_str text, struct kernel_message *out)
{
    struct dgl_str rest = dgl_str_trim(text);
    uint32_t source;
    *out = (struct kernel_message){0};
    /* glslang, ANGLE, Adreno, PowerVR: the severity first. */
    bool warning = take_word(&rest, "WARNING:");
    if (!warning)
        take_word(&rest, "ERROR:");
    if (!take_number(&rest, &source))
        return false;
    if (take_char(&rest, '(')) { /* NVIDIA: 0(12) */
        if (!take_number(&rest, &out->line) || !take_char(&rest, ')'))
            return false;
    } else { /* 0:12, Mesa 0:12(5), with columns 0:12:5 */
        if (!take_char(&rest, ':') || !take_number(&rest, &out->line))
            return false;
        struct dgl_str before = rest;
        bool open = take_char(&rest, '(');
        if (!(open || take_char(&rest, ':')) || !take_number(&rest, &out->column) ||
            !take_char(&rest, open ? ')' : ':')) {
            rest = before;
            out->column = 0;
        }
    }
    rest = dgl_str_trim(rest);
    take_char(&rest, ':');
    rest = dgl_str_trim(rest);
    take_word(&rest, "preprocessor ");
    if (take_word(&rest, "warning"))
        warning = true;
    else
        take_word(&rest, "error");
    take_code(&rest);
    take_char(&rest, ':');
    take_code(&rest);
    out->text = dgl_str_trim(rest);
    out->error = !warning;
    return out->text.len > 0;
}

/* ---- places ---------------------------------------------------------------------------------- */

/* The place that a line number of the generated text stands for. */
static struct kernel_place find_place(const struct kernel_choice *choice, struct dgl_str generated,
                                      const struct kernel_message *message)
{
    const struct kernel *kernel = choice->kernel;
    uint32_t step = kernel_line_step(choice), part = message->line / step;
    struct kernel_place place = {.path = kernel->path,
                                 .text = {kernel->text, kernel->text_len},
                                 .first_line = 1,
                                 .line = message->line,
                                 .column = message->column};
    if (part > 0 && part <= kernel->num_libs) {
        const struct kernel_lib *lib = choice->libs[part - 1];
        place.path = lib->path;
        place.text = (struct dgl_str){lib->body, lib->body_len};
        place.first_line = lib->body_line;
        place.line = message->line - part * step;
    } else if (part > kernel->num_libs) {
        /* What directives become. Line 1 of it follows the first #line. */
        const char *start = memchr(generated.p, '#', generated.len);
        while (start && strncmp(start, "#line", 5) != 0)
            start = memchr(start + 1, '#', (size_t)(generated.p + generated.len - start - 1));
        const char *end = start ? strchr(start, '\n') : NULL;
        if (end)
            place.text = (struct dgl_str){end + 1, (size_t)(generated.p + generated.len - end - 1)};
        place.path = "generated";
        place.line = message->line - (kernel->num_libs + 1) * step;
    }
    /* Beyond the end, where a brace is missing: the last line. */
    uint32_t lines = place.first_line - 1;
    for (size_t i = 0; i < place.text.len; i++)
        lines += i == 0 || place.text.p[i - 1] == '\n';
    if (place.line > lines) {
        place.line = lines;
        place.column = 0;
    }
    return place;
}

/* The next error in *rest. Mesa says some of them twice, one line after the other. */
static bool next_error(struct dgl_str *rest, struct dgl_str *last, struct kernel_message *out)
{
    struct dgl_str line;
    while (rest->len && dgl_str_split(rest, '\n', &line)) {
        bool again = line.len == last->len && memcmp(line.p, last->p, line.len) == 0;
        *last = line;
        if (!again && kernel_message_parse(line, out) && out->error)
            return true;
    }
    return false;
}

enum dgl_status kernel_fail_compile(const struct dgl_log *log, const struct kernel_choice *choice,
                                    struct dgl_str generated, const char *words)
{
    const struct kernel *kernel = choice->kernel;
    struct kernel_message message;
    struct dgl_str rest = dgl_str_of(words), line = DGL_STR("");
    size_t errors = 0, told = 0;
    while (next_error(&rest, &line, &message))
        errors++;
    rest = dgl_str_of(words);
    line = DGL_STR("");
    while (told < SHOWN && next_error(&rest, &line, &message)) {
        char text[MAX_TEXT + 200], count[48] = "";
        struct kernel_place place = find_place(choice, generated, &message);
        int len = (int)(message.text.len < MAX_TEXT ? message.text.len : MAX_TEXT);
        if (errors > 1)
            snprintf(count, sizeof(count), ", the first of %zu errors", errors);
        if (told == 0)
            snprintf(text, sizeof(text), "%.*s (kernel %s does not compile%s)", len, message.text.p,
                     kernel->name, count);
        else
            snprintf(text, sizeof(text), "%.*s", len, message.text.p);
        if (told++ == 0)
            kernel_fail_at(log, &place, text);
        else
            kernel_note_at(log, &place, text);
    }
    if (told > 0)
        return DGL_ERR_KERNEL;
    /* Words without a place, in one line. */
    struct dgl_buf all = {0};
    rest = dgl_str_of(words);
    while (all.len < 2 * MAX_TEXT && rest.len && dgl_str_split(&rest, '\n', &line)) {
        line = dgl_str_trim(line);
        if (line.len > 0)
            dgl_buf_printf(&all, "%s%.*s", all.len ? " | " : "", (int)line.len, line.p);
    }
    enum dgl_status status =
        dgl_fail(log, DGL_ERR_KERNEL, "%s: kernel %s does not compile: %s", kernel->path,
                 kernel->name, all.p ? all.p : "the driver gives no reason");
    dgl_buf_finish(&all);
    return status;
}
