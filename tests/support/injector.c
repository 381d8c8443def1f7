/* The injector's side of exec.h and persistent.h. */
#include "tests/support/injector.h"

#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "core/base/mem.h"
#include "core/seq/session.h"
#include "kernels/phase_control.h"
#include "tests/support/test.h"

struct injector_exec {
    struct exec base;
    struct injector *injector;
};

/* Whole steps by dispatches, and the first half of one. */
struct injector_run {
    struct exec_run *whole, *half;
    struct gl_device *gl; /* of the injector */
    struct gl_range ids, step;
};

static struct injector *injector_of(const struct exec *exec)
{
    return ((const struct injector_exec *)exec)->injector;
}

static enum dgl_status injector_compile(struct exec_run *run)
{
    run->priv = checked(dgl_new(struct injector_run));
    return DGL_OK;
}

static enum dgl_status injector_bind(struct exec_run *run, const struct memory *memory)
{
    struct injector_run *own = run->priv;
    struct exec *inner = injector_of(run->exec)->inner;
    struct recipe recipe = run->recipe;
    if (injector_of(run->exec)->refuses)
        return DGL_ERR_KERNEL;
    if (plan_step_rows(recipe) > 1)
        injector_of(run->exec)->bound_rows++;
    else
        injector_of(run->exec)->bound++;
    while (recipe.shapes.of[recipe.shapes.count - 1].part >= PART_EARLY_EXIT)
        recipe.shapes.count--;
    enum dgl_status status = exec_run_create(inner, recipe, memory, &own->whole);
    if (status != DGL_OK)
        return status;
    recipe.count = own->whole->count / 2;
    own->gl = injector_of(run->exec)->gl;
    own->ids = memory->state[BUF_IDS];
    own->step = memory->state[BUF_STEP];
    return exec_run_create(inner, recipe, memory, &own->half);
}

static void injector_move(struct exec_run *run, const struct memory *to)
{
    struct injector_run *own = run->priv;
    injector_of(run->exec)->moved++;
    exec_run_move(own->whole, to);
    exec_run_move(own->half, to);
    own->ids = to->state[BUF_IDS];
    own->step = to->state[BUF_STEP];
}

static void injector_regroup(struct exec_run *run)
{
    const struct injector_run *own = run->priv;
    if (own->whole && own->half) {
        assert_int_equal(exec_run_set_tokens(own->whole, run->tokens), DGL_OK);
        assert_int_equal(exec_run_set_tokens(own->half, run->tokens), DGL_OK);
    }
}

static void read_table(const struct injector_run *own, struct dgl_step_table *table)
{
    assert_int_equal(
        gl_buffer_read(own->gl, own->step.buffer, own->step.offset, table, sizeof(*table)), DGL_OK);
}

static void write_id(const struct injector_run *own, uint32_t pos, uint32_t id)
{
    assert_int_equal(
        gl_buffer_write(own->gl, own->ids.buffer, own->ids.offset + pos * 4ull, &id, 4), DGL_OK);
}

/* Marks every row like a program of phases does. */
static void mark(const struct injector_run *own, const struct dgl_step_table *table, uint32_t steps)
{
    for (uint32_t r = 0; r < table->rows; r++) {
        const uint32_t seq = table->row[r] & 0xffffu;
        const struct dgl_step *step = &table->seq[seq];
        for (uint32_t i = 1; i <= steps && step->pos + i <= step->context; i++)
            write_id(own, seq * table->ids_stride + step->pos + i, DGL_PHASE_ABORTED_ID);
    }
}

/* The known ids instead of computing. */
static enum dgl_status answer(const struct injector *in, const struct injector_run *own,
                              const struct dgl_step *step, uint32_t steps)
{
    uint32_t pos = step->pos + steps;
    for (uint32_t i = 1; i <= steps; i++)
        write_id(own, step->pos + i, (uint32_t)in->known[step->pos + i]);
    return gl_buffer_write(own->gl, own->step.buffer,
                           own->step.offset + offsetof(struct dgl_step_table, seq), &pos, 4);
}

static enum dgl_status injector_submit(struct exec_run *run, uint32_t steps, uint64_t *gpu_ns)
{
    struct injector *in = injector_of(run->exec);
    const struct injector_run *own = run->priv;
    struct dgl_step_table *table = checked(malloc(sizeof(*table)));
    read_table(own, table);
    const struct dgl_step step = table->seq[table->row[0] & 0xffffu];
    assert_null(gpu_ns);
    in->submits++;
    in->most_steps = steps > in->most_steps ? steps : in->most_steps;
    if (in->aborted || in->submits == in->abort_at) {
        enum dgl_status status = DGL_OK;
        if (!in->aborted)
            status = exec_run_submit(own->whole, in->abort_after, NULL);
        if (!in->aborted && status == DGL_OK)
            status = exec_run_submit(own->half, 1, NULL);
        in->aborted = true;
        mark(own, table, steps);
        free(table);
        return status;
    }
    free(table);
    uint64_t ns = in->best_groups && in->groups != in->best_groups ? 1000000 : in->step_ns;
    if (ns) {
        struct timespec pause = {.tv_nsec = (long)(ns * steps % 1000000000),
                                 .tv_sec = (time_t)(ns * steps / 1000000000)};
        nanosleep(&pause, NULL);
    }
    enum dgl_status status =
        in->known ? answer(in, own, &step, steps) : exec_run_submit(own->whole, steps, NULL);
    if (status == DGL_OK && in->wrong)
        write_id(own, step.pos + steps, 1);
    return status;
}

static void injector_destroy(struct exec_run *run)
{
    struct injector_run *own = run->priv;
    if (!own)
        return;
    exec_run_destroy(&own->whole);
    exec_run_destroy(&own->half);
    free(own);
}

static const struct exec_ops exec_ops = {.name = "injector",
                                         .compile = injector_compile,
                                         .bind = injector_bind,
                                         .move = injector_move,
                                         .regroup = injector_regroup,
                                         .submit = injector_submit,
                                         .destroy = injector_destroy};

static enum dgl_status injector_check(struct exec *exec, struct recipe recipe,
                                      const struct memory *memory, char reason[PERSISTENT_REASON],
                                      char key[65])
{
    const struct injector *in = injector_of(exec);
    (void)recipe;
    (void)memory;
    snprintf(key, 65, "%s", in->key ? in->key : "");
    if (!in->no_schedule)
        return DGL_OK;
    snprintf(reason, PERSISTENT_REASON, "%s", in->no_schedule);
    return DGL_ERR_UNSUPPORTED;
}

static enum dgl_status injector_begin(struct exec *exec, struct recipe recipe,
                                      const struct memory *memory)
{
    (void)recipe;
    (void)memory;
    injector_of(exec)->begun++;
    return DGL_OK;
}

static bool injector_is_ready(struct exec *exec, struct recipe recipe)
{
    (void)recipe;
    return injector_of(exec)->not_ready-- <= 0;
}

static enum dgl_status injector_probe(struct exec_run *run, struct residency *out)
{
    struct injector *in = injector_of(run->exec);
    in->probed++;
    *out = (struct residency){.groups = in->unfit ? 0 : 132, .barrier_ns = 1000};
    snprintf(out->reason, sizeof(out->reason), "%s", in->unfit ? in->unfit : "");
    return DGL_OK;
}

static void injector_set_groups(struct exec_run *run, uint32_t groups)
{
    injector_of(run->exec)->groups = groups;
}

static enum dgl_status injector_clear(struct exec_run *run)
{
    struct injector *in = injector_of(run->exec);
    in->cleared++;
    in->aborted = false;
    return DGL_OK;
}

static const struct persistent_ops persistent_ops = {.check = injector_check,
                                                     .begin = injector_begin,
                                                     .is_ready = injector_is_ready,
                                                     .probe = injector_probe,
                                                     .set_groups = injector_set_groups,
                                                     .clear = injector_clear};

void injector_install(struct injector *in, struct dgl_model *model, enum dgl_executor wanted)
{
    struct engine *engine = model->shard->engine;
    struct injector_exec *exec = checked(dgl_new(struct injector_exec));
    exec->base =
        (struct exec){.ops = &exec_ops, .plan = &engine->plan, .log = model->log, .refs = 1};
    exec->injector = in;
    exec_unref(&engine->persistent.exec);
    engine->persistent = (struct persistent){&exec->base, &persistent_ops, in->aside};
    if (wanted == DGL_EXECUTOR_DISPATCH) { /* as engine_create() */
        exec_unref(&engine->persistent.exec);
        snprintf(engine->no_persistent, sizeof(engine->no_persistent), "asked for");
    }
    engine->wanted = wanted;
    memset(engine->choice, 0, sizeof(engine->choice));
    engine->last = NULL;
    model->shard->engine_serial++; /* sessions drop their runs */
    in->inner = engine->exec;
    in->gl = model->shard->dev->gl;
}
