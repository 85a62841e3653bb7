// Which cells a query reads, and by which key each of them is weighed.
//
// Equal scores (q = 0) and one-hot V rows: channel c of a query's result is not 0 if and only if
// the query reads the cell whose V is 1 there. Then scores of all bits: K is large where bit b of
// the cell's number is set (then: is not set) and 0 elsewhere, so that the weight of every other
// key is exactly 0; a cell that takes part in the wrong half is weighed by another cell's K.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <set>

#include "harness/alone/probe.h"

namespace lockstep::harness {
namespace {

using trace::Op;
using trace::RowId;
using trace::TapTensor;

// Larger operations are not probed.
constexpr std::size_t kRunsMax = 64, kReadersMax = 1024;
// e^-kFar is 0 in f32, subnormals included.
constexpr double kFar = 256;

// A cell of one KV head.
struct Slot {
  std::size_t cell = 0;  // row of the K and V taps
  std::uint32_t head = 0;
};
// Of each query head of each query, in order: the slots that it gives weight to.
using Reads = std::vector<std::set<std::size_t>>;
struct Answer {
  Reads got, want;
};

class AttentionProbe {
 public:
  AttentionProbe(const RecordedOperation& operation, const ProbeOn& on)
      : on_(on), operation_(with_a_query_more(operation)) {
    const std::uint32_t heads = operation_.config.kv_head_count;
    if (cells().size() * heads > kRunsMax * operation_.config.head_size) return;
    for (std::size_t cell = 0; cell < cells().size(); ++cell) {
      for (std::uint32_t head = 0; head < heads; ++head) slots_.push_back({cell, head});
    }
  }

  base::Result<std::string> run() {
    const std::size_t size = operation_.config.head_size;
    const std::size_t chunks = (slots_.size() + size - 1) / size;
    std::size_t bits = 0;
    while ((std::size_t{1} << bits) < slots_.size()) ++bits;
    if (slots_.empty() || queries().size() * head_count() > kReadersMax) return std::string();
    LS_ASSIGN(const Answer equal, ask(0, [](std::size_t) { return false; }));
    if (std::string line = of_equal_scores(equal); !line.empty()) return line;
    const double raised = raised_value();
    if (raised > 0 && bits > 0 && 2 * bits * chunks <= kRunsMax) {
      LS_ASSIGN(std::string line, of_raised_scores(bits, raised));
      if (!line.empty()) return line;
    }
    return std::string();
  }

 private:
  // Prompts: one query more behind the last of each request, so that a key too many is there to be
  // read.
  static RecordedOperation with_a_query_more(const RecordedOperation& operation) {
    RecordedOperation more = operation;
    std::vector<RowId> queries = operation.call.writes.front().rows;
    std::vector<RowId> cells = operation.call.reads[1].rows;
    if (operation.call.contract.op == Op::AttentionPrefill) {
      std::map<trace::RequestId, trace::Position> last;
      for (const RowId& row : queries) {
        last[row.request] = std::max(last[row.request], row.position);
      }
      std::vector<RowId> longer;
      for (std::size_t i = 0; i < queries.size(); ++i) {
        longer.push_back(queries[i]);
        const RowId next{queries[i].request, queries[i].position + 1};
        const bool ends = queries[i].position == last.at(queries[i].request);
        if (ends && next.position < operation.config.context_length) longer.push_back(next);
      }
      queries = std::move(longer);
      std::erase_if(cells, [&](const RowId& row) {
        return row.position > last[row.request] && last.contains(row.request);
      });
      for (const auto& [request, position] : last) {
        if (position + 1 < operation.config.context_length)
          cells.push_back({request, position + 1});
      }
      std::sort(cells.begin(), cells.end());
    }
    more.call.reads[0] = zeros(operation.call.reads[0], queries);
    more.call.writes[0] = zeros(operation.call.writes[0], queries);
    for (std::size_t i = 1; i < 3; ++i) more.call.reads[i] = zeros(operation.call.reads[i], cells);
    return more;
  }

  const std::vector<RowId>& queries() const { return operation_.call.writes.front().rows; }
  const std::vector<RowId>& cells() const { return operation_.call.reads[1].rows; }
  std::uint32_t head_count() const { return operation_.config.head_count; }

  // The power of two that, on all channels of q and of K, raises a score by at least kFar; 0: none.
  double raised_value() const {
    const double scale = operation_.config.attention_scale * operation_.config.head_size;
    if (!(scale > 0x1p-20) || scale > 0x1p20) return 0;
    return std::ldexp(1.0, std::max(0, std::ilogb(std::sqrt(kFar / scale)) + 1));
  }

  // Which slots have weight when the scores of those that `is_raised` names are raised.
  base::Result<Answer> ask(double raised, const std::function<bool(std::size_t)>& is_raised) {
    const std::size_t size = operation_.config.head_size;
    Answer answer;
    answer.got.resize(queries().size() * head_count());
    answer.want.resize(answer.got.size());
    RecordedOperation asked = operation_;
    if (raised > 0) {
      for (std::size_t row = 0; row < queries().size(); ++row) {
        for (std::size_t c = 0; c < asked.call.reads[0].width; ++c) {
          set(asked.call.reads[0], row, c, raised);
        }
      }
      for (std::size_t s = 0; s < slots_.size(); ++s) {
        for (std::size_t c = 0; is_raised(s) && c < size; ++c) {
          set(asked.call.reads[1], slots_[s].cell, slots_[s].head * size + c, raised);
        }
      }
    }
    for (std::size_t first = 0; first < slots_.size(); first += size) {
      const std::size_t count = std::min(size, slots_.size() - first);
      asked.call.reads[2] = zeros(asked.call.reads[2], cells());
      for (std::size_t i = 0; i < count; ++i) {
        const Slot& slot = slots_[first + i];
        set(asked.call.reads[2], slot.cell, slot.head * size + i, 1);
      }
      LS_ASSIGN(const Probed probed, run_probe(asked, on_));
      for (std::size_t reader = 0; reader < answer.got.size(); ++reader) {
        for (std::size_t i = 0; i < count; ++i) {
          // The result's rows are those of all heads of a query: reader * size is its place.
          const std::size_t at = reader * size + i;
          if (probed.got[0][at] != 0) answer.got[reader].insert(first + i);
          // What no f32 holds is no weight.
          if (static_cast<float>(probed.expected[0].want[at]) != 0) {
            answer.want[reader].insert(first + i);
          }
          if (wrong_weight_.empty() && !probed.holds(0, at) && probed.got[0][at] != 0) {
            wrong_weight_ = fmt::format("{} gives {} the weight {:.4g}; must be {:.4g}",
                                        reader_name(reader), slot_name(reader, first + i),
                                        probed.got[0][at], probed.expected[0].want[at]);
          }
        }
      }
    }
    return answer;
  }

  // --- What is said. ---

  bool many_requests() const {
    return std::any_of(cells().begin(), cells().end(),
                       [&](const RowId& row) { return row.request != cells().front().request; });
  }
  std::string reader_name(std::size_t reader) const {
    const RowId& row = queries()[reader / head_count()];
    std::string name = fmt::format("query {}", row.position);
    if (head_count() > 1) name += fmt::format(", head {},", reader % head_count());
    if (many_requests()) name += fmt::format(" of prompt {}", row.request.value + 1);
    return name;
  }
  // A slot as a reader may call it: other heads and requests are named.
  std::string slot_name(std::size_t reader, std::size_t slot) const {
    return slots_text(reader, {slot}, slots_[slot].head != own_head(reader));
  }
  std::uint32_t own_head(std::size_t reader) const {
    return static_cast<std::uint32_t>(reader % head_count()) /
           (head_count() / operation_.config.kv_head_count);
  }
  bool all_of_own_head(std::size_t reader, const std::set<std::size_t>& slots) const {
    return std::all_of(slots.begin(), slots.end(),
                       [&](std::size_t s) { return slots_[s].head == own_head(reader); });
  }
  std::string slots_text(std::size_t reader, const std::set<std::size_t>& slots,
                         bool name_heads) const {
    const RowId& row = queries()[reader / head_count()];
    std::map<std::pair<std::uint32_t, std::uint32_t>, std::vector<std::uint64_t>> groups;
    for (const std::size_t s : slots) {
      const RowId& cell = cells()[slots_[s].cell];
      groups[{cell.request.value, slots_[s].head}].push_back(cell.position);
    }
    if (groups.empty()) return "no key";
    std::string text;
    for (const auto& [owner, positions] : groups) {
      if (!text.empty()) text += " and ";
      text += list_of(positions, "key", "keys");
      if (name_heads) text += fmt::format(" of KV head {}", owner.second);
      if (owner.first != row.request.value) text += fmt::format(" of prompt {}", owner.first + 1);
    }
    return text;
  }

  static std::string counted_keys(std::size_t count, const char* what) {
    constexpr const char* kWords[] = {"no", "one", "two", "three"};
    const std::string number = count < 4 ? kWords[count] : std::to_string(count);
    return fmt::format("{} key{} too {}", number, count == 1 ? "" : "s", what);
  }

  std::string of_equal_scores(const Answer& answer) {
    std::vector<std::size_t> wrong;
    for (std::size_t reader = 0; reader < answer.got.size(); ++reader) {
      if (answer.got[reader] != answer.want[reader]) wrong.push_back(reader);
    }
    if (wrong.empty()) return wrong_weight_;
    const std::size_t first = wrong.front();
    const std::set<std::size_t>&got = answer.got[first], &want = answer.want[first];
    const bool name_heads = !all_of_own_head(first, got);
    std::string text =
        fmt::format("{} reads {}", reader_name(first), slots_text(first, got, name_heads));
    const bool extra = std::includes(got.begin(), got.end(), want.begin(), want.end());
    const bool less = std::includes(want.begin(), want.end(), got.begin(), got.end());
    if (extra || less) {
      // A second query shows how the fault moves with the position.
      const auto second = std::find_if(wrong.begin(), wrong.end(), [&](std::size_t reader) {
        return reader / head_count() != first / head_count() &&
               reader % head_count() == first % head_count() &&
               answer.got[reader].size() + want.size() == answer.want[reader].size() + got.size();
      });
      if (second != wrong.end()) {
        text += fmt::format(", {} reads {}", reader_name(*second),
                            slots_text(*second, answer.got[*second], name_heads));
      } else {
        text += fmt::format("; must be {}", slots_text(first, want, name_heads));
      }
      return text + ": " +
             (extra ? counted_keys(got.size() - want.size(), "many")
                    : counted_keys(want.size() - got.size(), "few"));
    }
    return text + fmt::format("; must be {}", slots_text(first, want, name_heads));
  }

  // got and want of each bit, set and not set.
  base::Result<std::string> of_raised_scores(std::size_t bits, double raised) {
    std::vector<Answer> set_answers, clear_answers;
    for (std::size_t bit = 0; bit < bits; ++bit) {
      for (const bool polarity : {true, false}) {
        LS_ASSIGN(Answer answer,
                  ask(raised, [&](std::size_t s) { return ((s >> bit & 1) != 0) == polarity; }));
        (polarity ? set_answers : clear_answers).push_back(std::move(answer));
      }
    }
    const std::size_t readers = set_answers.front().got.size();
    for (std::size_t reader = 0; reader < readers; ++reader) {
      std::set<std::size_t> kept;
      std::string other;
      for (std::size_t s = 0; s < slots_.size(); ++s) {
        std::size_t weighed_by = 0;
        bool moved = false;
        for (std::size_t bit = 0; bit < bits; ++bit) {
          const auto has = [&](const Answer& answer, bool got) {
            return (got ? answer.got : answer.want)[reader].contains(s);
          };
          const bool set_got = has(set_answers[bit], true), set_want = has(set_answers[bit], false);
          const bool clear_got = has(clear_answers[bit], true);
          const bool clear_want = has(clear_answers[bit], false);
          if (set_got && clear_got && set_want != clear_want) kept.insert(s);
          const bool decides = set_got != clear_got;
          moved |= decides && (set_got != set_want || clear_got != clear_want);
          if (decides ? set_got : (s >> bit & 1) != 0) weighed_by |= std::size_t{1} << bit;
        }
        if (moved && other.empty() && weighed_by != s && weighed_by < slots_.size()) {
          other = fmt::format("{} weighs {} by the K of {}", reader_name(reader),
                              slot_name(reader, s), slot_name(reader, weighed_by));
        }
      }
      if (!kept.empty()) {
        return fmt::format("{} keeps weight on {} when another key outweighs {} by e^{:.0f}",
                           reader_name(reader),
                           slots_text(reader, kept, !all_of_own_head(reader, kept)),
                           kept.size() == 1 ? "it" : "them", kFar);
      }
      if (!other.empty()) return other;
    }
    return std::string();
  }

  const ProbeOn on_;
  RecordedOperation operation_;
  std::vector<Slot> slots_;
  std::string wrong_weight_;  // of the first element whose weight is not that of its query's keys
};

}  // namespace

base::Result<std::string> probe_attention(const RecordedOperation& operation, const ProbeOn& on) {
  LS_ASSIGN(const std::string keys, AttentionProbe(operation, on).run());
  if (!keys.empty()) return keys;
  LS_ASSIGN(const std::string weights, probe_attention_weights(operation, on));
  return "probe shows the right keys; " + (weights.empty() ? "the numbers differ" : weights);
}

}  // namespace lockstep::harness
