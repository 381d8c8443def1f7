// Items of lib rope_items from `vec2 QKV[]`.

// Loads an item of the head whose first number is `first`.
vec4 rope_item_load(uint first, rope_item item)
{
    return vec4(QKV[(first + item.dim) / 2u], QKV[(first + item.partner) / 2u]);
}
