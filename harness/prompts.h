// Prompts of a run: from options, a JSON Lines file, or the defaults.
#pragma once

#include <string>
#include <vector>

#include "base/error.h"
#include "model/model.h"
#include "trace/scenario.h"

namespace lockstep::harness {

struct PromptOptions {
  std::vector<std::string> texts;   // --prompt, may be given again
  std::vector<std::string> tokens;  // --tokens 1,2,3
  std::string file;                 // --prompts FILE.jsonl
  std::uint32_t steps = 0;          // --steps; 0: 16
  std::uint64_t seed = 1;           // of random tokens, where the model has no tokenizer
};

// "1,2,3" -> ids, each below the vocabulary's size.
base::Result<std::vector<trace::TokenId>> parse_tokens(const std::string& text,
                                                       const std::string& option,
                                                       std::uint32_t vocab_size);

base::Result<std::vector<trace::RequestSpec>> make_requests(const model::Model& model,
                                                            const PromptOptions& options);

}  // namespace lockstep::harness
