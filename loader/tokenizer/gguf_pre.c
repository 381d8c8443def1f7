/* Table of pre-tokenizers. The patterns are those of the published tokenizer.json files. */
#include "loader/tokenizer/gguf_pre.h"

#include <string.h>

#define CONTRACTIONS "(?i:'s|'t|'re|'ve|'m|'ll|'d)"
#define WORDS        "[^\\r\\n\\p{L}\\p{N}]?\\p{L}+"
#define MARKS_BLANKS " ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"
#define UPPER        "[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]"
#define LOWER        "[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]"
#define SLASH_BLANKS " ?[^\\s\\p{L}\\p{N}]+[\\r\\n/]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"

#define LLAMA3 CONTRACTIONS "|" WORDS "|\\p{N}{1,3}|" MARKS_BLANKS
#define QWEN2  CONTRACTIONS "|" WORDS "|\\p{N}|" MARKS_BLANKS
#define GPT4O                                                                                      \
    "[^\\r\\n\\p{L}\\p{N}]?" UPPER "*" LOWER "+" CONTRACTIONS "?|[^\\r\\n\\p{L}\\p{N}]?" UPPER     \
    "+" LOWER "*" CONTRACTIONS "?|\\p{N}{1,3}|" SLASH_BLANKS
#define TEKKEN                                                                                     \
    "[^\\r\\n\\p{L}\\p{N}]?" UPPER "*" LOWER "+|[^\\r\\n\\p{L}\\p{N}]?" UPPER "+" LOWER            \
    "*|\\p{N}|" SLASH_BLANKS

/* llama.cpp's patterns for files that name none. */
#define DEFAULT_MARKS "[\\p{P}\\$\\+<=>\\^~\\|]+"
#define DEFAULT_WORDS                                                                              \
    "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)"

/* If several rows cut a text the same way, gguf_pre_match() returns the first. */
static const struct gguf_pre pres[] = {
    {"gpt-2", {NULL}, .digits = false},
    {"smollm", {NULL}, .digits = true},
    {"llama-bpe", {LLAMA3}, .ignore_merges = true, .add_bos = true},
    {"dbrx", {LLAMA3}, .ignore_merges = false},
    {"qwen2", {QWEN2}, .nfc = true},
    {"stablelm2", {QWEN2}, .nfc = false},
    {"gpt-4o", {GPT4O}, .ignore_merges = true},
    {"tekken", {TEKKEN}, .ignore_merges = true, .add_bos = true},
    {GGUF_PRE_DEFAULT,
     {DEFAULT_MARKS, DEFAULT_WORDS, "\\p{N}+", "[0-9][0-9][0-9]"},
     .digits = false},
};
enum { NUM_PRES = sizeof(pres) / sizeof(pres[0]) };

static const char *const aliases[][2] = {
    {"olmo", "gpt-2"},        {"phi-2", "gpt-2"},
    {"mpt", "gpt-2"},         {"jais", "gpt-2"},
    {"exaone4", "gpt-2"},     {"granite-docling", "gpt-2"},
    {"starcoder", "smollm"},  {"refact", "smollm"},
    {"command-r", "smollm"},  {"codeshell", "smollm"},
    {"exaone", "smollm"},     {"minerva-7b", "smollm"},
    {"llama3", "llama-bpe"},  {"llama-v3", "llama-bpe"},
    {"falcon3", "llama-bpe"}, {"pixtral", "llama-bpe"},
    {"lfm2", "llama-bpe"},    {"smaug-bpe", "dbrx"},
    {"megrez", "qwen2"},      {"deepseek-r1-qwen", "qwen2"},
    {"hunyuan", "stablelm2"}, {"llama4", "gpt-4o"},
};

static const struct gguf_pre *find_canonical(struct dgl_str name)
{
    for (size_t i = 0; i < NUM_PRES; i++) {
        if (dgl_str_eq(name, pres[i].name))
            return &pres[i];
    }
    return NULL;
}

const struct gguf_pre *gguf_pre_find(struct dgl_str name)
{
    for (size_t i = 0; i < sizeof(aliases) / sizeof(aliases[0]); i++) {
        if (dgl_str_eq(name, aliases[i][0]))
            return find_canonical(dgl_str_of(aliases[i][1]));
    }
    return find_canonical(name);
}

void gguf_pre_names(struct dgl_buf *out)
{
    for (size_t i = 0; i < NUM_PRES; i++)
        dgl_buf_printf(out, "%s%s", i ? ", " : "", pres[i].name);
    for (size_t i = 0; i < sizeof(aliases) / sizeof(aliases[0]); i++)
        dgl_buf_printf(out, ", %s", aliases[i][0]);
}

/* ---- reading a tokenizer.json ---- */

static bool type_is(const struct dgl_json *object, const char *type)
{
    return dgl_str_eq(dgl_json_str(dgl_json_get(object, "type")), type);
}

/* The properties of a pre_tokenizer that this table can express. */
struct cuts {
    bool digits, byte_level, gpt2, other;
    struct dgl_str regex[GGUF_PRE_MAX];
    size_t num_regex;
};

/* Reads one step. A Split that keeps only its matches cuts like one that isolates them, because
 * these patterns match all text. */
static void cuts_add(struct cuts *c, const struct dgl_json *step)
{
    struct dgl_str behavior = dgl_json_str(dgl_json_get(step, "behavior"));
    struct dgl_str regex = dgl_json_str(dgl_json_get(dgl_json_get(step, "pattern"), "Regex"));
    bool invert = dgl_json_bool(dgl_json_get(step, "invert"));
    bool whole = (dgl_str_eq(behavior, "Isolated") && !invert) ||
                 (dgl_str_eq(behavior, "Removed") && invert);
    if (c->byte_level)
        c->other = true; /* no step may follow it */
    else if (type_is(step, "Digits") && dgl_json_bool(dgl_json_get(step, "individual_digits")) &&
             c->num_regex == 0)
        c->digits = true;
    else if (type_is(step, "Split") && whole && regex.p && c->num_regex < GGUF_PRE_MAX &&
             !c->digits)
        c->regex[c->num_regex++] = regex;
    else if (type_is(step, "ByteLevel") && !dgl_json_bool(dgl_json_get(step, "add_prefix_space")))
        c->byte_level = true;
    else
        c->other = true;
    if (type_is(step, "ByteLevel"))
        c->gpt2 = dgl_json_bool(dgl_json_get(step, "use_regex"));
}

const struct gguf_pre *gguf_pre_match(const struct dgl_json *normalizer,
                                      const struct dgl_json *pre_tokenizer, bool ignore_merges)
{
    struct cuts c = {0};
    if (type_is(pre_tokenizer, "Sequence")) {
        const struct dgl_json *steps = dgl_json_get(pre_tokenizer, "pretokenizers");
        for (const struct dgl_json *s = dgl_json_first(steps); s; s = dgl_json_next(s))
            cuts_add(&c, s);
    } else {
        cuts_add(&c, pre_tokenizer);
    }
    bool normalizes = normalizer && !dgl_json_is(normalizer, DGL_JSON_NULL);
    if (c.other || !c.byte_level || (normalizes && !type_is(normalizer, "NFC")) ||
        c.gpt2 == (c.num_regex > 0))
        return NULL;
    for (size_t i = 0; i < NUM_PRES; i++) {
        const struct gguf_pre *p = &pres[i];
        size_t same = 0;
        while (same < c.num_regex && p->regex[same] && dgl_str_eq(c.regex[same], p->regex[same]))
            same++;
        bool same_regex = same == c.num_regex && (same == GGUF_PRE_MAX || !p->regex[same]);
        if (same_regex && p->digits == c.digits && p->nfc == normalizes &&
            p->ignore_merges == ignore_merges)
            return p;
    }
    return NULL;
}

/* ---- writing one ---- */

#define BYTE_LEVEL(use_regex)                                                                      \
    "{\"type\": \"ByteLevel\", \"add_prefix_space\": false, \"trim_offsets\": true, "              \
    "\"use_regex\": " use_regex "}"

void gguf_pre_write(struct dgl_json_writer *w, const struct gguf_pre *pre)
{
    dgl_jw_field_raw(w, "normalizer", pre->nfc ? "{\"type\": \"NFC\"}" : "null");
    dgl_jw_field_object(w, "pre_tokenizer");
    dgl_jw_field_cstr(w, "type", "Sequence");
    dgl_jw_field_array(w, "pretokenizers");
    if (pre->digits)
        dgl_jw_raw(w, "{\"type\": \"Digits\", \"individual_digits\": true}");
    for (size_t i = 0; i < GGUF_PRE_MAX && pre->regex[i]; i++) {
        dgl_jw_object(w);
        dgl_jw_field_cstr(w, "type", "Split");
        dgl_jw_field_object(w, "pattern");
        dgl_jw_field_cstr(w, "Regex", pre->regex[i]);
        dgl_jw_end_object(w);
        dgl_jw_field_cstr(w, "behavior", "Isolated");
        dgl_jw_field_bool(w, "invert", false);
        dgl_jw_end_object(w);
    }
    dgl_jw_raw(w, pre->regex[0] ? BYTE_LEVEL("false") : BYTE_LEVEL("true"));
    dgl_jw_end_array(w);
    dgl_jw_end_object(w);
}
