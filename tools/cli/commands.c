/* The table of commands with their texts for help. */
#include "tools/cli/commands.h"

#include <string.h>

#include "core/base/nearest.h"
#include "tools/cli/console.h"

const struct command commands[] = {
    {"generate", "[TEXT | -p TEXT | -f FILE | --ids 1,2,3] [options]", "Continue a prompt",
     "Text is printed to standard output as it is generated, and nothing else is printed "
     "there. The device and the statistics are printed to standard error. Sampling order: "
     "logit bias, penalties (repetition, presence, frequency), DRY, top-k, top-p, min-p, "
     "temperature, draw.\n\n"
     "With `--session FILE` the session is stored in FILE, also after Ctrl-C. Of the next "
     "prompt, only the part that differs from the stored text is evaluated. Without a prompt, "
     "the text continues where it ended, with the next random numbers of its seed. FILE only "
     "fits the same model, `--kv-type` and precision of kernels; other sessions are refused. "
     "It needs 32 KiB per token for a model of 1B and 128 KiB for 8B "
     "([formats.md](formats.md), \"Session files\").\n\n"
     "`--json` prints one object at the end: `prompt_ids`, `tokens` (with the stop id that "
     "ended the answer), `text`, `finish_reason` (`eos`, `stop`, `length`, `context`, "
     "`cancelled`, `device_lost`), `timings` (`load_ms compile_ms prefill_ms first_token_ms "
     "decode_ms prefill_tps decode_tps`), `counters` (`load`, `prefill`, `decode`, each with "
     "`tokens submits readbacks dispatches barriers buffers_created programs_linked "
     "readback_bytes upload_bytes pages_used pages_shared prefix_hit_tokens`), `executor` "
     "(`dispatch`, `persistent`) and `executor_reason`, `device` (`name node driver "
     "software`), `weight_bytes` (on the device), `passes` (`most tokens timed_tokens layer_ms "
     "head_ms`: tokens of a prefill pass, of the next one on a slow device, of the pass that "
     "was timed last with the time of one of its layers, and an estimate of the head's largest "
     "dispatch; 0 where none was timed), `kernels` (list of `phase op name variant origin "
     "sha256 fallback`). A submit is an entry into the driver that starts work or waits for "
     "it: a flush, a wait on a fence, a map. `prefill` has one more for each of the programs "
     "that are compiled for it (`programs_linked`). The first token's sampling counts as "
     "`prefill`; its time is in `first_token_ms` alone.\n\n"
     "With `--profile` also, null without it, `profile`: list of `phase op kernel calls bytes "
     "gpu_us share gbps copy_share`, where `share` is of the phase's GPU time, `bytes` are "
     "weights, keys and values that were read, and `copy_share` holds their rate against a "
     "plain copy on this device; `timeline`: of each decoded token (of `bench` 16 of a run of "
     "its own) `host_us cpu_record_us gpu_us readback_us wall_us` (their sum) and `timers` "
     "(every other token is measured without; a renderer in software computes while the host "
     "records, and only timers tell the two apart); `timer_us`: a timer's cost, taken from "
     "each dispatch. What the device cannot tell is null. Without `--json` a table follows the "
     "statistics ([performance.md](performance.md)).",
     0, 1, command_generate, command_generate_check, "prompt"},
    {"chat", "[options]", "Talk with a model",
     "At a terminal, this is a conversation with line editing and history. From a pipe, each "
     "line is a message. Answers are printed to standard output, everything else to standard "
     "error. With `--messages`, the messages of a file are answered once.\n\n"
     "A line that ends with `\\` continues in the next one; `\"\"\"` begins and ends a message "
     "of several lines. Pasted text is one message, even with several lines, if the terminal "
     "marks pastes (`ESC[?2004h`, most do). Lines that begin with a slash are commands: "
     "`/help`, `/reset`, `/undo`, `/retry`, `/set NAME VALUE`, `/save FILE`, `/load FILE`, "
     "`/system TEXT`, `/stats`, `/model`, `/quit`; `//` begins a message with a slash. Ctrl-C "
     "stops an answer or drops the typed line, but never ends the program. Ctrl-D at the "
     "beginning of a line ends it; inside a block it ends the block first.\n\n"
     "On a terminal, answers are wrapped between words, and control characters in them are "
     "spelled (`\\x1b`). With `--raw`, and in files and pipes, answers are printed byte for "
     "byte. Characters that are typed during an answer are not shown; they begin the next "
     "message, and Ctrl-C drops them.\n\n"
     "A full context ends the conversation: the answer ends, and the next message is refused "
     "and removed. With `--context-shift`, the oldest messages after the system message leave "
     "the context, half of the room at a time, and an answer continues with its newer half.\n\n"
     "Answers stay in the conversation as the generated tokens, so that each turn only "
     "evaluates the new text. Typed text never becomes a special token. The history is in "
     "XDG_STATE_HOME/dopplergl/chat_history. `--messages` and `dopplergl template` can read a "
     "file of `/save`. NO_COLOR is honoured.\n\n"
     "With `--session FILE` the conversation goes on where FILE has it, with the keys and "
     "values that were evaluated, and is kept there in the end, however that comes; `/save` "
     "and `/load` without a name do so in between. An explicit `--system` replaces the message "
     "that is there.\n\n"
     "`--json` with `--messages`: the object of generate, and `message` (`role content`).",
     0, 0, command_chat, command_chat_check, NULL},
    {"convert", "IN OUT [options]", "Turn a model into a pack or a GGUF file",
     "Opens no device. OUT appears complete or not at all, and an existing OUT is refused without "
     "`--force`.\n\n`--json`: `out`, `tensors`, `bytes_in`, `bytes_out`.",
     2, 2, command_convert, command_convert_check, NULL},
    {"inspect", "[-m MODEL | MODEL] [options]", "Show what a model is made of",
     "Opens no device. The memory is that of a session, or of `--parallel` sequences, of `-c` "
     "tokens (the model's context otherwise) with a cache of `--kv-type` on a\ndesktop GPU with "
     "the built-in kernels; `free` "
     "is "
     "counted in the memory that models may use on integrated GPUs and software renderers: 75% of "
     "the free memory of this machine\nor of its memory cgroup. A card's "
     "own memory is read when a command opens the card. Tensors that differ only in the number of "
     "a "
     "layer "
     "or an expert are\none row.\n\n"
     "`--json`: `path`, `name`, `family`, `quantization`, `vocab`, `layers`, "
     "`hidden`, `heads`, `kv_heads`, `head_dim`,\n`intermediate`, `context`, `parameters`, "
     "`weight_bytes`, `tokenizer`, `stop_ids` (list of `id token origin`), `templates` (list of\n"
     "`name origin`), `memory` (`weight_bytes kv_bytes scratch_bytes available_bytes "
     "available_source context context_fit sequences`, or null for a model that is\nnot computed), "
     "`tensors` (list of `name "
     "dtype "
     "role "
     "layout shape bytes`), `skipped` (tensors, or groups of them, that the\nmodel does without, "
     "as "
     "lines with the reason).",
     0, 1, command_inspect, NULL, "model"},
    {"verify", "[-m MODEL | MODEL] [options]",
     "Check every hash of a pack, and that it makes a model",
     "Opens no device, except for `--smoke`, which compares each block of each layer with the "
     "host's arithmetic in doubles and\njudges a fixed text and the answer to \"The color of the "
     "sky is\" (docs/models.md, \"The smoke test\"); exit 1 when\nthey are wrong. A folder without "
     "hashes fails without `--smoke`.\n\n`--json`: `path`, `files`, `bytes`; with `--smoke` also "
     "`smoke` (passed or not), `fault` (the check that failed), `text`, `tokens`,\n`nll` (nats per "
     "token of the fixed text), `error` (largest NMSE of a block).",
     0, 1, command_verify, command_verify_check, "model"},
    {"models", "[DIR...] [options]", "List the models on this machine",
     "Opens no device. `NAME` can be given as `-m`. Without DIR, these places are searched: "
     "the bundled model; the Hub cache (`HF_HUB_CACHE`, else `hub` in `HF_HOME`, else "
     "`huggingface/hub` in `XDG_CACHE_HOME`, else `~/.cache/huggingface/hub`) with the "
     "checkpoints and GGUF files of every stored revision; `dopplergl/models` in "
     "`XDG_DATA_HOME` (`~/.local/share`), the place for your own packs and files; and the "
     "cache of llama.cpp (`LLAMA_CACHE`, else `llama.cpp` in `XDG_CACHE_HOME`). With DIR, the "
     "models in that folder are listed, two levels deep. The parts of a split GGUF model are "
     "one model. Only names and the beginning of files are read; `dopplergl inspect` shows "
     "whether a model runs.\n\n"
     "A model is a GGUF file, a Hugging Face folder, a pack, a folder with a single GGUF "
     "model, or `org/name[:quant][@revision]` in the Hub cache. `quant` selects one of several "
     "GGUF files by a part of its name (`Q4_K_M`; case is ignored). `revision` is a branch, a "
     "tag, a commit or the beginning of a commit (default: `main`). Models are never "
     "downloaded; `hf download org/name` does that.\n\n"
     "`--json`: list of `name path form quantization bytes`; `form` is `pack`, `checkpoint` or "
     "`gguf`.",
     0, 3, command_models, NULL, NULL},
    {"cache", "ls | purge [KIND...] | path [options]",
     "Show and empty the cache of compiled kernels",
     "Opens no device. The folder is XDG_CACHE_HOME/dopplergl, or ~/.cache/dopplergl. `ls` "
     "prints a row for each kind of file, device and driver. `purge` deletes the files of the "
     "given kinds, or of all kinds. `path` prints the folder, even if it does not exist. "
     "Deleted files are made again when they are needed. Links and files of other programs or "
     "users are left alone.\n\n"
     "Kinds: `programs` (compiled kernels; beyond 256 MiB the oldest ones are deleted), "
     "`executors` (the faster way to decode on a device, and whether it works there), "
     "`tunings` (winners of `dopplergl tune`), `answers` (kernels that passed known-answer "
     "tests on a device) and `hashes` (model files that were found intact). Drivers have "
     "caches of their own: docs/troubleshooting.md.\n\n"
     "`--json`: `ls` has `path`, `kinds` (list of `kind what files bytes`), `files` (list of "
     "`kind name device bytes modified`, `device` null where the file names none, `modified` "
     "in seconds since 1970) and `others` (how many files there are not DopplerGL's); `purge` "
     "has `path`, `files` and `bytes` that are gone; `path` has `path`.",
     1, 6, command_cache, command_cache_check, NULL},
    {"devices", "[options]", "List the devices and why each is or is not used",
     "Best first; `--device N` selects row N. `-v` adds each device's verdict, its memory and "
     "compute units with the source of the numbers, its limits, and three measurements: the time "
     "of a dispatch that waits for the previous one, and the rates at which memory is read and "
     "copied (read plus written). The verdict is one of `tried on hardware`, `software renderer`, "
     "`compiled only`, `does not run` and `unknown`, with a note in parentheses "
     "([devices.md](devices.md)).\n\n"
     "`--limits NAME` shows the device with lower limits. `min` has the minimums of OpenGL ES 3.1. "
     "`v3d` (Raspberry Pi 4), `mali-g52`, `adreno-630` and `intel-skl` have the limits of a chip "
     "with Mesa 25.0.7; a software renderer then uses the chip's kernels. A profile never raises a "
     "limit; its number of compute units is that of the chip.\n\n"
     "`--json`: list of `index name node driver software usable reason verdict verdict_note memory "
     "units version limits dispatch_us read_gbps copy_gbps`; the last seven are null for a device "
     "that cannot be used. `memory` has `total_bytes free_bytes budget_bytes unified source` (0 "
     "bytes means unknown; `budget_bytes` is the limit for models), `units` has `compute_units "
     "wave_size source`, `limits` are those of `struct dgl_limits`.",
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
     "Opens no device. Without `--jsonl` and `--decode`, the ids of one text are printed on "
     "one line, with the tokens that the model adds. `--jsonl` reads lines of `{\"text\":…}` "
     "and writes `{\"ids\":[…],\"ids_special\":[…]}`: the ids without and with the added "
     "tokens. `--decode` reads lines of `{\"ids\":[…]}` and writes `{\"text\":…}`; unknown ids "
     "are left out, with a warning. U+0000 is preserved in both directions.\n\n"
     "`--pieces` adds `pieces` to the object: a list of `id token text`, one per id of "
     "`ids_special`. `token` is the spelling in the vocabulary, and `text` is the part of the "
     "decoded text that the id adds (an unfinished character belongs to the id that ends it). "
     "For one text without `--json`, a line per id is printed: id, token and text, separated "
     "by tabs, the last two as JSON strings.",
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
     "`-f` reads a text file byte for byte, in windows as long as the context (`-c`), each "
     "`--stride` "
     "tokens after the one\nbefore it. Of the first window every token after the first counts, of "
     "the others those that no window had reached: each\ntoken of the text counts once and is "
     "predicted from at least context minus stride tokens before it. So does the "
     "strided\nperplexity "
     "of Hugging Face's documentation, whose figures these are, with one difference: where the "
     "tokenizer begins texts with\na special token (BOS), that token takes the place of the first "
     "token of every window, as in llama.cpp. llama.cpp's own figure\nis not comparable: it cuts "
     "the "
     "text into pieces without overlap and counts the second half of each. Prints `PPL = 12.34 +/- "
     "0.05`,\nthe standard error as llama.cpp computes it.\n\n"
     "`--texts` reads each string of a JSON array as a whole; every position after the first of "
     "each "
     "text counts, and a text\nlonger than the context is an error, unless `--stride` is given.\n\n"
     "`--json`, and always with `--texts`: `nll` (summed, in nats), `tokens`, `ppl`, `ppl_error` "
     "(standard error of `ppl`); with windows\nalso `windows`, `context`, `stride`.",
     0, 0, command_perplexity, command_perplexity_check, NULL},
    {"bench",
     "[-m MODEL | --shape NAME|FILE[:quant]] [options] | compare A.json B.json | load [-m MODEL] "
     "| serve URL",
     "Measure speed",
     "Measures the loop of `generate`, greedily: the first prompt of the process, then, after "
     "`--warmup` runs, `-r` times the prompt\n(prefill, time to first token) and the tokens after "
     "it (decode). On a GPU\nprompts for 0.2 s come before `--warmup` runs, since it raises its "
     "clock slowly. `--sweep` adds depths and prompt lengths up to the context,\n`--matrix` every "
     "type of weights in every layout; `--plot` draws these, and without them the time of each "
     "token.\n\n"
     "With `--batch B` B sequences decode together, as requests of a server do, each after a "
     "prompt of its own (`--depth`, at least one token):\n`decode_tps` counts the tokens of all in "
     "steps in which all decode, `decode_ms_per_token_*` is a step's time for a token of each. "
     "Prefill stays\nthat of one prompt. `--sweep` then measures fewer sequences too, and `--plot` "
     "draws a step's time and the rate by their number.\n\n"
     "`compare` holds B against A: the change of each figure in per cent. It judges the means of "
     "all repetitions (`decode_tps_all`,\n`prefill_tps_all`); other figures are those of the "
     "reports, `decode_tps` a median. A rate whose mean is more than "
     "5% lower with p < 0.05 (Welch's\nt-test over the repetitions), of `load` and `serve` a time "
     "that is more than 5% longer, is a regression and exit code "
     "1. Both\nare of one form of the command. Opens no device. `load` measures loading: with "
     "files that the\nsystem was asked to forget "
     "(cold) and files in memory (warm, the median of `-r`).\n\n"
     "`serve` puts a load on a server at URL that speaks OpenAI's interface, with the key of "
     "DOPPLERGL_API_KEY: `--rate` requests a second, at times\nthat only `--seed` decides, so that "
     "a slow server gets no fewer of them; times count from when a request was to begin. "
     "[server.md](server.md)\nhas its figures. `-m NAME` is the `model` it asks for (default: the "
     "first of `/v1/models`).\n\n"
     "`--json` is Doppler's benchmark result (`schemaVersion` 1: `timestamp suite runType env "
     "workload metrics raw`; `env` has a `gl`\nblock, its `model` object is `modelInfo`) with, "
     "beside it, `version`, `commit`, `flags`, `model`, `manifest_hash` (SHA-256 of a\npack's "
     "manifest), `quantization`, `kv_type`, `prompt_tokens`, `decode_tokens`, `depth`, `batch`, "
     "`ubatch`, `context`, `repetitions`,\n`warmup`, `weight_bytes`, `prefill_tps` and "
     "`decode_tps` (medians), `prefill_tps_all`, `decode_tps_all`,\n"
     "`decode_ms_per_token_p50/p90/p99` (tokens of one readback share its time), `ttft_ms_cold` "
     "(the process's first prompt, at\ndepth 0, with compiling), `ttft_ms_warm` (at `--depth`), "
     "`bytes_per_token`, `decode_gbps` (read), `copy_gbps` (a plain copy, read plus\nwritten; "
     "reading alone may be faster, `devices -v` measures it), `cpu_us_per_token`, `peak_bytes` (of "
     "buffers on the device, the most at\nany time), `estimate_bytes` (the most that this run was "
     "estimated to take: a cache that grows has two copies for a moment; of `--batch` for one "
     "sequence),\n`load_ms`, `compile_ms`, `executor`, `executor_reason`, `counters` and "
     "`device` and `kernels` as in generate, `raw.submit_times_ms`\n(of the last repetition, "
     "prefill then decode), `raw.generated_token_ids` (of `--batch` the first sequence's, until "
     "all had ended), `profile`, `timeline` and `timer_us` as "
     "there (timers slow the run that they measure, which `metrics.gpu_time_ms_decode` is of),\n"
     "where they were asked for `sweep_depth` and `sweep_prompt`, `sweep_batch` (`batch decode_tps "
     "step_ms decode_tps_all`), `matrix`; `tuned`: what `tune` stored and is in use "
     "against the default, five rounds in turn, a list as that of\n`tune`.\n"
     "Of `compare`: `a`, `b`, `regression`, `metrics` (list of `name a b delta_percent`, of means "
     "also `t df p regression`). Of `load`: `weight_bytes`,\n`cold` and `warm` (`kernels_ms "
     "device_ms model_ms session_ms bytes_per_second resident_share`), `warm_model_ms_all`.\nOf "
     "`serve`: `url`, `model`, what was asked for (`rate duration connections prompt_lengths "
     "answer_lengths seed slo_ttft_ms slo_itl_ms`),\n`requests`, `finished`, `failed`, `good`, "
     "`failures` (list of `what count`), `seconds`, `prompt_tokens`, `answer_tokens` of all, "
     "`tokens_by_server`,\n`requests_per_second`, `prompt_tps`, `answer_tps`, `goodput`, "
     "`good_share`, `ttft_ms`, `itl_ms`, `tpot_ms`, `answer_ms`, `late_ms` (each `mean p50\np90 "
     "p99 "
     "max`), `ttft_ms_all`, `tpot_ms_all`.",
     0, 3, command_bench, command_bench_check, NULL},
    {"serve", "[-m MODEL] [options]", "Answer over HTTP as OpenAI's interface does",
     "`/v1/chat/completions`, `/v1/completions`, `/v1/embeddings`, `/v1/models`, `/tokenize`, "
     "`/detokenize`, `/health`, `/metrics`: [server.md](server.md) describes their fields, "
     "limits and errors. `listening on http://HOST:PORT` is printed to standard error once the "
     "model can answer. After that, standard error is the access log, with a JSON object per "
     "request.\n\n"
     "Several requests are answered at once (`--parallel`), each with the same tokens as alone "
     "(except for near ties: server.md); other requests wait. `-c` is the context of each "
     "request. The common beginning of their prompts is computed once. SIGTERM ends the server "
     "after the accepted requests are answered, with exit code 0. A second SIGTERM ends it at "
     "once (130). Ctrl-C works like SIGTERM, with exit code 130. SIGHUP reads kernel files and "
     "hints again, all of them or none.",
     0, 0, command_serve, command_serve_check, NULL},
    {"tune", "[-m MODEL] [options]", "Find the fastest kernels for a model on this device",
     "For each operation of the model that has a choice, this command measures the available "
     "kernels and values of their tunables. It uses the model's own weights (`-m "
     "synthetic:NAME:quant` for a published shape) and the GPU's clock if there is one. Each "
     "candidate must pass known-answer tests first. The tuned operations are those of decoding "
     "and sampling, of prefill for each number of tokens that has kernels of its own, of "
     "passes over 2 to 64 sequences that are decoded together, and of changed logits and "
     "scoring. A winner must beat the default in five alternating rounds by more than their "
     "spread; otherwise the default stays. Winners are stored in the cache folder by device, "
     "driver, kernel texts and request. Later commands use them (unless `--no-tune` is given), "
     "except where an option, a file or a pinned manifest chooses. `dopplergl kernels explain` "
     "shows their origin as `tuner`. Ctrl-C ends the command between two candidates; finished "
     "operations are kept.\n\n"
     "The results have two kinds of times. The times of candidates come from the search: each "
     "is the least of three measurements at different moments, so that a candidate may seem "
     "faster than it is. `default_us` and `tuned_us` (DEFAULT and TUNED) are times of the "
     "operation without and with the winner, and are equal if the default stays. They are "
     "medians of the five alternating rounds of the default and the best candidate, which "
     "decide. `best_us` is the median of the best candidate, even if it did not win. `spread` "
     "is the difference between the largest and the smallest ratio of the two in a round. If "
     "no candidate was faster in the search, there are no rounds: `best_us` is null, `spread` "
     "is 0, and the time of the default is that of the search.\n\n"
     "`--json`: `model`, `device`, `clock` (`gpu`, `host`), `stored`, `seconds`, `left` (how "
     "many operations were not reached), `left_operations` (`op phase tokens` of them), "
     "`operations`: a list of `op phase tokens request texts default_us tuned_us best_us "
     "spread winner best complete candidates`; `winner` and `best` are places in `candidates`, "
     "`texts` tells sets of kernel files apart (a SHA-256 of the operation's kernels; TEXTS is "
     "how it begins). The first of `candidates` is the default, a list of `kernel tunes us "
     "verified reason` (`us` is null where `reason` says why; where the default has one, "
     "nothing is measured against it: all times are null, and the exit code is 1); `complete` "
     "is false where time ended the search. With `--show` a list of `op phase tokens request "
     "texts kernel tunes default default_us tuned_us spread time`, with `--reset` `device` and "
     "`removed`, the number of results.",
     0, 0, command_tune, command_tune_check, NULL},
    {"kernels",
     "list | show NAME | check [FILE|DIR] | bench NAME | diff [NAME] | new NAME --op OP | explain "
     "[options]",
     "Show kernels, why each was chosen, and begin new ones",
     "`list` names them, `show` prints a kernel's text byte for byte, with `--generated` the text "
     "that the driver gets for a step of\na model (`--op`: of which, where they differ). `diff` "
     "shows as a unified diff how kernels and libs of given folders and files\ndiffer from the "
     "built-in ones of their names (exit code 0 with and without a difference). `new` writes a "
     "kernel to begin with,\nNAME.comp unless `-o` says otherwise: a copy of a built-in one under "
     "a new name, which runs wherever it serves.\n`explain` lists every step of a model's plan "
     "with the kernel that it got, the reason, why not another, work groups and how\nmany of "
     "their invocations have work; layers that are alike are told once. With `--batch B` it lists "
     "the\npass over the next "
     "tokens of B sequences that are written together, and what draws from their "
     "logits.\n\n`check` compiles "
     "kernels "
     "for inputs of odd sizes, runs them and compares with results in doubles by the kernel's own "
     "TOLERANCE: those of FILE,\nof DIR and of the kernel options, without any of them the "
     "built-in ones. Exit code 1 when one fails or none ran; a kernel that cannot run here, or a "
     "lib "
     "that no kernel splices, is\nskipped, with the reason. `bench` checks one at the sizes that "
     "it times, of which it compares a few rows and tokens, then times it: bytes and operations "
     "per "
     "second, as a share of what copying memory reaches (above 100% where the data fit into\nthe "
     "device's "
     "caches and stay there between rounds, as few tokens of a small model do).\nWithout a type of "
     "weights in `--shape` "
     "it does so for each that the kernel reads.\n\n`list`, `show`, `diff` and `new` open no "
     "device.\n\n`--json`: `list` has `name op variant origin sha256 "
     "summary`, `show` also "
     "`source` (with `--generated` also `phase step shape`), `diff` is a list\nof `name kind "
     "origin sha256 builtin diff` (`kind`: kernel or lib), `explain` also `phase layer step "
     "shape\nreason`, `tunables` (of its kernel: list of `name value origin`; `origin` is default, "
     "or who "
     "said so), for passes over `tokens` tokens "
     "the "
     "sizes `groups` and `local` ([x, y, z]), `launched` and `active` (invocations\nof a dispatch, "
     "and those with work), `bytes` (of weights), `lazy` (compiled by the first call that needs "
     "it), `alternatives` (the other kernels of the "
     "operation: list of\n`name variant origin serves runs prefer why`; `serves`: it is for such "
     "steps, `runs`: it could run here), and `executor\nexecutor_reason` where the phase is not "
     "`prefill`; `check --compile-only` has `device`, `model`, `texts` (list of `name op origin "
     "sha256 planned ms bytes memory_bytes verdict\nreason stats`; `ms`: processor time, `bytes`: "
     "size of the program, `verdict`: ok, refused, time, memory, blocked, crashed or known, "
     "`planned`: affects the exit code), `compiled`, `failed`,\n`failed_outside_plan` and `known`.",
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
