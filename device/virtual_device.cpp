#include "device/virtual_device.h"

#include <cpuid.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <cstring>
#include <map>
#include <optional>
#include <string_view>
#include <system_error>
#include <utility>

#include "base/check.h"
#include "base/hash.h"
#include "device/vgpu/check/hook.h"
#include "device/vgpu/exec/launch.h"
#include "device/vgpu/exec/lower.h"
#include "device/vgpu/exec/memory.h"
#include "device/vgpu/exec/module_cache.h"
#include "device/vgpu/generation/generation.h"

namespace lockstep::device {

namespace {

namespace exec = vgpu::exec;
namespace generation = vgpu::generation;
namespace ptx = vgpu::ptx;

// clang 14 does not know "f16c" as a feature to ask for.
bool has_f16c() {
  constexpr unsigned kF16c = 1u << 29;  // CPUID leaf 1, ECX
  unsigned a = 0, b = 0, c = 0, d = 0;
  return __get_cpuid(1, &a, &b, &c, &d) != 0 && (c & kF16c) != 0;
}

base::Result<exec::InstructionSet> choose_instruction_set(const std::string& name) {
  const bool has_avx2 = __builtin_cpu_supports("avx2") != 0 && __builtin_cpu_supports("fma") != 0 &&
                        has_f16c() && __builtin_cpu_supports("bmi2") != 0;
  const bool has_avx512 =
      has_avx2 && __builtin_cpu_supports("avx512f") != 0 &&
      __builtin_cpu_supports("avx512bw") != 0 && __builtin_cpu_supports("avx512dq") != 0 &&
      __builtin_cpu_supports("avx512vl") != 0 && __builtin_cpu_supports("avx512cd") != 0;
  if (name == "scalar") return exec::InstructionSet::Scalar;
  if (name.empty()) {
    return has_avx512 ? exec::InstructionSet::Avx512
           : has_avx2 ? exec::InstructionSet::Avx2
                      : exec::InstructionSet::Scalar;
  }
  if (name == "avx2" && has_avx2) return exec::InstructionSet::Avx2;
  if (name == "avx512" && has_avx512) return exec::InstructionSet::Avx512;
  return base::environment_error("instruction set " + name, "this host has none of that name");
}

std::uint64_t host_memory_bytes() {
  const long pages = sysconf(_SC_PHYS_PAGES), page = sysconf(_SC_PAGESIZE);
  return pages > 0 && page > 0
             ? static_cast<std::uint64_t>(pages) * static_cast<std::uint64_t>(page)
             : std::uint64_t{1} << 32;
}

// A module and its variables in device memory.
struct LoadedModule {
  std::shared_ptr<exec::CachedModule> module;
  std::map<const ptx::Variable*, DevicePointer> variables;
  std::map<std::string, std::shared_ptr<const exec::Program>> programs;
};

class VirtualDevice final : public Device {
 public:
  VirtualDevice(const generation::GenerationSpec& spec, const DeviceOptions& options,
                exec::InstructionSet set, exec::GlobalMemory memory)
      : spec_(spec),
        options_(options),
        set_(set),
        memory_(std::move(memory)),
        launcher_(options.host_threads) {
    const generation::Limits& limits = spec.limits;
    properties_.name = "vgpu:" + std::string(spec.name);
    properties_.sm = spec.sm;
    properties_.multiprocessor_count = limits.multiprocessor_count;
    properties_.memory_bytes = memory_.size_bytes();
    properties_.allocation_overhead_bytes = exec::GlobalMemory::kOverheadBytes;
    properties_.shared_bytes_per_block = limits.shared_bytes_per_block;
    properties_.shared_bytes_per_block_optin = limits.shared_bytes_per_block_optin;
    properties_.shared_bytes_per_multiprocessor = limits.shared_bytes_per_multiprocessor;
    properties_.registers_per_block = limits.registers_per_block;
    properties_.registers_per_thread = limits.registers_per_thread;
    properties_.threads_per_block = limits.threads_per_block;
    const vgpu::check::Levels levels{options.initcheck, options.racecheck, options.synccheck};
    if (levels.any()) {
      checks_ = std::make_unique<vgpu::check::LaunchChecks>(
          levels, exec::kGlobalBase, memory_.address_bytes(), &memory_.table());
    }
  }

  const DeviceProperties& properties() const override { return properties_; }

  base::Result<Buffer> allocate(std::uint64_t size_bytes, std::string_view label) override {
    const DevicePointer address = memory_.allocate(size_bytes, std::string(label));
    if (address == 0) {
      return base::environment_error(properties_.name,
                                     "out of memory: " + std::string(label) + " takes " +
                                         std::to_string(size_bytes) + " bytes, " +
                                         std::to_string(memory_.free_bytes()) + " are free");
    }
    if (checks_ != nullptr) checks_->allocated(address, size_bytes);
    return Buffer(this, address, size_bytes);
  }
  MemoryInfo memory() const override { return {memory_.size_bytes(), memory_.free_bytes()}; }

  base::Status copy_to_device(DevicePointer destination, std::span<const std::byte> source,
                              Stream) override {
    LS_TRY(require_range(destination, source.size(), "copy to the device"));
    if (!source.empty()) std::memcpy(memory_.host(destination), source.data(), source.size());
    if (checks_ != nullptr) checks_->host_wrote(destination, source.size());
    return base::Ok{};
  }
  base::Status copy_from_device(std::span<std::byte> destination, DevicePointer source,
                                Stream) override {
    LS_TRY(require_range(source, destination.size(), "copy from the device"));
    if (!destination.empty()) {
      std::memcpy(destination.data(), memory_.host(source), destination.size());
    }
    return base::Ok{};
  }
  base::Status fill(DevicePointer destination, std::uint8_t value, std::uint64_t size_bytes,
                    Stream) override {
    LS_TRY(require_range(destination, size_bytes, "fill"));
    std::memset(memory_.host(destination), value, size_bytes);
    if (checks_ != nullptr) checks_->host_wrote(destination, size_bytes);
    return base::Ok{};
  }

  base::Result<Kernel> load(std::string_view text, const std::string& module_name,
                            const std::string& entry) override;
  base::Status launch(const Kernel& kernel, const LaunchConfig& config,
                      std::span<const std::byte> parameters) override;
  base::Status synchronize() override { return base::Ok{}; }

  std::vector<Diagnostic> take_diagnostics() override { return std::exchange(diagnostics_, {}); }
  DeviceCounters counters() const override { return counters_; }

 private:
  void release(DevicePointer address) override { memory_.release(address); }
  base::Status require_range(DevicePointer address, std::uint64_t size_bytes, const char* what);
  base::Status check_target(const ptx::Module& module) const;
  base::Result<LoadedModule*> load_module(std::string_view text, const std::string& name);
  base::Status place_variables(LoadedModule& loaded);
  base::Status check_limits(const exec::Program& program, const LaunchConfig& config) const;

  const generation::GenerationSpec& spec_;
  DeviceOptions options_;
  exec::InstructionSet set_;
  exec::GlobalMemory memory_;
  std::unique_ptr<vgpu::check::LaunchChecks> checks_;
  exec::Launcher launcher_;
  DeviceProperties properties_;
  std::map<std::pair<std::string, std::string>, std::unique_ptr<LoadedModule>> modules_;
  std::vector<Diagnostic> diagnostics_;
  DeviceCounters counters_;
};

base::Status VirtualDevice::require_range(DevicePointer address, std::uint64_t size_bytes,
                                          const char* what) {
  if (size_bytes == 0) return base::Ok{};
  const exec::Interval found = memory_.find(address, size_bytes);
  if (found.first != found.end) return base::Ok{};
  return base::input_error(
      properties_.name,
      std::string(what) + " of " + std::to_string(size_bytes) + " bytes lies in no allocation");
}

base::Status VirtualDevice::place_variables(LoadedModule& loaded) {
  for (const ptx::Variable& variable : loaded.module->parsed().variables) {
    if (variable.space != ptx::Space::Global && variable.space != ptx::Space::Const) continue;
    const DevicePointer address = memory_.allocate(variable.size_bytes, variable.name);
    if (address == 0) {
      return base::environment_error(properties_.name, "out of memory for " + variable.name);
    }
    loaded.variables[&variable] = address;
    std::memset(memory_.host(address), 0, variable.size_bytes);
    if (checks_ != nullptr) checks_->host_wrote(address, variable.size_bytes);
    // Not memcpy: it must not get the null pointer of an empty list.
    std::copy_n(reinterpret_cast<const std::byte*>(variable.initial.data()),
                variable.initial.size(), memory_.host(address));
  }
  for (const auto& [variable, address] : loaded.variables) {
    for (const ptx::Relocation& relocation : variable->relocations) {
      const auto symbol =
          std::find_if(loaded.variables.begin(), loaded.variables.end(),
                       [&](const auto& entry) { return entry.first->name == relocation.symbol; });
      if (symbol == loaded.variables.end()) {
        return base::unsupported_error(loaded.module->parsed().name, variable->name,
                                       "the address of " + relocation.symbol + " is not known");
      }
      const std::uint64_t value =
          (symbol->second + static_cast<std::uint64_t>(relocation.addend)) >>
          (8 * relocation.shift_bytes);
      std::memcpy(memory_.host(address) + relocation.offset_bytes, &value,
                  std::min<std::size_t>(relocation.size_bytes, sizeof(value)));
    }
  }
  return base::Ok{};
}

// "sm_80" runs there and on all that are newer, "sm_90a" on sm_90 only, "sm_100f" on the newer ones
// of its family (sm_103).
base::Status VirtualDevice::check_target(const ptx::Module& module) const {
  const std::string& target = module.target;
  const std::string_view rest =
      target.starts_with("sm_") ? std::string_view(target).substr(3) : std::string_view();
  std::uint32_t number = 0;
  const auto [end, failure] = std::from_chars(rest.data(), rest.data() + rest.size(), number);
  const std::string_view suffix(end, static_cast<std::size_t>(rest.data() + rest.size() - end));
  const bool is_older = failure == std::errc() && number <= spec_.sm;
  const bool runs = suffix.empty()  ? is_older
                    : suffix == "a" ? is_older && number == spec_.sm
                    : suffix == "f" ? is_older && number / 10 == spec_.sm / 10
                                    : false;
  if (runs) return base::Ok{};
  return base::unsupported_error(module.name, ".target " + target,
                                 "is for another generation than " + properties_.name);
}

base::Result<LoadedModule*> VirtualDevice::load_module(std::string_view text,
                                                       const std::string& name) {
  const auto key = std::pair(name, base::hash_bytes(std::as_bytes(std::span(text))).hex());
  if (const auto found = modules_.find(key); found != modules_.end()) return found->second.get();
  auto loaded = std::make_unique<LoadedModule>();
  LS_ASSIGN(loaded->module, exec::ModuleCache::of_process().find(text, name));
  LS_TRY(check_target(loaded->module->parsed()));
  LS_TRY(place_variables(*loaded));
  return modules_.emplace(key, std::move(loaded)).first->second.get();
}

base::Result<Kernel> VirtualDevice::load(std::string_view text, const std::string& module_name,
                                         const std::string& entry) {
  LS_ASSIGN(LoadedModule* const loaded, load_module(text, module_name));
  if (const auto found = loaded->programs.find(entry); found != loaded->programs.end()) {
    return Kernel{found->second.get(), entry};
  }
  const ptx::Module& module = loaded->module->parsed();
  const auto function = module.functions.find(entry);
  if (function == module.functions.end() || !function->second.is_entry) {
    return base::input_error(module_name, "has no entry \"" + entry + "\"");
  }
  exec::LowerOptions lower_options;
  lower_options.instruction_set = set_;
  lower_options.checked =
      options_.memcheck || options_.initcheck || options_.racecheck || options_.synccheck;
  lower_options.approximation = options_.approximation;
  lower_options.sm = spec_.sm;
  std::shared_ptr<const exec::Program> program;
  if (loaded->variables.empty()) {
    LS_ASSIGN(program, loaded->module->program(function->second, lower_options));
  } else {  // it knows where this device has them
    lower_options.global_address = [loaded](const ptx::Variable* variable) {
      const auto found = loaded->variables.find(variable);
      return found == loaded->variables.end() ? 0 : found->second;
    };
    LS_ASSIGN(program, exec::lower(module, function->second, lower_options));
  }
  const exec::Program* handle = program.get();
  loaded->programs.emplace(entry, std::move(program));
  return Kernel{handle, entry};
}

base::Status VirtualDevice::check_limits(const exec::Program& program,
                                         const LaunchConfig& config) const {
  const generation::Limits& limits = spec_.limits;
  const auto refuse = [&](const std::string& rule) {
    return base::unsupported_error(properties_.name, program.kernel, rule);
  };
  const Dim3 grid = config.grid, block = config.block;
  if (grid.count() == 0 || block.count() == 0) return refuse("an empty grid or block");
  if (grid.x > limits.grid_x || grid.y > limits.grid_y || grid.z > limits.grid_z) {
    return refuse("the grid is larger than the generation allows");
  }
  if (block.x > limits.block_x || block.y > limits.block_y || block.z > limits.block_z ||
      block.count() > limits.threads_per_block) {
    return refuse("a block of " + std::to_string(block.count()) + " threads; at most " +
                  std::to_string(limits.threads_per_block));
  }
  if (program.max_threads != 0 && block.count() > program.max_threads) {
    return refuse("a block of " + std::to_string(block.count()) +
                  " threads; its launch bounds say at most " + std::to_string(program.max_threads));
  }
  const std::uint32_t sizes[3] = {block.x, block.y, block.z};
  for (std::size_t k = 0; k < 3; ++k) {
    if (program.required_block[k] != 0 && program.required_block[k] != sizes[k]) {
      return refuse("the block is not the one that .reqntid asks for");
    }
  }
  if (program.static_shared_bytes > limits.shared_bytes_per_block) {
    return refuse(std::to_string(program.static_shared_bytes) +
                  " bytes of static shared memory; at most " +
                  std::to_string(limits.shared_bytes_per_block));
  }
  const std::uint64_t shared =
      std::uint64_t{program.static_shared_bytes} + config.dynamic_shared_bytes;
  if (shared > limits.shared_bytes_per_block_optin) {
    return refuse(std::to_string(shared) + " bytes of shared memory; at most " +
                  std::to_string(limits.shared_bytes_per_block_optin));
  }
  if (program.max_registers > limits.registers_per_thread) {
    return refuse(".maxnreg " + std::to_string(program.max_registers) + "; at most " +
                  std::to_string(limits.registers_per_thread));
  }
  return base::Ok{};
}

base::Status VirtualDevice::launch(const Kernel& kernel, const LaunchConfig& config,
                                   std::span<const std::byte> parameters) {
  LS_CHECK(kernel.handle != nullptr);
  const auto& program = *static_cast<const exec::Program*>(kernel.handle);
  LS_TRY(check_limits(program, config));
  if (parameters.size() != program.param_bytes) {
    return base::input_error(properties_.name,
                             program.kernel + " takes " + std::to_string(program.param_bytes) +
                                 " bytes of parameters, not " + std::to_string(parameters.size()));
  }
  exec::LaunchOptions launch_options;
  launch_options.grid = config.grid;
  launch_options.block = config.block;
  launch_options.dynamic_shared_bytes = config.dynamic_shared_bytes;
  launch_options.schedule_seed = options_.schedule_seed;
  launch_options.sm = spec_.sm;
  launch_options.memcheck = options_.memcheck;
  launch_options.multiprocessor_count = spec_.limits.multiprocessor_count;
  exec::LaunchOutcome outcome =
      launcher_.launch(program, memory_, launch_options, parameters, checks_.get());
  ++counters_.launches;
  counters_.warp_instructions += outcome.warp_instructions;
  counters_.checked_accesses += outcome.checked_accesses;
  for (Diagnostic& diagnostic : outcome.diagnostics) diagnostics_.push_back(std::move(diagnostic));
  return base::Ok{};
}

}  // namespace

base::Result<std::unique_ptr<Device>> open_virtual(std::string_view name,
                                                   const DeviceOptions& options) {
  const generation::GenerationSpec* spec = generation::find(name);
  if (spec == nullptr) {
    return base::environment_error("vgpu:" + std::string(name), "no such generation");
  }
  LS_ASSIGN(const exec::InstructionSet set, choose_instruction_set(options.instruction_set));
  // The host may hold other things: leave it a quarter.
  const std::uint64_t usual = std::min(spec->limits.memory_bytes, host_memory_bytes() / 4 * 3);
  LS_ASSIGN(exec::GlobalMemory memory,
            exec::GlobalMemory::reserve(options.memory_bytes != 0 ? options.memory_bytes : usual));
  return std::unique_ptr<Device>(
      std::make_unique<VirtualDevice>(*spec, options, set, std::move(memory)));
}

std::vector<std::string> virtual_devices() {
  std::vector<std::string> names;
  for (const generation::GenerationSpec* spec : generation::all()) {
    names.push_back("vgpu:" + std::string(spec->name));
  }
  return names;
}

}  // namespace lockstep::device
