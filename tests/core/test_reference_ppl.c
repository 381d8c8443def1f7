/* Perplexity of unquantised checkpoints: within 0.1% of the float64 evaluation. Needs the test
 * data. */
#include "tests/support/checkpoint.h"
#include "tests/support/test.h"

static void llama_stored(void **state)
{
    (void)state;
    checkpoint_check_perplexity(&checkpoint_story_llama, NULL, 0.1);
}

static void draft_stored(void **state)
{
    (void)state;
    checkpoint_check_perplexity(&checkpoint_story_draft, NULL, 0.1);
}

static void draft_f16(void **state)
{
    (void)state;
    checkpoint_check_perplexity(&checkpoint_story_draft, "f16", 0.1);
}

static void gemma3_stored(void **state)
{
    (void)state;
    checkpoint_check_perplexity(&checkpoint_story_gemma3, NULL, 0.1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(llama_stored),
        cmocka_unit_test(draft_stored),
        cmocka_unit_test(draft_f16),
        cmocka_unit_test(gemma3_stored),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
