// The device's memory: what a budget gives is enough for every step, and a step that does not fit
// ends its own requests and nobody else's.
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>

#include "base/prng.h"
#include "engine/execute/device_executor.h"
#include "engine/serving_engine.h"
#include "model/tiny.h"

namespace lockstep::engine {
namespace {

struct Case {
  model::Model model;
  trace::EngineSettings settings;
  std::vector<trace::RequestSpec> requests;

  RequestLimits limits() const { return limits_of(requests, settings.max_model_len); }
  void add(std::uint32_t prompt, std::uint32_t max_tokens) {
    trace::RequestSpec request;
    request.id = request.key = std::to_string(requests.size());
    for (std::uint32_t i = 0; i < prompt; ++i) request.prompt.push_back((7 * i + 3) % 32);
    request.max_tokens = max_tokens;
    requests.push_back(std::move(request));
  }
};

Case made_case(const model::TinyOptions& tiny) {
  Case made;
  made.model = model::make_tiny(tiny);
  made.settings.block_size = 4;
  made.settings.groups[0].block_size = 4;
  made.settings.enable_prefix_caching = false;
  made.settings.gpu_memory_utilization = 1;
  return made;
}

model::TinyOptions two_layers(model::Arch arch, std::uint64_t seed) {
  model::TinyOptions tiny;
  tiny.arch = arch;
  tiny.seed = seed;
  tiny.layer_count = 2;
  tiny.vocab_size = 32;
  return tiny;
}
Case small_case(model::Arch arch, std::uint64_t seed) { return made_case(two_layers(arch, seed)); }

std::unique_ptr<device::Device> open(std::uint64_t memory_bytes) {
  device::DeviceOptions options;
  options.memory_bytes = memory_bytes;
  options.host_threads = 1;
  return device::open("vgpu:sm_80", options).value();
}

base::Result<std::unique_ptr<DeviceExecutor>> create(const Case& of, device::Device& device) {
  return DeviceExecutor::create(
      of.model, device, of.settings, of.limits(), [](auto) {}, false);
}

// The case on a device until all requests have ended; `between` is called before each step.
class Serving {
 public:
  Serving(const Case& of, device::Device& device) : device_(device) {
    executor_ = create(of, device).value();
    trace::EngineSettings settings = of.settings;
    settings.pools[0].num_blocks = executor_->num_blocks();
    engine_ = std::make_unique<ServingEngine>(settings, std::vector<trace::TokenId>{},
                                              of.model.config.vocab_size, *executor_, FaultHook{},
                                              [this](const trace::Event& event) { note(event); });
    for (const trace::RequestSpec& request : of.requests) {
      Submission submission;
      submission.spec = request;
      engine_->submit(std::move(submission), 0);
    }
  }

  void step() {
    ASSERT_TRUE(engine_->step(tick_).has_value());
    const auto outputs = executor_->run(tick_);
    ASSERT_TRUE(outputs.ok()) << outputs.error().message();
    for (const LaunchOutput& output : *outputs) engine_->complete(output, tick_);
    ++tick_;
    ASSERT_TRUE(device_.take_diagnostics().empty());
  }
  void finish() {
    while (!engine_->idle() && !testing::Test::HasFatalFailure()) step();
  }
  const Life& life(std::uint32_t index) const { return engine_->life(trace::RequestId{index}); }
  std::vector<trace::TokenId> outputs(std::uint32_t index) const {
    return {life(index).tokens.begin() + life(index).prompt_count, life(index).tokens.end()};
  }
  bool all_blocks_free() const {
    const BlockPool& pool = engine_->cache().pool(0);
    return pool.available() == pool.block_count();
  }
  std::uint32_t preemptions() const { return preemptions_; }
  std::uint32_t num_blocks() const { return executor_->num_blocks(); }

 private:
  void note(const trace::Event& event) {
    preemptions_ += std::holds_alternative<trace::RequestPreempted>(event) ? 1 : 0;
  }

  device::Device& device_;
  std::unique_ptr<DeviceExecutor> executor_;
  std::unique_ptr<ServingEngine> engine_;
  trace::Tick tick_ = 0;
  std::uint32_t preemptions_ = 0;
};

struct Bytes {
  std::uint64_t step = 0, all = 0;
};

// What the largest step takes, and what the budget wants: weights, pool and that step.
Bytes bytes_of(const Case& of) {
  const auto device = open(1 << 28);
  const auto weights = upload(of.model, *device, of.settings, of.limits().cells_max).value();
  const device::MemoryInfo memory = device->memory();
  Bytes bytes;
  bytes.step = step_bytes(*weights, of.settings, of.limits(), device->properties()).value();
  EXPECT_EQ(device->memory().free_bytes, memory.free_bytes);  // counting takes none
  const std::uint64_t blocks = create(of, *open(1 << 28)).value()->num_blocks();
  const std::uint64_t buffer =
      blocks * page_bytes(weights->kv) + device->properties().allocation_overhead_bytes;
  bytes.all =
      memory.total_bytes - memory.free_bytes + 2 * weights->layers.size() * buffer + bytes.step;
  bytes.all = (bytes.all + 255) / 256 * 256;
  return bytes;
}

// Takes all but `left` bytes (and less than 256 more) of what is free.
device::Buffer take_all_but(device::Device& device, std::uint64_t left) {
  const std::uint64_t bytes = device.memory().free_bytes - left;
  return device.allocate(bytes / 256 * 256 - 256, "somebody else's").value();
}

// The largest batches that there are, with and without tensor cores, chunks and preemption.
Case drawn_case(std::uint64_t seed) {
  base::Prng prng(seed);
  Case drawn = small_case(prng.below(2) == 0 ? model::Arch::Llama : model::Arch::Gemma3, seed);
  const std::uint64_t count = 1 + prng.below(4);
  for (std::uint64_t i = 0; i < count; ++i) {
    drawn.add(static_cast<std::uint32_t>(1 + prng.below(12)),
              static_cast<std::uint32_t>(1 + prng.below(6)));
  }
  drawn.settings.max_num_seqs = static_cast<std::uint32_t>(1 + prng.below(4));
  drawn.settings.max_num_batched_tokens = static_cast<std::uint32_t>(4 + prng.below(40));
  drawn.settings.chunked_prefill_size = prng.below(2) == 0 ? 0 : 3;
  drawn.settings.operand_format = prng.below(3) == 0 ? model::DType::F32 : model::DType::F16;
  // Half of them with little more than the longest request needs: somebody is preempted.
  const std::uint32_t longest = (drawn.limits().cells_max + 3) / 4;
  drawn.settings.num_blocks = prng.below(2) == 0 ? 0 : longest + 1;
  return drawn;
}

// All requests end as they should where nothing is free but what the largest step takes; gives the
// preemptions.
std::uint32_t run_in_what_just_fits(const Case& of, const std::string& what) {
  const Bytes bytes = bytes_of(of);
  const auto device = open(bytes.all + 4096);
  Serving run(of, *device);
  const device::Buffer others = take_all_but(*device, bytes.step);
  run.finish();
  for (std::uint32_t i = 0; i < of.requests.size(); ++i) {
    EXPECT_EQ(run.life(i).finish_reason, "length")
        << what << ", request " << i << ": " << run.life(i).error_message;
  }
  EXPECT_TRUE(run.all_blocks_free()) << what;
  return run.preemptions();
}

TEST(DeviceMemory, WhatJustFitsIsEnoughForEveryStep) {
  std::uint32_t preemptions = 0;
  for (std::uint64_t seed = 1; seed <= 24; ++seed) {
    preemptions += run_in_what_just_fits(drawn_case(seed), "seed " + std::to_string(seed));
  }
  EXPECT_GT(preemptions, 0u);
}

// One part of a step is far larger than the rest, each in its turn.
TEST(DeviceMemory, TheLargestStepCountsLogitsOfEveryRequest) {
  model::TinyOptions tiny = two_layers(model::Arch::Llama, 8);
  tiny.vocab_size = 4096;
  tiny.hidden_size = tiny.ffn_size = 32;
  Case logits = made_case(tiny);
  for (int i = 0; i < 4; ++i) logits.add(2, 2);
  run_in_what_just_fits(logits, "logits");
}

TEST(DeviceMemory, TheLargestStepCountsOutputRowsThatAreComputedAgain) {
  Case again = small_case(model::Arch::Llama, 9);
  for (int i = 0; i < 3; ++i) again.add(1, 32);
  again.settings.num_blocks = 9;  // 8 of them for one request to its end
  EXPECT_GT(run_in_what_just_fits(again, "output rows"), 0u);
}

TEST(DeviceMemory, TheLargestStepCountsTheLongestContext) {
  model::TinyOptions tiny = two_layers(model::Arch::Llama, 10);
  tiny.hidden_size = tiny.ffn_size = 32;
  tiny.head_count = 8;
  tiny.head_size = 64;
  Case context = made_case(tiny);
  context.add(600, 2);
  context.settings.chunked_prefill_size = 32;
  context.settings.operand_format = model::DType::F32;  // a workspace for each 256 keys
  run_in_what_just_fits(context, "context");
}

TEST(DeviceMemory, OneBlockLessThanTheLeastIsRefusedBeforeAnythingRuns) {
  Case exact = small_case(model::Arch::Llama, 3);
  exact.add(9, 4);
  exact.settings.num_blocks = 3;
  const std::uint64_t bytes = bytes_of(exact).all;
  EXPECT_TRUE(create(exact, *open(bytes)).ok());
  exact.settings.num_blocks = 4;
  const auto refused = create(exact, *open(bytes));
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().exit_status(), 4);
  EXPECT_NE(refused.error().message().find("for a pool of 4 blocks"), std::string::npos)
      << refused.error().message();
}

TEST(DeviceMemory, ABudgetGivesWhatTheRequestsCanUseAndNoMore) {
  Case demo = small_case(model::Arch::Llama, 5);
  for (int i = 0; i < 3; ++i) demo.add(9, 4);  // 12 cells: 3 blocks each
  EXPECT_EQ(create(demo, *open(1 << 28)).value()->num_blocks(), 9u);
  demo.settings.max_num_seqs = 2;
  EXPECT_EQ(create(demo, *open(1 << 28)).value()->num_blocks(), 6u);
}

TEST(DeviceMemory, ARequestThatTheModelEndsEarlyIsStillAdmitted) {
  Case longer = small_case(model::Arch::Gemma3, 5);
  longer.settings.max_model_len = 16;
  longer.add(9, 100);
  const RequestLimits limits = longer.limits();
  EXPECT_EQ(limits.cells_max, 15u);
  EXPECT_EQ(limits.outputs_max, 6u);
  EXPECT_EQ(limits.reserved_max, 108u);
  const auto device = open(bytes_of(longer).all);
  Serving run(longer, *device);
  run.finish();
  EXPECT_EQ(run.life(0).finish_reason, "length");
  EXPECT_EQ(run.outputs(0).size(), 7u);
}

// Somebody else takes the device's memory between two steps, and gives it back.
TEST(DeviceMemory, AStepThatDoesNotFitEndsItsRequestsAndNobodyElses) {
  for (const model::Arch arch : {model::Arch::Llama, model::Arch::Gemma3}) {
    Case two = small_case(arch, 4);
    two.add(9, 4);
    two.add(6, 3);
    two.settings.max_num_seqs = 1;  // one after the other
    const auto usual_device = open(1 << 28);
    Serving usual(two, *usual_device);
    usual.finish();

    // With little left a step fails at its first buffers, with more of it later on.
    const Bytes bytes = bytes_of(two);
    for (std::uint32_t steps_before = 0; steps_before < 3; ++steps_before) {
      for (std::uint64_t left = 0; left < 4; ++left) {
        const auto device = open(bytes.all);
        Serving run(two, *device);
        for (std::uint32_t i = 0; i < steps_before; ++i) run.step();
        {
          const device::Buffer others = take_all_but(*device, left * 2048);
          run.step();
        }
        EXPECT_EQ(run.life(0).finish_reason, "error");
        EXPECT_EQ(run.life(0).error_code, "device_alloc");
        EXPECT_NE(run.life(0).error_message.find("out of memory"), std::string::npos);
        EXPECT_EQ(run.outputs(0).size(), steps_before);
        EXPECT_TRUE(run.all_blocks_free());
        run.finish();
        EXPECT_EQ(run.life(1).finish_reason, "length");
        EXPECT_EQ(run.outputs(1), usual.outputs(1));
        EXPECT_TRUE(run.all_blocks_free());
      }
    }
  }
}

TEST(DeviceMemory, WithNoneLeftEveryRequestEndsAndNothingDies) {
  Case many = small_case(model::Arch::Llama, 6);
  for (int i = 0; i < 5; ++i) many.add(5, 3);
  many.settings.max_num_seqs = 2;
  const auto device = open(bytes_of(many).all);
  Serving run(many, *device);
  run.step();
  const device::Buffer others = take_all_but(*device, 0);
  run.finish();
  for (std::uint32_t i = 0; i < 5; ++i) EXPECT_EQ(run.life(i).finish_reason, "error");
  EXPECT_TRUE(run.all_blocks_free());
}

}  // namespace
}  // namespace lockstep::engine
