// Replay: a scenario's bits depend on the scenario alone; not on the host, its threads, or the
// order in which blocks and warps take their turns.
#include <gtest/gtest.h>

#include <vector>

#include "harness/subjects/engine_subject.h"
#include "property_tests/random_run.h"

namespace lockstep::property_tests {
namespace {

// All that a run of the engine leaves behind, in order: rows' hashes and tokens.
struct Stream {
  std::vector<trace::RowHashed> rows;
  std::vector<trace::TokenSampled> tokens;
};

Stream stream_of(const RandomRun& run, const device::DeviceOptions& options) {
  Stream stream;
  const base::Status status =
      harness::run_engine(open(run), run.scenario, {true, options}, [&](const trace::Event& event) {
        if (const auto* row = std::get_if<trace::RowHashed>(&event)) stream.rows.push_back(*row);
        if (const auto* token = std::get_if<trace::TokenSampled>(&event)) {
          stream.tokens.push_back(*token);
        }
        EXPECT_FALSE(std::holds_alternative<trace::DeviceReported>(event));
        EXPECT_FALSE(std::holds_alternative<trace::SubjectFailed>(event));
      });
  EXPECT_TRUE(status.ok()) << status.error().message();
  return stream;
}

void expect_same(const Stream& a, const Stream& b, const std::string& what) {
  ASSERT_EQ(a.rows.size(), b.rows.size()) << what;
  for (std::size_t i = 0; i < a.rows.size(); ++i) {
    ASSERT_EQ(a.rows[i].row, b.rows[i].row) << what;
    ASSERT_EQ(a.rows[i].point, b.rows[i].point) << what;
    ASSERT_EQ(a.rows[i].hash, b.rows[i].hash)
        << what << ": other bits in " << trace::name(a.rows[i].point) << ", layer "
        << a.rows[i].layer.value << ", position " << a.rows[i].row.position;
  }
  ASSERT_EQ(a.tokens.size(), b.tokens.size()) << what;
  for (std::size_t i = 0; i < a.tokens.size(); ++i) {
    ASSERT_EQ(a.tokens[i].argmax, b.tokens[i].argmax) << what;
  }
}

// The parameter is the seed of the run.
class Replay : public testing::TestWithParam<std::uint64_t> {};
INSTANTIATE_TEST_SUITE_P(Runs, Replay, testing::Values(301, 302, 303));

TEST_P(Replay, HostThreadsDoNotShow) {
  const RandomRun run = random_run(GetParam());
  device::DeviceOptions one = run.options.device, two = one;
  one.host_threads = 1;
  two.host_threads = 2;
  const Stream stream = stream_of(run, one);
  ASSERT_FALSE(stream.rows.empty());
  expect_same(stream, stream_of(run, two), "two threads, " + run.command);
}

TEST_P(Replay, InstructionSetsOfTheHostDoNotShow) {
  const RandomRun run = random_run(GetParam());
  device::DeviceOptions options = run.options.device;
  options.instruction_set = "scalar";
  const Stream scalar = stream_of(run, options);
  for (const char* set : {"avx2", "avx512"}) {
    options.instruction_set = set;
    if (!device::open(run.scenario.device, options).ok()) {
      std::printf("this host has no %s\n", set);
      continue;
    }
    expect_same(scalar, stream_of(run, options), set + (", " + run.command));
  }
}

TEST_P(Replay, SchedulesDoNotShow) {
  const RandomRun run = random_run(GetParam());
  device::DeviceOptions options = run.options.device;
  const Stream ascending = stream_of(run, options);
  for (const std::uint64_t seed : {1, 2, 3}) {
    options.schedule_seed = seed;
    expect_same(ascending, stream_of(run, options),
                "schedule " + std::to_string(seed) + ", " + run.command);
  }
}

TEST_P(Replay, AFurtherRunOfTheSameDeviceDoesNotShow) {
  const RandomRun run = random_run(GetParam());
  expect_same(stream_of(run, run.options.device), stream_of(run, run.options.device), run.command);
}

}  // namespace
}  // namespace lockstep::property_tests
