"""Simulate a module by Icarus Verilog: its preprocessor, its compiler, its simulator."""

from __future__ import annotations

import math
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy

from mlir_matrix.actions.api import Action, ActionFailed, Tensor, library, read_text, run_program

DTYPES = {
    "i64": "i8", "i32": "i4", "i16": "i2", "i8": "i1", "u64": "u8", "u32": "u4", "u16": "u2", "u8": "u1", "bool": "?",
}  # fmt: skip
Array = numpy.ndarray[Any, Any]


def run(action: Action) -> None:
    """Read ``artifact`` and ``arg-…``, write ``out-…``."""
    inputs, outputs = action.params["arguments"], action.params["results"]
    for each in inputs:
        rows = numpy.load(action.inputs[f"arg-{each['name']}"]).reshape(_rows(each), -1)
        # The first element has the lowest bits.
        lines = [int.from_bytes(row.tobytes(), "little") for row in rows]
        Path(f"{each['name']}.hex").write_text("".join(f"{line:x}\n" for line in lines))
    verilog = read_text(action.inputs["artifact"], "the Verilog")
    Path("bench.sv").write_text(verilog + "\n".join(bench(inputs, outputs)))
    place = os.path.dirname(library("ivl/vvp.tgt"))
    run_program("ivlpp", ["-o", "all.sv", "bench.sv"], failure="Icarus cannot preprocess the Verilog")
    Path("settings").write_text(
        f"generation:2012\nroot:bench\nout:bench.vvp\nmodule:{place}/system.vpi\nflag:DLL={place}/vvp.tgt\n"
        "functor:cprop\nfunctor:nodangle\nflag:VVP_EXECUTABLE=vvp\n"
    )
    run_program("ivl", ["-Csettings", "--", "all.sv"], failure="Icarus cannot compile the Verilog")
    run_program("vvp", [f"-M{place}", "-msystem", "-n", "bench.vvp"], failure="the simulation failed")
    for each in outputs:
        numpy.save(action.outputs[f"out-{each['name']}"], _read(each))


def _rows(tensor: Tensor) -> int:
    return tensor["shape"][0] if tensor["shape"] else 1


def _bits(tensor: Tensor) -> int:
    return int(math.prod(tensor["shape"][1:])) * 8 * numpy.dtype(DTYPES[tensor["dtype"]]).itemsize


def bench(inputs: list[Tensor], outputs: list[Tensor]) -> Iterator[str]:
    """Yield the module ``bench``, which writes a file of rows for each output."""
    clocks = max(_rows(each) for each in inputs)
    yield "module bench;"
    yield "reg bench_clk = 0, bench_rst = 1; integer bench_i, bench_file;"
    for each in inputs:
        yield f"reg [{_bits(each) - 1}:0] of_{each['name']}, all_{each['name']} [0:{_rows(each) - 1}];"
    for each in outputs:
        yield f"wire [{_bits(each) - 1}:0] of_{each['name']}; reg [{_bits(each) - 1}:0] all_{each['name']} [0:{clocks - 1}];"
    ports = [f".{each['name']}(of_{each['name']})" for each in (*inputs, *outputs)]
    yield f"main dut({', '.join(['.clk(bench_clk)', '.rst(bench_rst)', *ports])});"
    yield "initial begin"
    for each in inputs:
        yield f'$readmemh("{each["name"]}.hex", all_{each["name"]}); of_{each["name"]} = 0;'
    yield "#1 bench_clk = 1; #1 bench_clk = 0; bench_rst = 0;"
    yield f"for (bench_i = 0; bench_i < {clocks}; bench_i = bench_i + 1) begin"
    for each in inputs:
        yield f"of_{each['name']} = all_{each['name']}[bench_i < {_rows(each)} ? bench_i : {_rows(each) - 1}];"
    yield "#1 bench_clk = 1; #1"
    for each in outputs:
        yield f"all_{each['name']}[bench_i] = of_{each['name']};"
    yield "bench_clk = 0;"
    yield "end"
    for each in outputs:
        first = clocks - _rows(each)
        yield f'bench_file = $fopen("{each["name"]}.out"); for (bench_i = {first}; bench_i < {clocks}; bench_i = bench_i + 1)'
        yield f'$fdisplay(bench_file, "%h", all_{each["name"]}[bench_i]); $fclose(bench_file);'
    yield "$finish; end endmodule"


def _read(tensor: Tensor) -> Array:
    """Return what the simulation has written. Raise ActionFailed for bits that are neither 0 nor 1."""
    lines = read_text(f"{tensor['name']}.out", "the output of the simulation").split()
    unknown = [i for i, line in enumerate(lines) if set(line) & set("xXzZ")]
    if unknown:
        raise ActionFailed(f"{tensor['name']} is undefined in row {unknown[0]}: {lines[unknown[0]]}")
    data = b"".join(int(line, 16).to_bytes(_bits(tensor) // 8, "little") for line in lines)
    return numpy.frombuffer(data, DTYPES[tensor["dtype"]]).reshape(tensor["shape"])
