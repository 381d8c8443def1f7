/* Converts text to ids. Input: a byte for the tokenizer, a byte for the flags, the text. */
#include "tests/fuzz/fuzz.h"

void fuzz_one(struct dgl_str input)
{
    unsigned index = fuzz_byte(&input), flags = fuzz_byte(&input);
    fuzz_encode_decode(fuzz_tokenizer(index), input, flags);
}
