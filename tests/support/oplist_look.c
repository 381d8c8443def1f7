/* Lists of operations, as tests look at them. */
#include "tests/support/oplist_look.h"

#include "tests/support/test.h"

const struct op *look_op(const struct oplist *list, const char *label, int32_t layer, int n)
{
    for (size_t i = 0; i < list->count; i++)
        if (strcmp(list->ops[i].label, label) == 0 && list->ops[i].layer == layer && n-- == 0)
            return &list->ops[i];
    fail_msg("no operation %s in layer %d", label, layer);
    return NULL;
}

const char *look_attr(const struct op *op, const char *key)
{
    for (uint32_t i = 0; i < op->request.num_attrs; i++)
        if (strcmp(op->request.attrs[i].key, key) == 0)
            return op->request.attrs[i].word;
    return "(none)";
}

int64_t look_const(const struct op *op, const char *name)
{
    for (uint32_t i = 0; i < op->request.num_consts; i++)
        if (strcmp(op->request.consts[i].name, name) == 0)
            return op->request.consts[i].value;
    return -1;
}

struct ref look_ref(const struct op *op, const char *name)
{
    const struct op_bind *bind = op_find_bind(op, name);
    if (!bind)
        fail_msg("%s has no %s", op->label, name);
    return bind->ref;
}

void look_at_buffer(const struct op *op, const char *name, enum plan_buffer want)
{
    struct ref ref = look_ref(op, name);
    assert_int_equal(ref.kind, want < BUF_STATE_COUNT ? REF_STATE : REF_ACT);
    assert_int_equal(ref.id, want);
}

void look_at_labels(const struct oplist *list, const char *want)
{
    char got[1024] = "";
    for (size_t i = 0, len = 0; i < list->count; i++)
        len += (size_t)snprintf(got + len, sizeof(got) - len, "%s%s", i ? " " : "",
                                list->ops[i].label);
    assert_string_equal(got, want);
    assert_false(list->failed);
}
