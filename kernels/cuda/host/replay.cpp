// Runs recorded launches: reads programs from standard input and answers with the buffers as the kernels left them.
//
// All numbers are little-endian. Request: u32 buffers, then each u64 bytes + contents; u32 calls, then each: u32 length +
// name, u32 grid[3], u32 block[3], u32 shared bytes, u32 seed, u32 arguments, then each u8 kind (0 value, 1 address),
// u8 bytes, u64 value. An address is (buffer + 1) << 40 | offset; zero is null. Answer: u32 0 and the buffers' contents, or
// u32 length of a message and the message.
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "block.h"

namespace {

bool read(void* to, size_t bytes) { return bytes == 0 || std::fread(to, bytes, 1, stdin) == 1; }
template <class T>
T number() {
  T value;
  if (!read(&value, sizeof value)) std::exit(3);
  return value;
}
void write(const void* from, size_t bytes) {
  if (bytes && std::fwrite(from, bytes, 1, stdout) != 1) std::exit(3);
}

struct Buffer {
  host::Memory memory;
  uint64_t bytes;
};
struct Argument {
  uint8_t kind, bytes;
  uint64_t value;
};
struct Call {
  std::string name;
  host::LaunchShape shape;
  std::vector<Argument> arguments;
};

dim3 read_dim() {
  const auto x = number<uint32_t>(), y = number<uint32_t>();
  return {x, y, number<uint32_t>()};
}

Call read_call() {
  Call call;
  call.name.resize(number<uint32_t>());
  if (!read(call.name.data(), call.name.size())) std::exit(3);
  call.shape.grid = read_dim();
  call.shape.block = read_dim();
  call.shape.shared_bytes = number<uint32_t>();
  call.shape.seed = number<uint32_t>();
  call.arguments.resize(number<uint32_t>());
  for (Argument& a : call.arguments) {
    a.kind = number<uint8_t>();
    a.bytes = number<uint8_t>();
    a.value = number<uint64_t>();
  }
  return call;
}

std::string run(Call& call, std::vector<Buffer>& buffers) {
  const host::Kernel* kernel = host::find_kernel(call.name.c_str());
  if (!kernel) return "there is no kernel named " + call.name;
  if (kernel->count != call.arguments.size())
    return call.name + " takes " + std::to_string(kernel->count) + " arguments, not " +
           std::to_string(call.arguments.size());
  std::vector<void*> arguments;
  for (size_t i = 0; i < call.arguments.size(); i++) {
    Argument& a = call.arguments[i];
    if (a.bytes != kernel->sizes[i])
      return call.name + ": argument " + std::to_string(i) + " has " + std::to_string(a.bytes) + " bytes, not " +
             std::to_string(kernel->sizes[i]);
    if (a.kind == 1 && a.value) {
      const uint64_t buffer = (a.value >> 40) - 1, offset = a.value & ((1ull << 40) - 1);
      if (buffer >= buffers.size() || offset > buffers[buffer].bytes) return call.name + ": an address outside of buffers";
      a.value = reinterpret_cast<uintptr_t>(buffers[buffer].memory.get() + offset);
    }
    arguments.push_back(&a.value);
  }
  char error[1024];
  if (host::launch(call.name.c_str(), call.shape, arguments.data(), error, sizeof error)) return "";
  return error;
}

bool serve() {
  uint32_t count;
  if (!read(&count, sizeof count)) return false;
  std::vector<Buffer> buffers;
  for (uint32_t i = 0; i < count; i++) {
    const auto bytes = number<uint64_t>();
    buffers.push_back({host::poisoned(bytes), bytes});
    if (!read(buffers.back().memory.get(), bytes)) std::exit(3);
  }
  std::string failure;
  for (uint32_t calls = number<uint32_t>(); calls; calls--) {
    Call call = read_call();
    if (failure.empty()) failure = run(call, buffers);
  }
  const auto length = uint32_t(failure.size());
  write(&length, sizeof length);
  if (length) write(failure.data(), length);
  for (const Buffer& b : buffers)
    if (!length) write(b.memory.get(), b.bytes);
  return std::fflush(stdout) == 0;
}

}  // namespace

int main() {
  while (serve()) {
  }
  return 0;
}
