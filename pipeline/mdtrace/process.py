"""What processes of the command line, and their workers, do first: settle down to use little."""

import ctypes
import gc
import os
import sys
from collections.abc import Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType

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


class _WithoutPandas(MetaPathFinder, Loader):
    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        return ModuleSpec(fullname, self) if fullname == "pandas" else None

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        raise ModuleNotFoundError(f"No module named {spec.name!r}", name=spec.name)

    def exec_module(self, module: ModuleType) -> None: ...
