// One block of a launch: its threads as fibers, its warps, barriers and shared memory.
#pragma once
#include <memory>
#include <random>
#include <string>
#include <unordered_map>
#include <vector>

#include "fiber.h"
#include "runtime.h"

namespace host {

struct Copy {
  void* to;
  const void* from;
  size_t bytes, filled;
};

enum class State { kReady, kAtBarrier, kAtWarpOperation, kEnded };

struct Lane {
  Fiber fiber;
  Thread thread;
  unsigned index = 0;
  State state = State::kReady;
  const char* where = "";
  std::vector<Copy> open;                 // copies since the last commit
  std::vector<std::vector<Copy>> groups;  // committed, the oldest first
};

// A warp operation that has not got all its lanes yet.
struct Warp {
  WarpWork work = nullptr;
  unsigned mask = 0, arrived = 0;
  const char* where = "";
  void* arguments[32];
};

// Aligned memory of exactly the size asked for, so that AddressSanitizer sees the first byte behind it.
using Memory = std::unique_ptr<char, void (*)(void*)>;
Memory poisoned(size_t bytes);

class Block {
 public:
  Block(Entry entry, void** arguments, const LaunchShape& shape);
  ~Block();
  Block(const Block&) = delete;
  Block& operator=(const Block&) = delete;

  // Runs the block at `place`. Returns why it could not end, or nothing.
  std::string run(dim3 place, std::mt19937& dice);

  // What the running thread may call.
  [[noreturn]] void fail(const char* what, const char* where);
  void sync(const char* where);
  void warp_operation(WarpWork work, void* argument, const void* extra, unsigned mask, const char* where);
  void* static_shared(const void* key, size_t bytes);
  void* dynamic_shared() { return shared_.get(); }
  Lane& running() { return *running_; }

 private:
  static void begin_thread();
  void suspend();
  void end_thread();
  void reset(dim3 place);
  void release_complete_barrier();
  std::string stall() const;

  Entry entry_;
  void** arguments_;
  LaunchShape shape_;
  std::vector<Lane> lanes_;
  std::vector<Warp> warps_;
  Memory shared_;
  std::unordered_map<const void*, Memory> variables_;
  Fiber scheduler_;
  Lane* running_ = nullptr;
  unsigned live_ = 0, at_barrier_ = 0;
  char* stacks_ = nullptr;
  std::string failure_;
};

}  // namespace host
