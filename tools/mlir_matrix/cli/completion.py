"""Complete names of catalogs in a shell, from the names of files alone: loading the catalogs takes a second."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import click

from mlir_matrix.base.errors import MatrixError
from mlir_matrix.base.paths import repository
from mlir_matrix.catalog.project import entry_names, find_project_file

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

Completer = Callable[[click.Context, click.Parameter, str], "list[CompletionItem] | list[str]"]

SUITES = "matrix/suites"
COMPONENTS = "toolchains/components"
ENVIRONMENTS = "toolchains/environments"
MACHINES = "matrix/machines"
SCHEMAS = "docs/schemas"
#: The folders of what each segment of a test's identifier names.
_SEGMENTS = ("matrix/frameworks", "recipes/pipelines", "matrix/targets", "matrix/workloads")
#: A release in the file of a component.
_RELEASE = re.compile(r"^\s*(?:- )?\{?release: *['\"]?([^'\",}\s]+)", re.MULTILINE)


def names_in(*folders: str) -> Completer:
    """Return a function that completes the names in folders of the catalogs."""

    def complete(context: click.Context, _parameter: click.Parameter, incomplete: str) -> list[str]:
        return [name for folder in folders for name in _beginning(incomplete, _names(context, folder))]

    return complete


def complete_tests(context: click.Context, _parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Complete a suite, or the next segment of an identifier."""
    from click.shell_completion import CompletionItem

    begin, slash, last = incomplete.rpartition("/")
    segment = incomplete.count("/")
    if segment >= len(_SEGMENTS):
        return []
    names = _beginning(last, _names(context, _SEGMENTS[segment]))
    more = "/" if segment + 1 < len(_SEGMENTS) else ""
    found = [CompletionItem(f"{begin}{slash}{name}{more}") for name in names]
    return ([] if slash else [CompletionItem(name) for name in _beginning(last, _names(context, SUITES))]) + found


def complete_pin(context: click.Context, _parameter: click.Parameter, incomplete: str) -> list[str]:
    """Complete a component, then one of its releases, the newest first."""
    component, equals, release = incomplete.partition("=")
    if not equals:
        return [f"{name}=" for name in _beginning(component, _names(context, COMPONENTS))]
    for root in _roots(context):
        try:
            text = (root / COMPONENTS / f"{component}.yaml").read_text(encoding="utf-8")
        except OSError:
            continue
        return [f"{component}={name}" for name in _beginning(release, reversed(_RELEASE.findall(text)))]
    return []


def _beginning(incomplete: str, names: Iterable[str]) -> list[str]:
    return [name for name in names if name.startswith(incomplete)]


def _names(context: click.Context, folder: str) -> list[str]:
    return sorted(entry_names(_roots(context), folder))


def _roots(context: click.Context) -> Iterator[Path]:
    """Yield this repository, the folder of the project, and the catalogs that were given."""
    yield repository()
    try:
        file = find_project_file(Path.cwd())
    except (MatrixError, OSError):
        file = None
    if file is not None:
        yield file.parent
    yield from map(Path, context.params.get("catalogs") or ())


def complete_in_bash() -> None:
    """Complete what follows ``=`` in bash, too. Bash ends a word there, and inserts only what follows."""
    from click.shell_completion import BashComplete, add_completion_class

    class Bash(BashComplete):
        #: What precedes the last ``=`` of the word.
        begin = ""

        def get_completion_args(self) -> tuple[list[str], str]:
            words, last = super().get_completion_args()
            joined = [""]
            for word in (*words, last):
                if word == "=" or joined[-1].endswith("="):
                    joined[-1] += word
                else:
                    joined.append(word)
            self.begin = joined[-1].rpartition("=")[0]
            return joined[1:-1], joined[-1]

        def format_completion(self, item: CompletionItem) -> str:
            item.value = item.value.removeprefix(f"{self.begin}=")
            return super().format_completion(item)

    add_completion_class(Bash)
