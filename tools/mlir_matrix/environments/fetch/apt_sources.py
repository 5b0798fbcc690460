"""Read Debian's mirrors, proxies and certificates from apt's configuration. This program contains no address of a mirror.

Machines also have other archives with suites of the same names. The main archive is recognised by its keyring, its updates and
backports, and a path that ends with ``debian``.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import urllib.request
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from email.parser import HeaderParser
from pathlib import Path

from mlir_matrix.base.errors import InfrastructureError, UnavailableError
from mlir_matrix.environments.fetch.http import Routes

OVERRIDE = "MATRIX_DEB_MIRROR"
_SUITE = re.compile(
    r"(?:bullseye|bookworm|trixie|forky|duke|sid|unstable|testing|stable|oldstable|oldoldstable|experimental|rc-buggy)"
    r"(?:-updates|-backports(?:-sloppy)?|-proposed-updates)?"
)
_SCHEMES = ("http://", "https://", "file:/")
_LINE = re.compile(r"\s*deb\s+(?:\[([^]]*)\]\s*)?([^\s#]+)\s+([^\s#]+)\s*([^#]*)(?:#.*)?")
_PROXY = re.compile(r'Acquire::(?P<scheme>https?)::Proxy(?:::(?P<host>[^\s:]+))? "(?P<proxy>[^"]+)";', re.IGNORECASE)
_AUTHORITIES = re.compile(r'^Acquire::https::CaInfo "([^"]+)";', re.IGNORECASE | re.MULTILINE)
#: Settings that may be necessary to reach a mirror. No other setting is used.
_NETWORK = re.compile(
    r"^Acquire::https?::\S*(?:Proxy|CaInfo|CAInfo|SslCert|SslKey|Verify)\S* \"[^\"\n]*\";$", re.MULTILINE
)


@dataclass(frozen=True, kw_only=True)
class AptSource:
    """An archive of packages in apt's configuration."""

    base: str
    suites: tuple[str, ...]
    components: tuple[str, ...]
    signed_by: str = ""

    @property
    def likeness(self) -> int:
        """Return how much it looks like Debian's main archive; 0 if it is another one."""
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
    """URLs of the same archive in the order of preference, and the keyring of its index, if one is named."""

    bases: tuple[str, ...]
    signed_by: str = ""


def find_mirrors(*, etc: Path = Path("/etc/apt"), environment: Mapping[str, str] = os.environ) -> Mirrors:
    """Return the mirrors in ``MATRIX_DEB_MIRROR``, else those of apt. Raise UnavailableError if there are none."""
    sources = read_sources(etc)
    best = max((source.likeness for source in sources), default=0)
    sources = [source for source in sources if source.likeness == best > 0]
    signed_by = next((source.signed_by for source in sources if source.signed_by), "")
    override = tuple(base.rstrip("/") for base in environment.get(OVERRIDE, "").split())
    for base in override:
        if not base.startswith(_SCHEMES):
            raise InfrastructureError(
                f"{OVERRIDE}: '{base}' is not the URL of a mirror; expected http://…, https://… or file:/…"
            )
    bases = override or tuple(dict.fromkeys(source.base for source in sources))
    if not bases:
        raise UnavailableError(
            f"its Debian packages need a mirror, and apt's configuration ({etc}) has none; set {OVERRIDE} to the URL of one, "
            "or name a folder with the packages: matrix toolchain fetch --from DIR"
        )
    return Mirrors(bases=bases, signed_by=signed_by)


def read_sources(etc: Path) -> list[AptSource]:
    """Return all sources of binary packages in apt's order, without those that cannot be read or parsed."""
    found: list[AptSource] = []
    parts = etc / "sources.list.d"
    for path in (etc / "sources.list", *(sorted(parts.iterdir()) if parts.is_dir() else ())):
        parse = {".list": parse_list, ".sources": parse_deb822}.get(path.suffix)
        try:
            found += parse(path.read_text(encoding="utf-8", errors="replace")) if parse else ()
        except OSError:
            continue
    return found


def parse_list(text: str) -> Iterator[AptSource]:
    """Parse one-line entries: ``deb [option=value …] URL suite component…``."""
    for match in filter(None, map(_LINE.fullmatch, text.splitlines())):
        options = dict(word.partition("=")[::2] for word in (match[1] or "").split())
        yield AptSource(
            base=match[2].rstrip("/"),
            suites=(match[3],),
            components=tuple(match[4].split()),
            signed_by=_keyring(options.get("signed-by", "")),
        )


def parse_deb822(text: str) -> Iterator[AptSource]:
    """Parse entries in deb822 format: paragraphs of fields."""
    without_comments = re.sub(r"^#.*\n?", "", text, flags=re.MULTILINE)
    for paragraph in re.split(r"\n\s*\n", without_comments):
        fields = HeaderParser().parsestr(paragraph.lstrip("\n"))
        enabled = fields.get("Enabled", "yes").strip().lower() not in ("no", "false")
        for address in fields.get("URIs", "").split() if enabled and "deb" in fields.get("Types", "").split() else ():
            yield AptSource(
                base=address.rstrip("/"),
                suites=tuple(fields.get("Suites", "").split()),
                components=tuple(fields.get("Components", "").split()),
                signed_by=_keyring(fields.get("Signed-By", "")),
            )


def _keyring(value: str) -> str:
    """Return the path of a keyring; empty for an inline key or the name of a key, which apt finds itself."""
    words = value.split()
    return words[0] if len(words) == 1 and words[0].startswith("/") and shlex.quote(words[0]) == words[0] else ""


def settings() -> str:
    """Return the output of ``apt-config dump``; empty without apt."""
    if shutil.which("apt-config") is None:
        return ""
    return subprocess.run(["apt-config", "dump"], capture_output=True, text=True, errors="replace", check=False).stdout


def routes(dump: str) -> Routes:
    """Return how apt reaches mirrors: its own proxies and certificates, else those of the environment."""
    proxies = urllib.request.getproxies()
    for match in filter(None, map(_PROXY.fullmatch, dump.splitlines())):
        scheme = match["scheme"].lower()
        proxies[f"{scheme}://{match['host']}" if match["host"] else scheme] = match["proxy"]
    authorities = _AUTHORITIES.search(dump)
    return Routes(proxies=proxies, authorities=authorities[1] if authorities else "")


def kept_settings(dump: str) -> str:
    """Return the proxies and certificates of ``apt-config dump``, as configuration."""
    return "".join(f"{line}\n" for line in _NETWORK.findall(dump))
