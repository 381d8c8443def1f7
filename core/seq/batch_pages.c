/* The pages of a batch's lanes, and the requests that give theirs up.
 *
 * Lanes are guests of the KV cache. Whoever came later yields: the oldest request always gets on,
 * so that all of them end. A request that yields keeps its tokens; when it runs again they are
 * evaluated as a prompt is, and its next draw is the one that it would have made. */
#include "core/seq/batch_pages.h"

#include <string.h>

#include "core/base/log.h"

/* Positions of each lane that there is room for when a batch begins. */
#define FIRST_TOKENS 512

enum dgl_status batch_pages_init(struct dgl_batch *b, const struct dgl_batch_params *p)
{
    struct dgl_model *m = b->model;
    const struct plan *plan = &m->engine->plan;
    const uint32_t lanes = (uint32_t)b->info.sequences;
    int32_t context = p->context ? p->context : m->info.context;
    const int32_t rows = p->chunk ? p->chunk : plan_default_rows(plan);
    struct dgl_memory mem;
    struct gl_saved saved = {0};
    b->info.context = context;
    if (context < 0 || context > m->info.context || rows < 0)
        return DGL_OK; /* the first lane's session refuses them */
    if (p->cache_tokens < 0)
        return dgl_fail(m->dev->log, DGL_ERR_INVALID_ARG,
                        "cache_tokens of a batch is %d: 0 takes as many as all contexts come to",
                        p->cache_tokens);
    /* What all lanes have besides pages, and what those have that are written together; then pages.
     */
    enum dgl_status status = p->invariant ? DGL_OK : plan_add_batch(&m->engine->plan);
    if (status != DGL_OK)
        return status;
    const struct plan_batch all = {.context = context,
                                   .sequences = b->info.sequences,
                                   .rows = rows,
                                   .groups = !p->invariant && !plan->one_row};
    model_estimate(m, context, rows, &mem);
    const uint64_t page = m->kv.page_bytes * m->kv.layers;
    uint64_t state;
    const uint64_t fixed = mem.weight_bytes + plan_batch_total(plan, &all, &state);
    uint64_t fit = m->kv.most_pages - m->kv.promised,
             want = (uint64_t)lanes * plan_kv_pages(context);
    if (mem.available_bytes) {
        const uint64_t left = mem.available_bytes > fixed ? mem.available_bytes - fixed : 0;
        fit = left / page < fit ? left / page : fit;
    }
    if (p->cache_tokens && plan_kv_pages(p->cache_tokens) < want)
        want = plan_kv_pages(p->cache_tokens);
    const uint64_t pages = want < fit ? want : fit;
    /* What is evaluated again has other bits: an invariant batch never runs out. */
    const uint64_t most = (p->invariant ? pages / lanes : pages) * DGL_KV_PAGE;
    if (p->context && most < (uint64_t)context)
        return dgl_fail(m->dev->log, DGL_ERR_NO_MEMORY,
                        "a sequence of %d tokens takes %u pages of the KV cache, there is room for "
                        "%llu beside %u sequences: the largest context that fits is %llu",
                        context, plan_kv_pages(context), (unsigned long long)pages, lanes,
                        (unsigned long long)most);
    if (most == 0)
        return dgl_fail(m->dev->log, DGL_ERR_NO_MEMORY,
                        "%u sequences do not fit %s: they take %llu MiB without any page of the KV "
                        "cache, available %llu MiB",
                        lanes, m->dev->info.renderer, (unsigned long long)(fixed >> 20),
                        (unsigned long long)(mem.available_bytes >> 20));
    if (most < (uint64_t)context) {
        dgl_notice(m->dev->log, "%d tokens do not fit beside %u sequences: each gets %llu at most",
                   context, lanes, (unsigned long long)most);
        context = (int32_t)most;
    } else if (pages < want) {
        dgl_notice(m->dev->log,
                   "%u sequences share a KV cache of %llu tokens, room for all of them would be "
                   "%llu",
                   lanes, (unsigned long long)most, (unsigned long long)want * DGL_KV_PAGE);
    }
    b->info.context = context;
    const uint64_t first = (uint64_t)lanes * plan_kv_pages(FIRST_TOKENS);
    status = model_enter(m, &saved);
    if (status != DGL_OK)
        return status;
    const uint64_t left = model_memory_left(m);
    b->first_pages = (uint32_t)(first < pages ? first : pages);
    status = kv_cache_invite(&m->kv, (uint32_t)pages, b->first_pages,
                             left == 0      ? 0
                             : left > state ? left - state
                                            : 1);
    b->pages = status == DGL_OK ? (uint32_t)pages : 0;
    b->info.pages = b->pages;
    device_leave(m->dev, &saved);
    return status;
}

void batch_pages_finish(struct dgl_batch *b)
{
    if (b->pages)
        kv_cache_uninvite(&b->model->kv, b->pages, b->first_pages);
    b->pages = 0;
}

int32_t batch_request_tokens(const struct batch_request *r)
{
    return (int32_t)(r->result.num_prompt_ids + r->result.num_tokens);
}

/* Pages that a request has when its tokens are evaluated, and so many more as fit a page. */
static uint32_t wanted_pages(const struct batch_request *r)
{
    const int64_t tokens = batch_request_tokens(r), context = r->batch->info.context;
    int64_t most = tokens + DGL_KV_PAGE;
    if (r->how.max_tokens > 0 && (int64_t)r->result.num_prompt_ids + r->how.max_tokens < most)
        most = (int64_t)r->result.num_prompt_ids + r->how.max_tokens;
    return plan_kv_pages((int32_t)(most < context ? most : context));
}

bool batch_pages_admit(const struct dgl_batch *b, const struct batch_request *r)
{
    const struct kv_cache *kv = &b->model->kv;
    const int32_t prompt = (int32_t)r->result.num_prompt_ids;
    /* Pages that it will share cost nothing as long as someone has them. */
    int64_t want = (int64_t)wanted_pages(r) - kv_prefix_held(kv, r->result.prompt_ids, prompt - 1);
    for (int32_t i = 0; i < b->info.sequences; i++) {
        const struct batch_lane *lane = &b->lanes[i];
        const uint32_t wanted = lane->request ? wanted_pages(lane->request) : 0;
        want += wanted > lane->session->pages.count ? wanted - lane->session->pages.count : 0;
    }
    return b->info.running == 0 || want <= (int64_t)kv->guest_pages - kv->guest_used;
}

bool batch_pages_waits(const struct batch_request *r)
{
    const struct dgl_batch *b = r->batch;
    const int32_t *ids = r->result.prompt_ids;
    const int32_t end = (r->lane->session->len / DGL_KV_PAGE + 1) * DGL_KV_PAGE;
    if (!r->lane->session->shares || end >= (int32_t)r->result.num_prompt_ids)
        return false;
    for (int32_t i = 0; i < b->info.sequences; i++) {
        const struct batch_request *other = b->lanes[i].request;
        if (other && other->state == REQUEST_READS && other->id < r->id &&
            end <= (int32_t)other->result.num_prompt_ids && other->lane->session->len < end &&
            memcmp(other->result.prompt_ids, ids, (size_t)end * sizeof(*ids)) == 0)
            return true;
    }
    return false;
}

void batch_pages_give(struct batch_lane *lane)
{
    if (lane->slot >= 0)
        group_leave(lane->group, lane->slot);
    lane->slot = -1;
    session_trim(lane->session, 0);
    session_trim_pages(lane->session);
}

static void preempt(struct batch_request *r)
{
    struct dgl_batch *b = r->batch;
    dgl_debug(b->model->dev->log,
              "request %llu gives %u pages back at %d tokens and waits: %u of %u are taken",
              (unsigned long long)r->id, r->lane->session->pages.count, batch_request_tokens(r),
              b->model->kv.guest_used, b->model->kv.guest_pages);
    decode_queue_drop(&r->g.queue);
    batch_pages_give(r->lane);
    r->preempted = r->begun;
    r->resumes = false;
    r->state = REQUEST_WAITS;
    pthread_mutex_lock(&b->lock);
    r->lane->request = NULL;
    r->lane = NULL;
    pthread_mutex_unlock(&b->lock);
    b->info.running--;
    b->info.waiting++;
    b->info.preempted++;
}

bool batch_pages_make_room(struct batch_request *r, int32_t tokens)
{
    struct dgl_batch *b = r->batch;
    const struct dgl_session *s = r->lane->session;
    const uint32_t pages = plan_kv_pages(tokens < s->context ? tokens : s->context);
    while (kv_cache_lacks(&b->model->kv, &s->pages, pages) > 0) {
        struct batch_request *youngest = r;
        for (int32_t i = 0; i < b->info.sequences; i++) {
            struct batch_request *other = b->lanes[i].request;
            if (other && other->id > youngest->id)
                youngest = other;
        }
        preempt(youngest);
        if (youngest == r)
            return false;
    }
    return true;
}
