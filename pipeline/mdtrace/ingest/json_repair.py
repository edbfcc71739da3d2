"""Repairs of JSON that writers of traces get wrong: each is counted by reason, none invents a value.

A repaired value is closed by its own brackets only: what ends too early stays undecodable.
"""

import contextlib
import math
import re
from collections.abc import Iterator
from typing import Any

import msgspec

from mdtrace.ingest.json_strings import Counts, UnrepairableError, clean_utf8, count, mend_string

_MOST_DIGITS = 4000
_DECODE = msgspec.json.Decoder()
_TOKEN = re.compile(rb'[\s]*+([{}\[\],:"]|[^\s{}\[\],:"]++)')
_NUMBER = re.compile(rb"-?(?:0|[1-9]\d*+)(?:\.\d++)?+(?:[eE][+-]?\d++)?+\Z")
_ODD_NUMBER = re.compile(rb"([+-]?)0*+(\d*+)(?:\.(\d*+))?+([eE][+-]?\d++)?+\Z")
_NON_FINITE = re.compile(
    rb"(?i)[+-]?(?:nan(?:\([a-z0-9]*\))?|s?nan|inf|infinity|\d\.#(?:inf|ind|qnan|snan)\d*)\Z|n/a\Z"
)
_OTHER_NULLS = frozenset((b"None", b"none", b"undefined", b"nil", b"NULL", b"Null"))
_BOOLEANS = {b"True": b"true", b"False": b"false"}

_STRING = re.compile(rb'"([^"\\]*+(?:\\.[^"\\]*+)*+)"', re.DOTALL)
_QUOTE = re.compile(rb'[^"\\]*+(?:\\.[^"\\]*+)*+"', re.DOTALL)
_ANY_QUOTE = re.compile(rb'[^"]*+"')

# What must follow the quote that ends a key, a value in an object, a value in an array.
_AFTER_KEY = re.compile(rb"\s*+:")
_AFTER_MEMBER = re.compile(rb'\s*+(?:\}|,\s*+["},])')
_AFTER_ITEM = re.compile(rb"\s*+[\],]")


def repair(
    text: bytes, at: int, high: int, counts: Counts, *, closing_backslash: bool = False
) -> tuple[bytes, int]:
    """The object or array at text[at], mended: (strict JSON, where it ends in `text`).

    Args:
        text: must be UTF-8.
        high: how far to look.
        counts: repairs made are added, by reason.
        closing_backslash: let `\\"` end a string where structure follows it (a path that ends in a
            backslash).

    Raises:
        UnrepairableError: no value ends before `high`.
    """
    return _Mender(text, at, high, counts, closing_backslash).run()


class _Mender:
    def __init__(self, text: bytes, at: int, high: int, counts: Counts, closing_backslash: bool) -> None:
        self.text, self.at, self.high, self.counts = text, at, high, counts
        self.quote = _ANY_QUOTE if closing_backslash else _QUOTE
        self.out: list[bytes] = []
        self.open: list[bytes] = []
        self.last = b""  # the last mark or b"v" for a value, b"k" for a key

    def run(self) -> tuple[bytes, int]:
        while match := _TOKEN.match(self.text, self.at, self.high):
            token = match[1]
            self.at = match.end()
            if token == b'"':
                self._string()
            elif token in b"{}[],:":
                self._mark(token)
            else:
                self._bare(token)
            if not self.open:
                return b"".join(self.out), self.at
        raise UnrepairableError

    def _mark(self, token: bytes) -> None:
        if token in b"{[":
            self._value(token)
            self.open.append(token)
            self.last = token
        elif token in b"}]":
            self._close(token)
        elif token == b":":
            if self.last != b"k":
                raise UnrepairableError
            self._emit(token, token)
        else:
            self._comma()

    def _close(self, token: bytes) -> None:
        if not self.open or self.open.pop() + token not in (b"{}", b"[]"):
            raise UnrepairableError
        if self.last == b":":
            self._empty()
        elif self.last == b",":
            self.out.pop()
            count(self.counts, "extra comma")
        elif self.last == b"k":
            raise UnrepairableError
        self._emit(token, b"v")

    def _comma(self) -> None:
        if self.last == b":":
            self._empty()
        if self.last == b"v":
            self._emit(b",", b",")
        elif self.last == b"k" or not self.open:
            raise UnrepairableError
        elif self.open[-1] == b"{":
            count(self.counts, "extra comma")
        else:
            self._empty()
            self._emit(b",", b",")

    def _empty(self) -> None:
        count(self.counts, "empty value")
        self._emit(b"null", b"v")

    def _bare(self, token: bytes) -> None:
        if _NUMBER.match(token):
            if not _fits(token):
                count(self.counts, "non-finite number")
                token = b"null"
        elif _NON_FINITE.match(token):
            count(self.counts, "non-finite number")
            token = b"null"
        elif token not in (b"true", b"false", b"null"):
            token = _odd_scalar(token)
            count(self.counts, "bad token")
        self._value(token)

    def _value(self, token: bytes) -> None:
        """A value may stand first, behind a colon, or in an array behind a comma."""
        if self.open and self.last != b":" and (self.open[-1] == b"{" or self.last not in (b"[", b",")):
            raise UnrepairableError
        if not self.open and token not in (b"{", b"["):
            raise UnrepairableError
        self._emit(token, b"v")

    def _string(self) -> None:
        is_key = bool(self.open) and self.open[-1] == b"{" and self.last in (b"{", b",")
        if not self.open or (not is_key and self.last not in (b":", b"[", b",")):
            raise UnrepairableError
        follows = _AFTER_KEY if is_key else _AFTER_MEMBER if self.open[-1] == b"{" else _AFTER_ITEM
        start, end = self.at, self.at
        while match := self.quote.match(self.text, end, self.high):
            end = match.end()
            if follows.match(self.text, end, self.high):
                self.at = end
                self._emit(
                    b'"' + mend_string(self.text[start : end - 1], self.counts) + b'"',
                    b"k" if is_key else b"v",
                )
                return
        raise UnrepairableError

    def _emit(self, token: bytes, last: bytes) -> None:
        self.out.append(token)
        self.last = last


def _fits(number: bytes) -> bool:
    """Whether Python holds the number: a finite double, or an integer of not too many digits."""
    if number.lstrip(b"-").isdigit():
        return len(number) < _MOST_DIGITS
    return math.isfinite(float(number))


def _odd_scalar(token: bytes) -> bytes:
    """Words and numbers that other languages write, as JSON."""
    if token in _OTHER_NULLS:
        return b"null"
    if token in _BOOLEANS:
        return _BOOLEANS[token]
    match = _ODD_NUMBER.match(token)
    if match is None or not (match[2] or match[3] or b"0" in token):
        raise UnrepairableError
    sign = b"-" if match[1] == b"-" else b""
    return sign + (match[2] or b"0") + (b"." + match[3] if match[3] else b"") + (match[4] or b"")


def repairs(text: bytes, at: int, high: int, end: int | None) -> Iterator[tuple[bytes, int, Counts]]:
    """The ways to mend the value at text[at], the likelier first: (strict JSON, its end, what was done).

    Args:
        end: where the value seems to end by its brackets, if it does: its strings alone are mended first.
    """
    if end is not None:
        counts: Counts = {}
        with contextlib.suppress(UnrepairableError):
            yield _STRING.sub(lambda m: b'"' + mend_string(m[1], counts) + b'"', text[at:end]), end, counts
    for closing_backslash in (False, True):
        counts = {}
        try:
            mended, end = repair(text, at, high, counts, closing_backslash=closing_backslash)
        except UnrepairableError:
            continue
        yield mended, end, counts


def decode_lenient(raw: "bytes | msgspec.Raw", repaired: Counts | None = None) -> Any:
    """Any JSON value as Python objects, mended where strict decoding refuses it; None where nothing helps.

    For arguments kept as `msgspec.Raw` that a typed decoder refuses, and for document keys. Numbers
    beyond a float's range and NaN become None, integers of any size stay exact.

    Args:
        repaired: repairs are added, by reason; "undecodable value" counts what came out as None for
            want of a repair.
    """
    counts: Counts = {} if repaired is None else repaired
    text = clean_utf8(bytes(raw), counts)
    if not text.strip():
        return None
    try:
        return _DECODE.decode(text)
    except (msgspec.DecodeError, RecursionError):
        pass
    wrapped = b"[" + text + b"]"  # so that a scalar is mended by the same rules
    for mended, end, done in repairs(wrapped, 0, len(wrapped), None):
        if end != len(wrapped):
            continue
        try:
            value = _DECODE.decode(mended)
        except (msgspec.DecodeError, RecursionError):
            continue
        for reason, number in done.items():
            count(counts, reason, number)
        return value[0] if len(value) == 1 else None
    count(counts, "undecodable value")
    return None
