// Findings, counted; findings.h.
#include "device/vgpu/check/findings.h"

#include <utility>

namespace lockstep::device::vgpu::check {

void Findings::insert(Finding finding) {
  known_.emplace(
      Key(finding.checker, finding.kind, finding.instruction, finding.second_instruction),
      list_.size());
  list_.push_back(std::move(finding));
}

void Findings::merge(const Findings& other) {
  for (const Finding& finding : other.list_) {
    add(finding.checker.c_str(), finding.kind.c_str(), finding.instruction,
        finding.second_instruction, finding.count, [&] { return finding.message; });
  }
}

void Findings::clear() {
  list_.clear();
  known_.clear();
}

}  // namespace lockstep::device::vgpu::check
