/* Every dense family with an f32 cache: logits to 1e-9, greedy tokens; some on the minimal device.
 */
#include "tests/support/test.h"

#include "tests/support/family.h"

#define EXACT(family)                                                                              \
    {                                                                                              \
        family, family, DGL_KV_F32, false, 0                                                       \
    }
#define MINIMAL(family)                                                                            \
    {                                                                                              \
        family " on the minimal device", family, DGL_KV_F32, true, 0                               \
    }

static const struct family_case rows[] = {
    EXACT("llama3"),
    EXACT("llama2-f16"),
    EXACT("llama-linear-f32"),
    EXACT("mistral"),
    EXACT("qwen2"),
    EXACT("qwen2-yarn"),
    EXACT("qwen3"),
    EXACT("gemma2"),
    EXACT("gemma3"),
    EXACT("phi3"),
    EXACT("phi3-longrope"),
    EXACT("olmo2"),
    EXACT("smollm3"),
    EXACT("granite"),
    MINIMAL("gemma2"),
    MINIMAL("llama-linear-f32"),
    MINIMAL("olmo2"),
};

int main(void)
{
    return test_run_table_sample("families", family_matches_its_reference, rows, 2);
}
