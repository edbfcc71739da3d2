"""Findings about a capture: codes declared once in `diagnostic_codes.toml`, counted where met."""

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from importlib.resources import files
from typing import Any


@dataclass(frozen=True)
class Code:
    """A declared finding: what it means, which question it closes, how to recapture."""

    name: str
    severity: str
    message: str
    hint: str | None
    closes: str | None


@cache
def codes() -> dict[str, Code]:
    """All declared findings by name."""
    raw = tomllib.loads((files("mdtrace.tables") / "diagnostic_codes.toml").read_text("utf-8"))
    return {
        name: Code(name, c["severity"], c["message"], c.get("hint"), c.get("closes"))
        for name, c in raw.items()
    }


@dataclass
class Diagnostic:
    """One finding. `detail` fills the placeholders of the declared message; `count` is one of them.

    `process` is the ordinal within the source while reading, the process_id once written.
    """

    code: str
    count: int = 1
    detail: Mapping[str, object] = field(default_factory=dict)
    process: int | None = None

    def row(self, source_id: int | None, process_id: int | None) -> dict[str, Any]:
        """As the `diagnostics` table holds it."""
        code = codes()[self.code]
        return {
            "code": code.name,
            "severity": code.severity,
            "source_id": source_id,
            "process_id": process_id,
            "count": self.count,
            "message": code.message.format(count=self.count, **self.detail),
            "hint": code.hint,
            "closes": code.closes,
        }
