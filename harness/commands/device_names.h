// --device LIST: names separated by commas.
#pragma once

#include <string>
#include <vector>

namespace lockstep::harness {

// vgpu:all is every generation that our kernels run on; auto is the virtual GPU while no other back
// end is built. An empty list is `usual`.
std::vector<std::string> device_names(const std::string& list,
                                      const std::string& usual = "vgpu:sm_90");

}  // namespace lockstep::harness
