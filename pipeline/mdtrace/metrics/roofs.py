"""The roofs of a dataset's devices, as tables that metrics read: what hardware each is, and its peaks."""

from collections.abc import Iterable

import duckdb

from mdtrace.hardware.entry import DTYPES, Entry
from mdtrace.hardware.match import Device, Match, match
from mdtrace.hardware.table import Chosen, choose

# Tables that the engine gives to metrics beside those of the dataset.
GIVEN = ("device_hardware", "hardware_peaks")

_DEVICES = """
    CREATE TABLE device_hardware (
        process_id INTEGER, device_id INTEGER, device VARCHAR, hardware VARCHAR, kind VARCHAR, origin VARCHAR,
        doubt VARCHAR, memory_bytes_per_s DOUBLE, memory_source VARCHAR, link_bytes_per_s DOUBLE,
        link_source VARCHAR, internode_bytes_per_s DOUBLE, internode_source VARCHAR, peak_source VARCHAR,
        link_latency_ns DOUBLE
    )
"""
_PEAKS = """
    CREATE TABLE hardware_peaks (
        hardware VARCHAR, dtype VARCHAR, unit VARCHAR, flops_per_s DOUBLE, of_dtype VARCHAR
    )
"""


def create_given(connection: duckdb.DuckDBPyConnection, hardware: str | None) -> None:
    """Make the given tables from the dataset's devices and the hardware table.

    Args:
        hardware: an entry, a user's file, `empirical`, or None: by the names of the devices.

    Raises:
        UsageError, InputError: no such hardware, or its file cannot be used.
    """
    chosen = choose(hardware)
    connection.execute(_DEVICES)
    connection.execute(_PEAKS)
    devices = connection.execute(
        """
        SELECT process_id, device_id, name, memory_bytes, sm_count, memory_bandwidth_bytes_per_s FROM devices
        UNION ALL SELECT process_id, NULL, NULL, NULL, NULL, NULL FROM processes
        ORDER BY 1, 2
        """
    ).fetchall()
    found = {facts: _matched(Device(*facts), chosen) for facts in {row[2:] for row in devices}}
    rows = [_row(row, found[row[2:]], chosen) for row in devices]
    if rows:
        connection.executemany(f"INSERT INTO device_hardware VALUES ({', '.join('?' * len(rows[0]))})", rows)
    peaks = list(_peaks({m.entry.id: m.entry for m in found.values() if m.entry}.values()))
    if peaks:
        connection.executemany("INSERT INTO hardware_peaks VALUES (?, ?, ?, ?, ?)", peaks)


def _matched(device: Device, chosen: Chosen) -> Match:
    if chosen.empirical:
        return Match(None, None)
    if chosen.all_devices is not None:
        return Match(chosen.all_devices, None)
    if device.name is None:
        machines = [e for e in chosen.entries if e.kind == "cpu"]
        return Match(machines[0]) if machines else match(device, ())
    return match(device, chosen.entries)


def _row(device: tuple[object, ...], matched: Match, chosen: Chosen) -> tuple[object, ...]:
    process_id, device_id, name = device[:3]
    entry = matched.entry or Entry()
    origin = None
    if matched.entry is not None:
        origin = "user" if entry.id in chosen.own else "hardware table"
    return (
        process_id, device_id, name, entry.id or None, entry.kind if origin else None, origin, matched.doubt,
        _per_s(entry.memory_gb_per_s), entry.sources.memory, _per_s(entry.link_gb_per_s), entry.sources.link,
        _per_s(entry.internode_gb_per_s), entry.sources.internode, entry.sources.peaks,
        entry.link_latency_us * 1e3 if entry.link_latency_us else None,
    )  # fmt: skip


def _per_s(giga: float | None) -> float | None:
    return giga * 1e9 if giga else None


def _peaks(entries: Iterable[Entry]) -> Iterable[tuple[object, ...]]:
    for entry in entries:
        for dtype in DTYPES:
            for unit in ("matrix", "vector"):
                peak = entry.peak(dtype, unit)
                if peak is not None:
                    yield entry.id, dtype, unit, peak[0], peak[1]
