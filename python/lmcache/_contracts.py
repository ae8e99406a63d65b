"""Handlers of operations against the protocol: annotations, arity, conversion of arguments."""

from __future__ import annotations

import inspect
import typing
from typing import Any, Callable, Dict, List, Optional, Sequence, Tuple, Union

from lmcache._messages import maker
from lmcache.utils import EngineType
from lmcache.v1.distributed.api import MemoryLayoutDesc, ObjectKey
from lmcache.v1.distributed.transfer_channel.api import TransferChannelAddress
from lmcache.v1.multiprocess import custom_types
from lmcache.v1.multiprocess.group_view import EngineGroupInfo
from lmcache.v1.multiprocess.protocols import server_module
from lmcache.v1.multiprocess.request_handler import BoundRequestHandler, HandlerType
from lmcache.v1.multiprocess.rpc import RpcSpec, UnknownOperationError, get_rpc_spec

_NoneType = type(None)
_UNIONS = (Union, getattr(__import__("types"), "UnionType", Union))
MISSING = inspect.Parameter.empty


# ---- types ----


def _plain(annotation: Any) -> Any:
    """One form for the spellings of a type: ``List[int]`` and ``list[int]``, unions in any
    order."""
    if annotation is None or annotation is _NoneType:
        return _NoneType
    origin = typing.get_origin(annotation)
    if origin is None:
        return annotation
    arguments = tuple(_plain(argument) for argument in typing.get_args(annotation))
    return (Union, frozenset(arguments)) if origin in _UNIONS else (origin, arguments)


def _equal(given: Any, wanted: Any) -> bool:
    if wanted is Any or given == wanted:
        return True
    if isinstance(given, tuple) and isinstance(wanted, tuple) and given[0] is wanted[0]:
        left, right = given[1], wanted[1]
        if isinstance(left, frozenset):
            return len(left) == len(right) and all(
                any(_equal(one, other) for other in right) for one in left
            )
        return len(left) == len(right) and all(map(_equal, left, right))
    # The class of that name from a real LMCache that is installed beside this package.
    names = getattr(given, "__qualname__", None), getattr(wanted, "__qualname__", None)
    return inspect.isclass(given) and inspect.isclass(wanted) and names[0] == names[1]


def same_type(given: Any, wanted: Any) -> bool:
    """Whether two annotations mean one type."""
    return _equal(_plain(given), _plain(wanted))


def type_text(annotation: Any) -> str:
    """A type as an author writes it."""
    if annotation is MISSING:
        return "<none>"
    if annotation is None or annotation is _NoneType:
        return "None"
    origin = typing.get_origin(annotation)
    if origin is None:
        return getattr(annotation, "__qualname__", None) or str(annotation)
    arguments = [type_text(argument) for argument in typing.get_args(annotation)]
    if origin in _UNIONS:
        return " | ".join(arguments)
    return f"{getattr(origin, '__qualname__', origin)}[{', '.join(arguments)}]"


def _types_text(annotations: Sequence[Any]) -> str:
    return f"({', '.join(type_text(annotation) for annotation in annotations)})"


# ---- annotations of handlers ----


def _positional(handler: Callable[..., Any]) -> Optional[List[inspect.Parameter]]:
    """The parameters that arguments go to; None when others are needed or any number is taken."""
    wanted = []
    for parameter in inspect.signature(handler).parameters.values():
        if parameter.kind in (parameter.POSITIONAL_ONLY, parameter.POSITIONAL_OR_KEYWORD):
            wanted.append(parameter)
        elif parameter.kind is parameter.VAR_POSITIONAL:
            return None
        elif parameter.kind is parameter.KEYWORD_ONLY and parameter.default is MISSING:
            return None
    return wanted


def qualname_of(handler: Any) -> str:
    return getattr(handler, "__qualname__", None) or type(handler).__qualname__


def _annotations(handler: Callable[..., Any]) -> Tuple[List[Any], Any]:
    """Types of the parameters and of the result; texts are resolved."""
    function = getattr(handler, "__func__", handler)
    try:
        hints = typing.get_type_hints(function)
    except Exception as failure:
        raise TypeError(
            f"Handler {qualname_of(handler)} annotations cannot be resolved: {failure}"
        ) from failure
    parameters = _positional(handler)
    if parameters is None:
        names = [str(p) for p in inspect.signature(handler).parameters.values()]
        return [hints.get(name.lstrip("*"), MISSING) for name in names] + [MISSING], MISSING
    # get_type_hints makes a None annotation NoneType, so a missing one can be told.
    return [hints.get(p.name, MISSING) for p in parameters], hints.get("return", MISSING)


def check_annotations(spec: RpcSpec, handler: Callable[..., Any]) -> Tuple[Any, ...]:
    """The accepted parameter list that a handler's annotations match; TypeError else."""
    given, result = _annotations(handler)
    for wanted in spec.accepted_payload_types:
        if len(given) == len(wanted) and all(map(same_type, given, wanted)):
            break
    else:
        raise TypeError(
            f"Handler {qualname_of(handler)} payload annotations {_types_text(given)} "
            f"do not match RPC '{spec.operation}' types {_types_text(spec.payload_types)}"
        )
    if not same_type(result, spec.response_type):
        raise TypeError(
            f"Handler {qualname_of(handler)} return annotation {type_text(result)} "
            f"does not match RPC '{spec.operation}' type {type_text(spec.response_type)}"
        )
    return wanted


def check_signature(spec: RpcSpec, handler: Callable[..., Any]) -> Tuple[Any, ...]:
    """As check_annotations, for functions that need not be annotated. ValueError."""
    try:
        given, _result = _annotations(handler)
    except (TypeError, ValueError):
        given = []
    for wanted in spec.accepted_payload_types:
        if len(given) == len(wanted) and all(
            one is MISSING or same_type(one, other) for one, other in zip(given, wanted)
        ):
            return wanted
    raise ValueError(f"Handler signature does not match for operation: {spec.operation}")


def operation_entry(bound: BoundRequestHandler) -> Dict[str, Any]:
    """An ``Operation`` of the host's contract. TypeError, KeyError for one that is wrong."""
    qualname = qualname_of(bound.handler)
    if bound.options.handler_type is HandlerType.NON_BLOCKING:
        raise TypeError(f"Handler {qualname}: Non-blocking handler is not supported yet")
    try:
        spec = get_rpc_spec(bound.operation)
    except UnknownOperationError:
        raise UnknownOperationError(
            f"Handler {qualname} is for an unknown operation: {bound.operation}"
        ) from None
    payload = check_annotations(spec, bound.handler)
    return {
        "operation": bound.operation,
        "handler_type": bound.options.handler_type.value,
        "affinity": bound.options.requires_client_affinity,
        "handler": adapted(spec, payload, bound.handler),
        "arity": len(payload),
        "qualname": qualname,
    }


# ---- plain values to what handlers declare ----


def _wrappers(value: Any) -> Any:
    return [custom_types.DeviceIPCWrapper(item) for item in value]


def _engine_type(value: Any) -> Any:
    """Kept as sent where this package knows no such engine."""
    try:
        return EngineType(value)
    except ValueError:
        return value


def _end_info(value: Any) -> Any:
    if isinstance(value, dict):
        return message_types["session_end_info"](value)
    return custom_types.NO_SESSION_END_INFO if value is None else value


def _first_layout(value: Any) -> Any:
    return next(iter(value.values()), None) if isinstance(value, dict) else value


def _message(name: str) -> Callable[[Any], Any]:
    def convert(value: Any) -> Any:
        return message_types[name](value) if isinstance(value, dict) else value

    return convert


_CONVERSIONS: Dict[Any, Callable[[Any], Any]] = {
    custom_types.RegisterEngineDrivenContextPayload: _message(
        "register_kv_cache_engine_driven_context_request"
    ),
    server_module.ServerModuleCallRequest: _message("server_module_call_request"),
    _plain(List[custom_types.DeviceIPCWrapper]): _wrappers,
    EngineType: _engine_type,
    custom_types.SessionEndInfo: _end_info,
    MemoryLayoutDesc: _first_layout,
}


def adapted(
    spec: RpcSpec, payload: Sequence[Any], handler: Callable[..., Any]
) -> Callable[..., Any]:
    """The handler, or a function around it where plain values need converting."""
    conversions = [_CONVERSIONS.get(_plain(one)) for one in payload]
    wraps_list = spec.operation == "p2p_query_lookup_results"
    if not any(conversions) and not wraps_list:
        return handler

    def converting(*arguments: Any) -> Any:
        result = handler(
            *(
                value if convert is None else convert(value)
                for value, convert in zip(arguments, conversions)
            )
        )
        return {"addresses": result} if wraps_list and result is not None else result

    return converting


message_types: Dict[str, Callable[[Dict[str, Any]], Any]] = {
    "cache_key": custom_types.IPCCacheServerKey.from_members,
    "engine_group_info": maker(EngineGroupInfo),
    "memory_layout_desc": maker(MemoryLayoutDesc),
    "block_allocation_record": maker(custom_types.BlockAllocationRecord),
    "session_end_info": maker(custom_types.SessionEndInfo),
    "object_key": maker(ObjectKey),
    "transfer_address": maker(TransferChannelAddress),
    "cb_match": maker(custom_types.CBMatchResult),
    "cb_unified_lookup_payload": maker(custom_types.CBUnifiedLookupResult),
    "server_module_call_request": maker(server_module.ServerModuleCallRequest),
    "server_module_call_reply": maker(server_module.ServerModuleCallResponse),
    "register_kv_cache_engine_driven_context_request": maker(
        custom_types.RegisterEngineDrivenContextPayload
    ),
    "register_kv_cache_engine_driven_context_reply": maker(
        custom_types.RegisterEngineDrivenContextResponse
    ),
    "prepare_store_reply": maker(custom_types.PrepareStoreResponse),
    "prepare_retrieve_reply": maker(custom_types.PrepareRetrieveResponse),
}
