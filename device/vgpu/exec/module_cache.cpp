#include "device/vgpu/exec/module_cache.h"

#include <cstdint>
#include <span>

#include "base/check.h"
#include "device/vgpu/ptx/parser.h"

namespace lockstep::device::vgpu::exec {

namespace {
// The kernels of two generations, and room for a user's.
constexpr std::size_t kModules = 64;
}  // namespace

base::Result<std::shared_ptr<const Program>> CachedModule::program(const ptx::Function& entry,
                                                                   const LowerOptions& options) {
  LS_CHECK(!options.global_address);
  const Key key{entry.name, options.instruction_set, options.checked, options.approximation,
                options.sm};
  // Two threads that want the same entry need it once.
  const std::lock_guard lock(mutex_);
  if (const auto found = programs_.find(key); found != programs_.end()) return found->second;
  LowerOptions without_variables = options;
  without_variables.global_address = [](const ptx::Variable*) { return std::uint64_t{0}; };
  LS_ASSIGN(std::shared_ptr<const Program> program, lower(parsed_, entry, without_variables));
  return programs_.emplace(key, std::move(program)).first->second;
}

ModuleCache& ModuleCache::of_process() {
  static ModuleCache cache(kModules);
  return cache;
}

base::Result<std::shared_ptr<CachedModule>> ModuleCache::find(std::string_view text,
                                                              const std::string& name) {
  const Key key{name, base::hash_bytes(std::as_bytes(std::span(text)))};
  {
    const std::lock_guard lock(mutex_);
    if (const auto found = modules_.find(key); found != modules_.end()) return found->second;
  }
  // Outside of the lock: different modules are parsed at the same time. Of two threads with the
  // same one the first to finish gives it to both.
  LS_ASSIGN(ptx::Module parsed, ptx::parse(text, name));
  auto module = std::make_shared<CachedModule>(std::move(parsed));
  const std::lock_guard lock(mutex_);
  const auto [place, is_new] = modules_.emplace(key, std::move(module));
  std::shared_ptr<CachedModule> kept = place->second;
  if (is_new) age_.push_back(key);
  if (age_.size() > capacity_) {
    modules_.erase(age_.front());
    age_.pop_front();
  }
  return kept;
}

}  // namespace lockstep::device::vgpu::exec
