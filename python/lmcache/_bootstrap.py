"""What the host inside lmcached calls; the contract is in ``_host.pyi``, part 2.

All on the main thread unless it says otherwise.
"""

from __future__ import annotations

import atexit
import contextlib
import logging
import sys
import threading
import time
from typing import Any, Callable, Dict, Iterator, List, Optional, Sequence, Tuple

from lmcache import _loader, _report, _units
from lmcache._bridge import StartError, host
from lmcache._contracts import message_types
from lmcache._streams import LogStream
from lmcache._zmq_server import MessageQueueServer
from lmcache.logging import ServerHandler
from lmcache.v1.mp_observability.event_bus import get_event_bus


def setup() -> None:
    """First of all: output, uncaught exceptions and logging go to the server's log."""
    sys.stdout = LogStream(logging.INFO, "stdout", 1)  # type: ignore[assignment]
    sys.stderr = LogStream(logging.ERROR, "stderr", 2)  # type: ignore[assignment]
    sys.excepthook = _uncaught
    threading.excepthook = _uncaught_in_thread
    sys.unraisablehook = _unraisable
    root = logging.getLogger()
    if not any(isinstance(handler, ServerHandler) for handler in root.handlers):
        root.addHandler(ServerHandler())
    host().set_message_types(message_types)


def load(builtin_names: Sequence[str], native_names: Sequence[str]) -> List[Dict[str, Any]]:
    """Imports the packages, lists what can be built and checks what depends on what."""
    return _loader.load(builtin_names, native_names)


def create(index: int) -> Optional[Dict[str, Any]]:
    unit = _units.unit(index)
    with _explained(f"{unit.builder()} failed"):
        return unit.create()


def register_zmq(index: int) -> None:
    unit = _units.unit(index)
    with _explained(f"register_zmq_services() of server module {unit.name} failed"):
        unit.register_zmq(MessageQueueServer())


@contextlib.contextmanager
def _explained(what: str) -> Iterator[None]:
    """A failure of the author's code that ends the start: told in one line, with its traceback
    behind it."""
    try:
        yield
    except StartError:
        raise
    except BaseException as failure:
        _report.log_exception(
            _report.without_own_frames(failure), _report.headline(what, failure)
        )
        raise StartError(_report.reason_of(failure)) from None


def register_grpc(index: int) -> None:
    """For the gRPC transport, which calls it where there is one."""


def report_status(index: int) -> str:
    """Any one thread."""
    return _units.unit(index).report_status()


def close(index: int) -> None:
    _units.unit(index).close()


def stop_subscribers() -> None:
    """The bus has stopped and no module is closed yet."""
    get_event_bus().shut_subscribers_down()
    _units.stop()
    if host().REHEARSAL:
        _start_shared_context()


def _start_shared_context() -> None:
    """The kit counts what modules leave behind, and the context that they share stays: its
    threads are to be there before it counts."""
    zmq = sys.modules.get("zmq")
    try:
        if zmq is not None:
            zmq.Context.instance().socket(zmq.PAIR).close()
    except Exception:
        pass  # whoever needs it will meet the same


def describe_exception(error: BaseException) -> Tuple[str, List[str]]:
    """Any thread. Never raises."""
    return _report.describe(error)


# ---- the end ----


def finish(budget_s: float) -> List[str]:
    """Exit functions and threads, within a budget; the names of those that still run."""
    deadline = time.monotonic() + budget_s
    left = []
    if not _within(_run_thread_exits, "exit functions of threads", deadline):
        left.append("exit functions of threads")
    left.extend(_join_threads(deadline))
    if not _within(atexit._run_exitfuncs, "exit functions", deadline):
        left.append("exit functions")
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, LogStream):
            stream.give_rest()
    return left


def _run_thread_exits() -> None:
    """What ``threading`` runs before it waits for threads: pools of concurrent.futures end."""
    functions = list(getattr(threading, "_threading_atexits", ()))
    getattr(threading, "_threading_atexits", []).clear()
    for function in reversed(functions):
        function()


def _within(function: Callable[[], Any], what: str, deadline: float) -> bool:
    """Runs a function of others beside this thread, because it may never return."""

    def run() -> None:
        try:
            function()
        except BaseException as failure:
            _report.log_exception(failure, f"{what} failed")

    thread = threading.Thread(target=run, name=f"lmcache {what}", daemon=True)
    thread.start()
    thread.join(max(0.0, deadline - time.monotonic()))
    return not thread.is_alive()


def _join_threads(deadline: float) -> List[str]:
    """Waits for threads that are not daemons."""
    left = []
    for thread in threading.enumerate():
        foreign = isinstance(thread, threading._DummyThread)
        if thread.daemon or foreign or thread is threading.current_thread():
            continue
        if thread is threading.main_thread():
            continue
        thread.join(max(0.0, deadline - time.monotonic()))
        if thread.is_alive():
            left.append(thread.name)
    return left


# ---- exceptions that nobody caught ----


def _uncaught(_kind: Any, error: BaseException, _traceback: Any) -> None:
    _report.log_exception(error, "uncaught exception")


def _uncaught_in_thread(arguments: Any) -> None:
    if arguments.exc_type is SystemExit:
        return
    name = getattr(arguments.thread, "name", "?")
    error = arguments.exc_value or arguments.exc_type()
    _report.log_exception(error, f"uncaught exception in thread {name}")


def _unraisable(arguments: Any) -> None:
    error = arguments.exc_value or arguments.exc_type()
    what = arguments.err_msg or "exception ignored in"
    _report.log_exception(error, f"{what} {_short(arguments.object)}")


def _short(value: Any) -> str:
    try:
        return repr(value)[:200]
    except BaseException:
        return f"a {type(value).__name__}"
