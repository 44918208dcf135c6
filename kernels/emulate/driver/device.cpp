// Initialisation, devices, contexts, error names.
#include <cstdio>
#include <cstring>

#include "state.h"

namespace standin {

static thread_local Device* bound = nullptr;

Driver& driver() {
  static auto* state = new Driver;  // outlives every thread
  return *state;
}
Device* current() { return bound; }
void complain(const std::string& what) { std::fprintf(stderr, "stand-in driver: %s\n", what.c_str()); }

struct Code {
  int code;
  const char *name, *text;
};
static const Code kCodes[] = {
    {kOk, "CUDA_SUCCESS", "no error"},
    {kInvalidValue, "CUDA_ERROR_INVALID_VALUE", "invalid argument"},
    {kOutOfMemory, "CUDA_ERROR_OUT_OF_MEMORY", "out of memory"},
    {kNotInitialized, "CUDA_ERROR_NOT_INITIALIZED", "initialization error"},
    {kNoDevice, "CUDA_ERROR_NO_DEVICE", "no CUDA-capable device is detected"},
    {kInvalidDevice, "CUDA_ERROR_INVALID_DEVICE", "invalid device ordinal"},
    {kInvalidImage, "CUDA_ERROR_INVALID_IMAGE", "device kernel image is invalid"},
    {kInvalidContext, "CUDA_ERROR_INVALID_CONTEXT", "invalid device context"},
    {kPeerAccessUnsupported, "CUDA_ERROR_PEER_ACCESS_UNSUPPORTED", "peer access is not supported"},
    {kInvalidHandle, "CUDA_ERROR_INVALID_HANDLE", "invalid resource handle"},
    {kNotFound, "CUDA_ERROR_NOT_FOUND", "named symbol not found"},
    {kNotReady, "CUDA_ERROR_NOT_READY", "device not ready"},
    {kIllegalAddress, "CUDA_ERROR_ILLEGAL_ADDRESS", "an illegal memory access was encountered"},
    {kPeerAccessAlreadyEnabled, "CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED", "peer access is already enabled"},
    {kLaunchFailed, "CUDA_ERROR_LAUNCH_FAILED", "unspecified launch failure"},
    {kCaptureUnsupported, "CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED", "not permitted when stream is capturing"},
    {kCaptureInvalidated, "CUDA_ERROR_STREAM_CAPTURE_INVALIDATED", "failed due to a previous error during capture"},
    {kCaptureUnmatched, "CUDA_ERROR_STREAM_CAPTURE_UNMATCHED", "capture was not initiated in this stream"},
    {kCaptureIsolation, "CUDA_ERROR_STREAM_CAPTURE_ISOLATION", "dependency created on uncaptured work in another stream"},
    {kCaptureWrongThread, "CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD", "capture was begun in another thread"},
};

static const Code* code_of(int code) {
  for (const Code& c : kCodes)
    if (c.code == code) return &c;
  return nullptr;
}

}  // namespace standin
using namespace standin;

// What a caller may ask about a device; the numbers are those of CUdevice_attribute.
static Status attribute(int* value, int which) {
  const int capability = driver().capability;
  const int shared = capability / 10 == 12 ? 99 * 1024 : 227 * 1024;
  switch (which) {
    case 1: return *value = 1024, kOk;             // threads of a block
    case 8: return *value = 48 * 1024, kOk;        // shared memory of a block
    case 10: return *value = 32, kOk;              // warp
    case 16: return *value = 4, kOk;               // multiprocessors
    case 75: return *value = capability / 10, kOk;
    case 76: return *value = capability % 10, kOk;
    case 97: return *value = shared, kOk;          // shared memory of a block that asks for it
    case 115: return *value = 1, kOk;              // memory pools
    default: return *value = 0, kOk;
  }
}

extern "C" {

// Devices (none: cuInit finds no GPU), compute capability times ten, bytes of a device, and the order of work: 0 runs it at once, a
// seed lets it wait and shuffles it. Only the order may be changed later.
void standin_configure(unsigned devices, int capability, size_t memory, unsigned seed) {
  std::lock_guard<std::recursive_mutex> guard(driver().lock);
  if (!driver().ready) {
    driver().count = devices;
    driver().capability = capability;
    driver().memory = memory;
  }
  driver().seed = seed;
  driver().dice.seed(seed);
}

int cuInit(unsigned flags) {
  std::lock_guard<std::recursive_mutex> guard(driver().lock);
  if (flags) return kInvalidValue;
  if (driver().count == 0) return kNoDevice;
  if (driver().ready) return kOk;
  for (unsigned i = 0; i < driver().count; i++) {
    driver().devices.push_back(std::make_unique<Device>());
    driver().devices.back()->ordinal = int(i);
    driver().devices.back()->standard.device = int(i);
    driver().streams.insert(&driver().devices.back()->standard);
  }
  driver().ready = true;
  return kOk;
}

int cuDriverGetVersion(int* version) { return *version = 13000, kOk; }

int cuGetErrorName(int code, const char** name) {
  const Code* found = code_of(code);
  return *name = found ? found->name : nullptr, found ? kOk : kInvalidValue;
}
int cuGetErrorString(int code, const char** text) {
  const Code* found = code_of(code);
  return *text = found ? found->text : nullptr, found ? kOk : kInvalidValue;
}

int cuDeviceGetCount(int* count) {
  if (!driver().ready) return kNotInitialized;
  return *count = int(driver().devices.size()), kOk;
}
int cuDeviceGet(int* device, int ordinal) {
  if (!driver().ready) return kNotInitialized;
  if (ordinal < 0 || size_t(ordinal) >= driver().devices.size()) return kInvalidDevice;
  return *device = ordinal, kOk;
}
int cuDeviceGetName(char* name, int bytes, int device) {
  std::snprintf(name, size_t(bytes), "Stand-in %d", device);
  return kOk;
}
int cuDeviceGetUuid_v2(char* uuid, int device) {
  std::memset(uuid, 0, 16);
  return uuid[15] = char(device), kOk;
}
int cuDeviceTotalMem_v2(size_t* bytes, int) { return *bytes = driver().memory, kOk; }
int cuDeviceGetAttribute(int* value, int which, int) { return attribute(value, which); }
int cuDeviceCanAccessPeer(int* can, int device, int peer) { return *can = device != peer, kOk; }

int cuDevicePrimaryCtxRetain(void** context, int device) {
  if (!driver().ready) return kNotInitialized;
  if (device < 0 || size_t(device) >= driver().devices.size()) return kInvalidDevice;
  return *context = driver().devices[size_t(device)].get(), kOk;
}
int cuDevicePrimaryCtxRelease_v2(int) { return kOk; }
int cuCtxGetCurrent(void** context) { return *context = bound, kOk; }
int cuCtxSetCurrent(void* context) { return bound = static_cast<Device*>(context), kOk; }
int cuCtxEnablePeerAccess(void* context, unsigned) {
  STANDIN_ENTER;
  const int peer = static_cast<Device*>(context)->ordinal;
  if (peer == current()->ordinal) return kInvalidDevice;
  return current()->peers.insert(peer).second ? kOk : kPeerAccessAlreadyEnabled;
}
int cuCtxSynchronize() {
  STANDIN_ENTER;
  if (Status s = forbid_in_capture()) return s;
  return finish(*current());
}

}  // extern "C"
