#include "trace/trace_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zstd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <set>
#include <string_view>

#include "base/check.h"
#include "base/hash.h"
#include "model/file.h"
#include "model/json.h"
#include "trace/event_json.h"

namespace lockstep::trace {
namespace {

// As in PNG: a byte that is no ASCII, both line ends and Ctrl-Z show a file sent as text.
constexpr std::array<unsigned char, 8> kMagic = {0x89, 'L', 'S', 'T', 0x0d, 0x0a, 0x1a, 0x0a};
constexpr std::size_t kFileHeaderBytes = kMagic.size() + 4;  // and the version
constexpr std::size_t kFrameHeaderBytes = 4 + 8 + 8;         // kind, raw size, stored size
constexpr std::size_t kHashBytes = 16;
constexpr std::size_t kEndBytes = 8 + kHashBytes;  // frames before it, hash of the file before it
// Events are cut into frames of about so much text.
constexpr std::size_t kEventFrameBytes = 1 << 20;
constexpr std::size_t kBlobNameBytesMax = 4096;
constexpr int kCompressionLevel = 3;

using Bytes = std::vector<std::byte>;

template <class T>
void append_number(Bytes& bytes, T value) {  // little-endian
  for (std::size_t i = 0; i < sizeof(T); ++i) {
    bytes.push_back(static_cast<std::byte>(value >> (8 * i)));
  }
}
template <class T>
T number_at(std::span<const std::byte> bytes, std::size_t offset) {
  T value = 0;
  for (std::size_t i = 0; i < sizeof(T); ++i) {
    value = static_cast<T>(value | static_cast<T>(bytes[offset + i]) << (8 * i));
  }
  return value;
}
void append(Bytes& bytes, std::span<const std::byte> more) {
  bytes.insert(bytes.end(), more.begin(), more.end());
}
std::span<const std::byte> as_bytes(std::string_view text) {
  return std::as_bytes(std::span(text.data(), text.size()));
}
std::string_view as_text(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}
// The hash's digits in the order of its hex form.
std::array<std::byte, kHashBytes> hash_of(std::span<const std::byte> bytes) {
  const base::Hash128 hash = base::hash_bytes(bytes);
  std::array<std::byte, kHashBytes> result;
  for (std::size_t i = 0; i < 8; ++i) {
    result[i] = static_cast<std::byte>(hash.high >> (56 - 8 * i));
    result[8 + i] = static_cast<std::byte>(hash.low >> (56 - 8 * i));
  }
  return result;
}
bool equal(std::span<const std::byte> a, std::span<const std::byte> b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end());
}

// --- writing ---

class Writer {
 public:
  Writer(std::string file, const base::Limits& limits) : file_(std::move(file)), limits_(limits) {
    append(bytes_, std::as_bytes(std::span(kMagic)));
    append_number(bytes_, kTraceVersion);
  }

  void frame(std::string_view kind, std::span<const std::byte> raw) {
    LS_CHECK(kind.size() == 4);
    raw_bytes_ += raw.size();
    ++frames_;
    if (raw.size() > limits_.trace_frame_bytes || raw_bytes_ > limits_.trace_bytes ||
        frames_ > limits_.trace_frames) {
      if (!error_) {
        error_ = base::input_error(file_, "the trace's " + std::string(kind) +
                                              " is beyond a limit of .lstrace files (trace_bytes, "
                                              "trace_frame_bytes, trace_frames)");
      }
      return;
    }
    const std::size_t start = bytes_.size();
    append(bytes_, as_bytes(kind));
    append_number(bytes_, std::uint64_t{raw.size()});
    const std::size_t bound = ZSTD_compressBound(raw.size());
    const std::size_t body = start + kFrameHeaderBytes;
    bytes_.resize(body + bound);
    const std::size_t stored =
        ZSTD_compress(bytes_.data() + body, bound, raw.data(), raw.size(), kCompressionLevel);
    LS_CHECK(ZSTD_isError(stored) == 0, ZSTD_getErrorName(stored));
    Bytes size;
    append_number(size, std::uint64_t{stored});
    std::copy(size.begin(), size.end(), bytes_.begin() + static_cast<std::ptrdiff_t>(start) + 12);
    bytes_.resize(body + stored);
    append(bytes_, hash_of(std::span(bytes_).subspan(start)));
  }
  void end() {
    Bytes raw;
    append_number(raw, frames_);
    append(raw, hash_of(bytes_));
    frame("END ", raw);
  }
  base::Result<Bytes> finish() && {
    if (error_) return *std::move(error_);
    return std::move(bytes_);
  }

 private:
  std::string file_;
  const base::Limits& limits_;
  Bytes bytes_;
  std::uint64_t frames_ = 0, raw_bytes_ = 0;
  std::optional<base::Error> error_;
};

void write_events(const std::vector<Event>& events, Writer& writer) {
  std::string text;
  for (const Event& event : events) {
    if (!is_stored(event)) continue;
    text += write_event(event);
    text += '\n';
    if (text.size() < kEventFrameBytes) continue;
    writer.frame("EVNT", as_bytes(text));
    text.clear();
  }
  if (!text.empty()) writer.frame("EVNT", as_bytes(text));
}

// --- reading ---

struct Frame {
  std::string kind;
  std::uint64_t offset = 0;  // in the file
  Bytes raw;
};

class Reader {
 public:
  Reader(std::span<const std::byte> bytes, const std::string& file, const base::Limits& limits)
      : bytes_(bytes), file_(file), limits_(limits) {}

  base::Result<Trace> read() {
    LS_TRY(read_header());
    for (;;) {
      LS_ASSIGN(const Frame frame, next_frame());
      if (frame.kind == "END ") {
        LS_TRY(read_end(frame));
        return std::move(trace_);
      }
      ++frames_;
      LS_TRY(read_part(frame));
    }
  }

 private:
  // The order of a file's frames: each of the first three once, then any number of the others.
  enum Part : std::uint8_t { kProgram, kScenario, kFinding, kEvents, kBlob };

  base::Error error(std::uint64_t offset, std::string where, std::string rule) const {
    return base::input_error(file_, offset, std::move(where), std::move(rule));
  }
  base::Error error(const Frame& frame, std::string rule) const {
    return error(frame.offset, "frame " + std::to_string(frames_) + " (" + frame.kind + ")",
                 std::move(rule));
  }

  base::Status read_header() {
    const auto magic = std::as_bytes(std::span(kMagic));
    if (bytes_.size() < kFileHeaderBytes || !equal(bytes_.first(magic.size()), magic)) {
      return error(0, "", "is no .lstrace file: it must begin with the 8 bytes of its magic");
    }
    const auto version = number_at<std::uint32_t>(bytes_, magic.size());
    if (version != kTraceVersion) {
      return error(magic.size(), "version",
                   "must be " + std::to_string(kTraceVersion) + ", not " + std::to_string(version));
    }
    offset_ = kFileHeaderBytes;
    return base::Ok{};
  }

  base::Result<Frame> next_frame() {
    Frame frame;
    frame.offset = offset_;
    const std::string where = "frame " + std::to_string(frames_ + 1);
    const auto rest = bytes_.subspan(offset_);
    if (rest.size() < kFrameHeaderBytes + kHashBytes) {
      return error(offset_, where, "the file ends before its END frame: it is torn");
    }
    const auto raw_size = number_at<std::uint64_t>(rest, 4);
    const auto stored_size = number_at<std::uint64_t>(rest, 12);
    if (stored_size > rest.size() - kFrameHeaderBytes - kHashBytes) {
      return error(offset_, where, "the file ends within a frame: it is torn");
    }
    const std::size_t hashed = kFrameHeaderBytes + static_cast<std::size_t>(stored_size);
    if (!equal(hash_of(rest.first(hashed)), rest.subspan(hashed, kHashBytes))) {
      return error(offset_, where, "its bytes do not have its hash: it is damaged");
    }
    frame.kind = as_text(rest.first(4));
    total_ += raw_size;
    if (raw_size > limits_.trace_frame_bytes || total_ > limits_.trace_bytes) {
      return error(offset_, where,
                   std::to_string(raw_size) + " bytes exceed the limit trace_frame_bytes (" +
                       std::to_string(limits_.trace_frame_bytes) + ") or trace_bytes (" +
                       std::to_string(limits_.trace_bytes) + ") of all frames");
    }
    if (frames_ >= limits_.trace_frames) {
      return error(
          offset_, where,
          "more frames than the limit trace_frames (" + std::to_string(limits_.trace_frames) + ")");
    }
    const auto stored = rest.subspan(kFrameHeaderBytes, hashed - kFrameHeaderBytes);
    if (ZSTD_getFrameContentSize(stored.data(), stored.size()) != raw_size) {
      return error(offset_, where, "its zstd frame does not state its raw size");
    }
    frame.raw.resize(raw_size);
    if (ZSTD_decompress(frame.raw.data(), raw_size, stored.data(), stored.size()) != raw_size) {
      return error(offset_, where, "its zstd frame cannot be decompressed");
    }
    offset_ += hashed + kHashBytes;
    return frame;
  }

  base::Status read_end(const Frame& frame) {
    const auto raw = std::span(frame.raw);
    const std::string where = "END";
    if (part_ < kScenario) return error(frame.offset, where, "comes before PROG and SCEN");
    if (raw.size() != kEndBytes) return error(frame.offset, where, "must have 24 bytes");
    if (number_at<std::uint64_t>(raw, 0) != frames_) {
      return error(frame.offset, where,
                   "counts " + std::to_string(number_at<std::uint64_t>(raw, 0)) +
                       " frames before it, there are " + std::to_string(frames_));
    }
    if (!equal(raw.subspan(8), hash_of(bytes_.first(frame.offset)))) {
      return error(frame.offset, where, "the frames before it do not have its hash");
    }
    if (offset_ != bytes_.size()) {
      return error(offset_, where, "nothing may follow the END frame");
    }
    return base::Ok{};
  }

  base::Status read_part(const Frame& frame) {
    constexpr std::array<std::string_view, 5> kKinds = {"PROG", "SCEN", "FIND", "EVNT", "BLOB"};
    const auto found = std::find(kKinds.begin(), kKinds.end(), frame.kind);
    if (found == kKinds.end()) return error(frame, "no frame of version 1 has this kind");
    const auto part = static_cast<int>(found - kKinds.begin());
    // PROG and SCEN come first; then no frame goes back, and FIND stands alone.
    const bool in_order = part <= kScenario ? part == part_ + 1
                                            : part_ >= kScenario && part >= part_ &&
                                                  !(part == kFinding && part_ == kFinding);
    if (!in_order) return error(frame, "frames stand in the order PROG SCEN FIND EVNT.. BLOB..");
    part_ = part;
    switch (static_cast<Part>(part)) {
      case kProgram:
        trace_.program_version = as_text(frame.raw);
        return base::Ok{};
      case kScenario:
        trace_.scenario_text = as_text(frame.raw);
        return base::Ok{};
      case kFinding:
        return read_finding(frame);
      case kEvents:
        return read_events(frame);
      case kBlob:
        return read_blob(frame);
    }
    return base::Ok{};
  }

  base::Status read_finding(const Frame& frame) {
    const auto document = model::parse_json(as_text(frame.raw), file_, limits_);
    if (!document) return error(frame, document.error().rule);
    const auto is_text = [&](const char* name) {
      return document->contains(name) && (*document)[name].is_string();
    };
    if (!document->is_object() || document->size() != 2 || !is_text("key") || !is_text("message")) {
      return error(frame, "must be {\"key\": text, \"message\": text}");
    }
    trace_.finding_key = (*document)["key"].get<std::string>();
    trace_.finding_message = (*document)["message"].get<std::string>();
    if (trace_.finding_key.empty()) return error(frame, "the key must not be empty");
    return base::Ok{};
  }

  base::Status read_events(const Frame& frame) {
    std::string_view text = as_text(frame.raw);
    for (std::size_t line = 1; !text.empty(); ++line) {
      const std::size_t length = text.find('\n');
      const std::string where = "line " + std::to_string(line) + ": ";
      if (length == text.npos) return error(frame, where + "must end with a line feed");
      const auto array = model::parse_json(text.substr(0, length), file_, limits_);
      if (!array) return error(frame, where + array.error().rule);
      std::string problem;
      auto event = read_event(*array, problem);
      if (!event) return error(frame, where + problem);
      trace_.events.push_back(*std::move(event));
      text.remove_prefix(length + 1);
    }
    return base::Ok{};
  }

  base::Status read_blob(const Frame& frame) {
    const auto raw = std::span(frame.raw);
    const std::uint64_t name_size = raw.size() < 4 ? 0 : number_at<std::uint32_t>(raw, 0);
    if (raw.size() < 4 || name_size > kBlobNameBytesMax || name_size > raw.size() - 4) {
      return error(frame, "must begin with the length of its name (at most 4096) and the name");
    }
    NamedBytes blob;
    blob.name = as_text(raw.subspan(4, name_size));
    const auto bytes = raw.subspan(4 + name_size);
    blob.bytes.assign(bytes.begin(), bytes.end());
    if (!blob_names_.insert(blob.name).second) {
      return error(frame, "the name `" + blob.name + "` occurs twice");
    }
    trace_.blobs.push_back(std::move(blob));
    return base::Ok{};
  }

  std::span<const std::byte> bytes_;
  const std::string& file_;
  const base::Limits& limits_;
  std::size_t offset_ = 0;
  std::uint64_t frames_ = 0;  // read so far; the one at hand has this number
  std::uint64_t total_ = 0;
  int part_ = -1;
  std::set<std::string> blob_names_;
  Trace trace_;
};

// --- files ---

base::Error system_error(const std::string& path, const char* action) {
  return base::environment_error(path, std::string(action) + ": " + std::strerror(errno));
}

// Closed once; closing says whether all was written, too.
base::Status write_and_close(int file, const std::string& path, std::span<const std::byte> bytes) {
  const auto failed = [&](const char* action) {
    base::Error error = system_error(path, action);
    ::close(file);
    return error;
  };
  while (!bytes.empty()) {
    const ssize_t count = ::write(file, bytes.data(), bytes.size());
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return failed("cannot be written");
    bytes = bytes.subspan(static_cast<std::size_t>(count));
  }
  if (::fsync(file) != 0) return failed("cannot be written");
  if (::close(file) != 0) return system_error(path, "cannot be written");
  return base::Ok{};
}

}  // namespace

base::Result<Trace> decode_trace(std::span<const std::byte> bytes, const std::string& file,
                                 const base::Limits& limits) {
  return Reader(bytes, file, limits).read();
}

base::Result<Trace> read_trace(const std::string& path, const base::Limits& limits) {
  LS_ASSIGN(const auto file, model::MappedFile::open(path, limits));
  return decode_trace(file->bytes(), path, limits);
}

base::Result<Bytes> encode_trace(const Trace& trace, const std::string& file,
                                 const base::Limits& limits) {
  Writer writer(file, limits);
  writer.frame("PROG", as_bytes(trace.program_version));
  writer.frame("SCEN", as_bytes(trace.scenario_text));
  if (!trace.finding_key.empty()) {
    const nlohmann::json finding = {{"key", trace.finding_key}, {"message", trace.finding_message}};
    writer.frame("FIND",
                 as_bytes(finding.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace)));
  }
  write_events(trace.events, writer);
  std::set<std::string> names;
  for (const NamedBytes& blob : trace.blobs) {
    LS_CHECK(blob.name.size() <= kBlobNameBytesMax && names.insert(blob.name).second, blob.name);
    Bytes raw;
    raw.reserve(4 + blob.name.size() + blob.bytes.size());
    append_number(raw, static_cast<std::uint32_t>(blob.name.size()));
    append(raw, as_bytes(blob.name));
    append(raw, blob.bytes);
    writer.frame("BLOB", raw);
  }
  writer.end();
  return std::move(writer).finish();
}

base::Status write_trace(const std::string& path, const Trace& trace, const base::Limits& limits) {
  LS_ASSIGN(const Bytes bytes, encode_trace(trace, path, limits));
  const std::string part = path + ".part" + std::to_string(::getpid());
  const int file = ::open(part.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
  if (file < 0) return system_error(path, "cannot be created");
  base::Status status = write_and_close(file, path, bytes);
  if (status && std::rename(part.c_str(), path.c_str()) != 0) {
    status = system_error(path, "cannot be put in place");
  }
  if (!status) ::unlink(part.c_str());
  return status;
}

}  // namespace lockstep::trace
