#include "harness/report/safetensors_writer.h"

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

namespace lockstep::harness {

base::Status write_safetensors(const std::string& path, std::span<const OutputTensor> tensors,
                               const std::map<std::string, std::string>& metadata) {
  nlohmann::ordered_json header = nlohmann::ordered_json::object();
  if (!metadata.empty()) header["__metadata__"] = metadata;
  std::uint64_t offset = 0;
  for (const OutputTensor& tensor : tensors) {
    header[tensor.name] = {{"dtype", tensor.dtype},
                           {"shape", tensor.shape},
                           {"data_offsets", {offset, offset + tensor.bytes.size()}}};
    offset += tensor.bytes.size();
  }
  std::string text = header.dump();
  while (text.size() % 8 != 0) text += ' ';
  // A device or a pipe is written as it is; only a regular file can be replaced by renaming.
  std::error_code error;
  const bool special =
      std::filesystem::exists(path, error) && !std::filesystem::is_regular_file(path, error);
  const std::string partial = special ? path : path + ".part";
  {
    std::ofstream stream(partial, std::ios::binary | std::ios::trunc);
    const std::uint64_t size = text.size();
    stream.write(reinterpret_cast<const char*>(&size), sizeof size);
    stream.write(text.data(), static_cast<std::streamsize>(text.size()));
    for (const OutputTensor& tensor : tensors) {
      stream.write(reinterpret_cast<const char*>(tensor.bytes.data()),
                   static_cast<std::streamsize>(tensor.bytes.size()));
    }
    stream.flush();
    if (!stream) {
      if (!special) std::remove(partial.c_str());
      return base::environment_error(path,
                                     "cannot be written (no such folder, or the disk is full)");
    }
  }
  if (!special) std::filesystem::rename(partial, path, error);
  if (error) return base::environment_error(path, "cannot be written: " + error.message());
  return base::Ok{};
}

}  // namespace lockstep::harness
