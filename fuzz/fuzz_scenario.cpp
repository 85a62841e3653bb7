// libFuzzer target: arbitrary bytes as a scenario file. An Error that says where and why, or a
// scenario that writing and reading again leaves as it is.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "base/check.h"
#include "trace/scenario_json.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace lockstep;
  base::Limits limits;
  limits.json_bytes = 1 << 16;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const auto scenario = trace::parse_scenario(text, "fuzz.json", limits);
  if (!scenario.ok()) {
    LS_CHECK(!scenario.error().rule.empty());
    return 0;
  }
  // A few runs may stand for millions of tokens; those are slow to compare and show no more.
  std::size_t tokens = 0;
  for (const trace::RequestSpec& request : scenario->requests) tokens += request.prompt.size();
  if (tokens > 1 << 16) return 0;
  const std::string written = trace::write_scenario(*scenario);
  const auto again = trace::parse_scenario(written, "again.json");
  LS_CHECK(again.ok(), again.ok() ? "" : again.error().message());
  LS_CHECK(*again == *scenario, written);
  LS_CHECK(trace::write_scenario(*again) == written, written);
  return 0;
}
