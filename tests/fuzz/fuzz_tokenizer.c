/* Loads a tokenizer.json and runs each of its parts. */
#include "tests/fuzz/fuzz.h"

#include "loader/tokenizer/tokenizer.h"

static const char *const texts[] = {
    "",
    " ",
    "Hello, world! It's 12345  times.\n\n\tDon't",
    "na\xC3\xAFve \xEF\xAC\x81 \xE2\x96\x81 \xE4\xBD\xA0\xE5\xA5\xBD \xF0\x9F\x98\x80 e\xCC\x81",
    "<s>aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa</s> <|end|>",
};

void fuzz_one(struct dgl_str input)
{
    struct dgl_tokenizer *tok = NULL;
    struct fuzz_log log;
    fuzz_log_init(&log);
    enum dgl_status status = tokenizer_create(&log.log, "T", input.p, input.len, &tok);
    fuzz_check_status(&log, status);
    FUZZ_CHECK((status == DGL_OK) == (tok != NULL));
    if (!tok)
        return;
    for (unsigned i = 0; i < sizeof(texts) / sizeof(texts[0]); i++)
        fuzz_encode_decode(tok, dgl_str_of(texts[i]), i);
    const int32_t max = tokenizer_max_id(tok);
    const int32_t ids[] = {0, 1, 2, 3, max, -1, max, max / 2, INT32_MAX, INT32_MIN, 4, 5, 1, 0};
    fuzz_decode(tok, ids, sizeof(ids) / sizeof(ids[0]), false);
    tokenizer_destroy(&tok);
}
