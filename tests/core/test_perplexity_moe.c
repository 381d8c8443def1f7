/* Perplexity of the mixture of experts over the evaluation texts, as stored and quantised. Needs
 * the test data. */
#include "tests/support/test.h"

#include "tests/support/checkpoint.h"

static const struct perplexity_row rows[] = {
    {"moe as stored", &checkpoint_story_moe, NULL, 0.1},
    {"moe q8_0", &checkpoint_story_moe, "q8_0", 0.2},
    {"moe q6_k", &checkpoint_story_moe, "q6_k", 0.2},
    {"moe q5_k_m", &checkpoint_story_moe, "q5_k_m", 0.5},
    {"moe q4_k_m", &checkpoint_story_moe, "q4_k_m", 0.5},
};

int main(void)
{
    return test_run_table_sample("perplexity", checkpoint_keeps_its_perplexity, rows, 5);
}
