/* Every dense family with an f16 cache: limits for the error of the logits from rounding keys and
 * values. */
#include "tests/support/test.h"

#include "tests/support/family.h"

#define ROUNDED(family)                                                                            \
    {                                                                                              \
        family, family, DGL_KV_F16, NULL, 0                                                        \
    }

static const struct family_case rows[] = {
    ROUNDED("llama3"),  ROUNDED("llama2-f16"),    ROUNDED("llama-linear-f32"),
    ROUNDED("mistral"), ROUNDED("qwen2"),         ROUNDED("qwen2-yarn"),
    ROUNDED("qwen3"),   ROUNDED("gemma2"),        ROUNDED("gemma3"),
    ROUNDED("phi3"),    ROUNDED("phi3-longrope"), ROUNDED("olmo2"),
    ROUNDED("smollm3"), ROUNDED("granite"),
};

int main(void)
{
    return test_run_table_sample("families", family_matches_its_reference, rows, 2);
}
