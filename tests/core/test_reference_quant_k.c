/* The newer recipes on the trained checkpoint: what they may cost. Needs the test data. */
#include "tests/support/checkpoint.h"
#include "tests/support/test.h"

static void llama_q6_k(void **state)
{
    (void)state;
    checkpoint_check_perplexity(&checkpoint_story_llama, "q6_k", 0.2);
}

static void llama_q5_k_m(void **state)
{
    (void)state;
    checkpoint_check_perplexity(&checkpoint_story_llama, "q5_k_m", 0.5);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(llama_q6_k),
        cmocka_unit_test(llama_q5_k_m),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
