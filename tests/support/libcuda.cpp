// Stands for the CUDA driver: every function keeps what it was given as text and answers something of its own.
#include <cuda.h>
#include <cstdio>
#include <cstring>
static char said[512];
#define SAY(...) std::snprintf(said, sizeof said, __VA_ARGS__)
template <typename T> T handle(unsigned n) { return (T)(0x123456789000ull + n); }
extern "C" {
const char* last() { return said; }
CUresult cuInit(unsigned f) { SAY("%u", f); return CUDA_SUCCESS; }
CUresult cuDriverGetVersion(int* v) { *v = 13000; return CUDA_SUCCESS; }
CUresult cuDeviceGetCount(int* n) { *n = 3; return CUDA_SUCCESS; }
CUresult cuDeviceGet(CUdevice* d, int k) { *d = k + 10; SAY("%d", k); return CUDA_SUCCESS; }
CUresult cuDeviceGetAttribute(int* v, CUdevice_attribute a, CUdevice d) {
    *v = -5;
    SAY("%d %d", a, d);
    return CUDA_SUCCESS;
}
CUresult cuDeviceGetName(char* s, int n, CUdevice d) {
    std::strncpy(s, "A card", n);
    SAY("%d", d);
    return CUDA_SUCCESS;
}
CUresult cuDeviceTotalMem(size_t* b, CUdevice d) { *b = 1ull << 37; SAY("%d", d); return CUDA_SUCCESS; }
CUresult cuDevicePrimaryCtxRetain(CUcontext* c, CUdevice d) {
    *c = handle<CUcontext>(1);
    SAY("%d", d);
    return CUDA_SUCCESS;
}
CUresult cuCtxGetCurrent(CUcontext* c) { *c = handle<CUcontext>(2); return CUDA_SUCCESS; }
CUresult cuCtxGetDevice(CUdevice* d) { *d = 2; return CUDA_SUCCESS; }
CUresult cuCtxPushCurrent(CUcontext c) { SAY("%p", (void*)c); return CUDA_SUCCESS; }
CUresult cuCtxPopCurrent(CUcontext* c) { *c = nullptr; return CUDA_SUCCESS; }
CUresult cuPointerGetAttribute(void* v, CUpointer_attribute a, CUdeviceptr p) {
    *(int*)v = 1;
    SAY("%d %llx", a, (unsigned long long)p);
    return CUDA_ERROR_INVALID_VALUE;
}
CUresult cuLibraryLoadData(CUlibrary* l, const void* code, CUjit_option* o, void** ov, unsigned n, CUlibraryOption* p, void** pv, unsigned m) {
    *l = handle<CUlibrary>(3);
    SAY("%d %d %d %u %u", ((const unsigned char*)code)[0], ((const unsigned char*)code)[2], !o && !ov && !p && !pv, n, m);
    return CUDA_SUCCESS;
}
CUresult cuLibraryUnload(CUlibrary l) { SAY("%p", (void*)l); return CUDA_SUCCESS; }
CUresult cuLibraryGetKernel(CUkernel* k, CUlibrary l, const char* s) {
    *k = handle<CUkernel>(4);
    SAY("%p %s", (void*)l, s);
    return CUDA_SUCCESS;
}
CUresult cuLibraryGetKernelCount(unsigned* n, CUlibrary l) {
    *n = 2;
    SAY("%p", (void*)l);
    return CUDA_SUCCESS;
}
CUresult cuLibraryEnumerateKernels(CUkernel* k, unsigned n, CUlibrary l) {
    for (unsigned i = 0; i < n; ++i) k[i] = handle<CUkernel>(5 + i);
    SAY("%u %p", n, (void*)l);
    return CUDA_SUCCESS;
}
CUresult cuKernelGetName(const char** s, CUkernel k) {
    *s = "entry";
    SAY("%p", (void*)k);
    return CUDA_SUCCESS;
}
CUresult cuKernelGetFunction(CUfunction* f, CUkernel k) {
    *f = handle<CUfunction>(7);
    SAY("%p", (void*)k);
    return CUDA_SUCCESS;
}
CUresult cuFuncGetAttribute(int* v, CUfunction_attribute a, CUfunction f) {
    *v = 32;
    SAY("%d %p", a, (void*)f);
    return CUDA_SUCCESS;
}
CUresult cuFuncSetAttribute(CUfunction f, CUfunction_attribute a, int v) {
    SAY("%p %d %d", (void*)f, a, v);
    return CUDA_SUCCESS;
}
CUresult cuOccupancyMaxActiveBlocksPerMultiprocessor(int* n, CUfunction f, int b, size_t s) {
    *n = 12;
    SAY("%p %d %zu", (void*)f, b, s);
    return CUDA_SUCCESS;
}
CUresult cuEventCreate(CUevent* e, unsigned f) { *e = handle<CUevent>(8); SAY("%u", f); return CUDA_SUCCESS; }
CUresult cuEventRecord(CUevent e, CUstream s) { SAY("%p %p", (void*)e, (void*)s); return CUDA_SUCCESS; }
CUresult cuEventSynchronize(CUevent e) { SAY("%p", (void*)e); return CUDA_SUCCESS; }
#undef cuEventElapsedTime
CUresult CUDAAPI cuEventElapsedTime(float* t, CUevent a, CUevent b) {
    *t = 0.25f;
    SAY("%p %p", (void*)a, (void*)b);
    return CUDA_SUCCESS;
}
CUresult cuEventDestroy(CUevent e) { SAY("%p", (void*)e); return CUDA_SUCCESS; }
CUresult cuStreamWaitEvent(CUstream s, CUevent e, unsigned f) {
    SAY("%p %p %u", (void*)s, (void*)e, f);
    return CUDA_SUCCESS;
}
CUresult cuStreamIsCapturing(CUstream s, CUstreamCaptureStatus* c) {
    *c = CU_STREAM_CAPTURE_STATUS_ACTIVE;
    SAY("%p", (void*)s);
    return CUDA_SUCCESS;
}
CUresult cuThreadExchangeStreamCaptureMode(CUstreamCaptureMode* m) {
    SAY("%d", *m);
    *m = CU_STREAM_CAPTURE_MODE_THREAD_LOCAL;
    return CUDA_SUCCESS;
}
CUresult cuGetErrorName(CUresult c, const char** s) {
    *s = c ? "CUDA_ERROR_X" : nullptr;
    return CUDA_SUCCESS;
}
CUresult cuGetErrorString(CUresult c, const char** s) { *s = "words"; return CUDA_SUCCESS; }
CUresult cuLaunchKernel(CUfunction f, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz,
                        unsigned shared, CUstream s, void** p, void** e) {
    SAY("%p %u %u %u %u %u %u %u %p %llu %d", (void*)f, gx, gy, gz, bx, by, bz, shared, (void*)s,
        *(unsigned long long*)p[0], e == nullptr);
    return CUDA_ERROR_LAUNCH_FAILED;
}
}
