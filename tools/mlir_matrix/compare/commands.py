"""``matrix compare``: compare the numbers in two files or folders."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar, cast

import click

from mlir_matrix.base.errors import UsageError
from mlir_matrix.cli import options
from mlir_matrix.cli.output import note, show, warn
from mlir_matrix.cli.verbs import verb

if TYPE_CHECKING:
    from mlir_matrix.actions.numerics.criteria import Special, Subnormals, Zeros
    from mlir_matrix.compare.documents import Compared, Comparisons
    from mlir_matrix.compare.result import Comparison
    from mlir_matrix.compare.trees import CompareOptions, Found

F = TypeVar("F", bound=Callable[..., object])


@dataclass(frozen=True, kw_only=True)
class ComparisonRequest:
    """What the files are, and how they may differ."""

    rtol: float | None
    atol: float | None
    max_ulp: float | None
    l1: float | None
    l2: float | None
    max_norm: float | None
    cosine: float | None
    nan: Special
    inf: Special
    zeros: Zeros
    subnormals: Subnormals
    dtype: str | None
    shape: str | None
    golden: bool
    ignore_whitespace: bool


class Bound(click.ParamType[float]):
    """A number, or an expression like those of tolerances."""

    name = "bound"

    def convert(self, value: float | str, param: click.Parameter | None, ctx: click.Context | None) -> float:
        from mlir_matrix.compare.rules import read_bound

        try:
            return read_bound(value)
        except ValueError as error:
            self.fail(str(error), param, ctx)


def _choice(name: str, *values: str, explained: str) -> Callable[[F], F]:
    return click.option(name, type=click.Choice(values), default=values[0], show_default=True, help=explained)


@verb(
    "compare",
    "matrix compare out.npy expected.npy --rtol 1e-5 --atol 1e-6",
    "matrix compare out.bin expected.bin --dtype bf16 --shape 128,256 --max-ulp 2",
    "matrix compare run.txt reference.txt --atol 1e-9 --rtol 1e-9",
    "matrix compare results/ golden/ --rtol '4*eps(f32)' --format json",
)
@click.argument("actual", type=click.Path(path_type=Path))
@click.argument("expected", type=click.Path(path_type=Path))
@click.option("--rtol", type=Bound(), help="Bound the error relative to the expected element.")
@click.option("--atol", type=Bound(), help="Bound the absolute error; added to the relative bound.")
@click.option("--max-ulp", type=Bound(), help="Also accept an element within BOUND units in the last place.")
@click.option("--l1", type=Bound(), help="Bound the relative L1 norm of the error.")
@click.option("--l2", type=Bound(), help="Bound the relative L2 norm of the error.")
@click.option("--max-norm", type=Bound(), help="Bound the relative maximum norm of the error.")
@click.option(
    "--cosine", type=click.FloatRange(-1, 1), metavar="COSINE", help="Require at least this cosine similarity."
)
@_choice("--nan", "same", "refuse", explained="Accept NaN only where it is expected, or never.")
@_choice("--inf", "same", "refuse", explained="Accept infinities only where expected, or never.")
@_choice("--zeros", "same", "distinct", explained="Treat 0 and -0 as equal, or not.")
@_choice("--subnormals", "keep", "flush", explained="Keep subnormals, or flush them to 0.")
@click.option(
    "--dtype",
    metavar="DTYPE",
    help="Read raw files, or .npy files that hold bits, as DTYPE: f32, bf16, f8E4M3FN, …",
)
@click.option("--shape", metavar="SIZES", help="Read raw files with this shape, e.g. 128,256.")
@click.option("--golden", is_flag=True, help="Read EXPECTED as float64, whatever the dtype of ACTUAL.")
@click.option(
    "--ignore-whitespace", is_flag=True, help="Ignore line breaks in text. Other whitespace is never compared."
)
@click.option(
    "--picture", type=options.NewFile(), metavar="FILE", help="Draw a map of the error to FILE, .png or .svg."
)
@options.output_format("text", "json")
@options.as_dataclass("request", ComparisonRequest)
def compare_command(
    actual: Path, expected: Path, *, form: str, picture: Path | None, request: ComparisonRequest
) -> int:
    """Compare the numbers in ACTUAL with those in EXPECTED.

    Each is a .npy, .npz, raw or text file, or a folder of such files. An element is right if |a - e| <= atol + rtol * |e|, or if
    it is within --max-ulp. Bounds that are not given are 0. Norms bound the whole output. Dtypes and shapes must be equal.

    Exit code: 0 everything agrees; 1 something differs; 2 an input cannot be read.
    """
    from mlir_matrix.compare.result import Comparison
    from mlir_matrix.compare.trees import compare_paths

    if picture is not None and picture.suffix not in (".png", ".svg"):
        raise UsageError(f"--picture {picture}: a map is a .png or .svg file")
    found: list[Found] = []
    shown: Comparison | None = None
    for one in compare_paths(actual, expected, _how(request)):
        found.append(one)
        if isinstance(one, Comparison):
            # The picture shows the first mismatch. Other files need not stay open.
            better = picture is not None and "wrong" in one.record and (shown is None or (bool(shown) and not one))
            unused, shown = (shown, one) if better else (one, shown)
            if unused is not None:
                unused.release()
    document = _document(found)
    show(form, document, _lines(document))
    if picture is not None:
        if shown is None:
            raise UsageError(f"--picture {picture}: no arrays could be compared, so there is nothing to draw")
        shown.picture(picture)
        note(f"{picture} shows {shown.record['name'] or 'the error'}")
    return 2 if document["summary"]["unreadable"] else 1 if document["summary"]["mismatch"] else 0


def _how(request: ComparisonRequest) -> CompareOptions:
    from mlir_matrix.actions.numerics.dtypes import STORAGE
    from mlir_matrix.base.names import did_you_mean
    from mlir_matrix.compare.files import Raw, parse_shape
    from mlir_matrix.compare.rules import rules
    from mlir_matrix.compare.trees import CompareOptions

    dtype, shape = request.dtype, request.shape
    if dtype is not None and dtype not in STORAGE:
        raise UsageError(
            f"--dtype: there is no dtype {dtype!r}{did_you_mean(dtype, STORAGE)}; known: {', '.join(STORAGE)}"
        )
    if shape is not None and dtype is None:
        raise UsageError("--shape requires --dtype")
    raw = Raw(dtype=dtype, shape=None if shape is None else parse_shape(shape)) if dtype is not None else None
    if request.cosine is not None and math.isnan(request.cosine):
        raise UsageError("--cosine nan: a cosine is a number from -1 to 1")
    asked = rules(
        atol=request.atol, rtol=request.rtol, max_ulp=request.max_ulp, l1=request.l1, l2=request.l2,
        max_norm=request.max_norm, cosine=request.cosine, nan=request.nan, inf=request.inf, zeros=request.zeros,
        subnormals=request.subnormals,
    )  # fmt: skip
    return CompareOptions(rules=asked, raw=raw, golden=request.golden, any_space=request.ignore_whitespace)


def _document(found: list[Found]) -> Comparisons:
    from mlir_matrix.compare.trees import Unreadable

    comparisons: list[Compared] = [
        {"name": one.name, "outcome": "unreadable", "reason": one.reason}
        if isinstance(one, Unreadable)
        else cast("Compared", dict(one.record))
        for one in found
    ]
    outcomes = [entry["outcome"] for entry in comparisons]
    return {
        "schema": "mlir-matrix/comparison/v1",
        "comparisons": comparisons,
        "summary": {
            "total": len(found),
            "pass": outcomes.count("pass"),
            "mismatch": outcomes.count("mismatch"),
            "unreadable": outcomes.count("unreadable"),
        },
    }


def _lines(document: Comparisons) -> Iterator[str]:
    from mlir_matrix.base.names import printable
    from mlir_matrix.compare.report import render

    for entry in document["comparisons"]:
        if entry["outcome"] == "unreadable":
            warn(printable(entry["reason"], 600))
            continue
        # The name of a file may have any characters.
        name = printable(entry["name"], 400)
        reason = entry["reason"].removeprefix(f"{entry['name']}: ") if name else entry["reason"]
        yield f"{entry['outcome']}{f' {name}' if name else ''}: {printable(reason, 600)}"
        if entry["outcome"] == "mismatch" and "wrong" in entry:
            yield render({"outputs": [{**entry, "name": name}]})
    summary = document["summary"]
    if summary["total"] > 1:
        counts = {"pass": summary["pass"], "mismatch": summary["mismatch"], "unreadable": summary["unreadable"]}
        yield f"\n{summary['total']} comparisons: {', '.join(f'{count} {word}' for word, count in counts.items() if count)}"
