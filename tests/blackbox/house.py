"""The house tests' tools: a server process under observation, a raw wire client, HTTP."""

import contextlib
import glob
import http.client
import itertools
import json
import os
import pathlib
import re
import signal
import socket
import subprocess
import sys
import time
import uuid

import msgpack
import zmq

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "python"))

from lmcached import CacheKey, Client, Worker  # noqa: E402

BINARY = os.environ.get("LMCACHED_BIN", str(ROOT / "build" / "lmcached"))
VECTORS = json.loads((ROOT / "tests" / "golden" / "zmq-requests.json").read_text())
INSTANCE = 7310588712203948517  # the golden vectors' instance

SANITIZER = re.compile(r"(Address|Thread|Leak|Memory|UndefinedBehavior)Sanitizer|runtime error:")
COMPLAINT = re.compile(r"LMCache (WARNING|ERROR|CRITICAL):")
SEGMENTS = f"/dev/shm/lmcache_l1_pool_house_{os.getpid()}_*"  # others may run beside these tests


def free_ports(count):
    with contextlib.ExitStack() as stack:
        probes = [stack.enter_context(socket.socket()) for _ in range(count)]
        for probe in probes:
            probe.bind(("127.0.0.1", 0))
        return [probe.getsockname()[1] for probe in probes]


def poll_until(condition, what, seconds=20.0):
    """Waits for a condition that must come true; the limit is only there to end a broken run."""
    deadline = time.monotonic() + seconds
    while True:
        found = condition()
        if found:
            return found
        if time.monotonic() > deadline:
            raise AssertionError(f"did not happen: {what}")
        time.sleep(0.02)


class Reply:
    def __init__(self, status, headers, body):
        self.status = status
        self.headers = {name.lower(): value for name, value in headers}
        self.body = body

    @property
    def text(self):
        return self.body.decode()

    @property
    def json(self):
        return json.loads(self.body)


class Server:
    """One server process. Stopped and judged by the fixture."""

    def __init__(self, log_path, flags, *, port=None, http_port=None, environment=None, command="server", launcher=()):
        self.log_path = log_path
        self.flags = list(flags)
        ports = free_ports(2)
        self.port = port or ports[0]
        self.http_port = http_port or ports[1]
        self.allowed = [r"the handler of '\w+' has been running for"]  # true, on a busy machine
        self.clients = []
        self.sessions_left = 0  # of clients that died or came late; they go by their TTL
        self.judged = False
        self.baseline = None
        self._environment = dict(environment or {})
        self._command = command
        self._launcher = list(launcher)  # a program that becomes the server: prlimit, unshare ...
        self.process = None

    @property
    def url(self):
        return f"tcp://127.0.0.1:{self.port}"

    def argv(self):
        http = [] if "--no-http" in self.flags else ["--http-port", str(self.http_port)]
        return [
            *self._launcher, BINARY, self._command, "--host", "127.0.0.1", "--port", str(self.port),
            "--http-host", "127.0.0.1", *http, *self.flags,
        ]  # fmt: skip

    def start(self):
        environment = {**os.environ, "ASAN_OPTIONS": "detect_leaks=1:exitcode=99", **self._environment}
        environment.setdefault("UBSAN_OPTIONS", "print_stacktrace=1")
        with open(self.log_path, "ab") as log:
            self.process = subprocess.Popen(
                self.argv(), stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=environment
            )
        return self

    def wait_up(self):
        def up():
            if self.process.poll() is not None:
                raise AssertionError(f"the server ended with {self.process.returncode}:\n{self.log()}")
            try:
                return self.get("/healthcheck").status == 200
            except OSError:
                return False

        poll_until(up, f"HTTP on port {self.http_port}\n{self.log()}", 30)
        if self.baseline is None:
            time.sleep(0.02)  # the connection of the question itself goes
            self.baseline = self.descriptors()
        return self

    # ---- what a test does with it ----

    def client(self, **options):
        client = Client(self.url, **{"timeout": 30.0, **options})
        self.clients.append(client)
        return client

    def worker(self, client=None, **options):
        """A registered worker with the golden vectors' chunk layout unless told otherwise."""
        settings = {"num_layers": 2, "hidden_dim_size": 8, "dtype": "float16", "block_size": 2, "timeout": 30.0}
        worker = Worker(client or self.client(), options.pop("model_name", "m"), **{**settings, **options})
        worker.register()
        return worker

    def request(self, method, path, body=None, headers=None):
        connection = http.client.HTTPConnection("127.0.0.1", self.http_port, timeout=30)
        try:
            connection.request(method, path, body, headers or {})
            answer = connection.getresponse()
            return Reply(answer.status, answer.getheaders(), answer.read())
        finally:
            connection.close()

    def get(self, path):
        return self.request("GET", path)

    def status(self):
        answer = self.get("/status")
        assert answer.status == 200, answer.text
        return answer.json

    def l1(self):
        return self.status()["storage_manager"]["l1_manager"]

    def log(self):
        return pathlib.Path(self.log_path).read_text(errors="replace") if os.path.exists(self.log_path) else ""

    def wait_log(self, pattern, seconds=20.0):
        return poll_until(lambda: re.search(pattern, self.log()), f"log line {pattern!r}", seconds)

    def allow(self, *patterns):
        """Warnings and errors that this test provokes."""
        self.allowed.extend(patterns)

    def descriptors(self):
        return len(os.listdir(f"/proc/{self.process.pid}/fd"))

    def kill(self):
        self.process.kill()
        self.process.wait()

    # ---- how it ends ----

    def close_clients(self):
        for client in self.clients:
            client.close()
        self.clients.clear()

    def check_calm(self):
        """After the clients are gone nothing is held any more."""

        def calm():
            status = self.status()
            l1 = status["storage_manager"]["l1_manager"]
            time.sleep(0.02)  # the connection of the question itself goes
            held = {
                "read_locked_count": l1["read_locked_count"],
                "staging_object_count": l1["staging_object_count"],
                "active_prefetch_jobs": status["active_prefetch_jobs"],
                "active_sessions": max(0, status["active_sessions"] - self.sessions_left),
                "descriptors": max(0, self.descriptors() - self.baseline),
            }
            self.held = {name: value for name, value in held.items() if value}
            return not self.held

        try:
            poll_until(calm, "calm", 30)
        except AssertionError:
            raise AssertionError(f"still held after the clients left: {self.held}") from None

    def stop(self, signal_number=signal.SIGTERM):
        """Stops it and returns the exit status."""
        if self.process.poll() is None:
            self.process.send_signal(signal_number)
        try:
            return self.process.wait(timeout=40)
        except subprocess.TimeoutExpired:
            self.process.kill()
            raise AssertionError(f"the server did not stop:\n{self.log()}") from None

    def complaints(self):
        return [
            line
            for line in self.log().splitlines()
            if (COMPLAINT.search(line) or SANITIZER.search(line)) and not any(re.search(p, line) for p in self.allowed)
        ]

    def judge(self, calm=True):
        """``calm=False``: somebody stays connected while it stops."""
        self.judged = True
        running = self.process.poll() is None
        self.close_clients()
        if running:
            if calm:
                self.check_calm()
            assert self.stop() == 0, f"exit status {self.process.returncode}:\n{self.log()}"
            assert "LMCache HTTP server stopped" in self.log()
        assert not SANITIZER.search(self.log()), self.log()
        complaints = self.complaints()
        assert not complaints, "unexpected in the log:\n" + "\n".join(complaints)


class RawClient:
    """A DEALER that sends exactly the frames it is given."""

    def __init__(self, url):
        self._context = zmq.Context()
        self._socket = self._context.socket(zmq.DEALER)
        self._socket.setsockopt(zmq.LINGER, 0)
        self._socket.connect(url)
        self._uids = itertools.count(1 << 20)

    def send(self, *frames):
        self._socket.send_multipart(list(frames))

    def receive(self, seconds=30.0):
        if not self._socket.poll(int(seconds * 1000)):
            return None
        return self._socket.recv_multipart()

    def exchange(self, *frames):
        self.send(*frames)
        reply = self.receive()
        assert reply is not None, "no reply"
        return reply

    def call(self, operation, *arguments):
        """One well-formed call; returns the result frame's value, or the string 'void'."""
        uid = msgpack.packb(next(self._uids))
        frames = [uid, msgpack.packb(operation), *(msgpack.packb(a) for a in arguments)]
        reply = self.exchange(*frames)
        assert reply[0] == uid and reply[1] == frames[1]
        assert len(reply) <= 3
        return msgpack.unpackb(reply[2], strict_map_key=False) if len(reply) > 2 else "void"

    def expect_silence(self, *frames):
        """The server has handled these frames, and a later request, and answered the latter only."""
        self.send(*frames)
        assert self.call(24) == "OK"
        assert self.receive(0.1) is None

    def close(self):
        self._socket.close()
        self._context.term()

    def __enter__(self):
        return self

    def __exit__(self, *exception):
        self.close()


def key_map(**changes):
    """The golden vectors' key as a map."""
    key = {
        "model_name": "m", "world_size": 1, "worker_id": 0, "token_ids": list(range(1, 9)), "start": 0, "end": 8,
        "request_id": "cmpl-0-aa", "cache_salt": "", "request_configs": None, "num_kv_readers": 1,
        "null_chunk_mask": None,
    }  # fmt: skip
    key.update(changes)
    return key


def lookup_key(tokens, request_id, *, chunk_size=4, world_size=1, readers=1, model_name="m", salt=""):
    full = len(tokens) - len(tokens) % chunk_size
    return CacheKey(
        model_name, world_size, None, list(tokens), 0, full, request_id, cache_salt=salt, num_kv_readers=readers
    )


def chunk_payload(seed, size):
    """Bytes that name their chunk, so that a mix-up shows."""
    import random

    return random.Random(repr(seed)).randbytes(size)


def shm_name():
    return f"house_{os.getpid()}_{uuid.uuid4().hex[:12]}"


def end(client, *request_ids):
    for request_id in request_ids:
        client.end_session(request_id).result(30)


def segments():
    return set(glob.glob(SEGMENTS))


def run_cli(*arguments, environment=None, program=None, timeout=60):
    """Runs a command that ends by itself."""
    return subprocess.run(
        [program or BINARY, *arguments],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=timeout,
        env={**os.environ, **(environment or {})},
    )
