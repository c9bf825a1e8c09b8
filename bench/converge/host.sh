#!/bin/sh
# host.sh FOLDER KEYS LOG RESET ADDRESS: becomes the sshd of one host. Run in a mount namespace of its own (see hosts.py):
# everything mounted here goes with the last process in it. The host's writes live in memory, over this machine's root.
set -eu
folder=$1 keys=$2 log=$3 reset=$4 address=$5
root=$folder/root
mount -t tmpfs tmpfs "$folder"
mkdir "$folder/upper" "$folder/work" "$root"
mount -t overlay overlay -o "lowerdir=/,upperdir=$folder/upper,workdir=$folder/work" "$root"
mount --rbind /dev "$root/dev"
mount -t proc proc "$root/proc"
mount -t tmpfs tmpfs "$root/tmp"
mount -t tmpfs tmpfs "$root/run"
mkdir -p "$root/run/sshd" "$root/etc/modprobe.d" "$root/etc/systemd/system/multi-user.target.wants" "$root/etc/bench_ssh"
install -m 600 "$keys/hostkey" "$root/etc/bench_ssh/hostkey"
install -m 644 "$keys/id.pub" "$keys/sshd_config" "$root/etc/bench_ssh/"
install -m 755 "$reset" "$root/etc/bench_ssh/reset.sh"
touch "$root/run/sshd.log"
mount --bind "$log" "$root/run/sshd.log"
# This machine's own start files and state are no part of a fresh host.
rm -rf "$root/root/.bashrc" "$root/root/.profile" "$root/root/.bash_profile" "$root/var/lib/blackstart"
exec chroot "$root" /usr/sbin/sshd -D -f /etc/bench_ssh/sshd_config -o "ListenAddress=$address" -E /run/sshd.log
