/* Answers of chat models as text, cut at every byte: content, reasoning and tool calls, in the
 * formats of four families and without a format. */
#include "tests/support/test.h"

#include <stdlib.h>
#include <time.h>

#include "core/base/str.h"
#include "core/dopplergl.h"
#include "core/text/text_stream.h"
#include "loader/chat/chat_template.h"
#include "tests/support/published.h"

/* ---- templates ------------------------------------------------------------------------------- */

/* Short templates with the words that identify each family. */
#define PLAIN   "{{ messages[0].content }}"
#define HERMES  "{% if tools %}<tool_call>{% endif %}"
#define THINKS  HERMES "{{ '<think>' }}"
#define LLAMA   "<|start_header_id|>ipython<|end_header_id|>"
#define MISTRAL "{{ '[TOOL_CALLS][' }}"
#define HARMONY "<|start|>assistant<|channel|>analysis<|message|>"

static struct dgl_template *template_of(const char *text)
{
    struct dgl_template *tmpl = NULL;
    struct chat_source source;
    chat_source_init(&source);
    assert_int_equal(chat_source_add(NULL, &source, "T", DGL_STR(CHAT_DEFAULT), dgl_str_of(text)),
                     DGL_OK);
    assert_int_equal(chat_template_create(NULL, &source, dgl_template_params(.path = "M"), &tmpl),
                     DGL_OK);
    chat_source_finish(&source);
    return tmpl;
}

struct family {
    const char *name, *text, *format;
};
static const struct family families[] = {
    {"none", PLAIN, NULL},           {"hermes", HERMES, "hermes"},    {"llama3", LLAMA, "llama3"},
    {"mistral", MISTRAL, "mistral"}, {"harmony", HARMONY, "harmony"},
};

static void test_family(void **state)
{
    const struct family *row = *state;
    struct dgl_template *tmpl = template_of(row->text);
    const char *format = dgl_template_call_format(tmpl);
    if (row->format)
        assert_string_equal(format ? format : "none", row->format);
    else
        assert_null(format);
    dgl_template_destroy(&tmpl);
}

/* ---- generated answers -------------------------------------------------------------------------
 */

struct answer {
    const char *name, *tmpl;
    bool calls, keeps;
    const char *prompt_end;
    const char *text;
    const char *want; /* C(content) R(reasoning) F(name|id|arguments) */
};
/* clang-format off */
static const struct answer answers[] = {
    {"no tools", HERMES, 0, 0, NULL, "<tool_call>{\"name\":\"f\"}</tool_call> ",
     "C(<tool_call>{\"name\":\"f\"}</tool_call> )"},
    {"no format", PLAIN, 1, 0, NULL, "<tool_call>{\"name\":\"f\"}</tool_call>",
     "C(<tool_call>{\"name\":\"f\"}</tool_call>)"},
    {"nothing", HERMES, 1, 0, NULL, "", ""},
    {"blanks", HERMES, 1, 0, NULL, " \n ", "C( \n )"},
    {"content", HERMES, 1, 0, NULL, " a < b <tool\n", "C( a < b <tool\n)"},

    {"hermes", HERMES, 1, 0, NULL,
     "<tool_call>\n{\"name\": \"f\", \"arguments\": {\"a\": [1, 2.50], \"b\": \"}</tool_call>\"}}\n"
     "</tool_call>",
     "F(f||{\"a\": [1, 2.5], \"b\": \"}</tool_call>\"})"},
    {"hermes, words and two calls", HERMES, 1, 0, NULL,
     "I look.\n<tool_call>{\"name\":\"f\",\"arguments\":{}}</tool_call>\n"
     "<tool_call>{\"name\":\"g\",\"arguments\":{\"x\":\"\\\"\\\\\"}}</tool_call>\n",
     "C(I look.)F(f||{})F(g||{\"x\": \"\\\"\\\\\"})"},
    {"hermes, no arguments", HERMES, 1, 0, NULL, "<tool_call>{\"name\":\"f\"}</tool_call>",
     "F(f||{})"},
    {"hermes, arguments as text", HERMES, 1, 0, NULL,
     "<tool_call>{\"name\":\"f\",\"arguments\":\"{\\\"a\\\":1}\"}</tool_call>", "F(f||{\"a\": 1})"},
    {"hermes, content behind a call", HERMES, 1, 0, NULL,
     "<tool_call>{\"name\":\"f\"}</tool_call>\n so", "F(f||{})C(so)"},
    {"hermes, without the end", HERMES, 1, 0, NULL, "<tool_call>{\"name\":\"f\"}\n", "F(f||{})"},
    {"hermes, in the end", HERMES, 1, 0, NULL, "<tool_call>{\"name\":\"f\"}</tool_", "F(f||{})"},
    {"hermes, cut", HERMES, 1, 0, NULL, "So: <tool_call>{\"name\":\"f\",\"argu",
     "C(So: <tool_call>{\"name\":\"f\",\"argu)"},
    {"hermes, no JSON", HERMES, 1, 0, NULL, "<tool_call>f(1)</tool_call>",
     "C(<tool_call>f(1)</tool_call>)"},
    {"hermes, bad JSON", HERMES, 1, 0, NULL, "<tool_call>{\"name\":f}</tool_call>.",
     "C(<tool_call>{\"name\":f}</tool_call>.)"},
    {"hermes, a name that is none", HERMES, 1, 0, NULL, "<tool_call>{\"name\":3}</tool_call>",
     "C(<tool_call>{\"name\":3}</tool_call>)"},
    {"hermes, arguments that are none", HERMES, 1, 0, NULL,
     "<tool_call>{\"name\":\"f\",\"arguments\":[1]}</tool_call>",
     "C(<tool_call>{\"name\":\"f\",\"arguments\":[1]}</tool_call>)"},
    {"hermes, a call behind one that is none", HERMES, 1, 0, NULL,
     "<tool_call>x <tool_call>{\"name\":\"f\"}</tool_call>", "C(<tool_call>x)F(f||{})"},

    {"hermes, a list in one tag", HERMES, 1, 0, NULL,
     "<tool_call>[{\"name\":\"f\",\"arguments\":{\"a\":1}}, {\"name\":\"g\"}]</tool_call>",
     "F(f||{\"a\": 1})F(g||{})"},
    {"hermes, two in one tag", HERMES, 1, 0, NULL,
     "<tool_call>\n{\"name\":\"f\"}\n{\"name\":\"g\",\"arguments\":{}}\n</tool_call> so",
     "F(f||{})F(g||{})C(so)"},
    {"hermes, two with a comma", HERMES, 1, 0, NULL,
     "<tool_call>{\"name\":\"f\"}, {\"name\":\"g\"}</tool_call>", "F(f||{})F(g||{})"},
    {"hermes, the second is none", HERMES, 1, 0, NULL,
     "<tool_call>{\"name\":\"f\"} {x}</tool_call>",
     "F(f||{})C( {x}</tool_call>)"},
    {"hermes, arguments null", HERMES, 1, 0, NULL,
     "<tool_call>{\"name\":\"f\",\"arguments\":null}</tool_call>", "F(f||{})"},
    {"hermes, arguments of an empty text", HERMES, 1, 0, NULL,
     "<tool_call>{\"name\":\"f\",\"arguments\":\"\"}</tool_call>", "F(f||{})"},
    {"hermes, a fence in the tag", HERMES, 1, 0, NULL,
     "<tool_call>\n```json\n{\"name\":\"f\"}\n```\n</tool_call>\nso", "F(f||{})C(so)"},
    {"hermes, a fence without a tag", HERMES, 1, 0, NULL,
     "I call.\n```json\n{\"name\":\"f\",\"arguments\":{\"a\":\"`\"}}\n```\n so",
     "C(I call.)F(f||{\"a\": \"`\"})C(so)"},
    {"hermes, a plain fence with two calls", HERMES, 1, 0, NULL,
     "```\n{\"name\":\"f\",\"arguments\":null}\n{\"name\":\"g\",\"arguments\":{}}\n```",
     "F(f||{})F(g||{})"},
    {"hermes, a fence with a list", HERMES, 1, 0, NULL,
     "```tool_call\n[{\"name\":\"f\",\"arguments\":{}}]\n```", "F(f||{})"},
    {"hermes, a fence with other JSON", HERMES, 1, 0, NULL,
     "So:\n```json\n{\"a\": 1}\n```\nand ``.",
     "C(So:\n```json\n{\"a\": 1}\n```\nand ``.)"},
    {"hermes, a fence with an unknown function", HERMES, 1, 0, NULL,
     "```json\n{\"name\":\"h\",\"arguments\":{}}\n```",
     "C(```json\n{\"name\":\"h\",\"arguments\":{}}\n```)"},
    {"hermes, a fence with code", HERMES, 1, 0, NULL, "```python\nf({})\n```\n",
     "C(```python\nf({})\n```\n)"},
    {"hermes, a cut fence", HERMES, 1, 0, NULL, "``` \n{\"name\":", "C(``` \n{\"name\":)"},
    {"hermes, deep JSON", HERMES, 1, 0, NULL,
     "<tool_call>{\"name\":\"f\",\"arguments\":"
     "{\"a\":[[[[{\"b\":[true,null,-1.5e-3]}]]]]}}</tool_call>",
     "F(f||{\"a\": [[[[{\"b\": [true, null, -0.0015]}]]]]})"},
    {"hermes, brackets that do not match", HERMES, 1, 0, NULL, "<tool_call>{\"a\":[1}]</tool_call>",
     "C(<tool_call>{\"a\":[1}]</tool_call>)"},

    {"thoughts", THINKS, 0, 0, NULL, "<think>\nWell, a < b.\n</think>\n\nYes. ",
     "R(Well, a < b.)C(Yes. )"},
    {"thoughts, then a call", THINKS, 1, 0, NULL,
     "\n<think>hm</think>\n\n<tool_call>\n{\"name\": \"f\", \"arguments\": {}}\n</tool_call>",
     "R(hm)F(f||{})"},
    {"a call that is only thought of", THINKS, 1, 0, NULL,
     "<think><tool_call>{\"name\":\"f\"}</tool_call></think>no",
     "R(<tool_call>{\"name\":\"f\"}</tool_call>)C(no)"},
    {"empty thoughts", THINKS, 0, 0, NULL, "<think>\n\n</think>\n\nYes", "C(Yes)"},
    {"thoughts that the prompt began", THINKS, 0, 0, "<|im_start|>assistant\n<think>\n",
     "hm</think>Yes", "R(hm)C(Yes)"},
    {"thoughts that the prompt ended", THINKS, 0, 0, "<think>\n\n</think>\n\n", "Yes", "C(Yes)"},
    {"thoughts without an end", THINKS, 0, 0, NULL, "<think>on and on\n", "R(on and on\n)"},
    {"thoughts, kept", THINKS, 0, 1, NULL, "<think>hm</think>Yes", "C(<think>hm</think>Yes)"},
    {"a tag in the answer", THINKS, 0, 0, NULL, "Say <think> twice", "C(Say <think> twice)"},
    {"the beginning of a tag", THINKS, 0, 0, NULL, " <thi", "C( <thi)"},

    {"llama", LLAMA, 1, 0, NULL, "{\"name\": \"f\", \"parameters\": {\"a\": \"{\"}}",
     "F(f||{\"a\": \"{\"})"},
    {"llama, tagged", LLAMA, 1, 0, NULL,
     "<|python_tag|>{\"type\": \"function\", \"name\": \"h\", \"parameters\": {}}", "F(h||{})"},
    {"llama, several", LLAMA, 1, 0, NULL,
     "{\"name\":\"f\",\"parameters\":{}}; {\"name\":\"g\",\"parameters\":{}}\n"
     "{\"name\":\"f\",\"arguments\":{}}",
     "F(f||{})F(g||{})F(f||{})"},
    {"llama, a function that there is not", LLAMA, 1, 0, NULL,
     "{\"name\": \"h\", \"parameters\": {}}", "C({\"name\": \"h\", \"parameters\": {}})"},
    {"llama, an answer in JSON", LLAMA, 1, 0, NULL,
     "\n{\"name\": \"f\"} ", "C(\n{\"name\": \"f\"} )"},
    {"llama, JSON in the answer", LLAMA, 1, 0, NULL,
     "So {\"name\": \"f\", \"parameters\": {}}", "C(So {\"name\": \"f\", \"parameters\": {}})"},
    {"llama, Python", LLAMA, 1, 0, NULL, "<|python_tag|>search.call(query=\"a\")",
     "C(<|python_tag|>search.call(query=\"a\"))"},
    {"llama, cut", LLAMA, 1, 0, NULL, "{\"name\": \"f\", ", "C({\"name\": \"f\", )"},

    {"mistral", MISTRAL, 1, 0, NULL,
     "[TOOL_CALLS][{\"name\": \"f\", \"arguments\": {\"a\": 1}, \"id\": \"abcdefghi\"}, "
     "{\"name\": \"g\", \"arguments\": {}}]",
     "F(f|abcdefghi|{\"a\": 1})F(g||{})"},
    {"mistral, with words", MISTRAL, 1, 0, NULL,
     "Let me see. [TOOL_CALLS] [{\"name\": \"f\", \"arguments\": {}}]", "C(Let me see.)F(f||{})"},
    {"mistral, newer", MISTRAL, 1, 0, NULL,
     "[TOOL_CALLS]f[ARGS]{\"a\": 1}[TOOL_CALLS]g[CALL_ID]123456789[ARGS]{}",
     "F(f||{\"a\": 1})F(g|123456789|{})"},
    {"mistral, one that is none", MISTRAL, 1, 0, NULL,
     "[TOOL_CALLS][{\"name\": \"f\"}, 3] a", "C([TOOL_CALLS][{\"name\": \"f\"}, 3] a)"},
    {"mistral, an empty list", MISTRAL, 1, 0, NULL, "[TOOL_CALLS][]", "C([TOOL_CALLS][])"},
    {"mistral, fenced", MISTRAL, 1, 0, NULL, "[TOOL_CALLS]```json\n[{\"name\":\"f\"}]\n```",
     "F(f||{})"},
    {"mistral, no call", MISTRAL, 1, 0, NULL, "[TOOL_CALLS]nothing", "C([TOOL_CALLS]nothing)"},
    {"mistral, arguments that are none", MISTRAL, 1, 0, NULL, "[TOOL_CALLS]f[ARGS]3",
     "C([TOOL_CALLS]f[ARGS]3)"},
    {"mistral, words before one that is none", MISTRAL, 1, 0, NULL, "text [TOOL_CALLS] [{]",
     "C(text [TOOL_CALLS] [{])"},
    {"mistral, cut", MISTRAL, 1, 0, NULL, "[TOOL_CALLS][{\"name\":\"f\",",
     "C([TOOL_CALLS][{\"name\":\"f\",)"},

    {"harmony", HARMONY, 0, 0, NULL,
     "<|channel|>analysis<|message|>Hm. a < b<|end|><|start|>assistant<|channel|>final<|message|>"
     "Yes <|x",
     "R(Hm. a < b)C(Yes <|x)"},
    {"harmony, a call", HARMONY, 1, 0, NULL,
     "<|channel|>analysis<|message|>Hm.<|end|><|start|>assistant<|channel|>commentary "
     "to=functions.f <|constrain|>json<|message|>{\"a\": \"<\"}<|call|>",
     "R(Hm.)F(f||{\"a\": \"<\"})"},
    {"harmony, the receiver first", HARMONY, 1, 0, NULL,
     " to=functions.f<|channel|>commentary json<|message|>{}", "F(f||{})"},
    {"harmony, words before a call", HARMONY, 1, 0, NULL,
     "<|channel|>commentary<|message|>I look.<|end|><|start|>assistant<|channel|>commentary "
     "to=functions.f<|message|>{}<|call|>",
     "C(I look.)F(f||{})"},
    {"harmony, two calls", HARMONY, 1, 0, NULL,
     "<|channel|>commentary to=functions.f<|message|>{}<|call|><|start|>assistant<|channel|>"
     "commentary to=functions.g<|message|>{\"b\": 2}<|call|>",
     "F(f||{})F(g||{\"b\": 2})"},
    {"harmony, no tools", HARMONY, 0, 0, NULL,
     "<|channel|>commentary to=functions.f<|message|>{}<|call|>", "C({})"},
    {"harmony, a call that is none", HARMONY, 1, 0, NULL,
     "<|channel|>commentary to=functions.f<|message|>{\"a\"<|call|>",
     "C(<|channel|>commentary to=functions.f<|message|>{\"a\"<|call|>)"},
    {"harmony, a call that was cut", HARMONY, 1, 0, NULL,
     "<|channel|>analysis<|message|>Hm.<|end|><|start|>assistant<|channel|>commentary "
     "to=functions.f <|constrain|>json<|message|>{\"a\"",
     "R(Hm.)C(<|start|>assistant<|channel|>commentary to=functions.f "
     "<|constrain|>json<|message|>{\"a\")"},
    {"harmony, an answer behind a call that is none", HARMONY, 1, 0, NULL,
     "<|channel|>commentary to=functions.f<|message|>3<|call|><|channel|>final<|message|>Yes",
     "C(<|channel|>commentary to=functions.f<|message|>3<|call|>Yes)"},
    {"harmony, a tool of its own", HARMONY, 1, 0, NULL,
     "<|channel|>analysis to=python<|message|>1+1<|call|>", "R(1+1)"},
    {"harmony, kept thoughts", HARMONY, 0, 1, NULL,
     "<|channel|>analysis<|message|>Hm.<|end|><|channel|>final<|message|> Yes", "C(Hm. Yes)"},
    {"harmony, cut in a header", HARMONY, 0, 0, NULL,
     "<|channel|>analysis<|message|>Hm.<|end|><|start|>assis", "R(Hm.)"},
    {"harmony, without channels", HARMONY, 0, 0, NULL, "Yes, <| that.", "C(Yes, <| that.)"},
    {"harmony, returned", HARMONY, 0, 0, NULL,
     "<|channel|>final<|message|>Yes<|return|>", "C(Yes)"},
};
/* clang-format on */

struct heard {
    struct dgl_buf text;
    char open; /* the kind of text that continues, or 0 */
    size_t parts, most;
};

static void close_text(struct heard *h)
{
    if (h->open)
        dgl_buf_putc(&h->text, ')');
    h->open = 0;
}

static bool hear(void *priv, const struct dgl_reply_part *part)
{
    struct heard *h = priv;
    const char letter = "CRF"[part->kind];
    if (h->parts++ == h->most)
        return false;
    if (h->open != letter || part->kind == DGL_REPLY_CALL) {
        close_text(h);
        dgl_buf_putc(&h->text, letter);
        dgl_buf_putc(&h->text, '(');
    }
    if (part->kind == DGL_REPLY_CALL)
        dgl_buf_printf(&h->text, "%s|%s|", part->name, part->id ? part->id : "");
    else
        assert_true(part->len > 0);
    dgl_buf_append(&h->text, part->text, part->len);
    h->open = letter;
    return true;
}

/* Reads in pieces of `size` bytes, the first of `first` bytes. */
static void read_answer(const struct answer *row, const struct dgl_template *tmpl, size_t first,
                        size_t size)
{
    static const char *const functions[] = {"f", "g"};
    struct heard h = {.most = SIZE_MAX};
    struct dgl_reply *reply = NULL;
    const size_t len = strlen(row->text);
    assert_int_equal(
        dgl_reply_create(NULL,
                         dgl_reply_params(.tmpl = tmpl, .prompt_end = row->prompt_end,
                                          .calls = row->calls, .functions = functions,
                                          .num_functions = 2, .keep_reasoning = row->keeps,
                                          .part_cb = hear, .priv = &h),
                         &reply),
        DGL_OK);
    for (size_t at = 0, n = first; at < len; at += n, n = size) {
        n = n < len - at ? n : len - at;
        char *piece = malloc(n); /* no byte behind it may be read */
        assert_non_null(piece);
        memcpy(piece, row->text + at, n);
        assert_int_equal(dgl_reply_push(reply, piece, n), DGL_OK);
        free(piece);
    }
    assert_int_equal(dgl_reply_end(reply), DGL_OK);
    close_text(&h);
    dgl_buf_puts(&h.text, "");
    if (strcmp(h.text.p, row->want) != 0)
        fail_msg("cut at %zu, then every %zu: %s, wanted %s", first, size, h.text.p, row->want);
    dgl_buf_finish(&h.text);
    dgl_reply_destroy(&reply);
}

static void test_answer(void **state)
{
    const struct answer *row = *state;
    struct dgl_template *tmpl = template_of(row->tmpl);
    const size_t len = strlen(row->text);
    for (size_t first = 1; first <= len + 1; first++)
        read_answer(row, tmpl, first, len + 1);
    for (size_t size = 1; size < 8; size++)
        read_answer(row, tmpl, size, size);
    dgl_template_destroy(&tmpl);
}

/* ---- published tokenizers -------------------------------------------------------------------- */

struct published {
    const char *folder, *format, *text, *want;
    size_t shown; /* special tokens of the format */
};
static const struct published published[] = {
    {"gpt-oss", "harmony",
     "<|channel|>analysis<|message|>Hm.<|end|><|start|>assistant<|channel|>commentary "
     "to=functions.f <|constrain|>json<|message|>{\"a\": 1}",
     "R(Hm.)F(f||{\"a\": 1})", 7},
    {"llama3.2", "llama3", "<|python_tag|>{\"name\": \"f\", \"parameters\": {\"a\": 1}}",
     "F(f||{\"a\": 1})", 1},
    {"mistral-nemo", "mistral",
     "[TOOL_CALLS][{\"name\": \"f\", \"arguments\": {\"a\": 1}, \"id\": \"012345678\"}]",
     "F(f|012345678|{\"a\": 1})", 1},
    {"qwen3", "hermes",
     "<think>\nHm.\n</think>\n\n<tool_call>\n{\"name\": \"f\", \"arguments\": {\"a\": "
     "1}}\n</tool_call>",
     "R(Hm.)F(f||{\"a\": 1})", 0},
};

/* From ids to parts, with the special tokens that must be shown, and one that must not. */
static void test_published(void **state)
{
    const struct published *row = *state;
    const char *dir = published_dir(row->folder);
    struct dgl_tokenizer *tok = NULL;
    struct dgl_template *tmpl = NULL;
    struct dgl_reply *reply = NULL;
    struct heard h = {.most = SIZE_MAX};
    struct text_stream stream;
    int32_t shown[DGL_REPLY_TOKENS_MAX], *ids = NULL;
    size_t count = 0;
    assert_int_equal(dgl_tokenizer_load(NULL, dir, &tok), DGL_OK);
    assert_int_equal(dgl_template_load(NULL, dgl_template_params(.path = dir), &tmpl), DGL_OK);
    assert_string_equal(dgl_template_call_format(tmpl), row->format);
    const size_t num_shown = dgl_template_reply_tokens(tmpl, tok, shown);
    assert_int_equal(num_shown, row->shown);
    assert_int_equal(
        dgl_encode(NULL, tok, row->text, strlen(row->text), dgl_encode_params(0), &ids, &count),
        DGL_OK);
    assert_int_equal(text_stream_init(&stream, NULL, tok,
                                      dgl_generate_params(.shown = shown, .num_shown = num_shown)),
                     DGL_OK);
    assert_int_equal(
        dgl_reply_create(NULL,
                         dgl_reply_params(.tmpl = tmpl, .calls = true,
                                          .functions = (const char *const[]){"f"},
                                          .num_functions = 1, .part_cb = hear, .priv = &h),
                         &reply),
        DGL_OK);
    int32_t other = -1; /* a special token that is no part of the format */
    for (int32_t id = 0; id <= dgl_tokenizer_max_id(tok) && other < 0; id++) {
        bool is_shown = false;
        for (size_t i = 0; i < num_shown; i++)
            is_shown |= shown[i] == id;
        other = tokenizer_is_special(tok, id) && !is_shown ? id : other;
    }
    assert_true(other >= 0);
    for (size_t i = 0; i <= count; i++) {
        text_stream_push(&stream, i < count ? ids[i] : other);
        const struct dgl_str ready = text_stream_ready(&stream);
        assert_int_equal(dgl_reply_push(reply, ready.p, ready.len), DGL_OK);
    }
    text_stream_end(&stream);
    const struct dgl_str ready = text_stream_ready(&stream);
    assert_int_equal(dgl_reply_push(reply, ready.p, ready.len), DGL_OK);
    assert_int_equal(dgl_reply_end(reply), DGL_OK);
    close_text(&h);
    assert_string_equal(h.text.p, row->want);
    dgl_free(ids);
    dgl_buf_finish(&h.text);
    text_stream_finish(&stream);
    dgl_reply_destroy(&reply);
    dgl_template_destroy(&tmpl);
    dgl_tokenizer_destroy(&tok);
}

/* ---- the rest -------------------------------------------------------------------------------- */

static void a_callback_may_end_it(void **state)
{
    struct dgl_template *tmpl = template_of(THINKS);
    struct heard h = {.most = 1};
    struct dgl_reply *reply = NULL;
    (void)state;
    assert_int_equal(
        dgl_reply_create(NULL, dgl_reply_params(.tmpl = tmpl, .part_cb = hear, .priv = &h), &reply),
        DGL_OK);
    assert_int_equal(dgl_reply_push(reply, "<think>a</think>b", 17), DGL_ERR_CANCELLED);
    assert_int_equal(dgl_reply_push(reply, "c", 1), DGL_ERR_CANCELLED);
    assert_int_equal(dgl_reply_end(reply), DGL_ERR_CANCELLED);
    assert_int_equal(h.parts, 2);
    assert_string_equal(h.text.p, "R(a");
    dgl_buf_finish(&h.text);
    dgl_reply_destroy(&reply);
    assert_int_equal(dgl_reply_create(NULL, dgl_reply_params(.tmpl = tmpl), &reply),
                     DGL_ERR_INVALID_ARG);
    assert_null(reply);
    dgl_reply_destroy(&reply);
    dgl_template_destroy(&tmpl);
}

/* A name that never ends, a header that never ends, a call that never ends. */
static void long_answers_end(void **state)
{
    static const struct {
        const char *tmpl, *begin, *part;
        size_t told; /* bytes of content at least */
    } rows[] = {
        {MISTRAL, "[TOOL_CALLS]", "name ", 49000},
        {HARMONY, "<|channel|>", "name ", 0},
        {HERMES, "<tool_call>{\"name\":\"", "name ", 50000},
        {HERMES, "", "\n", 10000},
    };
    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct dgl_template *tmpl = template_of(rows[i].tmpl);
        struct heard h = {.most = SIZE_MAX};
        struct dgl_reply *reply = NULL;
        assert_int_equal(dgl_reply_create(NULL,
                                          dgl_reply_params(.tmpl = tmpl, .calls = true,
                                                           .part_cb = hear, .priv = &h),
                                          &reply),
                         DGL_OK);
        assert_int_equal(dgl_reply_push(reply, rows[i].begin, strlen(rows[i].begin)), DGL_OK);
        for (int k = 0; k < 10000; k++)
            assert_int_equal(dgl_reply_push(reply, rows[i].part, strlen(rows[i].part)), DGL_OK);
        assert_int_equal(dgl_reply_end(reply), DGL_OK);
        assert_in_range(h.text.len, rows[i].told, 60000);
        dgl_buf_finish(&h.text);
        dgl_reply_destroy(&reply);
        dgl_template_destroy(&tmpl);
    }
}

/* Answers that continue a text, which is not reported. Cut at every byte. */
static const struct continued {
    const char *name, *tmpl, *continues, *text, *want;
} continued[] = {
    {"content", HERMES, "Once ", "upon", "C(upon)"},
    {"a blank at the cut", HERMES, "Once", " upon", "C( upon)"},
    {"blanks before the cut", THINKS, "  ", " x", "C( x)"},
    {"reasoning", THINKS, "<think>\nLet me", " see</think>Yes", "R( see)C(Yes)"},
    {"the start of reasoning", THINKS, "<think>", "\nhm</think>Yes", "R(hm)C(Yes)"},
    {"after reasoning", THINKS, "<think>hm</think>", "\nYes", "C(Yes)"},
    {"no reasoning after content", THINKS, "So", "<think>x", "C(<think>x)"},
    {"half a tag", HERMES, "So <tool", "_call>{\"name\":\"f\"}</tool_call>.", "F(f||{})C(.)"},
    {"half a tag that is none", HERMES, "So <tool", " x", "C( x)"},
    {"half a call", HERMES, "<tool_call>{\"na", "me\":\"f\"}</tool_call>", "F(f||{})"},
    {"a call", HERMES, "<tool_call>{\"name\":\"f\"}</tool_call>", "\nso", "C(so)"},
    {"harmony's content", HARMONY, "Once", " upon", "C( upon)"},
    {"nothing", HERMES, "", "Yes", "C(Yes)"},
};

static void test_continued(void **state)
{
    const struct continued *row = *state;
    struct dgl_template *tmpl = template_of(row->tmpl);
    for (size_t size = 1; size <= strlen(row->text); size++) {
        static const char *const functions[] = {"f"};
        struct heard h = {.most = SIZE_MAX};
        struct dgl_reply *reply = NULL;
        assert_int_equal(
            dgl_reply_create(NULL,
                             dgl_reply_params(.tmpl = tmpl, .continues = row->continues,
                                              .prompt_end = "<think>", .calls = true,
                                              .functions = functions, .num_functions = 1,
                                              .part_cb = hear, .priv = &h),
                             &reply),
            DGL_OK);
        for (size_t at = 0; at < strlen(row->text); at += size)
            assert_int_equal(dgl_reply_push(reply, row->text + at, strnlen(row->text + at, size)),
                             DGL_OK);
        assert_int_equal(dgl_reply_end(reply), DGL_OK);
        close_text(&h);
        dgl_buf_puts(&h.text, "");
        if (strcmp(h.text.p, row->want) != 0)
            fail_msg("cut every %zu: %s, wanted %s", size, h.text.p, row->want);
        dgl_buf_finish(&h.text);
        dgl_reply_destroy(&reply);
    }
    dgl_template_destroy(&tmpl);
}

/* Reading is linear: four megabytes of openings that never end, in one piece and in pieces of one
 * byte, are read in seconds. A search to the end per opening takes minutes. */
static const struct repeated {
    const char *name, *tmpl, *unit;
} repeated[] = {
    {"tags", HERMES, "<tool_call>"},
    {"objects", HERMES, "<tool_call>{"},
    {"names", HERMES, "<tool_call>{\"a\":\""},
    {"lists", HERMES, "<tool_call>["},
    {"strings of tags", HERMES, "[\"<tool_call>[\","},
    {"calls", HERMES, "<tool_call>{\"name\":\"f\"}</tool_call>"},
    {"fences", HERMES, "```json\n{"},
    {"plain fences", HERMES, "``` "},
    {"half tags", HERMES, " <tool_cal"},
    {"blanks", THINKS, "\n"},
    {"blanks before a call", LLAMA, " "},
    {"semicolons", LLAMA, "{\"name\":\"f\",\"parameters\":{}};"},
    {"names of Mistral", MISTRAL, "[TOOL_CALLS]x"},
    {"ids of Mistral", MISTRAL, "[TOOL_CALLS]x[CALL_ID]"},
    {"headers", HARMONY, "<|start|>assistant<|channel|>final"},
    {"bodies", HARMONY, "<|channel|>final<|message|>a<|end|>"},
    {"calls of harmony", HARMONY, "<|channel|>commentary to=functions.f<|message|>{"},
    {"one call of harmony", HARMONY, "<|channel|>x to=functions.f<|message|>{\"a\":\"<|\"}"},
};

static void test_linear(void **state)
{
    enum { bytes = 4 << 20, seconds = 20 };
    const struct repeated *row = *state;
    static const char *const functions[] = {"f"};
    const size_t unit = strlen(row->unit);
    struct dgl_template *tmpl = template_of(row->tmpl);
    char *text = malloc(bytes);
    assert_non_null(text);
    for (size_t i = 0; i < bytes; i++)
        text[i] = row->unit[i % unit];
    for (int whole = 0; whole < 2; whole++) {
        struct heard h = {.most = SIZE_MAX};
        struct dgl_reply *reply = NULL;
        const clock_t start = clock();
        assert_int_equal(
            dgl_reply_create(NULL,
                             dgl_reply_params(.tmpl = tmpl, .calls = true, .functions = functions,
                                              .num_functions = 1, .part_cb = hear, .priv = &h),
                             &reply),
            DGL_OK);
        for (size_t at = 0, size = whole ? bytes : 1; at < bytes; at += size)
            assert_int_equal(dgl_reply_push(reply, text + at, size), DGL_OK);
        assert_int_equal(dgl_reply_end(reply), DGL_OK);
        const double took = (double)(clock() - start) / CLOCKS_PER_SEC;
        if (took > seconds)
            fail_msg("%.1f s, wanted less than %d", took, seconds);
        dgl_buf_finish(&h.text);
        dgl_reply_destroy(&reply);
    }
    free(text);
    dgl_template_destroy(&tmpl);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_callback_may_end_it),
        cmocka_unit_test(long_answers_end),
    };
    int failures = test_run_table("reply: family", test_family, families);
    failures += test_run_table("reply: answer", test_answer, answers);
    failures += test_run_table("reply: continued", test_continued, continued);
    failures += test_run_table("reply: linear", test_linear, repeated);
    failures += test_run_table("reply: published", test_published, published);
    return failures + cmocka_run_group_tests_name("reply", tests, NULL, NULL);
}
