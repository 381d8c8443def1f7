/* Answers of a quantised pack of a trained checkpoint. Needs the test data. */
#include "tests/support/test.h"

#include "tests/support/checkpoint.h"

/* A careless quantiser first loses arithmetic, counting and repeating. */
static void llama_q4_k_m_answers(void **state)
{
    static const struct {
        const char *prompt, *answer;
    } rows[] = {
        {"<|user|>\nWhat is 7 + 5?<|end|>\n<|assistant|>\n", "7 + 5 = 12."},
        {"<|user|>\nCount from 3 to 9.<|end|>\n<|assistant|>\n", "3, 4, 5, 6, 7, 8, 9."},
        {"<|user|>\nRepeat these words: otter, lamb, owl, goat.<|end|>\n<|assistant|>\n",
         "otter, lamb, owl, goat."},
    };
    struct checkpoint_run run = {.checkpoint = &checkpoint_story_llama, .quantize = "q4_k_m"};
    (void)state;
    checkpoint_open(&run);
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct dgl_generate_result r = {.size = sizeof(r)};
        assert_int_equal(
            dgl_generate(run.engine.session,
                         dgl_generate_params(.prompt = rows[i].prompt, .max_tokens = 40), &r),
            DGL_OK);
        assert_string_equal(r.text, rows[i].answer);
        dgl_generate_result_finish(&r);
    }
    checkpoint_close(&run);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(llama_q4_k_m_answers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
