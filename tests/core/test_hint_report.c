/* Reports about hints after a model is planned: defaults of a manifest that decide or are ignored,
 * hints without effect, slow hints. Each is reported once. */
#include "tests/support/test.h"

#include "tests/support/kernel_sets.h"
#include "tests/support/planned.h"

#define MODEL "tests/models/configs/llama-3.2-1b.json"

static const struct report_row {
    const char *name;
    enum made_device device;
    const char *defaults; /* of the manifest, or NULL */
    const char *hints;    /* of the user, or NULL */
    const char *wanted;   /* part of the only line; NULL: no line */
    const char *refused;  /* part of the error; NULL: no error */
} rows[] = {
    {"no hints", MADE_GPU, NULL, NULL, NULL, NULL},
    {"what is taken anyway", MADE_GPU, "{\"attentionDecode\":\"subgroup\"}", NULL, NULL, NULL},
    {"what is taken anyway, in software", MADE_LLVMPIPE, "{\"f16Matmul\":\"auto\"}", NULL, NULL,
     NULL},
    {"parts instead of the whole", MADE_GPU, "{\"attentionDecode\":\"tiled_small\"}", NULL,
     "M: default hints of its manifest decide over kernels: attentionDecode=tiled_small; a hint",
     NULL},
    {"another of the parts", MADE_GPU, "{\"attentionDecode\":\"streaming\"}", NULL,
     "decide over kernels: attentionDecode=streaming; ", NULL},
    {"another kernel", MADE_LLVMPIPE, "{\"attentionDecode\":\"tiled_large\"}", NULL,
     "decide over kernels: attentionDecode=tiled_large; ", NULL},
    {"a person's hint", MADE_GPU, NULL, "{\"attentionDecode\":\"tiled_small\"}", NULL, NULL},
    {"a person undoes it", MADE_GPU, "{\"attentionDecode\":\"tiled_small\"}",
     "{\"attentionDecode\":\"auto\"}", NULL, NULL},
    {"what the device lacks", MADE_MINIMUM, "{\"attentionDecode\":\"subgroup\"}", NULL,
     "attn_decode: hint attentionDecode=subgroup (manifest) does not apply here: "
     "attn_token_subgroup: EXTENSION GL_KHR_shader_subgroup_shuffle is absent",
     NULL},
    {"a hint for nothing", MADE_GPU, NULL, "{\"variants\":{\"matmul/N=77\":\"matmul_decode\"}}",
     "the hint variants.matmul/N=77=matmul_decode (--kernel-hints) is for no operation of the",
     NULL},
    {"a kernel for other steps", MADE_GPU, NULL,
     "{\"variants\":{\"matmul/decode\":\"matmul_prefill\"}}",
     "the hint variants.matmul/decode=matmul_prefill (--kernel-hints) is for steps of the model "
     "that no such kernel serves, and changes nothing",
     NULL},
    {"a kernel for some of the steps", MADE_GPU, NULL,
     "{\"variants\":{\"matmul\":\"matmul_prefill\"}}", NULL, NULL},
    {"a tunable of a kernel that no step has", MADE_LLVMPIPE, NULL,
     "{\"tunes\":{\"matmul_decode_subgroup.WG_SIZE\":64}}",
     "the hint tunes.matmul_decode_subgroup.WG_SIZE=64 (--kernel-hints) is for a kernel that no "
     "such step "
     "of the model takes, and changes nothing",
     NULL},
    {"a work group of a kernel that no step has", MADE_LLVMPIPE, NULL,
     "{\"workgroupOverrides\":{\"matmul_decode_subgroup\":[33]}}",
     "the hint workgroupOverrides.matmul_decode_subgroup=33 (--kernel-hints) is for a kernel that "
     "no such",
     NULL},
    {"an operation that the model lacks", MADE_LLVMPIPE, NULL,
     "{\"tunes\":{\"moe_decode.WG_SIZE\":32}}", NULL, NULL},
    {"f16 in software", MADE_LLVMPIPE, NULL, "{\"computePrecision\":\"f16\"}",
     "matmul: hint computePrecision=f16 (--kernel-hints) has products computed in f16, several "
     "times "
     "slower",
     NULL},
    {"f16 on a GPU", MADE_GPU, NULL, "{\"computePrecision\":\"f16\"}", NULL, NULL},
    {"strict: a kernel for other steps", MADE_GPU, NULL,
     "{\"strict\":true,\"variants\":{\"matmul/decode\":\"matmul_prefill\"}}", NULL,
     "matmul_prefill (--kernel-hints) is for steps of the model that no such kernel serves, and "
     "hints are strict"},
    {"strict: a tunable of a kernel that no step has", MADE_LLVMPIPE, NULL,
     "{\"strict\":true,\"tunes\":{\"matmul_decode_subgroup.WG_SIZE\":64}}", NULL,
     "is for a kernel that no such step of the model takes, and hints are strict"},
    {"strict: a work group of a kernel that no step has", MADE_LLVMPIPE, NULL,
     "{\"strict\":true,\"workgroupOverrides\":{\"matmul_decode_subgroup\":[33]}}", NULL,
     "is for a kernel that no such step of the model takes, and hints are strict"},
    {"strict: an operation that the model lacks", MADE_LLVMPIPE, NULL,
     "{\"strict\":true,\"tunes\":{\"moe_decode.WG_SIZE\":32}}", NULL,
     "is for no operation of the model, and hints are strict"},
    {"strict: a tunable that is taken", MADE_LLVMPIPE, NULL,
     "{\"strict\":true,\"tunes\":{\"norm_rms.WG_SIZE\":128}}", NULL, NULL},
};

static void is_said_once(void **state)
{
    const struct report_row *row = *state;
    struct kernel_set *given = loaded_set(dgl_kernels_params(.hints = row->hints)), *set = NULL;
    struct planned p;
    assert_int_equal(
        kernel_set_with_manifest(
            NULL, given,
            &(struct kernel_manifest_hints){.file = "manifest.json", .defaults = row->defaults},
            &set),
        DGL_OK);
    planned_open(&p, &(struct shape_model_params){.config = MODEL}, row->device, set);
    test_log_clear(&p.log);
    assert_int_equal(plan_check_hints(&p.plan, "M"), row->refused ? DGL_ERR_UNSUPPORTED : DGL_OK);
    if (row->refused)
        assert_contains(p.log.text, row->refused);
    else
        assert_string_equal(p.log.text, "");
    test_log_clear(&p.log);
    plan_tell_hints(&p.plan, NULL);
    const char *end = strchr(p.log.text, '\n');
    if (!row->wanted)
        assert_string_equal(p.log.text, "");
    else
        assert_contains(p.log.text, row->wanted);
    if (end && end[1])
        fail_msg("more than one line: %s", p.log.text);
    test_log_clear(&p.log);
    plan_tell_hints(&p.plan, &p.plan);
    assert_string_equal(p.log.text, "");
    planned_close(&p);
    kernel_set_destroy(&set);
    kernel_set_destroy(&given);
}

int main(void)
{
    return test_run_table("hint_report", is_said_once, rows);
}
