/* The table of commands with their texts for help. */
#include "tools/cli/commands.h"

#include <string.h>

#include "core/base/nearest.h"
#include "tools/cli/console.h"

const struct command commands[] = {
    {"generate", "[TEXT | -p TEXT | -f FILE | --ids 1,2,3] [options]", "Continue a prompt",
     "Text is printed to standard output as it is generated, and no other text is printed there. "
     "The device and the statistics are printed to standard error. Sampling order: logit bias, "
     "penalties (repetition, presence, frequency), DRY, top-k, top-p, min-p, temperature, "
     "draw.\n\n"
     "With `--session FILE` the session is stored in FILE, also after Ctrl-C. Of the next "
     "prompt, only the part that differs from the stored text is evaluated. If no prompt is "
     "given, the text continues at its end, with the next random numbers of its seed. FILE only "
     "fits the same model, `--kv-type` and precision of kernels; other sessions are refused. It "
     "needs 32 KiB per token for a model of 1B and 128 KiB for 8B ([formats.md](formats.md), "
     "\"Session files\").\n\n"
     "`--json` prints one object at the end, with these fields:\n\n"
     "- `prompt_ids`, `text`, and `tokens` with the stop id that ended the answer\n\n"
     "- `finish_reason`: `eos`, `stop`, `length`, `context`, `cancelled` or `device_lost`\n\n"
     "- `timings`: `load_ms compile_ms prefill_ms first_token_ms decode_ms prefill_tps "
     "decode_tps`\n\n"
     "- `counters`: `load`, `prefill` and `decode`, each with `tokens submits readbacks "
     "dispatches barriers buffers_created programs_linked readback_bytes upload_bytes pages_used "
     "pages_shared prefix_hit_tokens`\n\n"
     "- `executor` (`dispatch` or `persistent`) and `executor_reason`\n\n"
     "- `device`: `name node driver software`\n\n"
     "- `weight_bytes` on the device\n\n"
     "- `passes`: `most tokens timed_tokens layer_ms head_ms`. `most` is the maximum number of "
     "tokens of a prefill pass. `tokens` is that of the next pass, and is lower on a slow "
     "device. `timed_tokens` is the number of tokens of the last timed pass, and `layer_ms` is "
     "the time of one of its layers. `head_ms` is the estimated time of the head's largest "
     "dispatch. `timed_tokens` and the times are 0 if no pass was timed.\n\n"
     "- `kernels`: list of `phase op name variant origin sha256 fallback`\n\n"
     "A submit is an entry into the driver that starts work or waits for it: a flush, a wait on "
     "a fence, a map. `prefill` has one more for each program that is compiled for it "
     "(`programs_linked`). The first token's sampling counts as `prefill`; its time is in "
     "`first_token_ms` alone.\n\n"
     "`--profile` adds these fields, which are null if it is not given:\n\n"
     "- `profile`: list of `phase op kernel calls bytes gpu_us share gbps copy_share`. `share` "
     "is the operation's share of the phase's GPU time. `bytes` counts the weights, keys and "
     "values that were read. `copy_share` is their rate relative to a plain copy on this "
     "device.\n\n"
     "- `timeline`: list of `host_us cpu_record_us gpu_us readback_us wall_us timers`, one per "
     "decoded token. `wall_us` is the sum of the other times. `timers` is false for every other "
     "token, which is measured without timers. A software renderer computes while the host "
     "records, and only timers separate the two. In `bench`, the list has 16 tokens of a "
     "separate run.\n\n"
     "- `timer_us`: the cost of a timer, which is subtracted from each dispatch\n\n"
     "A value is null if the device cannot measure it. Without `--json`, a table follows the "
     "statistics ([performance.md](performance.md)).",
     0, 1, command_generate, command_generate_check, "prompt"},
    {"chat", "[options]", "Talk with a model",
     "At a terminal, this is a conversation with line editing and history. From a pipe, each "
     "line is a message. Answers are printed to standard output, everything else to standard "
     "error. With `--messages`, the messages of a file are answered once; if the last one is an "
     "assistant's text, the answer continues it.\n\n"
     "A line that ends with `\\` continues in the next one; `\"\"\"` begins and ends a message "
     "of several lines. Pasted text is one message, even with several lines, if the terminal "
     "marks pastes (`ESC[?2004h`, most do). Lines that begin with a slash are commands: `/help`, "
     "`/reset`, `/undo`, `/retry`, `/set NAME VALUE`, `/save FILE`, `/load FILE`, `/system "
     "TEXT`, `/stats`, `/model`, `/quit`; `//` begins a message with a slash. Ctrl-C stops an "
     "answer or drops the typed line, but never ends the program. Ctrl-D at the beginning of a "
     "line ends it; inside a block it ends the block first.\n\n"
     "On a terminal, answers are wrapped between words, and control characters in them are "
     "spelled (`\\x1b`). With `--raw`, and in files and pipes, answers are printed byte for "
     "byte. Characters that are typed during an answer are not shown; they begin the next "
     "message, and Ctrl-C drops them.\n\n"
     "A full context ends the conversation: the answer ends, and the next message is refused and "
     "removed. With `--context-shift`, the oldest messages after the system message leave the "
     "context, half of the room at a time, and an answer continues with its newer half.\n\n"
     "Answers stay in the conversation as the generated tokens, so that each turn only evaluates "
     "the new text. Typed text never becomes a special token. The history is in "
     "XDG_STATE_HOME/dopplergl/chat_history. `--messages` and `dopplergl template` can read a "
     "file of `/save`. NO_COLOR is honoured.\n\n"
     "With `--session FILE` the conversation in FILE continues with its evaluated keys and "
     "values. It is stored in FILE at the end, however the program ends. `/save` and `/load` "
     "without a name use FILE in between. An explicit `--system` replaces the stored system "
     "message.\n\n"
     "`--json` with `--messages`: the object of generate, and `message` (`role content`).",
     0, 0, command_chat, command_chat_check, NULL},
    {"convert", "IN OUT [options]", "Turn a model into a pack or a GGUF file",
     "Opens no device. OUT appears complete or not at all, and an existing OUT is refused without "
     "`--force`.\n\n`--json`: `out`, `tensors`, `bytes_in`, `bytes_out`.",
     2, 2, command_convert, command_convert_check, NULL},
    {"inspect", "[-m MODEL | MODEL] [options]", "Show the parts of a model",
     "Opens no device. The printed memory is that of a session, or of `--parallel` sequences. "
     "Each has `-c` tokens (default: the model's context) and a KV cache of type `--kv-type`, on "
     "a desktop GPU with the built-in kernels. `free` is part of the memory that models may use "
     "on integrated GPUs and software renderers: 75% of the free memory of this machine or of "
     "its memory cgroup. A card's own memory is read when a command opens the card. Tensors that "
     "differ only in the number of a layer or an expert share one row.\n\n"
     "`--json`:\n\n"
     "- `path`, `name`, `family`, `quantization`, `vocab`, `layers`, `hidden`, `heads`, "
     "`kv_heads`, `head_dim`, `intermediate`, `context`, `parameters`, `weight_bytes`, "
     "`tokenizer`\n\n"
     "- `stop_ids`: list of `id token origin`\n\n"
     "- `templates`: list of `name origin`\n\n"
     "- `memory`: `weight_bytes kv_bytes scratch_bytes available_bytes available_source context "
     "context_fit sequences`, or null if the model cannot be computed\n\n"
     "- `tensors`: list of `name dtype role layout shape bytes`\n\n"
     "- `skipped`: tensors, or groups of them, that the model does not use, as lines with the "
     "reason",
     0, 1, command_inspect, NULL, "model"},
    {"verify", "[-m MODEL | MODEL] [options]",
     "Check every hash of a pack, and that it makes a model",
     "Opens no device, except with `--smoke`. The smoke test compares each block of each layer "
     "with the host's arithmetic in doubles. It also judges a fixed text and the answer to \"The "
     "color of the sky is\" (docs/models.md, \"The smoke test\"). The exit code is 1 if they are "
     "wrong. A folder without hashes fails without `--smoke`.\n\n"
     "`--json`: `path`, `files`, `bytes`. If `--smoke` is given, also `smoke` (passed or not), "
     "`fault` (the check that failed), `text`, `tokens`, `nll` (nats per token of the fixed "
     "text) and `error` (largest NMSE of a block).",
     0, 1, command_verify, command_verify_check, "model"},
    {"models", "[DIR...] [options]", "List the models on this machine",
     "Opens no device. `NAME` can be given as `-m`. If no DIR is given, these places are "
     "searched:\n\n"
     "- the bundled model\n\n"
     "- the Hub cache (`HF_HUB_CACHE`, else `hub` in `HF_HOME`, else `huggingface/hub` in "
     "`XDG_CACHE_HOME`, else `~/.cache/huggingface/hub`), with the checkpoints and GGUF files of "
     "every stored revision\n\n"
     "- `dopplergl/models` in `XDG_DATA_HOME` (`~/.local/share`), the place for your own packs "
     "and files\n\n"
     "- the cache of llama.cpp (`LLAMA_CACHE`, else `llama.cpp` in `XDG_CACHE_HOME`)\n\n"
     "If DIR is given, the models in that folder are listed, two levels deep. The parts of a "
     "split GGUF model are one model. Only names and the beginning of files are read; `dopplergl "
     "inspect` shows if a model runs.\n\n"
     "A model is a GGUF file, a Hugging Face folder, a pack, a folder with a single GGUF model, "
     "or `org/name[:quant][@revision]` in the Hub cache. `quant` selects one of several GGUF "
     "files by a part of its name (`Q4_K_M`; case is ignored). `revision` is a branch, a tag, a "
     "commit or the beginning of a commit (default: `main`). Models are never downloaded; `hf "
     "download org/name` does that.\n\n"
     "`--json`: list of `name path form quantization bytes`; `form` is `pack`, `checkpoint` or "
     "`gguf`.",
     0, 3, command_models, NULL, NULL},
    {"cache", "ls | purge [KIND...] | path [options]",
     "Show and empty the cache of compiled kernels",
     "Opens no device. The folder is XDG_CACHE_HOME/dopplergl, or ~/.cache/dopplergl. `ls` "
     "prints a row for each kind of file, device and driver. `purge` deletes the files of the "
     "given kinds, or of all kinds. `path` prints the folder, even if it does not exist. Deleted "
     "files are made again when they are needed. Links and files of other programs or users are "
     "left alone.\n\n"
     "Kinds of files:\n\n"
     "- `programs`: compiled kernels. If they exceed 256 MiB, the oldest ones are deleted.\n\n"
     "- `executors`: the faster way to decode on a device, and if it works there\n\n"
     "- `tunings`: winners of `dopplergl tune`\n\n"
     "- `answers`: kernels that passed known-answer tests on a device\n\n"
     "- `hashes`: model files that were found intact\n\n"
     "Drivers have caches of their own: docs/troubleshooting.md.\n\n"
     "`--json`:\n\n"
     "- `ls`: `path`; `kinds`, a list of `kind what files bytes`; `files`, a list of `kind name "
     "device bytes modified`; and `others`, the number of files that are not DopplerGL's. "
     "`device` is null if the file does not name a device. `modified` is in seconds since "
     "1970.\n\n"
     "- `purge`: `path`, and the numbers of deleted `files` and `bytes`\n\n"
     "- `path`: `path`",
     1, 6, command_cache, command_cache_check, NULL},
    {"devices", "[options]", "List the devices and why each is or is not used",
     "Best first; `--device N` selects row N. `-v` adds each device's verdict, its memory and "
     "compute units with the source of the numbers, and its limits. It also adds three "
     "measurements: the time of a dispatch that waits for the previous one, and the rates at "
     "which memory is read and copied (read plus written). The verdict is one of `tried on "
     "hardware`, `software renderer`, `compiled only`, `does not run` and `unknown`, with a note "
     "in parentheses ([devices.md](devices.md)).\n\n"
     "`--limits NAME` shows the device with lower limits. `min` has the minimums of OpenGL ES "
     "3.1. `v3d` (Raspberry Pi 4), `mali-g52`, `adreno-630` and `intel-skl` have the limits of a "
     "chip with Mesa 25.0.7; a software renderer then uses the chip's kernels. A profile never "
     "raises a limit; its number of compute units is that of the chip.\n\n"
     "`--json`: list of `index name node driver software usable reason verdict verdict_note "
     "memory units version limits dispatch_us read_gbps copy_gbps`; the last seven are null if "
     "the device cannot be used. `memory` has `total_bytes free_bytes budget_bytes unified "
     "source` (0 bytes means unknown; `budget_bytes` is the limit for models), `units` has "
     "`compute_units wave_size source`, `limits` are those of `struct dgl_limits`.",
     0, 0, command_devices, NULL, NULL},
    {"selftest", "[NAME] [options]", "Ask a device's driver for known answers of every kernel",
     "Runs the built-in kernels, or the kernel NAME, on inputs of odd sizes and compares the "
     "results with results in doubles. From then on, a kernel that computes wrongly is not "
     "used on this device with this driver, until it passes again. `rounds`: its error is "
     "above the tolerance only by rounding, and it is still used. The first use of a program "
     "tests it too, without this command. The test takes minutes if kernels compile slowly; "
     "`--quick` runs two cases of each. Exit 1 if a kernel is wrong.\n\n"
     "`--json`: `device` (`name node driver software`), `kernels` (list of `name op verdict "
     "cases reason`; `verdict` is `passed`, `rounds`, `wrong` or `skipped`), `passed`, "
     "`rounds`, `wrong`, `skipped`.",
     0, 1, command_selftest, NULL, NULL},
    {"tokenize", "[-m MODEL | -m tokenizer.json] [-p TEXT] [options]", "Text to token ids and back",
     "Opens no device. If neither `--jsonl` nor `--decode` is given, the ids of one text are "
     "printed on one line, with the tokens that the model adds. `--jsonl` reads lines of "
     "`{\"text\":…}` and writes `{\"ids\":[…],\"ids_special\":[…]}`: the ids without and with "
     "the added tokens. `--decode` reads lines of `{\"ids\":[…]}` and writes `{\"text\":…}`; "
     "unknown ids are left out, with a warning. U+0000 is preserved in both directions.\n\n"
     "`--pieces` adds `pieces` to the object: a list of `id token text`, one per id of "
     "`ids_special`. `token` is the spelling in the vocabulary, and `text` is the part of the "
     "decoded text that the id adds (an unfinished character belongs to the id that ends it). "
     "For one text without `--json`, a line per id is printed: id, token and text, separated by "
     "tabs, the last two as JSON strings.",
     0, 0, command_tokenize, command_tokenize_check, NULL},
    {"template", "[-m MODEL] --messages FILE.json [options]", "Render messages as a prompt",
     "Opens no device. Prints the messages as rendered by the model's chat template, byte for "
     "byte and without anything else. On a terminal, control characters are spelled (`\\x1b`) "
     "unless `--raw` is given. If a template raises an error, its message is the error line. "
     "The template is chat_template.jinja, else chat_template.json, else the one in "
     "tokenizer_config.json; for a GGUF file it is tokenizer.chat_template. `--template-name` "
     "selects another one: from additional_chat_templates/, from a list, or from "
     "tokenizer.chat_template.NAME ([templates.md](templates.md)).\n\n"
     "`--json`: `text`, and `ids` as a chat uses them: text of a message never becomes a "
     "control token.",
     0, 0, command_template, command_template_check, NULL},
    {"logits", "--ids 1,2,3 -o OUT.safetensors [options]", "Write the logits of a prompt",
     "The file has one tensor, `logits`, F32 [positions, vocabulary].\n\n"
     "`--json`: `out`, `rows`, `vocab`.",
     0, 0, command_logits, command_logits_check, NULL},
    {"perplexity", "(-f FILE | --texts FILE.json) [options]",
     "Measure how well a model predicts texts",
     "`-f` reads a text file byte for byte, in windows as long as the context (`-c`). Each "
     "window begins `--stride` tokens after the previous one. In the first window, every token "
     "after the first counts. In each later window, a token counts if no earlier window reached "
     "it. Each token of the text thus counts once, and is predicted from at least context minus "
     "stride tokens before it. The figures are those of the strided perplexity in Hugging Face's "
     "documentation, with one difference. If the tokenizer begins texts with a special token "
     "(BOS), that token replaces the first token of every window, as in llama.cpp. The figure of "
     "llama.cpp itself is not comparable: llama.cpp cuts the text into pieces without overlap "
     "and counts the second half of each. The command prints `PPL = 12.34 +/- 0.05`, with the "
     "standard error as llama.cpp computes it.\n\n"
     "`--texts` reads each string of a JSON array as a whole. Every position after the first of "
     "each text counts. A text longer than the context is an error, unless `--stride` is "
     "given.\n\n"
     "`--json`, which is always used with `--texts`: `nll` (summed, in nats), `tokens`, `ppl`, "
     "`ppl_error` (standard error of `ppl`). If the text is read in windows, also `windows`, "
     "`context`, `stride`.",
     0, 0, command_perplexity, command_perplexity_check, NULL},
    {"bench",
     "[-m MODEL | --shape NAME|FILE[:quant]] [options] | compare A.json B.json | load [-m MODEL] "
     "| serve URL",
     "Measure speed",
     "This command measures the loop of `generate` with greedy sampling. It first runs the first "
     "prompt of the process, and then `--warmup` runs. It then measures `-r` times the prompt "
     "(prefill, time to first token) and the tokens after it (decode). On a GPU, prompts run for "
     "0.2 s before the `--warmup` runs, because a GPU raises its clock slowly. `--sweep` adds "
     "depths and prompt lengths up to the context, `--matrix` every type of weights in every "
     "layout. `--plot` draws these results, or the time of each token if neither is given.\n\n"
     "With `--batch B`, B sequences decode together, like requests of a server. Each has its own "
     "prompt (`--depth`, at least one token). `decode_tps` counts the tokens of all sequences, "
     "in steps in which all of them decode. `decode_ms_per_token_*` is the time of a step, in "
     "which each sequence gets one token. Prefill is still that of one prompt. `--sweep` then "
     "also measures fewer sequences, and `--plot` draws a step's time and the rate by the number "
     "of sequences.\n\n"
     "`compare` compares B with A, two results of the same form of the command, and opens no "
     "device. It prints the change of each figure in per cent. It judges the means of all "
     "repetitions (`decode_tps_all`, `prefill_tps_all`); other figures are those of the reports, "
     "of which `decode_tps` is a median. A rate has a regression if its mean is more than 5% "
     "lower with p < 0.05 (Welch's t-test over the repetitions). A time of `load` or `serve` has "
     "a regression if it is more than 5% longer. The exit code is 1 if there is a regression.\n\n"
     "`load` measures loading, with files that the system was asked to forget (cold) and with "
     "files in memory (warm, the median of `-r`).\n\n"
     "`serve` sends requests to a server at URL that has OpenAI's interface, with the key in "
     "DOPPLERGL_API_KEY. It sends `--rate` requests per second, at times that only `--seed` "
     "decides, so that a slow server gets as many. Times count from the planned start of a "
     "request. [server.md](server.md) describes the figures. `-m NAME` is the `model` in the "
     "requests (default: the first of `/v1/models`).\n\n"
     "`--json` prints Doppler's benchmark result, `schemaVersion` 1: `timestamp suite runType "
     "env workload metrics raw`. `env` has a `gl` block, and its `model` object is `modelInfo`. "
     "These fields are added:\n\n"
     "- `version`, `commit`, `flags`, `model`, `manifest_hash` (SHA-256 of a pack's manifest), "
     "`quantization`, `kv_type`, `prompt_tokens`, `decode_tokens`, `depth`, `batch`, `ubatch`, "
     "`context`, `repetitions`, `warmup`\n\n"
     "- `held_bytes` (also as `weight_bytes`): the weights on the device; `file_bytes`: the "
     "tensors "
     "of the model's files, or null if the files cannot be read again\n\n"
     "- `prefill_tps` and `decode_tps` (medians), `prefill_tps_all`, `decode_tps_all`, "
     "`decode_ms_per_token_p50/p90/p99` (tokens of one readback share its time)\n\n"
     "- `ttft_ms_cold`: the process's first prompt, at depth 0, with compiling; `ttft_ms_warm`: "
     "at `--depth`\n\n"
     "- `bytes_per_token`, `decode_gbps` (read) and `copy_gbps` (a plain copy, read plus "
     "written). Reading alone may be faster; `devices -v` measures it.\n\n"
     "- `cpu_us_per_token`, `load_ms`, `compile_ms`\n\n"
     "- `peak_bytes`: the most bytes of buffers on the device at any time\n\n"
     "- `estimate_bytes`: the estimated maximum for this run. If a cache grows, it has two "
     "copies for a moment. With `--batch`, the estimate is for one sequence.\n\n"
     "- `executor`, `executor_reason`, `counters`, `device`, `kernels`, `profile`, `timeline` "
     "and `timer_us`, as in generate. Timers slow the run that they measure; "
     "`metrics.gpu_time_ms_decode` is of that run.\n\n"
     "- `raw.submit_times_ms` of the last repetition, prefill then decode\n\n"
     "- `raw.generated_token_ids`; with `--batch`, those of the first sequence, until all had "
     "ended\n\n"
     "- `sweep_depth` and `sweep_prompt`, `sweep_batch` (`batch decode_tps step_ms "
     "decode_tps_all`) and `matrix`, if they were requested\n\n"
     "- `tuned`: the stored results of `tune` that are in use, against the default, in five "
     "alternating rounds; a list as in `tune`\n\n"
     "`--json` of the other forms:\n\n"
     "- `compare`: `a`, `b`, `regression`, `metrics` (list of `name a b delta_percent`; for "
     "means also `t df p regression`)\n\n"
     "- `load`: `weight_bytes`, `cold` and `warm` (`kernels_ms device_ms model_ms session_ms "
     "bytes_per_second resident_share`), `warm_model_ms_all`\n\n"
     "- `serve`: `url`, `model`, the request options (`rate duration connections prompt_lengths "
     "answer_lengths seed slo_ttft_ms slo_itl_ms`), `requests`, `finished`, `failed`, `good`, "
     "`failures` (list of `what count`), `seconds`. `prompt_tokens` and `answer_tokens` are "
     "totals. Further fields are `tokens_by_server`, `requests_per_second`, `prompt_tps`, "
     "`answer_tps`, `goodput`, `good_share`. `ttft_ms`, `itl_ms`, `tpot_ms`, `answer_ms` and "
     "`late_ms` each have `mean p50 p90 p99 max`. The last fields are `ttft_ms_all` and "
     "`tpot_ms_all`.",
     0, 3, command_bench, command_bench_check, NULL},
    {"serve", "[-m MODEL] [options]", "Answer over HTTP as OpenAI's interface does",
     "`/v1/chat/completions`, `/v1/completions`, `/v1/embeddings`, `/v1/models`, `/tokenize`, "
     "`/detokenize`, `/health`, `/metrics`: [server.md](server.md) describes their fields, "
     "limits and errors. `listening on http://HOST:PORT` is printed to standard error once the "
     "model can answer. Standard output is the access log, with a JSON object per request.\n\n"
     "Several requests are answered at once (`--parallel`), each with the same tokens as alone "
     "(except for near ties: server.md); other requests wait. `-c` is the context of each "
     "request. The common beginning of their prompts is computed once. SIGTERM ends the server "
     "after the accepted requests are answered, with exit code 0. If a second SIGTERM arrives, "
     "the server ends at once (130). Ctrl-C works like SIGTERM, with exit code 130. SIGHUP opens "
     "--log-file again, and reads kernel files and hints again; if one of them fails, all changes "
     "are dropped.",
     0, 0, command_serve, command_serve_check, NULL},
    {"tune", "[-m MODEL] [options]", "Find the fastest kernels for a model on this device",
     "For each operation of the model that has a choice, this command measures the available "
     "kernels and values of their tunables. It uses the model's own weights (`-m "
     "synthetic:NAME:quant` for a published shape) and the GPU's clock if there is one. Each "
     "candidate must pass known-answer tests first. These operations are tuned: decoding and "
     "sampling, prefill for each number of tokens with separate kernels, passes over 2 to 64 "
     "sequences that are decoded together, and changed logits and scoring. A winner must beat "
     "the default in five alternating rounds by more than their spread; otherwise the default "
     "stays. Winners are stored in the cache folder by device, driver, kernel texts and request. "
     "Later commands use them, unless `--no-tune` is given, or an option, a file or a pinned "
     "manifest chooses the kernel. `dopplergl kernels explain` shows their origin as `tuner`. "
     "Ctrl-C ends the command between two candidates; finished operations are kept.\n\n"
     "The results have two kinds of times. The times of candidates come from the search: each is "
     "the least of three measurements at different moments, so that a candidate may seem faster "
     "than it is. `default_us` and `tuned_us` (DEFAULT and TUNED) are times of the operation "
     "without and with the winner, and are equal if the default stays. They are medians of the "
     "five alternating rounds of the default and the best candidate, which decide. `best_us` is "
     "the median of the best candidate, even if it did not win. `spread` is the difference "
     "between the largest and the smallest ratio of the two in a round. If no candidate was "
     "faster in the search, there are no rounds: `best_us` is null, `spread` is 0, and the time "
     "of the default is that of the search.\n\n"
     "`--json`:\n\n"
     "- `model`, `device`, `clock` (`gpu` or `host`), `stored`, `seconds`\n\n"
     "- `left`: the number of operations that were not reached; `left_operations`: their `op "
     "phase tokens`\n\n"
     "- `operations`: list of `op phase tokens request texts default_us tuned_us best_us spread "
     "winner best complete candidates`\n\n"
     "`candidates` is a list of `kernel tunes us verified builtin reason`; the first is the "
     "default. "
     "`us` is null if `reason` says why. If the default has a `reason`, no candidate is measured "
     "against it: all times are null, and the exit code is 1. `winner` and `best` are places in "
     "`candidates`. `complete` is false if time ended the search. `texts` identifies a set of "
     "kernel files by a SHA-256 of the operation's kernels; TEXTS is its beginning.\n\n"
     "With `--show`: list of `op phase tokens request texts kernel tunes default default_us "
     "tuned_us spread time`. With `--reset`: `device` and `removed`, the number of results.",
     0, 0, command_tune, command_tune_check, NULL},
    {"kernels",
     "list | show NAME | check [FILE|DIR] | bench NAME|FILE | diff [NAME] | new NAME --op OP | "
     "explain "
     "[options]",
     "Show kernels, why each was chosen, and begin new ones",
     "- `list` prints the names of the kernels.\n\n"
     "- `show` prints a kernel's text byte for byte. With `--generated`, it prints the text that "
     "the driver compiles for a step of a model. `--op` selects the step if the texts differ.\n\n"
     "- `diff` shows the kernels and libs of given folders and files that differ from the "
     "built-in ones of the same name, as a unified diff. The exit code is 0 with and without a "
     "difference.\n\n"
     "- `new` writes a copy of a kernel under a new name, as a start. It is the kernel that the "
     "device uses for the operation at a typical size. Without a device, it is the baseline. The "
     "copy runs wherever the original fits. The file is NAME.comp unless `-o` is given.\n\n"
     "- `explain` lists every step of a model's plan. It prints the kernel, the reason, the "
     "reasons against the other kernels, the work groups, and the number of their invocations "
     "with work. Equal layers are listed once. With `--batch B`, it lists the pass over the next "
     "tokens of B sequences that are decoded together, and the steps that sample from their "
     "logits.\n\n"
     "- `check` compiles kernels for inputs of odd sizes, runs them, and compares the results "
     "with results in doubles by the kernel's own TOLERANCE. It checks the kernels of FILE, of "
     "DIR and of the kernel options, or the built-in ones if none of these is given. The exit "
     "code is 1 if a kernel fails or no kernel ran. A kernel that cannot run here is skipped "
     "with the reason, and so is a lib that no kernel splices.\n\n"
     "- `bench` first checks a few rows and tokens of a kernel at the sizes that it times. It "
     "then prints bytes and operations per second, as a share of the rate of copying memory. The "
     "share is above 100% if the data fit into the device's caches and stay there between "
     "rounds, as with a few tokens of a small model. If `--shape` has no type of weights, each "
     "type that the kernel reads is measured. The cost of the timers is measured first and "
     "subtracted. With `--against`, two kernels compute the same requests in turn, in five "
     "rounds. A ratio above 1 means that the first kernel is faster. A difference that is not "
     "larger than the spread of the ratio is no clear difference.\n\n"
     "`list`, `show` and `diff` open no device.\n\n"
     "`--json`:\n\n"
     "- `list`: `name op variant origin sha256 summary`; `show` also `source`, and with "
     "`--generated` also `phase step shape`\n\n"
     "- `diff`: list of `name kind origin sha256 builtin diff`; `kind` is kernel or lib\n\n"
     "- `bench`: `device`, and `times`: list of the fields of `list`, `verdict cases worst reason "
     "request us best_us alone_us gbps gflops copy_gbps copy_share timer_us clock bytes flops`. "
     "With `--against` also `against`: the fields of `list`, `verdict cases worst reason us ratio "
     "ratio_spread rounds`\n\n"
     "- `explain`: the fields of `list`, `phase layer step shape reason`, `tunables`, `bytes` "
     "(of weights), `lazy` and `alternatives`. For passes over `tokens` tokens it has the sizes "
     "`groups` and `local` ([x, y, z]), and `launched` and `active`, the invocations of a "
     "dispatch and those with work. `executor executor_reason` are added if the phase is not "
     "`prefill`. `lazy` is true if the first call that needs the kernel compiles it.\n\n"
     "- `tunables` of the kernel: list of `name value origin`; `origin` is default, or the "
     "source of the value\n\n"
     "- `alternatives`, the other kernels of the operation: list of `name variant origin serves "
     "runs prefer why`. `serves` is true if the kernel is for such steps, `runs` if it could run "
     "here.\n\n"
     "- `check --compile-only`: `device`, `model`, `texts`, `compiled`, `failed`, "
     "`failed_outside_plan` and `known`\n\n"
     "- `texts`: list of `name op origin sha256 planned ms bytes memory_bytes verdict reason "
     "stats`. `sha256` is the hash of the source without comments, blank lines, indentation and "
     "`#line`. `ms` is processor time, and `bytes` is the size of the program. `verdict` is ok, "
     "refused, time, memory, blocked, crashed or known. `planned` is true if the kernel affects "
     "the exit code.",
     1, 2, command_kernels, command_kernels_check, NULL},
    {"version", "[options]", "Print the version", "`--json`: `version`, `api`.", 0, 0,
     command_version, NULL, NULL},
    {"help", "[COMMAND] [options]", "Explain a command",
     "`--man`, `--completion SHELL` and `--markdown` print the man page, shell completions and the "
     "document that are\nmade from the tables of commands and options.\n\n"
     "`--json`: list of `name usage summary options`; an option has `name letter argument type min "
     "max words help`.",
     0, 1, command_help, command_help_check, NULL},
    {0},
};

const struct command_example command_examples[] = {
    {"generate -p 'Once upon a time' -n 64", "Continue a text with the bundled model."},
    {"generate -m llama-3.2-1b-q4_k_m.gguf -f prompt.txt --temp 0",
     "Continue a file with the likeliest tokens."},
    {"chat -m Qwen/Qwen3-0.6B --system 'Answer in one sentence.'",
     "Talk with a model of the Hub cache."},
    {"convert model-folder model.gguf --quantize q4_k_m",
     "Turn a Hugging Face folder into a quantised GGUF file."},
    {"inspect -m model.gguf", "Show the parts of a model, and the memory that it needs."},
    {"verify -m model-pack --smoke", "Check the hashes of a pack, and compute with it."},
    {"models", "List the models on this machine."},
    {"cache ls", "Show the compiled kernels and other files of the cache."},
    {"devices", "Find out which GPU is used, and why another is not."},
    {"selftest --quick", "Test the kernels on a new driver."},
    {"tokenize -m model.gguf -p 'Hello'", "Show the tokens of a text."},
    {"template -m model.gguf --messages messages.json --add-generation-prompt",
     "Render a conversation as the prompt of a model."},
    {"logits -m model.gguf --ids 1,2,3 -o logits.safetensors",
     "Write the scores of the next token."},
    {"perplexity -m model.gguf -f text.txt", "Measure how well a model predicts a text."},
    {"bench -m model.gguf --json > before.json", "Measure the speed of a model."},
    {"bench compare before.json after.json", "Compare two measurements."},
    {"serve -m model.gguf --port 8080 --parallel 8", "Answer the clients of this machine."},
    {"tune -m model.gguf", "Find the fastest kernels for a model on this device."},
    {"kernels new my_norm --op norm -o my_norm.comp", "Write a starting point for a kernel."},
    {"kernels bench my_norm --kernel-file my_norm.comp --against norm_rms",
     "Compare it with the kernel that it started from."},
    {0},
};

const char *command_json_details(const struct command *command)
{
    static const char start[] = "`--json`";
    for (const char *p = command->details; p; p = (p = strstr(p, "\n\n")) ? p + 2 : NULL)
        if (strncmp(p, start, strlen(start)) == 0)
            return p;
    return NULL;
}

const struct command *command_find(const char *name)
{
    for (const struct command *c = commands; c->name; c++)
        if (strcmp(c->name, name) == 0)
            return c;
    return NULL;
}

int command_unknown(const char *name)
{
    struct dgl_nearest nearest = {.word = dgl_str_of(name)};
    for (const struct command *c = commands; c->name; c++)
        dgl_nearest_try(&nearest, c->name);
    if (name[0] == '-')
        console_error("there is no command %s; options come after the command: `dopplergl generate "
                      "-p TEXT`, for a conversation `dopplergl chat`",
                      name);
    else if (nearest.best)
        console_error("there is no command %s; did you mean %s? `dopplergl help` lists them", name,
                      nearest.best);
    else
        console_error("there is no command %s; `dopplergl help` lists them", name);
    return EXIT_USAGE;
}
