#include "engine/engine.h"

#include <algorithm>

#include "base/check.h"

namespace lockstep::engine {
namespace {

void report_cells(const StepPlan& plan, std::uint32_t page_size, const EventSink& sink) {
  for (const std::vector<PlannedRows>* phase : {&plan.prefill, &plan.decode}) {
    for (const PlannedRows& rows : *phase) {
      const auto count = static_cast<std::uint32_t>(rows.tokens.size());
      for (std::uint32_t i = 0; i < count; ++i) {
        const trace::Position position = rows.first_position + i;
        sink(trace::CellWritten{plan.launch,
                                {rows.request, position},
                                rows.pages[position / page_size],
                                position % page_size});
      }
      sink(trace::CellsRead{plan.launch, rows.request, rows.pages, page_size,
                            rows.first_position + count});
    }
  }
}

}  // namespace

Engine::Engine(const trace::EngineSettings& settings, std::uint32_t context_length,
               std::unique_ptr<Executor> executor, EventSink sink)
    : settings_(settings),
      context_length_(context_length),
      executor_(std::move(executor)),
      sink_(std::move(sink)),
      pages_(settings.num_blocks, settings.block_size) {
  LS_CHECK(executor_ != nullptr);
}

trace::RequestId Engine::submit(const trace::RequestSpec& spec) {
  const trace::RequestId id{next_request_++};
  if (const std::string reason = refusal(spec, settings_, pages_, context_length_);
      !reason.empty()) {
    sink_(trace::RequestRefused{id, reason});
    return id;
  }
  RequestState request;
  request.id = id;
  request.spec = spec;
  request.tokens = spec.prompt;
  state_.waiting.push_back(std::move(request));
  return id;
}

bool Engine::cancel(trace::RequestId request) {
  const auto is_it = [request](const RequestState& state) { return state.id == request; };
  const bool lives = std::any_of(state_.waiting.begin(), state_.waiting.end(), is_it) ||
                     std::any_of(state_.running.begin(), state_.running.end(), is_it);
  if (lives) retire(state_, pages_, request, "abort", sink_);
  return lives;
}

base::Result<bool> Engine::step() {
  const StepPlan plan = plan_step(state_, pages_, settings_, sink_);
  if (plan.empty()) return false;
  report_cells(plan, settings_.block_size, sink_);
  LS_ASSIGN(const std::vector<SampledToken> sampled, executor_->execute(plan));
  for (const SampledToken& token : sampled) accept(token);
  sink_(trace::PoolBalance{pages_.page_count(), pages_.free_count(), pages_.used_count()});
  return true;
}

void Engine::accept(const SampledToken& sampled) {
  const auto found =
      std::find_if(state_.running.begin(), state_.running.end(),
                   [&](const RequestState& state) { return state.id == sampled.request; });
  LS_CHECK(found != state_.running.end());
  RequestState& request = *found;
  const trace::RequestSpec& spec = request.spec;
  const trace::TokenId fed =
      request.emitted < spec.forced.size() ? spec.forced[request.emitted] : sampled.token;
  sink_(trace::TokenSampled{request.id, static_cast<trace::Position>(request.tokens.size()),
                            sampled.token, fed});
  request.tokens.push_back(fed);
  ++request.emitted;
  const std::vector<trace::TokenId>& stop_ids = spec.sampling.stop_token_ids;
  const bool stops = std::find(stop_ids.begin(), stop_ids.end(), fed) != stop_ids.end();
  if (stops) {
    retire(state_, pages_, request.id, "stop", sink_);
  } else if (request.emitted == spec.max_tokens) {
    retire(state_, pages_, request.id, "length", sink_);
  }
}

}  // namespace lockstep::engine
