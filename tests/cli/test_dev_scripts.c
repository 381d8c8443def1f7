/* The scripts of tools/dev: the gate, measuring after a check of tokens, the table of its results,
 * figures, and files of random weights that this engine can read too. A shell script with fixed
 * answers replaces the command. */
#include "tests/support/test.h"

#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/base/file.h"
#include "tests/support/process.h"

#define PEERS "peers/llama.cpp-linux-x86_64.tar.xz"

/* Runs "python3 tools/dev/NAME ARGS" in the sources' folder. */
static void run_script(struct process_result *r, const char *const *args)
{
    const char *all[24] = {"python3"};
    for (size_t i = 0; args[i]; i++)
        all[i + 1] = args[i];
    process_run(&(struct process_params){.program = "/usr/bin/env", .args = all}, r);
}

static bool has_python(void)
{
    struct process_result r;
    run_script(&r, (const char *const[]){"-c", "", NULL});
    bool has = r.code == 0;
    process_finish(&r);
    return has;
}

/* An executable `name` in `dir`. Transferred. */
static char *make_program(const char *dir, const char *name, const char *text)
{
    char *path = dgl_path_join(dir, name);
    test_write_file(dir, name, text, strlen(text));
    assert_int_equal(chmod(checked(path), 0700), 0);
    return path;
}

/* ---- bench_check.py -------------------------------------------------------------------------- */

struct gate {
    const char *name;
    const char *set; /* assignments of the shell that change the answers of the command */
    int code;
    const char *says;
};

/* A copy reaches 1,000 GB/s. A step reads 1 GB, so tokens per second equal GB/s. The head reads 100
 * MB. */
static const struct gate gates[] = {
    {"all well on a GPU", "", 0, "ok       a step of 8 rows to one row: 1.000"},
    {"two rows as dear as two", "two=500", 1,
     "FAILED   a step of 2 rows to one row: 2.000 (dispatch, 500 tok/s), at most 1.9: wrong by a "
     "factor of "
     "1.05"},
    {"the same on a small GPU", "two=500 copy=299 gpu=300", 0,
     "ok       a step of 2 rows to one row: 2.000 (dispatch, 500 tok/s), at most 2.0"},
    {"the same in software", "two=500 soft=true", 0,
     "ok       a step of 2 rows to one row: 2.000 (dispatch, 500 tok/s), at most 2.2"},
    {"eight rows as dear as five", "eight=800", 1, "FAILED   a step of 8 rows to one row: 5.000"},
    {"a slow mix", "plain=1000", 1,
     "FAILED   decode of the mix to all-Q4_K, bytes per second: 0.500 (all-Q4_K: 1000 tok/s), at "
     "least 0.75: wrong by a "
     "factor of 1.50"},
    {"slow decode", "tps=100", 1, "FAILED   decode to a plain copy, bytes per second: 0.100"},
    {"a slow load", "load=1e9", 1, "FAILED   load to dd, seconds: "},
    {"weights that grow", "held=104", 1, "FAILED   bytes held to bytes of the file: 1.040"},
    {"a slow kernel", "gpu=500", 1, "FAILED   head to a plain copy, bytes per second: 0.200"},
    {"no timer", "gpu=null", 0,
     "skipped  head to a plain copy, bytes per second (the device has no timer)"},
    {"no persistent executor", "", 0, "skipped  persistent to dispatched (dispatch: a reason)"},
    {"a persistent executor that pays", "executor=persistent dispatched=400", 0,
     "ok       persistent to dispatched: 1.250"},
    {"one that does not", "executor=persistent dispatched=600", 1,
     "FAILED   persistent to dispatched: 0.833"},
    {"a body that is dear", "of_33=400", 1,
     "FAILED   time of n prompt tokens to time of n steps: 1.250 (33 tokens), at most 1.15"},
    {"one that costs less than fewer tokens", "of_33=20000", 1,
     "FAILED   time of a prompt to time of the next shorter one: 0.194 (33 and 17 tokens), "
     "at least 0.9"},
};

static void gate_case(void **state)
{
    const struct gate *row = *state;
    struct process_result r;
    char text[2048], *dir = test_tmpdir();
    snprintf(
        text, sizeof(text),
        "#!/bin/sh\n"
        "tps=500 two=1000 four=2000 eight=4000 plain=500 dispatched=500 pre=2000 of_33=2000\n"
        "load=0 held=100 soft=false gpu=150 executor=dispatch copy=1000\n%s\nrate=$tps\n"
        "for word; do\ncase $last:$word in\n"
        "--batch:2) rate=$two ;;\n--batch:4) rate=$four ;;\n--batch:8) rate=$eight ;;\n"
        "--executor:dispatch) rate=$dispatched ;;\n--prompt-tokens:33) pre=$of_33 ;;\n"
        "*plain.gguf) rate=$plain ;;\nesac\nlast=$word\ndone\n"
        "cat <<END\n{\"decode_tps_all\": [$rate, 1], \"prefill_tps_all\": [1, $pre], "
        "\"bytes_per_token\": 1000000000, \"copy_gbps\": $copy, \"held_bytes\": $held, "
        "\"file_bytes\": 100, \"warm_model_ms_all\": [$load], \"executor\": \"$executor\", "
        "\"executor_reason\": \"a reason\", \"device\": {\"name\": \"d\", \"software\": $soft}, "
        "\"profile\": [{\"phase\": \"decode\", \"op\": \"head\", \"bytes\": 100000000, "
        "\"gpu_us\": $gpu}]}\nEND\n",
        row->set);
    char *program = make_program(dir, "dopplergl", text);
    run_script(&r, (const char *const[]){"tools/dev/bench_check.py", "--dopplergl", program,
                                         "--shape", "small", "--work", dir, NULL});
    assert_contains(r.out, row->says);
    assert_code(&r, row->code);
    process_finish(&r);
    free(program);
    test_tmpdir_remove(dir);
}

/* ---- measure.py and performance_table.py ----------------------------------------------------- */

/* A reference of one prompt: ids 1 2, then 7 8 with margins 1 and 0.001. */
static void write_reference(const char *dir)
{
    static const char header[] =
        "{\"p0.ids\":{\"dtype\":\"I32\",\"shape\":[2],\"data_offsets\":[0,8]},"
        "\"p0.greedy\":{\"dtype\":\"I32\",\"shape\":[2],\"data_offsets\":[8,16]},"
        "\"p0.margin\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[16,24]}}";
    const int32_t ids[4] = {1, 2, 7, 8};
    const float margin[2] = {1, 0.001f};
    const uint64_t len = sizeof(header) - 1;
    char file[512];
    memcpy(file, &len, 8);
    memcpy(file + 8, header, len);
    memcpy(file + 8 + len, ids, 16);
    memcpy(file + 24 + len, margin, 8);
    test_write_file(dir, "reference.safetensors", file, 32 + (size_t)len);
}

struct measurement {
    const char *name;
    const char *tokens; /* that the command generates */
    const char *peer;   /* llama-bench's script */
    int code;
    const char *says, *table; /* printed, or in the table; NULL: not there */
    const char *batched;      /* llama-batched-bench's script; NULL: the folder has none */
};

#define PEER                                                                                       \
    "#!/bin/sh\nfor word; do\ncase $last in -p) p=${word##*,} ;; -n) n=$word ;; -d) "              \
    "d=${word##*,} ;; "                                                                            \
    "esac\nlast=$word\ndone\n"                                                                     \
    "cat <<END\n[{\"n_prompt\": $p, \"n_gen\": 0, \"n_depth\": 0, \"samples_ts\": [10, 30, 20], "  \
    "\"build_commit\": \"abc\", \"build_number\": 1}, {\"n_prompt\": 0, \"n_gen\": ${n:-0}, "      \
    "\"n_depth\": ${d:-0}, \"samples_ts\": [400, 600, 500], \"build_commit\": \"abc\", "           \
    "\"build_number\": 1}]\nEND\n"

static const struct measurement measurements[] = {
    {"right tokens", "[7, 8]", PEER, 0, "ours: decode 1000.0, prefill 8000.0 tok/s",
     "| llama-3.2-1b Q4_K_M | 1,000 | 500 | 2.00 | 900 | 8,000 | 20 | 1 | dispatch |", NULL},
    {"another token at a tie", "[7, 9]", PEER, 0, "Vulkan0: decode 500.0, prefill 20.0",
     "| llama-3.2-1b Q4_K_M | 0.80 | 1.60 | 1.50 |", NULL},
    {"sequences", "[7, 8]", PEER, 0, "by llama-quantize",
     "| llama-3.2-1b Q4_K_M | ours | 1,000 | 1,000 | 1,000 | 1,000 | 1,000 | 1,000 |\n"
     "| llama-3.2-1b Q4_K_M | llama.cpp Vulkan |  |  |  |  |  | 20 |",
     NULL},
    {"depths", "[7, 8]", PEER, 0, "by llama-quantize",
     "| llama-3.2-1b Q4_K_M | llama.cpp Vulkan |  | 500 |", NULL},
    {"separate sequences", "[7, 8]", PEER, 0, "by llama-quantize",
     "| llama-3.2-1b Q4_K_M | llama.cpp Vulkan | 1,234 |",
     "#!/bin/sh\necho 'main: n_kv_max = 8192'\necho '{\"pl\": 2, \"speed_tg\": 1234.4}'\n"},
    {"a wrong token", "[6, 8]", PEER, 1, "token 0 is 6, wanted 7 (margin 1.000)", NULL, NULL},
    {"a token too few", "[7]", PEER, 1, "token 1 is missing", NULL, NULL},
    {"a peer that fails", "[7, 8]", "#!/bin/sh\necho no device >&2\nexit 1\n", 0, "no device",
     "- llama-3.2-1b Q4_K_M, Vulkan0: first: no device", NULL},
};

static void measurement_case(void **state)
{
    const struct measurement *row = *state;
    struct process_result r;
    char text[2048], *dir = test_tmpdir(), *page = NULL;
    size_t len;
    char *report = dgl_path_join(dir, "out.json"), *model = dgl_path_join(dir, "model");
    char *made = dgl_path_join(dir, "random_gguf.py"), *doc = dgl_path_join(dir, "page.md");
    assert_int_equal(mkdir(checked(model), 0700), 0);
    write_reference(model);
    snprintf(text, sizeof(text),
             "#!/bin/sh\n[ $1 = generate ] && echo '{\"tokens\": %s}' && exit\n"
             "[ $2 = load ] && echo '{\"warm\": {\"model_ms\": 1500}}' && exit\ncat <<END\n"
             "{\"model\": \"llama\", \"commit\": \"c0ffee\", \"decode_tps\": 1000, "
             "\"prefill_tps\": 8000, \"decode_gbps\": 900, \"ttft_ms_warm\": 12.34, "
             "\"executor\": \"dispatch\", \"held_bytes\": 1600000000, "
             "\"file_bytes\": 800000000, \"counters\": "
             "{\"decode\": {\"dispatches\": 128}}, \"device\": {\"name\": \"GPU\"}, \"env\": "
             "{\"gpu\": {\"description\": \"GL\"}}}\nEND\n",
             row->tokens);
    char *program = make_program(dir, "dopplergl", text);
    char *peer = make_program(dir, "llama-bench", row->peer);
    char *batched = row->batched ? make_program(dir, "llama-batched-bench", row->batched) : NULL;
    char *quantize = make_program(dir, "llama-quantize", "#!/bin/sh\ncp $1 $2\n");
    /* The scripts expect the generator of files in their folder. This one writes short files. */
    struct process_result copy;
    process_run(&(struct process_params){.program = "/usr/bin/env",
                                         .args = (const char *const[]){"cp", "tools/dev/measure.py",
                                                                       dir, NULL}},
                &copy);
    assert_code(&copy, 0);
    process_finish(&copy);
    const char *maker = "SHAPES = {'llama-3.2-1b': 0, 'llama-3.1-8b': 0}\nFILE_TYPES = ['Q4_K_M']\n"
                        "def quant_name(word):\n    return word\n"
                        "def write(path, shape, kind):\n    open(path, 'w').write(kind)\n";
    test_write_file(dir, "random_gguf.py", maker, strlen(maker));
    char *script = dgl_path_join(dir, "measure.py");
    run_script(&r, (const char *const[]){checked(script),
                                         "--dopplergl",
                                         program,
                                         "--data",
                                         dir,
                                         "--fixtures",
                                         dir,
                                         "--peer",
                                         dir,
                                         "--peer-device",
                                         "Vulkan0",
                                         "--rows",
                                         "llama-3.1-8b:Q4_K_M,llama-3.2-1b:Q4_K_M",
                                         "--parts",
                                         "decode,sequences,load,start",
                                         "--work",
                                         dir,
                                         "--out",
                                         checked(report),
                                         NULL});
    assert_code(&r, row->code);
    assert_contains(r.out, row->says);
    if (row->table && strstr(r.out, "llama-3.1-8b:") > strstr(r.out, "llama-3.2-1b:"))
        fail_msg("rows are not in the order asked for:\n%s", r.out);
    process_finish(&r);
    assert_true(dgl_path_exists(report) == (row->table != NULL));
    if (row->table) {
        const char *before = "top\n<!-- measured: made by tools/dev/performance_table.py, not by "
                             "hand -->\nold\n<!-- /measured -->\nend\n";
        test_write_file(dir, "page.md", before, strlen(before));
        run_script(&r, (const char *const[]){"tools/dev/performance_table.py", report, "--into",
                                             checked(doc), NULL});
        assert_code(&r, 0);
        process_finish(&r);
        assert_int_equal(dgl_file_slurp(NULL, doc, 1 << 16, &page, &len), DGL_OK);
        assert_contains(page, row->table);
        assert_contains(page, "top\n<!--");
        assert_contains(page, "<!-- /measured -->\nend\n");
        assert_contains(page, "1 models and 1 prompts");
        assert_null(strstr(page, "old"));
        free(page);
    }
    free(report);
    free(model);
    free(made);
    free(doc);
    free(program);
    free(peer);
    free(quantize);
    free(batched);
    free(script);
    test_tmpdir_remove(dir);
}

/* ---- files and figures ----------------------------------------------------------------------- */

struct file_row {
    const char *shape, *type, *family, *more; /* changes to the shape, as Python arguments */
};

static const struct file_row files[] = {
    {"llama-3.2-1b", "Q4_K_M", "llama", ""},
    {"llama-3.2-1b", "f16", "llama", ""},
    {"llama-3.1-8b", "all-q8_0", "llama", ""},
    {"mistral-7b", "Q3_K_M", "mistral", ", window=64"},
    {"qwen2.5-0.5b", "Q5_K_M", "qwen2", ""},
    {"qwen3-0.6b", "IQ4_XS", "qwen3", ""},
    {"gemma-2-9b", "Q4_K_M", "gemma2", ""},
    {"gemma-3-1b", "Q2_K", "gemma3_text", ""},
    {"phi-3.5-mini", "Q4_K_M", "phi3", ""},
    {"olmo-2-1b", "Q4_1", "olmo2", ""},
    {"smollm3-3b", "IQ4_NL", "smollm3", ""},
    {"granite-3.1-2b", "Q5_0", "granite", ""},
    {"gpt-oss-20b", "MXFP4_MOE", "gpt_oss", ", experts=4, expert_ffn=96"},
    {"qwen3-30b-a3b", "Q4_K_S", "qwen3_moe", ", experts=8, used=2, expert_ffn=256"},
    {"mixtral-8x7b", "Q4_0", "mixtral", ""},
};

/* The measurement of llama.cpp uses the same model as ours. */
static void write_model(const struct file_row *row, const char *path)
{
    struct process_result r;
    char code[512];
    snprintf(code, sizeof(code),
             "import sys; sys.path.insert(0, 'tools/dev'); import random_gguf as g; "
             "g.write(sys.argv[1], dict(g.SHAPES['%s'], layers=2, vocab=320, hidden=256, ffn=256, "
             "heads=4, kv=1%s), g.quant_name('%s'))",
             row->shape, row->more, row->type);
    run_script(&r, (const char *const[]){"-c", code, path, NULL});
    assert_code(&r, 0);
    process_finish(&r);
}

static void file_case(void **state)
{
    const struct file_row *row = *state;
    struct process_result r;
    char *dir = test_tmpdir(), *path = dgl_path_join(dir, "m.gguf");
    write_model(row, checked(path));
    process_command(&r, "inspect", "-m", path, "--json", NULL);
    assert_code(&r, 0);
    const struct dgl_json *root = process_json(&r);
    assert_string_equal(dgl_json_str(dgl_json_get(root, "family")).p, row->family);
    process_finish(&r);
    free(path);
    test_tmpdir_remove(dir);
}

/* The files have no tokenizer. */
static void a_file_is_measured(void **state)
{
    struct process_result r;
    (void)state;
    char *dir = test_tmpdir(), *path = dgl_path_join(dir, "m.gguf");
    write_model(&files[0], checked(path));
    process_command(&r, "bench", "-m", path, "--device", "any", "-n", "2", "--prompt-tokens", "2",
                    "-r", "1", "--json", NULL);
    assert_code(&r, 0);
    const struct dgl_json *root = process_json(&r);
    const double held = dgl_json_f64(dgl_json_get(root, "held_bytes"));
    const double file = dgl_json_f64(dgl_json_get(root, "file_bytes"));
    assert_in_range(held, file, 1.03 * file);
    process_finish(&r);
    free(path);
    test_tmpdir_remove(dir);
}

/* Values of a router differ: with equal ones every token would use the same experts. */
static void routers_are_random(void **state)
{
    struct process_result r;
    (void)state;
    run_script(
        &r,
        (const char *const[]){
            "-c",
            "import random, struct, sys; sys.path.insert(0, 'tools/dev'); "
            "import random_gguf as g; shape = g.SHAPES['mixtral-8x7b']; "
            "assert ('blk.0.ffn_gate_inp.weight', (8, 4096), 'f32') in g.tensors(shape, 'Q4_K_M'); "
            "v = struct.unpack('<32768f', g.rows_bytes(random.Random(1), 8, 4096, 'f32', False)); "
            "print(len(set(v)) > 30000, 0.007 < min(map(abs, v)) < max(map(abs, v)) < 0.04, "
            "abs(sum(v)) < 20)",
            NULL});
    assert_code(&r, 0);
    assert_string_equal(r.out, "True True True\n");
    process_finish(&r);
}

/* Each tensor has the type that llama-quantize selects, in models with the remainders, numbers of
 * layers and numbers of experts of the published shapes. */
static const char types_code[] =
    "import os, re, subprocess, sys\n"
    "sys.path.insert(0, 'tools/dev')\n"
    "import random_gguf as g\n"
    "peers, path, name = sys.argv[1:]\n"
    "shape = g.SHAPES[name]\n"
    "few = dict(shape, vocab=320, hidden=256 + shape['hidden'] % 256, ffn=256 + shape['ffn'] % "
    "256, "
    "heads=shape['heads'] // shape['kv'], kv=1, dim=32)\n"
    "if 'experts' in few: few.update(experts=min(few['experts'], 16))\n"
    "if 'expert_ffn' in few: few.update(expert_ffn=256 + few['expert_ffn'] % 256)\n"
    "g.write(path, few, 'F16')\n"
    "for kind in [k for k in g.FILE_TYPES if k != 'F32']:\n"
    "    done = subprocess.run([peers + '/llama-quantize', '--dry-run', path, kind], text=True, "
    "env={'LD_LIBRARY_PATH': peers}, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)\n"
    "    found = {m[1]: (m[3] or m[2]).lower() for m in re.finditer(r'/ *\\d+\\] (\\S+) .*type = "
    "+(\\w+), "
    "size = +[\\d.]+ MiB(?: -> +[\\d.]+ MiB \\((\\w+)\\))?', done.stdout)}\n"
    "    for tensor, _, wanted in g.tensors(few, kind):\n"
    "        if found.get(tensor) != wanted:\n"
    "            sys.exit(f'{kind}: {tensor} is {wanted}, llama-quantize has "
    "{found.get(tensor)}')\n";

struct quantised {
    const char *name; /* of the shape */
};

static const struct quantised quantised[] = {
    {"smollm2-135m"}, {"llama-3.2-1b"}, {"qwen2.5-0.5b"},  {"phi-3.5-mini"},
    {"gemma-3-1b"},   {"mixtral-8x7b"}, {"qwen3-30b-a3b"}, {"gpt-oss-20b"},
};

static void types_are_those_of_llama_quantize(void **state)
{
    const struct quantised *row = *state;
    struct process_result r;
    if (!test_data(PEERS))
        SKIP("%s: no " PEERS " in the test data", row->name);
#ifndef __x86_64__
    SKIP("%s: " PEERS " is for x86_64", row->name);
#endif
    char *dir = test_tmpdir(), *path = dgl_path_join(dir, "m.gguf");
    run_script(&r, (const char *const[]){"-c", types_code, test_unpacked(PEERS, "peers"),
                                         checked(path), row->name, NULL});
    if (r.code)
        fail_msg("%s: %s", row->name, r.err);
    process_finish(&r);
    free(path);
    test_tmpdir_remove(dir);
}

static void sizes_are_drawn(void **state)
{
    struct process_result r;
    char *dir = test_tmpdir(), *report = dgl_path_join(dir, "r.json"), *text = NULL;
    char *figure = dgl_path_join(dir, "r.svg");
    size_t len;
    (void)state;
    const char *json =
        "{\"rows\": [{\"shape\": \"a\", \"type\": \"Q8_0\", \"ours\": {\"held_bytes\": 1e9, "
        "\"decode\": {\"0\": 2000}}, \"peers\": {\"CUDA0\": {\"decode\": {\"0\": 900}}}}, "
        "{\"shape\": \"b\", \"type\": \"Q8_0\", \"ours\": {\"held_bytes\": 5e9, \"decode\": "
        "{\"0\": 500}}, \"peers\": {\"CUDA0\": {\"faults\": [\"no\"]}}}]}";
    test_write_file(dir, "r.json", json, strlen(json));
    run_script(&r, (const char *const[]){"tools/dev/plot_sizes.py", checked(figure),
                                         checked(report), NULL});
    assert_code(&r, 0);
    process_finish(&r);
    assert_int_equal(dgl_file_slurp(NULL, figure, 1 << 20, &text, &len), DGL_OK);
    assert_contains(text, "a Q8_0");
    assert_contains(text, "llama.cpp CUDA0");
    assert_int_equal(test_occurrences(text, "<circle"), 3);
    free(text);
    free(report);
    free(figure);
    test_tmpdir_remove(dir);
}

/* Each prints its purpose, and reports a fault in one line. */
struct script_row {
    const char *name;
    const char *args[6];
    int code;
    const char *out, *err; /* NULL = no promise */
};

static const struct script_row scripts[] = {
    {"bench_check", {"tools/dev/bench_check.py", "--help"}, 0, "gate against slow code", NULL},
    {"count_words", {"tools/dev/count_words.py", "--help"}, 0, "--longest", NULL},
    {"count_words of one page",
     {"tools/dev/count_words.py", "docs/cli.md"},
     0,
     "sentences of pages over 35 words: ",
     NULL},
    {"count_words of no file", {"tools/dev/count_words.py", "/none"}, 1, NULL, "/none: "},
    {"measure", {"tools/dev/measure.py", "--help"}, 0, "--rows", NULL},
    {"measure of no shape",
     {"tools/dev/measure.py", "--out", "/none/x", "--rows", "x:Q4_K_M"},
     2,
     NULL,
     "--rows: no x; there are smollm2-135m"},
    {"measure of no type",
     {"tools/dev/measure.py", "--out", "/none/x", "--rows", "llama-3.2-1b"},
     2,
     NULL,
     "--rows llama-3.2-1b: wanted SHAPE:TYPE"},
    {"measure of no part",
     {"tools/dev/measure.py", "--out", "/none/x", "--parts", "all"},
     2,
     NULL,
     "--parts: no all; there are decode"},
    {"performance_table", {"tools/dev/performance_table.py", "--help"}, 0, "--into", NULL},
    {"plot_sizes", {"tools/dev/plot_sizes.py", "--help"}, 0, "OUT.svg", NULL},
    {"random_gguf", {"tools/dev/random_gguf.py", "--help"}, 0, "llama-3.2-1b", NULL},
    {"registers", {"tools/dev/registers.py", "--help"}, 0, "FILE", NULL},
    {"plot_sizes of one word", {"tools/dev/plot_sizes.py", "x.svg"}, 2, NULL, "usage: "},
    {"plot_sizes of no report",
     {"tools/dev/plot_sizes.py", "x.svg", "/none.json"},
     1,
     NULL,
     "/none.json: "},
    {"plot_sizes of another file",
     {"tools/dev/plot_sizes.py", "x.svg", "docs/cli.md"},
     1,
     NULL,
     "docs/cli.md: "},
    {"performance_table of no report",
     {"tools/dev/performance_table.py", "/none.json"},
     1,
     NULL,
     "/none.json: "},
    {"performance_table of another file",
     {"tools/dev/performance_table.py", "docs/cli.md"},
     1,
     NULL,
     "docs/cli.md: "},
    {"random_gguf of no shape",
     {"tools/dev/random_gguf.py", "/none/x", "nosuch", "Q4_K_M"},
     2,
     NULL,
     "llama-3.2-1b"},
    {"types_table", {"tools/dev/types_table.py", "--help"}, 0, "test_family_types.tap", NULL},
    {"types_table of no output", {"tools/dev/types_table.py", "/none.tap"}, 1, NULL, "/none.tap: "},
    {"types_table of another file",
     {"tools/dev/types_table.py", "docs/cli.md"},
     1,
     NULL,
     "no case of test_family_types"},
    {"random_gguf of no type",
     {"tools/dev/random_gguf.py", "/none/x", "llama-3.2-1b", "all-q9"},
     2,
     NULL,
     "invalid quant_name value: 'all-q9'"},
};

static void script_case(void **state)
{
    const struct script_row *row = *state;
    struct process_result r;
    run_script(&r, row->args);
    assert_code(&r, row->code);
    if (row->out)
        assert_contains(r.out, row->out);
    if (row->err)
        assert_contains(r.err, row->err);
    assert_null(strstr(r.err, "Traceback"));
    process_finish(&r);
}

/* Why the command refused its flags is the reader's to know. */
static void a_refusal_is_passed_on(void **state)
{
    struct process_result r;
    char *dir = test_tmpdir();
    char *program = make_program(dir, "dopplergl",
                                 "#!/bin/sh\necho 'dopplergl: error: no such shape' >&2\nexit 2\n");
    (void)state;
    run_script(&r, (const char *const[]){"tools/dev/bench_check.py", "--dopplergl", program, NULL});
    assert_code(&r, 1);
    assert_contains(r.err, "no such shape");
    process_finish(&r);
    free(program);
    test_tmpdir_remove(dir);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sizes_are_drawn), cmocka_unit_test(a_file_is_measured),
        cmocka_unit_test(routers_are_random), cmocka_unit_test(a_refusal_is_passed_on)};
    if (!has_python()) {
        printf("1..0 # SKIP no python3 here\n");
        return 0;
    }
    int failures = test_run_table("bench_check", gate_case, gates);
    failures += test_run_table("measure", measurement_case, measurements);
    failures += test_run_table("random_gguf", file_case, files);
    failures += test_run_table("llama-quantize", types_are_those_of_llama_quantize, quantised);
    failures += test_run_table("scripts", script_case, scripts);
    return failures + cmocka_run_group_tests(tests, NULL, NULL);
}
