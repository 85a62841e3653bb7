// safetensors: u64 length, a JSON header of that length, tensor data. Source: the format section of
// the safetensors project's README.
#pragma once

#include <map>
#include <span>
#include <string>
#include <string_view>

#include "base/error.h"
#include "base/limits.h"
#include "model/tensor_table.h"

namespace lockstep::model {

struct SafetensorsFile {
  std::map<std::string, std::string, std::less<>> metadata;  // "__metadata__"
  TensorTable tensors;
};

// `file` names the input in messages; tensor data are views into `bytes`. Errors (Input unless
// said, each with its offset): truncation; a limit exceeded; a header that isn't the format's JSON;
// a duplicate name; a dtype that we don't know (Unsupported); shape, dtype and offsets that
// disagree; data that overlap, leave a hole, or don't end with the file.
base::Result<SafetensorsFile> read_safetensors(std::span<const std::byte> bytes,
                                               std::string_view file,
                                               const base::Limits& limits = {});

}  // namespace lockstep::model
