"""``matrix doctor``: report what this machine has and what it lacks."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from rich.markup import escape

from mlir_matrix.base.layout import columns, section
from mlir_matrix.base.text import megabytes
from mlir_matrix.cli import options
from mlir_matrix.cli.output import show
from mlir_matrix.cli.verbs import verb
from mlir_matrix.environments.session import Session
from mlir_matrix.environments.state import State
from mlir_matrix.report.plan_table import state_words
from mlir_matrix.toolchains.doctor import examine


@verb("doctor", "matrix doctor", "matrix doctor --format json")
@options.output_format("table", "json")
@options.session(*options.releases)
def doctor_command(form: str, current: Session) -> None:
    """Report what this machine has and what it lacks.

    The report has programs, packages, tests that cannot run, and pinned releases that will vanish from their source.
    """
    found = examine(current)
    show(form, found, _lines(found), markup=True)


def _lines(found: dict[str, Any]) -> Iterator[str]:
    python, machine = found["interpreter"], found["machine"]
    yield f"[bold]python[/]   {python['version']} on {python['libc']}, {escape(python['path'])}"
    memory = f"{machine['memory_bytes'] / 2**30:.0f} GiB memory, {machine['free_bytes'] / 1e9:.0f} GB free"
    yield f"[bold]machine[/]  {machine['system']} {machine['machine']}, {machine['cores']} cores, {memory}"
    lost = machine["isolation_lost"]
    isolated = f"[yellow]not fully isolated: {escape(lost)}[/]" if lost else "isolated, each in a root of its own"
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
    yield from _bazel(found["bazel"])
    yield ""
    yield from columns(
        ("environment", "pins", "on disk", "state"),
        [_environment(entry) for entry in found["environments"]],
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
    yield from section("pins that will vanish from their source", map(_vanishing, found["vanishing"]))


def _bazel(bazel: dict[str, Any]) -> Iterator[str]:
    if bazel["command"]:
        where = "the component bazel" if bazel["where"] == "component" else bazel["where"]
        advice = "not installed; --executor bazel or matrix toolchain fetch bazel installs it"
        place = escape(bazel["command"][0]) if bazel["here"] else f"[yellow]{advice}[/]"
        yield f"[bold]bazel[/]    {escape(bazel['version'])} by {escape(where)}, {place}"
    else:
        yield "[bold]bazel[/]    [yellow]none[/]"
    for reason in bazel["rejected"]:
        yield f"  {escape(reason)}"


def _vanishing(pin: dict[str, Any]) -> str:
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


def _environment(entry: dict[str, Any]) -> tuple[str, str, str, str]:
    pins = ", ".join(f"{component} {release}" for component, release in entry["pins"].items())
    return (
        escape(entry["name"]),
        escape(pins) or "[dim]the interpreter alone[/]",
        megabytes(entry.get("disk", 0)),
        state_words(entry["state"], entry.get("to_fetch", 0), entry.get("reason", "")),
    )
