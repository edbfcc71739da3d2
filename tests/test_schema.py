"""The table declarations themselves."""

import pyarrow as pa
import pytest

from mdtrace.tables.diagnostics import codes
from mdtrace.tables.schema import ID_COLUMNS, Table, row_id, tables

# Names that scripts rely on.
STABLE = {
    "device_ops": "process_id rank device_id stream_id name kind class start_ns dur_ns "
    "launch_id host_op_id step",
    "collectives": "process_id rank kind group_name seq dtype payload_bytes group_size "
    "start_ns end_ns instance_id",
    "host_ops": "kind name parent_id depth",
    "diagnostics": "code severity count message hint",
}


def test_the_stable_tables_and_columns_exist() -> None:
    assert {
        "sources", "processes", "devices", "steps", "host_ops", "launches", "device_ops", "collectives",
        "arrivals", "diagnostics",
    } <= set(tables())  # fmt: skip
    for table, columns in STABLE.items():
        assert set(columns.split()) <= {c.name for c in tables()[table].columns}, table


@pytest.mark.parametrize("table", tables().values(), ids=lambda t: t.name)
def test_a_declaration_is_complete(table: Table) -> None:
    names = [c.name for c in table.columns]
    assert len(set(names)) == len(names)
    assert set(table.key) <= set(names)
    assert table.doc.endswith(".")
    assert table.grain
    for column in table.columns:
        assert column.doc.endswith("."), column.name
        if column.name.endswith("_ns"):
            assert column.unit == "ns"
            assert column.type == pa.int64()
        if column.references:
            other, _, target = column.references.partition(".")
            assert target in {c.name for c in tables()[other].columns}, column.name


def test_units_and_docs_travel_with_the_arrow_schema() -> None:
    field = tables()["device_ops"].arrow().field("dur_ns")
    assert field.metadata[b"unit"] == b"ns"
    assert field.metadata[b"null"] == b"never closed"
    assert not tables()["device_ops"].arrow().field("start_ns").nullable


def test_ids_are_unique_across_processes_and_tables_have_them() -> None:
    assert row_id(0, 5) == 5
    assert row_id(3, 5) == 3 * 2**40 + 5
    for table, column in ID_COLUMNS.items():
        assert tables()[table].column(column).origin == "write"


def test_every_diagnostic_says_what_it_means() -> None:
    for code in codes().values():
        assert code.severity in ("info", "warning", "error"), code.name
        assert code.message, code.name
    assert list(codes()) == sorted(codes())
