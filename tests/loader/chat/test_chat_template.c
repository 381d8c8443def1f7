/* Chat templates of models: the sources of templates and special tokens, the choice among several,
 * the variables of a render, and the conversion of conversations into ids. */
#include "tests/support/test.h"

#include <stdlib.h>

#include "core/base/file.h"
#include "loader/tokenizer/tokenizer.h"

#define ARCHIVE "tokenizers/synthetic+unicode.tar.gz"
#define BUNDLED "tests/models/story-llama-q4_k_m"

#define HI "[{\"role\":\"user\",\"content\":\"hi\"}]"

/* ---- sources --------------------------------------------------------------------------------- */

enum { MAX_FILES = 4 };

struct source_row {
    const char *name;
    const char *files[MAX_FILES][2]; /* name and text */
    const char *template_name;
    const char *messages; /* NULL: HI */
    const char *want;     /* the text, or a part of the error line after "!" */
};

#define JINJA(text)                                                                                \
    {                                                                                              \
        "chat_template.jinja", text                                                                \
    }
#define FOLDER "additional_chat_templates"
#define EXTRA(n, text)                                                                             \
    {                                                                                              \
        FOLDER "/" n, text                                                                         \
    }
#define OLD(text)                                                                                  \
    {                                                                                              \
        "chat_template.json", text                                                                 \
    }
#define CONFIG(text)                                                                               \
    {                                                                                              \
        "tokenizer_config.json", text                                                              \
    }
#define TOKENS(text)                                                                               \
    {                                                                                              \
        "special_tokens_map.json", text                                                            \
    }
#define ADDED(text)                                                                                \
    {                                                                                              \
        "tokenizer.json", "{\"added_tokens\":[" text "]}"                                          \
    }
#define TWO                                                                                        \
    "{\"chat_template\":[{\"name\":\"default\",\"template\":\"D\"},{\"name\":\"tool_use\","        \
    "\"template\":\"T\"}]}"
#define WITH_TOOLS "{\"messages\":" HI ",\"tools\":[{\"name\":\"f\"}]}"
#define BOTH       "{{ bos_token }}|{{ eos_token }}"

#define FORM(part)                                                                                 \
    {                                                                                              \
        "tokenizer.json", "{\"type\":\"bpe\",\"model\":\"llama\",\"vocab\":{\"<s>\":0,\"<b>\":1,"  \
                          "\"<e>\":2},\"vocabSize\":3,\"scores\":[0,0,0]," part "}"                \
    }

static const struct source_row source_rows[] = {
    {"chat_template.jinja", {JINJA("J{{ messages[0].content }}")}, NULL, NULL, "Jhi"},
    {"chat_template.json", {OLD("{\"chat_template\":\"O\"}")}, NULL, NULL, "O"},
    {"tokenizer_config.json", {CONFIG("{\"chat_template\":\"C\"}")}, NULL, NULL, "C"},
    {"jinja goes before both",
     {JINJA("J"), OLD("{\"chat_template\":\"O\"}"), CONFIG("{\"chat_template\":\"C\"}")},
     NULL,
     NULL,
     "J"},
    {"json goes before the config",
     {OLD("{\"chat_template\":\"O\"}"), CONFIG("{\"chat_template\":\"C\"}")},
     NULL,
     NULL,
     "O"},
    {"an empty template is one", {JINJA(""), CONFIG("{\"chat_template\":\"C\"}")}, NULL, NULL, ""},
    {"a null template is none",
     {OLD("{\"chat_template\":null}"), CONFIG("{\"chat_template\":\"C\"}")},
     NULL,
     NULL,
     "C"},
    {"the default of several", {CONFIG(TWO)}, NULL, NULL, "D"},
    {"one of several", {CONFIG(TWO)}, "tool_use", NULL, "T"},
    {"default by its name", {CONFIG(TWO)}, "default", WITH_TOOLS, "D"},
    {"tools choose tool_use", {CONFIG(TWO)}, NULL, WITH_TOOLS, "T"},
    {"tools that are null do not",
     {CONFIG(TWO)},
     NULL,
     "{\"messages\":" HI ",\"tools\":null}",
     "D"},
    {"tools keep a stronger default", {JINJA("J"), CONFIG(TWO)}, NULL, WITH_TOOLS, "J"},
    {"a name of a weaker place", {JINJA("J"), CONFIG(TWO)}, "tool_use", NULL, "T"},
    {"a single template is the default", {JINJA("J")}, "default", NULL, "J"},
    {"a file of additional templates", {JINJA("J"), EXTRA("rag.jinja", "R")}, "rag", NULL, "R"},
    {"the default beside it", {JINJA("J"), EXTRA("rag.jinja", "R")}, NULL, NULL, "J"},
    {"an additional default goes before chat_template.jinja",
     {JINJA("J"), EXTRA("default.jinja", "A")},
     NULL,
     NULL,
     "A"},
    {"additional templates go before the config",
     {EXTRA("tool_use.jinja", "A"), CONFIG(TWO)},
     "tool_use",
     NULL,
     "A"},
    {"tools choose an additional tool_use",
     {JINJA("J"), EXTRA("tool_use.jinja", "A{{ tools|length }}")},
     NULL,
     WITH_TOOLS,
     "A1"},
    {"tools keep a default of another place",
     {EXTRA("tool_use.jinja", "A"), CONFIG(TWO)},
     NULL,
     WITH_TOOLS,
     "D"},
    {"other files of that folder are none",
     {EXTRA("rag.txt", "R"), EXTRA(".jinja", "R"), JINJA("J")},
     "rag",
     NULL,
     "!no chat template \"rag\"; it has default"},
    {"flat names are for packs",
     {{"chat_template.rag.jinja", "R"}, JINJA("J")},
     "rag",
     NULL,
     "!no chat template \"rag\"; it has default"},
    {"an additional template that does not parse",
     {EXTRA("rag.jinja", "\n{% if %}")},
     "rag",
     NULL,
     "!" FOLDER "/rag.jinja:2"},
    {"no such name",
     {CONFIG(TWO)},
     "rag",
     NULL,
     "!no chat template \"rag\"; it has default, tool_use"},
    {"no default",
     {CONFIG("{\"chat_template\":[{\"name\":\"rag\",\"template\":\"R\"}]}")},
     NULL,
     NULL,
     "!no chat template \"default\"; it has rag"},
    {"an object of templates",
     {CONFIG("{\"chat_template\":{\"default\":\"D\",\"rag\":\"R\"}}")},
     NULL,
     NULL,
     "D"},
    {"one of an object",
     {CONFIG("{\"chat_template\":{\"default\":\"D\",\"rag\":\"R\"}}")},
     "rag",
     NULL,
     "R"},
    {"an object of numbers",
     {CONFIG("{\"chat_template\":{\"default\":5}}")},
     NULL,
     NULL,
     "!chat_template.default is 5, wanted a template"},
    {"no template", {CONFIG("{}")}, NULL, NULL, "!the model has no chat template"},
    {"an empty folder", {{NULL}}, NULL, NULL, "!the model has no chat template"},
    {"a template that is a number",
     {CONFIG("{\"chat_template\":5}")},
     NULL,
     NULL,
     "!tokenizer_config.json: chat_template: a number"},
    {"a named one without text",
     {CONFIG("{\"chat_template\":[{\"name\":\"rag\"}]}")},
     NULL,
     NULL,
     "!chat_template[0].template is missing"},
    {"a file that is no JSON", {OLD("J")}, NULL, NULL, "!chat_template.json: byte 1"},
    {"a file that is an array", {OLD("[]")}, NULL, NULL, "!chat_template.json: an array"},
    {"a template that does not parse", {JINJA("{% if %}")}, NULL, NULL, "!chat_template.jinja:1"},
    {"tokens of the config",
     {JINJA(BOTH), CONFIG("{\"bos_token\":\"B\",\"eos_token\":{\"content\":\"E\"}}")},
     NULL,
     NULL,
     "B|E"},
    {"the map goes before the config",
     {JINJA(BOTH), CONFIG("{\"bos_token\":\"B\",\"eos_token\":\"E\"}"),
      TOKENS("{\"bos_token\":\"x\",\"eos_token\":null}")},
     NULL,
     NULL,
     "x|"},
    {"the map beside a list of tokens",
     {JINJA(BOTH), CONFIG("{\"bos_token\":\"B\",\"added_tokens_decoder\":{}}"),
      TOKENS("{\"bos_token\":\"x\",\"eos_token\":\"y\"}")},
     NULL,
     NULL,
     "B|"},
    {"tokens of the map",
     {JINJA(BOTH), CONFIG("{\"bos_token\":null}"),
      TOKENS("{\"bos_token\":{\"content\":\"MB\"},\"eos_token\":\"ME\"}")},
     NULL,
     NULL,
     "MB|ME"},
    {"each token on its own",
     {JINJA(BOTH), CONFIG("{\"bos_token\":\"B\"}"), TOKENS("{\"eos_token\":\"ME\"}")},
     NULL,
     NULL,
     "B|ME"},
    {"added tokens",
     {JINJA(BOTH), ADDED("{\"content\":\"<s>\",\"special\":true},{\"content\":\"</s>\",\"special\":"
                         "true}")},
     NULL,
     NULL,
     "<s>|</s>"},
    {"added tokens that are not special",
     {JINJA(BOTH), ADDED("{\"content\":\"<s>\",\"special\":false}")},
     NULL,
     NULL,
     "|"},
    {"roles of DOPPLER's form",
     {JINJA(BOTH "{{ pad_token }}"), FORM("\"specialTokens\":{\"bos\":1,\"eos\":2,\"pad\":0}")},
     NULL,
     NULL,
     "<b>|<e><s>"},
    {"roles of DOPPLER's form and <s>",
     {JINJA(BOTH),
      FORM("\"specialTokens\":{\"eos\":2},\"tokenTypes\":[3,3,3],\"addBosToken\":false")},
     NULL,
     NULL,
     "<s>|<e>"},
    {"the config goes before roles",
     {JINJA(BOTH), CONFIG("{\"bos_token\":\"B\"}"),
      FORM("\"specialTokens\":{\"bos\":1,\"eos\":2}")},
     NULL,
     NULL,
     "B|<e>"},
    {"no tokens", {JINJA("{{ bos_token is defined }}" BOTH)}, NULL, NULL, "False|"},
    {"further tokens",
     {JINJA("{{ unk_token }}{{ pad_token }}"), CONFIG("{\"unk_token\":\"U\",\"pad_token\":\"P\"}")},
     NULL,
     NULL,
     "UP"},
    {"a token that is an object without content",
     {JINJA(BOTH), CONFIG("{\"bos_token\":{}}")},
     NULL,
     NULL,
     "!bos_token.content is missing"},
};

static enum dgl_status render(const struct dgl_log *log, const struct dgl_template_params *load,
                              const struct dgl_render_params *params, char **text, size_t *len)
{
    struct dgl_template *tmpl = NULL;
    *text = NULL;
    *len = 0;
    enum dgl_status status = dgl_template_load(log, load, &tmpl);
    assert_int_equal(status == DGL_OK, tmpl != NULL);
    if (status == DGL_OK)
        status = dgl_render(log, tmpl, params, text, len);
    dgl_template_destroy(&tmpl);
    assert_null(tmpl);
    return status;
}

static void expect_render(const struct dgl_template_params *load,
                          const struct dgl_render_params *params, const char *want)
{
    struct test_log t;
    char *text;
    size_t len;
    test_log_init(&t, DGL_LOG_WARN);
    enum dgl_status status = render(&t.log, load, params, &text, &len);
    if (want[0] == '!') {
        assert_int_not_equal(status, DGL_OK);
        assert_null(text);
        assert_int_equal(t.errors, 1);
        assert_contains(t.text, want + 1);
        return;
    }
    if (status != DGL_OK)
        fail_msg("%s", t.text);
    assert_string_equal(text, want);
    assert_int_equal(len, strlen(want));
    dgl_free(text);
}

static void sources_case(void **state)
{
    const struct source_row *row = *state;
    char *dir = test_tmpdir(), *folder = dgl_path_join(dir, FOLDER);
    assert_int_equal(dgl_dir_make(NULL, folder), DGL_OK);
    free(folder);
    for (size_t i = 0; i < MAX_FILES && row->files[i][0]; i++)
        test_write_file(dir, row->files[i][0], row->files[i][1], strlen(row->files[i][1]));
    expect_render(dgl_template_params(.path = dir, .name = row->template_name),
                  dgl_render_params(.messages = row->messages ? row->messages : HI), row->want);
    test_tmpdir_remove(dir);
}

/* ---- variables of a render ---------------------------------------------------------------------
 */

struct render_row {
    const char *name, *tmpl, *messages;
    bool prompt;
    const char *want;
};

static const struct render_row render_rows[] = {
    {"an array of messages", "{{ messages|length }}", HI, false, "1"},
    {"an object with messages", "{{ messages|length }}", "{\"messages\":" HI "}", false, "1"},
    {"further variables", "{{ enable_thinking }}", "{\"messages\":[{}],\"enable_thinking\":false}",
     false, "False"},
    {"tools and documents are there",
     "{{ tools is defined }}{{ tools is none }}{{ documents is none }}", HI, false, "TrueTrueTrue"},
    {"no generation prompt", "{{ add_generation_prompt }}", HI, false, "False"},
    {"a generation prompt", "{{ add_generation_prompt }}", HI, true, "True"},
    {"a generation prompt from the file", "{{ add_generation_prompt }}",
     "{\"messages\":[{}],\"add_generation_prompt\":true}", false, "True"},
    {"the caller wins", "{{ add_generation_prompt }}",
     "{\"messages\":[{}],\"add_generation_prompt\":false}", true, "True"},
    {"the date", "{{ strftime_now('%d %b %Y %H:%M') }}", HI, false, "15 Jun 2025 09:30"},
    {"a float stays one", "{{ x }} {{ y }}", "{\"messages\":[{}],\"x\":1.0,\"y\":1}", false,
     "1.0 1"},
    {"a large integer", "{{ x }} {{ y }}", "{\"messages\":[{}],\"x\":9007199254740993,\"y\":1e300}",
     false, "9007199254740993 1e+300"},
    {"an integer that does not fit", "{{ x }}", "{\"messages\":[{}],\"x\":9223372036854775808}",
     false, "!9223372036854775808 does not fit"},
    {"NUL in a message", "{{ messages[0].content|length }}",
     "[{\"role\":\"user\",\"content\":\"a\\u0000b\"}]", false, "3"},
    {"the template raises", "{{ raise_exception('No way, ' + messages[0].content) }}", HI, false,
     "!No way, hi"},
    {"not JSON", "", "x", false, "!talk.json: byte 1: found 'x'"},
    {"neither array nor object", "", "5", false,
     "!talk.json: a number, wanted an array of messages"},
    {"no messages in the object", "", "{\"tools\":[]}", false, "!messages is missing"},
    {"messages are a text", "", "{\"messages\":\"hi\"}", false, "!messages is"},
    {"an empty list", "", "[]", false, "!talk.json: an empty list"},
    {"an empty list in the object", "", "{\"messages\":[]}", false,
     "!talk.json: messages: an empty"},
    {"null members are dropped", "{{ messages[0] }}",
     "[{\"role\":\"a\",\"content\":null,\"x\":{\"y\":null},\"tool_calls\":null}]", false,
     "{'role': 'a', 'x': {'y': None}}"},
    {"reasoning_content", "{{ messages[0] }}", "[{\"role\":\"a\",\"reasoning_content\":\"r\"}]",
     false, "{'thinking': 'r', 'role': 'a', 'reasoning_content': 'r'}"},
    {"thinking", "{{ messages[0] }}", "[{\"role\":\"a\",\"thinking\":\"r\"}]", false,
     "{'role': 'a', 'thinking': 'r', 'reasoning_content': 'r'}"},
    {"reasoning", "{{ messages[0] }}", "[{\"reasoning\":\"r\"}]", false,
     "{'thinking': 'r', 'reasoning': 'r', 'reasoning_content': 'r'}"},
    {"two names of reasoning", "{{ messages[0] }}",
     "[{\"reasoning\":\"a\",\"thinking\":\"b\",\"reasoning_content\":null}]", false,
     "{'reasoning': 'a', 'thinking': 'b', 'reasoning_content': 'b'}"},
    {"developer", "{{ messages[0].role }}", "[{\"role\":\"developer\"}]", false, "developer"},
#define GO_ON(text, last)                                                                          \
    "{{ messages[0].content }}[" text "]", "{\"messages\":[{\"content\":\"CONTINUE_FINAL_MESSAGE_" \
                                           "TAG \"}," last "],\"continue_final_message\":"
    {"continue", GO_ON("{{ messages[1].content }}", "{\"content\":\" a \"}") "true}", false,
     "CONTINUE_FINAL_MESSAGE_TAG [ a "},
    {"continue trimmed text",
     GO_ON("{{ messages[1].content|trim }}", "{\"content\":\" a \"}") "true}", false,
     "CONTINUE_FINAL_MESSAGE_TAG [a"},
    {"continue the last part with a text",
     GO_ON("{% for p in messages[1].content %}{{ p.text }},{% endfor %}",
           "{\"content\":[{\"text\":\"a\"},{\"text\":\"b\"},{\"x\":1}]}") "true}",
     false, "CONTINUE_FINAL_MESSAGE_TAG [a,b"},
    {"continue reasoning",
     GO_ON("{{ messages[1].thinking }}", "{\"reasoning\":\"a\"}") "\"reasoning_content\"}", false,
     "CONTINUE_FINAL_MESSAGE_TAG [a"},
    {"continue nothing", GO_ON("{{ messages[1].content }}", "{}") "true}", false,
     "!no \"content\" to continue"},
    {"continue a dropped message", GO_ON("", "{\"content\":\"a\"}") "true}", false,
     "!the template removes or changes"},
    {"continue an unknown member", GO_ON("", "{\"y\":\"a\"}") "\"y\"}", false,
     "!not an accepted field"},
    {"continue a number", GO_ON("{{ messages[1].content }}", "{\"content\":1}") "true}", false,
     "!has no text"},
    {"do not continue", GO_ON("{{ messages[1].content }}", "{\"content\":\"a\"}") "false}", false,
     "CONTINUE_FINAL_MESSAGE_TAG [a]"},
    {"continue with a prompt", GO_ON("{{ messages[1].content }}", "{\"content\":\"a\"}") "true}",
     true, "!not compatible"},
    {"continue 5", GO_ON("{{ messages[1].content }}", "{\"content\":\"a\"}") "5}", false,
     "!a number, wanted true, false or"},
    {"a message is a text", "", "[\"hi\"]", false, "!talk.json: [0]: a string, wanted a message"},
};

static void render_case(void **state)
{
    const struct render_row *row = *state;
    static const struct tm now = {
        .tm_year = 125, .tm_mon = 5, .tm_mday = 15, .tm_hour = 9, .tm_min = 30};
    char *dir = test_tmpdir();
    test_write_file(dir, "t.jinja", row->tmpl, strlen(row->tmpl));
    char *file = dgl_path_join(dir, "t.jinja");
    expect_render(dgl_template_params(.path = BUNDLED, .file = file),
                  dgl_render_params(.messages = row->messages, .messages_name = "talk.json",
                                    .add_generation_prompt = row->prompt, .now = &now),
                  row->want);
    free(file);
    test_tmpdir_remove(dir);
}

/* developer becomes system only if the caller wants it and the template does not name it. */
static void developer_is_known(void **state)
{
    static const struct {
        const char *tmpl;
        bool maps;
        const char *want;
    } rows[] = {
        {"{{ messages[0].role }}", true, "system"},
        {"{{ messages[0].role }}", false, "developer"},
        {"{{ messages[0].role }}{% if 'x' == 'developer' %}{% endif %}", true, "developer"},
        {"{{ messages[0].role }}{% if 'x' == \"developer\" %}{% endif %}", true, "developer"},
        {"{{ messages[0].role }} a developer", true, "system a developer"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        char *dir = test_tmpdir(), *file = dgl_path_join(dir, "t.jinja");
        test_write_file(dir, "t.jinja", rows[i].tmpl, strlen(rows[i].tmpl));
        expect_render(dgl_template_params(.path = BUNDLED, .file = file),
                      dgl_render_params(.messages = "[{\"role\":\"developer\"}]",
                                        .map_developer = rows[i].maps),
                      rows[i].want);
        free(file);
        test_tmpdir_remove(dir);
    }
}

static void templates_read_variables(void **state)
{
    static const char text[] = "{% if tools %}{{ messages[0].x }}{% endif %}{{ 'documents' }}";
    char *dir = test_tmpdir(), *file = dgl_path_join(dir, "t.jinja");
    struct dgl_template *tmpl = NULL;
    (void)state;
    test_write_file(dir, "t.jinja", text, sizeof(text) - 1);
    assert_int_equal(
        dgl_template_load(NULL, dgl_template_params(.path = BUNDLED, .file = file), &tmpl), DGL_OK);
    assert_true(dgl_template_reads(tmpl, "tools"));
    assert_true(dgl_template_reads(tmpl, "messages"));
    assert_false(dgl_template_reads(tmpl, "documents"));
    assert_false(dgl_template_reads(tmpl, "reasoning_effort"));
    dgl_template_destroy(&tmpl);
    free(file);
    test_tmpdir_remove(dir);
}

static void arguments_are_checked(void **state)
{
    (void)state;
    struct test_log t;
    struct dgl_template *tmpl = NULL;
    char *text;
    size_t len;
    const struct dgl_answer twice[] = {{.message = 0}, {.message = 0}}, beyond = {.message = 1};
    char *missing = test_missing(TEST_MISSING);
    test_log_init(&t, DGL_LOG_ERROR);
    assert_int_equal(dgl_template_load(&t.log, NULL, &tmpl), DGL_ERR_INVALID_ARG);
    assert_int_equal(dgl_template_load(&t.log, dgl_template_params(.file = "x"), &tmpl),
                     DGL_ERR_INVALID_ARG);
    assert_int_equal(dgl_template_load(&t.log, dgl_template_params(.path = missing), &tmpl),
                     DGL_ERR_IO);
    assert_int_equal(
        dgl_template_load(&t.log, dgl_template_params(.path = BUNDLED "/tokenizer.json"), &tmpl),
        DGL_ERR_UNSUPPORTED);
    assert_int_equal(
        dgl_template_load(&t.log, dgl_template_params(.path = BUNDLED, .file = missing), &tmpl),
        DGL_ERR_IO);
    assert_int_equal(t.errors, 5);
    free(missing);
    assert_int_equal(dgl_template_load(&t.log, dgl_template_params(.path = BUNDLED), &tmpl),
                     DGL_OK);
    assert_int_equal(dgl_render(&t.log, tmpl, dgl_render_params(0), &text, &len),
                     DGL_ERR_INVALID_ARG);
    assert_int_equal(
        dgl_render(&t.log, tmpl,
                   dgl_render_params(.messages = HI, .answers = &beyond, .num_answers = 1), &text,
                   &len),
        DGL_ERR_INVALID_ARG);
    assert_contains(t.text, "answers[0] is for message 1");
    assert_int_equal(
        dgl_render(&t.log, tmpl,
                   dgl_render_params(.messages = HI, .answers = twice, .num_answers = 2), &text,
                   &len),
        DGL_ERR_INVALID_ARG);
    dgl_template_destroy(&tmpl);
    dgl_template_destroy(&tmpl);
}

static void local_time_is_the_default(void **state)
{
    (void)state;
    char *dir = test_tmpdir(), *text, *file = dgl_path_join(dir, "t.jinja");
    static const char tmpl[] = "{{ strftime_now('%Y') }}";
    size_t len;
    test_write_file(dir, "t.jinja", tmpl, sizeof(tmpl) - 1);
    assert_int_equal(render(NULL, dgl_template_params(.path = BUNDLED, .file = file),
                            dgl_render_params(.messages = HI), &text, &len),
                     DGL_OK);
    assert_int_equal(len, 4);
    dgl_free(text);
    free(file);
    test_tmpdir_remove(dir);
}

/* ---- ids ------------------------------------------------------------------------------------- */

/* Decoded ids with '|' between them, those of added tokens in '[]'; to be freed. */
static char *show(const struct dgl_tokenizer *tok, const int32_t *ids, size_t count)
{
    struct dgl_buf out = {0};
    for (size_t i = 0; i < count; i++) {
        struct dgl_str spelling = {0};
        tokenizer_spelling(tok, ids[i], &spelling);
        bool special = tokenizer_is_special(tok, ids[i]);
        dgl_buf_puts(&out, special ? "[" : i && !tokenizer_is_special(tok, ids[i - 1]) ? "|" : "");
        dgl_buf_append(&out, spelling.p, spelling.len);
        dgl_buf_puts(&out, special ? "]" : "");
    }
    dgl_buf_puts(&out, "");
    return dgl_buf_take(&out);
}

struct taint_row {
    const char *name, *tokenizer, *tmpl, *content, *want;
};

/* <s> and </s> are special in all of them. */
static const struct taint_row taint_rows[] = {
    {"the template's token", "spm-gemma", "<s>{{ messages[0].content }}</s>", "q", "[<s>]q[</s>]"},
    {"not the user's", "spm-gemma", "<s>{{ messages[0].content }}", "<s>", "[<s>]<|s>"},
    {"not half the user's", "spm-gemma", "<{{ messages[0].content }}", "s>", "<|s>"},
    {"not the other half", "spm-gemma", "{{ messages[0].content }}s>", "<", "<|s>"},
    {"the user hides none", "spm-gemma", "{{ messages[0].content }}</s>", "<s", "<|s[</s>]"},
    {"not through a filter", "spm-gemma", "{{ messages[0].content|lower }}", "<S>", "<|s>"},
    {"a role makes one", "spm-gemma", "<{{ 's' }}>", "", "[<s>]"},
    {"in normalized text, the template's", "spm-llama2-normalized_true",
     "<s>{{ messages[0].content }}", "q", "[<s>]q"},
    {"in normalized text, not the user's", "spm-llama2-normalized_true",
     "{{ messages[0].content }}", "<s>", "\xE2\x96\x81<|s>"},
    {"in normalized text, behind a blank", "spm-llama2-normalized_true",
     "{{ messages[0].content }} <s>", "q <s>", "\xE2\x96\x81|q|\xE2\x96\x81<|s>[<s>]"},
    {"a token that is not special is a word", "spm-gemma", "<s>{{ messages[0].content }}",
     "a\\n\\nb</s>", "[<s>]a|\n\n|b|</|s>"},
    {"a token that the template uses", "bl-llama3-ignore_merges",
     "<tool>{{ messages[0].content }}</tool>", "</tool><tool>q",
     "<tool>|</|t|o|o|l|><|t|o|o|l|>|q|</|t|o|o|l|>"},
    {"across the border too", "bl-llama3-ignore_merges", "<to{{ messages[0].content }}", "ol>q",
     "<tool>|q"},
    {"a normal form, the template's", "bl-qwen-nfc-normalized",
     "<|im_start|>{{ messages[0].content }}", "e\\u0301", "[<|im_start|>]\xC3\x83\xC2\xA9"},
};

/* A template and a tokenizer of the archive. */
struct chat {
    char *dir, *file;
    struct test_log log;
    struct dgl_tokenizer *tok;
    struct dgl_template *tmpl;
};

static void chat_init(struct chat *c, const char *tokenizer, const char *tmpl)
{
    char inside[128];
    snprintf(inside, sizeof(inside), "_synthetic/%s", tokenizer);
    const char *model = test_unpacked(ARCHIVE, inside);
    assert_non_null(model);
    *c = (struct chat){.dir = test_tmpdir()};
    c->file = dgl_path_join(c->dir, "t.jinja");
    test_write_file(c->dir, "t.jinja", tmpl, strlen(tmpl));
    test_log_init(&c->log, DGL_LOG_ERROR);
    if (dgl_tokenizer_load(&c->log.log, model, &c->tok) != DGL_OK ||
        dgl_template_load(&c->log.log, dgl_template_params(.path = model, .file = c->file),
                          &c->tmpl) != DGL_OK)
        fail_msg("%s", c->log.text);
}

static void chat_finish(struct chat *c)
{
    dgl_template_destroy(&c->tmpl);
    dgl_tokenizer_destroy(&c->tok);
    free(c->file);
    test_tmpdir_remove(c->dir);
}

/* The ids of a conversation, as show() writes them. */
static void expect_ids(struct chat *c, const struct dgl_render_params *params, const char *want)
{
    int32_t *ids = NULL;
    size_t count = 0;
    if (dgl_render_ids(&c->log.log, c->tmpl, c->tok, params, &ids, &count) != DGL_OK)
        fail_msg("%s", c->log.text);
    char *got = show(c->tok, ids, count);
    assert_string_equal(got, want);
    free(got);
    dgl_free(ids);
}

static void taint_case(void **state)
{
    const struct taint_row *row = *state;
    char messages[256];
    struct chat c;
    snprintf(messages, sizeof(messages), "[{\"role\":\"user\",\"content\":\"%s\"}]", row->content);
    chat_init(&c, row->tokenizer, row->tmpl);
    expect_ids(&c, dgl_render_params(.messages = messages), row->want);
    chat_finish(&c);
}

/* ---- generated answers -------------------------------------------------------------------------
 */

struct answer_row {
    const char *name, *tokenizer, *tmpl, *messages;
    size_t message;
    const char *pieces[6]; /* of the answer: each is encoded on its own, behind other text */
    const char *want;
};

#define TALK(answer)                                                                               \
    "[{\"role\":\"user\",\"content\":\"Yes\"},{\"role\":\"assistant\",\"content\":\"" answer       \
    "\"},{\"role\":\"user\",\"content\":\"so\"}]"
#define EACH(body) "{% for m in messages %}" body "{% endfor %}"

static const struct answer_row answer_rows[] = {
    {"its own ids",
     "bl-qwen-nfc-normalized",
     EACH("<|im_start|>{{ m.content }}"),
     TALK("Yes it"),
     1,
     {"Y", "e", "s", " i", "t"},
     "[<|im_start|>]Y|es[<|im_start|>]Y|e|s|\xC4\xA0i|t[<|im_start|>]so"},
    {"the user's are encoded",
     "bl-qwen-nfc-normalized",
     EACH("<|im_start|>{{ m.content }}"),
     TALK("Yes"),
     1,
     {"Y", "e", "s"},
     "[<|im_start|>]Y|es[<|im_start|>]Y|e|s[<|im_start|>]so"},
    {"another text than the content",
     "bl-qwen-nfc-normalized",
     EACH("<|im_start|>{{ m.content }}"),
     TALK("Yes"),
     1,
     {"N", "o"},
     "[<|im_start|>]Y|es[<|im_start|>]Y|es[<|im_start|>]so"},
    {"no ids",
     "bl-qwen-nfc-normalized",
     EACH("<|im_start|>{{ m.content }}"),
     TALK("Yes"),
     1,
     {NULL},
     "[<|im_start|>]Y|es[<|im_start|>]Y|es[<|im_start|>]so"},
    {"an empty content",
     "bl-qwen-nfc-normalized",
     EACH("<|im_start|>{{ m.content }}"),
     TALK(""),
     1,
     {"N"},
     "[<|im_start|>]Y|es[<|im_start|>][<|im_start|>]so"},
    {"the template trims",
     "bl-qwen-nfc-normalized",
     EACH("<|im_start|>{{ m.content|trim }}\n"),
     TALK(" Yes "),
     1,
     {"Y", "es"},
     "[<|im_start|>]Y|es|\xC4\x8A[<|im_start|>]Y|es|\xC4\x8A[<|im_start|>]so|\xC4\x8A"},
    {"the template changes",
     "bl-qwen-nfc-normalized",
     EACH("<|im_start|>{{ m.content|upper }}"),
     TALK("Yes"),
     1,
     {"Y", "e", "s"},
     "[<|im_start|>]Y|E|S[<|im_start|>]Y|E|S[<|im_start|>]S|O"},
    {"the template leaves it out",
     "bl-qwen-nfc-normalized",
     "{{ messages[0].content }}",
     TALK("Yes"),
     1,
     {"Y", "e", "s"},
     "Y|es"},
    {"blanks of the answer that are lost",
     "bl-qwen-nfc-normalized",
     EACH("<|im_start|>{{ m.content|trim }}"),
     TALK("Yes "),
     1,
     {"Y", "es", " "},
     "[<|im_start|>]Y|es[<|im_start|>]Y|es[<|im_start|>]so"},
    {"a control token stays one",
     "bl-qwen-nfc-normalized",
     EACH("{{ m.content }}"),
     TALK("<|im_start|>"),
     1,
     {"<|im_start|>"},
     "Y|es[<|im_start|>]so"},
    {"the blank in front is the answer's",
     "spm-llama2-normalized_false",
     EACH("<s>[ {{ m.content }} </s>"),
     TALK("so"),
     1,
     {" s", "o"},
     "[<s>]\xE2\x96\x81[|\xE2\x96\x81|Y|es|\xE2\x96\x81[</"
     "s>][<s>]\xE2\x96\x81[|\xE2\x96\x81s|o|\xE2\x96\x81[</"
     "s>][<s>]\xE2\x96\x81[|\xE2\x96\x81s|o|\xE2\x96\x81[</s>]"},
    {"the blank in front is the template's",
     "spm-llama2-normalized_false",
     EACH("<s>[ {{ m.content }} </s>"),
     TALK("so"),
     1,
     {"s", "o"},
     "[<s>]\xE2\x96\x81[|\xE2\x96\x81|Y|es|\xE2\x96\x81[</"
     "s>][<s>]\xE2\x96\x81[|\xE2\x96\x81|s|o|\xE2\x96\x81[</"
     "s>][<s>]\xE2\x96\x81[|\xE2\x96\x81s|o|\xE2\x96\x81[</s>]"},
    {"what follows gets no blank",
     "spm-llama2-normalized_false",
     EACH("{{ m.content }}."),
     TALK("Yes"),
     1,
     {"Y", "e", "s"},
     "\xE2\x96\x81|Y|es|.|Y|e|s|.|s|o."},
    {"what follows gets no blank with Metaspace",
     "spm-metaspace-always-split_true",
     EACH("{{ m.content }}."),
     TALK("Yes"),
     1,
     {"Y", "e", "s"},
     "\xE2\x96\x81|Y|es|.|Y|e|s|.|s|o."},
    {"the blank in front with Metaspace",
     "spm-metaspace-always-split_true",
     EACH("[INST] {{ m.content }}"),
     TALK("so"),
     1,
     {" s", "o"},
     "[[INST]]\xE2\x96\x81|Y|es[[INST]]\xE2\x96\x81s|o[[INST]]\xE2\x96\x81s|o"},
    {"what follows gets no blank at byte level",
     "bl-gpt2-prefix_space-strip_flags",
     EACH("{{ m.content }}."),
     TALK("Yes"),
     1,
     {"Y", "e", "s"},
     "\xC4\xA0|Y|es|.|Y|e|s|.|so|."},
};

static void answer_case(void **state)
{
    const struct answer_row *row = *state;
    struct token_ids ids = {0};
    struct chat c;
    chat_init(&c, row->tokenizer, row->tmpl);
    for (size_t i = 0; i < 6 && row->pieces[i]; i++)
        assert_int_equal(tokenizer_encode(NULL, c.tok, dgl_str_of(row->pieces[i]),
                                          (struct encode_flags){.continues = true}, &ids),
                         DGL_OK);
    const struct dgl_answer answer = {row->message, ids.ids, ids.count};
    expect_ids(&c,
               dgl_render_params(.messages = row->messages, .answers = &answer, .num_answers = 1),
               row->want);
    free(ids.ids);
    chat_finish(&c);
}

int main(void)
{
    setenv("DOPPLERGL_TEST_DATA", "tests/data", 1);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(arguments_are_checked),
        cmocka_unit_test(developer_is_known),
        cmocka_unit_test(templates_read_variables),
        cmocka_unit_test(local_time_is_the_default),
    };
    int failed = test_run_table("chat template sources", sources_case, source_rows);
    failed += test_run_table("chat template renders", render_case, render_rows);
    failed += test_run_table("chat template taint", taint_case, taint_rows);
    failed += test_run_table("chat template answers", answer_case, answer_rows);
    return failed + cmocka_run_group_tests_name("chat template", tests, NULL, NULL);
}
