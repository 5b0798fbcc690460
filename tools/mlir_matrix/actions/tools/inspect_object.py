"""Read from an object what its code costs without running it: sizes, the share of vector arithmetic, and cycles by llvm-mca.

params   ``cpus``: the CPUs whose cycles are estimated, as LLVM names them
inputs   ``object``: the kernel's object file; with ``counts`` of ``count`` also ``kernel``, the executable that was counted
outputs  ``inspected``: JSON with ``code_bytes``, ``data_bytes``, and, if they are known, ``vector_share`` and ``cycles`` by CPU;
         ``absent``: why not, by cost

Without counts, the share is that of the instructions in innermost loops, and the cycles are those of one iteration of each.
With counts, each instruction counts as often as it was executed, and each loop as often as it was repeated.
"""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from mlir_matrix.actions.contract import Action, ActionFailed, write_json
from mlir_matrix.actions.params import InspectParams
from mlir_matrix.actions.runtime import programs

#: ``  401a2c: vfmadd231ps (%rax), %ymm0, %ymm1``, and ``  401a33: jne 0x401a20 <main+0x20>``.
_LINE = re.compile(r"^\s*([0-9a-f]+):\s+(\S+)\s*([^\n]*)$")
_TARGET = re.compile(r"0x([0-9a-f]+) <[^>]*>$")
#: A comment of x86-64 or AArch64, whose immediates are ``#1``, and the name of a branch's target.
_COMMENT = re.compile(r"\s+(?:# |//|<).*$")
_CALLS = frozenset({"call", "callq", "bl", "jal"})
#: Floating-point arithmetic of x86-64, AArch64 and RISC-V, and integer arithmetic on vectors.
_X86 = re.compile(r"v?(?:add|sub|mul|div|sqrt|min|max|fn?m(?:add|sub)\d*|fmaddsub\d*|dp)([ps])[sdh]$")
_X86_INTEGERS = re.compile(r"v?p(?:add|sub|mull|mulh|mulu|muldq|madd|min|max|dp)\w*$")
_ARM = re.compile(r"f(?:n?m(?:add|sub|ul|la|ls|in|ax|innm|axnm)|add|sub|mul|div|sqrt|ml[as]|adda|addp)\w*$")
_ARM_VECTOR = re.compile(r"\bv\d+\.\d+[a-z]|\bz\d+\.[a-z]")
_RISCV = re.compile(r"(v)?f(?:n?m(?:add|sub|acc|sac)|w?add|w?sub|w?mul|div|sqrt|min|max)\b\S*")
_TOTAL_CYCLES = re.compile(r"^Total Cycles: +(\d+)$", re.MULTILINE)
#: Iterations that llvm-mca simulates: enough that the first ones, which fill the pipeline, do not show.
_REPEATED = 50


class Instruction(NamedTuple):
    """A line of a disassembly."""

    address: int
    mnemonic: str
    operands: str
    #: Where a branch leads; -1 for other instructions.
    target: int


class Loop(NamedTuple):
    """A range of instructions that ends with a branch to its first one."""

    first: int
    last: int


def run(action: Action[InspectParams]) -> None:
    """Write what the object shows. Raise ActionFailed for a file that is no object."""
    files, cpus, triple = action.inputs, action.params["cpus"], action.params["triple"]
    found: dict[str, Any] = {**_sizes(files["object"]), "absent": {}}
    counts: dict[str, Any] = json.loads(Path(files["counts"]).read_text()) if "counts" in files else {}
    executed = {int(at, 16): count for at, count in counts.get("executed", {}).items()}
    code = disassemble(files["kernel"] if executed else files["object"])
    weights = executed or _of_innermost(code)
    loops = [each for each in innermost(code) if code[each.last].address in weights]
    share = vector_share(code, weights)
    if share is None:
        found["absent"]["vector_share"] = "its loops have no arithmetic on floating-point numbers or vectors"
    else:
        found["vector_share"] = share
    if loops and cpus:
        found["cycles"] = {cpu: _cycles(code, loops, executed, triple, cpu) for cpu in cpus}
    else:
        found["absent"] |= {f"cycles_{cpu}": "it has no loop" for cpu in cpus}
    write_json(action.outputs["inspected"], found)


def _sizes(path: str) -> dict[str, int]:
    """Return the bytes of code and of data: of the sections that are loaded, without tables for unwinding."""
    text = _output("llvm-readelf", "--sections", "--elf-output-style=JSON", path)
    sections = [each["Section"] for each in json.loads(text)[0]["Sections"]]
    code = data = 0
    for section in sections:
        flags = {each["Name"] for each in section["Flags"]["Flags"]}
        if "SHF_ALLOC" not in flags or section["Name"]["Name"].startswith(".eh_frame"):
            continue
        if "SHF_EXECINSTR" in flags:
            code += section["Size"]
        else:
            data += section["Size"]
    return {"code_bytes": code, "data_bytes": data}


def _output(program: str, *arguments: str, given: str = "") -> str:
    command = [*programs.command(program), *arguments]
    done = subprocess.run(command, input=given, capture_output=True, text=True, errors="replace", check=False)
    programs.check_started(command, done.returncode, done.stderr)
    if done.returncode != 0:
        raise ActionFailed(f"{program} cannot read the object", diagnostics=done.stderr)
    return done.stdout


def disassemble(path: str) -> list[Instruction]:
    """Return the instructions of an ELF file, in the order of their addresses."""
    return list(instructions(_output("llvm-objdump", "-d", "--no-show-raw-insn", "--mattr=+all", path)))


def instructions(text: str) -> Iterator[Instruction]:
    """Yield the instructions of a disassembly."""
    for line in text.splitlines():
        if not (match := _LINE.match(line)):
            continue
        address, mnemonic, operands = match.groups()
        target = _TARGET.search(operands)
        leads = int(target[1], 16) if target and mnemonic not in _CALLS else -1
        yield Instruction(int(address, 16), mnemonic, _COMMENT.sub("", operands), leads)


def innermost(code: Sequence[Instruction]) -> list[Loop]:
    """Return the loops that have no loop inside, by the numbers of their instructions."""
    places = {each.address: number for number, each in enumerate(code)}
    found: list[Loop] = []
    for last, each in enumerate(code):
        first = places.get(each.target, last + 1)
        if first > last:
            continue
        # Of nested loops, the inner one ends first; of two that end a loop at the same place, the later one is longer.
        if not any(first <= inner.first and inner.last <= last for inner in found):
            found.append(Loop(first, last))
    return found


def _of_innermost(code: Sequence[Instruction]) -> dict[int, int]:
    return {code[at].address: 1 for loop in innermost(code) for at in range(loop.first, loop.last + 1)}


def vector_share(code: Sequence[Instruction], weights: Mapping[int, int]) -> float | None:
    """Return the share of arithmetic instructions that work on vectors, or None without any."""
    totals = {True: 0, False: 0}
    for each in code:
        packed = _is_packed(each)
        if packed is not None:
            totals[packed] += weights.get(each.address, 0)
    total = sum(totals.values())
    return round(totals[True] / total, 4) if total else None


def _is_packed(each: Instruction) -> bool | None:
    """Return whether an arithmetic instruction works on vectors; None for other instructions."""
    if match := _X86.match(each.mnemonic):
        return match[1] == "p"
    if _X86_INTEGERS.match(each.mnemonic):
        return True
    if _ARM.match(each.mnemonic):
        return bool(_ARM_VECTOR.search(each.operands))
    if match := _RISCV.match(each.mnemonic):
        return bool(match[1])
    return None


def _cycles(
    code: Sequence[Instruction], loops: Sequence[Loop], executed: Mapping[int, int], triple: str, cpu: str
) -> float:
    """Return the cycles that a CPU takes for loops, by llvm-mca."""
    lines: list[str] = []
    for number, loop in enumerate(loops):
        lines.append(f"# LLVM-MCA-BEGIN {number}")
        lines += [f"{each.mnemonic} {each.operands}" for each in code[loop.first : loop.last + 1]]
        lines.append("# LLVM-MCA-END\n")
    views = ("--instruction-info=false", "--resource-pressure=false", "--skip-unsupported-instructions=any")
    options = (f"--mtriple={triple}", f"--mcpu={cpu}", f"--iterations={_REPEATED}", *views)
    cycles = _TOTAL_CYCLES.findall(_output("llvm-mca", *options, given="\n".join(lines)))
    total = 0.0
    for loop, found in zip(loops, cycles, strict=True):
        iterations = executed.get(code[loop.last].address, 0) if executed else 1
        total += iterations * int(found) / _REPEATED
    return round(total, 2)
