// Kernels by name, and running the blocks of a launch one after another.
#include <algorithm>
#include <cstdio>
#include <map>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#include "block.h"

namespace host {

static std::map<std::string, Kernel>& kernels() {
  static std::map<std::string, Kernel> all;
  return all;
}

Registration::Registration(const char* name, Kernel kernel) { kernels()[name] = kernel; }

const Kernel* find_kernel(const char* name) {
  auto found = kernels().find(name);
  return found == kernels().end() ? nullptr : &found->second;
}

static unsigned volume(dim3 d) { return d.x * d.y * d.z; }

static dim3 place(unsigned index, dim3 size) {
  return {index % size.x, index / size.x % size.y, index / size.x / size.y};
}

static std::string run(const char* name, const LaunchShape& shape, void** arguments) {
  // What every GPU that we build for allows; sm_90 has the most shared memory.
  constexpr unsigned kMostThreads = 1024, kMostShared = 227 * 1024;
  const Kernel* kernel = find_kernel(name);
  if (!kernel) return std::string("there is no kernel named ") + name;
  const unsigned threads = volume(shape.block), blocks = volume(shape.grid);
  if (threads == 0 || threads > kMostThreads || blocks == 0) return "the launch has an impossible shape";
  if (shape.grid.y > 65535 || shape.grid.z > 65535) return "grid y and z end at 65535";
  if (shape.shared_bytes > kMostShared) return "more than 227 KiB of shared memory";

  std::mt19937 dice(shape.seed);
  std::vector<unsigned> order(blocks);
  std::iota(order.begin(), order.end(), 0u);
  if (shape.seed) std::shuffle(order.begin(), order.end(), dice);
  Block block(kernel->entry, arguments, shape);
  for (unsigned b : order) {
    std::string failure = block.run(place(b, shape.grid), dice);
    if (!failure.empty()) return failure;
  }
  return "";
}

bool launch(const char* name, const LaunchShape& shape, void** arguments, char* error, size_t error_bytes) {
  const std::string failure = run(name, shape, arguments);
  if (!failure.empty()) std::snprintf(error, error_bytes, "%s: %s", name, failure.c_str());
  return failure.empty();
}

}  // namespace host
