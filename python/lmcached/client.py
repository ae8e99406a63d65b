"""The client: one DEALER socket, owned by a background thread, and futures for replies."""

from __future__ import annotations

import concurrent.futures
import heapq
import itertools
import logging
import os
import struct
import threading
import time
from collections import deque
from typing import (
    Any,
    Deque,
    Dict,
    Generic,
    List,
    Mapping,
    Optional,
    Sequence,
    Tuple,
    TypeVar,
    Union,
)

import msgpack
import zmq

from . import checks
from .errors import ClientClosed, ProtocolError, RequestTimeout
from .messages import (
    BlockAllocationRecord,
    CacheKey,
    EngineDrivenContext,
    EngineGroup,
    PreparedRetrieve,
    PreparedStore,
    Registration,
    ServerModuleCallRequest,
    ServerModuleCallResponse,
)
from .operations import OPERATIONS, Operation
from .tensors import Buffer, CpuShmTensor, Pieces

T = TypeVar("T")
log = logging.getLogger("lmcached")

WRAPPER_CODE = 1  # MessagePack extension type of device and shared-memory wrappers
_COPY_BELOW = 64 << 10  # frames smaller than this are cheaper to copy than to hand over
_REPLIES_PER_TURN = 256


class Future(concurrent.futures.Future, Generic[T]):
    """The reply to come. Callbacks run on the client's own thread and must be short."""

    def result(self, timeout: Optional[float] = None) -> T:
        """Waits at most ``timeout`` seconds. The request itself ends at the client's deadline."""
        try:
            return super().result(timeout)
        except concurrent.futures.TimeoutError as error:
            if isinstance(error, RequestTimeout):
                raise
            raise RequestTimeout(f"no reply within {timeout} s") from None


def normalize_url(url: str) -> str:
    """Adds ``tcp://`` where no scheme is given and lower-cases the scheme. ValueError: no address
    that ZMQ could connect to."""
    scheme, separator, rest = checks.text("url", url).partition("://")
    if not separator:
        scheme, rest = "tcp", url
    scheme = scheme.lower()
    if scheme not in ("tcp", "ipc", "inproc"):
        raise ValueError(f"unsupported URL scheme {scheme!r}: this client speaks ZMQ (tcp, ipc, inproc)")
    if not rest:
        raise ValueError(f"{url!r} names no address")
    if scheme == "tcp":
        host, _, port = rest.rpartition(":")
        if not host or not port.isdecimal() or not 0 < int(port) < 1 << 16:
            raise ValueError(f"{url!r} is no address of a server: expected is tcp://HOST:PORT")
    return f"{scheme}://{rest}"


def _bin_header(size: int) -> bytes:
    if size < 1 << 8:
        return struct.pack(">BB", 0xC4, size)
    return struct.pack(">BH", 0xC5, size) if size < 1 << 16 else struct.pack(">BI", 0xC6, size)


def _encode(value: Any) -> bytes:
    if isinstance(value, Pieces):  # one copy, however large it is
        return b"".join((_bin_header(value.size), *value.pieces))
    return msgpack.packb(value, use_bin_type=True)


def _encode_arguments(arguments: Sequence[Any]) -> List[bytes]:
    return [_encode(value) for value in arguments]


def encode_request(uid: int, operation: Operation, arguments: Sequence[Any]) -> List[bytes]:
    """Frames of one request, as the DEALER sends them."""
    return _encode_arguments((uid, operation.wire, *arguments))


def _decode(frame: Any) -> Any:
    try:
        return msgpack.unpackb(frame, raw=False, strict_map_key=False)
    except Exception as error:  # msgpack raises many kinds
        raise ProtocolError(f"undecodable reply: {error}") from None


def _key(key: Any) -> CacheKey:
    if not isinstance(key, CacheKey):
        raise TypeError(f"key must be a CacheKey, not {type(key).__name__}")
    return key


def _wrapper(tensor: Any) -> msgpack.ExtType:
    body = tensor.to_wire() if isinstance(tensor, CpuShmTensor) else bytes(checks.data("a tensor", tensor))
    return msgpack.ExtType(WRAPPER_CODE, body)


class _Request:
    """One call: its forms (newest first), of which the server may know only an older one, as encoded
    arguments."""

    __slots__ = ("operation", "forms", "form", "future", "deadline", "sent_at", "uids")

    def __init__(self, operation: Operation, forms: List[List[bytes]], form: int, future: Future, deadline: float):
        self.operation = operation
        self.forms = forms
        self.form = form
        self.future = future
        self.deadline = deadline
        self.sent_at = 0.0
        self.uids: Dict[int, int] = {}  # uid -> form it was sent in


class Client:
    """A connection to one server. All methods may be called from any thread.

    Every operation returns a :class:`Future`. Arguments of a wrong type raise TypeError, and values
    that no server takes ValueError, before anything is sent. A request without a reply fails with
    :class:`RequestTimeout` after ``timeout`` seconds; the protocol has no error reply, so a server
    that refuses a request stays silent. Requests made while the server is away are kept and
    delivered once it is back, if that is before their deadline.
    """

    def __init__(
        self,
        url: str = "tcp://localhost:5555",
        *,
        timeout: float = 300.0,
        older_form_after: float = 5.0,
        context: Optional[zmq.Context] = None,
    ) -> None:
        self.url = normalize_url(url)
        self._timeout = checks.seconds("timeout", timeout)
        self._older_form_after = checks.seconds("older_form_after", older_form_after)
        self._own_context = context is None
        self._context = context if context is not None else zmq.Context()
        self._known_form: Dict[str, int] = {}
        self._commands: Deque[_Request] = deque()
        self._closing = False
        self._lock = threading.Lock()
        self._wake_read, self._wake_write = os.pipe()
        os.set_blocking(self._wake_read, False)
        os.set_blocking(self._wake_write, False)
        self._thread = threading.Thread(target=_Loop(self).run, name="lmcached-client", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Ends the connection; outstanding futures fail with :class:`ClientClosed`."""
        with self._lock:
            if self._closing:
                return
            self._closing = True
        self._wake()
        if threading.current_thread() is not self._thread:
            self._thread.join()
            os.close(self._wake_write)
            os.close(self._wake_read)
            if self._own_context:
                self._context.term()

    def __enter__(self) -> "Client":
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    # ---- calls ----

    def call(self, operation: str, *arguments: Any, timeout: Optional[float] = None) -> Future:
        """Calls any operation of the table with arguments in wire form, which are not checked."""
        return self._submit(OPERATIONS[operation], [arguments], timeout)

    def _submit(self, operation: Operation, forms: List[Tuple[Any, ...]], timeout: Optional[float] = None) -> Future:
        encoded = [_encode_arguments(arguments) for arguments in forms]  # raises in the caller's face
        future: Future = Future()
        future.set_running_or_notify_cancel()
        deadline = time.monotonic() + (self._timeout if timeout is None else timeout)
        form = min(self._known_form.get(operation.name, 0), len(forms) - 1)
        with self._lock:
            if self._closing:
                raise ClientClosed("the client is closed")
            self._commands.append(_Request(operation, encoded, form, future, deadline))
            self._wake()
        return future

    def _wake(self) -> None:
        try:
            os.write(self._wake_write, b"w")
        except BlockingIOError:
            pass  # plenty of wake-ups are on their way already

    def noop(self) -> "Future[str]":
        return self.call("noop")

    def get_chunk_size(self) -> "Future[int]":
        """Tokens per chunk."""
        return self.call("get_chunk_size")

    def get_experimental(self) -> "Future[List[str]]":
        return self.call("get_experimental")

    def ping(self, instance_id: Optional[int] = None, *, timeout: Optional[float] = None) -> "Future[bool]":
        """False, from servers that say so, means: this instance is not registered (any more)."""
        named = checks.optional_integer("instance_id", instance_id)
        return self._submit(OPERATIONS["ping"], [(named,), ()], timeout)

    def lookup(self, key: CacheKey, tp_size: int = 1) -> "Future[None]":
        """Starts a lookup under ``key.request_id``; ask for its result by query or wait."""
        return self.call("lookup", _key(key).to_wire(), checks.integer("tp_size", tp_size, 1))

    def query_prefetch_status(self, request_id: str) -> "Future[Optional[int]]":
        """Chunks that hit, or None while pending. The number is delivered once."""
        return self.call("query_prefetch_status", checks.text("request_id", request_id))

    def wait_prefetch_status(self, request_id: str, seconds: float) -> "Future[Optional[int]]":
        """As query, but the server holds the reply back for up to ``seconds``."""
        seconds = checks.seconds("seconds", seconds)
        name = checks.text("request_id", request_id)
        return self.call("wait_prefetch_status", name, seconds, timeout=seconds + self._timeout)

    def query_prefetch_lookup_hits(self, request_id: str) -> "Future[Optional[int]]":
        return self.call("query_prefetch_lookup_hits", checks.text("request_id", request_id))

    def free_lookup_locks(self, key: CacheKey, tp_size: int = 1) -> "Future[None]":
        return self.call("free_lookup_locks", _key(key).to_wire(), checks.integer("tp_size", tp_size, 1))

    def end_session(self, request_id: str) -> "Future[None]":
        return self.call("end_session", checks.text("request_id", request_id))

    def clear(self, force: bool = True) -> "Future[None]":
        """Drops L1. ``force=False`` keeps what is locked; servers that predate it stay silent."""
        forms: List[Tuple[Any, ...]] = [(checks.boolean("force", force),)]
        if force:
            forms.append(())  # older servers take no argument and always force
        return self._submit(OPERATIONS["clear"], forms)

    def report_block_allocation(
        self, instance_id: int, model_name: str, records: Sequence[BlockAllocationRecord]
    ) -> "Future[None]":
        number = checks.integer("instance_id", instance_id)
        given = checks.members("records", records, BlockAllocationRecord)
        wire = [record.to_wire() for record in given]
        return self.call("report_block_allocation", number, checks.text("model_name", model_name), wire)

    def register_engine_driven(self, context: EngineDrivenContext) -> "Future[Registration]":
        if not isinstance(context, EngineDrivenContext):
            raise TypeError(f"context must be an EngineDrivenContext, not {type(context).__name__}")
        return self.call("register_kv_cache_engine_driven_context", context.to_wire())

    def unregister_engine_driven(self, instance_id: int) -> "Future[None]":
        return self.call("unregister_kv_cache_engine_driven_context", checks.integer("instance_id", instance_id))

    def prepare_store(self, key: CacheKey, instance_id: int) -> "Future[PreparedStore]":
        return self._transfer("prepare_store", key, instance_id)

    def commit_store(self, key: CacheKey, instance_id: int, data: Union[Buffer, Pieces] = b"") -> "Future[bool]":
        return self._transfer(
            "commit_store", key, instance_id, data if isinstance(data, Pieces) else checks.data("data", data)
        )

    def prepare_retrieve(self, key: CacheKey, instance_id: int) -> "Future[PreparedRetrieve]":
        return self._transfer("prepare_retrieve", key, instance_id)

    def commit_retrieve(self, key: CacheKey, instance_id: int) -> "Future[bool]":
        return self._transfer("commit_retrieve", key, instance_id)

    def _transfer(self, operation: str, key: CacheKey, instance_id: int, *more: Any) -> Future:
        return self.call(operation, _key(key).to_transfer(), checks.integer("instance_id", instance_id), *more)

    def register_kv_cache(
        self,
        instance_id: int,
        tensors: Sequence[Union[CpuShmTensor, bytes]],
        model_name: str,
        world_size: int,
        engine_type: Union[str, int] = "vllm",
        layout_hints: Optional[Mapping[str, Any]] = None,
        groups: Sequence[EngineGroup] = (),
    ) -> "Future[None]":
        """Hands over the engine's own KV tensors; the server then copies (store, retrieve)."""
        named = isinstance(engine_type, str)
        return self.call(
            "register_kv_cache",
            checks.integer("instance_id", instance_id),
            [_wrapper(tensor) for tensor in checks.sequence("tensors", tensors)],
            checks.model_name(model_name),
            checks.integer("world_size", world_size, 1),
            checks.text("engine_type", engine_type) if named else checks.integer("engine_type", engine_type),
            dict(checks.mapping("layout_hints", {} if layout_hints is None else layout_hints)),
            [group.to_wire() for group in checks.members("groups", groups, EngineGroup)],
        )

    def unregister_kv_cache(self, instance_id: int) -> "Future[None]":
        return self.call("unregister_kv_cache", checks.integer("instance_id", instance_id))

    def store(
        self, key: CacheKey, instance_id: int, block_ids: Sequence[Sequence[int]], event_handle: bytes = b""
    ) -> "Future[Tuple[bytes, bool]]":
        blocks, handle = checks.integer_rows("block_ids", block_ids), checks.data("event_handle", event_handle)
        return self._transfer("store", key, instance_id, blocks, handle)

    def retrieve(
        self,
        key: CacheKey,
        instance_id: int,
        block_ids: Sequence[Sequence[int]],
        event_handle: bytes = b"",
        skip_first_n_tokens: int = 0,
    ) -> "Future[Tuple[bytes, bool]]":
        blocks, handle = checks.integer_rows("block_ids", block_ids), checks.data("event_handle", event_handle)
        skip = checks.integer("skip_first_n_tokens", skip_first_n_tokens, 0)
        return self._transfer("retrieve", key, instance_id, blocks, handle, skip)

    def server_module_call(self, request: ServerModuleCallRequest) -> "Future[ServerModuleCallResponse]":
        """Calls a method that a server module offers (the envelope). Requests of the package
        lmcache, which plugin authors have, will do as well."""
        try:
            wire = ServerModuleCallRequest(request.method, request.payload).to_wire()
        except AttributeError:
            kind = type(request).__name__
            raise TypeError(f"request must have a method and a payload, which a {kind} has not") from None
        return self.call("server_module_call", wire)

    # ---- conveniences on top ----

    def lookup_chunks(self, key: CacheKey, tp_size: int = 1, *, timeout: float = 30.0) -> int:
        """Looks up and waits: how many leading chunks of the key are in the cache (and now held)."""
        deadline = time.monotonic() + timeout
        self.lookup(key, tp_size).result(timeout)
        pause = 0.001
        while True:
            chunks = self.query_prefetch_status(key.request_id).result(max(0.0, deadline - time.monotonic()))
            if chunks is not None:
                return chunks
            if time.monotonic() >= deadline:
                raise RequestTimeout(f"lookup {key.request_id!r} still pending after {timeout} s")
            time.sleep(pause)
            pause = min(2 * pause, 0.05)


class _Loop:
    """What the background thread does. Nobody else touches the socket or these tables."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._uids = itertools.count()
        self._order = itertools.count()
        self._pending: Dict[int, _Request] = {}
        self._deadlines: List[Tuple[float, int, _Request]] = []
        self._unsent: Deque[List[bytes]] = deque()
        self._with_older_form: List[_Request] = []
        self._probe: Optional[_Request] = None

    def run(self) -> None:
        self._socket = self._client._context.socket(zmq.DEALER)
        try:
            self._socket.setsockopt(zmq.LINGER, 0)
            self._socket.setsockopt(zmq.CONNECT_TIMEOUT, 5000)
            self._socket.setsockopt(zmq.RECONNECT_IVL_MAX, 1000)
            self._socket.connect(self._client.url)
            self._poller = zmq.Poller()
            self._poller.register(self._client._wake_read, zmq.POLLIN)
            self._serve()
        except Exception:
            log.exception("client of %s stopped", self._client.url)
        finally:
            self._socket.close()
            self._fail_all()

    def _serve(self) -> None:
        while True:
            self._poller.register(self._socket, zmq.POLLIN | (zmq.POLLOUT if self._unsent else 0))
            self._poller.poll(self._poll_ms())
            self._drain_wakeups()
            if self._client._closing:
                return
            while self._client._commands:
                self._send(self._client._commands.popleft(), time.monotonic())
            self._flush()
            self._receive()
            now = time.monotonic()
            self._expire(now)
            self._try_older_forms(now)

    def _poll_ms(self) -> int:
        until = [self._deadlines[0][0]] if self._deadlines else []
        if self._with_older_form and self._probe is None:
            until.append(min(r.sent_at for r in self._with_older_form) + self._client._older_form_after)
        if not until:
            return 60_000
        return max(0, min(60_000, int((min(until) - time.monotonic()) * 1000) + 1))

    def _drain_wakeups(self) -> None:
        try:
            while len(os.read(self._client._wake_read, 4096)) == 4096:
                pass
        except BlockingIOError:
            pass

    # ---- sending ----

    def _send(self, request: _Request, now: float) -> None:
        uid = next(self._uids)
        try:
            frames = [*_encode_arguments((uid, request.operation.wire)), *request.forms[request.form]]
        except Exception as error:
            request.future.set_exception(error)
            return
        if not request.uids:
            heapq.heappush(self._deadlines, (request.deadline, next(self._order), request))
        request.sent_at = now
        request.uids[uid] = request.form
        self._pending[uid] = request
        if request.form + 1 < len(request.forms):
            self._with_older_form.append(request)
        self._unsent.append(frames)

    def _flush(self) -> None:
        while self._unsent:
            frames = self._unsent[0]
            try:
                small = sum(map(len, frames)) < _COPY_BELOW
                self._socket.send_multipart(frames, flags=zmq.NOBLOCK, copy=small)
            except zmq.Again:
                return  # the server is away and its queue is full
            self._unsent.popleft()

    # ---- receiving ----

    def _receive(self) -> None:
        # Not for ever: a server that goes on and on must not keep requests, deadlines and the end waiting.
        for _ in range(_REPLIES_PER_TURN):
            try:
                frames = self._socket.recv_multipart(flags=zmq.NOBLOCK, copy=False)
            except zmq.Again:
                return
            if len(frames) < 2:
                log.warning("reply with %d frames dropped", len(frames))
                continue
            self._take_reply([frame.buffer for frame in frames])

    def _take_reply(self, frames: List[Any]) -> None:
        try:
            request = self._pending.get(_decode(frames[0]))
        except (ProtocolError, TypeError):
            request = None
        if request is None:
            return  # somebody gave up waiting for it
        uid = _decode(frames[0])
        self._client._known_form[request.operation.name] = request.uids[uid]
        self._forget(request)
        try:
            if _decode(frames[1]) != request.operation.wire:
                raise ProtocolError(f"reply to {request.operation.name} names another operation")
            has_frame = len(frames) > 2
            value = _decode(frames[2]) if has_frame else None
            outcome = request.operation.result(has_frame, value)
        except ProtocolError as error:
            request.future.set_exception(error)
            return
        request.future.set_result(outcome)

    def _forget(self, request: _Request) -> None:
        for uid in request.uids:
            self._pending.pop(uid, None)
        if len(request.forms) > 1 and request in self._with_older_form:
            self._with_older_form.remove(request)
        request.forms = []  # may hold a whole prompt
        if len(self._deadlines) > 64 + 2 * len(self._pending):
            self._deadlines = [entry for entry in self._deadlines if entry[2].forms]
            heapq.heapify(self._deadlines)

    # ---- time ----

    def _expire(self, now: float) -> None:
        while self._deadlines and (self._deadlines[0][0] <= now or not self._deadlines[0][2].forms):
            request = heapq.heappop(self._deadlines)[2]
            if request.forms:
                self._forget(request)
                request.future.set_exception(
                    RequestTimeout(f"no reply to {request.operation.name} from {self._client.url}")
                )

    def _try_older_forms(self, now: float) -> None:
        """A live server (noop answers) that ignores a request may know only its older form."""
        if self._probe is not None:
            if not self._probe.future.done():
                return
            probe, self._probe = self._probe, None
            if probe.future.exception() is None:
                for request in [r for r in self._with_older_form if r.sent_at < probe.sent_at]:
                    self._with_older_form.remove(request)
                    request.form += 1
                    self._send(request, now)
                self._flush()
            return
        wait = self._client._older_form_after
        if any(request.sent_at + wait <= now for request in self._with_older_form):
            self._probe = _Request(OPERATIONS["noop"], [[]], 0, Future(), now + wait)
            self._send(self._probe, now)
            self._flush()

    def _fail_all(self) -> None:
        with self._client._lock:
            self._client._closing = True
            requests = list(self._client._commands)
            self._client._commands.clear()
        requests.extend(self._pending.values())
        for request in requests:
            if not request.future.done():
                request.future.set_exception(ClientClosed("the client was closed"))


__all__: List[str] = ["Client", "Future", "encode_request", "normalize_url"]
