"""The LXC configuration of the stand-in host."""

from __future__ import annotations

from sandbox.paths import ADDRESS, HOST_LINK, HOSTNAME, PREFIX_LENGTH

# Beyond what LXC's common.conf drops already (mac_admin mac_override sys_time sys_module sys_rawio): no way to
# boot or load another kernel, to wake the machine, to read or clear its log, to audit it, to profile it.
_DROPPED = "sys_boot syslog wake_alarm block_suspend audit_control audit_read perfmon"


def config(inside: str) -> str:
    """The configuration, with the state root at `inside` as the namespace's first process sees it."""
    return f"""\
lxc.include = /usr/share/lxc/config/common.conf
lxc.uts.name = {HOSTNAME}
lxc.rootfs.path = dir:{inside}/disk/root
lxc.apparmor.profile = unconfined
lxc.tty.max = 0
lxc.tty.dir =
lxc.console.path = none
lxc.cap.drop = {_DROPPED}
# /proc/sys and /sys are read-only, but for the host's own network.
lxc.mount.auto =
lxc.mount.auto = proc:mixed sys:mixed cgroup:mixed
lxc.net.0.type = phys
lxc.net.0.link = {HOST_LINK}
lxc.net.0.name = eth0
lxc.net.0.flags = up
lxc.net.0.ipv4.address = {ADDRESS}/{PREFIX_LENGTH}
lxc.mount.entry = {inside}/vz var/lib/vz none bind,create=dir 0 0
lxc.mount.entry = {inside}/wheelhouse srv/wheelhouse none bind,ro,create=dir 0 0
lxc.mount.entry = {inside}/models srv/models none bind,ro,create=dir 0 0
lxc.mount.entry = {inside}/share srv/blackstart-sandbox none bind,ro,create=dir 0 0
lxc.hook.autodev = {inside}/share/sandbox/image/gpu-nodes
"""
