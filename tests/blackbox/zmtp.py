"""ZMTP 3.0 on a plain socket: a client without threads, that may be forked and killed anywhere."""

import itertools
import os
import signal
import socket
import struct

import msgpack

GREETING = b"\xff" + b"\0" * 7 + b"\x01\x7f\x03\x00" + b"NULL" + b"\0" * 16 + b"\0" + b"\0" * 31
READY = b"\x04\x1c\x05READY\x0bSocket-Type\x00\x00\x00\x06DEALER"
MORE, LONG, COMMAND = 1, 2, 4


def frame(data, flags):
    if len(data) > 255:
        return bytes([flags | LONG]) + struct.pack(">Q", len(data)) + data
    return bytes([flags, len(data)]) + data


def message(frames):
    return b"".join(frame(data, MORE if at + 1 < len(frames) else 0) for at, data in enumerate(frames))


class PlainClient:
    def __init__(self, server, timeout=30.0):
        self.socket = socket.create_connection(("127.0.0.1", server.port), timeout=timeout)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._uids = itertools.count(1 << 20)
        self.socket.sendall(GREETING + READY)
        self._read(64)
        self._read_frame()

    def _read(self, size):
        data = b""
        while len(data) < size:
            piece = self.socket.recv(size - len(data))
            if not piece:
                raise ConnectionResetError("closed by the server")
            data += piece
        return data

    def _read_frame(self):
        flags = self._read(1)[0]
        size = struct.unpack(">Q", self._read(8))[0] if flags & LONG else self._read(1)[0]
        return flags, self._read(size)

    def send(self, *frames):
        self.socket.sendall(message(frames))

    def request(self, operation, *arguments):
        """Sends a well-formed request and returns its uid."""
        uid = msgpack.packb(next(self._uids))
        self.send(uid, msgpack.packb(operation), *map(msgpack.packb, arguments))
        return uid

    def receive(self):
        frames = []
        while True:
            flags, data = self._read_frame()
            if flags & COMMAND:
                continue
            frames.append(data)
            if not flags & MORE:
                return frames

    def call(self, operation, *arguments):
        uid = self.request(operation, *arguments)
        while True:
            reply = self.receive()
            if reply[0] == uid:
                return msgpack.unpackb(reply[2], strict_map_key=False) if len(reply) > 2 else "void"

    def close(self):
        self.socket.close()


def in_a_process_that_dies(action):
    """Runs ``action()`` in a forked process, which then ends by SIGKILL; waits for its end.
    Exceptions of the action fail the test."""
    pid = os.fork()
    if pid == 0:
        try:
            action()
        except BaseException as failure:
            os.write(2, f"the dying client failed before: {failure!r}\n".encode())
            os._exit(1)
        os.kill(os.getpid(), signal.SIGKILL)
    _, status = os.waitpid(pid, 0)
    assert os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGKILL
