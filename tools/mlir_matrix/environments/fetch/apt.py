"""Find the closure of Debian packages for a lock: apt solves, with a state of our own, and installs nothing.

A status file of our own makes the closure complete down to the C library, so that a prefix runs on any distribution. The
machine's own lists, preferences, hooks and installed packages play no part; its proxies, certificates and keys do.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import urllib.parse
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from mlir_matrix.digest import digest_value
from mlir_matrix.environments.fetch.apt_sources import Mirrors, find_mirrors, kept_settings, settings, source_line
from mlir_matrix.environments.lockfiles.debian import DebianPackage
from mlir_matrix.errors import InfrastructureError
from mlir_matrix.files import locked, unwritable

_INSTALLED = """\
Package: {}
Status: install ok installed
Architecture: amd64
Multi-Arch: foreign
Maintainer: nobody
Version: 9999:1
Description: left out

"""
_URI = re.compile(r"'(?P<address>[^']+)' (?P<file>\S+) (?P<size>\d+)(?: \S*)?")


@dataclass(frozen=True, kw_only=True)
class Asked:
    """What a lock is made for: packages with all that they need, and some without (``alone``)."""

    packages: tuple[str, ...]
    alone: tuple[str, ...] = ()
    #: Taken for installed: neither they are taken nor what only they need.
    without: tuple[str, ...] = ()
    suites: tuple[str, ...] = ()
    #: The upstream version that packages of the first one's source must have; any where this is empty.
    release: str = ""


def solve(asked: Asked, *, state: Path, mirrors: Mirrors | None = None) -> tuple[DebianPackage, ...]:
    """The packages for a lock, sorted. The first suite is preferred. Raises InfrastructureError with apt's words."""
    if shutil.which("apt-get") is None:
        raise InfrastructureError("there is no apt-get on PATH: locks of Debian packages are made on a Debian machine")
    mirrors = mirrors or find_mirrors()
    try:
        apt = _Apt(asked.suites, state, mirrors)
        with locked(apt.folder.with_suffix(".lock")):
            return apt.solve(asked)
    except OSError as error:
        raise unwritable("apt's state cannot be kept", error) from None


def upstream(version: str) -> str:
    """The upstream part of a Debian version: ``1:19.1.7-3~deb12u1`` is 19.1.7."""
    rest = version.partition(":")[2] or version
    return rest.rpartition("-")[0] or rest


def is_release(version: str, release: str) -> bool:
    """Whether a Debian version is of ``release``: repacked sources (``+ds``) are, candidates (``~rc1``) are not."""
    return upstream(version).partition("+")[0] == release or upstream(version) == release


class _Apt:
    """One state of apt: for these suites of this mirror."""

    def __init__(self, suites: Sequence[str], state: Path, mirrors: Mirrors) -> None:
        self._suites = suites
        self._mirrors = mirrors
        key = digest_value([list(suites), list(mirrors.bases), mirrors.signed_by])[:8]
        self.folder = Path(os.path.abspath(state)) / f"{'+'.join(suites)}-{key}"
        for name in ("lists/partial", "cache/archives/partial"):
            (self.folder / name).mkdir(parents=True, exist_ok=True)

    def solve(self, asked: Asked) -> tuple[DebianPackage, ...]:
        # Left out is what is installed already, whatever version is asked for.
        (self.folder / "status").write_text("".join(map(_INSTALLED.format, asked.without)), encoding="utf-8")
        self._update()
        chosen = self._closure(asked)
        versions = {name: version for name, version, _ in chosen}
        stanzas = list(self._stanzas(f"{name}={version}" for name, version, _ in chosen))
        _check_release(asked, stanzas)
        suites = dict(self._found_in(versions))
        packages = []
        for name, version, path in chosen:
            stanza = next((each for each in stanzas if each["Package"] == name and each["Filename"] == path), None)
            if stanza is None or stanza["Version"] != version or "SHA256" not in stanza:
                raise InfrastructureError(
                    f"apt would fetch {name} {version} from {path}, but its index does not have that"
                )
            packages.append(
                DebianPackage(
                    name=name,
                    version=version,
                    size=int(stanza["Size"]),
                    installed=int(stanza.get("Installed-Size", "0")) * 1024,
                    sha256=stanza["SHA256"],
                    suite=suites.get(name, self._suites[0]),
                    path=path,
                )
            )
        return tuple(sorted(packages))

    def _update(self) -> None:
        for base in self._mirrors.bases:
            self._configure(base)
            # Errors of a mirror are warnings to apt as long as it has an older index.
            code, out, error = self._call("apt-get", "update", "-o", "APT::Update::Error-Mode=any")
            if code == 0:
                return
        words = [line for line in (out + error).splitlines() if line.startswith(("E:", "W:", "Err:"))]
        hint = "" if _knows_suites(error) else f"; is there a suite {' and '.join(self._suites)} on the mirror?"
        raise InfrastructureError(f"apt has no index of {', '.join(self._suites)}: {' '.join(words[:3])}{hint}")

    def _configure(self, base: str) -> None:
        # Not the machine's own configuration: its hooks would run, and clean up what is not ours.
        lines = [source_line(base, suite, self._mirrors.signed_by) for suite in self._suites]
        (self.folder / "sources.list").write_text("".join(lines), encoding="utf-8")
        (self.folder / "apt.conf").write_text(_configuration(self.folder) + kept_settings(settings()), encoding="utf-8")

    def _closure(self, asked: Asked) -> list[tuple[str, str, str]]:
        """Name, version and path of each package."""
        found = {}
        for command, names in (("install", asked.packages), ("download", asked.alone)):
            if not names:
                continue
            code, out, error = self._call("apt-get", "-y", "--print-uris", *self._prefer(), command, "--", *names)
            if code != 0:
                words = [line for line in (out + error).splitlines() if line.startswith(("E:", " "))]
                where = " and ".join(self._suites)
                raise InfrastructureError(f"no solution for {', '.join(names)} in {where}; apt says: {_few(words)}")
            for match in filter(None, map(_URI.fullmatch, out.splitlines())):
                name, version = urllib.parse.unquote(match["file"]).split("_")[:2]
                found[name] = (name, version, _path(match["address"]))
        return list(found.values())

    def _stanzas(self, names: Iterator[str]) -> Iterator[dict[str, str]]:
        """What the index has about each."""
        _, out, _ = self._call("apt-cache", "show", *names)
        for stanza in out.split("\n\n"):
            fields = dict(line.split(": ", 1) for line in stanza.splitlines() if ": " in line and line[0] != " ")
            if {"Package", "Version", "Filename", "Size"} <= fields.keys():
                yield fields

    def _found_in(self, versions: dict[str, str]) -> Iterator[tuple[str, str]]:
        """The suite of each, by ``apt-cache policy``: a line for the version, and below it those that have it."""
        _, out, _ = self._call("apt-cache", *self._prefer(), "policy", *versions)
        name = version = ""
        for line in out.splitlines():
            words = line.split()
            if line and not line[0].isspace():
                name = line.rstrip(":").partition(":")[0]
            elif line.startswith((" *** ", "     ")) and len(words) in (2, 3) and words[-1].lstrip("-").isdigit():
                version = words[-2]
            elif len(words) >= 3 and "/" in words[2] and versions.get(name) == version:
                yield name, words[2].partition("/")[0]
                version = ""

    def _prefer(self) -> tuple[str, ...]:
        return ("-t", self._suites[0]) if len(self._suites) > 1 else ()

    def _call(self, *command: str) -> tuple[int, str, str]:
        environment = {**os.environ, "APT_CONFIG": str(self.folder / "apt.conf"), "LC_ALL": "C.UTF-8", "LANGUAGE": "C"}
        done = subprocess.run(
            command,
            env=environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            check=False,
        )
        return done.returncode, done.stdout, done.stderr


def _configuration(folder: Path) -> str:
    return f"""\
Dir::Etc::parts "/dev/null";
Dir::Etc::main "/dev/null";
Dir::Etc::preferences "/dev/null";
Dir::Etc::preferencesparts "/dev/null";
Dir::Etc::sourcelist "{folder}/sources.list";
Dir::Etc::sourceparts "/dev/null";
Dir::State::Lists "{folder}/lists";
Dir::State::status "{folder}/status";
Dir::State::extended_states "{folder}/extended_states";
Dir::Cache "{folder}/cache";
APT::Architecture "amd64";
APT::Architectures "amd64";
APT::Install-Recommends "false";
APT::Install-Suggests "false";
APT::Sandbox::User "root";
APT::Get::AllowUnauthenticated "false";
Acquire::AllowInsecureRepositories "false";
Acquire::Check-Valid-Until "false";
Acquire::Languages "none";
Acquire::Retries "3";
Debug::NoLocking "true";
"""


def _check_release(asked: Asked, stanzas: Sequence[dict[str, str]]) -> None:
    """Suites move on: what has the right name may have another version."""
    by_name = {stanza["Package"]: stanza for stanza in stanzas}
    main = by_name.get(asked.packages[0]) if asked.packages else None
    if not asked.release or main is None:
        return
    source = _source(main)
    for name in (*asked.packages, *asked.alone):
        stanza = by_name.get(name)
        if stanza is not None and _source(stanza) == source and not is_release(stanza["Version"], asked.release):
            raise InfrastructureError(
                f"{name} is {stanza['Version']} (upstream {upstream(stanza['Version'])}) in {' and '.join(asked.suites)}, "
                f"not {asked.release}; name a suite that has it, or the release that is there"
            )


def _source(stanza: dict[str, str]) -> str:
    return stanza.get("Source", stanza["Package"]).partition(" ")[0]


def _path(address: str) -> str:
    """From ``pool/`` on, as the index has it."""
    return "pool/" + urllib.parse.unquote(address).partition("/pool/")[2]


def _few(words: Sequence[str]) -> str:
    return " ".join(line.strip() for line in words[:4]) or "nothing"


def _knows_suites(error: str) -> bool:
    return "does not have a Release file" not in error and "404" not in error
