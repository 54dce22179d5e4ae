"""Tables of real exports of Nsight Systems, as the databases themselves state them (types, NOT NULL, primary keys).

2022.2.1 (schema 2.9.1)   saxpy-mpi-cuda_nsys_perlmutter0.sqlite of github.com/hpcgroup/pipit, pipit/tests/data, at 46d41f2a
2024.5.1 (schema 3.13.2)  perlmutter-cloverleaf-cuda.sqlite of the same, pipit/tests/data/cloverleaf-nsys, at ad30bc84. It has no
                          rows of MEMSET and NVTX_EVENTS, so it has not these tables
2024.6.2 (schema 3.16.1)  the .schema of an export, found as text in a public repository
2026.2.1 (schema 3.25.0)  mfu_2gpu_before.sqlite of github.com/GindaChen/nsys-ai, tests/fixtures, at 387e5a5d; its table
                          TARGET_INFO_CUDA_DEVICE is of mock.sqlite there, at 85fe0c67 (2026.1.1, schema 3.24.14)

CUPTI_ACTIVITY_KIND_GRAPH_TRACE is that of NVIDIA's user guide of 2024, section "SQLite Schema Reference".
"""

KERNEL_2022_2 = (
    "start INTEGER NOT NULL, end INTEGER NOT NULL, deviceId INTEGER NOT NULL, contextId INTEGER NOT NULL, streamId "
    "INTEGER NOT NULL, correlationId INTEGER, globalPid INTEGER, demangledName INTEGER NOT NULL, shortName INTEGER "
    "NOT NULL, mangledName INTEGER, launchType INTEGER, cacheConfig INTEGER, registersPerThread INTEGER NOT NULL, "
    "gridX INTEGER NOT NULL, gridY INTEGER NOT NULL, gridZ INTEGER NOT NULL, blockX INTEGER NOT NULL, blockY "
    "INTEGER NOT NULL, blockZ INTEGER NOT NULL, staticSharedMemory INTEGER NOT NULL, dynamicSharedMemory INTEGER "
    "NOT NULL, localMemoryPerThread INTEGER NOT NULL, localMemoryTotal INTEGER NOT NULL, gridId INTEGER NOT NULL, "
    "sharedMemoryExecuted INTEGER, graphNodeId INTEGER, sharedMemoryLimitConfig INTEGER")
MEMCPY_2022_2 = (
    "start INTEGER NOT NULL, end INTEGER NOT NULL, deviceId INTEGER NOT NULL, contextId INTEGER NOT NULL, streamId "
    "INTEGER NOT NULL, correlationId INTEGER, globalPid INTEGER, bytes INTEGER NOT NULL, copyKind INTEGER NOT NULL, "
    "deprecatedSrcId INTEGER, srcKind INTEGER, dstKind INTEGER, srcDeviceId INTEGER, srcContextId INTEGER, "
    "dstDeviceId INTEGER, dstContextId INTEGER, migrationCause INTEGER, graphNodeId INTEGER, virtualAddress INTEGER")
MEMSET_2022_2 = (
    "start INTEGER NOT NULL, end INTEGER NOT NULL, deviceId INTEGER NOT NULL, contextId INTEGER NOT NULL, streamId "
    "INTEGER NOT NULL, correlationId INTEGER, globalPid INTEGER, value INTEGER NOT NULL, bytes INTEGER NOT NULL, "
    "graphNodeId INTEGER, memKind INTEGER")
RUNTIME = (
    "start INTEGER NOT NULL, end INTEGER NOT NULL, eventClass INTEGER NOT NULL, globalTid INTEGER, correlationId "
    "INTEGER, nameId INTEGER NOT NULL, returnValue INTEGER NOT NULL, callchainId INTEGER")
EXPORT_META_DATA = (
    "name TEXT NOT NULL, value TEXT")
NVTX_EVENTS_2022_2 = (
    "start INTEGER NOT NULL, end INTEGER, eventType INTEGER NOT NULL, rangeId INTEGER, category INTEGER, color "
    "INTEGER, text TEXT, globalTid INTEGER, endGlobalTid INTEGER, textId INTEGER, domainId INTEGER, uint64Value "
    "INTEGER, int64Value INTEGER, doubleValue REAL, uint32Value INTEGER, int32Value INTEGER, floatValue REAL, "
    "jsonTextId INTEGER, jsonText TEXT")
PROCESSES = (
    "globalPid INTEGER, pid INTEGER, name TEXT")
STRINGIDS = (
    "id INTEGER NOT NULL PRIMARY KEY, value TEXT NOT NULL")
KERNEL_2024_5 = (
    "start INTEGER NOT NULL, end INTEGER NOT NULL, deviceId INTEGER NOT NULL, contextId INTEGER NOT NULL, "
    "greenContextId INTEGER, streamId INTEGER NOT NULL, correlationId INTEGER, globalPid INTEGER, demangledName "
    "INTEGER NOT NULL, shortName INTEGER NOT NULL, mangledName INTEGER, launchType INTEGER, cacheConfig INTEGER, "
    "registersPerThread INTEGER NOT NULL, gridX INTEGER NOT NULL, gridY INTEGER NOT NULL, gridZ INTEGER NOT NULL, "
    "blockX INTEGER NOT NULL, blockY INTEGER NOT NULL, blockZ INTEGER NOT NULL, staticSharedMemory INTEGER NOT "
    "NULL, dynamicSharedMemory INTEGER NOT NULL, localMemoryPerThread INTEGER NOT NULL, localMemoryTotal INTEGER "
    "NOT NULL, gridId INTEGER NOT NULL, sharedMemoryExecuted INTEGER, graphNodeId INTEGER, sharedMemoryLimitConfig "
    "INTEGER")
MEMCPY_2024_5 = (
    "start INTEGER NOT NULL, end INTEGER NOT NULL, deviceId INTEGER NOT NULL, contextId INTEGER NOT NULL, "
    "greenContextId INTEGER, streamId INTEGER NOT NULL, correlationId INTEGER, globalPid INTEGER, bytes INTEGER NOT "
    "NULL, copyKind INTEGER NOT NULL, deprecatedSrcId INTEGER, srcKind INTEGER, dstKind INTEGER, srcDeviceId "
    "INTEGER, srcContextId INTEGER, dstDeviceId INTEGER, dstContextId INTEGER, migrationCause INTEGER, graphNodeId "
    "INTEGER, virtualAddress INTEGER")
META_DATA_EXPORT = (
    "name TEXT NOT NULL, value TEXT")
MEMSET_2024_6 = (
    "start INTEGER NOT NULL, end INTEGER NOT NULL, deviceId INTEGER NOT NULL, contextId INTEGER NOT NULL, "
    "greenContextId INTEGER, streamId INTEGER NOT NULL, correlationId INTEGER, globalPid INTEGER, value INTEGER NOT "
    "NULL, bytes INTEGER NOT NULL, graphNodeId INTEGER, memKind INTEGER")
NVTX_EVENTS_2024_6 = (
    "start INTEGER NOT NULL, end INTEGER, eventType INTEGER NOT NULL, rangeId INTEGER, category INTEGER, color "
    "INTEGER, text TEXT, globalTid INTEGER, endGlobalTid INTEGER, textId INTEGER, domainId INTEGER, uint64Value "
    "INTEGER, int64Value INTEGER, doubleValue REAL, uint32Value INTEGER, int32Value INTEGER, floatValue REAL, "
    "jsonTextId INTEGER, jsonText TEXT, binaryData TEXT")
KERNEL_2026_2 = (
    "start INTEGER NOT NULL, end INTEGER NOT NULL, deviceId INTEGER NOT NULL, contextId INTEGER NOT NULL, "
    "greenContextId INTEGER, streamId INTEGER NOT NULL, correlationId INTEGER, globalPid INTEGER, demangledName "
    "INTEGER NOT NULL, shortName INTEGER NOT NULL, mangledName INTEGER, launchType INTEGER, cacheConfig INTEGER, "
    "registersPerThread INTEGER NOT NULL, gridX INTEGER NOT NULL, gridY INTEGER NOT NULL, gridZ INTEGER NOT NULL, "
    "blockX INTEGER NOT NULL, blockY INTEGER NOT NULL, blockZ INTEGER NOT NULL, staticSharedMemory INTEGER NOT "
    "NULL, dynamicSharedMemory INTEGER NOT NULL, localMemoryPerThread INTEGER NOT NULL, localMemoryTotal INTEGER "
    "NOT NULL, gridId INTEGER NOT NULL, sharedMemoryExecuted INTEGER, graphNodeId INTEGER, sharedMemoryLimitConfig "
    "INTEGER, qmdBulkReleaseDone INTEGER, qmdPreexitDone INTEGER, qmdLastCtaDone INTEGER, graphId INTEGER, clusterX "
    "INTEGER, clusterY INTEGER, clusterZ INTEGER, clusterSchedulingPolicy INTEGER, maxPotentialClusterSize INTEGER, "
    "maxActiveClusters INTEGER, sharedMemoryRequestedPercentage INTEGER, tensorSizeMinusOneElements TEXT NOT NULL")
MEMCPY_2026_2 = (
    "start INTEGER NOT NULL, end INTEGER NOT NULL, deviceId INTEGER NOT NULL, contextId INTEGER NOT NULL, "
    "greenContextId INTEGER, streamId INTEGER NOT NULL, correlationId INTEGER, globalPid INTEGER, bytes INTEGER NOT "
    "NULL, copyKind INTEGER NOT NULL, deprecatedSrcId INTEGER, srcKind INTEGER, dstKind INTEGER, srcDeviceId "
    "INTEGER, srcContextId INTEGER, dstDeviceId INTEGER, dstContextId INTEGER, migrationCause INTEGER, graphNodeId "
    "INTEGER, virtualAddress INTEGER, copyCount INTEGER")
TARGET_INFO_CUDA_DEVICE = (
    "gpuId INTEGER, cudaId INTEGER NOT NULL, pid INTEGER NOT NULL, uuid TEXT, numMultiprocessors INTEGER")
GRAPH_TRACE = (
    "start INTEGER NOT NULL, end INTEGER NOT NULL, deviceId INTEGER NOT NULL, contextId INTEGER NOT NULL, "
    "greenContextId INTEGER, streamId INTEGER NOT NULL, correlationId INTEGER, globalPid INTEGER, graphId INTEGER "
    "NOT NULL, graphExecId INTEGER NOT NULL")

VERSIONS = {
    "2022.2.1": {
        "CUPTI_ACTIVITY_KIND_KERNEL": KERNEL_2022_2,
        "CUPTI_ACTIVITY_KIND_MEMCPY": MEMCPY_2022_2,
        "CUPTI_ACTIVITY_KIND_MEMSET": MEMSET_2022_2,
        "CUPTI_ACTIVITY_KIND_RUNTIME": RUNTIME,
        "EXPORT_META_DATA": EXPORT_META_DATA,
        "NVTX_EVENTS": NVTX_EVENTS_2022_2,
        "PROCESSES": PROCESSES,
        "StringIds": STRINGIDS,
    },
    "2024.5.1": {
        "CUPTI_ACTIVITY_KIND_KERNEL": KERNEL_2024_5,
        "CUPTI_ACTIVITY_KIND_MEMCPY": MEMCPY_2024_5,
        "CUPTI_ACTIVITY_KIND_RUNTIME": RUNTIME,
        "META_DATA_EXPORT": META_DATA_EXPORT,
        "PROCESSES": PROCESSES,
        "StringIds": STRINGIDS,
    },
    "2024.6.2": {
        "CUPTI_ACTIVITY_KIND_KERNEL": KERNEL_2024_5,
        "CUPTI_ACTIVITY_KIND_MEMCPY": MEMCPY_2024_5,
        "CUPTI_ACTIVITY_KIND_MEMSET": MEMSET_2024_6,
        "CUPTI_ACTIVITY_KIND_RUNTIME": RUNTIME,
        "META_DATA_EXPORT": META_DATA_EXPORT,
        "NVTX_EVENTS": NVTX_EVENTS_2024_6,
        "PROCESSES": PROCESSES,
        "StringIds": STRINGIDS,
    },
    "2026.2.1": {
        "CUPTI_ACTIVITY_KIND_KERNEL": KERNEL_2026_2,
        "CUPTI_ACTIVITY_KIND_MEMCPY": MEMCPY_2026_2,
        "CUPTI_ACTIVITY_KIND_MEMSET": MEMSET_2024_6,
        "CUPTI_ACTIVITY_KIND_RUNTIME": RUNTIME,
        "META_DATA_EXPORT": META_DATA_EXPORT,
        "NVTX_EVENTS": NVTX_EVENTS_2024_6,
        "PROCESSES": PROCESSES,
        "StringIds": STRINGIDS,
        "TARGET_INFO_CUDA_DEVICE": TARGET_INFO_CUDA_DEVICE,
    },
}
