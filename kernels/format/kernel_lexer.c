/* Splits GLSL text into tokens of the preprocessor, with the line number of each token. */
#include "kernels/format/kernel_lexer.h"

#include <stdlib.h>
#include <string.h>

#include "core/base/mem.h"

bool kernel_is_word_char(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' || (c >= '0' && c <= '9');
}

static bool lexer_at(const struct kernel_lexer *lexer, char first, char second)
{
    return lexer->end - lexer->p >= 2 && lexer->p[0] == first && lexer->p[1] == second;
}

/* Blanks and comments. */
static void skip_space(struct kernel_lexer *lexer)
{
    while (lexer->p < lexer->end) {
        if (lexer_at(lexer, '/', '*')) {
            const uint32_t line = lexer->line;
            lexer->p += 2;
            while (lexer->p < lexer->end && !lexer_at(lexer, '*', '/'))
                lexer->line += *lexer->p++ == '\n';
            const bool open = lexer->end - lexer->p < 2;
            lexer->p = open ? lexer->end : lexer->p + 2;
            lexer->open_comment = open ? line : lexer->open_comment;
        } else if (lexer_at(lexer, '/', '/')) {
            while (lexer->p < lexer->end && *lexer->p != '\n')
                lexer->p++;
        } else if (*lexer->p == ' ' || *lexer->p == '\t' || *lexer->p == '\r') {
            lexer->p++;
        } else {
            return;
        }
    }
}

struct kernel_token kernel_lexer_next(struct kernel_lexer *lexer)
{
    skip_space(lexer);
    while (lexer->next_joint < lexer->num_joints &&
           lexer->joints[lexer->next_joint] <= (size_t)(lexer->p - lexer->start)) {
        lexer->next_joint++;
        lexer->line++;
    }
    struct kernel_token token = {TOKEN_END, {lexer->p, 0}, lexer->line};
    if (lexer->p == lexer->end)
        return token;
    token.text.len = 1;
    if (*lexer->p == '\n') {
        token.kind = TOKEN_NEWLINE;
        lexer->line++;
    } else if (kernel_is_word_char(*lexer->p)) {
        bool digit = *lexer->p >= '0' && *lexer->p <= '9';
        token.kind = digit ? TOKEN_NUMBER : TOKEN_WORD;
        while (lexer->p + token.text.len < lexer->end &&
               kernel_is_word_char(lexer->p[token.text.len]))
            token.text.len++;
    } else {
        token.kind = TOKEN_MARK;
    }
    lexer->p += token.text.len;
    return token;
}

void kernel_lexer_rewind(struct kernel_lexer *lexer)
{
    lexer->p = lexer->start;
    lexer->line = lexer->first_line;
    lexer->next_joint = 0;
}

/* Returns the length of the continuation at `at`, or 0. */
static size_t continuation(struct dgl_str text, size_t at)
{
    if (text.p[at] != '\\' || at + 1 == text.len)
        return 0;
    if (text.p[at + 1] == '\n')
        return 2;
    return text.p[at + 1] == '\r' && at + 2 < text.len && text.p[at + 2] == '\n' ? 3 : 0;
}

bool kernel_lexer_init(struct kernel_lexer *lexer, struct dgl_str text, uint32_t first_line)
{
    size_t cap = 0, put = 0;
    *lexer = (struct kernel_lexer){
        .p = text.p, .start = text.p, .end = text.p + text.len, .first_line = first_line};
    lexer->line = first_line;
    if (text.len == 0 || !memchr(text.p, '\\', text.len))
        return true;
    lexer->spliced = dgl_new_array(char, text.len);
    bool ok = lexer->spliced != NULL;
    for (size_t i = 0; ok && i < text.len;) {
        size_t len = continuation(text, i);
        if (len == 0) {
            lexer->spliced[put++] = text.p[i++];
            continue;
        }
        i += len;
        ok = dgl_grow((void **)&lexer->joints, &cap, lexer->num_joints + 1, sizeof(size_t));
        if (ok)
            lexer->joints[lexer->num_joints++] = put;
    }
    lexer->p = lexer->start = ok ? lexer->spliced : "";
    lexer->end = lexer->start + (ok ? put : 0);
    if (!ok)
        kernel_lexer_finish(lexer);
    return ok;
}

void kernel_lexer_finish(struct kernel_lexer *lexer)
{
    free(lexer->spliced);
    free(lexer->joints);
    lexer->spliced = NULL;
    lexer->joints = NULL;
    lexer->num_joints = 0;
}
