/* A tool for NVTX, as profilers are: a library that NVTX loads because NVTX_INJECTION64_PATH names it. It notes the
 * ranges that are pushed, and where they end. With NVTX_TOOL_WITHOUT_LEVELS it answers as tools do that count no
 * levels. */
#include <nvtx3/nvToolsExt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

char nvtx_tool_notes[256];
static int level;

static int push(const char *name) {
    size_t used = strlen(nvtx_tool_notes);
    snprintf(nvtx_tool_notes + used, sizeof nvtx_tool_notes - used, "<%s ", name);
    level++;
    return getenv("NVTX_TOOL_WITHOUT_LEVELS") ? NVTX_NO_PUSH_POP_TRACKING : level - 1;
}

static int pop(void) {
    size_t used = strlen(nvtx_tool_notes);
    snprintf(nvtx_tool_notes + used, sizeof nvtx_tool_notes - used, ">");
    return --level;
}

int InitializeInjectionNvtx2(NvtxGetExportTableFunc_t get_table);
int InitializeInjectionNvtx2(NvtxGetExportTableFunc_t get_table) {
    const NvtxExportTableCallbacks *callbacks = get_table(NVTX_ETID_CALLBACKS);
    NvtxFunctionTable table = NULL;
    unsigned size = 0;
    if (!callbacks || !callbacks->GetModuleFunctionTable(NVTX_CB_MODULE_CORE, &table, &size)) return 0;
    if (size <= NVTX_CBID_CORE_RangePop) return 0;
    *table[NVTX_CBID_CORE_RangePushA] = (NvtxFunctionPointer)push;
    *table[NVTX_CBID_CORE_RangePop] = (NvtxFunctionPointer)pop;
    return 1;
}
