"""Print a plan as the files that CTest and lit read: ``matrix plan --format ctest``, ``--format lit``."""

from __future__ import annotations

import json
import os
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import click

from mlir_matrix.base.names import OF, TestId, split_property
from mlir_matrix.catalog.pins import is_folder
from mlir_matrix.cli import options
from mlir_matrix.cli.verbs import ARGUMENTS, option_words
from mlir_matrix.results.cause_globs import braces

#: CTest's word for a cell that has no test that this machine can run.
_SKIPPED = "matrix: no test (can run|ran): "


def ctest_lines(program: str, words: Sequence[str], suites: Sequence[str], tests: Iterable[str]) -> Iterator[str]:
    """Yield a ``CTestTestfile.cmake``: a test for each cell, which runs the tests of it that were planned.

    A file that includes it may set ``MlirMatrix_PREFIX``, of names, and ``MlirMatrix_LABELS``, more labels. It finds the names in
    ``MlirMatrix_TESTS``.
    """
    cells: dict[str, list[TestId]] = defaultdict(list)
    for test in map(TestId.parse, tests):
        cells[test.row].append(test)
    for cell, members in cells.items():
        name = f'"${{MlirMatrix_PREFIX}}{cell}"'
        command = [program, "run", "--quiet", *words, *suites, *globs_of(members)]
        first = members[0]
        labels = ["ir"] if first.is_ir else [first.framework, first.pipeline, first.target]
        yield f"add_test({name} {' '.join(map(_quoted, command))})"
        # Runs at the same time would share the cores, and each takes all of them.
        yield (
            f'set_tests_properties({name} PROPERTIES LABELS "{";".join(labels)}${{MlirMatrix_LABELS}}"'
            f' SKIP_REGULAR_EXPRESSION "{_SKIPPED}" RESOURCE_LOCK mlir-matrix)'
        )
        yield f"list(APPEND MlirMatrix_TESTS {name})"


def lit_lines(program: str, words: Sequence[str], tests: Sequence[str]) -> Iterator[str]:
    """Yield a ``lit.cfg.py`` with these tests, in the syntax of both JSON and Python."""
    yield "import sys"
    yield f"sys.path.append({json.dumps(str(Path(__file__).resolve().parents[2]))})"
    yield "import mlir_matrix.lit"
    yield 'config.name = "mlir-matrix"'
    arguments = f"{json.dumps(list(tests))}, {json.dumps(list(words))}, program={json.dumps(program)}"
    yield f"config.test_format = mlir_matrix.lit.Matrix({arguments})"


def words_anywhere(context: click.Context) -> list[str]:
    """Return the options that decide catalogs and releases, those of the project too, for a command that runs in any folder."""
    given = option_words(context.command, context.meta[ARGUMENTS], only={"catalogs", "pins", "swaps"})
    words = [*options.project_words(context, without=()), *given]
    for index in range(0, len(words), 2):
        value = words[index + 1]
        if words[index] in options.catalog.names:
            words[index + 1] = options.absolute_catalog(value)
        elif words[index] in options.pin.names:
            component, _, wanted = value.partition("=")
            path = os.path.abspath(os.path.expanduser(wanted))
            if is_folder(wanted) and os.path.exists(path):
                words[index + 1] = f"{component}={path}"
    return words


def globs_of(tests: Iterable[TestId]) -> list[str]:
    """Return globs that match these tests, whatever else the catalogs have."""
    places: dict[TestId, list[str]] = defaultdict(list)
    for test in tests:
        workload, tested_property = split_property(test.called)
        places[test._replace(called=tested_property)].append(workload)
    return [
        str(place._replace(called=f"{glob}{OF}{place.called}" if place.called else glob))
        for place, names in places.items()
        for glob in braces(names)
    ]


def _quoted(word: str) -> str:
    """Return a word as CMake reads it."""
    escaped = word.replace("\\", "\\\\").replace('"', '\\"').replace("$", "\\$")
    return f'"{escaped}"'
