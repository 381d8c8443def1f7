/* Tests of `make install` and `make deb`: the installed tree has exactly the expected files, the
 * shared library exports only the public header, and the examples build and run against the
 * installed files. Must run in the root of the source tree; installs into a temporary folder. */
#include "tests/support/test.h"

#include <stdlib.h>

#include "core/base/file.h"
#include "core/dopplergl.h"
#include "tests/support/process.h"

#define TEXT_(x) #x
#define TEXT(x)  TEXT_(x)
#define SO       "libdopplergl.so." TEXT(DGL_API_VERSION)

static char *folder; /* contains root/opt/dgl and the files of the cases */

/* Start of each script. $0 is `folder`, $1 the build folder. ${pc} runs pkg-config for the
 * installed tree, which is not at its final place. ${san} contains compiler options. */
static const char prelude[] =
    "set -e; src=$PWD; top=$0/root/opt/dgl; examples=$top/share/doc/dopplergl/examples\n"
    "case $1 in /*) build=$1 ;; *) build=$src/$1 ;; esac\n"
    "pkgs=$(sed -n 's/^PKGS *:= //p' Makefile)\n"
    "model=$top/share/dopplergl/models/story-llama-q4_k_m\n"
    "export PKG_CONFIG_PATH=$top/lib/pkgconfig; pc=\"pkg-config --define-variable=prefix=$top\"\n"
    "san=$(nm \"$build/libdopplergl.a\" | grep -q __asan_init && echo -fsanitize=address,undefined "
    "|| :)\n";

static void shell(struct process_result *r, const char *script)
{
    const char *build = getenv("DOPPLERGL_TEST_BUILD");
    struct dgl_buf whole = {0};
    dgl_buf_puts(&whole, prelude);
    dgl_buf_puts(&whole, script);
    assert_false(whole.failed);
    const char *const args[] = {"-c", whole.p, folder, build && *build ? build : "build", NULL};
    const char *const env[] = {"DOPPLERGL_DATA", "DESTDIR",         "PREFIX",
                               "LIBDIR",         "LD_LIBRARY_PATH", NULL};
    process_run(
        &(struct process_params){.args = args, .program = "/bin/sh", .env = env, .input = ""}, r);
    dgl_buf_finish(&whole);
}

struct install_case {
    const char *name;
    const char *program; /* required program besides a compiler, or NULL */
    bool plain;          /* skipped in sanitizer builds */
    const char *script;
    const char *out;      /* exact standard output; NULL skips the check */
    const char *words[4]; /* required parts of the standard output */
};

static const struct install_case cases[] = {
    {.name = "the unit starts the installed command",
     .script = "sed -n 's/^ExecStart=//p' $top/lib/systemd/system/dopplergl.service",
     .out = "/opt/dgl/bin/dopplergl serve $DOPPLERGL_OPTIONS\n"},
    {.name = "the tree",
     .script = "cd $top && find . ! -type d | sed -e 's|kernels/.*|kernels|' -e 's|docs/.*|docs|' "
               "-e 's|models/\\([^/]*\\)/.*|models/\\1|' | LC_ALL=C sort -u",
     .out = "./bin/dopplergl\n"
            "./include/dopplergl.h\n"
            "./lib/cmake/DopplerGL/DopplerGLConfig.cmake\n"
            "./lib/cmake/DopplerGL/DopplerGLConfigVersion.cmake\n"
            "./lib/libdopplergl.a\n"
            "./lib/libdopplergl.so\n"
            "./lib/" SO "\n"
            "./lib/pkgconfig/dopplergl-static.pc\n"
            "./lib/pkgconfig/dopplergl.pc\n"
            "./lib/systemd/system/dopplergl.service\n"
            "./share/bash-completion/completions/dopplergl\n"
            "./share/doc/dopplergl/LICENSE\n"
            "./share/doc/dopplergl/README.md\n"
            "./share/doc/dopplergl/docs\n"
            "./share/doc/dopplergl/examples/CMakeLists.txt\n"
            "./share/doc/dopplergl/examples/dopplergl/__init__.py\n"
            "./share/doc/dopplergl/examples/dopplergl/_c.py\n"
            "./share/doc/dopplergl/examples/dopplergl/py.typed\n"
            "./share/doc/dopplergl/examples/sampler.c\n"
            "./share/doc/dopplergl/examples/story.cpp\n"
            "./share/doc/dopplergl/examples/story.py\n"
            "./share/dopplergl/kernels\n"
            "./share/dopplergl/models/story-llama-q4_k_m\n"
            "./share/fish/vendor_completions.d/dopplergl.fish\n"
            "./share/man/man1/dopplergl.1\n"
            "./share/zsh/site-functions/_dopplergl\n"},
    {.name = "kernels, model and docs are all there",
     .script = "diff -r tests/models/story-llama-q4_k_m $model && diff -r docs $top/share/doc/"
               "dopplergl/docs && for file in kernels/op/*/* kernels/lib/*/*; do\n"
               "cmp $file $top/share/dopplergl/$file; done",
     .out = ""},
    {.name = "docs/embedding.md names every call with parameters",
     .script = "tr '\\n' ' ' < core/dopplergl.h | grep -o 'dgl_[a-z_]*([^;{]*_params \\*params' | "
               "sed 's/(.*//' | grep -v '_params$' | sort -u > $0/calls; test $(wc -l < $0/calls) "
               "-gt 15\n"
               "while read -r name; do grep -q \"$name()\" docs/embedding.md || echo $name; done "
               "< $0/calls",
     .out = ""},
    {.name = "no file names the folder of the build or of the staging",
     .script = "cd $top && ! grep -rlF -e \"$src\" -e \"$0\" include lib/pkgconfig lib/cmake share",
     .out = ""},
    {.name = "man page and completions are those of the command",
     .script = "help() { \"$build/dopplergl\" help \"$@\"; }\n"
               "cd $top/share && help --man | cmp - man/man1/dopplergl.1\n"
               "help --completion bash | cmp - bash-completion/completions/dopplergl\n"
               "help --completion zsh | cmp - zsh/site-functions/_dopplergl\n"
               "help --completion fish | cmp - fish/vendor_completions.d/dopplergl.fish",
     .out = ""},
    {.name = "the command finds its model",
     .script = "cd / && $top/bin/dopplergl generate --device any -q -p Once -n 3 --temp 0",
     .words = {" upon a"}},
    {.name = "the shared library exports the header",
     .script =
         "nm -D --defined-only $top/lib/libdopplergl.so | sed -n 's/.* [A-Z] //p' | sort "
         "> $0/exported\n"
         "sed -n '/^template/!s/^[a-z].*[ *]\\(dgl_[a-z0-9_]*\\)(.*/\\1/p' core/dopplergl.h | sed "
         "'s/$/@@DOPPLERGL_" TEXT(DGL_API_VERSION) "/' | cat - $0/node | sort > $0/declared\n"
                                                   "diff $0/exported $0/declared",
     .out = ""},
    {.name = "the shared library's name and needs",
     .script =
         "readelf -d $top/lib/libdopplergl.so | sed -n 's/.*(\\(SONAME\\|TEXTREL\\)).*\\[/\\1 "
         "/p' | tr -d ']'; readlink $top/lib/libdopplergl.so",
     .out = "SONAME " SO "\n" SO "\n"},
    {.name = "neither program nor library needs libgbm or libdrm to start",
     .script = "for file in $top/bin/dopplergl $top/lib/libdopplergl.so; do\n"
               "readelf -d $file | sed -n 's/.*NEEDED.*\\[\\(lib[a-zA-Z]*\\).*/\\1/p' > "
               "$0/needs; grep -c libEGL $0/needs; grep 'gbm\\|drm' $0/needs || :; done",
     .out = "1\n1\n"},
    {.name = "C, shared",
     .script = "cc $san -std=c11 -Wall -Wextra -Werror $examples/sampler.c "
               "$($pc --cflags --libs dopplergl) -lm -o $0/c_shared\n"
               "cd / && ldd $0/c_shared | sed -n 's|.*=> \\(.*dopplergl[^ ]*\\).*|\\1|p' | cmp - "
               "$0/so_path && $0/c_shared $model 'Once upon a time'",
     .words = {"Once upon a time,"}},
    {.name = "C, static",
     .script = "cc $san -std=c11 $examples/sampler.c "
               "$($pc --cflags --libs dopplergl-static) -o $0/c_static\n"
               "! ldd $0/c_static | grep dopplergl && $0/c_static $model 'Once upon a time'",
     .words = {"Once upon a time,"}},
    {.name = "C++",
     .script = "c++ $san -std=c++11 -Wall -Wextra -Werror $examples/story.cpp "
               "$($pc --cflags --libs dopplergl) -o $0/cpp && $0/cpp $model 'Once upon a time'",
     .words = {"Once upon a time,", "\n[32 tokens, length]\nlikeness: 0."}},
    {.name = "C++20, with the macros",
     .script = "cat > $0/macros.cpp << 'END'\n"
               "#include <dopplergl.h>\n"
               "int main()\n{\n"
               "    dgl_device *device = nullptr;\n    dgl_model *model = nullptr;\n"
               "    dgl_error why{};\n"
               "    dgl_model_params params{};\n    dgl_generate_result result{};\n"
               "    if (params.size != sizeof(params) || result.size != sizeof(result)) return 1;\n"
               "    if (dgl_device_create(dgl_log_stderr(), dgl_device_params(.select = \"any\"),\n"
               "                          &device) != DGL_OK) return 2;\n"
               "    if (dgl_model_load(device, dgl_model_params(), &model) == DGL_OK)\n"
               "        return 3;\n"
               "    if (dgl_device_error(device, &why) != DGL_OK || !why.text[0]) return 4;\n"
               "    dgl_device_destroy(&device);\n"
               "    return dgl_api_version() == DGL_API_VERSION ? 0 : 5;\n}\nEND\n"
               "c++ $san -std=c++20 -Wall -Werror -pedantic $0/macros.cpp "
               "$($pc --cflags --libs dopplergl) -o $0/macros && $0/macros 2>&1",
     .words = {"dopplergl: error: no model path was given"}},
    {.name = "Python",
     .program = "python3",
     .plain = true,
     .script = "cd / && python3 -B $examples/story.py $model 'Once upon a time'",
     .words = {"Once upon a time,", "\n[32 tokens, length]\nOnce upon a time"}},
    {.name = "Python: an error has its line",
     .program = "python3",
     .plain = true,
     .script = "python3 -B $examples/story.py $0/nothing x 2>&1 || echo code $?",
     .words = {"error: ", "nothing", "code 1"}},
    {.name = "Python: streaming, batches, errors",
     .program = "python3",
     .plain = true,
     .script = "PYTHONPATH=$examples python3 -B tests/python/check_package.py $model",
     .words = {"ok 9 - templates", "closed objects are refused"}},
    {.name = "Python: a wheel",
     .program = "python3",
     .plain = true,
     .script = "mkdir $0/wheel && PYTHONPATH=tools/python DOPPLERGL_LIBRARY=$top/lib/" SO
               " python3 -B -c \"import backend; print(backend.build_wheel('$0/wheel'))\" && "
               "python3 -m zipfile -e $0/wheel/*.whl $0/site && ls $0/site/dopplergl && "
               "PYTHONPATH=$0/site python3 -B tests/python/check_package.py $model",
     .words = {"dopplergl-", "dopplergl.h\n", "ok 9 - templates"}},
    {.name = "CMake, in a folder of the architecture",
     .program = "cmake",
     .script = "arch=$(cc -print-multiarch 2>/dev/null || cc -dumpmachine)\n"
               "DESTDIR=$0/multi PREFIX=/usr LIBDIR=/usr/lib/$arch sh "
               "tools/packaging/install.sh $1 0.1.7 \"$pkgs\"\n"
               "export CFLAGS=$san CXXFLAGS=$san; { cmake -S $examples -B $0/cmake "
               "-DCMAKE_PREFIX_PATH=$0/multi/usr && cmake --build $0/cmake; } >$0/log 2>&1 || { "
               "cat $0/log; exit 1; }\n"
               "$0/cmake/story $model Once; $0/cmake/sampler_static $model Once\n"
               "for name in sampler story sampler_static; do ldd $0/cmake/$name | grep -c "
               "$arch/" SO " || :; done\n"
               "grep rpath $0/multi/usr/lib/$arch/pkgconfig/*.pc || echo no run path",
     .words = {"Once upon", "likeness", "\n1\n1\n0\n", "no run path"}},
    {.name = "CMake: versions that fit",
     .program = "cmake",
     .script = "cd $0; for version in 0.1 0 0.1.0 1.2 1.2.3 1.2.4 1.1 2 1; do\n"
               "printf 'cmake_minimum_required(VERSION 3.13)\\nproject(x NONE)\\nset(PACKAGE_FIND_"
               "VERSION %s)\\ninclude(%s)\\nmessage(\"%s ${PACKAGE_VERSION_COMPATIBLE}\")\\n' "
               "$version $top/lib/cmake/DopplerGL/DopplerGLConfigVersion.cmake $version > v.cmake\n"
               "sed -i '1,2d' v.cmake; cmake -P v.cmake 2>&1; done",
     .out = "0.1 FALSE\n0 FALSE\n0.1.0 FALSE\n1.2 TRUE\n1.2.3 TRUE\n1.2.4 FALSE\n1.1 FALSE\n"
            "2 FALSE\n1 TRUE\n"},
    {.name = "LIBDIR elsewhere is refused",
     .script = "DESTDIR=$0/x PREFIX=/usr LIBDIR=/opt/lib sh tools/packaging/install.sh $1 1.2.3 "
               "\"$pkgs\" 2>&1 || echo code $?; ls $0/x 2>/dev/null || :",
     .out = "install: LIBDIR /opt/lib is not below PREFIX /usr: give it relative to PREFIX\n"
            "code 1\n"},
    {.name = "LIBDIR that climbs out is refused",
     .script = "DESTDIR=$0/x PREFIX=/usr LIBDIR=../lib sh tools/packaging/install.sh $1 1.2.3 "
               "\"$pkgs\" 2>&1 || echo code $?; ls $0/x 2>/dev/null || :",
     .out = "install: LIBDIR ../lib is not below PREFIX /usr: give it relative to PREFIX\n"
            "code 1\n"},
    {.name = "a relative PREFIX is refused",
     .script = "DESTDIR=$0/x PREFIX=here sh tools/packaging/install.sh $1 1.2.3 \"$pkgs\" 2>&1 || "
               "echo code $?; ls $0/x* 2>/dev/null || :",
     .out = "install: PREFIX here is relative: give an absolute path\ncode 1\n"},
    {.name = "a PREFIX that pkg-config would read otherwise is refused",
     .script = "for prefix in '/a b' '/a&b'; do DESTDIR=$0/x PREFIX=$prefix "
               "sh tools/packaging/install.sh $1 1.2.3 \"$pkgs\" 2>&1 || echo code $?; done; "
               "ls $0/x 2>/dev/null || :",
     .out =
         "install: PREFIX /a b or LIBDIR lib has a character that pkg-config or CMake would read "
         "otherwise\ncode 1\n"
         "install: PREFIX /a&b or LIBDIR lib has a character that pkg-config or CMake would read "
         "otherwise\ncode 1\n"},
    {.name = "a Debian package",
     .program = "dpkg-shlibdeps",
     .plain = true,
     .script = "export DPKG_DEB_COMPRESSOR_TYPE=none\n"
               "deb=$(sh tools/packaging/deb.sh $1 1.2.3 \"$pkgs\" $0); echo $deb > $0/deb_path\n"
               "ls $0/dopplergl_1.2.3_*.deb | cmp - $0/deb_path; dpkg-deb -f $deb Package Version "
               "Depends; mkdir $0/deb; dpkg-deb -R $deb $0/deb\n"
               "cd $0/deb; md5sum -c --quiet DEBIAN/md5sums; echo sums hold\n"
               "find . -type f ! -path './DEBIAN/*' | wc -l > ../files; wc -l < DEBIAN/md5sums | "
               "cmp - ../files; zcat usr/share/man/man1/dopplergl.1.gz | head -n 1\n"
               "grep -c '^Permission\\|^ Permission' usr/share/doc/dopplergl/copyright\n"
               "ldd usr/bin/dopplergl usr/lib/*/" SO " | grep 'not found' || echo all found\n"
               "usr/bin/dopplergl generate --device any -q -p Once -n 3 --temp 0",
     .words = {"Package: dopplergl\nVersion: 1.2.3\nDepends: ", "sums hold", "all found\n",
               " upon a"}},
    {.name = "a Debian package names the packages of its libraries",
     .program = "dpkg-shlibdeps",
     .plain = true,
     .script = "cd $0/deb; for lib in $(objdump -p usr/bin/dopplergl usr/lib/*/" SO
               " | sed -n 's/ *NEEDED *//p' | grep -v '^ld-linux' | sort -u); do\n"
               "path=$(ldd usr/bin/dopplergl | sed -n \"s|^.*$lib => \\([^ ]*\\) .*|\\1|p\")\n"
               "package=$(dpkg -S \"$(realpath $path)\" 2>/dev/null || dpkg -S $path)\n"
               "package=${package%%:*}\n"
               "grep -q \"^Depends:.*\\b$package\\b\" DEBIAN/control || echo $lib of $package\n"
               "done",
     .out = ""},
};

static void check_case(void **state)
{
    const struct install_case *c = *state;
    struct process_result r;
    if (c->plain && getenv("SAN"))
        SKIP("%s: not with sanitizers", c->name);
    if (c->program) {
        char script[128];
        snprintf(script, sizeof(script), "command -v %s", c->program);
        shell(&r, script);
        bool missing = r.code != 0;
        process_finish(&r);
        if (missing)
            SKIP("%s is not installed", c->program);
    }
    shell(&r, c->script);
    assert_code(&r, 0);
    if (c->out)
        assert_string_equal(r.out, c->out);
    for (size_t i = 0; i < 4 && c->words[i]; i++)
        assert_contains(r.out, c->words[i]);
    process_finish(&r);
}

/* Installs for all cases. The file `node` gets the symbol that the version script adds, and
 * `so_path` the path at which a program must find the library. */
static int install(void **state)
{
    struct process_result r;
    (void)state;
    folder = test_tmpdir();
    shell(&r, "DESTDIR=$0/root PREFIX=/opt/dgl LIBDIR=lib sh tools/packaging/install.sh $1 1.2.3 "
              "\"$pkgs\"\necho DOPPLERGL_" TEXT(DGL_API_VERSION) " > $0/node; echo $top/lib/" SO
                                                                 " > $0/so_path");
    if (r.code != 0)
        printf("# install.sh: %s\n", r.err);
    int code = r.code;
    process_finish(&r);
    return code;
}

static int uninstall(void **state)
{
    (void)state;
    test_tmpdir_remove(folder);
    return 0;
}

int main(void)
{
    struct CMUnitTest tests[sizeof(cases) / sizeof(cases[0])];
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
        tests[i] = (struct CMUnitTest){.name = cases[i].name,
                                       .test_func = check_case,
                                       .initial_state = (void *)(uintptr_t)&cases[i]};
    return cmocka_run_group_tests_name("install", tests, install, uninstall);
}
