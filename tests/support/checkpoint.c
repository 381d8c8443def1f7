/* Opening the trained checkpoints for tests. */
#include "tests/support/checkpoint.h"

#include "tests/support/test.h"

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
        struct dgl_convert_result converted;
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
    test_engine_open(&run->engine,
                     &(struct test_engine_params){.path = pack, .kv_type = run->kv_type});
}

void checkpoint_close(struct checkpoint_run *run)
{
    test_engine_close(&run->engine);
    reference_finish(&run->ref);
    if (run->tmp)
        test_tmpdir_remove(run->tmp);
}

void checkpoint_keeps_its_perplexity(void **state)
{
    const struct perplexity_row *row = *state;
    struct checkpoint_run run = {.checkpoint = row->checkpoint, .quantize = row->quantize};
    char texts[1024];
    const char *path = test_data(row->checkpoint->texts);
    if (!path)
        SKIP("%s is not there (DOPPLERGL_TEST_DATA)", row->checkpoint->texts);
    snprintf(texts, sizeof(texts), "%s", path);
    checkpoint_open(&run);
    double ppl = reference_perplexity(&run.engine, texts);
    printf("# %s: perplexity %.6f, reference %.6f\n", row->name, ppl, run.ref.ppl);
    assert_near(ppl, run.ref.ppl, run.ref.ppl * row->percent / 100);
    checkpoint_close(&run);
}
