"""mdtrace hardware."""

import datetime
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from mdtrace.commands.options import Format, FormatOption, OutOption
from mdtrace.errors import UsageError

if TYPE_CHECKING:
    from mdtrace.hardware.calibrate import Calibration
    from mdtrace.hardware.entry import Entry


def run(
    name: Annotated[
        str | None,
        typer.Argument(
            help="An entry or part of a device's name; a .toml file; or calibrate, to measure this machine.",
            metavar="[NAME|FILE|calibrate]",
            show_default=False,
        ),
    ] = None,
    runs: Annotated[
        int, typer.Option("--runs", min=3, max=1000, help="Calibrate: repetitions of each measurement.")
    ] = 7,
    format: FormatOption = None,  # noqa: A002
    out: OutOption = None,
) -> None:
    """The roofs of known devices: peaks by element type, memory, links, ridge points, and their sources.

    Peaks are dense. A file of your own (--hardware my.toml in other commands) adds devices or changes some:
    like = "h100-sxm" starts from an entry, memory_gb_per_s, link_gb_per_s, internode_gb_per_s and
    matrix_tflops = { bf16 = 900 } give what differs.

    [bold]Examples[/bold]

      mdtrace hardware

      mdtrace hardware h100-sxm

      mdtrace hardware calibrate -o my.toml
    """
    from mdtrace.hardware.table import find, no_such, read_file, table

    if name == "calibrate":
        _calibrate(runs, out)
    elif name is None:
        _list(table().values(), format, out)
    elif name.endswith(".toml"):
        _show(list(read_file(Path(name)).values()), format, out)
    else:
        found = find(name)
        if not found:
            raise no_such(name)
        _show(found, format, out)


def _show(found: "list[Entry]", format: Format | None, out: Path | None) -> None:  # noqa: A002
    from mdtrace.commands import output

    if len(found) > 1 or output.chosen(format, out) is not Format.TABLE or out is not None:
        _list(found, format, out)
        return
    _describe(found[0])


def _list(entries: "Iterable[Entry]", format: Format | None, out: Path | None) -> None:  # noqa: A002
    """All entries: a row each as a table, a row for each peak in machine formats."""
    from mdtrace.commands import output

    chosen = output.chosen(format, out)
    if chosen is not Format.TABLE or out is not None:
        import pyarrow as pa

        output.write_rows(pa.Table.from_pylist([r for e in entries for r in _peak_rows(e)]), chosen, out)
        return
    output.print_table(
        [_row(e) for e in entries],
        _list_columns(),
        title="Hardware: dense matrix peaks (TFLOP/s; ridge: FLOP/byte, of the 16-bit peak)",
    )
    output.note("one in full, with sources and ridge points: mdtrace hardware NAME")


def _row(entry: "Entry") -> dict[str, Any]:
    peaks = {dtype: entry.peak(dtype, "matrix") for dtype in ("f64", "f32", "f16", "bf16", "f8")}
    own: dict[str, Any] = {d: p[0] / 1e12 for d, p in peaks.items() if p is not None and p[1] == d}
    half = next((d for d in ("bf16", "f16") if d in own), None)
    return {
        "id": entry.id,
        **own,
        "half": own.get(half) if half else None,
        "memory_gb": entry.memory_gb,
        "memory": entry.memory_gb_per_s,
        "link": entry.link_gb_per_s,
        "internode": entry.internode_gb_per_s,
        "ridge": entry.ridge(half) if half else None,
    }


def _list_columns() -> Mapping[str, Any]:
    from mdtrace.commands.output import Shown

    def digits(value: float) -> str:
        return f"{value:.4g}"

    return {
        "id": Shown("name", right=False),
        "f64": Shown("f64", digits),
        "f32": Shown("f32", digits),
        "half": Shown("16-bit", digits),
        "f8": Shown("f8", digits),
        "memory_gb": Shown("GB", digits),
        "memory": Shown("mem GB/s", digits),
        "link": Shown("link GB/s", digits),
        "internode": Shown("net GB/s", digits),
        "ridge": Shown("ridge", lambda v: f"{v:.0f}"),
    }


def _peak_rows(entry: "Entry") -> list[dict[str, Any]]:
    """A row for each peak that the entry states, with the roofs it stands beside."""
    both = (("matrix", entry.matrix_tflops), ("vector", entry.vector_tflops))
    return [
        {
            "hardware": entry.id,
            "name": entry.name,
            "unit": unit,
            "dtype": dtype,
            "flops_per_s": tflops * 1e12,
            "memory_bytes": _giga(entry.memory_gb),
            "memory_bytes_per_s": _giga(entry.memory_gb_per_s),
            "link": entry.link,
            "link_bytes_per_s": _giga(entry.link_gb_per_s),
            "internode_bytes_per_s": _giga(entry.internode_gb_per_s),
            "ridge_memory": tflops * 1e3 / entry.memory_gb_per_s if entry.memory_gb_per_s else None,
            "ridge_communication": tflops * 1e3 / entry.link_gb_per_s if entry.link_gb_per_s else None,
            "peak_source": entry.sources.peaks,
            "memory_source": entry.sources.memory,
            "link_source": entry.sources.link,
            "internode_source": entry.sources.internode,
        }
        for unit, peaks in both
        for dtype, tflops in peaks.items()
    ]


def _giga(value: float | None) -> float | None:
    return value * 1e9 if value is not None else None


def _describe(entry: "Entry") -> None:
    from mdtrace.commands import output

    output.line(entry.name, "bold")
    for label, text, source in _facts(entry):
        output.line(f"{label}: {text}" + (f"   [{source}]" if source else ""))
    if entry.note:
        output.line(f"note: {entry.note}")
    if entry.matches:
        output.line(f"devices named: {', '.join(entry.matches)}")
    output.line(f"peaks: {entry.sources.peaks or 'no source stated'}")
    output.print_table(_peak_rows(entry), _peak_columns(), title="Dense peaks and ridge points (FLOP/byte)")


def _facts(entry: "Entry") -> list[tuple[str, str, str | None]]:
    sources = entry.sources
    facts = [
        ("compute units", entry.compute_units, "", None),
        ("memory", entry.memory_gb, " GB", sources.memory),
        ("memory bandwidth", entry.memory_gb_per_s, " GB/s", sources.memory),
        (f"link ({entry.link or 'in the node'}), one way", entry.link_gb_per_s, " GB/s", sources.link),
        ("network per device, one way", entry.internode_gb_per_s, " GB/s", sources.internode),
        ("latency of an empty all-reduce", entry.link_latency_us, " µs", sources.link),
    ]
    return [(label, f"{value:g}{unit}", source) for label, value, unit, source in facts if value is not None]


def _peak_columns() -> Mapping[str, Any]:
    from mdtrace.commands.output import Shown

    return {
        "unit": Shown("unit", right=False),
        "dtype": Shown("type", right=False),
        "flops_per_s": Shown("TFLOP/s", lambda v: f"{v / 1e12:.5g}"),
        "ridge_memory": Shown("memory ridge", lambda v: f"{v:.1f}"),
        "ridge_communication": Shown("link ridge", lambda v: f"{v:.0f}"),
    }


def _calibrate(runs: int, out: Path | None) -> None:
    """Measure, say what came out, and write the file."""
    from mdtrace.commands import output
    from mdtrace.process import all_threads

    all_threads()
    from mdtrace.hardware.calibrate import as_toml, calibrate

    if out is not None and out.suffix != ".toml":
        raise UsageError(f"{out}: a hardware file ends in .toml", "mdtrace hardware calibrate -o my.toml")
    if out is not None and not out.resolve().parent.is_dir():
        raise UsageError(f"{out.parent}: no such folder", "make it first, or choose another -o")
    output.note("measuring: matrix products, memory, an all-reduce over loopback …")
    found = calibrate(runs)
    output.print_table(_measurements(found), _measured_columns(), title=f"{found.cpu}, {found.cores} cores")
    if max(m.spread for m in (*found.gemm.values(), found.triad, found.bus)) > 0.25:
        output.note("the runs differ by more than 25 %: measure again while the machine is idle")
    text = as_toml(found, datetime.datetime.now(datetime.UTC).date().isoformat())
    if out is None:
        typer.echo(text)
        return
    out.write_text(text, "utf-8")
    output.note(f"written to {out}; use it with: mdtrace layers JOB --hardware {out}")


def _measurements(found: "Calibration") -> list[dict[str, Any]]:
    rows = [
        {"what": f"matrix product {dtype}", "rate": f"{m.per_s / 1e9:.4g} GFLOP/s", "spread": m.spread}
        for dtype, m in found.gemm.items()
    ]
    rows.append({
        "what": "memory (triad)", "rate": f"{found.triad.per_s / 1e9:.4g} GB/s", "spread": found.triad.spread,
    })  # fmt: skip
    rows.append({
        "what": "all-reduce, bus bandwidth", "rate": f"{found.bus.per_s / 1e9:.4g} GB/s",
        "spread": found.bus.spread,
    })  # fmt: skip
    rows.append({"what": "all-reduce, empty", "rate": f"{found.latency_ns / 1e3:.4g} µs", "spread": None})
    return rows


def _measured_columns() -> Mapping[str, Any]:
    from mdtrace.commands.output import Shown, percent

    return {
        "what": Shown("measured", right=False),
        "rate": Shown("median"),
        "spread": Shown("spread", percent),
    }
