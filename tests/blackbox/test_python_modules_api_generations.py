"""Packages of the five generations of the server-module API, alone and together."""

import re

import pytest

from house import end, lookup_key
from python_house import GENERATIONS, envelope, environment, flags, needs_host, spec

pytestmark = needs_host

ONE = spec("generation_one.server_module", {"greeting": "good day"})
TWO = spec("generation_two.server_module", factory_name="make_modules")
THREE = spec("generation_three.server_module")
FOUR = spec("generation_four.server_module")
FIVE = spec("generation_five.server_module", {"prefix": "echo:"})


@pytest.fixture
def serve(server):
    return lambda *specs: server(*flags(*specs), environment=environment(GENERATIONS))


def check_one(one, client):
    assert envelope(client, "generation_one.greet", b"you") == (True, b"good day you", "")
    assert one.status()["generation_one"] == {"chunk_size": 4, "transports": ["MessageQueueServer"]}


def check_two(one, client):
    assert envelope(client, "generation_two.upper", b"Abc")[1] == b"ABC"
    assert envelope(client, "generation_two.lower", b"Abc")[1] == b"abc"
    status = one.status()
    assert status["generation_two_upper"] == status["generation_two_lower"] == {"calls": 1}


def check_three(one, client):
    assert one.status()["generation_three"] == {"lookups": 0}
    assert client.lookup_chunks(lookup_key(range(8), "three")) == 0
    assert one.status()["generation_three"] == {"lookups": 1}
    end(client, "three")


def check_four(one, client):
    assert envelope(client, "generation_four.chunk_size")[1] == b"4"
    names = one.status()["generation_four"]["names"]
    assert "generation_four_first" in names and "LookupModule" in names and names == sorted(names)


def check_five(one, client):
    assert envelope(client, "generation_five.echo", b"x")[1] == b"echo:x"
    assert one.status()["generation_five"] == {"is_healthy": True, "prefix": "echo:"}


CHECKS = {"one": (ONE, check_one), "two": (TWO, check_two), "three": (THREE, check_three),
          "four": (FOUR, check_four), "five": (FIVE, check_five)}  # fmt: skip


@pytest.mark.parametrize("generation", sorted(CHECKS))
def test_15_a_package_of_any_generation_loads(serve, generation):
    one_spec, check = CHECKS[generation]
    one = serve(one_spec)
    check(one, one.client())


def test_15_all_five_generations_work_in_one_server(serve):
    one = serve(*(one_spec for one_spec, _check in CHECKS.values()))
    client = one.client()
    for _spec, check in CHECKS.values():
        check(one, client)
    methods = one.status()["server_module_plugins"]["methods"]
    assert methods == sorted(methods) and len(methods) == 5
    composed = re.search(r"Composed \d+ server modules: (.*) \(composition", one.log()).group(1)
    assert "Upper(dependencies=[]), Lower(dependencies=[])" in composed and "Greeter(dependencies=[])" in composed
    assert "Echo(dependencies=[Prefix])" in composed and "Prefix(dependencies=[LookupModule])" in composed
    assert composed.index("ManagementModule(") < composed.index("generation_four_second(")


def test_03_and_11_a_class_that_does_not_apply_is_absent(serve):
    one = serve(spec("generation_five.server_module"))
    assert "Prefix(" not in one.log() and "generation_five" not in one.status()
    answer = envelope(one.client(), "generation_five.echo")
    assert answer == (False, b"", "unknown server module method: generation_five.echo")


# ---- modules of factories are entries of their own ----

FACTORY = """
from lmcache.v1.multiprocess.ext_server_module import ExtServerModuleComponents, server_module_handler
from lmcache.v1.multiprocess.request_handler import HandlerType, request_handler
import os

def trace(*words):
    with open(os.environ["TRACE"], "a") as out:
        print(*words, file=out)

class Base:
    def __init__(self, ctx):
        self.context = ctx.server_context
    def report_status(self):
        return {"last": type(self).__name__, type(self).__name__: 1}
    def close(self):
        trace("close", type(self).__name__)

class One(Base):
    def report_status(self):
        raise ValueError("no status")
    def close(self):
        super().close()
        raise OSError("no close")
    @request_handler(HandlerType.SYNC)
    def get_chunk_size(self) -> int:
        return 1

class Two(Base):
    module_name = "second"
    @server_module_handler("two.echo")
    def echo(self, payload):
        return payload
    @request_handler(HandlerType.SYNC)
    def get_chunk_size(self) -> int:
        return 2
    def register_zmq_services(self, server):
        trace("registrar", "two")
    def touch_instance(self, instance_id): pass
    def reap_stale_instances(self, timeout_s, grace_s): return []
    def tracked_instance_count(self): return 5
    def drop_instance_state(self, instance_id): pass

class Wrong(Base):
    @request_handler(HandlerType.SYNC)
    def noop(self) -> int:
        return 2

def build_server_modules(ctx):
    one, two = One(ctx), Two(ctx)
    registrars = [lambda server: trace("registrar", "explicit"), two.register_zmq_services]
    return ExtServerModuleComponents([one, two], [], registrars)
def same(ctx): return [One(ctx), One(ctx)]
def wrong(ctx): return [One(ctx), Wrong(ctx)]
def only(ctx): return ExtServerModuleComponents([], [], [lambda server: trace("registrar", "only")])
"""


@pytest.fixture
def factories(server, tmp_path):
    (tmp_path / "factories").mkdir()
    (tmp_path / "factories" / "factories.py").write_text(FACTORY)
    trace = tmp_path / "trace"

    def start(name, **options):
        given = {**environment(tmp_path / "factories"), "TRACE": str(trace)}
        return server(*flags(spec("factories", factory_name=name)), environment=given, **options)

    start.lines = lambda: trace.read_text().splitlines() if trace.exists() else []
    return start


def test_15_each_module_of_a_factory_is_built_shown_and_closed_by_itself(factories):
    one = factories("build_server_modules")
    one.allow("no status", "no close", r"\(python:0:lmcache\.")
    client = one.client()
    status = one.status()
    assert {"One", "second"} <= set(status["server_modules"])
    assert status["status_errors"] == {"One": "no status"} and status["last"] == "Two" and status["Two"] == 1
    assert status["worker_liveness"]["tracked_instances"] == 5
    assert client.get_chunk_size().result(30) == 2
    assert envelope(client, "two.echo", b"x") == (True, b"x", "")
    assert one.status()["server_modules"]["second"]["calls"] == 2
    composed = re.search(r"Composed \d+ server modules: (.*) \(composition", one.log()).group(1)
    assert "One(dependencies=[]), second(dependencies=[]), ManagementModule(dependencies=[])" in composed
    assert "second replaces One as the handler of 'get_chunk_size'" in one.log()
    one.judge()
    assert factories.lines() == ["registrar explicit", "registrar two", "close Two", "close One"]
    assert "close() of server module One failed: no close" in one.log()


def test_15_two_modules_of_one_class_have_names_of_their_own(factories):
    one = factories("same")
    one.allow("no status", "no close", r"\(python:0:lmcache\.")
    assert {"One", "One_2"} <= set(one.status()["server_modules"])


def test_15_a_factory_with_registrars_only_is_an_entry(factories):
    one = factories("only")
    assert "factories_only(dependencies=[])" in one.log() and factories.lines() == ["registrar only"]


def test_15_a_factory_whose_module_is_refused_closes_what_it_made(factories):
    one = factories("wrong", wait=False)
    one.judged = True
    assert one.process.wait(30) == 1
    assert "Handler Wrong.noop return annotation int does not match RPC 'noop' type str" in one.log()
    assert factories.lines() == ["close Wrong", "close One"]
