#include "oracles/findings.h"

namespace lockstep::oracles {

Finding& FindingList::add(const std::string& key, bool& is_new) {
  for (Finding& finding : findings_) {
    if (finding.key == key) {
      ++finding.count;
      is_new = false;
      return finding;
    }
  }
  is_new = true;
  findings_.emplace_back();
  findings_.back().key = key;
  return findings_.back();
}

void FindingList::add(const std::string& key, const std::string& message, const Where& where) {
  bool is_new = false;
  Finding& finding = add(key, is_new);
  if (!is_new) return;
  finding.message = message;
  finding.where = where;
}

Verdict verdict_of(std::string_view law, std::uint64_t checked, std::string unit,
                   FindingList& findings, std::string reason_if_none) {
  Verdict verdict;
  verdict.law = law;
  verdict.checked = checked;
  verdict.unit = std::move(unit);
  verdict.findings = findings.take();
  if (!verdict.findings.empty()) {
    verdict.kind = VerdictKind::Finding;
  } else if (checked > 0) {
    verdict.kind = VerdictKind::Pass;
  } else {
    verdict.reason = std::move(reason_if_none);
  }
  return verdict;
}

const Finding* earliest_finding(const std::vector<Verdict>& verdicts) {
  const Finding* earliest = nullptr;
  for (const Verdict& verdict : verdicts) {
    for (const Finding& finding : verdict.findings) {
      if (earliest == nullptr || finding.event_index < earliest->event_index) earliest = &finding;
    }
  }
  return earliest;
}

}  // namespace lockstep::oracles
