/* The reference list of rows by expert. */
#include "tests/support/ref_moe.h"

void ref_moe_group(const uint32_t *ids, uint32_t tokens, uint32_t top_k, uint32_t experts,
                   uint32_t *list)
{
    uint32_t count = 0;
    for (uint32_t e = 0; e < experts; e++) {
        list[e] = count;
        for (uint32_t pair = 0; pair < tokens * top_k; pair++)
            if (ids[pair] == e)
                list[experts + 1 + count++] = pair;
    }
    list[experts] = count;
}
