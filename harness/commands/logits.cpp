// lockstep logits: one side alone: logits (and hidden states) of a token sequence as safetensors.
#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <fstream>
#include <map>
#include <sstream>

#include "harness/commands/commands.h"
#include "harness/open_model.h"
#include "harness/prompts.h"
#include "harness/report/safetensors_writer.h"
#include "harness/subjects/engine_subject.h"
#include "reference/session.h"

namespace lockstep::harness {
namespace {

using trace::TapPoint;

struct LogitsArguments {
  CommonOptions common;
  std::string model, engine = "reference", tokens, tokens_file, weights = "exact", out,
                     operands = "f16";
  std::uint32_t greedy = 0, from = 0;
  std::int64_t prefill = -1;
  bool hidden_states = false;
};

base::Result<std::vector<trace::TokenId>> read_tokens(const LogitsArguments& arguments,
                                                      std::uint32_t vocab_size) {
  if (arguments.tokens.empty() == arguments.tokens_file.empty()) {
    return base::input_error("--tokens", "give --tokens or --tokens-file");
  }
  if (!arguments.tokens.empty()) return parse_tokens(arguments.tokens, "--tokens", vocab_size);
  std::ifstream stream(arguments.tokens_file);
  if (!stream) return base::input_error(arguments.tokens_file, "cannot be opened");
  // Ids with commas or white space between them.
  std::stringstream text;
  text << stream.rdbuf();
  std::string list;
  for (const char c : text.str()) {
    const bool separator = c == ',' || c == ' ' || c == '\n' || c == '\r' || c == '\t';
    if (!separator) {
      list += c;
    } else if (!list.empty() && list.back() != ',') {
      list += ',';
    }
  }
  if (!list.empty() && list.back() == ',') list.pop_back();
  return parse_tokens(list, arguments.tokens_file, vocab_size);
}

struct Output {
  std::vector<OutputTensor> tensors;
  std::vector<std::int64_t> greedy;
  // Storage that the tensors view.
  std::vector<reference::Matrix> matrices;
  std::map<std::string, std::vector<float>> floats;
};

template <class T>
void add_tensor(Output& output, const std::string& name, std::string_view dtype,
                std::vector<std::uint64_t> shape, std::span<const T> values) {
  output.tensors.push_back({name, dtype, std::move(shape), std::as_bytes(values)});
}

base::Status run_reference(const LogitsArguments& arguments, const model::Model& model,
                           const std::vector<trace::TokenId>& tokens, Output& output) {
  reference::SessionOptions options;
  if (arguments.weights == "f32") options.weights = reference::WeightPrecision::F32;
  LS_ASSIGN(reference::Session session, reference::Session::open(model, options));
  reference::ForwardRequest wanted;
  wanted.logits_from = arguments.from;
  if (arguments.hidden_states) wanted.keep = {TapPoint::Embed, TapPoint::ResidOut};
  reference::ForwardResult result = session.append(tokens, wanted);
  output.matrices.reserve(result.kept.size() + 1);
  const auto add = [&](const std::string& name, reference::Matrix matrix) {
    output.matrices.push_back(std::move(matrix));
    const reference::Matrix& kept = output.matrices.back();
    add_tensor<double>(output, name, "F64", {kept.rows, kept.columns}, kept.values);
  };
  add("logits", std::move(result.logits));
  for (auto& [source, matrix] : result.kept) {
    const bool embedding = source.point == TapPoint::Embed;
    add(fmt::format("hidden_states.{}", embedding ? 0 : source.layer + 1), std::move(matrix));
  }
  if (arguments.greedy == 0) return base::Ok{};
  LS_ASSIGN(reference::Session fresh, reference::Session::open(model, options));
  for (const trace::TokenId token : fresh.greedy(tokens, arguments.greedy)) {
    output.greedy.push_back(token);
  }
  return base::Ok{};
}

// The engine: the first `prefill` tokens in one prefill, the rest one at a time as decode steps
// (teacher-forced), so that row p's logits are those after token p.
base::Status run_engine_side(const LogitsArguments& arguments, const model::Model& model,
                             const std::vector<trace::TokenId>& tokens, Output& output) {
  const std::size_t prefill = arguments.prefill < 0 ? std::max<std::size_t>(1, tokens.size() - 1)
                                                    : static_cast<std::size_t>(arguments.prefill);
  if (prefill == 0 || prefill > tokens.size()) {
    return base::input_error("--prefill", "must be 1 to the number of tokens");
  }
  if (arguments.from + 1 < prefill) {
    return base::input_error("--from",
                             "the engine computes logits of the last prefilled token on: "
                             "from " +
                                 std::to_string(prefill - 1));
  }
  trace::Scenario scenario;
  scenario.seed = arguments.common.seed;
  scenario.device = arguments.common.device.empty() ? "vgpu:sm_90" : arguments.common.device;
  scenario.engine.operand_format = arguments.operands == "bf16"  ? model::DType::BF16
                                   : arguments.operands == "f32" ? model::DType::F32
                                                                 : model::DType::F16;
  scenario.engine.max_num_batched_tokens = static_cast<std::uint32_t>(prefill);
  trace::RequestSpec request;
  request.key = "1";
  request.prompt.assign(tokens.begin(), tokens.begin() + static_cast<std::ptrdiff_t>(prefill));
  request.forced.assign(tokens.begin() + static_cast<std::ptrdiff_t>(prefill), tokens.end());
  request.max_tokens =
      static_cast<std::uint32_t>(request.forced.size() + std::max(1u, arguments.greedy));
  scenario.requests = {request};

  std::vector<trace::TokenId> emitted;
  std::string refused;
  bool ran_out = false;
  std::map<std::string, std::uint64_t> widths;
  const auto on_event = [&](trace::Event event) {
    if (const auto* sampled = std::get_if<trace::TokenSampled>(&event)) {
      emitted.push_back(sampled->argmax);
    } else if (const auto* refusal = std::get_if<trace::RequestRefused>(&event)) {
      refused = refusal->reason;
    }
    const auto* finished = std::get_if<trace::RequestFinished>(&event);
    ran_out |= finished != nullptr && finished->reason == "error";
    const auto* done = std::get_if<trace::OpCompleted>(&event);
    if (!done) return;
    for (const trace::TapTensor& tap : done->call.writes) {
      std::string name;
      if (tap.point == TapPoint::Logits) name = "logits";
      if (arguments.hidden_states && tap.point == TapPoint::Embed) name = "hidden_states.0";
      if (arguments.hidden_states && tap.point == TapPoint::ResidOut) {
        name = fmt::format("hidden_states.{}", tap.layer.value + 1);
      }
      if (name.empty()) continue;
      std::vector<float>& kept = output.floats[name];
      widths[name] = tap.width;
      const std::size_t at = kept.size();
      for (std::size_t row = 0; row < tap.rows.size(); ++row) {
        if (tap.rows[row].position >= tokens.size()) continue;
        kept.resize(kept.size() + tap.width);
        __builtin_memcpy(kept.data() + at + row * tap.width, tap.bytes.data() + row * tap.width * 4,
                         tap.width * 4);
      }
    }
  };
  SubjectOptions options;
  LS_TRY(run_engine(model, scenario, options, on_event));
  if (!refused.empty()) return base::input_error("--tokens", "the engine refuses: " + refused);
  if (ran_out)
    return base::environment_error(scenario.device, "a step did not fit into its memory");
  for (const auto& [name, values] : output.floats) {
    const std::uint64_t width = widths[name];
    std::span<const float> view(values);
    std::uint64_t rows = values.size() / width;
    if (name == "logits") {
      const std::uint64_t skip = arguments.from > prefill - 1 ? arguments.from - (prefill - 1) : 0;
      view = view.subspan(std::min(skip, rows) * width);
      rows -= std::min(skip, rows);
    }
    add_tensor<float>(output, name, "F32", {rows, width}, view);
  }
  for (std::size_t i = tokens.size() - prefill; i < emitted.size(); ++i) {
    if (output.greedy.size() < arguments.greedy) output.greedy.push_back(emitted[i]);
  }
  return base::Ok{};
}

base::Result<int> execute(LogitsArguments& arguments) {
  LS_ASSIGN(const model::Model model, open_model(arguments.model));
  LS_ASSIGN(const std::vector<trace::TokenId> tokens,
            read_tokens(arguments, model.config.vocab_size));
  if (tokens.size() + arguments.greedy > model.config.context_length) {
    return base::input_error(
        "--tokens", fmt::format("{} tokens and {} more exceed the model's {} "
                                "positions",
                                tokens.size(), arguments.greedy, model.config.context_length));
  }
  if (arguments.from >= tokens.size()) {
    return base::input_error("--from", "must be below the number of tokens");
  }
  Output output;
  if (arguments.engine == "reference") {
    LS_TRY(run_reference(arguments, model, tokens, output));
  } else {
    if (arguments.from == 0 && arguments.prefill < 0 && tokens.size() > 1) {
      arguments.prefill = 1;  // every row is wanted: one prefilled token, the rest decoded
    }
    LS_TRY(run_engine_side(arguments, model, tokens, output));
  }
  if (arguments.greedy > 0) {
    add_tensor<std::int64_t>(output, "greedy", "I64", {output.greedy.size()}, output.greedy);
  }
  LS_TRY(write_safetensors(arguments.out, output.tensors,
                           {{"model", model.display_name}, {"engine", arguments.engine}}));
  if (arguments.common.json) {
    std::string names;
    for (const OutputTensor& tensor : output.tensors) {
      names += (names.empty() ? "\"" : ", \"") + tensor.name + "\"";
    }
    std::printf(
        "{\"schema\": \"lockstep.logits/1\", \"version\": \"%s\", \"verdict\": "
        "\"not_applicable\", \"tensors\": [%s]}\n",
        LOCKSTEP_VERSION, names.c_str());
  } else if (!arguments.common.quiet) {
    for (const OutputTensor& tensor : output.tensors) {
      std::string shape;
      for (const std::uint64_t size : tensor.shape) {
        shape += (shape.empty() ? "" : ", ") + std::to_string(size);
      }
      std::printf("%-20s %s [%s]\n", tensor.name.c_str(), std::string(tensor.dtype).c_str(),
                  shape.c_str());
    }
    std::printf("written to %s\n", arguments.out.c_str());
  }
  return 0;
}

}  // namespace

void add_logits(CommandLine& program) {
  auto arguments = std::make_shared<LogitsArguments>();
  LogitsArguments& a = *arguments;
  const Command command =
      program.command("logits", "one side alone: logits of a token sequence, as safetensors");
  command.option("model", a.model, "a .gguf file, a folder, or tiny:ARCH:SEED[:DTYPE]").required();
  add_common(command, a.common);
  command.option("--device", a.common.device, "where the engine runs (default vgpu:sm_90)");
  command.option("--engine", a.engine, "reference (double) or cuda")
      .one_of({"reference", "cuda"})
      .shows_default();
  command.option("--operands", a.operands, "engine: f16, bf16, or f32 (CUDA cores only)")
      .one_of({"f16", "bf16", "f32"})
      .shows_default();
  command.option("--tokens", a.tokens, "token ids: 1,2,3");
  command.option("--tokens-file", a.tokens_file, "a file of token ids");
  command.flag("--hidden-states", a.hidden_states, "the residual stream after each layer too");
  command.option("--greedy", a.greedy, "continue by this many tokens");
  command.option("--weights", a.weights, "reference: exact, or f32 (rounded to float32 before use)")
      .one_of({"exact", "f32"})
      .shows_default();
  command.option("--from", a.from, "rows from this position on");
  command.option("--prefill", a.prefill,
                 "engine: this many tokens in one prefill, the rest one at a time (default all "
                 "but the last; with --from 0, one)");
  command.option("--out", a.out, "the file to write").required();
  command.body([arguments] { return execute(*arguments); });
}

}  // namespace lockstep::harness
