/* Arguments that do not parse, values that do not fit, help and its document. No case opens a
 * device: faults must be found before. */
#include "tests/support/test.h"

#include <stdlib.h>

#include "tests/support/process.h"
#include "tests/support/tiny_model.h"

/* ---- arguments that do not parse ----------------------------------------------------------------
 */

struct usage {
    const char *name;
    const char *args[8];
    int code;
    const char *error; /* part of the one error line */
};

static void usage_case(void **state)
{
    const struct usage *row = *state;
    struct process_result r;
    process_run(&(struct process_params){.args = row->args}, &r);
    assert_code(&r, row->code);
    assert_one_error(&r, row->error);
    assert_int_equal(r.out_len, 0);
    process_finish(&r);
}

static const struct usage usages[] = {
    {"unknown command", {"frobnicate"}, 2, "there is no command frobnicate"},
    {"command of another program", {"Generate"}, 2, "there is no command Generate"},
    {"flag before the command", {"-q", "version"}, 2, "there is no command -q"},
    {"help of an unknown command", {"help", "nope"}, 2, "there is no command nope"},
    {"two arguments to help", {"help", "generate", "bench"}, 2, "unexpected argument bench"},
    {"unknown long option", {"generate", "--nope"}, 2, "unknown option --nope"},
    {"unknown short option", {"generate", "-Z"}, 2, "unknown option -Z"},
    {"option of another command", {"generate", "--smoke"}, 2, "unknown option --smoke"},
    {"abbreviated option", {"generate", "--tem", "1"}, 2, "--tem; did you mean --temp?"},
    {"misspelt option", {"generate", "--n-perdict", "1"}, 2, "did you mean --n-predict?"},
    {"long option with one dash", {"generate", "-temp", "1"}, 2, "did you mean --temp?"},
    {"nothing is near",
     {"generate", "--zzzzzz"},
     2,
     "unknown option --zzzzzz; `dopplergl generate"},
    {"misspelt command", {"genrate", "-p", "x"}, 2, "no command genrate; did you mean generate?"},
    {"no command, only options", {"-m", "x", "-p", "y"}, 2, "options come after the command"},
    {"misspelt hint",
     {"kernels", "list", "--kernel-hints", "{\"q4kmatmull\":\"auto\"}"},
     2,
     "did you mean q4kMatmul?"},
    {"value attached to a letter", {"generate", "-n5"}, 2, "did you mean -n 5?"},
    {"value attached with =", {"generate", "-n=5"}, 2, "did you mean -n 5?"},
    {"letter with a value in a run", {"generate", "-qn", "5"}, 2, "unknown option -qn"},
    {"negation of an option with a value",
     {"generate", "--no-temp"},
     2,
     "unknown option --no-temp"},
    {"negation with a value", {"generate", "--no-echo=1"}, 2, "unknown option --no-echo"},
    {"-hf without a value", {"generate", "-hf"}, 2, "-hf needs a value: MODEL"},
    {"-ngl without a value", {"generate", "-ngl"}, 2, "-ngl needs a value: N"},
    {"value for --mlock", {"generate", "-p", "a", "--mlock=1"}, 2, "--mlock takes no value"},
    {"wrong value for an alias",
     {"generate", "--temperature", "hot"},
     2,
     "--temperature hot: wanted"},
    {"-cnv", {"generate", "-cnv", "-p", "a"}, 2, "dopplergl chat"},
    {"-sys of a raw prompt", {"generate", "-sys", "x", "-p", "a"}, 2, "dopplergl chat"},
    {"-no-cnv of a chat", {"chat", "-no-cnv"}, 2, "dopplergl generate"},
    {"types of keys and values", {"generate", "-ctk", "q8_0"}, 2, "--kv-type"},
    {"empty long option with a value", {"generate", "--=1"}, 2, "unknown option --=1"},
    {"unexpected argument", {"generate", "hello", "world"}, 2, "unexpected argument world"},
    {"two prompts, one without a flag", {"generate", "a", "-p", "b"}, 2, "name one prompt"},
    {"argument and file", {"generate", "a", "-f", "b"}, 2, "exactly one of -p"},
    {"argument after --", {"version", "--", "-q"}, 2, "unexpected argument -q"},
    {"value for a flag", {"generate", "--echo=1"}, 2, "--echo takes no value"},
    {"missing value, long", {"generate", "--temp"}, 2, "--temp needs a value"},
    {"missing value, short", {"generate", "-p"}, 2, "--prompt needs a value"},
    {"no prompt", {"generate"}, 2, "exactly one of -p"},
    {"two prompts", {"generate", "-p", "a", "--ids", "1"}, 2, "exactly one of -p"},
    {"prompt and file", {"generate", "-p", "a", "-f", "-"}, 2, "exactly one of -p"},
    {"-n is no number", {"generate", "-p", "a", "-n", "many"}, 2, "wanted a whole number"},
    {"-n is a fraction", {"generate", "-p", "a", "-n", "1.5"}, 2, "wanted a whole number"},
    {"-n is empty", {"generate", "-p", "a", "-n", ""}, 2, "wanted a whole number"},
    {"-n below -1", {"generate", "-p", "a", "-n", "-2"}, 2, "from -1 to"},
    {"-n beyond 31 bits", {"generate", "-p", "a", "-n", "2147483648"}, 2, "to 2147483647"},
    {"-n with a blank", {"generate", "-p", "a", "-n", "5 "}, 2, "wanted a whole number"},
    {"-c is negative", {"generate", "-p", "a", "-c", "-1"}, 2, "--ctx-size -1"},
    {"-c is no number", {"generate", "-p", "a", "-c", "4k"}, 2, "--ctx-size 4k"},
    {"temperature is no number", {"generate", "--temp", "hot"}, 2, "wanted a number"},
    {"temperature is nan", {"generate", "--temp", "nan"}, 2, "wanted a number"},
    {"temperature is infinite", {"generate", "--temp", "inf"}, 2, "wanted a number"},
    {"temperature is negative", {"generate", "--temp", "-0.5"}, 2, "from 0 to"},
    {"temperature with a comma", {"generate", "--temp", "0,8"}, 2, "wanted a number"},
    {"top-k is no number", {"generate", "--top-k", "forty"}, 2, "--top-k forty"},
    {"top-p beyond 1", {"generate", "--top-p", "1.5"}, 2, "from 0 to 1"},
    {"min-p is negative", {"generate", "--min-p=-1"}, 2, "from 0 to 1"},
    {"penalty of 0", {"generate", "--repeat-penalty", "0"}, 2, "--repeat-penalty 0"},
    {"penalty window of -2", {"generate", "--repeat-last-n", "-2"}, 2, "from -1 to 2147483647"},
    {"bias without a number", {"generate", "-p", "a", "-l", "15"}, 2, "--logit-bias 15: wanted"},
    {"bias without a sign", {"generate", "-p", "a", "-l", "15=2"}, 2, "--logit-bias 15=2: wanted"},
    {"bias with two signs", {"chat", "-l", "15+-2"}, 2, "--logit-bias 15+-2: wanted"},
    {"presence penalty", {"chat", "--presence-penalty", "101"}, 2, "from -100 to 100"},
    {"DRY's base", {"generate", "-p", "a", "--dry-base", "0.5"}, 2, "from 1 to 100"},
    {"DRY's allowed length", {"generate", "--dry-allowed-length", "0"}, 2, "from 1 to"},
    {"DRY's breaker", {"chat", "--dry-sequence-breaker", ""}, 2, "--dry-sequence-breaker"},
    {"top-k beyond the limit", {"generate", "-p", "a", "--top-k", "129"}, 2, "from -1 to 128"},
    {"top-k beyond the limit in a chat", {"chat", "--top-k", "129"}, 2, "from -1 to 128"},
    {"seed is no number", {"generate", "--seed", "x"}, 2, "--seed x"},
    {"readback interval of 0", {"generate", "--readback-interval", "0"}, 2, "from 1 to 256"},
    {"readback interval of 257", {"generate", "--readback-interval", "257"}, 2, "from 1 to 256"},
    {"ids are words", {"generate", "--ids", "1,two,3"}, 2, "\"two\" at place 1"},
    {"ids are empty", {"generate", "--ids", ""}, 2, "\"\" at place 0 is not"},
    {"ids end with a comma", {"generate", "--ids", "1,"}, 2, "is not a token id"},
    {"ids with a fraction", {"generate", "--ids", "1.0"}, 2, "is not a token id"},
    {"kv type", {"generate", "-p", "a", "--kv-type", "q8"}, 2, "wanted one of f16|f32"},
    {"part of a word", {"generate", "-p", "a", "--kv-type", "f1"}, 2, "wanted one of f16|f32"},
    {"two words", {"generate", "-p", "a", "--kv-type", "f16|f32"}, 2, "wanted one of f16|f32"},
    {"limits",
     {"generate", "-p", "a", "--limits", "max"},
     2,
     "wanted one of min|v3d|mali-g52|adreno-630|intel-skl"},
    {"limits are no prefix", {"devices", "--limits", "mali"}, 2, "--limits mali: wanted one of"},
    {"log level", {"version", "--log-level", "loud"}, 2, "wanted one of none|error"},
    {"device is a word", {"version", "--device", "foo"}, 2, "--device 'foo': wanted any"},
    {"device is negative", {"version", "--device", "-1"}, 2, "--device '-1': wanted any"},
    {"device in hexadecimal", {"version", "--device", "0x1"}, 2, "--device '0x1'"},
    {"device is nothing", {"version", "--device", ""}, 2, "--device '': wanted any"},
    {"device with two words", {"version", "--device", "any|software"}, 2, "wanted any"},
    {"device beyond 64 bits", {"version", "--device", "99999999999999999999"}, 2, "wanted any"},
    {"kernel hints are no JSON", {"kernels", "list", "--kernel-hints", "{"}, 2, "--kernel-hints"},
    {"kernel hints are nothing", {"kernels", "list", "--kernel-hints", ""}, 2, "--kernel-hints"},
    {"kernel hints are a list", {"kernels", "list", "--kernel-hints", "[]"}, 2, "an object"},
    {"unknown kernel hint", {"kernels", "list", "--kernel-hints", "{\"a\":1}"}, 2, "'a'"},
    {"kernel hint is a number",
     {"kernels", "list", "--kernel-hints", "{\"q4kMatmul\":5}"},
     2,
     "q4kMatmul is '5'"},
    {"logits without ids", {"logits", "-o", "x"}, 2, "--ids and -o are both needed"},
    {"logits without output", {"logits", "--ids", "1"}, 2, "--ids and -o are both needed"},
    {"perplexity without texts", {"perplexity"}, 2, "--texts FILE.json is needed"},
    {"convert without arguments", {"convert"}, 2, "too few arguments"},
    {"convert with one argument", {"convert", "in"}, 2, "too few arguments"},
    {"convert with three", {"convert", "a", "b", "c"}, 2, "unexpected argument c"},
    {"convert to an unknown type", {"convert", "a", "b", "--quantize", "q2"}, 2, "q4_k_m"},
    {"convert to a type that is read only",
     {"convert", "a", "b", "--quantize", "IQ3_XXS"},
     2,
     "\"IQ3_XXS\": files of this type are read, but not written"},
    {"convert with an unknown hash", {"convert", "a", "b", "--hash", "md5"}, 2, "sha256|blake3"},
    {"no search at all", {"convert", "a", "b", "--fast"}, 2, "fast was given, but"},
    {"no search in floats",
     {"convert", "a", "b", "--quantize", "f16", "--fast"},
     2,
     "quantize is f16"},
    {"hash of a GGUF file",
     {"convert", "a", "b", "--to", "gguf", "--hash", "sha256"},
     2,
     "hash is for packs"},
    {"shards of a GGUF file",
     {"convert", "a", "b", "--to", "gguf", "--shard-size", "64"},
     2,
     "shard-size is for packs"},
    {"layout of a GGUF file",
     {"convert", "a", "b", "--to", "gguf", "--fuse-gate-up"},
     2,
     "fuse-gate-up is for packs"},
    {"shards of 0", {"convert", "a", "b", "--shard-size", "0"}, 2, "from 1 to 1024"},
    {"inspect two models", {"inspect", "a", "-m", "b"}, 2, "name one model"},
    {"verify two models", {"verify", "a", "-m", "b"}, 2, "name one model"},
    {"inspect with two arguments", {"inspect", "a", "b"}, 2, "unexpected argument b"},
    {"devices with an argument", {"devices", "0"}, 2, "unexpected argument 0"},
    {"kernels without a word", {"kernels"}, 2, "too few arguments"},
    {"kernels with a wrong word", {"kernels", "dump"}, 2, "wanted `list`, `show NAME`"},
    {"kernels with a misspelt word", {"kernels", "explian"}, 2, "did you mean explain?"},
    {"kernels show without a name", {"kernels", "show"}, 2, "wanted `list`, `show NAME`"},
    {"kernels list with a name", {"kernels", "list", "x"}, 2, "wanted `list`, `show NAME`"},
    {"tokenize lines and a text", {"tokenize", "--jsonl", "-p", "x"}, 2, "-p does not go with"},
    {"bench of a shape and a model", {"bench", "--shape", "x", "-m", "y"}, 2, "either --shape"},
    {"a shape of no type of weights",
     {"bench", "--shape", "llama-3.2-1b:badtype"},
     2,
     "'badtype' is no type of weights; there are q4_k, q4_k_m, "},
    {"no shape, of no type", {"bench", "--shape", "x:zz"}, 2, "x:zz: no such shape; there are"},
    {"bench as JSON and as CSV", {"bench", "--json", "--csv"}, 2, "either --json or --csv"},
    {"bench of no tokens", {"bench", "-n", "0"}, 2, "from 1 to"},
    {"too many repetitions", {"bench", "-r", "65"}, 2, "from 1 to 64"},
    {"too many runs to warm up", {"bench", "--warmup", "65"}, 2, "from 0 to 64"},
    {"bench without warm-up, as elsewhere", {"bench", "--no-warmup"}, 2, "--warmup 0"},
    {"a batch of prefill tokens",
     {"bench", "--batch", "512"},
     2,
     "1 to 64; prefill tokens per pass are --ubatch"},
    {"a profile as CSV", {"bench", "--csv", "--profile"}, 2, "--profile"},
    {"request memory of a word", {"serve", "--max-request-memory", "much"}, 2, "at least 1M"},
    {"a byte of request memory", {"serve", "--max-request-memory", "1"}, 2, "at least 1M"},
    {"a load on nothing", {"bench", "serve"}, 2, "wanted the address"},
    {"a load on a path", {"bench", "serve", "localhost:8080"}, 2, "http://127.0.0.1:8080"},
    {"a load on no host", {"bench", "serve", "http:///"}, 2, "http://127.0.0.1:8080"},
    {"a load with a password", {"bench", "serve", "http://a:b@c"}, 2, "DOPPLERGL_API_KEY"},
    {"a load on another protocol", {"bench", "serve", "file:///etc/passwd"}, 2, "without user"},
    {"prompts of no tokens", {"bench", "serve", "http://a", "--prompt-lengths", "0"}, 2, "16-512"},
    {"prompts that shrink", {"bench", "serve", "http://a", "--prompt-lengths", "9-8"}, 2, "16-512"},
    {"prompts up to nothing",
     {"bench", "serve", "http://a", "--prompt-lengths", "9-"},
     2,
     "16-512"},
    {"answers of a name", {"bench", "serve", "http://a", "--answer-lengths", "log:x"}, 2, "64 or"},
    {"a load of no rate", {"bench", "serve", "http://a", "--rate", "0"}, 2, "from 0.001"},
    {"a load that never ends",
     {"bench", "serve", "http://a", "--rate", "10000", "--duration", "86400"},
     2,
     "more than"},
    {"an invariant load", {"bench", "serve", "http://a", "--batch-invariant"}, 2, "--batch-inv"},
    {"a load on a device", {"bench", "serve", "http://a", "--device", "any"}, 2, "--device does"},
    {"a rate without a server", {"bench", "--rate", "3"}, 2, "--rate does nothing for `bench`"},
    {"repetitions of a comparison", {"bench", "compare", "a", "b", "-r", "3"}, 2, "-r"},
    {"a seed of a comparison", {"bench", "compare", "a", "b", "--seed", "3"}, 2, "--seed does"},
    {"one sequence too many", {"bench", "--batch", "65"}, 2, "1 to 64"},
    {"no sequences", {"bench", "--batch", "0"}, 2, "1 to 64"},
    {"one sequence in any company", {"bench", "--batch-invariant"}, 2, "give --batch"},
    {"a trace of a batch", {"bench", "--batch", "8", "--trace", "t.json"}, 2, "--trace is of one"},
    {"readbacks of a batch",
     {"bench", "--batch", "8", "--readback-interval", "2"},
     2,
     "--readback-interval is of one"},
    {"readbacks of a load",
     {"bench", "load", "--readback-interval", "2"},
     2,
     "--readback-interval does nothing for `bench load`"},
    {"a profile of sequences in any company",
     {"bench", "--batch", "8", "--batch-invariant", "--profile"},
     2,
     "--batch-invariant does without"},
    {"a depth that fills the context", {"bench", "-c", "64", "-d", "64"}, 2, "-c 64 has no room"},
    {"a prompt longer than the context",
     {"bench", "-c", "64", "--prompt-tokens", "100", "-n", "4"},
     2,
     "one token more: 101"},
    {"a matrix of a batch", {"bench", "--shape", "x", "--batch", "8", "--matrix"}, 2, "--matrix"},
    {"bench as Markdown and as CSV", {"bench", "--md", "--csv"}, 2, "either --md or --csv"},
    {"bench as Markdown and as JSON", {"bench", "--md", "--json"}, 2, "either --json or --md"},
    {"a matrix without a shape", {"bench", "--matrix"}, 2, "needs --shape"},
    {"a matrix of no type",
     {"bench", "--shape", "story-llama", "--matrix", "--types", "q4_k,q9"},
     2,
     "wanted q4_k, q4_k_m"},
    {"types without a matrix", {"bench", "--types", "q4_k"}, 2, "--types is only for --matrix"},
    {"a sweep of a matrix",
     {"bench", "--sweep", "--matrix", "--shape", "story-llama"},
     2,
     "either --sweep or --matrix"},
    {"bench of a word", {"bench", "sail"}, 2, "bench compare A.json B.json"},
    {"a comparison of one file", {"bench", "compare", "a.json"}, 2, "wanted two files"},
    {"a comparison of three files", {"bench", "compare", "a", "b", "c"}, 2, "unexpected argument"},
    {"a comparison with a figure",
     {"bench", "compare", "a", "b", "--plot", "c.svg"},
     2,
     "prints a table or --json"},
    {"loading two models", {"bench", "load", "a"}, 2, "-m MODEL names the model"},
    {"loading a shape", {"bench", "load", "--shape", "story-llama"}, 2, "a shape has no files"},
    {"loading with tokens", {"bench", "load", "-n", "3"}, 2, "--n-predict does nothing"},
    {"a trace and a figure in one file",
     {"bench", "--trace", "a.svg", "--plot", "a.svg"},
     2,
     "would write the same file, a.svg"},
    {"a figure in another format",
     {"bench", "--plot", "out.d/a.png"},
     2,
     "--plot draws SVG, and out.d/a.png"},
};

/* ---- arguments that parse and do not fit --------------------------------------------------------
 */

static const struct usage misfits[] = {
    {"prompt file is missing", {"generate", "-f", TEST_MISSING "/p"}, 1, TEST_MISSING "/p"},
    {"prompt file is a folder", {"generate", "-f", "tests"}, 1, "cannot read tests"},
    {"id beyond 31 bits", {"generate", "--ids", "3,99999999999"}, 1, "token 1 is 99999999999"},
    {"texts are missing", {"perplexity", "--texts", TEST_MISSING ".json"}, 1, TEST_MISSING ".json"},
    {"texts are no JSON", {"perplexity", "--texts", "Makefile"}, 1, "Makefile"},
    {"inspect a missing model", {"inspect", "-m", TEST_MISSING "/m"}, 1, TEST_MISSING "/m"},
    {"inspect a folder of something else", {"inspect", "docs"}, 1, "docs"},
    {"verify a missing model", {"verify", TEST_MISSING "/m"}, 1, TEST_MISSING "/m"},
    {"tokenize with a missing model", {"tokenize", "-m", TEST_MISSING "/m"}, 1, TEST_MISSING "/m"},
    {"convert a missing model", {"convert", TEST_MISSING "/m", TEST_MISSING "/o"}, 1, TEST_MISSING},
    {"no such kernel", {"kernels", "show", "nope"}, 2, "there is no kernel nope"},
    {"kernel file is missing",
     {"kernels", "list", "--kernel-file", TEST_MISSING "/k.comp"},
     1,
     TEST_MISSING "/k.comp"},
    {"kernel folder is missing",
     {"kernels", "list", "--kernel-dir", TEST_MISSING},
     1,
     TEST_MISSING},
    {"unknown kernel profile", {"kernels", "list", "--kernel-profile", "warp"}, 2, "warp"},
    {"unknown value of a hint", {"kernels", "list", "--q4k-matmul", "slow"}, 2, "slow"},
    {"hint for no kernel",
     {"kernels", "explain", "--kernel-hints", "{\"tunes\":{\"nope.X\":1}}"},
     2,
     "there is no kernel 'nope'"},
    {"hint for no kernel of a file",
     {"kernels", "explain", "--kernel-hints", "{\"tunes\":{\"nope.X\":1}}", "--kernel-file",
      TEST_MISSING},
     1,
     TEST_MISSING},
    {"hint for no request",
     {"generate", "a", "--kernel-hints", "{\"variants\":{\"matmull\":\"auto\"}}"},
     2,
     "variants: there is no operation 'matmull'"},
    {"hint for a misspelt word",
     {"generate", "a", "--kernel-hints", "{\"variants\":{\"matmul/decod\":\"auto\"}}"},
     2,
     "variants.matmul/decod: no operation has 'decod'; matmul has: "},
    {"hint for a misspelt attribute",
     {"generate", "a", "--kernel-hints",
      "{\"tunes\":{\"matmul/phas=decode\":{\"matmul_decode.WG_SIZE\":64}}}"},
     2,
     "no operation has 'phas=decode'; matmul has: "},
    {"hint for a misspelt constant",
     {"generate", "a", "--kernel-hints",
      "{\"tunes\":{\"matmul/Q=8\":{\"matmul_decode.WG_SIZE\":64}}}"},
     2,
     "no operation has 'Q=8'; matmul has: K "},
    {"hint for a constant of no name",
     {"generate", "a", "--kernel-hints", "{\"tunes\":{\"norm/HH=256\":{\"norm_rms.WG_SIZE\":64}}}"},
     2,
     "no operation has 'HH=256'; norm has: H "},
    {"hint for a value that is no choice",
     {"generate", "a", "--kernel-hints", "{\"tunes\":{\"matmul_decode.WG_SIZE\":63}}"},
     2,
     "matmul_decode.WG_SIZE is '63', wanted one of 32 64 128 256 or auto"},
    {"show of no kernel", {"kernels", "show", "nope"}, 2, "there is no kernel nope"},
    {"diff of no kernel", {"kernels", "diff", "nope"}, 2, "there is no kernel nope"},
    {"show of no kernel of a file",
     {"kernels", "show", "nope", "--kernel-file", TEST_MISSING},
     1,
     TEST_MISSING},
    {"model that is missing",
     {"generate", "-p", "a", "-m", TEST_MISSING "/m", "--device", TEST_MISSING "/card"},
     1,
     TEST_MISSING "/m: no such file or folder"},
    {"model without a name",
     {"generate", "-p", "a", "-m", "", "--device", TEST_MISSING "/card"},
     2,
     "--model '': wanted MODEL, which cannot be empty"},
    {"measuring a missing model",
     {"bench", "-m", TEST_MISSING "/m", "--device", TEST_MISSING "/card"},
     1,
     TEST_MISSING "/m: no such file or folder"},
    {"a control character in a name", {"inspect", "/no\033[31m\nsuch"}, 1, "such"},
};

/* ---- valid arguments ----------------------------------------------------------------------------
 */

/* Equivalent spellings. `version` shows that they parse. */
static const struct usage spellings[] = {
    {"flags in one word", {"version", "-qv"}, 0, NULL},
    {"flag that is undone", {"version", "--json", "--no-json"}, 0, NULL},
    {"letter with its value", {"version", "-c", "0"}, 0, NULL},
    {"value after =", {"version", "--log-level=debug"}, 0, NULL},
    {"value as the next word", {"version", "--log-level", "debug"}, 0, NULL},
    {"device of a command that opens none", {"version", "--device", "any"}, 0, NULL},
    {"limits of a command that opens none", {"version", "--limits", "min"}, 0, NULL},
    {"cache type of a command that opens none", {"version", "--kv-type", "f32"}, 0, NULL},
    {"end of options", {"version", "--"}, 0, NULL},
    {"--version", {"--version"}, 0, NULL},
};

static void spelling_case(void **state)
{
    const struct usage *row = *state;
    struct process_result r;
    process_run(&(struct process_params){.args = row->args}, &r);
    assert_code(&r, row->code);
    assert_no_error(&r);
    assert_contains(r.out, dgl_version());
    process_finish(&r);
}

/* ---- help ------------------------------------------------------------------------------------ */

struct command_row {
    const char *name;
};

static const struct command_row command_rows[] = {
    {"generate"},   {"convert"}, {"inspect"}, {"verify"},  {"devices"}, {"tokenize"}, {"logits"},
    {"perplexity"}, {"bench"},   {"kernels"}, {"version"}, {"help"},    {"selftest"},
};

static char *read_document(void)
{
    size_t len;
    return tiny_file_read("docs", "cli.md", &len);
}

/* The section of docs/cli.md about a command. */
static char *section_of(const char *document, const char *command)
{
    char head[64];
    snprintf(head, sizeof(head), "\n## %s\n", command);
    const char *begin = strstr(document, head);
    assert_non_null(begin);
    const char *end = strstr(begin + 4, "\n## ");
    return strndup(begin, end ? (size_t)(end - begin) : strlen(begin));
}

/* Every option in the help (" -n, --n-predict N ...") is also in the document: with its command, or
 * with the common options. */
static void help_matches_document(void **state)
{
    const struct command_row *row = *state;
    struct process_result r;
    char *document = read_document(), *section = section_of(document, row->name);
    size_t options = 0;
    process_command(&r, row->name, "--help", NULL);
    assert_code(&r, 0);
    assert_contains(r.out, "usage: dopplergl ");
    struct dgl_str rest = dgl_str_of(r.out), line;
    while (rest.len && dgl_str_split(&rest, '\n', &line)) {
        size_t columns = 0;
        for (size_t i = 0; i < line.len; i++)
            columns += ((unsigned char)line.p[i] & 0xc0) != 0x80;
        if (columns > 100)
            fail_msg("%zu columns, wanted 100 at most: %.*s", columns, (int)line.len, line.p);
    }
    char *common = strndup(document, (size_t)(strstr(document, "\n## ") - document));
    for (const char *p = r.out; (p = strstr(p, "--")); p += 2) {
        char option[64];
        if (sscanf(p, "%63[a-z0-9-]", option) != 1 || strlen(option) < 4)
            continue;
        options++;
        if (!strstr(section, option))
            assert_contains(common, option);
    }
    assert_true(options >= 7);
    free(common);
    free(section);
    free(document);
    process_finish(&r);
}

/* `help X`, `X --help` and `X -h` are the same text. */
static void help_has_three_spellings(void **state)
{
    const struct command_row *row = *state;
    struct process_result a, b, c;
    process_command(&a, "help", row->name, NULL);
    process_command(&b, row->name, "--help", NULL);
    process_command(&c, row->name, "-h", NULL);
    assert_code(&a, 0);
    assert_code(&b, 0);
    assert_code(&c, 0);
    assert_string_equal(a.out, b.out);
    assert_string_equal(a.out, c.out);
    process_finish(&a);
    process_finish(&b);
    process_finish(&c);
}

static void overview_lists_every_command(void **state)
{
    struct process_result a, b;
    (void)state;
    process_command(&a, "help", NULL);
    process_command(&b, "--help", NULL);
    assert_code(&a, 0);
    assert_string_equal(a.out, b.out);
    for (size_t i = 0; i < sizeof(command_rows) / sizeof(command_rows[0]); i++)
        assert_contains(a.out, command_rows[i].name);
    process_finish(&a);
    process_finish(&b);
}

static void document_is_what_help_prints(void **state)
{
    struct process_result r;
    (void)state;
    char *document = read_document();
    process_command(&r, "help", "--markdown", NULL);
    assert_code(&r, 0);
    assert_contains(r.out, "\nExit codes:\n\n- 0: done\n");
    assert_contains(r.out, "\n## Settings\n");
    if (strcmp(document, r.out) != 0)
        fail_msg("docs/cli.md is out of date: build/dopplergl help --markdown > docs/cli.md");
    free(document);
    process_finish(&r);
}

/* A help flag beats missing arguments, not wrong ones. */
static void help_needs_no_arguments(void **state)
{
    struct process_result r;
    (void)state;
    process_command(&r, "convert", "--help", NULL);
    assert_code(&r, 0);
    process_finish(&r);
    process_command(&r, "convert", "--nope", "--help", NULL);
    assert_code(&r, 2);
    process_finish(&r);
}

/* ---- kernel options of commands that run no kernels ---------------------------------------------
 */

/* A form of a command, and the kernel options that it does something with. */
struct form {
    const char *name;
    const char *args[6];
    const char *used;
};

#define FILES "kernel-dir kernel-file allow-pack-kernels "
#define HINTS "kernel-config kernel-hints "

static const struct form forms[] = {
    {"kernels list", {"kernels", "list"}, FILES},
    {"kernels show", {"kernels", "show", "norm_rms"}, FILES},
    {"kernels diff", {"kernels", "diff"}, FILES},
    {"kernels new", {"kernels", "new", "a", "--op", "norm"}, FILES "op output force"},
    {"kernels check", {"kernels", "check"}, FILES HINTS "quick"},
    {"kernels bench", {"kernels", "bench", "norm_rms"}, FILES HINTS "shape"},
    {"verify", {"verify", "tests/models/none"}, ""},
    {"tune --show", {"tune", "--show"}, ""},
    {"tune --reset", {"tune", "--reset"}, ""},
    {"bench compare", {"bench", "compare", "a.json", "b.json"}, ""},
};

/* Each other one is refused by name, before anything is opened. */
static void form_refuses_what_it_does_not_use(void **state)
{
    static const char *const options[][2] = {{"kernel-dir", "x"},
                                             {"kernel-file", "x"},
                                             {"allow-pack-kernels", NULL},
                                             {"kernel-config", "x"},
                                             {"kernel-hints", "{}"},
                                             {"kernel-profile", "safe"},
                                             {"compute-precision", "f32"},
                                             {"q4k-matmul", "auto"},
                                             {"force-fused-q4k", NULL},
                                             {"f16-matmul", "auto"},
                                             {"attention-prefill", "auto"},
                                             {"attention-decode", "auto"},
                                             {"hash-weights", "never"},
                                             {"no-tune", NULL},
                                             {"executor", "auto"},
                                             {"op", "norm"},
                                             {"shape", "H=64"},
                                             {"quick", NULL},
                                             {"generated", NULL},
                                             {"output", "x"},
                                             {"force", NULL}};
    const struct form *form = *state;
    const bool kernels = strcmp(form->args[0], "kernels") == 0;
    for (size_t i = 0; i < sizeof(options) / sizeof(options[0]); i++) {
        const bool own = i >= 15, no_tune = strcmp(options[i][0], "no-tune") == 0;
        const char *args[10] = {NULL};
        char flag[40], wanted[80];
        size_t n = 0;
        if (strstr(form->used, options[i][0]) || (own && !kernels) ||
            (strcmp(form->args[0], "tune") == 0 && (no_tune || options[i][0][0] == 'e')) ||
            (strcmp(options[i][0], "generated") == 0 && strcmp(form->args[1], "show") == 0))
            continue;
        for (; form->args[n]; n++)
            args[n] = form->args[n];
        snprintf(flag, sizeof(flag), "--%s", options[i][0]);
        args[n++] = flag;
        args[n] = options[i][1];
        snprintf(wanted, sizeof(wanted), "--%s does nothing for `%s", options[i][0], form->name);
        const struct usage row = {
            form->name, {args[0], args[1], args[2], args[3], args[4], args[5], args[6]}, 2, wanted};
        usage_case(&(void *){(void *)(uintptr_t)&row});
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(overview_lists_every_command),
        cmocka_unit_test(document_is_what_help_prints),
        cmocka_unit_test(help_needs_no_arguments),
    };
    int failures = test_run_table("cli usage", usage_case, usages);
    failures += test_run_table("cli misfits", usage_case, misfits);
    failures += test_run_table("cli spellings", spelling_case, spellings);
    failures += test_run_table("cli unused", form_refuses_what_it_does_not_use, forms);
    failures += test_run_table("cli help document", help_matches_document, command_rows);
    failures += test_run_table("cli help spellings", help_has_three_spellings, command_rows);
    return failures + cmocka_run_group_tests_name("cli help", tests, NULL, NULL);
}
