#include "device/vgpu/exec/registers.h"

#include <algorithm>
#include <string_view>

namespace lockstep::device::vgpu::exec {

using ptx::Instruction;
using ptx::Operand;

namespace {

bool has_no_destination(const Instruction& in) {
  for (const std::string_view name : {"st",
                                      "red",
                                      "bra",
                                      "brx",
                                      "call",
                                      "ret",
                                      "exit",
                                      "trap",
                                      "brkpt",
                                      "membar",
                                      "fence",
                                      "cp",
                                      "stmatrix",
                                      "prefetch",
                                      "prefetchu",
                                      "nanosleep",
                                      "griddepcontrol",
                                      "discard",
                                      "applypriority",
                                      "pmevent",
                                      "setmaxnreg"}) {
    if (in.name == name) return true;
  }
  if (in.name != "bar" && in.name != "barrier") return false;
  return std::find(in.modifiers.begin(), in.modifiers.end(), "red") == in.modifiers.end();
}

void visit_operand(const Operand& operand, bool is_written,
                   const std::function<void(std::uint32_t, bool)>& visit) {
  switch (operand.kind) {
    case Operand::Kind::Register:
      visit(operand.index, is_written);
      break;
    case Operand::Kind::Address:
    case Operand::Kind::Symbol:
      if (operand.has_register) visit(operand.index, false);
      break;
    case Operand::Kind::Immediate:
    case Operand::Kind::Special:
    case Operand::Kind::Vector:
    case Operand::Kind::Label:
    case Operand::Kind::Sink:
      break;
  }
  if (operand.second_register) visit(*operand.second_register, is_written);
  for (const Operand& element : operand.elements) visit_operand(element, is_written, visit);
}

using Words = std::vector<std::uint64_t>;
bool test(const Words& words, std::uint32_t bit) {
  return (words[bit / 64] >> (bit % 64) & 1) != 0;
}
void set(Words& words, std::uint32_t bit) { words[bit / 64] |= std::uint64_t{1} << (bit % 64); }

// A run of instructions [begin, end) without a branch or a label inside.
struct BasicBlock {
  std::uint32_t begin = 0, end = 0;
  std::vector<std::uint32_t> successors;
  Words written_before;  // on every path
  bool reached = false;
};

std::vector<BasicBlock> basic_blocks(const ptx::Function& function) {
  const auto count = static_cast<std::uint32_t>(function.instructions.size());
  std::vector<BasicBlock> blocks;
  std::vector<std::uint32_t> block_of(count + 1, 0);
  for (std::uint32_t k = 0; k < count; ++k) {
    if (k == 0 || function.is_label_target[k] || ends_straight_line(function.instructions[k - 1])) {
      blocks.push_back({});
      blocks.back().begin = k;
    }
    blocks.back().end = k + 1;
    block_of[k] = static_cast<std::uint32_t>(blocks.size() - 1);
  }
  for (BasicBlock& block : blocks) {
    const Instruction& last = function.instructions[block.end - 1];
    const auto jump_to = [&](std::uint32_t target) {
      if (target < count) block.successors.push_back(block_of[target]);
    };
    const bool leaves = last.name == "bra" || last.name == "brx" || last.name == "ret" ||
                        last.name == "exit" || last.name == "trap";
    if (last.name == "bra" || last.name == "brx") {
      for (const Operand& operand : last.operands) {
        if (operand.kind == Operand::Kind::Label) jump_to(operand.index);
        for (const Operand& label : operand.elements) jump_to(label.index);
      }
    }
    if (!leaves || last.guard) jump_to(block.end);
  }
  return blocks;
}

}  // namespace

bool ends_straight_line(const Instruction& in) {
  return in.name == "bra" || in.name == "brx" || in.name == "ret" || in.name == "exit" ||
         in.name == "trap";
}

void for_each_register(const Instruction& in,
                       const std::function<void(std::uint32_t, bool)>& visit) {
  // Sources first.
  if (in.guard) visit(*in.guard, false);
  const std::size_t destinations = has_no_destination(in) ? 0 : 1;
  for (std::size_t k = destinations; k < in.operands.size(); ++k) {
    visit_operand(in.operands[k], false, visit);
  }
  if (destinations == 1 && !in.operands.empty()) visit_operand(in.operands[0], true, visit);
}

std::vector<bool> maybe_read_unwritten(const ptx::Function& function) {
  std::vector<bool> result(function.registers.size(), false);
  std::vector<BasicBlock> blocks = basic_blocks(function);
  if (blocks.empty()) return result;
  const std::size_t words = (function.registers.size() + 63) / 64;
  for (BasicBlock& block : blocks) block.written_before.assign(words, ~std::uint64_t{0});
  blocks[0].written_before.assign(words, 0);
  const auto run = [&](const BasicBlock& block, bool mark) {
    Words written = block.written_before;
    for (std::uint32_t k = block.begin; k < block.end; ++k) {
      const Instruction& in = function.instructions[k];
      for_each_register(in, [&](std::uint32_t index, bool is_written) {
        if (is_written) {
          if (!in.guard) set(written, index);
        } else if (mark && !test(written, index)) {
          result[index] = true;
        }
      });
    }
    return written;
  };
  std::vector<std::uint32_t> work = {0};
  blocks[0].reached = true;
  while (!work.empty()) {
    const std::uint32_t current = work.back();
    work.pop_back();
    const Words written = run(blocks[current], false);
    for (const std::uint32_t next : blocks[current].successors) {
      BasicBlock& block = blocks[next];
      bool changed = !block.reached;
      block.reached = true;
      for (std::size_t k = 0; k < words; ++k) {
        const std::uint64_t both = block.written_before[k] & written[k];
        changed = changed || both != block.written_before[k];
        block.written_before[k] = both;
      }
      if (changed) work.push_back(next);
    }
  }
  for (const BasicBlock& block : blocks) {
    if (block.reached) run(block, true);
  }
  return result;
}

}  // namespace lockstep::device::vgpu::exec
