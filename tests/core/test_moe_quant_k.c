/* As test_moe_quant, for q6_k and q5_k_m: a program of their own, so that none takes long. */
#include "tests/support/checkpoint.h"
#include "tests/support/test.h"

#define CASE(name, quantize, percent)                                                              \
    static void name(void **state)                                                                 \
    {                                                                                              \
        (void)state;                                                                               \
        checkpoint_check_perplexity(&checkpoint_story_moe, quantize, percent);                     \
    }

CASE(moe_q6_k, "q6_k", 0.2)
CASE(moe_q5_k_m, "q5_k_m", 0.5)

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(moe_q6_k),
        cmocka_unit_test(moe_q5_k_m),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
