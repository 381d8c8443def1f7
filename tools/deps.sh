#!/bin/sh
# Installs the Debian packages that are missing for building, running and testing. If all are installed, prints no
# output and exits with 0.
# `deps.sh fuzz` does not install packages. It prints the additional packages that `make fuzz` needs, and fails.
have() {
    command -v "$1" > /dev/null 2>&1
}

build='make pkg-config libc6-dev binutils libegl-dev libgles-dev libdrm-dev libcjson-dev libssl-dev
    libpcre2-dev libutf8proc-dev libedit-dev libmicrohttpd-dev libcurl4-openssl-dev
    zlib1g-dev libvulkan-dev libcmocka-dev'
run='libegl1 libgles2 libegl-mesa0 libgl1-mesa-dri libgbm1 mesa-vulkan-drivers'
test='glslang-tools clang-format xz-utils'
fuzz='clang libclang-rt-14-dev' # not installed unasked
have cc || have gcc || have clang || build="gcc $build"
have c++ || have g++ || have clang++ || test="g++ $test"
have cmake || test="cmake $test"
have python3 || test="python3 $test"
have dpkg-shlibdeps || test="dpkg-dev $test"

if [ "$1" = fuzz ]; then
    echo 'int LLVMFuzzerTestOneInput(const char *p, unsigned long n) { return p && n > 9; }' |
        clang -fsanitize=fuzzer -x c -o /dev/null - 2> /dev/null && exit 0
    echo "deps: fuzzing needs clang with libFuzzer; as root: apt-get install $fuzz" >&2
    exit 1
fi

if ! have dpkg-query; then
    modules='egl glesv2 libdrm libcjson libcrypto libpcre2-8 libutf8proc libedit libmicrohttpd libcurl zlib vulkan cmocka'
    # shellcheck disable=SC2086
    have pkg-config && pkg-config --exists $modules && exit 0
    echo "deps: this is no Debian system; install a C compiler, make and what pkg-config calls: $modules" >&2
    exit 1
fi

missing=
for package in $build $run $test; do
    case $(dpkg-query -W -f '${db:Status-Status}' "$package" 2> /dev/null) in
    installed*) ;;
    *) missing="$missing $package" ;;
    esac
done
[ -z "$missing" ] && exit 0

if ! have apt-get; then
    echo "deps: missing$missing, and there is no apt-get to install them with" >&2
    exit 1
fi
sudo=
if [ "$(id -u)" -ne 0 ]; then
    if ! have sudo; then
        echo "deps: missing packages; as root: apt-get install$missing" >&2
        exit 1
    fi
    sudo=sudo
fi
echo "deps: installing$missing"
$sudo apt-get -q update || echo 'deps: the package lists could not be refreshed' >&2
# shellcheck disable=SC2086
$sudo env DEBIAN_FRONTEND=noninteractive apt-get -q install -y --no-install-recommends $missing || {
    echo "deps: could not install$missing" >&2
    exit 1
}
