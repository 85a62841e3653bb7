// Verdict: what one law says about one run on one device. Finding: one way in which the subject is
// wrong; its key is stable (law, operation or kind; no ids, no ticks).
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "trace/event.h"

namespace lockstep::oracles {

struct Where {
  std::optional<std::uint32_t> request;  // ordinal in the scenario
  std::optional<std::uint32_t> layer;
  std::string op;
  std::optional<std::uint32_t> position;  // of the token in its request
  std::optional<std::uint64_t> index;     // element in the row
};

struct Finding {
  std::string key;                                // "op_bounds.attention_prefill"
  std::string message;                            // one line
  Where where;                                    // the first place
  std::optional<double> got, want, bound, ratio;  // ratio: nothing where the bound is 0
  std::uint64_t count = 1;         // elements (tokens, events) that are wrong in this way
  std::vector<std::string> notes;  // further lines: "before it ...", "extent ..."
  // The first operation that is wrong, with its operands; null for laws about other things.
  std::shared_ptr<const trace::OpCompleted> operation;
  // Serving laws: ordinal in the run's event stream of the event that showed it. The finding of the
  // smallest one, over all laws, is the first; later ones are usually its consequences.
  std::uint64_t event_index = 0;
  // Of the events, for a timeline: the life, and the block of a pool that is wrong.
  std::optional<trace::RequestId> request;
  std::optional<std::uint32_t> pool;
  std::optional<trace::BlockId> block;
};

enum class VerdictKind : std::uint8_t { Pass, Finding, NotApplicable };

struct Verdict {
  std::string law;
  VerdictKind kind = VerdictKind::NotApplicable;
  std::uint64_t checked = 0;
  // op_bounds: values that tapped operations wrote; fewer are checked where an operand has no tap.
  std::optional<std::uint64_t> written = {};
  std::string unit;               // "values", "tokens"
  std::optional<double> worst;    // worst ratio |got - want| / allowed of all that was checked
  std::string where;              // of the worst, or a summary
  std::string reason;             // not applicable: why
  std::vector<Finding> findings;  // in the order met, one per key
};

}  // namespace lockstep::oracles
