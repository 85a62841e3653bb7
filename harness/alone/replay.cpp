#include "harness/alone/replay.h"

#include <cstring>
#include <memory>
#include <vector>

#include "harness/subjects/op_subject.h"
#include "oracles/oracle.h"
#include "reference/local.h"

namespace lockstep::harness {
namespace {

// Elements of the results, and how many have the recorded bits.
void compare_bits(const trace::OpCall& recorded, const trace::OpCall& now,
                  OperationReplay& replay) {
  for (std::size_t i = 0; i < recorded.writes.size(); ++i) {
    const trace::TapTensor& old = recorded.writes[i];
    const std::size_t count = old.rows.size() * old.width;
    const std::size_t size = old.bytes.size() / count;
    replay.values += count;
    if (i >= now.writes.size() || now.writes[i].rows != old.rows ||
        now.writes[i].bytes.size() != old.bytes.size()) {
      continue;
    }
    for (std::size_t k = 0; k < count; ++k) {
      replay.same += std::memcmp(old.bytes.data() + k * size, now.writes[i].bytes.data() + k * size,
                                 size) == 0;
    }
  }
}

}  // namespace

base::Status run_judged(const RecordedOperation& operation, const std::string& device,
                        const OperationRunner& runner, const EventSink& sink) {
  LS_ASSIGN(const trace::DeviceInfo info, device_info(device));
  const model::Model part = part_of_model(operation);
  device::DeviceOptions options;
  options.approximation = operation.approximation;
  return runner(operation, device, options, [&](trace::Event event) {
    if (auto* done = std::get_if<trace::OpCompleted>(&event)) {
      done->reference =
          reference::LocalReference::judge_alone(part, info, operation.seed, done->call);
    }
    sink(std::move(event));
  });
}

base::Result<OperationReplay> replay_on(const RecordedOperation& operation,
                                        const std::string& device, const OperationRunner& runner) {
  OperationReplay replay;
  replay.device = device;
  std::vector<std::unique_ptr<oracles::Oracle>> laws;
  laws.push_back(oracles::op_bounds());
  laws.push_back(oracles::mma_replay());
  laws.push_back(oracles::device_checks());
  laws.push_back(oracles::subject_checks());
  LS_TRY(run_judged(operation, device, runner, [&](const trace::Event& event) {
    if (const auto* done = std::get_if<trace::OpCompleted>(&event)) {
      compare_bits(operation.call, done->call, replay);
      replay.call = done->call;
    } else if (const auto* counted = std::get_if<trace::DeviceCounted>(&event)) {
      replay.outcome.warp_instructions += counted->warp_instructions;
      replay.outcome.launches += counted->launches;
    }
    for (const auto& law : laws) law->on_event(event);
  }));
  for (const auto& law : laws) {
    replay.outcome.verdicts.push_back(law->finish(replay.outcome.verdicts));
  }
  return replay;
}

const oracles::Finding* finding_of(const RunOutcome& outcome, const std::string& key) {
  for (const oracles::Verdict& verdict : outcome.verdicts) {
    for (const oracles::Finding& finding : verdict.findings) {
      if (key.empty() || finding.key == key) return &finding;
    }
  }
  return nullptr;
}

}  // namespace lockstep::harness
