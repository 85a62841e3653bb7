// .lstrace files: round trips of every event, and every way in which a file can be damaged.
#include "trace/trace_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>
#include <sys/resource.h>
#include <zstd.h>

#include <cmath>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <limits>
#include <nlohmann/json.hpp>

#include "base/hash.h"
#include "base/prng.h"
#include "trace/event_fields.h"
#include "trace/event_json.h"
#include "trace/trace_file_maker_test.h"

namespace lockstep::trace {
namespace {

using testing::HasSubstr;

// --- events with every field filled from a seed ---

class Filler {
 public:
  explicit Filler(std::uint64_t seed) : prng_(seed) {}

  void fill(bool& value) { value = prng_.below(2) == 1; }
  template <class T>
  requires std::is_integral_v<T>
  void fill(T& value) {
    // Small, large, and the ends of the range.
    const std::uint64_t choice = prng_.below(4);
    value = choice == 0   ? static_cast<T>(prng_.below(10))
            : choice == 1 ? std::numeric_limits<T>::max()
            : choice == 2 ? std::numeric_limits<T>::min()
                          : static_cast<T>(prng_.next());
  }
  void fill(double& value) {
    const std::array<double, 6> special = {
        0.0, -0.0, 5.0, std::numeric_limits<double>::infinity(), 5e-324, 1.7976931348623157e308};
    const std::uint64_t choice = prng_.below(12);
    value = choice < special.size() ? special[choice] : -std::exp(20 * prng_.normal());
  }
  void fill(std::string& text) {
    const std::array<std::string, 5> special = {"", "kv", "\xff\x80", "\xe2\x82\xac \"\\\n",
                                                "a\xc3"};
    text = special[prng_.below(special.size())];
  }
  void fill(TapPoint& point) { point = static_cast<TapPoint>(prng_.below(kTapPointCount)); }
  void fill(base::Hash128& hash) { hash = {prng_.next(), prng_.below(3)}; }
  template <class Tag>
  void fill(Id<Tag>& id) {
    fill(id.value);
  }
  template <class T>
  void fill(std::optional<T>& value) {
    if (prng_.below(2) == 1) fill(value.emplace());
  }
  template <class T>
  void fill(std::vector<T>& list) {
    list.resize(prng_.below(4));
    for (T& value : list) fill(value);
  }
  template <class A, class B>
  void fill(std::pair<A, B>& pair) {
    fill(pair.first);
    fill(pair.second);
  }
  template <class T>
  requires std::is_aggregate_v<T>
  void fill(T& value) {
    with_fields(value, [this](auto&... field) { (this->fill(field), ...); });
  }

 private:
  base::Prng prng_;
};

template <std::size_t kIndex>
void add_filled(Filler& filler, std::vector<Event>& events) {
  using T = std::variant_alternative_t<kIndex, AnyEvent>;
  if constexpr (!std::is_same_v<T, OpCompleted>) {
    T event;
    filler.fill(event);
    events.emplace_back(std::move(event));
  }
}

// One of each kind.
std::vector<Event> filled_events(std::uint64_t seed) {
  Filler filler(seed);
  std::vector<Event> events;
  [&]<std::size_t... kIndex>(std::index_sequence<kIndex...>) {
    (add_filled<kIndex>(filler, events), ...);
  }
  (std::make_index_sequence<std::variant_size_v<AnyEvent>>());
  return events;
}

std::vector<std::string> lines(const std::vector<Event>& events) {
  std::vector<std::string> result;
  for (const Event& event : events) result.push_back(write_event(event));
  return result;
}

Trace example() {
  Trace trace;
  trace.program_version = "0.1.0";
  trace.scenario_text = "{\"requests\": []}\n";
  trace.finding_key = "ownership.foreign.full_attention";
  trace.finding_message = "request B reads a cell of request A";
  trace.events = {LifeAborted{{3}, 5}, KeyDropped{1, {7}}};
  trace.blobs = {{"operand", bytes_of("0123")}, {"", {}}};
  return trace;
}

void expect_equal(const Trace& got, const Trace& want) {
  EXPECT_EQ(got.program_version, want.program_version);
  EXPECT_EQ(got.scenario_text, want.scenario_text);
  EXPECT_EQ(got.finding_key, want.finding_key);
  EXPECT_EQ(got.finding_message, want.finding_message);
  EXPECT_EQ(lines(got.events), lines(want.events));
  EXPECT_EQ(got.blobs, want.blobs);
}

std::string error_of(std::span<const std::byte> bytes, const base::Limits& limits = {}) {
  const auto trace = decode_trace(bytes, "x.lstrace", limits);
  if (trace.ok()) return "";
  EXPECT_EQ(trace.error().exit_status(), 2);
  EXPECT_EQ(trace.error().file, "x.lstrace");
  EXPECT_TRUE(trace.error().offset.has_value());
  EXPECT_FALSE(trace.error().rule.empty());
  return trace.error().message();
}

TEST(EventJson, LinesAreThoseOfTheFormat) {
  LifeBegan began{{4}, "A", "r", 2, 9, {1, 2}, 2, 16, {}};
  EXPECT_EQ(write_event(began), R"(["life_began",4,"A","r",2,9,[1,2],2,16,null])");
  began.parent = RequestId{1};
  EXPECT_EQ(write_event(began), R"(["life_began",4,"A","r",2,9,[1,2],2,16,1])");
  EXPECT_EQ(write_event(BlocksHit{{0}, 1, 2, 8, {kNoBlock, {5}}}),
            R"(["blocks_hit",0,1,2,8,[-1,5]])");
  EXPECT_EQ(write_event(LaunchRan{{6}, 7, {{{0}, 3, {11}, 4, {{{2}}, {}}, {{35}, {-1}}}}, {9}}),
            R"(["launch_ran",6,7,[[0,3,[11],4,[[2],[]],[[35],[-1]]]],[9]])");
  EXPECT_EQ(write_event(LifeEnded{{0}, 1, "stop", {1, 2, 3, 4, 5, 6, 7, 8, 9}}),
            R"(["life_ended",0,1,"stop",[1,2,3,4,5,6,7,8,9]])");
  EXPECT_EQ(write_event(AllocationRefused{{0}, {1, 2}, {3, 0}}),
            R"(["allocation_refused",0,"00000000000000010000000000000002",)"
            R"("00000000000000030000000000000000"])");
  EXPECT_EQ(write_event(RequestTouched{{0}, "\xff"}), R"(["request_touched",0,{"hex":"ff"}])");
  TokenReferenced referenced{{0}, 1, 2, std::numeric_limits<double>::infinity(), 0.5};
  EXPECT_EQ(write_event(referenced), R"(["token_referenced",0,1,2,"inf",0.5])");
}

TEST(EventJson, WhatIsNoEventIsRefused) {
  for (const char* text : {"3",
                           "[]",
                           "[1]",
                           R"(["nothing"])",
                           R"(["op_completed"])",
                           R"(["life_aborted"])",
                           R"(["life_aborted",1])",
                           R"(["life_aborted",1,2,3])",
                           R"(["life_aborted",1,-1])",
                           R"(["life_aborted",1,2.0])",
                           R"(["life_aborted",4294967296,2])",
                           R"(["life_aborted",4294967295,2])",
                           R"(["life_aborted","1",2])",
                           R"(["device_reset",1,0])",
                           R"(["request_touched",0,{"hex":"61"}])",
                           R"(["request_touched",0,{"hex":"fg"}])",
                           R"(["request_touched",0,{"hex":"f"}])",
                           R"(["request_touched",0,{"hex":1}])",
                           R"(["request_touched",0,3])",
                           R"(["allocation_refused",0,"00","00"])",
                           R"(["blocks_shared",0,0,0,{}])",
                           R"(["blocks_shared",0,0,0,[null]])",
                           R"(["row_hashed",[0,0],0,23,"00"])",
                           R"(["token_referenced",0,1,2,"Inf",0.5])",
                           R"(["life_ended",0,1,"stop",[1,2]])"}) {
    std::string problem;
    EXPECT_FALSE(read_event(nlohmann::json::parse(text), problem).has_value()) << text;
    EXPECT_FALSE(problem.empty()) << text;
  }
}

RC_GTEST_PROP(EventJson, EveryEventIsReadBackAsItWas, (std::uint64_t seed)) {
  for (const Event& event : filled_events(seed)) {
    const std::string line = write_event(event);
    std::string problem;
    const auto again = read_event(nlohmann::json::parse(line), problem);
    RC_ASSERT(again.has_value());
    RC_ASSERT(again->index() == event.index());
    RC_ASSERT(write_event(*again) == line);
  }
}

TEST(TraceFile, IsReadBackAsItWas) {
  Trace trace = example();
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    const auto events = filled_events(seed);
    trace.events.insert(trace.events.end(), events.begin(), events.end());
  }
  const auto bytes = encode_trace(trace, "x.lstrace");
  ASSERT_TRUE(bytes.ok());
  const auto again = decode_trace(*bytes, "x.lstrace");
  ASSERT_TRUE(again.ok()) << again.error().message();
  expect_equal(*again, trace);
}

TEST(TraceFile, ManyEventsTakeSeveralFrames) {
  Trace trace = example();
  trace.events.assign(60000, LifeAborted{{1}, 123456});
  const auto bytes = encode_trace(trace, "x.lstrace");
  const auto again = decode_trace(*bytes, "x.lstrace");
  ASSERT_TRUE(again.ok()) << again.error().message();
  expect_equal(*again, trace);
  base::Limits limits;
  limits.trace_frames = 4;  // PROG SCEN FIND, 2 of events, 2 blobs
  EXPECT_THAT(error_of(*bytes, limits), HasSubstr("trace_frames"));
}

TEST(TraceFile, OperationsAreNotStored) {
  Trace trace = example();
  trace.events.insert(trace.events.begin(), OpCompleted{});
  const auto again = decode_trace(*encode_trace(trace, "x"), "x");
  ASSERT_TRUE(again.ok());
  EXPECT_EQ(lines(again->events), lines(example().events));
}

TEST(TraceFile, EveryTruncationIsAnError) {
  const Bytes bytes = *encode_trace(example(), "x");
  for (std::size_t size = 0; size < bytes.size(); ++size) {
    EXPECT_NE(error_of(std::span(bytes).first(size)), "") << size;
  }
}

TEST(TraceFile, EveryFlippedBitIsAnError) {
  Bytes bytes = *encode_trace(example(), "x");
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    for (unsigned bit = 0; bit < 8; ++bit) {
      bytes[i] ^= static_cast<std::byte>(1u << bit);
      EXPECT_NE(error_of(bytes), "") << i;
      bytes[i] ^= static_cast<std::byte>(1u << bit);
    }
  }
}

TEST(TraceFile, WhatFollowsTheEndIsAnError) {
  Bytes bytes = *encode_trace(example(), "x");
  bytes.push_back(std::byte{0});
  EXPECT_THAT(error_of(bytes), HasSubstr("nothing may follow"));
}

TEST(TraceFile, AnotherVersionIsNamed) {
  Bytes bytes = *encode_trace(example(), "x");
  bytes[8] = std::byte{2};
  EXPECT_THAT(error_of(bytes), HasSubstr("offset 8: version: must be 1, not 2"));
}

TEST(TraceFile, FramesStandInOrder) {
  const std::string events = "[\"life_aborted\",1,2]\n", blob("\1\0\0\0ax", 6);
  const std::string finding = R"({"key":"k","message":""})";
  EXPECT_EQ(error_of(FileMaker().frame("PROG", "").frame("SCEN", "").end()), "");
  EXPECT_EQ(error_of(FileMaker()
                         .frame("PROG", "")
                         .frame("SCEN", "")
                         .frame("EVNT", events)
                         .frame("EVNT", events)
                         .frame("BLOB", blob)
                         .end()),
            "");
  const std::vector<std::vector<std::pair<const char*, std::string>>> wrong = {
      {},
      {{"PROG", ""}},
      {{"SCEN", ""}},
      {{"SCEN", ""}, {"PROG", ""}},
      {{"PROG", ""}, {"PROG", ""}, {"SCEN", ""}},
      {{"PROG", ""}, {"EVNT", events}},
      {{"PROG", ""}, {"SCEN", ""}, {"FIND", finding}, {"FIND", finding}},
      {{"PROG", ""}, {"SCEN", ""}, {"EVNT", events}, {"FIND", finding}},
      {{"PROG", ""}, {"SCEN", ""}, {"BLOB", blob}, {"EVNT", events}},
      {{"PROG", ""}, {"SCEN", ""}, {"XXXX", ""}},
  };
  for (const auto& frames : wrong) {
    FileMaker maker;
    for (const auto& [kind, raw] : frames) maker.frame(kind, raw);
    EXPECT_NE(error_of(maker.end()), "");
  }
}

TEST(TraceFile, ContentIsCheckedAndTheFrameNamed) {
  const auto error = [](std::string_view kind, std::string_view raw) {
    return error_of(FileMaker().frame("PROG", "").frame("SCEN", "").frame(kind, raw).end());
  };
  EXPECT_THAT(error("EVNT", "[\"life_aborted\",1,2]\n[\"x\"]\n"),
              HasSubstr("frame 3 (EVNT): line 2: no event is called `x`"));
  EXPECT_THAT(error("EVNT", "[\"life_aborted\",1,2]"), HasSubstr("line feed"));
  EXPECT_THAT(error("EVNT", "[\n"), HasSubstr("line 1"));
  EXPECT_THAT(error("FIND", "{}"), HasSubstr("\"key\""));
  EXPECT_THAT(error("FIND", R"({"key":"","message":""})"), HasSubstr("not be empty"));
  EXPECT_THAT(error("BLOB", "\1"), HasSubstr("length of its name"));
  EXPECT_THAT(error("BLOB", std::string_view("\2\0\0\0a", 5)), HasSubstr("length of its name"));
  EXPECT_NE(error_of(FileMaker()
                         .frame("PROG", "")
                         .frame("SCEN", "")
                         .frame("BLOB", std::string_view("\1\0\0\0a", 5))
                         .frame("BLOB", std::string_view("\1\0\0\0a", 5))
                         .end()),
            "");
}

TEST(TraceFile, SizesThatLieAreErrors) {
  const std::string zeros(1 << 20, '\0');
  const Bytes stored = FileMaker::compressed(zeros);
  base::Limits limits;
  limits.trace_frame_bytes = zeros.size() - 1;
  EXPECT_THAT(error_of(FileMaker().frame_of("PROG", zeros.size(), stored).end(), limits),
              HasSubstr("trace_frame_bytes"));
  limits.trace_frame_bytes = zeros.size();
  limits.trace_bytes = 2 * zeros.size() - 1;
  EXPECT_THAT(error_of(FileMaker()
                           .frame_of("PROG", zeros.size(), stored)
                           .frame_of("SCEN", zeros.size(), stored)
                           .end(),
                       limits),
              HasSubstr("trace_bytes"));
  EXPECT_THAT(error_of(FileMaker().frame_of("PROG", 5, stored).end()), HasSubstr("raw size"));
  EXPECT_THAT(error_of(FileMaker().frame_of("PROG", 5, bytes_of("no zstd")).end()),
              HasSubstr("raw size"));
  Bytes cut = stored;
  cut.resize(cut.size() - 3);
  EXPECT_THAT(error_of(FileMaker().frame_of("PROG", zeros.size(), cut).end()),
              HasSubstr("decompressed"));
}

TEST(TraceFile, LimitsHoldForWritingToo) {
  base::Limits limits;
  limits.trace_frame_bytes = 10;
  const auto bytes = encode_trace(example(), "x.lstrace", limits);
  ASSERT_FALSE(bytes.ok());
  EXPECT_THAT(bytes.error().message(), HasSubstr("SCEN"));
}

class TraceFileOnDisk : public testing::Test {
 protected:
  void SetUp() override {
    folder_ = std::filesystem::path(testing::TempDir()) /
              ("trace_file_" +
               std::string(testing::UnitTest::GetInstance()->current_test_info()->name()));
    std::filesystem::remove_all(folder_);
    std::filesystem::create_directories(folder_);
    path_ = (folder_ / "x.lstrace").string();
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }
  std::size_t files() const {
    return static_cast<std::size_t>(
        std::distance(std::filesystem::directory_iterator(folder_), {}));
  }

  std::filesystem::path folder_;
  std::string path_;
};

TEST_F(TraceFileOnDisk, ReplacesTheOldFileAndLeavesNothingElse) {
  ASSERT_TRUE(write_trace(path_, example()).ok());
  Trace second = example();
  second.finding_message = "another";
  ASSERT_TRUE(write_trace(path_, second).ok());
  const auto again = read_trace(path_);
  ASSERT_TRUE(again.ok()) << again.error().message();
  expect_equal(*again, second);
  EXPECT_EQ(files(), 1u);
}

TEST_F(TraceFileOnDisk, ReadErrorsNameTheFile) {
  EXPECT_THAT(read_trace(path_).error().message(), HasSubstr(path_));
  EXPECT_FALSE(read_trace(folder_.string()).ok());
  std::ofstream(path_).close();
  EXPECT_THAT(read_trace(path_).error().message(), HasSubstr("no .lstrace file"));
}

TEST_F(TraceFileOnDisk, AFullDiskIsAnErrorAndKeepsTheOldFile) {
  ASSERT_TRUE(write_trace(path_, example()).ok());
  Trace large = example();
  large.blobs[0].bytes.resize(1 << 16);
  base::Prng prng(1);
  for (std::byte& byte : large.blobs[0].bytes) byte = static_cast<std::byte>(prng.next());
  // A limit on file sizes stands for the full disk: both refuse a write.
  rlimit before{};
  ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &before), 0);
  const auto handler = std::signal(SIGXFSZ, SIG_IGN);
  rlimit small = before;
  small.rlim_cur = 4096;
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &small), 0);
  const auto status = write_trace(path_, large);
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &before), 0);
  std::signal(SIGXFSZ, handler);
  ASSERT_FALSE(status.ok());
  EXPECT_EQ(status.error().exit_status(), 4);
  EXPECT_THAT(status.error().message(), HasSubstr(path_));
  EXPECT_EQ(files(), 1u);
  expect_equal(*read_trace(path_), example());
}

TEST_F(TraceFileOnDisk, AMissingFolderIsAnError) {
  const auto status = write_trace((folder_ / "none" / "x.lstrace").string(), example());
  ASSERT_FALSE(status.ok());
  EXPECT_EQ(status.error().exit_status(), 4);
}

}  // namespace
}  // namespace lockstep::trace
