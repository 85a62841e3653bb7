#include "engine/schedule/scheduler.h"

#include <algorithm>
#include <cstddef>

#include "base/check.h"

namespace lockstep::engine {
namespace {

void take_pages(KvPages& pages, trace::RequestId request, std::uint64_t token_count,
                const EventSink& sink) {
  std::vector<trace::PageId> taken;
  LS_CHECK(pages.grow(request, token_count, &taken));  // promised at admission
  if (!taken.empty()) sink(trace::PagesTaken{request, std::move(taken)});
}

void admit(SchedulerState& state, const KvPages& pages, const trace::EngineSettings& settings,
           const EventSink& sink) {
  while (!state.waiting.empty() && state.running.size() < settings.max_num_seqs) {
    const std::uint32_t needed = pages.pages_for(state.waiting.front().longest());
    if (state.promised_pages + needed > pages.page_count()) return;
    state.promised_pages += needed;
    sink(trace::RequestAdmitted{state.waiting.front().id, state.waiting.front().spec.prompt});
    state.running.push_back(std::move(state.waiting.front()));
    state.waiting.pop_front();
  }
}

PlannedRows plan_rows(RequestState& request, std::uint32_t count, KvPages& pages,
                      const EventSink& sink) {
  take_pages(pages, request.id, request.computed + count, sink);
  PlannedRows rows;
  rows.request = request.id;
  rows.first_position = request.computed;
  const auto first = request.tokens.begin() + static_cast<std::ptrdiff_t>(request.computed);
  rows.tokens.assign(first, first + static_cast<std::ptrdiff_t>(count));
  request.computed += count;
  rows.samples = request.computed == request.tokens.size();
  const auto table = pages.table(request.id);
  rows.pages.assign(table.begin(), table.end());
  return rows;
}

}  // namespace

std::string refusal(const trace::RequestSpec& spec, const trace::EngineSettings& settings,
                    const KvPages& pages, std::uint32_t context_length) {
  if (spec.prompt.empty() || spec.max_tokens == 0) return "invalid";
  const std::uint64_t longest = spec.prompt.size() + spec.max_tokens - 1;
  if (longest > context_length) return "context_length";
  const std::uint64_t capacity = std::uint64_t{settings.block_size} * pages.page_count();
  if (longest > capacity) return "kv_capacity";
  return {};
}

StepPlan plan_step(SchedulerState& state, KvPages& pages, const trace::EngineSettings& settings,
                   const EventSink& sink) {
  admit(state, pages, settings, sink);
  StepPlan plan;
  plan.launch = {state.next_launch};
  std::uint32_t budget = settings.max_num_batched_tokens;
  // Decode rows first: a prompt never holds back a running request.
  for (RequestState& request : state.running) {
    const bool decodes = request.computed >= request.spec.prompt.size();
    if (!decodes || budget == 0) continue;
    LS_CHECK(request.tokens.size() == request.computed + 1);
    plan.decode.push_back(plan_rows(request, 1, pages, sink));
    --budget;
  }
  for (RequestState& request : state.running) {
    const auto prompt = static_cast<std::uint32_t>(request.spec.prompt.size());
    if (request.computed >= prompt || budget == 0) continue;
    std::uint32_t count = std::min(budget, prompt - request.computed);
    if (settings.chunked_prefill_size > 0) count = std::min(count, settings.chunked_prefill_size);
    plan.prefill.push_back(plan_rows(request, count, pages, sink));
    budget -= count;
  }
  if (!plan.empty()) ++state.next_launch;
  return plan;
}

void retire(SchedulerState& state, KvPages& pages, trace::RequestId request,
            const std::string& reason, const EventSink& sink) {
  const auto is_it = [request](const RequestState& candidate) { return candidate.id == request; };
  const auto waiting = std::find_if(state.waiting.begin(), state.waiting.end(), is_it);
  if (waiting != state.waiting.end()) {
    state.waiting.erase(waiting);
  } else {
    const auto running = std::find_if(state.running.begin(), state.running.end(), is_it);
    LS_CHECK(running != state.running.end());
    const std::uint32_t promised = pages.pages_for(running->longest());
    LS_CHECK(promised <= state.promised_pages);
    state.promised_pages -= promised;
    state.running.erase(running);
    std::vector<trace::PageId> returned = pages.release(request);
    if (!returned.empty()) sink(trace::PagesReturned{request, std::move(returned)});
  }
  sink(trace::RequestFinished{request, reason});
}

}  // namespace lockstep::engine
