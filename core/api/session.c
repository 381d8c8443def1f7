/* Sessions: buffers, prefix reuse, and passes over chunks of tokens. */
#include "core/seq/session.h"
#include "core/base/log.h"
#include "core/base/mem.h"
#include "core/plan/oplist_moe.h"
#include "core/memory/pool.h"
#include "core/memory/rope_table.h"
#include "loader/desc/rope_freq.h"

#include <stdlib.h>
#include <string.h>

/* Stop ids on the device: how many, then the ids. */
#define STOP_WORDS (1 + SAMPLING_MAX_STOP_IDS)

/* ---- buffers --------------------------------------------------------------------------------- */

static enum dgl_status add_buffer(struct dgl_session *s, uint64_t size, const char *label,
                                  struct gl_range *range)
{
    struct gl_buffer **slot = &s->buffers[s->num_buffers];
    enum dgl_status st = pool_acquire(
        s->model->dev->pool, &(struct gl_buffer_params){.size = size, .label = label}, slot);
    if (st != DGL_OK)
        return st;
    s->num_buffers++;
    s->bytes += size;
    s->model->dev->held_bytes += size;
    *range = (struct gl_range){*slot, 0, size};
    return DGL_OK;
}

static uint64_t attention_words(const struct dgl_model *m, int32_t chunk)
{
    const struct model_desc *d = m->ops.desc;
    uint64_t heads = (uint64_t)d->heads, dim = (uint64_t)d->head_dim;
    uint64_t prefill = (uint64_t)chunk * heads * dim;
    uint64_t partial = heads * m->ops.splits * (dim + 2);
    return prefill > partial ? prefill : partial;
}

static bool uses_rope(const struct model_desc *d, int32_t set)
{
    for (int32_t i = 0; i < d->layers; i++)
        if (d->layer[i].rope == set)
            return true;
    return set == ROPE_GLOBAL; /* bound where no position counts */
}

/* What a mixture of experts needs for `rows` tokens. */
static void expert_bytes(const struct model_desc *d, uint64_t rows, uint64_t bytes[SLOT_COUNT])
{
    uint64_t experts = (uint64_t)d->moe.experts, pairs = rows * (uint64_t)d->moe.top_k;
    uint64_t act = pairs * (uint64_t)d->moe.intermediate * 4;
    if (experts == 0)
        return;
    bytes[SLOT_ACT] = act > bytes[SLOT_ACT] ? act : bytes[SLOT_ACT];
    bytes[SLOT_ROUTER] = rows * (uint64_t)moe_logits_stride(&d->moe) * 4;
    bytes[SLOT_ROUTE] = pairs * 8;
    bytes[SLOT_LIST] = (experts + 1 + pairs) * 4;
    bytes[SLOT_EXPERTS] = pairs * (uint64_t)d->hidden * 4;
}

/* Bytes of each session buffer but KV; the one list that allocation and estimate share. */
static void slot_bytes(const struct dgl_model *m, int32_t context, int32_t chunk,
                       uint64_t bytes[SLOT_COUNT])
{
    const struct model_desc *d = m->ops.desc;
    uint64_t rows = (uint64_t)chunk, hidden = (uint64_t)d->hidden;
    uint64_t qkv = (uint64_t)(d->heads + 2 * d->kv_heads) * (uint64_t)d->head_dim;
    memset(bytes, 0, SLOT_COUNT * sizeof(bytes[0]));
    bytes[SLOT_IDS] = ((uint64_t)context + 1) * 4;
    bytes[SLOT_STEP] = sizeof(struct dgl_step);
    bytes[SLOT_X] = rows * hidden * 4;
    bytes[SLOT_NORMED] = rows * hidden * 4;
    bytes[SLOT_QKV] = rows * qkv * 4;
    bytes[SLOT_ATT] = attention_words(m, chunk) * 4;
    bytes[SLOT_MERGED] = (uint64_t)d->heads * (uint64_t)d->head_dim * 4;
    bytes[SLOT_ACT] = rows * (uint64_t)d->intermediate * 4;
    expert_bytes(d, rows, bytes);
    bytes[SLOT_LOGITS] = (uint64_t)d->vocab * 4;
    bytes[SLOT_CAND] = sampling_scratch_bytes((uint32_t)d->vocab);
    bytes[SLOT_STOPS] = STOP_WORDS * 4;
    for (int32_t set = 0; set < ROPE_SETS; set++)
        if (uses_rope(d, set))
            bytes[SLOT_ROPE_GLOBAL + set] = rope_table_bytes(&d->rope[set], context);
    bytes[SLOT_ARGS] = (m->plan.seg[SEG_DECODE].ops.count + 64) * 12;
}

uint64_t model_kv_layer_bytes(const struct dgl_model *model, int32_t context)
{
    const struct model_desc *d = model->ops.desc;
    uint64_t element = model->ops.kv_type == DGL_KV_F32 ? 4 : 2;
    return 2 * (uint64_t)d->kv_heads * (uint64_t)d->head_dim * (uint64_t)context * element;
}

uint64_t model_scratch_bytes(const struct dgl_model *model, int32_t chunk)
{
    uint64_t bytes[SLOT_COUNT], sum = 0;
    slot_bytes(model, model->info.context, chunk, bytes);
    for (int i = 0; i < SLOT_COUNT; i++)
        sum += bytes[i];
    return sum;
}

static enum dgl_status create_buffers(struct dgl_session *s)
{
    static const char *const label[SLOT_COUNT] = {
        [SLOT_IDS] = "ids",
        [SLOT_STEP] = "step",
        [SLOT_X] = "x",
        [SLOT_NORMED] = "normed",
        [SLOT_QKV] = "qkv",
        [SLOT_ATT] = "attention",
        [SLOT_MERGED] = "merged",
        [SLOT_ACT] = "act",
        [SLOT_LOGITS] = "logits",
        [SLOT_CAND] = "candidates",
        [SLOT_STOPS] = "stops",
        [SLOT_ARGS] = "args",
        [SLOT_ROPE_GLOBAL] = "rope",
        [SLOT_ROPE_LOCAL] = "local rope",
        [SLOT_ROUTER] = "router logits",
        [SLOT_ROUTE] = "chosen experts",
        [SLOT_LIST] = "tokens by expert",
        [SLOT_EXPERTS] = "expert results",
    };
    const struct dgl_model *m = s->model;
    uint64_t bytes[SLOT_COUNT];
    /* The cache's stride is the context that the model granted, whatever this session uses of it.
     */
    slot_bytes(m, m->info.context, s->chunk, bytes);
    s->slots.kv = dgl_new_array(struct gl_range, (size_t)m->ops.desc->layers);
    s->buffers = dgl_new_array(struct gl_buffer *, (size_t)m->ops.desc->layers + SLOT_COUNT);
    s->ids = dgl_new_array(int32_t, (size_t)m->info.context + 1);
    if (!s->slots.kv || !s->buffers || !s->ids)
        return dgl_fail_memory(m->dev->log, "session", (uint64_t)m->info.context * 4);
    for (int i = 0; i < SLOT_COUNT; i++) {
        if (bytes[i] == 0)
            continue;
        enum dgl_status st = add_buffer(s, bytes[i], label[i], &s->slots.slot[i]);
        if (st != DGL_OK)
            return st;
    }
    for (int32_t i = 0; i < m->ops.desc->layers; i++) {
        enum dgl_status st =
            add_buffer(s, model_kv_layer_bytes(m, m->info.context), "kv", &s->slots.kv[i]);
        if (st != DGL_OK)
            return st;
    }
    return DGL_OK;
}

static enum dgl_status write_stop_ids(struct dgl_session *s)
{
    const struct dgl_model_info *info = &s->model->info;
    uint32_t words[STOP_WORDS] = {0};
    words[0] = (uint32_t)info->num_stop_ids;
    for (size_t i = 0; i < info->num_stop_ids; i++)
        words[1 + i] = (uint32_t)info->stop_ids[i].id;
    return gl_buffer_write(s->model->dev->gl, s->slots.slot[SLOT_STOPS].buffer, 0, words,
                           sizeof(words));
}

/* ---- positions --------------------------------------------------------------------------------
 */

static enum dgl_status write_rope(struct dgl_session *s, int32_t tokens)
{
    const struct dgl_model *m = s->model;
    enum dgl_status st = DGL_OK;
    for (int32_t set = 0; set < ROPE_SETS && st == DGL_OK; set++) {
        struct gl_range range = s->slots.slot[SLOT_ROPE_GLOBAL + set];
        if (range.size)
            st = rope_table_write(m->dev, &m->ops.desc->rope[set], m->info.context, tokens, range);
    }
    s->rope_tokens = tokens;
    return st;
}

bool session_rope_holds(const struct dgl_session *s, int32_t tokens)
{
    const struct model_desc *d = s->model->ops.desc;
    for (int32_t set = 0; set < ROPE_SETS; set++)
        if (s->slots.slot[SLOT_ROPE_GLOBAL + set].size &&
            rope_freq_changes(&d->rope[set], s->rope_tokens, tokens))
            return false;
    return true;
}

enum dgl_status session_expect(struct dgl_session *s, int32_t tokens)
{
    if (session_rope_holds(s, tokens))
        return DGL_OK;
    dgl_session_trim(s, 0);
    return write_rope(s, tokens);
}

/* ---- runs ------------------------------------------------------------------------------------ */

static void drop_runs(struct dgl_session *s)
{
    struct dgl_device *dev = s->model->dev;
    run_finish(dev, &s->prefill);
    run_finish(dev, &s->single);
    run_finish(dev, &s->head);
    run_finish(dev, &s->score);
    for (int i = 0; i < SAMPLE_KINDS * 2; i++) {
        run_finish(dev, &s->sample[i / 2][i % 2]);
        run_finish(dev, &s->decode[i / 2][i % 2][0]);
        run_finish(dev, &s->decode[i / 2][i % 2][1]);
    }
}

enum dgl_status session_enter(struct dgl_session *s, struct gl_saved *saved)
{
    enum dgl_status st = device_enter(s->model->dev, saved);
    if (st != DGL_OK)
        return st;
    if (s->plan_serial != s->model->plan_serial)
        drop_runs(s);
    s->plan_serial = s->model->plan_serial;
    atomic_store(&s->cancel, false);
    return DGL_OK;
}

struct run_flags {
    bool repeats, indirect;
};

static enum dgl_status bind_run(struct dgl_session *s, struct run *run, const enum segment *segs,
                                size_t count, struct run_flags flags)
{
    if (run->list)
        return DGL_OK;
    return run_init(run, &(struct run_params){.dev = s->model->dev,
                                              .plan = &s->model->plan,
                                              .segs = segs,
                                              .num_segs = count,
                                              .slots = &s->slots,
                                              .repeats = flags.repeats,
                                              .indirect = flags.indirect});
}

enum dgl_status session_bind(struct dgl_session *s, struct run *run, enum segment seg)
{
    return bind_run(s, run, &seg, 1, (struct run_flags){0});
}

static size_t sampling_segments(enum segment *segs, enum sample_kind kind, bool penalised)
{
    size_t n = 0;
    if (penalised)
        segs[n++] = SEG_PENALTY;
    segs[n++] = (enum segment)(SEG_SAMPLE_GREEDY + kind);
    return n;
}

enum dgl_status session_bind_sampling(struct dgl_session *s, enum sample_kind kind, bool penalised)
{
    enum segment segs[2];
    size_t n = sampling_segments(segs, kind, penalised);
    return bind_run(s, &s->sample[kind][penalised], segs, n, (struct run_flags){0});
}

enum dgl_status session_bind_decode(struct dgl_session *s, enum sample_kind kind, bool penalised,
                                    bool several)
{
    enum segment segs[5] = {SEG_DECODE, SEG_HEAD};
    size_t n = 2 + sampling_segments(segs + 2, kind, penalised);
    struct run *run = &s->decode[kind][penalised][several];
    if (several)
        segs[n++] = SEG_IDLE;
    return bind_run(s, run, segs, n, (struct run_flags){.repeats = true, .indirect = several});
}

/* Tokens per pass whose activations the device can bind. */
static int32_t most_rows(const struct dgl_model *m)
{
    const struct dgl_limits *lim = dgl_device_get_limits(m->dev);
    uint64_t range =
        lim->max_ssbo_bytes < lim->max_buffer_bytes ? lim->max_ssbo_bytes : lim->max_buffer_bytes;
    uint64_t one[SLOT_COUNT], two[SLOT_COUNT], widest = 1;
    slot_bytes(m, 1, 1, one);
    slot_bytes(m, 1, 2, two);
    for (int i = 0; i < SLOT_COUNT; i++)
        widest = two[i] - one[i] > widest ? two[i] - one[i] : widest;
    uint64_t rows = range / widest;
    return rows < INT32_MAX ? (int32_t)rows : INT32_MAX;
}

static int32_t default_chunk(const struct dgl_model *m)
{
    int32_t most = most_rows(m);
    return m->chunk < most ? m->chunk : most;
}

/* ---- life ------------------------------------------------------------------------------------ */

static enum dgl_status check_params(const struct dgl_model *model,
                                    const struct dgl_session_params *p)
{
    if (p->context < 0 || p->context > model->info.context)
        return dgl_fail(model->dev->log, DGL_ERR_INVALID_ARG,
                        "session context %d, the model was loaded for %d: load it with more",
                        p->context, model->info.context);
    int32_t most = most_rows(model);
    if (p->chunk < 0 || p->chunk > most)
        return dgl_fail(model->dev->log, DGL_ERR_INVALID_ARG,
                        "session chunk %d: %s takes 1 to %d tokens per pass, 0 chooses", p->chunk,
                        model->dev->info.renderer, most);
    return DGL_OK;
}

static void destroy_entered(struct dgl_session *s)
{
    struct pool *pool = s->model->dev->pool;
    s->model->dev->held_bytes -= s->bytes;
    drop_runs(s);
    pool_release(pool, &s->all_logits);
    for (uint32_t i = 0; i < s->num_buffers; i++)
        pool_release(pool, &s->buffers[i]);
    free(s->buffers);
    free(s->slots.kv);
    free(s->ids);
    free(s);
}

enum dgl_status dgl_session_create(struct dgl_model *model, const struct dgl_session_params *params,
                                   struct dgl_session **out)
{
    static const struct dgl_session_params defaults;
    const struct dgl_session_params *p = params ? params : &defaults;
    struct gl_saved saved = {0};
    if (!out)
        return dgl_fail_no_out(model->dev->log, "dgl_session_create");
    *out = NULL;
    enum dgl_status st = check_params(model, p);
    if (st != DGL_OK)
        return st;
    st = device_enter(model->dev, &saved);
    if (st != DGL_OK)
        return st;
    struct dgl_session *s = dgl_new(struct dgl_session);
    if (!s) {
        st = dgl_fail_memory(model->dev->log, "session", sizeof(*s));
        goto done;
    }
    s->model = model;
    s->plan_serial = model->plan_serial;
    s->context = p->context ? p->context : model->info.context;
    s->chunk = p->chunk ? p->chunk : default_chunk(model);
    s->chunk = s->chunk < s->context ? s->chunk : s->context;
    st = model_check_session_fits(model, s->chunk);
    if (st == DGL_OK)
        st = create_buffers(s);
    if (st == DGL_OK)
        st = write_stop_ids(s);
    if (st == DGL_OK)
        st = write_rope(s, 0);
    if (st == DGL_OK)
        *out = s;
    else
        destroy_entered(s);
done:
    device_leave(model->dev, &saved);
    return st;
}

void dgl_session_destroy(struct dgl_session **session)
{
    struct dgl_session *s = *session;
    *session = NULL;
    if (!s)
        return;
    struct dgl_device *dev = s->model->dev;
    struct gl_saved saved = {0};
    /* A lost device cannot be entered; its objects are gone and destroying them is harmless. */
    bool entered = gl_enter(dev->gl, &saved) == DGL_OK;
    destroy_entered(s);
    if (entered)
        gl_leave(dev->gl, &saved);
}

void dgl_session_cancel(struct dgl_session *session)
{
    atomic_store_explicit(&session->cancel, true, memory_order_relaxed);
}

int32_t dgl_session_len(const struct dgl_session *session)
{
    return session->len;
}

void dgl_session_trim(struct dgl_session *session, int32_t len)
{
    if (len < 0)
        len = 0;
    if (len < session->len) {
        session->len = len;
        session->logits_valid = false;
    }
}

/* ---- passes ---------------------------------------------------------------------------------- */

enum dgl_status session_write_step(struct dgl_session *s, const struct dgl_step *step)
{
    return gl_buffer_write(s->model->dev->gl, s->slots.slot[SLOT_STEP].buffer, 0, step,
                           sizeof(*step));
}

enum dgl_status session_pass(struct dgl_session *s, int32_t tokens)
{
    struct dgl_device *dev = s->model->dev;
    /* A single token is a matrix-vector problem, also while reading a prompt. */
    struct run *run = tokens == 1 ? &s->single : &s->prefill;
    struct dgl_step step = {
        .pos = (uint32_t)s->len, .tokens = (uint32_t)tokens, .context = (uint32_t)s->context};
    enum dgl_status st = session_bind(s, run, tokens == 1 ? SEG_DECODE : SEG_PREFILL);
    if (st == DGL_OK)
        st = run_set_tokens(dev, run, tokens);
    if (st == DGL_OK)
        st = gl_buffer_write(dev->gl, s->slots.slot[SLOT_IDS].buffer, (uint64_t)s->len * 4,
                             s->ids + s->len, (uint64_t)tokens * 4);
    if (st == DGL_OK)
        st = session_write_step(s, &step);
    if (st == DGL_OK)
        st = gl_submit(dev->gl, run->list, run->count, NULL);
    if (st == DGL_OK) {
        s->len += tokens;
        dev->tokens += (uint64_t)tokens;
        s->logits_valid = false;
    }
    return st;
}

static enum dgl_status eval_head(struct dgl_session *s)
{
    enum dgl_status st = session_bind(s, &s->head, SEG_HEAD);
    if (st == DGL_OK)
        st = gl_submit(s->model->dev->gl, s->head.list, s->head.count, NULL);
    s->logits_valid = st == DGL_OK;
    return st;
}

enum dgl_status session_eval(struct dgl_session *s, int32_t count)
{
    enum dgl_status st = session_expect(s, count);
    while (s->len < count && st == DGL_OK) {
        if (atomic_load_explicit(&s->cancel, memory_order_relaxed))
            return DGL_ERR_CANCELLED;
        int32_t left = count - s->len;
        st = session_pass(s, left < s->chunk ? left : s->chunk);
        if (st == DGL_OK)
            gl_flush(s->model->dev->gl);
    }
    return st == DGL_OK ? eval_head(s) : st;
}

/* ---- sync ------------------------------------------------------------------------------------ */

enum dgl_status session_check_ids(const struct dgl_session *s, const char *what, const int32_t *ids,
                                  size_t count)
{
    const struct dgl_log *log = s->model->dev->log;
    if (count == 0)
        return dgl_fail(log, DGL_ERR_INVALID_ARG, "%s is empty: give at least one token", what);
    if (count > (size_t)s->context)
        return dgl_fail(log, DGL_ERR_INVALID_ARG,
                        "%s has %zu tokens, the context holds %d: shorten it or raise -c", what,
                        count, s->context);
    for (size_t i = 0; i < count; i++)
        if (ids[i] < 0 || ids[i] >= s->model->info.vocab)
            return dgl_fail(log, DGL_ERR_INVALID_ARG,
                            "token %zu of %s is %d, the vocabulary has ids 0 to %d", i, what,
                            ids[i], s->model->info.vocab - 1);
    return DGL_OK;
}

static size_t common_prefix(const struct dgl_session *s, const int32_t *ids, size_t count)
{
    size_t n = 0;
    while (n < count && n < (size_t)s->len && s->ids[n] == ids[n])
        n++;
    return n;
}

enum dgl_status session_sync(struct dgl_session *s, const int32_t *ids, size_t count,
                             size_t *reused)
{
    enum dgl_status st = session_check_ids(s, "the prompt", ids, count);
    if (st != DGL_OK)
        return st;
    st = session_expect(s, (int32_t)count);
    if (st != DGL_OK)
        return st;
    size_t keep = common_prefix(s, ids, count);
    /* The last token's logits are wanted: evaluate it again unless they are still there. */
    if (keep == count && !(s->logits_valid && s->len == (int32_t)count))
        keep--;
    dgl_session_trim(s, (int32_t)keep);
    if (reused)
        *reused = keep;
    memcpy(s->ids + keep, ids + keep, (count - keep) * sizeof(*ids));
    if (s->len == (int32_t)count)
        return DGL_OK;
    return session_eval(s, (int32_t)count);
}

enum dgl_status dgl_session_sync(struct dgl_session *session, const int32_t *ids, size_t count,
                                 size_t *reused)
{
    struct gl_saved saved = {0};
    enum dgl_status st = session_enter(session, &saved);
    if (st != DGL_OK)
        return st;
    st = session_sync(session, ids, count, reused);
    device_leave(session->model->dev, &saved);
    return st;
}
