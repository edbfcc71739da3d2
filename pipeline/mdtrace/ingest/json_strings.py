"""Text as strict JSON wants it: UTF-8, and strings whose escapes, quotes and control characters are valid."""

import codecs
import re

import msgspec

RAW = msgspec.json.Decoder(msgspec.Raw)
REFUSALS = (msgspec.DecodeError, RecursionError)

Counts = dict[str, int]  # reason → how often

_ESCAPE = re.compile(rb"\\(?:[\"\\/bfnrt]|u[0-9a-fA-F]{4}|(.?))", re.DOTALL)
_SURROGATES = re.compile(
    rb"\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|(\\u[dD][89a-fA-F][0-9a-fA-F]{2})|\\.",
    re.DOTALL,
)
_CONTROL = re.compile(rb"[\x00-\x1f]")
_PLAIN = re.compile(rb'[^"\\\x00-\x1f]*+\Z')
_BARE_QUOTE = re.compile(rb'"')
_QUOTE_OR_ESCAPE = re.compile(rb'\\.|"', re.DOTALL)
# A string that holds this has eaten its neighbours.
_SWALLOWED = re.compile(rb'"\s*+:|:\s*+"|"\s*+,\s*+(?:"|\w++\s*+:)')


class UnrepairableError(Exception):
    """The bytes are no JSON value that rules here can mend."""


def _replace_each(error: UnicodeError) -> tuple[str, int]:
    if not isinstance(error, UnicodeDecodeError):
        raise error
    return "\ufffd" * (error.end - error.start), error.end


codecs.register_error("mdtrace.each-byte", _replace_each)


def count(counts: Counts, reason: str, number: int = 1) -> None:
    """Add to a count by reason; zero adds no reason."""
    if number:
        counts[reason] = counts.get(reason, 0) + number


def is_value(text: bytes) -> bool:
    """Whether the text is one sound JSON value, its encoding aside."""
    try:
        RAW.decode(text)
    except REFUSALS:
        return False
    return True


def invalid_utf8(text: bytes) -> int | None:
    """Position of the first byte that is not UTF-8, or None."""
    if text.isascii():
        return None
    try:
        text.decode()
    except UnicodeDecodeError as error:
        return error.start
    return None


def clean_utf8(text: bytes, counts: Counts) -> bytes:
    """Each byte that is not UTF-8 replaced by U+FFFD."""
    if invalid_utf8(text) is None:
        return text
    before = text.count("\ufffd".encode())
    clean = text.decode(errors="mdtrace.each-byte").encode()
    count(counts, "invalid UTF-8", clean.count("\ufffd".encode()) - before)
    return clean


def mend_string(body: bytes, counts: Counts) -> bytes:
    """The inside of a string as strict JSON.

    With one invalid escape every backslash is literal: the writer escaped nothing. Control characters
    stay what they are, escaped.

    Raises:
        UnrepairableError: the quotes inside show that other members were swallowed.
    """
    if _PLAIN.match(body):
        return body
    if any(m[1] is not None for m in _ESCAPE.finditer(body)):
        count(counts, "bad escape")
        body = body.replace(b"\\", b"\\\\")
        body = _quotes(body, _BARE_QUOTE, counts)
    else:
        body = _quotes(body, _QUOTE_OR_ESCAPE, counts)
        body = _surrogates(body, counts)
    controls = len(_CONTROL.findall(body))
    if controls:
        count(counts, "control character", controls)
        body = _CONTROL.sub(lambda m: b"\\u%04x" % m[0][0], body)
    return body


def _quotes(body: bytes, quote: re.Pattern[bytes], counts: Counts) -> bytes:
    bare = sum(m[0] == b'"' for m in quote.finditer(body))
    if not bare:
        return body
    if _SWALLOWED.search(body):
        raise UnrepairableError
    count(counts, "bare quote", bare)
    return quote.sub(lambda m: b'\\"' if m[0] == b'"' else m[0], body)


def _surrogates(body: bytes, counts: Counts) -> bytes:
    lone = sum(m[1] is not None for m in _SURROGATES.finditer(body))
    if not lone:
        return body
    count(counts, "lone surrogate", lone)
    return _SURROGATES.sub(lambda m: b"\\ufffd" if m[1] else m[0], body)
