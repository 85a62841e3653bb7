// What the checkers say. The same thing said at the same instructions is one Finding with a count.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

#include "device/vgpu/check/access.h"

namespace lockstep::device::vgpu::check {

inline constexpr u32 kNoInstruction = 0xffffffff;

struct Finding {
  std::string checker;  // memcheck, initcheck, racecheck, synccheck
  std::string kind;     // stable: "out_of_bounds", "uninitialized_read", "shared", "global", ...
  std::string message;  // one line, of the first time
  u32 instruction = kNoInstruction;
  u32 second_instruction = kNoInstruction;  // the other access of a race
  u64 count = 1;
};

// Kept in the order in which they were found; at most kMaxFindings different ones.
class Findings {
 public:
  static constexpr std::size_t kMaxFindings = 256;
  // `message` is called for the first of its kind only: a callable that gives the text.
  template <class Message>
  void add(const char* checker, const char* kind, u32 instruction, u32 second, u64 count,
           const Message& message) {
    if (const auto found = known_.find(
            std::tuple(std::string_view(checker), std::string_view(kind), instruction, second));
        found != known_.end()) {
      list_[found->second].count += count;
    } else if (list_.size() < kMaxFindings) {
      insert({checker, kind, message(), instruction, second, count});
    }
  }
  void merge(const Findings& other);
  bool empty() const { return list_.empty(); }
  const std::vector<Finding>& list() const { return list_; }
  void clear();

 private:
  using Key = std::tuple<std::string, std::string, u32, u32>;
  struct Less {
    using is_transparent = void;
    template <class A, class B>
    bool operator()(const A& a, const B& b) const {
      return std::tuple<std::string_view, std::string_view, u32, u32>(a) <
             std::tuple<std::string_view, std::string_view, u32, u32>(b);
    }
  };
  void insert(Finding finding);
  std::vector<Finding> list_ = {};
  std::map<Key, std::size_t, Less> known_ = {};
};

}  // namespace lockstep::device::vgpu::check
