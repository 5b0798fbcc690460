"""Read the RUN lines of a test as lit reads them, without a shell.

The script is JSON: ``text`` (the test), ``refused`` (why it cannot be run), ``unsupported`` (what it requires), ``fails`` (whether
XFAIL applies), and ``lines``: each with ``line``, ``text`` and ``commands``. A command has ``after`` (what stands before it: ``;``,
``&&``, ``||`` or ``|``), ``words``, and ``redirects``, pairs of an operator and a path. ``beside`` of a line are files that are not
the test's own; ROOT stands for the folder of the catalog.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, NoReturn

from mlir_matrix.actions.api import Action, read_text, write_json

#: The test, temporary files and the libraries of LLVM's release in the folder where programs run.
TEST, TEMPORARY, LIBRARIES, ROOT = "test.mlir", "tmp", "lib", "@root@"
_LIBRARIES = (
    "mlir_runner_utils", "mlir_c_runner_utils", "mlir_async_runtime", "mlir_float16_utils", "mlir_apfloat_wrappers",
    "mlir_arm_runner_utils",
)  # fmt: skip
SUBSTITUTIONS = {
    "s": TEST,
    "S": ".",
    "p": ".",
    "t": f"{TEMPORARY}/{TEST}.tmp",
    "T": TEMPORARY,
    "basename_t": TEST,
    "shlibext": ".so",
    "mlir_src_dir": f"{ROOT}/mlir",
    "mlir_src_root": f"{ROOT}/mlir",
    "llvm_src_root": f"{ROOT}/llvm",
    "mlir_lib_dir": LIBRARIES,
    "mlir_native_utils_lib_dir": LIBRARIES,
    **dict.fromkeys(("arm_sme_abi_shlib", "native_arm_sme_abi_shlib"), f"{LIBRARIES}/libmlir_arm_sme_abi_stubs.so"),
    **{name: f"{LIBRARIES}/lib{name}.so" for name in _LIBRARIES},
    **{f"native_{name}": f"{LIBRARIES}/lib{name}.so" for name in _LIBRARIES},
    "lli": "lli",
    # Without an emulator, LLVM's own configuration runs what is for Arm here.
    "lli_host_or_aarch64_cmd": "lli",
    "mcr_aarch64_cmd": "mlir-runner",
    "ENABLE_VLA": "false",
    "VLA_ARCH_ATTR_OPTIONS": "",
}
#: Files beside the test, by what they are called in commands.
BESIDE = re.compile(rf"(?<![\w.@/])(?:{ROOT}|\.)/[\w./+-]+")
_KEYWORD = re.compile(r"(?<![\w-])(?:(RUN|DEFINE|REDEFINE|REQUIRES|UNSUPPORTED|XFAIL):|(END\.))(.*)")
_DEFINITION = re.compile(r"\s*%\{([A-Za-z][\w:-]*)\}\s*=(.*)", re.DOTALL)
_CONDITION = re.compile(r"%if\s+((?:(?!%\{).)+?)\s*%\{", re.DOTALL)
_LINE = re.compile(r"%\(\s*line\s*(?:([+-])\s*(\d+)\s*)?\)")
_UNKNOWN = re.compile(r"%(?:\{[^}\s]*\}?|\w+)")
_TOKEN = re.compile(r"\s*(2>&1|2>>|2>|&>|>>|>|<<|<|\|\||\||&&|&|;|\n|$)|\s+")
_PIECE = re.compile(r"'[^']*'|\"(?:\\.|[^\"\\])*\"|\\.|[^\s'\"\\|&;<>]", re.DOTALL)
_FEATURE = re.compile(r"\s*(&&|\|\||!|\(|\)|\{\{.*?\}\}[^\s()&|]*|(?:[\w+=.*-]|\{\{.*?\}\})+)")
_TO_FILES, _JOINING = ("<", ">", ">>", "2>", "2>>", "&>"), ("|", "||", "&&", ";")
#: Deeper and longer than that is no test, but a trap.
_DEEPEST, _LONGEST, _MOST_LINES, _MOST_TOKENS = 30, 100_000, 1_000, 100
_LONGEST_REASON = 300


class NotUnderstood(Exception):
    """A line that is no command of a test, or that needs a shell."""


@dataclass
class Script:
    """What the lines of a test say."""

    requires: list[tuple[int, str]] = field(default_factory=list)
    unsupported: list[tuple[int, str]] = field(default_factory=list)
    xfail: list[tuple[int, str]] = field(default_factory=list)
    #: The first line of a command, and its text with all substitutions.
    commands: list[tuple[int, str]] = field(default_factory=list)


def run(action: Action) -> None:
    """Read ``ir``, write ``out``."""
    text = read_text(action.inputs["ir"], "the test")
    values = action.params["parameters"]
    more = dict(each.partition("=")[::2] for each in values["substitutions"].split())
    write_json(action.outputs["out"], script_of(text, set(values["features"].split()), more))


def script_of(text: str, features: Collection[str], more: Mapping[str, str]) -> dict[str, Any]:
    """Return the script of a test; ``more`` are further substitutions."""
    script: dict[str, Any] = {"text": text, "refused": "", "unsupported": "", "fails": False, "lines": []}
    try:
        read = read_script(text, features, {**SUBSTITUTIONS, **more})
        script["unsupported"] = unmet(read, features)
        script["fails"] = any(holds(each, features, line) for line, each in read.xfail)
        if not script["unsupported"]:
            script["lines"] = list(_lines(read))
            if not script["lines"]:
                script["unsupported" if read.commands else "refused"] = (
                    "all RUN lines are for other features" if read.commands else "the test has no RUN line"
                )
    except NotUnderstood as error:
        script["refused"] = shortened(str(error))
    return script


def shortened(reason: str) -> str:
    """Cut a reason, in which a line may have any length."""
    return reason if len(reason) <= _LONGEST_REASON else f"{reason[:_LONGEST_REASON]}…"


def _lines(read: Script) -> Iterator[dict[str, Any]]:
    for line, text in read.commands:
        if found := _UNKNOWN.search(text.replace("%%", "")):
            raise NotUnderstood(f"line {line}: unknown substitution '{found[0]}': {text}")
        if "\0" in text:
            raise NotUnderstood(f"line {line}: a command has a NUL character")
        if text.strip():
            commands = split(text.replace("%%", "%"), line)
            yield {"line": line, "text": text, "commands": commands, "beside": BESIDE.findall(text)}


def read_script(text: str, features: Collection[str], substitutions: Mapping[str, str]) -> Script:
    """Return what the lines of a test say, with all substitutions. Raise NotUnderstood."""
    script, defined = Script(), dict[str, str]()
    lists = {"REQUIRES": script.requires, "UNSUPPORTED": script.unsupported, "XFAIL": script.xfail}
    for keyword, line, said in _joined(text):
        if keyword in lists:
            lists[keyword].append((line, said))
        elif keyword == "RUN" and said:
            script.commands.append((line, expand(said, line, features, substitutions, defined)))
        elif keyword != "RUN":
            found = _DEFINITION.fullmatch(said)
            if found is None or (found[1] in defined) is (keyword == "DEFINE"):
                what = "new" if keyword == "DEFINE" else "defined"
                raise NotUnderstood(f"line {line}: {keyword} needs a {what} %{{name}} = value")
            defined[found[1]] = found[2].strip()
    return script


def _joined(text: str) -> Iterator[tuple[str, int, str]]:
    """Yield keyword, line number and text of each directive, with the lines that continue it."""
    begun: tuple[str, int, str] | None = None
    count = 0
    for number, line in enumerate(text.splitlines(), 1):
        if not (found := _KEYWORD.search(line)):
            continue
        keyword, said = found[1], found[3].rstrip()
        if found[2]:
            break
        if begun and keyword != begun[0]:
            raise NotUnderstood(f"line {begun[1]}: {begun[0]} ends in '\\', but no line continues it")
        keyword, first, before = begun or (keyword, number, "")
        said = before + said if not begun else f"{before} {said.strip()}"
        begun = (keyword, first, said[:-1].rstrip()) if said.endswith("\\") else None
        if begun is None:
            yield keyword, first, said.strip()
            count += 1
        if count > _MOST_LINES:
            raise NotUnderstood(f"line {number}: more than {_MOST_LINES} directives")
    if begun:
        raise NotUnderstood(f"line {begun[1]}: {begun[0]} ends in '\\', but no line continues it")


def expand(
    text: str, line: int, features: Collection[str], substitutions: Mapping[str, str], defined: Mapping[str, str]
) -> str:
    """Return a command with its substitutions, also those in their values, and its conditions.

    What the test has ``defined`` itself is replaced in braces only.
    """

    def number(found: re.Match[str]) -> str:
        return str(line + int(f"{found[1]}{found[2]}" if found[1] else 0))

    # Letters after a folder's name begin another substitution: %python.
    ends = dict.fromkeys("pST", "(?![a-zA-Z])")
    plain = "|".join(re.escape(each) + ends.get(each, "") for each in sorted(substitutions, key=len, reverse=True))
    pattern = re.compile(rf"%%|%({plain})|%\{{([\w:-]+)\}}")

    def value(found: re.Match[str]) -> str:
        name = found[1] or found[2]
        return (
            defined.get(name, substitutions.get(name, found[0]))
            if name and not found[1]
            else substitutions.get(name, "%%")
        )

    for _ in range(_DEEPEST):
        before = text
        text = _conditions(_LINE.sub(number, text), line, features)
        text = pattern.sub(value, text)
        if text == before:
            return text
        if len(text) > _LONGEST:
            raise NotUnderstood(f"line {line}: more than {_LONGEST} characters after substitution")
    raise NotUnderstood(f"line {line}: substitutions refer to each other more than {_DEEPEST} deep")


def _conditions(text: str, line: int, features: Collection[str]) -> str:
    """Replace ``%if FEATURE %{ … %} %else %{ … %}`` by the part that applies, the innermost first."""
    while True:
        found = None
        for each in _CONDITION.finditer(text):
            found = each
        if found is None:
            return text
        end = text.find("%}", found.end())
        if end < 0:
            raise NotUnderstood(f"line {line}: '%if' without '%}}': {text}")
        chosen, rest = text[found.end() : end], text[end + 2 :]
        if other := re.match(r"\s*%else\s*%\{", rest):
            last = rest.find("%}", other.end())
            if last < 0:
                raise NotUnderstood(f"line {line}: '%else' without '%}}': {text}")
            chosen = chosen if holds(found[1], features, line) else rest[other.end() : last]
            rest = rest[last + 2 :]
        elif not holds(found[1], features, line):
            chosen = ""
        text = text[: found.start()] + chosen.strip() + rest


def split(text: str, line: int) -> list[dict[str, Any]]:
    """Return the commands of a line: words, what stands before each, and redirections. Raise NotUnderstood for a shell's syntax."""
    commands: list[dict[str, Any]] = [_new(";")]
    waiting, at = "", 0
    while at < len(text):
        if found := _TOKEN.match(text, at):
            at, operator = found.end(), found[1] or ""
            if operator:
                _require(not waiting, f"'{waiting}' without a file", line, text)
            waiting = operator if operator in _TO_FILES else waiting
            _operate(commands, operator, line, text)
            continue
        word, at = _word(text, at, line)
        if waiting:
            commands[-1]["redirects"].append([waiting, word])
            waiting = ""
        else:
            commands[-1]["words"].append(word)
    _require(not waiting, f"'{waiting}' without a file", line, text)
    if commands[-1] == _new(";"):
        commands.pop()
    _require(all(command["words"] for command in commands), "a command is missing", line, text)
    return commands


def _operate(commands: list[dict[str, Any]], operator: str, line: int, text: str) -> None:
    """Begin another command, or send what the last one says on stderr with what it prints."""
    _require(operator != "&", "a command in the background needs a shell", line, text)
    _require(operator != "<<", "'<<' needs a shell", line, text)
    if operator == "2>&1":
        commands[-1]["redirects"].append([operator, ""])
    elif operator in _JOINING:
        _require(commands[-1]["words"], "a command is missing", line, text)
        commands.append(_new(operator))


def _new(after: str) -> dict[str, Any]:
    return {"after": after, "words": [], "redirects": []}


def _require(true: object, what: str, line: int, text: str) -> None:
    if not true:
        raise NotUnderstood(f"line {line}: {what}: {text}")


def _word(text: str, at: int, line: int) -> tuple[str, int]:
    """Return the word at a place, without its quotes, and where it ends."""
    word, begin = "", at
    while at < len(text) and (found := _PIECE.match(text, at)):
        piece = found[0]
        if piece[0] != "'" and (shell := _shell_syntax(piece, text, found.end(), first=at == begin)):
            raise NotUnderstood(f"line {line}: '{shell}' needs a shell: {text}")
        if piece[0] == "'":
            word += piece[1:-1]
        elif piece[0] == '"':
            word += re.sub(r'\\(["\\])', r"\1", piece[1:-1])
        else:
            word += piece[1:] if piece[0] == "\\" else piece
        at = found.end()
    if at == begin:
        raise NotUnderstood(f"line {line}: a quote is not closed: {text}")
    return word, at


def _shell_syntax(piece: str, text: str, end: int, *, first: bool) -> str:
    """Return what in a piece of a word a shell would replace; empty for none."""
    if piece[0] == '"':
        found = re.search(r"(?<!\\)(?:`|\$[({\w])", piece)
        return found[0] if found else ""
    if piece == "$" and re.match(r"[({\w]", text[end : end + 1]):
        return piece + text[end]
    return piece if piece in "`*?" or (first and piece in "()~#") else ""


def unmet(read: Script, features: Collection[str]) -> str:
    """Return the line of a test that says that it is not for these features; empty for none."""
    for line, condition in read.requires:
        for each in filter(str.strip, condition.split(",")):
            if not holds(each, features, line):
                return f"REQUIRES: {each.strip()} (line {line})"
    for line, condition in read.unsupported:
        if holds(condition, features, line):
            return f"UNSUPPORTED: {condition} (line {line})"
    return ""


def holds(condition: str, features: Collection[str], line: int) -> bool:
    """Return whether a condition holds: features with ``&&``, ``||``, ``!`` and parentheses; a comma means or."""
    return any(_Condition(each, features, line).value() for each in condition.split(",") if each.strip())


class _Condition:
    """Reads one condition from left to right."""

    def __init__(self, text: str, features: Collection[str], line: int) -> None:
        self._features, self._line, self._text = features, line, text
        self._words: list[str] = []
        at, end = 0, len(text.rstrip())
        while at < end:
            found = _FEATURE.match(text, at)
            if found is None:
                self._fail()
            self._words.append(found[1])
            at = found.end()
        if len(self._words) > _MOST_TOKENS:
            self._fail()

    def _fail(self) -> NoReturn:
        raise NotUnderstood(f"line {self._line}: '{self._text.strip()[:200]}' is no condition of features")

    def value(self) -> bool:
        found = self._any()
        if self._words:
            self._fail()
        return found

    def _any(self) -> bool:
        return self._several("||", self._all, any)

    def _all(self) -> bool:
        return self._several("&&", self._one, all)

    def _several(self, operator: str, part: Callable[[], bool], joined: Callable[[list[bool]], bool]) -> bool:
        found = [part()]
        while self._words[:1] == [operator]:
            self._words.pop(0)
            found.append(part())
        return joined(found)

    def _one(self) -> bool:
        word = self._words.pop(0) if self._words else self._fail()
        if word == "!":
            return not self._one()
        if word == "(":
            found = self._any()
            return found if self._words and self._words.pop(0) == ")" else self._fail()
        if word in ("&&", "||", ")"):
            self._fail()
        return word in ("true", "*") or self._is_feature(word)

    def _is_feature(self, word: str) -> bool:
        parts = re.split(r"\{\{(.*?)\}\}", word)
        try:
            pattern = re.compile("".join(part if number % 2 else re.escape(part) for number, part in enumerate(parts)))
        except re.error:
            self._fail()
        return any(map(pattern.fullmatch, self._features))
