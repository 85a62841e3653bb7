// Shorter lists, earlier times, smaller numbers.
#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "harness/search/edits.h"
#include "harness/search/shrink.h"

namespace lockstep::harness {
namespace {

using trace::ForcedEvent;
using trace::ForcedEventType;
using trace::RequestSpec;
using trace::Scenario;
using trace::TokenId;
using trace::Trigger;

void cut(std::vector<TokenId>& tokens, std::size_t begin, std::size_t count) {
  if (begin >= tokens.size()) return;
  const auto from = tokens.begin() + static_cast<std::ptrdiff_t>(begin);
  tokens.erase(from, from + static_cast<std::ptrdiff_t>(std::min(count, tokens.size() - begin)));
  if (tokens.empty()) tokens.push_back(0);
}

// Halves, quarters, ... single tokens, from the end and from the start.
template <class Add>
void add_cuts(std::size_t length, const Add& add) {
  for (std::size_t count = length / 2; count > 0; count /= 2) {
    add(length - count, count);
    add(0, count);
  }
}

void set_prompt_tokens(RequestSpec& request) { request.prompt_text.clear(); }

void add_prompts(const Scenario& scenario, std::vector<Edit>& edits) {
  std::size_t longest = 0;
  for (const RequestSpec& request : scenario.requests) {
    longest = std::max(longest, request.prompt.size());
  }
  // All together, so that prompts that begin alike still do.
  add_cuts(longest, [&](std::size_t begin, std::size_t count) {
    edits.emplace_back([begin, count](Scenario& s) {
      for (RequestSpec& request : s.requests) {
        set_prompt_tokens(request);
        cut(request.prompt, begin, count);
      }
    });
  });
  for (std::size_t i = 0; i < scenario.requests.size(); ++i) {
    add_cuts(scenario.requests[i].prompt.size(), [&](std::size_t begin, std::size_t count) {
      edits.emplace_back([i, begin, count](Scenario& s) {
        set_prompt_tokens(s.requests[i]);
        cut(s.requests[i].prompt, begin, count);
      });
    });
  }
}

// Blocks of `to` of their `from` tokens, and of each block of a prompt the first `to` tokens: what
// met a block's edge still does.
void add_blocks(const Scenario& scenario, std::vector<Edit>& edits) {
  const std::uint32_t from = scenario.engine.block_size;
  for (const std::uint32_t to : {from / 2, from - 1}) {
    if (to == 0 || to >= from) continue;
    edits.emplace_back([from, to](Scenario& s) {
      const auto scaled = [&](std::uint64_t tokens) {
        return tokens / from * to + std::min<std::uint64_t>(tokens % from, to);
      };
      for (trace::GroupSpec& group : s.engine.groups) {
        group.block_size = std::max(1u, static_cast<std::uint32_t>(scaled(group.block_size)));
        if (group.window)
          group.window = std::max(1u, static_cast<std::uint32_t>(scaled(group.window)));
      }
      s.engine.block_size = to;
      for (RequestSpec& request : s.requests) {
        set_prompt_tokens(request);
        std::vector<TokenId> kept;
        for (std::size_t i = 0; i < request.prompt.size(); ++i) {
          if (i % from < to) kept.push_back(request.prompt[i]);
        }
        request.prompt = std::move(kept);
      }
      for (ForcedEvent& event : s.events) {
        for (auto& row : event.rows)
          row.second = std::max(1u, static_cast<std::uint32_t>(scaled(row.second)));
      }
    });
  }
}

// Other tokens, equal where the old ones were equal, counted in the order in which they come.
void rename_tokens(Scenario& scenario) {
  std::map<TokenId, TokenId> names;
  const TokenId limit = std::min<TokenId>(256, scenario.ledger.tokenizer_size);
  for (RequestSpec& request : scenario.requests) {
    set_prompt_tokens(request);
    for (TokenId& token : request.prompt) {
      const auto next = static_cast<TokenId>(names.size() + 1);
      token = names.try_emplace(token, next % limit).first->second;
    }
  }
}

template <class Entry>
void add_list(std::size_t request, const std::vector<Entry>& list,
              std::vector<Entry> RequestSpec::*member, std::vector<Edit>& edits) {
  for (std::size_t count = list.size() / 2; count > 0; count /= 2) {
    edits.emplace_back([request, member, count](Scenario& s) {
      auto& entries = s.requests[request].*member;
      entries.resize(entries.size() - std::min(count, entries.size()));
    });
  }
  for (std::size_t i = 0; i < list.size(); ++i) {
    if (list[i] == Entry{}) continue;
    edits.emplace_back(
        [request, member, i](Scenario& s) { (s.requests[request].*member)[i] = Entry{}; });
  }
}

// Everything from the time `later` on comes `by` ticks earlier.
void add_times(const Scenario& scenario, std::vector<Edit>& edits) {
  Scenario copy = scenario;
  std::set<trace::Tick> distinct;
  for (const trace::Tick* time : times(copy)) distinct.insert(*time);
  trace::Tick before = 0;
  for (const trace::Tick later : distinct) {
    for (trace::Tick by = later - before; by > 0; by /= 2) {
      edits.emplace_back([later, by](Scenario& s) {
        for (trace::Tick* time : times(s)) {
          if (*time >= later) *time -= by;
        }
        for (trace::Tick& tick : s.observe.ticks) {
          if (tick >= later) tick -= by;
        }
      });
    }
    before = later;
  }
}

class NumberList {
 public:
  explicit NumberList(const Scenario& scenario) : scenario_(scenario) {}

  // `at` gives the field of a scenario.
  template <class At>
  void add(At at, std::uint64_t least) {
    Scenario copy = scenario_;
    const auto value = static_cast<std::uint64_t>(at(copy));
    list_.push_back({value, least, [at](Scenario& s, std::uint64_t number) {
                       auto& field = at(s);
                       field = static_cast<std::remove_reference_t<decltype(field)>>(number);
                     }});
  }

  void engine() {
    const trace::EngineSettings& engine = scenario_.engine;
    const trace::EngineSettings usual;
    for (std::size_t i = 0; i < engine.pools.size(); ++i) {
      if (engine.pools[i].num_blocks == trace::PoolSpec{}.num_blocks) continue;
      add(
          [i](Scenario & s) -> auto& { return s.engine.pools[i].num_blocks; }, 1);
    }
    for (std::size_t i = 0; i < engine.groups.size(); ++i) {
      if (engine.groups[i].type != trace::GroupType::SlidingWindow) continue;
      add(
          [i](Scenario & s) -> auto& { return s.engine.groups[i].window; }, 1);
    }
    for (std::size_t i = 0; i < engine.cudagraph_capture_sizes.size(); ++i) {
      add(
          [i](Scenario & s) -> auto& { return s.engine.cudagraph_capture_sizes[i]; }, 1);
    }
    if (engine.speculative) {
      add(
          [](Scenario & s) -> auto& { return s.engine.speculative->num_speculative_tokens; }, 1);
    }
    const auto unusual = [&](auto member) {
      if (engine.*member == usual.*member) return;
      add(
          [member](Scenario & s) -> auto& { return s.engine.*member; }, 1);
    };
    unusual(&trace::EngineSettings::max_num_seqs);
    unusual(&trace::EngineSettings::max_num_batched_tokens);
    unusual(&trace::EngineSettings::chunked_prefill_size);
    unusual(&trace::EngineSettings::max_model_len);
    unusual(&trace::EngineSettings::max_waiting);
    unusual(&trace::EngineSettings::async_depth);
    unusual(&trace::EngineSettings::watchdog_ticks);
  }

  void requests() {
    for (std::size_t i = 0; i < scenario_.requests.size(); ++i) {
      const RequestSpec& request = scenario_.requests[i];
      add(
          [i](Scenario & s) -> auto& { return s.requests[i].max_tokens; }, 1);
      add(
          [i](Scenario & s) -> auto& { return s.requests[i].sampling.min_tokens; }, 0);
      add(
          [i](Scenario & s) -> auto& { return s.requests[i].tick; }, 0);
      for (std::size_t k = 0; k < request.script.size(); ++k) {
        if (request.script[k].kind != trace::ScriptEntry::Kind::Token) continue;
        add(
            [ i, k ](Scenario & s) -> auto& { return s.requests[i].script[k].token; }, 0);
      }
      for (std::size_t k = 0; k < request.sampling.stop_token_ids.size(); ++k) {
        add(
            [ i, k ](Scenario & s) -> auto& { return s.requests[i].sampling.stop_token_ids[k]; },
            0);
      }
    }
  }

  void events() {
    const std::size_t events = scenario_.events.size();
    for (std::size_t i = 0; i < events + scenario_.faults.size(); ++i) {
      const auto of = [i, events](Scenario& s) -> ForcedEvent& {
        return i < events ? s.events[i] : s.faults[i - events];
      };
      Scenario copy = scenario_;
      const ForcedEvent event = of(copy);
      // A late, double or lost completion is named by its trigger.
      if (event.trigger.kind == Trigger::Kind::Launch) {
        list_.push_back({event.trigger.value, 0, [of](Scenario& s, std::uint64_t number) {
                           of(s).trigger.value = number;
                           of(s).launch = number;
                         }});
      } else {
        const bool tick = event.trigger.kind == Trigger::Kind::AtTick;
        add(
            [of](Scenario & s) -> auto& { return of(s).trigger.value; }, tick ? 0 : 1);
      }
      if (event.ticks)
        add(
            [of](Scenario & s) -> auto& { return of(s).ticks; }, 1);
      if (event.delay)
        add(
            [of](Scenario & s) -> auto& { return of(s).delay; }, 0);
      if (event.back)
        add(
            [of](Scenario & s) -> auto& { return of(s).back; }, 0);
      if (event.blocks)
        add(
            [of](Scenario & s) -> auto& { return of(s).blocks; }, 1);
      for (std::size_t row = 0; row < event.rows.size(); ++row) {
        add(
            [ of, row ](Scenario & s) -> auto& { return of(s).rows[row].second; }, 1);
      }
      if (event.type == ForcedEventType::Fail) {
        add(
            [of](Scenario & s) -> auto& { return of(s).nth; }, 1);
        add(
            [of](Scenario & s) -> auto& { return of(s).count; }, 1);
      }
      if (event.type == ForcedEventType::Flip) {
        add(
            [of](Scenario & s) -> auto& { return of(s).block; }, 0);
        add(
            [of](Scenario & s) -> auto& { return of(s).offset; }, 0);
        add(
            [of](Scenario & s) -> auto& { return of(s).bits; }, 1);
      }
    }
  }

  std::vector<Number> take() { return std::move(list_); }

 private:
  const Scenario& scenario_;
  std::vector<Number> list_;
};

}  // namespace

std::vector<Edit> shorter_edits(const Scenario& scenario) {
  std::vector<Edit> edits;
  add_prompts(scenario, edits);
  add_blocks(scenario, edits);
  for (std::size_t i = 0; i < scenario.requests.size(); ++i) {
    add_list(i, scenario.requests[i].script, &RequestSpec::script, edits);
    add_list(i, scenario.requests[i].draft, &RequestSpec::draft, edits);
  }
  for (std::size_t i = 0; i < scenario.engine.cudagraph_capture_sizes.size(); ++i) {
    edits.emplace_back([i](Scenario& s) {
      auto& sizes = s.engine.cudagraph_capture_sizes;
      sizes.erase(sizes.begin() + static_cast<std::ptrdiff_t>(i));
    });
  }
  add_times(scenario, edits);
  edits.emplace_back(rename_tokens);
  return edits;
}

std::vector<Number> numbers(const Scenario& scenario) {
  NumberList list(scenario);
  list.engine();
  list.requests();
  list.events();
  return list.take();
}

}  // namespace lockstep::harness
