"""~/.ssh/config says to us what it says to the real ssh."""

import subprocess

import pytest

from blackstart.ssh_config import read

ASKED = ("hostname", "port", "user", "proxyjump", "hostkeyalias")

FILES = {
    "hosts": "Host box\n  HostName 198.51.100.1\n  Port 2201\nHost crate\n  HostName 198.51.100.2\n",
    "settings": "  Port 2299\n  User carl\n",
    "more/one": "Host box\n  User ada\nInclude {home}/more/deeper\n",
    "more/two": "Host crate\n  User bob\n",
    "more/.hidden": "Host *\n  User nobody\n",
    "more/deeper": "Host box crate\n  HostKeyAlias both\n",
    "with blank": "Host box\n  Port 2202\n",
}


@pytest.fixture
def home(tmp_path, monkeypatch):
    for name, text in FILES.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text.replace("{home}", str(tmp_path)))
    (tmp_path / ".ssh").mkdir()
    monkeypatch.setenv("HOME", str(tmp_path))
    return tmp_path


def as_ssh_reads_it(config, host):
    """Without the system's file, as `-F` has it; what is not set is missing, or ssh's default."""
    said = subprocess.run(["ssh", "-G", "-F", config, host], capture_output=True, text=True, check=True).stdout
    values = dict(line.split(" ", 1) for line in said.splitlines() if " " in line)
    return {key: values[key] for key in ASKED if key in values}


@pytest.mark.parametrize("host", ["box", "crate", "bastion", "elsewhere"])
@pytest.mark.parametrize(
    "text",
    [
        "Include {home}/hosts\nPort 2200\n",
        "Port 2200\nInclude {home}/hosts\n",
        "Include {home}/hosts\nHost box\n  User carl\n",
        "Host box\n  Include {home}/settings\nHost *\n  Port 2200\n",
        "Host crate\n  User ada\n  Include {home}/settings\n  HostName 198.51.100.3\n",
        "Include {home}/more/*\nUser dora\n",
        "include {home}/nowhere/* {home}/hosts  # both\n",
        'Include="{home}/with blank"\nPort 2200\n',
        "Include ~/no-such-file\nPort 2200\n",
        "Match host box\n  Include {home}/settings\n",
        "Host b* !bastion\n  Include {home}/hosts\nHost *\n  Include {home}/settings\n",
        "Match host crate\n  Include {home}/more/*\n",
        "Match all\n  Include {home}/more/*\n",
        "Match final all\n  Include {home}/settings\n  User dora\nHost box\n  Port 2200\n",
        "Match final host box\n  Include {home}/more/*\n",
        "Match !host box\n  Include {home}/settings\n",
        "Host unix/* vsock/*\n  ProxyCommand helper %h %p\nHost .host\n  ProxyCommand helper %p\n",
        "Host bastion\n  ProxyJump none\nHost *\n  ProxyJump bastion\n",
        "Host *\n  ProxyJump NONE\n",
    ],
)
def test_a_config_means_what_it_means_to_ssh(home, monkeypatch, text, host):
    config = home / ".ssh/config"
    config.write_text(text.replace("{home}", str(home)))
    monkeypatch.setattr("blackstart.ssh_config.FILES", (str(config),))
    ours = read().base_ssh_config.lookup(host)
    theirs = as_ssh_reads_it(config, host)
    for key in ASKED:
        default = {"port": "22", "user": "root", "hostname": host}.get(key)
        assert ours.get(key, default) == theirs.get(key), key


def test_a_relative_include_lies_beside_the_persons_config(home):
    (home / ".ssh/config").write_text("Include config.d/*\n")
    (home / ".ssh/config.d").mkdir()
    (home / ".ssh/config.d/site").write_text("Host box\n  Port 2201\n")
    assert read().base_ssh_config.lookup("box")["port"] == "2201"


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("Include ~/.ssh/config\n", "without end"),
        ("Include 'hosts\n", "quotation"),
        ("Match tagged office\n  Port 2200\n", "Match tagged is not supported"),
    ],
)
def test_what_cannot_be_followed_is_said(home, text, says):
    (home / ".ssh/config").write_text(text)
    with pytest.raises(ValueError, match=says):
        read()
