/* Compiles a parsed pattern over kinds of characters, and finds its matches. */
#include "loader/regex/tok_regex.h"

#include <stdlib.h>
#include <string.h>

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include "core/base/mem.h"
#include "core/base/utf8.h"
#include "loader/regex/tok_regex_parse.h"

#define PAGE_BITS  8
#define PAGE_SIZE  (1u << PAGE_BITS)
#define PAGE_COUNT ((TOK_MAX_CP >> PAGE_BITS) + 1)
#define MAX_KINDS  255 /* kinds are the bytes 1 to 255 */

/* Per search. Published patterns need a few dozen steps per match; what runs into these was
 * made to. */
#define MATCH_LIMIT    50000000u
#define HEAP_LIMIT_KIB (256u << 10)
#define JIT_STACK_MAX  (64u << 20) /* reserved, not used unless needed */

struct tok_regex {
    char *where;
    pcre2_code *code;
    uint8_t ascii[128];        /* kind by code point: the first half page again, close together */
    uint16_t page[PAGE_COUNT]; /* index into `pages`, in units of PAGE_SIZE */
    uint8_t *pages;
};

struct tok_regex_scratch {
    pcre2_match_data *data;
    pcre2_match_context *context;
    pcre2_jit_stack *stack;
    uint8_t *kinds; /* the text as kinds */
    size_t cap_kinds;
};

/* ---- kinds ----------------------------------------------------------------------------------- */

/* The sets of a pattern cut all code points into intervals; intervals that belong to the same
 * sets are one kind. */
struct partition {
    uint32_t *starts; /* ascending, the first is 0 */
    uint8_t *kinds;   /* of the interval that begins there */
    size_t count;
    uint8_t *members; /* [kind - 1][set]: 1 = the kind belongs to the set */
    size_t num_kinds, num_sets;
};

static void partition_finish(struct partition *part)
{
    free(part->starts);
    free(part->kinds);
    free(part->members);
}

static int compare_u32(const void *a, const void *b)
{
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    return x < y ? -1 : x > y;
}

/* All places where membership in some set may change. */
static bool collect_starts(struct partition *part, const struct tok_regex_program *program)
{
    size_t count = 1;
    for (size_t i = 0; i < program->num_sets; i++)
        count += 2 * program->sets[i].count;
    part->starts = dgl_new_array(uint32_t, count);
    part->kinds = dgl_new_array(uint8_t, count);
    if (!part->starts || !part->kinds)
        return false;
    size_t filled = 1;
    for (size_t i = 0; i < program->num_sets; i++) {
        for (size_t j = 0; j < program->sets[i].count; j++) {
            part->starts[filled++] = program->sets[i].ranges[j].first;
            part->starts[filled++] = program->sets[i].ranges[j].last + 1;
        }
    }
    qsort(part->starts, filled, sizeof(uint32_t), compare_u32);
    part->count = 0;
    for (size_t i = 0; i < filled; i++)
        if (part->starts[i] <= TOK_MAX_CP &&
            (part->count == 0 || part->starts[i] != part->starts[part->count - 1]))
            part->starts[part->count++] = part->starts[i];
    return true;
}

/* Gives every interval its kind. `row` has room for one byte per set. False: more than
 * MAX_KINDS. */
static bool assign_kinds(struct partition *part, const struct tok_regex_program *program,
                         uint8_t *row)
{
    size_t sets = part->num_sets;
    for (size_t i = 0; i < part->count; i++) {
        for (size_t j = 0; j < sets; j++)
            row[j] = tok_charset_has(&program->sets[j], part->starts[i]);
        size_t kind = 0;
        while (kind < part->num_kinds && memcmp(&part->members[kind * sets], row, sets) != 0)
            kind++;
        if (kind == part->num_kinds) {
            if (kind == MAX_KINDS)
                return false;
            memcpy(&part->members[kind * sets], row, sets);
            part->num_kinds++;
        }
        part->kinds[i] = (uint8_t)(kind + 1);
    }
    return true;
}

static enum dgl_status partition_init(const struct dgl_log *log, const char *where,
                                      const struct tok_regex_program *program,
                                      struct partition *part)
{
    size_t sets = program->num_sets ? program->num_sets : 1;
    *part = (struct partition){.num_sets = program->num_sets};
    part->members = dgl_new_array(uint8_t, MAX_KINDS * sets);
    uint8_t *row = dgl_new_array(uint8_t, sets);
    enum dgl_status status = DGL_OK;
    if (!part->members || !row || !collect_starts(part, program))
        status = dgl_fail_memory(log, "pattern", MAX_KINDS * sets);
    else if (!assign_kinds(part, program, row))
        status = dgl_fail(log, DGL_ERR_UNSUPPORTED,
                          "%s: a pattern that tells more than %d kinds of characters apart is not "
                          "implemented",
                          where, MAX_KINDS);
    free(row);
    if (status != DGL_OK)
        partition_finish(part);
    return status;
}

/* Spreads the intervals over pages; pages of one kind are shared. */
static bool fill_pages(struct tok_regex *regex, const struct partition *part)
{
    size_t used = 0, cap = 0, interval = 0;
    uint16_t uniform[MAX_KINDS + 1];
    memset(uniform, 0xFF, sizeof(uniform));
    for (uint32_t page = 0; page < PAGE_COUNT; page++) {
        uint32_t first = page << PAGE_BITS, end = first + PAGE_SIZE;
        while (interval + 1 < part->count && part->starts[interval + 1] <= first)
            interval++;
        bool whole = interval + 1 == part->count || part->starts[interval + 1] >= end;
        uint8_t kind = part->kinds[interval];
        if (whole && uniform[kind] != UINT16_MAX) {
            regex->page[page] = uniform[kind];
            continue;
        }
        if (!dgl_grow((void **)&regex->pages, &cap, (used + 1) * PAGE_SIZE, 1))
            return false;
        size_t at = interval;
        for (uint32_t cp = first; cp < end; cp++) {
            while (at + 1 < part->count && part->starts[at + 1] <= cp)
                at++;
            regex->pages[used * PAGE_SIZE + (cp - first)] = part->kinds[at];
        }
        regex->page[page] = (uint16_t)used;
        if (whole)
            uniform[kind] = (uint16_t)used;
        used++;
    }
    memcpy(regex->ascii, &regex->pages[regex->page[0] * PAGE_SIZE], sizeof(regex->ascii));
    return true;
}

/* ---- compiling ------------------------------------------------------------------------------- */

static void write_set(struct dgl_buf *out, const struct partition *part, size_t set)
{
    size_t before = out->len, members = 0;
    dgl_buf_putc(out, '[');
    for (size_t kind = 0; kind < part->num_kinds; kind++) {
        if (part->members[kind * part->num_sets + set]) {
            dgl_buf_printf(out, "\\x%02x", (unsigned)kind + 1);
            members++;
        }
    }
    dgl_buf_putc(out, ']');
    if (members == 0 && !out->failed) {
        out->len = before;
        dgl_buf_puts(out, "(?!)");
    }
}

static enum dgl_status compile(const struct dgl_log *log, struct tok_regex *regex,
                               const struct tok_regex_program *program,
                               const struct partition *part)
{
    struct dgl_buf text = {0};
    for (size_t i = 0; i < program->num_items; i++) {
        if (program->items[i].set >= 0)
            write_set(&text, part, (size_t)program->items[i].set);
        else
            dgl_buf_puts(&text, program->items[i].text);
    }
    if (text.failed) {
        dgl_buf_finish(&text);
        return dgl_fail_memory(log, "pattern", program->num_items);
    }
    int error = 0;
    PCRE2_SIZE offset = 0;
    regex->code = pcre2_compile((PCRE2_SPTR)(text.p ? text.p : ""), text.len,
                                PCRE2_NEVER_UTF | PCRE2_NEVER_UCP, &error, &offset, NULL);
    dgl_buf_finish(&text);
    if (!regex->code) {
        char message[128] = "";
        pcre2_get_error_message(error, (PCRE2_UCHAR *)message, sizeof(message));
        if (error == PCRE2_ERROR_HEAP_FAILED)
            return dgl_fail_memory(log, "pattern", program->num_items);
        return dgl_fail(log, DGL_ERR_UNSUPPORTED, "%s: pattern is not implemented: %s",
                        regex->where, message);
    }
    /* Without JIT on this processor, matching interprets: slower, same result. */
    (void)pcre2_jit_compile(regex->code, PCRE2_JIT_COMPLETE);
    return DGL_OK;
}

enum dgl_status tok_regex_create(const struct dgl_log *log, const char *where,
                                 struct dgl_str pattern, struct tok_regex **out)
{
    struct tok_regex_program program = {0};
    struct partition part = {0};
    *out = NULL;
    struct tok_regex *regex = dgl_new(struct tok_regex);
    if (!regex || !(regex->where = strdup(where))) {
        tok_regex_destroy(&regex);
        return dgl_fail_memory(log, "pattern", sizeof(*regex));
    }
    enum dgl_status status = tok_regex_parse(log, where, pattern, &program);
    if (status == DGL_OK)
        status = partition_init(log, where, &program, &part);
    if (status == DGL_OK) {
        status = fill_pages(regex, &part) ? compile(log, regex, &program, &part)
                                          : dgl_fail_memory(log, "pattern", PAGE_SIZE);
        partition_finish(&part);
    }
    tok_regex_program_finish(&program);
    if (status == DGL_OK)
        *out = regex;
    else
        tok_regex_destroy(&regex);
    return status;
}

void tok_regex_destroy(struct tok_regex **regex)
{
    if (!*regex)
        return;
    pcre2_code_free((*regex)->code);
    free((*regex)->pages);
    free((*regex)->where);
    free(*regex);
    *regex = NULL;
}

/* ---- matching -------------------------------------------------------------------------------- */

struct tok_regex_scratch *tok_regex_scratch_create(void)
{
    struct tok_regex_scratch *scratch = dgl_new(struct tok_regex_scratch);
    if (!scratch)
        return NULL;
    uint32_t jit = 0;
    pcre2_config(PCRE2_CONFIG_JIT, &jit);
    scratch->data = pcre2_match_data_create(1, NULL);
    scratch->context = pcre2_match_context_create(NULL);
    if (jit)
        scratch->stack = pcre2_jit_stack_create(32u << 10, JIT_STACK_MAX, NULL);
    if (!scratch->data || !scratch->context || (jit && !scratch->stack)) {
        tok_regex_scratch_destroy(&scratch);
        return NULL;
    }
    pcre2_set_match_limit(scratch->context, MATCH_LIMIT);
    pcre2_set_heap_limit(scratch->context, HEAP_LIMIT_KIB);
    if (jit)
        pcre2_jit_stack_assign(scratch->context, NULL, scratch->stack);
    return scratch;
}

void tok_regex_scratch_destroy(struct tok_regex_scratch **scratch)
{
    struct tok_regex_scratch *s = *scratch;
    if (!s)
        return;
    pcre2_match_data_free(s->data);
    pcre2_match_context_free(s->context);
    pcre2_jit_stack_free(s->stack);
    free(s->kinds);
    free(s);
    *scratch = NULL;
}

enum dgl_status tok_spans_add(const struct dgl_log *log, struct tok_spans *spans,
                              struct tok_span span)
{
    if (spans->count == spans->cap &&
        !dgl_grow((void **)&spans->items, &spans->cap, spans->count + 1, sizeof(span)))
        return dgl_fail_memory(log, "pieces of text", (spans->count + 1) * sizeof(span));
    spans->items[spans->count++] = span;
    return DGL_OK;
}

/* Writes the kind of each character; returns how many characters there are. */
static size_t map_kinds(const struct tok_regex *regex, struct dgl_str text, uint8_t *kinds)
{
    size_t count = 0;
    for (size_t i = 0; i < text.len;) {
        unsigned char c = (unsigned char)text.p[i];
        if (c < 0x80) {
            kinds[count++] = regex->ascii[c];
            i++;
            continue;
        }
        uint32_t cp;
        i += dgl_utf8_decode(text.p + i, text.len - i, &cp);
        kinds[count++] =
            regex->pages[regex->page[cp >> PAGE_BITS] * PAGE_SIZE + (cp & (PAGE_SIZE - 1))];
    }
    return count;
}

/* A place in the text, in characters and in bytes. */
struct cursor {
    size_t chars, bytes;
};

static void advance(struct cursor *at, struct dgl_str text, size_t chars, bool ascii)
{
    if (ascii) {
        at->chars = at->bytes = chars;
        return;
    }
    for (; at->chars < chars; at->chars++) {
        unsigned char c = (unsigned char)text.p[at->bytes];
        at->bytes += c < 0x80 ? 1 : c < 0xE0 ? 2 : c < 0xF0 ? 3 : 4;
    }
}

static enum dgl_status search_failed(const struct dgl_log *log, const struct tok_regex *regex,
                                     int code, size_t len)
{
    char message[128] = "";
    pcre2_get_error_message(code, (PCRE2_UCHAR *)message, sizeof(message));
    return dgl_fail(log, code == PCRE2_ERROR_NOMEMORY ? DGL_ERR_NO_MEMORY : DGL_ERR_UNSUPPORTED,
                    "%s: the pattern cannot be matched against this text of %zu bytes: %s",
                    regex->where, len, message);
}

/* The search of Oniguruma's find_iter: an empty match right behind the last match does not
 * count. */
static enum dgl_status find_all(const struct dgl_log *log, const struct tok_regex *regex,
                                struct tok_regex_scratch *scratch, struct dgl_str text,
                                size_t count, struct tok_spans *out)
{
    const PCRE2_SIZE *found = pcre2_get_ovector_pointer(scratch->data);
    struct cursor at = {0};
    size_t from = 0, done = 0;
    bool any = false;
    while (from <= count) {
        int rc = pcre2_match(regex->code, scratch->kinds, count, from, 0, scratch->data,
                             scratch->context);
        if (rc == PCRE2_ERROR_NOMATCH)
            break;
        if (rc < 0)
            return search_failed(log, regex, rc, text.len);
        size_t start = found[0], end = found[1];
        if (start == end && any && end == done) {
            from++;
            continue;
        }
        struct cursor before = at;
        advance(&at, text, start, count == text.len);
        struct tok_span span = {at.bytes, at.bytes, true};
        enum dgl_status status = DGL_OK;
        if (before.bytes != at.bytes)
            status = tok_spans_add(log, out, (struct tok_span){before.bytes, at.bytes, false});
        advance(&at, text, end, count == text.len);
        span.end = at.bytes;
        if (status == DGL_OK)
            status = tok_spans_add(log, out, span);
        if (status != DGL_OK)
            return status;
        from = done = end;
        any = true;
    }
    return at.bytes == text.len
               ? DGL_OK
               : tok_spans_add(log, out, (struct tok_span){at.bytes, text.len, false});
}

enum dgl_status tok_regex_find(const struct dgl_log *log, const struct tok_regex *regex,
                               struct tok_regex_scratch *scratch, struct dgl_str text,
                               struct tok_spans *out)
{
    out->count = 0;
    if (text.len == 0)
        return tok_spans_add(log, out, (struct tok_span){0, 0, false});
    if (!dgl_grow((void **)&scratch->kinds, &scratch->cap_kinds, text.len, 1))
        return dgl_fail_memory(log, "text", text.len);
    size_t count = map_kinds(regex, text, scratch->kinds);
    return find_all(log, regex, scratch, text, count, out);
}
