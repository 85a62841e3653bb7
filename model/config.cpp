// Names of the config's enumerators, for messages and reports.
#include "model/config.h"

#include "base/check.h"

namespace lockstep::model {

std::string_view name(Arch arch) {
  switch (arch) {
    case Arch::Llama:
      return "llama";
    case Arch::Gemma3:
      return "gemma3";
  }
  LS_CHECK(false);
  return {};
}

std::string_view name(WeightRole role) {
  switch (role) {
    case WeightRole::TokenEmbedding:
      return "token_embedding";
    case WeightRole::FinalNorm:
      return "final_norm";
    case WeightRole::Head:
      return "head";
    case WeightRole::AttnNorm:
      return "attn_norm";
    case WeightRole::Query:
      return "query";
    case WeightRole::Key:
      return "key";
    case WeightRole::Value:
      return "value";
    case WeightRole::AttnOutput:
      return "attn_output";
    case WeightRole::QueryNorm:
      return "query_norm";
    case WeightRole::KeyNorm:
      return "key_norm";
    case WeightRole::PostAttnNorm:
      return "post_attn_norm";
    case WeightRole::FfnNorm:
      return "ffn_norm";
    case WeightRole::Gate:
      return "gate";
    case WeightRole::Up:
      return "up";
    case WeightRole::Down:
      return "down";
    case WeightRole::PostFfnNorm:
      return "post_ffn_norm";
  }
  LS_CHECK(false);
  return {};
}

}  // namespace lockstep::model
