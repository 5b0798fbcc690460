"""Check names, suggest known names, and match globs over names and test identifiers.

Names are parts of identifiers, paths, Bazel labels and HTML, so none of their characters may need quoting. Every command imports
this module, so it must import nothing slow.
"""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import product
from typing import NamedTuple

from mlir_matrix.base.errors import UsageError

#: Dots only between other characters: so no ``..``, no hidden file, no name that ends in a dot.
NAME_PATTERN = r"^[A-Za-z0-9][A-Za-z0-9_+-]*(?:\.[A-Za-z0-9_+-]+)*$"
NAME_LENGTH = 64
DEVICE_PATTERN = r"^/dev(/[A-Za-z0-9_][A-Za-z0-9_.:@+-]*)+$"
#: The rule of the pattern in words, for errors.
DEVICE_RULE = "a device or a folder below /dev, such as '/dev/kvm'; no part of it may begin with a dot"
#: A device, or a glob over devices: ``/dev/nvidia*``.
DEVICE_GLOB_PATTERN = r"^/dev(/[A-Za-z0-9_*?\[][A-Za-z0-9_.:@+*?\[\]-]*)+$"
#: Segments of a test identifier: framework/pipeline/target/workload.
SEGMENTS = 4
SEGMENT_NAMES = ("framework", "pipeline", "target", "workload")
#: The most patterns that the braces of one segment may expand to.
MOST_ALTERNATIVES = 64

_NAME = re.compile(NAME_PATTERN)
_BRACKETS = re.compile(r"\[!?(?P<members>[^\]]*)(?P<closed>\]?)|\]")
_MAGIC = re.compile(r"[*?\[\]{}]")
_SEGMENT = re.compile(r"[A-Za-z0-9_.+*?\[\]{},!=:-]+")
_PINS = re.compile(r"[^/@]*[=*?\]][^/@]*")
#: Framework and target of the IR tests of steps: ``mlir/<step>/ir/<case>``.
IR_FRAMEWORK, IR_TARGET = "mlir", "ir"
#: Between the name of a test or an environment, and the pins that are not the default ones.
PINS_MARK = "@"
#: Separates workload and property in identifiers: ``matmul~scaling``.
OF = "~"
#: Separates a corpus and its member: ``onnx-nodes:test_abs``.
MEMBER = ":"


def lacking_devices(globs: Iterable[str], devices: Collection[str]) -> list[str]:
    """Return the devices and globs over devices of which none is granted."""
    return [glob for glob in globs if not any(fnmatch.fnmatchcase(device, glob) for device in devices)]


def split_pins(text: str) -> tuple[str, str]:
    """Return the name of a test, a cell or an environment, and its pins (``llvm=19``), which may be empty."""
    name, _, pins = text.partition(PINS_MARK)
    return name, pins


def with_pins(name: str, pins: str) -> str:
    """Return a name with its pins, if there are any."""
    return f"{name}{PINS_MARK}{pins}" if pins else name


def split_property(called: str) -> tuple[str, str]:
    """Return the workload and the property of ``matmul~scaling``; the latter is empty for a test without any."""
    workload, _, name = called.partition(OF)
    return workload, name


class TestId(NamedTuple):
    """The identifier of a test by its parts; as text ``pytorch/linalg-loops/x86_64/matmul~scaling@llvm=19``."""

    framework: str
    pipeline: str
    target: str
    #: The workload, with the property where the test is of one: ``matmul~scaling``.
    called: str
    #: The pins that the suite varies; empty where it varies none.
    pins: str = ""

    @classmethod
    def parse(cls, text: str) -> TestId:
        """Raise ValueError unless a text has four segments."""
        name, pins = split_pins(text)
        framework, pipeline, target, called = name.split("/")
        return cls(framework, pipeline, target, called, pins)

    @classmethod
    def in_cell(cls, cell: str, called: str) -> TestId:
        """Return the identifier of a test in a cell, which may have pins."""
        name, pins = split_pins(cell)
        framework, pipeline, target = name.split("/")
        return cls(framework, pipeline, target, called, pins)

    def __str__(self) -> str:
        return with_pins(f"{self.framework}/{self.pipeline}/{self.target}/{self.called}", self.pins)

    @property
    def workload(self) -> str:
        return split_property(self.called)[0]

    @property
    def cell(self) -> str:
        """The identifier of its cell, with the pins."""
        return with_pins(f"{self.framework}/{self.pipeline}/{self.target}", self.pins)

    @property
    def is_ir(self) -> bool:
        """True for the IR test of a step, which is checked and not run."""
        return self.target == IR_TARGET

    @property
    def row(self) -> str:
        """The row of reports that it is in: its cell, or one for the IR tests of all steps."""
        return with_pins("IR tests of steps", self.pins) if self.is_ir else self.cell


TestId.__test__ = False  # type: ignore[attr-defined]  # not a pytest class


class PatternError(UsageError):
    """Raised for a glob whose syntax is wrong, or that cannot match any test identifier."""


def is_name(text: str) -> bool:
    return len(text) <= NAME_LENGTH and _NAME.fullmatch(text) is not None


def why_not_a_name(text: str) -> str:
    """Return the error for a text that is not a name."""
    shown = printable(text)
    if len(text) > NAME_LENGTH:
        return f"'{shown}' is too long for a name: {len(text)} characters, {NAME_LENGTH} at most"
    return f"'{shown}' is not a name: letters, digits and '_', '+', '-', '.' between them, with a letter or digit first"


def printable(text: str, most: int = 80) -> str:
    """Escape control and undecodable characters of a text, and cut it after ``most`` characters."""
    if not text.isprintable():
        text = "".join(c if c.isprintable() else c.encode("unicode_escape", "surrogatepass").decode() for c in text)
    return text if len(text) <= most else text[: most - 1] + "…"


def nearest(name: str, known: Iterable[str]) -> str | None:
    """Return the most similar known name, or None if none is similar."""
    import difflib  # only for errors

    candidates = sorted(known)
    folded = name.casefold()
    for candidate in candidates:
        if candidate.casefold() == folded:
            return candidate
    found = difflib.get_close_matches(name, candidates, n=1, cutoff=0.6)
    return found[0] if found else None


def did_you_mean(name: str, known: Iterable[str], *, listed: bool = True) -> str:
    """Return the end of an error about an unknown name: the nearest known name, or all of them if ``listed`` and few."""
    candidates = sorted(known)
    found = nearest(name, candidates)
    if found is not None:
        return f"; did you mean '{found}'?"
    return f"; known: {', '.join(candidates)}" if listed and 0 < len(candidates) <= 12 else ""


def should_be_called(right: str, known: Iterable[str]) -> str:
    """Return a question whether a similar known name should have the name ``right``; empty if none is similar."""
    near = nearest(right, known)
    return f"; should '{near}' be called '{right}'?" if near else ""


def check_known(kind: str, names: Iterable[str], known: Collection[str], option: str = "") -> None:
    """Raise UsageError for the first name that is not known."""
    for name in names:
        if name not in known:
            raise UsageError(f"{option}there is no {kind} '{printable(name)}'{did_you_mean(name, known)}")


def is_glob(text: str) -> bool:
    """Return whether a text has a character that only globs have."""
    return _MAGIC.search(text) is not None


def select_known(kind: str, patterns: Iterable[str], known: Collection[str]) -> list[str]:
    """Return the known names that patterns match, each once. Raise UsageError for a pattern that matches none."""
    found: dict[str, None] = {}
    for pattern in patterns:
        names = name_glob(pattern).select(known) if is_glob(pattern) else [pattern]
        check_known(kind, names or [pattern], known)
        found.update(dict.fromkeys(names))
    return list(found)


@dataclass(frozen=True)
class NameGlob:
    """A glob over single names: ``*``, ``?``, ``[a-z]``, ``[!a-z]`` and ``{a,b}``; case matters. Raises PatternError."""

    pattern: str

    def __post_init__(self) -> None:
        if not _SEGMENT.fullmatch(self.pattern):
            raise PatternError(f"'{printable(self.pattern)}' is not a pattern for a name")
        if not self.literal:
            _ = self.matches  # raises PatternError

    @property
    def literal(self) -> bool:
        """True if only the pattern itself matches."""
        return _MAGIC.search(self.pattern) is None

    @property
    def everything(self) -> bool:
        return self.pattern == "*"

    @cached_property
    def matches(self) -> Callable[[str], bool]:
        """A function that returns whether a name matches. Its time is at most quadratic in the length of the name."""
        if self.literal:
            return self.pattern.__eq__
        if self.everything:
            return bool
        expression = "|".join(_expression(alternative) for alternative in alternatives(self.pattern))
        fullmatch = re.compile(expression).fullmatch
        return lambda name: fullmatch(name) is not None

    def select(self, names: Collection[str]) -> list[str]:
        """Return the names that it matches. ``names`` has each name once."""
        if self.literal:
            return [self.pattern] if self.pattern in names else []
        matches = self.matches
        return [name for name in names if matches(name)]


@dataclass(frozen=True)
class TestGlob:
    """A glob over test identifiers, segment by segment; ``**`` matches zero or more segments.

    ``~`` starts a glob over properties (``**~scaling``); without it, only tests without a property match. ``@`` starts a glob
    over the pins that a suite varies (``@llvm=1*``); without it, any pins match. Raises PatternError for wrong syntax, and for a
    glob that does not have four segments.
    """

    __test__ = False  # not a pytest class

    pattern: str

    def __post_init__(self) -> None:
        _ = self.property, self.segments, self.pins

    @cached_property
    def pins(self) -> NameGlob | None:
        """The glob over pins; None matches any."""
        _, mark, pins = self.pattern.partition(PINS_MARK)
        if mark and not _PINS.fullmatch(pins):
            raise PatternError(f"'{printable(self.pattern)}' has no COMPONENT=RELEASE after its '@'")
        return name_glob(in_order(pins)) if mark else None

    @cached_property
    def property(self) -> NameGlob | None:
        """The glob over properties; None matches tests without a property."""
        _, mark, name = split_pins(self.pattern)[0].partition(OF)
        if mark and ("/" in name or not name):
            raise PatternError(
                f"'{printable(self.pattern)}' has no property after its '{OF}', which comes after the workload"
            )
        return name_glob(name) if mark else None

    @cached_property
    def segments(self) -> tuple[tuple[NameGlob, NameGlob, NameGlob, NameGlob], ...]:
        """Globs for framework, pipeline, target and workload; several sets if ``**`` is ambiguous.

        A test matches if all four globs of a set match. A caller can match a cell once for all workloads of the cell.
        """
        parts = split_property(split_pins(self.pattern)[0])[0].split("/")
        parts = [part for index, part in enumerate(parts) if part != "**" or parts[index - 1 : index] != ["**"]]
        stars = parts.count("**")
        free = SEGMENTS - (len(parts) - stars)
        if free < 0 or (stars == 0 and free != 0):
            raise PatternError(_wrong_length(self.pattern, parts))
        found: dict[tuple[NameGlob, NameGlob, NameGlob, NameGlob], None] = {}
        # Distribute the free segments among the double stars in all ways.
        for lengths in product(range(free + 1), repeat=stars):
            if sum(lengths) != free:
                continue
            taken = iter(lengths)
            flat: list[str] = []
            for part in parts:
                flat.extend(["*"] * next(taken) if part == "**" else [part])
            first, second, third, fourth = (name_glob(part) for part in flat)
            found[(first, second, third, fourth)] = None
        return tuple(found)

    def matches(self, identifier: str) -> bool:
        try:
            test = TestId.parse(identifier)
        except ValueError:
            return False
        workload, name = split_property(test.called)
        if self.pins is not None and not self.pins.matches(test.pins):
            return False
        if (self.property is None) is bool(name) or (self.property is not None and not self.property.matches(name)):
            return False
        names = (test.framework, test.pipeline, test.target, workload)
        return any(
            all(glob.matches(name) for glob, name in zip(segments, names, strict=True)) for segments in self.segments
        )


@lru_cache(maxsize=4096)
def name_glob(pattern: str) -> NameGlob:
    return NameGlob(pattern)


@lru_cache(maxsize=4096)
def test_glob(pattern: str) -> TestGlob:
    return TestGlob(pattern)


test_glob.__test__ = False  # type: ignore[attr-defined]  # not a pytest test


def in_order(pins: str) -> str:
    """Sort pins like ``b=1,a=2`` by component, as in identifiers, unless they have braces or brackets."""
    pairs = [pair.partition("=") for pair in pins.split(",")]
    if "{" in pins or "[" in pins or not all(is_name(component) and mark for component, mark, _ in pairs):
        return pins
    return ",".join("".join(pair) for pair in sorted(pairs))


def _wrong_length(pattern: str, parts: Sequence[str]) -> str:
    shown = printable(pattern)
    if "" in parts:
        return f"'{shown}' has an empty part; a test is {'/'.join(SEGMENT_NAMES)}"
    test, pins = split_pins(pattern)
    fix = f"; perhaps '{printable(with_pins(f'{test}/**', pins))}'" if len(parts) < SEGMENTS else ""
    count = f"{len(parts)} part{'s' if len(parts) > 1 else ''}"
    return f"'{shown}' has {count}, but a test is {'/'.join(SEGMENT_NAMES)}{fix}"


def alternatives(pattern: str) -> list[str]:
    """Expand the braces of a pattern. Raise PatternError."""
    done: list[str] = []
    waiting = [pattern]
    while waiting:
        text = waiting.pop()
        opened = text.find("{")
        if opened < 0:
            if "}" in text:
                raise PatternError(f"'{printable(pattern)}' has a '}}' without its '{{'")
            done.append(text)
            continue
        closed, choices = _choices(text, opened, pattern)
        waiting.extend(text[:opened] + choice + text[closed + 1 :] for choice in reversed(choices))
        if len(done) + len(waiting) > MOST_ALTERNATIVES:
            raise PatternError(f"'{printable(pattern)}' stands for more than {MOST_ALTERNATIVES} patterns")
    return done


def _choices(text: str, opened: int, pattern: str) -> tuple[int, list[str]]:
    """Return the end of the brace at ``opened``, and its alternatives; braces may nest."""
    depth, start, choices = 0, opened + 1, list[str]()
    for index in range(opened, len(text)):
        character = text[index]
        if character == "{":
            depth += 1
        elif character == "}":
            depth -= 1
        if (depth == 1 and character == ",") or depth == 0:
            choices.append(text[start:index])
            start = index + 1
        if depth == 0:
            return index, choices
    raise PatternError(f"'{printable(pattern)}' has a '{{' without its '}}'")


def _expression(glob: str) -> str:
    """Return a regular expression for a glob without braces: fnmatch's, which cannot take exponential time."""
    for brackets in _BRACKETS.finditer(glob):
        # fnmatch would read these as plain text, or as an empty range.
        members = brackets["members"]
        if brackets[0] == "]":
            raise PatternError(f"'{printable(glob)}' has a ']' without its '['")
        if not members or not brackets["closed"]:
            raise PatternError(f"'{printable(glob)}' has a '[' without characters and a ']' after it")
        if any(first > last for first, last in re.findall("(.)-(.)", members)):
            raise PatternError(f"'{printable(glob)}' has a range in '[{members}]' that runs backwards")
    return fnmatch.translate(glob)
