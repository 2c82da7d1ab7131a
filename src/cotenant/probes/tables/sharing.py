"""Memory that processes and GPUs share: whose it is, the call that made it has told already.

Handles and addresses of others are mapped here, so none of it counts as held.
"""

from typing import Any, Final

from cotenant.probes.function import Flag, Function, Library

_MAP: Final[dict[str, Any]] = {"op": "map", "flags": Flag.ROW}


def _one(id: int, symbol: str, **facts: Any) -> Function:
    return Function(id, Library.CUDA, symbol, **{**_MAP, **facts})


FUNCTIONS: Final = (
    _one(830, "cuMemImportFromShareableHandle", out=1),
    _one(831, "cuIpcOpenMemHandle", out=1),
    _one(832, "cuIpcOpenMemHandle_v2", out=1),
    _one(833, "cuIpcCloseMemHandle", address=1),
    _one(834, "cuMulticastCreate", out=1),
    _one(835, "cuMulticastAddDevice", address=1),
    _one(836, "cuMulticastBindMem", address=1, bytes=(5,)),
    _one(837, "cuMulticastBindMem_v2", address=1, bytes=(6,)),
    _one(838, "cuMulticastBindAddr", address=1, bytes=(4,)),
    _one(839, "cuMulticastBindAddr_v2", address=1, bytes=(5,)),
    _one(840, "cuMulticastUnbind", address=1, bytes=(4,)),
    _one(841, "cuLogicalEndpointCreate", address=1),
    _one(842, "cuLogicalEndpointAddDevice", address=1),
    _one(843, "cuLogicalEndpointBindMem", address=1, bytes=(6,)),
    _one(844, "cuLogicalEndpointBindAddr", address=1, bytes=(5,)),
    _one(845, "cuLogicalEndpointUnbind", address=1, bytes=(4,)),
    _one(846, "cuLogicalEndpointDestroy", address=1),
    _one(847, "cuLogicalEndpointImport", address=1),
    _one(848, "cuMemPoolImportFromShareableHandle", op="pool", out=1),
    _one(849, "cuMemPoolImportPointer", out=1),
)
