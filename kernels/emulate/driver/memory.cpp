// Device memory, pinned memory, copies, and memory that another process opens.
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "state.h"

namespace standin {

const Allocation* find(uint64_t at, size_t bytes) {
  auto after = driver().allocations.upper_bound(at);
  if (after == driver().allocations.begin()) return nullptr;
  --after;
  const bool inside = at + bytes >= at && at + bytes <= after->first + after->second.bytes;
  return inside ? &after->second : nullptr;
}

bool is_pinned(const void* at, size_t bytes) {
  const auto address = reinterpret_cast<uint64_t>(at);
  auto after = driver().pinned.upper_bound(address);
  if (after == driver().pinned.begin()) return false;
  --after;
  return address + bytes <= after->first + after->second;
}

static size_t whole_pages(size_t bytes) { return (bytes + 4095) & ~size_t(4095); }

// Every allocation is a mapping of its own, so that a freed one faults. Fresh memory is NaN.
static Status allocate(uint64_t* at, size_t bytes, bool shareable) {
  Device& device = *current();
  if (bytes == 0) return kInvalidValue;
  if (device.used + bytes > driver().memory) return kOutOfMemory;
  int file = -1;
  if (shareable) {
    file = memfd_create("stand-in", MFD_CLOEXEC);
    if (file < 0 || ftruncate(file, off_t(whole_pages(bytes)))) return kOutOfMemory;
  }
  const int kind = shareable ? MAP_SHARED : MAP_PRIVATE | MAP_ANONYMOUS;
  void* memory = mmap(nullptr, whole_pages(bytes), PROT_READ | PROT_WRITE, kind, file, 0);
  if (memory == MAP_FAILED) return kOutOfMemory;
  std::memset(memory, 0xff, bytes);
  *at = reinterpret_cast<uint64_t>(memory);
  driver().allocations[*at] = {bytes, device.ordinal, file, false};
  device.used += bytes;
  driver().allocations_made++;
  return kOk;
}

static Status release(uint64_t at, bool imported) {
  auto found = driver().allocations.find(at);
  if (found == driver().allocations.end() || found->second.imported != imported) return kInvalidValue;
  // Work in flight may still use it, as freeing waits for the device.
  for (auto& device : driver().devices) finish(*device);
  munmap(reinterpret_cast<void*>(at), whole_pages(found->second.bytes));
  if (found->second.file >= 0) close(found->second.file);
  if (!imported) driver().devices[size_t(found->second.device)]->used -= found->second.bytes;
  driver().allocations.erase(found);
  return kOk;
}

static void* pointer(uint64_t at) { return reinterpret_cast<void*>(at); }

// What another process needs to map an allocation.
struct Handle {
  int process, file;
  uint64_t bytes;
  char rest[48];
};
static_assert(sizeof(Handle) == 64);

}  // namespace standin
using namespace standin;

extern "C" {

// How many allocations have been made: for tests that none is made in steady state.
size_t standin_allocations() {
  std::lock_guard<std::recursive_mutex> guard(driver().lock);
  return driver().allocations_made;
}

// How many copies from another device's or process's memory have been asked for: for tests that pages travel so.
size_t standin_peer_copies() {
  std::lock_guard<std::recursive_mutex> guard(driver().lock);
  return driver().peer_copies;
}
// How many allocations of other processes are open.
size_t standin_imports() {
  std::lock_guard<std::recursive_mutex> guard(driver().lock);
  size_t count = 0;
  for (const auto& entry : driver().allocations) count += entry.second.imported;
  return count;
}

int cuMemAlloc_v2(uint64_t* at, size_t bytes) {
  STANDIN_ENTER;
  if (Status s = forbid_in_capture()) return s;
  return allocate(at, bytes, true);
}
int cuMemFree_v2(uint64_t at) {
  STANDIN_ENTER;
  if (Status s = forbid_in_capture()) return s;
  return release(at, false);
}
int cuMemAllocAsync(uint64_t* at, size_t bytes, void* stream) {
  STANDIN_ENTER;
  Stream* found = stream_of(stream);
  if (!found) return kInvalidHandle;
  if (found->capture) return kCaptureUnsupported;
  return allocate(at, bytes, false);
}
int cuMemFreeAsync(uint64_t at, void* stream) {
  STANDIN_ENTER;
  Stream* found = stream_of(stream);
  if (!found) return kInvalidHandle;
  return submit(*found, [at] { return release(at, false); });
}
int cuMemGetInfo_v2(size_t* free_bytes, size_t* total) {
  STANDIN_ENTER;
  return *free_bytes = driver().memory - current()->used, *total = driver().memory, kOk;
}

int cuMemHostAlloc(void** at, size_t bytes, unsigned) {
  STANDIN_ENTER;
  if (Status s = forbid_in_capture()) return s;
  if (bytes == 0 || posix_memalign(at, 4096, whole_pages(bytes))) return kOutOfMemory;
  std::memset(*at, 0xff, bytes);
  driver().pinned[reinterpret_cast<uint64_t>(*at)] = bytes;
  driver().allocations_made++;
  return kOk;
}
int cuMemFreeHost(void* at) {
  STANDIN_ENTER;
  if (!driver().pinned.erase(reinterpret_cast<uint64_t>(at))) return kInvalidValue;
  for (auto& device : driver().devices) finish(*device);
  return std::free(at), kOk;
}

// From pinned memory the copy happens when the stream gets there; from other memory the driver takes a copy at once.
int cuMemcpyHtoDAsync_v2(uint64_t to, const void* from, size_t bytes, void* stream) {
  STANDIN_ENTER;
  Stream* found = stream_of(stream);
  if (!found) return kInvalidHandle;
  if (!find(to, bytes)) return kInvalidValue;
  if (found->capture || is_pinned(from, bytes))
    return submit(*found, [=] { return std::memcpy(pointer(to), from, bytes), kOk; });
  auto copy = std::make_shared<std::vector<char>>(static_cast<const char*>(from), static_cast<const char*>(from) + bytes);
  return submit(*found, [=] { return std::memcpy(pointer(to), copy->data(), bytes), kOk; });
}
// To pinned memory likewise; otherwise the call returns when the bytes are there.
int cuMemcpyDtoHAsync_v2(void* to, uint64_t from, size_t bytes, void* stream) {
  STANDIN_ENTER;
  Stream* found = stream_of(stream);
  if (!found) return kInvalidHandle;
  if (!find(from, bytes)) return kInvalidValue;
  if (Status s = submit(*found, [=] { return std::memcpy(to, pointer(from), bytes), kOk; })) return s;
  if (found->capture || is_pinned(to, bytes)) return kOk;
  return run_until([=] { return found->steps.empty(); });
}
int cuMemcpyDtoDAsync_v2(uint64_t to, uint64_t from, size_t bytes, void* stream) {
  STANDIN_ENTER;
  Stream* found = stream_of(stream);
  if (!found) return kInvalidHandle;
  const Allocation *target = find(to, bytes), *source = find(from, bytes);
  if (!target || !source) return kInvalidValue;
  driver().peer_copies += source->imported || source->device != target->device;
  return submit(*found, [=] { return std::memmove(pointer(to), pointer(from), bytes), kOk; });
}
int cuMemcpyPeerAsync(uint64_t to, void*, uint64_t from, void*, size_t bytes, void* stream) {
  return cuMemcpyDtoDAsync_v2(to, from, bytes, stream);
}
int cuMemsetD8Async(uint64_t at, unsigned char value, size_t bytes, void* stream) {
  STANDIN_ENTER;
  Stream* found = stream_of(stream);
  if (!found) return kInvalidHandle;
  if (!find(at, bytes)) return kInvalidValue;
  return submit(*found, [=] { return std::memset(pointer(at), value, bytes), kOk; });
}

int cuMemcpyHtoD_v2(uint64_t to, const void* from, size_t bytes) {
  STANDIN_ENTER;
  if (Status s = forbid_in_capture()) return s;
  if (!find(to, bytes)) return kInvalidValue;
  if (Status s = finish(*current())) return s;
  return std::memcpy(pointer(to), from, bytes), kOk;
}
int cuMemcpyDtoH_v2(void* to, uint64_t from, size_t bytes) {
  STANDIN_ENTER;
  if (Status s = forbid_in_capture()) return s;
  if (!find(from, bytes)) return kInvalidValue;
  if (Status s = finish(*current())) return s;
  return std::memcpy(to, pointer(from), bytes), kOk;
}
int cuMemsetD8_v2(uint64_t at, unsigned char value, size_t bytes) {
  STANDIN_ENTER;
  if (Status s = forbid_in_capture()) return s;
  if (!find(at, bytes)) return kInvalidValue;
  if (Status s = finish(*current())) return s;
  return std::memset(pointer(at), value, bytes), kOk;
}

// Memory from a pool has no handle, as on a real device.
int cuIpcGetMemHandle(Handle* handle, uint64_t at) {
  STANDIN_ENTER;
  const Allocation* found = find(at, 1);
  if (!found || found->file < 0 || found->imported || !driver().allocations.count(at)) return kInvalidValue;
  *handle = Handle{getpid(), found->file, found->bytes, {}};
  return kOk;
}
int cuIpcOpenMemHandle_v2(uint64_t* at, Handle handle, unsigned flags) {
  STANDIN_ENTER;
  if (flags != 1) return kInvalidValue;                         // peer access is to be enabled lazily
  if (handle.process == getpid()) return kInvalidContext;       // only for other processes
  char path[64];
  std::snprintf(path, sizeof path, "/proc/%d/fd/%d", handle.process, handle.file);
  const int file = open(path, O_RDWR | O_CLOEXEC);
  if (file < 0) return kInvalidHandle;
  void* memory = mmap(nullptr, whole_pages(handle.bytes), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  if (memory == MAP_FAILED) return kInvalidHandle;
  *at = reinterpret_cast<uint64_t>(memory);
  driver().allocations[*at] = {handle.bytes, current()->ordinal, file, true};
  return kOk;
}
int cuIpcCloseMemHandle(uint64_t at) {
  STANDIN_ENTER;
  return release(at, true);
}

}  // extern "C"
