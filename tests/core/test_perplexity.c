/* Perplexity of dense checkpoints over the evaluation texts: unquantised within 0.1% of the float64
 * evaluation, and limits for each recipe of the quantiser. Needs the test data. */
#include "tests/support/test.h"

#include "tests/support/checkpoint.h"

static const struct perplexity_row rows[] = {
    {"llama as stored", &checkpoint_story_llama, NULL, 0.1},
    {"draft as stored", &checkpoint_story_draft, NULL, 0.1},
    {"draft f16", &checkpoint_story_draft, "f16", 0.1},
    {"gemma3 as stored", &checkpoint_story_gemma3, NULL, 0.1},
    {"llama q8_0", &checkpoint_story_llama, "q8_0", 0.2},
    {"draft q8_0", &checkpoint_story_draft, "q8_0", 0.2},
    {"llama q6_k", &checkpoint_story_llama, "q6_k", 0.2},
    {"llama q5_k_m", &checkpoint_story_llama, "q5_k_m", 0.5},
    {"llama q4_k_m", &checkpoint_story_llama, "q4_k_m", 0.5},
};

int main(void)
{
    return test_run_table_sample("perplexity", checkpoint_keeps_its_perplexity, rows, 9);
}
