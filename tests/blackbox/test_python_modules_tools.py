"""What the tools say of server modules in Python: check-module, the conformance kit, status."""

import os
import subprocess

import pytest

from house import run_cli
from modules import KIT
from python_packages import DROP, FAKE, FOUR, SIDECAR, needs_host

pytestmark = needs_host


def test_check_module_builds_and_shows_a_module_in_python(packages):
    module = packages.one_class(FAKE, create="assert build_ctx.config_for(cls) == {'a': 1}\nreturn made(cls, build_ctx)")
    environment = {**os.environ, **packages.environment()}
    done = run_cli("check-module", "--config", '{"a": 1}', module, environment=environment)
    assert (done.returncode, done.stdout.splitlines()[-1]) == (0, "nothing is wrong"), done.stdout + done.stderr
    assert "Probe\n  method      fake.echo\n  method      fake.fail\n" in done.stdout
    assert packages.lines() == ["create Probe", "close Probe"]
    refused = run_cli("check-module", module, environment=environment)
    assert refused.returncode == 1 and "violation: Probe: " in refused.stdout
    missing = run_cli("check-module", "no_such_module", environment=environment)
    assert missing.returncode == 1
    assert "violation: Failed to import engine module no_such_module: No module named 'no_such_module'" in missing.stdout


def test_status_says_what_is_written_in_python(host, packages):
    module = packages.one_class("pass", more="__version__ = '1.2'\n")
    shown = host(module).status()["server_modules"]
    assert (shown["Probe"]["origin"], shown["Probe"]["version"]) == ("python", "1.2")
    assert shown["LookupModule"]["origin"] == "built-in"


def test_the_conformance_kit_takes_a_module_in_python(packages):
    module = packages.one_class(FAKE.replace('raise RuntimeError("boom")', "return payload") + FOUR + DROP)
    done = subprocess.run(
        [KIT, module], env={**os.environ, **packages.environment()}, capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0 and done.stdout.endswith("9 passed, 0 failed\n"), done.stdout + done.stderr
    bad = packages.one_class("def close(self):\n    pass\n", create="threading.Thread(target=time.sleep, args=(9,)).start()\nreturn cls(build_ctx)", module="bad")
    done = subprocess.run(
        [KIT, bad], env={**os.environ, **packages.environment()}, capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 1 and "threads are left behind" in done.stdout, done.stdout + done.stderr


def kit(packages, *words):
    environment = {**os.environ, **packages.environment()}
    return subprocess.run([KIT, *words], env=environment, capture_output=True, text=True, timeout=300)


ENDED = """\
    {end}
def close(self):
    self.stop.set()
    self.thread.join()
"""


def test_the_kit_counts_sockets_of_a_sidecar_and_not_the_context_that_all_share(packages):
    done = kit(packages, packages.one_class(SIDECAR + ENDED.format(end="self.socket.close(0)")))
    assert done.returncode == 0 and done.stdout.endswith("9 passed, 0 failed\n"), done.stdout + done.stderr
    kept = "kept = []\n"
    leaves = SIDECAR + ENDED.format(end="kept.append(self.socket)")
    done = kit(packages, packages.one_class(leaves, module="bad", more=kept))
    assert done.returncode == 1 and "descriptors are left behind" in done.stdout, done.stdout + done.stderr


def test_check_module_shows_what_a_module_in_python_has(packages):
    handlers = "".join(
        f"@request_handler(HandlerType.{declared})\ndef {signature}: return None\n"
        for declared, signature in (("SYNC", "noop(self) -> str"), ("BLOCKING", "ping(self, instance_id: int | None) -> bool"),
                                    ("BLOCKING, requires_client_affinity=True", "end_session(self, request_id: str) -> None"))
    )  # fmt: skip
    registrars = "def register_zmq_services(self, server): pass\ndef register_grpc_services(self, server): pass\n"
    module = packages.one_class(handlers + registrars + FOUR + DROP)
    plain = packages.one_class("pass", name="Plain", module="plain")
    done = run_cli("check-module", plain, module, environment={**os.environ, **packages.environment()})
    assert done.returncode == 0, done.stdout + done.stderr
    assert "Plain\n  hooks       create, close, report_status\n" in done.stdout
    assert (
        "Probe\n"
        "  overrides   end_session (BLOCKING with client affinity)\n"
        "  overrides   noop (SYNC)\n"
        "  overrides   ping (BLOCKING)\n"
        "  hooks       create, close, report_status, liveness, register_zmq_services, register_grpc_services\n"
    ) in done.stdout, done.stdout


FACTORY = "def make(ctx):\n    return [Probe(ctx)] if ctx.config == {'a': 1} else None\n"


def test_the_tools_take_the_name_of_a_factory(packages):
    module = packages.write(
        "old", FACTORY + "class Probe(Base):\n    def __init__(self, ctx):\n        self._context = ctx.server_context\n"
        "    create = None\n    @server_module_handler('old.echo')\n    def echo(self, payload):\n        return payload\n"
    )  # fmt: skip
    environment = {**os.environ, **packages.environment()}
    words = ["--factory", "make", "--config", '{"a": 1}', module]
    done = run_cli("check-module", *words, environment=environment)
    assert done.returncode == 0 and "  method      old.echo\n" in done.stdout, done.stdout + done.stderr
    assert kit(packages, *words).returncode == 0
    done = run_cli("check-module", "--factory", "nothing", module, environment=environment)
    assert done.returncode == 1 and "module 'old' has no attribute 'nothing'" in done.stdout
    done = run_cli("check-module", "--factory", "make", "./a.so", environment=environment)
    assert done.returncode == 2 and "argument --factory: not a module in Python: ./a.so" in done.stderr


@pytest.mark.parametrize(
    "words, text",
    [
        ([], "the following arguments are required: MODULE"),
        (["--bogus", "./a.so"], "unrecognized arguments: --bogus"),
        (["./a.so", "./b.so"], "unrecognized arguments: ./b.so"),
        (["./a.so", "--times"], "expected one argument after --times"),
        (["./a.so", "--times", "3x"], "argument --times: expected a whole number above 0, not 3x"),
        (["--config", "[]", "./a.so"], "argument --config: not a JSON object: []"),
        (["--factory", "make", "./a.so"], "argument --factory: not a module in Python: ./a.so"),
    ],
)
def test_the_kit_says_what_is_wrong_with_its_words(words, text):
    done = subprocess.run([KIT, *words], capture_output=True, text=True, timeout=60)
    assert done.returncode == 2 and done.stdout == ""
    assert done.stderr.startswith("usage: ") and done.stderr.endswith(f"\nlmcached-module-test: error: {text}\n")
