// Tensor-core vectors (tcv1): vec and tile records made by models, hw records measured on GPUs,
// against the generations' tables and the scalar model; tiles of mma.sync also against the vector
// code of this host.
#include <map>
#include <memory>
#include <optional>

#include "device/vgpu/generation/generation.h"
#include "device/vgpu/numeric/mma.h"
#include "harness/commands/vectors_record.h"

namespace lockstep::harness {
namespace {

namespace generation = device::vgpu::generation;
namespace numeric = device::vgpu::numeric;
using generation::MmaUnit;
using numeric::MmaForm;
using numeric::MmaFormat;

const std::map<std::string, MmaFormat> kFormats = {
    {"f16", MmaFormat::F16},     {"bf16", MmaFormat::BF16}, {"tf32", MmaFormat::TF32},
    {"e4m3", MmaFormat::E4M3},   {"e5m2", MmaFormat::E5M2}, {"e3m2", MmaFormat::E3M2},
    {"e2m3", MmaFormat::E2M3},   {"e2m1", MmaFormat::E2M1}, {"ue8m0", MmaFormat::UE8M0},
    {"ue4m3", MmaFormat::UE4M3}, {"f32", MmaFormat::F32},   {"s8", MmaFormat::S8},
    {"u8", MmaFormat::U8},       {"s32", MmaFormat::S32},
};

struct ModelUnit {
  const generation::GenerationSpec* generation;
  MmaUnit unit;
};
// Volta has no generation of its own here; Turing's m8n8k4 form is Volta's.
const std::map<std::string, ModelUnit> kModels = {
    {"volta.mma", {&generation::kSm75, MmaUnit::MmaM8n8k4}},
    {"turing.mma", {&generation::kSm75, MmaUnit::MmaSync}},
    {"ampere.mma", {&generation::kSm80, MmaUnit::MmaSync}},
    {"ada.mma", {&generation::kSm89, MmaUnit::MmaSync}},
    {"hopper.mma", {&generation::kSm90, MmaUnit::MmaSync}},
    {"hopper.wgmma", {&generation::kSm90, MmaUnit::Wgmma}},
    {"blackwell.mma", {&generation::kSm100, MmaUnit::MmaSync}},
    {"blackwell.tcgen05", {&generation::kSm100, MmaUnit::Tcgen05}},
    {"rtx_blackwell.mma", {&generation::kSm120, MmaUnit::MmaSync}},
    // Integer sums, the same on all.
    {"wrap", {&generation::kSm80, MmaUnit::MmaSync}},
    {"satfinite", {&generation::kSm80, MmaUnit::MmaSync}},
};

// What a set, tile or hw record says of its operands.
struct Shape {
  generation::MmaQuery query;  // unit and k: filled in per model
  std::uint64_t k = 0;         // products of one vector
  std::uint64_t scales() const { return query.scaled ? k / query.scale_block : 0; }
};

base::Result<MmaFormat> format_of(const VectorRecord& record, const char* field) {
  LS_ASSIGN(const std::string name, record.text(field));
  const auto found = kFormats.find(name);
  if (found == kFormats.end()) return record.error(std::string(field) + ": unknown type " + name);
  return found->second;
}

base::Result<Shape> read_shape(const VectorRecord& record) {
  Shape shape;
  LS_ASSIGN(shape.query.a, format_of(record, "a_type"));
  LS_ASSIGN(shape.query.b, format_of(record, "b_type"));
  LS_ASSIGN(shape.query.c, format_of(record, "c_type"));
  LS_ASSIGN(const MmaFormat d, format_of(record, "d_type"));
  if (d != shape.query.c) return record.error("d_type must be c_type");
  LS_ASSIGN(shape.k, record.number("k"));
  if (shape.k == 0) return record.error("k must be positive");
  if (record.has("s_type")) {
    shape.query.scaled = true;
    LS_ASSIGN(shape.query.scale, format_of(record, "s_type"));
    LS_ASSIGN(const std::uint64_t block, record.number("block"));
    if (block == 0 || shape.k % block != 0) return record.error("block must divide k");
    shape.query.scale_block = static_cast<std::uint32_t>(block);
  }
  return shape;
}

struct Instruction {
  std::string model;
  std::optional<MmaForm> form;  // none: the exact sum, rounded once
};

base::Result<Instruction> instruction_of(const VectorRecord& record, const Shape& shape,
                                         const std::string& model, const std::string& spelled,
                                         std::uint64_t k, const VectorOptions& options) {
  const auto found = kModels.find(model);
  if (found == kModels.end()) return record.error("unknown model " + model);
  generation::MmaQuery query = shape.query;
  query.unit = found->second.unit;
  query.k = static_cast<std::uint32_t>(k);
  query.kind_f8f6f4 = spelled.find("kind::f8f6f4") != std::string::npos;
  query.satfinite = model == "satfinite";
  auto form = generation::mma_form(*found->second.generation, query);
  if (!form) return record.error(model + ": " + form.error().message());
  if (options.change_form) options.change_form(*form);
  return Instruction{model, *form};
}

struct Vectors {
  std::vector<std::uint32_t> a, b, c, d, scale_a, scale_b;
};

class TensorCoreReader final : public VectorReader {
 public:
  explicit TensorCoreReader(const VectorOptions& options) : options_(options) {}

  base::Status read(const VectorRecord& record, VectorReport& report) override {
    LS_ASSIGN(const std::string kind, record.text("rec"));
    if (kind == "set") return read_set(record);
    if (kind == "vec") return read_vectors(record, report);
    if (kind == "tile") return read_tile(record, report);
    if (kind == "hw") return read_measured(record, report);
    return record.error("unknown record " + kind);
  }

 private:
  struct Set {
    Shape shape;
    std::map<std::string, Instruction> instructions;
  };

  base::Status read_set(const VectorRecord& record) {
    LS_ASSIGN(const std::string name, record.text("set"));
    Set set;
    LS_ASSIGN(set.shape, read_shape(record));
    const auto models = record.json.find("models");
    if (models == record.json.end() || !models->is_object()) {
      return record.error("models must be an object");
    }
    for (const auto& [model, description] : models->items()) {
      const VectorRecord inner{record.path, record.line, description};
      if (!description.is_object()) return record.error("models." + model + " must be an object");
      LS_ASSIGN(const std::string spelled, inner.text("instr"));
      LS_ASSIGN(const std::uint64_t k, inner.number("k"));
      LS_ASSIGN(Instruction instruction,
                instruction_of(record, set.shape, model, spelled, k, options_));
      set.instructions.emplace(model, std::move(instruction));
    }
    set.instructions.emplace("exact.rne", Instruction{"exact.rne", std::nullopt});
    sets_[name] = std::move(set);
    return base::Ok{};
  }

  static base::Result<Vectors> read_operands(const VectorRecord& record, const Shape& shape,
                                             std::uint64_t a_count, std::uint64_t b_count,
                                             std::uint64_t c_count) {
    Vectors vectors;
    const generation::MmaQuery& query = shape.query;
    LS_ASSIGN(vectors.a, record.codes("a", a_count * shape.k, numeric::code_bits(query.a)));
    LS_ASSIGN(vectors.b, record.codes("b", b_count * shape.k, numeric::code_bits(query.b)));
    LS_ASSIGN(vectors.c, record.codes("c", c_count, numeric::code_bits(query.c)));
    if (query.scaled) {
      const std::uint32_t bits = numeric::code_bits(query.scale);
      LS_ASSIGN(vectors.scale_a, record.codes("sa", a_count * shape.scales(), bits));
      LS_ASSIGN(vectors.scale_b, record.codes("sb", b_count * shape.scales(), bits));
    }
    return vectors;
  }

  base::Status read_vectors(const VectorRecord& record, VectorReport& report) {
    LS_ASSIGN(const std::string name, record.text("set"));
    const auto found = sets_.find(name);
    if (found == sets_.end()) return record.error("set " + name + " has no set record before");
    const Set& set = found->second;
    LS_ASSIGN(const std::uint64_t count, record.number("n"));
    LS_ASSIGN(const std::string kase, record.text("case"));
    LS_ASSIGN(const Vectors vectors, read_operands(record, set.shape, count, count, count));
    const auto results = record.json.find("d");
    if (results == record.json.end() || !results->is_object()) {
      return record.error("d must be an object");
    }
    const std::uint32_t bits = numeric::code_bits(set.shape.query.c);
    for (const auto& [model, digits] : results->items()) {
      const auto instruction = set.instructions.find(model);
      if (instruction == set.instructions.end()) return record.error("unknown model " + model);
      const VectorRecord inner{record.path, record.line, *results};
      LS_ASSIGN(const std::vector<std::uint32_t> want, inner.codes(model.c_str(), count, bits));
      for (std::uint64_t row = 0; row < count; ++row) {
        const std::uint32_t got = run(instruction->second, set.shape, vectors, row, row, row);
        compare(report, options_, record.line, want[row], got, bits, [&, &model_name = model] {
          return name + ", case " + kase + ", row " + std::to_string(row) + ", " + model_name;
        });
      }
    }
    return base::Ok{};
  }

  // b is k x n, sb is k/block x n; the rest is row-major like the vectors.
  static std::vector<std::uint32_t> transposed(const std::vector<std::uint32_t>& matrix,
                                               std::uint64_t rows, std::uint64_t columns) {
    std::vector<std::uint32_t> result(matrix.size());
    for (std::uint64_t row = 0; row < rows; ++row) {
      for (std::uint64_t column = 0; column < columns; ++column) {
        result[column * rows + row] = matrix[row * columns + column];
      }
    }
    return result;
  }

  base::Status read_tile(const VectorRecord& record, VectorReport& report) {
    LS_ASSIGN(const Shape shape, read_shape(record));
    LS_ASSIGN(const std::uint64_t m, record.number("m"));
    LS_ASSIGN(const std::uint64_t n, record.number("n"));
    LS_ASSIGN(const std::string arch, record.text("arch"));
    LS_ASSIGN(const std::string unit, record.text("unit"));
    LS_ASSIGN(const std::string spelled, record.text("instr"));
    LS_ASSIGN(const Instruction instruction,
              instruction_of(record, shape, arch + "." + unit, spelled, shape.k, options_));
    LS_ASSIGN(Vectors vectors, read_operands(record, shape, m, n, m * n));
    vectors.b = transposed(vectors.b, shape.k, n);
    vectors.scale_b = transposed(vectors.scale_b, shape.scales(), n);
    const std::uint32_t bits = numeric::code_bits(shape.query.c);
    LS_ASSIGN(const std::vector<std::uint32_t> want, record.codes("d", m * n, bits));
    for (std::uint64_t i = 0; i < m * n; ++i) {
      const std::uint32_t got = run(instruction, shape, vectors, i / n, i % n, i);
      compare(report, options_, record.line, want[i], got, bits, [&] {
        return "tile " + arch + "." + unit + " " + spelled + ", row " + std::to_string(i / n) +
               ", column " + std::to_string(i % n);
      });
    }
    return base::Ok{};
  }

  // K of the instruction that a measurement used; its other products were zero.
  static std::uint64_t measured_k(const Shape& shape, const std::string& model) {
    if (model == "volta.mma") return 4;
    if (shape.query.a == MmaFormat::TF32) return 8;
    return numeric::code_bits(shape.query.a) == 8 ? 32 : 16;
  }

  base::Status read_measured(const VectorRecord& record, VectorReport& report) {
    LS_ASSIGN(const Shape shape, read_shape(record));
    LS_ASSIGN(const std::uint64_t count, record.number("n"));
    LS_ASSIGN(const std::string gpu, record.text("gpu"));
    LS_ASSIGN(const std::string model, record.text("model"));
    const std::uint64_t k = measured_k(shape, model);
    if (shape.k > k) return record.error("k must be at most the instruction's");
    LS_ASSIGN(const Instruction instruction, instruction_of(record, shape, model, "", k, options_));
    LS_ASSIGN(const Vectors vectors, read_operands(record, shape, count, count, count));
    const std::uint32_t bits = numeric::code_bits(shape.query.c);
    LS_ASSIGN(const std::vector<std::uint32_t> want, record.codes("d", count, bits));
    for (std::uint64_t row = 0; row < count; ++row) {
      const std::uint32_t got = run(instruction, shape, vectors, row, row, row);
      compare(report, options_, record.line, want[row], got, bits,
              [&] { return gpu + " " + model + ", row " + std::to_string(row); });
    }
    return base::Ok{};
  }

  static std::uint32_t run(const Instruction& instruction, const Shape& shape,
                           const Vectors& vectors, std::uint64_t a_row, std::uint64_t b_row,
                           std::uint64_t c_index) {
    const auto slice = [](const std::vector<std::uint32_t>& all, std::uint64_t row,
                          std::uint64_t width) {
      return std::span<const std::uint32_t>(all).subspan(row * width, width);
    };
    const auto a = slice(vectors.a, a_row, shape.k), b = slice(vectors.b, b_row, shape.k);
    const auto scale_a = slice(vectors.scale_a, a_row, shape.scales());
    const auto scale_b = slice(vectors.scale_b, b_row, shape.scales());
    const std::uint32_t c = vectors.c[c_index];
    if (instruction.form) {
      return numeric::mma_chain(*instruction.form, a, b, c, scale_a, scale_b);
    }
    MmaForm exact;
    exact.a = shape.query.a;
    exact.b = shape.query.b;
    exact.c = shape.query.c;
    exact.scaled = shape.query.scaled;
    exact.scale = shape.query.scale;
    exact.scale_block = shape.query.scale_block;
    return numeric::exact_dot(exact, a, b, c, scale_a, scale_b);
  }

  const VectorOptions& options_;
  std::map<std::string, Set> sets_;
};

}  // namespace

std::unique_ptr<VectorReader> make_tensor_core_reader(const VectorOptions& options) {
  return std::make_unique<TensorCoreReader>(options);
}

}  // namespace lockstep::harness
