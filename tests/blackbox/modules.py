"""Server modules for the house tests: built from tests/modules and examples with the C compiler."""

import functools
import itertools
import json
import os
import pathlib
import re
import shlex
import subprocess
import tempfile

import msgpack

from house import BINARY, ROOT, Server, run_cli

COMPILER = shlex.split(os.environ.get("CC", "cc"))
HEADERS = ROOT / "include"
SOURCES = ROOT / "tests" / "modules"
KIT = pathlib.Path(BINARY).parent / "lmcached-module-test"


_numbers = itertools.count()


@functools.cache
def _folder():
    folder = tempfile.TemporaryDirectory(prefix="lmcached-modules-")
    _folder.keep = folder  # removed when the tests end
    return pathlib.Path(folder.name)


@functools.cache
def build(source, *flags, headers=HEADERS):
    """The path of a shared object. ``flags`` are for the compiler."""
    path = _folder() / f"{pathlib.Path(source).stem}-{len(list(_folder().iterdir()))}.so"
    command = [
        *COMPILER, "-D_GNU_SOURCE", "-O1", "-g", "-Wall", "-Wextra", "-Werror", "-fPIC", "-shared", f"-I{headers}",
        *flags, "-o", str(path), str(source), "-lpthread",
    ]  # fmt: skip
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return str(path)


def probe(name="Probe", prefix=None, depends=(), override=None, scheduling="LMC_SYNC", live=False, more=()):
    prefix = prefix or re.sub(r"Module$", "", name).lower()
    flags = [f'-DNAME="{name}"', f'-DPREFIX="{prefix}"']
    if depends:
        flags.append("-DDEPENDS=" + ",".join(f'"{d}"' for d in depends))
    if override:
        flags += [f'-DOVERRIDE="{override}"', f"-DSCHEDULING={scheduling}"]
    if live:
        flags.append("-DLIVE")
    return build(SOURCES / "probe.c", *flags, *more)


def broken(kind):
    return build(SOURCES / "broken.c", f"-DKIND={kind}")


def spec(path, **config):
    return {"module_path": path, "config": config}


def flags(*specs):
    """One --server-module per spec."""
    return [word for s in specs for word in ("--server-module", json.dumps(s))]


def composed(server):
    """How many modules the log says were composed, and which; None: it says nothing."""
    return re.search(r"Composed (\d+) server modules: (.*) \(composition", server.log())


class Trace:
    """What the probes say has happened, oldest first."""

    def __init__(self, folder):
        self.path = pathlib.Path(folder) / "trace"

    def lines(self):
        return self.path.read_text().splitlines() if self.path.exists() else []

    def of(self, what):
        return [line.split(" ", 1)[1] for line in self.lines() if line.split(" ", 1)[0] == what]


def envelope(raw, method, payload=b""):
    """The reply to one envelope call, as a map."""
    return raw.call("server_module_call", {"method": method, "payload": payload})


def answer(raw, method, payload=b""):
    reply = envelope(raw, method, payload)
    assert reply["success"], reply
    return reply["payload"].decode()


def failed_start(tmp_path, *specs, more=()):
    """The log of a server that must refuse to start with these modules."""
    base = ["--l1-size-gb", "0.0625", "--eviction-policy", "LRU", "--chunk-size", "4"]
    one = Server(tmp_path / f"refused-{next(_numbers)}.log", [*base, *more, *flags(*specs)]).start()
    try:
        assert one.process.wait(timeout=60) == 1, one.log()
    finally:
        if one.process.poll() is None:
            one.kill()
    return one.log()


def error_of(log):
    """The text of the one ERROR line of a refused start."""
    found = [m.group(1) for m in re.finditer(r"LMCache ERROR: (.*) \(\S+\)$", log, re.M)]
    assert len(found) == 1, log
    return found[0]


__all__ = [
    "COMPILER", "KIT", "ROOT", "SOURCES", "Trace", "answer", "broken", "build", "envelope", "error_of", "failed_start", "flags",
    "msgpack", "probe", "run_cli", "spec",
]  # fmt: skip
