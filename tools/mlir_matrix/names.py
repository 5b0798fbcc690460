"""Names, the nearest known name, and globs over names and test identifiers.

A name becomes an identifier, a path, a Bazel label and HTML, so that nothing in it may need quoting anywhere. The
command line uses this before anything is loaded, so that nothing heavy is imported here.
"""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import product

from mlir_matrix.errors import UsageError

#: Dots only between other characters: no ``..``, no hidden file, no name that ends in a dot.
NAME_PATTERN = r"^[A-Za-z0-9][A-Za-z0-9_+-]*(?:\.[A-Za-z0-9_+-]+)*$"
NAME_LENGTH = 64
DEVICE_PATTERN = r"^/dev(/[A-Za-z0-9_][A-Za-z0-9_.:@+-]*)+$"
#: What a text must be that the pattern for devices refuses.
DEVICE_RULE = "a device or a folder below /dev, such as '/dev/kvm'; no part of it may begin with a dot"
#: Segments of a test identifier: framework/pipeline/target/workload.
SEGMENTS = 4
SEGMENT_NAMES = ("framework", "pipeline", "target", "workload")
#: ``{a,b}`` in one segment may stand for so many patterns, all braces of the segment together.
MOST_ALTERNATIVES = 64

_NAME = re.compile(NAME_PATTERN)
_BRACKETS = re.compile(r"\[!?(?P<members>[^\]]*)(?P<closed>\]?)|\]")
_MAGIC = re.compile(r"[*?\[\]{}]")
_SEGMENT = re.compile(r"[A-Za-z0-9_.+*?\[\]{},!=:-]+")
_PINS = re.compile(r"[^/@]*[=*?\]][^/@]*")
#: Between a workload and the property of the test, in identifiers: ``matmul~scaling``.
OF = "~"


class PatternError(UsageError):
    """A glob that cannot be read, or that no test identifier can match whatever the catalog holds."""


def is_name(text: str) -> bool:
    """Whether ``text`` may be the name of anything."""
    return len(text) <= NAME_LENGTH and _NAME.fullmatch(text) is not None


def why_not_a_name(text: str) -> str:
    """The sentence for a text that :func:`is_name` refuses."""
    shown = printable(text)
    if len(text) > NAME_LENGTH:
        return f"'{shown}' is too long for a name: {len(text)} characters, {NAME_LENGTH} at most"
    return f"'{shown}' is not a name: letters, digits and '_', '+', '-', '.' between them, with a letter or digit first"


def printable(text: str, most: int = 80) -> str:
    """``text`` safe for a terminal and a log line: control and undecodable characters escaped, cut after ``most``."""
    if not text.isprintable():
        text = "".join(c if c.isprintable() else c.encode("unicode_escape", "surrogatepass").decode() for c in text)
    return text if len(text) <= most else text[: most - 1] + "…"


def nearest(name: str, known: Iterable[str]) -> str | None:
    """The known name that ``name`` was probably meant to be, if any is near enough."""
    import difflib  # only needed once something is wrong

    candidates = sorted(known)
    folded = name.casefold()
    for candidate in candidates:
        if candidate.casefold() == folded:
            return candidate
    found = difflib.get_close_matches(name, candidates, n=1, cutoff=0.6)
    return found[0] if found else None


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """Return the end of an error about an unknown name: the nearest known name, else all if they are few."""
    candidates = sorted(known)
    found = nearest(name, candidates)
    if found is not None:
        return f"; did you mean '{found}'?"
    if 0 < len(candidates) <= 12:
        return f"; known: {', '.join(candidates)}"
    return ""


def unknown(kind: str, name: str, known: Iterable[str]) -> UsageError:
    """Return the error for a name that no thing of this kind has."""
    return UsageError(f"there is no {kind} '{printable(name)}'{did_you_mean(name, known)}")


@dataclass(frozen=True)
class NameGlob:
    """A glob over single names: ``*``, ``?``, ``[a-z]``, ``[!a-z]`` and ``{a,b}``; case matters.

    Raises PatternError when it cannot be read.
    """

    pattern: str

    def __post_init__(self) -> None:
        if not _SEGMENT.fullmatch(self.pattern):
            raise PatternError(f"'{printable(self.pattern)}' is not a pattern for a name")
        if not self.literal:
            _ = self.matches  # compiled now, so that a broken pattern is refused now

    @property
    def literal(self) -> bool:
        """True when only the pattern itself matches."""
        return _MAGIC.search(self.pattern) is None

    @property
    def everything(self) -> bool:
        """True when every name matches."""
        return self.pattern == "*"

    @cached_property
    def matches(self) -> Callable[[str], bool]:
        """Whether a name matches; cheap enough for a call per name, and never more than quadratic in its length."""
        if self.literal:
            return self.pattern.__eq__
        if self.everything:
            return bool
        expression = "|".join(_expression(alternative) for alternative in _alternatives(self.pattern))
        fullmatch = re.compile(expression).fullmatch
        return lambda name: fullmatch(name) is not None

    def select(self, names: Iterable[str]) -> list[str]:
        """The names that match, in the order given."""
        matches = self.matches
        return [name for name in names if matches(name)]


@dataclass(frozen=True)
class TestGlob:
    """A glob over test identifiers, segment by segment; ``**`` stands for any number of segments, none included.

    After ``~`` comes a glob over properties (``**~scaling``); without it, only tests without a property match. After
    ``@``, which is last, comes a glob over the pins that a suite varies (``@llvm=1*``); without it, any pins match. Raises
    PatternError when it cannot be read or does not come to four segments.
    """

    __test__ = False  # it is no pytest class

    pattern: str

    def __post_init__(self) -> None:
        _ = self.property, self.segments, self.pins

    @cached_property
    def pins(self) -> NameGlob | None:
        """The glob over pins; None where any will do."""
        _, mark, pins = self.pattern.partition("@")
        if mark and not _PINS.fullmatch(pins):
            raise PatternError(f"'{printable(self.pattern)}' has no COMPONENT=RELEASE after its '@'")
        return name_glob(in_order(pins)) if mark else None

    @cached_property
    def property(self) -> NameGlob | None:
        """The glob over properties; None where tests without one are meant."""
        test = self.pattern.partition("@")[0]
        _, mark, name = test.partition(OF)
        if mark and ("/" in name or not name):
            raise PatternError(
                f"'{printable(self.pattern)}' has no property after its '{OF}', which comes after the workload"
            )
        return name_glob(name) if mark else None

    @cached_property
    def segments(self) -> tuple[tuple[NameGlob, NameGlob, NameGlob, NameGlob], ...]:
        """One glob for each of framework, pipeline, target and workload; more than one set where ``**`` is ambiguous.

        A test matches when all four of any set do, so that a caller can match the cell once for all of its workloads.
        """
        parts = self.pattern.partition("@")[0].partition(OF)[0].split("/")
        parts = [part for index, part in enumerate(parts) if part != "**" or parts[index - 1 : index] != ["**"]]
        stars = parts.count("**")
        free = SEGMENTS - (len(parts) - stars)
        if free < 0 or (stars == 0 and free != 0):
            raise PatternError(_wrong_length(self.pattern, parts))
        found: dict[tuple[NameGlob, NameGlob, NameGlob, NameGlob], None] = {}
        for lengths in _splits(free, stars):
            taken = iter(lengths)
            flat: list[str] = []
            for part in parts:
                flat.extend(["*"] * next(taken) if part == "**" else [part])
            first, second, third, fourth = (name_glob(part) for part in flat)
            found[(first, second, third, fourth)] = None
        return tuple(found)

    def matches(self, identifier: str) -> bool:
        """Whether the test with this identifier matches."""
        test, _, pins = identifier.partition("@")
        test, _, name = test.partition(OF)
        names = test.split("/")
        if self.pins is not None and not self.pins.matches(pins):
            return False
        if (self.property is None) is bool(name) or (self.property is not None and not self.property.matches(name)):
            return False
        return len(names) == SEGMENTS and any(
            all(glob.matches(name) for glob, name in zip(segments, names, strict=True)) for segments in self.segments
        )


@lru_cache(maxsize=4096)
def name_glob(pattern: str) -> NameGlob:
    """The compiled glob; the same object for the same pattern."""
    return NameGlob(pattern)


@lru_cache(maxsize=4096)
def test_glob(pattern: str) -> TestGlob:
    """The compiled glob; the same object for the same pattern."""
    return TestGlob(pattern)


test_glob.__test__ = False  # type: ignore[attr-defined]  # it is no pytest test


def in_order(pins: str) -> str:
    """``b=1,a=2`` with the components in alphabetic order, as identifiers have them; lists in brackets stay."""
    pairs = [pair.partition("=") for pair in pins.split(",")]
    if "{" in pins or "[" in pins or not all(is_name(component) and mark for component, mark, _ in pairs):
        return pins
    return ",".join("".join(pair) for pair in sorted(pairs))


def _wrong_length(pattern: str, parts: Sequence[str]) -> str:
    shown = printable(pattern)
    if "" in parts:
        return f"'{shown}' has an empty part; a test is {'/'.join(SEGMENT_NAMES)}"
    test, mark, pins = pattern.partition("@")
    fix = f"; perhaps '{printable(f'{test}/**{mark}{pins}')}'" if len(parts) < SEGMENTS else ""
    count = f"{len(parts)} part{'s' if len(parts) > 1 else ''}"
    return f"'{shown}' has {count}, but a test is {'/'.join(SEGMENT_NAMES)}{fix}"


def _splits(total: int, parts: int) -> Iterable[tuple[int, ...]]:
    """All ways to share ``total`` segments among ``parts`` double stars."""
    return [lengths for lengths in product(range(total + 1), repeat=parts) if sum(lengths) == total]


def _alternatives(pattern: str) -> list[str]:
    """The pattern with its braces multiplied out."""
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
    """Where the brace that opens at ``opened`` closes, and what it offers; braces may nest."""
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
        _check_brackets(brackets, glob)
    return fnmatch.translate(glob)


def _check_brackets(brackets: re.Match[str], glob: str) -> None:
    """Refuse what fnmatch reads as plain text, or as a range without members."""
    members = brackets["members"]
    if brackets[0] == "]":
        raise PatternError(f"'{printable(glob)}' has a ']' without its '['")
    if not members or not brackets["closed"]:
        raise PatternError(f"'{printable(glob)}' has a '[' without characters and a ']' after it")
    if any(first > last for first, last in re.findall("(.)-(.)", members)):
        raise PatternError(f"'{printable(glob)}' has a range in '[{members}]' that runs backwards")
