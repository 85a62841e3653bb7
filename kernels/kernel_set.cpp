#include "kernels/kernel_set.h"

namespace lockstep::kernels {

base::Result<device::Kernel> KernelSet::find(std::string_view op, std::string_view entry) {
  const std::string key = std::string(op) + "/" + std::string(entry);
  if (const auto found = loaded_.find(key); found != loaded_.end()) return found->second;
  const EmbeddedPtx* best = nullptr;
  for (const EmbeddedPtx& ptx : embedded_ptx()) {
    if (ptx.op == op && ptx.sm <= device_.properties().sm && (!best || ptx.sm > best->sm))
      best = &ptx;
  }
  if (!best) {
    return base::environment_error(device_.properties().name,
                                   "no kernel of " + std::string(op) + " for this generation");
  }
  LS_ASSIGN(device::Kernel kernel,
            device_.load(best->text, std::string(op) + ".sm_" + std::to_string(best->sm) + ".ptx",
                         std::string(entry)));
  loaded_.emplace(key, kernel);
  return kernel;
}

}  // namespace lockstep::kernels
