"""``matrix toolchain`` and ``matrix doctor``."""

from __future__ import annotations

import datetime
from collections import Counter
from collections.abc import Iterable, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import click

from mlir_matrix.base.errors import InfrastructureError, UsageError
from mlir_matrix.base.files import Cancelled
from mlir_matrix.base.names import check_known, did_you_mean, printable, select_known
from mlir_matrix.base.text import counted, first_few, megabytes
from mlir_matrix.catalog.catalog import DEFAULT_SUITE
from mlir_matrix.cli import options
from mlir_matrix.cli.completion import COMPONENTS, ENVIRONMENTS, SUITES, complete_tests, names_in
from mlir_matrix.cli.output import note, show, warn
from mlir_matrix.cli.verbs import verb
from mlir_matrix.environments.interpreter import SUPPORTED
from mlir_matrix.environments.machine import HOST, LOCKABLE
from mlir_matrix.environments.package import Provider, provider_of
from mlir_matrix.environments.resolve import ResolvedEnvironment
from mlir_matrix.environments.selection import locked_units, of_release
from mlir_matrix.environments.session import Session
from mlir_matrix.environments.state import bytes_in
from mlir_matrix.plan.request import Limits
from mlir_matrix.toolchain.names import places_of_test, selections, tool_places, tool_programs

if TYPE_CHECKING:
    from mlir_matrix.plan.planner import PlannedTests
    from mlir_matrix.results.results import TestResult
    from mlir_matrix.toolchain.documents import Locked, LockFile, Toolchain, ToolchainGc
    from mlir_matrix.toolchain.find import FoundRelease

names_argument = click.argument(
    "names",
    nargs=-1,
    metavar="[ENVIRONMENT|COMPONENT[@RELEASE]|SUITE|GLOB]...",
    shell_complete=names_in(ENVIRONMENTS, COMPONENTS, SUITES),
)


@verb(
    "fetch",
    "matrix toolchain fetch",
    "matrix toolchain fetch llvm@19 llvm@23",
    "matrix toolchain fetch llvm-releases",
    "matrix toolchain fetch 'llvm@*' --from /mnt/colleague/.cache/mlir-matrix",
)
@names_argument
@click.option(
    "--from", "others", multiple=True, type=options.Folder(), metavar="DIR",
    help="Also take archives from DIR, the cache folder of another user or any folder of packages. Repeatable.",
)  # fmt: skip
@click.option("--dry-run", is_flag=True, help="List what is missing and the commands of source builds; run none.")
@options.sealed
@options.quiet
@options.output_format("text", "json")
@options.session(*options.releases, *options.builds)
def fetch_command(
    names: tuple[str, ...],
    others: tuple[Path, ...],
    dry_run: bool,
    sealed: bool,
    quiet: bool,
    form: str,
    current: Session,
) -> int:
    """Download and install what environments, releases or tests need.

    Without arguments, fetch what the suite smoke needs. Every byte is checked against the SHA-256 in the lock file. Installed
    packages are checked by size and time, and repaired if files are missing or changed; ``toolchain verify`` reads every byte.
    Interrupted downloads resume.

    Archives of installed packages are downloaded again only if ``toolchain verify`` found them damaged, not if ``gc --artifacts``
    removed them.
    """
    from mlir_matrix.execute.progress import shown
    from mlir_matrix.toolchain.fetch import fetch, resolve_names
    from mlir_matrix.toolchain.report import fetched_document

    for other in others:
        if not other.is_dir():
            raise UsageError(f"--from {other}: there is no such folder")
    environments, errors = resolve_names(
        current, names or (options.suite_of_project(DEFAULT_SUITE),), note, sealed=sealed
    )
    if not dry_run:
        errors += fetch(current, environments, others, partial(shown, quiet=quiet), note)
    warn(*errors)
    if dry_run and form == "text":
        for line in _dry_run(current, environments) or ([] if errors else ["# nothing is missing"]):
            click.echo(line)
        return 3 if errors else 0
    labels = sorted({unit.label for environment in environments for unit in environment.units})
    installed = [] if errors else [f"{counted(len(labels), 'package')} installed: {first_few(labels, 8)}"]
    show(form, fetched_document(current, environments, errors), installed)
    return 3 if errors and not dry_run else 0


def _dry_run(current: Session, environments: Iterable[ResolvedEnvironment]) -> list[str]:
    """Return the downloads as comments, and the commands of source builds as lines of a shell."""
    from mlir_matrix.environments.installer import dry_run  # imports urllib3
    from mlir_matrix.toolchain.fetch import without_archives

    packages = current.home.packages
    units = {unit.label: unit for environment in environments for unit in environment.missing(packages)}
    lines = [line for unit in units.values() for line in dry_run(unit, packages, current.home.cache)]
    damaged = without_archives(current, environments)
    return [*lines, *(f"# {alone.name}: damaged archives would be downloaded again" for alone in damaged)]


@verb(
    "lock",
    "matrix toolchain lock",
    "matrix toolchain lock mlir torch --python cp311",
    "matrix toolchain lock llvm@19.1.7 --format json",
    "matrix toolchain lock iree --pin iree=3.8.0",
    "matrix toolchain lock jax zig --platform linux-aarch64",
)
@names_argument
@click.option(
    "--python",
    "tags",
    multiple=True,
    type=click.Choice(SUPPORTED),
    help="Lock for this Python version. Default: all. Repeatable.",
)
@click.option(
    "--platform",
    type=click.Choice(list(LOCKABLE)),
    default=HOST.platform,
    metavar="|".join(LOCKABLE),
    help="Lock for machines of this platform. Default: that of this machine.",
)
@options.output_format("text", "json")
@options.session(options.pin)
def lock_command(names: tuple[str, ...], tags: tuple[str, ...], platform: str, form: str, current: Session) -> int:
    """Write the lock files of environments and releases.

    Without arguments, lock all environments. A lock file lists every package with version, size and SHA-256. An environment has
    one lock file for each Python version that all its packages support. A release of Debian packages has one lock file, which
    includes the C library.
    """
    from mlir_matrix.toolchain.lock import lock_environment, lock_packages

    complete = True
    locked: list[LockFile] = []

    def tell(path: Path, packages: int, fetch: int, disk: int | None = None) -> None:
        file = str(_relative(path))
        locked.append({"file": file, "packages": packages, "bytes": {"fetch": fetch, "disk": disk}})
        if form == "text":
            size = f"{megabytes(fetch)} to fetch" + (f", {megabytes(disk)} on disk" if disk is not None else "")
            click.echo(f"{file}: {counted(packages, 'package')}, {size}")

    for thing in selections(current, names or sorted(current.catalog.environments)):
        # An environment's lock file is of wheels: its releases of Debian packages have their own.
        for entry, release in thing.releases if thing.component else ():
            if provider_of(entry.document, release) is Provider.DEB:
                complete &= lock_packages(current, entry, release, tell, LOCKABLE[platform])
        if thing.environment:
            complete &= lock_environment(current, thing, tags or SUPPORTED, tell, LOCKABLE[platform], named=bool(names))
    document: Locked = {
        "schema": "mlir-matrix/locked/v1",
        "summary": {"locks": len(locked)},
        "complete": complete,
        "locks": locked,
    }
    show(form, document, [])
    return 0 if complete else 3


def _relative(path: Path) -> Path:
    """Return a path relative to the working directory if it is below."""
    here = Path.cwd()
    return path.relative_to(here) if path.is_relative_to(here) else path


@verb("verify", "matrix toolchain verify", "matrix toolchain verify llvm@19")
@names_argument
@options.output_format("table", "json")
@options.session(*options.releases)
def verify_command(names: tuple[str, ...], form: str, current: Session) -> int:
    """Check every byte of installed packages and downloaded archives.

    Without arguments, verify everything. Damaged packages and archives are removed; ``matrix toolchain fetch`` makes them again.
    If a package is damaged, all cached results are removed, too, because it may have made them.

    Exit code: 0 nothing is damaged; 3 something is damaged.
    """
    from mlir_matrix.toolchain.fetch import verify
    from mlir_matrix.toolchain.report import damage_lines, verified_document

    found = verify(current, names, note)
    show(form, verified_document(found), damage_lines(found))
    if not (found.folders or found.archives):
        return 0
    command = options.same_catalogs(["matrix", "toolchain", "fetch", *found.names], current)
    if found.folders:
        warn(
            f"removed {counted(found.results, 'cached result')}, because damaged packages may have made them; "
            "those in a folder of --cache-dir stay, remove them with: matrix cache gc --max-size 0 --cache-dir DIR"
        )
    warn(f"damaged packages and archives were removed{f'; make them again with: {command}' if found.names else ''}")
    return 3


@verb("list", "matrix toolchain list", "matrix toolchain list 'llvm*' iree --format json")
@click.argument("components", nargs=-1, metavar="[COMPONENT|GLOB]...", shell_complete=names_in(COMPONENTS))
@options.output_format("table", "json")
@options.session(options.pin)
def list_command(components: tuple[str, ...], form: str, current: Session) -> None:
    """List every release of components: its source, durability, size and state.

    Without arguments, list all components. A star marks the pinned release. A rolling release vanishes from its source; a
    downloaded one stays usable.
    """
    from mlir_matrix.toolchain.report import c_library_rows, release_lines, release_row

    known = current.catalog.components
    components = tuple(select_known("component", components, known))
    rows = [
        release_row(current, entry, release)
        for name, entry in known.items()
        if not components or name in components
        for release in entry.document.releases
    ]
    libraries = c_library_rows(current, components)
    states = dict(sorted(Counter(row["state"] for row in rows).items()))
    document: Toolchain = {
        "schema": "mlir-matrix/toolchain/v1",
        "summary": {"releases": len(rows), "by_state": states, "c_libraries": len(libraries)},
        "releases": rows,
        "c_libraries": libraries,
    }
    show(form, document, release_lines(rows, libraries), markup=True)


@verb(
    "which",
    "matrix toolchain which mlir-opt@19",
    "$(matrix toolchain which llc@22) --version",
    "matrix toolchain which mlir-opt --for jax/linalg-loops/x86_64/mlp",
)
@click.argument("tool", metavar="TOOL[@RELEASE]")
@click.option(
    "--for", "test", default="", metavar="TEST", help="Take the release that the steps of TEST use.",
    shell_complete=complete_tests,
)  # fmt: skip
@options.session(options.pin)
def which_command(tool: str, test: str, current: Session) -> None:
    """Print the path of TOOL from the pinned release or from RELEASE, to run it by hand. Say on stderr which release it is."""
    name, mark, wanted = tool.partition("@")
    if mark and not wanted:
        raise UsageError(f"'{printable(tool)}': expected TOOL@RELEASE, e.g. {printable(name)}@19")
    if mark and test:
        raise UsageError(f"'{printable(tool)}' and --for both name a release; give one of them")
    holders = [entry for entry in current.catalog.components.values() if name in entry.document.tools]
    if not holders:
        known = {known for entry in current.catalog.components.values() for known in entry.document.tools}
        raise UsageError(f"no component has a tool '{printable(name)}'{did_you_mean(name, known)}")
    places = places_of_test(current, holders, test, note) if test else tool_places(current, holders, name, wanted)
    for entry, release in places:
        environment = of_release(current, entry, release).resolve(current)
        if not isinstance(environment, ResolvedEnvironment):
            raise InfrastructureError(environment.reason)
        if environment.missing(current.home.packages):
            built = ", which is built from source," if provider_of(entry.document, release) is Provider.SOURCE else ""
            reference = f"{entry.name}@{release.release}"
            raise InfrastructureError(
                f"{entry.name} {release.release}{built} is not installed; matrix toolchain fetch {reference}"
            )
        found = next(tool_programs(current, environment, name), None)
        if found is not None:
            note(f"{name} of {entry.name} {release.release}")
            click.echo(str(found))
            return
    shown = ", ".join(f"{entry.name} {release.release}" for entry, release in places)
    raise UsageError(f"{shown} has no program {printable(name)}")


@verb(
    "roll",
    "matrix toolchain roll",
    "matrix toolchain roll qemu-user --suite targets",
    "matrix toolchain roll llvm > pins.patch && git apply pins.patch",
    "matrix toolchain roll --format json",
)
@click.argument("components", nargs=-1, metavar="[COMPONENT|GLOB]...", shell_complete=names_in(COMPONENTS))
@click.option("--suite", default=DEFAULT_SUITE, show_default=True, metavar="SUITE", help="Run the tests of SUITE.")
@click.option(
    "--find",
    is_flag=True,
    help="First ask the Python index and Debian for releases that no file lists; the patch lists them.",
)
@click.option(
    "--accept",
    is_flag=True,
    help="Take the newest release, too, if it breaks tests: the patch then expects what breaks.",
)
@options.limits
@options.quiet
@options.output_format("text", "json")
@options.session(*options.builds, options.cache)
def roll_command(
    components: tuple[str, ...],
    suite: str,
    find: bool,
    accept: bool,
    limits: Limits,
    quiet: bool,
    form: str,
    current: Session,
) -> int:
    """Test newer releases of components and propose those that pass.

    Without arguments, try all components, one at a time, and with each those that it goes with. Only tests that use them run. If
    the whole suite is as expected with all releases that passed, a patch of toolchains/known-good.yaml goes to stdout. Other
    releases are listed with the tests that they break, by cause.

    Exit code: 0 a newer release passes, or nothing is newer; 1 no newer release passes, or together they break a test; 2 the
    command or the files are wrong, or no test of the suite uses the component; 3 the machine could not try everything, and nothing
    under test failed.
    """
    from mlir_matrix.results.report.progress import shown_tests
    from mlir_matrix.results.run_plan import run_plan
    from mlir_matrix.toolchain.report import roll_document, roll_lines
    from mlir_matrix.toolchain.roll import expectations_patches, patches, roll

    catalog = current.catalog
    components = tuple(select_known("component", components, catalog.components))
    _check_roll(current, components, suite)

    def run(under: Session, plan: PlannedTests) -> Sequence[TestResult]:
        with shown_tests(len(plan.verdicts), quiet=quiet) as listener:
            done = run_plan(under, plan, limits=limits, fail_fast=False, listener=listener)
        done.raise_interruption()
        return done.results

    today = datetime.datetime.now(tz=datetime.UTC).date().isoformat()
    names = dict.fromkeys(components or catalog.components)
    offered = _find_releases(current, names) if find else []
    found = roll(current, names, suite, run, today=today, tell=warn, accept=accept)
    if not components and not found.trials:
        note("no component lists a newer release than the pinned one")
    changes = [each.patch() for each in offered]
    if found.passed:
        changes += patches(current, found.pins, found.passed)
        changes += expectations_patches(current, found, suite)
    if form == "json":
        show(form, roll_document(found, suite, changes), [])
    else:
        for line in roll_lines(found, suite):
            note(line)
        for root, text in changes:
            # Git ignores text before a patch.
            click.echo(f"# in {root}\n{text}", nl=False)
    if components and found.trials and not any(trial.affected for trial in found.trials):
        raise UsageError(f"no test of suite {suite} uses {' or '.join(names)}; name another suite with --suite")
    return found.exit_code


def _find_releases(current: Session, names: Iterable[str]) -> list[FoundRelease]:
    """Return releases that no component file lists; say so of each, and of what could not be asked."""
    from mlir_matrix.toolchain.find import find_release

    found = []
    for name in names:
        try:
            release = find_release(current, current.catalog.components[name], current.catalog.default_pins("")[name])
        except InfrastructureError as error:
            warn(f"{name}: newer releases are not known: {error}")
            continue
        if release is not None:
            note(
                f"{name}: {release.release} is not listed; the patch lists it, and the next roll tries it and names its lock"
            )
            found.append(release)
    return found


def _check_roll(current: Session, components: Sequence[str], suite: str) -> None:
    """Raise UsageError for an unknown name; report components without newer releases."""
    from mlir_matrix.toolchain.roll import newer

    catalog, pinned = current.catalog, current.catalog.default_pins("")
    check_known("suite", [suite], catalog.suites)
    for name in components:
        if not newer(catalog.components[name], pinned[name]):
            note(f"{name}: {pinned[name]} is the newest listed release")


@verb("gc", "matrix toolchain gc --dry-run", "matrix toolchain gc --artifacts --format json")
@click.option("--dry-run", is_flag=True, help="List what would be removed; remove nothing.")
@click.option(
    "--artifacts",
    is_flag=True,
    help="Also remove archives of installed packages, which then cannot be repaired offline.",
)
@click.option("--alone", is_flag=True, help="Keep nothing for other catalogs with the same cache folder.")
@options.output_format("text", "json")
@options.session()
def gc_command(dry_run: bool, artifacts: bool, alone: bool, form: str, current: Session) -> None:
    """Remove packages, prefixes and artifacts that no lock file names, and incomplete files.

    That includes what bisections have built, with the folders that they build in and their records of commits that cannot be
    built.

    Files in use are kept. Archives that a lock file names are kept, unless --artifacts is given. Files that other catalogs or
    checkouts with the same cache folder need are kept, unless --alone is given.
    """
    from mlir_matrix.environments.fetch.artifacts import Artifacts
    from mlir_matrix.toolchain.gc import (
        leftover_downloads,
        needed_elsewhere,
        remove_builds,
        remove_unused,
        unlink_download,
    )

    packages, store = current.home.packages, Artifacts(current.home.artifacts)
    units = locked_units(current)
    rows: list[dict[str, str]] = []

    def tell(state: str, name: str) -> None:
        rows.append({"name": name, "state": state})
        if form == "text":
            click.echo(f"{state}: {name}")

    if not alone:
        units |= needed_elsewhere(current, units, tell)
    word = "would be removed" if dry_run else "removed"
    folders = freed = 0
    unnamed = [path for path in packages.glob("*") if path.name not in {*units, ".locks"} and path.is_dir()]
    builds = current.home.cache / "builds"
    for path in (*sorted(unnamed), *sorted(builds.glob("*"))):
        size = bytes_in(path)
        removed = remove_builds(path, dry_run) if path.parent == builds else remove_unused(path, dry_run)
        tell(word if removed else "in use", path.name if path.parent == packages else f"build folder {path.name}")
        folders += removed
        freed += size if removed else 0
    # With --artifacts, an installed package needs no archives.
    needing = (unit for name, unit in units.items() if not (artifacts and (packages / name).is_dir()))
    needed = {value for unit in needing for archive in unit.archives for value in archive.hashes}
    loose = [entry for entry in store.entries() if entry.sha256 not in needed]
    freed += sum(entry.size if dry_run else store.remove(entry.sha256) for entry in loose)
    for path in leftover_downloads(store, needed):
        with suppress(FileNotFoundError, Cancelled):
            freed += path.stat().st_size if dry_run else unlink_download(path)
            tell(word, path.name)
    for record in sorted(current.home.layers.glob("*.json")):
        if record.stem not in units and not (packages / record.stem).is_dir():
            freed += record.stat().st_size
            tell(word, f"metadata of the layer of {record.stem}")
            if not dry_run:
                record.unlink(missing_ok=True)
    document: ToolchainGc = {
        "schema": "mlir-matrix/gc/v1",
        "dry_run": dry_run,
        "files": rows,
        "summary": {"folders": folders, "artifacts": len(loose), "bytes": freed},
    }
    total = f"{counted(folders, 'folder')} and {counted(len(loose), 'artifact')} {word}, {megabytes(freed)}"
    show(form, document, [total])


@verb("doctor", "matrix doctor", "matrix doctor --format json")
@options.output_format("table", "json")
@options.session(*options.releases)
def doctor_command(form: str, current: Session) -> None:
    """Report what this machine has and what it lacks.

    The report has programs, packages, tests that cannot run, and pinned releases that will vanish from their source.
    """
    from mlir_matrix.toolchain.doctor import examine
    from mlir_matrix.toolchain.report import doctor_lines

    found = examine(current)
    show(form, found, doctor_lines(found), markup=True)
