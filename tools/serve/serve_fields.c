/* The table of fields. The tests of serve check each decision. */
#include "tools/serve/serve_fields.h"

#include <limits.h>
#include <stdint.h>

#include "core/base/pooling.h"
#include "tools/serve/serve_request.h"

#define OF(kind)  (1u << (kind))
#define OF_ANSWER (OF(SERVE_CHAT) | OF(SERVE_COMPLETION))
#define OF_TEXTS  (OF_ANSWER | OF(SERVE_EMBEDDING))
#define OF_ALL    UINT_MAX

/* clang-format breaks the braces of the macros, and the rows of the table, into lines. */
/* clang-format off */
#define STORED(name, kinds, type, member, min, max) \
    {name, kinds, FIELD_##type, offsetof(struct serve_request, member), min, max, NULL}
#define READ(name, kinds, type)       {name, kinds, FIELD_##type, 0, 0, 0, NULL}
#define IGNORED(name, kinds)          {name, kinds, FIELD_IGNORED, 0, 0, 0, NULL}
#define REFUSED(name, kinds, why)     {name, kinds, FIELD_REFUSED, 0, 0, 0, why}
#define NEUTRAL(name, kinds, at, why) {name, kinds, FIELD_NEUTRAL, 0, at, 0, why}

#define MIROSTAT "mirostat is not implemented; top_n_sigma, typical_p or min_p adapt to the model"

/* If several names of one value are given, the last one of this list is used. */
const struct serve_field serve_fields[] = {
    /* OpenAI */
    STORED("model", OF_ALL, TEXT, model, 0, 0),
    READ("messages", OF(SERVE_CHAT), READ),
    READ("prompt", OF(SERVE_COMPLETION), READ),
    READ("input", OF(SERVE_EMBEDDING), READ),
    READ("encoding_format", OF(SERVE_EMBEDDING), READ),
    STORED("dimensions", OF(SERVE_EMBEDDING), INT, dimensions, 1, INT32_MAX),
    STORED("embd_normalize", OF(SERVE_EMBEDDING), INT, embd_normalize, DGL_NORMALIZE_NONE,
           DGL_NORMALIZE_MAX),
    STORED("stream", OF_ANSWER, BOOL, stream, 0, 0),
    READ("stream_options", OF_ANSWER, OBJECT),
    STORED("n", OF_ANSWER, INT, n, 1, SERVE_MAX_CHOICES),
    STORED("best_of", OF_ANSWER, INT, best_of, 1, SERVE_MAX_CHOICES),
    STORED("max_tokens", OF_ANSWER, INT, max_tokens, -1, INT32_MAX),
    STORED("max_completion_tokens", OF_ANSWER, INT, max_tokens, -1, INT32_MAX),
    STORED("temperature", OF_ANSWER, REAL, sampling.temperature, 0, 1000),
    STORED("top_p", OF_ANSWER, REAL, sampling.top_p, 0, 1),
    STORED("presence_penalty", OF_ANSWER, REAL, sampling.presence_penalty, -100, 100),
    STORED("frequency_penalty", OF_ANSWER, REAL, sampling.frequency_penalty, -100, 100),
    STORED("seed", OF_ANSWER, LONG, seed, 0, 0),
    READ("stop", OF_ANSWER, READ),
    READ("logit_bias", OF_ANSWER, READ),
    STORED("logprobs", OF(SERVE_CHAT), BOOL, logprobs, 0, 0),
    STORED("top_logprobs", OF(SERVE_CHAT), INT, top_logprobs, 0, DGL_TOP_LOGPROBS_MAX),
    STORED("logprobs", OF(SERVE_COMPLETION), INT, top_logprobs, 0, DGL_TOP_LOGPROBS_MAX),
    READ("tools", OF(SERVE_CHAT), READ),
    READ("tool_choice", OF_ANSWER, READ),
    STORED("parallel_tool_calls", OF(SERVE_CHAT), BOOL, parallel_calls, 0, 0),
    READ("modalities", OF_ANSWER, LIST),
    READ("response_format", OF_ANSWER, OBJECT),
    READ("reasoning_effort", OF(SERVE_CHAT), READ),
    REFUSED("functions", OF_ANSWER, "use 'tools'"),
    REFUSED("function_call", OF_ANSWER, "use 'tool_choice'"),
    REFUSED("suffix", OF_ANSWER, NULL),
    REFUSED("audio", OF_ANSWER, NULL),
    REFUSED("prediction", OF_ANSWER, NULL),
    REFUSED("web_search_options", OF_ANSWER, NULL),
    REFUSED("moderation", OF_ANSWER, NULL),
    REFUSED("verbosity", OF(SERVE_CHAT), "ask for it in a message"),
    NEUTRAL("echo", OF_ANSWER, 0, NULL),
    IGNORED("user", OF_TEXTS),
    IGNORED("metadata", OF_ANSWER),
    IGNORED("store", OF_ANSWER),
    IGNORED("service_tier", OF_ANSWER),
    IGNORED("safety_identifier", OF_ANSWER),
    IGNORED("prompt_cache_key", OF_ANSWER),
    IGNORED("prompt_cache_retention", OF_ANSWER),

    /* llama-server */
    READ("content", OF(SERVE_TOKENIZE), READ),
    READ("tokens", OF(SERVE_DETOKENIZE), READ),
    STORED("add_special", OF(SERVE_TOKENIZE), BOOL, add_special, 0, 0),
    STORED("parse_special", OF(SERVE_TOKENIZE), BOOL, parse_special, 0, 0),
    NEUTRAL("with_pieces", OF(SERVE_TOKENIZE), 0, NULL),
    STORED("n_predict", OF_ANSWER, INT, max_tokens, -1, INT32_MAX),
    STORED("top_k", OF_ANSWER, INT, sampling.top_k, -1, 128),
    STORED("min_p", OF_ANSWER, REAL, sampling.min_p, 0, 1),
    STORED("repeat_penalty", OF_ANSWER, REAL, sampling.repeat_penalty, 0.01, 100),
    STORED("repeat_last_n", OF_ANSWER, INT, sampling.repeat_last_n, -1, INT32_MAX),
    STORED("dry_multiplier", OF_ANSWER, REAL, sampling.dry_multiplier, 0, 100),
    STORED("dry_base", OF_ANSWER, REAL, sampling.dry_base, 1, 100),
    STORED("dry_allowed_length", OF_ANSWER, INT, sampling.dry_allowed_length, 1, INT32_MAX),
    STORED("dry_penalty_last_n", OF_ANSWER, INT, sampling.dry_penalty_last_n, -1, INT32_MAX),
    READ("dry_sequence_breakers", OF_ANSWER, LIST),
    STORED("xtc_probability", OF_ANSWER, REAL, sampling.xtc_probability, 0, 1),
    STORED("xtc_threshold", OF_ANSWER, REAL, sampling.xtc_threshold, 0, 1),
    STORED("typical_p", OF_ANSWER, REAL, sampling.typical_p, 0, 1),
    STORED("top_n_sigma", OF_ANSWER, REAL, sampling.top_n_sigma, -1, 1000),
    STORED("ignore_eos", OF_ANSWER, BOOL, ignore_eos, 0, 0),
    STORED("cache_prompt", OF_ANSWER, BOOL, cache_prompt, 0, 0),
    READ("reasoning_format", OF(SERVE_CHAT), READ),
    READ("chat_template_kwargs", OF(SERVE_CHAT), OBJECT),
    READ("grammar", OF_ANSWER, READ),
    READ("json_schema", OF_ANSWER, READ),
    NEUTRAL("mirostat", OF_ANSWER, 0, MIROSTAT),
    IGNORED("mirostat_tau", OF_ANSWER), /* without mirostat */
    IGNORED("mirostat_eta", OF_ANSWER),
    NEUTRAL("dynatemp_range", OF_ANSWER, 0, "use 'temperature'"),
    IGNORED("dynatemp_exponent", OF_ANSWER), /* without dynatemp_range */
    NEUTRAL("adaptive_target", OF_ANSWER, -1, NULL),
    IGNORED("adaptive_decay", OF_ANSWER), /* without adaptive_target */
    NEUTRAL("tfs_z", OF_ANSWER, 1, "use 'min_p' or 'typical_p'"),
    NEUTRAL("penalize_nl", OF_ANSWER, 0, NULL),
    REFUSED("penalty_prompt", OF_ANSWER, NULL),
    REFUSED("samplers", OF_ANSWER, "the order of samplers is fixed"),
    NEUTRAL("min_keep", OF_ANSWER, 0, NULL),
    NEUTRAL("n_indent", OF_ANSWER, 0, NULL),
    NEUTRAL("n_probs", OF_ANSWER, 0, "use 'logprobs'"),
    NEUTRAL("n_cmpl", OF_ANSWER, 1, "use 'n'"),
    NEUTRAL("post_sampling_probs", OF_ANSWER, 0, "probabilities are those of the model"),
    NEUTRAL("t_max_predict_ms", OF_ANSWER, 0, "use 'max_tokens'"),
    NEUTRAL("return_tokens", OF_ANSWER, 0, NULL),
    NEUTRAL("response_fields", OF_ANSWER, 0, NULL),
    NEUTRAL("lora", OF_ANSWER, 0, NULL),
    NEUTRAL("image_data", OF_ANSWER, 0, "images are not supported"),
    NEUTRAL("thinking_forced_open", OF(SERVE_CHAT), 0, NULL),
    NEUTRAL("parse_tool_calls", OF(SERVE_CHAT), 1, NULL),
    NEUTRAL("reasoning_budget", OF(SERVE_CHAT), -1, NULL),
    NEUTRAL("thinking_budget_tokens", OF(SERVE_CHAT), -1, NULL),
    IGNORED("n_keep", OF_ANSWER), /* a full context ends the answer */
    IGNORED("n_discard", OF_ANSWER),
    IGNORED("n_cache_reuse", OF_ANSWER),
    IGNORED("id_slot", OF_ANSWER),
    IGNORED("timings_per_token", OF_ANSWER),
    IGNORED("return_progress", OF_ANSWER),
    IGNORED("backend_sampling", OF_ANSWER),
    IGNORED("speculative.n_max", OF_ANSWER),
    IGNORED("speculative.n_min", OF_ANSWER),
    IGNORED("speculative.p_min", OF_ANSWER),

    /* vLLM */
    STORED("repetition_penalty", OF_ANSWER, REAL, sampling.repeat_penalty, 0.01, 100),
    READ("stop_token_ids", OF_ANSWER, LIST),
    STORED("min_tokens", OF_ANSWER, INT, sampling.min_tokens, 0, INT32_MAX),
    NEUTRAL("include_stop_str_in_output", OF_ANSWER, 0, NULL),
    NEUTRAL("use_beam_search", OF_ANSWER, 0, NULL),
    NEUTRAL("length_penalty", OF_ANSWER, 1, NULL),
    NEUTRAL("early_stopping", OF_ANSWER, 0, NULL),
    NEUTRAL("skip_special_tokens", OF_ANSWER, 1, "special tokens have no text"),
    NEUTRAL("spaces_between_special_tokens", OF_ANSWER, 1, NULL),
    REFUSED("truncate_prompt_tokens", OF_TEXTS, "shorten the prompt"),
    REFUSED("prompt_logprobs", OF_ANSWER, NULL),
    REFUSED("allowed_token_ids", OF_ANSWER, "use 'logit_bias'"),
    NEUTRAL("bad_words", OF_ANSWER, 0, "use 'logit_bias'"),
    READ("continue_final_message", OF(SERVE_CHAT), READ),
    READ("add_generation_prompt", OF(SERVE_CHAT), READ),
    NEUTRAL("add_special_tokens", OF(SERVE_CHAT), 0, NULL),
    NEUTRAL("add_special_tokens", OF(SERVE_COMPLETION) | OF(SERVE_EMBEDDING), 1, "give token ids"),
    NEUTRAL("documents", OF(SERVE_CHAT), 0, "use 'chat_template_kwargs'"),
    REFUSED("chat_template", OF(SERVE_CHAT), "start the server with --template"),
    NEUTRAL("mm_processor_kwargs", OF_TEXTS, 0, NULL),
    READ("guided_json", OF_ANSWER, READ),
    READ("guided_regex", OF_ANSWER, READ),
    READ("guided_choice", OF_ANSWER, READ),
    READ("guided_grammar", OF_ANSWER, READ),
    READ("structured_outputs", OF_ANSWER, OBJECT),
    REFUSED("structural_tag", OF_ANSWER, "use 'structured_outputs' or 'tools'"),
    IGNORED("guided_decoding_backend", OF_ANSWER),
    REFUSED("guided_whitespace_pattern", OF_ANSWER, "white space in JSON is fixed"),
    REFUSED("logits_processors", OF_ANSWER, NULL),
    NEUTRAL("return_tokens_as_token_ids", OF_ANSWER, 0, NULL),
    NEUTRAL("return_token_ids", OF_ANSWER, 0, NULL),
    NEUTRAL("include_reasoning", OF(SERVE_CHAT), 1, NULL),
    REFUSED("thinking_token_budget", OF(SERVE_CHAT), NULL),
    REFUSED("repetition_detection", OF_ANSWER, NULL),
    REFUSED("cache_salt", OF_TEXTS, "'cache_prompt': false evaluates the whole prompt"),
    REFUSED("kv_transfer_params", OF_TEXTS, NULL),
    NEUTRAL("vllm_xargs", OF_ANSWER, 0, NULL),
    IGNORED("priority", OF_TEXTS),
    IGNORED("request_id", OF_TEXTS),

    /* Ollama */
    NEUTRAL("options", OF_TEXTS, 0, "set its fields in the request itself"),
    REFUSED("think", OF_ANSWER, "use 'chat_template_kwargs'"),
    NEUTRAL("format", OF_ANSWER, 0, "use 'response_format'"),
    REFUSED("system", OF_ANSWER, "send a message with the role system"),
    REFUSED("template", OF_ANSWER, "start the server with --template"),
    REFUSED("context", OF_ANSWER, "send the whole prompt: the server keeps its beginning"),
    NEUTRAL("images", OF_ANSWER, 0, "images are not supported"),
    REFUSED("num_predict", OF_ANSWER, "use 'max_tokens'"),
    REFUSED("num_ctx", OF_TEXTS, "start the server with -c"),
    REFUSED("truncate", OF(SERVE_EMBEDDING), "shorten the input"),
    IGNORED("num_keep", OF_ANSWER),
    IGNORED("keep_alive", OF_TEXTS),
    IGNORED("raw", OF(SERVE_COMPLETION)), /* prompts are always raw */
};
/* clang-format on */
const size_t serve_num_fields = sizeof(serve_fields) / sizeof(serve_fields[0]);
