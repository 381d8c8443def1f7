/* Opening the trained checkpoints for tests. */
#include "tests/support/checkpoint.h"

#include <math.h>

#include "core/base/json.h"
#include "tests/support/test.h"

/* A sample evaluates one of these parts of the texts; prime to the shares of the tables. */
#define PARTS 4

const struct checkpoint checkpoint_story_llama = {"models/story-llama.tar.xz", "story-llama",
                                                  "models/eval.json"};
const struct checkpoint checkpoint_story_draft = {"models/story-draft.tar.xz", "story-draft",
                                                  "models/eval.json"};
const struct checkpoint checkpoint_story_gemma3 = {"models/story-gemma3.tar.xz", "story-gemma3",
                                                   "models/eval-gemma.json"};
const struct checkpoint checkpoint_story_moe = {"models/story-moe.tar.xz", "story-moe",
                                                "models/eval.json"};

void checkpoint_open(struct checkpoint_run *run)
{
    char pack[1024];
    const char *dir = test_unpacked(run->checkpoint->archive, run->checkpoint->folder);
    if (!dir)
        SKIP("%s is not there (DOPPLERGL_TEST_DATA)", run->checkpoint->archive);
    snprintf(pack, sizeof(pack), "%s", dir);
    reference_load(dir, &run->ref);
    if (run->quantize) {
        struct dgl_convert_result converted = {.size = sizeof(converted)};
        char from[512];
        snprintf(from, sizeof(from), "%s", dir);
        run->tmp = test_tmpdir();
        snprintf(pack, sizeof(pack), "%s/pack", run->tmp);
        assert_int_equal(
            dgl_convert(NULL,
                        dgl_convert_params(.in = from, .out = pack, .quantize = run->quantize),
                        &converted),
            DGL_OK);
    }
    test_engine_open(&run->engine, &(struct test_engine_params){.path = pack,
                                                                .kv_type = run->kv_type,
                                                                .chunk = run->chunk,
                                                                .kernels = run->kernels});
}

void checkpoint_close(struct checkpoint_run *run)
{
    test_engine_close(&run->engine);
    reference_finish(&run->ref);
    if (run->tmp)
        test_tmpdir_remove(run->tmp);
}

/* Perplexity of the texts of a part by the evaluation in float64. */
static struct dgl_perplexity_result expected(const char *checkpoint, size_t part)
{
    struct dgl_perplexity_result sum = {0};
    struct dgl_json_doc *doc = NULL;
    assert_int_equal(dgl_json_load(NULL, "tests/data/vectors/story_nll.json", 1 << 20, &doc),
                     DGL_OK);
    const struct dgl_json *texts = dgl_json_get(dgl_json_root(doc), checkpoint);
    const struct dgl_json *tokens = dgl_json_first(dgl_json_get(texts, "tokens"));
    const struct dgl_json *nll = dgl_json_first(dgl_json_get(texts, "nll"));
    for (size_t i = 0; tokens && nll; i++) {
        if (i % PARTS == part) {
            sum.tokens += (uint64_t)dgl_json_f64(tokens);
            sum.nll += dgl_json_f64(nll);
        }
        tokens = dgl_json_next(tokens);
        nll = dgl_json_next(nll);
    }
    assert_true(sum.tokens > 0);
    dgl_json_destroy(&doc);
    sum.ppl = exp(sum.nll / (double)sum.tokens);
    return sum;
}

void checkpoint_keeps_its_perplexity(void **state)
{
    const struct perplexity_row *row = *state;
    struct checkpoint_run run = {.checkpoint = row->checkpoint, .quantize = row->quantize};
    struct dgl_perplexity_result all = {0}, all_wanted = {0};
    uint64_t seed = 0;
    bool sample = test_is_sample(&seed);
    char texts[1024];
    const char *path = test_data(row->checkpoint->texts);
    if (!path)
        SKIP("%s is not there (DOPPLERGL_TEST_DATA)", row->checkpoint->texts);
    snprintf(texts, sizeof(texts), "%s", path);
    checkpoint_open(&run);
    for (size_t part = 0; part < PARTS; part++) {
        if (sample && part != seed % PARTS)
            continue;
        struct dgl_perplexity_result want = expected(row->checkpoint->folder, part);
        struct dgl_perplexity_result got = reference_evaluate(&run.engine, texts, part, PARTS);
        printf("# %s, part %zu of the texts: perplexity %.6f, reference %.6f\n", row->name, part,
               got.ppl, want.ppl);
        assert_int_equal(got.tokens, want.tokens);
        assert_near(got.ppl, want.ppl, want.ppl * row->percent / 100);
        all.nll += got.nll;
        all.tokens += got.tokens;
        all_wanted.nll += want.nll;
    }
    if (!sample) {
        double ppl = exp(all.nll / (double)all.tokens);
        printf("# %s: perplexity %.6f, reference %.6f\n", row->name, ppl, run.ref.ppl);
        assert_near(ppl, run.ref.ppl, run.ref.ppl * row->percent / 100);
        assert_near(all_wanted.nll, run.ref.nll, 1e-6 * run.ref.nll); /* the parts are the whole */
    }
    checkpoint_close(&run);
}
