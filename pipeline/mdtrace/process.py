"""What processes of the command line, and their workers, do first: settle down to use little, and see to it
that signals end them."""

import contextlib
import ctypes
import gc
import os
import select
import signal
import sys
import threading
import time
from collections.abc import Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import FrameType, ModuleType
from typing import Any
from weakref import WeakSet

_BLAS = "OPENBLAS_NUM_THREADS"
# glibc's mallopt: memory freed at the top of the heap is kept up to the first, blocks up to the second come
# from the heap; both are fixed at 128 kB otherwise, or grow with what was freed.
_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD = (-1, 16 << 20), (-3, 32 << 20)


def settle() -> None:
    """Make this process start fast and hold on to its memory; to be called before other libraries load.

    Of an ingest of 324 MB this took away a sixth of the CPU seconds and a quarter of the memory.

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
_ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_AGAIN_S = 0.25
_MOST = 1 << 16  # bytes in a pipe


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
        os.set_blocking(told, False)
        os.set_blocking(_tell, False)
        threading.Thread(target=_insist, args=(told,), daemon=True).start()
    signal.set_wakeup_fd(_tell)
    for number in numbers:
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, _end)


def ended_by() -> int | None:
    """The signal that has been caught; what has failed since has failed because of it."""
    return _caught[-1] if _caught else None


def go_on() -> None:
    """Forget signals: they have ended all they are to end."""
    _caught.clear()


def deaf() -> None:
    """Ignore signals: the process ends by itself."""
    for number in _ENDING:
        signal.signal(number, signal.SIG_IGN)
    go_on()


def _insist(told: int) -> None:
    """Runs beside the main thread, which hears of a signal only when it comes back from a query; and Python
    drops exceptions in some places (callbacks of weak references), so the signal is sent until it is heeded.
    """
    while select.select([told], [], [])[0]:
        _caught.extend(n for n in os.read(told, _MOST) if n in _ENDING)
        while number := ended_by():
            for connection in list(_queries):
                connection.interrupt()
            time.sleep(_AGAIN_S)
            if _caught:
                signal.pthread_kill(threading.main_thread().ident or 0, number)
                with contextlib.suppress(BlockingIOError):  # ignored by now
                    os.read(told, _MOST)


def _end(number: int, frame: FrameType | None) -> None:
    _caught.append(number)
    if frame is not None and frame.f_code.co_name == "cb" and "importlib" in frame.f_code.co_filename:
        return  # a callback that would say and drop the exception
    error = sys.exc_info()[1]
    while error is not None:
        if isinstance(error, SystemExit):
            return  # on the way out already, cleaning up
        error = error.__context__
    sys.exit(128 + number)


class _WithoutPandas(MetaPathFinder, Loader):
    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        return ModuleSpec(fullname, self) if fullname == "pandas" else None

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        raise ModuleNotFoundError(f"No module named {spec.name!r}", name=spec.name)

    def exec_module(self, module: ModuleType) -> None: ...
