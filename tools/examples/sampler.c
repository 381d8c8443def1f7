/* A sampler of one's own in C: dgl_session_eval() gives the logits, the program chooses: here
 * by temperature, and no token twice within ten.
 *
 *     cc sampler.c $(pkg-config --cflags --libs dopplergl) -lm -o sampler
 *     ./sampler MODEL "Once upon a time"
 */
#include <dopplergl.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ANSWER      40 /* tokens */
#define WINDOW      10 /* tokens that do not come again */
#define TEMPERATURE 0.7

static void print_log(void *priv, enum dgl_log_level level, const char *text)
{
    (void)priv;
    fprintf(stderr, "%s: %s\n", level == DGL_LOG_ERROR ? "error" : "note", text);
}

/* Draws a token. The tokens in last[num_last] are excluded. */
static int32_t choose(float *logits, int32_t vocab, const int32_t *last, size_t num_last)
{
    double sum = 0, draw;
    int32_t best = 0;
    for (size_t i = 0; i < num_last; i++)
        logits[last[i]] = -INFINITY;
    for (int32_t id = 1; id < vocab; id++)
        best = logits[id] > logits[best] ? id : best;
    for (int32_t id = 0; id < vocab; id++)
        sum += exp((double)(logits[id] - logits[best]) / TEMPERATURE);
    draw = sum * rand() / ((double)RAND_MAX + 1);
    for (int32_t id = 0; id < vocab; id++) {
        draw -= exp((double)(logits[id] - logits[best]) / TEMPERATURE);
        if (draw < 0)
            return id;
    }
    return best;
}

static enum dgl_status tell(struct dgl_session *session, const struct dgl_tokenizer *tokenizer,
                            const struct dgl_model_info *info, const struct dgl_log *log,
                            const char *prompt)
{
    int32_t *ids = NULL, answer[ANSWER];
    size_t num_ids = 0, count = 0, len = 0;
    char *text = NULL;
    float *logits = malloc((size_t)info->vocab * sizeof(*logits));
    enum dgl_status status = logits ? DGL_OK : DGL_ERR_NO_MEMORY;

    if (status == DGL_OK)
        status = dgl_encode(log, tokenizer, prompt, strlen(prompt),
                            dgl_encode_params(.add_special = true), &ids, &num_ids);
    /* Evaluates the whole prompt at once. After that, each token needs one pass. */
    if (status == DGL_OK)
        status = dgl_session_eval(session, dgl_eval_params(.ids = ids, .num_ids = num_ids), logits,
                                  NULL);
    while (status == DGL_OK && count < ANSWER) {
        size_t window = count < WINDOW ? count : WINDOW;
        answer[count] = choose(logits, info->vocab, answer + count - window, window);
        for (size_t i = 0; i < info->num_stop_ids; i++)
            if (info->stop_ids[i].id == answer[count])
                goto done;
        status = dgl_session_eval(session, dgl_eval_params(.ids = &answer[count], .num_ids = 1),
                                  logits, NULL);
        count++;
    }
done:
    if (status == DGL_OK)
        status = dgl_decode(log, tokenizer, answer, count, true, &text, &len);
    if (status == DGL_OK)
        printf("%s%.*s\n", prompt, (int)len, text);
    dgl_free(text);
    dgl_free(ids);
    free(logits);
    return status;
}

int main(int argc, char **argv)
{
    struct dgl_log log = {.write = print_log, .level = DGL_LOG_WARN};
    struct dgl_device *device = NULL;
    struct dgl_model *model = NULL;
    struct dgl_session *session = NULL;
    enum dgl_status status;

    if (argc != 3) {
        fprintf(stderr, "usage: %s MODEL PROMPT\n", argv[0]);
        return 2;
    }
    status = dgl_device_create(&log, dgl_device_params(.select = "any"), &device);
    if (status == DGL_OK)
        status = dgl_model_load(device, dgl_model_params(.path = argv[1], .context = 512), &model);
    if (status == DGL_OK && !dgl_model_tokenizer(model))
        status = DGL_ERR_INVALID_ARG;
    if (status == DGL_OK)
        status = dgl_session_create(model, NULL, &session);
    if (status == DGL_OK)
        status =
            tell(session, dgl_model_tokenizer(model), dgl_model_get_info(model), &log, argv[2]);
    dgl_session_destroy(&session);
    dgl_model_destroy(&model);
    dgl_device_destroy(&device);
    if (status != DGL_OK)
        fprintf(stderr, "%s\n", dgl_status_str(status));
    return status == DGL_OK ? 0 : 1;
}
