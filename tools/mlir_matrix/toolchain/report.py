"""Show components, fetched and damaged packages, rolls and this machine, as documents and as text."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.markup import escape

from mlir_matrix.actions.outcomes import Outcome
from mlir_matrix.base.errors import UsageError
from mlir_matrix.base.layout import columns, section
from mlir_matrix.base.names import split_pins
from mlir_matrix.base.text import counted, first_few, megabytes
from mlir_matrix.catalog.catalog import Entry
from mlir_matrix.catalog.models.toolchains import Component, Release
from mlir_matrix.environments.package import provider_of
from mlir_matrix.environments.resolve import ResolvedEnvironment
from mlir_matrix.environments.selection import c_libraries, of_release
from mlir_matrix.environments.session import Session
from mlir_matrix.environments.state import State, cost_of, state_of, state_words
from mlir_matrix.execute.plan_document import units_document
from mlir_matrix.toolchain.fetch import Damage

if TYPE_CHECKING:
    from mlir_matrix.toolchain.documents import (
        DoctorEnvironment,
        DoctorGpu,
        Fetched,
        FetchedEnvironment,
        ListedRelease,
        RollCause,
        RolledToolchain,
        VanishingPin,
        VerifiedToolchain,
    )
    from mlir_matrix.toolchain.roll import BrokenTest, Roll

#: Broken tests that are listed by name.
_NAMED_TESTS = 10


def release_lines(rows: Sequence[ListedRelease], libraries: Sequence[Mapping[str, str]]) -> Iterator[str]:
    header = ("component", "release", "", "from", "source", "durability", "archives", "on disk", "state")
    cells = [
        (
            escape(row["component"]),
            escape(row["release"]),
            "*" if row["pinned"] else "",
            escape(", ".join(row["suites"]) or row["provider"]),
            escape(row["commit"] or ""),
            row["durability"],
            megabytes(row["bytes"]["fetch"]) if row["locked"] else "",
            megabytes(row["bytes"]["disk"]) if row["locked"] else "",
            state_words(row["state"], row["bytes"]["to_fetch"]),
        )
        for row in rows
    ]
    yield from columns(header, cells, right=(6, 7))
    if libraries:
        built = [(library["target"], state_words(library["state"])) for library in libraries]
        yield from ("", *columns(("C library", "state"), built))


def c_library_rows(current: Session, components: Sequence[str]) -> list[dict[str, str]]:
    """Return the C libraries that the pinned releases of ``components`` (default: all) build for targets."""
    rows = []
    for name, entry in current.catalog.environments.items():
        if components and not {*components} & {*entry.document.components}:
            continue
        environment = current.environment(current.pins.reference(name))
        if isinstance(environment, ResolvedEnvironment):
            for library in c_libraries(current, name, environment.packages):
                state = State.INSTALLED if library.find(current.home.packages) else State.NOT_BUILT
                rows.append({"target": library.triple, "folder": library.folder, "state": state})
    return rows


def release_row(current: Session, entry: Entry[Component], release: Release) -> ListedRelease:
    row: ListedRelease = {
        "component": entry.name,
        "release": release.release,
        "provider": provider_of(entry.document, release),
        "suites": list(release.suites),
        "commit": release.commit,
        "durability": release.durability,
        "pinned": current.pins.release(entry.name).release == release.release,
        "locked": False,
        "state": State.UNAVAILABLE,
        "reason": "",
        "bytes": {"fetch": 0, "to_fetch": 0, "disk": 0},
    }
    try:
        environment = of_release(current, entry, release).resolve(current)
    except UsageError as error:
        return {**row, "reason": str(error)}
    if not isinstance(environment, ResolvedEnvironment):
        return {**row, "reason": environment.reason}
    cost = cost_of([environment], current.home)
    row["locked"], row["state"] = True, state_of(environment, current.home)
    row["bytes"] = {"fetch": cost.fetch, "to_fetch": cost.to_fetch, "disk": cost.disk}
    return row


def roll_document(found: Roll, suite: str, patches: Iterable[tuple[Path, str]]) -> RolledToolchain:
    return {
        "schema": "mlir-matrix/roll/v1",
        "suite": suite,
        "summary": {
            "trials": len(found.trials), "green": sum(trial.green for trial in found.trials), "pins": len(found.pins)
        },
        "trials": [
            {
                "component": trial.component, "pinned": trial.pinned, "release": trial.release, "moved": dict(trial.moved),
                "kept": dict(trial.kept), "affected": list(trial.affected), "green": trial.green,
                "accepted": trial.accepted is not None,
                "reason": trial.findings.reason, "causes": _causes_document(trial.findings.broken),
            }
            for trial in found.trials
        ],
        "pins": dict(found.pins),
        "reason": found.together.reason,
        "causes": _causes_document(found.together.broken),
        "patches": [{"catalog": str(root), "patch": text} for root, text in patches],
    }  # fmt: skip


def _causes_document(broken: Sequence[BrokenTest]) -> list[RollCause]:
    from mlir_matrix.toolchain.roll import causes  # imports the planner

    return [
        {"outcome": Outcome(group[0].outcome), "reason": group[0].reason, "tests": [each.id for each in group]}
        for group in causes(broken)
    ]


def roll_lines(found: Roll, suite: str) -> Iterator[str]:
    for trial in found.trials:
        change = f"{trial.component}: {trial.pinned} -> {trial.release}{_with(trial.moved)}"
        tests = counted(len(trial.affected), "test")
        if not trial.affected:
            yield f"{change}: not tried: no test of suite {suite} uses it"
        elif trial.green:
            yield f"{change}: green, {tests} of suite {suite} affected"
        elif trial.findings.reason:
            yield f"{change}: not tried: {trial.findings.reason}"
        else:
            broken = trial.findings.broken
            taken = ", and is taken with changed expectations" if trial.accepted else ""
            yield f"{change}: breaks {len(broken)} of {tests} of suite {suite} that it affects{_with(trial.kept)}{taken}"
            yield from _broken_lines(broken)
    together = found.together
    if together.green:
        return
    yield f"no patch is proposed{_with(found.pins)}"
    if together.reason:
        yield f"  suite {suite} could not be tried: {together.reason}"
        return
    yield f"  {counted(len(together.broken), 'test')} of suite {suite} not as expected:"
    yield from _broken_lines(together.broken, lambda test: " and ".join(found.touching(test)) or "none of these")


def _with(pins: Mapping[str, str]) -> str:
    listed = ", ".join(f"{name} {release}" for name, release in pins.items())
    return f", together with {listed}" if listed else ""


def _broken_lines(broken: Sequence[BrokenTest], affected_by: Callable[[str], str] | None = None) -> Iterator[str]:
    from mlir_matrix.toolchain.roll import causes  # imports the planner

    groups = causes(broken)
    for group in groups[:_NAMED_TESTS]:
        first = group[0]
        by = f" (affected by {affected_by(first.id)})" if affected_by else ""
        yield f"  {first.outcome} {first.id}{by}: {first.reason}"
        if len(group) > 1:
            yield f"    likewise {first_few([each.id for each in group[1:]], _NAMED_TESTS - 1)}"
    if len(groups) > _NAMED_TESTS:
        yield f"  and {counted(len(groups) - _NAMED_TESTS, 'more cause')}"


def verified_document(found: Damage) -> VerifiedToolchain:
    damaged, artifacts = len(found.folders), len(found.archives)
    return {
        "schema": "mlir-matrix/verified-toolchain/v1",
        "summary": {"packages": found.packages, "damaged_packages": damaged, "damaged_archives": artifacts},
        "units": found.packages,
        "bytes_of_artifacts": found.size,
        "damaged": [
            {"unit": label, "folder": folder, "files": files} for folder, (label, files) in found.folders.items()
        ],
        "artifacts": list(found.archives),
        "names": {value: label for value, label in found.archives.items() if label},
        "fetch": found.names,
    }


def damage_lines(found: Damage) -> Iterator[str]:
    for label, files in found.folders.values():
        yield f"{label} is damaged: {first_few(files)}"
    for value, label in found.archives.items():
        yield f"the archive of {label} is damaged: {value}" if label else f"an unused archive is damaged: {value}"
    read = f"{counted(found.packages, 'package')} and {megabytes(found.size)} of archives read"
    yield f"{read}; {len(found.folders) + len(found.archives)} damaged"


def fetched_document(current: Session, environments: Iterable[ResolvedEnvironment], errors: Iterable[str]) -> Fetched:
    def entries() -> Iterator[FetchedEnvironment]:
        for environment in environments:
            name, pins = split_pins(environment.name)
            # A release of a component may have the name of an environment: clang@22.1.8, beside clang@clang=22.1.8.
            named = name in current.catalog.environments and (not pins or "=" in pins)
            yield {
                "name": environment.name,
                "digest": environment.digest,
                "units": units_document(environment, current.releases(environment.name) if named else ()),
                "missing": [unit.label for unit in environment.missing(current.home.packages)],
            }

    found, unavailable = list(entries()), list(errors)
    return {
        "schema": "mlir-matrix/fetched/v1",
        "summary": {
            "environments": len(found),
            "incomplete": sum(bool(entry["missing"]) for entry in found),
            "unavailable": len(unavailable),
        },
        "packages": str(current.home.packages),
        "environments": found,
        "unavailable": unavailable,
    }


def doctor_lines(found: Mapping[str, Any]) -> Iterator[str]:
    python, machine = found["interpreter"], found["machine"]
    yield f"[bold]python[/]   {python['version']} on {python['libc']}, {escape(python['path'])}"
    memory = f"{machine['memory_bytes'] / 2**30:.0f} GiB memory, {machine['free_bytes'] / 1e9:.0f} GB free"
    yield f"[bold]machine[/]  {machine['system']} {machine['machine']}, {machine['cores']} cores, {memory}"
    lost = machine["isolation_lost"]
    isolated = f"[yellow]not fully isolated: {escape(lost)}[/]" if lost else "isolated, each in a separate root"
    yield f"[bold]actions[/]  {isolated}"
    sizes = ", ".join(f"{name} {megabytes(size)}" for name, size in found["home"]["bytes"].items())
    yield f"[bold]home[/]     {escape(found['home']['cache'])}: {sizes} of {megabytes(found['home']['actions_limit'])}"
    yield ""
    rows = [
        (name, tool["version"] or ("yes" if tool["path"] else "[dim]–[/]"), tool["for"])
        for name, tool in found["tools"].items()
    ]
    yield from columns(("tool of the machine", "version", "for"), rows)
    yield ""
    yield from map(_gpu_line, found["gpus"].items())
    yield ""
    yield from _bazel_lines(found["bazel"])
    yield ""
    yield from columns(
        ("environment", "pins", "on disk", "state"),
        [_environment_row(entry) for entry in found["environments"]],
        right=(2,),
    )
    yield ""
    suites = [
        (
            escape(suite["name"]), str(suite["tests"]), str(suite["ready"]), str(suite["to_fetch"] or "–"),
            megabytes(suite["bytes_to_fetch"]), str(suite["blocked"] or "–"),
        )
        for suite in found["suites"]
    ]  # fmt: skip
    header = ("suite", "tests", "ready", "to fetch first", "", "cannot run here")
    yield from columns(header, suites, right=(1, 2, 3, 4, 5))
    for suite in found["suites"]:
        for reason in suite["reasons"]:
            yield f"  {suite['name']}: {reason['tests']} cannot run: {escape(reason['reason'])}"
    yield from section("pins that will vanish from their source", map(_vanishing_line, found["vanishing"]))


def _gpu_line(row: tuple[str, DoctorGpu]) -> str:
    name, gpu = row
    if gpu["lacking"]:
        what = f"none: this machine lacks {' and '.join(gpu['lacking'])}"
    else:
        devices = f"{', '.join(gpu['devices'])}, driver {gpu['release'] or 'of an unknown release'}"
        what = f"{devices}; {gpu['grant']} grants them"
    return f"[bold]gpu[/]      {name}: {escape(what)}, for {', '.join(gpu['targets'])}"


def _bazel_lines(bazel: dict[str, Any]) -> Iterator[str]:
    if bazel["command"]:
        where = "the component bazel" if bazel["where"] == "component" else bazel["where"]
        advice = "not installed; --executor bazel or matrix toolchain fetch bazel installs it"
        place = escape(bazel["command"][0]) if bazel["here"] else f"[yellow]{advice}[/]"
        yield f"[bold]bazel[/]    {escape(bazel['version'])} by {escape(where)}, {place}"
    else:
        yield "[bold]bazel[/]    [yellow]none[/]"
    for reason in bazel["rejected"]:
        yield f"  {escape(reason)}"


def _vanishing_line(pin: VanishingPin) -> str:
    release = f"{pin['component']}@{pin['release']}"
    if pin["fetched"]:
        state: str = State.DOWNLOADED
    elif pin["installed"]:
        state = "[yellow]installed, but cannot be installed again: its archives are missing[/]"
    elif pin["reason"]:
        state = state_words(State.UNAVAILABLE, reason=pin["reason"])
    else:
        state = f"[yellow]{State.MISSING}: matrix toolchain fetch {escape(pin['environment'] or release)}[/]"
    return f"{escape(release)} ({', '.join(pin['suites']) or 'an index'}): {state}"


def _environment_row(entry: DoctorEnvironment) -> tuple[str, str, str, str]:
    pins = ", ".join(f"{component} {release}" for component, release in entry["pins"].items())
    return (
        escape(entry["name"]),
        escape(pins) or "[dim]the interpreter alone[/]",
        megabytes(entry.get("disk", 0)),
        state_words(entry["state"], entry.get("to_fetch", 0), entry.get("reason", "")),
    )
