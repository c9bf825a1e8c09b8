#!/usr/bin/env bash
# install.sh: what the benchmark needs, once: Debian packages, the peers' environments, the environment that hosts share,
# and bytecode of everything. What is there already is kept. Root, Debian 12.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
project=$(cd "$here/../.." && pwd)
work=${BLACKSTART_CACHE:-$HOME/.cache/blackstart}/bench
python=$project/.venv/bin/python

packages=(openssh-server openssh-client python3-apt python3-venv rsync util-linux)
if ! dpkg -s "${packages[@]}" >/dev/null 2>&1; then
  apt-get update -q
  DEBIAN_FRONTEND=noninteractive apt-get install -qy --no-install-recommends "${packages[@]}"
fi

# What the resource "pip package" looks into; hosts see this machine's /opt.
[ -x /opt/bench-venv/bin/pip ] || /usr/bin/python3 -m venv /opt/bench-venv
site=$("$python" -c 'import sys, yaml; print(yaml.safe_load(open(sys.argv[1]))["venv_site"])' "$here/vars.yml")
[ -d "$site/setuptools" ] || { echo "error: $site/setuptools is not there: hosts need Debian 12's Python 3.11" >&2; exit 1; }

environment() { # NAME REQUIREMENT...
  local venv=$work/venvs/$1; shift
  [ -d "$venv" ] || { "$python" -m uv venv -q "$venv" && "$python" -m uv pip install -q --compile-bytecode --python "$venv/bin/python" "$@"; }
}
mkdir -p "$work/venvs"
environment fabric 'fabric==3.2.3' 'paramiko<5' 'jinja2==3.1.6' pyyaml
environment pyinfra 'pyinfra==3.10.0' pyyaml
environment ansible 'ansible==12.3.0'
environment mitogen 'ansible==12.3.0' 'mitogen==0.3.54'

env -u PYTHONDONTWRITEBYTECODE "$python" -m compileall -q "$project/blackstart" "$project/roles" "$project/tasks.py" "$here" \
  "$("$python" -c 'import sysconfig; print(sysconfig.get_path("purelib"))')" || true
echo "ready: .venv/bin/python -m bench.converge.run"
