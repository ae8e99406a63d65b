"""What is measured of server modules: calls through one, and what a sleeping one costs others."""

from __future__ import annotations

import json
from typing import Any, List

import wire
from figures import Figure, value_at_most
from measure import Run, call_shape, column
from programs import Load, Program, Server

SLEEPERS = 4


def method(name: str) -> wire.Request:
    return wire.Request(f"bench.{name}", "server_module_call", [{"method": f"bench.{name}", "payload": b"x" * 64}])


def modules(run: Run) -> List[Figure]:
    spec = json.dumps({"module_path": str(run.place.tools / "bench_module.so")})
    with Server(run.place, 1, "--server-module", spec, "--max-cpu-workers", "1") as server:
        request = method("echo")
        figures = []
        with run.floor_for(server, [request]) as echo:
            for shape in ((1, 1), (8, 8)):
                figures += call_shape(run, server, echo, request, shape, 0.75, 1.4)
        figures.append(beside_sleepers(run, server))
    return figures


def beside_sleepers(run: Run, server: Server) -> Figure:
    """How much the p99 of somebody else's noop grows while a handler sleeps a second, again and again."""

    def noop_p99(program: Program) -> Any:
        return run.load(program, [wire.noop()], pause_us=500)

    quiet, busy = [], []
    for _ in range(run.rounds):
        quiet.append(noop_p99(server))
        sleepers = Load(run.place, server.endpoint, [method("sleep")], connections=SLEEPERS, seconds=run.seconds + 0.3)
        busy.append(noop_p99(server))
        sleepers.process.kill()
        sleepers.process.wait()
    path = ("of", "noop", "p99_us")
    grown = [max(0.0, after - before) for after, before in zip(column(busy, *path), column(quiet, *path))]
    return Figure("noop p99 grows beside a sleeping module by", "us", grown, bar=value_at_most(1000))
