// Scheduling the threads of a block: each runs until it has to wait for others.
#include "block.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <map>
#include <numeric>

namespace host {

thread_local Thread* current = nullptr;
static thread_local Block* block = nullptr;

constexpr size_t kStackBytes = 256 * 1024;

Memory poisoned(size_t bytes) {
  void* memory = nullptr;
  if (posix_memalign(&memory, 128, std::max<size_t>(bytes, 1))) std::abort();
  std::memset(memory, 0xff, bytes);
  return Memory(static_cast<char*>(memory), std::free);
}

Block::Block(Entry entry, void** arguments, const LaunchShape& shape)
    : entry_(entry), arguments_(arguments), shape_(shape), shared_(nullptr, std::free) {
  const size_t threads = size_t(shape.block.x) * shape.block.y * shape.block.z;
  lanes_.resize(threads);
  warps_.resize((threads + 31) / 32);
  // Reserved, not committed: a thread's pages appear when it touches them.
  void* stacks = mmap(nullptr, threads * kStackBytes, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (stacks == MAP_FAILED) std::abort();
  stacks_ = static_cast<char*>(stacks);
  adopt_thread(scheduler_);
}

Block::~Block() { munmap(stacks_, lanes_.size() * kStackBytes); }

void Block::reset(dim3 place) {
  shared_ = poisoned(shape_.shared_bytes);
  variables_.clear();
  live_ = unsigned(lanes_.size());
  at_barrier_ = 0;
  for (Warp& warp : warps_) warp = Warp();
  for (unsigned i = 0; i < lanes_.size(); i++) {
    Lane& lane = lanes_[i];
    const dim3 size = shape_.block;
    lane.index = i;
    lane.state = State::kReady;
    lane.open.clear();
    lane.groups.clear();
    lane.thread = {{i % size.x, i / size.x % size.y, i / size.x / size.y}, place, size, shape_.grid};
    prepare_fiber(lane.fiber, begin_thread, stacks_ + i * kStackBytes, kStackBytes);
  }
}

std::string Block::run(dim3 place, std::mt19937& dice) {
  reset(place);
  block = this;
  publish(this);
  std::vector<unsigned> order(lanes_.size());
  std::iota(order.begin(), order.end(), 0u);
  while (live_ && failure_.empty()) {
    if (shape_.seed) std::shuffle(order.begin(), order.end(), dice);
    bool moved = false;
    for (unsigned i : order) {
      Lane& lane = lanes_[i];
      if (lane.state != State::kReady || !failure_.empty()) continue;
      running_ = &lane;
      current = &lane.thread;
      hand_over(scheduler_, lane.fiber);
      moved = true;
    }
    if (!moved) failure_ = stall();
  }
  observe(this);
  for (Lane& lane : lanes_) drop_fiber(lane.fiber);
  block = nullptr;
  return failure_;
}

void Block::begin_thread() {
  Block& self = *block;
  fiber_began(self.scheduler_);
  observe(&self);
  self.entry_(self.arguments_);
  self.end_thread();
  std::abort();  // an ended fiber is never resumed
}

void Block::end_thread() {
  running_->state = State::kEnded;
  publish(this);
  live_--;
  release_complete_barrier();  // threads that ended no longer count, as on the GPU
  hand_over(running_->fiber, scheduler_, true);
}

void Block::suspend() { hand_over(running_->fiber, scheduler_); }

void Block::fail(const char* what, const char* where) {
  if (failure_.empty()) {
    const dim3 b = running_->thread.block;
    failure_ = std::string(what) + " at " + where + ", thread " + std::to_string(running_->index) + " of block (" +
               std::to_string(b.x) + ", " + std::to_string(b.y) + ", " + std::to_string(b.z) + ")";
  }
  suspend();
  std::abort();  // nobody runs after a failure
}

void Block::release_complete_barrier() {
  if (at_barrier_ == 0 || at_barrier_ < live_) return;
  at_barrier_ = 0;
  for (Lane& lane : lanes_)
    if (lane.state == State::kAtBarrier) lane.state = State::kReady;
}

void Block::sync(const char* where) {
  running_->where = where;
  running_->state = State::kAtBarrier;
  publish(&at_barrier_);
  at_barrier_++;
  release_complete_barrier();
  suspend();
  observe(&at_barrier_);
}

void Block::warp_operation(WarpWork work, void* argument, const void* extra, unsigned mask, const char* where) {
  Lane& self = *running_;
  Warp& warp = warps_[self.index / 32];
  const unsigned lane = self.index % 32, first = self.index - lane;
  if (!(mask >> lane & 1)) fail("a lane is not in the mask of its own warp operation", where);
  if (warp.arrived == 0) {
    warp.work = work;
    warp.mask = mask;
    warp.where = where;
  } else if (warp.work != work || warp.mask != mask || warp.where != where) {
    const std::string what = std::string("a warp diverged: one lane is at ") + warp.where + ", another";
    fail(what.c_str(), where);
  }
  self.where = where;
  warp.arguments[lane] = argument;
  warp.arrived |= 1u << lane;
  publish(&warp);
  if (warp.arrived != mask) {
    self.state = State::kAtWarpOperation;
    suspend();
    observe(&warp);
    return;
  }
  observe(&warp);  // the work reads and writes the other lanes' registers
  work(warp.arguments, mask, extra);
  publish(&warp);
  warp.arrived = 0;
  for (unsigned i = 0; i < 32; i++)
    if ((mask >> i & 1) && i != lane) lanes_[first + i].state = State::kReady;
}

void* Block::static_shared(const void* key, size_t bytes) {
  auto found = variables_.find(key);
  if (found == variables_.end()) {
    found = variables_.emplace(key, poisoned(bytes)).first;
    publish(&variables_);
  }
  observe(&variables_);  // whoever finds it finds it poisoned
  return found->second.get();
}

std::string Block::stall() const {
  std::map<std::string, unsigned> waiting;
  for (const Lane& lane : lanes_)
    if (lane.state != State::kEnded)
      waiting[std::string(lane.state == State::kAtBarrier ? "the barrier at " : "the warp operation at ") + lane.where]++;
  std::string text = "the block cannot go on:";
  for (const auto& [place, count] : waiting) text += " " + std::to_string(count) + " threads wait in " + place + ";";
  return text;
}

void fail(const char* what, const char* where) { block->fail(what, where); }
void sync_block(const char* where) { block->sync(where); }
void warp_operation(WarpWork work, void* argument, const void* extra, unsigned mask, const char* where) {
  block->warp_operation(work, argument, extra, mask, where);
}
unsigned lane() { return block->running().index % 32; }
void* dynamic_shared() { return block->dynamic_shared(); }
void* static_shared(const void* key, size_t bytes) { return block->static_shared(key, bytes); }

void copy_async(void* to, const void* from, size_t bytes, size_t filled) {
  // In flight: neither the old nor the new contents may be relied on.
  kernel_writes(to, bytes);
  std::memset(to, 0xff, bytes);
  block->running().open.push_back({to, from, bytes, filled});
}

void commit_copies() {
  Lane& lane = block->running();
  lane.groups.push_back(std::move(lane.open));
  lane.open.clear();
}

void wait_copies(int pending) {
  auto& groups = block->running().groups;
  while (int(groups.size()) > pending) {
    for (const Copy& copy : groups.front()) {
      kernel_reads(copy.from, copy.filled);
      kernel_writes(copy.to, copy.bytes);
      std::memcpy(copy.to, copy.from, copy.filled);
      std::memset(static_cast<char*>(copy.to) + copy.filled, 0, copy.bytes - copy.filled);
    }
    groups.erase(groups.begin());
  }
}

}  // namespace host
