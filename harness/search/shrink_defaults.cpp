// Fields back to their defaults.
#include <algorithm>
#include <utility>

#include "harness/search/edits.h"
#include "harness/search/shrink.h"

namespace lockstep::harness {
namespace {

using trace::EngineSettings;
using trace::ForcedEvent;
using trace::RequestSpec;
using trace::Scenario;

// The member as it is in a fresh object.
template <class Member>
Edit engine_default(Member EngineSettings::*member) {
  return [member](Scenario& s) {
    const EngineSettings usual;
    s.engine.*member = usual.*member;
  };
}

void add_engine(std::vector<Edit>& edits) {
  edits.push_back(engine_default(&EngineSettings::speculative));
  edits.push_back(engine_default(&EngineSettings::async_depth));
  edits.push_back(engine_default(&EngineSettings::cudagraph_capture_sizes));
  edits.push_back(engine_default(&EngineSettings::pad_fill));
  edits.push_back(engine_default(&EngineSettings::fill_new_blocks));
  edits.push_back(engine_default(&EngineSettings::enable_prefix_caching));
  edits.push_back(engine_default(&EngineSettings::prefix_hash_bits));
  edits.push_back(engine_default(&EngineSettings::max_num_seqs));
  edits.push_back(engine_default(&EngineSettings::max_num_batched_tokens));
  edits.push_back(engine_default(&EngineSettings::enable_chunked_prefill));
  edits.push_back(engine_default(&EngineSettings::chunked_prefill_size));
  edits.push_back(engine_default(&EngineSettings::max_model_len));
  edits.push_back(engine_default(&EngineSettings::max_waiting));
  edits.push_back(engine_default(&EngineSettings::scheduling_policy));
  edits.push_back(engine_default(&EngineSettings::watchdog_ticks));
  edits.emplace_back([](Scenario& s) {
    if (s.engine.speculative) s.engine.speculative->acceptance = trace::Acceptance::Rejection;
  });
}

// A block size is that of all groups that have none of their own.
void set_block_size(Scenario& s, std::uint32_t size) {
  for (trace::GroupSpec& group : s.engine.groups) {
    if (group.block_size == s.engine.block_size) group.block_size = size;
  }
  s.engine.block_size = size;
}

void add_groups(const Scenario& scenario, std::vector<Edit>& edits) {
  const EngineSettings& engine = scenario.engine;
  for (std::size_t i = engine.groups.size(); i-- > 0;) {
    if (engine.groups.size() > 1) {
      edits.emplace_back([i](Scenario& s) { drop_group(s, i); });
    }
    edits.emplace_back([i](Scenario& s) {
      s.engine.groups[i].type = trace::GroupType::FullAttention;
      s.engine.groups[i].window = 0;
      s.engine.groups[i].conv_width = trace::GroupSpec{}.conv_width;
    });
    edits.emplace_back([i](Scenario& s) { s.engine.groups[i].block_size = s.engine.block_size; });
    edits.emplace_back(
        [i](Scenario& s) { s.engine.groups[i].conv_width = trace::GroupSpec{}.conv_width; });
  }
  if (engine.groups.size() == 1) {
    edits.emplace_back([](Scenario& s) { s.engine.groups[0].name = trace::GroupSpec{}.name; });
    edits.emplace_back([](Scenario& s) {  // the only group is the default one
      s.engine.block_size = s.engine.groups[0].block_size;
      s.engine.groups[0].name = s.engine.pools[s.engine.groups[0].pool].name =
          trace::GroupSpec{}.name;
    });
  }
  for (std::size_t i = 0; i < engine.pools.size(); ++i) {
    edits.emplace_back(
        [i](Scenario& s) { s.engine.pools[i].num_blocks = trace::PoolSpec{}.num_blocks; });
    edits.emplace_back([i](Scenario& s) {  // a group's own pool has its name
      for (const trace::GroupSpec& group : s.engine.groups) {
        if (group.pool == i) s.engine.pools[i].name = group.name;
      }
    });
  }
  edits.emplace_back([](Scenario& s) { set_block_size(s, EngineSettings{}.block_size); });
}

void add_model(const Scenario& scenario, std::vector<Edit>& edits) {
  edits.emplace_back([](Scenario& s) { s.ledger = trace::LedgerModel{}; });
  edits.emplace_back([](Scenario& s) { s.ledger.seed = 0; });
  edits.emplace_back(
      [](Scenario& s) { s.ledger.vocab_size = (s.ledger.tokenizer_size + 31) / 32 * 32; });
  edits.emplace_back([](Scenario& s) { s.seed = 0; });
  edits.emplace_back([](Scenario& s) { s.note.clear(); });
  edits.emplace_back([](Scenario& s) { s.observe = trace::Observe{}; });
  for (std::size_t i = 0; i < scenario.adapters.size(); ++i) {
    edits.emplace_back([i](Scenario& s) { s.adapters[i].name = s.adapters[i].key; });
    edits.emplace_back([i](Scenario& s) { s.adapters[i].id = 0; });
  }
}

template <class Change>
void add_for_request(std::vector<Edit>& edits, std::size_t index, Change change) {
  edits.emplace_back([index, change](Scenario& s) { change(s.requests[index]); });
}

void add_request(const Scenario& scenario, std::size_t i, std::vector<Edit>& edits) {
  using trace::SamplingParams;
  const SamplingParams plain;
  add_for_request(edits, i, [](RequestSpec& r) {
    r.sampling = SamplingParams{};
    r.script.clear();
    r.draft.clear();
    r.draft_default = {};
  });
  add_for_request(edits, i, [](RequestSpec& r) { r.sampling = SamplingParams{}; });
  add_for_request(edits, i, [](RequestSpec& r) { r.script.clear(); });
  add_for_request(edits, i, [](RequestSpec& r) { r.draft.clear(); });
  add_for_request(edits, i, [](RequestSpec& r) { r.draft_default = {}; });
  add_for_request(edits, i, [](RequestSpec& r) { r.priority = 0; });
  add_for_request(edits, i, [](RequestSpec& r) { r.adapter.reset(); });
  add_for_request(edits, i, [](RequestSpec& r) { r.cache_salt.reset(); });
  add_for_request(edits, i, [](RequestSpec& r) { r.id = r.key; });
  add_for_request(edits, i, [](RequestSpec& r) { r.prompt_text.clear(); });
  edits.emplace_back([i](Scenario& s) {
    RequestSpec& request = s.requests[i];
    if (!request.hold) return;
    request.hold = false;
    std::erase_if(s.events, [&](const ForcedEvent& event) {
      return event.type == trace::ForcedEventType::Admit && event.request == request.key;
    });
  });
  const SamplingParams& now = scenario.requests[i].sampling;
  const auto sampling = [&](auto member) {
    if (now.*member == plain.*member) return;
    add_for_request(edits, i, [member](RequestSpec& r) {
      const SamplingParams usual;
      r.sampling.*member = usual.*member;
    });
  };
  sampling(&SamplingParams::temperature);
  sampling(&SamplingParams::top_k);
  sampling(&SamplingParams::top_p);
  sampling(&SamplingParams::min_p);
  sampling(&SamplingParams::seed);
  sampling(&SamplingParams::repetition_penalty);
  sampling(&SamplingParams::presence_penalty);
  sampling(&SamplingParams::frequency_penalty);
  sampling(&SamplingParams::logit_bias);
  sampling(&SamplingParams::min_tokens);
  sampling(&SamplingParams::stop_token_ids);
  sampling(&SamplingParams::ignore_eos);
  sampling(&SamplingParams::logprobs);
  sampling(&SamplingParams::processed_logprobs);
}

void add_events(const Scenario& scenario, std::vector<Edit>& edits) {
  const std::size_t events = scenario.events.size();
  for (std::size_t i = 0; i < events + scenario.faults.size(); ++i) {
    const auto add = [&](auto change) {
      edits.emplace_back([i, events, change](Scenario& s) {
        change(i < events ? s.events[i] : s.faults[i - events]);
      });
    };
    const ForcedEvent& event = i < events ? scenario.events[i] : scenario.faults[i - events];
    if (event.delay) add([](ForcedEvent& e) { e.delay = 0; });
    if (event.back) add([](ForcedEvent& e) { e.back = 0; });
    if (!event.tokens.empty()) add([](ForcedEvent& e) { e.tokens.clear(); });
    if (!event.any_pool) {
      add([](ForcedEvent& e) {
        e.any_pool = true;
        e.pool = 0;
      });
    }
    if (event.type == trace::ForcedEventType::Disconnect) {
      add([](ForcedEvent& e) { e.type = trace::ForcedEventType::Cancel; });
    }
    for (std::size_t row = 0; event.rows.size() > 1 && row < event.rows.size(); ++row) {
      add([row](ForcedEvent& e) {
        e.rows.erase(e.rows.begin() + static_cast<std::ptrdiff_t>(row));
      });
    }
  }
}

}  // namespace

std::vector<Edit> default_edits(const Scenario& scenario) {
  std::vector<Edit> edits;
  add_engine(edits);
  add_groups(scenario, edits);
  add_model(scenario, edits);
  for (std::size_t i = 0; i < scenario.requests.size(); ++i) add_request(scenario, i, edits);
  add_events(scenario, edits);
  return edits;
}

}  // namespace lockstep::harness
