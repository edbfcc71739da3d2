"""Where a JSON value ends and where an event may begin: exact scans that know strings.

All positions are byte positions in the buffer passed in. Nothing here decodes.
"""

import re

BLANK = re.compile(rb"[\s]*+")
SEPARATORS = re.compile(rb"[\s,]*+")

# Up to and with the next bracket outside strings. Possessive: no backtracking, whatever the input.
_STRING = rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"'
_TO_BRACKET = re.compile(
    rb'[^"\[\]{}]*+(?:' + _STRING + rb'[^"\[\]{}]*+)*+([\[\]{}])',
    re.DOTALL,
)
_WHOLE_STRING = re.compile(_STRING, re.DOTALL)
_SCALAR = re.compile(rb"[^\s,\[\]{}\"]++")

# An object after an object, begun by a plain key: no well-formed string can hold this, because its
# quotes would be escaped. It may still stand deeper than the events do.
BOUNDARY = re.compile(rb'\}\s*+,?+\s*+(\{\s*+"[A-Za-z_]\w*+"\s*+:)')
_PHASE = re.compile(rb'"ph"\s*+:')

_OPENS = 2  # the bit that [ and { have and that ] and } lack
_NEAR = 48  # blanks looked at before a brace, at each side of the comma


def last_boundary(buf: bytes, low: int, high: int) -> tuple[int, int] | None:
    """The last `} , {` of buf[low:high]: (behind the first brace, at the second), or None.

    Only looks like the end of an event: the decoder must prove it.
    """
    brace = high
    while (brace := buf.rfind(b"{", low, brace)) >= 0:
        before = buf[max(brace - _NEAR, low) : brace].rstrip()
        if before.endswith(b","):
            at = buf.rfind(b",", low, brace)
            before = buf[max(at - _NEAR, low) : at].rstrip()
            if before.endswith(b"}"):
                return buf.rfind(b"}", low, at) + 1, brace
    return None


def value_end(buf: bytes, at: int, high: int | None = None) -> int | None:
    """Behind the value that begins at `at`, or None where buf[:high] does not hold all of it.

    A scalar ends where something else follows it, so one at the very end is not known to be whole.
    """
    high = len(buf) if high is None else high
    first = buf[at : at + 1]
    if first in (b"{", b"["):
        return _bracket_end(buf, at, high)
    if first == b'"':
        match = _WHOLE_STRING.match(buf, at, high)
        return match.end() if match else None
    match = _SCALAR.match(buf, at, high)
    if match is None:
        return at + 1 if at < high else None
    return match.end() if match.end() < high else None


def _bracket_end(buf: bytes, at: int, high: int) -> int | None:
    depth = 0
    match = _TO_BRACKET.match(buf, at, high)
    while match:
        end = match.end()
        if buf[end - 1] & _OPENS:
            depth += 1
        else:
            depth -= 1
            if depth <= 0:
                return end
        match = _TO_BRACKET.match(buf, end, high)
    return None


def depth_at(buf: bytes, at: int, goal: int) -> int:
    """Brackets open at `goal`, counted from `at`, both outside strings."""
    depth = 0
    while (match := _TO_BRACKET.match(buf, at, goal)) is not None:
        at = match.end()
        depth += 1 if buf[at - 1] & _OPENS else -1
    return depth


def next_event(buf: bytes, at: int, skip: int = 0) -> int | None:
    """Where the next thing that looks like an event with a phase begins behind `at`, or None.

    Args:
        skip: how many such places to pass over first.
    """
    for match in BOUNDARY.finditer(buf, at):
        start = match.start(1)
        following = BOUNDARY.search(buf, start + 1)
        if _PHASE.search(buf, start, following.start() + 1 if following else len(buf)):
            if skip == 0:
                return start
            skip -= 1
    return None
