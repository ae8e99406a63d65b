"""What is measured: each function is one section of the report."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any, Callable, Dict, List, Sequence, Tuple

import wire
from figures import Figure, at_least, at_most, value_at_most
from programs import Floor, Load, Place, Program, Server, cpu_seconds, first_reply, free_port, memory
from programs import reply_sizes, run_load, run_tool, server_words

SHAPES = ((1, 1), (1, 64), (8, 1), (8, 8), (32, 4))
SMALL = 4096  # bytes of a chunk where its bytes do not matter
LARGE = 32 << 20
MODEL, INSTANCE = "bench", 4711
LARGE_MODEL, LARGE_INSTANCE = "bench-large", 4712
CLIENTS = 8
SESSIONS = 10000
KIB, MIB = 1024, 1 << 20


@dataclass
class Run:
    """How thoroughly to measure."""

    place: Place
    rounds: int
    seconds: float
    quick: bool

    def load(self, program: Program, requests: Sequence[wire.Request], **options: Any) -> Dict[str, Any]:
        return run_load(self.place, program.endpoint, requests, **{"seconds": self.seconds, **options})

    def floor_for(self, server: Server, requests: Sequence[wire.Request]) -> Floor:
        """A sink that answers these requests with replies of the server's sizes."""
        probe = self.load(server, requests, cycles=2)
        return Floor(self.place, reply_sizes(probe, requests))

    @property
    def brief(self) -> Dict[str, float]:
        """For round trips: a process meets good and bad luck in how its threads are placed, so
        three times as many rounds that are shorter."""
        return {"seconds": self.seconds / 2, "warmup": 0.05}

    def in_turn(
        self, programs: Sequence[Program], measure: Callable[[Program], Any], brief: bool = False
    ) -> List[List[Any]]:
        """Rounds of each program, one after the other in every round."""
        results: List[List[Any]] = [[] for _ in programs]
        for _ in range(self.rounds * 3 if brief else self.rounds):
            for result, program in zip(results, programs):
                result.append(measure(program))
        return results


def column(results: Sequence[Dict[str, Any]], *path: str) -> List[float]:
    values = []
    for result in results:
        for step in path:
            result = result[step]
        values.append(result)
    return values


def fill(run: Run, server: Server, prompts: int) -> List[int]:
    """Stores prompts of 128 small chunks; returns the tokens that all but the first share."""
    tokens = wire.prompt(wire.PROMPT, wire.CONNECTION)
    server.ask(wire.registration(MODEL, INSTANCE, SMALL))
    for first in range(prompts):
        requests = [wire.with_wide_first(r, first) for r in wire.store(tokens, MODEL, INSTANCE)]
        results = server.ask(*requests)
        if results[1] is not True:
            raise RuntimeError("a prompt could not be stored")
    return tokens


def check_hits(run: Run, server: Server, tokens: List[int], chunks: int) -> None:
    cycle = [wire.with_wide_first(r, 0) for r in wire.lookup_cycle(tokens, MODEL)]
    found = server.ask(*cycle)[1]
    if found != chunks:
        raise RuntimeError(f"a lookup found {found} chunks instead of {chunks}")


# ---- 1: small calls ----


def calls(run: Run) -> List[Figure]:
    """noop and ping run on the request loop, the envelope and the report on a pool of one thread."""
    figures = []
    inline, pool = (0.85, 1.1), (0.75, 1.4)
    kinds = [(wire.noop(), inline), (wire.ping(), inline), (wire.envelope(), pool), (wire.report_blocks(), pool)]
    with Server(run.place, 1) as server:
        for request, (rate, p50) in kinds:
            shapes = SHAPES if request.name != "report_block_allocation" else ((1, 1), (8, 8))
            with run.floor_for(server, [request]) as echo:
                for shape in shapes:
                    figures += call_shape(run, server, echo, request, shape, rate, p50)
    return figures


def call_shape(
    run: Run, server: Server, echo: Floor, request: wire.Request, shape: Tuple[int, int], rate: float, p50: float
) -> List[Figure]:
    brief = shape == (1, 1)
    options = {"connections": shape[0], "outstanding": shape[1], **(run.brief if brief else {})}
    ours, floor = run.in_turn([server, echo], lambda program: run.load(program, [request], **options), brief)
    name = f"{request.name} {shape[0]}x{shape[1]}"

    def pair(what: str, *path: str) -> Tuple[List[float], List[float]]:
        return column(ours, *path), column(floor, *path)

    rate_bar = at_least(rate) if shape == (8, 8) else None
    p50_bar = at_most(p50) if shape == (1, 1) else None
    return [
        Figure(f"{name} rate", "calls/s", *pair("rate", "calls_per_s"), "echo", rate_bar),
        Figure(f"{name} p50", "us", *pair("p50", "of", request.name, "p50_us"), "echo", p50_bar),
        Figure(f"{name} p99", "us", *pair("p99", "of", request.name, "p99_us"), "echo"),
    ]


# ---- 2: lookups ----


def lookups(run: Run) -> List[Figure]:
    figures = []
    alone = run_tool(run.place, "work_alone", "51" if run.quick else "201")
    work_us = (alone["decode_ns"] + alone["blake3_ns"]) / 1e3
    with Server(run.place, 1) as server:
        tokens = fill(run, server, CLIENTS)
        check_hits(run, server, tokens, wire.PROMPT // wire.CHUNK)
        new = wire.prompt(wire.PROMPT, wire.CYCLE, seed=3)  # never seen before
        check_hits(run, server, new, 0)
        for kind, prompt in (("hits", tokens), ("misses", new)):
            cycle = wire.lookup_cycle(prompt, MODEL)
            with run.floor_for(server, cycle) as sink:
                figures += one_client(run, server, sink, cycle, kind, work_us)
                figures += eight_clients(run, server, sink, cycle, kind)
    return figures


def one_client(
    run: Run, server: Server, sink: Floor, cycle: List[wire.Request], kind: str, work_us: float
) -> List[Figure]:
    ours, floor = run.in_turn([server, sink], lambda program: run.load(program, cycle, **run.brief), True)
    floors = [us + work_us for us in column(floor, "of", "lookup", "p50_us")]
    bar = at_most(1.5) if kind == "hits" else None
    figures = [
        Figure(f"LOOKUP 128 {kind} p50", "us", column(ours, "of", "lookup", "p50_us"), floors, "sink+work", bar),
        Figure(f"LOOKUP 128 {kind} p99", "us", column(ours, "of", "lookup", "p99_us")),
    ]
    for step in ("query", "free", "end"):
        path = ("of", step, "p50_us")
        figures.append(Figure(f"{step} after {kind} p50", "us", column(ours, *path), column(floor, *path), "sink"))
    rates = column(ours, "cycles_per_s"), column(floor, "cycles_per_s")
    figures.append(Figure(f"cycles {kind}, 1 client", "cycles/s", *rates, "sink"))
    return figures


def eight_clients(run: Run, server: Server, sink: Floor, cycle: List[wire.Request], kind: str) -> List[Figure]:
    def both(program: Program) -> Tuple[Dict[str, Any], Dict[str, Any]]:
        pings = Load(run.place, program.endpoint, [wire.ping()], seconds=run.seconds, pause_us=500)
        cycles = run.load(program, cycle, connections=CLIENTS)
        return cycles, pings.result()

    ours, floor = run.in_turn([server, sink], both)
    hits = kind == "hits"
    rates = column([o[0] for o in ours], "cycles_per_s"), column([f[0] for f in floor], "cycles_per_s")
    path = ("of", "ping", "p99_us")
    pings = column([o[1] for o in ours], *path), column([f[1] for f in floor], *path)
    return [
        Figure(f"cycles {kind}, 8 clients", "cycles/s", *rates, "sink", at_least(0.4) if hits else None),
        Figure(f"ping p99 beside 8 clients, {kind}", "us", *pings, "sink", at_most(1.5) if hits else None),
    ]


# ---- 3: hashing ----


def hashing(run: Run) -> List[Figure]:
    tools = [run_tool(run.place, "work_alone", "101") for _ in range(run.rounds)]
    rate = [tool["tokens"] / tool["hash_ns"] * 1e3 for tool in tools]
    floor = [tool["tokens"] / tool["blake3_ns"] * 1e3 for tool in tools]
    decode = [tool["tokens"] / tool["decode_ns"] * 1e3 for tool in tools]
    copy = [tool["copy_bytes"] / tool["memcpy_ns"] for tool in tools]
    return [
        Figure("hashing", "Mtokens/s", rate, floor, "BLAKE3", at_least(0.95)),
        Figure("decoding of token ids", "Mtokens/s", decode),
        Figure("memcpy of 32 MiB", "GB/s", copy),
    ]


# ---- 4: shared memory ----


def shared_memory(run: Run) -> List[Figure]:
    figures = []
    with Server(run.place, 2) as server:
        server.ask(wire.registration(MODEL, INSTANCE, SMALL))
        short = wire.prompt(wire.CHUNK, wire.CYCLE)
        long = wire.prompt(wire.PROMPT, wire.CYCLE)
        last = wire.PROMPT - wire.CHUNK
        figures += pair_of_calls(run, server, "store", wire.store(short, MODEL, INSTANCE), at_most(3))
        figures += pair_of_calls(run, server, "store at 32k", wire.store(long, MODEL, INSTANCE, last), None)
        server.ask(wire.clear())
        resident = wire.prompt(wire.CHUNK, 5)
        server.ask(*wire.store(resident, MODEL, INSTANCE))
        figures += pair_of_calls(run, server, "retrieve", wire.retrieve(resident, MODEL, INSTANCE), None)
    return figures


def pair_of_calls(run: Run, server: Server, name: str, requests: List[wire.Request], bar: Any) -> List[Figure]:
    """Prepare and commit together, beside one round trip of the sink with the same frames."""
    names = [request.name for request in requests]

    def together(result: Dict[str, Any]) -> float:
        return sum(result["of"][step]["p50_us"] for step in names)

    with run.floor_for(server, requests) as sink:
        ours, floor = run.in_turn([server, sink], lambda program: run.load(program, requests, **run.brief), True)
    trips = [together(result) / 2 for result in floor]
    label = f"SHM {name}: prepare + commit of a chunk"
    return [Figure(label, "us", [together(result) for result in ours], trips, "sink trip", bar)]


# ---- 5: byte copy ----


def byte_copy(run: Run) -> List[Figure]:
    figures = []
    data = wire.chunk_pickle(LARGE)
    seconds = max(run.seconds, 1.0)
    with Server(run.place, 2, shared=False) as server:
        server.ask(wire.registration(LARGE_MODEL, LARGE_INSTANCE, LARGE))
        server.wait_supplied(2)
        stores = wire.store(wire.prompt(wire.CHUNK, wire.CYCLE), LARGE_MODEL, LARGE_INSTANCE, data=data)
        resident = wire.prompt(wire.CHUNK, wire.CONNECTION)
        retrieves = wire.retrieve(resident, LARGE_MODEL, LARGE_INSTANCE)
        figures += transfers(run, server, "store", stores, "sink", seconds)
        for first in range(2):
            kept = wire.store(resident, LARGE_MODEL, LARGE_INSTANCE, data=data)
            server.ask(*[wire.with_wide_first(request, first) for request in kept])
        figures += transfers(run, server, "retrieve", retrieves, "ready buffer", seconds)
    return figures


def transfers(
    run: Run, server: Server, name: str, requests: List[wire.Request], floor_name: str, seconds: float
) -> List[Figure]:
    figures = []
    with run.floor_for(server, requests) as floor_program:
        for connections in (1, 2):
            options = {"connections": connections, "seconds": seconds, "warmup": 0.3}
            ours, floor = run.in_turn([server, floor_program], lambda p: run.load(p, requests, **options))
            check_transfers(name, ours)
            rates = [[r["cycles_per_s"] * LARGE / 1e9 for r in results] for results in (ours, floor)]
            label = f"byte-copy {name} of 32 MiB, {connections} client" + ("s" if connections > 1 else "")
            figures.append(Figure(label, "GB/s", *rates, floor_name, at_least(0.8)))
    return figures


def check_transfers(name: str, results: List[Dict[str, Any]]) -> None:
    for result in results:
        if name == "store" and result["of"]["commit_store"]["result"] != "c3":
            raise RuntimeError("a store was refused")
        if name == "retrieve" and result["of"]["prepare_retrieve"]["result_size"] < LARGE:
            raise RuntimeError("a retrieve missed")


# ---- 6: pings beside everything ----


def pings(run: Run) -> List[Figure]:
    """Four clients look up, two store 32 MiB chunks by byte copy, one pings."""
    data = wire.chunk_pickle(LARGE)
    with Server(run.place, 2, shared=False) as server:
        server.ask(wire.registration(LARGE_MODEL, LARGE_INSTANCE, LARGE), wire.registration(MODEL, INSTANCE, SMALL))
        server.wait_supplied(2)
        cycle = wire.lookup_cycle(wire.prompt(wire.PROMPT, wire.CONNECTION), MODEL)
        stores = wire.store(wire.prompt(wire.CHUNK, wire.CYCLE), LARGE_MODEL, LARGE_INSTANCE, data=data)
        everything = [*cycle, *stores, wire.ping()]
        with run.floor_for(server, everything) as sink:

            def idle(program: Program) -> float:
                return run.load(program, [wire.ping()], pause_us=500)["of"]["ping"]["p99_us"]

            def busy(program: Program) -> float:
                seconds = run.seconds + 0.3
                others = [
                    Load(run.place, program.endpoint, cycle, connections=4, seconds=seconds),
                    Load(run.place, program.endpoint, stores, connections=2, seconds=seconds),
                ]
                result = run.load(program, [wire.ping()], pause_us=500, warmup=0.3)
                for other in others:
                    other.result()
                return result["of"]["ping"]["p99_us"]

            quiet = run.in_turn([server, sink], idle)
            loaded = run.in_turn([server, sink], busy)
    return [
        Figure("ping p99, nobody else", "us", *quiet, "sink"),
        Figure("ping p99 beside 4 lookups and 2 stores", "us", *loaded, "sink"),
    ]


# ---- 7: start and memory ----


def start(run: Run) -> List[Figure]:
    figures = []
    bare_words = [str(run.place.tools / "bare_program"), "--reply", "18=3", "--endpoint"]
    for gib in (1, 64):
        ours, floor = [], []
        for _ in range(run.rounds):
            port = free_port()
            words = server_words(run.place, port, free_port(), gib)
            ours.append(first_reply(run.place, f"tcp://127.0.0.1:{port}", 0.5, words))
            endpoint = f"tcp://127.0.0.1:{free_port()}"
            floor.append(first_reply(run.place, endpoint, 0.2, [*bare_words, endpoint]))
        times = column(ours, "first_reply_ms"), column(floor, "first_reply_ms")
        sizes = [[(r["anonymous_kib"] + r["file_kib"]) / KIB for r in results] for results in (ours, floor)]
        figures.append(Figure(f"first reply, {gib} GiB", "ms", *times, "bare", at_most(2)))
        figures.append(Figure(f"resident beyond L1, {gib} GiB", "MiB", *sizes, "bare", at_most(1.7)))
    return figures


def held_memory(run: Run) -> List[Figure]:
    """10^4 open sessions; what is left ten seconds after a storm; an idle server's CPU time."""
    with Server(run.place, 1) as server:
        tokens = fill(run, server, 1)
        cycle = [wire.with_wide_first(request, 0) for request in wire.lookup_cycle(tokens, MODEL)]
        run.load(server, cycle, connections=CLIENTS)
        before = memory(server.pid)["Anon"]
        run.load(server, cycle[:2], connections=2, cycles=SESSIONS)
        opened = server.status()["active_sessions"]
        sessions = (memory(server.pid)["Anon"] - before) / KIB
        if opened < SESSIONS:
            raise RuntimeError(f"only {opened} sessions are open")
    with Server(run.place, 2) as server:
        storm(run, server)
        time.sleep(10)
        after = memory(server.pid)["Anon"] / KIB
        used = cpu_seconds(server.pid)
        time.sleep(3)
        idle = (cpu_seconds(server.pid) - used) / 3 * 100
    return [
        Figure("10,000 open sessions of 32,768 tokens", "MiB", [sessions], bar=value_at_most(64)),
        Figure("anonymous memory 10 s after a storm", "MiB", [after], bar=value_at_most(32)),
        Figure("CPU of an idle server", "%", [idle], note="whole clock ticks; after the storm"),
    ]


def storm(run: Run, server: Server) -> None:
    """Everything at once for a moment: lookups, stores and retrieves by byte copy, small calls."""
    data = wire.chunk_pickle(LARGE)
    tokens = fill(run, server, CLIENTS)
    server.ask(wire.registration(LARGE_MODEL, LARGE_INSTANCE, LARGE))
    stores = wire.store(wire.prompt(wire.CHUNK, wire.CYCLE), LARGE_MODEL, LARGE_INSTANCE, data=data)
    resident = wire.prompt(wire.CHUNK, 5)
    server.ask(*wire.store(resident, LARGE_MODEL, LARGE_INSTANCE, data=data))
    loads = [
        (wire.lookup_cycle(tokens, MODEL), {"connections": CLIENTS}),
        (stores, {"connections": 2}),
        (wire.retrieve(resident, LARGE_MODEL, LARGE_INSTANCE), {"connections": 2}),
        ([wire.noop()], {"connections": 32, "outstanding": 64}),
    ]
    running = [Load(run.place, server.endpoint, r, seconds=3 * run.seconds, **options) for r, options in loads]
    for load in running:
        load.result()


# ---- 8: many objects ----


def objects(run: Run) -> List[Figure]:
    """The tiers by themselves, then LOOKUP through the whole server."""
    times = 1 if run.quick else 3
    l1 = [run_tool(run.place, "l1_bench", "--json")["l1"][1] for _ in range(times)]
    core = [run_tool(run.place, "lookup_bench") for _ in range(times)]
    few, many = [row["few"] for row in core], [row["many"] for row in core]
    quiet = column(many, "p99_us")
    return [
        Figure("10^6 objects: bytes kept per object", "B", column(l1, "bytes_per_object"), bar=value_at_most(160)),
        Figure("lock of L1, longest hold while storing", "us", [ns / 1e3 for ns in column(l1, "longest_hold_storing_ns")]),
        Figure("a lock's longest hold while 20 % go", "us", column(many, "hold_us"), bar=value_at_most(1000)),
        Figure("LOOKUP in the core p99 while 20 % go", "us", column(many, "evicting_p99_us"), quiet, "quiet", at_most(2)),
        Figure("LOOKUP in the core p50, 10^6 objects", "us", column(many, "p50_us"), column(few, "p50_us"), "10^3",
               at_most(1.2)),
        *whole_lookups(run),
    ]  # fmt: skip


def whole_lookups(run: Run) -> List[Figure]:
    prompts = 800 if run.quick else 7813
    gib = round(prompts * 128 * SMALL / 0.75 / (1 << 30), 2)
    with Server(run.place, 1) as few, Server(run.place, gib) as many:
        for server in (few, many):
            tokens = fill(run, server, CLIENTS)
        stores = wire.store(wire.prompt(wire.PROMPT, wire.CYCLE, seed=4), MODEL, INSTANCE)
        run.load(many, stores, connections=2, cycles=prompts)
        count = many.status()["storage_manager"]["l1_manager"]["total_object_count"]
        cycle = wire.lookup_cycle(tokens, MODEL)
        ours, floor = run.in_turn([many, few], lambda server: run.load(server, cycle))
    path = ("of", "lookup", "p50_us")
    name = f"LOOKUP p50, {count:,} objects"
    return [Figure(name, "us", column(ours, *path), column(floor, *path), "10^3", at_most(1.2))]
