"""Names of kernels in spans: each is kept once, as long as an operation in a span may need it.

Tenants choose the names and how many there are. Only work that is done has one here; and a tenant
may have as many bytes as are still free, so that it leaves as many to others.
"""

from collections.abc import Mapping
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from cotenant.agent.recorder.processes.interned import Interned
from cotenant.schema.mix_numbers import name_number

_BYTES_MAX: Final = 128 << 20
_CROWDED_BYTES: Final = 32 << 20  # So many are kept before those that nobody needs are looked for.


class SpanNames:
    """Every name that may be in a mix, by its number."""

    def __init__(self) -> None:
        self.by_number: dict[int, str] = {}
        self._numbers: dict[str, int] = {}
        self._fresh: set[int] = set()  # That no item has been told of yet.
        self._interned = Interned()

    @property
    def crowded(self) -> bool:
        """Whether it is time to find out which are still needed."""
        return self._interned.bytes > _CROWDED_BYTES

    def of_rows(
        self,
        names: Any,
        signatures: npt.NDArray[np.void],
        codes: npt.NDArray[np.int32],
        paths: Mapping[int, str],
        launch: int,
    ) -> tuple[npt.NDArray[np.uint64], npt.NDArray[np.bool_]]:
        """The number of each row's name, 0 where no span needs it; and for which is no room.

        Only launches may lack one: what else there is has few names.
        """
        places = names.indices.to_numpy(zero_copy_only=False)
        works = (signatures["work"] != 0)[codes]
        needed = np.zeros(len(names.dictionary), bool)
        needed[places[works]] = True
        at = np.flatnonzero(needed)
        texts = dict(zip(at.tolist(), names.dictionary.take(pa.array(at)).to_pylist(), strict=True))
        numbers = np.zeros(len(needed), np.uint64)
        new = np.zeros(len(needed), bool)
        for place, text in texts.items():
            number = self._numbers.get(text)
            new[place] = number is None
            numbers[place] = number or 0
        if new.any():
            sigs = signatures[codes[works & new[places]]]
            whose = sigs["tenant"].tolist(), (sigs["work"] == launch).tolist()
            # A name that several tenants have is kept if one of them has room for it.
            for place, tenant, is_launch in dict.fromkeys(
                zip(places[works & new[places]].tolist(), *whose, strict=True)
            ):
                if new[place] and (not is_launch or self._has_room(texts[place], paths[tenant])):
                    numbers[place] = self._add(texts[place], paths[tenant])
                    new[place] = False
        return numbers[places], works & new[places]

    def _has_room(self, text: str, tenant: str) -> bool:
        more = self._interned.cost(text)
        return self._interned.bytes_of[tenant] + more <= _BYTES_MAX - self._interned.bytes

    def _add(self, text: str, tenant: str) -> int:
        number = name_number(text)
        if number not in self.by_number:  # Who looks for two names of one number finds them.
            self._numbers[text] = number
            self.by_number[number] = self._interned.intern(text, tenant)
            self._fresh.add(number)
        return number

    def told(self, used: set[int]) -> None:
        """These are the names of all items since it was last told: of no others will there be."""
        for number in self._fresh - used:
            self._drop(number)
        self._fresh.clear()

    def keep(self, used: set[int]) -> None:
        """These are the names of all items."""
        for number in self.by_number.keys() - used:
            self._drop(number)
        self._fresh.clear()

    def _drop(self, number: int) -> None:
        text = self.by_number.pop(number)
        del self._numbers[text]
        self._interned.release(text)
