/* Sorting: keys as jinja makes them, and a stable merge sort that may fail. */
#include <string.h>

#include "loader/jinja/jinja_call.h"
#include "loader/jinja/jinja_ops.h"
#include "loader/jinja/jinja_string.h"

bool jinja_sort_key(struct jinja_run *run, const struct jinja_value *item,
                    const struct jinja_value *path, bool case_sensitive, struct jinja_value *out)
{
    struct jinja_value key;
    if (!jinja_get_path(run, item, path, &key))
        return false;
    *out = key;
    return case_sensitive || !jinja_is_text(&key) || jinja_change_case(run, &key, JINJA_LOWER, out);
}

/* For "a,b" the key is a list with one part per path. */
static bool multi_key(struct jinja_run *run, const struct jinja_value *item,
                      const struct jinja_value *paths, bool case_sensitive, struct jinja_value *out)
{
    struct dgl_str rest = jinja_is_text(paths) ? jinja_str(paths) : (struct dgl_str){0}, part;
    if (!rest.len || !memchr(rest.p, ',', rest.len))
        return jinja_sort_key(run, item, paths, case_sensitive, out);
    if (!jinja_new_list(run, JINJA_LIST, 0, out))
        return false;
    while (dgl_str_split(&rest, ',', &part)) {
        struct jinja_value path = jinja_text_of(part, false), key;
        if (!jinja_sort_key(run, item, &path, case_sensitive, &key) ||
            !jinja_list_push(run, out->list, key))
            return false;
    }
    return true;
}

/* The key in front of its element. */
struct pair {
    struct jinja_value key, item;
};

/* Merges [start, middle) and [middle, end) of `from` into `to`; of equals the left one comes first.
 */
static bool merge(struct jinja_run *run, const struct pair *from, struct pair *to,
                  const size_t bounds[3], bool reverse)
{
    size_t left = bounds[0], right = bounds[1];
    for (size_t i = bounds[0]; i < bounds[2]; i++) {
        int order = 0;
        bool both = left < bounds[1] && right < bounds[2];
        if (both && !jinja_order(run, "<", &from[right].key, &from[left].key, &order))
            return false;
        bool take_right = both ? (reverse ? order > 0 : order < 0) : right < bounds[2];
        to[i] = take_right ? from[right++] : from[left++];
    }
    return jinja_step(run, bounds[2] - bounds[0]);
}

static size_t smaller(size_t a, size_t b)
{
    return a < b ? a : b;
}

/* Bottom-up; *pairs is where the sorted array ends up. */
static bool merge_sort(struct jinja_run *run, struct pair **pairs, struct pair *space, size_t count,
                       bool reverse)
{
    for (size_t width = 1; width < count; width *= 2) {
        for (size_t i = 0; i < count; i += 2 * width) {
            const size_t bounds[3] = {i, smaller(i + width, count), smaller(i + 2 * width, count)};
            if (!merge(run, *pairs, space, bounds, reverse))
                return false;
        }
        struct pair *sorted = space;
        space = *pairs;
        *pairs = sorted;
    }
    return true;
}

bool jinja_sort(struct jinja_run *run, const struct jinja_value *value,
                const struct jinja_value *paths, bool case_sensitive, bool reverse,
                struct jinja_value *out)
{
    if (!jinja_collect(run, value, JINJA_LIST, out))
        return false;
    struct jinja_list *list = out->list;
    struct pair *pairs = jinja_alloc(run, list->count, sizeof(*pairs));
    struct pair *space = pairs ? jinja_alloc(run, list->count, sizeof(*space)) : NULL;
    if (!space)
        return false;
    for (size_t i = 0; i < list->count; i++) {
        pairs[i].item = list->items[i];
        if (!multi_key(run, &list->items[i], paths, case_sensitive, &pairs[i].key))
            return false;
    }
    if (!merge_sort(run, &pairs, space, list->count, reverse))
        return false;
    for (size_t i = 0; i < list->count; i++)
        list->items[i] = pairs[i].item;
    return true;
}
