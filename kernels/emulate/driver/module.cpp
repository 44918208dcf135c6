// Modules, functions, launches: the host build's kernels by name.
#include <cstring>

#include "../../cuda/host/runtime.h"
#include "state.h"

namespace standin {

struct Function {
  std::string name;
  const host::Kernel* kernel;
  unsigned most_shared = 48 * 1024;
};
struct Module {
  std::vector<std::unique_ptr<Function>> functions;
};

// A fatbin, an ELF file or PTX: what a driver would take. The code in it is not looked at.
static bool is_image(const void* image) {
  const auto* bytes = static_cast<const unsigned char*>(image);
  static const unsigned char kFatbin[] = {0x50, 0xed, 0x55, 0xba}, kElf[] = {0x7f, 'E', 'L', 'F'};
  return !std::memcmp(bytes, kFatbin, 4) || !std::memcmp(bytes, kElf, 4) || !std::memcmp(bytes, "//\n/", 3);
}

// The arguments' bytes, taken when the launch is made.
static std::vector<std::vector<char>> take(const host::Kernel& kernel, void** parameters) {
  std::vector<std::vector<char>> values;
  for (size_t i = 0; i < kernel.count; i++) {
    const auto* from = static_cast<const char*>(parameters[i]);
    values.emplace_back(from, from + kernel.sizes[i]);
  }
  return values;
}

}  // namespace standin
using namespace standin;

extern "C" {

int cuModuleLoadData(void** module, const void* image) {
  STANDIN_ENTER;
  if (!image || !is_image(image)) return kInvalidImage;
  return *module = new Module, kOk;
}
int cuModuleUnload(void* module) {
  STANDIN_ENTER;
  for (auto& device : driver().devices) finish(*device);
  return delete static_cast<Module*>(module), kOk;
}
int cuModuleGetFunction(void** function, void* module, const char* name) {
  STANDIN_ENTER;
  const host::Kernel* kernel = host::find_kernel(name);
  if (!kernel) return kNotFound;
  auto& all = static_cast<Module*>(module)->functions;
  all.push_back(std::make_unique<Function>(Function{name, kernel}));
  return *function = all.back().get(), kOk;
}
// 8 is the most dynamic shared memory of a launch.
int cuFuncSetAttribute(void* function, int which, int value) {
  STANDIN_ENTER;
  if (which != 8) return kOk;
  const int most = driver().capability / 10 == 12 ? 99 * 1024 : 227 * 1024;
  if (value < 0 || value > most) return kInvalidValue;
  return static_cast<Function*>(function)->most_shared = unsigned(value), kOk;
}

int cuLaunchKernel(void* function, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x, unsigned block_y,
                   unsigned block_z, unsigned shared, void* handle, void** parameters, void**) {
  STANDIN_ENTER;
  Stream* stream = stream_of(handle);
  if (!stream) return kInvalidHandle;
  auto* f = static_cast<Function*>(function);
  const uint64_t threads = uint64_t(block_x) * block_y * block_z;
  if (!grid_x || !grid_y || !grid_z || !threads || threads > 1024 || shared > f->most_shared) return kInvalidValue;
  host::LaunchShape shape{{grid_x, grid_y, grid_z}, {block_x, block_y, block_z}, shared, 0};
  auto values = take(*f->kernel, parameters);
  return submit(*stream, [=, name = f->name]() mutable {
    std::vector<void*> pointers;
    for (auto& value : values) pointers.push_back(value.data());
    shape.seed = driver().seed ? unsigned(driver().dice()) : 0;
    char error[1024];
    if (host::launch(name.c_str(), shape, pointers.data(), error, sizeof error)) return kOk;
    complain(error);
    return kLaunchFailed;
  });
}

}  // extern "C"
