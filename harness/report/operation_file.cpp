#include "harness/report/operation_file.h"

#include <fmt/format.h>

#include <array>
#include <cmath>
#include <filesystem>
#include <limits>
#include <nlohmann/json.hpp>

#include "base/check.h"
#include "base/hash.h"
#include "base/limits.h"
#include "model/json.h"
#include "trace/scenario_reader.h"

namespace lockstep::harness {
namespace {

using device::ApproximationMode;
using model::Activation;
using model::Arch;
using model::DType;
using model::RopePairing;
using model::RopeScalingKind;
using nlohmann::json;
using trace::Field;
using trace::Object;
using trace::TapTensor;

constexpr const char* kDescription = "operation.json";
constexpr const char* kSchema = "lockstep.operation/1";
constexpr std::uint64_t kSizeMax = 1 << 24;  // of an axis
constexpr double kHuge = std::numeric_limits<double>::max();

constexpr std::array<std::pair<const char*, ApproximationMode>, 4> kModes = {
    {{"nominal", ApproximationMode::Nominal},
     {"low", ApproximationMode::Low},
     {"high", ApproximationMode::High},
     {"hashed", ApproximationMode::Hashed}}};
constexpr std::array<std::pair<const char*, RopeScalingKind>, 3> kScalings = {
    {{"none", RopeScalingKind::None},
     {"linear", RopeScalingKind::Linear},
     {"llama3", RopeScalingKind::Llama3}}};
constexpr std::array<std::pair<const char*, RopePairing>, 2> kPairings = {
    {{"half", RopePairing::Half}, {"interleaved", RopePairing::Interleaved}}};
constexpr std::array<std::pair<const char*, Activation>, 2> kActivations = {
    {{"silu", Activation::Silu}, {"gelu_tanh", Activation::GeluTanh}}};

template <class T, std::size_t kCount>
const char* word(const std::array<std::pair<const char*, T>, kCount>& words, T value) {
  for (const auto& [name, each] : words) {
    if (each == value) return name;
  }
  LS_CHECK(false);
}
template <class T, std::size_t kCount>
T value_of(const Field& field, const std::array<std::pair<const char*, T>, kCount>& words) {
  const std::string text = field.text("");
  for (const auto& [name, each] : words) {
    if (text == name) return each;
  }
  if (field.present()) field.fail("has no value \"" + text + "\"");
  return words[0].second;
}
// Enumerators 0 .. count - 1 by their names.
template <class T>
T named(const Field& field, std::size_t count) {
  const std::string text = field.text("");
  for (std::size_t i = 0; i < count; ++i) {
    if (text == name(static_cast<T>(i))) return static_cast<T>(i);
  }
  if (field.present()) field.fail("has no value \"" + text + "\"");
  return T{};
}
constexpr std::size_t kArchCount = static_cast<std::size_t>(Arch::Gemma3) + 1;
constexpr std::size_t kRoleCount = static_cast<std::size_t>(model::WeightRole::PostFfnNorm) + 1;

DType dtype_of(const Field& field) {
  const std::string text = field.text("");
  const auto dtype = model::dtype_from_name(text);
  if (!dtype && field.present()) field.fail("has no value \"" + text + "\"");
  return dtype.value_or(DType::F32);
}

json config_json(const model::ModelConfig& config) {
  json layers = json::array();
  for (const model::LayerAttention& layer : config.layers) {
    const model::RopeScaling& scaling = layer.rope_scaling;
    layers.push_back({{"window", layer.window},
                      {"rope_theta", layer.rope_theta},
                      {"rope_scaling", word(kScalings, scaling.kind)},
                      {"factor", scaling.factor},
                      {"low_frequency_factor", scaling.low_frequency_factor},
                      {"high_frequency_factor", scaling.high_frequency_factor},
                      {"original_context_length", scaling.original_context_length}});
  }
  return {{"arch", model::name(config.arch)},
          {"hidden_size", config.hidden_size},
          {"head_count", config.head_count},
          {"kv_head_count", config.kv_head_count},
          {"head_size", config.head_size},
          {"ffn_size", config.ffn_size},
          {"vocab_size", config.vocab_size},
          {"context_length", config.context_length},
          {"rms_norm_epsilon", config.rms_norm_epsilon},
          {"attention_scale", config.attention_scale},
          {"embedding_scale", config.embedding_scale},
          {"rope_pairing", word(kPairings, config.rope_pairing)},
          {"activation", word(kActivations, config.activation)},
          {"qk_norm", config.qk_norm},
          {"post_norms", config.post_norms},
          {"norm_weight_plus_one", config.norm_weight_plus_one},
          {"tied_embeddings", config.tied_embeddings},
          {"rope_frequency_divisors", config.rope_frequency_divisors},
          {"layers", layers}};
}

model::LayerAttention read_layer(const Field& field) {
  const Object object(field,
                      {"window", "rope_theta", "rope_scaling", "factor", "low_frequency_factor",
                       "high_frequency_factor", "original_context_length"});
  model::LayerAttention layer;
  layer.window = object["window"].count(0, 0, kSizeMax);
  layer.rope_theta = object["rope_theta"].number(1, 1e-300, kHuge);
  model::RopeScaling& scaling = layer.rope_scaling;
  scaling.kind = value_of(object["rope_scaling"], kScalings);
  scaling.factor = object["factor"].number(1, 1e-300, kHuge);
  scaling.low_frequency_factor = object["low_frequency_factor"].number(1, 0, kHuge);
  scaling.high_frequency_factor = object["high_frequency_factor"].number(4, 0, kHuge);
  scaling.original_context_length = object["original_context_length"].number(8192, 0, kHuge);
  return layer;
}

model::ModelConfig read_config(const Field& field) {
  const Object object(
      field, {"arch", "hidden_size", "head_count", "kv_head_count", "head_size", "ffn_size",
              "vocab_size", "context_length", "rms_norm_epsilon", "attention_scale",
              "embedding_scale", "rope_pairing", "activation", "qk_norm", "post_norms",
              "norm_weight_plus_one", "tied_embeddings", "rope_frequency_divisors", "layers"});
  model::ModelConfig config;
  config.arch = named<Arch>(object["arch"], kArchCount);
  config.hidden_size = object["hidden_size"].count(1, 1, kSizeMax);
  config.head_count = object["head_count"].count(1, 1, 4096);
  config.kv_head_count = object["kv_head_count"].count(1, 1, 4096);
  if (config.head_count % config.kv_head_count != 0) object.fail("kv_head_count must divide");
  config.head_size = object["head_size"].count(2, 2, 1024);
  if (config.head_size % 2 != 0) object.fail("head_size must be even");
  config.ffn_size = object["ffn_size"].count(1, 1, kSizeMax);
  config.vocab_size = object["vocab_size"].count(1, 1, kSizeMax);
  config.context_length = object["context_length"].count(1, 1, std::uint64_t{1} << 30);
  config.rms_norm_epsilon = object["rms_norm_epsilon"].number(0, 0, kHuge);
  config.attention_scale = object["attention_scale"].number(1, -kHuge, kHuge);
  config.embedding_scale = object["embedding_scale"].number(1, -kHuge, kHuge);
  config.rope_pairing = value_of(object["rope_pairing"], kPairings);
  config.activation = value_of(object["activation"], kActivations);
  config.qk_norm = object["qk_norm"].boolean(false);
  config.post_norms = object["post_norms"].boolean(false);
  config.norm_weight_plus_one = object["norm_weight_plus_one"].boolean(false);
  config.tied_embeddings = object["tied_embeddings"].boolean(false);
  const Field divisors = object["rope_frequency_divisors"];
  for (std::size_t i = 0; i < divisors.list(512).size(); ++i) {
    config.rope_frequency_divisors.push_back(divisors.element(i).number(1, 1e-300, kHuge));
  }
  const std::size_t count = config.rope_frequency_divisors.size();
  if (count != 0 && count != config.head_size / 2) divisors.fail("must be one a pair");
  const Field layers = object["layers"];
  for (std::size_t i = 0; i < layers.list(4096).size(); ++i) {
    config.layers.push_back(read_layer(layers.element(i)));
  }
  config.layer_count = static_cast<std::uint32_t>(config.layers.size());
  return config;
}

json tap_json(const TapTensor& tap) {
  json rows = json::array();
  for (const trace::RowId& row : tap.rows) rows.push_back({row.request.value, row.position});
  return {{"point", trace::name(tap.point)},
          {"layer", tap.layer.value},
          {"dtype", model::name(tap.dtype)},
          {"width", tap.width},
          {"rows", rows}};
}

TapTensor read_tap(const Field& field) {
  const Object object(field, {"point", "layer", "dtype", "width", "rows"});
  TapTensor tap;
  tap.point = named<trace::TapPoint>(object["point"], trace::kTapPointCount);
  tap.layer = {object["layer"].count(0, 0, 4096)};
  tap.dtype = dtype_of(object["dtype"]);
  tap.width = object["width"].count(1, 1, kSizeMax);
  const Field rows = object["rows"];
  for (std::size_t i = 0; i < rows.list(1 << 20).size(); ++i) {
    const Field row = rows.element(i);
    if (row.list(2).size() != 2) {
      row.fail("must be [request, position]");
      break;
    }
    tap.rows.push_back({{row.element(0).count(0, 0, 1 << 20)},
                        row.element(1).count(0, 0, std::uint64_t{1} << 30)});
  }
  return tap;
}

json weight_json(const WeightPart& part) {
  return {{"name", part.name},
          {"role", model::name(part.role)},
          {"dtype", model::name(part.dtype)},
          {"is_vector", part.is_vector},
          {"rows", part.rows},
          {"columns", part.columns}};
}

WeightPart read_weight(const Field& field) {
  const Object object(field, {"name", "role", "dtype", "is_vector", "rows", "columns"});
  WeightPart part;
  part.name = object["name"].text("");
  part.role = named<model::WeightRole>(object["role"], kRoleCount);
  part.dtype = dtype_of(object["dtype"]);
  part.is_vector = object["is_vector"].boolean(false);
  part.rows = object["rows"].integer(1, 1, kSizeMax);
  part.columns = object["columns"].integer(1, 1, kSizeMax);
  return part;
}

// All but the tensors' bytes.
RecordedOperation read_description(const Field& field) {
  const Object object(
      field, {"schema",        "key",          "from",        "seed",       "device",
              "approximation", "kernel",       "kernel_hash", "block_size", "operand_format",
              "config",        "op",           "layer",       "launch",     "prefill",
              "weight",        "first_output", "weights",     "reads",      "writes"});
  RecordedOperation operation;
  if (object["schema"].text("") != kSchema)
    object["schema"].fail("must be " + std::string(kSchema));
  object["key"].text("", 0);
  operation.from = object["from"].text("", 0);
  operation.seed = object["seed"].integer(1, 0, std::numeric_limits<std::uint64_t>::max());
  operation.device = object["device"].text("");
  operation.approximation = value_of(object["approximation"], kModes);
  operation.kernel_hash = object["kernel_hash"].text("", 0);
  operation.block_size = object["block_size"].count(16, 1, 4096);
  operation.operand_format = dtype_of(object["operand_format"]);
  operation.config = read_config(object["config"]);
  operation.first_output = object["first_output"].count(0, 0, kSizeMax);
  trace::OpCall& call = operation.call;
  call.contract.op = named<trace::Op>(object["op"], trace::kOpCount);
  call.contract.kernel = object["kernel"].text("");
  call.layer = {object["layer"].count(0, 0, 4096)};
  call.launch = {object["launch"].count(0, 0, std::numeric_limits<std::uint32_t>::max())};
  call.prefill = object["prefill"].boolean(false);
  if (object["weight"].given())
    call.weight = named<model::WeightRole>(object["weight"], kRoleCount);
  const auto each = [&](const char* name, const auto& add) {
    const Field list = object[name];
    for (std::size_t i = 0; i < list.list(3).size(); ++i) add(list.element(i));
  };
  each("weights", [&](const Field& f) { operation.weights.push_back(read_weight(f)); });
  each("reads", [&](const Field& f) { call.reads.push_back(read_tap(f)); });
  each("writes", [&](const Field& f) { call.writes.push_back(read_tap(f)); });
  return operation;
}

const trace::NamedBytes* find_blob(const trace::Trace& trace, const std::string& name) {
  for (const trace::NamedBytes& blob : trace.blobs) {
    if (blob.name == name) return &blob;
  }
  return nullptr;
}

// Names of the blobs beside the description, in order, with where their bytes belong.
template <class Operation, class Visit>
void each_blob(Operation& operation, const Visit& visit) {
  const auto numbered = [&](const char* name, auto& parts) {
    for (std::size_t i = 0; i < parts.size(); ++i) {
      visit(fmt::format("{}.{}", name, i), parts[i].bytes);
    }
  };
  numbered("read", operation.call.reads);
  numbered("wrote", operation.call.writes);
  numbered("weight", operation.weights);
}

json description_json(const RecordedOperation& operation, const std::string& key) {
  const trace::OpCall& call = operation.call;
  json description = {{"schema", kSchema},
                      {"key", key},
                      {"from", operation.from},
                      {"seed", operation.seed},
                      {"device", operation.device},
                      {"approximation", word(kModes, operation.approximation)},
                      {"kernel", call.contract.kernel},
                      {"kernel_hash", operation.kernel_hash},
                      {"block_size", operation.block_size},
                      {"operand_format", model::name(operation.operand_format)},
                      {"config", config_json(operation.config)},
                      {"op", trace::name(call.contract.op)},
                      {"layer", call.layer.value},
                      {"launch", call.launch.value},
                      {"prefill", call.prefill},
                      {"weight", nullptr},
                      {"first_output", operation.first_output},
                      {"weights", json::array()},
                      {"reads", json::array()},
                      {"writes", json::array()}};
  if (call.weight) description["weight"] = model::name(*call.weight);
  for (const WeightPart& part : operation.weights) {
    description["weights"].push_back(weight_json(part));
  }
  for (const TapTensor& tap : call.reads) description["reads"].push_back(tap_json(tap));
  for (const TapTensor& tap : call.writes) description["writes"].push_back(tap_json(tap));
  return description;
}

std::string bytes_text(std::uint64_t bytes) {
  if (bytes < 10240) return fmt::format("{:.1f} KiB", static_cast<double>(bytes) / 1024);
  if (bytes < (10u << 20)) return fmt::format("{} KiB", bytes / 1024);
  return fmt::format("{} MiB", bytes >> 20);
}

std::string counted(std::uint64_t count, const char* one, const char* many) {
  return fmt::format("{} {}", count, count == 1 ? one : many);
}

}  // namespace

bool holds_operation(const trace::Trace& trace) {
  return find_blob(trace, kDescription) != nullptr;
}

trace::Trace trace_of(const RecordedOperation& operation, const oracles::Finding& finding) {
  trace::Trace trace;
  trace.program_version = LOCKSTEP_VERSION;
  trace.finding_key = finding.key;
  trace.finding_message = finding.message;
  const std::string text = description_json(operation, finding.key).dump();
  const auto bytes = std::as_bytes(std::span(text.data(), text.size()));
  trace.blobs.push_back({kDescription, {bytes.begin(), bytes.end()}});
  each_blob(operation, [&](std::string name, const std::vector<std::byte>& content) {
    trace.blobs.push_back({std::move(name), content});
  });
  return trace;
}

base::Result<RecordedOperation> operation_of(const trace::Trace& trace, const std::string& file) {
  const trace::NamedBytes* description = find_blob(trace, kDescription);
  if (description == nullptr) return base::input_error(file, "holds no operation");
  const std::string place = file + ": " + kDescription;
  const std::string_view text(reinterpret_cast<const char*>(description->bytes.data()),
                              description->bytes.size());
  LS_ASSIGN(const json document, model::parse_json(text, place, base::Limits{}));
  trace::Problems problems(place);
  RecordedOperation operation = read_description(Field(problems, &document, ""));
  if (const auto problem = problems.first()) return *problem;
  std::string missing;
  each_blob(operation, [&](const std::string& name, std::vector<std::byte>& content) {
    const trace::NamedBytes* blob = find_blob(trace, name);
    if (blob == nullptr) {
      if (missing.empty()) missing = name;
    } else {
      content = blob->bytes;
    }
  });
  if (!missing.empty()) return base::input_error(file, "part missing: " + missing);
  LS_TRY(check_operation(operation, file));
  return operation;
}

base::Result<WrittenOperation> write_operation(const RecordedOperation& operation,
                                               const oracles::Finding& finding,
                                               const std::string& folder) {
  base::Hash128 hash;
  each_blob(operation, [&](const std::string&, const std::vector<std::byte>& content) {
    hash = base::hash_combine(hash, base::hash_bytes(content));
  });
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  WrittenOperation written;
  written.path = fmt::format("{}/{}-{}.lstrace", folder, finding.key, hash.hex().substr(0, 4));
  written.summary = fmt::format("{}: {} with its operands", shape_of(operation),
                                bytes_text(operation.size_bytes()));
  LS_TRY(trace::write_trace(written.path, trace_of(operation, finding)));
  return written;
}

std::string shape_of(const RecordedOperation& operation) {
  const trace::OpCall& call = operation.call;
  const model::ModelConfig& config = operation.config;
  const std::size_t count = call.writes.front().rows.size();
  const std::string rows = counted(count, "row", "rows");
  const std::uint32_t width = call.writes.front().width;
  switch (call.contract.op) {
    case trace::Op::EmbedRows:
    case trace::Op::RmsNorm:
    case trace::Op::Gate:
    case trace::Op::ResidualAdd:
      return fmt::format("{} of {}", rows, width);
    case trace::Op::Gemv:
    case trace::Op::Gemm:
      return fmt::format(
          "{} of {}, {}{}, weight {}", rows, call.reads.front().width,
          counted(width, "output", "outputs"),
          operation.first_output == 0 ? "" : fmt::format(" from {} on", operation.first_output),
          model::name(operation.weights.front().dtype));
    case trace::Op::RopeKvWrite:
      return fmt::format("{}, {} and {} of {}", rows,
                         counted(config.head_count, "query head", "query heads"),
                         counted(config.kv_head_count, "KV head", "KV heads"), config.head_size);
    case trace::Op::AttentionPrefill:
    case trace::Op::AttentionDecode:
      return fmt::format("{}, {}, {} of {}", counted(count, "query", "queries"),
                         counted(call.reads[1].rows.size(), "key", "keys"),
                         counted(config.head_count, "head", "heads"), config.head_size);
    case trace::Op::Argmax:
      return fmt::format("{} of {}", rows, call.reads.front().width);
  }
  LS_CHECK(false);
}

}  // namespace lockstep::harness
