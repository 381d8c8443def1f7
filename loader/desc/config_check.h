/* Checks the fields of a config.json that the loader does not read. Such a field must be harmless,
 * or have its neutral value. */
#ifndef DGL_LOADER_CONFIG_CHECK_H
#define DGL_LOADER_CONFIG_CHECK_H

#include "loader/desc/config_family.h"

/* Checks every field for `family` (enum family_bit). Returns DGL_ERR_UNSUPPORTED if a field would
 * change the results. Lists unknown fields in one warning. */
enum dgl_status config_check_fields(const struct config *c, uint32_t family);

#endif
