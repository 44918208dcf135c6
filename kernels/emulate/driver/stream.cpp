// Streams, events and graphs: what runs when.
#include <algorithm>
#include <utility>

#include "state.h"

namespace standin {

Stream* stream_of(void* handle) {
  // 0, 1 and 2 are names of the context's own stream.
  if (reinterpret_cast<uintptr_t>(handle) <= 2) return &current()->standard;
  auto* stream = static_cast<Stream*>(handle);
  return driver().streams.count(stream) ? stream : nullptr;
}

static void enqueue(Stream& stream, Step step) { stream.steps.push_back(std::move(step)); }

// Without a seed nothing waits.
static Status settle(Stream& stream) {
  if (driver().seed) return kOk;
  run_until([&] { return stream.steps.empty(); });
  return kOk;  // what failed is told by the next call
}

Status submit(Stream& stream, Work work) {
  if (stream.capture) {
    if (stream.capture->invalid) return kCaptureInvalidated;
    stream.capture->nodes.push_back(std::move(work));
    return kOk;
  }
  enqueue(stream, {std::move(work), nullptr, nullptr, 0});
  return settle(stream);
}

static bool can_run(const Stream& stream) {
  if (stream.steps.empty()) return false;
  const Step& step = stream.steps.front();
  return !step.wait || step.wait->completed >= step.ticket;
}

static void run_step(Stream& stream) {
  Step step = std::move(stream.steps.front());
  stream.steps.pop_front();
  Device& device = *driver().devices[size_t(stream.device)];
  if (step.work && device.failure == kOk) device.failure = step.work();
  if (step.record) step.record->completed = std::max(step.record->completed, step.ticket);
}

Status run_until(const std::function<bool()>& done) {
  while (!done()) {
    std::vector<Stream*> able;
    for (Stream* stream : driver().streams)
      if (can_run(*stream)) able.push_back(stream);
    if (able.empty()) {
      complain("streams wait for each other forever");
      return current()->failure = kLaunchFailed;
    }
    run_step(*able[driver().seed ? driver().dice() % able.size() : 0]);
  }
  return current()->failure;
}

Status finish(Device& device) {
  return run_until([&] {
    for (const Stream* stream : driver().streams)
      if (stream->device == device.ordinal && !stream->steps.empty()) return false;
    return true;
  });
}

Status forbid_in_capture() {
  bool forbidden = false;
  for (Stream* stream : driver().streams)
    if (stream->capture && !stream->capture->relaxed && stream->capture->thread == std::this_thread::get_id())
      forbidden = stream->capture->invalid = true;
  return forbidden ? kCaptureUnsupported : kOk;
}

struct Graph {
  std::vector<Work> nodes;
};

static EventHandle& event_of(void* event) { return *static_cast<EventHandle*>(event); }

}  // namespace standin
using namespace standin;

extern "C" {

int cuStreamCreate(void** handle, unsigned) {
  STANDIN_ENTER;
  auto* stream = new Stream;
  stream->device = current()->ordinal;
  driver().streams.insert(stream);
  return *handle = stream, kOk;
}
int cuStreamCreateWithPriority(void** handle, unsigned flags, int) { return cuStreamCreate(handle, flags); }
int cuStreamDestroy_v2(void* handle) {
  STANDIN_ENTER;
  Stream* stream = stream_of(handle);
  if (!stream || stream == &current()->standard) return kInvalidHandle;
  run_until([=] { return stream->steps.empty(); });
  driver().streams.erase(stream);
  return delete stream, kOk;
}
int cuStreamSynchronize(void* handle) {
  STANDIN_ENTER;
  Stream* stream = stream_of(handle);
  if (!stream) return kInvalidHandle;
  if (Status s = forbid_in_capture()) return s;
  return run_until([=] { return stream->steps.empty(); });
}
int cuStreamWaitEvent(void* handle, void* event, unsigned) {
  STANDIN_ENTER;
  Stream* stream = stream_of(handle);
  if (!stream) return kInvalidHandle;
  EventHandle& e = event_of(event);
  if (stream->capture) {
    // A graph can wait only for its own nodes, which are in order anyway.
    if (e->capture == stream->capture.get()) return kOk;
    return stream->capture->invalid = true, kCaptureIsolation;
  }
  if (e->issued == 0) return kOk;
  enqueue(*stream, {nullptr, nullptr, e, e->issued});
  return settle(*stream);
}

int cuEventCreate(void** event, unsigned) {
  STANDIN_ENTER;
  return *event = new EventHandle(std::make_shared<Event>()), kOk;
}
int cuEventDestroy_v2(void* event) {
  STANDIN_ENTER;
  return delete &event_of(event), kOk;
}
int cuEventRecord(void* event, void* handle) {
  STANDIN_ENTER;
  Stream* stream = stream_of(handle);
  if (!stream) return kInvalidHandle;
  EventHandle& e = event_of(event);
  e->capture = stream->capture.get();
  if (stream->capture) return kOk;
  enqueue(*stream, {nullptr, e, nullptr, ++e->issued});
  return settle(*stream);
}
int cuEventSynchronize(void* event) {
  STANDIN_ENTER;
  EventHandle e = event_of(event);
  if (Status s = forbid_in_capture()) return s;
  return run_until([=] { return e->completed >= e->issued; });
}
int cuEventQuery(void* event) {
  STANDIN_ENTER;
  EventHandle& e = event_of(event);
  if (e->completed >= e->issued) return kOk;
  // Time passes while somebody polls.
  bool once = false;
  if (Status s = run_until([&] { return std::exchange(once, true); })) return s;
  return kNotReady;
}
int cuEventElapsedTime_v2(float* milliseconds, void*, void*) {
  STANDIN_ENTER;
  return *milliseconds = 1.0f, kOk;  // time means nothing here
}

int cuStreamBeginCapture_v2(void* handle, int mode) {
  STANDIN_ENTER;
  Stream* stream = stream_of(handle);
  if (!stream) return kInvalidHandle;
  if (stream->capture) return kInvalidValue;
  if (stream == &current()->standard) return kCaptureUnsupported;
  stream->capture = std::make_unique<Capture>();
  stream->capture->thread = std::this_thread::get_id();
  stream->capture->relaxed = mode == 2;
  return kOk;
}
int cuStreamIsCapturing(void* handle, int* status) {
  STANDIN_ENTER;
  Stream* stream = stream_of(handle);
  if (!stream) return kInvalidHandle;
  return *status = !stream->capture ? 0 : stream->capture->invalid ? 2 : 1, kOk;
}
int cuStreamEndCapture(void* handle, void** graph) {
  STANDIN_ENTER;
  Stream* stream = stream_of(handle);
  *graph = nullptr;
  if (!stream) return kInvalidHandle;
  if (!stream->capture) return kCaptureUnmatched;
  if (stream->capture->thread != std::this_thread::get_id() && !stream->capture->relaxed) return kCaptureWrongThread;
  auto capture = std::move(stream->capture);
  if (capture->invalid) return kCaptureInvalidated;
  return *graph = new Graph{std::move(capture->nodes)}, kOk;
}

int cuGraphInstantiateWithFlags(void** executable, void* graph, unsigned long long) {
  STANDIN_ENTER;
  return *executable = new Graph(*static_cast<Graph*>(graph)), kOk;
}
int cuGraphUpload(void*, void*) {
  STANDIN_ENTER;
  return kOk;
}
int cuGraphDestroy(void* graph) { return delete static_cast<Graph*>(graph), kOk; }
int cuGraphExecDestroy(void* executable) {
  STANDIN_ENTER;
  for (auto& device : driver().devices) finish(*device);
  return delete static_cast<Graph*>(executable), kOk;
}
int cuGraphLaunch(void* executable, void* handle) {
  STANDIN_ENTER;
  Stream* stream = stream_of(handle);
  if (!stream) return kInvalidHandle;
  for (const Work& node : static_cast<Graph*>(executable)->nodes)
    if (Status s = submit(*stream, node)) return s;
  return kOk;
}

}  // extern "C"
