"""The index of a batch as a page that works offline."""

from collections.abc import Sequence
from html import escape
from typing import Any

MEANING = (
    "Ranked by the time that all ranks together lose in a step: idle, plus the larger of exposed"
    " communication and waiting for the last rank of collectives: ranks mostly wait inside"
    " collectives, and that counts once."
    " Of steady steps; where only some ranks were captured, scaled up to all. Jobs without marked steps come"
    " after, by share of the capture."
)


def page(rows: Sequence[dict[str, Any]]) -> str:
    """The index as one page that works offline; names are text in it, never markup."""
    done = [row for row in rows if row["outcome"] == "done"]
    others = [row for row in rows if row["outcome"] != "done"]
    most = max((row["lost_ns"] or 0.0 for row in done if row["basis"] == "steady steps"), default=0.0)
    body = "".join(_done(row, most) for row in done)
    failed = "".join(_failed(row) for row in others)
    return _PAGE.format(
        style=_STYLE,
        count=len(rows),
        failed_count=len(others),
        meaning=escape(MEANING),
        rows=body,
        failed=_FAILED.format(rows=failed) if others else "",
    )


def _done(row: dict[str, Any], most: float) -> str:
    link = f'<a href="{escape(row["report"])}">{escape(row["job"])}</a>'
    steps = row["basis"] == "steady steps"
    left = f" ({row['unreadable_files']} of {row['files']} files not read)" if row["unreadable_files"] else ""
    cells = [
        f"<td class=n>{row['place']}</td><td>{link}{left}</td>",
        f"<td class=n>{_ranks(row)}</td>",
        f"<td class=n>{_time(row['span_ns'])}{'' if steps or row['span_ns'] is None else ' (capture)'}</td>",
        f"<td class=n>{_time(row['lost_ns']) if steps else '–'}</td>",
        f"<td>{_bar(row, most) if steps else ''}</td>",
        f"<td class=n>{_share(row['lost_share'])}</td>",
        *(f"<td class=n>{_part(row, key)}</td>" for key in ("exposed_comm_ns", "wait_ns", "idle_ns")),
        f"<td>{_finding(row)}</td>",
    ]
    return f"<tr>{''.join(cells)}</tr>\n"


def _failed(row: dict[str, Any]) -> str:
    reason = escape(row["reason"] or "")
    return f"<tr><td>{escape(row['job'])}</td><td>{escape(row['outcome'])}</td><td>{reason}</td></tr>\n"


def _ranks(row: dict[str, Any]) -> str:
    if row["ranks"] is None:
        return "–"
    some = row["captured"] and row["captured"] < row["ranks"]
    return f"{row['captured']} of {row['ranks']}" if some else str(row["ranks"])


def _finding(row: dict[str, Any]) -> str:
    if row["finding"] is None:
        return "–"
    return f"{escape(row['finding'])} <span class=quiet>(up to {_share(row['gain'])})</span>"


def _part(row: dict[str, Any], key: str) -> str:
    """A loss as a share of the time of all ranks."""
    if row[key] is None or not row["span_ns"]:
        return "–"
    return _share(row[key] / (row["span_ns"] * (row["ranks"] or row["captured"] or 1)))


def _bar(row: dict[str, Any], most: float) -> str:
    width = 100 * (row["lost_ns"] or 0.0) / most if most else 0.0
    return f'<div class=bar style="width:{width:.1f}%"></div>'


def _share(share: float | None) -> str:
    return "–" if share is None else f"{100 * share:.1f} %"


def _time(ns: float | None) -> str:
    if ns is None:
        return "–"
    for unit, size in (("s", 1e9), ("ms", 1e6), ("µs", 1e3)):
        if ns >= size:
            return f"{ns / size:.3g} {unit}"
    return f"{ns:.0f} ns"


_STYLE = """\
:root { color-scheme: light dark;
  --paper: #fff; --text: #1f2328; --quiet: #656d76; --line: #d9dde1; --mark: #E69F00; }
@media (prefers-color-scheme: dark) {
  :root { --paper: #15181d; --text: #e6e8eb; --quiet: #9aa3ad; --line: #323841; }
}
body { margin: 0 auto; max-width: 1280px; padding: 24px 32px; background: var(--paper); color: var(--text);
  font: 14px/1.5 Helvetica, Arial, sans-serif; }
h1 { font-size: 26px; margin: 0; } h2 { font-size: 20px; margin-top: 36px; }
a { color: inherit; }
.quiet, th { color: var(--quiet); }
table { border-collapse: collapse; font-size: 13px; font-variant-numeric: tabular-nums; }
th, td { padding: 4px 14px 4px 0; text-align: left; vertical-align: top; }
th, td { border-bottom: 1px solid var(--line); } th { font-weight: 500; } td { overflow-wrap: anywhere; }
.n { text-align: right; white-space: nowrap; }
.bar { height: 12px; margin-top: 4px; background: var(--mark); } td:has(.bar) { min-width: 90px; }
@media print { body { max-width: none; padding: 0; font-size: 11px; } .bar { print-color-adjust: exact; } }
"""
_PAGE = """\
<!doctype html>
<html lang="en"><head><meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>Jobs by time lost</title><style>{style}</style></head><body>
<h1>Jobs by time lost</h1>
<p class=quiet>{count} jobs, {failed_count} of them not reported. {meaning}</p>
<table><tr><th></th><th>job</th><th class=n>ranks</th><th class=n>step</th>
<th class=n>lost a step, all ranks</th><th></th><th class=n>lost</th><th class=n>exposed comm.</th>
<th class=n>waiting</th><th class=n>idle</th><th>first finding</th></tr>
{rows}</table>
{failed}
</body></html>
"""
_FAILED = """\
<h2>Not reported</h2><table><tr><th>job</th><th>outcome</th><th>reason</th></tr>
{rows}</table>"""
