/* Changes of transformers' apply_chat_template() to messages, and the taint of their texts. */
#include "loader/jinja/jinja_messages.h"

#include <string.h>

#include "loader/jinja/jinja_text.h"

/* ---- taint ----------------------------------------------------------------------------------- */

/* A role is trusted if it is one plain word. */
static void trust_role(struct jinja_value *role)
{
    bool plain = role && jinja_is_text(role);
    for (size_t i = 0; plain && i < role->text.len; i++) {
        const char c = role->text.p[i];
        plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                c == '_' || c == '-';
    }
    if (plain)
        role->data = false;
}

static bool mark_text(struct jinja_run *run, struct jinja_value *text, uint8_t taint)
{
    if (!text || text->type != JINJA_STRING || text->text.len == 0)
        return true;
    uint8_t *taints = jinja_alloc(run, text->text.len, 1);
    if (!taints)
        return false;
    memset(taints, taint, text->text.len);
    text->text.taint = taints;
    return true;
}

/* Marks a text, or the texts of a list of parts. */
static bool mark_content(struct jinja_run *run, struct jinja_value *content, uint8_t taint)
{
    const struct jinja_value key = jinja_literal("text");
    bool ok = mark_text(run, content, taint);
    for (size_t i = 0; ok && content && content->type == JINJA_LIST && i < content->list->count;
         i++) {
        struct jinja_value *text = NULL;
        if (content->list->items[i].type == JINJA_DICT)
            ok = jinja_dict_find(run, content->list->items[i].dict, &key, &text) &&
                 mark_text(run, text, taint);
    }
    return ok;
}

/* ---- members --------------------------------------------------------------------------------- */

static void drop_nulls(struct jinja_dict *message)
{
    size_t kept = 0;
    for (size_t i = 0; i < message->count; i++)
        if (message->entries[i].value.type != JINJA_NONE)
            message->entries[kept++] = message->entries[i];
    message->count = kept;
}

/* Names of reasoning; templates read the first one, and gpt-oss the second. */
enum { REASONING_CONTENT, THINKING, REASONING, REASONING_NAMES };
static const char *const reasoning_names[REASONING_NAMES] = {"reasoning_content", "thinking",
                                                             "reasoning"};

/* Fills `reasoning_content` from the first name that is set, and `thinking` if it is missing. The
 * new members have the places that transformers gives them. */
static bool fill_reasoning(struct jinja_run *run, struct jinja_dict *message)
{
    struct jinja_value *found[REASONING_NAMES], reasoning;
    const struct jinja_value *first = NULL;
    for (size_t i = 0; i < REASONING_NAMES; i++) {
        const struct jinja_value key = jinja_literal(reasoning_names[i]);
        if (!jinja_dict_find(run, message, &key, &found[i]))
            return false;
        first = first ? first : found[i];
    }
    if (!first)
        return true;
    reasoning = *first;
    const struct jinja_value key = jinja_literal(reasoning_names[REASONING_CONTENT]);
    const bool thinks = found[THINKING] != NULL;
    if (!jinja_dict_set(run, message, &key, &reasoning))
        return false;
    if (thinks)
        return true;
    const struct jinja_value thinking = jinja_literal(reasoning_names[THINKING]);
    if (!jinja_dict_set(run, message, &thinking, &reasoning))
        return false;
    const struct jinja_entry last = message->entries[message->count - 1];
    memmove(message->entries + 1, message->entries, (message->count - 1) * sizeof(last));
    message->entries[0] = last;
    return true;
}

static bool find(struct jinja_run *run, const struct jinja_value *message, const char *name,
                 struct jinja_value **out)
{
    const struct jinja_value key = jinja_literal(name);
    *out = NULL;
    return message->type != JINJA_DICT || jinja_dict_find(run, message->dict, &key, out);
}

static bool prepare_message(struct jinja_run *run, const struct jinja_params *params,
                            struct jinja_value *message)
{
    struct jinja_value *role, *part;
    if (message->type != JINJA_DICT)
        return true;
    drop_nulls(message->dict);
    if (!fill_reasoning(run, message->dict) || !find(run, message, "role", &role))
        return false;
    trust_role(role);
    if (!role || !jinja_is_text(role))
        return true;
    if (params->developer_is_system && dgl_str_eq(jinja_str(role), "developer"))
        *role = jinja_literal("system");
    if (!dgl_str_eq(jinja_str(role), "assistant"))
        return true;
    bool ok = find(run, message, "content", &part) && mark_content(run, part, JINJA_TAINT_MODEL);
    for (size_t i = 0; ok && i < REASONING_NAMES; i++)
        ok = find(run, message, reasoning_names[i], &part) &&
             mark_text(run, part, JINJA_TAINT_MODEL);
    return ok;
}

/* ---- continuing ------------------------------------------------------------------------------ */

static bool append_tag(struct jinja_run *run, struct jinja_value *text)
{
    const struct jinja_value tag = jinja_literal(JINJA_CONTINUE_TAG);
    const struct jinja_value before = *text;
    return !jinja_is_text(text) || jinja_concat(run, &before, &tag, text);
}

/* Appends the tag to a member of the last message: to its text, or to the last part that has one.
 * If the member is reasoning, its copies under other names get the tag, too. */
static bool tag_last(struct jinja_run *run, struct jinja_value *message, struct dgl_str field)
{
    const struct jinja_value key = jinja_text_of(field, false);
    struct jinja_value *content, *copy;
    if (message->type != JINJA_DICT || !jinja_dict_find(run, message->dict, &key, &content))
        return false;
    if (!content)
        return true;
    if (content->type == JINJA_LIST) {
        for (size_t i = content->list->count; i-- > 0;) {
            if (!find(run, &content->list->items[i], "text", &copy))
                return false;
            if (copy)
                return append_tag(run, copy);
        }
        return true;
    }
    const struct jinja_value before = *content;
    bool reasoning = false, ok = true, equal;
    for (size_t i = 0; i < REASONING_NAMES; i++)
        reasoning = reasoning || dgl_str_eq(field, reasoning_names[i]);
    if (!reasoning)
        return append_tag(run, content);
    for (size_t i = 0; ok && i < REASONING_NAMES; i++) {
        ok = find(run, message, reasoning_names[i], &copy);
        if (ok && copy)
            ok = jinja_equal(run, copy, &before, &equal) && (!equal || append_tag(run, copy));
    }
    return ok;
}

bool jinja_prepare_messages(struct jinja_run *run, const struct jinja_params *params,
                            struct jinja_value *messages)
{
    struct jinja_value *content;
    if (messages->type != JINJA_LIST)
        return true;
    struct jinja_list *list = messages->list;
    for (size_t i = 0; i < list->count; i++)
        if (!prepare_message(run, params, &list->items[i]))
            return false;
    for (size_t i = 0; i < params->num_answers; i++) {
        const size_t index = params->answers[i];
        if (index < list->count && (!find(run, &list->items[index], "content", &content) ||
                                    !mark_text(run, content, jinja_taint_of_answer(i))))
            return false;
    }
    return params->continue_field.len == 0 || list->count == 0 ||
           tag_last(run, &list->items[list->count - 1], params->continue_field);
}
