/*
 * Parsed JSON values. A struct dgl_json is a cJSON node. Fields that cJSON does not need are reused
 * for additional values. A document with a million values thus needs only the memory of the tree:
 *
 *     valueint     length of the key
 *     valuedouble  number: its value; string: its length; array and object: number of children
 *     valuestring  string: its bytes; large object: its index of keys; number: its spelling, if the
 *                  double loses information: 1.0, 2e3, 9007199254740993 (cJSON_Delete frees them)
 */
#include "core/base/json.h"

#include <cjson/cJSON.h>
#include <limits.h>
#include <locale.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/clock.h"
#include "core/base/file.h"
#include "core/base/json_scan.h"
#include "core/base/mem.h"
#include "core/base/utf8.h"

/* Objects with more keys use a hash table. Smaller objects are searched linearly. */
enum { linear_search_max = 16 };

struct dgl_json_doc {
    char *name;
    cJSON *root;
};

/* Open addressing, at most half full. The random seed prevents files with deliberate collisions. */
struct key_index {
    uint64_t seed;
    size_t mask;
    cJSON *slots[];
};

static const cJSON *node_of(const struct dgl_json *value)
{
    return (const cJSON *)value;
}

static const struct dgl_json *value_of(const cJSON *node)
{
    return (const struct dgl_json *)node;
}

static struct dgl_str key_of(const cJSON *node)
{
    return node->string ? (struct dgl_str){node->string, (size_t)node->valueint}
                        : (struct dgl_str){"", 0};
}

/* Returns the slot of this key, or the empty slot to insert it at. */
static size_t index_find(const struct key_index *index, struct dgl_str key)
{
    uint64_t hash = 0xcbf29ce484222325u ^ index->seed; /* FNV-1a */
    for (size_t k = 0; k < key.len; k++)
        hash = (hash ^ (unsigned char)key.p[k]) * 0x100000001b3u;
    size_t i = (size_t)(hash ^ hash >> 32) & index->mask;
    while (index->slots[i] && !dgl_str_equal(key_of(index->slots[i]), key))
        i = (i + 1) & index->mask;
    return i;
}

static enum dgl_status fail_duplicate(const struct dgl_json_doc *doc, const struct dgl_log *log,
                                      const cJSON *object, const cJSON *child)
{
    enum { key_bytes = 200 };
    struct dgl_str key = key_of(child);
    if (key.len > key_bytes)
        key.len = key_bytes - dgl_utf8_incomplete_tail(key.p, key_bytes);
    return dgl_json_fail((struct dgl_json_reader){log, doc}, value_of(object),
                         "the key \"%.*s\" occurs twice, wanted each key once", (int)key.len,
                         key.p);
}

/* Refuses duplicate keys. Indexes the keys of a large object. */
static enum dgl_status check_keys(const struct dgl_json_doc *doc, const struct dgl_log *log,
                                  cJSON *object, size_t count)
{
    size_t slots = 64;
    if (count <= linear_search_max) {
        for (const cJSON *child = object->child; child; child = child->next)
            for (const cJSON *earlier = object->child; earlier != child; earlier = earlier->next)
                if (dgl_str_equal(key_of(earlier), key_of(child)))
                    return fail_duplicate(doc, log, object, child);
        return DGL_OK;
    }
    while (slots < count * 2)
        slots *= 2;
    size_t bytes = sizeof(struct key_index) + slots * sizeof(cJSON *);
    struct key_index *index = dgl_calloc(1, bytes);
    if (!index)
        return dgl_fail_memory(log, doc->name, bytes);
    object->valuestring = (char *)index;
    index->seed = dgl_now_ns();
    index->mask = slots - 1;
    for (cJSON *child = object->child; child; child = child->next) {
        size_t i = index_find(index, key_of(child));
        if (index->slots[i])
            return fail_duplicate(doc, log, object, child);
        index->slots[i] = child;
    }
    return DGL_OK;
}

/* Replaces each byte pair C0 80 in `text` by a NUL. Returns the new length. */
static size_t restore_nuls(char *text, bool has_nuls)
{
    size_t len = strlen(text), put = 0;
    if (!has_nuls)
        return len;
    for (size_t i = 0; i < len; i++) {
        bool nul = (unsigned char)text[i] == 0xC0;
        text[put++] = nul ? '\0' : text[i];
        i += nul;
    }
    text[put] = '\0';
    return put;
}

/* Fills the borrowed fields of a container's children, recursively. The depth is at most
 * json_max_depth. */
static enum dgl_status finish_children(const struct dgl_json_doc *doc, const struct dgl_log *log,
                                       cJSON *container, bool has_nuls)
{
    size_t count = 0;
    for (cJSON *child = container->child; child; child = child->next) {
        count++;
        child->valueint = child->string ? (int)restore_nuls(child->string, has_nuls) : 0;
        if (cJSON_IsString(child))
            child->valuedouble = (double)restore_nuls(child->valuestring, has_nuls);
    }
    container->valuedouble = (double)count;
    enum dgl_status status = DGL_OK;
    if (cJSON_IsObject(container))
        status = check_keys(doc, log, container, count);
    for (cJSON *child = container->child; child && status == DGL_OK; child = child->next) {
        if (child->child)
            status = finish_children(doc, log, child, has_nuls);
    }
    return status;
}

/* Keeps the spelling of numbers that a double cannot represent: 1.0 versus 1, and the digits of
 * large integers. cJSON does not store the spelling. So the numbers of the text, starting at *at,
 * and the numbers of the tree are visited together; their order is the same. */
static bool keep_spellings(cJSON *node, const char *text, size_t len, size_t *at)
{
    if (cJSON_IsNumber(node)) {
        struct dgl_str number = json_next_number(text, len, at);
        bool large = !(fabs(node->valuedouble) < 0x1p53);
        bool lost = json_is_real(number) ? node->valuedouble == floor(node->valuedouble) : large;
        if (lost && !(node->valuestring = dgl_strndup(number.p, number.len)))
            return false;
    }
    bool ok = true;
    for (cJSON *child = node->child; child && ok; child = child->next)
        ok = keep_spellings(child, text, len, at);
    return ok;
}

static enum dgl_status fail_scan(const struct dgl_log *log, const char *name, const char *text,
                                 size_t len, size_t most_values, const struct json_scan *scan)
{
    size_t line = 1, column = 1;
    for (size_t i = 0; i < scan->offset && i < len; i++) {
        column = text[i] == '\n' ? 1 : column + 1;
        line += text[i] == '\n';
    }
    struct dgl_buf found = {0};
    unsigned char c = scan->offset < len ? (unsigned char)text[scan->offset] : 0;
    if (scan->offset >= len)
        dgl_buf_puts(&found, "the end of the text");
    else if (c > 0x20 && c < 0x7f)
        dgl_buf_printf(&found, "'%c'", c);
    else
        dgl_buf_printf(&found, "byte 0x%02X", c);
    struct dgl_buf wanted = {0};
    if (scan->values > most_values)
        dgl_buf_printf(&wanted, "at most %zu values", most_values);
    struct dgl_buf where = {0};
    if (memchr(text, '\n', len)) /* a text of one line needs no line number */
        dgl_buf_printf(&where, "line %zu, ", line);
    enum dgl_status status = dgl_fail(log, DGL_ERR_FORMAT, "%s: %sbyte %zu: found %s, wanted %s",
                                      name, where.p ? where.p : "", column, found.p ? found.p : "?",
                                      wanted.p ? wanted.p : scan->wanted);
    dgl_buf_finish(&wanted);
    dgl_buf_finish(&where);
    dgl_buf_finish(&found);
    return status;
}

/* Returns cJSON's tree of a scanned text. Returns NULL only if memory is exhausted. */
static cJSON *parse_scanned(const char *text, size_t len, bool has_nuls)
{
    char *replaced = NULL;
    if (has_nuls) {
        replaced = dgl_malloc(len);
        if (!replaced)
            return NULL;
        len = json_replace_nuls(text, len, replaced);
        text = replaced;
    }
    /* cJSON reads numbers with strtod(), which uses the decimal point of the current locale. */
    locale_t before = uselocale(newlocale(LC_ALL_MASK, "C", (locale_t)0));
    cJSON *root = cJSON_ParseWithLengthOpts(text, len, NULL, false);
    uselocale(before);
    free(replaced);
    return root;
}

enum dgl_status dgl_json_parse(const struct dgl_log *log, const char *name, const char *text,
                               size_t len, struct dgl_json_doc **out)
{
    return dgl_json_parse_most(log, name, text, len, json_max_values, out);
}

enum dgl_status dgl_json_parse_most(const struct dgl_log *log, const char *name, const char *text,
                                    size_t len, size_t most_values, struct dgl_json_doc **out)
{
    *out = NULL;
    if (len > INT_MAX)
        return dgl_fail(log, DGL_ERR_FORMAT, "%s: %zu bytes of JSON, wanted at most %d", name, len,
                        INT_MAX);
    struct json_scan scan;
    if (!json_scan(text, len, most_values, &scan))
        return fail_scan(log, name, text, len, most_values, &scan);
    bool has_nuls = scan.nul_escapes > 0;
    struct dgl_json_doc *doc = dgl_new(struct dgl_json_doc);
    if (!doc)
        return dgl_fail_memory(log, name, sizeof(*doc));
    doc->name = dgl_strdup(name);
    doc->root = doc->name ? parse_scanned(text, len, has_nuls) : NULL;
    enum dgl_status status = DGL_OK;
    if (!doc->root) {
        status = dgl_fail_memory(log, name, len);
    } else if (cJSON_IsString(doc->root)) {
        doc->root->valuedouble = (double)restore_nuls(doc->root->valuestring, has_nuls);
    } else if (!cJSON_IsNumber(doc->root)) {
        status = finish_children(doc, log, doc->root, has_nuls);
    }
    size_t at = 0;
    if (status == DGL_OK && scan.spelled && !keep_spellings(doc->root, text, len, &at))
        status = dgl_fail_memory(log, name, len);
    if (status != DGL_OK)
        dgl_json_destroy(&doc);
    *out = doc;
    return status;
}

enum dgl_status dgl_json_load(const struct dgl_log *log, const char *path, size_t max,
                              struct dgl_json_doc **out)
{
    char *text;
    size_t len;
    *out = NULL;
    enum dgl_status status = dgl_file_slurp(log, path, max, &text, &len);
    if (status == DGL_OK)
        status = dgl_json_parse(log, path, text, len, out);
    free(text);
    return status;
}

void dgl_json_destroy(struct dgl_json_doc **doc)
{
    if (!*doc)
        return;
    cJSON_Delete((*doc)->root);
    free((*doc)->name);
    free(*doc);
    *doc = NULL;
}

const struct dgl_json *dgl_json_root(const struct dgl_json_doc *doc)
{
    return value_of(doc->root);
}

const char *dgl_json_name(const struct dgl_json_doc *doc)
{
    return doc->name;
}

enum dgl_json_type dgl_json_type(const struct dgl_json *value)
{
    const cJSON *node = node_of(value);
    if (cJSON_IsBool(node))
        return DGL_JSON_BOOL;
    if (cJSON_IsNumber(node))
        return DGL_JSON_NUMBER;
    if (cJSON_IsString(node))
        return DGL_JSON_STRING;
    if (cJSON_IsArray(node))
        return DGL_JSON_ARRAY;
    return cJSON_IsObject(node) ? DGL_JSON_OBJECT : DGL_JSON_NULL;
}

bool dgl_json_is(const struct dgl_json *value, enum dgl_json_type type)
{
    return value && dgl_json_type(value) == type;
}

struct dgl_str dgl_json_str(const struct dgl_json *value)
{
    const cJSON *node = node_of(value);
    if (!cJSON_IsString(node))
        return (struct dgl_str){"", 0};
    return (struct dgl_str){node->valuestring, (size_t)node->valuedouble};
}

double dgl_json_f64(const struct dgl_json *value)
{
    const cJSON *node = node_of(value);
    return cJSON_IsNumber(node) ? node->valuedouble : 0;
}

bool dgl_json_bool(const struct dgl_json *value)
{
    return cJSON_IsTrue(node_of(value));
}

struct dgl_str dgl_json_spelling(const struct dgl_json *value)
{
    const cJSON *node = node_of(value);
    bool kept = cJSON_IsNumber(node) && node->valuestring;
    return kept ? dgl_str_of(node->valuestring) : (struct dgl_str){"", 0};
}

bool dgl_json_is_real(const struct dgl_json *value)
{
    double number = dgl_json_f64(value);
    return number != floor(number) || json_is_real(dgl_json_spelling(value));
}

bool dgl_json_i64(const struct dgl_json *value, int64_t *out)
{
    const double limit = 0x1p53;
    const cJSON *node = node_of(value);
    if (!cJSON_IsNumber(node))
        return false;
    double number = node->valuedouble;
    if (!(number > -limit && number < limit)) /* use the digits instead */
        return dgl_parse_i64(dgl_json_spelling(value), INT64_MIN, INT64_MAX, out);
    if (number != floor(number))
        return false;
    *out = (int64_t)number;
    return true;
}

size_t dgl_json_count(const struct dgl_json *value)
{
    const cJSON *node = node_of(value);
    bool container = cJSON_IsArray(node) || cJSON_IsObject(node);
    return container ? (size_t)node->valuedouble : 0;
}

const struct dgl_json *dgl_json_first(const struct dgl_json *value)
{
    return value ? value_of(node_of(value)->child) : NULL;
}

const struct dgl_json *dgl_json_next(const struct dgl_json *value)
{
    return value ? value_of(node_of(value)->next) : NULL;
}

struct dgl_str dgl_json_key(const struct dgl_json *value)
{
    return value ? key_of(node_of(value)) : (struct dgl_str){"", 0};
}

const struct dgl_json *dgl_json_get(const struct dgl_json *object, const char *key)
{
    const cJSON *node = node_of(object);
    if (!cJSON_IsObject(node))
        return NULL;
    struct dgl_str wanted = dgl_str_of(key);
    if (node->valuestring) {
        const struct key_index *index = (const struct key_index *)node->valuestring;
        return value_of(index->slots[index_find(index, wanted)]);
    }
    const cJSON *child = node->child;
    while (child && !dgl_str_equal(key_of(child), wanted))
        child = child->next;
    return value_of(child);
}

const struct dgl_json *dgl_json_at(const struct dgl_json *array, size_t index)
{
    const cJSON *node = node_of(array);
    if (!cJSON_IsArray(node) || index >= (size_t)node->valuedouble)
        return NULL;
    const cJSON *child = node->child;
    while (index--)
        child = child->next;
    return value_of(child);
}
