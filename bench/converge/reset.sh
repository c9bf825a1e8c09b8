#!/bin/sh
# Undoes the converge inside one host; run by nsenter between measurements, never timed.
rm -rf /opt/ml-env /etc/sglang /var/log/sglang /srv/models /var/lib/blackstart \
  /etc/systemd/system/sglang@.service /etc/modprobe.d/nvidia-lxc.conf /usr/local/bin/sglang-start \
  /etc/logrotate.d/sglang /etc/sysctl.d/90-sglang.conf /etc/sysctl.d/91-numa.conf \
  /etc/modules-load.d/nvidia.conf /etc/modprobe.d/blacklist-nouveau.conf \
  /etc/systemd/system/multi-user.target.wants/sglang@default.service
userdel sglang 2>/dev/null
groupdel mlops 2>/dev/null
sed -i '/^NCCL_P2P_LEVEL=SYS$/d' /etc/environment
sed -i '/^root:44:1$/d' /etc/subgid
sed -i '/^root hard memlock unlimited$/d' /etc/security/limits.conf
exit 0
