// What PTX text comes to, for all devices of the process: parsing and lowering take longer than a
// small run. A module is known by its name (which messages show) and the hash of its text.
#pragma once

#include <cstddef>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>

#include "base/error.h"
#include "base/hash.h"
#include "device/vgpu/exec/lower.h"

namespace lockstep::device::vgpu::exec {

// One module: its text, parsed, and the programs of its entries.
class CachedModule {
 public:
  explicit CachedModule(ptx::Module parsed) : parsed_(std::move(parsed)) {}
  const ptx::Module& parsed() const { return parsed_; }

  // The entry, lowered; once for each choice of options. Any thread may call it. `options` without
  // global_address: programs that know the addresses of variables belong to one device. Errors:
  // of lower().
  base::Result<std::shared_ptr<const Program>> program(const ptx::Function& entry,
                                                       const LowerOptions& options);

 private:
  using Key = std::tuple<std::string, InstructionSet, bool, ApproximationMode, std::uint32_t>;
  const ptx::Module parsed_;
  std::mutex mutex_;
  std::map<Key, std::shared_ptr<const Program>> programs_;
};

class ModuleCache {
 public:
  // Keeps the newest `capacity` modules; older ones live as long as a device holds them.
  explicit ModuleCache(std::size_t capacity) : capacity_(capacity) {}
  // The cache of all devices.
  static ModuleCache& of_process();

  // Any thread may call it. Errors: of ptx::parse(); they are not kept.
  base::Result<std::shared_ptr<CachedModule>> find(std::string_view text, const std::string& name);

 private:
  using Key = std::pair<std::string, base::Hash128>;
  std::size_t capacity_;
  std::mutex mutex_;
  std::map<Key, std::shared_ptr<CachedModule>> modules_;
  std::deque<Key> age_;  // oldest first
};

}  // namespace lockstep::device::vgpu::exec
