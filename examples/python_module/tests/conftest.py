"""A real server with this package's modules."""

import json
import os
import pathlib
import shutil
import socket
import subprocess
import sys
import time
import urllib.request

import pytest

HERE = pathlib.Path(__file__).resolve()
PACKAGE = HERE.parents[1]
CHECKOUT = PACKAGE.parent.parent  # where this lies in one


def find_server():
    built = CHECKOUT / "build" / "lmcached"
    return os.environ.get("LMCACHED_BIN") or (str(built) if built.exists() else shutil.which("lmcached"))


def find_packages():
    """Where the server has its packages lmcache and lmcached: its own, of this version."""
    beside = pathlib.Path(find_server() or "nowhere").resolve().parent
    for folder in (beside / "lmcached-python", beside.parent / "lib" / "lmcached" / "python", CHECKOUT / "python"):
        if (folder / "lmcache").is_dir():
            return [str(folder)]
    return []  # PYTHONPATH may have them


sys.path[:0] = [str(PACKAGE), *find_packages()]


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class Server:
    def __init__(self, program, config, log):
        self.port, self.http_port = free_port(), free_port()
        self.log = log
        spec = json.dumps({"module_path": "every_hook", "config": config})
        path = os.pathsep.join(filter(None, [str(PACKAGE), os.environ.get("PYTHONPATH")]))
        command = [
            program, "server", "--host", "127.0.0.1", "--port", str(self.port), "--http-port", str(self.http_port),
            "--l1-size-gb", "0.0625", "--eviction-policy", "LRU", "--chunk-size", "4", "--server-module", spec,
        ]  # fmt: skip
        with open(log, "wb") as out:
            self.process = subprocess.Popen(command, stdout=out, stderr=out, env={**os.environ, "PYTHONPATH": path})

    def wait_up(self):
        deadline = time.monotonic() + 30
        while time.monotonic() < deadline and self.process.poll() is None:
            try:
                return self.get("/healthcheck")
            except OSError:
                time.sleep(0.05)
        raise AssertionError(self.log.read_text())

    def get(self, path):
        with urllib.request.urlopen(f"http://127.0.0.1:{self.http_port}{path}", timeout=10) as answer:
            return answer.read().decode()

    def status(self):
        return json.loads(self.get("/status"))

    def client(self):
        from lmcached import Client

        return Client(f"tcp://127.0.0.1:{self.port}", timeout=30)

    def stop(self):
        self.process.terminate()
        return self.process.wait(30)


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    program = find_server()
    if program is None:
        pytest.skip("there is no lmcached: set LMCACHED_BIN")
    log = tmp_path_factory.mktemp("server") / "log"
    one = Server(program, {"sidecar_url": "tcp://127.0.0.1:*"}, log)
    try:
        try:
            one.wait_up()
        except AssertionError as failure:
            if "the Python host is not installed" in str(failure):
                pytest.skip("this server has no Python host")
            raise
        yield one
        assert one.stop() == 0
        assert " LMCache ERROR: " not in log.read_text(), log.read_text()
    finally:
        if one.process.poll() is None:
            one.process.kill()
            one.process.wait()
