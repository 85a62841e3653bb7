#include "harness/subjects/engine_subject.h"

#include "base/check.h"
#include "base/hash.h"
#include "engine/engine.h"
#include "engine/execute/device_executor.h"

namespace lockstep::harness {
namespace {

void hash_rows(const trace::OpCall& call, const EventSink& sink) {
  for (const trace::TapTensor& tap : call.writes) {
    if (tap.rows.empty()) continue;
    const std::size_t size = tap.bytes.size() / tap.rows.size();
    for (std::size_t i = 0; i < tap.rows.size(); ++i) {
      sink(trace::RowHashed{tap.rows[i], tap.layer, tap.point,
                            base::hash_bytes(std::span(tap.bytes).subspan(i * size, size))});
    }
  }
}

// True if the device had something to say.
bool report_diagnostics(device::Device& device, const EventSink& sink) {
  const std::vector<device::Diagnostic> diagnostics = device.take_diagnostics();
  for (const device::Diagnostic& diagnostic : diagnostics) {
    sink(trace::DeviceReported{diagnostic.checker, diagnostic.kind, diagnostic.kernel,
                               diagnostic.message, diagnostic.source, diagnostic.source_second,
                               diagnostic.count});
  }
  return !diagnostics.empty();
}

base::Status drive(const model::Model& model, const trace::Scenario& scenario, bool taps,
                   device::Device& device, const EventSink& sink) {
  const EventSink tapped = [&sink](trace::Event event) {
    if (const auto* done = std::get_if<trace::OpCompleted>(&event)) hash_rows(done->call, sink);
    sink(std::move(event));
  };
  LS_ASSIGN(std::unique_ptr<engine::DeviceExecutor> executor,
            engine::DeviceExecutor::create(model, device, scenario.engine, tapped, taps));
  engine::Engine engine(scenario.engine, model.config.context_length, std::move(executor), sink);
  for (const trace::RequestSpec& request : scenario.requests) engine.submit(request);
  for (;;) {
    const base::Result<bool> stepped = engine.step();
    // What the device saw comes first: a step that failed after it failed because of it.
    if (report_diagnostics(device, sink)) break;
    if (!stepped) return stepped.error();
    if (!*stepped) break;
  }
  return base::Ok{};
}

}  // namespace

base::Status run_engine(const model::Model& model, const trace::Scenario& scenario,
                        const SubjectOptions& options, const EventSink& sink) {
  LS_ASSIGN(const std::unique_ptr<device::Device> device,
            device::open(scenario.device, options.device));
  base::Status status = base::Ok{};
  try {
    const base::SubjectScope scope;
    status = drive(model, scenario, options.taps, *device, sink);
  } catch (const base::CheckFailure& failure) {
    report_diagnostics(*device, sink);
    sink(trace::SubjectFailed{failure.file, failure.function, failure.what()});
  }
  const device::DeviceCounters counters = device->counters();
  sink(trace::DeviceCounted{counters.launches, counters.warp_instructions,
                            counters.checked_accesses});
  return status;
}

}  // namespace lockstep::harness
