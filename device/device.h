// Device: where kernels run. All that the engine may see of a GPU, virtual or real.
//
// A Device runs PTX over bytes and knows no models. Work on a Stream runs in order; the virtual GPU
// runs it when it is issued, so a caller that keeps to streams sees the same results on both.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"

namespace lockstep::device {

using DevicePointer = std::uint64_t;

struct Dim3 {
  std::uint32_t x = 1, y = 1, z = 1;
  std::uint64_t count() const { return std::uint64_t{x} * y * z; }
};

struct DeviceProperties {
  std::string name;      // "vgpu:sm_90"
  std::uint32_t sm = 0;  // 80, 90, ...
  std::uint32_t multiprocessor_count = 0;
  std::uint64_t memory_bytes = 0;
  // An allocation takes at most so much more of the free memory than its size.
  std::uint64_t allocation_overhead_bytes = 0;
  std::uint32_t shared_bytes_per_block = 0;  // without opting in: 49152
  std::uint32_t shared_bytes_per_block_optin = 0;
  std::uint32_t shared_bytes_per_multiprocessor = 0;
  std::uint32_t registers_per_block = 0;
  std::uint32_t registers_per_thread = 255;
  std::uint32_t threads_per_block = 1024;
};

// free_bytes: what allocations, each with its overhead, may still take.
struct MemoryInfo {
  std::uint64_t total_bytes = 0, free_bytes = 0;
};

class Device;

// Device memory, given back when it goes. Contents are undefined (the virtual GPU tracks it) until
// written.
class Buffer {
 public:
  Buffer() = default;
  Buffer(Device* device, DevicePointer address, std::uint64_t size_bytes)
      : device_(device), address_(address), size_bytes_(size_bytes) {}
  Buffer(Buffer&& other) noexcept { swap(other); }
  Buffer& operator=(Buffer&& other) noexcept {
    swap(other);
    return *this;
  }
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;
  ~Buffer();

  DevicePointer address() const { return address_; }
  std::uint64_t size_bytes() const { return size_bytes_; }
  explicit operator bool() const { return address_ != 0; }

 private:
  void swap(Buffer& other) noexcept;
  Device* device_ = nullptr;
  DevicePointer address_ = 0;
  std::uint64_t size_bytes_ = 0;
};

// A loaded module's entry; lives as long as its Device.
struct Kernel {
  const void* handle = nullptr;
  std::string name;
  explicit operator bool() const { return handle != nullptr; }
};

struct Stream {
  std::uint32_t index = 0;
};

struct LaunchConfig {
  Dim3 grid, block;
  std::uint32_t dynamic_shared_bytes = 0;
  Stream stream = {};
};

// What a checker of the virtual GPU (or a driver error) says about a launch. The launch's effects
// up to there stand; the subject is wrong.
struct Diagnostic {
  std::string checker;  // memcheck, initcheck, racecheck, synccheck, limits, driver
  std::string kind;     // stable: "out_of_bounds", "uninitialized_read", "shared", "global", ...
  std::string kernel;
  std::string message;        // one line: addresses, threads, blocks, allocation
  std::string source;         // "kernels/rms_norm.cu:18", or "line 120 of the PTX"
  std::string source_second;  // the other access of a race; else empty
  std::uint64_t count = 1;    // how often in this launch (the rest is not listed)
};

struct DeviceCounters {
  std::uint64_t launches = 0;
  std::uint64_t warp_instructions = 0;
  std::uint64_t checked_accesses = 0;  // lanes x memory instructions that went through a checker
};

class Device {
 public:
  virtual ~Device() = default;
  virtual const DeviceProperties& properties() const = 0;

  // `label` names the allocation in diagnostics. Memory that is not there is an Environment error.
  virtual base::Result<Buffer> allocate(std::uint64_t size_bytes, std::string_view label) = 0;
  virtual MemoryInfo memory() const = 0;
  virtual base::Status copy_to_device(DevicePointer destination, std::span<const std::byte> source,
                                      Stream stream = {}) = 0;
  virtual base::Status copy_from_device(std::span<std::byte> destination, DevicePointer source,
                                        Stream stream = {}) = 0;
  virtual base::Status fill(DevicePointer destination, std::uint8_t value, std::uint64_t size_bytes,
                            Stream stream = {}) = 0;

  // `ptx`: text for this generation or an older one; an unknown opcode is an Error with its line.
  // Loading the same text twice costs nothing.
  virtual base::Result<Kernel> load(std::string_view ptx, const std::string& module_name,
                                    const std::string& entry) = 0;
  // `parameters`: the parameter buffer as the entry's .param layout wants it.
  // An Error where the launch itself is refused (limits); Diagnostics for what it did.
  virtual base::Status launch(const Kernel& kernel, const LaunchConfig& config,
                              std::span<const std::byte> parameters) = 0;
  virtual base::Status synchronize() = 0;

  virtual std::vector<Diagnostic> take_diagnostics() = 0;
  virtual DeviceCounters counters() const = 0;

 private:
  friend class Buffer;
  virtual void release(DevicePointer address) = 0;
};

// Approximate instructions (ex2.approx, rsqrt.approx, ...) inside their documented error.
enum class ApproximationMode : std::uint8_t { Nominal, Low, High, Hashed };

struct DeviceOptions {
  // Virtual GPU only.
  bool memcheck = true;
  bool initcheck = true;
  bool racecheck = true;
  bool synccheck = true;
  ApproximationMode approximation = ApproximationMode::Nominal;
  std::uint64_t schedule_seed = 0;  // 0: blocks and warps in ascending order; else a permutation
  std::uint32_t host_threads = 0;   // 0: all cores
  std::uint64_t memory_bytes = 0;   // 0: the generation's usual size, capped by the host
  std::string instruction_set;      // "", "avx512", "avx2", "scalar": the host path
};

// `name`: "vgpu:sm_80", "vgpu:sm_90". An unknown or absent device is an Error.
base::Result<std::unique_ptr<Device>> open(std::string_view name,
                                           const DeviceOptions& options = {});
// Names that open() accepts on this machine.
std::vector<std::string> available();

// A parameter buffer with the natural alignment of each argument, as nvcc lays out .param.
class Parameters {
 public:
  template <class T>
  Parameters& add(const T& value) {
    static_assert(std::is_trivially_copyable_v<T>);
    const std::size_t start = (bytes_.size() + alignof(T) - 1) / alignof(T) * alignof(T);
    bytes_.resize(start + sizeof(T));
    __builtin_memcpy(bytes_.data() + start, &value, sizeof(T));
    return *this;
  }
  std::span<const std::byte> bytes() const { return bytes_; }

 private:
  std::vector<std::byte> bytes_;
};

}  // namespace lockstep::device
