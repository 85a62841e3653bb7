// SentencePiece's byte-pair encoding as llama.cpp reads it from a GGUF (`tokenizer.ggml.model` =
// "llama"): characters are merged pair by pair, the pair whose text has the highest score first,
// the leftmost of equals; what is no token in the end becomes byte tokens.
#pragma once

#include <memory>

#include "base/error.h"
#include "base/limits.h"
#include "model/gguf.h"
#include "model/tokenizer.h"
#include "model/tokenizer_settings.h"
#include "model/vocabulary.h"

namespace lockstep::model {

base::Result<std::unique_ptr<Tokenizer>> spm_tokenizer(const GgufFile& gguf, Vocabulary vocabulary,
                                                       TokenizerSettings settings);

}  // namespace lockstep::model
