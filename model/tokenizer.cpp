// Which tokenizer a GGUF asks for, and its settings.
#include "model/tokenizer.h"

#include <algorithm>
#include <array>

#include "model/arch/gguf_fields.h"
#include "model/gguf.h"
#include "model/pre_tokenizer.h"
#include "model/tokenizer_bpe.h"
#include "model/tokenizer_settings.h"
#include "model/tokenizer_spm.h"
#include "model/vocabulary.h"

namespace lockstep::model {
namespace {

using base::Result;
using base::Status;

constexpr std::string_view kSection = "tokenizer.ggml.";

// Keys that this code reads, and token ids that the encoding of a text never uses.
constexpr auto kKnownKeys = std::to_array<std::string_view>({
    "model",
    "pre",
    "tokens",
    "token_type",
    "token_type_count",
    "scores",
    "merges",
    "add_bos_token",
    "add_eos_token",
    "add_sep_token",
    "add_space_prefix",
    "remove_extra_whitespaces",
    "bos_token_id",
    "eos_token_id",
    "eot_token_id",
    "eom_token_id",
    "unknown_token_id",
    "seperator_token_id",  // llama.cpp's spelling
    "padding_token_id",
    "cls_token_id",
    "mask_token_id",
    "prefix_token_id",
    "suffix_token_id",
    "middle_token_id",
    "fim_pre_token_id",
    "fim_suf_token_id",
    "fim_mid_token_id",
    "fim_pad_token_id",
    "fim_rep_token_id",
    "fim_sep_token_id",
});

Status refuse_unknown_keys(const GgufFile& gguf, const GgufFields& fields) {
  for (const auto& [key, entry] : gguf.metadata) {
    if (!key.starts_with(kSection)) continue;
    const std::string_view rest = std::string_view(key).substr(kSection.size());
    if (std::find(kKnownKeys.begin(), kKnownKeys.end(), rest) == kKnownKeys.end()) {
      return fields.unsupported(key, "no meaning of this metadata key is built");
    }
  }
  return base::Ok{};
}

Result<TokenizerSettings> read_settings(GgufFields& fields, const Vocabulary& vocabulary,
                                        bool is_spm) {
  TokenizerSettings settings;
  const auto token_id = [&](const char* key) -> Result<std::optional<TokenId>> {
    LS_ASSIGN(const auto id, fields.optional_u32(key));
    if (id && *id >= vocabulary.size()) return fields.input(key, "is outside of the vocabulary");
    return id;
  };
  // llama.cpp's defaults: a SentencePiece model adds BOS and a space unless it says otherwise.
  LS_ASSIGN(const auto add_bos, fields.optional_bool(".add_bos_token"));
  LS_ASSIGN(const auto add_space, fields.optional_bool(".add_space_prefix"));
  LS_ASSIGN(const auto bos, token_id(".bos_token_id"));
  LS_ASSIGN(settings.unknown, token_id(".unknown_token_id"));
  settings.add_space_prefix = add_space.value_or(is_spm);
  if (settings.add_space_prefix && !is_spm) {
    return fields.unsupported(".add_space_prefix", "is not built for byte-level BPE");
  }
  if (add_bos.value_or(is_spm)) {
    if (!bos) return fields.input(".bos_token_id", "is missing, but BOS is to be added");
    settings.prefix.push_back(*bos);
  }
  for (const char* key : {".add_eos_token", ".add_sep_token", ".remove_extra_whitespaces"}) {
    LS_TRY(fields.inert(key, 0));
  }
  return settings;
}

}  // namespace

std::string Tokenizer::decode(std::span<const TokenId> tokens) const {
  std::string text;
  for (const TokenId token : tokens) text += piece(token);
  if (adds_space_prefix() && text.starts_with(' ')) text.erase(0, 1);
  return text;
}

Result<std::unique_ptr<Tokenizer>> tokenizer_from_gguf(const GgufFile& gguf,
                                                       const base::Limits& limits) {
  GgufFields fields(gguf, std::string(kSection), limits);
  LS_ASSIGN(const auto model, fields.optional_string(".model"));
  if (!model || *model == "none" || *model == "no_vocab") return std::unique_ptr<Tokenizer>();
  const bool is_spm = *model == "llama";
  if (!is_spm && *model != "gpt2") {
    return fields.unsupported(".model",
                              "\"" + std::string(*model) + "\" is not built, only llama and gpt2");
  }
  LS_TRY(refuse_unknown_keys(gguf, fields));
  LS_ASSIGN(Vocabulary vocabulary, Vocabulary::read(gguf, limits));
  LS_ASSIGN(TokenizerSettings settings, read_settings(fields, vocabulary, is_spm));
  if (is_spm) return spm_tokenizer(gguf, std::move(vocabulary), std::move(settings));
  LS_ASSIGN(const auto pre, fields.optional_string(".pre"));
  if (!pre) return fields.input(".pre", "this metadata key is required and missing");
  const std::optional<PreTokenizer> pre_tokenizer = pre_tokenizer_from_name(*pre);
  if (!pre_tokenizer) {
    return fields.unsupported(".pre", "\"" + std::string(*pre) + "\" is not built, only smollm");
  }
  return bpe_tokenizer(gguf, std::move(vocabulary), std::move(settings), *pre_tokenizer);
}

}  // namespace lockstep::model
