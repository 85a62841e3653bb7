// Every parser's limits in one place. A file that exceeds one is an Error that names the limit.
#pragma once

#include <cstdint>

namespace lockstep::base {

struct Limits {
  std::uint64_t file_bytes = std::uint64_t{1} << 40;
  // GGUF and safetensors
  std::uint64_t tensor_count = 1 << 20;
  std::uint64_t tensor_dimensions = 4;
  std::uint64_t metadata_count = 1 << 16;
  std::uint64_t string_bytes = std::uint64_t{1} << 26;  // one string
  std::uint64_t array_elements = std::uint64_t{1} << 24;
  std::uint64_t safetensors_header_bytes = 100'000'000;
  // model configuration
  std::uint64_t layer_count = 4096;
  std::uint64_t axis_elements = std::uint64_t{1} << 31;
  std::uint64_t vocabulary_size = std::uint64_t{1} << 24;
  // JSON of any kind
  std::uint64_t json_bytes = std::uint64_t{1} << 28;
  std::uint64_t json_depth = 64;
  // .lstrace: of one frame, and of a file; both count bytes after decompression
  std::uint64_t trace_frame_bytes = std::uint64_t{1} << 28;
  std::uint64_t trace_bytes = std::uint64_t{1} << 30;
  std::uint64_t trace_frames = 1 << 16;
  // PTX
  std::uint64_t ptx_bytes = std::uint64_t{1} << 28;
  std::uint64_t ptx_instructions = 1 << 24;
  std::uint64_t ptx_registers = 1 << 20;  // of one entry
};

}  // namespace lockstep::base
