// A driver without a GPU: a libcuda.so.1 whose devices are memory of this process and whose kernels are the host build's. For tests.
//
// Behaves as the driver API is documented, with its error codes; what a real driver forbids (work during capture, freed or
// foreign memory, too much shared memory) is an error here too. With a seed, work waits in its stream until somebody
// synchronises, and then runs in an order that only streams and events restrict: a missing event shows as a wrong result.
//
// `standin_configure` sets it up; without it there is one device of compute capability 12.0.
#pragma once
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <random>
#include <set>
#include <string>
#include <thread>
#include <vector>

namespace standin {

// The codes of CUresult that are used here.
enum Status : int {
  kOk = 0,
  kInvalidValue = 1,
  kOutOfMemory = 2,
  kNotInitialized = 3,
  kNoDevice = 100,
  kInvalidDevice = 101,
  kInvalidImage = 200,
  kInvalidContext = 201,
  kPeerAccessUnsupported = 217,
  kInvalidHandle = 400,
  kNotFound = 500,
  kNotReady = 600,
  kIllegalAddress = 700,
  kPeerAccessAlreadyEnabled = 704,
  kLaunchFailed = 719,
  kCaptureUnsupported = 900,
  kCaptureInvalidated = 901,
  kCaptureUnmatched = 903,
  kCaptureIsolation = 905,
  kCaptureWrongThread = 908,
};

using Work = std::function<Status()>;

// An event counts its records; a record is complete when its stream has come to it.
struct Event {
  uint64_t issued = 0, completed = 0;
  const void* capture = nullptr;  // the capture that recorded it last
};
using EventHandle = std::shared_ptr<Event>;

struct Step {
  Work work;
  EventHandle record, wait;
  uint64_t ticket = 0;
};

struct Capture {
  std::vector<Work> nodes;
  std::thread::id thread;
  bool relaxed = false, invalid = false;
};

struct Stream {
  int device = 0;
  std::deque<Step> steps;
  std::unique_ptr<Capture> capture;
};

struct Device {
  int ordinal = 0;
  size_t used = 0;
  Status failure = kOk;  // sticky: the context is lost
  Stream standard;       // the stream that null means
  std::set<int> peers;
};

struct Allocation {
  size_t bytes = 0;
  int device = 0, file = -1;
  bool imported = false;
};

struct Driver {
  std::recursive_mutex lock;
  bool ready = false;
  unsigned count = 1;
  int capability = 120;
  size_t memory = size_t(4) << 30;
  size_t allocations_made = 0;  // ever made, of device and pinned memory
  size_t peer_copies = 0;       // ever made, from memory of another device or process
  unsigned seed = 0;
  std::mt19937 dice;
  std::vector<std::unique_ptr<Device>> devices;
  std::map<uint64_t, Allocation> allocations;
  std::map<uint64_t, size_t> pinned;
  std::set<Stream*> streams;
};

Driver& driver();
// The calling thread's device, or null.
Device* current();

// What every call begins with: the driver is initialised, a context is current, and it is not lost.
#define STANDIN_ENTER                                                  \
  std::lock_guard<std::recursive_mutex> standin_guard(driver().lock);  \
  if (!driver().ready) return kNotInitialized;                         \
  if (!current()) return kInvalidContext;                              \
  if (current()->failure != kOk) return current()->failure

// A stream's handle, null included; null for one that does not exist.
Stream* stream_of(void* handle);
// Queues work, or records it where the stream is being captured.
Status submit(Stream& stream, Work work);
// Runs steps until the condition holds.
Status run_until(const std::function<bool()>& done);
// Runs everything that the device still has to do.
Status finish(Device& device);
// Refuses a call that the calling thread's captures forbid, and spoils them.
Status forbid_in_capture();
// The allocation that holds all `bytes` at `at`, or null.
const Allocation* find(uint64_t at, size_t bytes);
bool is_pinned(const void* at, size_t bytes);
void complain(const std::string& what);

}  // namespace standin
