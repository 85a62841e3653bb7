// Byte-level byte-pair encoding as GPT-2 does it (`tokenizer.ggml.model` = "gpt2"): the text is cut
// into words, each byte of a word is a symbol, and neighbours are merged, the pair that comes first
// in `tokenizer.ggml.merges` first, the leftmost of equals.
#pragma once

#include <memory>

#include "base/error.h"
#include "base/limits.h"
#include "model/gguf.h"
#include "model/pre_tokenizer.h"
#include "model/tokenizer.h"
#include "model/tokenizer_settings.h"
#include "model/vocabulary.h"

namespace lockstep::model {

base::Result<std::unique_ptr<Tokenizer>> bpe_tokenizer(const GgufFile& gguf, Vocabulary vocabulary,
                                                       TokenizerSettings settings,
                                                       PreTokenizer pre_tokenizer);

}  // namespace lockstep::model
