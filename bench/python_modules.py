"""What is measured of server modules in Python: calls beside those of a native module in the same
server, and what a handler that spins in pure Python costs others."""

from __future__ import annotations

import json
import os
from typing import Any, List

import msgpack
import wire
from figures import Figure, at_least, value_at_most
from measure import Run, column
from modules import method
from programs import Load, Program, Server

SOURCE = '''
import time
import msgpack
from lmcache.v1.multiprocess.engine_module import DiscoverableModule
from lmcache.v1.multiprocess.ext_server_module import server_module_handler


class PythonBench(DiscoverableModule):
    @classmethod
    def create(cls, build_ctx):
        module = cls()
        module.server = build_ctx.engine_context
        return module

    @property
    def context(self):
        return self.server

    def report_status(self):
        return {}

    def close(self):
        pass

    @server_module_handler("python.echo")
    def echo(self, payload: bytes) -> bytes:
        return payload

    @server_module_handler("python.pack")
    def pack(self, payload: bytes) -> bytes:
        return msgpack.packb(msgpack.unpackb(payload))

    @server_module_handler("python.spin")
    def spin(self, payload: bytes) -> bytes:
        end = time.monotonic() + 1
        while time.monotonic() < end:
            pass
        return b""
'''
SHAPE = {"connections": 8, "outstanding": 8}


def python_method(name: str, payload: bytes = b"x" * 64) -> wire.Request:
    return wire.Request(f"python.{name}", "server_module_call", [{"method": f"python.{name}", "payload": payload}])


def python_modules(run: Run) -> List[Figure]:
    if not (run.place.server.parent / "lmcached-pyhost.so").exists():
        return []
    (run.place.folder / "bench_python.py").write_text(SOURCE)
    os.environ["PYTHONPATH"] = str(run.place.folder)
    native = {"module_path": str(run.place.tools / "bench_module.so")}
    specs = json.dumps([native, {"module_path": "bench_python"}])
    with Server(run.place, 1, "--server-module", specs, "--max-cpu-workers", "1") as server:
        packed = msgpack.packb({"numbers": [1, 2, 3], "text": "x" * 40})
        return [
            beside_native(run, server, python_method("echo"), 0.6),
            beside_native(run, server, python_method("pack", packed), 0.4),
            beside_spinning(run, server),
        ]


def beside_native(run: Run, server: Server, request: wire.Request, bar: float) -> Figure:
    ours, floor = [], []
    for _ in range(run.rounds):
        ours.append(run.load(server, [request], **SHAPE))
        floor.append(run.load(server, [method("echo")], **SHAPE))
    rates = column(ours, "calls_per_s"), column(floor, "calls_per_s")
    return Figure(f"{request.name} 8x8 rate", "calls/s", *rates, "native", at_least(bar))


def beside_spinning(run: Run, server: Server) -> Figure:
    """How much the p99 of somebody else's noop grows while a handler spins in pure Python."""

    def noop_p99(program: Program) -> Any:
        return run.load(program, [wire.noop()], pause_us=500)

    quiet, busy = [], []
    for _ in range(run.rounds):
        quiet.append(noop_p99(server))
        spinning = Load(run.place, server.endpoint, [python_method("spin")], seconds=run.seconds + 0.3)
        busy.append(noop_p99(server))
        spinning.process.kill()
        spinning.process.wait()
        server.ask(python_method("echo"))  # what still spins has ended
    path = ("of", "noop", "p99_us")
    grown = [max(0.0, after - before) for after, before in zip(column(busy, *path), column(quiet, *path))]
    return Figure("noop p99 grows beside a spinning Python module by", "us", grown, bar=value_at_most(1000))
