#include "harness/subjects/engine_subject.h"

#include <algorithm>
#include <map>

#include "base/check.h"
#include "base/hash.h"
#include "engine/execute/device_executor.h"
#include "engine/serving_engine.h"

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

// What the engine's own events say, in the words of the numeric laws.
class Translator {
 public:
  Translator(std::uint32_t block_size, const EventSink& sink)
      : block_size_(block_size), sink_(sink) {}

  void on_event(trace::Event event) {
    if (const auto* done = std::get_if<trace::OpCompleted>(&event)) {
      hash_rows(done->call, sink_);
      sink_(std::move(event));
      return;
    }
    std::visit([this](const auto& what) { on(what); }, event);
  }
  // The model's choices of a launch, before they are accepted.
  void choose(const engine::LaunchOutput& output) {
    for (const engine::SequenceOutput& sequence : output.sequences) {
      if (!sequence.sampled.empty()) argmax_[sequence.request] = sequence.sampled.front();
    }
  }

 private:
  template <class T>
  void on(const T&) {}
  void on(const trace::LifeBegan& began) {
    began_[began.request] = began.tokens;
    next_position_[began.request] = began.prompt_tokens;
  }
  void on(const trace::BlocksTaken& taken) {
    if (const auto waiting = began_.find(taken.request); waiting != began_.end()) {
      sink_(trace::RequestAdmitted{taken.request, waiting->second});
      began_.erase(waiting);
    }
    sink_(trace::PagesTaken{taken.request, taken.blocks});
  }
  void on(const trace::BlocksReleased& released) {
    sink_(trace::PagesReturned{released.request, released.blocks});
  }
  void on(const trace::PoolCounted& counted) {
    sink_(trace::PoolBalance{num_blocks_, counted.free + counted.evictable,
                             counted.used + counted.reserved});
  }
  void on(const trace::LaunchRan& ran) {
    const std::uint32_t size = block_size_;
    for (const trace::RanRows& rows : ran.rows) {
      for (std::uint32_t i = 0; i < rows.tokens.size(); ++i) {
        const auto slot = static_cast<std::uint32_t>(rows.slots[0][i]);
        sink_(trace::CellWritten{ran.launch,
                                 {rows.request, rows.first_position + i},
                                 trace::PageId{slot / size},
                                 slot % size});
      }
      sink_(trace::CellsRead{ran.launch, rows.request, rows.tables[0], size, rows.sequence_length});
    }
  }
  void on(const trace::TokensAccepted& accepted) {
    for (const trace::TokenId token : accepted.tokens) {
      sink_(trace::TokenSampled{accepted.request, next_position_[accepted.request]++,
                                argmax_[accepted.request], token});
    }
  }
  void on(const trace::LifeEnded& ended) {
    if (ended.reason == "refused") {
      sink_(trace::RequestRefused{ended.request, refusal_ ? refusal_(ended.request) : ""});
    } else {
      sink_(trace::RequestFinished{ended.request, ended.reason});
    }
  }

 public:
  std::function<std::string(trace::RequestId)> refusal_;  // why a request was refused
  std::uint32_t num_blocks_ = 0;                          // of the pool

 private:
  std::uint32_t block_size_;
  const EventSink& sink_;
  std::map<trace::RequestId, std::vector<trace::TokenId>> began_;  // not yet admitted
  std::map<trace::RequestId, trace::Position> next_position_;
  std::map<trace::RequestId, trace::TokenId> argmax_;
};

// One full-attention group over one pool, no prefix reuse, one launch at a time.
trace::EngineSettings engine_settings(const model::Model& model, const trace::Scenario& scenario) {
  trace::EngineSettings settings = scenario.engine;
  settings.groups = {trace::GroupSpec{}};
  settings.groups[0].block_size = settings.block_size;
  settings.enable_prefix_caching = false;
  settings.max_model_len =
      static_cast<std::uint32_t>(std::min<std::uint64_t>(model.config.context_length, 1u << 30));
  return settings;
}

base::Status drive(const model::Model& model, const trace::Scenario& scenario, bool taps,
                   device::Device& device, const EventSink& sink) {
  Translator translator(scenario.engine.block_size, sink);
  const EventSink translated = [&translator](trace::Event event) {
    translator.on_event(std::move(event));
  };
  trace::EngineSettings settings = engine_settings(model, scenario);
  LS_ASSIGN(const std::unique_ptr<engine::DeviceExecutor> executor,
            engine::DeviceExecutor::create(
                model, device, settings,
                engine::limits_of(scenario.requests, settings.max_model_len), translated, taps));
  translator.num_blocks_ = settings.num_blocks = executor->num_blocks();
  settings.pools = {trace::PoolSpec{"full", settings.num_blocks}};
  engine::ServingEngine engine(settings, {}, model.config.vocab_size, *executor, {}, translated);
  translator.refusal_ = [&engine](trace::RequestId id) { return engine.life(id).error_code; };
  for (std::size_t i = 0; i < scenario.requests.size(); ++i) {
    engine::Submission submission;
    submission.spec = scenario.requests[i];
    // A client's ids are its own affair here: requests are told apart by their order.
    submission.spec.id = std::to_string(i);
    engine.submit(std::move(submission), 0);
  }
  for (trace::Tick tick = 0; !engine.idle(); ++tick) {
    const auto made = engine.step(tick);
    LS_CHECK(made.has_value(), "requests wait and nothing runs");
    const base::Result<std::vector<engine::LaunchOutput>> outputs = executor->run(tick);
    // What the device saw comes first: a step that failed after it failed because of it.
    if (report_diagnostics(device, sink)) break;
    if (!outputs) return outputs.error();
    for (const engine::LaunchOutput& output : *outputs) {
      translator.choose(output);
      engine.complete(output, tick);
    }
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
