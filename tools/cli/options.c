/* The table of options, and that of other programs' flags. */
#include "tools/cli/options_table.h"

#include <string.h>

#include "core/dopplergl.h"

/* Types that dgl_convert() can give a role. */
#define BLOCK_TYPES "f32|f16|bf16|q8_0|q6_k|q5_k|q4_k|q4_0|mxfp4"

/* The digits of a number that a macro names. */
#define DIGITS(macro)   DIGITS_OF(macro)
#define DIGITS_OF(text) #text

/* Names of dgl_limits_profile_at(). test_cli_json compares the two lists. */
#define LIMITS      "min|v3d|mali-g52|adreno-630|intel-skl"
#define FIELD(name) offsetof(struct options, name)
#define ENGINE      "generate chat serve logits perplexity bench verify kernels tune"
#define WITH_MODEL  ENGINE " inspect tokenize template"
#define I32_MAX     2147483647.0

static const struct option table[] = {
    {WITH_MODEL, 'm', "model", "MODEL",
     "GGUF file, Hugging Face folder, pack, or org/name[:quant][@revision] in the local Hub "
     "cache; `dopplergl models` lists the models on this machine (default: the bundled model)",
     TYPE_PATH, FIELD(model), 0, 0, NULL, 0},
    {"generate", 'p', "prompt", "TEXT", "prompt, byte for byte", TYPE_STR, FIELD(prompt), 0, 0,
     NULL, 0},
    {"generate", 'f', "file", "FILE", "prompt from a file, byte for byte; - is standard input",
     TYPE_PATH, FIELD(file), 0, 0, NULL, 0},
    {"tokenize", 'p', "prompt", "TEXT", "text to tokenize (default: standard input)", TYPE_STR,
     FIELD(prompt), 0, 0, NULL, 0},
    {"generate logits", 0, "ids", "1,2,3", "prompt as token ids", TYPE_IDS, FIELD(ids), 0, 0, NULL,
     0},
    {"generate", 'n', "n-predict", "N",
     "tokens to generate: -1 until a stop, 0 evaluates the prompt only (default: 128)", TYPE_I32,
     FIELD(tokens), -1, I32_MAX, NULL, FIELD(tokens_given)},
    {"chat", 'n', "n-predict", "N", "tokens of an answer at most; -1 until it ends (default: -1)",
     TYPE_I32, FIELD(tokens), -1, I32_MAX, NULL, FIELD(tokens_given)},
    {"chat", 'e', "escapes", NULL,
     "expand `\\n \\r \\t \\' \\\" \\\\ \\xHH` in --stop and --dry-sequence-breaker", TYPE_FLAG,
     FIELD(escapes), 0, 0, NULL, 0},
    {"generate", 'e', "escapes", NULL,
     "expand `\\n \\r \\t \\' \\\" \\\\ \\xHH` in the prompt, --stop and --dry-sequence-breaker; "
     "any other backslash "
     "stays as it is",
     TYPE_FLAG, FIELD(escapes), 0, 0, NULL, 0},
    {"generate", 0, "echo", NULL, "print the prompt too", TYPE_FLAG, FIELD(echo), 0, 0, NULL, 0},
    {"generate chat", 0, "temp", "T", "temperature; 0 is greedy (default: 0.8)", TYPE_F64,
     FIELD(temp), 0, 1000, NULL, FIELD(temp_given)},
    {"generate chat", 0, "top-k", "K",
     "keep the K best tokens, at most 128; 0 and -1 are off (default: 40)", TYPE_I32, FIELD(top_k),
     -1, 128, NULL, FIELD(top_k_given)},
    {"generate chat", 0, "top-p", "P",
     "keep the best tokens up to this probability; 1 is off (default: 0.95)", TYPE_F64,
     FIELD(top_p), 0, 1, NULL, FIELD(top_p_given)},
    {"generate chat", 0, "min-p", "P",
     "keep tokens with at least this share of the best one's probability; 0 is off (default: 0.05)",
     TYPE_F64, FIELD(min_p), 0, 1, NULL, FIELD(min_p_given)},
    {"generate chat", 0, "repeat-penalty", "R", "penalty of recent tokens; 1 is off (default: 1.0)",
     TYPE_F64, FIELD(repeat_penalty), 0.01, 100, NULL, FIELD(repeat_penalty_given)},
    {"generate chat", 0, "presence-penalty", "P",
     "subtracted from the logit of every recent token; 0 is off (default: 0)", TYPE_F64,
     FIELD(presence_penalty), -100, 100, NULL, 0},
    {"generate chat", 0, "frequency-penalty", "P",
     "subtracted from the logit of recent tokens, once per occurrence; 0 is off (default: 0)",
     TYPE_F64, FIELD(frequency_penalty), -100, 100, NULL, 0},
    {"generate chat", 0, "repeat-last-n", "N",
     "number of tokens that count as recent; -1 is the whole context, 0 is off (default: 64)",
     TYPE_I32, FIELD(repeat_last_n), -1, I32_MAX, NULL, 0},
    {"generate chat", 0, "dry-multiplier", "M",
     "DRY: penalty of tokens that prolong a repeat, M * base^(length - allowed length); 0 is off "
     "(default: 0)",
     TYPE_F64, FIELD(dry_multiplier), 0, 100, NULL, 0},
    {"generate chat", 0, "dry-base", "B", "DRY: base of the penalty (default: 1.75)", TYPE_F64,
     FIELD(dry_base), 1, 100, NULL, 0},
    {"generate chat", 0, "dry-allowed-length", "N",
     "DRY: longest repeat whose penalty is at most the multiplier (default: 2)", TYPE_I32,
     FIELD(dry_allowed_length), 1, I32_MAX, NULL, 0},
    {"generate chat", 0, "dry-penalty-last-n", "N",
     "DRY: number of tokens that are searched for repeats; -1 is the whole context, 0 is off "
     "(default: -1)",
     TYPE_I32, FIELD(dry_penalty_last_n), -1, I32_MAX, NULL, 0},
    {"generate chat", 0, "dry-sequence-breaker", "TEXT",
     "DRY: text that ends a repeat, instead of newline, colon, quotation mark and asterisk; may "
     "be repeated; `none` means no such text",
     TYPE_PATHS, FIELD(dry_breakers), 0, 0, NULL, 0},
    {"generate chat", 'l', "logit-bias", "ID+BIAS",
     "add to the logit of a token: 15+1.5, 15-2; 15-inf bans it; may be repeated", TYPE_PATHS,
     FIELD(logit_bias), 0, 0, NULL, 0},
    {"generate chat", 's', "seed", "N", "random seed; -1 selects a new one (default: -1)", TYPE_I64,
     FIELD(seed), -1, 9007199254740991.0, NULL, 0},
    {"generate chat", 0, "stop", "TEXT", "end the answer before this text; may be repeated",
     TYPE_STRS, FIELD(stop), 0, 0, NULL, 0},
    {"generate", 0, "session", "FILE",
     "continue the session of this file, if it exists, and store the session there at the end; "
     "only the new part of a prompt is evaluated, and without a prompt the text continues",
     TYPE_PATH, FIELD(session), 0, 0, NULL, 0},
    {"chat", 0, "session", "FILE",
     "continue the conversation of this file, if it exists, and store it there at the end, with "
     "its evaluated tokens",
     TYPE_PATH, FIELD(session), 0, 0, NULL, 0},
    {"chat", 0, "context-shift", NULL,
     "a full context does not end the conversation: the model no longer sees its oldest half, the "
     "system message stays",
     TYPE_FLAG, FIELD(context_shift), 0, 0, NULL, 0},
    {"generate", 0, "context-shift", NULL,
     "a full context does not end the text: its older half is dropped, the rest evaluated again",
     TYPE_FLAG, FIELD(context_shift), 0, 0, NULL, 0},
    {"generate", 0, "keep", "N",
     "tokens of the prompt that --context-shift never drops, at most half of the context "
     "(default: 0)",
     TYPE_I32, FIELD(keep), 0, I32_MAX, NULL, 0},
    {"generate chat template", 0, "raw", NULL,
     "print the text unchanged even if the output is a terminal: control characters act, and "
     "lines are not wrapped",
     TYPE_FLAG, FIELD(raw), 0, 0, NULL, 0},
    {"generate chat", 0, "ignore-eos", NULL, "do not end at a stop token", TYPE_FLAG,
     FIELD(ignore_eos), 0, 0, NULL, 0},
    {"generate chat", 0, "model-defaults", NULL,
     "use the sampling values of the model's generation_config.json for omitted options", TYPE_FLAG,
     FIELD(model_defaults), 0, 0, NULL, 0},
    {"generate chat", 0, "readback-interval", "N",
     "tokens per readback, 1 to " DIGITS(
         DGL_READBACK_INTERVAL_MAX) " (default: 1 on software, " DIGITS(DGL_READBACK_INTERVAL) " on"
                                                                                               " ha"
                                                                                               "rdw"
                                                                                               "are"
                                                                                               ")",
     TYPE_I32, FIELD(readback_interval), 1, DGL_READBACK_INTERVAL_MAX, NULL, 0},
    {"generate perplexity tokenize", 0, "no-parse-special", NULL,
     "special tokens in the text are plain text", TYPE_FLAG, FIELD(no_parse_special), 0, 0, NULL,
     0},

    {"logits", 0, "all", NULL, "every position, not only the last", TYPE_FLAG, FIELD(all), 0, 0,
     NULL, 0},
    {"logits", 'o', "output", "FILE", "safetensors file to write", TYPE_PATH, FIELD(out), 0, 0,
     NULL, 0},
    {"perplexity", 'f', "file", "FILE",
     "a text of any length, read in windows as long as the context; - is standard input", TYPE_PATH,
     FIELD(file), 0, 0, NULL, 0},
    {"perplexity", 0, "texts", "FILE.json", "JSON array of strings, each read as a whole",
     TYPE_PATH, FIELD(texts), 0, 0, NULL, 0},
    {"perplexity", 0, "stride", "N",
     "tokens from one window to the next, below the context; with --texts, long texts are read in "
     "windows too (default: half the context)",
     TYPE_I32, FIELD(stride), 1, I32_MAX, NULL, 0},
    {"tokenize", 0, "jsonl", NULL,
     "read `{\"text\":…}` lines, write `{\"ids\":[…],\"ids_special\":[…]}` lines", TYPE_FLAG,
     FIELD(jsonl), 0, 0, NULL, 0},
    {"tokenize", 0, "decode", NULL,
     "read `{\"ids\":[…]}` lines, write `{\"text\":…}` lines, with or without --jsonl", TYPE_FLAG,
     FIELD(decode), 0, 0, NULL, 0},
    {"tokenize", 0, "pieces", NULL, "show the text of each id", TYPE_FLAG, FIELD(pieces), 0, 0,
     NULL, 0},
    {"tokenize", 0, "skip-special", NULL, "leave special tokens out of decoded text", TYPE_FLAG,
     FIELD(skip_special), 0, 0, NULL, 0},

    {"chat", 0, "messages", "FILE.json",
     "answer these messages and end: a JSON array, or an object with `messages` and further "
     "variables; - is standard input",
     TYPE_PATH, FIELD(messages), 0, 0, NULL, 0},
    {"chat", 0, "system", "TEXT", "system message to begin with", TYPE_STR, FIELD(system), 0, 0,
     NULL, 0},
    {"template", 0, "messages", "FILE.json",
     "JSON array of messages, or an object with `messages` and further variables; - is standard "
     "input",
     TYPE_PATH, FIELD(messages), 0, 0, NULL, 0},
    {"template chat serve", 0, "template", "FILE", "a Jinja template in place of the model's",
     TYPE_PATH, FIELD(template), 0, 0, NULL, 0},
    {"template chat serve", 0, "template-name", "NAME",
     "name of one of the model's templates (default: `default`, or `tool_use` if the model has "
     "it and tools are given)",
     TYPE_STR, FIELD(template_name), 0, 0, NULL, 0},
    {"template", 0, "add-generation-prompt", NULL, "end with the beginning of an answer", TYPE_FLAG,
     FIELD(add_generation_prompt), 0, 0, NULL, 0},
    {"template", 0, "now", "DATE",
     "2025-06-15 or 2025-06-15T12:30:00, for templates that print the date (default: the local "
     "time)",
     TYPE_DATE, FIELD(now), 0, 0, NULL, FIELD(now_given)},

    {"serve", 0, "host", "ADDRESS",
     "address to listen on (default: 127.0.0.1); an address beyond this machine requires a key "
     "or --insecure",
     TYPE_PATH, FIELD(host), 0, 0, NULL, 0},
    {"serve", 0, "port", "N", "port; 0 selects a free one (default: 8080)", TYPE_I32, FIELD(port),
     0, 65535, NULL, 0},
    {"serve", 0, "parallel", "N", "requests that are answered at once (default: 4)", TYPE_I32,
     FIELD(parallel), 1, 256, NULL, 0},
    {"inspect", 0, "parallel", "N",
     "memory of N sequences at once, as in `serve`, each with the whole context (default: a "
     "session)",
     TYPE_I32, FIELD(parallel), 1, 256, NULL, 0},
    {"serve", 0, "queue", "N", "requests that wait, in addition to --parallel (default: 256)",
     TYPE_I32, FIELD(queue), 1, 65536, NULL, 0},
    {"serve", 0, "api-key", "KEY",
     "key that clients must send. Prefer DOPPLERGL_API_KEY or a file, because other users of the "
     "machine see command lines",
     TYPE_PATH, FIELD(api_key), 0, 0, NULL, 0},
    {"serve", 0, "api-key-file", "FILE", "a key in each line; a client may use any of them",
     TYPE_PATH, FIELD(api_key_file), 0, 0, NULL, 0},
    {"serve", 0, "alias", "NAME", "the model's name for clients (default: from its path)",
     TYPE_PATH, FIELD(alias), 0, 0, NULL, 0},
    {"serve", 0, "timeout", "S",
     "seconds that a client may take to send a request, or to read any part of an answer "
     "(default: 600)",
     TYPE_I32, FIELD(timeout), 1, 86400, NULL, 0},
    {"serve", 0, "max-body", "BYTES", "largest body of a request (default: 8388608)", TYPE_I32,
     FIELD(max_body), 1, 1073741824, NULL, 0},
    {"serve", 0, "max-connections", "N", "connections at once (default: 512)", TYPE_I32,
     FIELD(max_connections), 1, 65536, NULL, 0},
    {"serve", 0, "sse-ping-interval", "S",
     "seconds after which an idle stream sends a comment, so that proxies keep it (default: 10)",
     TYPE_I32, FIELD(sse_ping_interval), 1, 86400, NULL, 0},
    {"serve", 0, "drain-timeout", "S",
     "seconds in which requests may end after SIGTERM (default: 30)", TYPE_I32,
     FIELD(drain_timeout), 0, 86400, NULL, 0},
    {"serve", 0, "log-file", "FILE",
     "access log, a JSON object per line, appended (default: standard error, without -q)",
     TYPE_PATH, FIELD(log_file), 0, 0, NULL, 0},
    {"serve", 0, "cors", "ORIGIN",
     "web pages of this origin may send requests and read answers; * allows every origin "
     "(default: pages of this server alone)",
     TYPE_PATH, FIELD(cors), 0, 0, NULL, 0},
    {"serve", 0, "pooling", "mean|last",
     "how /v1/embeddings makes one vector of the tokens' (default: mean)", TYPE_WORD,
     FIELD(pooling), 0, 0, "mean|last", 0},
    {"serve", 0, "insecure", NULL, "listen beyond this machine without a key", TYPE_FLAG,
     FIELD(insecure), 0, 0, NULL, 0},
    {"convert", 0, "to", "FORMAT",
     "rdrr, a pack, or gguf, one file (default: gguf if OUT ends in .gguf or .GGUF, else rdrr)",
     TYPE_WORD, FIELD(to_format), 0, 0, "rdrr|gguf", 0},
    {"convert", 0, "quantize", "TYPE",
     "f32, f16, bf16, q8_0, q6_k, q5_k_m, q4_k_m or mxfp4, in any case (default: as stored)",
     TYPE_QUANT, FIELD(quantize), 0, 0, "f32|f16|bf16|q8_0|q6_k|q5_k_m|q5_k|q4_k_m|q4_k|mxfp4", 0},
    {"convert", 0, "embed", "TYPE",
     "the embedding's type instead: f32, f16, bf16, q8_0, q6_k, q5_k, q4_k, q4_0 or mxfp4",
     TYPE_QUANT, FIELD(embed_type), 0, 0, BLOCK_TYPES, 0},
    {"convert", 0, "head", "TYPE", "the output head's type instead, if it is not the embedding",
     TYPE_QUANT, FIELD(head_type), 0, 0, BLOCK_TYPES, 0},
    {"convert", 0, "experts", "TYPE", "the experts' type instead", TYPE_QUANT, FIELD(experts_type),
     0, 0, BLOCK_TYPES, 0},
    {"convert", 0, "q4k-layout", "NAME",
     "how matrices in q4_k are cut into blocks: row (default); column and flat are for other "
     "engines. This engine uses such tensors as f16",
     TYPE_WORD, FIELD(q4k_layout), 0, 0, "row|column|flat", 0},
    {"convert", 0, "fuse-gate-up", NULL, "store gate and up of a layer as one tensor", TYPE_FLAG,
     FIELD(fuse_gate_up), 0, 0, NULL, 0},
    {"convert", 0, "transpose-weights", NULL, "store linear layers in floats by columns", TYPE_FLAG,
     FIELD(transpose_weights), 0, 0, NULL, 0},
    {"convert", 0, "text-only", NULL,
     "if the model also reads images, store only its text model, under its own names with its "
     "own config",
     TYPE_FLAG, FIELD(text_only), 0, 0, NULL, 0},
    {"convert", 0, "fast", NULL, "quantise without the search for the best codes", TYPE_FLAG,
     FIELD(fast), 0, 0, NULL, 0},
    {"convert", 0, "hash", "NAME", "sha256 or blake3 (default: sha256)", TYPE_WORD, FIELD(hash), 0,
     0, "sha256|blake3", 0},
    {"convert", 0, "shard-size", "MIB", "size of a shard (default: 64)", TYPE_I32, FIELD(shard_mib),
     1, 1024, NULL, 0},
    {"convert", 't', "threads", "N", "host threads (default: one per processor)", TYPE_I32,
     FIELD(threads), 1, 1024, NULL, 0},
    {"convert", 0, "force", NULL, "replace an existing OUT", TYPE_FLAG, FIELD(force), 0, 0, NULL,
     0},

    {"verify", 0, "smoke", NULL, "also run the model on the device and judge it", TYPE_FLAG,
     FIELD(smoke), 0, 0, NULL, 0},

    {"bench", 0, "shape", "NAME|FILE[:quant]",
     "synthetic weights, made on the GPU, instead of a model. NAME is a published shape; FILE is "
     "any config.json (a value with / or ending in .json). Rows become q8_0 if they are no whole "
     "blocks of the type",
     TYPE_STR, FIELD(shape), 0, 0, NULL, 0},
    {"bench", 0, "prompt-tokens", "N", "tokens of the prefill run (default: 512)", TYPE_I32,
     FIELD(prompt_tokens), 1, I32_MAX, NULL, 0},
    {"bench", 'n', "n-predict", "N", "tokens of the decode run (default: 128)", TYPE_I32,
     FIELD(tokens), 1, I32_MAX, NULL, FIELD(tokens_given)},
    {"bench", 'd', "depth", "N", "tokens already in the KV cache (default: 0)", TYPE_I32,
     FIELD(depth), 0, I32_MAX, NULL, 0},
    {"tune", 'd', "depth", "N", "tokens in the KV cache that decoding sees (default: 512)",
     TYPE_I32, FIELD(depth), 2, I32_MAX, NULL, 0},
    {"tune", 0, "op", "OP", "only operations of this name in the plan, such as qkv", TYPE_PATH,
     FIELD(op), 0, 0, NULL, 0},
    {"tune", 0, "seconds", "N",
     "begin no measurement that would end later; operations without a stored result come first "
     "(default: 120)",
     TYPE_I32, FIELD(seconds), 1, 86400, NULL, 0},
    {"tune", 0, "show", NULL, "list the stored results of the device without measuring", TYPE_FLAG,
     FIELD(tune_show), 0, 0, NULL, 0},
    {"tune", 0, "reset", NULL, "remove the stored results of the device", TYPE_FLAG,
     FIELD(tune_reset), 0, 0, NULL, 0},
    {"bench", 0, "batch", "B",
     "sequences that decode together, 1 to " DIGITS(
         DGL_BENCH_BATCH_MAX) " (default: 1); prefill tokens per pass are --ubatch",
     TYPE_I32, FIELD(batch), 1, DGL_BENCH_BATCH_MAX, NULL, 0},
    {"bench serve", 0, "batch-invariant", NULL,
     "an answer has the same bits if other requests run at the same time, because each answer "
     "has its own passes. This is slower, shares no prompts, and lets prompts delay other "
     "answers longer",
     TYPE_FLAG, FIELD(batch_invariant), 0, 0, NULL, 0},
    {"bench", 0, "ubatch", "N", "prefill tokens per pass (default: chosen for the device)",
     TYPE_I32, FIELD(ubatch), 1, 65536, NULL, 0},
    {"serve", 0, "ubatch", "N",
     "prefill tokens per pass, however long it takes (default: chosen for the device; fewer if a "
     "pass would delay running answers by more than 100 ms)",
     TYPE_I32, FIELD(ubatch), 1, 65536, NULL, 0},
    {"bench", 'r', "repetitions", "N", "counted runs, 1 to 64 (default: 3)", TYPE_I32,
     FIELD(repetitions), 1, 64, NULL, 0},
    {"bench", 0, "warmup", "N", "runs before the counted runs, 0 to 64 (default: 1)", TYPE_I32,
     FIELD(warmup), 0, 64, NULL, 0},
    {"bench", 0, "sweep", NULL,
     "measure also at depths and with prompts that double up to the context (-c); if --batch is "
     "given, with fewer sequences instead",
     TYPE_FLAG, FIELD(sweep), 0, 0, NULL, 0},
    {"bench", 0, "matrix", NULL,
     "with --shape: every type of weights in every layout that kernels read", TYPE_FLAG,
     FIELD(matrix), 0, 0, NULL, 0},
    {"bench", 0, "types", "NAME,NAME", "types of --matrix, in their order (default: all)",
     TYPE_PATH, FIELD(types), 0, 0, NULL, 0},
    {"bench", 0, "plot", "FILE.svg", "draw the results", TYPE_PATH, FIELD(plot), 0, 0, NULL, 0},
    {"bench", 0, "md", NULL, "a Markdown table", TYPE_FLAG, FIELD(md), 0, 0, NULL, 0},
    {"bench", 0, "rate", "R",
     "with `serve`: requests per second, at random times as from many people (default: 1)",
     TYPE_F64, FIELD(rate), 0.001, 10000, NULL, 0},
    {"bench", 0, "duration", "S", "with `serve`: seconds in which requests come (default: 30)",
     TYPE_F64, FIELD(duration), 0.001, 86400, NULL, 0},
    {"bench", 0, "connections", "N",
     "with `serve`: most requests at once; the others wait, and their wait counts (default: 256)",
     TYPE_I32, FIELD(connections), 1, 10000, NULL, 0},
    {"bench", 0, "prompt-lengths", "TOKENS",
     "with `serve`: N, A-B (all values equally often) or log:A-B (all octaves equally often) "
     "(default: 128)",
     TYPE_PATH, FIELD(prompt_lengths), 0, 0, NULL, 0},
    {"bench", 0, "answer-lengths", "TOKENS",
     "with `serve`: tokens of the answers, in the same form (default: 64)", TYPE_PATH,
     FIELD(answer_lengths), 0, 0, NULL, 0},
    {"bench", 0, "slo-ttft", "MS",
     "with `serve`: an answer is good only if its first token comes within this time (default: "
     "1000)",
     TYPE_F64, FIELD(slo_ttft), 0, 1e9, NULL, 0},
    {"bench", 0, "slo-itl", "MS",
     "with `serve`: and only if each other token takes at most this time on average (default: "
     "100)",
     TYPE_F64, FIELD(slo_itl), 0, 1e9, NULL, 0},
    {"bench", 0, "chat", NULL, "with `serve`: /v1/chat/completions instead of /v1/completions",
     TYPE_FLAG, FIELD(chat), 0, 0, NULL, 0},
    {"bench", 0, "no-ignore-eos", NULL,
     "with `serve`: answers may end early; for servers without `ignore_eos`", TYPE_FLAG,
     FIELD(no_ignore_eos), 0, 0, NULL, 0},
    {"bench", 0, "timeout", "S", "with `serve`: seconds that an answer may take (default: 600)",
     TYPE_I32, FIELD(timeout), 1, 86400, NULL, 0},
    {"bench", 0, "seed", "N", "with `serve`: seed of arrivals, lengths and words (default: 0)",
     TYPE_I64, FIELD(seed), 0, 9007199254740991.0, NULL, 0},
    {"generate bench", 0, "profile", NULL,
     "GPU time per operation and a time line per token. generate reads each token back before it "
     "queues the next. bench makes an extra run; with `--batch`, it profiles steps of all "
     "sequences",
     TYPE_FLAG, FIELD(profile), 0, 0, NULL, 0},
    {"generate bench", 0, "trace", "FILE.json",
     "profile, and write each operation, submit, readback and compilation in Chrome's trace format "
     "(chrome://tracing, Perfetto); not with `--batch`",
     TYPE_PATH, FIELD(trace), 0, 0, NULL, 0},
    {"bench", 0, "csv", NULL, "comma-separated output", TYPE_FLAG, FIELD(csv), 0, 0, NULL, 0},

    {"kernels", 0, "op", "OP",
     "of `new`: operation of the kernel, with or without words of WHEN lines "
     "(matmul/decode/pre=join). Of `show --generated`: step of the model (qkv)",
     TYPE_PATH, FIELD(op), 0, 0, NULL, 0},
    {"kernels", 0, "shape", "KEY=VALUE,...|NAME",
     "of `bench`: attributes and sizes of the operation (weight=q4_k,K=4096,N=14336), and "
     "tokens, pos, rows. If a value is omitted, it is that of a typical large model. Of `check "
     "--compile-only`: NAME[:QUANT], a model's shape as in `bench --shape`, instead of -m",
     TYPE_STR, FIELD(shape), 0, 0, NULL, 0},
    {"kernels", 0, "compile-only", NULL,
     "with `check`: compile every kernel that the plan of a model uses on this device, each in a "
     "separate process, without running them",
     TYPE_FLAG, FIELD(compile_only), 0, 0, NULL, 0},
    {"kernels", 0, "all", NULL,
     "with `check --compile-only`: also compile the kernels that can run here but are not "
     "chosen, and the persistent programs (listed as `phases`). Each persistent program runs a "
     "whole decode step in one dispatch. These kernels and programs do not affect the exit code",
     TYPE_FLAG, FIELD(all), 0, 0, NULL, 0},
    {"kernels", 0, "time-limit", "S",
     "with `check --compile-only`: limit of processor time per kernel in seconds, 1 to 86400 "
     "(default: 60)",
     TYPE_I32, FIELD(time_limit), 1, 86400, NULL, 0},
    {"kernels", 0, "memory-limit", "BYTES",
     "with `check --compile-only`: limit of memory per kernel, with K, M or G, 1M to 1024G "
     "(default: 2G)",
     TYPE_PATH, FIELD(memory_limit), 0, 0, NULL, 0},
    {"kernels", 0, "known", "FILE",
     "with `check --compile-only`: skip the sources whose SHA-256 is the first word of a line of "
     "FILE",
     TYPE_PATH, FIELD(known), 0, 0, NULL, 0},
    {"selftest", 0, "quick", NULL, "two cases of each kernel instead of all", TYPE_FLAG,
     FIELD(quick), 0, 0, NULL, 0},
    {"kernels", 0, "quick", NULL, "with `check`: two cases of each kernel instead of all",
     TYPE_FLAG, FIELD(quick), 0, 0, NULL, 0},
    {"kernels", 0, "generated", NULL, "with `show`: the text that the driver compiles", TYPE_FLAG,
     FIELD(generated), 0, 0, NULL, 0},
    {"kernels", 0, "batch", "B",
     "with `explain`: the pass over the next tokens of B sequences that are decoded together, 2 "
     "to " DIGITS(DGL_BENCH_BATCH_MAX) " (default: 1, the whole plan)",
     TYPE_I32, FIELD(batch), 1, DGL_BENCH_BATCH_MAX, NULL, 0},
    {"kernels", 'o', "output", "FILE",
     "of `new`: the file to write; - is standard output. Of `check --compile-only`: a folder, to "
     "which each source is written as NAME-SHA256.comp",
     TYPE_PATH, FIELD(out), 0, 0, NULL, 0},
    {"kernels", 0, "force", NULL, "with `new`: replace an existing file", TYPE_FLAG, FIELD(force),
     0, 0, NULL, 0},
    {"generate chat serve", 0, "watch-kernels", NULL,
     "use edited kernel files and hints (--kernel-dir, --kernel-file, --kernel-config, "
     "kernels.json) from the next token on, if all of them compile and pass their known-answer "
     "tests. Prints a line on standard error for each change",
     TYPE_FLAG, FIELD(watch_kernels), 0, 0, NULL, 0},
    {"generate chat serve", 0, "unsafe-kernels", NULL,
     "with --watch-kernels: use edits that compile, without known-answer tests", TYPE_FLAG,
     FIELD(unsafe_kernels), 0, 0, NULL, 0},
    {ENGINE, 0, "kernel-dir", "DIR",
     "kernel files that replace or join the built-in ones; may be repeated", TYPE_PATHS,
     FIELD(kernel_dir), 0, 0, NULL, 0},
    {ENGINE, 0, "kernel-file", "FILE", "a single kernel file; may be repeated", TYPE_PATHS,
     FIELD(kernel_file), 0, 0, NULL, 0},
    {ENGINE, 0, "allow-pack-kernels", NULL,
     "also read the folder `kernels` of the pack, with lower priority than --kernel-dir; these are "
     "programs of the pack's author",
     TYPE_FLAG, FIELD(allow_pack_kernels), 0, 0, NULL, 0},
    {ENGINE, 0, "kernel-config", "FILE", "kernel hints from a JSON file", TYPE_PATH,
     FIELD(kernel_config), 0, 0, NULL, 0},
    {ENGINE, 0, "kernel-profile", "NAME", "named set of hints: fast, safe, debug, fused, apple",
     TYPE_WORD, FIELD(kernel_profile), 0, 0, "fast|safe|debug|fused|apple", 0},
    {ENGINE, 0, "kernel-hints", "JSON", "kernel hints as a JSON object", TYPE_HINTS,
     FIELD(kernel_hints), 0, 0, NULL, 0},
    {ENGINE, 0, "compute-precision", "WORD", "hint computePrecision: auto, f16, f32", TYPE_WORD,
     FIELD(compute_precision), 0, 0, "auto|f16|f32", 0},
    {ENGINE, 0, "q4k-matmul", "WORD",
     "hint q4kMatmul: auto, fused_q4k, dequant_f16, dequant_f32, gemv_subgroup", TYPE_WORD,
     FIELD(q4k_matmul), 0, 0, "auto|fused_q4k|dequant_f16|dequant_f32|gemv_subgroup", 0},
    {ENGINE, 0, "force-fused-q4k", NULL, "the same as --q4k-matmul fused_q4k", TYPE_FLAG,
     FIELD(force_fused_q4k), 0, 0, NULL, 0},
    {ENGINE, 0, "f16-matmul", "WORD", "hint f16Matmul: auto, gemv_subgroup", TYPE_WORD,
     FIELD(f16_matmul), 0, 0, "auto|gemv_subgroup", 0},
    {ENGINE, 0, "attention-prefill", "WORD",
     "hint attentionPrefill: auto, tiled_large, tiled_small, streaming, subgroup", TYPE_WORD,
     FIELD(attention_prefill), 0, 0, "auto|tiled_large|tiled_small|streaming|subgroup", 0},
    {ENGINE, 0, "attention-decode", "WORD",
     "hint attentionDecode: auto, tiled_large, tiled_small, streaming, subgroup", TYPE_WORD,
     FIELD(attention_decode), 0, 0, "auto|tiled_large|tiled_small|streaming|subgroup", 0},
    {"generate chat serve logits perplexity bench verify kernels", 0, "no-tune", NULL,
     "ignore the results that `dopplergl tune` stored for the device", TYPE_FLAG, FIELD(no_tune), 0,
     0, NULL, 0},
    {ENGINE, 0, "hash-weights", "WHEN",
     "compare a pack's files with its hashes: changed (if they changed since they were last "
     "found right), always, never (default: changed)",
     TYPE_WORD, FIELD(hash_weights), 0, 0, "changed|always|never", 0},

    {"help", 0, "markdown", NULL, "the text of docs/cli.md", TYPE_FLAG, FIELD(markdown), 0, 0, NULL,
     0},
    {"help", 0, "man", NULL, "the man page dopplergl(1), in roff", TYPE_FLAG, FIELD(man), 0, 0,
     NULL, 0},
    {"help", 0, "completion", "SHELL", "completions for bash, zsh or fish", TYPE_WORD,
     FIELD(completion), 0, 0, "bash|zsh|fish", 0},
    {"*", 0, "device", "any|software|PATH|N",
     "a render node, a row of `devices`, software rendering, or `any`: software if no hardware "
     "device works (default: the first hardware device)",
     TYPE_DEVICE, FIELD(device), 0, 0, NULL, 0},
    {"*", 0, "limits", LIMITS,
     "lower the device's limits to the minimums of OpenGL ES 3.1, or to those of a small GPU; "
     "kernels are then chosen for that GPU (default: the device's own limits)",
     TYPE_WORD, FIELD(limits), 0, 0, LIMITS, 0},
    {"*", 0, "kv-type", "f16|f32", "type of the KV cache (default: f16)", TYPE_WORD, FIELD(kv_type),
     0, 0, "f16|f32", 0},
    {"generate chat serve bench kernels verify", 0, "executor", "auto|dispatch|persistent",
     "how tokens are decoded. dispatch: one dispatch per operation. persistent: one dispatch for "
     "many tokens, or several per token if the model has many buffers; its work groups wait for "
     "each other. Its program takes seconds to compile, while single dispatches decode, and is "
     "tested before use. auto: persistent if a test has found it faster. If there was no test "
     "yet, it runs after a second of decoding. `bench` and `tune` wait for the compiler and test "
     "first (default: auto)",
     TYPE_WORD, FIELD(executor), 0, 0, "auto|dispatch|persistent", 0},
    {"*", 'c', "ctx-size", "N",
     "context length in tokens; 0 is the model's, lowered until it fits (default: 0)", TYPE_I32,
     FIELD(context), 0, I32_MAX, NULL, 0},
    {"*", 0, "json", NULL, "machine-readable output", TYPE_FLAG, FIELD(json), 0, 0, NULL, 0},
    {"*", 'q', "quiet", NULL, "only errors on standard error", TYPE_FLAG, FIELD(quiet), 0, 0, NULL,
     0},
    {"*", 'v', "verbose", NULL, "more messages on standard error; -vv prints even more", TYPE_COUNT,
     FIELD(verbose), 0, 0, NULL, 0},
    {"*", 0, "log-level", "LEVEL", "none, error, warn, notice, progress, info, debug or trace",
     TYPE_WORD, FIELD(log_level), 0, 0, "none|error|warn|notice|progress|info|debug|trace", 0},
    {"*", 'h', "help", NULL, "this text", TYPE_FLAG, FIELD(help), 0, 0, NULL, 0},
};
#define NUM_OPTIONS (sizeof(table) / sizeof(table[0]))
_Static_assert(NUM_OPTIONS <= OPTIONS_MAX_ROWS, "struct options records a source for every row");

/* ---- flags of other programs ----------------------------------------------------------------- */

#define RUNS       "generate chat serve logits perplexity bench verify"
#define CONVERSES  "a conversation is a command of its own: dopplergl chat -m MODEL"
#define GENERATES  "generate chat"
#define KEPT_WHOLE "weights are copied to the device while they are read, no file stays mapped"

static const struct foreign_option foreign[] = {
    {WITH_MODEL, "-hf -hfr --hf-repo --model-path", "model", NULL, NULL, false},
    {"generate bench", "--predict --max-tokens --max-new-tokens", "n-predict", NULL, NULL, false},
    {"chat", "--predict --max-tokens --max-new-tokens", "n-predict", NULL, NULL, false},
    {"generate chat", "--prompt-cache", "session", NULL, NULL, false},
    {"generate chat", "--prompt-cache-all", NULL, NULL, "--session keeps answers too", false},
    {"serve", "-np", "parallel", NULL, NULL, false},
    {"serve", "-a", "alias", NULL, NULL, false},
    {"serve", "-to", "timeout", NULL, NULL, false},
    {"serve", "--max-queue", "queue", NULL, NULL, false},
    {"chat template serve", "--chat-template-file", "template", NULL, NULL, false},
    {"serve", "-cb --cont-batching", NULL, NULL, "requests are always answered in parallel", false},
    {"serve", "--jinja --metrics --embedding --embeddings", NULL, NULL, "that is always on", false},
    {"serve", "--ssl-key-file --ssl-cert-file", NULL, NULL,
     "TLS is left to a proxy (docs/server.md)", true},
    {GENERATES, "--temperature", "temp", NULL, NULL, false},
    {GENERATES, "--repetition-penalty", "repeat-penalty", NULL, NULL, false},
    {GENERATES, "--random-seed", "seed", NULL, NULL, false},
    {"chat", "-sys --system-prompt", "system", NULL, NULL, false},
    {WITH_MODEL, "--context-size --n-ctx", "ctx-size", NULL, NULL, false},
    {WITH_MODEL, "--log-disable", "quiet", NULL, NULL, false},
    {"bench serve", "-ub --ubatch-size", "ubatch", NULL, NULL, false},
    {"bench", "-p --n-prompt", "prompt-tokens", NULL, NULL, false},
    {"bench", "--n-gen", "n-predict", NULL, NULL, false},

    {RUNS, "-ngl --gpu-layers --n-gpu-layers", NULL, "N",
     "every layer is on the device; --device software computes on the processor", false},
    {RUNS, "-fa --flash-attn", NULL, "[on|off|auto|0|1]",
     "attention never stores its scores; --attention-prefill and --attention-decode choose kernels",
     false},
    {RUNS, "-t --threads -tb --threads-batch", NULL, "N",
     "the device computes; for a software renderer, LP_NUM_THREADS in the environment is the "
     "number "
     "of threads",
     false},
    {RUNS, "-b --batch-size", NULL, "N",
     "the tokens of a prefill pass are chosen for the device; bench and serve have --ubatch",
     false},
    {"generate chat logits perplexity verify", "-ub --ubatch-size", NULL, "N",
     "the tokens of a prefill pass are chosen for the device", false},
    {RUNS, "--mlock", NULL, NULL, KEPT_WHOLE, false},
    {RUNS, "--mmap --no-mmap", NULL, NULL, KEPT_WHOLE, false},
    {RUNS, "-nkvo --no-kv-offload", NULL, NULL, "the KV cache is on the device, like the weights",
     false},
    {RUNS, "-sm --split-mode -ts --tensor-split -mg --main-gpu --numa", NULL, "VALUE",
     "a model is on one device, which --device chooses", false},
    {GENERATES, "-co --color", NULL, "[on|off|auto]",
     "colours are used on a terminal, but not if NO_COLOR is set", false},
    {"generate chat perplexity", "--warmup --no-warmup", NULL, NULL,
     "a kernel runs only when it is needed; kernels are compiled once and kept", false},
    {GENERATES, "--jinja --no-jinja", NULL, NULL,
     "chat templates are always read as Jinja; generate uses the prompt as it is", false},
    {"generate", "--no-display-prompt", NULL, NULL, "the prompt is only printed with --echo",
     false},
    {"generate", "--no-escape", NULL, NULL, "escapes are only expanded with -e", false},
    {"generate", "-no-cnv --no-conversation", NULL, NULL, "generate only continues the prompt",
     false},
    {"chat", "-cnv --conversation -i --interactive", NULL, NULL, "chat always is a conversation",
     false},
    {RUNS, "--no-perf --perf", NULL, NULL,
     "the figures are one line on standard error; -q hides it", false},

    {"bench", "--no-warmup", NULL, NULL,
     "to leave out the runs before the counted runs: --warmup 0", true},
    {"generate", "-cnv --conversation -i --interactive -if --interactive-first", NULL, NULL,
     CONVERSES, true},
    {"generate", "-sys --system-prompt --system", NULL, NULL,
     "a raw prompt has no roles; " CONVERSES " --system TEXT", true},
    {"chat", "-no-cnv --no-conversation", NULL, NULL,
     "to continue a prompt as it is: dopplergl generate -p TEXT", true},
    {RUNS, "-ctk --cache-type-k -ctv --cache-type-v", NULL, NULL,
     "keys and values have one type: --kv-type f16 or f32", true},
    {RUNS, "--list-devices", NULL, NULL, "devices are listed by a command: dopplergl devices",
     true},
    {RUNS, "-hff --hf-file", NULL, NULL, "a file of the Hub cache is named by its path: -m FILE",
     true},
    {RUNS, "-mu --model-url", NULL, NULL,
     "files are never downloaded: fetch the file and name it with -m", true},
    {RUNS, "--lora --lora-scaled", NULL, NULL,
     "adapters are not supported: merge the adapter into the model first", true},
    {GENERATES, "--grammar --grammar-file -j --json-schema", NULL, NULL,
     "answers cannot be constrained by a grammar", true},
    {"chat template", "--chat-template", NULL, NULL,
     "templates have no built-in names: --template FILE, or --template-name of one of the model's",
     true},
};
#define NUM_FOREIGN (sizeof(foreign) / sizeof(foreign[0]))

/* ---- looking up ------------------------------------------------------------------------------ */

const struct option *option_at(size_t i)
{
    return i < NUM_OPTIONS ? &table[i] : NULL;
}

const struct foreign_option *foreign_option_at(size_t i)
{
    return i < NUM_FOREIGN ? &foreign[i] : NULL;
}

bool option_has_word(struct dgl_str words, char separator, struct dgl_str word)
{
    struct dgl_str rest = words, part;
    while (dgl_str_split(&rest, separator, &part))
        if (part.len == word.len && memcmp(part.p, word.p, word.len) == 0)
            return true;
    return false;
}

bool option_is_common(const struct option *option)
{
    return strcmp(option->commands, "*") == 0;
}

bool option_is_kernel(const struct option *option)
{
    return strcmp(option->commands, ENGINE) == 0;
}

bool option_is_for(const struct option *option, const struct command *command)
{
    return option_is_common(option) ||
           option_has_word(dgl_str_of(option->commands), ' ', dgl_str_of(command->name));
}

const struct option *option_named(const struct command *command, struct dgl_str name)
{
    for (size_t i = 0; i < NUM_OPTIONS; i++)
        if (option_is_for(&table[i], command) && dgl_str_eq(name, table[i].name))
            return &table[i];
    return NULL;
}

const struct option *option_lettered(const struct command *command, char letter)
{
    for (size_t i = 0; letter && i < NUM_OPTIONS; i++)
        if (option_is_for(&table[i], command) && table[i].letter == letter)
            return &table[i];
    return NULL;
}

const struct foreign_option *foreign_option_spelled(const struct command *command,
                                                    struct dgl_str spelling)
{
    for (size_t i = 0; i < NUM_FOREIGN; i++)
        if (option_has_word(dgl_str_of(foreign[i].commands), ' ', dgl_str_of(command->name)) &&
            option_has_word(dgl_str_of(foreign[i].spellings), ' ', spelling))
            return &foreign[i];
    return NULL;
}

void option_set_source(const struct option *o, enum option_source source, struct options *out)
{
    out->source[o - table] = (uint8_t)source;
}

enum option_source option_source(const struct option *o, const struct options *opt)
{
    return (enum option_source)opt->source[o - table];
}
