#include "oracles/serving_judge_test.h"

namespace lockstep::oracles {

trace::Scenario scenario(std::uint32_t num_blocks, std::uint32_t block_size) {
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

trace::Scenario with_group(trace::GroupType type) {
  trace::Scenario made = scenario();
  made.engine.groups[0].type = type;
  made.engine.groups[0].window = 6;
  return made;
}

std::vector<Verdict> judge(const trace::Scenario& made, const Events& events) {
  std::vector<Verdict> verdicts;
  for (const std::unique_ptr<Oracle>& law : serving_laws(made)) {
    for (const Event& event : events) law->on_event(event);
    verdicts.push_back(law->finish(verdicts));
  }
  return verdicts;
}

std::string keys(const std::vector<Verdict>& verdicts) {
  std::string text;
  for (const Verdict& verdict : verdicts) {
    for (const Finding& finding : verdict.findings) {
      text += finding.key + ": " + finding.message + "\n";
    }
  }
  return text;
}

std::vector<std::string> keys_of(const std::vector<Verdict>& verdicts, std::string_view law) {
  std::vector<std::string> list;
  for (const Verdict& verdict : verdicts) {
    if (verdict.law != law) continue;
    for (const Finding& finding : verdict.findings) list.push_back(finding.key);
  }
  return list;
}

bool has(const std::vector<Verdict>& verdicts, std::string_view key) {
  for (const Verdict& verdict : verdicts) {
    for (const Finding& finding : verdict.findings) {
      if (finding.key == key) return true;
    }
  }
  return false;
}

std::string first(const std::vector<Verdict>& verdicts) {
  const Finding* finding = earliest_finding(verdicts);
  return finding == nullptr ? "" : finding->key;
}

std::vector<trace::TokenId> prompt(std::uint32_t length, std::uint32_t seed) {
  std::vector<trace::TokenId> tokens;
  for (std::uint32_t i = 0; i < length; ++i) tokens.push_back((i * 7 + seed) % 200);
  return tokens;
}

void step(StreamMachine& machine, const std::vector<StreamMachine::Work>& work) {
  machine.launch(work);
  machine.run();
  ++machine.tick;
  machine.complete();
}

Two begin_two(StreamMachine& machine, std::uint32_t max_tokens) {
  const RequestId a = machine.begin("A", prompt(6, 1), max_tokens);
  return {a, machine.begin("B", prompt(5, 50), max_tokens)};
}

Two prefill_two(StreamMachine& machine, std::uint32_t max_tokens) {
  const Two two = begin_two(machine, max_tokens);
  machine.admit(two.a);
  machine.admit(two.b);
  step(machine, {{two.a, 6, {}}, {two.b, 5, {}}});
  return two;
}

Events two_requests(const trace::Scenario& made) {
  StreamMachine machine(made);
  const auto [a, b] = prefill_two(machine);
  for (int i = 0; i < 3; ++i) step(machine, {{a, 1, {}}, {b, 1, {}}});
  machine.finish();
  return machine.events;
}

std::vector<Verdict> judge_edited(const trace::Scenario& made, Events events, const Edit& edit) {
  edit(events);
  return judge(made, events);
}

trace::RanRows& ran(Events& events, std::size_t launch, std::size_t row) {
  return nth<trace::LaunchRan>(events, launch).rows[row];
}

Events shared_prefix(const trace::Scenario& made) {
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
