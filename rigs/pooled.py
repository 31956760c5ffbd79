"""A pgbouncer in transaction mode before the tests' server; also a pytest plugin that puts it there.

Whoever asks `pgkit` for the URL of a schema gets one through the pooler. Connections of the tests'
own, which listen or look from outside, still go to the server.
"""

from __future__ import annotations

import atexit
import contextlib
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

sys.path.append(str(Path(__file__).resolve().parents[1] / "tests"))
sys.path.append(str(Path(__file__).resolve().parents[1] / "tests" / "kits"))

import psycopg
import pytest

import pgkit

# Few sessions, each transaction the next one: whatever is left in a session is missed at once.
# And quick to say that the server is away, or to find it back: clients cannot see past it.
_SETTINGS = """
[databases]
postgres = host={host} port=5432 dbname=postgres user=postgres
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = {port}
unix_socket_dir =
auth_type = any
pool_mode = transaction
default_pool_size = 6
server_round_robin = 1
max_client_conn = 1000
server_login_retry = 1
query_wait_timeout = 3
logfile = {directory}/log
"""


def install() -> None:
    """Start the pooler, and let every URL of a schema lead through it, until this process ends."""
    real, port = pgkit.url_of, start()

    def url_of(schema: str = "", **options: Any) -> str:
        if not schema or options:
            return real(schema, **options)
        return f"postgresql://postgres@127.0.0.1:{port}/postgres?schema={schema}"

    pgkit.url_of = url_of


def start() -> int:
    """Start a pooler before the server; gives its port. It ends with this process."""
    program = shutil.which("pgbouncer", path=f"{os.environ.get('PATH', '')}:/usr/sbin")
    assert program, "pgbouncer is not there; as root: apt-get install pgbouncer"
    directory = Path(tempfile.mkdtemp(prefix="redrive-pool-"))
    directory.chmod(0o777)  # it refuses to be root, and becomes the server's user
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    settings = directory / "pgbouncer.ini"
    host = pgkit.server().pgdata
    settings.write_text(_SETTINGS.format(host=host, port=port, directory=directory), "utf-8")
    user = ["-u", str(pgkit.server().system_user)] if os.geteuid() == 0 else []
    running = subprocess.Popen([program, "-q", *user, str(settings)], stderr=subprocess.DEVNULL)
    atexit.register(_stop, running, directory)
    _wait(running, port)
    return port


def _wait(running: subprocess.Popen[bytes], port: int) -> None:
    end = time.monotonic() + 20
    while time.monotonic() < end and running.poll() is None:
        with contextlib.suppress(psycopg.Error):
            psycopg.connect(f"host=127.0.0.1 port={port} user=postgres connect_timeout=2").close()
            return
        time.sleep(0.05)
    sys.exit("pgbouncer did not start")


def _stop(running: subprocess.Popen[bytes], directory: Path) -> None:
    running.kill()
    running.wait()
    shutil.rmtree(directory)


def pytest_configure(config: pytest.Config) -> None:
    """Put the pooler before everything that this run of tests opens."""
    del config
    install()
