"""Where a JSON value ends and where an event may begin: exact scans that know strings.

All positions are byte positions in the buffer passed in. Nothing here decodes. The expressions are
possessive: linear in what they read, whatever the input.
"""

import re
from collections import deque
from collections.abc import Iterator

SEPARATORS = re.compile(rb"[\s,]*+")
PHASE = re.compile(rb'"ph"\s*+:')

_STRING = rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"'
_TO_BRACKET = re.compile(  # up to and with the next bracket outside strings
    rb'[^"\[\]{}]*+(?:' + _STRING + rb'[^"\[\]{}]*+)*+([\[\]{}])', re.DOTALL
)
_WHOLE_STRING = re.compile(_STRING, re.DOTALL)
_SCALAR = re.compile(rb"[^\s,\[\]{}\"]++")

# An object begun by a plain key. Behind another object no well-formed string can hold it, because the
# quotes would be escaped; it may still stand deeper than the events do.
_BEGIN = rb'(\{\s*+"[A-Za-z_]\w*+"\s*+:)'
_OBJECT = re.compile(_BEGIN)
_BOUNDARY = re.compile(rb"\}\s*+,?+\s*+" + _BEGIN)

_CUT = re.compile(rb"\}\s*+,\s*+\{")

_ARRAY_END = re.compile(rb'\}\s*+(?=\]\s*+(?:\}|\Z|,\s*+"\w++"\s*+:))')

_OPENS = 2  # the bit that [ and { have and that ] and } lack
_DEEPEST = 1000  # about where the decoder gives up
_DEEP = 64  # deeper no key of an event or a document is looked for
_TRIES = 16  # braces looked at one by one
_NEAR = 48  # blanks looked at before a brace, at each side of the comma
_OBJECT_LIMIT = 64 << 10
_OBJECT_TRIES = 8


def separators_end(buf: bytes, at: int) -> int:
    """Behind the blanks and commas that stand at `at`."""
    match = SEPARATORS.match(buf, at)
    return match.end() if match else at


def last_boundary(buf: bytes, low: int, high: int) -> tuple[int, int] | None:
    """The last `} , {` of buf[low:high]: (behind the first brace, at the second), or None.

    Only looks like the end of an event: the decoder must prove it.
    """
    brace = high
    for _ in range(_TRIES):
        brace = buf.rfind(b"{", low, brace)
        if brace < 0:
            return None
        before = buf[max(brace - _NEAR, low) : brace].rstrip()
        if before.endswith(b","):
            at = buf.rfind(b",", low, brace)
            before = buf[max(at - _NEAR, low) : at].rstrip()
            if before.endswith(b"}"):
                return buf.rfind(b"}", low, at) + 1, brace
    last = deque(_CUT.finditer(buf, low, brace), maxlen=1)  # damage; or very much between two events
    return (last[0].start() + 1, last[0].end() - 1) if last else None


def value_end(buf: bytes, at: int, high: int | None = None) -> int | None:
    """Behind the value that begins at `at`, or None where buf[:high] does not hold all of it.

    None too where brackets nest so deep that no decoder follows. A scalar ends where something else
    follows it, so one at the very end is not known to be whole.
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
            if depth > _DEEPEST:
                return None
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


def own_text(buf: bytes, at: int, high: int) -> Iterator[tuple[int, int, bool]]:
    """The parts of the object at `at` that lie in no bracket but its own: (from, behind its end, last).

    Ends early, without a last part, where buf[:high] does or where brackets nest deep.
    """
    depth = 0
    while (match := _TO_BRACKET.match(buf, at, high)) and depth < _DEEP:
        end = match.end()
        opens = bool(buf[end - 1] & _OPENS)
        if depth == 1:
            yield at, end, not opens
        at = end
        depth += 1 if opens else -1
        if depth <= 0:
            return
    if depth == 1:
        yield at, high, False


def has_member(buf: bytes, at: int, high: int, member: re.Pattern[bytes]) -> bool:
    """Whether `member`, a key with its colon, is found in the object at `at` itself, not in one inside it."""
    return any(member.search(buf, low, end) for low, end, _ in own_text(buf, at, high))


def next_event(buf: bytes, at: int, skip: int = 0) -> int | None:
    """Where the next object with a phase begins that stands behind another object, or None.

    Args:
        skip: how many such places to pass over first.
    """
    start = None
    for match in _BOUNDARY.finditer(buf, at):
        if start is not None and PHASE.search(buf, start, match.end()):
            if skip == 0:
                return start
            skip -= 1
        start = match.start(1)
    return start if start is not None and skip == 0 and PHASE.search(buf, start) else None


def event_in_garbage(buf: bytes, at: int) -> int | None:
    """Where the next sound object with a phase begins, whatever stands before it, or None.

    Looks at a few objects only.
    """
    for number, match in enumerate(_OBJECT.finditer(buf, at)):
        start = match.start()
        end = value_end(buf, start, min(start + _OBJECT_LIMIT, len(buf)))
        if end is not None and has_member(buf, start, end, PHASE):
            return start
        if number == _OBJECT_TRIES:
            break
    return None


def array_end(buf: bytes, at: int) -> int | None:
    """Where a bracket stands that looks like the end of the array of events, or None."""
    match = _ARRAY_END.search(buf, at)
    return match.end() if match else None


def looks_like_json(head: bytes) -> bool:
    """Whether a trace may begin like this, be it damaged: a bracket, or events further on."""
    begin = head.removeprefix(b"\xef\xbb\xbf").lstrip()
    return begin[:1] in (b"{", b"[") or b'"traceEvents"' in head or _BOUNDARY.search(head) is not None
