/* Splits GLSL text into tokens of the preprocessor. Continued lines are joined first, and comments
 * count as blanks. */
#ifndef DGL_KERNEL_LEXER_H
#define DGL_KERNEL_LEXER_H

#include "core/base/str.h"

enum kernel_token_kind { TOKEN_END, TOKEN_NEWLINE, TOKEN_WORD, TOKEN_NUMBER, TOKEN_MARK };

/* A letter, digit or _. */
bool kernel_is_word_char(char c);

struct kernel_token {
    enum kernel_token_kind kind;
    struct dgl_str text;
    uint32_t line;
};

/* May be copied, to return to the place of the copy later. Only one of the copies must be
 * finished. */
struct kernel_lexer {
    const char *p, *end;
    uint32_t line, first_line;
    uint32_t open_comment; /* line of a comment that the text does not close, once it is read; 0 */
    char *spliced;         /* the text without continuations, or NULL if it has no continuation */
    const char *start;
    size_t *joints; /* offsets in it at which a continuation was removed */
    size_t num_joints, next_joint;
};

/* `first_line` is the number of the first line. Returns false if memory runs out; the lexer is at
 * its end then. */
bool kernel_lexer_init(struct kernel_lexer *lexer, struct dgl_str text, uint32_t first_line);
void kernel_lexer_finish(struct kernel_lexer *lexer);
void kernel_lexer_rewind(struct kernel_lexer *lexer); /* back to the start */
struct kernel_token kernel_lexer_next(struct kernel_lexer *lexer);

#endif
