/* Fields of a config.json that nothing reads: harmless, or only accepted at the value that
 * changes nothing. */
#ifndef DGL_LOADER_CONFIG_CHECK_H
#define DGL_LOADER_CONFIG_CHECK_H

#include "loader/desc/config_family.h"

/* Looks at every field as `family` (enum family_bit) means it. One that would change the results is
 * DGL_ERR_UNSUPPORTED; those that the table does not know are listed in one warning. */
enum dgl_status config_check_fields(const struct config *c, uint32_t family);

#endif
