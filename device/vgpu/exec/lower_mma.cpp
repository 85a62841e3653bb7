// mma.sync: modifiers -> the generation's arithmetic, vectors of registers -> fragments.
#include "base/check.h"
#include "device/vgpu/exec/lower_state.h"
#include "device/vgpu/generation/generation.h"

namespace lockstep::device::vgpu::exec {

using ptx::Instruction;
using ptx::Operand;

namespace {

std::optional<numeric::MmaFormat> format_of(const std::string& type) {
  using numeric::MmaFormat;
  struct Entry {
    const char* name;
    MmaFormat format;
  };
  constexpr Entry kEntries[] = {
      {"f16", MmaFormat::F16},   {"bf16", MmaFormat::BF16}, {"tf32", MmaFormat::TF32},
      {"e4m3", MmaFormat::E4M3}, {"e5m2", MmaFormat::E5M2}, {"e3m2", MmaFormat::E3M2},
      {"e2m3", MmaFormat::E2M3}, {"e2m1", MmaFormat::E2M1}, {"f32", MmaFormat::F32},
      {"s8", MmaFormat::S8},     {"u8", MmaFormat::U8},     {"s32", MmaFormat::S32},
  };
  for (const Entry& entry : kEntries) {
    if (type == entry.name) return entry.format;
  }
  return std::nullopt;
}

struct Shape {
  generation::MmaQuery query;
  bool is_known = false;
};
// mma.sync.aligned.m16n8kK.row.col{.satfinite}{.kind::f8f6f4}.d.a.b.c
Shape read_shape(const Instruction& in) {
  Shape shape;
  const std::vector<std::string>& modifiers = in.modifiers;
  if (modifiers.size() < 9 || modifiers[0] != "sync" || modifiers[1] != "aligned" ||
      !modifiers[2].starts_with("m16n8k") || modifiers[3] != "row" || modifiers[4] != "col") {
    return shape;
  }
  for (const char c : modifiers[2].substr(6)) {
    if (c < '0' || c > '9') return shape;
  }
  shape.query.k = static_cast<std::uint32_t>(std::stoul("0" + modifiers[2].substr(6, 4)));
  const std::size_t types = modifiers.size() - 4;
  for (std::size_t k = 5; k < types; ++k) {
    if (modifiers[k] == "satfinite") {
      shape.query.satfinite = true;
    } else if (modifiers[k] == "kind::f8f6f4") {
      shape.query.kind_f8f6f4 = true;
    } else {
      return shape;
    }
  }
  const auto d = format_of(modifiers[types]), a = format_of(modifiers[types + 1]);
  const auto b = format_of(modifiers[types + 2]), c = format_of(modifiers[types + 3]);
  if (!a || !b || !c || !d || *c != *d) return shape;
  shape.query.a = *a;
  shape.query.b = *b;
  shape.query.c = *c;
  shape.is_known = true;
  return shape;
}

}  // namespace

Lowering::Status Lowering::lower_mma(Scope& scope, const Instruction& in) {
  const Shape shape = read_shape(in);
  if (!shape.is_known) return error("no such opcode");
  const generation::GenerationSpec* spec = generation::find(options_.sm);
  LS_CHECK(spec != nullptr);
  const auto form = generation::mma_form(*spec, shape.query);
  if (!form) return error(form.error().rule);
  if (in.operands.size() != 4) return error("wrong number of operands");
  const std::uint32_t bits_a = numeric::code_bits(shape.query.a);
  const std::uint32_t bits_b = numeric::code_bits(shape.query.b);
  // Codes of 4 and 6 bits take a byte each in these forms.
  const std::uint32_t stored_a = bits_a < 8 ? 8 : bits_a, stored_b = bits_b < 8 ? 8 : bits_b;
  const std::size_t accumulators = shape.query.c == numeric::MmaFormat::F16 ? 2 : 4;
  const std::size_t counts[4] = {accumulators, 16 * shape.query.k * stored_a / 1024,
                                 8 * shape.query.k * stored_b / 1024, accumulators};
  constexpr std::size_t kFirst[4] = {0, 4, 8, 10};
  constexpr std::size_t kMost[4] = {4, 4, 2, 4};
  const std::uint32_t unused = constant('w', 0);
  std::vector<std::uint32_t> registers(14, unused);
  for (std::size_t k = 0; k < 4; ++k) {
    const Operand& operand = in.operands[k];
    const std::vector<Operand> elements =
        operand.kind == Operand::Kind::Vector ? operand.elements : std::vector<Operand>{operand};
    if (elements.size() != counts[k] || counts[k] > kMost[k]) {
      return error("wrong number of registers");
    }
    for (std::size_t n = 0; n < elements.size(); ++n) {
      LS_ASSIGN(registers[kFirst[k] + n],
                k == 0 ? destination(scope, elements[n], 'w') : source(scope, elements[n], 'w'));
    }
  }
  program_->forms.push_back(*form);
  LS_ASSIGN(const Row* found, row("mma"));
  const std::uint32_t* list = keep_list(std::move(registers));
  Instr& instr = emit(*found);
  instr.registers = list;
  instr.object = &program_->forms.back();
  return base::Ok{};
}

}  // namespace lockstep::device::vgpu::exec
