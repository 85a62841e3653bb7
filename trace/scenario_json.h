// A Scenario as its JSON file (docs/scenario.md), both ways.
#pragma once

#include <string>
#include <string_view>

#include "base/error.h"
#include "base/limits.h"
#include "trace/scenario.h"

namespace lockstep::trace {

// Limits of the format that keep a run's memory in bounds; each is an Error that says it.
inline constexpr std::uint64_t kIntegerMax = (std::uint64_t{1} << 53) - 1;
inline constexpr std::uint64_t kSequenceTokensMax = 1 << 20;  // of a prompt, script, draft, length
inline constexpr std::uint64_t kPromptTokensMax = 1 << 24;    // of all requests together
inline constexpr std::uint64_t kBlocksMax = 1 << 20;          // of a pool
inline constexpr std::uint64_t kCellsMax = 1 << 26;           // of all pools together
inline constexpr std::uint64_t kRequestsMax = 1 << 16;        // and events, and faults

// `file_name` only places messages. Every default is filled in; prompts are resolved (the text of a
// device model's prompt stays text: only its tokenizer knows the tokens).
// Errors: Input, with the JSON pointer in `where` (a syntax error: with its byte offset); if there
// is none, Unsupported for a field that is well formed and not built, pointer in `where`, name in
// the rule.
base::Result<Scenario> parse_scenario(std::string_view text, const std::string& file_name,
                                      const base::Limits& limits = {});

// The file, with defaults left out, one entry of a list a line. parse_scenario() gives the same
// Scenario, but for what the file does not say (`forced`, `operand_format`, `num_blocks`,
// `gpu_memory_utilization`). It never fails: of a scenario that no file could be (an index that
// names nothing, a number out of range) it gives a text that parse_scenario() refuses.
std::string write_scenario(const Scenario& scenario);

// The word of a type in the file and in results: "cancel".
std::string_view name(ForcedEventType type);

}  // namespace lockstep::trace
