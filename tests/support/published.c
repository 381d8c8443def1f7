/* Published tokenizers and chat templates in the test data, and their paths. */
#include "tests/support/published.h"

#include "core/base/file.h"
#include "tests/support/test.h"

const struct published_tokenizer published_tokenizers[14] = {
    {"gpt2", true},         {"gpt4o", false},          {"gpt-oss", true},
    {"llama3", true},       {"llama3-instruct", true}, {"llama3.2", true},
    {"mistral-nemo", true}, {"qwen2.5", true},         {"qwen3", true},
    {"llama2", true},       {"mixtral", true},         {"phi3-mini", true},
    {"gemma2", true},       {"gemma3", true},
};

const struct published_template published_templates[14] = {
    {"gemma2", "gemma2", ""},
    {"gemma3", "gemma3", ""},
    {"gpt-oss", "gpt-oss", ""},
    {"llama2", "llama2", ""},
    {"tinyllama", "llama2", "_tinyllama"},
    {"llama3", "llama3", ""},
    {"llama3-instruct", "llama3-instruct", ""},
    {"llama3.2", "llama3.2", ""},
    {"mistral-nemo", "mistral-nemo", ""},
    {"mixtral", "mixtral", ""},
    {"phi3-mini", "phi3-mini", ""},
    {"phi3.5", "phi3-mini", "_phi3.5"},
    {"qwen2.5", "qwen2.5", ""},
    {"qwen3", "qwen3", ""},
};

const char *published_dir(const char *folder)
{
    char archive[64];
    snprintf(archive, sizeof(archive), "tokenizers/%s.tar.xz", folder);
    const char *dir = test_unpacked(archive, folder);
    if (!dir)
        SKIP("%s is not in the test data", archive);
    return dir;
}

char *published_file(const char *dir, const char *stem, const struct published_template *t,
                     const char *ending)
{
    char name[128];
    snprintf(name, sizeof(name), "%s%s%s", stem, t->suffix, ending);
    return checked(dgl_path_join(dir, name));
}
