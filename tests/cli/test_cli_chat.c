/* chat at a real pseudo terminal: editing, history, signals, commands, reuse of the prefix. */
#include "tests/support/test.h"

#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/base/file.h"
#include "core/base/json.h"
#include "tests/support/process.h"
#include "tests/support/terminal.h"

#define CHAT      "chat", "--device", "any", "--temp", "0"
#define INTERRUPT "\003"
#define END       "\004"
#define ARROW_UP  "\033[A"

/* A separate home for every case, and a terminal. */
struct fixture {
    char *home, *state;
    struct terminal t;
};

static int set_up(void **state)
{
    struct fixture *f = calloc(1, sizeof(*f));
    struct dgl_buf text = {0};
    f->home = test_tmpdir();
    dgl_buf_printf(&text, "XDG_STATE_HOME=%s/state", f->home);
    f->state = dgl_buf_take(&text);
    *state = f;
    return 0;
}

static int tear_down(void **state)
{
    struct fixture *f = *state;
    terminal_finish(&f->t);
    test_tmpdir_remove(f->home);
    free(f->state);
    free(f);
    return 0;
}

static struct terminal *start(struct fixture *f, const char *const *args)
{
    const char *const env[] = {f->state, "NO_COLOR=1", NULL};
    terminal_start(&f->t, args, env);
    terminal_expect(&f->t, "/help lists the commands");
    terminal_expect(&f->t, "> ");
    return &f->t;
}

/* 12 tokens per answer, so that the reason for its end is known. */
static struct terminal *start_short(struct fixture *f)
{
    const char *const args[] = {CHAT, "-n", "12", NULL};
    return start(f, args);
}

/* Types a line and waits until the answer is complete. The terminal shows the typed text. Returns
 * the answer, borrowed until the next wait. */
static const char *ask(struct terminal *t, const char *line)
{
    terminal_send(t, line);
    terminal_send(t, "\r");
    terminal_expect(t, "\n");
    return terminal_expect(t, "\n> ");
}

static char *saved(struct fixture *f, struct terminal *t, const char *name)
{
    struct dgl_buf line = {0};
    char *path = dgl_path_join(f->home, name), *text = NULL;
    size_t len;
    dgl_buf_printf(&line, "/save %s\r", path);
    terminal_send(t, line.p);
    terminal_expect(t, " written to");
    terminal_expect(t, "> ");
    assert_int_equal(dgl_file_slurp(NULL, path, 1 << 20, &text, &len), DGL_OK);
    free(path);
    dgl_buf_finish(&line);
    return text;
}

static void end_chat(struct terminal *t, int code)
{
    terminal_send(t, END);
    assert_int_equal(terminal_wait(t), code);
}

/* ---- ending ---------------------------------------------------------------------------------- */

static void ends_at_end_of_input(void **state)
{
    struct terminal *t = start_short(*state);
    end_chat(t, 0);
    assert_true(terminal_is_plain(t));
}

static void goes_on_after_an_interrupt_of_an_empty_line(void **state)
{
    struct terminal *t = start_short(*state);
    terminal_send(t, INTERRUPT);
    terminal_expect(t, "Ctrl-D ends the chat)");
    terminal_expect(t, "> ");
    terminal_send(t, "typed ahead" INTERRUPT); /* the terminal drops unread input */
    terminal_expect(t, "^C");
    terminal_expect(t, "> ");
    end_chat(t, 0);
    assert_true(terminal_is_plain(t));
}

/* No such key leaves characters in the line. */
static void keys_without_a_meaning_are_ignored(void **state)
{
    static const char *const keys[] = {"\033[15~", "\033[1;2A", "\033[1;5D", "\033[5~",
                                       "\033[2~",  "\033[200~", "\033[201~", "\033[1;6H"};
    struct terminal *t = start_short(*state);
    for (size_t i = 0; i < sizeof(keys) / sizeof(keys[0]); i++)
        terminal_send(t, keys[i]);
    terminal_send(t, "/quit\r");
    assert_int_equal(terminal_wait(t), 0);
}

static void ends_with_quit(void **state)
{
    static const char *const words[] = {"/quit\r", "/exit\r", "/bye\r"};
    for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
        struct terminal *t = start_short(*state);
        terminal_send(t, words[i]);
        assert_int_equal(terminal_wait(t), 0);
        terminal_finish(t);
    }
}

static void signal_gives_the_terminal_back(void **state)
{
    static const int numbers[] = {SIGTERM, SIGHUP, SIGQUIT};
    for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++) {
        struct fixture *f = *state;
        struct terminal *t = start_short(f);
        terminal_send(t, "half a line");
        terminal_expect(t, "half a line");
        assert_false(terminal_is_plain(t));
        assert_int_equal(kill(t->pid, numbers[i]), 0);
        assert_int_equal(terminal_wait(t), 130);
        assert_true(terminal_is_plain(t));
        terminal_finish(t);
    }
}

/* ---- replies of the model ----------------------------------------------------------------------
 */

static void answers_stream(void **state)
{
    const char *const args[] = {CHAT, "--ignore-eos", NULL};
    struct terminal *t = start(*state, args);
    terminal_send(t, "/set n-predict\r");
    terminal_expect(t, "  n-predict            -1");
    terminal_expect(t, "> ");
    /* An earlier answer compiles the kernels and shows its progress. */
    terminal_send(t, "/set n-predict 2\r");
    terminal_expect(t, "> ");
    ask(t, "Hello.");
    terminal_send(t, "/set n-predict -1\r");
    terminal_expect(t, "> ");
    terminal_send(t, "Tell me a story.\r");
    terminal_expect(t, "\n");
    /* Words appear while the answer is far from complete: without a limit it fills the context. */
    assert_true(strlen(terminal_expect(t, " ")) < 200);
    terminal_expect(t, " ");
    terminal_send(t, INTERRUPT);
    terminal_expect(t, "(stopped)");
    terminal_expect(t, "> ");
    /* The program continues, and the conversation contains the interrupted answer. */
    terminal_send(t, "/stats\r");
    terminal_expect(t, "cancelled");
    terminal_expect(t, "4 messages, 2 answers");
    terminal_expect(t, "> ");
    end_chat(t, 0);
}

static void interrupt_drops_a_line(void **state)
{
    struct terminal *t = start_short(*state);
    terminal_send(t, "never sent");
    terminal_expect(t, "never sent");
    terminal_send(t, INTERRUPT);
    terminal_expect(t, "^C");
    terminal_expect(t, "> ");
    terminal_send(t, "/stats\r");
    terminal_expect(t, "0 messages, 0 answers");
    terminal_expect(t, "> ");
    end_chat(t, 0);
}

/* Each turn evaluates only new tokens: the whole previous turn is reused. */
static void second_turn_reuses_the_first(void **state)
{
    struct terminal *t = start_short(*state);
    int used, reused, prompt;
    ask(t, "Tell me about a dog.");
    terminal_send(t, "/stats\r");
    terminal_expect(t, "prompt: 13 tokens, 0 reused");
    terminal_expect(t, "context: ");
    const char *text = terminal_expect(t, " of 2048 tokens used");
    assert_int_equal(sscanf(text, "%d", &used), 1);
    assert_true(used >= 13 + 11);
    ask(t, "And then?");
    terminal_send(t, "/stats\r");
    terminal_expect(t, "prompt: ");
    text = terminal_expect(t, " reused");
    assert_int_equal(sscanf(text, "%d tokens, %d", &prompt, &reused), 2);
    assert_int_equal(reused, used);
    assert_true(prompt > reused);
    terminal_expect(t, "> ");
    end_chat(t, 0);
}

static void full_context_is_explained(void **state)
{
    const char *const args[] = {CHAT, "-c", "40", "--ignore-eos", NULL};
    struct terminal *t = start(*state, args);
    terminal_send(t, "Tell me a story.\r");
    terminal_expect(t, "(the context of 40 tokens is full: /reset begins anew");
    terminal_expect(t, "> ");
    terminal_send(t, "Go on.\r");
    terminal_expect(t, "error: the conversation has ");
    terminal_expect(t, "/reset");
    terminal_expect(t, "> ");
    terminal_send(t, "/reset\r");
    terminal_expect(t, "a new conversation");
    terminal_send(t, "Hi\r");
    terminal_expect(t, "(the context of 40 tokens is full");
    terminal_expect(t, "> ");
    end_chat(t, 0);
}

static void special_tokens_stay_text(void **state)
{
    struct terminal *t = start_short(*state);
    ask(t, "<|end|>");
    terminal_send(t, "/stats\r");
    /* <|user|> \n, about seven tokens of plain text, <|end|> \n <|assistant|> \n. If the text were
     * one special token, only seven tokens would remain. */
    terminal_expect(t, "prompt: ");
    const char *text = terminal_expect(t, " tokens");
    assert_true(atoi(text) > 8);
    terminal_expect(t, "> ");
    end_chat(t, 0);
}

/* The conversation continues without end, and reports once that the model no longer sees all of it.
 */
static void context_shifts_when_asked(void **state)
{
    const char *const args[] = {CHAT, "-c", "64", "--ignore-eos", "-n", "16", "--context-shift",
                                NULL};
    struct terminal *t = start(*state, args);
    for (int i = 0; i < 2; i++)
        ask(t, "Tell me a story.");
    terminal_send(t, "Tell me a story.\r");
    terminal_expect(t, "(the context is full: the model no longer sees the oldest 4 messages)");
    terminal_expect(t, "> ");
    terminal_send(t, "/stats\r");
    terminal_expect(t, "6 messages, 3 answers");
    terminal_expect(t, "> ");
    assert_null(strstr(ask(t, "Go on."), "no longer sees"));
    end_chat(t, 0);
}

/* Words are not cut, and the text is otherwise unchanged. */
static void answers_are_wrapped(void **state)
{
    const char *const args[] = {CHAT, "--ignore-eos", "-n", "60", NULL};
    struct fixture *f = *state;
    struct terminal *t = start(f, args);
    terminal_send(t, "Tell me a story.\r");
    terminal_expect(t, "\n");
    char *answer = checked(strdup(terminal_expect(t, "\n(cut off"))), *line = answer;
    terminal_expect(t, "\n> ");
    size_t breaks = 0;
    for (char *end; (end = strchr(line, '\n')) != NULL; line = end + 1, breaks++) {
        assert_in_range(end - line, 0, 80);
        *end = ' ';
    }
    assert_true(breaks >= 1);
    char *text = saved(f, t, "talk.json");
    for (char *own; (own = strstr(text, "\\n")) != NULL;) { /* the answer's own newlines */
        *own = ' ';
        memmove(own + 1, own + 2, strlen(own + 2) + 1);
    }
    assert_contains(text, answer);
    end_chat(t, 0);
    free(text);
    free(answer);
}

/* It is not shown before its line begins, and then it can be edited and sent. */
static void typing_waits_for_the_next_line(void **state)
{
    const char *const args[] = {CHAT, "--ignore-eos", "-n", "150", NULL};
    struct fixture *f = *state;
    struct terminal *t = start(f, args);
    terminal_send(t, "Tell me a story.\r");
    terminal_expect(t, "\n");
    terminal_expect(t, " "); /* the first word: the answer has begun */
    terminal_send(t, "kept ahead!\177");
    const char *answer = terminal_expect(t, "\n(cut off");
    assert_null(strstr(answer, "kept"));
    terminal_expect(t, "> kept ahead");
    terminal_send(t, "\r");
    terminal_expect(t, "(cut off");
    terminal_expect(t, "> ");
    char *text = saved(f, t, "talk.json");
    assert_contains(text, "\"kept ahead\"");
    end_chat(t, 0);
    assert_true(terminal_is_plain(t));
    free(text);
}

static void answers_are_taken_back_and_tried_again(void **state)
{
    struct fixture *f = *state;
    struct terminal *t = start_short(f);
    ask(t, "Tell me about a dog.");
    char *first = saved(f, t, "a.json");
    ask(t, "And a cat?");
    terminal_send(t, "/undo\r");
    terminal_expect(t, "2 messages taken back, 2 left");
    terminal_expect(t, "> ");
    char *again = saved(f, t, "b.json");
    assert_string_equal(again, first);
    free(again);
    terminal_send(t, "/retry\r");
    terminal_expect(t, "greedy");
    terminal_expect(t, "\n> ");
    again = saved(f, t, "c.json");
    assert_string_equal(again, first);
    free(again);
    terminal_send(t, "/set temp 5\r/set top-k=0\r"); /* another seed, another answer */
    terminal_expect(t, "temp                 5");
    terminal_expect(t, "top-k                0");
    terminal_expect(t, "> ");
    terminal_send(t, "/retry\r");
    terminal_expect(t, "\n> ");
    again = saved(f, t, "d.json");
    assert_true(strcmp(again, first) != 0);
    free(again);
    free(first);
    end_chat(t, 0);
}

/* ---- typing ---------------------------------------------------------------------------------- */

static void arrow_up_recalls(void **state)
{
    struct fixture *f = *state;
    struct terminal *t = start_short(f);
    ask(t, "Tell me about a dog.");
    terminal_send(t, ARROW_UP);
    terminal_expect(t, "Tell me about a dog.");
    terminal_send(t, "\r");
    terminal_expect(t, "\n");
    terminal_expect(t, "\n> ");
    end_chat(t, 0);
    terminal_finish(t);
    /* In another chat too. */
    t = start_short(f);
    terminal_send(t, ARROW_UP);
    terminal_expect(t, "Tell me about a dog.");
    terminal_send(t, INTERRUPT);
    terminal_expect(t, "^C");
    terminal_expect(t, "> ");
    end_chat(t, 0);
}

static void history_is_private(void **state)
{
    struct fixture *f = *state;
    struct terminal *t = start_short(f);
    struct stat info;
    ask(t, "a secret");
    end_chat(t, 0);
    char *path = dgl_path_join(f->home, "state/dopplergl/chat_history");
    assert_int_equal(stat(path, &info), 0);
    assert_int_equal(info.st_mode & 0777, 0600);
    free(path);
}

static void works_without_a_history(void **state)
{
    struct fixture *f = *state;
    const char *const args[] = {CHAT, "-n", "12", NULL};
    const char *const env[] = {"XDG_STATE_HOME=/dev/null", "NO_COLOR=1", NULL};
    terminal_start(&f->t, args, env);
    terminal_expect(&f->t, "> ");
    ask(&f->t, "Tell me about a dog.");
    end_chat(&f->t, 0);
}

/* Colours are used only if no setting forbids them. libedit itself uses no colours. */
static void colours_are_optional(void **state)
{
    struct fixture *f = *state;
    const char *const args[] = {CHAT, "-q", NULL}, *const env[] = {f->state, NULL};
    terminal_start(&f->t, args, env);
    terminal_expect(&f->t, "> ");
    assert_true(f->t.colours > 0);
    end_chat(&f->t, 0);
    terminal_finish(&f->t);
    start_short(f);
    assert_int_equal(f->t.colours, 0);
    end_chat(&f->t, 0);
}

/* A terminal that cannot move its cursor has prompts and plain lines. */
static void dumb_terminal_has_plain_lines(void **state)
{
    struct fixture *f = *state;
    const char *const args[] = {CHAT, "-n", "12", NULL};
    const char *const env[] = {f->state, "TERM=dumb", NULL};
    terminal_start(&f->t, args, env);
    terminal_expect(&f->t, "> ");
    assert_true(terminal_is_plain(&f->t));
    terminal_send(&f->t, "Tell me \\\nabout a dog.\n");
    terminal_expect(&f->t, "... ");
    terminal_expect(&f->t, "\n> ");
    terminal_send(&f->t, "/stats\n");
    terminal_expect(&f->t, "2 messages, 1 answer");
    terminal_expect(&f->t, "> ");
    assert_int_equal(f->t.colours, 0);
    end_chat(&f->t, 0);
}

static void long_history_is_cut(void **state)
{
    struct fixture *f = *state;
    struct dgl_buf text = {0}, dir = {0};
    struct stat info;
    for (int i = 0; i < 20000; i++)
        dgl_buf_printf(&text, "line number %d\n", i);
    dgl_buf_printf(&dir, "%s/state/dopplergl", f->home);
    assert_int_equal(dgl_dir_make(NULL, dir.p), DGL_OK);
    test_write_file(dir.p, "chat_history", text.p, text.len);
    struct terminal *t = start_short(f);
    terminal_send(t, ARROW_UP);
    terminal_expect(t, "line number 19999");
    terminal_send(t, ARROW_UP);
    terminal_expect(t, "8"); /* the digit that differs */
    terminal_send(t, INTERRUPT);
    terminal_expect(t, "^C");
    terminal_expect(t, "> ");
    end_chat(t, 0);
    dgl_buf_puts(&dir, "/chat_history");
    assert_int_equal(stat(dir.p, &info), 0);
    assert_in_range(info.st_size, 60000, 66000);
    dgl_buf_finish(&text);
    dgl_buf_finish(&dir);
}

/* ---- messages in files ----------------------------------------------------------------------- */

/* A pasted message is one in the history too, in this chat and the next. */
static void arrow_up_recalls_lines(void **state)
{
    struct fixture *f = *state;
    for (int i = 0; i < 2; i++) {
        struct terminal *t = start_short(f);
        if (i == 0)
            ask(t, "\033[200~Tell me\rabout a dog.\033[201~");
        ask(t, i == 0 ? ARROW_UP : ARROW_UP ARROW_UP); /* /save came after it */
        char *text = saved(f, t, "talk.json"), *at = strstr(text, "Tell me\\nabout a dog.\"");
        assert_non_null(at);
        assert_int_equal(strstr(at + 1, "Tell me\\nabout a dog.\"") != NULL, i == 0);
        free(text);
        end_chat(t, 0);
        assert_true(terminal_is_plain(t));
        terminal_finish(t);
    }
}

struct typed_row {
    const char *name;
    const char *keys, *content;
};

static const struct typed_row typed[] = {
    {"backslash", "first\\\rsecond\\\rthird\r", "\"first\\nsecond\\nthird\""},
    {"quotes", "\"\"\"first\r\r/third\"\"\"\r", "\"first\\n\\n/third\""},
    {"quotes on lines of their own", "\"\"\"\rone\r\"\"\"\r", "\"\\none\\n\""},
    {"two slashes", "//reset me\r", "\"/reset me\""},
    {"edited", "world!!\001hello \005\177\r", "\"hello world!\""},
    {"pasted lines", "\033[200~one\rtwo\n\r\nfour\033[201~ five\r", "\"one\\ntwo\\n\\nfour five\""},
    {"pasted line end", "\033[200~one\r\033[201~\r", "\"one\""},
    {"pasted into a line", "ad\002\033[200~\tb\rc \xC3\xA9\033[201~\r",
     "\"a\\tb\\nc \xC3\xA9"
     "d\""},
    {"pasted quotes", "\033[200~\"\"\"one\rtwo\033[201~\rthree\"\"\"\r", "\"one\\ntwo\\nthree\""},
    {"pasted command", "\033[200~//one\r/two\\\rthree\033[201~\r", "\"/one\\n/two\\\\\\nthree\""},
    {"paste dropped", "\033[200~one\rtwo\003three\r", "\"three\""},
    {"utf-8", "na\xC3\xAFve \xF0\x9F\x98\x80\r", "\"na\xC3\xAFve \xF0\x9F\x98\x80\""},
    {"erased utf-8", "a\xC3\xA9\177b\r", "\"ab\""},
    {"continuation dropped", "first\\\rsec\003second\r", "\"second\""},
};

static void typed_message(void **state)
{
    const struct typed_row *row = *state;
    void *fixture;
    set_up(&fixture);
    struct terminal *t = start_short(fixture);
    terminal_send(t, row->keys);
    terminal_expect(t, "\n");
    terminal_expect(t, "\n> ");
    char *text = saved(fixture, t, "talk.json");
    assert_contains(text, row->content);
    end_chat(t, 0);
    free(text);
    tear_down(&fixture);
}

/* The window is resized, and the program is stopped and continued, while a line is typed. */
static void line_survives_the_window(void **state)
{
    struct fixture *f = *state;
    struct terminal *t = start_short(f);
    const struct winsize narrow = {.ws_row = 10, .ws_col = 20};
    terminal_send(t, "Tell me");
    terminal_expect(t, "Tell me");
    assert_int_equal(ioctl(t->fd, TIOCSWINSZ, &narrow), 0);
    terminal_send(t, " a story");
    terminal_expect(t, "story");
    assert_int_equal(kill(t->pid, SIGSTOP), 0);
    assert_int_equal(kill(t->pid, SIGCONT), 0);
    terminal_send(t, " about a frog\r");
    terminal_expect(t, "\n");
    terminal_expect(t, "\n> ");
    char *text = saved(f, t, "talk.json");
    assert_contains(text, "\"Tell me a story about a frog\"");
    end_chat(t, 0);
    free(text);
}

static void open_message_of_a_file_is_answered(void **state)
{
    static const char messages[] = "{\"tools\":[],\"messages\":[{\"role\":\"user\",\"content\":"
                                   "\"Tell me about a dog.\"}]}";
    struct fixture *f = *state;
    struct terminal *t = start_short(f);
    struct dgl_buf line = {0};
    test_write_file(f->home, "open.json", messages, sizeof(messages) - 1);
    dgl_buf_printf(&line, "/load %s/open.json\r", f->home);
    terminal_send(t, line.p);
    terminal_expect(t, "1 message read from");
    terminal_expect(t, "(cut off after 12 tokens: -n)");
    terminal_expect(t, "> ");
    char *text = saved(f, t, "talk.json");
    assert_contains(text, "{\"tools\":[],\"messages\":[");
    assert_contains(text, "{\"message\":1,\"ids\":[");
    end_chat(t, 0);
    free(text);
    dgl_buf_finish(&line);
}

/* A larger context is not suggested if the model does not support one. */
static void longer_than_the_model_takes(void **state)
{
    struct fixture *f = *state;
    struct terminal *t = start_short(f);
    struct dgl_buf text = {0}, line = {0};
    dgl_buf_puts(&text, "[{\"role\":\"user\",\"content\":\"");
    for (int i = 0; i < 3000; i++)
        dgl_buf_puts(&text, "dog ");
    dgl_buf_puts(&text, "\"}]");
    test_write_file(f->home, "long.json", text.p, text.len);
    dgl_buf_printf(&line, "/load %s/long.json\r", f->home);
    terminal_send(t, line.p);
    terminal_expect(t, "but the context only 2048: take messages back (the model's limit is "
                       "2048)");
    terminal_expect(t, "> ");
    end_chat(t, 0);
    dgl_buf_finish(&text);
    dgl_buf_finish(&line);
}

static void save_and_load(void **state)
{
    struct fixture *f = *state;
    struct terminal *t = start_short(f);
    terminal_send(t, "/system Be brief.\r");
    terminal_expect(t, "system message set");
    terminal_expect(t, "> ");
    ask(t, "Tell me about a dog.");
    char *before = saved(f, t, "a.json");
    terminal_send(t, "/reset\r");
    terminal_expect(t, "with the system message");
    terminal_send(t, "/stats\r");
    terminal_expect(t, "1 message, 0 answers");
    terminal_expect(t, "> ");
    struct dgl_buf line = {0};
    dgl_buf_printf(&line, "/load %s/a.json\r", f->home);
    terminal_send(t, line.p);
    terminal_expect(t, "3 messages read from");
    terminal_expect(t, "> ");
    terminal_send(t, "/system\r");
    terminal_expect(t, "system message: Be brief.");
    terminal_expect(t, "> ");
    char *after = saved(f, t, "b.json");
    assert_string_equal(after, before);
    assert_contains(before, "\"answers\":[\n{\"message\":2,\"ids\":[");
    end_chat(t, 0);
    free(before);
    free(after);
    dgl_buf_finish(&line);
}

/* Tokens of an earlier conversation in the cache do not count in the figures of a new one. */
static void new_conversation_has_no_figures(void **state)
{
    struct fixture *f = *state;
    struct terminal *t = start_short(f);
    ask(t, "Tell me about a dog.");
    free(saved(f, t, "a.json"));
    for (size_t i = 0; i < 2; i++) {
        struct dgl_buf line = {0};
        if (i == 0)
            dgl_buf_puts(&line, "/reset\r");
        else
            dgl_buf_printf(&line, "/load %s/a.json\r", f->home);
        terminal_send(t, line.p);
        terminal_expect(t, "> ");
        terminal_send(t, "/stats\r");
        assert_null(
            strstr(terminal_expect(t, i == 0 ? "0 messages, 0 answers" : "2 messages, 1 answer"),
                   "last answer"));
        terminal_expect(t, "> ");
        dgl_buf_finish(&line);
    }
    end_chat(t, 0);
}

static void bad_files_are_refused(void **state)
{
    static const struct {
        const char *text, *part;
    } rows[] = {
        {"{", "error: "},
        {"3", "wanted an array of messages"},
        {"{\"messages\": 1}", "messages"},
        {"[1]", "wanted a message"},
        {"[{\"content\": \"x\"}]", "role"},
        {"{\"messages\": [], \"answers\": [{\"message\": 0, \"ids\": []}]}", "index of a message"},
        {"{\"messages\": [{\"role\": \"user\"}], \"answers\": [{\"message\": 1, \"ids\": []}]}",
         "message is 1"},
        {"{\"messages\": [{\"role\": \"user\"}], \"answers\": [{\"message\": 0, \"ids\": [-1]}]}",
         "wanted a token id"},
    };
    struct fixture *f = *state;
    struct terminal *t = start_short(f);
    struct dgl_buf line = {0};
    dgl_buf_printf(&line, "/load %s/bad.json\r", f->home);
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        test_write_file(f->home, "bad.json", rows[i].text, strlen(rows[i].text));
        terminal_send(t, line.p);
        terminal_expect(t, rows[i].part);
        terminal_expect(t, "> ");
    }
    terminal_send(t, "/stats\r");
    terminal_expect(t, "0 messages, 0 answers");
    terminal_expect(t, "> ");
    end_chat(t, 0);
    dgl_buf_finish(&line);
}

/* ---- commands -------------------------------------------------------------------------------- */

struct said_row {
    const char *name;
    const char *keys, *text;
};

static const struct said_row said[] = {
    {"help", "/help\r", "/save FILE"},
    {"model", "/model\r", "model: story-llama-q4_k_m (llama, q4_k_m, 7.34 million parameters)"},
    {"no answer yet", "/stats\r", "no answer yet in this conversation"},
    {"save where nothing is", "/save none/talk.json\r",
     "cannot create none/talk.json: No such file"},
    {"no system message", "/system\r", "system message: none"},
    {"save without a name", "/save\r", "error: /save needs the name of a file"},
    {"load without a name", "/load\r", "error: /load needs the name of a file"},
    {"load what is not there", "/load nothing.json\r", "error: cannot open nothing.json"},
    {"too much", "/reset now\r", "error: /reset takes nothing, got \"now\""},
    {"nothing to undo", "/undo\r", "there is nothing to take back"},
    {"nothing to retry", "/retry\r", "there is no message to answer"},
    {"settings", "/set\r", "dry-penalty-last-n   -1"},
    {"one setting", "/set repeat-last-n\r", "  repeat-last-n        64"},
    {"set what is not there", "/set warmth 1\r", "error: /set has no option warmth"},
    {"set what cannot change", "/set model x\r", "error: /set has no option model"},
    {"set too much", "/set top-p 2\r", "error: /set top-p 2: wanted a number from 0 to 1"},
    {"unknown", "/dance\r", "error: there is no /dance; /help lists the commands"},
};

static void command_says(void **state)
{
    const struct said_row *row = *state;
    void *fixture;
    set_up(&fixture);
    struct terminal *t = start_short(fixture);
    terminal_send(t, row->keys);
    terminal_expect(t, row->text);
    terminal_expect(t, "> ");
    end_chat(t, 0);
    tear_down(&fixture);
}

int main(void)
{
    const struct CMUnitTest cases[] = {
        cmocka_unit_test_setup_teardown(ends_at_end_of_input, set_up, tear_down),
        cmocka_unit_test_setup_teardown(goes_on_after_an_interrupt_of_an_empty_line, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(keys_without_a_meaning_are_ignored, set_up, tear_down),
        cmocka_unit_test_setup_teardown(ends_with_quit, set_up, tear_down),
        cmocka_unit_test_setup_teardown(signal_gives_the_terminal_back, set_up, tear_down),
        cmocka_unit_test_setup_teardown(answers_stream, set_up, tear_down),
        cmocka_unit_test_setup_teardown(interrupt_drops_a_line, set_up, tear_down),
        cmocka_unit_test_setup_teardown(second_turn_reuses_the_first, set_up, tear_down),
        cmocka_unit_test_setup_teardown(full_context_is_explained, set_up, tear_down),
        cmocka_unit_test_setup_teardown(context_shifts_when_asked, set_up, tear_down),
        cmocka_unit_test_setup_teardown(answers_are_wrapped, set_up, tear_down),
        cmocka_unit_test_setup_teardown(typing_waits_for_the_next_line, set_up, tear_down),
        cmocka_unit_test_setup_teardown(answers_are_taken_back_and_tried_again, set_up, tear_down),
        cmocka_unit_test_setup_teardown(special_tokens_stay_text, set_up, tear_down),
        cmocka_unit_test_setup_teardown(arrow_up_recalls, set_up, tear_down),
        cmocka_unit_test_setup_teardown(arrow_up_recalls_lines, set_up, tear_down),
        cmocka_unit_test_setup_teardown(history_is_private, set_up, tear_down),
        cmocka_unit_test_setup_teardown(works_without_a_history, set_up, tear_down),
        cmocka_unit_test_setup_teardown(colours_are_optional, set_up, tear_down),
        cmocka_unit_test_setup_teardown(dumb_terminal_has_plain_lines, set_up, tear_down),
        cmocka_unit_test_setup_teardown(long_history_is_cut, set_up, tear_down),
        cmocka_unit_test_setup_teardown(line_survives_the_window, set_up, tear_down),
        cmocka_unit_test_setup_teardown(open_message_of_a_file_is_answered, set_up, tear_down),
        cmocka_unit_test_setup_teardown(longer_than_the_model_takes, set_up, tear_down),
        cmocka_unit_test_setup_teardown(save_and_load, set_up, tear_down),
        cmocka_unit_test_setup_teardown(new_conversation_has_no_figures, set_up, tear_down),
        cmocka_unit_test_setup_teardown(bad_files_are_refused, set_up, tear_down),
    };
    int failed = cmocka_run_group_tests(cases, NULL, NULL);
    failed += test_run_table("typed", typed_message, typed);
    failed += test_run_table("commands", command_says, said);
    return failed;
}
