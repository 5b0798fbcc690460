"""Open URLs: redirections, proxies, certificates and files."""

from __future__ import annotations

import http.server
import ipaddress
import os
import ssl
import threading
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from urllib3.util import parse_url

from mlir_matrix.environments.fetch.http import (
    HttpStatusError,
    ProxyError,
    Routes,
    Transport,
    _moved,
    shown,
)
from support.loopback import Behaviour, serve

DATA = b"data"


@pytest.fixture(autouse=True)
def _no_proxies(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in os.environ if name.lower().endswith("_proxy")]:
        monkeypatch.delenv(name)


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Behaviour]:
    root = tmp_path / "www"
    for folder in (root, root / "http:" / "host.invalid"):
        folder.mkdir(parents=True)
        (folder / "f").write_bytes(DATA)
    with serve(root) as behaviour:
        yield behaviour


def read(address: str, *, start: int = 0, routes: Routes | None = None) -> bytes:
    transport = Transport(routes=lambda: routes or Routes())
    try:
        stream = transport.open(address, start)
        try:
            return stream.read(100)
        finally:
            stream.close()
    finally:
        transport.close()


def test_redirections_are_followed(server: Behaviour) -> None:
    """Follow redirections to other paths; refuse loops and unknown schemes."""
    server.redirect = "/moved/f"
    assert read(f"{server.address}/f") == DATA
    server.redirect = "ftp://127.0.0.1/f"
    with pytest.raises(HttpStatusError, match="unsupported scheme"):
        read(f"{server.address}/f")
    for circle in ("/f", ""):
        server.redirect = circle or "?"
        with pytest.raises(HttpStatusError, match="too many redirections"):
            read(f"{server.address}/f")


@pytest.mark.parametrize("proxy", [False, True])
def test_redirection_to_a_file_is_refused(server: Behaviour, tmp_path: Path, proxy: bool) -> None:
    """A server may not redirect to local files, nor to a pipe, which would block."""
    routes = Routes(proxies={"http": server.address} if proxy else {})
    os.mkfifo(tmp_path / "pipe")
    for name in ("www/f", "pipe"):
        server.redirect = (tmp_path / name).as_uri()
        with pytest.raises(HttpStatusError, match="redirected from http to file, which is not allowed"):
            read(f"{server.address}/f", routes=routes)


def test_moved_to_where_anybody_listens() -> None:
    assert _moved("http://a.invalid/f", "https://b.invalid/g") == "https://b.invalid/g"
    assert _moved("https://a.invalid/f", "/g") == "https://a.invalid/g"
    with pytest.raises(HttpStatusError, match="redirected from https to http, which"):
        _moved("https://a.invalid/f", "http://a.invalid/f")
    with pytest.raises(HttpStatusError, match="redirected to an invalid URL"):
        _moved("http://a.invalid/f", "http://[x/f")


def test_what_is_no_file(tmp_path: Path) -> None:
    """Refuse it at once: a pipe would block."""
    os.mkfifo(tmp_path / "pipe")
    for address in ((tmp_path / "pipe").as_uri(), tmp_path.as_uri(), "file:///dev/null"):
        with pytest.raises(HttpStatusError, match="403 not a regular file"):
            read(address)
    for address in ((tmp_path / "no").as_uri(), "file:///a%00b"):
        with pytest.raises(HttpStatusError, match="404 no such file"):
            read(address)


def test_file_url_is_read_from_an_offset(tmp_path: Path) -> None:
    (tmp_path / "a file").write_bytes(DATA)
    assert read((tmp_path / "a file").as_uri(), start=1) == DATA[1:]
    assert read((tmp_path / "a file").as_uri(), start=10) == b""


def test_control_characters_of_a_status_line_are_escaped() -> None:
    assert str(HttpStatusError(404, "\x1b[2J gone")) == "404 \\x1b[2J gone"


def test_passwords_are_not_shown() -> None:
    assert shown("https://user:secret@host.invalid/a@b") == "https://host.invalid/a@b"
    assert shown("file:///a@b") == "file:///a@b"


def test_a_proxy(server: Behaviour, monkeypatch: pytest.MonkeyPatch) -> None:
    """Asked for the whole address, also after it has moved; here it is one that has the file itself."""
    monkeypatch.setenv("http_proxy", server.address)
    assert read("http://host.invalid/f") == read("http://host.invalid/f", routes=Routes()) == DATA
    assert read("http://host.invalid/f", start=1) == DATA[1:]
    with pytest.raises(HttpStatusError, match="404"):
        read("http://host.invalid/g")
    server.redirect = "/moved/http:/host.invalid/f"
    with pytest.raises(HttpStatusError, match="too many redirections"):
        read("http://host.invalid/f")
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    server.redirect = f"{server.address}/moved/f"
    assert read("http://host.invalid/f") == DATA


def test_a_proxy_that_wants_to_know_who_asks() -> None:
    """The proxy refuses before there is a connection to the server."""

    class Proxy(http.server.BaseHTTPRequestHandler):
        def do_CONNECT(self) -> None:
            self.send_error(407)

        def log_message(self, format: str, *args: object) -> None:
            return

    proxy = http.server.HTTPServer(("127.0.0.1", 0), Proxy)
    threading.Thread(target=proxy.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()
    try:
        with pytest.raises(HttpStatusError) as caught:
            read("https://host.invalid/f", routes=Routes(proxies={"https": f"http://127.0.0.1:{proxy.server_port}"}))
        assert caught.value.status == 407
    finally:
        proxy.shutdown()
        proxy.server_close()


@pytest.mark.parametrize("where", ["file", "file of a connection that closes", "tunnel"])
def test_what_comes_through_a_proxy_can_be_ended(where: str) -> None:
    """At once, in the middle of a file as well as before the proxy has answered."""
    reached, over = threading.Event(), threading.Event()

    class Proxy(http.server.BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.0" if "closes" in where else "HTTP/1.1"

        def do_GET(self) -> None:
            assert self.path == "http://host.invalid/f"
            self.send_response(200)
            self.send_header("Content-Length", "100")
            self.end_headers()
            self.wfile.write(b"half")
            self.do_CONNECT()

        def do_CONNECT(self) -> None:
            reached.set()
            over.wait(60)

        def log_message(self, format: str, *args: object) -> None:
            return

    proxy = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Proxy)
    proxy.daemon_threads = True
    threading.Thread(target=proxy.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()
    routes = Routes(proxies=dict.fromkeys(("http", "https"), f"http://127.0.0.1:{proxy.server_port}"))
    transport, ends = Transport(routes=lambda: routes), []

    def fetch() -> None:
        try:
            stream = transport.open("https://host.invalid/f" if where == "tunnel" else "http://host.invalid/f")
            ends.append(len(stream.read(100)))
        except OSError:
            ends.append(0)

    thread = threading.Thread(target=fetch, daemon=True)
    thread.start()
    try:
        assert reached.wait(120)
        transport.abort()
        # Its own time-out would be half a minute.
        thread.join(25)
        assert not thread.is_alive()
        assert ends[0] < 100
        with pytest.raises(ConnectionAbortedError):
            transport.open("http://host.invalid/g")
    finally:
        over.set()
        proxy.shutdown()
        proxy.server_close()
        transport.close()


def test_a_kind_of_proxy_that_is_not_supported() -> None:
    with pytest.raises(ProxyError, match="'socks5' proxies are not supported; expected http or https"):
        read("http://host.invalid/f", routes=Routes(proxies={"http": "socks5://127.0.0.1:9"}))


def test_proxy_of_a_host_overrides_that_of_all(monkeypatch: pytest.MonkeyPatch) -> None:
    """A server's own before that of all; DIRECT is none, and what no_proxy names has none."""
    routes = Routes(proxies={"http": "one", "http://own.invalid": "two", "http://direct.invalid": "DIRECT"})

    def proxy(address: str) -> str:
        return routes.proxy(parse_url(address))

    assert proxy("http://x.invalid/f") == "one"
    assert proxy("http://own.invalid:80/f") == "two"
    assert proxy("http://direct.invalid/f") == proxy("https://x.invalid/f") == ""
    monkeypatch.setenv("no_proxy", "own.invalid")
    assert proxy("http://own.invalid/f") == ""


def test_routes_are_asked_for_where_they_matter(server: Behaviour, tmp_path: Path) -> None:
    """Once, and not for files."""
    asked = []

    def routes() -> Routes:
        asked.append(1)
        return Routes()

    transport = Transport(routes=routes)
    transport.open((tmp_path / "www" / "f").as_uri()).close()
    assert asked == []
    for _ in range(2):
        transport.open(f"{server.address}/f").close()
    transport.close()
    assert asked == [1]


def test_an_address_of_a_proxy_that_is_invalid() -> None:
    with pytest.raises(OSError, match="'\\[x' is not a valid host or port"):
        read("http://host.invalid/f", routes=Routes(proxies={"http": "http://[x"}))


def certify(folder: Path) -> Path:
    """Write a certificate of 127.0.0.1, signed by itself, with its key."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "test")])
    now = datetime.now(UTC)
    builder = x509.CertificateBuilder(name, name, key.public_key(), 1, now - timedelta(days=1), now + timedelta(days=1))
    address = x509.IPAddress(ipaddress.ip_address("127.0.0.1"))
    builder = builder.add_extension(x509.SubjectAlternativeName([address]), critical=False)
    builder = builder.add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
    path = folder / "certificate.pem"
    path.write_bytes(
        builder.sign(key, hashes.SHA256()).public_bytes(Encoding.PEM)
        + key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    )
    return path


def test_authorities_of_ones_own(tmp_path: Path) -> None:
    """They replace the machine's, which do not know the server; an invalid file is an error."""

    class Server(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.end_headers()
            self.wfile.write(DATA)

        def log_message(self, format: str, *args: object) -> None:
            return

    certificate = certify(tmp_path)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate)
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Server)
    server.socket = context.wrap_socket(server.socket, server_side=True, do_handshake_on_connect=False)
    threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()
    address = f"https://127.0.0.1:{server.server_port}/f"
    try:
        assert read(address, routes=Routes(proxies={}, authorities=str(certificate))) == DATA
        with pytest.raises(OSError, match="certificate verify failed"):
            read(address, routes=Routes(proxies={}))
        with pytest.raises(OSError, match="No such file or directory"):
            read(address, routes=Routes(proxies={}, authorities=str(tmp_path / "none.pem")))
    finally:
        server.shutdown()
        server.server_close()


def test_authorities_matter_to_https_alone(tmp_path: Path, server: Behaviour) -> None:
    routes = Routes(proxies={}, authorities=str(tmp_path / "none.pem"))
    assert read(f"{server.address}/f", routes=routes) == DATA
