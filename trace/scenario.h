// Scenario: all that a run depends on.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "model/dtype.h"
#include "trace/ids.h"

namespace lockstep::trace {

struct RequestSpec {
  std::string key;              // "1", "2", ...: its name in reports
  std::string prompt_text;      // as given; empty if tokens were given
  std::vector<TokenId> prompt;  // BOS included where the model wants one
  std::uint32_t max_tokens = 16;
  std::vector<TokenId> forced;  // teacher forcing: output token i is fed as forced[i]; the
                                // engine's own choice is still recorded. Empty: its own is fed.
  std::vector<TokenId> stop_token_ids;
  Tick tick = 0;  // arrival
};

struct EngineSettings {
  std::uint32_t block_size = 16;    // tokens in a KV page
  std::uint32_t num_blocks = 1024;  // pages of the pool
  std::uint32_t max_num_seqs = 8;
  std::uint32_t max_num_batched_tokens = 2048;
  std::uint32_t chunked_prefill_size = 0;  // most prompt tokens of a request in a step; 0: budget
  // Operands of tensor cores, KV cells and P: F16 or BF16.
  model::DType operand_format = model::DType::F16;
};

struct Scenario {
  std::uint64_t seed = 1;
  std::string model;  // path, or tiny:ARCH:SEED
  std::string device = "vgpu:sm_90";
  EngineSettings engine;
  std::vector<RequestSpec> requests;
};

}  // namespace lockstep::trace
