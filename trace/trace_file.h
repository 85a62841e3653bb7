// .lstrace: a run as a file (docs/trace_format.md). Frames, each compressed and with a hash of its
// own; the last counts them and hashes the file, so a torn one is never taken for a whole one.
// Plain data: opening a file runs nothing and reads nothing but it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/limits.h"
#include "trace/event.h"

namespace lockstep::trace {

// Another version is refused by name. Raised with every change of a frame or of an event's fields.
inline constexpr std::uint32_t kTraceVersion = 1;

struct NamedBytes {
  std::string name;
  std::vector<std::byte> bytes;
  friend bool operator==(const NamedBytes&, const NamedBytes&) = default;
};

struct Trace {
  std::string program_version;               // of the lockstep that wrote it
  std::string scenario_text;                 // a scenario file; its reader judges it
  std::string finding_key, finding_message;  // empty: a run without a finding
  std::vector<Event> events;                 // in order; OpCompleted is not stored
  std::vector<NamedBytes> blobs;             // names are distinct
};

// Errors (Input): the file, the offset of the frame, the frame's kind and the rule.
base::Result<Trace> read_trace(const std::string& path, const base::Limits& limits = {});
base::Result<Trace> decode_trace(std::span<const std::byte> bytes, const std::string& file,
                                 const base::Limits& limits = {});

// Into a file beside `path`, then renamed: `path` is the old file or the whole new one.
// Errors: Environment where the system refuses (no such folder, disk full); Input for a part beyond
// a limit, which could not be read again.
base::Status write_trace(const std::string& path, const Trace& trace,
                         const base::Limits& limits = {});
base::Result<std::vector<std::byte>> encode_trace(const Trace& trace, const std::string& file,
                                                  const base::Limits& limits = {});

}  // namespace lockstep::trace
