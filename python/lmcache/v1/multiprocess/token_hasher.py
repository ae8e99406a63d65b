"""Chunk hashes of token ids, computed by the server."""

from __future__ import annotations

from typing import Any, List, Optional, Sequence, Union

from lmcache._bridge import host

__all__ = ["TokenHasher"]


class TokenHasher:
    """``chunk_size`` and ``hash_algorithm`` are those of the server."""

    def __init__(self, chunk_size: int = 256, hash_algorithm: str = "blake3") -> None:
        self.chunk_size = chunk_size
        self.hash_algorithm_name = hash_algorithm

    def compute_chunk_hashes(
        self,
        tokens: Sequence[int],
        full_chunk_only: bool = True,
        *,
        start: int = 0,
        end: Optional[int] = None,
    ) -> List[bytes]:
        """The hashes of the full chunks in ``[start, end)``. Every hash depends on all tokens
        before it, so ``tokens`` is the whole prefix from position 0."""
        server = host("hashing tokens")
        if self.chunk_size != server.chunk_size():
            raise ValueError(
                f"a hasher for chunks of {self.chunk_size} tokens: this server's have "
                f"{server.chunk_size()}"
            )
        count = len(tokens) if end is None else min(len(tokens), end)
        count -= count % self.chunk_size
        if count < len(tokens):
            tokens = tokens[:count]
        hashes = server.hash_chunks(tokens)
        first = max(0, -(-start // self.chunk_size))
        return list(hashes[first : count // self.chunk_size])

    @staticmethod
    def hash_to_bytes(chunk_hash: Union[int, bytes, Any]) -> bytes:
        """A hash as it stands in object keys."""
        if isinstance(chunk_hash, int):
            return (chunk_hash & 0xFFFFFFFFFFFFFFFF).to_bytes(8, "big")
        return bytes(chunk_hash)
