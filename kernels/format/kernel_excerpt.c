/* Prints a place in a kernel file as compilers do: the line, with a caret below the column. */
#include "kernels/format/kernel_excerpt.h"

#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "core/base/log.h"
#include "kernels/format/kernel_lexer.h"

enum { SHOWN = 100 };

struct dgl_str kernel_place_line(const struct kernel_place *place)
{
    struct dgl_str rest = place->text, line = {"", 0};
    for (uint32_t i = place->first_line; i <= place->line; i++)
        if (!rest.len || !dgl_str_split(&rest, '\n', &line))
            return (struct dgl_str){"", 0};
    if (place->line < place->first_line)
        return (struct dgl_str){"", 0};
    line.len -= line.len && line.p[line.len - 1] == '\r';
    return line;
}

/* Returns the column, from 1, of the whole word `word` in `line` that is closest to `column`, or
 * 0. */
static uint32_t find_word(struct dgl_str line, struct dgl_str word, uint32_t column)
{
    size_t found = 0, best = SIZE_MAX;
    for (size_t at = 0; word.len && at + word.len <= line.len; at++) {
        const char *p = line.p + at, *end = p + word.len;
        size_t away = at + 1 > column ? at + 1 - column : column - at - 1;
        if (memcmp(p, word.p, word.len) == 0 &&
            (at == 0 || !kernel_is_word_char(*p) || !kernel_is_word_char(p[-1])) &&
            (end == line.p + line.len || !kernel_is_word_char(end[-1]) ||
             !kernel_is_word_char(*end)) &&
            away < best) {
            best = away;
            found = at + 1;
        }
    }
    return (uint32_t)found;
}

/* The first quoted word of the message that the line has, else the column that was given: Mesa's
 * columns leave blanks out. */
static uint32_t find_column(const struct kernel_place *place, struct dgl_str line,
                            const char *message)
{
    if (place->word.len)
        return find_word(line, place->word, 0);
    for (const char *p = message; *p; p++) {
        if (*p != '\'' && *p != '`' && *p != '"')
            continue;
        size_t len = strcspn(p + 1, "'`\"");
        uint32_t column = find_word(line, (struct dgl_str){p + 1, len}, place->column);
        if (column)
            return column;
        p += p[1 + len] ? len : 0;
    }
    return place->column <= line.len ? place->column : 0;
}

/* Logs the message at its place, as an error if `fails`, then the line with a caret as notices. */
static void show(const struct dgl_log *log, const struct kernel_place *place, const char *message,
                 bool fails)
{
    const struct dgl_str line = kernel_place_line(place);
    const uint32_t column = find_column(place, line, message);
    char at[4200], text[SHOWN + 1];
    size_t len = line.len < SHOWN ? line.len : SHOWN;
    uint32_t blanks = 0;
    if (column)
        snprintf(at, sizeof(at), "%s:%u:%u", place->path, place->line, column);
    else if (place->line == 0) /* a driver's message about the program as a whole */
        snprintf(at, sizeof(at), "%s", place->path);
    else
        snprintf(at, sizeof(at), "%s:%u", place->path, place->line);
    if (fails)
        dgl_fail(log, DGL_ERR_KERNEL, "%s: %s", at, message);
    else
        dgl_notice(log, "%s: %s", at, message);
    if (len == 0)
        return;
    for (size_t i = 0; i < len; i++)
        text[i] = line.p[i] == '\t' ? ' ' : line.p[i];
    text[len] = '\0';
    dgl_notice(log, "%5u | %s", place->line, text);
    /* A character of several bytes is one column wide. */
    for (uint32_t i = 0; i + 1 < column && i < len; i++)
        blanks += ((unsigned char)text[i] & 0xc0) != 0x80;
    if (column && column <= len + 1)
        dgl_notice(log, "      | %*s^", (int)blanks, "");
}

enum dgl_status kernel_fail_at(const struct dgl_log *log, const struct kernel_place *place,
                               const char *message)
{
    show(log, place, message, true);
    return DGL_ERR_KERNEL;
}

void kernel_note_at(const struct dgl_log *log, const struct kernel_place *place,
                    const char *message)
{
    show(log, place, message, false);
}
