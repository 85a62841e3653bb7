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

trace::Scenario scenario(std::uint32_t num_blocks = 16, std::uint32_t block_size = 4);
trace::Scenario with_group(trace::GroupType type);
std::vector<Verdict> judge(const trace::Scenario& made, const Events& events);
std::string keys(const std::vector<Verdict>& verdicts);
std::vector<std::string> keys_of(const std::vector<Verdict>& verdicts, std::string_view law);
bool has(const std::vector<Verdict>& verdicts, std::string_view key);
std::string first(const std::vector<Verdict>& verdicts);

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

std::vector<trace::TokenId> prompt(std::uint32_t length, std::uint32_t seed = 1);
void step(StreamMachine& machine, const std::vector<StreamMachine::Work>& work);

// A and B of two_requests(): begun; and their prompts computed in one step.
struct Two {
  RequestId a, b;
};
Two begin_two(StreamMachine& machine, std::uint32_t max_tokens = 4);
Two prefill_two(StreamMachine& machine, std::uint32_t max_tokens = 4);
// Two requests side by side: prompts of 6 and 5 in blocks of 4, then three tokens each.
Events two_requests(const trace::Scenario& made);
using Edit = std::function<void(Events&)>;

std::vector<Verdict> judge_edited(const trace::Scenario& made, Events events, const Edit& edit);

#define EXPECT_FIRST(verdicts, key) EXPECT_EQ(first(verdicts), key) << keys(verdicts)

trace::RanRows& ran(Events& events, std::size_t launch, std::size_t row);

// A and B are served one after the other and share a prefix of 8 tokens; A's first two blocks are
// hit. Then C takes four blocks.
Events shared_prefix(const trace::Scenario& made);

}  // namespace lockstep::oracles
