// libFuzzer target: arbitrary bytes as a GGUF model. An Error or a model that can be used.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "base/check.h"
#include "model/model.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace lockstep;
  const auto model = model::load_gguf(std::as_bytes(std::span(data, size)), "fuzz.gguf");
  if (!model.ok()) {
    LS_CHECK(!model.error().message().empty());
    return 0;
  }
  for (const auto& [label, tensor] : model->tensors.all()) {
    LS_CHECK(tensor.rows() * tensor.row_bytes() == tensor.data.size(), label);
  }
  if (model->tokenizer) {
    // The input's end is also a text; a short one, so that runs stay fast.
    const std::size_t bytes = std::min<std::size_t>(size, 256);
    const std::string_view text(reinterpret_cast<const char*>(data) + size - bytes, bytes);
    const auto tokens = model->tokenizer->encode(text);
    (void)model->tokenizer->decode(tokens);
  }
  return 0;
}
