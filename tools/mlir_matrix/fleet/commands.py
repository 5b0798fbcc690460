"""``matrix machine``: probe, list, check and set up build machines, and show what a fleet runs."""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterator
from pathlib import Path

import click
from rich.markup import escape

from mlir_matrix.base.errors import UsageError
from mlir_matrix.base.files import unwritable
from mlir_matrix.base.layout import columns, section
from mlir_matrix.base.names import is_name, printable, why_not_a_name
from mlir_matrix.base.text import counted, now
from mlir_matrix.catalog.catalog import DEFAULT_SUITE, Entry
from mlir_matrix.catalog.models.machines import Machine
from mlir_matrix.cli import options
from mlir_matrix.cli.output import show
from mlir_matrix.cli.verbs import verb
from mlir_matrix.environments.session import Session
from mlir_matrix.expand.select import choose
from mlir_matrix.fleet.documents import Fleet, ListedMachine, MachineCheck, Machines, Probe
from mlir_matrix.fleet.machines import find_machine, fleet
from mlir_matrix.fleet.peaks import kept_peaks, measure_peaks
from mlir_matrix.fleet.probe import differences, probe, to_yaml
from mlir_matrix.fleet.selection import by_machine
from mlir_matrix.fleet.worker import BuildbotWorker, worker_files
from mlir_matrix.plan.request import Limits, SelectionOptions


@verb(
    "probe",
    "matrix machine probe > matrix/machines/NAME.yaml",
    "matrix machine probe --format json",
    "matrix machine probe --peaks",
)
@click.option("--peaks", is_flag=True, help="Measure what one core can do at most, in seconds, and keep it.")
@options.output_format("yaml", "json")
@options.session()
def probe_command(peaks: bool, form: str, current: Session) -> None:
    """Print a machine file of this machine: processor, memory, disk, GPUs, devices, emulators and programs.

    Edit its part `wants`, which is a comment, and keep the file as matrix/machines/NAME.yaml of a catalog. With --peaks,
    matrix cost shows times as shares of what is possible; of several measurements the highest values are kept.
    """
    has = probe(current.home, current.catalog)
    measured = measure_peaks(current, Limits(jobs=1)) if peaks else kept_peaks(current.home)
    has = has.model_copy(update={"peaks": measured})
    document: Probe = {
        "schema": "mlir-matrix/probe/v1",
        "summary": {"architecture": has.cpu.architecture, "cores": has.cores, "gpus": len(has.gpus)},
        "has": has,
    }
    show(form, document, to_yaml(has, os.uname().nodename).splitlines())


@verb("list", "matrix machine list", "matrix machine list --catalog ../acme --format json")
@options.output_format("table", "json")
@options.session()
def list_command(form: str, current: Session) -> None:
    """List the machines of the catalogs: matrix/machines/NAME.yaml here and in each --catalog."""
    machines = current.catalog.machines.values()
    document: Machines = {
        "schema": "mlir-matrix/machines/v1",
        "summary": {"machines": len(machines)},
        "machines": [_listed(each) for each in machines],
    }
    heading = ("machine", "cpu", "cores", "memory", "suites", "budget", "")
    show(form, document, columns(heading, [_machine_row(each) for each in machines], right=(2, 3, 5)), markup=True)


def _listed(machine: Entry[Machine]) -> ListedMachine:
    found = machine.document
    return {
        "name": machine.name,
        "file": machine.source.file,
        "description": found.description,
        "has": found.has,
        "wants": found.wants,
    }


def _machine_row(machine: Entry[Machine]) -> tuple[str, ...]:
    has, wants = machine.document.has, machine.document.wants
    budget = f"{wants.budget_minutes:g} min" if wants.budget_minutes else ""
    cells = (
        machine.name,
        has.cpu.level or has.cpu.architecture,
        str(has.cores),
        f"{has.memory_gib} GiB",
        " ".join(wants.suites or (DEFAULT_SUITE,)),
        budget,
        " ".join(machine.document.description.split()),
    )
    return tuple(map(escape, cells))


@verb("check", "matrix machine check x86-64-builder", "matrix machine check build/this.yaml --format json")
@click.argument("name", required=False, metavar="[NAME|FILE]")
@options.output_format("text", "json")
@options.session()
def check_command(name: str | None, form: str, current: Session) -> int:
    """Check that this machine has what its file states. Without a name, the catalogs must have one machine.

    Exit code: 0 if it has everything, else 1.
    """
    known = list(current.catalog.machines)
    if name is None and len(known) != 1:
        raise UsageError(f"name a machine or a file; machines of the catalogs: {', '.join(known) or 'none'}")
    machine = find_machine(current.catalog, name or known[0])
    found = differences(machine, probe(current.home, current.catalog))
    document: MachineCheck = {
        "schema": "mlir-matrix/machine-check/v1",
        "summary": {"machine": machine.name, "differences": len(found)},
        "differences": found,
    }
    show(form, document, found or [f"{machine.name}: this machine has everything that {machine.source.file} states"])
    return 1 if found else 0


@verb("init", "matrix machine init --buildbot ~/worker --master lab.example.org --name avx512 --password-file secret")
@click.option(
    "--buildbot", "folder", type=options.Folder(), required=True, metavar="DIR", help="Write the worker into DIR."
)
@click.option("--master", required=True, metavar="HOST[:PORT]", help="The master. Default port: 9989.")
@click.option("--name", required=True, metavar="NAME", help="The name of the worker, as the master knows it.")
@click.option(
    "--password-file",
    "password",
    type=options.Folder(),
    required=True,
    metavar="FILE",
    help="The file with the password of the worker; only you may read it.",
)
@click.option("--admin", default="", metavar="TEXT", help="Whom the master's pages name, e.g. 'Ada <ada@example.org>'.")
@options.session()
def init_command(folder: Path, master: str, name: str, password: Path, admin: str, current: Session) -> None:
    """Write the folder of a worker of Buildbot: buildbot.tac, a systemd unit, and what pages of the master tell of this machine.

    The password is copied to a file of mode 0600; it is in no other file and on no command line. Existing files are not
    changed: if one exists, nothing is written.
    """
    found = re.fullmatch(r"(?P<host>[A-Za-z0-9][A-Za-z0-9.-]*|\[[0-9a-f:.]+\])(?::(?P<port>\d{1,5}))?", master)
    if found is None:
        raise UsageError(f"--master {printable(master)}: expected HOST or HOST:PORT")
    if not is_name(name):
        raise UsageError(f"--name: {why_not_a_name(name)}")
    worker = BuildbotWorker(
        name=name,
        host=found["host"].strip("[]"),
        port=int(found["port"] or 9989),
        folder=os.path.abspath(folder),
        admin=admin,
        host_info=to_yaml(probe(current.home, current.catalog), name),
        password=_secret(password),
    )
    files = worker_files(worker)
    for path in files:
        if os.path.lexists(folder / path):
            raise UsageError(f"{folder / path} exists; nothing was written")
    for path, (text, mode) in files.items():
        _write(folder / path, text, mode)
    click.echo(f"{folder}: the worker {name} of {master}; {folder / 'README'} tells how to start it")


def _secret(path: Path) -> str:
    """Return the first line of a file that only its owner may read."""
    try:
        mode = stat.S_IMODE(path.stat().st_mode)
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, ValueError) as error:
        raise UsageError(f"--password-file {path}: {getattr(error, 'strerror', None) or 'it is no text'}") from None
    if mode & 0o077:
        raise UsageError(f"--password-file {path}: others may read it (mode {mode:04o}); run: chmod 600 {path}")
    if not lines or not lines[0].strip():
        raise UsageError(f"--password-file {path}: it has no password")
    return lines[0].strip()


def _write(path: Path, text: str, mode: int) -> None:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode), "w", encoding="utf-8") as file:
            file.write(text)
    except OSError as error:
        raise unwritable(str(path), error) from None


#: The most cells to list; more are counted.
_CELLS = 20


@verb(
    "fleet",
    "matrix machine fleet",
    "matrix machine fleet x86-64-builder matrix/machines/x86-64-nightly.yaml --date 2026-01-31",
)
@click.argument("machines", nargs=-1, metavar="[NAME|FILE]...")
@options.history
@options.date
@options.output_format("table", "json")
@options.session()
def fleet_command(machines: tuple[str, ...], history: Path | None, date: str, form: str, current: Session) -> None:
    """Show the load of machines, the cells that none of them runs, and those that several run.

    Without names, these are the machines of the catalogs; the tests are those of all suites.
    """
    found = [find_machine(current.catalog, name) for name in machines or current.catalog.machines]
    if not found:
        raise UsageError("the catalogs have no machine; make one: matrix machine probe > matrix/machines/NAME.yaml")
    names = [each.name for each in found]
    if twice := {name for name in names if names.count(name) > 1}:
        raise UsageError(f"two machines have the name '{min(twice)}'; rename one of their files")
    moment = SelectionOptions(history=history, date=date or now())
    choices = {each.name: choice for each in found if (choice := by_machine(current, each, moment).choice)}
    suites = list(current.catalog.suites)
    tests = choose(current.catalog, suites, pins=current.pins).tests() if suites else ()
    report = fleet(tests, found, choices)
    show(form, report, _fleet_lines(report), markup=True)


def _fleet_lines(report: Fleet) -> Iterator[str]:
    rows = [
        (
            escape(each["name"]),
            str(each["tests"]),
            f"{each['minutes']:.3g}",
            "" if each["budget_minutes"] is None else f"{each['budget_minutes']:g}",
            escape(", ".join(f"{number} {left}" for left, number in each["left_out"].items())),
        )
        for each in report["machines"]
    ]
    yield from columns(("machine", "tests", "minutes", "budget", "left out"), rows, right=(1, 2, 3))
    nobody = [f"{escape(each['cell'])}: {len(each['tests'])} ({escape(each['reason'])})" for each in report["nobody"]]
    yield from section("[bold]run by no machine[/]", nobody, _CELLS)
    several = [
        f"{escape(each['cell'])}: {len(each['tests'])} by {escape(', '.join(each['machines']))}"
        for each in report["several"]
    ]
    yield from section("[bold]run by several machines[/]", several, _CELLS)
    summary = report["summary"]
    yield ""
    yield (
        f"{counted(summary['tests'], 'test')} of {counted(summary['machines'], 'machine')}: "
        f"{summary['nobody']} run by none, {summary['several']} by several"
    )
