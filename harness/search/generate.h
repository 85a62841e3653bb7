// generate: choices -> Scenario, a run of the serving core on the ledger. Swarm testing (Groce,
// Zhang, Eide, Chen, Regehr, ISSTA 2012): each seed first switches features on and off, so that
// some runs are all cancellations and others have none.
//
// What comes out is always valid (parsing what is written gives the same scenario), names only what
// exists, asks for nothing that isn't built, and ends by itself on a correct engine: what is held
// is admitted, what can never be computed is not asked for. Sizes sit at multiples of a block, one
// above and one below; a run takes some hundred rows.
#pragma once

#include <array>
#include <bitset>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "harness/search/choices.h"
#include "trace/scenario.h"

namespace lockstep::harness {

enum class Feature : std::uint8_t {
  SmallModel,      // few tokens, other EOS ids
  SeveralGroups,   // sliding windows, recurrent states, other block sizes
  SharedPool,      // groups on one pool
  Scarce,          // a pool that just holds the largest request
  OddBlocks,       // block sizes of 1, 3, 5
  NoPrefixCache,   //
  FewHashBits,     // keys of 8 bits: other contents meet
  SharedPrefixes,  // prompts that begin alike
  SmallBudget,     // few tokens a step
  NoChunks,        // a prompt in one step
  FewSequences,    //
  ShortContext,    // max_model_len near the longest request
  FullQueue,       // max_waiting
  Priorities,      //
  Async,           // 2 or 3 launches in flight
  Padding,         // capture sizes
  Fills,           // pad_fill and fill_new_blocks
  Speculation,     //
  Adapters,        // names, ids and salts that look alike
  Sampled,         // temperatures
  Penalties,       //
  MinTokens,       //
  StopIds,         //
  Scripts,         //
  Logprobs,        //
  IdReuse,         //
  Holds,           //
  Cancels,         // and disconnects
  Forks,           //
  Preempts,        //
  Evictions,       // evict, reset_prefix_cache
  Schedules,       // forced steps
  Completions,     // late, duplicate, lost
  Stalls,          //
  Failures,        // allocations, launches
  Flips,           //
  DeviceLost,      //
  ManyRequests,    //
};
inline constexpr std::size_t kFeatureCount = static_cast<std::size_t>(Feature::ManyRequests) + 1;
using Features = std::bitset<kFeatureCount>;

struct FeatureWeight {
  Feature feature;
  std::string_view name;
  std::uint32_t percent;  // of the seeds have it
};
const std::array<FeatureWeight, kFeatureCount>& feature_weights();

trace::Scenario generate(Choices& choices);
// Case `number` of the campaign of `seed`.
trace::Scenario generate(std::uint64_t seed, std::uint64_t number);
// A fuzzer's bytes, one choice each.
trace::Scenario generate_from_bytes(std::span<const std::byte> bytes);

}  // namespace lockstep::harness
