"""What applying, reverting or adopting patches comes to: files with the bytes they replace, and the manifest after.

Pure: the tree, the manifest and the stock copies come in, a Change goes out. A folder commits it through its store; a
machine gets it as a plan.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field

from blackstart.errors import CheckError

from .decide import Edit, Outcome, decide, decide_unrecorded
from .definition import Patch
from .manifest import FileRecord, Manifest, PatchRecord, without
from .tree import OverlaidTree, SourceTree, sha256

Stock = Callable[[str], bytes | None]
"""The kept stock bytes by their sha256; None where there are none."""


@dataclass(frozen=True)
class Change:
    """Files to write (none twice), stock bytes to keep by sha256, the manifest afterwards, and each patch's outcome."""

    edits: tuple[Edit, ...] = ()
    stock: Mapping[str, bytes] = field(default_factory=dict)
    manifest: Manifest = field(default_factory=Manifest)
    outcomes: tuple[Outcome, ...] = ()


def plan_apply(
    patches: Sequence[Patch], tree: SourceTree, manifest: Manifest, stock: Stock, date: str, known: Sequence[Patch] = ()
) -> Change:
    """Apply what is needed, renew what was applied from an older template, leave everything else.

    `known` are all patches there are: those that share a file with a renewed one are put back on top of its stock.
    `date` is ISO 8601 in UTC. The outcomes are the states afterwards; a drifted patch changes nothing.
    Raises CheckError where a stock copy that is needed is missing or was tampered with.
    """
    live = _live(manifest, tree)
    renewed = {
        patch.name
        for patch in patches
        if live.has(patch.name)
        and live.template(patch.name) != patch.template_hash
        and not live.patches[patch.name].adopted
    }
    files = _rebuilt(live, renewed, tree, stock, [*known, *patches])
    live = without(live, renewed)
    outcomes, kept, records, file_records = [], {}, dict(live.patches), dict(live.files)
    for patch in patches:
        now = OverlaidTree(tree, files)
        outcome = decide(patch, now, Manifest(records, file_records))
        if outcome.state == "needed" and outcome.edits:
            _check_compiles(outcome)
            for edit in outcome.edits:
                before = file_records[edit.path].before if edit.path in file_records else None
                if before is None:
                    original = files.get(edit.path, edit.before)
                    before = sha256(original)
                    kept[before] = original
                files[edit.path] = edit.after
                file_records[edit.path] = FileRecord(before, sha256(edit.after))
            paths = tuple(edit.path for edit in outcome.edits)
            record = PatchRecord(patch.distribution, tree.version(), patch.template_hash, date, paths)
            records[patch.name] = record
            done = Manifest(records, file_records).describe(patch.name)
            outcome = Outcome(patch, "applied", done, outcome.file, outcome.edits, by="manifest")
        outcomes.append(outcome)
    # Ours, with somebody's own lines in the file since: it stays recorded, or the way back to stock would be lost.
    for outcome in outcomes:
        name = outcome.patch.name
        edited_since = outcome.by == "hand" and manifest.has(name) and not set(manifest.paths(name)) & set(files)
        if edited_since and manifest.patches[name].release == tree.version():
            records[name] = manifest.patches[name]
            file_records.update({path: manifest.files[path] for path in manifest.paths(name)})
    return Change(_edits(tree, files), kept, Manifest(records, file_records), tuple(outcomes))


def plan_revert(
    names: Collection[str], tree: SourceTree, manifest: Manifest, stock: Stock, known: Sequence[Patch]
) -> Change:
    """Take patches out again: their files become stock with the patches that stay put back on top.

    Raises CheckError for a file that was changed after it was patched, and for a stock copy that is missing or was
    tampered with. A patch whose files are stock again already (a reinstall) only leaves the manifest.
    """
    live = _live(manifest, tree)
    for patch in known:
        if patch.name in names and manifest.has(patch.name) and not live.has(patch.name):
            _refuse_if_edited(patch, tree, manifest)
    files = _rebuilt(live, [name for name in names if live.has(name)], tree, stock, known)
    kept = without(live, names)
    kept = Manifest(
        kept.patches,
        {
            path: FileRecord(record.before, sha256(files[path])) if path in files else record
            for path, record in kept.files.items()
        },
    )
    after = OverlaidTree(tree, files)
    outcomes = tuple(decide(patch, after, kept) for patch in known if patch.name in names)
    return Change(_edits(tree, files), {}, kept, outcomes)


def plan_adopt(patches: Sequence[Patch], tree: SourceTree, manifest: Manifest, date: str) -> Change:
    """Record what somebody did by hand. Nothing is written but the manifest, and there is no stock to go back to."""
    live = _live(manifest, tree)
    records, files, outcomes = dict(live.patches), dict(live.files), []
    for patch in patches:
        outcome = decide(patch, tree, live)
        if outcome.state == "applied" and outcome.by == "hand":
            files.setdefault(outcome.file, FileRecord(None, sha256(tree.read(outcome.file))))
            records[patch.name] = PatchRecord(
                patch.distribution, tree.version(), patch.template_hash, date, (outcome.file,), adopted=True
            )
            done = Manifest(records, files).describe(patch.name)
            outcome = Outcome(patch, "applied", done, outcome.file, by="manifest")
        outcomes.append(outcome)
    return Change((), {}, Manifest(records, files), tuple(outcomes))


def _check_compiles(outcome: Outcome) -> None:
    for edit in (edit for edit in outcome.edits if edit.path.endswith(".py")):
        try:
            compile(edit.after, edit.path, "exec", dont_inherit=True)
        except (SyntaxError, ValueError) as error:
            raise CheckError(
                f"patched by {outcome.patch.name}, the file would not compile", where=edit.path, found=str(error)
            ) from None


def _live(manifest: Manifest, tree: SourceTree) -> Manifest:
    """The manifest less the tree's own patches whose files are not as they were left."""
    own = {name: record for name, record in manifest.patches.items() if record.distribution == tree.distribution}
    paths = {path for record in own.values() for path in record.files}
    stale = {path for path in paths if not _is_as_left(tree, path, manifest.files[path])}
    return without(manifest, [name for name, record in own.items() if set(record.files) & stale])


def _is_as_left(tree: SourceTree, path: str, record: FileRecord) -> bool:
    return tree.holds(path) and sha256(tree.read(path)) == record.after


def _rebuilt(
    manifest: Manifest, gone: Collection[str], tree: SourceTree, stock: Stock, known: Sequence[Patch]
) -> dict[str, bytes]:
    """The files of the patches that go, as stock with every other recorded patch put back in its order."""
    paths = {path for name in gone for path in manifest.paths(name)}
    files: dict[str, bytes] = {path: _stock_of(path, manifest.files[path], stock) for path in sorted(paths)}
    by_name = {patch.name: patch for patch in known}
    for name, record in manifest.patches.items():
        if name in gone or not paths & set(record.files):
            continue
        if name not in by_name:
            raise CheckError(
                f"{name} shares a file with a patch that goes, and its definition is not there to put it back",
                where=", ".join(sorted(paths & set(record.files))),
                remedy=f"restore templates/patches/{name}, or revert {name} as well",
            )
        outcome = decide_unrecorded(by_name[name], OverlaidTree(tree, files))
        if outcome.state != "needed":
            raise CheckError(
                f"{name} cannot be put back on the stock file",
                where=outcome.file,
                found=f"{outcome.state}: {outcome.detail}",
            )
        files.update({edit.path: edit.after for edit in outcome.edits})
    return files


def _stock_of(path: str, record: FileRecord, stock: Stock) -> bytes:
    remedy = "reinstall the package, which puts the released file there; the patches can then be applied again"
    if record.before is None:
        raise CheckError("the patch was adopted: there is no stock copy to go back to", where=path, remedy=remedy)
    content = stock(record.before)
    if content is None:
        raise CheckError("the stock copy is missing", where=path, found=f"no stock/{record.before}", remedy=remedy)
    if sha256(content) != record.before:
        raise CheckError(
            "the stock copy was tampered with", where=path, found=f"its sha256 is {sha256(content)}", remedy=remedy
        )
    return content


def _refuse_if_edited(patch: Patch, tree: SourceTree, manifest: Manifest) -> None:
    outcome = decide_unrecorded(patch, tree)
    if outcome.state in ("applied", "upstream", "drifted") and outcome.file in manifest.files:
        raise CheckError(
            f"the file was changed after {patch.name} was applied, and is not overwritten",
            where=outcome.file,
            found=f"{outcome.state}: {outcome.detail}",
            remedy="take your own change out first, or reinstall the package",
        )


def _edits(tree: SourceTree, files: Mapping[str, bytes]) -> tuple[Edit, ...]:
    edits = (Edit(path, tree.read(path), after) for path, after in sorted(files.items()))
    return tuple(edit for edit in edits if edit.before != edit.after)
