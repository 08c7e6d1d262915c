"""A Prometheus to ask: Debian's own where it was unpacked, else one that gives the answers which that one gave.

Every query here is a constant, so that nothing must be scraped, and both say the same.
"""

from __future__ import annotations

import json
import shutil
import socket
import ssl
import subprocess
import threading
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

from orchestrator.sandbox.places import cache_folder
from tests.support.servers import wait_for

ZERO, NINE = "vector(0)", "vector(9)"
NAN, INFINITE, NOTHING = "vector(0) / 0", "vector(1) / 0", "no_such_metric"
SEVERAL = 'label_replace(vector(1), "a", "b", "", "") or vector(2)'
GARBAGE = "1 +"
_AT = 1796037379.43


def _vector(*values: str) -> dict[str, object]:
    result = [{"metric": {"n": str(n)} if n else {}, "value": [_AT, v]} for n, v in enumerate(values)]
    return {"status": "success", "data": {"resultType": "vector", "result": result}}


# What Prometheus 2.42 answered.
RECORDED: dict[str, dict[str, object]] = {
    ZERO: _vector("0"),
    NINE: _vector("9"),
    NAN: _vector("NaN"),
    INFINITE: _vector("+Inf"),
    NOTHING: _vector(),
    SEVERAL: _vector("1", "2"),
    '"text"': {"status": "success", "data": {"resultType": "string", "result": [_AT, "text"]}},
    "3": {"status": "success", "data": {"resultType": "scalar", "result": [_AT, "3"]}},
    "up[5m]": {"status": "success", "data": {"resultType": "matrix", "result": []}},
    GARBAGE: {
        "status": "error",
        "errorType": "bad_data",
        "error": 'invalid parameter "query": 1:4: parse error: unexpected end of input',
    },
}
Answer = Callable[[BaseHTTPRequestHandler], None]


def say(handler: BaseHTTPRequestHandler, code: int, body: bytes) -> None:
    handler.send_response(code)
    handler.send_header("Content-Length", str(len(body)))
    handler.end_headers()
    handler.wfile.write(body)


def recorded(handler: BaseHTTPRequestHandler) -> None:
    """The answer that Prometheus gave to that query."""
    answer = RECORDED[parse_qs(urlsplit(handler.path).query)["query"][0]]
    say(handler, 200 if answer["status"] == "success" else 400, json.dumps(answer).encode())


@contextmanager
def answering(answer: Answer, tls: tuple[Path, Path] | None = None) -> Iterator[str]:
    """The address of a small HTTP server that answers so."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            answer(self)

        def log_message(self, format: str, *args: object) -> None:
            """Nobody reads it."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        server.daemon_threads = True
        if tls is not None:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(*tls)
            server.socket = context.wrap_socket(server.socket, server_side=True)
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
        thread.start()
        yield f"http{'s' if tls else ''}://127.0.0.1:{server.server_port}"
        server.shutdown()


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port: int = free.getsockname()[1]
        return port


def program() -> Path | None:
    """Debian's Prometheus, or None."""
    unpacked = cache_folder() / "prometheus" / "prometheus"
    found = shutil.which("prometheus")
    return unpacked if unpacked.exists() else Path(found) if found else None


@contextmanager
def prometheus(folder: Path, tls: tuple[Path, Path] | None = None) -> Iterator[str]:
    """The address of a Prometheus, with that certificate and key; the recorded one says on the terminal that it is."""
    binary = program()
    if binary is None:
        print("no Prometheus was unpacked here (tools/prometheus/unpack says why): recorded answers are played")
        with answering(recorded, tls) as url:
            yield url
        return
    (folder / "prometheus.yml").write_text("{}")
    web = {"tls_server_config": {"cert_file": str(tls[0]), "key_file": str(tls[1])}} if tls else {}
    (folder / "web.yml").write_text(json.dumps(web))
    port = free_port()
    command = [
        str(binary),
        f"--config.file={folder}/prometheus.yml",
        f"--web.config.file={folder}/web.yml",
        f"--storage.tsdb.path={folder}/data",
        f"--web.listen-address=127.0.0.1:{port}",
    ]
    with (folder / "log").open("w") as log:
        process = subprocess.Popen(command, stdout=log, stderr=log)
    url = f"http{'s' if tls else ''}://127.0.0.1:{port}"
    try:
        wait_for(lambda: process.poll() is not None or _ready(url), 30)
        assert process.poll() is None, (folder / "log").read_text()
        yield url
    finally:
        process.kill()
        process.wait()


def _ready(url: str) -> bool:
    try:
        with urllib.request.urlopen(f"{url}/-/ready", timeout=1, context=ssl._create_unverified_context()) as answer:
            return bool(answer.status == 200)
    except OSError:
        time.sleep(0.02)
        return False


def certificate(folder: Path) -> tuple[Path, Path]:
    """A certificate for 127.0.0.1 and its key, as two files; it is its own authority."""
    cert, key = folder / "cert.pem", folder / "key.pem"
    what = "req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2 -subj /CN=prometheus"
    where = ["-addext", "subjectAltName=IP:127.0.0.1", "-keyout", str(key), "-out", str(cert)]
    subprocess.run(["openssl", *what.split(), *where], check=True, capture_output=True)
    return cert, key
