"""``matrix compare``: compare the numbers in two files or folders."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import click

from mlir_matrix.cli.lazy import Verb
from mlir_matrix.cli.options import NewFile, format_option
from mlir_matrix.errors import UsageError

if TYPE_CHECKING:
    from mlir_matrix.compare.result import Comparison
    from mlir_matrix.compare.trees import Found, How
    from mlir_matrix.report.schemas.comparison import Compared, Comparisons


class Bound(click.ParamType[float]):
    """A number, or an expression as tolerances have it."""

    name = "bound"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        from mlir_matrix.compare.rules import read_bound

        try:
            return read_bound(value)
        except ValueError as error:
            self.fail(str(error), param, ctx)


@click.command(
    "compare",
    cls=Verb,
    examples=(
        "matrix compare out.npy expected.npy --rtol 1e-5 --atol 1e-6",
        "matrix compare out.bin expected.bin --dtype bf16 --shape 128,256 --max-ulp 2",
        "matrix compare run.txt reference.txt --atol 1e-9 --rtol 1e-9",
        "matrix compare results/ golden/ --rtol '4*eps(f32)' --format json",
    ),
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
@click.option(
    "--nan",
    type=click.Choice(["same", "refuse"]),
    default="same",
    show_default=True,
    help="Accept NaN only where it is expected, or never.",
)
@click.option(
    "--inf",
    type=click.Choice(["same", "refuse"]),
    default="same",
    show_default=True,
    help="Accept infinities only where expected, or never.",
)
@click.option(
    "--zeros",
    type=click.Choice(["same", "distinct"]),
    default="same",
    show_default=True,
    help="Treat 0 and -0 as equal, or not.",
)
@click.option(
    "--subnormals",
    type=click.Choice(["keep", "flush"]),
    default="keep",
    show_default=True,
    help="Keep subnormals, or flush them to 0.",
)
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
@click.option("--picture", type=NewFile(), metavar="FILE", help="Draw a map of the error to FILE, .png or .svg.")
@format_option("text", "json")
def command(
    actual: Path,
    expected: Path,
    *,
    form: str,
    picture: Path | None,
    dtype: str | None,
    shape: str | None,
    golden: bool,
    ignore_whitespace: bool,
    **bounds: Any,
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
    how = _how(dtype, shape, golden=golden, any_space=ignore_whitespace, bounds=bounds)
    found: list[Found] = []
    shown: Comparison | None = None
    for one in compare_paths(actual, expected, how):
        found.append(one)
        if isinstance(one, Comparison):
            # Of several, the picture shows the first that is wrong. What it does not show need not stay open.
            better = picture is not None and "wrong" in one.record and (shown is None or (bool(shown) and not one))
            unused, shown = (shown, one) if better else (one, shown)
            if unused is not None:
                unused.release()
    if form == "json":
        click.echo(json.dumps(_document(found), indent=2))
    else:
        _print(found)
    if picture is not None:
        _draw(shown, picture)
    return _code(found)


def _how(dtype: str | None, shape: str | None, *, golden: bool, any_space: bool, bounds: dict[str, Any]) -> How:
    from mlir_matrix.actions.numerics.dtypes import STORAGE
    from mlir_matrix.compare.files import Raw, parse_shape
    from mlir_matrix.compare.rules import rules
    from mlir_matrix.compare.trees import How
    from mlir_matrix.names import did_you_mean

    if dtype is not None and dtype not in STORAGE:
        raise UsageError(
            f"--dtype: there is no dtype {dtype!r}{did_you_mean(dtype, STORAGE)}; there are {', '.join(STORAGE)}"
        )
    if shape is not None and dtype is None:
        raise UsageError("--shape requires --dtype")
    raw = Raw(dtype=dtype, shape=None if shape is None else parse_shape(shape)) if dtype is not None else None
    if bounds["cosine"] is not None and math.isnan(bounds["cosine"]):
        raise UsageError("--cosine nan: a cosine is a number from -1 to 1")
    return How(rules=rules(**bounds), raw=raw, golden=golden, any_space=any_space)


def _outcome(one: Found) -> str:
    from mlir_matrix.compare.trees import Unreadable

    return "unreadable" if isinstance(one, Unreadable) else "pass" if one else "mismatch"


def _code(found: list[Found]) -> int:
    outcomes = {_outcome(one) for one in found}
    return 2 if "unreadable" in outcomes else 1 if "mismatch" in outcomes else 0


def _compared(one: Found) -> Compared:
    from mlir_matrix.compare.trees import Unreadable

    if isinstance(one, Unreadable):
        return {"name": one.name, "outcome": "unreadable", "reason": one.reason}
    return cast("Compared", dict(one.record))


def _document(found: list[Found]) -> Comparisons:
    outcomes = [_outcome(one) for one in found]
    return {
        "schema": "mlir-matrix/comparison/v1",
        "comparisons": [_compared(one) for one in found],
        "summary": {
            "total": len(found),
            "pass": outcomes.count("pass"),
            "mismatch": outcomes.count("mismatch"),
            "unreadable": outcomes.count("unreadable"),
        },
    }


def _print(found: list[Found]) -> None:
    from mlir_matrix.compare.result import Comparison
    from mlir_matrix.compare.trees import Unreadable
    from mlir_matrix.names import printable

    for one in found:
        if isinstance(one, Unreadable):
            click.echo(f"matrix: {printable(one.reason, 600)}", err=True)
            continue
        # The name of a file may be anything.
        name = printable(one.record["name"], 400)
        click.echo(f"{_outcome(one)}{f' {name}' if name else ''}: {printable(_reason(one.record), 600)}")
        if not one and "wrong" in one.record:
            click.echo(Comparison({**one.record, "name": name}).report())
    if len(found) > 1:
        outcomes = [_outcome(one) for one in found]
        counts = [f"{outcomes.count(word)} {word}" for word in ("pass", "mismatch", "unreadable") if word in outcomes]
        click.echo(f"\n{len(found)} comparisons: {', '.join(counts)}")


def _reason(record: Any) -> str:
    """Without the name, which stands before it."""
    reason = str(record["reason"])
    return reason.removeprefix(f"{record['name']}: ") if record["name"] else reason


def _draw(chosen: Comparison | None, picture: Path) -> None:
    if chosen is None:
        raise UsageError(f"--picture {picture}: nothing could be compared, so that there is nothing to draw")
    chosen.picture(picture)
    click.echo(f"{picture} shows {chosen.record['name'] or 'the error'}", err=True)
