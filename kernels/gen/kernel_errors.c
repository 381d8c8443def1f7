/* Errors of drivers' GLSL compilers in the terms of kernel files: which file, line and column. */
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "kernels/format/kernel_excerpt.h"
#include "kernels/format/kernel_format.h"
#include "kernels/format/kernel_lexer.h"
#include "kernels/format/kernel_parser.h"
#include "kernels/kernels.h"

#define GENERATED "generated" /* path of the text generated from directives */

enum { SHOWN = 8, SEEN = 64, MAX_TEXT = 400, MAX_NAMES = 32 };

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

/* Consumes a driver's error code, such as C1503 or L0001. */
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

/* One line of a driver's log, of Mesa ("0:12(5): error: ..."), NVIDIA ("0(12) : error C1503: ..."),
 * ARM ("0:12: L0001: ..."), or glslang, ANGLE, Adreno and PowerVR ("ERROR: 0:12: ..."). */
struct message {
    uint32_t line, column; /* column is 0 if unknown */
    bool error;            /* else a warning */
    struct dgl_str text;
};

/* Returns false if the line contains no place. */
static bool parse_message(struct dgl_str text, struct message *out)
{
    struct dgl_str rest = dgl_str_trim(text);
    uint32_t source;
    *out = (struct message){0};
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

/* A place. `given` is set if it is in a text that is not built in. */
struct origin {
    struct kernel_place place;
    bool given;
};

/* Returns true if a part is not built in. Part 0 is the kernel, part i + 1 its lib i. Text
 * generated from directives belongs to no part. */
static bool is_given(const struct kernel_choice *choice, uint32_t part)
{
    const struct kernel *kernel = choice->kernel;
    return part == 0 ? kernel->source != 0
                     : part <= kernel->num_libs && choice->libs[part - 1]->source != 0;
}

static bool has_given(const struct kernel_choice *choice)
{
    bool given = false;
    for (uint32_t part = 0; part <= choice->kernel->num_libs && !given; part++)
        given = is_given(choice, part);
    return given;
}

/* Maps a line number of the generated text to its place. */
static struct origin find_place(const struct kernel_choice *choice, struct dgl_str generated,
                                uint32_t number, uint32_t column)
{
    const struct kernel *kernel = choice->kernel;
    uint32_t step = kernel_line_step(choice), part = number / step;
    struct kernel_place place = {.path = kernel->path,
                                 .text = {kernel->text, kernel->text_len},
                                 .first_line = 1,
                                 .line = number,
                                 .column = column};
    if (part > 0 && part <= kernel->num_libs) {
        const struct kernel_lib *lib = choice->libs[part - 1];
        place.path = lib->path;
        place.text = (struct dgl_str){lib->body, lib->body_len};
        place.first_line = lib->body_line;
        place.line = number - part * step;
    } else if (part > kernel->num_libs) {
        /* Text generated from directives. Its line 1 follows the first #line. */
        const char *start = memchr(generated.p, '#', generated.len);
        while (start && strncmp(start, "#line", 5) != 0)
            start = memchr(start + 1, '#', (size_t)(generated.p + generated.len - start - 1));
        const char *end = start ? strchr(start, '\n') : NULL;
        if (end)
            place.text = (struct dgl_str){end + 1, (size_t)(generated.p + generated.len - end - 1)};
        place.path = GENERATED;
        place.line = number - (kernel->num_libs + 1) * step;
    }
    /* If a brace is missing, the error is after the end. Show the last line that has words. */
    uint32_t lines = place.first_line - 1;
    const struct dgl_str words = dgl_str_trim(place.text);
    for (size_t i = 0; i < (size_t)(words.p - place.text.p) + words.len; i++)
        lines += i == 0 || place.text.p[i - 1] == '\n';
    if (place.line > lines) {
        place.line = lines;
        place.column = 0;
    }
    return (struct origin){.place = place, .given = is_given(choice, part)};
}

struct names {
    struct dgl_str name[MAX_NAMES];
    size_t count;
};

/* The names that a message quotes: those of functions without type and parameters. */
static struct names quoted_in(struct dgl_str text)
{
    struct names q = {.count = 0};
    for (size_t i = 0; i + 1 < text.len && q.count < MAX_NAMES; i++) {
        size_t len = 0;
        /* not the apostrophe of a word */
        if (!memchr("'`\"", text.p[i], 3) || (i > 0 && kernel_is_word_char(text.p[i - 1])))
            continue;
        while (i + 1 + len < text.len && kernel_is_word_char(text.p[i + 1 + len]))
            len++;
        size_t begin = i + 1, end = begin + len; /* of a second word, as in "float f(float)" */
        if (len > 0 && end < text.len && text.p[end] == ' ') {
            for (begin = ++end; end < text.len && kernel_is_word_char(text.p[end]);)
                end++;
            if (end == begin || end == text.len || text.p[end] != '(') {
                begin = i + 1;
                end = begin + len;
            }
        }
        if (len > 0 && (text.p[begin] < '0' || text.p[begin] > '9'))
            q.name[q.count++] = (struct dgl_str){text.p + begin, end - begin};
        i = end; /* the closing quote, or the end of a name */
    }
    return q;
}

/* How a line contains a name: as that of a macro or directive, after a type, or in any way. */
enum occurrence { DEFINED, TYPED, ANY };

/* Returns the first line outside of comments that contains the name in that way, or 0. Lines of
 * directives define names if `directives` is set. */
static uint32_t find_name(struct dgl_str text, struct dgl_str name, enum occurrence how,
                          bool directives)
{
    struct dgl_str line;
    for (uint32_t number = 1; text.len && dgl_str_split(&text, '\n', &line); number++) {
        const bool directive = dgl_str_starts(line, "//!");
        for (size_t at = directive ? 3 : 0;
             at + name.len <= line.len && strncmp(line.p + at, "//", 2) != 0; at++) {
            if (memcmp(line.p + at, name.p, name.len) != 0 ||
                (at > 0 && kernel_is_word_char(line.p[at - 1])) ||
                (at + name.len < line.len && kernel_is_word_char(line.p[at + name.len])))
                continue;
            const struct dgl_str before = dgl_str_trim((struct dgl_str){line.p, at});
            size_t len = 0;
            while (len < before.len && kernel_is_word_char(before.p[before.len - 1 - len]))
                len++;
            const struct dgl_str word = {before.p + before.len - len, len};
            if (how == ANY || (how == DEFINED && directive && directives) ||
                (how == DEFINED && dgl_str_eq(word, "define")) ||
                (how == TYPED && len > 0 && before.len < at && !dgl_str_eq(word, "return") &&
                 !dgl_str_eq(word, "else")))
                return number;
        }
    }
    return 0;
}

/* Finds the first of the names that occurs in that way. Searches the texts that are not built in,
 * or all texts if there are only built-in ones. Returns false if there is no such name. */
static bool find_names(const struct kernel_choice *choice, const struct names *names,
                       enum occurrence how, struct kernel_place *out)
{
    const struct kernel *kernel = choice->kernel;
    const bool all = !has_given(choice);
    for (size_t n = 0; n < names->count; n++)
        for (uint32_t i = 0; i <= kernel->num_libs; i++) {
            const struct kernel_lib *lib = i ? choice->libs[i - 1] : NULL;
            char name[64];
            if (!all && !is_given(choice, i))
                continue;
            snprintf(name, sizeof(name), "%.*s", (int)names->name[n].len, names->name[n].p);
            *out = (struct kernel_place){
                .path = lib ? lib->path : kernel->path,
                .text = {lib ? lib->text : kernel->text, lib ? lib->text_len : kernel->text_len},
                .first_line = 1};
            out->line = find_name(out->text, names->name[n], how,
                                  lib ? kernel_decls_have(&lib->decls, name)
                                      : kernel_has_name(kernel, name));
            if (out->line)
                return true;
        }
    return false;
}

/* Finds the declaration of a quoted name, else the first line with it. */
static bool find_quoted(const struct kernel_choice *choice, const struct names *quoted,
                        struct kernel_place *out)
{
    return find_names(choice, quoted, TYPED, out) || find_names(choice, quoted, ANY, out);
}

/* Returns the line of the first call of a function inside of itself, else by another function, or
 * 0. */
static uint32_t find_call(struct dgl_str text, struct dgl_str function)
{
    struct kernel_lexer lexer;
    struct kernel_token before = {.kind = TOKEN_NEWLINE}, token;
    uint32_t depth = 0, by_another = 0, line = 0;
    bool declared = false; /* the block that follows, or that is open, is its own */
    if (!kernel_lexer_init(&lexer, text, 1))
        return 0;
    for (; !line && (token = kernel_lexer_next(&lexer)).kind != TOKEN_END; before = token) {
        const bool named = dgl_str_equal(before.text, function) && dgl_str_eq(token.text, "(");
        if (named && depth > 0 && declared)
            line = before.line;
        else if (named && depth > 0 && !by_another)
            by_another = before.line;
        declared = declared || (named && depth == 0);
        if (dgl_str_eq(token.text, "{"))
            depth++;
        else if (dgl_str_eq(token.text, "}") && depth > 0)
            depth--;
        else if (!dgl_str_eq(token.text, ";"))
            continue;
        declared = declared && depth > 0;
    }
    kernel_lexer_finish(&lexer);
    return line ? line : by_another;
}

/* Finds the line of a user's text that caused a driver error in another text. First it searches the
 * user's texts for a name that the driver quotes, such as a function with other parameters. Then it
 * searches them for a directive or macro whose name is in the reported line. Returns `use` if
 * neither is found: the user's texts may lack a definition. */
static struct origin find_cause(const struct kernel_choice *choice, const struct origin *use,
                                struct dgl_str message)
{
    struct names names = quoted_in(message);
    struct origin cause = {.given = true};
    if (use->given || !has_given(choice))
        return *use;
    if (find_quoted(choice, &names, &cause.place))
        return cause;
    const struct dgl_str line = kernel_place_line(&use->place);
    names.count = 0;
    for (size_t at = 0, len; at < line.len && names.count < MAX_NAMES; at += len + 1) {
        for (len = 0; at + len < line.len && kernel_is_word_char(line.p[at + len]);)
            len++;
        if (len > 0)
            names.name[names.count++] = (struct dgl_str){line.p + at, len};
    }
    return find_names(choice, &names, DEFINED, &cause.place) ? cause : *use;
}

/* Reads the next error in *rest. Mesa reports some errors twice, on consecutive lines. */
static bool next_error(struct dgl_str *rest, struct dgl_str *last, struct message *out)
{
    struct dgl_str line;
    while (rest->len && dgl_str_split(rest, '\n', &line)) {
        bool again = line.len == last->len && memcmp(line.p, last->p, line.len) == 0;
        *last = line;
        if (!again && parse_message(line, out) && out->error)
            return true;
    }
    return false;
}

/* Reports messages that name no line, such as a linker's message about a function without a body.
 * Joins them into one line. The error's place is the declaration of a name that they quote, else
 * the first line with such a name. */
static enum dgl_status fail_unplaced(const struct dgl_log *log, const struct kernel_choice *choice,
                                     const char *step, const char *words)
{
    const char *name = choice->kernel->name;
    struct dgl_str rest = dgl_str_of(words), line;
    struct dgl_buf all = {0}, text = {0}, path = {0};
    struct kernel_place place;
    while (all.len < 2 * MAX_TEXT && rest.len && dgl_str_split(&rest, '\n', &line)) {
        line = dgl_str_trim(line);
        if (take_word(&line, "error:"))
            line = dgl_str_trim(line);
        if (line.len > 0)
            dgl_buf_printf(&all, "%s%.*s", all.len ? " | " : "", (int)line.len, line.p);
    }
    const struct names quoted = quoted_in((struct dgl_str){all.p, all.len});
    if (find_quoted(choice, &quoted, &place)) {
        dgl_buf_printf(&text, "%s (kernel %s does not %s)", all.p, name, step);
        kernel_fail_at(log, &place, text.failed ? name : text.p);
    } else {
        if (has_given(choice))
            kernel_choice_origin(choice, &path);
        dgl_fail(log, DGL_ERR_KERNEL, "%s: kernel %s does not %s: %s",
                 path.p ? path.p : choice->kernel->path, name, step,
                 all.p ? all.p : "the driver gives no reason");
    }
    dgl_buf_finish(&path);
    dgl_buf_finish(&text);
    dgl_buf_finish(&all);
    return DGL_ERR_KERNEL;
}

enum dgl_status kernel_fail_program(const struct dgl_log *log, const struct kernel_choice *choice,
                                    struct dgl_str generated, bool linking, const char *words)
{
    const char *step = linking ? "link" : "compile";
    struct {
        struct message message;
        struct origin cause;
    } shown[SHOWN];
    const struct kernel *kernel = choice->kernel;
    struct message message;
    struct dgl_str rest = dgl_str_of(words), line = DGL_STR("");
    size_t errors = 0, told = 0;
    while (next_error(&rest, &line, &message))
        errors++;
    rest = dgl_str_of(words);
    line = DGL_STR("");
    for (size_t seen = 0; told < SHOWN && seen < SEEN && next_error(&rest, &line, &message);) {
        bool again = false; /* a macro's line, in another expansion */
        for (size_t i = 0; i < told; i++)
            again = again || (shown[i].message.line == message.line &&
                              dgl_str_equal(shown[i].message.text, message.text));
        if (again)
            continue;
        seen++;
        struct origin use = find_place(choice, generated, message.line, message.column);
        const struct names quoted = quoted_in(message.text);
        struct kernel_place named;
        /* A message without a line number is at the declaration of the name that it quotes, or at
         * the call if it is about recursion. */
        if (message.line == 0 && find_quoted(choice, &quoted, &named)) {
            const bool recursion = memmem(message.text.p, message.text.len, "recursi", 7);
            const uint32_t call = recursion ? find_call(named.text, quoted.name[0]) : 0;
            named.line = call ? call : named.line;
            named.word = call ? quoted.name[0] : named.word;
            use = (struct origin){.place = named, .given = has_given(choice)};
        }
        struct origin cause = find_cause(choice, &use, message.text);
        struct dgl_buf path = {0}, text = {0};
        for (size_t i = 0; i < told; i++) {
            const struct message *m = &shown[i].message;
            again = again || (shown[i].cause.place.path == cause.place.path &&
                              shown[i].cause.place.line == cause.place.line &&
                              dgl_str_equal(m->text, message.text));
        }
        if (again)
            continue;
        shown[told].message = message;
        shown[told].cause = cause;
        struct kernel_place place = cause.place;
        if (!cause.given && has_given(choice)) {
            kernel_choice_origin(choice, &path);
            dgl_buf_printf(&path, ": at %s", place.path);
            place.path = path.failed ? place.path : path.p;
        }
        dgl_buf_append(&text, message.text.p,
                       message.text.len < MAX_TEXT ? message.text.len : MAX_TEXT);
        const bool moved = cause.place.path != use.place.path || cause.place.line != use.place.line;
        if (moved)
            dgl_buf_puts(&text, " (");
        if (moved)
            dgl_buf_printf(&text, "at %s:%u", use.place.path, use.place.line);
        if (told == 0)
            dgl_buf_printf(&text, "%skernel %s does not %s", moved ? "; " : " (", kernel->name,
                           step);
        if (told == 0 && errors > 1)
            dgl_buf_printf(&text, ", the first of %zu errors", errors);
        if (moved || told == 0)
            dgl_buf_putc(&text, ')');
        if (told++ == 0)
            kernel_fail_at(log, &place, text.failed ? kernel->name : text.p);
        else
            kernel_note_at(log, &place, text.failed ? kernel->name : text.p);
        dgl_buf_finish(&path);
        dgl_buf_finish(&text);
    }
    return told > 0 ? DGL_ERR_KERNEL : fail_unplaced(log, choice, step, words);
}
