/* The table of options, and that of other programs' flags. */
#include "tools/cli/options_table.h"

#include <string.h>

#include "core/base/pooling.h"
#include "core/dopplergl.h"

/* Types that dgl_convert() can give a role. */
#define BLOCK_TYPES                                                                                \
    "f32|f16|bf16|q8_0|q6_k|q5_k|q5_1|q5_0|q4_k|q4_1|q4_0|iq4_nl|iq4_xs|q3_k|q2_k|mxfp4"

/* The digits of a number that a macro names. */
#define DIGITS(macro)   DIGITS_OF(macro)
#define DIGITS_OF(text) #text
#define READBACK        DIGITS(DGL_READBACK_INTERVAL)
#define MOST_READBACK   DIGITS(DGL_READBACK_INTERVAL_MAX)

/* Names of dgl_limits_profile_at(). test_cli_json compares the two lists. */
#define LIMITS      "min|v3d|mali-g52|adreno-630|intel-skl"
#define FIELD(name) offsetof(struct options, name)
#define ENGINE      "generate chat serve logits perplexity bench verify kernels tune"
#define WITH_MODEL  ENGINE " inspect tokenize template"
#define I32_MAX     2147483647.0

/* Rows of the table: a flag, a text, one of the listed words, a number in a range, and a number
 * that also records that it was given. The parameters are commands, letter, name, argument, type,
 * field, words or limits, and help. */
/* clang-format off */
#define ROW(c, l, n, a, t, f, h)                                                                   \
    .commands = c, .letter = l, .name = n, .arg = a, .type = TYPE_##t, .offset = FIELD(f), .help = h
#define FLAG(c, l, n, f, h)                 {ROW(c, l, n, NULL, FLAG, f, h)}
#define VALUE(c, l, n, a, t, f, h)          {ROW(c, l, n, a, t, f, h)}
#define WORD(c, l, n, a, t, f, w, h)        {ROW(c, l, n, a, t, f, h), .words = w}
#define NUMBER(c, l, n, a, t, f, lo, hi, h) {ROW(c, l, n, a, t, f, h), .min = lo, .max = hi}
#define GIVEN(c, l, n, a, t, f, lo, hi, h)                                                         \
    {ROW(c, l, n, a, t, f, h), .min = lo, .max = hi, .given = FIELD(f##_given)}
/* clang-format on */

/* Begins the help of a value that a request may omit. */
#define SERVE_FIELD "value for requests without "

static const struct option table[] = {
    VALUE(WITH_MODEL, 'm', "model", "MODEL", PATH, model,
          "GGUF file, Hugging Face folder, pack, or org/name[:quant][@revision] in the local "
          "Hub cache; `dopplergl models` lists the models on this machine (default: the bundled "
          "model)"),
    VALUE(WITH_MODEL " convert", 0, "override-kv", "KEY=TYPE:VALUE", STRS, override_kv,
          "correct a key of the GGUF file; TYPE is int, float, bool or str; may be repeated"),
    VALUE("generate", 'p', "prompt", "TEXT", STR, prompt, "prompt, byte for byte"),
    VALUE("generate", 'f', "file", "FILE", PATH, file,
          "prompt from a file, byte for byte; - is standard input"),
    VALUE("tokenize", 'p', "prompt", "TEXT", STR, prompt,
          "text to tokenize (default: standard input)"),
    VALUE("generate logits", 0, "ids", "1,2,3", IDS, ids, "prompt as token ids"),
    GIVEN("generate", 'n', "n-predict", "N", I32, tokens, -1, I32_MAX,
          "tokens to generate: -1 until a stop, 0 evaluates the prompt only (default: 128)"),
    GIVEN("chat", 'n', "n-predict", "N", I32, tokens, -1, I32_MAX,
          "tokens of an answer at most; -1 until it ends (default: -1)"),
    FLAG("chat", 'e', "escapes", escapes,
         "expand `\\n \\r \\t \\' \\\" \\\\ \\xHH` in --stop and --dry-sequence-breaker"),
    FLAG("generate", 'e', "escapes", escapes,
         "expand `\\n \\r \\t \\' \\\" \\\\ \\xHH` in the prompt, --stop and "
         "--dry-sequence-breaker; any other backslash stays as it is"),
    FLAG("generate", 0, "echo", echo, "print the prompt too"),
    NUMBER("generate chat", 0, "temp", "T", F64, temp, 0, 1000,
           "temperature; 0 is greedy (default: 0.8)"),
    NUMBER("generate chat", 0, "top-k", "K", I32, top_k, -1, 128,
           "keep the K best tokens, at most 128; 0 and -1 are off (default: 40)"),
    NUMBER("generate chat", 0, "top-p", "P", F64, top_p, 0, 1,
           "keep the best tokens up to this probability; 1 is off, 0 keeps only the best token "
           "(default: 0.95)"),
    NUMBER("generate chat", 0, "min-p", "P", F64, min_p, 0, 1,
           "keep tokens with at least this share of the best one's probability; 0 is off "
           "(default: 0.05)"),
    NUMBER("generate chat", 0, "typical", "P", F64, typical_p, 0, 1,
           "keep the tokens whose information is nearest to the entropy, up to this probability; 1 "
           "is off (default: 1)"),
    NUMBER("generate chat", 0, "top-nsigma", "N", F64, top_n_sigma, -1, 1000,
           "keep tokens whose logit is within N standard deviations of the best one; 0 and -1 are "
           "off (default: 0)"),
    NUMBER("generate chat", 0, "xtc-probability", "P", F64, xtc_probability, 0, 1,
           "XTC: probability of removing the best tokens; 0 is off (default: 0)"),
    NUMBER("generate chat", 0, "xtc-threshold", "P", F64, xtc_threshold, 0, 1,
           "XTC: tokens of at least this probability are removed, except the least likely of them; "
           "above 0.5 is off (default: 0.1)"),
    NUMBER("generate chat", 0, "repeat-penalty", "R", F64, repeat_penalty, 0.01, 100,
           "penalty of recent tokens; 1 is off (default: 1.0)"),
    NUMBER("generate chat", 0, "presence-penalty", "P", F64, presence_penalty, -100, 100,
           "subtracted from the logit of every recent token; 0 is off (default: 0)"),
    NUMBER("generate chat", 0, "frequency-penalty", "P", F64, frequency_penalty, -100, 100,
           "subtracted from the logit of recent tokens, once per occurrence; 0 is off (default: "
           "0)"),
    NUMBER("generate chat", 0, "repeat-last-n", "N", I32, repeat_last_n, -1, I32_MAX,
           "number of tokens that count as recent; -1 is the whole context, 0 is off (default: "
           "64)"),
    NUMBER("generate chat", 0, "dry-multiplier", "M", F64, dry_multiplier, 0, 100,
           "DRY: penalty of tokens that prolong a repeat, M * base^(length - allowed length); 0 "
           "is off (default: 0)"),
    NUMBER("generate chat", 0, "dry-base", "B", F64, dry_base, 1, 100,
           "DRY: base of the penalty (default: 1.75)"),
    NUMBER("generate chat", 0, "dry-allowed-length", "N", I32, dry_allowed_length, 1, I32_MAX,
           "DRY: longest repeat whose penalty is at most the multiplier (default: 2)"),
    NUMBER("generate chat", 0, "dry-penalty-last-n", "N", I32, dry_penalty_last_n, -1, I32_MAX,
           "DRY: number of tokens that are searched for repeats; -1 is the whole context, 0 is "
           "off (default: -1)"),
    VALUE("generate chat", 0, "dry-sequence-breaker", "TEXT", PATHS, dry_breakers,
          "DRY: text that ends a repeat, instead of newline, colon, quotation mark and "
          "asterisk; may be repeated; `none` means no such text"),
    VALUE("generate chat", 'l', "logit-bias", "ID+BIAS", PATHS, logit_bias,
          "add to the logit of a token: 15+1.5, 15-2; 15-inf bans it; may be repeated"),
    NUMBER("generate chat", 's', "seed", "N", I64, seed, -1, 9007199254740991.0,
           "random seed; -1 selects a new one (default: -1)"),
    VALUE("generate chat", 0, "stop", "TEXT", STRS, stop,
          "end the answer before this text; may be repeated"),
    VALUE("generate chat", 0, "grammar", "GBNF", STR, grammar,
          "the answer matches the rule `root` of this grammar, in llama.cpp's GBNF"),
    VALUE("generate chat", 0, "grammar-file", "FILE", PATH, grammar_file,
          "such a grammar from a file; - is standard input"),
    VALUE("generate chat", 'j', "json-schema", "SCHEMA", STR, json_schema,
          "the answer is JSON that this JSON Schema accepts; {} accepts any JSON"),
    VALUE("generate chat", 0, "json-schema-file", "FILE", PATH, json_schema_file,
          "such a schema from a file; - is standard input"),
    VALUE("generate chat", 0, "regex", "PATTERN", STR, regex,
          "the whole answer matches this regular expression (ECMA-262, as in JSON Schema)"),
    FLAG("generate chat", 0, "json-compact", json_compact,
         "JSON by a schema has no white space between its parts"),
    GIVEN("serve", 'n', "n-predict", "N", I32, tokens, -1, I32_MAX,
          "tokens of an answer if the request sets no limit; -1 until it ends (default: 16 for "
          "/v1/completions, else -1)"),
    NUMBER("serve", 0, "temp", "T", F64, temp, 0, 1000,
           SERVE_FIELD "`temperature`; 0 is greedy (default: the model's, else 1)"),
    NUMBER("serve", 0, "top-k", "K", I32, top_k, -1, 128,
           SERVE_FIELD "`top_k`; 0 and -1 are off (default: the model's, else off)"),
    NUMBER("serve", 0, "top-p", "P", F64, top_p, 0, 1,
           SERVE_FIELD "`top_p`; 1 is off (default: the model's, else 1)"),
    NUMBER("serve", 0, "min-p", "P", F64, min_p, 0, 1,
           SERVE_FIELD "`min_p`; 0 is off (default: the model's, else 0)"),
    NUMBER("serve", 0, "typical", "P", F64, typical_p, 0, 1,
           SERVE_FIELD "`typical_p`; 1 is off (default: the model's, else 1)"),
    NUMBER("serve", 0, "top-nsigma", "N", F64, top_n_sigma, -1, 1000,
           SERVE_FIELD "`top_n_sigma`; 0 and -1 are off (default: 0)"),
    NUMBER("serve", 0, "xtc-probability", "P", F64, xtc_probability, 0, 1,
           SERVE_FIELD "`xtc_probability`; 0 is off (default: the model's, else 0)"),
    NUMBER("serve", 0, "xtc-threshold", "P", F64, xtc_threshold, 0, 1,
           SERVE_FIELD "`xtc_threshold`; above 0.5 is off (default: the model's, else 0.1)"),
    NUMBER("serve", 0, "repeat-penalty", "R", F64, repeat_penalty, 0.01, 100,
           SERVE_FIELD "`repeat_penalty`; 1 is off (default: the model's, else 1)"),
    NUMBER("serve", 0, "presence-penalty", "P", F64, presence_penalty, -100, 100,
           SERVE_FIELD "`presence_penalty` (default: 0)"),
    NUMBER("serve", 0, "frequency-penalty", "P", F64, frequency_penalty, -100, 100,
           SERVE_FIELD "`frequency_penalty` (default: 0)"),
    NUMBER("serve", 0, "repeat-last-n", "N", I32, repeat_last_n, -1, I32_MAX,
           SERVE_FIELD "`repeat_last_n` (default: -1, the whole text)"),
    NUMBER("serve", 0, "dry-multiplier", "M", F64, dry_multiplier, 0, 100,
           "DRY, as in `generate`, for every answer; 0 is off (default: 0)"),
    NUMBER("serve", 0, "dry-base", "B", F64, dry_base, 1, 100,
           "DRY: base of the penalty (default: 1.75)"),
    NUMBER("serve", 0, "dry-allowed-length", "N", I32, dry_allowed_length, 1, I32_MAX,
           "DRY: longest repeat whose penalty is at most the multiplier (default: 2)"),
    NUMBER("serve", 0, "dry-penalty-last-n", "N", I32, dry_penalty_last_n, -1, I32_MAX,
           "DRY: number of tokens that are searched for repeats; -1 is the whole context (default: "
           "-1)"),
    NUMBER("serve", 's', "seed", "N", I64, seed, -1, 9007199254740991.0,
           SERVE_FIELD "`seed`; -1 differs with each request (default: -1)"),
    VALUE("serve", 0, "chat-template-kwargs", "JSON", PATH, template_kwargs,
          "variables of the chat template, as an object; a request's `chat_template_kwargs` have "
          "priority ({\"enable_thinking\": false})"),
    VALUE("chat template", 0, "chat-template-kwargs", "JSON", PATH, template_kwargs,
          "variables of the chat template, as an object ({\"enable_thinking\": false}); they have "
          "priority over those of a file of messages"),
    WORD("serve", 0, "reasoning-format", "auto|deepseek|none", WORD, reasoning_format,
         "auto|deepseek|none",
         SERVE_FIELD "`reasoning_format`: auto and deepseek separate reasoning from the answer, "
                     "none leaves it in (default: auto)"),
    VALUE("serve", 0, "api-prefix", "/PATH", PATH, api_prefix,
          "serve all paths below this one, for proxies that pass the path on (default: none)"),
    FLAG("serve", 0, "no-page", no_page, "do not serve the page at /"),
    VALUE("generate", 0, "session", "FILE", PATH, session,
          "continue the session of this file, if it exists, and store the session there at the "
          "end; only the new part of a prompt is evaluated, and without a prompt the text "
          "continues"),
    VALUE("chat", 0, "session", "FILE", PATH, session,
          "continue the conversation of this file, if it exists, and store it there at the end, "
          "with its evaluated tokens"),
    FLAG("chat", 0, "context-shift", context_shift,
         "a full context does not end the conversation: the model no longer sees its oldest "
         "half, the system message stays"),
    FLAG("generate", 0, "context-shift", context_shift,
         "a full context does not end the text: its older half is dropped, the rest evaluated "
         "again"),
    NUMBER("generate", 0, "keep", "N", I32, keep, 0, I32_MAX,
           "tokens of the prompt that --context-shift never drops, at most half of the context "
           "(default: 0)"),
    FLAG("generate chat template", 0, "raw", raw,
         "print the text unchanged even if the output is a terminal: control characters act, "
         "and lines are not wrapped"),
    FLAG("generate chat", 0, "ignore-eos", ignore_eos, "do not end at a stop token"),
    FLAG("generate chat", 0, "model-defaults", model_defaults,
         "use the sampling values of the model's generation_config.json, or of the keys "
         "general.sampling.* of a GGUF file, for omitted options"),
    NUMBER("generate chat bench", 0, "readback-interval", "N", I32, readback_interval, 1,
           DGL_READBACK_INTERVAL_MAX,
           "tokens per readback, 1 to " MOST_READBACK " (default: 1 on software, " READBACK
           " on hardware)"),
    FLAG("generate perplexity tokenize", 0, "no-parse-special", no_parse_special,
         "special tokens in the text are plain text"),

    FLAG("logits", 0, "all", all, "every position, not only the last"),
    VALUE("logits", 'o', "output", "FILE", PATH, out, "safetensors file to write"),
    VALUE("perplexity", 'f', "file", "FILE", PATH, file,
          "a text of any length, read in windows as long as the context; - is standard input"),
    VALUE("perplexity", 0, "texts", "FILE.json", PATH, texts,
          "JSON array of strings, each read as a whole"),
    NUMBER("perplexity", 0, "stride", "N", I32, stride, 1, I32_MAX,
           "tokens from one window to the next, below the context; with --texts, long texts are "
           "read in windows too (default: half the context)"),
    FLAG("tokenize", 0, "jsonl", jsonl,
         "read `{\"text\":…}` lines, write `{\"ids\":[…],\"ids_special\":[…]}` lines"),
    FLAG("tokenize", 0, "decode", decode,
         "read `{\"ids\":[…]}` lines, write `{\"text\":…}` lines, with or without --jsonl"),
    FLAG("tokenize", 0, "pieces", pieces, "show the text of each id"),
    FLAG("tokenize", 0, "skip-special", skip_special, "leave special tokens out of decoded text"),

    VALUE("chat", 0, "messages", "FILE.json", PATH, messages,
          "answer these messages and end: a JSON array, or an object with `messages` and "
          "further variables; - is standard input"),
    VALUE("chat", 0, "system", "TEXT", STR, system, "system message to begin with"),
    VALUE("template", 0, "messages", "FILE.json", PATH, messages,
          "JSON array of messages, or an object with `messages` and further variables; - is "
          "standard input"),
    VALUE("template chat serve", 0, "template", "FILE", PATH, template,
          "a Jinja template in place of the model's"),
    VALUE("template chat serve", 0, "template-name", "NAME", STR, template_name,
          "name of one of the model's templates (default: `default`, or `tool_use` if the model "
          "has it and tools are given)"),
    FLAG("template", 0, "continue-final-message", continue_final_message,
         "end in the last message, which the model continues"),
    FLAG("template", 0, "add-generation-prompt", add_generation_prompt,
         "end with the beginning of an answer"),
    {"template", 0, "now", "DATE",
     "2025-06-15 or 2025-06-15T12:30:00, for templates that print the date (default: the local "
     "time)",
     TYPE_DATE, FIELD(now), 0, 0, NULL, FIELD(now_given)},

    VALUE("serve", 0, "host", "ADDRESS", PATH, host,
          "address or name to listen on (default: 127.0.0.1); one beyond this machine requires a "
          "key or --insecure. A path (/run/x/http.sock, unix:PATH) is a Unix socket, for this user "
          "and group; --port is then not used"),
    NUMBER("serve", 0, "port", "N", I32, port, 0, 65535,
           "port; 0 selects a free one (default: 8080)"),
    NUMBER("serve", 0, "parallel", "N", I32, parallel, 1, 256,
           "requests that are answered at once (default: 4)"),
    NUMBER("inspect", 0, "parallel", "N", I32, parallel, 1, 256,
           "memory of N sequences at once, as in `serve`, each with the whole context (default: "
           "a session)"),
    NUMBER("serve", 0, "queue", "N", I32, queue, 1, 65536,
           "requests that wait, in addition to --parallel (default: 256)"),
    VALUE("serve", 0, "api-key", "KEY", PATH, api_key,
          "key that clients must send. Prefer DOPPLERGL_API_KEY or a file, because other users "
          "of the machine see command lines"),
    VALUE("serve", 0, "api-key-file", "FILE", PATH, api_key_file,
          "a key in each line; a client may use any of them"),
    VALUE("serve", 0, "alias", "NAME,NAME", PATHS, alias,
          "the model's names for clients; answers have the first; may be repeated (default: from "
          "its path)"),
    NUMBER("serve", 0, "timeout", "S", I32, timeout, 1, 86400,
           "seconds that a client may take to send a request, or to read any part of an answer "
           "(default: 600)"),
    NUMBER("serve", 0, "max-body", "BYTES", I32, max_body, 1, 1073741824,
           "largest body of a request (default: 8388608)"),
    NUMBER("serve", 0, "max-connections", "N", I32, max_connections, 1, 65536,
           "connections at once (default: 512)"),
    VALUE("serve", 0, "max-request-memory", "BYTES", PATH, max_request_memory,
          "memory of all requests together, with K, M or G; above it new requests get 503 "
          "(default: a quarter of the memory)"),
    WORD("serve", 0, "share-prefix", "all|key|none", WORD, share_prefix, "all|key|none",
         "which requests share the KV cache of equal beginnings of prompts: all, those of one key "
         "(or address), or none (default: key with several keys, else all)"),
    NUMBER("serve", 0, "max-client-connections", "N", I32, max_client_connections, 1, 65536,
           "connections from one address (default: a quarter of --max-connections; no limit for "
           "this machine)"),
    NUMBER("serve", 0, "max-client-requests", "N", I32, max_client_requests, 1, 65536,
           "answers of one key, or of one address without keys, that wait or run (default: half "
           "of --parallel and --queue, if there can be several clients)"),
    NUMBER("serve", 0, "max-client-tokens", "N", I32, max_client_tokens, 1, I32_MAX,
           "prompt tokens of one key, or of one address without keys, that wait or run (default: "
           "no limit)"),
    NUMBER("serve", 0, "sse-ping-interval", "S", I32, sse_ping_interval, 1, 86400,
           "seconds after which an idle stream sends a comment, so that proxies keep it "
           "(default: 10)"),
    NUMBER("serve", 0, "drain-timeout", "S", I32, drain_timeout, 0, 86400,
           "seconds in which requests may end after SIGTERM (default: 30)"),
    VALUE("serve", 0, "log-file", "FILE", PATH, log_file,
          "access log, a JSON object per line, appended; opened again after SIGHUP; - is standard "
          "output (default: standard output, without -q)"),
    VALUE("serve", 0, "trust-proxy", "ADDRESS", PATHS, trust_proxy,
          "address of a proxy whose X-Forwarded-For names the client, or a net "
          "(10.0.0.0/8), or `unix` for clients of a Unix socket; may be repeated"),
    VALUE("serve", 0, "cors", "ORIGIN", PATH, cors,
          "web pages of this origin may send requests and read answers; * allows every origin "
          "(default: pages of this server alone)"),
    WORD("serve", 0, "pooling", "NAME", WORD, pooling, DGL_POOLING_NAMES,
         "how /v1/embeddings makes one vector of the tokens': mean, cls, lasttoken (or last), max, "
         "mean_sqrt_len_tokens or weightedmean (default: as the model's files say, or mean)"),
    FLAG("serve", 0, "insecure", insecure, "listen beyond this machine without a key"),
    WORD("convert", 0, "to", "FORMAT", WORD, to_format, "rdrr|gguf",
         "rdrr, a pack, or gguf, one file (default: gguf if OUT ends in .gguf or .GGUF, else "
         "rdrr)"),
    WORD("convert", 0, "quantize", "TYPE", QUANT, quantize,
         "f32|f16|bf16|q8_0|q6_k|q5_k_m|q5_k|q5_1|q5_0|q4_k_m|q4_k|q4_1|q4_0|iq4_nl|iq4_xs|q3_k_m|"
         "q3_k|q2_k|mxfp4",
         "f32, f16 or bf16. Or a block format: q8_0, q6_k, q5_k_m, q5_1, q5_0, q4_k_m, q4_1, q4_0, "
         "iq4_nl, iq4_xs, q3_k_m, q2_k, mxfp4 (default: as stored)"),
    WORD("convert", 0, "embed", "TYPE", QUANT, embed_type, BLOCK_TYPES,
         "the embedding's type instead: a type of --quantize, without _m"),
    WORD("convert", 0, "head", "TYPE", QUANT, head_type, BLOCK_TYPES,
         "the output head's type instead, if it is not the embedding"),
    WORD("convert", 0, "experts", "TYPE", QUANT, experts_type, BLOCK_TYPES,
         "the experts' type instead"),
    WORD("convert", 0, "q4k-layout", "NAME", WORD, q4k_layout, "row|column|flat",
         "how matrices in q4_k are cut into blocks: row (default); column and flat are for "
         "other engines. This engine uses such tensors as f16"),
    FLAG("convert", 0, "fuse-gate-up", fuse_gate_up, "store gate and up of a layer as one tensor"),
    FLAG("convert", 0, "transpose-weights", transpose_weights,
         "store linear layers in floats by columns"),
    FLAG("convert", 0, "text-only", text_only,
         "if the model also reads images, store only its text model, under its own names with "
         "its own config"),
    FLAG("convert", 0, "fast", fast, "quantise without the search for the best codes"),
    WORD("convert", 0, "hash", "NAME", WORD, hash, "sha256|blake3",
         "sha256 or blake3 (default: sha256)"),
    NUMBER("convert", 0, "shard-size", "MIB", I32, shard_mib, 1, 1024,
           "size of a shard (default: 64)"),
    NUMBER("convert", 't', "threads", "N", I32, threads, 1, 1024,
           "host threads (default: one per processor)"),
    FLAG("convert", 0, "force", force, "replace an existing OUT"),

    FLAG("verify", 0, "smoke", smoke, "also run the model on the device and judge it"),

    VALUE("bench", 0, "shape", "NAME|FILE[:quant]", STR, shape,
          "synthetic weights, made on the GPU, instead of a model. NAME is a published shape; "
          "FILE is any config.json (a value with / or ending in .json). Rows become q8_0 if "
          "they are no whole blocks of the type"),
    NUMBER("bench", 0, "prompt-tokens", "N", I32, prompt_tokens, 1, I32_MAX,
           "tokens of the prefill run (default: 512)"),
    GIVEN("bench", 'n', "n-predict", "N", I32, tokens, 1, I32_MAX,
          "tokens of the decode run (default: 128)"),
    NUMBER("bench", 'd', "depth", "N", I32, depth, 0, I32_MAX,
           "tokens already in the KV cache (default: 0)"),
    NUMBER("tune", 'd', "depth", "N", I32, depth, 2, I32_MAX,
           "tokens in the KV cache that decoding sees (default: 512)"),
    VALUE("tune", 0, "op", "OP", PATH, op, "only operations of this name in the plan, such as qkv"),
    NUMBER("tune", 0, "seconds", "N", I32, seconds, 1, 86400,
           "begin no measurement that would end later; operations without a stored result come "
           "first (default: 120)"),
    FLAG("tune", 0, "show", tune_show, "list the stored results of the device without measuring"),
    FLAG("tune", 0, "reset", tune_reset, "remove the stored results of the device"),
    NUMBER("bench", 0, "batch", "B", I32, batch, 1, DGL_BENCH_BATCH_MAX,
           "sequences that decode together, 1 to " DIGITS(
               DGL_BENCH_BATCH_MAX) " (default: 1); prefill tokens per pass are --ubatch"),
    FLAG("bench serve", 0, "batch-invariant", batch_invariant,
         "an answer has the same bits if other requests run at the same time, because each "
         "answer has its own passes. This is slower, shares no prompts, and lets prompts delay "
         "other answers longer"),
    NUMBER("bench", 0, "ubatch", "N", I32, ubatch, 1, 65536,
           "prefill tokens per pass (default: chosen for the device)"),
    NUMBER("serve", 0, "ubatch", "N", I32, ubatch, 1, 65536,
           "prefill tokens per pass, however long it takes (default: chosen for the device; "
           "fewer if a pass would delay running answers by more than 100 ms)"),
    NUMBER("bench", 'r', "repetitions", "N", I32, repetitions, 1, 64,
           "counted runs, 1 to 64 (default: 3)"),
    NUMBER("bench", 0, "warmup", "N", I32, warmup, 0, 64,
           "runs before the counted runs, 0 to 64 (default: 1)"),
    FLAG("bench", 0, "sweep", sweep,
         "measure also at depths and with prompts that double up to the context (-c); if "
         "--batch is given, with fewer sequences instead"),
    FLAG("bench", 0, "matrix", matrix,
         "with --shape: every type of weights in every layout that kernels read"),
    VALUE("bench", 0, "types", "NAME,NAME", PATH, types,
          "types of --matrix, in their order (default: all)"),
    VALUE("bench", 0, "plot", "FILE.svg", PATH, plot, "draw the results"),
    FLAG("bench", 0, "md", md, "a Markdown table"),
    NUMBER("bench", 0, "rate", "R", F64, rate, 0.001, 10000,
           "with `serve`: requests per second, at random times as from many people (default: 1)"),
    NUMBER("bench", 0, "duration", "S", F64, duration, 0.001, 86400,
           "with `serve`: seconds in which requests come (default: 30)"),
    NUMBER("bench", 0, "connections", "N", I32, connections, 1, 10000,
           "with `serve`: most requests at once; the others wait, and their wait counts "
           "(default: 256)"),
    VALUE("bench", 0, "prompt-lengths", "TOKENS", PATH, prompt_lengths,
          "with `serve`: N, A-B (all values equally often) or log:A-B (all octaves equally "
          "often) (default: 128)"),
    VALUE("bench", 0, "answer-lengths", "TOKENS", PATH, answer_lengths,
          "with `serve`: tokens of the answers, in the same form (default: 64)"),
    NUMBER("bench", 0, "slo-ttft", "MS", F64, slo_ttft, 0, 1e9,
           "with `serve`: an answer is good only if its first token comes within this time "
           "(default: 1000)"),
    NUMBER("bench", 0, "slo-itl", "MS", F64, slo_itl, 0, 1e9,
           "with `serve`: and only if each other token takes at most this time on average "
           "(default: 100)"),
    FLAG("bench", 0, "chat", chat, "with `serve`: /v1/chat/completions instead of /v1/completions"),
    FLAG("bench", 0, "no-ignore-eos", no_ignore_eos,
         "with `serve`: answers may end early; for servers without `ignore_eos`"),
    NUMBER("bench", 0, "timeout", "S", I32, timeout, 1, 86400,
           "with `serve`: seconds that an answer may take (default: 600)"),
    NUMBER("bench", 0, "seed", "N", I64, seed, 0, 9007199254740991.0,
           "with `serve`: seed of arrivals, lengths and words (default: 0)"),
    FLAG("generate bench", 0, "profile", profile,
         "GPU time per operation and a time line per token. generate reads each token back "
         "before it queues the next. bench makes an extra run; with `--batch`, it profiles "
         "steps of all sequences"),
    VALUE("generate bench", 0, "trace", "FILE.json", PATH, trace,
          "profile, and write each operation, submit, readback and compilation in Chrome's "
          "trace format (chrome://tracing, Perfetto); not with `--batch`"),
    FLAG("bench", 0, "csv", csv, "comma-separated output"),

    VALUE("kernels", 0, "op", "OP", PATH, op,
          "of `new`: operation of the kernel, with or without words of WHEN lines "
          "(matmul/decode/pre=join). Of `show --generated`: step of the model (qkv)"),
    VALUE("kernels", 0, "shape", "KEY=VALUE,...|NAME", STR, shape,
          "of `bench`: attributes and sizes of the operation (weight=q4_k,K=4096,N=14336), and "
          "tokens, pos, rows. If a value is omitted, it is that of a typical large model. Of "
          "`check --compile-only`: NAME[:QUANT], a model's shape as in `bench --shape`, instead "
          "of -m"),
    VALUE("kernels", 0, "against", "NAME", PATH, against,
          "of `bench`: a kernel of the same operation. Both compute the same requests in turn, and "
          "the ratio of their times is printed with its spread"),
    FLAG("kernels", 0, "compile-only", compile_only,
         "with `check`: compile every kernel that the plan of a model uses on this device, "
         "each in a separate process, without running them"),
    FLAG("kernels", 0, "all", all,
         "with `check --compile-only`: also compile the kernels that can run here but are not "
         "chosen, and the persistent programs (listed as `phases`). Each persistent program "
         "runs a whole decode step in one dispatch. These kernels and programs do not affect "
         "the exit code"),
    NUMBER("kernels", 0, "time-limit", "S", I32, time_limit, 1, 86400,
           "with `check --compile-only`: limit of processor time per kernel in seconds, 1 to "
           "86400 (default: 60)"),
    VALUE("kernels", 0, "memory-limit", "BYTES", PATH, memory_limit,
          "with `check --compile-only`: limit of memory per kernel, with K, M or G, 1M to 1024G "
          "(default: 2G)"),
    VALUE("kernels", 0, "known", "FILE", PATH, known,
          "with `check --compile-only`: skip the sources whose SHA-256 is the first word of a "
          "line of FILE"),
    FLAG("selftest", 0, "quick", quick, "two cases of each kernel instead of all"),
    FLAG("kernels", 0, "quick", quick, "with `check`: two cases of each kernel instead of all"),
    FLAG("kernels", 0, "generated", generated, "with `show`: the text that the driver compiles"),
    NUMBER("kernels", 0, "batch", "B", I32, batch, 1, DGL_BENCH_BATCH_MAX,
           "with `explain`: the pass over the next tokens of B sequences that are decoded "
           "together, 2 to " DIGITS(DGL_BENCH_BATCH_MAX) " (default: 1, the whole plan)"),
    VALUE("kernels", 'o', "output", "FILE", PATH, out,
          "of `new`: the file to write; - is standard output. Of `check --compile-only`: a "
          "folder, to which each source is written as NAME-SHA256.comp"),
    FLAG("kernels", 0, "force", force, "with `new`: replace an existing file"),
    FLAG("generate chat serve", 0, "watch-kernels", watch_kernels,
         "use edited kernel files and hints (--kernel-dir, --kernel-file, --kernel-config, "
         "kernels.json) from the next token on, if all of them compile and pass their "
         "known-answer tests. Prints a line on standard error for each change"),
    FLAG("generate chat serve", 0, "unsafe-kernels", unsafe_kernels,
         "with --watch-kernels: use edits that compile, without known-answer tests"),
    VALUE(ENGINE, 0, "kernel-dir", "DIR", PATHS, kernel_dir,
          "kernel files that replace or join the built-in ones; may be repeated"),
    VALUE(ENGINE, 0, "kernel-file", "FILE", PATHS, kernel_file,
          "a single kernel file; may be repeated"),
    FLAG(ENGINE, 0, "allow-pack-kernels", allow_pack_kernels,
         "also read the folder `kernels` of the pack, with lower priority than --kernel-dir; "
         "these are programs of the pack's author"),
    VALUE(ENGINE, 0, "kernel-config", "FILE", PATH, kernel_config, "kernel hints from a JSON file"),
    WORD(ENGINE, 0, "kernel-profile", "NAME", WORD, kernel_profile, "fast|safe|debug|fused|apple",
         "named set of hints: fast, safe, debug, fused, apple"),
    VALUE(ENGINE, 0, "kernel-hints", "JSON", HINTS, kernel_hints, "kernel hints as a JSON object"),
    WORD(ENGINE, 0, "compute-precision", "WORD", WORD, compute_precision, "auto|f16|f32",
         "hint computePrecision: auto, f16, f32"),
    WORD(ENGINE, 0, "q4k-matmul", "WORD", WORD, q4k_matmul,
         "auto|fused_q4k|dequant_f16|dequant_f32|gemv_subgroup",
         "hint q4kMatmul: auto, fused_q4k, dequant_f16, dequant_f32, gemv_subgroup"),
    FLAG(ENGINE, 0, "force-fused-q4k", force_fused_q4k, "the same as --q4k-matmul fused_q4k"),
    WORD(ENGINE, 0, "f16-matmul", "WORD", WORD, f16_matmul, "auto|gemv_subgroup",
         "hint f16Matmul: auto, gemv_subgroup"),
    WORD(ENGINE, 0, "attention-prefill", "WORD", WORD, attention_prefill,
         "auto|tiled_large|tiled_small|streaming|subgroup",
         "hint attentionPrefill: auto, tiled_large, tiled_small, streaming, subgroup"),
    WORD(ENGINE, 0, "attention-decode", "WORD", WORD, attention_decode,
         "auto|tiled_large|tiled_small|streaming|subgroup",
         "hint attentionDecode: auto, tiled_large, tiled_small, streaming, subgroup"),
    FLAG("generate chat serve logits perplexity bench verify kernels", 0, "no-tune", no_tune,
         "ignore the results that `dopplergl tune` stored for the device"),
    WORD(ENGINE, 0, "hash-weights", "WHEN", WORD, hash_weights, "changed|always|never",
         "compare a pack's files with its hashes: changed (if they changed since they were "
         "last found right), always, never (default: changed)"),

    FLAG("help", 0, "markdown", markdown, "the text of docs/cli.md"),
    FLAG("help", 0, "man", man, "the man page dopplergl(1), in roff"),
    WORD("help", 0, "completion", "SHELL", WORD, completion, "bash|zsh|fish",
         "completions for bash, zsh or fish"),
    VALUE("*", 0, "device", "any|software|PATH|N", DEVICE, device,
          "a render node, a row of `devices`, software rendering, or `any`: software if no "
          "hardware device works (default: the first hardware device)"),
    WORD("*", 0, "limits", LIMITS, WORD, limits, LIMITS,
         "lower the device's limits to the minimums of OpenGL ES 3.1, or to those of a small "
         "GPU; kernels are then chosen for that GPU (default: the device's own limits)"),
    WORD("*", 0, "kv-type", "f16|f32", WORD, kv_type, "f16|f32",
         "type of the KV cache (default: f16)"),
    WORD("generate chat serve bench kernels verify", 0, "executor", "auto|dispatch|persistent",
         WORD, executor, "auto|dispatch|persistent",
         "how tokens are decoded. dispatch: one dispatch per operation. persistent: one "
         "dispatch for many tokens, or several per token if the model has many buffers; its "
         "work groups wait for each other. Its program takes seconds to compile, while single "
         "dispatches decode, and is tested before use. auto: persistent if a test has found it "
         "faster. If there was no test yet, it runs after a second of decoding. `bench` and "
         "`tune` wait for the compiler and test first (default: auto)"),
    NUMBER("*", 'c', "ctx-size", "N", I32, context, 0, I32_MAX,
           "context length in tokens; 0 is the model's, lowered until it fits (default: 0)"),
    FLAG("*", 0, "json", json, "machine-readable output"),
    FLAG("*", 'q', "quiet", quiet, "only errors on standard error"),
    VALUE("*", 'v', "verbose", NULL, COUNT, verbose,
          "more messages on standard error; -vv prints even more"),
    WORD("*", 0, "log-level", "LEVEL", WORD, log_level,
         "none|error|warn|notice|progress|info|debug|trace",
         "none, error, warn, notice, progress, info, debug or trace"),
    FLAG("*", 'h', "help", help, "this text"),
};
#define NUM_OPTIONS (sizeof(table) / sizeof(table[0]))
_Static_assert(NUM_OPTIONS <= OPTIONS_MAX_ROWS, "struct options records a source for every row");

/* ---- flags of other programs ----------------------------------------------------------------- */

#define RUNS       "generate chat serve logits perplexity bench verify"
#define CONVERSES  "a conversation is a command of its own: dopplergl chat -m MODEL"
#define GENERATES  "generate chat"
#define KEPT_WHOLE "weights are copied to the device while they are read, no file stays mapped"

/* Rows of the table: another name of our option, a flag without effect, a refused flag. */
/* clang-format off */
#define MEANS(c, s, option)  {.commands = c, .spellings = s, .means = option}
#define IGNORED(c, s, a, w) {.commands = c, .spellings = s, .arg = a, .why = w}
#define REFUSED(c, s, w)    {.commands = c, .spellings = s, .why = w, .refused = true}
/* clang-format on */

static const struct foreign_option foreign[] = {
    MEANS(WITH_MODEL, "-hf -hfr --hf-repo --model-path", "model"),
    MEANS("generate bench", "--predict --max-tokens --max-new-tokens", "n-predict"),
    MEANS("chat serve", "--predict --max-tokens --max-new-tokens", "n-predict"),
    MEANS("generate chat", "--prompt-cache", "session"),
    MEANS("generate chat", "-jf", "json-schema-file"),
    IGNORED("generate chat", "--prompt-cache-all", NULL, "--session keeps answers too"),
    MEANS("serve", "-np", "parallel"),
    MEANS("serve", "-a", "alias"),
    MEANS("serve", "-to", "timeout"),
    MEANS("serve", "--max-queue", "queue"),
    MEANS("chat template serve", "--chat-template-file", "template"),
    IGNORED("serve", "-cb --cont-batching", NULL, "requests are always answered in parallel"),
    IGNORED("serve", "--jinja --metrics --embedding --embeddings --webui --ui", NULL,
            "that is always on"),
    MEANS("serve", "--no-webui --no-ui", "no-page"),
    IGNORED("serve", "--no-jinja", NULL, "chat templates are always read as Jinja"),
    IGNORED("serve", "--slots --no-slots --props", NULL,
            "the load is in /metrics, the model in /v1/models"),
    IGNORED("serve", "--threads-http", "N",
            "the threads of HTTP only read and send, and their number is fixed"),
    IGNORED("serve", "--cache-reuse", "N",
            "equal beginnings of prompts are always reused, and later parts never are"),
    IGNORED("serve", "--cache-prompt", NULL, "equal beginnings of prompts are always reused"),
    IGNORED("serve", "-kvu --kv-unified --no-kv-unified", NULL,
            "requests always share one KV cache, in pages"),
    IGNORED("serve", "--no-context-shift", NULL, "a full context always ends the answer"),
    IGNORED("serve", "--warmup --no-warmup", NULL,
            "the first answers are always computed before the server listens"),
    IGNORED("serve", "--log-timestamps --log-prefix", NULL,
            "lines of the access log always have a time"),
    IGNORED("serve", "--offline", NULL, "nothing is ever downloaded"),
    IGNORED("serve", "-dt --defrag-thold", "N", "pages of the KV cache need no defragmentation"),
    REFUSED("serve", "--context-shift",
            "a full context ends an answer with `finish_reason` `length`: give a larger -c"),
    REFUSED("serve", "--no-cache-prompt",
            "prompts are always reused, and answers do not depend on it: leave it out"),
    REFUSED("serve", "--slot-save-path",
            "there are no slots to save: equal beginnings of prompts are kept in memory, and "
            "`generate --session` stores a session in a file"),
    REFUSED("serve", "--reasoning-budget",
            "reasoning has no limit of its own: limit the answer with -n, or turn it off with "
            "--chat-template-kwargs '{\"enable_thinking\": false}' if the template reads that"),
    REFUSED("serve", "--path",
            "the page is built in; serve other files with a web server (docs/server.md, TLS)"),
    REFUSED("serve", "-lv --verbosity --log-verbosity",
            "more messages are printed with -v or -vv, and --log-level NAME selects a level"),
    REFUSED("serve", "--rerank --reranking",
            "rankings are not supported: compare vectors of /v1/embeddings"),
    REFUSED("serve", "--samplers --sampling-seq --sampler-seq",
            "the order of samplers is fixed (`dopplergl generate --help`)"),
    REFUSED("serve generate chat", "--mmproj --mmproj-url",
            "images are not read: the text part of a model runs without this file"),
    REFUSED("serve generate chat", "-md --model-draft --draft-max --draft-min --draft-p-min",
            "there is no speculative decoding: leave it out, the answers are the same"),
    REFUSED("serve", "--ssl-key-file --ssl-cert-file", "TLS is left to a proxy (docs/server.md)"),
    MEANS(GENERATES " serve", "--temperature", "temp"),
    MEANS(GENERATES " serve", "--repetition-penalty", "repeat-penalty"),
    MEANS(GENERATES " serve", "--random-seed", "seed"),
    MEANS("chat", "-sys --system-prompt", "system"),
    MEANS(WITH_MODEL, "--context-size --n-ctx", "ctx-size"),
    MEANS(WITH_MODEL, "--log-disable", "quiet"),
    MEANS("bench serve", "-ub --ubatch-size", "ubatch"),
    MEANS("bench", "-p --n-prompt", "prompt-tokens"),
    MEANS("bench", "--n-gen", "n-predict"),

    IGNORED(RUNS, "-ngl --gpu-layers --n-gpu-layers", "N",
            "every layer is on the device; --device software computes on the processor"),
    IGNORED(RUNS, "-fa --flash-attn", "[on|off|auto|0|1]",
            "attention never stores its scores; --attention-prefill and --attention-decode "
            "choose kernels"),
    IGNORED(RUNS, "-t --threads -tb --threads-batch", "N",
            "the device computes; for a software renderer, LP_NUM_THREADS in the environment is "
            "the number of threads"),
    IGNORED(RUNS, "-b --batch-size", "N",
            "the tokens of a prefill pass are chosen for the device; bench and serve have "
            "--ubatch"),
    IGNORED("generate chat logits perplexity verify", "-ub --ubatch-size", "N",
            "the tokens of a prefill pass are chosen for the device"),
    IGNORED(RUNS, "--mlock", NULL, KEPT_WHOLE),
    IGNORED(RUNS, "--mmap --no-mmap", NULL, KEPT_WHOLE),
    IGNORED(RUNS, "-nkvo --no-kv-offload", NULL, "the KV cache is on the device, like the weights"),
    IGNORED(RUNS, "-sm --split-mode -ts --tensor-split -mg --main-gpu --numa", "VALUE",
            "a model is on one device, which --device chooses"),
    IGNORED(GENERATES, "-co --color", "[on|off|auto]",
            "colours are used on a terminal, but not if NO_COLOR is set"),
    IGNORED("generate chat perplexity", "--warmup --no-warmup", NULL,
            "a kernel runs only when it is needed; kernels are compiled once and kept"),
    IGNORED(GENERATES, "--jinja --no-jinja", NULL,
            "chat templates are always read as Jinja; generate uses the prompt as it is"),
    IGNORED("generate", "--no-display-prompt", NULL, "the prompt is only printed with --echo"),
    IGNORED("generate", "--no-escape", NULL, "escapes are only expanded with -e"),
    IGNORED("generate", "-no-cnv --no-conversation", NULL, "generate only continues the prompt"),
    IGNORED("chat", "-cnv --conversation -i --interactive", NULL, "chat always is a conversation"),
    IGNORED(RUNS, "--no-perf --perf", NULL,
            "the figures are one line on standard error; -q hides it"),

    REFUSED("bench", "--no-warmup", "to leave out the runs before the counted runs: --warmup 0"),
    REFUSED("generate", "-cnv --conversation -i --interactive -if --interactive-first", CONVERSES),
    REFUSED("generate", "-sys --system-prompt --system",
            "a raw prompt has no roles; " CONVERSES " --system TEXT"),
    REFUSED("chat", "-no-cnv --no-conversation",
            "to continue a prompt as it is: dopplergl generate -p TEXT"),
    REFUSED(RUNS, "-ctk --cache-type-k -ctv --cache-type-v",
            "keys and values have one type: --kv-type f16 or f32"),
    REFUSED(RUNS, "--list-devices", "devices are listed by a command: dopplergl devices"),
    REFUSED(RUNS, "-hff --hf-file", "a file of the Hub cache is named by its path: -m FILE"),
    REFUSED(RUNS, "-mu --model-url",
            "files are never downloaded: fetch the file and name it with -m"),
    REFUSED(RUNS, "--lora --lora-scaled",
            "adapters are not supported: merge the adapter into the model first"),
    REFUSED("serve", "--grammar --grammar-file -j --json-schema -jf --json-schema-file",
            "each request names its own: `response_format`, `json_schema`, `grammar` or "
            "`guided_regex`"),
    REFUSED("chat template serve", "--chat-template",
            "templates have no built-in names: --template FILE, or --template-name of one of the "
            "model's"),
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
