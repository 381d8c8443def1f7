/* A thread that watches compilation in this process. A driver's compiler cannot be stopped. The
 * thread reports the kernel and the elapsed time, so that the user can end the process. */
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "core/base/clock.h"
#include "core/base/log.h"
#include "core/base/mem.h"
#include "gl/gl_internal.h"

#define TICK_MS 100
/* A blocked compiler uses no processor time. It is over the limit after this multiple of the limit
 * in wall time. */
#define BLOCKED 10

struct gl_watch {
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t wake;
    const struct gl_device *dev;
    bool quit, active, idle, told;
    char kernel[128];
    uint64_t start_ns, start_cpu_ns, progress_ns;
};

/* Reports the kernel that is being compiled. The driver may compile on its own threads while other
 * threads work. The compiler therefore used at most the smaller of the process's processor time and
 * the wall time. */
static void look(struct gl_watch *w)
{
    const struct gl_device *dev = w->dev;
    const uint64_t wall_ns = dgl_now_ns() - w->start_ns;
    const uint64_t cpu_ns = dgl_clock_ns(CLOCK_PROCESS_CPUTIME_ID) - w->start_cpu_ns;
    const uint64_t used_ns = wall_ns < cpu_ns ? wall_ns : cpu_ns;
    const uint64_t limit_ns = dev->compile_limits.cpu_ns;
    const bool over = used_ns > limit_ns || wall_ns / BLOCKED > limit_ns;
    if (wall_ns - w->progress_ns >= GL_COMPILE_TELL_NS) {
        w->progress_ns = wall_ns;
        gl_compiling_tell(dev, w->kernel, wall_ns);
    }
    if (dev->compiling_cb)
        dev->compiling_cb(dev->compiling_priv, w->kernel, (double)wall_ns * 1e-9, over);
    else if (over && !w->told)
        dgl_warn(dev->log,
                 "kernel %s: the driver has been compiling it for %.0f s, longer than the limit, "
                 "and cannot be stopped",
                 w->kernel, (double)wall_ns * 1e-9);
    w->told |= over;
}

static void *watch(void *priv)
{
    struct gl_watch *w = priv;
    struct timespec until;
    pthread_mutex_lock(&w->lock);
    while (!w->quit) {
        if (!w->active) {
            w->idle = true;
            pthread_cond_wait(&w->wake, &w->lock);
            continue;
        }
        w->idle = false;
        clock_gettime(CLOCK_MONOTONIC, &until);
        until.tv_nsec += TICK_MS * 1000000l;
        until.tv_sec += until.tv_nsec / 1000000000l;
        until.tv_nsec %= 1000000000l;
        const uint64_t start_ns = w->start_ns;
        pthread_cond_timedwait(&w->wake, &w->lock, &until);
        if (w->active && !w->quit && w->start_ns == start_ns)
            look(w);
    }
    pthread_mutex_unlock(&w->lock);
    return NULL;
}

/* Returns NULL on failure: compilation then is not watched. */
static struct gl_watch *watch_new(const struct gl_device *dev)
{
    struct gl_watch *w = dgl_new(struct gl_watch);
    pthread_condattr_t attr;
    sigset_t all, before;
    if (!w)
        return NULL;
    w->dev = dev;
    pthread_mutex_init(&w->lock, NULL);
    pthread_condattr_init(&attr);
    pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    pthread_cond_init(&w->wake, &attr);
    pthread_condattr_destroy(&attr);
    sigfillset(&all); /* the caller's threads handle signals */
    pthread_sigmask(SIG_SETMASK, &all, &before);
    const bool ok = pthread_create(&w->thread, NULL, watch, w) == 0;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (ok)
        return w;
    pthread_cond_destroy(&w->wake);
    pthread_mutex_destroy(&w->lock);
    free(w);
    return NULL;
}

void gl_watch_begin(struct gl_device *dev, const char *kernel)
{
    if (dev->in_process)
        return;
    if (!dev->watch)
        dev->watch = watch_new(dev);
    struct gl_watch *w = dev->watch;
    if (!w)
        return;
    pthread_mutex_lock(&w->lock);
    w->active = true;
    w->told = false;
    w->progress_ns = 0;
    gl_text_copy(w->kernel, sizeof(w->kernel), kernel);
    w->start_ns = dgl_now_ns();
    w->start_cpu_ns = dgl_clock_ns(CLOCK_PROCESS_CPUTIME_ID);
    if (w->idle)
        pthread_cond_signal(&w->wake);
    w->idle = false;
    pthread_mutex_unlock(&w->lock);
}

void gl_watch_end(struct gl_device *dev)
{
    struct gl_watch *w = dev->watch;
    if (!w)
        return;
    pthread_mutex_lock(&w->lock);
    w->active = false;
    pthread_mutex_unlock(&w->lock);
}

void gl_watch_finish(struct gl_device *dev)
{
    struct gl_watch *w = dev->watch;
    dev->watch = NULL;
    if (!w)
        return;
    if (dev->pid == getpid()) { /* threads do not survive fork() */
        pthread_mutex_lock(&w->lock);
        w->quit = true;
        pthread_cond_signal(&w->wake);
        pthread_mutex_unlock(&w->lock);
        pthread_join(w->thread, NULL);
        pthread_cond_destroy(&w->wake);
        pthread_mutex_destroy(&w->lock);
    }
    free(w);
}
