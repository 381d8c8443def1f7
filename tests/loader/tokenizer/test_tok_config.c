/* Special tokens of tokenizer_config.json and special_tokens_map.json. Wanted ids, texts and
 * eos_token are those of transformers 5.24 (AutoTokenizer) for the same files. */
#include "tests/support/test.h"

#include <stdlib.h>

#include "loader/tokenizer/tok_config.h"
#include "loader/tokenizer/tokenizer.h"

/* The state of <|u|> and <|v|> in added_tokens of tokenizer.json. */
enum added { as_is, hide_u, hide_both, plain_u };

#define TOKEN(content, lstrip, rstrip, special)                                                    \
    "{\"content\":\"" content "\",\"lstrip\":" lstrip ",\"rstrip\":" rstrip                        \
    ",\"normalized\":false,\"single_word\":false,\"special\":" special "}"

#define ADDED(id, content, special)                                                                \
    "{\"id\":" id ",\"content\":\"" content                                                        \
    "\",\"lstrip\":false,\"rstrip\":false,\"normalized\":false,\"single_word\":false,"             \
    "\"special\":" special "}"

static const char *const added_u[] = {
    [as_is] = "," ADDED("13", "<|u|>", "true"),
    [hide_u] = "",
    [hide_both] = "",
    [plain_u] = "," ADDED("13", "<|u|>", "false"),
};

static const char text[] = "a <|u|> b <|v|> c<|w|>d";

struct row {
    const char *name;
    enum added added;
    const char *config, *map; /* tokenizer_config.json, special_tokens_map.json or NULL */
    const char *ids;          /* of `text` */
    const char *decoded;      /* text of the ids without special tokens */
    int32_t eos;
};

static const struct row rows[] = {
    {"list adds tokens", hide_both,
     "{\"added_tokens_decoder\":{\"13\":" TOKEN("<|u|>", "false", "false", "true") ",\"14\":" TOKEN(
         "<|v|>", "false", "false", "false") "}}",
     NULL, "2,6,13,6,3,6,14,6,4,7,8,11,8,12,5", "a  b <|v|> c<|w|>d", -1},
    {"list replaces rstrip", as_is,
     "{\"added_tokens_decoder\":{\"13\":" TOKEN("<|u|>", "false", "true", "true") "}}", NULL,
     "2,6,13,3,6,14,6,4,7,8,11,8,12,5", "a b  c<|w|>d", -1},
    {"list replaces lstrip", as_is,
     "{\"added_tokens_decoder\":{\"13\":" TOKEN("<|u|>", "true", "false", "true") "}}", NULL,
     "2,13,6,3,6,14,6,4,7,8,11,8,12,5", "a b  c<|w|>d", -1},
    {"list makes no token plain", as_is,
     "{\"added_tokens_decoder\":{\"13\":" TOKEN("<|u|>", "false", "false", "false") "}}", NULL,
     "2,6,13,6,3,6,14,6,4,7,8,11,8,12,5", "a  b  c<|w|>d", -1},
    {"list makes a token special", plain_u,
     "{\"added_tokens_decoder\":{\"13\":" TOKEN("<|u|>", "false", "false", "true") "}}", NULL,
     "2,6,13,6,3,6,14,6,4,7,8,11,8,12,5", "a  b  c<|w|>d", -1},
    {"list with content alone", hide_u,
     "{\"added_tokens_decoder\":{\"13\":{\"content\":\"<|u|>\"}}}", NULL,
     "2,6,13,6,3,6,14,6,4,7,8,11,8,12,5", "a <|u|> b  c<|w|>d", -1},
    {"eos_token is special", plain_u, "{\"eos_token\":\"<|u|>\"}", NULL,
     "2,6,13,6,3,6,14,6,4,7,8,11,8,12,5", "a  b  c<|w|>d", 13},
    {"eos_token is added", hide_u, "{\"eos_token\":\"<|u|>\"}", NULL,
     "2,6,13,6,3,6,14,6,4,7,8,11,8,12,5", "a  b  c<|w|>d", 13},
    {"eos_token is null", as_is, "{\"eos_token\":null}", NULL, "2,6,13,6,3,6,14,6,4,7,8,11,8,12,5",
     "a  b  c<|w|>d", -1},
    {"eos_token of the list is special", hide_u,
     "{\"eos_token\":\"<|u|>\",\"added_tokens_decoder\":{\"13\":" TOKEN("<|u|>", "false", "false",
                                                                        "false") "}}",
     NULL, "2,6,13,6,3,6,14,6,4,7,8,11,8,12,5", "a  b  c<|w|>d", 13},
    {"name that the list leaves out", plain_u,
     "{\"eos_token\":\"<|u|>\",\"added_tokens_decoder\":{\"14\":" TOKEN("<|v|>", "false", "false",
                                                                        "true") "}}",
     NULL, "2,6,13,6,3,6,14,6,4,7,8,11,8,12,5", "a <|u|> b  c<|w|>d", 13},
    {"additional list adds", hide_u, "{\"additional_special_tokens\":[\"<|u|>\"]}", NULL,
     "2,6,13,6,3,6,14,6,4,7,8,11,8,12,5", "a  b  c<|w|>d", -1},
    {"additional list makes no token special", plain_u,
     "{\"additional_special_tokens\":[\"<|u|>\"]}", NULL, "2,6,13,6,3,6,14,6,4,7,8,11,8,12,5",
     "a <|u|> b  c<|w|>d", -1},
    {"additional object", hide_u,
     "{\"additional_special_tokens\":[{\"content\":\"<|u|>\",\"rstrip\":true,\"normalized\":false,"
     "\"special\":true,\"__type\":\"AddedToken\"}]}",
     NULL, "2,6,13,3,6,14,6,4,7,8,11,8,12,5", "a b  c<|w|>d", -1},
    {"extra list", hide_u, "{\"extra_special_tokens\":[\"<|u|>\"]}", NULL,
     "2,6,13,6,3,6,14,6,4,7,8,11,8,12,5", "a  b  c<|w|>d", -1},
    {"extra names", hide_u, "{\"extra_special_tokens\":{\"image_token\":\"<|u|>\"}}", NULL,
     "2,6,13,6,3,6,14,6,4,7,8,11,8,12,5", "a  b  c<|w|>d", -1},
    {"extra list beats additional list", hide_both,
     "{\"extra_special_tokens\":[\"<|u|>\"],\"additional_special_tokens\":[\"<|v|>\"]}", NULL,
     "2,6,13,6,3,6,7,8,10,8,12,6,4,7,8,11,8,12,5", "a  b <|v|> c<|w|>d", -1},
    {"empty extra list does not", hide_both,
     "{\"extra_special_tokens\":[],\"additional_special_tokens\":[\"<|v|>\"]}", NULL,
     "2,6,7,8,9,8,12,6,3,6,14,6,4,7,8,11,8,12,5", "a <|u|> b  c<|w|>d", -1},
    {"the model's own name", hide_u, "{\"image_token\":\"<|u|>\"}", NULL,
     "2,6,13,6,3,6,14,6,4,7,8,11,8,12,5", "a  b  c<|w|>d", -1},
    {"new token", as_is, "{\"pad_token\":\"<|w|>\"}", NULL, "2,6,13,6,3,6,14,6,4,15,5", "a  b  cd",
     -1},
    {"new listed token with another id", as_is,
     "{\"added_tokens_decoder\":{\"500\":" TOKEN("<|w|>", "false", "false", "true") "}}", NULL,
     "2,6,13,6,3,6,14,6,4,15,5", "a  b  cd", -1},
    {"order of new tokens", as_is,
     "{\"added_tokens_decoder\":{\"600\":" TOKEN(
         "<|w|>", "false", "false", "true") ",\"500\":" TOKEN("<|x|>", "false", "false",
                                                              "true") "},\"pad_token\":\"<|y|>\"}",
     NULL, "2,6,13,6,3,6,14,6,4,16,5", "a  b  cd", -1},
    {"map alone", hide_u, "{}", "{\"eos_token\":\"<|u|>\"}", "2,6,13,6,3,6,14,6,4,7,8,11,8,12,5",
     "a  b  c<|w|>d", 13},
    {"object of the map", hide_u, "{}",
     "{\"eos_token\":{\"content\":\"<|u|>\",\"lstrip\":false,\"normalized\":false,\"rstrip\":true,"
     "\"single_word\":false}}",
     "2,6,13,3,6,14,6,4,7,8,11,8,12,5", "a b  c<|w|>d", 13},
    {"map beats the config", hide_u, "{\"eos_token\":\"<|v|>\"}", "{\"eos_token\":\"<|u|>\"}",
     "2,6,13,6,3,6,14,6,4,7,8,11,8,12,5", "a  b  c<|w|>d", 13},
    {"map beside a list is not read", hide_u, "{\"added_tokens_decoder\":{}}",
     "{\"eos_token\":\"<|u|>\"}", "2,6,7,8,9,8,12,6,3,6,14,6,4,7,8,11,8,12,5", "a <|u|> b  c<|w|>d",
     -1},
};

static void special_tokens_are_those_of_transformers(void **state)
{
    const struct row *row = *state;
    struct test_log log;
    struct dgl_buf json = {0}, got = {0}, back = {0};
    struct tok_config config;
    struct dgl_tokenizer *tok = NULL;
    struct token_ids ids = {0};
    test_log_init(&log, DGL_LOG_ERROR);
    dgl_buf_printf(
        &json,
        "{\"version\":\"1.0\",\"added_tokens\":[" ADDED("0", "<s>", "true") "," ADDED(
            "1", "<eos>",
            "true") "%s%s],"
                    "\"normalizer\":null,\"pre_tokenizer\":{\"type\":\"ByteLevel\","
                    "\"add_prefix_space\":false,\"trim_offsets\":true,\"use_regex\":true},"
                    "\"post_processor\":null,\"decoder\":{\"type\":\"ByteLevel\","
                    "\"add_prefix_space\":false,\"trim_offsets\":true,\"use_regex\":true},"
                    "\"model\":{\"type\":\"BPE\",\"vocab\":{\"<s>\":0,\"<eos>\":1,\"a\":2,\"b\":3,"
                    "\"c\":4,\"d\":5,\"\\u0120\":6,\"<\":7,\"|\":8,\"u\":9,\"v\":10,\"w\":11,"
                    "\">\":12,\"<|u|>\":13,\"<|v|>\":14},\"merges\":[]}}",
        added_u[row->added], row->added == hide_both ? "" : "," ADDED("14", "<|v|>", "true"));
    enum dgl_status status = tok_config_load(
        &log.log, (struct tok_config_file){"config", row->config, strlen(row->config)},
        (struct tok_config_file){"map", row->map, row->map ? strlen(row->map) : 0}, &config);
    if (status == DGL_OK)
        status = tokenizer_create_with(&log.log, "t", json.p, json.len, &config, &tok);
    if (status != DGL_OK)
        fail_msg("%s", log.text);
    assert_int_equal(tokenizer_encode(&log.log, tok, DGL_STR(text), (struct encode_flags){0}, &ids),
                     DGL_OK);
    for (size_t i = 0; i < ids.count; i++)
        dgl_buf_printf(&got, "%s%d", i ? "," : "", (int)ids.ids[i]);
    assert_string_equal(got.p, row->ids);
    assert_int_equal(tokenizer_decode(&log.log, tok, ids.ids, ids.count, true, &back), DGL_OK);
    assert_string_equal(back.p, row->decoded);
    assert_int_equal(tokenizer_eos(tok), row->eos);
    free(ids.ids);
    tokenizer_destroy(&tok);
    tok_config_finish(&config);
    dgl_buf_finish(&json);
    dgl_buf_finish(&got);
    dgl_buf_finish(&back);
}

struct bad_row {
    const char *name, *config, *said;
};

static const struct bad_row bad_rows[] = {
    {"not an object", "[]", "is an array of 0, wanted an object"},
    {"list is a list", "{\"added_tokens_decoder\":[]}", "added_tokens_decoder"},
    {"id that is none",
     "{\"added_tokens_decoder\":{\"x\":" TOKEN("a", "false", "false", "true") "}}",
     "wanted an id from 0"},
    {"listed text", "{\"added_tokens_decoder\":{\"1\":\"a\"}}", "wanted an object with content"},
    {"token without content", "{\"eos_token\":{\"rstrip\":true}}", "eos_token.content"},
    {"one additional token", "{\"additional_special_tokens\":\"a\"}", "wanted a list of tokens"},
};

static void wrong_files_are_refused(void **state)
{
    const struct bad_row *row = *state;
    struct test_log log;
    struct tok_config config;
    test_log_init(&log, DGL_LOG_ERROR);
    assert_int_equal(
        tok_config_load(&log.log,
                        (struct tok_config_file){"config", row->config, strlen(row->config)},
                        (struct tok_config_file){"map", NULL, 0}, &config),
        DGL_ERR_FORMAT);
    assert_int_equal(log.errors, 1);
    assert_contains(log.text, row->said);
}

int main(void)
{
    int failures = test_run_table("special tokens", special_tokens_are_those_of_transformers, rows);
    return failures + test_run_table("wrong files", wrong_files_are_refused, bad_rows);
}
