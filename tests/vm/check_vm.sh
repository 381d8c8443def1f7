#!/bin/sh
# Tests the product on real DRM render nodes without a GPU. Boots a small guest in QEMU; emulation is fast enough. The
# root of the guest is this machine's file system, read-only. One of its two virtio GPUs is rendered on the host by
# Mesa. guest.sh runs the checks in the guest.
# usage: check_vm.sh BUILD PROGRAM[:FILTER]...     Test programs to run in the guest. Exits with 1 if a check fails.
# ACCEL: tcg (emulation), or kvm, which is faster if available. VM_LIMIT: seconds (600). BUILD/vm keeps the kernel, the
# initrd and the log.
set -eu
build=$1
shift
here=$(dirname "$(realpath "$0")")
tree=$(realpath "$here/../..")
mkdir -p "$build/vm/share"
vm=$(realpath "$build/vm")
packages='qemu-system-x86 qemu-system-gui xvfb libgl1-mesa-dri libgl1 libegl1 busybox-static cpio kmod xz-utils'

for tool in qemu-system-x86_64 Xvfb busybox cpio depmod apt-get dpkg-deb; do
    PATH=$PATH:/usr/sbin:/sbin command -v $tool > /dev/null || {
        echo "check-vm: $tool is missing; as root: apt-get install $packages" >&2
        exit 1
    }
done
PATH=$PATH:/usr/sbin:/sbin

# The kernel is downloaded and unpacked, not installed. The guest needs only the image and a few modules. The -cloud-
# kernels have no DRM.
if [ ! -e "$vm/vmlinuz" ]; then
    rm -rf "$vm/kernel" "$vm/initrd.d"
    mkdir -p "$vm/kernel" "$vm/initrd.d/bin" "$vm/initrd.d/m" "$vm/initrd.d/proc" "$vm/initrd.d/sys" "$vm/initrd.d/dev"
    if ! ls "$vm"/linux-image-*.deb > /dev/null 2>&1; then
        package=$(apt-cache depends linux-image-amd64 | sed -n 's/.*Depends: \(linux-image-[0-9].*\)/\1/p' | head -n 1)
        (cd "$vm" && apt-get -q download "$package")
    fi
    dpkg-deb --fsys-tarfile "$vm"/linux-image-*.deb | tar -C "$vm/kernel" --wildcards --exclude '*/amd/*' \
        --exclude '*/i915/*' --exclude '*/nouveau/*' --exclude '*/radeon/*' -xf - './boot/vmlinuz-*' \
        './lib/modules/*/kernel/drivers/virtio/*' './lib/modules/*/kernel/fs/*' './lib/modules/*/kernel/net/9p/*' \
        './lib/modules/*/kernel/drivers/gpu/drm/*' './lib/modules/*/modules.*'
    version=$(ls "$vm/kernel/lib/modules")
    depmod -b "$vm/kernel" "$version"
    for m in virtio_pci 9pnet_virtio 9p overlay virtio_gpu vgem; do
        modprobe -d "$vm/kernel" -S "$version" --show-depends $m
    done | sed -n 's/^insmod \([^ ]*\).*/\1/p' | awk '!s[$0]++' > "$vm/modules"
    while read -r f; do cp "$f" "$vm/initrd.d/m/"; done < "$vm/modules"
    # Modules are listed in the order of their dependencies. guest.sh loads those for DRM.
    sed 's,.*/,,' "$vm/modules" | grep -vE '^(virtio-gpu|virtio_dma_buf|vgem|drm.*)\.ko$' > "$vm/initrd.d/m/first"
    cp "$(command -v busybox)" "$vm/initrd.d/bin/busybox"
    cp "$vm/kernel/boot/vmlinuz-$version" "$vm/vmlinuz.new"
    rm -rf "$vm/kernel"
    mv "$vm/vmlinuz.new" "$vm/vmlinuz"
fi
cp "$here/init" "$vm/initrd.d/init"
chmod +x "$vm/initrd.d/init"
(cd "$vm/initrd.d" && find . | cpio -o -H newc --quiet) | gzip -1 > "$vm/initrd"

cp "$here/guest.sh" "$vm/share/guest.sh"
printf '%s\n' "$@" > "$vm/share/programs"
"$build/dopplergl" generate -q -p 'Once upon a time' --temp 0 -n 16 --json --device software |
    sed -n 's/.*"tokens": \[\([-0-9, ]*\)\].*/\1/p' > "$vm/share/tokens"
[ -s "$vm/share/tokens" ] || { echo 'check-vm: the host gives no tokens to compare with' >&2; exit 1; }

accel=${ACCEL:-tcg}
rm -f "$vm/fifo"
mkfifo "$vm/fifo"
Xvfb -displayfd 3 -screen 0 640x480x24 3> "$vm/fifo" > "$vm/xvfb.log" 2>&1 &
xvfb=$!
trap 'kill $xvfb' EXIT
read -r display < "$vm/fifo"
start=$(date +%s)
DISPLAY=:$display timeout "${VM_LIMIT:-600}" qemu-system-x86_64 -machine q35,accel="$accel" -cpu max,-arch-capabilities -smp 2 -m 1536 \
    -no-reboot -nodefaults -serial stdio -monitor none -kernel "$vm/vmlinuz" -initrd "$vm/initrd" \
    -append "console=ttyS0 quiet panic=-1 no_timer_check tree=$tree" \
    -virtfs local,path=/,mount_tag=root,security_model=none,readonly=on,multidevs=remap \
    -virtfs local,path="$vm/share",mount_tag=share,security_model=none \
    -device virtio-gpu-pci,addr=8 -device virtio-gpu-gl-pci,addr=9 -display gtk,gl=on < /dev/null > "$vm/log" 2>&1 || true
tr -d '\r' < "$vm/log" | grep -vE '^(\[|qemu|SeaBIOS|gl_version|GLSL|$)' || true
failed=$(tr -d '\r' < "$vm/log" | grep -c '^not ok' || true)
passed=$(tr -d '\r' < "$vm/log" | grep -c '^ok' || true)
echo "check-vm: $passed passed, $failed failed in $(($(date +%s) - start)) s ($accel)"
if ! grep -q '^guest: done' "$vm/log"; then
    echo "check-vm: the guest did not come to its end, see $vm/log" >&2
    exit 1
fi
[ "$failed" -eq 0 ]
