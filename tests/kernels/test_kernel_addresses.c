/* Addresses of the KV cache: no embedded text outside of lib/kv may compute one. */
#include "tests/support/test.h"

#include <ctype.h>
#include <string.h>

#include "kernels/set/embedded.h"

/* Names of the cache's buffer and of the parts of an address. Other code may use them only in the
 * directives BIND KV and CONST CONTEXT. */
static const char *const words[] = {"KV", "kv_first", "KV_PAGE", "KV_ROW", "KV_VEC", "kv_page"};

/* Skips comments, but not LET, GROUPS and other directives that contain expressions. */
static const char *skip_comment(const char *p)
{
    static const char *const skipped[] = {"//! BIND ", "//! CONST "};
    bool is_directive = strncmp(p, "//!", 3) == 0;
    for (size_t i = 0; i < sizeof(skipped) / sizeof(*skipped); i++)
        if (strncmp(p, skipped[i], strlen(skipped[i])) == 0)
            is_directive = false;
    if (is_directive)
        return p + 3;
    if (p[0] == '/' && p[1] == '/')
        return p + strcspn(p, "\n");
    if (p[0] == '/' && p[1] == '*') {
        const char *end = strstr(p + 2, "*/");
        return end ? end + 2 : p + strlen(p);
    }
    return p;
}

/* The first use of one of the words, or NULL. */
static const char *find_address(const char *text)
{
    for (const char *p = text; *p;) {
        const char *after = skip_comment(p);
        if (after != p) {
            p = after;
            continue;
        }
        size_t len = 0;
        while (isalnum((unsigned char)p[len]) || p[len] == '_')
            len++;
        for (size_t i = 0; i < sizeof(words) / sizeof(*words); i++)
            if (len == strlen(words[i]) && memcmp(p, words[i], len) == 0)
                return p;
        p += len ? len : 1;
    }
    return NULL;
}

static void only_lib_kv_knows_addresses(void **state)
{
    (void)state;
    size_t in_lib = 0;
    for (const struct kernel_embedded *e = kernel_embedded; e->path; e++) {
        const char *found = find_address(e->text);
        if (strncmp(e->path, "lib/kv/", 7) == 0)
            in_lib += found != NULL;
        else if (found)
            fail_msg("%s: '%.30s': rows of the cache are kernels/lib/kv's", e->path, found);
    }
    assert_true(in_lib > 0);
}

static void addresses_are_found(void **state)
{
    (void)state;
    static const struct {
        const char *text, *found;
    } cases[] = {
        {"x = KV[i];", "KV[i];"},
        {"uint i = step_table[seq].kv_first + pos;", "kv_first + pos;"},
        {"uint at = kv_page(pos / 64u) * 64u;", "kv_page(pos / 64u) * 64u;"},
        {"//! LET STRIDE = KV_ROW * 4\n", "KV_ROW * 4\n"},
        {"/* KV */ kv_keys(0u, h) + KV_ROW", "KV_ROW"},
        {"// KV[i]\n//! BIND read uint KV\n//! CONST HEADS\nKV_HEADS; KV_f16; kv_row;", NULL},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        const char *found = find_address(cases[i].text);
        if (cases[i].found)
            assert_string_equal(found, cases[i].found);
        else
            assert_null(found);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(only_lib_kv_knows_addresses),
                                       cmocka_unit_test(addresses_are_found)};
    return cmocka_run_group_tests_name("addresses", tests, NULL, NULL);
}
