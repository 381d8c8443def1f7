# Link flags of single tests (link-time fakes).
TEST_LDFLAGS_test_base_alloc := -Wl,--wrap=malloc,--wrap=calloc,--wrap=realloc,--wrap=strdup \
    -Wl,--wrap=cJSON_ParseWithLengthOpts,--wrap=EVP_MD_CTX_new
TEST_LDFLAGS_test_convert_output := -Wl,--wrap=renameat2
