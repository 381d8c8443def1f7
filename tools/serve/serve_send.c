/* Sends answers: at once, or while they grow. A request that waits is suspended, so that it
 * occupies no thread. */
#include <string.h>

#include "tools/serve/serve_http.h"

void serve_exchange_wake(struct serve_exchange *ex)
{
    if (ex->suspended && ex->connection) {
        ex->suspended = false;
        mhd.resume_connection(ex->connection);
    }
}

void serve_send_suspend(struct serve_exchange *ex)
{
    if (atomic_load(&ex->server->stopping))
        return;
    ex->suspended = true;
    mhd.suspend_connection(ex->connection);
}

static ssize_t read_stream(void *priv, uint64_t pos, char *to, size_t most)
{
    struct serve_exchange *ex = priv;
    ssize_t taken = 0;
    (void)pos;
    pthread_mutex_lock(&ex->lock);
    const size_t left = ex->out.len - ex->sent;
    if (ex->gone || (left == 0 && !ex->fixed && atomic_load(&ex->server->stopping))) {
        taken = MHD_CONTENT_READER_END_WITH_ERROR;
    } else if (left > 0) {
        taken = (ssize_t)(left < most ? left : most);
        memcpy(to, ex->out.p + ex->sent, (size_t)taken);
        ex->sent += (size_t)taken;
        if (ex->sent == ex->out.len)
            ex->sent = ex->out.len = ex->whole = 0;
    } else if (ex->fixed) {
        const size_t rest = strlen(ex->fixed);
        taken = (ssize_t)(rest < most ? rest : most);
        memcpy(to, ex->fixed, (size_t)taken);
        ex->fixed = rest > most ? ex->fixed + taken : NULL;
    } else if (ex->finished) {
        taken = MHD_CONTENT_READER_END_OF_STREAM;
    } else {
        serve_send_suspend(ex);
    }
    pthread_mutex_unlock(&ex->lock);
    return taken;
}

static void add_header(struct MHD_Response *response, const char *name, const char *value)
{
    if (value && value[0])
        mhd.add_response_header(response, name, value);
}

enum MHD_Result serve_send_no_memory(struct MHD_Connection *connection)
{
    struct MHD_Response *response = mhd.create_response_from_buffer(
        strlen(serve_no_memory), (void *)(uintptr_t)serve_no_memory, MHD_RESPMEM_PERSISTENT);
    if (!response)
        return MHD_NO;
    add_header(response, "Content-Type", "application/json");
    add_header(response, "Connection", "close");
    enum MHD_Result result = mhd.queue_response(connection, 500, response);
    mhd.destroy_response(response);
    return result;
}

enum MHD_Result serve_send_answer(struct serve_exchange *ex, struct MHD_Connection *connection)
{
    const struct serve *s = ex->server;
    struct MHD_Response *response;
    const struct dgl_str whole = ex->fixed
                                     ? dgl_str_of(ex->fixed)
                                     : (struct dgl_str){ex->out.p ? ex->out.p : "", ex->out.len};
    if (ex->state == EXCHANGE_STREAMS)
        response = mhd.create_response_from_callback(MHD_SIZE_UNKNOWN, 4096, read_stream, ex, NULL);
    else
        response =
            mhd.create_response_from_buffer(whole.len, (void *)whole.p, MHD_RESPMEM_PERSISTENT);
    if (!response)
        return MHD_NO;
    add_header(response, SERVE_ID_HEADER, ex->id);
    if (ex->status != 204)
        add_header(response, "Content-Type", ex->content_type);
    if (ex->state == EXCHANGE_STREAMS) {
        add_header(response, "Cache-Control", "no-cache");
        add_header(response, "X-Accel-Buffering", "no"); /* nginx must not buffer events */
    }
    if (ex->policy) {
        add_header(response, "Content-Security-Policy", ex->policy);
        add_header(response, "X-Content-Type-Options", "nosniff");
        add_header(response, "Referrer-Policy", "no-referrer");
        add_header(response, "Cache-Control", "no-cache");
    }
    add_header(response, "Connection", ex->closes ? "close" : NULL);
    add_header(response, "Allow", ex->allow);
    add_header(response, "Accept-Encoding", ex->accepts);
    add_header(response, "Retry-After", ex->retry ? "1" : NULL);
    add_header(response, "WWW-Authenticate", ex->status == 401 ? "Bearer" : NULL);
    const char *allowed = s->opt->cors;
    if (allowed && ex->origin[0] &&
        (strcmp(allowed, "*") == 0 || strcmp(allowed, ex->origin) == 0)) {
        add_header(response, "Access-Control-Allow-Origin", allowed);
        add_header(response, "Access-Control-Expose-Headers", SERVE_ID_HEADER);
        add_header(response, "Vary", "Origin");
        if (ex->allow && strcmp(ex->method, "OPTIONS") == 0) {
            add_header(response, "Access-Control-Allow-Methods", ex->allow);
            add_header(response, "Access-Control-Allow-Headers", "Authorization, Content-Type, *");
            add_header(response, "Access-Control-Max-Age", "600");
        }
    }
    enum MHD_Result result = mhd.queue_response(connection, (unsigned)ex->status, response);
    mhd.destroy_response(response);
    return result;
}
