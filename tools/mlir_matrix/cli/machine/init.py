"""``matrix machine init``: set this machine up as a worker of Buildbot."""

from __future__ import annotations

import os
import re
import stat
from pathlib import Path
from typing import TYPE_CHECKING

import click

from mlir_matrix.base.errors import UsageError
from mlir_matrix.base.files import unwritable
from mlir_matrix.base.names import is_name, printable, why_not_a_name
from mlir_matrix.cli import options
from mlir_matrix.cli.verbs import verb
from mlir_matrix.machines.probe import probe, to_yaml
from mlir_matrix.machines.worker import Worker, worker_files

if TYPE_CHECKING:
    from mlir_matrix.environments.session import Session


@verb("init", "matrix machine init --buildbot ~/worker --master lab.example.org --name avx512 --password-file secret")
@click.option(
    "--buildbot", "folder", type=options.Folder(), required=True, metavar="DIR", help="Write the worker into DIR."
)
@click.option("--master", required=True, metavar="HOST[:PORT]", help="The master. Default port: 9989.")
@click.option("--name", required=True, metavar="NAME", help="The name of the worker, as the master knows it.")
@click.option(
    "--password-file",
    "password",
    type=options.Folder(),
    required=True,
    metavar="FILE",
    help="The file with the password of the worker; only you may read it.",
)
@click.option("--admin", default="", metavar="TEXT", help="Whom the master's pages name, e.g. 'Ada <ada@example.org>'.")
@options.session()
def init_command(folder: Path, master: str, name: str, password: Path, admin: str, current: Session) -> None:
    """Write the folder of a worker of Buildbot: buildbot.tac, a systemd unit, and what pages of the master tell of this machine.

    The password is copied to a file of mode 0600; it is in no other file and on no command line. Existing files are not
    changed: if one exists, nothing is written.
    """
    found = re.fullmatch(r"(?P<host>[A-Za-z0-9][A-Za-z0-9.-]*|\[[0-9a-f:.]+\])(?::(?P<port>\d{1,5}))?", master)
    if found is None:
        raise UsageError(f"--master {printable(master)}: expected HOST or HOST:PORT")
    if not is_name(name):
        raise UsageError(f"--name: {why_not_a_name(name)}")
    worker = Worker(
        name=name,
        host=found["host"].strip("[]"),
        port=int(found["port"] or 9989),
        folder=os.path.abspath(folder),
        admin=admin,
        host_info=to_yaml(probe(current.home, current.catalog), name),
        password=_secret(password),
    )
    files = worker_files(worker)
    for path in files:
        if os.path.lexists(folder / path):
            raise UsageError(f"{folder / path} exists; nothing was written")
    for path, (text, mode) in files.items():
        _write(folder / path, text, mode)
    click.echo(f"{folder}: the worker {name} of {master}; {folder / 'README'} tells how to start it")


def _secret(path: Path) -> str:
    """Return the first line of a file that only its owner may read."""
    try:
        mode = stat.S_IMODE(path.stat().st_mode)
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, ValueError) as error:
        raise UsageError(f"--password-file {path}: {getattr(error, 'strerror', None) or 'it is no text'}") from None
    if mode & 0o077:
        raise UsageError(f"--password-file {path}: others may read it (mode {mode:04o}); run: chmod 600 {path}")
    if not lines or not lines[0].strip():
        raise UsageError(f"--password-file {path}: it has no password")
    return lines[0].strip()


def _write(path: Path, text: str, mode: int) -> None:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode), "w", encoding="utf-8") as file:
            file.write(text)
    except OSError as error:
        raise unwritable(str(path), error) from None
