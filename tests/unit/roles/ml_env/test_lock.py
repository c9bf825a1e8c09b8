import hashlib

import pytest

from blackstart.errors import InputError
from roles.ml_env import lock as locks

HASHES = [letter * 64 for letter in "abc"]
TEXT = f"""\
# made by a tool
aiohttp==3.13.3 \\
    --hash=sha256:{HASHES[0]} \\
    --hash=sha256:{HASHES[1]}
    # via something
Some.Name_x==1.0+cu130 --hash=sha256:{HASHES[2]}
"""


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "good.txt").write_text(TEXT)
    return tmp_path


def test_a_lock_gives_every_package_its_version_and_hashes(folder):
    lock = locks.read("good", folder)
    assert lock.versions == {"aiohttp": "3.13.3", "some.name_x": "1.0+cu130"}
    assert lock.hashes == {"aiohttp": (HASHES[0], HASHES[1]), "some.name_x": (HASHES[2],)}
    assert lock.text == TEXT


def test_a_locks_identity_changes_with_its_text(folder):
    lock = locks.read("good", folder)
    assert lock.identity == "good-" + hashlib.sha256(TEXT.encode()).hexdigest()[:12]
    (folder / "good.txt").write_text(TEXT + "# changed\n")
    assert locks.read("good", folder).identity != lock.identity


def test_an_unknown_lock_names_the_known(folder):
    with pytest.raises(InputError, match="there is no lock 'none'") as caught:
        locks.read("none", folder)
    assert caught.value.found == "known: good"


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("aiohttp>=3", "a lock pins every package"),
        ("aiohttp", "a lock pins every package"),
        ("-r other.txt", "a lock pins every package"),
        ("--index-url https://example.org/simple", "a lock pins every package"),
        ("git+https://example.org/x.git", "a lock pins every package"),
        ("https://example.org/x.whl", "a lock pins every package"),
    ],
)
def test_what_is_not_pinned_is_refused_with_its_line(folder, line, says):
    (folder / "bad.txt").write_text(TEXT + line + "\n")
    with pytest.raises(InputError, match=says) as caught:
        locks.read("bad", folder)
    assert (caught.value.where, caught.value.found) == ("bad.txt:7", line)


def test_a_package_without_a_hash_is_refused(folder):
    (folder / "bad.txt").write_text("aiohttp==3.13.3\n" + TEXT.replace("aiohttp", "other"))
    with pytest.raises(InputError, match="aiohttp has no hash"):
        locks.read("bad", folder)


@pytest.mark.parametrize("name", [path.stem for path in locks.LOCKS.glob("*.txt")])
def test_the_projects_own_locks_are_whole_and_name_no_index(name):
    lock = locks.read(name)
    assert lock.versions
    assert "://" not in lock.text
