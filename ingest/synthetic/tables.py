"""The tables and columns of an Nsight Systems SQLite export (schema 3.17), and of the 2021 exports before it.

A column is written as its name, an INTEGER unless `name:TYPE` says otherwise; KEY is the integer primary key. Columns
have no NOT NULL: tests plant rows that nsys would never write.
"""

_GPU_WORK = "start end deviceId contextId greenContextId streamId correlationId globalPid"

TABLES: dict[str, str] = {
    "StringIds": "id:KEY value:TEXT",
    "ProcessStreams": "globalPid filenameId contentId",
    "TARGET_INFO_SYSTEM_ENV": "globalVid devStateName:TEXT name:TEXT nameEnum value:TEXT",
    "ANALYSIS_DETAILS": "globalVid duration startTime stopTime",
    "PROCESSES": "globalPid pid name:TEXT",
    "ThreadNames": "nameId priority globalTid",
    "TARGET_INFO_GPU": """
        vmId id name:TEXT busLocation:TEXT isDiscrete l2CacheSize totalMemory memoryBandwidth clockRate smCount pwGpuId
        uuid:TEXT luid chipName:TEXT cuDevice ctxswDevPath:TEXT ctrlDevPath:TEXT revision nodeMask constantMemory maxIPC
        maxRegistersPerBlock maxShmemPerBlock maxShmemPerBlockOptin maxShmemPerSm maxRegistersPerSm threadsPerWarp
        asyncEngines maxWarpsPerSm maxBlocksPerSm maxThreadsPerBlock maxBlockDimX maxBlockDimY maxBlockDimZ
        maxGridDimX maxGridDimY maxGridDimZ computeMajor computeMinor smMajor smMinor""",
    "TARGET_INFO_CUDA_DEVICE": "gpuId cudaId pid",
    "TARGET_INFO_CUDA_STREAM": "streamId hwId vmId processId contextId priority flag",
    "CUPTI_ACTIVITY_KIND_KERNEL": f"""{_GPU_WORK} demangledName shortName mangledName launchType cacheConfig
        registersPerThread gridX gridY gridZ blockX blockY blockZ staticSharedMemory dynamicSharedMemory
        localMemoryPerThread localMemoryTotal gridId sharedMemoryExecuted graphNodeId sharedMemoryLimitConfig""",
    "CUPTI_ACTIVITY_KIND_MEMCPY": f"""{_GPU_WORK} bytes copyKind deprecatedSrcId srcKind dstKind srcDeviceId
        srcContextId dstDeviceId dstContextId migrationCause graphNodeId virtualAddress""",
    "CUPTI_ACTIVITY_KIND_MEMSET": f"{_GPU_WORK} value bytes graphNodeId memKind",
    "CUPTI_ACTIVITY_KIND_RUNTIME": "start end eventClass globalTid correlationId nameId returnValue callchainId",
    "CUPTI_ACTIVITY_KIND_SYNCHRONIZATION": f"{_GPU_WORK} deprecatedSyncType syncType eventId eventSyncId",
    "CUPTI_ACTIVITY_KIND_GRAPH_TRACE": f"{_GPU_WORK} graphId graphExecId",
    "NVTX_EVENTS": """
        start end eventType rangeId category color text:TEXT globalTid endGlobalTid textId domainId uint64Value
        int64Value doubleValue:REAL uint32Value int32Value floatValue:REAL jsonTextId jsonText:TEXT binaryData:TEXT""",
    "OSRT_API": "start end eventClass globalTid nameId returnValue nestingLevel callchainId",
    "SCHED_EVENTS": "start cpu isSchedIn globalTid threadState threadBlock",
    "COMPOSITE_EVENTS": "id:KEY start cpu threadState globalTid cpuCycles",
    "TARGET_INFO_GPU_METRICS": "typeId sourceId typeName:TEXT metricId metricName:TEXT",
    "GPU_METRICS": "rawTimestamp timestamp typeId metricId value",
    "NVTX_PAYLOAD_SCHEMAS": "domainId schemaId name:TEXT type flags numEntries payloadSize alignTo",
    "NVTX_PAYLOAD_SCHEMA_ENTRIES": """
        domainId schemaId idx flags type name:TEXT description:TEXT arrayOrUnionDetail offset""",
    "META_DATA_CAPTURE": "name:TEXT value:TEXT",
    "META_DATA_EXPORT": "name:TEXT value:TEXT",
}

ENUM_COLUMNS = "id:KEY name:TEXT label:TEXT"

NEW_SINCE_2021 = frozenset(
    {
        "greenContextId",
        "mangledName",
        "graphId",
        "virtualAddress",
        "copyCount",
        "deprecatedSyncType",
        "eventSyncId",
        "binaryData",
    }
)
ABSENT_IN_2021 = frozenset(
    {
        "TARGET_INFO_SYSTEM_ENV",
        "ANALYSIS_DETAILS",
        "PROCESSES",
        "TARGET_INFO_CUDA_DEVICE",
        "META_DATA_CAPTURE",
        "META_DATA_EXPORT",
        "TARGET_INFO_GPU_METRICS",
        "GPU_METRICS",
        "NVTX_PAYLOAD_SCHEMAS",
        "NVTX_PAYLOAD_SCHEMA_ENTRIES",
        "CUPTI_ACTIVITY_KIND_GRAPH_TRACE",
    }
)
OLD_COLUMNS = {
    "SCHED_EVENTS": "start cpu isSchedIn globalTid",
    "OSRT_API": "start end eventClass globalTid correlationId nameId returnValue nestingLevel callchainId",
}

NVTX_MARK = 34
NVTX_PUSH_POP = 59
NVTX_START_END = 60
NVTX_DOMAIN = 75
CLASS_RUNTIME = 0
CLASS_DRIVER = 1
CLASS_OSRT = 27
NONE_32 = 0xFFFFFFFF
"""What nsys stores for "no stream" and "no event"."""

ENUMS: dict[str, list[tuple[int, str, str]]] = {
    "ENUM_CUDA_KERNEL_LAUNCH_TYPE": [
        (0, "CUDA_KERNEL_LAUNCH_TYPE_UNKNOWN", "Unknown"),
        (1, "CUDA_KERNEL_LAUNCH_TYPE_REGULAR", "Regular"),
        (2, "CUDA_KERNEL_LAUNCH_TYPE_COOPERATIVE_SINGLE_DEVICE", "Coop Single Device"),
        (3, "CUDA_KERNEL_LAUNCH_TYPE_COOPERATIVE_MULTI_DEVICE", "Coop Multi Device"),
    ],
    "ENUM_CUDA_MEMCPY_OPER": [
        (0, "CUDA_MEMCPY_KIND_UNKNOWN", "Unknown"),
        (1, "CUDA_MEMCPY_KIND_HTOD", "Host-to-Device"),
        (2, "CUDA_MEMCPY_KIND_DTOH", "Device-to-Host"),
        (3, "CUDA_MEMCPY_KIND_HTOA", "Host-to-Array"),
        (4, "CUDA_MEMCPY_KIND_ATOH", "Array-to-Host"),
        (5, "CUDA_MEMCPY_KIND_ATOA", "Array-to-Array"),
        (6, "CUDA_MEMCPY_KIND_ATOD", "Array-to-Device"),
        (7, "CUDA_MEMCPY_KIND_DTOA", "Device-to-Array"),
        (8, "CUDA_MEMCPY_KIND_DTOD", "Device-to-Device"),
        (9, "CUDA_MEMCPY_KIND_HTOH", "Host-to-Host"),
        (10, "CUDA_MEMCPY_KIND_PTOP", "Peer-to-Peer"),
        (11, "CUDA_MEMCPY_KIND_UVM_HTOD", "Unified Host-to-Device"),
        (12, "CUDA_MEMCPY_KIND_UVM_DTOH", "Unified Device-to-Host"),
        (13, "CUDA_MEMCPY_KIND_UVM_DTOD", "Unified Device-to-Device"),
    ],
    "ENUM_CUDA_MEM_KIND": [
        (0, "CUDA_MEMOPR_MEMORY_KIND_PAGEABLE", "Pageable"),
        (1, "CUDA_MEMOPR_MEMORY_KIND_PINNED", "Pinned"),
        (2, "CUDA_MEMOPR_MEMORY_KIND_DEVICE", "Device"),
        (3, "CUDA_MEMOPR_MEMORY_KIND_ARRAY", "Array"),
        (4, "CUDA_MEMOPR_MEMORY_KIND_MANAGED", "Managed"),
        (5, "CUDA_MEMOPR_MEMORY_KIND_DEVICE_STATIC", "Device Static"),
        (6, "CUDA_MEMOPR_MEMORY_KIND_MANAGED_STATIC", "Managed Static"),
        (7, "CUDA_MEMOPR_MEMORY_KIND_UNKNOWN", "Unknown"),
    ],
    "ENUM_CUPTI_SYNC_TYPE": [
        (0, "CUPTI_ACTIVITY_SYNCHRONIZATION_TYPE_UNKNOWN", "Unknown"),
        (1, "CUPTI_ACTIVITY_SYNCHRONIZATION_TYPE_EVENT_SYNCHRONIZE", "Event sync"),
        (2, "CUPTI_ACTIVITY_SYNCHRONIZATION_TYPE_STREAM_WAIT_EVENT", "Stream wait sync"),
        (3, "CUPTI_ACTIVITY_SYNCHRONIZATION_TYPE_STREAM_SYNCHRONIZE", "Stream sync"),
        (4, "CUPTI_ACTIVITY_SYNCHRONIZATION_TYPE_CONTEXT_SYNCHRONIZE", "Context sync"),
    ],
    "ENUM_CUPTI_STREAM_TYPE": [
        (0, "CUPTI_ACTIVITY_STREAM_CREATE_FLAG_UNKNOWN", "Unknown stream type"),
        (1, "CUPTI_ACTIVITY_STREAM_CREATE_FLAG_DEFAULT", "Default stream"),
        (2, "CUPTI_ACTIVITY_STREAM_CREATE_FLAG_NON_BLOCKING", "Non-blocking stream"),
        (3, "CUPTI_ACTIVITY_STREAM_CREATE_FLAG_NULL", "Null stream"),
    ],
    "ENUM_SAMPLING_THREAD_STATE": [
        (0, "Unknown", "Unknown"),
        (1, "Running", "Running"),
        (2, "Interruptible", "Interruptible"),
        (3, "Uninterruptible", "Uninterruptible"),
        (4, "Stopped", "Stopped"),
        (5, "Terminated", "Terminated"),
        (6, "Unscheduled", "Unscheduled"),
        (7, "Waiting", "Waiting"),
        (8, "OSRuntime", "OS runtime"),
        (9, "Initialized", "Initialized"),
        (10, "Transition", "Transition"),
    ],
    "ENUM_NSYS_EVENT_TYPE": [
        (33, "NvtxCategory", "NvtxCategory"),
        (34, "NvtxMark", "NvtxMark"),
        (59, "NvtxPushPopRange", "NvtxPushPopRange"),
        (60, "NvtxStartEndRange", "NvtxStartEndRange"),
        (70, "NvtxtPushPopRange", "NvtxtPushPopRange"),
        (71, "NvtxtStartEndRange", "NvtxtStartEndRange"),
        (75, "NvtxDomainCreate", "NvtxDomainCreate"),
        (76, "NvtxDomainDestroy", "NvtxDomainDestroy"),
    ],
    "ENUM_NSYS_EVENT_CLASS": [
        (0, "TRACE_PROCESS_EVENT_CUDA_RUNTIME", "CUDA runtime"),
        (1, "TRACE_PROCESS_EVENT_CUDA_DRIVER", "CUDA driver"),
        (27, "TRACE_PROCESS_EVENT_OS_RUNTIME", "OSRT runtime"),
    ],
}
"""Label tables: id, symbol and label of every number that the tables above use."""
