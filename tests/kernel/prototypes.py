"""The signatures of CUDA's functions, as cuda.h and cuda_runtime_api.h have them.

Written down independently of the probe tables: the arguments in their order, by what they mean.
``-`` is an argument that no column shows. ``name*2`` counts elements of two bytes.
"""

from typing import NamedTuple


class Prototype(NamedTuple):
    """One function: what operation it is, and its arguments."""

    op: str
    arguments: tuple[str, ...]
    direction: str | None = None


_LAUNCH = "handle grid_x grid_y grid_z block_x block_y block_z shared stream - -"
_RUNTIME_LAUNCH = "stub grid_xy grid_z block_xy block_z - shared stream"

# op, arguments, direction, and the suffixes with which the function also exists.
_TEXT = """
launch    cuLaunchKernel               _ptsz  HANDLE_LAUNCH
launch    cuLaunchKernelEx             _ptsz  config handle - -
launch    cuLaunchCooperativeKernel    _ptsz  HANDLE_LAUNCH
launch    cuLaunchCooperativeKernelMultiDevice - launches - -
launch    cuLaunch                     -      handle
launch    cuLaunchGrid                 -      handle - -
launch    cuLaunchGridAsync            -      handle - - stream
graph_launch cuGraphLaunch             _ptsz  - stream
host      cuLaunchHostFunc             _ptsz  stream - -
host      cuLaunchHostFunc_v2          _ptsz  stream - - -
memcpy    cuMemcpy                     _ptds  - - bytes
memcpy    cuMemcpyAsync                _ptsz  - - bytes stream
memcpy    cuMemcpyHtoD_v2:HtoD         _ptds  - - bytes
memcpy    cuMemcpyDtoH_v2:DtoH         _ptds  - - bytes
memcpy    cuMemcpyDtoD_v2:DtoD         _ptds  - - bytes
memcpy    cuMemcpyHtoDAsync_v2:HtoD    _ptsz  - - bytes stream
memcpy    cuMemcpyDtoHAsync_v2:DtoH    _ptsz  - - bytes stream
memcpy    cuMemcpyDtoDAsync_v2:DtoD    _ptsz  - - bytes stream
memcpy    cuMemcpyPeer:DtoD            _ptds  - - - - bytes
memcpy    cuMemcpyPeerAsync:DtoD       _ptsz  - - - - bytes stream
memcpy    cuMemcpy2D_v2:HtoD           _ptds  copy2d
memcpy    cuMemcpy2DUnaligned_v2:HtoD  _ptds  copy2d
memcpy    cuMemcpy2DAsync_v2:HtoD      _ptsz  copy2d stream
memcpy    cuMemcpy3D_v2:DtoH           _ptds  copy3d
memcpy    cuMemcpy3DAsync_v2:DtoH      _ptsz  copy3d stream
memcpy    cuMemcpy3DPeer:DtoH          _ptds  copy3d
memcpy    cuMemcpy3DPeerAsync:DtoH     _ptsz  copy3d stream
memcpy    cuMemcpyBatchAsync_v2        _ptsz  - - sizes three - - - stream
memcpy    cuMemcpyBatchAsync           _ptsz  - - sizes three - - - - stream
memcpy    cuMemcpy3DBatchAsync         _ptsz  - - - - stream
memcpy    cuMemcpy3DBatchAsync_v2      _ptsz  - - - stream
memcpy    cuMemcpyWithAttributesAsync  _ptsz  - - bytes - stream
memcpy    cuMemcpy3DWithAttributesAsync _ptsz - - stream
memcpy    cuMemcpyDtoA_v2:DtoD         _ptds  - - - bytes
memcpy    cuMemcpyAtoD_v2:DtoD         _ptds  - - - bytes
memcpy    cuMemcpyHtoA_v2:HtoD         _ptds  - - - bytes
memcpy    cuMemcpyAtoH_v2:DtoH         _ptds  - - - bytes
memcpy    cuMemcpyAtoA_v2:DtoD         _ptds  - - - - bytes
memcpy    cuMemcpyHtoAAsync_v2:HtoD    _ptsz  - - - bytes stream
memcpy    cuMemcpyAtoHAsync_v2:DtoH    _ptsz  - - - bytes stream
memset    cuMemsetD8_v2                _ptds  - - bytes
memset    cuMemsetD16_v2               _ptds  - - bytes*2
memset    cuMemsetD32_v2               _ptds  - - bytes*4
memset    cuMemsetD8Async              _ptsz  - - bytes stream
memset    cuMemsetD16Async             _ptsz  - - bytes*2 stream
memset    cuMemsetD32Async             _ptsz  - - bytes*4 stream
memset    cuMemsetD2D8_v2              _ptds  - - - bytes bytes
memset    cuMemsetD2D16_v2             _ptds  - - - bytes*2 bytes
memset    cuMemsetD2D32_v2             _ptds  - - - bytes*4 bytes
memset    cuMemsetD2D8Async            _ptsz  - - - bytes bytes stream
memset    cuMemsetD2D16Async           _ptsz  - - - bytes*2 bytes stream
memset    cuMemsetD2D32Async           _ptsz  - - - bytes*4 bytes stream
prefetch  cuMemPrefetchAsync_v2        _ptsz  - bytes - - stream
prefetch  cuMemPrefetchAsync           _ptsz  - bytes - stream
prefetch  cuMemPrefetchBatchAsync      _ptsz  - sizes three - - - - stream
prefetch  cuMemDiscardAndPrefetchBatchAsync _ptsz - sizes three - - - - stream
discard   cuMemDiscardBatchAsync       _ptsz  - sizes three - stream
decompress cuMemBatchDecompressAsync   _ptsz  - - - - stream
alloc     cuMemAlloc_v2                -      out bytes
alloc     cuMemAllocManaged            -      out bytes -
alloc     cuMemAllocAsync              _ptsz  out bytes stream
alloc     cuMemAllocFromPoolAsync      _ptsz  out bytes - stream
alloc     cuMemAllocHost_v2            -      out bytes
alloc     cuMemHostAlloc               -      out bytes -
alloc     cuMemHostRegister_v2         -      - bytes -
alloc     cuMemHostRegister            -      - bytes -
alloc     cuMemAllocPitch_v2           -      out pitch - bytes -
alloc     cuMemCreate                  -      out bytes - -
alloc     cuArrayCreate_v2             -      out -
alloc     cuArray3DCreate_v2           -      out -
alloc     cuMipmappedArrayCreate       -      out - -
free      cuArrayDestroy               -      -
free      cuMipmappedArrayDestroy      -      -
free      cuMemFree_v2                 -      -
free      cuMemFreeAsync               _ptsz  - stream
free      cuMemFreeHost                -      -
free      cuMemHostUnregister          -      -
free      cuMemRelease                 -      -
map       cuMemRetainAllocationHandle  -      out -
map       cuMemMap                     -      - bytes - - -
map       cuMemUnmap                   -      - bytes
map       cuMemMapArrayAsync           _ptsz  - - stream
map       cuMemImportFromShareableHandle -    out - -
map       cuIpcOpenMemHandle           -      out -
map       cuIpcOpenMemHandle_v2        -      out -
map       cuIpcCloseMemHandle          -      -
map       cuMulticastCreate            -      out -
map       cuMulticastAddDevice         -      - -
map       cuMulticastBindMem           -      - - - - bytes -
map       cuMulticastBindMem_v2        -      - - - - - bytes -
map       cuMulticastBindAddr          -      - - - bytes -
map       cuMulticastBindAddr_v2       -      - - - - bytes -
map       cuMulticastUnbind            -      - - - bytes
map       cuLogicalEndpointCreate      -      - -
map       cuLogicalEndpointAddDevice   -      - -
map       cuLogicalEndpointBindMem     -      - - - - - bytes -
map       cuLogicalEndpointBindAddr    -      - - - - bytes -
map       cuLogicalEndpointUnbind      -      - - - bytes
map       cuLogicalEndpointDestroy     -      -
map       cuLogicalEndpointImport      -      - - -
map       cuMemPoolImportPointer       -      out - -
pool      cuMemPoolCreate              -      out -
pool      cuMemPoolDestroy             -      -
pool      cuMemPoolTrimTo              -      - bytes
pool      cuMemPoolImportFromShareableHandle - out - - -
pool      cuDeviceGraphMemTrim         -      -
sync      cuStreamSynchronize          _ptsz  stream
sync      cuCtxSynchronize             -
sync      cuCtxSynchronize_v2          -      -
sync      cuEventSynchronize           -      -
sync      cuFlushGPUDirectRDMAWrites   -      - -
query     cuStreamQuery                _ptsz  stream
query     cuEventQuery                 -      event
event     cuEventCreate                -      out -
event     cuEventDestroy_v2            -      -
event     cuEventDestroy               -      -
event     cuEventRecord                _ptsz  - stream
event     cuEventRecordWithFlags       _ptsz  - stream -
event     cuStreamWaitEvent            _ptsz  stream - -
event     cuEventElapsedTime           -      - - -
event     cuEventElapsedTime_v2        -      - - -
event     cuCtxRecordEvent             -      - -
event     cuGreenCtxRecordEvent        -      - -
event     cuCtxWaitEvent               -      - -
event     cuGreenCtxWaitEvent          -      - -
stream    cuStreamCreate               -      out -
stream    cuStreamCreateWithPriority   -      out - -
stream    cuStreamDestroy_v2           -      stream
stream    cuStreamDestroy              -      stream
stream    cuStreamWaitValue32          _ptsz  stream - - -
stream    cuStreamWaitValue32_v2       _ptsz  stream - - -
stream    cuStreamWaitValue64          _ptsz  stream - - -
stream    cuStreamWaitValue64_v2       _ptsz  stream - - -
stream    cuStreamWriteValue32         _ptsz  stream - - -
stream    cuStreamWriteValue32_v2      _ptsz  stream - - -
stream    cuStreamWriteValue64         _ptsz  stream - - -
stream    cuStreamWriteValue64_v2      _ptsz  stream - - -
stream    cuStreamBatchMemOp           _ptsz  stream - - -
stream    cuStreamBatchMemOp_v2        _ptsz  stream - - -
stream    cuStreamAttachMemAsync       _ptsz  stream - - -
stream    cuStreamAddCallback          _ptsz  stream - - -
stream    cuWaitExternalSemaphoresAsync _ptsz  - - - stream
stream    cuSignalExternalSemaphoresAsync _ptsz  - - - stream
stream    cuGraphicsMapResources       _ptsz  - - stream
stream    cuGraphicsUnmapResources     _ptsz  - - stream
stream    cuGreenCtxStreamCreate       -      out - - -
init      cuInit                       -      -
context   cuCtxCreate_v2               -      out - -
context   cuCtxCreate_v3               -      out - - - -
context   cuCtxCreate_v4               -      out - - -
context   cuDevicePrimaryCtxRetain     -      out -
context   cuDevicePrimaryCtxRelease_v2 -      -
context   cuDevicePrimaryCtxRelease    -      -
context   cuDevicePrimaryCtxReset_v2   -      -
context   cuDevicePrimaryCtxReset      -      -
context   cuCtxDestroy_v2              -      -
context   cuCtxDestroy                 -      -
context   cuGreenCtxCreate             -      out - - -
context   cuGreenCtxDestroy            -      -
context   cuCtxFromGreenCtx            -      out -
quiet     cuCtxSetCurrent              -      -
quiet     cuCtxPushCurrent_v2          -      -
quiet     cuCtxPopCurrent_v2           -      out
module    cuModuleLoad                 -      out -
module    cuModuleLoadData             -      out -
module    cuModuleLoadDataEx           -      out - - - -
module    cuModuleLoadFatBinary        -      out -
module    cuLibraryLoadData            -      out - - - - - - -
module    cuLibraryLoadFromFile        -      out - - - - - - -
module    cuModuleUnload               -      -
module    cuLibraryUnload              -      -
graph     cuStreamEndCapture           _ptsz  stream out
graph     cuStreamBeginCapture_v2      _ptsz  stream -
graph     cuStreamBeginCaptureToGraph  _ptsz  stream - - - - -
graph     cuStreamBeginCapture         _ptsz  stream
graph     cuStreamBeginRecaptureToGraph _ptsz stream - - - -
graph     cuStreamBeginCaptureToCig    _ptsz  stream -
graph     cuStreamEndCaptureToCig      _ptsz  stream
graph     cuGraphCreate                -      out -
graph     cuGraphClone                 -      out -
graph     cuGraphAddKernelNode         -      out - - - node
graph     cuGraphAddKernelNode_v2      -      out - - - node
graph     cuGraphAddNode               -      out - - - node
graph     cuGraphAddNode_v2            -      out - - - - node
graph     cuGraphAddNode_v3            -      out - - - - node
graph     cuGraphAddChildGraphNode     -      out - - - -
graph     cuGraphKernelNodeGetParams   -      - node
graph     cuGraphKernelNodeGetParams_v2 -     - node
graph     cuGraphKernelNodeSetParams   -      - node
graph     cuGraphKernelNodeSetParams_v2 -     - node
graph     cuGraphNodeSetParams         -      - node
graph     cuGraphNodeSetParams_v2      -      - node
graph     cuGraphDestroyNode           -      -
graph     cuGraphDestroy               -      -
graph     cuGraphInstantiate           -      out - - - -
graph     cuGraphInstantiate_v2        -      out - - - -
graph     cuGraphInstantiateWithFlags  -      out - -
graph     cuGraphInstantiateWithParams _ptsz  out - -
graph     cuGraphExecUpdate            -      - - - -
graph     cuGraphExecUpdate_v2         -      - - -
graph     cuGraphExecKernelNodeSetParams -    - - node
graph     cuGraphExecKernelNodeSetParams_v2 - - - node
graph     cuGraphExecNodeSetParams     -      - - node
graph     cuGraphExecDestroy           -      -
graph     cuGraphUpload                _ptsz  - stream
graph     cuGraphAddEventRecordNode    -      - - - - -
graph     cuGraphEventRecordNodeSetEvent -      - -
graph     cuGraphExecEventRecordNodeSetEvent -      - - -
launch    cudaLaunchKernel             _ptsz  STUB_LAUNCH
launch    cudaLaunchCooperativeKernel  _ptsz  STUB_LAUNCH
launch    cudaLaunchKernelExC          _ptsz  config stub -
launch    cudaLaunchCooperativeKernelMultiDevice - stubs - -
graph_launch cudaGraphLaunch           _ptsz  - stream
host      cudaLaunchHostFunc           _ptsz  stream - -
host      cudaLaunchHostFunc_v2        _ptsz  stream - - -
host      cudaStreamAddCallback        _ptsz  stream - - -
memcpy    cudaMemcpy                   _ptds  - - bytes kind
memcpy    cudaMemcpyAsync              _ptsz  - - bytes kind stream
memcpy    cudaMemcpyToSymbol           _ptds  - - bytes - kind
memcpy    cudaMemcpyFromSymbol         _ptds  - - bytes - kind
memcpy    cudaMemcpyToSymbolAsync      _ptsz  - - bytes - kind stream
memcpy    cudaMemcpyFromSymbolAsync    _ptsz  - - bytes - kind stream
memcpy    cudaMemcpyPeer:DtoD          -      - - - - bytes
memcpy    cudaMemcpyPeerAsync:DtoD     -      - - - - bytes stream
memcpy    cudaMemcpyBatchAsync         _ptsz  - - sizes three - - - -
memcpy    cudaMemcpyWithAttributesAsync _ptsz - - bytes - stream
memcpy    cudaMemcpy3DWithAttributesAsync _ptsz - - stream
memcpy    cudaMemcpy3DBatchAsync       _ptsz  - - - -
memcpy    cudaMemcpyToArray            _ptds  - - - - bytes kind
memcpy    cudaMemcpyFromArray          _ptds  - - - - bytes kind
memcpy    cudaMemcpyToArrayAsync       _ptsz  - - - - bytes kind stream
memcpy    cudaMemcpyFromArrayAsync     _ptsz  - - - - bytes kind stream
memcpy    cudaMemcpyArrayToArray       _ptds  - - - - - - bytes kind
memcpy    cudaMemcpy2DArrayToArray     _ptds  - - - - - - bytes bytes kind
memcpy    cudaMemcpy2D                 _ptds  - - - - bytes bytes kind
memcpy    cudaMemcpy2DAsync            _ptsz  - - - - bytes bytes kind stream
memcpy    cudaMemcpy2DToArray          _ptds  - - - - - bytes bytes kind
memcpy    cudaMemcpy2DToArrayAsync     _ptsz  - - - - - bytes bytes kind stream
memcpy    cudaMemcpy2DFromArray        _ptds  - - - - - bytes bytes kind
memcpy    cudaMemcpy2DFromArrayAsync   _ptsz  - - - - - bytes bytes kind stream
memcpy    cudaMemcpy3D:HtoD            _ptds  runtime3d
memcpy    cudaMemcpy3DAsync:HtoD       _ptsz  runtime3d stream
memcpy    cudaMemcpy3DPeer:DtoD        _ptds  peer3d
memcpy    cudaMemcpy3DPeerAsync:DtoD   _ptsz  peer3d stream
memset    cudaMemset                   _ptds  - - bytes
memset    cudaMemsetAsync              _ptsz  - - bytes stream
memset    cudaMemset2D                 _ptds  - - - bytes bytes
memset    cudaMemset2DAsync            _ptsz  - - - bytes bytes stream
memset    cudaMemset3D                 _ptds  -
memset    cudaMemset3DAsync            _ptsz  - stream
prefetch  cudaMemPrefetchAsync         _ptsz  - bytes - -
prefetch  cudaMemPrefetchAsync_v2      _ptsz  - bytes - - stream
prefetch  cudaMemPrefetchBatchAsync    _ptsz  - sizes three - - - - stream
prefetch  cudaMemDiscardAndPrefetchBatchAsync _ptsz - sizes three - - - - stream
discard   cudaMemDiscardBatchAsync     _ptsz  - sizes three - stream
alloc     cudaMalloc                   -      out bytes
alloc     cudaMallocManaged            -      out bytes -
alloc     cudaMallocAsync              _ptsz  out bytes stream
alloc     cudaMallocFromPoolAsync      _ptsz  out bytes - stream
alloc     cudaMallocHost               -      out bytes
alloc     cudaHostAlloc                -      out bytes -
alloc     cudaHostRegister             -      - bytes -
alloc     cudaMallocPitch              -      out pitch - bytes
alloc     cudaMalloc3D                 -      out
alloc     cudaMallocArray              -      out - - - -
alloc     cudaMalloc3DArray            -      out - -
alloc     cudaMallocMipmappedArray     -      out - - -
free      cudaFreeArray                -      -
free      cudaFreeMipmappedArray       -      -
map       cudaIpcOpenMemHandle         -      out -
map       cudaIpcCloseMemHandle        -      -
pool      cudaDeviceGraphMemTrim       -      -
free      cudaFree                     -      -
free      cudaFreeAsync                _ptsz  - stream
free      cudaFreeHost                 -      -
free      cudaHostUnregister           -      -
pool      cudaMemPoolCreate            -      out -
pool      cudaMemPoolDestroy           -      -
pool      cudaMemPoolTrimTo            -      - bytes
sync      cudaStreamSynchronize        _ptsz  stream
sync      cudaDeviceSynchronize        -
sync      cudaThreadSynchronize        -
sync      cudaEventSynchronize         -      -
sync      cudaExecutionCtxSynchronize  -      -
sync      cudaDeviceFlushGPUDirectRDMAWrites - - -
query     cudaStreamQuery              _ptsz  stream
query     cudaEventQuery               -      event
event     cudaEventCreate              -      out
event     cudaEventCreateWithFlags     -      out -
event     cudaEventDestroy             -      -
event     cudaEventRecord              _ptsz  - stream
event     cudaEventRecordWithFlags     _ptsz  - stream -
event     cudaStreamWaitEvent          _ptsz  stream - -
event     cudaEventElapsedTime         -      - - -
event     cudaEventElapsedTime_v2      -      - - -
event     cudaExecutionCtxRecordEvent  -      - -
event     cudaExecutionCtxWaitEvent    -      - -
stream    cudaStreamCreate             -      out
stream    cudaStreamCreateWithFlags    -      out -
stream    cudaStreamCreateWithPriority -      out - -
stream    cudaExecutionCtxStreamCreate -      out - - -
stream    cudaStreamDestroy            -      stream
context   cudaDeviceReset              -
context   cudaThreadExit               -
context   cudaGreenCtxCreate           -      out - - -
context   cudaExecutionCtxDestroy      -      -
graph     cudaStreamBeginCapture       _ptsz  stream -
graph     cudaStreamBeginCaptureToGraph _ptsz stream - - - - -
graph     cudaStreamBeginRecaptureToGraph _ptsz stream - - -
graph     cudaStreamEndCapture         _ptsz  stream out
graph     cudaGraphCreate              -      out -
graph     cudaGraphClone               -      out -
graph     cudaGraphAddKernelNode       -      out - - - -
graph     cudaGraphAddNode             -      out - - - -
graph     cudaGraphAddNode_v2          -      out - - - - -
graph     cudaGraphInstantiate         -      out - -
graph     cudaGraphInstantiateWithFlags -     out - -
graph     cudaGraphInstantiateWithParams _ptsz out - -
graph     cudaGraphExecUpdate          -      - - -
graph     cudaGraphExecKernelNodeSetParams -  - - -
graph     cudaGraphExecNodeSetParams   -      - - -
graph     cudaGraphExecDestroy         -      -
graph     cudaGraphDestroy             -      -
graph     cudaGraphKernelNodeSetParams -      - -
graph     cudaGraphUpload              _ptsz  - stream
fact      cuModuleGetFunction          -      handle_out - name
fact      cuLibraryGetKernel           -      handle_out - name
fact      cuKernelGetFunction          -      handle_out named
fact      cuFuncGetName                -      name_out handle
fact      cuKernelGetName              -      name_out handle
fact      __cudaRegisterFunction       -      - handle name - - - - - - -
fact      __cudaGetKernel              -      handle_out named
fact      cudaGetKernel                -      handle_out named
fact      cudaGetFuncBySymbol          -      handle_out named
fact      cudaFuncGetName              -      name_out handle
fact      cudaLibraryGetKernel         -      handle_out - name
device    cuDeviceGetUuid              -      - -
device    cuDeviceGetUuid_v2           -      - -
pointer   cuGetProcAddress             -      - - - -
pointer   cuGetProcAddress_v2          -      - - - - -
"""


def _read() -> dict[str, Prototype]:
    found = {}
    for line in _TEXT.strip().splitlines():
        op, symbol, suffix, *arguments = line.split()
        symbol, _, direction = symbol.partition(":")
        text = " ".join(arguments)
        text = text.replace("HANDLE_LAUNCH", _LAUNCH).replace("STUB_LAUNCH", _RUNTIME_LAUNCH)
        prototype = Prototype(op, tuple(text.split()), direction or None)
        for name in sorted({symbol, symbol + suffix if suffix != "-" else symbol}):
            found[name] = prototype
    return found


PROTOTYPES = _read()
