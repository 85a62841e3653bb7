#include "harness/report/operands.h"

#include <fmt/format.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "base/check.h"
#include "base/hash.h"
#include "harness/report/safetensors_writer.h"

namespace lockstep::harness {
namespace {

using nlohmann::json;
using trace::TapTensor;

json contract_json(const trace::Contract& contract) {
  const trace::ApproximateSet& approximate = contract.approximate;
  return {{"op", trace::name(contract.op)},
          {"kernel", contract.kernel},
          {"input_format", model::name(contract.input_format)},
          {"weight_format", model::name(contract.weight_format)},
          {"sum", contract.sum == trace::SumKind::None        ? "none"
                  : contract.sum == trace::SumKind::F32Chains ? "f32_chains"
                                                              : "tensor_core"},
          {"rounding_depth", contract.rounding_depth},
          {"mma_k", contract.mma_k},
          {"k_segments", contract.k_segments},
          {"segment_k", contract.segment_k},
          {"tile_keys", contract.tile_keys},
          {"split_keys", contract.split_keys},
          {"probability_format", model::name(contract.probability_format)},
          {"sum_of_rounded_probabilities", contract.sum_of_rounded_probabilities},
          {"depth_scores", contract.depth_scores},
          {"depth_output", contract.depth_output},
          {"depth_sum", contract.depth_sum},
          {"approximate",
           {{"ex2", approximate.ex2},
            {"rsqrt", approximate.rsqrt},
            {"rcp", approximate.rcp},
            {"divide", approximate.divide},
            {"tanh", approximate.tanh}}},
          {"output_format", model::name(contract.output_format)},
          {"second_output_format", model::name(contract.second_output_format)},
          {"batch_invariant", contract.batch_invariant},
          {"chunk_invariant", contract.chunk_invariant}};
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

class Collector {
 public:
  void add(const std::string& name, const TapTensor& tap) {
    const auto tag = model::layout(tap.dtype).safetensors_type;
    LS_CHECK(tag.has_value());
    tensors.push_back({name, *tag, {tap.rows.size(), tap.width}, tap.bytes});
    hash = base::hash_combine(hash, base::hash_bytes(tap.bytes));
  }
  void add(const std::string& name, const std::vector<double>& values, const TapTensor& like) {
    tensors.push_back(
        {name, "F64", {like.rows.size(), like.width}, std::as_bytes(std::span(values))});
  }
  std::vector<OutputTensor> tensors;
  base::Hash128 hash;
};

}  // namespace

base::Result<std::string> write_operands(const oracles::Finding& finding, const std::string& device,
                                         const std::string& folder) {
  LS_CHECK(finding.operation != nullptr);
  const trace::OpCompleted& done = *finding.operation;
  Collector collector;
  json description = {{"schema", "lockstep.operands/1"},
                      {"key", finding.key},
                      {"device", device},
                      {"layer", done.call.layer.value},
                      {"prefill", done.call.prefill},
                      {"contract", contract_json(done.call.contract)},
                      {"reads", json::array()},
                      {"writes", json::array()}};
  if (done.call.weight) description["weight"] = model::name(*done.call.weight);
  for (std::size_t i = 0; i < done.call.reads.size(); ++i) {
    collector.add("read." + std::to_string(i), done.call.reads[i]);
    description["reads"].push_back(tap_json(done.call.reads[i]));
  }
  for (std::size_t i = 0; i < done.call.writes.size(); ++i) {
    const TapTensor& tap = done.call.writes[i];
    const std::string suffix = "." + std::to_string(i);
    collector.add("got" + suffix, tap);
    description["writes"].push_back(tap_json(tap));
    if (i < done.reference.expected.size()) {
      collector.add("want" + suffix, done.reference.expected[i].want, tap);
      collector.add("low" + suffix, done.reference.expected[i].low, tap);
      collector.add("high" + suffix, done.reference.expected[i].high, tap);
    }
  }
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  const std::string path =
      fmt::format("{}/{}-{}.safetensors", folder, finding.key, collector.hash.hex().substr(0, 4));
  LS_TRY(write_safetensors(path, collector.tensors, {{"lockstep", description.dump()}}));
  return path;
}

}  // namespace lockstep::harness
