// libFuzzer target: arbitrary bytes as a safetensors file, and as a config.json beside it. The
// input is the config's length (2 bytes, little-endian), the config, the safetensors file.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>

#include "base/check.h"
#include "model/model.h"
#include "model/safetensors.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace lockstep;
  if (size < 2) return 0;
  const std::size_t stated = data[0] | static_cast<std::size_t>(data[1]) << 8;
  const auto rest = std::as_bytes(std::span(data, size)).subspan(2);
  const auto config = rest.first(std::min(stated, rest.size()));
  const auto file = rest.subspan(config.size());
  const auto model = model::load_safetensors(config, file, "fuzz");
  if (!model.ok()) LS_CHECK(!model.error().message().empty());
  // A config that refuses the model must not hide the reader.
  const auto read = model::read_safetensors(file, "fuzz");
  if (!read.ok()) return 0;
  for (const auto& [label, tensor] : read->tensors.all()) {
    LS_CHECK(tensor.rows() * tensor.row_bytes() == tensor.data.size(), label);
  }
  return 0;
}
