"""The args of many events → Structs: one call to the decoder for a batch, one by one if that refuses."""

from collections.abc import Sequence
from typing import Generic, TypeVar

import msgspec
from msgspec import Raw

from mdtrace.ingest.json_events import decode_lenient

S = TypeVar("S", bound=msgspec.Struct)


class ArgsDecoder(Generic[S]):
    """Decodes args into one Struct type. What stays undecodable comes out as a Struct of defaults.

    Attributes:
        lost: args that held something that no reading made sense of.
    """

    def __init__(self, kind: type[S]) -> None:
        self._kind = kind
        self._all = msgspec.json.Decoder(list[kind])  # type: ignore[valid-type]
        self._one = msgspec.json.Decoder(kind)
        self.lost = 0

    def decode(self, raws: Sequence[Raw]) -> list[S]:
        """As many Structs as there are args, in order; of keys that stand twice, the last one counts."""
        try:
            decoded: list[S] = self._all.decode(b"[" + b",".join(raws) + b"]")
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
            return [self._leniently(raw) for raw in raws]
        return decoded if len(decoded) == len(raws) else [self._leniently(raw) for raw in raws]

    def _leniently(self, raw: Raw) -> S:
        try:
            return self._one.decode(raw)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
            pass
        try:
            return msgspec.convert(decode_lenient(bytes(raw)), self._kind)
        except (msgspec.MsgspecError, ValueError, RecursionError):
            self.lost += bytes(raw) not in (b"null", b"")
            return self._kind()
