"""Server, guardian and watcher stopped and killed, one by one and together: no plugin outlives the server."""

import ctypes
import itertools
import os
import signal

import pytest
from house import poll_until
from plugin_house import alive, run_with_owners

FATES = {"stopped": signal.SIGSTOP, "killed": signal.SIGKILL}
ONE = [((who, fate),) for who in ("guardian", "watcher") for fate in FATES]
TWO = [
    tuple(zip(order, fates)) for order in (("guardian", "watcher"), ("watcher", "guardian"))
    for fates in itertools.product(FATES, repeat=2)
]  # fmt: skip
SOMEBODY_LEFT = [blows for blows in TWO if any(fate == "stopped" for _, fate in blows)]


def called(blows):
    return "-".join(f"{who}-{fate}" for who, fate in blows) or "nobody"


@pytest.fixture
def owned(server, tmp_path):
    one, numbers, folder = run_with_owners(server, tmp_path)
    yield one, numbers, folder
    if alive(one.process.pid):
        os.kill(one.process.pid, signal.SIGCONT)
        one.stop()
    for number in (numbers["guardian"], numbers["watcher"], *folder.processes()):  # of a test that failed
        if alive(number):
            os.kill(number, signal.SIGKILL)


def strike(numbers, blows):
    for who, fate in blows:
        if alive(numbers[who]):
            os.kill(numbers[who], FATES[fate])


def end_server_and_see_nothing_left(one, numbers, folder):
    one.judged = True
    one.kill()
    poll_until(lambda: not folder.processes(), "an end of all plugins", 10)
    poll_until(lambda: not alive(numbers["guardian"]) and not alive(numbers["watcher"]), "an end of both", 10)


@pytest.mark.parametrize("server_is", ["running", "stopped"])
@pytest.mark.parametrize("blows", [(), *ONE, *SOMEBODY_LEFT], ids=called)
def test_51_plugins_end_with_the_server_whatever_befell_their_owners(owned, blows, server_is):
    one, numbers, folder = owned
    if server_is == "stopped":
        os.kill(one.process.pid, signal.SIGSTOP)
    strike(numbers, blows)
    end_server_and_see_nothing_left(one, numbers, folder)


@pytest.mark.parametrize("blow", ONE, ids=called)
def test_51_plugins_end_also_when_an_owner_is_struck_after_the_server(owned, blow):
    one, numbers, folder = owned
    os.kill(one.process.pid, signal.SIGKILL)
    strike(numbers, blow)
    end_server_and_see_nothing_left(one, numbers, folder)


def test_51_plugins_end_also_when_a_debugger_holds_the_guardian(owned):
    """SIGCONT does not wake it, and its death is for the debugger to see first."""
    one, numbers, folder = owned
    seize, interrupt = 0x4206, 0x4207
    ptrace = ctypes.CDLL(None, use_errno=True).ptrace
    ptrace.argtypes = [ctypes.c_long, ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p]
    if ptrace(seize, numbers["guardian"], None, None) != 0:
        pytest.skip(f"no tracing here: {os.strerror(ctypes.get_errno())}")
    assert ptrace(interrupt, numbers["guardian"], None, None) == 0
    os.waitpid(numbers["guardian"], 0)
    one.kill()
    one.judged = True
    poll_until(lambda: not folder.processes(), "an end of all plugins", 10)
    os.waitpid(numbers["guardian"], 0)
    poll_until(lambda: not alive(numbers["watcher"]), "an end of the watcher", 20)


@pytest.mark.parametrize("blows", [blows for blows in TWO if len({fate for _, fate in blows}) == 2], ids=called)
def test_51_a_server_whose_guardian_is_stopped_and_lost_its_watcher_or_the_reverse_ends_the_plugins(owned, blows):
    one, numbers, folder = owned
    one.allow(r"The guardian of the runtime plugins \(process \d+\) is gone")
    strike(numbers, blows)
    poll_until(lambda: not folder.processes(), "an end of all plugins", 10)
    poll_until(lambda: one.status()["plugin_guardian"] is None, "a table that says so")
    assert one.status()["plugin_watcher"] is None and one.get("/healthcheck").status == 200


@pytest.mark.parametrize("blows", [(("guardian", "stopped"),), (("watcher", "stopped"),)], ids=called)
def test_50_a_server_in_order_ends_plugins_whose_owner_is_stopped(owned, blows):
    one, numbers, folder = owned
    one.allow("did not end within 5 s of SIGTERM")
    strike(numbers, blows)
    assert one.stop() == 0
    assert not folder.processes()
    assert not alive(numbers["guardian"]) and not alive(numbers["watcher"])
    one.judge()
