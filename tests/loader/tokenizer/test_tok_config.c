/* Special tokens of tokenizer_config.json, special_tokens_map.json and added_tokens.json. Wanted
 * ids, texts and eos_token are those of transformers 5.24 (AutoTokenizer) for the same files. */
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
    const char *old; /* added_tokens.json or NULL */
};

static const struct row rows[] = {
    {"list adds tokens", hide_both,
     "{\"added_tokens_decoder\":{\"13\":" TOKEN("<|u|>", "false", "false", "true") ",\"14\":" TOKEN(
         "<|v|>", "false", "false", "false") "}}",
     NULL, "2,6,13,6,3,6,14,6,4,7,8,11,8,12,5", "a  b <|v|> c<|w|>d", -1, NULL},
    {"list replaces rstrip", as_is,
     "{\"added_tokens_decoder\":{\"13\":" TOKEN("<|u|>", "false", "true", "true") "}}", NULL,
     "2,6,13,3,6,14,6,4,7,8,11,8,12,5", "a b  c<|w|>d", -1, NULL},
    {"list replaces lstrip", as_is,
     "{\"added_tokens_decoder\":{\"13\":" TOKEN("<|u|>", "true", "false", "true") "}}", NULL,
     "2,13,6,3,6,14,6,4,7,8,11,8,12,5", "a b  c<|w|>d", -1, NULL},
    {"list makes no token plain", as_is,
     "{\"added_tokens_decoder\":{\"13\":" TOKEN("<|u|>", "false", "false", "false") "}}", NULL,
     "2,6,13,6,3,6,14,6,4,7,8,11,8,12,5", "a  b  c<|w|>d", -1, NULL},
    {"list makes a token special", plain_u,
     "{\"added_tokens_decoder\":{\"13\":" TOKEN("<|u|>", "false", "false", "true") "}}", NULL,
     "2,6,13,6,3,6,14,6,4,7,8,11,8,12,5", "a  b  c<|w|>d", -1, NULL},
    {"list with content alone", hide_u,
     "{\"added_tokens_decoder\":{\"13\":{\"content\":\"<|u|>\"}}}", NULL,
     "2,6,13,6,3,6,14,6,4,7,8,11,8,12,5", "a <|u|> b  c<|w|>d", -1, NULL},
    {"eos_token is special", plain_u, "{\"eos_token\":\"<|u|>\"}", NULL,
     "2,6,13,6,3,6,14,6,4,7,8,11,8,12,5", "a  b  c<|w|>d", 13, NULL},
    {"eos_token is added", hide_u, "{\"eos_token\":\"<|u|>\"}", NULL,
     "2,6,13,6,3,6,14,6,4,7,8,11,8,12,5", "a  b  c<|w|>d", 13, NULL},
    {"eos_token is null", as_is, "{\"eos_token\":null}", NULL, "2,6,13,6,3,6,14,6,4,7,8,11,8,12,5",
     "a  b  c<|w|>d", -1, NULL},
    {"eos_token of the list is special", hide_u,
     "{\"eos_token\":\"<|u|>\",\"added_tokens_decoder\":{\"13\":" TOKEN("<|u|>", "false", "false",
                                                                        "false") "}}",
     NULL, "2,6,13,6,3,6,14,6,4,7,8,11,8,12,5", "a  b  c<|w|>d", 13, NULL},
    {"name that the list leaves out", plain_u,
     "{\"eos_token\":\"<|u|>\",\"added_tokens_decoder\":{\"14\":" TOKEN("<|v|>", "false", "false",
                                                                        "true") "}}",
     NULL, "2,6,13,6,3,6,14,6,4,7,8,11,8,12,5", "a <|u|> b  c<|w|>d", 13, NULL},
    {"additional list adds", hide_u, "{\"additional_special_tokens\":[\"<|u|>\"]}", NULL,
     "2,6,13,6,3,6,14,6,4,7,8,11,8,12,5", "a  b  c<|w|>d", -1, NULL},
    {"additional list makes no token special", plain_u,
     "{\"additional_special_tokens\":[\"<|u|>\"]}", NULL, "2,6,13,6,3,6,14,6,4,7,8,11,8,12,5",
     "a <|u|> b  c<|w|>d", -1, NULL},
    {"additional object", hide_u,
     "{\"additional_special_tokens\":[{\"content\":\"<|u|>\",\"rstrip\":true,\"normalized\":false,"
     "\"special\":true,\"__type\":\"AddedToken\"}]}",
     NULL, "2,6,13,3,6,14,6,4,7,8,11,8,12,5", "a b  c<|w|>d", -1, NULL},
    {"extra list", hide_u, "{\"extra_special_tokens\":[\"<|u|>\"]}", NULL,
     "2,6,13,6,3,6,14,6,4,7,8,11,8,12,5", "a  b  c<|w|>d", -1, NULL},
    {"extra names", hide_u, "{\"extra_special_tokens\":{\"image_token\":\"<|u|>\"}}", NULL,
     "2,6,13,6,3,6,14,6,4,7,8,11,8,12,5", "a  b  c<|w|>d", -1, NULL},
    {"extra list beats additional list", hide_both,
     "{\"extra_special_tokens\":[\"<|u|>\"],\"additional_special_tokens\":[\"<|v|>\"]}", NULL,
     "2,6,13,6,3,6,7,8,10,8,12,6,4,7,8,11,8,12,5", "a  b <|v|> c<|w|>d", -1, NULL},
    {"empty extra list does not", hide_both,
     "{\"extra_special_tokens\":[],\"additional_special_tokens\":[\"<|v|>\"]}", NULL,
     "2,6,7,8,9,8,12,6,3,6,14,6,4,7,8,11,8,12,5", "a <|u|> b  c<|w|>d", -1, NULL},
    {"the model's own name", hide_u, "{\"image_token\":\"<|u|>\"}", NULL,
     "2,6,13,6,3,6,14,6,4,7,8,11,8,12,5", "a  b  c<|w|>d", -1, NULL},
    {"new token", as_is, "{\"pad_token\":\"<|w|>\"}", NULL, "2,6,13,6,3,6,14,6,4,15,5", "a  b  cd",
     -1, NULL},
    {"new listed token with another id", as_is,
     "{\"added_tokens_decoder\":{\"500\":" TOKEN("<|w|>", "false", "false", "true") "}}", NULL,
     "2,6,13,6,3,6,14,6,4,15,5", "a  b  cd", -1, NULL},
    {"order of new tokens", as_is,
     "{\"added_tokens_decoder\":{\"600\":" TOKEN(
         "<|w|>", "false", "false", "true") ",\"500\":" TOKEN("<|x|>", "false", "false",
                                                              "true") "},\"pad_token\":\"<|y|>\"}",
     NULL, "2,6,13,6,3,6,14,6,4,16,5", "a  b  cd", -1, NULL},
    {"map alone", hide_u, "{}", "{\"eos_token\":\"<|u|>\"}", "2,6,13,6,3,6,14,6,4,7,8,11,8,12,5",
     "a  b  c<|w|>d", 13, NULL},
    {"object of the map", hide_u, "{}",
     "{\"eos_token\":{\"content\":\"<|u|>\",\"lstrip\":false,\"normalized\":false,\"rstrip\":true,"
     "\"single_word\":false}}",
     "2,6,13,3,6,14,6,4,7,8,11,8,12,5", "a b  c<|w|>d", 13, NULL},
    {"map beats the config", hide_u, "{\"eos_token\":\"<|v|>\"}", "{\"eos_token\":\"<|u|>\"}",
     "2,6,13,6,3,6,14,6,4,7,8,11,8,12,5", "a  b  c<|w|>d", 13, NULL},
    {"map beside a list is not read", hide_u, "{\"added_tokens_decoder\":{}}",
     "{\"eos_token\":\"<|u|>\"}", "2,6,7,8,9,8,12,6,3,6,14,6,4,7,8,11,8,12,5", "a <|u|> b  c<|w|>d",
     -1, NULL},
    {"extra list of the map is added", hide_both, "{\"extra_special_tokens\":[\"<|u|>\"]}",
     "{\"extra_special_tokens\":[\"<|u|>\",\"<|v|>\"]}", "2,6,13,6,3,6,14,6,4,7,8,11,8,12,5",
     "a  b  c<|w|>d", -1, NULL},
    {"order of extra lists", as_is, "{\"extra_special_tokens\":[\"<|x|>\"]}",
     "{\"extra_special_tokens\":[\"<|w|>\"]}", "2,6,13,6,3,6,14,6,4,16,5", "a  b  cd", -1, NULL},
    {"extra list of the map, additional of the config", hide_both,
     "{\"additional_special_tokens\":[\"<|u|>\"]}", "{\"extra_special_tokens\":[\"<|v|>\"]}",
     "2,6,13,6,3,6,14,6,4,7,8,11,8,12,5", "a  b  c<|w|>d", -1, NULL},
    {"additional list of the config beats that of the map", hide_both,
     "{\"additional_special_tokens\":[\"<|u|>\"]}", "{\"additional_special_tokens\":[\"<|v|>\"]}",
     "2,6,13,6,3,6,7,8,10,8,12,6,4,7,8,11,8,12,5", "a  b <|v|> c<|w|>d", -1, NULL},
    {"extra list of the config beats additional of the map", hide_both,
     "{\"extra_special_tokens\":[\"<|u|>\"]}", "{\"additional_special_tokens\":[\"<|v|>\"]}",
     "2,6,13,6,3,6,7,8,10,8,12,6,4,7,8,11,8,12,5", "a  b <|v|> c<|w|>d", -1, NULL},
    {"empty extra list of the config does, too", hide_both, "{\"extra_special_tokens\":[]}",
     "{\"additional_special_tokens\":[\"<|v|>\"]}",
     "2,6,7,8,9,8,12,6,3,6,7,8,10,8,12,6,4,7,8,11,8,12,5", "a <|u|> b <|v|> c<|w|>d", -1, NULL},
    {"additional list of the map", hide_both, "{}", "{\"additional_special_tokens\":[\"<|v|>\"]}",
     "2,6,7,8,9,8,12,6,3,6,14,6,4,7,8,11,8,12,5", "a <|u|> b  c<|w|>d", -1, NULL},
    {"object of the extra list of the map", hide_both, "{}",
     "{\"extra_special_tokens\":[{\"content\":\"<|v|>\",\"rstrip\":true,\"normalized\":false}]}",
     "2,6,7,8,9,8,12,6,3,6,14,4,7,8,11,8,12,5", "a <|u|> b c<|w|>d", -1, NULL},
    {"extra names of the map replace a list", hide_both, "{\"extra_special_tokens\":[\"<|u|>\"]}",
     "{\"extra_special_tokens\":{\"x\":\"<|v|>\"}}", "2,6,7,8,9,8,12,6,3,6,14,6,4,7,8,11,8,12,5",
     "a <|u|> b  c<|w|>d", -1, NULL},
    {"extra names of the config, extra list of the map", hide_both,
     "{\"extra_special_tokens\":{\"x\":\"<|u|>\"}}", "{\"extra_special_tokens\":[\"<|v|>\"]}",
     "2,6,13,6,3,6,14,6,4,7,8,11,8,12,5", "a  b  c<|w|>d", -1, NULL},
    {"extra names of both", hide_both, "{\"extra_special_tokens\":{\"x\":\"<|u|>\"}}",
     "{\"extra_special_tokens\":{\"y\":\"<|v|>\"}}", "2,6,13,6,3,6,14,6,4,7,8,11,8,12,5",
     "a  b  c<|w|>d", -1, NULL},
    {"extra names, additional list of the map", hide_both,
     "{\"extra_special_tokens\":{\"x\":\"<|u|>\"}}", "{\"additional_special_tokens\":[\"<|v|>\"]}",
     "2,6,13,6,3,6,14,6,4,7,8,11,8,12,5", "a  b  c<|w|>d", -1, NULL},
    {"extra names and additional list", hide_both,
     "{\"extra_special_tokens\":{\"x\":\"<|u|>\"},\"additional_special_tokens\":[\"<|v|>\"]}", NULL,
     "2,6,13,6,3,6,14,6,4,7,8,11,8,12,5", "a  b  c<|w|>d", -1, NULL},
    {"additional names", hide_both, "{\"additional_special_tokens\":{\"x\":\"<|u|>\"}}", NULL,
     "2,6,13,6,3,6,7,8,10,8,12,6,4,7,8,11,8,12,5", "a  b <|v|> c<|w|>d", -1, NULL},
    {"null of the map replaces the extra list", hide_both, "{\"extra_special_tokens\":[\"<|u|>\"]}",
     "{\"extra_special_tokens\":null}", "2,6,7,8,9,8,12,6,3,6,7,8,10,8,12,6,4,7,8,11,8,12,5",
     "a <|u|> b <|v|> c<|w|>d", -1, NULL},
    {"null of the map replaces eos_token", hide_both, "{\"eos_token\":\"<|u|>\"}",
     "{\"eos_token\":null}", "2,6,7,8,9,8,12,6,3,6,7,8,10,8,12,6,4,7,8,11,8,12,5",
     "a <|u|> b <|v|> c<|w|>d", -1, NULL},
    {"added_tokens.json", hide_both, "{}", NULL, "2,6,13,6,3,6,14,6,4,7,8,11,8,12,5",
     "a <|u|> b <|v|> c<|w|>d", -1, "{\"<|u|>\":13,\"<|v|>\":14}"},
    {"added_tokens.json, new token", as_is, "{}", NULL, "2,6,13,6,3,6,14,6,4,15,5", "a  b  c<|w|>d",
     -1, "{\"<|w|>\":500}"},
    {"added_tokens.json, order", as_is, "{\"pad_token\":\"<|y|>\"}", NULL,
     "2,6,13,6,3,6,14,6,4,15,5", "a  b  c<|w|>d", -1, "{\"<|x|>\":600,\"<|w|>\":500}"},
    {"added_tokens.json beside a list is not read", hide_both, "{\"added_tokens_decoder\":{}}",
     NULL, "2,6,7,8,9,8,12,6,3,6,7,8,10,8,12,6,4,7,8,11,8,12,5", "a <|u|> b <|v|> c<|w|>d", -1,
     "{\"<|u|>\":13}"},
    {"added_tokens.json and eos_token", hide_both, "{\"eos_token\":\"<|u|>\"}", NULL,
     "2,6,13,6,3,6,7,8,10,8,12,6,4,7,8,11,8,12,5", "a  b <|v|> c<|w|>d", 13, "{\"<|u|>\":13}"},
    {"added_tokens.json and an object of the map", hide_both, "{}",
     "{\"eos_token\":{\"content\":\"<|u|>\",\"rstrip\":true,\"normalized\":false}}",
     "2,6,13,6,3,6,7,8,10,8,12,6,4,7,8,11,8,12,5", "a  b <|v|> c<|w|>d", 13, "{\"<|u|>\":13}"},
    {"added_tokens.json and an extra list", hide_both, "{\"extra_special_tokens\":[\"<|u|>\"]}",
     NULL, "2,6,13,6,3,6,7,8,10,8,12,6,4,7,8,11,8,12,5", "a  b <|v|> c<|w|>d", -1,
     "{\"<|u|>\":13}"},
    {"added_tokens.json and an extra object", hide_both,
     "{\"extra_special_tokens\":[{\"content\":\"<|u|>\",\"special\":true,\"__type\":\"AddedToken\"}"
     "]}",
     NULL, "2,6,13,6,3,6,7,8,10,8,12,6,4,7,8,11,8,12,5", "a <|u|> b <|v|> c<|w|>d", -1,
     "{\"<|u|>\":13}"},
    {"added_tokens.json and an additional list of the map", hide_both, "{}",
     "{\"additional_special_tokens\":[\"<|u|>\"]}", "2,6,13,6,3,6,7,8,10,8,12,6,4,7,8,11,8,12,5",
     "a <|u|> b <|v|> c<|w|>d", -1, "{\"<|u|>\":13}"},
    {"added_tokens.json and extra names", hide_both, "{}",
     "{\"extra_special_tokens\":{\"x\":\"<|u|>\"}}", "2,6,13,6,3,6,7,8,10,8,12,6,4,7,8,11,8,12,5",
     "a  b <|v|> c<|w|>d", -1, "{\"<|u|>\":13}"},
    {"added_tokens.json makes no token plain", as_is, "{}", NULL,
     "2,6,13,6,3,6,14,6,4,7,8,11,8,12,5", "a  b  c<|w|>d", -1, "{\"<|u|>\":13}"},
    {"added_tokens.json, id of another token", as_is, "{}", NULL,
     "2,6,13,6,3,6,14,6,4,7,8,11,8,12,5", "a  b  c<|w|>d", -1,
     "{\"<|w|>\":13,\"<|x|>\":14,\"<|y|>\":16}"},
    {"added_tokens.json, another id", as_is, "{}", NULL, "2,6,13,6,3,6,14,6,4,7,8,11,8,12,5",
     "a  b  c<|w|>d", -1, "{\"<|u|>\":77}"},
};

static enum dgl_status load(struct test_log *log, const char *config, const char *map,
                            const char *old, struct tok_config *out)
{
    const struct tok_config_file files[TOK_CONFIG_FILES] = {
        {"config", config, strlen(config)},
        {"map", map, map ? strlen(map) : 0},
        {"added", old, old ? strlen(old) : 0},
    };
    return tok_config_load(&log->log, files, out);
}

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
    enum dgl_status status = load(&log, row->config, row->map, row->old, &config);
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
    const char *map, *old;
};

static const struct bad_row bad_rows[] = {
    {"not an object", "[]", "config: is an array of 0, wanted an object", NULL, NULL},
    {"list is a list", "{\"added_tokens_decoder\":[]}", "added_tokens_decoder", NULL, NULL},
    {"id that is none",
     "{\"added_tokens_decoder\":{\"x\":" TOKEN("a", "false", "false", "true") "}}",
     "wanted an id from 0", NULL, NULL},
    {"listed text", "{\"added_tokens_decoder\":{\"1\":\"a\"}}", "wanted an object with content",
     NULL, NULL},
    {"token without content", "{\"eos_token\":{\"rstrip\":true}}", "eos_token.content", NULL, NULL},
    {"one additional token", "{\"additional_special_tokens\":\"a\"}", "wanted a list of tokens",
     NULL, NULL},
    {"one extra token of the map", "{}", "wanted a list of tokens",
     "{\"extra_special_tokens\":\"a\"}", NULL},
    {"list of added tokens", "{}", "is an array of 1, wanted an object", NULL, "[\"a\"]"},
    {"id of an added token", "{}", "<|u|>: wanted an id from 0", NULL, "{\"<|u|>\":\"13\"}"},
    {"large id of an added token", "{}", "wanted an id from 0", NULL, "{\"<|u|>\":16777216}"},
};

static void wrong_files_are_refused(void **state)
{
    const struct bad_row *row = *state;
    struct test_log log;
    struct tok_config config;
    test_log_init(&log, DGL_LOG_ERROR);
    assert_int_equal(load(&log, row->config, row->map, row->old, &config), DGL_ERR_FORMAT);
    assert_int_equal(log.errors, 1);
    assert_contains(log.text, row->said);
}

int main(void)
{
    int failures = test_run_table("special tokens", special_tokens_are_those_of_transformers, rows);
    return failures + test_run_table("wrong files", wrong_files_are_refused, bad_rows);
}
