"""Make the files of a Buildbot worker."""

from __future__ import annotations

from dataclasses import dataclass

_TAC = """\
# Made by matrix machine init. Start it with: buildbot-worker start {folder}
import os

from buildbot_worker.bot import Worker
from twisted.application import service
from twisted.python.log import FileLogObserver, ILogObserver
from twisted.python.logfile import LogFile

basedir = os.path.abspath(os.path.dirname(__file__))
with open(os.path.join(basedir, "password")) as file:
    password = file.read().strip()

# buildbot-worker knows the folder of a worker by this line.
application = service.Application('buildbot-worker')
logfile = LogFile.fromFullPath(os.path.join(basedir, "twistd.log"), rotateLength=10_000_000, maxRotatedFiles=10)
application.setComponent(ILogObserver, FileLogObserver(logfile).emit)
# 600: seconds between signs of life; a lost connection is tried again, at least every 300 s.
Worker({host!r}, {port}, {name!r}, password, basedir, 600, umask=0o022, maxdelay=300).setServiceParent(application)
"""
_UNIT = """\
[Unit]
Description=Buildbot worker {name}
Wants=network-online.target
After=network-online.target

[Service]
ExecStart=/usr/bin/env buildbot-worker start --nodaemon {quoted}
Restart=on-failure
RestartSec=30
# A run that is ended writes its results first.
TimeoutStopSec=120

[Install]
WantedBy=default.target
"""
_README = """\
Start it by hand:       buildbot-worker start {folder}
Start it with systemd:  systemctl --user enable --now {folder}/buildbot-worker-{name}.service; loginctl enable-linger
Get buildbot-worker:    pip install buildbot-worker. Its log is {folder}/twistd.log.
"""


@dataclass(frozen=True, kw_only=True)
class BuildbotWorker:
    """A worker, and the master that it connects to."""

    name: str
    host: str
    port: int
    folder: str
    admin: str
    host_info: str
    password: str


def worker_files(worker: BuildbotWorker) -> dict[str, tuple[str, int]]:
    """Return text and mode of each file, by its path in the folder of the worker."""
    folder = worker.folder.replace("\\", "\\\\").replace('"', '\\"').replace("%", "%%").replace("$", "$$")
    values = {**vars(worker), "quoted": f'"{folder}"'}
    return {
        "buildbot.tac": (_TAC.format(**values | {"folder": ascii(worker.folder)}), 0o644),
        "password": (f"{worker.password}\n", 0o600),
        f"buildbot-worker-{worker.name}.service": (_UNIT.format(**values), 0o644),
        "README": (_README.format(**values), 0o644),
        "info/host": (worker.host_info, 0o644),
        "info/admin": (f"{worker.admin or 'nobody is named'}\n", 0o644),
    }
