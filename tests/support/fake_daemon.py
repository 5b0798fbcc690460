"""Something on a socket that speaks as a daemon does, as far as it is told to."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from socketserver import ThreadingUnixStreamServer
from typing import Any

#: What is answered: a status and a JSON value; None hangs up.
Answer = Callable[[str, str], tuple[int, Any] | None]


@contextmanager
def daemon(folder: Path, answer: Answer) -> Iterator[str]:
    """Its address, while it speaks; ``answer`` is given method and path."""

    class Handler(BaseHTTPRequestHandler):
        def handle_any(self) -> None:
            # Who answers before it has heard everything is told nothing more, and no trouble of who sends.
            if self.headers.get("Transfer-Encoding") == "chunked":
                while size := int(self.rfile.readline() or b"0", 16):
                    self.rfile.read(size + 2)
            path = self.path.partition("?")[0].removeprefix("/v1.41")
            said = (200, {"ApiVersion": "1.41"}) if path in ("/version", "/_ping") else answer(self.command, path)
            self.close_connection = True
            if said is None:
                return
            body = json.dumps(said[1]).encode()
            self.send_response(said[0])
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        do_GET = do_POST = handle_any

        def log_message(self, *_words: Any) -> None: ...

    path = folder / "s"
    with ThreadingUnixStreamServer(str(path), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield f"unix://{path}"
        finally:
            server.shutdown()
            thread.join()
