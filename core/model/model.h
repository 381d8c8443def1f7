/* A loaded model: description, weights on the device, the engine for the kernels in use, and the
 * workspace that its sessions share. */
#ifndef DGL_CORE_MODEL_H
#define DGL_CORE_MODEL_H

#include "core/exec/runner.h"
#include "core/model/trust.h"
#include "loader/model/model_file.h"
#include "loader/tokenizer/tokenizer.h"

/* A user of the model: a session, or the state of several sequences. The model does not depend on
 * its users: they add themselves to its list and set these functions. The caller must have entered
 * the device. */
struct model_user {
    const struct model_user_ops *ops;
    struct model_user *next;
    const struct runner *runner; /* runs the model for this user */
};
struct model_user_ops {
    void (*drop_memory)(struct model_user *user);            /* frees the device memory */
    enum dgl_status (*make_memory)(struct model_user *user); /* allocates it again */
    /* Evaluates the user's tokens again. After a failure, which is passed as `status`, the user
     * forgets its tokens. Returns the failure. */
    enum dgl_status (*restore)(struct model_user *user, enum dgl_status status);
};

/* One device's part of a model: everything that a second device has a copy of. Sessions, names,
 * tokenizer and the caller's kernels belong to the model. */
struct shard {
    struct dgl_model *model;
    struct dgl_device *dev;
    int32_t first_layer, end_layer; /* layers of the model that this device computes */
    struct engine *engine;          /* NULL only while the model is being planned */
    struct weight_buffers buffers;  /* of the engine's weights */
    /* error with which model_set_kernels() left the buffers empty, or DGL_OK */
    enum dgl_status lost;
    struct kernel_swap swap; /* to the engine for dgl_model.next, or empty */
    uint32_t engine_serial;  /* raised if engine or buffers are replaced: sessions bind again */
    struct workspace workspace;
    struct kv_cache kv; /* pages of all sessions */
    struct pace pace;   /* of passes by the engine; its users share it */
    /* gl_device_context() of weights and sessions; if it differs, the model must be rebuilt */
    uint32_t context;
};

#define MODEL_SHARDS_MAX 1

struct dgl_model {
    const struct dgl_log *log;
    struct dgl_model_file *file;
    struct dgl_tokenizer *tok;          /* of `file`; may be NULL */
    struct constraint_set *constraints; /* core/text/constraint.h; owned by core/api/model.c */
    struct dgl_model_info info;
    struct kernel_set *untuned; /* the caller's layers plus the manifest's hints */
    bool no_tuned;
    /* Other kernels that model_set_kernels() has begun to prepare, like `untuned`, or NULL. The
     * reference to the caller's set, which may be NULL, identifies them. */
    struct kernel_set *next, *next_from;
    struct model_user *users; /* list head */
    uint32_t rebuilds;        /* times that model_rebuild() freed the device memory */
    int32_t num_shards;
    /* In the order of their layers. `model->shard->` is code for a model on one device. */
    struct shard shard[MODEL_SHARDS_MAX];
};

/* A number that changes whenever the engine is replaced or workspace or KV cache move: runs that
 * were bound before are void. */
static inline uint32_t model_generation(const struct dgl_model *m)
{
    uint32_t sum = 0;
    for (const struct shard *s = m->shard; s < m->shard + m->num_shards; s++)
        sum += s->engine_serial + s->workspace.serial + s->kv.serial;
    return sum;
}

/* The model's `untuned` plus the tuner's hints for the device. Borrowed. */
static inline struct kernel_set *shard_kernels(const struct shard *shard)
{
    return shard->engine->plan.kernels.set;
}

/* First part of model_load(): describes the model, lists its weights and makes its plan. Allocates
 * no device memory. */
enum dgl_status model_plan(struct dgl_model *m, struct dgl_device *dev,
                           const struct dgl_model_params *params);
/* Opens, plans and uploads into a zeroed model. On failure the caller must call model_destroy().
 * The caller must have entered the device. */
enum dgl_status model_load(struct dgl_model *m, struct dgl_device *dev,
                           const struct dgl_model_params *params);
/* Fills buffers from the model's files, or with synthetic values. If `other` is not NULL, moves the
 * buffers to that placement, and fills only new ones. The caller sets `only` and progress of
 * `upload`. Slow. */
enum dgl_status shard_fill_weights(struct shard *shard, struct weight_buffers *buffers,
                                   const struct model_weights *other,
                                   struct weight_upload_params upload);
/* Frees a model with all its memory. The caller must have entered the device, or the device is
 * lost. */
void model_destroy(struct dgl_model *m);
/* Returns DGL_ERR_UNSUPPORTED if the model has no head, so that it has no logits. */
enum dgl_status model_check_head(const struct dgl_model *m);
/* Returns and reports the error with which the shard's memory was lost, or DGL_OK. */
enum dgl_status shard_check(const struct shard *shard, const struct dgl_log *log);
/* device_enter() for a call that computes. Also returns DGL_ERR_DEVICE_LOST if the model was not
 * rebuilt after a loss, and the error of model_set_kernels() if that lost the weights. */
enum dgl_status model_enter(const struct dgl_model *m, struct gl_saved *saved);
/* Restores a model and its sessions after its device was lost: dgl_model_rebuild(). The caller must
 * not have entered the device. */
enum dgl_status model_rebuild(struct dgl_model *m, const struct dgl_rebuild_params *params);
/* Replaces the engine, and all weights that the new kernels require in another layout or type. If
 * `ready` is not NULL, only does a part of that in advance: dgl_model_prepare_kernels(). On failure
 * the model is unchanged. The caller must have entered the device. */
enum dgl_status model_set_kernels(struct dgl_model *m, const struct dgl_kernels *kernels,
                                  bool *ready);
/* Makes a new plan with the model's present kernels after the device's properties changed. Compiles
 * no program. Returns DGL_ERR_UNSUPPORTED if no other kernel can run an operation. */
enum dgl_status model_replan(struct dgl_model *m);
/* Returns the unused bytes of device_memory_budget(), or 0 if unknown. */
uint64_t shard_memory_left(const struct shard *shard);
/* Estimates the memory of a session of `context` tokens and passes of `ubatch` tokens. */
void shard_estimate(const struct shard *shard, int32_t context, int32_t ubatch,
                    struct dgl_memory *out);
/* Returns DGL_ERR_NO_MEMORY and reports the required and the available memory if such a session
 * does not fit. */
enum dgl_status shard_check_session_fits(const struct shard *shard, int32_t context,
                                         int32_t ubatch);

#endif
