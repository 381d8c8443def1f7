/* Pages of a batch's lanes: sizes the pool when the batch is created, decides which requests may
 * begin, and which give their pages back.
 *
 * Lanes are pooled sequences of the KV cache (core/memory/kv_cache.h). A request may begin if the
 * pages suffice, at every step ahead, for the expected lengths of all running requests and its own.
 * Each sequence grows by one token per step until its end. If the length of an answer is known,
 * that length is expected. Otherwise the recent mean is expected, or one and a half times the
 * present length if that is more.
 *
 * Pages therefore run out if answers are longer than expected. Then the youngest request yields.
 * The oldest request always continues, so all requests end. A request that yields keeps its tokens
 * and waits for room like any other. When it runs again, its tokens are evaluated like a prompt,
 * and its next draw is the one it would have made before. A request yields only a few times: each
 * time, an older one has grown by half since room was expected for both, or the two did not keep
 * step.
 *
 * The look-ahead follows R. Gong et al., "Past-Future Scheduler for LLM Serving under SLA
 * Guarantees" (2025), with a mean in place of a distribution. */
#include "core/seq/batch_pages.h"

#include <assert.h>
#include <string.h>

#include "core/base/log.h"

/* Initial pages of the pool: room for this many positions per lane. */
#define FIRST_TOKENS 512

/* Expected length of an answer before any has ended. */
#define FIRST_ANSWER 256

enum dgl_status batch_pages_init(struct dgl_batch *b, const struct dgl_batch_params *p)
{
    struct dgl_model *m = b->model;
    const struct plan *plan = &m->shard->engine->plan;
    const uint32_t lanes = (uint32_t)b->info.sequences;
    int32_t context = p->context ? p->context : m->info.context;
    const int32_t rows = p->chunk ? p->chunk : plan_default_rows(plan);
    struct dgl_memory mem = {.size = sizeof(mem)};
    struct gl_saved saved = {0};
    b->info.context = context;
    b->answer_tokens = FIRST_ANSWER;
    if (context < 0 || context > m->info.context || rows < 0)
        return DGL_OK; /* session_create() of the first lane refuses them */
    if (p->cache_tokens < 0)
        return dgl_fail(m->log, DGL_ERR_INVALID_ARG,
                        "cache_tokens of a batch is %d: 0 takes as many as all contexts come to",
                        p->cache_tokens);
    /* First subtract the fixed memory of all lanes and of their groups. Pages get the rest. */
    enum dgl_status status = p->invariant ? DGL_OK : plan_add_batch(&m->shard->engine->plan);
    if (status != DGL_OK)
        return status;
    const struct plan_batch all = {.context = context,
                                   .sequences = b->info.sequences,
                                   .rows = rows,
                                   .groups = !p->invariant && !plan->one_row};
    shard_estimate(m->shard, context, rows, &mem);
    const uint64_t page = m->shard->kv.page_bytes;
    uint64_t state;
    const uint64_t fixed = mem.weight_bytes + plan_batch_total(plan, &all, &state);
    uint64_t fit = m->shard->kv.most_pages - m->shard->kv.promised,
             want = (uint64_t)lanes * plan_kv_pages(context);
    if (mem.available_bytes) {
        const uint64_t left = mem.available_bytes > fixed ? mem.available_bytes - fixed : 0;
        fit = left / page < fit ? left / page : fit;
    }
    if (p->cache_tokens && plan_kv_pages(p->cache_tokens) < want)
        want = plan_kv_pages(p->cache_tokens);
    const uint64_t pages = want < fit ? want : fit;
    /* Evaluating tokens again gives other bits. An invariant batch must therefore never run out of
     * pages. */
    const uint64_t most = (p->invariant ? pages / lanes : pages) * DGL_KV_PAGE;
    if (p->context && most < (uint64_t)context)
        return dgl_fail(m->log, DGL_ERR_NO_MEMORY,
                        "a sequence of %d tokens takes %u pages of the KV cache, there is room for "
                        "%llu beside %u sequences: the largest context that fits is %llu",
                        context, plan_kv_pages(context), (unsigned long long)pages, lanes,
                        (unsigned long long)most);
    if (most == 0)
        return dgl_fail(m->log, DGL_ERR_NO_MEMORY,
                        "%u sequences do not fit %s: they take %llu MiB without any page of the KV "
                        "cache, available %llu MiB",
                        lanes, m->shard->dev->info.renderer, (unsigned long long)(fixed >> 20),
                        (unsigned long long)(mem.available_bytes >> 20));
    if (most < (uint64_t)context) {
        dgl_notice(m->log, "%d tokens do not fit beside %u sequences: each gets %llu at most",
                   context, lanes, (unsigned long long)most);
        context = (int32_t)most;
    } else if (pages < want) {
        dgl_notice(m->log,
                   "%u sequences share a KV cache of %llu tokens, room for all of them would be "
                   "%llu",
                   lanes, (unsigned long long)most, (unsigned long long)want * DGL_KV_PAGE);
    }
    b->info.context = context;
    const uint64_t first = (uint64_t)lanes * plan_kv_pages(FIRST_TOKENS);
    status = model_enter(m, &saved);
    if (status != DGL_OK)
        return status;
    const uint64_t left = shard_memory_left(m->shard);
    b->first_pages = (uint32_t)(first < pages ? first : pages);
    status = kv_cache_reserve_pool(&m->shard->kv, (uint32_t)pages, b->first_pages,
                                   left == 0      ? 0
                                   : left > state ? left - state
                                                  : 1);
    b->info.pages = status == DGL_OK ? (uint32_t)pages : 0;
    device_leave(m->shard->dev, &saved);
    return status;
}

uint64_t batch_request_root(const struct batch_request *r)
{
    return kv_prefix_scoped(r->batch->model->shard->kv.root, r->p.prefix_scope);
}

int32_t batch_request_tokens(const struct batch_request *r)
{
    return (int32_t)(r->result.num_prompt_ids + r->result.num_tokens);
}

/* Returns the maximum positions of a request. Its last token is not evaluated. */
static int32_t most_tokens(const struct batch_request *r)
{
    const int64_t prompt = (int64_t)r->result.num_prompt_ids, context = r->batch->info.context;
    const int64_t answer = r->g.max_tokens > 0 ? r->g.max_tokens - 1 : 0;
    return (int32_t)(prompt + answer < context ? prompt + answer : context);
}

static size_t half_again(size_t tokens)
{
    return tokens + tokens / 2;
}

void batch_pages_learn(const struct batch_request *r)
{
    float *lately = &r->batch->answer_tokens;
    const float tokens = (float)r->result.num_tokens;
    const bool cut = r->result.finish != DGL_FINISH_EOS && r->result.finish != DGL_FINISH_STOP;
    /* An answer that was cut short would have been longer, by an unknown length. It counts only if
     * it exceeds the mean. */
    if (!cut || tokens > *lately)
        *lately += (tokens - *lately) / 16;
}

/* Pages of a request in the steps ahead. */
struct stay {
    int32_t tokens, expected; /* positions now, and at its end */
    int32_t end;              /* steps until it ends; each adds a token */
    uint32_t taken;           /* pages counted already, for this request or those that share them */
    uint32_t own;             /* of these, pages that no other request shares */
};

static struct stay stay_of(const struct batch_request *r)
{
    const struct kv_cache *kv = &r->batch->model->shard->kv;
    const int32_t most = most_tokens(r), prompt = (int32_t)r->result.num_prompt_ids;
    const int32_t written = (int32_t)r->result.num_tokens;
    int32_t answer = (int32_t)r->batch->answer_tokens;
    struct stay stay = {.tokens = prompt + written, .expected = most};
    if (answer < (int32_t)half_again((size_t)written))
        answer = (int32_t)half_again((size_t)written);
    if (answer < written + DGL_KV_PAGE)
        answer = written + DGL_KV_PAGE;
    if (!(r->how.ignore_eos && r->how.num_stop + r->how.num_stop_ids == 0) &&
        prompt < most - answer)
        stay.expected = prompt + answer;
    stay.end = stay.expected - stay.tokens + DECODER_BURSTS * DECODER_MAX_STEPS;
    if (!r->lane) {
        /* Pages that the request will share are free of cost while another request holds them. */
        if (!r->g.no_reuse)
            stay.taken =
                kv_prefix_held(kv, batch_request_root(r), r->result.prompt_ids, prompt - 1);
        return stay;
    }
    const struct kv_pages *pages = &r->lane->session->seq.pages;
    stay.taken = pages->count;
    for (uint32_t i = 0; i < pages->count; i++)
        stay.own += kv_cache_is_own(kv, pages, i);
    return stay;
}

bool batch_pages_admit(const struct dgl_batch *b, const struct batch_request *r)
{
    const struct kv_cache *kv = &b->model->shard->kv;
    const int64_t free = (int64_t)kv->pool_pages - kv_cache_pool_used(kv);
    struct stay stay[BATCH_MAX_SEQUENCES];
    int32_t count = 0;
    if (b->info.running == 0)
        return true;
    for (int32_t i = 0; i < b->info.sequences; i++)
        if (b->lanes[i].request)
            stay[count++] = stay_of(b->lanes[i].request);
    assert(count < b->info.sequences);
    stay[count++] = stay_of(r);
    /* The demand grows until a request ends. So it is enough to check the step at which each one
     * ends. */
    for (int32_t i = 0; i < count; i++) {
        const int32_t steps = stay[i].end;
        int64_t pages = 0; /* additional ones, so many steps ahead */
        for (const struct stay *s = stay; s < stay + count; s++) {
            const int32_t left = s->expected > s->tokens ? s->expected - s->tokens : 0;
            const uint32_t wanted = plan_kv_pages(s->tokens + (left < steps ? left : steps));
            if (s->end < steps)
                pages -= s->own;
            else
                pages += wanted > s->taken ? wanted - s->taken : 0;
        }
        if (pages > free)
            return false;
    }
    return true;
}

bool batch_pages_waits(const struct batch_request *r)
{
    const struct dgl_batch *b = r->batch;
    const int32_t *ids = r->result.prompt_ids;
    const int32_t end = (r->lane->session->seq.len / DGL_KV_PAGE + 1) * DGL_KV_PAGE;
    if (!r->lane->session->seq.share_prefix || r->g.no_reuse ||
        end >= (int32_t)r->result.num_prompt_ids)
        return false;
    for (int32_t i = 0; i < b->info.sequences; i++) {
        const struct batch_request *other = b->lanes[i].request;
        if (other && !other->writes && other->id < r->id &&
            other->p.prefix_scope == r->p.prefix_scope &&
            end <= (int32_t)other->result.num_prompt_ids && other->lane->session->seq.len < end &&
            memcmp(other->result.prompt_ids, ids, (size_t)end * sizeof(*ids)) == 0)
            return true;
    }
    return false;
}

void batch_pages_leave(struct batch_request *r)
{
    struct dgl_batch *b = r->batch;
    struct batch_lane *lane = r->lane;
    decoder_drop(&lane->session->own);
    decoder_leave(&r->g);
    sequence_trim(&lane->session->seq, 0);
    sequence_trim_pages(&lane->session->seq);
    pthread_mutex_lock(&b->lock);
    lane->request = NULL;
    r->lane = NULL;
    pthread_mutex_unlock(&b->lock);
    b->info.running--;
}

/* Lets a request wait after pages have run out. */
static void preempt(struct batch_request *r)
{
    struct dgl_batch *b = r->batch;
    size_t tokens = 0, writers = 0;
    dgl_debug(b->model->log,
              "request %llu gives %u pages back at %d tokens and waits: %u of %u are taken",
              (unsigned long long)r->id, r->lane->session->seq.pages.count, batch_request_tokens(r),
              kv_cache_pool_used(&b->model->shard->kv), b->model->shard->kv.pool_pages);
    /* Answers that have ended do not show that the running ones are longer. */
    for (int32_t i = 0; i < b->info.sequences; i++) {
        const struct batch_request *other = b->lanes[i].request;
        if (other && other->result.num_tokens > 0) {
            tokens += half_again(other->result.num_tokens);
            writers++;
        }
    }
    if (writers > 0 && (float)(tokens / writers) > b->answer_tokens)
        b->answer_tokens = (float)(tokens / writers);
    batch_pages_leave(r);
    b->info.preempted++;
}

bool batch_pages_make_room(struct batch_request *r, int32_t tokens)
{
    struct dgl_batch *b = r->batch;
    const struct dgl_session *s = r->lane->session;
    const int32_t most = most_tokens(r);
    const uint32_t pages = plan_kv_pages(tokens < most ? tokens : most);
    while (kv_cache_lacks(&b->model->shard->kv, &s->seq.pages, pages) > 0) {
        struct batch_request *youngest = r;
        for (struct batch_request *later = r->next; later; later = later->next)
            if (later->lane)
                youngest = later;
        preempt(youngest);
        if (youngest == r)
            return false;
    }
    return true;
}
