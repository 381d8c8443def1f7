/* Quantised packs of the trained mixture of experts: what quantising may cost. Needs the test data.
 */
#include "tests/support/checkpoint.h"
#include "tests/support/test.h"

#define CASE(name, quantize, percent)                                                              \
    static void name(void **state)                                                                 \
    {                                                                                              \
        (void)state;                                                                               \
        checkpoint_check_perplexity(&checkpoint_story_moe, quantize, percent);                     \
    }

CASE(moe_q8_0, "q8_0", 0.2)
CASE(moe_q4_k_m, "q4_k_m", 0.5)

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(moe_q8_0),
        cmocka_unit_test(moe_q4_k_m),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
