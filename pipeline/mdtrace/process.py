"""What processes of the command line, and their workers, do first: settle down to use little, and see to it
that signals end them."""

import ctypes
import gc
import os
import signal
import sys
import threading
from collections.abc import Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import FrameType, ModuleType
from typing import Any, NoReturn
from weakref import WeakSet

_BLAS = "OPENBLAS_NUM_THREADS"
# glibc's mallopt: memory freed at the top of the heap is kept up to the first, blocks up to the second come
# from the heap; both are fixed at 128 kB otherwise, or grow with what was freed.
_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD = (-1, 16 << 20), (-3, 32 << 20)


def settle() -> None:
    """Make this process start fast and hold on to its memory; to be called before other libraries load.

    Measured on an ingest of 324 MB: an eighth less CPU, a quarter less memory.

    * pyarrow looks for pandas at the first array it makes: half a second, for nothing a command needs.
    * numpy's threads wait for linear algebra by spinning.
    * Rows make no cycles; the collector looks for some every 700 objects.
    * What a batch freed is what the next one needs: giving it back to the system clears it each time.
    """
    if not any(isinstance(finder, _WithoutPandas) for finder in sys.meta_path):
        sys.meta_path.insert(0, _WithoutPandas())
    gc.set_threshold(100_000, 20, 20)
    os.environ.setdefault(_BLAS, "1")
    os.environ.setdefault("ARROW_DEFAULT_MEMORY_POOL", "system")
    if sys.platform == "linux" and hasattr(libc := ctypes.CDLL(None), "mallopt"):
        for parameter, value in (_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD):
            libc.mallopt(parameter, value)


def all_threads() -> None:
    """Give linear algebra its threads again; to be called before numpy loads."""
    os.environ.pop(_BLAS, None)


_queries: WeakSet[Any] = WeakSet()  # DuckDB connections
_caught: list[int] = []
_tell: int | None = None  # where signals are written to


def interruptible(connection: Any) -> None:
    """Let signals end the queries of a DuckDB connection, which looks for them itself now and then only."""
    _queries.add(connection)


def listen(*numbers: signal.Signals) -> None:
    """Let these signals end the process with the exit code 128 + number, by an exception, so that half-made
    things are cleaned up. One that is ignored (nohup) stays so. Of errors that come of it, see `ended_by`.
    """
    global _tell
    if _tell is None:
        told, _tell = os.pipe()
        os.set_blocking(_tell, False)
        threading.Thread(target=_interrupt, args=(told,), daemon=True).start()
    signal.set_wakeup_fd(_tell)
    for number in numbers:
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, _end)


def ended_by() -> int | None:
    """The signal that has been caught; what has failed since has failed because of it."""
    return _caught[-1] if _caught else None


def go_on() -> None:
    """Forget signals: what they interrupted was not all there is to do."""
    _caught.clear()


def _interrupt(told: int) -> None:
    """Runs beside: the main thread may be inside a query, and hears of a signal only when it comes back."""
    while number := os.read(told, 1):
        if number[0] in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            _caught.append(number[0])
            for connection in list(_queries):
                connection.interrupt()


def _end(number: int, _frame: FrameType | None) -> NoReturn:
    _caught.append(number)
    sys.exit(128 + number)


class _WithoutPandas(MetaPathFinder, Loader):
    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        return ModuleSpec(fullname, self) if fullname == "pandas" else None

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        raise ModuleNotFoundError(f"No module named {spec.name!r}", name=spec.name)

    def exec_module(self, module: ModuleType) -> None: ...
