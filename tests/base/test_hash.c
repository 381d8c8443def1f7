/* Tests of SHA-256 and BLAKE3 against other implementations (Python's hashlib, and blake3 1.0 from
 * PyPI, 2026-11-21). Byte i of each input is i % 251, as in BLAKE3's test vectors. */
#include "tests/support/test.h"

#include <stdlib.h>

#include "core/base/hash.h"

struct vector {
    const char *name;
    enum dgl_hash_kind kind;
    size_t len;
    const char *hex;
};

/* Sizes around the limits of blocks (64), chunks (1024) and subtrees, where errors are likely. */
static const struct vector vectors[] = {
    {"blake3: 0 bytes", DGL_HASH_BLAKE3, 0,
     "af1349b9f5f9a1a6a0404dea36dcc9499bcb25c9adc112b7cc9a93cae41f3262"},
    {"blake3: 1 bytes", DGL_HASH_BLAKE3, 1,
     "2d3adedff11b61f14c886e35afa036736dcd87a74d27b5c1510225d0f592e213"},
    {"blake3: 2 bytes", DGL_HASH_BLAKE3, 2,
     "7b7015bb92cf0b318037702a6cdd81dee41224f734684c2c122cd6359cb1ee63"},
    {"blake3: 3 bytes", DGL_HASH_BLAKE3, 3,
     "e1be4d7a8ab5560aa4199eea339849ba8e293d55ca0a81006726d184519e647f"},
    {"blake3: 63 bytes", DGL_HASH_BLAKE3, 63,
     "e9bc37a594daad83be9470df7f7b3798297c3d834ce80ba85d6e207627b7db7b"},
    {"blake3: 64 bytes", DGL_HASH_BLAKE3, 64,
     "4eed7141ea4a5cd4b788606bd23f46e212af9cacebacdc7d1f4c6dc7f2511b98"},
    {"blake3: 65 bytes", DGL_HASH_BLAKE3, 65,
     "de1e5fa0be70df6d2be8fffd0e99ceaa8eb6e8c93a63f2d8d1c30ecb6b263dee"},
    {"blake3: 127 bytes", DGL_HASH_BLAKE3, 127,
     "d81293fda863f008c09e92fc382a81f5a0b4a1251cba1634016a0f86a6bd640d"},
    {"blake3: 128 bytes", DGL_HASH_BLAKE3, 128,
     "f17e570564b26578c33bb7f44643f539624b05df1a76c81f30acd548c44b45ef"},
    {"blake3: 129 bytes", DGL_HASH_BLAKE3, 129,
     "683aaae9f3c5ba37eaaf072aed0f9e30bac0865137bae68b1fde4ca2aebdcb12"},
    {"blake3: 1023 bytes", DGL_HASH_BLAKE3, 1023,
     "10108970eeda3eb932baac1428c7a2163b0e924c9a9e25b35bba72b28f70bd11"},
    {"blake3: 1024 bytes", DGL_HASH_BLAKE3, 1024,
     "42214739f095a406f3fc83deb889744ac00df831c10daa55189b5d121c855af7"},
    {"blake3: 1025 bytes", DGL_HASH_BLAKE3, 1025,
     "d00278ae47eb27b34faecf67b4fe263f82d5412916c1ffd97c8cb7fb814b8444"},
    {"blake3: 2047 bytes", DGL_HASH_BLAKE3, 2047,
     "58830fbf51a4423c573b164471690570e544cfe793bead46225664796b4b1467"},
    {"blake3: 2048 bytes", DGL_HASH_BLAKE3, 2048,
     "e776b6028c7cd22a4d0ba182a8bf62205d2ef576467e838ed6f2529b85fba24a"},
    {"blake3: 2049 bytes", DGL_HASH_BLAKE3, 2049,
     "5f4d72f40d7a5f82b15ca2b2e44b1de3c2ef86c426c95c1af0b6879522563030"},
    {"blake3: 3072 bytes", DGL_HASH_BLAKE3, 3072,
     "b98cb0ff3623be03326b373de6b9095218513e64f1ee2edd2525c7ad1e5cffd2"},
    {"blake3: 3073 bytes", DGL_HASH_BLAKE3, 3073,
     "7124b49501012f81cc7f11ca069ec9226cecb8a2c850cfe644e327d22d3e1cd3"},
    {"blake3: 4096 bytes", DGL_HASH_BLAKE3, 4096,
     "015094013f57a5277b59d8475c0501042c0b642e531b0a1c8f58d2163229e969"},
    {"blake3: 4097 bytes", DGL_HASH_BLAKE3, 4097,
     "9b4052b38f1c5fc8b1f9ff7ac7b27cd242487b3d890d15c96a1c25b8aa0fb995"},
    {"blake3: 5120 bytes", DGL_HASH_BLAKE3, 5120,
     "9cadc15fed8b5d854562b26a9536d9707cadeda9b143978f319ab34230535833"},
    {"blake3: 6144 bytes", DGL_HASH_BLAKE3, 6144,
     "3e2e5b74e048f3add6d21faab3f83aa44d3b2278afb83b80b3c35164ebeca205"},
    {"blake3: 7168 bytes", DGL_HASH_BLAKE3, 7168,
     "61da957ec2499a95d6b8023e2b0e604ec7f6b50e80a9678b89d2628e99ada77a"},
    {"blake3: 8193 bytes", DGL_HASH_BLAKE3, 8193,
     "bab6c09cb8ce8cf459261398d2e7aef35700bf488116ceb94a36d0f5f1b7bc3b"},
    {"blake3: 16384 bytes", DGL_HASH_BLAKE3, 16384,
     "f875d6646de28985646f34ee13be9a576fd515f76b5b0a26bb324735041ddde4"},
    {"blake3: 31744 bytes", DGL_HASH_BLAKE3, 31744,
     "62b6960e1a44bcc1eb1a611a8d6235b6b4b78f32e7abc4fb4c6cdcce94895c47"},
    {"blake3: 102400 bytes", DGL_HASH_BLAKE3, 102400,
     "bc3e3d41a1146b069abffad3c0d44860cf664390afce4d9661f7902e7943e085"},
    {"blake3: 1048577 bytes", DGL_HASH_BLAKE3, 1048577,
     "2f053cd7472cf0cd2f9adaf45c1180255b91b9a865404a63671a0ee5f792ed33"},
    {"sha256: 0 bytes", DGL_HASH_SHA256, 0,
     "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"},
    {"sha256: 1 bytes", DGL_HASH_SHA256, 1,
     "6e340b9cffb37a989ca544e6bb780a2c78901d3fb33738768511a30617afa01d"},
    {"sha256: 3 bytes", DGL_HASH_SHA256, 3,
     "ae4b3280e56e2faf83f414a6e3dabe9d5fbe18976544c05fed121accb85b53fc"},
    {"sha256: 55 bytes", DGL_HASH_SHA256, 55,
     "463eb28e72f82e0a96c0a4cc53690c571281131f672aa229e0d45ae59b598b59"},
    {"sha256: 56 bytes", DGL_HASH_SHA256, 56,
     "da2ae4d6b36748f2a318f23e7ab1dfdf45acdc9d049bd80e59de82a60895f562"},
    {"sha256: 63 bytes", DGL_HASH_SHA256, 63,
     "29af2686fd53374a36b0846694cc342177e428d1647515f078784d69cdb9e488"},
    {"sha256: 64 bytes", DGL_HASH_SHA256, 64,
     "fdeab9acf3710362bd2658cdc9a29e8f9c757fcf9811603a8c447cd1d9151108"},
    {"sha256: 65 bytes", DGL_HASH_SHA256, 65,
     "4bfd2c8b6f1eec7a2afeb48b934ee4b2694182027e6d0fc075074f2fabb31781"},
    {"sha256: 1000 bytes", DGL_HASH_SHA256, 1000,
     "4e4c294b331f7a2099a379bec34b9f9fc03dc46ab465d998f4d683da53487e6d"},
    {"sha256: 1048577 bytes", DGL_HASH_SHA256, 1048577,
     "5769f52bc3eef28afa39c6fc68cadb7d0bd69812ae3a3d71452f519ec3c7aa56"},
};

static unsigned char *make_input(size_t len)
{
    unsigned char *bytes = malloc(len + 1);
    assert_non_null(bytes);
    for (size_t i = 0; i < len; i++)
        bytes[i] = (unsigned char)(i % 251);
    return bytes;
}

static void check_vector(void **state)
{
    const struct vector *v = *state;
    unsigned char *bytes = make_input(v->len);
    char hex[65];
    assert_true(dgl_hash_bytes(v->kind, bytes, v->len, hex));
    assert_string_equal(hex, v->hex);
    free(bytes);
}

/* Feeds the input in pieces of random length, some of them empty. */
static void check_pieces(enum dgl_hash_kind kind)
{
    enum { len = 20000 };
    unsigned char *bytes = make_input(len);
    char want[65], got[65];
    assert_true(dgl_hash_bytes(kind, bytes, len, want));
    for (uint64_t seed = 1; seed <= 50; seed++) {
        uint64_t random = seed;
        struct dgl_hash *hash = dgl_hash_create(kind);
        assert_non_null(hash);
        for (size_t done = 0; done < len;) {
            size_t take = test_rand(&random) % (seed % 2 ? 3000 : 130);
            take = take < len - done ? take : len - done;
            dgl_hash_update(hash, bytes + done, take);
            done += take;
        }
        assert_true(dgl_hash_hex(hash, got));
        if (strcmp(got, want) != 0)
            fail_msg("seed %d: %s, wanted %s", (int)seed, got, want);
        dgl_hash_destroy(&hash);
        assert_null(hash);
    }
    free(bytes);
}

static void sha256_of_pieces(void **state)
{
    (void)state;
    check_pieces(DGL_HASH_SHA256);
}

static void blake3_of_pieces(void **state)
{
    (void)state;
    check_pieces(DGL_HASH_BLAKE3);
}

static void one_bit_changes_the_digest(void **state)
{
    (void)state;
    unsigned char *bytes = make_input(5000);
    for (int kind = DGL_HASH_SHA256; kind <= DGL_HASH_BLAKE3; kind++) {
        char before[65], after[65];
        assert_true(dgl_hash_bytes((enum dgl_hash_kind)kind, bytes, 5000, before));
        bytes[4999] ^= 0x80;
        assert_true(dgl_hash_bytes((enum dgl_hash_kind)kind, bytes, 5000, after));
        assert_string_not_equal(before, after);
    }
    free(bytes);
}

static void names_are_parsed_exactly(void **state)
{
    (void)state;
    enum dgl_hash_kind kind = DGL_HASH_SHA256;
    assert_true(dgl_hash_parse_name("blake3", &kind));
    assert_int_equal(kind, DGL_HASH_BLAKE3);
    assert_true(dgl_hash_parse_name("sha256", &kind));
    assert_int_equal(kind, DGL_HASH_SHA256);
    assert_false(dgl_hash_parse_name("SHA256", &kind));
    assert_false(dgl_hash_parse_name("sha1", &kind));
    assert_false(dgl_hash_parse_name("", &kind));
}

static void hex_digests_are_recognised(void **state)
{
    (void)state;
    char hex[66] = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";
    assert_true(dgl_hash_is_hex(hex, 64));
    assert_false(dgl_hash_is_hex(hex, 63));
    assert_false(dgl_hash_is_hex(hex, 65));
    hex[10] = 'A';
    assert_false(dgl_hash_is_hex(hex, 64));
    hex[10] = 'g';
    assert_false(dgl_hash_is_hex(hex, 64));
    hex[10] = '/';
    assert_false(dgl_hash_is_hex(hex, 64));
    hex[10] = '\0';
    assert_false(dgl_hash_is_hex(hex, 64));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sha256_of_pieces),           cmocka_unit_test(blake3_of_pieces),
        cmocka_unit_test(one_bit_changes_the_digest), cmocka_unit_test(names_are_parsed_exactly),
        cmocka_unit_test(hex_digests_are_recognised),
    };
    return cmocka_run_group_tests_name("hash", tests, NULL, NULL) +
           test_run_table("hash vectors", check_vector, vectors);
}
