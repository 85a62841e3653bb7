// lockstep run: engine and reference side by side on a model and prompts.
#include <fmt/format.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <nlohmann/json.hpp>

#include "harness/alone/keep.h"
#include "harness/commands/commands.h"
#include "harness/commands/device_names.h"
#include "harness/commands/scenario_commands.h"
#include "harness/open_model.h"
#include "harness/prompts.h"
#include "harness/report/report.h"

namespace lockstep::harness {
namespace {

struct RunArguments {
  CommonOptions common;
  std::string model;
  PromptOptions prompts;
  std::string taps = "ops", operands = "f16", approximation = "nominal", scenario;
  bool no_further_runs = false, report_wanted = false;
  trace::EngineSettings engine;
};

std::string shell_word(const std::string& text) {
  const bool plain = !text.empty() &&
                     text.find_first_not_of(
                         "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-./:,=") ==
                         std::string::npos;
  if (plain) return text;
  std::string quoted = "'";
  for (const char c : text) quoted += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return quoted + "'";
}

std::string repeat_command(const RunArguments& arguments, const std::vector<std::string>& devices) {
  std::string text = "./lockstep run";
  if (!arguments.model.empty()) text += " " + shell_word(arguments.model);
  std::string list;
  for (const std::string& device : devices) list += (list.empty() ? "" : ",") + device;
  if (!arguments.common.planted.empty()) text += " --planted " + arguments.common.planted;
  text += " --device " + list;
  for (const std::string& prompt : arguments.prompts.texts)
    text += " --prompt " + shell_word(prompt);
  for (const std::string& tokens : arguments.prompts.tokens) text += " --tokens " + tokens;
  if (!arguments.prompts.file.empty()) text += " --prompts " + shell_word(arguments.prompts.file);
  if (arguments.prompts.steps) text += fmt::format(" --steps {}", arguments.prompts.steps);
  const trace::EngineSettings usual;
  if (arguments.taps != "ops") text += " --taps " + arguments.taps;
  if (arguments.operands != "f16") text += " --operands " + arguments.operands;
  if (arguments.approximation != "nominal") text += " --approximation " + arguments.approximation;
  if (arguments.engine.block_size != usual.block_size) {
    text += fmt::format(" --block-size {}", arguments.engine.block_size);
  }
  if (arguments.engine.num_blocks != usual.num_blocks) {
    text += fmt::format(" --num-blocks {}", arguments.engine.num_blocks);
  }
  if (arguments.engine.gpu_memory_utilization != usual.gpu_memory_utilization) {
    text += fmt::format(" --gpu-memory-utilization {}", arguments.engine.gpu_memory_utilization);
  }
  if (arguments.engine.max_num_seqs != usual.max_num_seqs) {
    text += fmt::format(" --max-num-seqs {}", arguments.engine.max_num_seqs);
  }
  if (arguments.engine.chunked_prefill_size != usual.chunked_prefill_size) {
    text += fmt::format(" --chunked-prefill-size {}", arguments.engine.chunked_prefill_size);
  }
  if (arguments.no_further_runs) text += " --no-further-runs";
  return text + fmt::format(" --seed {}", arguments.common.seed);
}

// One line on a terminal's standard error that erases itself.
class Progress {
 public:
  explicit Progress(bool wanted) : on_(wanted && isatty(STDERR_FILENO)) {}
  ~Progress() { show(""); }
  void show(const std::string& text) const {
    if (on_) std::fprintf(stderr, "\r\x1b[K%s", text.c_str());
  }

 private:
  bool on_;
};

RunOptions run_options(const RunArguments& arguments, const Progress& progress) {
  RunOptions options;
  options.taps = arguments.taps == "none"     ? Taps::None
                 : arguments.taps == "logits" ? Taps::Logits
                                              : Taps::Ops;
  options.further_runs = !arguments.no_further_runs;
  const std::string& mode = arguments.approximation;
  options.device.approximation = mode == "low"      ? device::ApproximationMode::Low
                                 : mode == "high"   ? device::ApproximationMode::High
                                 : mode == "hashed" ? device::ApproximationMode::Hashed
                                                    : device::ApproximationMode::Nominal;
  options.progress = [&progress](const std::string& text) { progress.show(text); };
  return options;
}

// report.json, beside the operations: where there are findings, or where a folder was asked for.
base::Status write_report(const RunArguments& arguments, const RunReport& report) {
  if (!arguments.report_wanted && report.exit_status() != 1) return base::Ok{};
  const std::filesystem::path folder = arguments.common.report_folder;
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  const std::string path = folder / "report.json", partial = path + ".part";
  {
    std::ofstream stream(partial, std::ios::trunc);
    stream << json_report(report).dump(1) << "\n";
    stream.flush();
    if (!stream) return base::environment_error(path, "cannot be written");
  }
  std::filesystem::rename(partial, path, error);
  if (error) return base::environment_error(path, "cannot be written: " + error.message());
  return base::Ok{};
}

base::Result<int> execute(RunArguments& arguments) {
  if (!arguments.scenario.empty()) {
    return run_scenario_command(arguments.scenario, arguments.common, arguments.report_wanted);
  }
  const double utilization = arguments.engine.gpu_memory_utilization;
  if (!(utilization > 0 && utilization <= 1)) {
    return base::input_error("--gpu-memory-utilization", "must be above 0 and at most 1");
  }
  const auto start = std::chrono::steady_clock::now();
  const Progress progress(!arguments.common.quiet && !arguments.common.json);
  LS_ASSIGN(const model::Model model, open_model(arguments.model));
  arguments.prompts.seed = arguments.common.seed;
  RunReport report;
  report.model = &model;
  report.model_name = model.display_name;
  report.scenario.seed = arguments.common.seed;
  report.scenario.model = arguments.model;
  report.scenario.engine = arguments.engine;
  report.scenario.engine.operand_format = arguments.operands == "bf16"  ? model::DType::BF16
                                          : arguments.operands == "f32" ? model::DType::F32
                                                                        : model::DType::F16;
  LS_ASSIGN(report.scenario.requests, make_requests(model, arguments.prompts));
  const std::vector<std::string> devices = device_names(arguments.common.device);
  report.repeat = repeat_command(arguments, devices);
  for (const std::string& name : devices) {
    trace::Scenario scenario = report.scenario;
    scenario.device = name;
    DeviceReport device{name, {}, {}};
    const RunOptions options = run_options(arguments, progress);
    LS_ASSIGN(device.outcome, run(model, scenario, options));
    LS_ASSIGN(device.kept, keep_operations(device.outcome, model, scenario, options.device,
                                           arguments.common.report_folder));
    report.devices.push_back(std::move(device));
  }
  report.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  progress.show("");
  LS_TRY(write_report(arguments, report));
  if (arguments.common.json) {
    std::cout << json_report(report).dump(1) << "\n";
  } else {
    std::cout << text_report(
        report, {wants_colour(arguments.common), arguments.common.verbose, arguments.common.quiet});
  }
  std::cout.flush();
  if (!std::cout) return base::environment_error("standard output", "cannot be written");
  return report.exit_status();
}

}  // namespace

void add_run(CommandLine& program) {
  auto arguments = std::make_shared<RunArguments>();
  RunArguments& a = *arguments;
  const Command command = program.command(
      "run", "engine and double-precision reference side by side on a model and prompts");
  command.option("model", a.model,
                 "a .gguf file, a folder with config.json and model.safetensors, or "
                 "tiny:ARCH:SEED[:DTYPE]; default: the demo model");
  add_common(command, a.common);
  command.option("--device", a.common.device,
                 "list of vgpu:sm_80, vgpu:sm_90, vgpu:all, auto; each is run (default "
                 "vgpu:sm_90)");
  command.option("--prompt", a.prompts.texts, "a prompt; may be given again").one_value_each();
  command.option("--tokens", a.prompts.tokens, "a prompt as token ids: 1,2,3").one_value_each();
  command.option("--prompts", a.prompts.file, "JSON Lines: objects with prompt or tokens, and n");
  command.option("--steps", a.prompts.steps, "new tokens a prompt (default 16)")
      .in_range(1, 1 << 20);
  command.option("--taps", a.taps, "none, logits or ops: what is compared")
      .one_of({"none", "logits", "ops"})
      .shows_default();
  command
      .option("--operands", a.operands,
              "format of tensor-core operands and KV cells; f32: CUDA cores only")
      .one_of({"f16", "bf16", "f32"})
      .shows_default();
  command
      .option("--approximation", a.approximation,
              "approximate instructions inside their documented error")
      .one_of({"nominal", "low", "high", "hashed"})
      .shows_default();
  command.option("--scenario", a.scenario, "a scenario file");
  command.option("--report", a.common.report_folder, "folder for reports of findings")
      .shows_default();
  command.option("--planted", a.common.planted,
                 "run with a planted fault of ci/planted (in a checkout)");
  command.option("--block-size", a.engine.block_size, "tokens in a KV page")
      .in_range(1, 4096)
      .shows_default();
  command
      .option("--num-blocks", a.engine.num_blocks,
              "pages of the KV pool; 0: what the requests can use, if the device's memory gives it")
      .in_range(0, 1 << 24)
      .shows_default();
  command
      .option("--gpu-memory-utilization", a.engine.gpu_memory_utilization,
              "without --num-blocks: the part of the device's memory that may be used")
      .shows_default();
  command.option("--max-num-seqs", a.engine.max_num_seqs, "requests that run at a time")
      .in_range(1, 4096)
      .shows_default();
  command
      .option("--chunked-prefill-size", a.engine.chunked_prefill_size,
              "most prompt tokens of a request in a step; 0: no limit")
      .shows_default();
  command.flag("--no-further-runs", a.no_further_runs,
               "leave out batch_invariance's runs (alone, in chunks)");
  command.body([arguments, command] {
    arguments->report_wanted = command.given("--report");
    return execute(*arguments);
  });
}

}  // namespace lockstep::harness
