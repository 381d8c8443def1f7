/* The page of `dopplergl serve`: the file of the source, with a policy that allows only its own
 * style and script. `make check-web` tests it in a browser. */
#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

#include "core/base/file.h"
#include "core/base/hash.h"
#include "tests/support/server.h"
#include "tests/support/test.h"

#define PAGE "tools/web/chat.html"

static char *page; /* the file of the source */
static size_t page_len;

/* ---- the text -------------------------------------------------------------------------------- */

/* The page loads no foreign resource, and never inserts text as markup. */
struct word {
    const char *name, *text;
};
static const struct word words[] = {
    {"addresses", "http:"},
    {"addresses over TLS", "https:"},
    {"files", " src="},
    {"style sheets", "stylesheet"},
    {"imports of style", "@import"},
    {"files of style", "url("},
    {"imports of script", "import("},
    {"markup from text", "innerHTML"},
    {"markup in place of an element", "outerHTML"},
    {"markup beside an element", "insertAdjacentHTML"},
    {"markup in a new document", "document.write"},
    {"markup by a parser", "DOMParser"},
    {"text that is run", "eval("},
    {"text that becomes a function", "Function("},
    {"style in attributes", " style=\""},
    {"script in attributes", " onclick=\""},
};

static void test_word(void **state)
{
    const struct word *row = *state;
    const char *at = strstr(page, row->text);
    if (at)
        fail_msg("%s has %s: %.60s", PAGE, row->text, at);
}

/* ---- the answer ------------------------------------------------------------------------------ */

static int digit_of(char c)
{
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    const char *at = c ? strchr(digits, c) : NULL;
    return at ? (int)(at - digits) : -1;
}

/* The policy's hash of the block between two tags is that of the body's. */
static void assert_allowed(const struct reply *r, const char *word, const char *open,
                           const char *close)
{
    char hex[65], wanted[65];
    const char *text = strstr(r->body, open), *at = strstr(r->head, word);
    unsigned bits = 0, held = 0;
    size_t len = 0;
    assert_non_null(text);
    assert_non_null(at);
    text += strlen(open);
    const char *end = strstr(text, close);
    assert_non_null(end);
    assert_true(dgl_hash_bytes(DGL_HASH_SHA256, text, (size_t)(end - text), wanted));
    for (at += strlen(word); digit_of(*at) >= 0 && len < 64; at++) {
        bits = bits << 6 | (unsigned)digit_of(*at);
        for (held += 6; held >= 4 && len < 64; held -= 4)
            hex[len++] = "0123456789abcdef"[bits >> (held - 4) & 15];
    }
    hex[len] = '\0';
    assert_string_equal(hex, wanted);
    assert_int_equal(strncmp(at, "='", 2), 0);
}

struct call {
    const char *name, *method, *headers;
    bool body;
};
static const struct call calls[] = {
    {"a browser's", "GET", "Accept: text/html\r\nAccept-Encoding: gzip, br\r\n", true},
    {"with a wrong key", "GET", "Authorization: Bearer wrong\r\n", true},
    {"its head", "HEAD", "", false},
};

static void the_page_needs_no_key(void **state)
{
    (void)state;
    struct server s;
    struct reply r;
    server_start(&s, (const char *const[]){"--api-key", "sesame", "-c", "64", NULL});
    for (size_t i = 0; i < sizeof(calls) / sizeof(calls[0]); i++) {
        const int fd = server_connect(&s);
        struct dgl_buf out = {0}, held = {0};
        dgl_buf_printf(&out, "%s / HTTP/1.1\r\nHost: t\r\nConnection: close\r\n%s\r\n",
                       calls[i].method, calls[i].headers);
        assert_true(server_send(fd, out.p, out.len));
        r = (struct reply){0};
        if (calls[i].body) {
            server_receive(fd, &held, &r);
            assert_int_equal(r.status, 200);
            assert_int_equal(r.len, page_len);
            assert_memory_equal(r.body, page, page_len);
            assert_allowed(&r, "style-src 'sha256-", "<style>", "</style>");
            assert_allowed(&r, "script-src 'sha256-", "<script>", "</script>");
        } else {
            server_expect(&s, fd, "\r\n\r\n", &held);
            r.head = checked(strdup(held.p));
        }
        assert_contains(r.head, "Content-Type: text/html; charset=utf-8\r\n");
        assert_contains(r.head, "Content-Security-Policy: default-src 'none'; ");
        assert_contains(r.head, "; connect-src 'self'; ");
        assert_contains(r.head, "; frame-ancestors 'none'; ");
        assert_contains(r.head, "; require-trusted-types-for 'script'; trusted-types 'none'\r\n");
        assert_contains(r.head, "X-Content-Type-Options: nosniff\r\n");
        assert_null(strstr(r.head, "unsafe"));
        reply_finish(&r);
        dgl_buf_finish(&out);
        dgl_buf_finish(&held);
        close(fd);
    }
    server_call(&s, "GET", "/health", "", NULL, &r);
    assert_null(strstr(r.head, "Content-Security-Policy"));
    reply_finish(&r);
    server_end(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(the_page_needs_no_key)};
    if (dgl_file_slurp(NULL, PAGE, 1 << 20, &page, &page_len) != DGL_OK)
        return 1;
    int failures = test_run_table("page: what it may not have", test_word, words);
    failures += cmocka_run_group_tests_name("page: answer", tests, NULL, NULL);
    free(page);
    return failures;
}
