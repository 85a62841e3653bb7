#include "harness/search/tally.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "harness/search/minimize.h"

namespace lockstep::harness {
namespace {

using nlohmann::json;

void add_cases(KeyTally& key, const std::vector<std::uint64_t>& cases, std::uint64_t count) {
  key.cases.insert(key.cases.end(), cases.begin(), cases.end());
  std::ranges::sort(key.cases);
  if (key.cases.size() > KeyTally::kCasesMax) key.cases.resize(KeyTally::kCasesMax);
  key.count += count;
}

LawTally& law_of(Tally& tally, const std::string& name, const std::string& unit) {
  const auto [at, added] = tally.laws.try_emplace(name);
  if (added) tally.law_order.push_back(name);
  if (at->second.unit.empty()) at->second.unit = unit;
  return at->second;
}

}  // namespace

void Tally::add(std::uint64_t case_number, const ScenarioOutcome& outcome) {
  ++cases;
  steps += outcome.steps;
  ticks += outcome.result.ticks;
  requests += outcome.result.requests.size();
  for (const trace::RequestResult& request : outcome.result.requests) {
    tokens += request.tokens.size();
  }
  for (const oracles::Verdict& verdict : outcome.verdicts) {
    LawTally& law = law_of(*this, verdict.law, verdict.unit);
    law.checked += verdict.checked;
    switch (verdict.kind) {
      case oracles::VerdictKind::Pass:
        ++law.passes;
        break;
      case oracles::VerdictKind::Finding:
        ++law.findings;
        break;
      case oracles::VerdictKind::NotApplicable:
        ++law.not_applicable;
        break;
    }
  }
  const oracles::Finding* first = find_key(outcome, "");
  if (first == nullptr) return;
  KeyTally& key = keys[first->key];
  if (key.cases.empty()) {
    key.message = first->message;
    for (const oracles::Verdict& verdict : outcome.verdicts) {
      const auto is_first = [&](const oracles::Finding& finding) { return &finding == first; };
      if (std::ranges::any_of(verdict.findings, is_first)) key.law = verdict.law;
    }
  }
  add_cases(key, {case_number}, 1);
}

void Tally::add(const Tally& other) {
  cases += other.cases;
  steps += other.steps;
  ticks += other.ticks;
  requests += other.requests;
  tokens += other.tokens;
  not_built += other.not_built;
  for (const std::string& name : other.law_order) {
    const LawTally& theirs = other.laws.at(name);
    LawTally& law = law_of(*this, name, theirs.unit);
    law.passes += theirs.passes;
    law.findings += theirs.findings;
    law.not_applicable += theirs.not_applicable;
    law.checked += theirs.checked;
  }
  for (const auto& [name, theirs] : other.keys) {
    KeyTally& key = keys[name];
    if (key.cases.empty() || theirs.cases.front() < key.cases.front()) {
      key.law = theirs.law;
      key.message = theirs.message;
    }
    add_cases(key, theirs.cases, theirs.count);
  }
}

json tally_json(const Tally& tally) {
  json value = {{"cases", tally.cases},   {"steps", tally.steps},
                {"ticks", tally.ticks},   {"requests", tally.requests},
                {"tokens", tally.tokens}, {"not_built", tally.not_built},
                {"laws", json::array()},  {"findings", json::array()}};
  for (const std::string& name : tally.law_order) {
    const LawTally& law = tally.laws.at(name);
    value["laws"].push_back({{"law", name},
                             {"unit", law.unit},
                             {"checked", law.checked},
                             {"passes", law.passes},
                             {"findings", law.findings},
                             {"not_applicable", law.not_applicable}});
  }
  for (const auto& [name, key] : tally.keys) {
    value["findings"].push_back({{"key", name},
                                 {"law", key.law},
                                 {"message", key.message},
                                 {"cases", key.cases},
                                 {"count", key.count}});
  }
  return value;
}

base::Result<Tally> parse_tally(const json& value, const std::string& file_name,
                                const std::string& where) {
  Tally tally;
  try {
    tally.cases = value.at("cases").get<std::uint64_t>();
    tally.steps = value.at("steps").get<std::uint64_t>();
    tally.ticks = value.at("ticks").get<std::uint64_t>();
    tally.requests = value.at("requests").get<std::uint64_t>();
    tally.tokens = value.at("tokens").get<std::uint64_t>();
    tally.not_built = value.at("not_built").get<std::uint64_t>();
    for (const json& entry : value.at("laws")) {
      LawTally& law =
          law_of(tally, entry.at("law").get<std::string>(), entry.at("unit").get<std::string>());
      law.checked = entry.at("checked").get<std::uint64_t>();
      law.passes = entry.at("passes").get<std::uint64_t>();
      law.findings = entry.at("findings").get<std::uint64_t>();
      law.not_applicable = entry.at("not_applicable").get<std::uint64_t>();
    }
    for (const json& entry : value.at("findings")) {
      KeyTally& key = tally.keys[entry.at("key").get<std::string>()];
      key.law = entry.at("law").get<std::string>();
      key.message = entry.at("message").get<std::string>();
      add_cases(key, entry.at("cases").get<std::vector<std::uint64_t>>(),
                entry.at("count").get<std::uint64_t>());
      if (key.cases.empty()) return base::input_error(file_name, 0, where, "a finding of no case");
    }
  } catch (const json::exception& error) {
    // The library throws; here it becomes an Error. Its text names the field.
    return base::Error{base::ErrorKind::Input, file_name, {}, where, error.what()};
  }
  return tally;
}

std::vector<std::string> keys_in_order(const Tally& tally) {
  std::vector<std::string> names;
  for (const auto& [name, key] : tally.keys) names.push_back(name);
  std::ranges::stable_sort(
      names, {}, [&](const std::string& name) { return tally.keys.at(name).cases.front(); });
  return names;
}

}  // namespace lockstep::harness
