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
    assert "Echo(dependencies=[Prefix])" in composed and "Prefix(dependencies=[LookupModule])" in composed
    assert composed.index("ManagementModule(") < composed.index("generation_four_second(")


def test_03_and_11_a_class_that_does_not_apply_is_absent(serve):
    one = serve(spec("generation_five.server_module"))
    assert "Prefix(" not in one.log() and "generation_five" not in one.status()
    answer = envelope(one.client(), "generation_five.echo")
    assert answer == (False, b"", "unknown server module method: generation_five.echo")
