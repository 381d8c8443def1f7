/* The oracle compared with float64 evaluations by other programs: every miniature, and the bundled
 * model. */
#include "tests/support/test.h"

#include <stdlib.h>

#include "core/base/mem.h"
#include "core/oracle/oracle.h"
#include "loader/model/model_file.h"
#include "tests/support/family.h"

struct model_case {
    const char *name;               /* folder in the archive */
    const char *folder, *reference; /* instead, of the tree */
};

/* The references' angles are floats, and their logits are stored as floats. */
#define MAX_NMSE 1e-11

static const struct model_case cases[] = {
    {"story-llama-q4_k_m", "tests/models/story-llama-q4_k_m",
     "tests/models/story-llama-q4_k_m.reference"},
    {.name = "gemma2"},
    {.name = "gemma3"},
    {.name = "gpt-oss-mxfp4"},
    {.name = "granite"},
    {.name = "llama-linear-f32"},
    {.name = "llama2-f16"},
    {.name = "llama3"},
    {.name = "mistral"},
    {.name = "mixtral"},
    {.name = "olmo2"},
    {.name = "phi3"},
    {.name = "phi3-longrope"},
    {.name = "qwen2"},
    {.name = "qwen2-yarn"},
    {.name = "qwen3"},
    {.name = "qwen3-moe"},
    {.name = "smollm3"},
};

static double prompt_nmse(const struct dgl_model_file *file, const struct reference_prompt *p)
{
    size_t vocab = (size_t)file->desc.vocab, count = p->num_ids * vocab;
    double *got = dgl_new_array(double, count);
    struct test_log log;
    test_log_init(&log, DGL_LOG_WARN);
    assert_non_null(got);
    if (oracle_evaluate(&log.log,
                        &(struct oracle_params){
                            .desc = &file->desc, .tensors = file->tensors, .count = p->num_ids},
                        p->ids, got) != DGL_OK)
        fail_msg("%s", log.text);
    double error = 0.0, power = 0.0;
    for (size_t i = 0; i < count; i++) {
        error += (got[i] - p->logits[i]) * (got[i] - p->logits[i]);
        power += (double)p->logits[i] * p->logits[i];
    }
    free(got);
    return error / power;
}

static void reference_is_right(void **state)
{
    const struct model_case *row = *state;
    struct dgl_model_file *file = NULL;
    struct reference ref;
    const char *dir = row->folder ? row->folder : family_dir(row->name);
    reference_load(row->reference ? row->reference : dir, &ref);
    assert_int_equal(model_file_open(NULL, &(struct model_open_params){.path = dir}, &file),
                     DGL_OK);
    assert_int_equal(ref.vocab, file->desc.vocab);
    for (size_t i = 0; i < ref.count; i++) {
        double nmse = prompt_nmse(file, &ref.prompt[i]);
        printf("# %s, prompt %zu: NMSE %.3g\n", row->name, i, nmse);
        assert_at_most(nmse, MAX_NMSE);
    }
    model_file_close(&file);
    reference_finish(&ref);
}

int main(void)
{
    return test_run_table("oracle", reference_is_right, cases);
}
