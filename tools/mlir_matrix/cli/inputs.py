"""``matrix inputs``: write the inputs of a workload as files."""

from __future__ import annotations

import json
import os
from pathlib import Path

import click

from mlir_matrix.base.errors import CatalogError, UsageError
from mlir_matrix.base.files import write_file
from mlir_matrix.base.names import check_known
from mlir_matrix.cli import options
from mlir_matrix.cli.output import show
from mlir_matrix.cli.verbs import verb
from mlir_matrix.environments.session import Session
from mlir_matrix.judge.inputs import make_inputs
from mlir_matrix.plan.request import Limits


@verb("inputs", "matrix inputs mlp --out mlp-inputs", "matrix inputs softmax --draw 3 --out softmax-3 --format json")
@click.argument("workload")
@click.option(
    "--draw",
    type=click.IntRange(0, 1_000_000),
    default=0,
    show_default=True,
    metavar="N",
    help="Write draw N of the inputs; tests run with draw 0.",
)
@click.option(
    "--out", "folder", type=options.Folder(), required=True, metavar="DIR", help="Write into DIR, new or empty."
)
@options.output_format("text", "json")
@options.session(*options.releases, options.cache)
@options.limits_without_jobs
def inputs_command(workload: str, draw: int, folder: Path, form: str, current: Session, limits: Limits) -> None:
    """Write each input of a workload to DIR/NAME.npy, and their names, shapes and dtypes to DIR/inputs.json.

    bf16 is written as its bits, in 16-bit integers. Of a program in a form of others, such as a member of a corpus, also the
    prepared program is written.
    """
    if why := current.catalog.over.get(("workloads", workload)):
        raise CatalogError(why)
    check_known("workload", [workload], current.catalog.workloads)
    if os.path.lexists(folder) and not (folder.is_dir() and not any(folder.iterdir())):
        raise UsageError(f"--out {folder}: exists and is no empty folder; nothing was written")
    files, document = make_inputs(current, current.catalog.workloads[workload], draw, limits)
    # Last, so that a folder with it is complete.
    files["inputs.json"] = (json.dumps(document, indent=1) + "\n").encode()
    for name, data in files.items():
        write_file(folder / name, data)
    shapes = ["x".join(map(str, each["shape"])) for each in document["inputs"]]
    rows = zip(document["inputs"], shapes, strict=True)
    show(form, document, (f"{folder / each['file']}  {each['dtype']}  {shape}".rstrip() for each, shape in rows))
