#!/usr/bin/env python3
"""Registers, spills and size of compute shaders, by Mesa's compiler for a Radeon that need not be there.

    registers.py FILE.comp...

GLSL ES 3.10 as the generator writes it; needs glslangValidator, Mesa's RADV and the
Python package vulkan. RADV_FORCE_FAMILY: another Radeon (default navi21). DOPPLERGL_TEST_PHASES=DIR build/tests/test_phases
leaves the texts of whole decode steps in DIR.

Another compiler than the one of the GPU in question, but what lives how long is a property of the text: a program that needs
more than 128 registers here has little hope to run 512 invocations per multiprocessor without spills elsewhere.
"""
import argparse
import os
import re
import subprocess
import sys
import tempfile
import time

os.environ.setdefault("RADV_FORCE_FAMILY", "navi21")
os.environ.setdefault("VK_ICD_FILENAMES", "/usr/share/vulkan/icd.d/radeon_icd.x86_64.json")

try:
    import vulkan as vk
except ImportError:
    vk = None

SHOWN = {"VGPRs": "registers", "Pre-Sched VGPRs": "before scheduling", "Spilled VGPRs": "spilled",
         "LDS size": "shared bytes", "Instructions": "instructions"}
BINDING = re.compile(r"layout\((std140|std430), binding = (\d+)\)")
UNIFORMS = 32  # where uniform blocks are moved to: Vulkan numbers all bindings together


def compile_spirv(path):
    with open(path, encoding="utf-8") as f:
        text = f.read()
    bindings = [(int(n) + UNIFORMS * (kind == "std140"), kind) for kind, n in BINDING.findall(text)]
    text = BINDING.sub(lambda m: f"layout({m[1]}, binding = {int(m[2]) + UNIFORMS * (m[1] == 'std140')})", text)
    with tempfile.TemporaryDirectory() as folder:
        source, binary = os.path.join(folder, "x.comp"), os.path.join(folder, "x.spv")
        with open(source, "w", encoding="utf-8") as f:
            f.write(text)
        done = subprocess.run(["glslangValidator", "--target-env", "vulkan1.1", "-S", "comp", "-o", binary, source],
                              capture_output=True, text=True, check=False)
        if done.returncode:
            sys.exit(f"{path}: {done.stdout}")
        with open(binary, "rb") as f:
            return f.read(), bindings


def open_device():
    app = vk.VkApplicationInfo(apiVersion=vk.VK_MAKE_VERSION(1, 2, 0))
    instance = vk.vkCreateInstance(vk.VkInstanceCreateInfo(pApplicationInfo=app), None)
    queue = vk.VkDeviceQueueCreateInfo(queueFamilyIndex=0, pQueuePriorities=[1.0])
    feature = vk.VkPhysicalDevicePipelineExecutablePropertiesFeaturesKHR(pipelineExecutableInfo=vk.VK_TRUE)
    info = vk.VkDeviceCreateInfo(pNext=feature, pQueueCreateInfos=[queue],
                                 ppEnabledExtensionNames=["VK_KHR_pipeline_executable_properties"])
    return vk.vkCreateDevice(vk.vkEnumeratePhysicalDevices(instance)[0], info, None)


def statistics(device, path):
    code, bindings = compile_spirv(path)
    types = {"std140": vk.VK_DESCRIPTOR_TYPE_UNIFORM_BUFFER, "std430": vk.VK_DESCRIPTOR_TYPE_STORAGE_BUFFER}
    slots = [vk.VkDescriptorSetLayoutBinding(binding=n, descriptorType=types[kind], descriptorCount=1,
                                             stageFlags=vk.VK_SHADER_STAGE_COMPUTE_BIT) for n, kind in bindings]
    sets = vk.vkCreateDescriptorSetLayout(device, vk.VkDescriptorSetLayoutCreateInfo(pBindings=slots), None)
    layout = vk.vkCreatePipelineLayout(device, vk.VkPipelineLayoutCreateInfo(pSetLayouts=[sets]), None)
    module = vk.vkCreateShaderModule(device, vk.VkShaderModuleCreateInfo(codeSize=len(code), pCode=code), None)
    stage = vk.VkPipelineShaderStageCreateInfo(stage=vk.VK_SHADER_STAGE_COMPUTE_BIT, module=module, pName="main")
    info = vk.VkComputePipelineCreateInfo(flags=vk.VK_PIPELINE_CREATE_CAPTURE_STATISTICS_BIT_KHR, stage=stage,
                                          layout=layout)
    start = time.monotonic()
    pipeline = vk.vkCreateComputePipelines(device, None, 1, [info], None)[0]
    seconds = time.monotonic() - start
    get = vk.vkGetDeviceProcAddr(device, "vkGetPipelineExecutableStatisticsKHR")
    found = list(get(device, vk.VkPipelineExecutableInfoKHR(pipeline=pipeline, executableIndex=0)))
    names = [s.name if isinstance(s.name, str) else vk.ffi.string(s.name).decode() for s in found]
    return {name: s.value.u64 for name, s in zip(names, found)}, seconds


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", metavar="FILE.comp", nargs="+")
    args = parser.parse_args()
    if not vk:
        sys.exit("registers.py needs the Python package vulkan")
    device = open_device()
    for path in args.files:
        values, seconds = statistics(device, path)
        shown = ", ".join(f"{values[key]} {name}" for key, name in SHOWN.items() if key in values)
        print(f"{os.path.basename(path)}: {shown}, {seconds:.1f} s")


main()
