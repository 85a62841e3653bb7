// What the tests of the serving laws share: short streams, an edit of one event, and what all laws
// find in them.
#pragma once

#include <functional>
#include <stdexcept>

#include "oracles/findings.h"
#include "oracles/oracle.h"
#include "oracles/serving_stream_test.h"

namespace lockstep::oracles {

using trace::Event;
using Events = std::vector<Event>;

inline trace::Scenario scenario(std::uint32_t num_blocks = 16, std::uint32_t block_size = 4) {
  trace::Scenario made;
  made.engine.pools[0].num_blocks = num_blocks;
  made.engine.groups[0].block_size = block_size;
  // The streams choose steps and victims themselves, as if all were forced.
  made.events.resize(2);
  made.events[0].type = trace::ForcedEventType::Schedule;
  made.events[1].type = trace::ForcedEventType::Preempt;
  made.engine.max_num_seqs = 64;
  made.engine.async_depth = 3;
  made.engine.speculative = trace::SpeculativeSpec{4, trace::Acceptance::Rejection};
  return made;
}

inline trace::Scenario with_group(trace::GroupType type) {
  trace::Scenario made = scenario();
  made.engine.groups[0].type = type;
  made.engine.groups[0].window = 6;
  return made;
}

inline std::vector<Verdict> judge(const trace::Scenario& made, const Events& events) {
  std::vector<Verdict> verdicts;
  for (const std::unique_ptr<Oracle>& law : serving_laws(made)) {
    for (const Event& event : events) law->on_event(event);
    verdicts.push_back(law->finish(verdicts));
  }
  return verdicts;
}

inline std::string keys(const std::vector<Verdict>& verdicts) {
  std::string text;
  for (const Verdict& verdict : verdicts) {
    for (const Finding& finding : verdict.findings) {
      text += finding.key + ": " + finding.message + "\n";
    }
  }
  return text;
}

inline std::vector<std::string> keys_of(const std::vector<Verdict>& verdicts,
                                        std::string_view law) {
  std::vector<std::string> list;
  for (const Verdict& verdict : verdicts) {
    if (verdict.law != law) continue;
    for (const Finding& finding : verdict.findings) list.push_back(finding.key);
  }
  return list;
}

inline bool has(const std::vector<Verdict>& verdicts, std::string_view key) {
  for (const Verdict& verdict : verdicts) {
    for (const Finding& finding : verdict.findings) {
      if (finding.key == key) return true;
    }
  }
  return false;
}

inline std::string first(const std::vector<Verdict>& verdicts) {
  const Finding* finding = earliest_finding(verdicts);
  return finding == nullptr ? "" : finding->key;
}

// The n-th event of a type.
template <class T>
T& nth(Events& events, std::size_t n) {
  for (Event& event : events) {
    if (T* found = std::get_if<T>(&event); found != nullptr && n-- == 0) return *found;
  }
  throw std::out_of_range("no such event");
}
template <class T>
std::size_t place(const Events& events, std::size_t n) {
  for (std::size_t i = 0; i < events.size(); ++i) {
    if (std::holds_alternative<T>(events[i]) && n-- == 0) return i;
  }
  throw std::out_of_range("no such event");
}

inline std::vector<trace::TokenId> prompt(std::uint32_t length, std::uint32_t seed = 1) {
  std::vector<trace::TokenId> tokens;
  for (std::uint32_t i = 0; i < length; ++i) tokens.push_back((i * 7 + seed) % 200);
  return tokens;
}

inline void step(StreamMachine& machine, const std::vector<StreamMachine::Work>& work) {
  machine.launch(work);
  machine.run();
  ++machine.tick;
  machine.complete();
}

// Two requests side by side: prompts of 6 and 5 in blocks of 4, then three tokens each.
inline Events two_requests(const trace::Scenario& made) {
  StreamMachine machine(made);
  const RequestId a = machine.begin("A", prompt(6, 1), 4);
  const RequestId b = machine.begin("B", prompt(5, 50), 4);
  machine.admit(a);
  machine.admit(b);
  step(machine, {{a, 6, {}}, {b, 5, {}}});
  for (int i = 0; i < 3; ++i) step(machine, {{a, 1, {}}, {b, 1, {}}});
  machine.finish();
  return machine.events;
}

using Edit = std::function<void(Events&)>;

inline std::vector<Verdict> judge_edited(const trace::Scenario& made, Events events,
                                         const Edit& edit) {
  edit(events);
  return judge(made, events);
}

#define EXPECT_FIRST(verdicts, key) EXPECT_EQ(first(verdicts), key) << keys(verdicts)

inline trace::RanRows& ran(Events& events, std::size_t launch, std::size_t row) {
  return nth<trace::LaunchRan>(events, launch).rows[row];
}

// A and B are served one after the other and share a prefix of 8 tokens; A's first two blocks are
// hit. Then C takes four blocks.
inline Events shared_prefix(const trace::Scenario& made) {
  StreamMachine machine(made);
  const RequestId a = machine.begin("A", prompt(9), 2);
  machine.admit(a);
  step(machine, {{a, 9, {}}});
  step(machine, {{a, 1, {}}});
  const RequestId b = machine.begin("B", prompt(10), 2);
  machine.admit(b);
  step(machine, {{b, 2, {}}});
  step(machine, {{b, 1, {}}});
  const RequestId c = machine.begin("C", prompt(16, 90), 1);
  machine.admit(c);
  step(machine, {{c, 16, {}}});
  machine.finish();
  return machine.events;
}

}  // namespace lockstep::oracles
