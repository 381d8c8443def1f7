/* The steps of model_load() that need no device. */
#include "tests/support/planned.h"

#include <time.h>

struct plan_params planned_place_params(const struct planned *p, struct kernel_set *set)
{
    return (struct plan_params){.device = &p->device,
                                .set = set,
                                .desc = &p->model.desc,
                                .tensors = p->model.tensors,
                                .kv_type = DGL_KV_F16};
}

/* Uses the device and the log of `p`. */
static void plan_all(struct planned *p, const struct shape_model_params *model,
                     struct kernel_set *set)
{
    shape_model_open(&p->model, model);
    const struct plan_params place = planned_place_params(p, set);
    clock_t start = clock();
    enum dgl_status status = weights_place(&p->weights, &place);
    if (status == DGL_OK)
        status = plan_init(&p->plan, &place, &p->weights);
    p->seconds = (double)(clock() - start) / CLOCKS_PER_SEC;
    if (status != DGL_OK)
        fail_msg("%s on %s: %s: %s", model->config, p->device.name, dgl_status_str(status),
                 p->log.text);
}

void planned_open(struct planned *p, const struct shape_model_params *model,
                  enum made_device device, struct kernel_set *set)
{
    *p = (struct planned){0};
    test_log_init(&p->log, DGL_LOG_INFO);
    made_device_init(&p->device, device, &p->log.log);
    plan_all(p, model, set);
}

void planned_open_on(struct planned *p, const struct shape_model_params *model,
                     const struct plan_device_params *device, struct kernel_set *set)
{
    struct plan_device_params params = *device;
    *p = (struct planned){0};
    test_log_init(&p->log, DGL_LOG_INFO);
    params.log = &p->log.log;
    plan_device_init(&p->device, &params);
    plan_all(p, model, set);
}

void planned_close(struct planned *p)
{
    plan_finish(&p->plan);
    weights_finish(&p->weights);
    shape_model_close(&p->model);
}
