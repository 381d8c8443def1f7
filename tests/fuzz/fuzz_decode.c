/* Converts ids to text. Input: a byte for the tokenizer, a byte that selects if special tokens are
 * omitted, then ids of two bytes each. Ids from 0xFF00 on select ids at the limits of the range. */
#include "tests/fuzz/fuzz.h"

#include <stdlib.h>

#include "core/base/mem.h"

static int32_t next_id(struct dgl_str *input)
{
    unsigned low = fuzz_byte(input), value = fuzz_byte(input) << 8 | low;
    if (value < 0xFF00)
        return (int32_t)value;
    return low & 1 ? INT32_MAX - (int32_t)low : INT32_MIN + (int32_t)low;
}

void fuzz_one(struct dgl_str input)
{
    const struct dgl_tokenizer *tok = fuzz_tokenizer(fuzz_byte(&input));
    bool skip_special = fuzz_byte(&input) & 1;
    size_t count = input.len / 2;
    int32_t *ids = dgl_new_array(int32_t, count);
    FUZZ_CHECK(ids);
    for (size_t i = 0; i < count; i++)
        ids[i] = next_id(&input);
    fuzz_decode(tok, ids, count, skip_special);
    free(ids);
}
