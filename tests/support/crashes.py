"""Write a catalog of faults of LLVM's releases, each in a program with sixty operations that have no part in it.

Those of a pass are IR tests of a step with that pass alone. Those of a pipeline are workloads.
"""

from __future__ import annotations

import random
import textwrap
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from mlir_matrix.actions.outcomes import Outcome

#: Operations that have no part in the fault.
PADDING = 60
#: A hang is one after so many seconds.
TIMEOUT = 5


@dataclass(frozen=True)
class PassFault:
    """A fault of a pass: the lines that show it, with ``BEFORE`` and ``AFTER`` for the other operations.

    They may use ``%m``, a ``memref<8xf32>``.
    """

    name: str
    passes: str
    release: str
    outcome: Outcome
    #: What the reason of the failure has.
    said: str
    lines: str

    @property
    def test(self) -> str:
        return f"mlir/{self.name}/ir/padded"

    @property
    def pins(self) -> Sequence[str]:
        """Options of ``matrix`` that choose the release."""
        return ("--pin", f"llvm={self.release}")

    def text(self) -> str:
        """Return the program."""
        draw = random.Random(self.name)
        values: list[str] = []
        before = [_operation(values, draw) for _ in range(PADDING // 2)]
        after = [_operation(values, draw) for _ in range(PADDING - PADDING // 2)]
        lines = textwrap.dedent(self.lines).replace("BEFORE\n", "".join(before)).replace("AFTER\n", "".join(after))
        body = textwrap.indent(lines, "  ").replace("  ^", "^")
        return f"// CHECK: func.func @main\nfunc.func @main(%m: memref<8xf32>, %i: index) {{\n{body}}}\n"

    def write(self, root: Path) -> None:
        """Write the step and its IR test."""
        step = root / "recipes/steps" / self.name
        (step / "tests").mkdir(parents=True)
        (step / "step.yaml").write_text(
            f"description: One pass.\nenvironment: mlir\naccepts: [linalg]\ngives: linalg\npasses: {self.passes}\n"
        )
        (step / "tests/padded.mlir").write_text(self.text())


def _operation(values: list[str], draw: random.Random) -> str:
    """Return an operation on earlier values, whose result joins them."""
    result = f"%p{len(values)}"
    kind = draw.randrange(4) if len(values) > 1 else 0
    a, b = (draw.choice(values[-6:]) for _ in range(2)) if len(values) > 1 else ("", "")
    if kind == 0:
        text = f"{result} = memref.load %m[%i] : memref<8xf32>\n"
    elif kind == 1:
        return f"memref.store {a}, %m[%i] : memref<8xf32>\n"
    elif kind == 2:
        text = f"{result} = arith.{draw.choice(('addf', 'subf', 'mulf', 'divf'))} {a}, {b} : f32\n"
    else:
        text = f"{result} = math.{draw.choice(('exp', 'sqrt', 'sin', 'cos'))} {a} : f32\n"
    values.append(result)
    return text


_STEP_OF_ZERO = """\
BEFORE
affine.for %j = 0 to 8 step 0 {
  %x = affine.load %m[%j] : memref<8xf32>
  affine.store %x, %m[%j] : memref<8xf32>
}
AFTER
return
"""
PASS_FAULTS = (
    PassFault(
        "divided-by-zero", "canonicalize", "17", Outcome.CRASHED, "SIGFPE",
        """\
        BEFORE
        %c5 = arith.constant 5 : index
        %q = affine.apply affine_map<(d0) -> (d0 floordiv 0)>(%c5)
        %x = memref.load %m[%q] : memref<8xf32>
        AFTER
        memref.store %x, %m[%q] : memref<8xf32>
        return
        """,
    ),
    PassFault(
        "step-of-zero", "func.func(affine-loop-unroll)", "21", Outcome.CRASHED, "SIGFPE",
        _STEP_OF_ZERO,
    ),
    PassFault(
        "factor-of-zero", "func.func(affine-loop-unroll{unroll-factor=0})", "19", Outcome.CRASHED, "SIGFPE",
        """\
        BEFORE
        affine.for %j = 0 to 8 {
          %x = affine.load %m[%j] : memref<8xf32>
          affine.store %x, %m[%j] : memref<8xf32>
        }
        AFTER
        return
        """,
    ),
    PassFault(
        "basis-of-zero", "canonicalize", "22", Outcome.CRASHED, "SIGFPE",
        """\
        %c16 = arith.constant 16 : index
        %c0 = arith.constant 0 : index
        BEFORE
        %q:2 = affine.delinearize_index %c16 into (%c16, %c0) : index, index
        AFTER
        %x = memref.load %m[%q#1] : memref<8xf32>
        memref.store %x, %m[%q#0] : memref<8xf32>
        return
        """,
    ),
    PassFault(
        "bound-of-zero", "lower-affine", "23", Outcome.CRASHED, "SIGSEGV",
        """\
        %c1 = arith.constant 1 : index
        BEFORE
        affine.for %j = 0 to affine_map<(d0) -> (d0 mod 0)>(%c1) {
          %x = affine.load %m[%j] : memref<8xf32>
          affine.store %x, %m[%j] : memref<8xf32>
        }
        AFTER
        return
        """,
    ),
    PassFault(
        "loop-without-entry", "canonicalize", "22", Outcome.TIMED_OUT, "",
        """\
        %c0 = arith.constant 0 : i32
        %c1 = arith.constant 1 : i32
        %c2 = arith.constant 2 : i32
        BEFORE
        %enter = arith.cmpi sgt, %c2, %c0 : i32
        cf.cond_br %enter, ^exit, ^header(%c2 : i32)
        ^header(%n: i32):
        %done = arith.cmpi eq, %n, %c2 : i32
        cf.cond_br %done, ^exit, ^latch
        ^latch:
        %next = arith.addi %n, %c1 : i32
        cf.br ^header(%next : i32)
        ^exit:
        AFTER
        return
        """,
    ),
    PassFault(
        "step-not-positive", "lower-affine", "17", Outcome.LOWER_FAILED, "constant step operand must be positive",
        _STEP_OF_ZERO,
    ),
    PassFault(
        "unknown-operation", "canonicalize", "15", Outcome.LOWER_FAILED, "affine.delinearize_index",
        """\
        %c4 = arith.constant 4 : index
        BEFORE
        %q:2 = affine.delinearize_index %i into (%c4, %c4) : index, index
        %x = memref.load %m[%q#1] : memref<8xf32>
        AFTER
        memref.store %x, %m[%q#0] : memref<8xf32>
        return
        """,
    ),
)  # fmt: skip


@dataclass(frozen=True)
class ProgramFault:
    """A fault of a pipeline: the lines that compute ``%y`` from ``%x``, both of ``TYPE``, and show it."""

    name: str
    cell: str
    outcome: Outcome
    said: str
    dtype: str
    maps: str
    lines: str
    #: The value of ``y`` in NumPy.
    reference: str
    pins: Sequence[str] = ()

    @property
    def test(self) -> str:
        return f"{self.cell}/{self.name}"

    def write(self, root: Path) -> None:
        """Write the workload."""
        kind = f"tensor<9x9x{self.dtype}>"
        chain, statements = _chain(self.dtype, random.Random(self.name))
        lines = textwrap.indent(textwrap.dedent(self.lines).replace("TYPE", kind), "  ")
        folder, golden = root / "matrix/workloads" / self.name, root / "golden" / self.name
        for each in (folder, golden):
            each.mkdir(parents=True)
        (folder / "linalg.mlir").write_text(
            f"#elem = affine_map<(i, j) -> (i, j)>\n{self.maps}\n"
            f"func.func @main(%x: {kind}) -> ({kind}, {kind}) {{\n{chain}{lines}  return %y, %z : {kind}, {kind}\n}}\n"
        )
        (folder / "reference.py").write_text(
            f"import numpy as np\n\n\ndef reference(x):\n{statements}    return {self.reference}, z\n"
        )
        declared = f"{{shape: [9, 9], dtype: {self.dtype}}}"
        (folder / "workload.yaml").write_text(
            f"description: Shows a fault of LLVM.\ngolden: computed\n"
            f'inputs: {{x: {{shape: [9, 9], dtype: {self.dtype}, formula: "normal(0, 1)", seed: 1}}}}\n'
            f"outputs: {{y: {declared}, z: {declared}}}\n"
        )
        (golden / "tolerances.yaml").write_text(
            f"layers: [{{atol: 0, rtol: eps({self.dtype}) * 16, rationale: One product at most is rounded.}}]\n"
        )


def _chain(dtype: str, draw: random.Random) -> tuple[str, str]:
    """Return operations from ``%x`` to ``%z`` that have no part in the fault, and the same in NumPy."""
    kind, lines, statements, last = f"tensor<9x9x{dtype}>", "", "    z = x\n", "%x"
    for at in range(PADDING // 2):
        operation, statement = draw.choice((("arith.negf", "-z"), ("math.absf", "np.abs(z)")))
        result = "%z" if at == PADDING // 2 - 1 else f"%z{at}"
        lines += (
            f"  %e{at} = tensor.empty() : {kind}\n"
            f"  {result} = linalg.generic {{indexing_maps = [#elem, #elem], iterator_types = "
            f'["parallel", "parallel"]}} ins({last} : {kind}) outs(%e{at} : {kind}) {{\n'
            f"  ^bb0(%in: {dtype}, %out: {dtype}):\n    %r = {operation} %in : {dtype}\n"
            f"    linalg.yield %r : {dtype}\n  }} -> {kind}\n"
        )
        statements += f"    z = {statement}\n"
        last = result
    return lines, statements


PROGRAM_FAULTS = (
    ProgramFault(
        "backwards", "mlir/linalg-vectorized/x86_64", Outcome.LOWER_FAILED, "", "f32",
        "#backwards = affine_map<(i, j) -> (i, 8 - j)>",
        """\
        %e = tensor.empty() : TYPE
        %y = linalg.generic {indexing_maps = [#backwards, #elem], iterator_types = ["parallel", "parallel"]}
            ins(%x : TYPE) outs(%e : TYPE) {
        ^bb0(%in: f32, %out: f32):
          linalg.yield %in : f32
        } -> TYPE
        """,
        "x[:, ::-1]",
    ),
    ProgramFault(
        "half-product", "mlir/linalg-loops/wasm32", Outcome.CRASHED, "SIGABRT", "bf16", "",
        """\
        %e = tensor.empty() : TYPE
        %y = linalg.generic {indexing_maps = [#elem, #elem], iterator_types = ["parallel", "parallel"]}
            ins(%x : TYPE) outs(%e : TYPE) {
        ^bb0(%in: bf16, %out: bf16):
          %wide = arith.extf %in : bf16 to f32
          %square = arith.mulf %wide, %wide : f32
          %narrow = arith.truncf %square : f32 to bf16
          linalg.yield %narrow : bf16
        } -> TYPE
        """,
        "x * x",
    ),
)  # fmt: skip

FAULTS: tuple[PassFault | ProgramFault, ...] = PASS_FAULTS + PROGRAM_FAULTS


def write(root: Path) -> None:
    """Write all faults."""
    for fault in FAULTS:
        fault.write(root)
