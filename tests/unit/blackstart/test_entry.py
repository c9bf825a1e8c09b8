import json
import subprocess
import sys

import pytest

from blackstart import bundle, entry

SH = "/bin/sh"


@pytest.fixture
def programs(tmp_path):
    """A PATH with nothing on it but what the test puts there, as shell scripts."""
    folder = tmp_path / "bin"
    folder.mkdir()

    def put(**scripts):
        for name, text in scripts.items():
            path = folder / name.replace("_", "-")
            path.write_text(f"#!{SH}\n{text}\n")
            path.chmod(0o755)
        return folder

    return put


def run(argv, path, stdin=b""):
    return subprocess.run(argv, input=stdin, env={"PATH": str(path)}, capture_output=True, timeout=20)


def announced(ran):
    """The announcements on stdout; every one of them stands on a line of its own."""
    return [json.loads(line) for line in ran.stdout.splitlines() if line.startswith(b"{")]


def test_a_login_with_roots_number_needs_no_sudo_whatever_its_name(programs):
    ran = run(entry.as_root(["/bin/echo", "a b"]), programs(id="echo 0"))
    assert announced(ran) == [{"e": "become", "password": False}]
    assert ran.stdout.endswith(b"\na b\n")


def test_without_sudo_a_login_is_refused_and_told_why(programs):
    ran = run(entry.as_root(["echo", "hi"]), programs(id="echo 1000"))
    assert ran.returncode == 126
    assert announced(ran) == [{"e": "refused", "by": "no sudo"}]
    assert b"hi" not in ran.stdout


def test_passwordless_sudo_gets_the_words_as_they_are(programs):
    sudo = '[ "$2" = true ] && exit; shift; printf "<%s>" "$@"; exec cat'
    ran = run(
        entry.as_root(["run", "a b", "$x", "it's"]), programs(id="echo 1000", sudo=sudo, cat="/bin/cat"), b"input"
    )
    assert announced(ran) == [{"e": "become", "password": False}]
    assert ran.stdout.endswith(b"<run><a b><$x><it's>input")


def test_asked_sudo_reads_the_password_first_and_says_when_it_took_it(programs):
    sudo = """
[ "$1" = -n ] && exit 1
[ "$1 $2 $3" = "-S -p " ] || exit 9
shift 3
read -r password
[ "$password" = s3cret ] || { echo "Sorry, try again." >&2; exit 1; }
exec "$@"
"""
    path = programs(id="echo 1000", sudo=sudo, cat="exec /bin/cat")
    good = run(entry.as_root(["cat"]), path, b"s3cret\nthe rest")
    assert announced(good) == [{"e": "become", "password": True}, {"e": "root"}]
    assert good.stdout.endswith(b"the rest")
    bad = run(entry.as_root(["cat"]), path, b"wrong\nthe rest")
    assert announced(bad) == [{"e": "become", "password": True}]
    assert bad.returncode == 1


def start(python, path):
    program = bundle.program()
    return subprocess.run(
        entry.agent(str(python)), input=program, env={"PATH": str(path)}, capture_output=True, timeout=20
    )


def test_the_agent_starts_under_a_python_that_is_there(programs):
    ran = start(sys.executable, programs())
    assert (ran.returncode, ran.stdout.strip(), ran.stderr) == (0, b"", b"")


def test_the_agents_environment_is_clean_and_its_folder_is_the_root(programs, tmp_path):
    show = tmp_path / "python"
    show.write_text("#!/bin/sh\nexec /usr/bin/python3 -c 'import os; print(os.getcwd(), sorted(os.environ))'\n")
    show.chmod(0o755)
    environment = {"PATH": str(programs()), "PYTHONPATH": "/evil", "LD_PRELOAD": "", "LC_ALL": "tr_TR.UTF-8"}
    ran = subprocess.run(entry.agent(str(show)), env=environment, capture_output=True, text=True, timeout=20)
    folder, names = ran.stdout.split(" ", 1)
    assert folder == "/"
    assert set(eval(names)) - {"LC_CTYPE", "PWD", "_", "SHLVL", "OLDPWD"} == {"PATH", "HOME", "LANG"}


def test_a_missing_python_is_installed_once_and_then_used(programs, tmp_path):
    python = tmp_path / "python3"
    log = tmp_path / "log"
    apt = f'echo "$@" >>{log}; echo noise; /bin/ln -s {sys.executable} {python}'
    ran = start(python, programs(apt_get=apt))
    assert announced(ran) == [{"e": "installing", "what": "python3"}]
    assert ran.returncode == 0
    assert log.read_text() == "install -y --no-install-recommends python3\n"
    assert b"noise" not in ran.stdout and b"noise" in ran.stderr


def test_stale_package_lists_are_fetched_anew(programs, tmp_path):
    python = tmp_path / "python3"
    apt = f"""
[ "$1" = update ] && touch {tmp_path}/new
[ -e {tmp_path}/new ] || exit 100
/bin/ln -sf {sys.executable} {python}
"""
    ran = start(python, programs(apt_get=apt, touch='exec /usr/bin/touch "$@"'))
    assert ran.returncode == 0 and announced(ran) == [{"e": "installing", "what": "python3"}]


def test_a_machine_that_cannot_get_a_python_says_so(programs, tmp_path):
    ran = start(tmp_path / "python3", programs(apt_get="exit 100", cat="exec /bin/cat"))
    assert ran.returncode == 0, "what is sent to it must still be read"
    assert announced(ran) == [{"e": "installing", "what": "python3"}, {"e": "refused", "by": "no python"}]


def test_the_installer_does_not_eat_the_program(programs, tmp_path):
    python = tmp_path / "python3"
    apt = f"/bin/cat >/dev/null; /bin/ln -s {sys.executable} {python}"
    program = bundle.program() + b'36\n{"op":"none such","controller":"me"}'
    ran = subprocess.run(
        entry.agent(str(python)),
        input=program,
        env={"PATH": str(programs(apt_get=apt))},
        capture_output=True,
        timeout=20,
    )
    assert [event["e"] for event in announced(ran)] == ["installing", "fault", "end"]


def test_an_announcement_is_no_part_of_a_line_that_a_start_file_left_open(programs, tmp_path):
    command = ["/bin/sh", "-c", 'printf "Welcome"; exec "$@"', "sh", *entry.as_root(entry.agent(sys.executable))]
    request = b'36\n{"op":"none such","controller":"me"}'
    path = programs(id="echo 0")
    ran = subprocess.run(
        command, input=bundle.program() + request, env={"PATH": str(path)}, capture_output=True, timeout=20
    )
    assert [event["e"] for event in announced(ran)] == ["become", "fault", "end"]


def test_ahead_of_a_request_a_missing_python_is_announced_and_nothing_is_installed(programs, tmp_path):
    log = tmp_path / "log"
    ran = subprocess.run(
        entry.agent(str(tmp_path / "python3"), install=False),
        input=bundle.program(),
        env={"PATH": str(programs(apt_get=f"echo >>{log}", cat="exec /bin/cat"))},
        capture_output=True,
        timeout=20,
    )
    assert announced(ran) == [{"e": "missing", "what": "python3"}]
    assert (ran.returncode, ran.stderr) == (0, b""), "the program is taken, and its end waited for"
    assert not log.exists()


def test_ahead_of_a_request_a_python_that_is_there_is_started(programs):
    argv = entry.agent(sys.executable, install=False)
    request = b'36\n{"op":"none such","controller":"me"}'
    ran = subprocess.run(
        argv, input=bundle.program() + request, env={"PATH": str(programs())}, capture_output=True, timeout=20
    )
    assert [event["e"] for event in announced(ran)] == ["fault", "end"]
