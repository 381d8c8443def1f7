/* /v1/embeddings of an embedding model: pooled as its files say, or as --pooling says.
 * Answers do not depend on its modules. */
#include "tests/support/test.h"

#include <stdlib.h>
#include <sys/stat.h>

#include "core/base/file.h"
#include "tests/support/server.h"
#include "tests/support/tiny_model.h"

enum { HIDDEN = 64 };
#define INPUT "{\"input\":[5,9,70,33,12]}"

static char *model;

static int write_model(void **state)
{
    static const char modules[] = "[{\"path\":\"\",\"type\":\"x.Transformer\"},"
                                  "{\"path\":\"1_Pooling\",\"type\":\"x.Pooling\"}]";
    static const char pooling[] = "{\"pooling_mode_lasttoken\":true}";
    struct tiny_llama m = tiny_llama_default();
    (void)state;
    model = test_tmpdir();
    tiny_llama_write(model, &m);
    char *sub = dgl_path_join(model, "1_Pooling");
    assert_int_equal(mkdir(sub, 0700), 0);
    test_write_file(sub, "config.json", pooling, strlen(pooling));
    test_write_file(model, "modules.json", modules, strlen(modules));
    free(sub);
    return 0;
}

static int remove_model(void **state)
{
    (void)state;
    test_tmpdir_remove(model);
    return 0;
}

/* Embeds INPUT with a server that has the option --pooling, or none if `pooling` is NULL. */
static void embed(const char *pooling, double row[HIDDEN])
{
    const char *const args[] = {"-m", model, pooling ? "--pooling" : NULL, pooling, NULL};
    struct server server;
    struct reply r;
    size_t count = 0;
    server_start(&server, args);
    server_post(&server, "/v1/embeddings", INPUT, &r);
    assert_int_equal(r.status, 200);
    const struct dgl_json *values =
        dgl_json_get(dgl_json_first(dgl_json_get(reply_json(&r), "data")), "embedding");
    assert_int_equal(dgl_json_count(values), HIDDEN);
    for (const struct dgl_json *v = dgl_json_first(values); v; v = dgl_json_next(v))
        row[count++] = dgl_json_f64(v);
    reply_finish(&r);
    server_end(&server);
}

static double difference(const double a[HIDDEN], const double b[HIDDEN])
{
    double sum = 0;
    for (int i = 0; i < HIDDEN; i++)
        sum += (a[i] - b[i]) * (a[i] - b[i]);
    return sum;
}

static void pooling_is_that_of_the_files_unless_named(void **state)
{
    double files[HIDDEN], last[HIDDEN], mean[HIDDEN];
    (void)state;
    embed(NULL, files);
    embed("last", last);
    embed("mean", mean);
    assert_at_most(difference(files, last), 1e-10);
    if (difference(files, mean) < 1e-3)
        fail_msg("the mean is the last token: squared distance %g", difference(files, mean));
}

static void an_unsupported_module_is_refused(void **state)
{
    static const char modules[] = "[{\"path\":\"1_Pooling\",\"type\":\"x.Pooling\"},"
                                  "{\"path\":\"2_Dense\",\"type\":\"x.Dense\"}]";
    struct server server;
    struct reply r;
    (void)state;
    test_write_file(model, "modules.json", modules, strlen(modules));
    server_start(&server, (const char *const[]){"-m", model, NULL});
    server_post(&server, "/v1/embeddings", INPUT, &r);
    assert_int_equal(r.status, 400);
    assert_contains(r.body, "modules.json has the module Dense, which is not supported");
    reply_finish(&r);
    server_post(&server, "/v1/completions", "{\"prompt\":[5,9],\"max_tokens\":1}", &r);
    assert_int_equal(r.status, 200);
    reply_finish(&r);
    server_end(&server);
}

int main(void)
{
    const struct CMUnitTest cases[] = {
        cmocka_unit_test(pooling_is_that_of_the_files_unless_named),
        cmocka_unit_test(an_unsupported_module_is_refused),
    };
    return cmocka_run_group_tests_name("embedding models", cases, write_model, remove_model);
}
