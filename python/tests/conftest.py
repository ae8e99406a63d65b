"""What the client's tests share: golden vectors and a server that answers what a test tells it."""

import json
import os
import pathlib
import sys
import threading

import msgpack
import pytest
import zmq

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "python"))

VECTORS = json.loads((ROOT / "tests" / "golden" / "zmq-requests.json").read_text())


class FakeServer:
    """A ROUTER. ``answer(operation, arguments)`` returns the frames behind uid and operation, or
    None for silence; ``hold`` makes it keep replies until ``release``."""

    def __init__(self, answer, endpoint="tcp://127.0.0.1:*"):
        self.answer = answer
        self.requests = []
        self.context = zmq.Context()
        self.socket = self.context.socket(zmq.ROUTER)
        self.socket.setsockopt(zmq.LINGER, 0)
        self.socket.bind(endpoint)
        self.url = self.socket.getsockopt_string(zmq.LAST_ENDPOINT)
        self.stopping = False
        self.thread = threading.Thread(target=self.run, daemon=True)
        self.thread.start()

    def run(self):
        while not self.stopping:
            if not self.socket.poll(20):
                continue
            identity, uid, operation, *arguments = self.socket.recv_multipart()
            name = msgpack.unpackb(operation)
            values = [msgpack.unpackb(a, ext_hook=lambda code, data: (code, data)) for a in arguments]
            self.requests.append((name, values))
            frames = self.answer(name, values)
            if frames is not None:
                self.socket.send_multipart([identity, uid, operation, *frames])
        self.socket.close()
        self.context.term()

    def close(self):
        self.stopping = True
        self.thread.join()


@pytest.fixture
def fake_server():
    servers = []

    def start(answer, **options):
        servers.append(FakeServer(answer, **options))
        return servers[-1]

    yield start
    for server in servers:
        server.close()


@pytest.fixture
def free_port():
    import socket

    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


@pytest.fixture(autouse=True)
def no_threads_left():
    before = set(threading.enumerate())
    yield
    for thread in set(threading.enumerate()) - before:
        thread.join(timeout=5)
        assert not thread.is_alive(), f"{thread.name} still runs"


assert os.path.isdir(ROOT / "tests" / "golden")
