"""Find Debian's mirror in apt's configuration."""

from __future__ import annotations

import os
from pathlib import Path

import hypothesis
import pytest
from hypothesis import strategies
from urllib3.util import parse_url

from mlir_matrix.base.errors import InfrastructureError, UnavailableError
from mlir_matrix.environments.fetch.apt_sources import (
    AptSource,
    Mirrors,
    find_mirrors,
    kept_settings,
    parse_deb822,
    parse_list,
    routes,
)
from mlir_matrix.environments.fetch.http import Routes

MIRROR, OTHER = "http://mirror.invalid/debian", "https://other.invalid/linux"
KEYS = "/usr/share/keyrings/debian-archive-keyring.gpg"
DEB822 = f"""\
# a comment: with a colon
Types: deb deb-src
URIs: {MIRROR}/
Suites: bookworm
 bookworm-updates
Components: main contrib
Signed-By: {KEYS}

Types: deb
URIs: {MIRROR}-security
Suites: bookworm-security
Components: main
"""


def etc(folder: Path, **files: str) -> Path:
    """A folder like /etc/apt; '__' stands for the dot of a name."""
    (folder / "sources.list.d").mkdir(parents=True)
    for name, text in files.items():
        place = folder if name == "sources__list" else folder / "sources.list.d"
        (place / name.replace("__", ".")).write_text(text)
    return folder


def test_mirrors_from_deb822_sources(tmp_path: Path) -> None:
    found = find_mirrors(etc=etc(tmp_path, debian__sources=DEB822), environment={})
    assert found == Mirrors(bases=(MIRROR,), signed_by=KEYS)


def test_mirrors_from_one_line_sources(tmp_path: Path) -> None:
    text = (
        f"# deb {OTHER} bookworm main\n"
        f"deb [ arch=amd64 signed-by={KEYS} ] {MIRROR}/ bookworm main # why\ndeb-src {OTHER} bookworm main\n"
    )
    assert find_mirrors(etc=etc(tmp_path, sources__list=text), environment={}) == Mirrors(
        bases=(MIRROR,), signed_by=KEYS
    )


@pytest.mark.parametrize(
    "other",
    [
        f"deb {OTHER} stable main", f"deb {OTHER} bookworm stable", f"deb {OTHER}/debian bookworm main",
        f"deb {OTHER} jammy main", f"deb {MIRROR}-security bookworm-security main", "deb cdrom:[x]/ bookworm main",
        f"deb {OTHER} ./", f"deb {OTHER}-security bookworm main",
    ],
)  # fmt: skip
def test_others_that_look_alike(tmp_path: Path, other: str) -> None:
    """They come first, and are not taken all the same."""
    found = find_mirrors(etc=etc(tmp_path, a__list=other, debian__sources=DEB822), environment={})
    assert found.bases == (MIRROR,)


def test_mirrors_of_several_files_come_in_order(tmp_path: Path) -> None:
    """In order, each once; what is switched off or is no source file does not count."""
    text = f"Types: deb\nURIs: {MIRROR} http://second.invalid/debian\nSuites: trixie\nComponents: main\n"
    off = text.replace(MIRROR, OTHER) + "Enabled: no\n"
    folder = etc(tmp_path, a__sources=text, b__sources=text, c__sources=off, d__save=off, e__list="\0garbage\xff")
    assert find_mirrors(etc=folder, environment={}).bases == (MIRROR, "http://second.invalid/debian")


def test_mirror_override_keeps_the_keyring(tmp_path: Path) -> None:
    """Its keyring stays that of the machine."""
    folder = etc(tmp_path, debian__sources=DEB822)
    found = find_mirrors(etc=folder, environment={"MATRIX_DEB_MIRROR": " file:///mnt/debian/ http://x.invalid "})
    assert found == Mirrors(bases=("file:///mnt/debian", "http://x.invalid"), signed_by=KEYS)
    with pytest.raises(InfrastructureError, match="MATRIX_DEB_MIRROR: '/mnt/debian' is not the URL of a mirror"):
        find_mirrors(etc=folder, environment={"MATRIX_DEB_MIRROR": "/mnt/debian"})


def test_missing_mirror_names_the_remedy(tmp_path: Path) -> None:
    """Name the remedy."""
    for folder in (tmp_path / "absent", etc(tmp_path / "apt", a__list="deb http://x.invalid/ubuntu jammy main")):
        with pytest.raises(UnavailableError, match=r"apt's configuration .*MATRIX_DEB_MIRROR.*--from DIR"):
            find_mirrors(etc=folder, environment={})


def test_keys_that_are_no_file() -> None:
    """Written out in the source, named by fingerprint, or with something of a shell in it: left to apt."""
    for value in ("\n -----BEGIN PGP PUBLIC KEY BLOCK-----\n .\n mQ", "ABCDEF", "/a /b", "/a]b", "$(id)"):
        (source,) = parse_deb822(f"Types: deb\nURIs: {MIRROR}\nSuites: sid\nComponents: main\nSigned-By: {value}\n")
        assert source.signed_by == ""


def test_settings_that_are_kept() -> None:
    """How to get out at all; nothing that runs anything."""
    kept = 'Acquire::http::Proxy "http://p:1/";\nAcquire::https::host.invalid::Proxy "DIRECT";\nAcquire::https::CaInfo "/x";\n'
    dump = kept + (
        'APT::Update::Post-Invoke:: "rm -f /var/cache/apt/archives/*.deb";\nAcquire::http::Proxy-Auto-Detect "/bin/x";\n'
        'Acquire::Languages "none";\nDPkg::Pre-Invoke:: "id";\nAcquire::http "";\n'
    )
    assert "Invoke" not in kept_settings(dump)
    assert kept_settings(dump).startswith(kept)


def test_how_apt_goes_there(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its own proxies and certificates go before those of the environment; anything else is not taken over."""
    for name in [name for name in os.environ if name.lower().endswith("_proxy")]:
        monkeypatch.delenv(name)
    assert routes("") == Routes(proxies={})
    monkeypatch.setenv("http_proxy", "http://environment:1/")
    monkeypatch.setenv("https_proxy", "http://environment:2/")
    dump = (
        'Acquire "";\nAcquire::http "";\nacquire::HTTP::proxy "http://apt:1/";\nAcquire::http::Proxy::own.invalid "DIRECT";\n'
        'Acquire::http::Proxy-Auto-Detect "/bin/evil";\nAcquire::https::CaInfo "/etc/own.pem";\nAcquire::https::Proxy "";\n'
    )
    found = routes(dump)
    assert found == Routes(
        proxies={"http": "http://apt:1/", "http://own.invalid": "DIRECT", "https": "http://environment:2/"},
        authorities="/etc/own.pem",
    )
    addresses = ("http://x.invalid/f", "http://own.invalid/f", "https://own.invalid/f")
    asked = [found.proxy(parse_url(address)) for address in addresses]
    assert asked == ["http://apt:1/", "", "http://environment:2/"]


@hypothesis.given(strategies.text())
def test_parsers_accept_any_text(text: str) -> None:
    for source in (*parse_list(text), *parse_deb822(text)):
        assert isinstance(source, AptSource)
        assert source.likeness >= 0
