// The JSON document of docs/cli.md.
#include <nlohmann/json.hpp>

#include <cmath>

#include "harness/report/format.h"
#include "harness/report/report.h"

namespace lockstep::harness {
namespace {

using nlohmann::json;
using oracles::Finding;
using oracles::Verdict;
using oracles::VerdictKind;

const char* word(VerdictKind kind) {
  switch (kind) {
    case VerdictKind::Pass:
      return "pass";
    case VerdictKind::Finding:
      return "finding";
    case VerdictKind::NotApplicable:
      return "not_applicable";
  }
  return "?";
}

// JSON has no infinity and no NaN: they become text.
json number(double value) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value > 0 ? "inf" : "-inf";
  return value;
}
template <class T>
json maybe(const std::optional<T>& value) {
  if (!value) return nullptr;
  if constexpr (std::is_same_v<T, double>) {
    return number(*value);
  } else {
    return *value;
  }
}

json finding_json(const Finding& finding, const KeptOperation& kept, const std::string& repeat) {
  json where = {{"request", maybe(finding.where.request)},
                {"layer", maybe(finding.where.layer)},
                {"op", finding.where.op.empty() ? json(nullptr) : json(finding.where.op)},
                {"position", maybe(finding.where.position)},
                {"index", maybe(finding.where.index)}};
  json result = {{"key", finding.key},
                 {"message", finding.message},
                 {"where", where},
                 {"got", maybe(finding.got)},
                 {"want", maybe(finding.want)},
                 {"bound", maybe(finding.bound)},
                 {"ratio", maybe(finding.ratio)},
                 {"count", finding.count},
                 {"notes", finding.notes},
                 {"replay", kept.file.empty() ? repeat : "./lockstep replay " + kept.file}};
  const auto add = [&](const char* name, const std::string& text) {
    if (!text.empty()) result[name] = text;
  };
  add("file", kept.file);
  add("from", kept.from);
  add("needle", kept.needle);
  add("smallest", kept.smallest);
  return result;
}

void add_device(const DeviceReport& device, const std::string& repeat, json& laws) {
  std::size_t next = 0;
  for (const Verdict& verdict : device.outcome.verdicts) {
    json law = {{"law", verdict.law},
                {"device", device.device},
                {"verdict", word(verdict.kind)},
                {"checked", verdict.checked},
                {"findings", json::array()}};
    if (verdict.written) law["written"] = *verdict.written;
    if (verdict.worst) law["worst"] = number(*verdict.worst);
    if (!verdict.where.empty()) law["where"] = verdict.where;
    if (!verdict.reason.empty()) law["reason"] = verdict.reason;
    for (const Finding& finding : verdict.findings) {
      law["findings"].push_back(finding_json(finding, device.kept_of(next++), repeat));
    }
    laws.push_back(std::move(law));
  }
}

void add_measured(const DeviceReport& device, json& measured) {
  const auto add = [&](const char* name, double value, const char* unit, json where) {
    measured.push_back({{"name", name},
                        {"value", number(value)},
                        {"unit", unit},
                        {"where", std::move(where)},
                        {"device", device.device}});
  };
  add("warp_instructions", static_cast<double>(device.outcome.warp_instructions), "1", nullptr);
  add("launches", static_cast<double>(device.outcome.launches), "1", nullptr);
  if (!device.outcome.drift) return;
  const Drift& drift = *device.outcome.drift;
  for (std::size_t layer = 0; layer < drift.layer_median.size(); ++layer) {
    add("residual_relative_rms_median", drift.layer_median[layer], "1", {{"layer", layer}});
    add("residual_relative_rms_worst", drift.layer_worst[layer], "1", {{"layer", layer}});
  }
  add("logits_rms", drift.logits_rms, "logit", nullptr);
  add("logits_max", drift.logits_max, "logit", nullptr);
  add("logits_sigma", drift.sigma, "logit", nullptr);
  add("kl", drift.kl_mean, "nat", nullptr);
  add("top1_equal", static_cast<double>(drift.top1_equal), "tokens", nullptr);
  add("top5_equal", static_cast<double>(drift.top5_equal), "tokens", nullptr);
  add("tokens", static_cast<double>(drift.tokens), "tokens", nullptr);
}

json outputs_json(const RunReport& report, const DeviceReport& device) {
  json outputs = json::array();
  for (std::size_t i = 0; i < device.outcome.outputs.size(); ++i) {
    const trace::RequestSpec& request = report.scenario.requests[i];
    const RequestOutput& output = device.outcome.outputs[i];
    json entry = {{"key", request.key},
                  {"device", device.device},
                  {"prompt_tokens", request.prompt},
                  {"tokens", output.tokens},
                  {"finish_reason", output.finish_reason}};
    if (report.model && report.model->tokenizer) {
      entry["text"] = valid_utf8(report.model->tokenizer->decode(output.tokens));
    }
    outputs.push_back(std::move(entry));
  }
  return outputs;
}

}  // namespace

json json_report(const RunReport& report) {
  json result = {{"schema", "lockstep." + report.command + "/1"},
                 {"version", LOCKSTEP_VERSION},
                 {"command", report.repeat},
                 {"seed", report.scenario.seed},
                 {"model", report.model_name},
                 {"verdict", word(report.verdict())},
                 {"laws", json::array()},
                 {"measured", json::array()},
                 {"outputs", json::array()},
                 {"timing_s", report.seconds}};
  for (const DeviceReport& device : report.devices) {
    add_device(device, report.repeat, result["laws"]);
    add_measured(device, result["measured"]);
    for (json& output : outputs_json(report, device))
      result["outputs"].push_back(std::move(output));
  }
  return result;
}

}  // namespace lockstep::harness
