/* Entry point for libFuzzer. */
#include "tests/fuzz/fuzz.h"

int LLVMFuzzerTestOneInput(const unsigned char *data, size_t size);

int LLVMFuzzerTestOneInput(const unsigned char *data, size_t size)
{
    fuzz_one((struct dgl_str){(const char *)data, size});
    return 0;
}
