"""Where Debian's mirror is, by the machine's own apt configuration. No address is written down here.

Machines have other archives in their configuration, too, that call their suites like Debian's. What was said of the
main archive (its keyring, its updates and backports, a path that ends with ``debian``) decides between them.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import urllib.request
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from mlir_matrix.environments.fetch.http import Routes
from mlir_matrix.errors import InfrastructureError

OVERRIDE = "MATRIX_DEB_MIRROR"
_SUITE = re.compile(
    r"(?:bullseye|bookworm|trixie|forky|duke|sid|unstable|testing|stable|oldstable|oldoldstable|experimental|rc-buggy)"
    r"(?:-updates|-backports(?:-sloppy)?|-proposed-updates)?"
)
_SCHEMES = ("http://", "https://", "file:/")
_PROXY = re.compile(r'Acquire::(?P<scheme>https?)::Proxy(?:::(?P<host>[^\s:]+))? "(?P<proxy>[^"]+)";', re.IGNORECASE)
_AUTHORITIES = re.compile(r'^Acquire::https::CaInfo "([^"]+)";', re.IGNORECASE | re.MULTILINE)


@dataclass(frozen=True, kw_only=True)
class Source:
    """An archive of packages that apt knows."""

    base: str
    suites: tuple[str, ...]
    components: tuple[str, ...]
    signed_by: str = ""

    @property
    def likeness(self) -> int:
        """How much it looks like Debian's main archive; 0 for what cannot be it."""
        if "main" not in self.components or not any(_SUITE.fullmatch(suite) for suite in self.suites):
            return 0
        if not self.base.startswith(_SCHEMES) or "security" in self.base.rpartition("/")[2]:
            return 0
        return (
            1
            + any("-" in suite and _SUITE.fullmatch(suite) is not None for suite in self.suites)
            + ("debian-archive" in self.signed_by)
            + self.base.endswith("/debian")
        )


@dataclass(frozen=True, kw_only=True)
class Mirrors:
    """Addresses of the same archive, the first one first, and the keyring that its index is signed with, if one is named."""

    bases: tuple[str, ...]
    signed_by: str = ""


def find_mirrors(*, etc: Path = Path("/etc/apt"), environment: Mapping[str, str] = os.environ) -> Mirrors:
    """The mirrors of this machine, or those of ``MATRIX_DEB_MIRROR``. Raises InfrastructureError where there are none."""
    sources = [source for source in read_sources(etc) if source.likeness]
    best = max((source.likeness for source in sources), default=0)
    sources = [source for source in sources if source.likeness == best]
    signed_by = next((source.signed_by for source in sources if source.signed_by), "")
    override = tuple(base.rstrip("/") for base in environment.get(OVERRIDE, "").split())
    for base in override:
        if not base.startswith(_SCHEMES):
            raise InfrastructureError(
                f"{OVERRIDE}: '{base}' is no address of a mirror; expected http://…, https://… or file:/…"
            )
    bases = override or tuple(dict.fromkeys(source.base for source in sources))
    if not bases:
        raise InfrastructureError(
            f"no mirror of Debian is known: there is none in apt's configuration ({etc}); set {OVERRIDE} to the address of "
            "one, or bring the packages along with --from DIR"
        )
    return Mirrors(bases=bases, signed_by=signed_by)


def read_sources(etc: Path) -> list[Source]:
    """Every source of binary packages, in apt's order. What cannot be read or parsed is left to apt to complain about."""
    found: list[Source] = []
    parts = etc / "sources.list.d"
    for path in (etc / "sources.list", *(sorted(parts.iterdir()) if parts.is_dir() else ())):
        try:
            text = path.read_text(encoding="utf-8", errors="replace")
        except OSError:
            continue
        if path.suffix == ".list":
            found += parse_list(text)
        elif path.suffix == ".sources":
            found += parse_deb822(text)
    return found


def parse_list(text: str) -> Iterator[Source]:
    """Sources of the old form: ``deb [option=value …] address suite component…``."""
    for line in text.splitlines():
        match = re.fullmatch(r"\s*deb\s+(?:\[([^]]*)\]\s*)?([^\s#]+)\s+([^\s#]+)\s*([^#]*)(?:#.*)?", line)
        if match is not None:
            options = dict(word.partition("=")[::2] for word in (match[1] or "").split())
            yield Source(
                base=match[2].rstrip("/"),
                suites=(match[3],),
                components=tuple(match[4].split()),
                signed_by=_keyring(options.get("signed-by", "")),
            )


def parse_deb822(text: str) -> Iterator[Source]:
    """Sources of the new form: paragraphs of fields."""
    for paragraph in re.split(r"\n\s*\n", text):
        fields = _fields(paragraph.splitlines())
        if "deb" not in fields.get("types", "").split() or fields.get("enabled", "yes").strip().lower() in (
            "no",
            "false",
        ):
            continue
        for address in fields.get("uris", "").split():
            yield Source(
                base=address.rstrip("/"),
                suites=tuple(fields.get("suites", "").split()),
                components=tuple(fields.get("components", "").split()),
                signed_by=_keyring(fields.get("signed-by", "")),
            )


def source_line(base: str, suite: str, signed_by: str) -> str:
    """The line for a private ``sources.list``."""
    options = f"arch=amd64 signed-by={signed_by}" if signed_by else "arch=amd64"
    return f"deb [{options}] {base} {suite} main\n"


def settings() -> str:
    """What ``apt-config dump`` says; nothing where there is no apt."""
    if shutil.which("apt-config") is None:
        return ""
    return subprocess.run(["apt-config", "dump"], capture_output=True, text=True, errors="replace", check=False).stdout


def routes(dump: str) -> Routes:
    """How apt reaches mirrors: its own proxies and certificates, else those of the environment."""
    proxies = urllib.request.getproxies()
    for match in filter(None, map(_PROXY.fullmatch, dump.splitlines())):
        scheme = match["scheme"].lower()
        proxies[f"{scheme}://{match['host']}" if match["host"] else scheme] = match["proxy"]
    authorities = _AUTHORITIES.search(dump)
    return Routes(proxies=proxies, authorities=authorities[1] if authorities else "")


def kept_settings(dump: str) -> str:
    """Of ``apt-config dump``, how this machine reaches mirrors at all: proxies and certificates. Nothing else is taken over."""
    kept = re.compile(r"Acquire::https?::\S*(?:Proxy|CaInfo|CAInfo|SslCert|SslKey|Verify)\S* \"[^\"]*\";")
    return "".join(f"{line}\n" for line in dump.splitlines() if kept.fullmatch(line))


def _fields(lines: Iterable[str]) -> dict[str, str]:
    fields: dict[str, str] = {}
    name = ""
    for line in lines:
        if line.startswith("#"):
            continue
        if line[:1].isspace():
            fields[name] = fields.get(name, "") + "\n" + line.strip()
        else:
            name, _, value = line.partition(":")
            name = name.strip().lower()
            fields[name] = value.strip()
    return fields


def _keyring(value: str) -> str:
    """The file with the keys; a key that is written out, or that is only named, is apt's own business."""
    words = value.split()
    if len(words) == 1 and words[0].startswith("/") and shlex.quote(words[0]) == words[0]:
        return words[0]
    return ""
