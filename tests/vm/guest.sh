#!/bin/bash
# The checks of `make check-vm`. They run as root in the guest and start the product as an ordinary user, with and
# without the group `render`. Prints "ok - NAME", or "not ok - NAME" with the output, and finally "guest: done".
# TREE: the source tree. /share has two files. tokens: the tokens computed on the host ("1, 2, 3"). programs: test
# programs to run, one per line, with an optional colon and DOPPLERGL_TEST_FILTER.
tool=$TREE/build/dopplergl
share=/share
story=(generate -p 'Once upon a time' --temp 0)

up() { cut -d' ' -f1 /proc/uptime; }
since() { awk -v a="$1" -v b="$(up)" 'BEGIN {printf "%.0f", b - a}'; }

# as GROUPS COMMAND...: stores both output streams in $out, and the exit code in $code.
as() {
    local groups=$1 begin
    shift
    begin=$(up)
    out=$(setpriv --reuid 1234 --regid 1234 $groups env HOME=/home/u XDG_RUNTIME_DIR=/run \
        XDG_CACHE_HOME=/home/u/.cache "$@" 2>&1 < /dev/null)
    code=$?
    took=$(since "$begin")
}

# want NAME CODE TEXT...: checks that the last command exited with CODE and printed every TEXT. -TEXT must not be
# printed.
want() {
    local name=$1 wanted=$2 text missing=
    shift 2
    [ "$code" -eq "$wanted" ] || missing="exit code $code, wanted $wanted; "
    for text; do
        case $text in
        -*) case $out in *"${text#-}"*) missing="${missing}said \"${text#-}\"; " ;; esac ;;
        *) case $out in *"$text"*) ;; *) missing="${missing}did not say \"$text\"; " ;; esac ;;
        esac
    done
    if [ -z "$missing" ]; then
        echo "ok - $name (${took} s)"
    else
        printf 'not ok - %s: %s\n%s\n' "$name" "$missing" "$out"
    fi
}

load() { [ ! -e "/m/$1.ko" ] || insmod "/m/$1.ko" 2> /dev/null; }
open_nodes() { chgrp render /dev/dri/renderD* && chmod 0660 /dev/dri/renderD*; }

echo "guest: Linux $(uname -r) after $(up) s"
sed -i '/^render:/d' /etc/group
echo render:x:4997: >> /etc/group
none=--clear-groups member='--groups 4997'
mkdir -p /home/u
chown 1234:1234 /home/u
tokens=$(cat $share/tokens)

# Nodes in this order: vgem, which no driver supports; a virtio GPU with 2D only; the virtio GPU that computes. QEMU
# allows only one of the last kind.
for m in drm drm_kms_helper drm_shmem_helper vgem virtio_dma_buf virtio-gpu; do load $m; done
sleep 1
ls -l /dev/dri/renderD*
gpu=/dev/dri/renderD130

as "$none" "$tool" devices
want 'no udev rule: devices' 0 "$gpu" 'unusable' 'with mode 0600, no udev rule has opened it' '-usermod'
as "$none" "$tool" "${story[@]}" -n 1
want 'no udev rule: refused' 1 'dopplergl: error: no usable GPU' "chgrp render $gpu" '-usermod'

open_nodes
as "$none" "$tool" devices
want 'no group: devices' 0 "$gpu" 'virtio_gpu' 'group render, add yourself to the group'
as "$none" "$tool" "${story[@]}" -n 1
want 'no group: refused' 1 'dopplergl: error: no usable GPU' "$gpu (virtio_gpu): permission denied" \
    'usermod -aG render'

as "$member" "$tool" devices
want 'group: devices' 0 'vgem' 'no driver for this device' '/dev/dri/renderD129' \
    "$gpu  virtio_gpu hardware  virgl (LLVMPIPE" \
    'the host of this virtual machine renders in software' '-EGL device: EGL fell back'
as "$member" "$tool" "${story[@]}" -n 16 --json
want 'group, vgem first: 16 greedy tokens are the host'"'s" 0 "\"tokens\": [$tokens]" "\"node\": \"$gpu\"" \
    '"software": false' 'passed over vgem /dev/dri/renderD128: ' 'EGL fell back to software' '-passed over  '

link=/dev/dri/by-path/pci-0000:00:09.0-render
mkdir -p /dev/dri/by-path
ln -s ../renderD130 $link
for choice in $gpu $link 2; do
    as "$member" "$tool" "${story[@]}" -n 1 --json --device $choice
    want "--device $choice" 0 "\"tokens\": [${tokens%%,*}]" "\"node\": \"$gpu\"" '-passed over'
done
as "$member" "$tool" "${story[@]}" -n 1 --device /dev/dri/renderD128
want '--device of a node without a driver' 1 'dopplergl: error: no usable device: /dev/dri/renderD128 (vgem): ' \
    'no driver for this device'
as "$member" "$tool" "${story[@]}" -n 1 --device /dev/dri/renderD131
want '--device of no node' 1 "no such render node here; there is /dev/dri/renderD128, /dev/dri/renderD129, $gpu"

# Remove the other nodes. Probing them costs seconds each time.
rmmod vgem
echo 0000:00:08.0 > /sys/bus/pci/drivers/virtio-pci/unbind

# Cancel during the first step with an empty cache, while the driver compiles.
begin=$(up)
as "$member" env XDG_CACHE_HOME=/home/u/cold MESA_SHADER_CACHE_DISABLE=true \
    timeout --preserve-status -s TERM 5 "$tool" "${story[@]}" -n 16
want 'SIGTERM in the first step' 130
late=$(($(since "$begin") - 5))
if [ "$late" -le 10 ]; then
    echo "ok - SIGTERM ends it within 10 s ($late s)"
else
    echo "not ok - SIGTERM ended it after $late s"
fi

while IFS=: read -r program filter; do
    name=${program##*/}${filter:+ $filter}
    as "$member" env -C "$TREE" CMOCKA_MESSAGE_OUTPUT=TAP DOPPLERGL_TEST_FILTER="$filter" TMPDIR=/home/u \
        timeout 150 "$TREE/$program"
    out=$(grep -A8 '^not ok' <<< "$out" | grep -v '^not ok [0-9]* # SKIP'; tail -n 3 <<< "$out" | grep '^#')
    want "$name" 0 '-not ok'
done < $share/programs
echo "guest: done after $(up) s"
