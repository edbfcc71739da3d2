"""Names behind ids: only texts that an event names are ever read from StringIds."""

import pyarrow as pa
import pyarrow.compute as pc

from mdtrace.ingest.nsys.source import TableSource, Tally

_KEPT = 100_000  # names kept between batches; a capture of many distinct texts starts over


class Names:
    """Looks ids up for one task, keeping what it has found."""

    def __init__(self, source: TableSource, tally: Tally) -> None:
        self._source = source
        self._tally = tally
        self._known: dict[int, str | None] = {}

    def of(self, ids: pa.Array | None, length: int, *, count: bool = True) -> pa.DictionaryArray:
        """Names of a column of ids as a dictionary: NULL where the id is NULL or not in StringIds.

        Args:
            count: rows whose id is not in StringIds are a finding.
        """
        if ids is None:
            return pa.nulls(length, pa.string()).dictionary_encode()
        encoded = ids.dictionary_encode()
        if pa.types.is_string(encoded.dictionary.type):  # the export has the names themselves
            return encoded
        texts = pa.array(self.texts(encoded.dictionary.to_pylist()), pa.string())
        if count and texts.null_count:
            named = pc.count(texts.take(encoded.indices)).as_py()
            self._tally.add("names_missing", length - ids.null_count - named)
        return pa.DictionaryArray.from_arrays(encoded.indices, texts)

    def texts(self, ids: list[int]) -> list[str | None]:
        """Names of distinct ids."""
        new = [i for i in ids if i not in self._known]
        if new:
            if len(self._known) > _KEPT:
                self._known.clear()
                new = ids
            found = self._source.names(new)
            self._known.update((i, found.get(i)) for i in new)
        return [self._known[i] for i in ids]


def text_column(array: pa.DictionaryArray) -> pa.Array:
    """A dictionary of names as plain text."""
    return array.dictionary.take(array.indices)
