// libFuzzer target: the contents of .lstrace frames. A file's hashes and sizes are right however
// the bytes are mutated: the input is frames (kind, 1 byte; size, 2 bytes, little-endian;
// contents), and the file is written around them. What can be read is written and read back as it
// was; an operation in it is one that can run, or an error says why not.
#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "base/check.h"
#include "harness/report/operation_file.h"
#include "trace/event_json.h"
#include "trace/trace_file.h"
#include "trace/trace_file_maker_test.h"

namespace {

using namespace lockstep;

std::string events_of(const trace::Trace& trace) {
  std::string text;
  for (const trace::Event& event : trace.events) text += trace::write_event(event) + "\n";
  return text;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  constexpr std::array<std::string_view, 6> kKinds = {"PROG", "SCEN", "FIND",
                                                      "EVNT", "BLOB", "NONE"};
  std::string_view rest(reinterpret_cast<const char*>(data), size);
  trace::FileMaker maker;
  while (rest.size() >= 3) {
    const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(rest[i]); };
    const std::string_view kind = kKinds[byte(0) % kKinds.size()];
    const std::size_t stated = byte(1) | std::size_t{byte(2)} << 8;
    rest.remove_prefix(3);
    const std::string_view contents = rest.substr(0, std::min(stated, rest.size()));
    maker.frame(kind, contents);
    rest.remove_prefix(contents.size());
  }
  const base::Result<trace::Trace> trace = trace::decode_trace(maker.end(), "fuzz.lstrace");
  if (!trace.ok()) {
    LS_CHECK(!trace.error().rule.empty());
    return 0;
  }
  const auto bytes = trace::encode_trace(*trace, "again.lstrace");
  LS_CHECK(bytes.ok());
  const auto again = trace::decode_trace(*bytes, "again.lstrace");
  LS_CHECK(again.ok(), again.ok() ? "" : again.error().message());
  LS_CHECK(again->program_version == trace->program_version);
  LS_CHECK(again->scenario_text == trace->scenario_text);
  LS_CHECK(again->finding_key == trace->finding_key);
  LS_CHECK(again->finding_message == trace->finding_message);
  LS_CHECK(again->blobs == trace->blobs);
  LS_CHECK(events_of(*again) == events_of(*trace));
  if (!harness::holds_operation(*trace)) return 0;
  const auto operation = harness::operation_of(*trace, "fuzz.lstrace");
  if (!operation.ok()) LS_CHECK(!operation.error().rule.empty());
  return 0;
}
