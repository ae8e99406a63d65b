"""Starts and stops what is measured and what measures: server, floors, load generator."""

from __future__ import annotations

import json
import os
import pathlib
import signal
import socket
import subprocess
import tempfile
import time
import urllib.request
import uuid
from typing import Any, Dict, List, Optional, Sequence

import msgpack
import zmq
from wire import Request

ROOT = pathlib.Path(__file__).resolve().parents[1]


class Place:
    """Where the programs are, and a folder for frames and logs."""

    def __init__(self, build: pathlib.Path, folder: str) -> None:
        self.server = build / "lmcached"
        self.tools = build / "bench"
        self.folder = pathlib.Path(folder)
        self._frames: Dict[int, pathlib.Path] = {}

    def frame(self, data: bytes) -> str:
        """As the load generator takes it: short ones in hexadecimal, long ones by file."""
        if len(data) <= 64:
            return data.hex()
        path = self._frames.get(hash(data))
        if path is None:
            path = self._frames[hash(data)] = self.folder / f"frame-{len(self._frames)}"
            path.write_bytes(data)
        return f"@{path}"


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def memory(pid: int) -> Dict[str, int]:
    """Resident KiB by kind."""
    kinds = {}
    for line in pathlib.Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("Rss"):
            kinds[line[3:].split(":")[0]] = int(line.split()[1])
    return kinds


def cpu_seconds(pid: int) -> float:
    fields = pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


class Program:
    """A process that serves until it is told to stop."""

    process: subprocess.Popen
    endpoint: str

    @property
    def pid(self) -> int:
        return self.process.pid

    def __enter__(self) -> "Program":
        return self

    def __exit__(self, *exception: object) -> None:
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        try:
            self.process.wait(30)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()


class Server(Program):
    def __init__(self, place: Place, gib: float, *flags: str, shared: bool = True) -> None:
        self.port, self.http_port = free_port(), free_port()
        self.endpoint = f"tcp://127.0.0.1:{self.port}"
        self.log = place.folder / f"server-{self.port}.log"
        words = server_words(place, self.port, self.http_port, gib)
        if shared:
            words += ["--shm-name", f"bench_{uuid.uuid4().hex[:8]}"]
        with open(self.log, "wb") as log:
            self.process = subprocess.Popen([*words, *flags], stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        self.ask(Request("noop", 24))

    def ask(self, *requests: Request) -> List[Any]:
        """Sends requests one after the other and returns their decoded results."""
        context = zmq.Context.instance()
        results = []
        with context.socket(zmq.DEALER) as client:
            client.linger = 0
            client.connect(self.endpoint)
            for request in requests:
                client.send_multipart([b"\x00", *request.frames])
                if not client.poll(60000):
                    raise RuntimeError(f"{request.name}: no answer; see {self.log}")
                reply = client.recv_multipart()
                results.append(msgpack.unpackb(reply[2]) if len(reply) > 2 else None)
        return results

    def status(self) -> Dict[str, Any]:
        with urllib.request.urlopen(f"http://127.0.0.1:{self.http_port}/status", timeout=10) as answer:
            return json.load(answer)

    def wait_supplied(self, gib: float, seconds: float = 60) -> None:
        """Until the background has brought in the pages of L1."""
        deadline = time.monotonic() + seconds
        last = -1
        while time.monotonic() < deadline:
            now = memory(self.pid)["Shmem"]
            if now >= gib * (1 << 20) * 0.98 or (now == last and now > 0):
                return
            last = now
            time.sleep(0.3)


def server_words(place: Place, port: int, http_port: int, gib: float) -> List[str]:
    return [
        str(place.server), "server", "--host", "127.0.0.1", "--port", str(port),
        "--http-host", "127.0.0.1", "--http-port", str(http_port),
        "--l1-size-gb", str(gib), "--eviction-policy", "LRU",
    ]  # fmt: skip


class Floor(Program):
    """Takes the frames, touches none, and answers with replies of the sizes it is told."""

    def __init__(self, place: Place, replies: Dict[str, Optional[int]]) -> None:
        words = [str(place.tools / "echo_floor"), "--endpoint", "tcp://127.0.0.1:*", "--until-eof"]
        for operation, size in replies.items():
            words += ["--reply", f"{operation}={'none' if size is None else size}"]
        self.process = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.endpoint = self.process.stdout.readline().strip()


class Load:
    """One run of the load generator in the background."""

    def __init__(
        self,
        place: Place,
        endpoint: str,
        requests: Sequence[Request],
        *,
        connections: int = 1,
        outstanding: int = 1,
        seconds: float = 1.0,
        warmup: float = 0.1,
        pause_us: int = 0,
        cycles: int = 0,
    ) -> None:
        words = [
            str(place.tools / "load"), "--json", "--endpoint", endpoint, "--connections", str(connections),
            "--outstanding", str(outstanding), "--seconds", str(seconds), "--warmup", str(warmup),
            "--pause-us", str(pause_us), "--cycles", str(cycles),
        ]  # fmt: skip
        for request in requests:
            words += ["--op", place.frame(request.frames[0])]
            for frame in request.frames[1:]:
                words += ["--frame", place.frame(frame)]
        self.names = [request.name for request in requests]
        self.process = subprocess.Popen(words, stdout=subprocess.PIPE, text=True)

    def result(self) -> Dict[str, Any]:
        output, _ = self.process.communicate()
        if self.process.returncode != 0:
            raise RuntimeError("the load generator failed")
        result = json.loads(output)
        result["of"] = dict(zip(self.names, result["requests"]))
        return result


def run_load(*arguments: Any, **options: Any) -> Dict[str, Any]:
    return Load(*arguments, **options).result()


def reply_sizes(result: Dict[str, Any], requests: Sequence[Request]) -> Dict[str, Optional[int]]:
    """What a floor must answer: first byte of the operation frame -> size of the result."""
    sizes = {}
    for request, row in zip(requests, result["requests"]):
        sizes[request.frames[0][:1].hex()] = row["result_size"]
    return sizes


def first_reply(place: Place, endpoint: str, settle: float, words: Sequence[str]) -> Dict[str, Any]:
    command = [str(place.tools / "first_reply"), endpoint, str(settle), *words]
    return json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout)


def run_tool(place: Place, name: str, *words: str) -> Dict[str, Any]:
    command = [str(place.tools / name), *words]
    return json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout)


def temporary_folder() -> "tempfile.TemporaryDirectory[str]":
    return tempfile.TemporaryDirectory(prefix="lmcached-bench-")
