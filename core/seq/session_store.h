/* Saves a session to a file and loads it. The caller must have entered the device. */
#ifndef DGL_CORE_SESSION_STORE_H
#define DGL_CORE_SESSION_STORE_H

#include "core/seq/prefill.h"

/* Implement dgl_session_save() and dgl_session_load(). */
enum dgl_status session_save(struct dgl_session *s, const struct dgl_session_save_params *params);
enum dgl_status session_load(struct dgl_session *s, const struct dgl_session_load_params *params,
                             char **data, size_t *data_len);

#endif
