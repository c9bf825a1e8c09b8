from __future__ import annotations

import zipfile
from pathlib import Path

import pytest

from roles.patches import definition, releases
from roles.patches.releases import Release, Wanted, cached, keep, order


def test_versions_sort_as_released() -> None:
    versions = ["0.5.10", "0.5.9", "0.5.10.post1", "0.5.4.post3", "0.6.0", "0.5.4"]
    assert sorted(versions, key=order) == ["0.5.4", "0.5.4.post3", "0.5.9", "0.5.10", "0.5.10.post1", "0.6.0"]


@pytest.fixture
def wheel(tmp_path: Path) -> Path:
    path = tmp_path / "sglang-0.5.9-py3-none-any.whl"
    with zipfile.ZipFile(path, "w") as archive:
        for name, text in {
            "sglang/a.py": "has the needle\n",
            "sglang/b.py": "has none\n",
            "sglang/d.py": "wanted by its path\n",
            "sglang/c.txt": "the needle\n",
            "sglang/version.py": "__version__ = '0.5.9'\n",
            "sglang-0.5.9.dist-info/METADATA": "Version: 0.5.9\n",
            "sglang-0.5.9.dist-info/RECORD": "",
            "../evil.py": "needle\n",
            "/evil.py": "needle\n",
        }.items():
            archive.writestr(name, text)
    return path


def test_only_what_patches_look_at_is_kept(tmp_path: Path, wheel: Path) -> None:
    keep(wheel, tmp_path / "out" / "in", Wanted(frozenset({"needle"}), frozenset({"sglang/d.py"})))
    found = {str(p.relative_to(tmp_path / "out")) for p in (tmp_path / "out").rglob("*") if p.is_file()}
    names = (
        "sglang/a.py",
        "sglang/d.py",
        "sglang/version.py",
        "sglang-0.5.9.dist-info/METADATA",
        "sglang-0.5.9.dist-info/RECORD",
    )
    assert found == {f"in/{name}" for name in names}


def test_a_release_is_fetched_once_and_again_for_other_needles(
    tmp_path: Path, wheel: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []

    def pip(*arguments: str) -> str:
        asked.append(arguments[-1])
        target = Path(arguments[arguments.index("--dest") + 1]) / wheel.name
        target.write_bytes(wheel.read_bytes())
        return ""

    monkeypatch.setattr(releases, "_pip", pip)
    root = tmp_path / "cache"
    for needles in ({"needle"}, {"needle"}, {"needle", "none"}):
        root.mkdir(exist_ok=True)
        assert releases._fetch("0.5.9", Wanted(frozenset(needles)), root) == Release("0.5.9", root / "0.5.9")
    assert asked == ["sglang==0.5.9"] * 2 and cached(root) == ["0.5.9"]
    assert (root / "0.5.9" / "sglang" / "b.py").is_file()
    assert [p.name for p in root.iterdir()] == ["0.5.9"]


def test_a_diff_is_tried_on_the_files_that_it_names(tmp_path: Path) -> None:
    folder = tmp_path / "mine"
    folder.mkdir()
    line = "    a_line_that_says_enough_to_be_known_again = 1"
    diff = f"--- a/python/sglang/x.py\n+++ b/python/sglang/x.py\n@@ -1,2 +1,2 @@\n{line}\n-a\n+b\n"
    (folder / "mine.diff").write_text(diff, encoding="utf-8")
    wanted = Wanted.of([definition.load("mine", tmp_path)])
    assert wanted == Wanted(frozenset({line.strip()}), frozenset({"sglang/x.py"}))
    assert Wanted.from_json(wanted.as_json()) == wanted
