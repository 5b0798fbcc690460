"""Read the RUN lines of an IR test: values of the step's parameters, and options of FileCheck.

``// RUN: %step --with rows=4 | FileCheck %s --check-prefixes=CHECK,ROWS``
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from mlir_matrix.base.names import did_you_mean, printable
from mlir_matrix.catalog.models.base import ParameterValue, Scalar, Step
from mlir_matrix.catalog.yaml_reader import ScalarError, plain_scalar

_RUN = re.compile(r"^\s*//\s*RUN:(.*)")
_COMMAND = re.compile(r"\s*%step\b(?P<step>[^|]*)\|\s*FileCheck\s+%s(?P<check>.*)")
_OPTION = re.compile(
    r"--?(?:check-prefix(?:es)?=[A-Za-z][\w-]*(?:,[A-Za-z][\w-]*)*|match-full-lines|strict-whitespace)"
)
_EXPECTED = "expected %step [--with NAME=VALUE]... | FileCheck %s [--check-prefix=NAME] [--match-full-lines] [--strict-whitespace]"
#: Values of parameters by their names.
Values = tuple[tuple[str, ParameterValue], ...]


class ParameterError(ValueError):
    """A value that a parameter of a step does not take. The message is a sentence for the user."""


@dataclass(frozen=True, slots=True)
class RunLine:
    """A run of the step and of FileCheck."""

    line: int
    #: Of the step's parameters; the others have their defaults.
    values: Values
    #: Options of FileCheck.
    options: tuple[str, ...]


def run_lines(text: str, step: Step) -> Iterator[RunLine | tuple[int, str]]:
    """Yield the RUN lines of an IR test, and for each that is wrong its number and a sentence."""
    for number, line in enumerate(text.split("\n"), 1):
        found = _RUN.match(line)
        if found is None:
            continue
        try:
            yield _run_line(number, found[1], step)
        except ValueError as error:
            yield number, str(error)


def _run_line(number: int, command: str, step: Step) -> RunLine:
    """Return a RUN line. Raise ValueError with a sentence."""
    found = _COMMAND.fullmatch(command)
    if found is None:
        raise ValueError(f"{printable(command.strip(), 80)} is no RUN line of an IR test: {_EXPECTED}")
    words = found["step"].split()
    if len(words) % 2 or set(words[::2]) - {"--with"}:
        raise ValueError(f"{printable(found['step'].strip(), 80)} after %step: {_EXPECTED}")
    options = found["check"].split()
    for option in options:
        if _OPTION.fullmatch(option) is None:
            raise ValueError(f"the option {printable(option, 80)} of FileCheck: {_EXPECTED}")
    return RunLine(number, tuple(values_of(step, words[1::2]).items()), tuple(options))


def values_of(step: Step, words: Iterable[str]) -> dict[str, ParameterValue]:
    """Return the values of parameters, ``NAME=VALUE``, read as YAML reads them. Raise ParameterError."""
    found: dict[str, ParameterValue] = {}
    for word in words:
        name, separator, text = word.partition("=")
        if not separator or name not in step.parameters:
            near = did_you_mean(name, step.parameters)
            raise ParameterError(f"--with {printable(word)}: expected NAME=VALUE with a parameter of the step{near}")
        value, default = _scalar(text), step.parameters[name].default
        takes = (int, float) if isinstance(default, float) else (type(default),)
        if isinstance(default, tuple):
            found[name] = tuple(_scalar(part) for part in text.split(","))
        elif isinstance(default, str):
            found[name] = text
        elif type(value) in takes:
            found[name] = value
        else:
            raise ParameterError(f"--with {printable(word)}: expected a value like {default}, the default")
    return found


def _scalar(text: str) -> Scalar:
    try:
        value = plain_scalar(text)
    except ScalarError as error:
        raise ParameterError(f"--with: {error}") from None
    if value is None:
        raise ParameterError("--with: expected a value after '='")
    return value
