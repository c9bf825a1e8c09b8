#!/bin/sh
# host.sh FOLDER LAYER KEYS ADDRESS PORT: becomes the init and sshd of one host, in namespaces of its own (see hosts.py).
# All that is mounted here goes with its last process; what the host writes lies in FOLDER/upper, in memory.
set -eu
folder=$1 layer=$2 keys=$3 address=$4 port=$5
root=$folder/root
mount -t tmpfs tmpfs "$folder"
mkdir "$folder/upper" "$folder/work" "$root"
cp -a "$layer" "$folder/layer"  # a layer of an overlay may not lie below another one
mount -t overlay overlay -o "lowerdir=$folder/layer:/,upperdir=$folder/upper,workdir=$folder/work" "$root"
mount --rbind /dev "$root/dev"
mount -t tmpfs tmpfs "$root/dev/shm"
mount -t proc proc "$root/proc"
mount -t tmpfs tmpfs "$root/tmp"
chmod 1777 "$root/tmp"
mount -t tmpfs -o mode=755 tmpfs "$root/run"
mkdir -p "$root/run/sshd" "$root/run/lock" "$root/run/keys"
install -m 600 "$keys/host_key" "$root/run/keys/"
install -m 644 "$keys/login_key.pub" "$root/run/keys/authorized"
[ ! -e "$root/etc/breaking-booted" ] || mkdir -p "$root/run/systemd/system"
# This machine's own start files and state are no part of a fresh host.
rm -rf "$root/root/.bashrc" "$root/root/.profile" "$root/root/.bash_profile" "$root/var/lib/blackstart"
# Where libfaketime is preloaded, sshd's sandboxed half may not read its configuration anew.
export FAKETIME_CACHE_DURATION=1000000
cd /
exec chroot "$root" /usr/sbin/sshd -D -f /etc/breaking-sshd_config -p "$port" -o "ListenAddress=$address" -E /run/sshd.log
