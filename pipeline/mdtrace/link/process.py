"""Links the staged rows of one process: what the writer needs beside them."""

from dataclasses import dataclass, field

import pyarrow as pa

from mdtrace.ingest.stage import StagedProcess
from mdtrace.tables.diagnostics import Diagnostic


@dataclass
class Linked:
    """What linking found.

    Attributes:
        columns: by staged table (host_ops, launches, device_ops, collectives) the `link` columns,
            one value per staged row.
        tables: rows of whole tables made here (steps, layers, collectives), without the `write` columns;
            they follow rows of the same table that the reader staged.
        start_ns, end_ns: bounds of all events of the process; None without events.
    """

    columns: dict[str, dict[str, pa.Array]] = field(default_factory=dict)
    tables: dict[str, pa.Table] = field(default_factory=dict)
    diagnostics: list[Diagnostic] = field(default_factory=list)
    start_ns: int | None = None
    end_ns: int | None = None


def link_process(staged: StagedProcess, process_id: int, file: str) -> Linked:
    """Nest, join and attribute the rows of one process.

    Args:
        process_id: ids of rows are `tables.schema.row_id(process_id, row)`.
        file: what diagnostics call the source.
    """
    return Linked()
