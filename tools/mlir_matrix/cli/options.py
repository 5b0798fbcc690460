"""Define the options that several verbs take, in one table.

A row declares an option and where a request has its value. Click's declarations, the arguments of verbs and the command that
repeats a test are made from the rows.
"""

from __future__ import annotations

import math
import os
import re
import shlex
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from functools import wraps
from glob import glob
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, cast

import click
from click.core import ParameterSource

from mlir_matrix.base.errors import UsageError
from mlir_matrix.base.names import DEVICE_GLOB_PATTERN, DEVICE_PATTERN, DEVICE_RULE, check_known, printable
from mlir_matrix.base.paths import launcher, repository
from mlir_matrix.base.text import catalog_options
from mlir_matrix.catalog.project import FILE, NO_PROJECT, FoundProject, entry_names, find_project_file
from mlir_matrix.cli.completion import MACHINES, complete_pin, complete_tests, names_in
from mlir_matrix.cli.output import warn_left_out
from mlir_matrix.cli.verbs import ARGUMENTS, option_words
from mlir_matrix.environments.source.permissions import Permissions
from mlir_matrix.plan.request import EXECUTORS, ExecutorOptions, Limits, SelectionOptions

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

    from mlir_matrix.environments.session import Session
    from mlir_matrix.plan.request import Request

#: ``--machine none``: no machine, whatever the project says.
NO_MACHINE = "none"

F = TypeVar("F", bound=Callable[..., object])
T = TypeVar("T")
_DEFAULT = Limits(jobs=1)


class Folder(click.Path):
    """A folder that need not exist. An empty name is an error: it often comes from an unset shell variable."""

    def __init__(self) -> None:
        super().__init__(path_type=Path)

    def convert(self, value: str | os.PathLike[str], param: click.Parameter | None, ctx: click.Context | None) -> Path:
        if not str(value):
            self.fail("the name of the folder is empty", param, ctx)
        return Path(os.fsdecode(super().convert(value, param, ctx)))


class NewFile(click.Path):
    """A file to write. A missing folder is an error before anything runs."""

    def __init__(self) -> None:
        super().__init__(path_type=Path, dir_okay=False)

    def convert(self, value: str | os.PathLike[str], param: click.Parameter | None, ctx: click.Context | None) -> Path:
        path = Path(os.fsdecode(super().convert(value, param, ctx)))
        if not path.absolute().parent.is_dir():
            raise UsageError(f"{param.opts[0] if param else ''} {path}: there is no such folder")
        return path


class Seconds(click.FloatRange):
    """A range that excludes NaN, which compares as neither below nor above a limit."""

    def convert(self, value: float, param: click.Parameter | None, ctx: click.Context | None) -> float:
        seconds = float(super().convert(value, param, ctx))
        if math.isnan(seconds):
            self.fail("not a number", param, ctx)
        return seconds


class Option:
    """A row of the table, and the decorator that adds the option to a verb."""

    def __init__(
        self, parameter: str, *names: str, found_in: Callable[[Request], object] | None = None, **attributes: Any
    ) -> None:
        """Define an option. ``found_in`` returns its value from a request, if the option affects outcomes of tests."""
        self.parameter, self.names = parameter, names
        self._found_in, self._attributes = found_in, attributes

    def __call__(self, function: F) -> F:
        return click.option(self.parameter, *self.names, **self._attributes)(function)

    def repeated(self, request: Request) -> list[str]:
        """Return the words that set the option to the value of a request; none for the default."""
        value = self._found_in(request) if self._found_in else None
        if self._attributes.get("is_flag"):
            return [self.names[0]] if value else []
        if isinstance(value, Iterable) and self._attributes.get("multiple"):
            values = list(value)
        else:
            values = [] if value in (None, self._attributes.get("default")) else [value]
            context = click.get_current_context(silent=True)
            if value is not None and context and getattr(project_of(context).limits, self.parameter, None) is not None:
                # The project has another default.
                values = [value]
        return [word for each in values for word in (self.names[0], _spelled(each))]


def _spelled(value: object) -> str:
    if isinstance(value, tuple):
        return "=".join(value)
    return f"{value:g}" if isinstance(value, float) else str(value)


def _as_one(name: str, make: Callable[..., object], parameters: Sequence[str]) -> Callable[[F], F]:
    """Return a decorator that passes the verb one value, made from some parameters."""

    def decorate(function: F) -> F:
        @wraps(function)
        def verb(*arguments: object, **given: object) -> object:
            made = make(**{parameter: given.pop(parameter) for parameter in parameters})
            return function(*arguments, **{name: made}, **given)

        return cast(F, verb)

    return decorate


def as_dataclass(name: str, kind: type[DataclassInstance]) -> Callable[[F], F]:
    """Return a decorator that gives the verb one value, made of the options that are called as its fields."""
    return _as_one(name, kind, [each.name for each in fields(kind)])


def gathered(name: str, make: Callable[..., object], *options: Option) -> Callable[[F], F]:
    """Return a decorator that adds options and gives the verb one value made of them."""

    def decorate(function: F) -> F:
        verb = _as_one(name, make, [option.parameter for option in options])(function)
        for option in reversed(options):
            verb = option(verb)
        return verb

    return decorate


def _pairs(
    made: Callable[[Iterable[tuple[str, str]]], T], expected: str
) -> Callable[[click.Context, click.Parameter, Sequence[str]], T]:
    """Return a callback that makes a mapping or a tuple of pairs from NAME=VALUE."""

    def convert(_context: click.Context, parameter: click.Parameter, values: Sequence[str]) -> T:
        pairs = [(name, wanted) for name, _, wanted in (value.partition("=") for value in values)]
        for value, pair in zip(values, pairs, strict=True):
            if not all(pair):
                raise UsageError(f"{parameter.opts[0]} {printable(value)}: expected {expected}")
        return made(pairs)

    return convert


def _devices(_context: click.Context, _parameter: click.Parameter, values: Sequence[str]) -> tuple[str, ...]:
    devices: list[str] = []
    for value in values:
        if re.fullmatch(DEVICE_PATTERN, value):
            devices.append(value)
        elif not re.fullmatch(DEVICE_GLOB_PATTERN, value):
            raise UsageError(f"--device {printable(value)}: expected {DEVICE_RULE}; or a glob such as '/dev/nvidia*'")
        elif found := [path for path in sorted(glob(value)) if re.fullmatch(DEVICE_PATTERN, path)]:
            devices += found
        else:
            raise UsageError(f"--device {printable(value)}: this machine has no such device")
    return tuple(dict.fromkeys(devices))


def _shard(_context: click.Context, _parameter: click.Parameter, value: str | None) -> tuple[int, int] | None:
    if value is None:
        return None
    found = re.fullmatch(r"(\d{1,4})/(\d{1,4})", value, re.ASCII)
    if found is None or not 1 <= int(found[1]) <= int(found[2]):
        raise UsageError(f"--shard {printable(value)}: expected I/N with I from 1 to N, e.g. 2/3")
    return int(found[1]), int(found[2])


def _machine(context: click.Context, _parameter: click.Parameter, value: str | None) -> str:
    if value == "":
        raise UsageError("--machine: the name of the machine is empty")
    if value == NO_MACHINE:
        return ""
    return value or project_of(context).machine


def read_date(_context: click.Context, parameter: click.Parameter, value: str | None) -> str:
    """Return the time that an option gives, in UTC; empty if it is not given. Raise UsageError."""
    from datetime import UTC, datetime

    try:
        time = datetime.fromisoformat(value) if value else None
        # Times in documents are in UTC and sort as text.
        return f"{(time if time.tzinfo else time.replace(tzinfo=UTC)).astimezone(UTC):%FT%T}.000Z" if time else ""
    except (ValueError, OverflowError):
        raise UsageError(
            f"{parameter.opts[0]} {printable(str(value))}: expected a date, e.g. 2026-01-31 or 2026-01-31T12:00Z"
        ) from None


def project_of(context: click.Context) -> FoundProject:
    """Return the project of the current folder, read once a command."""
    if FILE not in context.meta:
        file, project = find_project_file(Path.cwd()), NO_PROJECT
        if file is not None:
            from mlir_matrix.catalog.project_file import (
                read_project,  # imports the models; most folders have no project
            )

            project = read_project(file)
        context.meta[FILE] = project
    found: FoundProject = context.meta[FILE]
    return found


def pinned_by(words: Sequence[str]) -> set[str]:
    """Return the components that the words of a command line pin, ``STEP:COMPONENT`` where it is for one step."""
    pins = [word for name, word in pairwise(words) if name in pin.names]
    pins += [word.removeprefix(f"{name}=") for word in words for name in pin.names if word.startswith(f"{name}=")]
    return {word.partition("=")[0] for word in pins}


def project_words(context: click.Context, *, without: Collection[str]) -> list[str]:
    """Return the options of the project that the command line does not give, for a command that runs anywhere.

    ``without``: components whose pins the command does not take.
    """
    project = project_of(context)
    words = [word for folder in project.catalogs for word in (catalog.names[0], str(folder))]
    other = pinned_by(context.meta[ARGUMENTS]).union(without)
    words += [word for each in project.pins if each.partition("=")[0] not in other for word in (pin.names[0], each)]
    for option in (_TIMEOUT, _MEMORY):
        limit = getattr(project.limits, option.parameter)
        if limit is not None and context.get_parameter_source(option.parameter) == ParameterSource.DEFAULT:
            words += [option.names[0], f"{limit:g}"]
    return words


def words_of_run(context: click.Context, command: click.Command) -> list[str]:
    """Return the options of the project and of the command line that ``matrix run`` has as well, to repeat a test."""
    return [*project_words(context, without=()), *option_words(command, context.meta[ARGUMENTS], only=OF_RUN)]


def suite_of_project(default: str) -> str:
    """Return the suite of the project, else the default one."""
    return next(iter(project_of(click.get_current_context()).tests), default)


def _tests(context: click.Context, _parameter: click.Parameter, value: tuple[str, ...]) -> tuple[str, ...]:
    return value or project_of(context).tests


def _catalogs(context: click.Context, _parameter: click.Parameter, value: tuple[Path, ...]) -> tuple[Path, ...]:
    """Add what is given to the catalogs of the project, which may be given again."""
    own = project_of(context).catalogs
    known = {os.path.realpath(folder) for folder in own}
    catalogs = [folder for folder in value if not _is_data(folder)]
    checkouts = [_checkout(data, (*own, *catalogs)) for data in value if _is_data(data)]
    # One checkout may have the programs of several corpora.
    given = [*catalogs, *dict.fromkeys(checkouts)]
    return (*own, *(folder for folder in given if os.path.realpath(folder) not in known))


def _is_data(value: Path) -> bool:
    """Return whether a value is CORPUS=DIR, and no folder of that name."""
    return "=" in str(value) and not value.exists()


def absolute_catalog(value: str) -> str:
    """Return a value of this option, a folder or CORPUS=DIR, for a command that runs in any folder."""
    corpus, mark, folder = value.partition("=") if _is_data(Path(value)) else ("", "", value)
    return f"{corpus}{mark}{os.path.abspath(folder)}"


def _checkout(value: Path, catalogs: Sequence[Path]) -> Path:
    """Return the folder of CORPUS=DIR. Raise UsageError for an unknown corpus and a missing folder."""
    corpus, _, folder = str(value).partition("=")
    check_known("corpus", [corpus], entry_names((repository(), *catalogs), "matrix/corpora"), "--data: ")
    if not Path(folder).is_dir():
        raise UsageError(f"--data {printable(str(value))}: there is no folder {printable(folder)}")
    return Path(folder)


def _pins(context: click.Context, _parameter: click.Parameter, value: tuple[str, ...]) -> tuple[str, ...]:
    """Add what is given to the pins of the project; it comes first for a component of both."""
    given = {word.partition("=")[0] for word in value}
    return (*(word for word in project_of(context).pins if word.partition("=")[0] not in given), *value)


def _limit(context: click.Context, parameter: click.Parameter, value: float | None) -> float | None:
    """Take a limit of the project where none is given."""
    name = str(parameter.name)
    if context.get_parameter_source(name) != ParameterSource.DEFAULT:
        return value
    limit: float | None = getattr(project_of(context).limits, name)
    return value if limit is None else limit


tests = click.argument("tests", nargs=-1, metavar="[SUITE|GLOB|ID]...", callback=_tests, shell_complete=complete_tests)
named_tests = click.argument("tests", nargs=-1, required=True, metavar="ID|GLOB...", shell_complete=complete_tests)

catalog = Option(
    "catalogs",
    "--catalog",
    "--data",
    found_in=lambda request: request.catalogs,
    multiple=True,
    type=Folder(),
    callback=_catalogs,
    metavar="DIR|CORPUS=DIR",
    help="Add the catalog in DIR, a folder laid out like this repository, or the checkout that CORPUS needs. Repeatable.",
)
cache = Option(
    "cache_dir",
    "--cache-dir",
    found_in=lambda request: request.cache_dir,
    type=Folder(),
    metavar="DIR",
    help="Keep the action cache in DIR.",
)
pin = Option(
    "pins",
    "--pin",
    "--pin-step",
    found_in=lambda request: request.pins,
    multiple=True,
    callback=_pins,
    shell_complete=complete_pin,
    metavar="[STEP:]COMPONENT=RELEASE|PATH",
    help="Use this release, e.g. llvm=19, or your own build: a folder or a wheel; linalg-to-loops:llvm=22 in one step. Repeatable.",
)
environment = Option(
    "swaps",
    "--environment",
    found_in=lambda request: request.swaps.items(),
    multiple=True,
    callback=_pairs(dict, "NAME=OTHER, e.g. mlir=mlir-upstream"),
    metavar="NAME=OTHER",
    help="Use environment OTHER instead of NAME. Repeatable.",
)
size = Option(
    "size",
    "--size",
    found_in=lambda request: request.size,
    default="",
    metavar="NAME",
    help="Give workloads another size of theirs, e.g. bench: sizes in workload.yaml.",
)
#: Costs of tests; ``strict`` applies to those of suites, too.
cost = Option(
    "cost",
    "--cost",
    found_in=lambda request: request.cost,
    is_flag=True,
    help="Also count what tests cost that pass, and compare with golden/WORKLOAD/costs.yaml.",
)
strict = Option(
    "strict",
    "--strict",
    found_in=lambda request: request.strict,
    is_flag=True,
    help="Where costs are counted, a test that costs more than its golden is slower, and fails.",
)
#: Permissions that the operator gives to builds.
builds = (
    Option(
        "network",
        "--allow-network-builds",
        is_flag=True,
        help="Let source builds use the network if the component's file asks for that.",
    ),
    Option(
        "unconfined",
        "--allow-unconfined-builds",
        is_flag=True,
        help="Build as your own user if this machine cannot confine builds.",
    ),
)
#: The options of ``matrix run`` that choose releases.
releases = (pin, environment)
_EXECUTOR = Option(
    "executor",
    "--executor",
    found_in=lambda request: request.executor.executor,
    type=click.Choice(EXECUTORS),
    default="local",
    show_default=True,
    help="Execute actions in this way.",
)
_REMOTE = Option(
    "remote",
    "--remote",
    found_in=lambda request: request.executor.remote,
    metavar="URL",
    default="",
    help="Bazel: use the remote execution service at grpc://HOST:PORT.",
)
_PROPERTY = Option(
    "properties",
    "--exec-property",
    found_in=lambda request: request.executor.properties,
    multiple=True,
    callback=_pairs(tuple, "KEY=VALUE, e.g. pool=big"),
    metavar="[ENVIRONMENT:]KEY=VALUE",
    help="Bazel: set an execution property, e.g. pool=big or zig:pool=small. Repeatable.",
)
_REMOTE_CACHE = Option(
    "remote_cache",
    "--remote-cache",
    found_in=lambda request: request.executor.remote_cache,
    metavar="URL",
    default="",
    help="Bazel: use the remote cache at URL.",
)
device = Option(
    "devices",
    "--device",
    found_in=lambda request: request.executor.devices,
    multiple=True,
    callback=_devices,
    metavar="PATH",
    help="Grant a device, e.g. /dev/kvm or '/dev/nvidia*', to kernels of targets that declare it. Repeatable.",
)
_TIMEOUT = Option(
    "timeout",
    "--timeout",
    found_in=lambda request: request.limits.timeout_s,
    type=Seconds(0.1, 86_400),
    default=_DEFAULT.timeout_s,
    callback=_limit,
    show_default=True,
    metavar="SECONDS",
    help="Stop an action after this time.",
)
_MEMORY = Option(
    "memory",
    "--memory",
    found_in=lambda request: request.limits.memory_mb,
    type=click.IntRange(64, 1 << 20),
    default=_DEFAULT.memory_mb,
    callback=_limit,
    show_default=True,
    metavar="MIB",
    help="Limit the memory of an action.",
)
_JOBS = Option(
    "jobs",
    "--jobs",
    "-j",
    type=click.IntRange(1, 512),
    callback=_limit,
    metavar="N",
    help="Run N actions at a time. Default: one per core.",
)
machine = Option(
    "machine",
    "--machine",
    callback=_machine,
    shell_complete=names_in(MACHINES),
    metavar="NAME|FILE",
    help="Select and order the tests of a machine: one of matrix/machines/, or a file; 'none' for that of matrix.yaml.",
)
history = Option(
    "history",
    "--history",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="With --machine: the records of tests, by matrix history export. Default: those of this machine.",
)
date = Option(
    "date",
    "--date",
    callback=read_date,
    metavar="TIME",
    help="With --machine: plan as of this time, e.g. 2026-01-31. Default: now.",
)
_CHANGED_SINCE = Option(
    "changed_since",
    "--changed-since",
    default="",
    metavar="REV",
    help="Select the tests that changes since this revision of git can affect.",
)
_CHANGED = Option(
    "changed",
    "--changed",
    multiple=True,
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Select the tests that any change of FILE can affect. Repeatable.",
)
_SHARD = Option("shard", "--shard", callback=_shard, metavar="I/N", help="Select part I of N, e.g. 2/3.")
_DURATIONS = Option(
    "durations",
    "--durations",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="With --shard: balance by the seconds in FILE, by matrix history export. Default: go by hash.",
)
sealed = Option(
    "sealed",
    "--sealed",
    is_flag=True,
    help="Give environments an interpreter of their own, as containers and Bazel do.",
)
events = Option(
    "events",
    "--events",
    type=NewFile(),
    metavar="FILE",
    help="Also write events to FILE as they happen, one line of JSON each; '-': to stdout, and the table to stderr.",
)
quiet = Option("quiet", "--quiet", "-q", is_flag=True, help="Show no progress.")

#: The options that affect the outcome of a test, in the order of the command that repeats it.
_REPEATED = (
    catalog,
    cache,
    pin,
    environment,
    size,
    cost,
    strict,
    _EXECUTOR,
    _REMOTE,
    _PROPERTY,
    device,
    _REMOTE_CACHE,
    _TIMEOUT,
    _MEMORY,
)
#: Those that the verbs for one test take, too, and their parameters.
_SHARED = (catalog, cache, pin, environment, _TIMEOUT, _MEMORY)
OF_RUN = tuple(option.parameter for option in _SHARED)


documents = click.option(
    "--results",
    "documents",
    type=click.Path(path_type=Path, dir_okay=False),
    multiple=True,
    metavar="FILE",
    help="Run nothing; read results from FILE, written by matrix run --results. Repeatable.",
)


def output_format(*formats: str) -> Option:
    """Return ``--format`` with these choices; the first is the default."""
    return Option(
        "form",
        "--format",
        type=click.Choice(formats),
        default=formats[0],
        show_default=True,
        help="Print the result in this format.",
    )


def _limits(timeout: float, memory: int, jobs: int | None = None) -> Limits:
    return Limits(jobs=jobs or len(os.sched_getaffinity(0)), timeout_s=timeout, memory_mb=memory)


def _executor(
    executor: str, remote: str, properties: tuple[tuple[str, str], ...], remote_cache: str, devices: tuple[str, ...]
) -> ExecutorOptions:
    options = ExecutorOptions(
        executor=executor, remote=remote, remote_cache=remote_cache, properties=properties, devices=devices
    )
    given = {"--remote": options.remote, "--remote-cache": options.remote_cache, "--exec-property": options.properties}
    for name, value in given.items():
        if value and options.executor != "bazel":
            raise UsageError(f"{name} requires --executor bazel; this is --executor {options.executor}")
    for device in options.devices:
        if options.executor != "local":
            raise UsageError(f"--device {device}: only --executor local grants devices; this is {options.executor}")
        if not os.path.exists(device):
            raise UsageError(f"--device {device}: this machine has no such device")
    return options


#: Passes ``limits``, a Limits, to the verb.
limits = gathered("limits", _limits, _JOBS, _TIMEOUT, _MEMORY)
limits_without_jobs = gathered("limits", _limits, _TIMEOUT, _MEMORY)
#: Passes ``selection``, a SelectionOptions, to the verb.
selection = gathered(
    "selection", SelectionOptions, _CHANGED_SINCE, _CHANGED, machine, history, date, _SHARD, _DURATIONS
)
#: Passes ``permissions``, a Permissions, to the verb.
permissions = gathered("permissions", Permissions, *builds)
#: Passes ``executor``, an ExecutorOptions, to the verb.
executor = gathered("executor", _executor, _EXECUTOR, _REMOTE, _PROPERTY, _REMOTE_CACHE, device)


def repeat_command(request: Request, suites: Sequence[str] = ()) -> Callable[[str], str]:
    """Return a function that returns the command to repeat a test. ``suites``: the request's, for their expectations."""
    words = [word for option in _REPEATED for word in option.repeated(request)]
    begin = shlex.join([launcher(), "run", *words, *suites])
    return lambda test: f"{begin} {shlex.quote(test)}"


def other_command(request: Request) -> Callable[[Sequence[str], str], str]:
    """Return a function that returns the command of another verb for a test, with the options of the run that verbs share."""
    options = shared_words(request)
    return lambda words, test: shlex.join([launcher(), *words, *options, test])


def shared_words(request: Request) -> list[str]:
    """Return the options of a run that the verbs for one test take, too."""
    return [word for option in _SHARED for word in option.repeated(request)]


def same_catalogs(words: Sequence[str], current: Session) -> str:
    """Return a command with the ``--catalog`` options of this session, quoted for a shell."""
    return shlex.join([*words, *catalog_options(current.catalog.roots[1:])])


@dataclass(frozen=True, kw_only=True)
class SessionOptions:
    """The options that decide a session."""

    catalogs: Sequence[Path]
    cache_dir: Path | None = None
    pins: Sequence[str] = ()
    swaps: Mapping[str, str] = field(default_factory=dict)
    size: str = ""
    network: bool = False
    unconfined: bool = False
    stale_goldens: bool = False

    def words(self) -> list[object]:
        """Return the options as JSON, without the places of catalogs and cache."""
        return [list(self.pins), dict(self.swaps), self.size, self.network, self.unconfined, self.stale_goldens]

    def open(self) -> Session:
        """Open the session. Raise CatalogError and UsageError."""
        from mlir_matrix.plan.session import open_session  # slow to import, and a kept answer opens no session

        opened = open_session(
            catalogs=self.catalogs,
            cache_dir=self.cache_dir,
            swaps=self.swaps,
            size=self.size,
            pins=self.pins,
            stale_goldens=self.stale_goldens,
            permissions=Permissions(network=self.network, unconfined=self.unconfined),
        )
        warn_left_out(opened.catalog)
        return opened


def session(*options: Option, stale_goldens: bool = False) -> Callable[[F], F]:
    """Return a decorator that passes the verb ``current``, the session that ``--catalog`` and these options open."""

    def make(**values: Any) -> Session:
        return SessionOptions(**values, stale_goldens=stale_goldens).open()

    return gathered("current", make, *options, catalog)


def closed_session(*options: Option) -> Callable[[F], F]:
    """Return a decorator that passes the verb ``closed``, the SessionOptions of a session that it may not need to open."""
    return gathered("closed", SessionOptions, *options, catalog)


_BUDGET = re.compile(r"(\d+(?:\.\d+)?)(s|m|h|)", re.ASCII)
_UNITS = {"": 1, "s": 1, "m": 60, "h": 3600}


def budget(default: str, help: str) -> Callable[[F], F]:
    """Return the option ``--budget``: a time in seconds."""
    return click.option(
        "--budget", default=default, show_default=True, callback=_read_budget, metavar="TIME", help=help
    )


def _read_budget(_context: click.Context, _parameter: click.Parameter, text: str) -> float:
    found = _BUDGET.fullmatch(text)
    if found is None or not float(found[1]):
        raise UsageError(f"--budget {text}: expected a time, e.g. 90s, 5m or 1h")
    return float(found[1]) * _UNITS[found[2]]
