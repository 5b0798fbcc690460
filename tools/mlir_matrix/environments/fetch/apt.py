"""Find the closure of Debian packages for a lock file by apt, with a separate state and without installing anything.

The status file in this state makes the closure complete down to the C library, so that a prefix runs on any distribution. apt
uses the machine's proxies, certificates and keys, but not its lists, preferences, hooks and installed packages.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import urllib.parse
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from mlir_matrix.base.digest import digest_value
from mlir_matrix.base.errors import InfrastructureError
from mlir_matrix.base.files import locked, unwritable
from mlir_matrix.environments.fetch.apt_sources import Mirrors, find_mirrors, kept_settings, settings
from mlir_matrix.environments.lockfiles.debian import DebianPackage
from mlir_matrix.environments.machine import HOST, Architecture

_INSTALLED = """\
Package: {}
Status: install ok installed
Architecture: all
Multi-Arch: foreign
Maintainer: nobody
Version: 9999:1
Description: left out

"""
_CONFIGURATION = """\
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
APT::Architecture "{machine}";
APT::Architectures "{machine}";
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
_URI = re.compile(r"'(?P<address>[^']+)' (?P<file>\S+) (?P<size>\d+)(?: \S*)?")
_REQUIRED = {"Package", "Version", "Filename", "Size", "SHA256"}


@dataclass(frozen=True, kw_only=True)
class Asked:
    """The request for a lock file: packages with all that they need, and some without (``alone``)."""

    packages: tuple[str, ...]
    alone: tuple[str, ...] = ()
    #: Packages to omit: they count as installed.
    without: tuple[str, ...] = ()
    suites: tuple[str, ...] = ()
    #: The upstream version that packages of the first one's source must have; any if empty.
    release: str = ""
    architecture: Architecture = HOST


def solve(asked: Asked, *, state: Path, mirrors: Mirrors | None = None) -> tuple[DebianPackage, ...]:
    """Return the packages for a lock file, sorted. The first suite is preferred. Raise InfrastructureError."""
    if shutil.which("apt-get") is None:
        raise InfrastructureError("no apt-get on PATH: only a Debian machine can lock Debian packages")
    mirrors = mirrors or find_mirrors()
    identity = [list(asked.suites), list(mirrors.bases), mirrors.signed_by]
    key = digest_value(identity if asked.architecture == HOST else [*identity, asked.architecture.name])[:8]
    folder = Path(os.path.abspath(state)) / f"{'+'.join(asked.suites)}-{key}"
    try:
        for name in ("lists/partial", "cache/archives/partial"):
            (folder / name).mkdir(parents=True, exist_ok=True)
        with locked(folder.with_suffix(".lock")):
            return tuple(sorted(_Apt(asked, folder, mirrors).solve()))
    except OSError as error:
        raise unwritable(f"the state of apt cannot be written to {folder}", error) from None


def upstream(version: str) -> str:
    """Return the upstream part of a Debian version: 19.1.7 of ``1:19.1.7-3~deb12u1``."""
    rest = version.partition(":")[2] or version
    return rest.rpartition("-")[0] or rest


def is_release(version: str, release: str) -> bool:
    """Return whether a Debian version is of ``release``: repacked sources (``+ds``) are, candidates (``~rc1``) are not."""
    return upstream(version).partition("+")[0] == release or upstream(version) == release


class _Apt:
    """Calls of apt with the state in ``folder``."""

    def __init__(self, asked: Asked, folder: Path, mirrors: Mirrors) -> None:
        self._asked = asked
        self._folder = folder
        self._mirrors = mirrors
        self._suites = " and ".join(asked.suites)
        self._prefer = ("-t", asked.suites[0]) if len(asked.suites) > 1 else ()

    def solve(self) -> Iterator[DebianPackage]:
        (self._folder / "status").write_text("".join(map(_INSTALLED.format, self._asked.without)), encoding="utf-8")
        self._update()
        # A package of ``alone`` may be in the closure of the others.
        chosen = {each[0]: each for each in self._closure()}.values()
        names = [f"{name}={version}" for name, version, _ in chosen]
        index = {tuple(map(each.get, ("Package", "Version", "Filename"))): each for each in self._stanzas(names)}
        self._check_release(index.values())
        suites = self._suites_of([name for name, _, _ in chosen])
        for name, version, path in chosen:
            stanza = index.get((name, version, path))
            if stanza is None:
                raise InfrastructureError(f"apt would download {name} {version} from {path}, which is not in its index")
            yield DebianPackage(
                name=name, version=version, size=int(stanza["Size"]),
                installed=int(stanza.get("Installed-Size", "0")) * 1024, sha256=stanza["SHA256"],
                suite=suites.get((name, version), self._asked.suites[0]), path=path,
            )  # fmt: skip

    def _update(self) -> None:
        """Download the index from the first mirror that has it."""
        machine = self._asked.architecture.debian
        for base in self._mirrors.bases:
            # Without the machine's configuration, whose hooks would run and remove files.
            configuration = _CONFIGURATION.format(folder=self._folder, machine=machine) + kept_settings(settings())
            (self._folder / "apt.conf").write_text(configuration, encoding="utf-8")
            options = f"arch={machine}"
            if self._mirrors.signed_by:
                options += f" signed-by={self._mirrors.signed_by}"
            lines = (f"deb [{options}] {base} {suite} main\n" for suite in self._asked.suites)
            (self._folder / "sources.list").write_text("".join(lines), encoding="utf-8")
            # Without this option, apt only warns of errors of a mirror if it has an older index.
            code, out, error = self._call("apt-get", "update", "-o", "APT::Update::Error-Mode=any")
            if code == 0:
                return
        reasons = [line for line in (out + error).splitlines() if line.startswith(("E:", "W:", "Err:"))]
        unknown = "does not have a Release file" in error or "404" in error
        hint = f"; does the mirror have the suites {self._suites}?" if unknown else ""
        raise InfrastructureError(f"apt has no index of {self._suites}: {' '.join(reasons[:3])}{hint}")

    def _closure(self) -> Iterator[tuple[str, str, str]]:
        """Yield name, version and path of each package."""
        for command, names in (("install", self._asked.packages), ("download", self._asked.alone)):
            if not names:
                continue
            code, out, error = self._call("apt-get", "-y", "--print-uris", *self._prefer, command, "--", *names)
            if code != 0:
                reasons = [line.strip() for line in (out + error).splitlines() if line.startswith(("E:", " "))]
                raise InfrastructureError(
                    f"no solution for {', '.join(names)} in {self._suites}; apt reports: {' '.join(reasons[:4]) or 'nothing'}"
                )
            for match in filter(None, map(_URI.fullmatch, out.splitlines())):
                name, version = urllib.parse.unquote(match["file"]).split("_")[:2]
                yield name, version, "pool/" + urllib.parse.unquote(match["address"]).partition("/pool/")[2]

    def _stanzas(self, names: Iterable[str]) -> Iterator[dict[str, str]]:
        """Yield the entries of packages in the index."""
        _, out, _ = self._call("apt-cache", "show", *names)
        for stanza in out.split("\n\n"):
            fields = dict(line.split(": ", 1) for line in stanza.splitlines() if ": " in line and line[0] != " ")
            if fields.keys() >= _REQUIRED:
                yield fields

    def _suites_of(self, names: Iterable[str]) -> dict[tuple[str, str], str]:
        """Return the first suite that has each version of these packages."""
        _, out, _ = self._call("apt-cache", "madison", *names)
        found: dict[tuple[str, str], str] = {}
        for line in out.splitlines():
            # name | version | mirror suite/component architecture Packages
            name, version, where = (word.strip() for word in line.split("|", 2))
            found.setdefault((name, version), where.split()[1].partition("/")[0])
        return found

    def _check_release(self, stanzas: Iterable[Mapping[str, str]]) -> None:
        """Raise InfrastructureError if the suites have another version than the release."""
        by_name = {stanza["Package"]: stanza for stanza in stanzas}
        main = by_name.get(self._asked.packages[0]) if self._asked.packages else None
        if not self._asked.release or main is None:
            return
        for name in (*self._asked.packages, *self._asked.alone):
            version = by_name.get(name, main)["Version"]
            if _source(by_name.get(name, main)) == _source(main) and not is_release(version, self._asked.release):
                raise InfrastructureError(
                    f"{name} is {version} (upstream {upstream(version)}) in {self._suites}, not {self._asked.release}; "
                    "name a suite that has it, or the release that these have"
                )

    def _call(self, *command: str) -> tuple[int, str, str]:
        environment = {**os.environ, "APT_CONFIG": str(self._folder / "apt.conf"), "LC_ALL": "C.UTF-8", "LANGUAGE": "C"}
        done = subprocess.run(
            command, env=environment, stdin=subprocess.DEVNULL, capture_output=True, text=True, errors="replace", check=False
        )  # fmt: skip
        return done.returncode, done.stdout, done.stderr


def _source(stanza: Mapping[str, str]) -> str:
    return stanza.get("Source", stanza["Package"]).partition(" ")[0]
