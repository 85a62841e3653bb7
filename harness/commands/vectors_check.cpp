// Vector files: reading, records, and which reader takes them (vectors_check.h).
#include "harness/commands/vectors_check.h"

#include <zstd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <memory>

#include "harness/blocks/trace_file.h"
#include "harness/commands/gzip.h"
#include "harness/commands/vectors_block_traces.h"
#include "harness/commands/vectors_record.h"
#include "reference/formats/vectors_check.h"

namespace lockstep::harness {

namespace {

struct FileCloser {
  void operator()(std::FILE* file) const { std::fclose(file); }
};

base::Result<std::string> read_bytes(const std::string& path, const base::Limits& limits) {
  const std::unique_ptr<std::FILE, FileCloser> file(std::fopen(path.c_str(), "rb"));
  if (!file) return base::input_error(path, std::string("cannot be opened: ") + strerror(errno));
  std::string bytes;
  char buffer[1 << 16];
  for (;;) {
    const std::size_t count = std::fread(buffer, 1, sizeof buffer, file.get());
    if (bytes.size() + count > limits.json_bytes) {
      return base::input_error(path, "is larger than the limit json_bytes");
    }
    bytes.append(buffer, count);
    if (count < sizeof buffer) break;
  }
  if (std::ferror(file.get()) != 0) return base::input_error(path, "cannot be read");
  return bytes;
}

base::Result<std::string> decompress(const std::string& path, const std::string& bytes,
                                     const base::Limits& limits) {
  const std::unique_ptr<ZSTD_DCtx, decltype(&ZSTD_freeDCtx)> context(ZSTD_createDCtx(),
                                                                     &ZSTD_freeDCtx);
  if (!context) return base::environment_error(path, "no memory to decompress");
  ZSTD_inBuffer input{bytes.data(), bytes.size(), 0};
  std::string text;
  std::vector<char> buffer(ZSTD_DStreamOutSize());
  std::size_t left = 1;
  while (input.pos < input.size) {
    ZSTD_outBuffer output{buffer.data(), buffer.size(), 0};
    left = ZSTD_decompressStream(context.get(), &output, &input);
    if (ZSTD_isError(left) != 0) {
      return base::input_error(path, input.pos, "",
                               std::string("is no valid zstd: ") + ZSTD_getErrorName(left));
    }
    if (text.size() + output.pos > limits.json_bytes) {
      return base::input_error(path, "is larger than the limit json_bytes when decompressed");
    }
    text.append(buffer.data(), output.pos);
  }
  if (left != 0) {
    return base::input_error(path, bytes.size(), "",
                             "ends inside a zstd frame: the file is cut off");
  }
  return text;
}

base::Result<VectorReport> check_dequantisation(const std::string& path,
                                                const VectorOptions& options) {
  LS_ASSIGN(const reference::DequantReport dequant,
            reference::check_dequant_vectors(path, options.limits));
  VectorReport report;
  report.path = path;
  report.format = "gguf_dequant";
  report.checked = dequant.checked;
  report.mismatches = dequant.mismatches;
  for (const reference::DequantTypeReport& type : dequant.types) {
    if (!type.supported) ++report.skipped;
  }
  for (const reference::DequantMismatch& mismatch : dequant.first) {
    if (report.first.size() >= options.first_count) break;
    report.first.push_back({0, mismatch.set + ", element " + std::to_string(mismatch.element),
                            hexadecimal(mismatch.want_bits, 32),
                            hexadecimal(mismatch.got_bits, 32)});
  }
  return report;
}

base::Status read_lines(const std::string& text, const VectorOptions& options,
                        VectorReport& report) {
  std::unique_ptr<VectorReader> reader;
  std::uint64_t line = 0;
  for (std::size_t start = 0; start < text.size();) {
    ++line;
    std::size_t end = text.find('\n', start);
    if (end == std::string::npos) end = text.size();
    const auto json =
        nlohmann::json::parse(text.begin() + static_cast<std::ptrdiff_t>(start),
                              text.begin() + static_cast<std::ptrdiff_t>(end), nullptr, false);
    start = end + 1;
    const VectorRecord record{report.path, line, json};
    if (json.is_discarded() || !json.is_object()) return record.error("must be one JSON object");
    LS_ASSIGN(const std::string kind, record.text("rec"));
    if (kind == "header") {
      LS_ASSIGN(report.format, record.text("format"));
      if (report.format == "tcv1") {
        reader = make_tensor_core_reader(options);
      } else if (report.format == "sfv1") {
        reader = make_scalar_format_reader(options);
      } else {
        return record.error("format must be tcv1 or sfv1, not " + report.format);
      }
      continue;
    }
    if (!reader) return record.error("the first record must be a header");
    LS_TRY(reader->read(record, report));
  }
  if (report.checked == 0) return base::input_error(report.path, "holds no vectors");
  return base::Ok{};
}

}  // namespace

base::Result<std::string> read_vector_text(const std::string& path, const base::Limits& limits) {
  LS_ASSIGN(std::string bytes, read_bytes(path, limits));
  if (is_gzip(bytes)) return gunzip(path, bytes, limits.json_bytes);
  constexpr unsigned char kMagic[] = {0x28, 0xb5, 0x2f, 0xfd};
  if (bytes.size() < sizeof kMagic || std::memcmp(bytes.data(), kMagic, sizeof kMagic) != 0) {
    return bytes;
  }
  return decompress(path, bytes, limits);
}

base::Error VectorRecord::error(const std::string& rule) const {
  base::Error result = base::input_error(path, rule);
  result.where = "line " + std::to_string(line);
  return result;
}

bool VectorRecord::has(const char* field) const { return json.contains(field); }

base::Result<std::string> VectorRecord::text(const char* field) const {
  const auto found = json.find(field);
  if (found == json.end() || !found->is_string()) {
    return error(std::string(field) + " must be a string");
  }
  return found->get<std::string>();
}

base::Result<std::uint64_t> VectorRecord::number(const char* field) const {
  const auto found = json.find(field);
  // No count in such a file comes near 2^24; the bound keeps products of two in range.
  if (found == json.end() || !found->is_number_unsigned() ||
      found->get<std::uint64_t>() > (1u << 24)) {
    return error(std::string(field) + " must be a number of 0 to 2^24");
  }
  return found->get<std::uint64_t>();
}

base::Result<std::vector<std::uint32_t>> VectorRecord::codes(const char* field, std::uint64_t count,
                                                             std::uint32_t bits) const {
  LS_ASSIGN(const std::string digits, text(field));
  const std::size_t width = (bits + 3) / 4;
  if (digits.size() != count * width) {
    return error(std::string(field) + " must hold " + std::to_string(count) + " codes of " +
                 std::to_string(width) + " digits, has " + std::to_string(digits.size()) +
                 " digits");
  }
  std::vector<std::uint32_t> result(count);
  for (std::size_t i = 0; i < digits.size(); ++i) {
    const char digit = digits[i];
    std::uint32_t value = 0;
    if (digit >= '0' && digit <= '9') {
      value = static_cast<std::uint32_t>(digit - '0');
    } else if (digit >= 'a' && digit <= 'f') {
      value = static_cast<std::uint32_t>(digit - 'a' + 10);
    } else {
      return error(std::string(field) + " must be hexadecimal (0-9, a-f)");
    }
    std::uint32_t& code = result[i / width];
    code = code << 4 | value;
  }
  for (const std::uint32_t code : result) {
    if (bits < 32 && code >> bits != 0) {
      return error(std::string(field) + " holds a code of more than " + std::to_string(bits) +
                   " bits");
    }
  }
  return result;
}

std::string hexadecimal(std::uint32_t value, std::uint32_t bits) {
  char text[16];
  std::snprintf(text, sizeof text, "%0*x", static_cast<int>((bits + 3) / 4), value);
  return text;
}

void compare(VectorReport& report, const VectorOptions& options, std::uint64_t line,
             std::uint32_t want, std::uint32_t got, std::uint32_t bits,
             const std::function<std::string()>& where) {
  ++report.checked;
  if (want == got) return;
  ++report.mismatches;
  if (report.first.size() >= options.first_count) return;
  report.first.push_back({line, where(), hexadecimal(want, bits), hexadecimal(got, bits)});
}

base::Result<VectorReport> check_vectors(const std::string& path, const VectorOptions& options) {
  if (path.ends_with(".safetensors")) return check_dequantisation(path, options);
  LS_ASSIGN(const std::string text, read_vector_text(path, options.limits));
  VectorReport report;
  report.path = path;
  // A trace is one object; the other formats are lines, of which the first parses as a whole only
  // if it is alone.
  if (text.find("\"ops\"") != std::string::npos) {
    const auto document = nlohmann::json::parse(text, nullptr, false);
    if (is_block_trace(document)) {
      LS_TRY(check_block_trace(document, options, report));
      return report;
    }
  }
  LS_TRY(read_lines(text, options, report));
  return report;
}

}  // namespace lockstep::harness
