// Facts of small PTX texts after parsing, each error with its line, and every truncation.
#include "device/vgpu/ptx/parser.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <bit>
#include <string>

namespace lockstep::device::vgpu::ptx {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using Kind = Operand::Kind;

const std::string kHead = ".version 9.0\n.target sm_80\n.address_size 64\n";

// As nvcc 13 writes a small reduction, with line information and an inlined shuffle.
const std::string kReduction = kHead + R"(
	// .globl	sum
.global .align 4 .b8 counters[12] = {1, 0, 0, 0, 2};
.extern .shared .align 16 .b8 dyn[];

.visible .entry sum(
	.param .u64 .ptr .align 1 sum_param_0,
	.param .u32 sum_param_1,
	.param .align 8 .b8 sum_param_2[16]
)
.maxntid 256, 2, 1
.minnctapersm 2
{
	.reg .pred 	%p<3>;
	.reg .b32 	%f<4>;
	.reg .b32 	%r<6>;
	.reg .b64 	%rd<5>;
	.loc	1 14 0
	// demoted variable
	.shared .align 4 .b8 red[128];
	ld.param.b64 	%rd1, [sum_param_0];
	ld.param.v2.b32 	{%r1, _}, [sum_param_2+8];
	mov.u32 	%r2, %tid.x;
	.loc	1 17 3
	setp.ge.s32 	%p1, %r1, %r2;
	@%p1 bra 	$L__BB0_2;
	.loc	1 19 3
	.loc	2 449 9, function_name $L__info_string0, inlined_at 1 19 3
	shfl.sync.bfly.b32	%r3|%p2, %r1, 16, 31, -1;
	.loc	3 7 1, function_name $L__info_string0+5, inlined_at 2 449 9
	mov.f32 	%f1, 0f3FC00000;
	{ // callseq 0, 0
	.reg .b32 temp_param_reg;
	}
	ld.shared.b32 	%r4, [red+4];
	ld.shared.b32 	%r5, [%r4+-8];
$L__BB0_2:
	.loc	1 0 3
	@!%p1 st.global.b32 	[%rd1], %f1;
	bar.sync 	0;
	ret;
}
	.file	1 "/a/sum.cu"
	.file	2 "/b/shuffle.hpp", 12, 34
	.section	.debug_str
	{
$L__info_string0:
.b8 95
	}
)";

Module parsed(const std::string& text) {
  auto module = parse(text, "k.ptx");
  EXPECT_TRUE(module.ok()) << (module.ok() ? "" : module.error().message());
  return module.ok() ? std::move(module).value() : Module();
}

// A kernel with registers of each kind, around the statements of a test.
std::string kernel(const std::string& body) {
  return kHead + ".visible .entry k(.param .u64 a) {\n" +
         ".reg .pred %p<4>; .reg .b32 %r<10>; .reg .b64 %rd<4>;\n" + body + "\n}\n";
}
constexpr std::uint32_t kBodyLine = 6;  // of the body's first line in kernel()

const Operand& operand(const Module& module, std::size_t instruction, std::size_t index) {
  return module.functions.at("k").instructions.at(instruction).operands.at(index);
}

void expect_error(const std::string& text, std::uint32_t line, const std::string& rule) {
  const auto module = parse(text, "k.ptx");
  ASSERT_FALSE(module.ok()) << text;
  EXPECT_EQ(module.error().file, "k.ptx");
  EXPECT_EQ(module.error().where, "line " + std::to_string(line)) << module.error().message();
  EXPECT_THAT(module.error().rule, HasSubstr(rule));
}

TEST(PtxParser, HeadsGiveVersionTargetAndLaunchBounds) {
  const Module module = parsed(kReduction);
  EXPECT_EQ(module.version, "9.0");
  EXPECT_EQ(module.target, "sm_80");
  EXPECT_EQ(module.source_files.at(2), "/b/shuffle.hpp");
  const Function& function = module.functions.at("sum");
  EXPECT_TRUE(function.is_entry);
  EXPECT_TRUE(function.has_body);
  EXPECT_EQ(function.max_threads, 512u);
  EXPECT_EQ(function.required_threads, std::nullopt);
  EXPECT_EQ(function.min_blocks_per_sm, 2u);
  ASSERT_EQ(function.parameters.size(), 3u);
  EXPECT_EQ(function.parameters[0].size_bytes, 8u);
  EXPECT_EQ(function.parameters[0].alignment, 8u);
  EXPECT_EQ(function.parameters[2].size_bytes, 16u);
  EXPECT_EQ(function.parameters[2].alignment, 8u);
}

TEST(PtxParser, RegistersAreDeclaredInTheOrderOfTheText) {
  const Module module = parsed(kReduction);
  const Function& function = module.functions.at("sum");
  ASSERT_EQ(function.registers.size(), 3u + 4 + 6 + 5 + 1);
  EXPECT_EQ(function.registers[0].name, "%p0");
  EXPECT_EQ(function.registers[0].type, Type::Pred);
  EXPECT_EQ(function.registers[6].name, "%f3");
  EXPECT_EQ(function.registers[13].name, "%rd0");
  EXPECT_EQ(function.registers[13].type, Type::B64);
}

TEST(PtxParser, InstructionsKeepSpellingOperandsAndGuards) {
  const Module module = parsed(kReduction);
  const std::vector<Instruction>& code = module.functions.at("sum").instructions;
  ASSERT_EQ(code.size(), 12u);
  EXPECT_EQ(code[1].spelled(), "ld.param.v2.b32");
  ASSERT_EQ(code[1].operands[0].kind, Kind::Vector);
  EXPECT_EQ(code[1].operands[0].elements[1].kind, Kind::Sink);
  EXPECT_EQ(code[1].operands[1].variable, &module.functions.at("sum").parameters[2]);
  EXPECT_EQ(code[1].operands[1].offset, 8);
  EXPECT_EQ(code[2].operands[1].special, SpecialRegister::TidX);
  EXPECT_EQ(code[5].operands[0].second_register, 2u);
  EXPECT_EQ(code[5].operands[4].bits, ~std::uint64_t{0});
  EXPECT_EQ(code[6].operands[1].bits, 0x3fc00000u);
  EXPECT_TRUE(code[6].operands[1].is_float_immediate);
  EXPECT_FALSE(code[6].operands[1].is_double_immediate);
  EXPECT_EQ(code[7].operands[1].variable, &module.functions.at("sum").variables[0]);
  EXPECT_TRUE(code[8].operands[1].has_register);
  EXPECT_EQ(code[8].operands[1].offset, -8);
  EXPECT_EQ(code[9].guard, 1u);
  EXPECT_TRUE(code[9].guard_negated);
  EXPECT_FALSE(code[4].guard_negated);
  EXPECT_EQ(code[10].guard, std::nullopt);
}

TEST(PtxParser, BranchesPointToInstructions) {
  const Module module = parsed(kReduction);
  const Function& function = module.functions.at("sum");
  EXPECT_EQ(function.instructions[4].operands[0].kind, Kind::Label);
  EXPECT_EQ(function.instructions[4].operands[0].index, 9u);
  ASSERT_EQ(function.is_label_target.size(), function.instructions.size() + 1);
  for (std::size_t i = 0; i < function.is_label_target.size(); ++i) {
    EXPECT_EQ(function.is_label_target[i], i == 9) << i;
  }
}

TEST(PtxParser, LinesAreOfTheTextTheSourceAndTheOutermostCall) {
  const Module module = parsed(kReduction);
  const std::vector<Instruction>& code = module.functions.at("sum").instructions;
  EXPECT_EQ(code[0].line, 24u);
  EXPECT_EQ(code[0].source_line, 14u);
  EXPECT_EQ(code[3].source_line, 17u);
  EXPECT_EQ(code[5].source_file, 2u);
  EXPECT_EQ(code[5].source_line, 449u);
  EXPECT_EQ(code[5].outer_file, 1u);
  EXPECT_EQ(code[5].outer_line, 19u);
  EXPECT_EQ(code[6].source_file, 3u);  // inlined into what was inlined
  EXPECT_EQ(code[6].outer_file, 1u);
  EXPECT_EQ(code[6].outer_line, 19u);
  EXPECT_EQ(code[9].source_line, 0u);
}

TEST(PtxParser, VariablesHaveSpaceSizeAlignmentAndFirstBytes) {
  const Module module = parsed(kReduction);
  ASSERT_EQ(module.variables.size(), 2u);
  EXPECT_EQ(module.variables[0].space, Space::Global);
  EXPECT_EQ(module.variables[0].size_bytes, 12u);
  EXPECT_THAT(module.variables[0].initial, ElementsAre(1, 0, 0, 0, 2));
  EXPECT_EQ(module.variables[1].space, Space::Shared);
  EXPECT_EQ(module.variables[1].size_bytes, 0u);
  EXPECT_EQ(module.variables[1].alignment, 16u);
  EXPECT_TRUE(module.variables[1].is_extern);
  EXPECT_EQ(module.functions.at("sum").variables[0].space, Space::Shared);
  EXPECT_EQ(module.functions.at("sum").variables[0].size_bytes, 128u);
}

TEST(PtxParser, PointersToVariablesSurviveAMove) {
  Module first = parsed(kReduction);
  const Module module = std::move(first);
  const Function& function = module.functions.at("sum");
  EXPECT_EQ(function.instructions[7].operands[1].variable, &function.variables[0]);
}

TEST(PtxParser, InitialisersOfEveryShape) {
  const Module module = parsed(kHead + R"(
.func (.param .b32 r) helper (.param .b32 x);
.const .f32 one = 0f3F800000;
.const .f32 half = 0.5;
.global .f64 wide[2] = {0d3FF0000000000000, -2.5};
.global .u32 nested[2][3] = {{1, 2}, {3, 4, 5}};
.global .s16 open[] = {-1, 0x10};
.global .v2 .u8 pairs[2] = {{1, 2}, {3, 4}};
.global .align 8 .u64 pointers[3] = {generic(nested), nested+4, helper};
.global .align 1 .u8 packed[3] = {7, 0xFF(generic(nested)+8), 0XFF00(generic(nested)+8)};
)");
  const auto& v = module.variables;
  ASSERT_EQ(v.size(), 8u);
  EXPECT_THAT(v[0].initial, ElementsAre(0, 0, 0x80, 0x3f));
  EXPECT_THAT(v[1].initial, ElementsAre(0, 0, 0, 0x3f));
  EXPECT_THAT(v[2].initial, ElementsAre(0, 0, 0, 0, 0, 0, 0xf0, 0x3f, 0, 0, 0, 0, 0, 0, 4, 0xc0));
  EXPECT_EQ(v[3].size_bytes, 24u);
  EXPECT_THAT(v[3].initial, ElementsAre(1, 0, 0, 0, 2, 0, 0, 0, 0, 0, 0, 0,  //
                                        3, 0, 0, 0, 4, 0, 0, 0, 5, 0, 0, 0));
  EXPECT_EQ(v[4].size_bytes, 4u);
  EXPECT_THAT(v[4].initial, ElementsAre(0xff, 0xff, 0x10, 0));
  EXPECT_THAT(v[5].initial, ElementsAre(1, 2, 3, 4));
  EXPECT_EQ(v[5].alignment, 2u);
  ASSERT_EQ(v[6].relocations.size(), 3u);
  EXPECT_TRUE(v[6].relocations[0].is_generic);
  EXPECT_EQ(v[6].relocations[1].offset_bytes, 8u);
  EXPECT_EQ(v[6].relocations[1].addend, 4);
  EXPECT_FALSE(v[6].relocations[1].is_generic);
  EXPECT_EQ(v[6].relocations[2].symbol, "helper");
  ASSERT_EQ(v[7].relocations.size(), 2u);
  EXPECT_EQ(v[7].relocations[1].offset_bytes, 2u);
  EXPECT_EQ(v[7].relocations[1].shift_bytes, 1u);
  EXPECT_EQ(v[7].relocations[1].size_bytes, 1u);
  EXPECT_EQ(v[7].relocations[1].addend, 8);
}

TEST(PtxParser, InnerScopesHideOuterNames) {
  const Module module = parsed(kernel(R"(mov.u32 %r1, 1;
{ .reg .u16 %r1, low; mov.u16 %r1, 2; { .reg .f16 low; mov.b16 low, %r1; } mov.u16 low, 3; }
mov.u32 %r1, 4;)"));
  const auto& registers = module.functions.at("k").registers;
  EXPECT_EQ(registers[operand(module, 0, 0).index].type, Type::B32);
  EXPECT_EQ(registers[operand(module, 1, 0).index].type, Type::U16);
  EXPECT_EQ(registers[operand(module, 2, 0).index].type, Type::F16);
  EXPECT_EQ(operand(module, 2, 1).index, operand(module, 1, 0).index);
  EXPECT_EQ(registers[operand(module, 3, 0).index].type, Type::U16);
  EXPECT_EQ(operand(module, 4, 0).index, operand(module, 0, 0).index);
}

TEST(PtxParser, LabelsBelongToTheirScope) {
  const Module module = parsed(kernel(R"({ WAIT: add.u32 %r1, %r1, 1;
@%p1 bra DONE; bra.uni WAIT; DONE: }
{ WAIT: add.u32 %r1, %r1, 2; @%p1 bra DONE; bra WAIT; DONE: }
bra END; ret; END:)"));
  EXPECT_EQ(operand(module, 1, 0).index, 3u);
  EXPECT_EQ(operand(module, 2, 0).index, 0u);
  EXPECT_EQ(operand(module, 4, 0).index, 6u);
  EXPECT_EQ(operand(module, 5, 0).index, 3u);
  EXPECT_EQ(operand(module, 6, 0).index, 8u);  // one past the last
  EXPECT_TRUE(module.functions.at("k").is_label_target[8]);
}

TEST(PtxParser, ImmediatesInEveryNotation) {
  const Module module = parsed(kernel(R"(mov.u32 %r1, 0x1F;
mov.u32 %r1, 017; mov.u32 %r1, 0b101; mov.u32 %r1, 4294967295U; mov.s32 %r1, -5;
mov.u32 %r1, (1 + 2) * 3 << 1; mov.u32 %r1, WARP_SZ; mov.u32 %r1, ~0; mov.f32 %r1, -0f3F800000;
mov.f64 %rd1, 0dBFF0000000000000; mov.f64 %rd1, 1.5e3; mov.s64 %rd1, -9223372036854775808;
mov.u32 %r1, -4 + 6; mov.u32 %r1, 7 - 2 - 1 & 6 | 1 ^ 8 / -2 >> 1;)"));
  const auto bits = [&](std::size_t i) { return operand(module, i, 1).bits; };
  EXPECT_EQ(bits(0), 31u);
  EXPECT_EQ(bits(1), 15u);
  EXPECT_EQ(bits(2), 5u);
  EXPECT_EQ(bits(3), 0xffffffffu);
  EXPECT_EQ(bits(4), static_cast<std::uint64_t>(-5));
  EXPECT_EQ(bits(5), 18u);
  EXPECT_EQ(bits(6), 32u);
  EXPECT_EQ(bits(7), ~std::uint64_t{0});
  EXPECT_EQ(bits(8), 0xbf800000u);
  EXPECT_EQ(bits(9), 0xbff0000000000000u);
  EXPECT_TRUE(operand(module, 9, 1).is_double_immediate);
  EXPECT_EQ(bits(10), std::bit_cast<std::uint64_t>(1500.0));
  EXPECT_EQ(bits(11), std::uint64_t{1} << 63);
  EXPECT_EQ(bits(12), 2u);
  EXPECT_EQ(bits(13), static_cast<std::uint64_t>((4 & 6) | (1 ^ (-4 >> 1))));
}

TEST(PtxParser, OperandsOfEveryForm) {
  const Module module = parsed(kHead + ".global .b32 table[4];\n.func helper;\n" +
                               kernel(R"(setp.lt.and.s32 %p1|%p2, %r1, %r2, !%p3;
setp.lt.s32 _|%p2, %r1, %r2; setp.lt.s32 %p1|_, %r1, %r2; mov.u64 %rd1, table + 4;
mov.u64 %rd1, helper; ld.global.u32 %r1, [table+4*2]; ld.shared.u32 %r1, [%r2 + 4 + 4];
ld.local.u32 %r1, [16]; mov.b64 %rd1, {%r1, 7}; mov.u32 %r1, %lanemask_lt;
cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [%r1], [%rd1, {%r2,%r3}], [%r4];
tcgen05.ld.sync.aligned.16x256b.x1.b32 {%r1,%r2,%r3,%r4}, [%r5 + 0];
mov.u32 %r1, %envreg2; mov.u64 %rd1, %clock64; ld.global.L2::cache_hint.b32 %r1, [%rd1], %rd2;)")
                                   .substr(kHead.size()));
  EXPECT_EQ(operand(module, 0, 0).second_register, 2u);
  EXPECT_TRUE(operand(module, 0, 3).negated);
  EXPECT_EQ(operand(module, 1, 0).kind, Kind::Sink);
  EXPECT_EQ(operand(module, 1, 0).second_register, 2u);
  EXPECT_EQ(operand(module, 2, 0).second_register, std::nullopt);
  EXPECT_EQ(operand(module, 3, 1).kind, Kind::Symbol);
  EXPECT_EQ(operand(module, 3, 1).variable, &module.variables[0]);
  EXPECT_EQ(operand(module, 3, 1).offset, 4);
  EXPECT_EQ(operand(module, 4, 1).symbol, "helper");
  EXPECT_EQ(operand(module, 4, 1).variable, nullptr);
  EXPECT_EQ(operand(module, 5, 1).offset, 8);
  EXPECT_EQ(operand(module, 6, 1).offset, 8);
  EXPECT_FALSE(operand(module, 7, 1).has_register);
  EXPECT_EQ(operand(module, 7, 1).variable, nullptr);
  EXPECT_EQ(operand(module, 7, 1).offset, 16);
  EXPECT_EQ(operand(module, 8, 1).elements[1].bits, 7u);
  EXPECT_EQ(operand(module, 9, 1).special, SpecialRegister::LanemaskLt);
  EXPECT_EQ(operand(module, 10, 1).elements.size(), 2u);
  EXPECT_EQ(module.functions.at("k").instructions[10].modifiers[6], "mbarrier::complete_tx::bytes");
  EXPECT_EQ(module.functions.at("k").instructions[11].modifiers[3], "16x256b");
  EXPECT_EQ(operand(module, 12, 1).special, SpecialRegister::EnvReg);
  EXPECT_EQ(operand(module, 12, 1).index, 2u);
  EXPECT_EQ(operand(module, 14, 2).kind, Kind::Register);
}

TEST(PtxParser, CallsHaveResultsCalleeArgumentsAndPrototype) {
  const Module module =
      parsed(kHead + R"(
.extern .func (.param .b32 func_retval0) vprintf (.param .b64 a, .param .b64 b) ;
.func (.param .align 8 .b8 r[16]) pair (.param .b64 x) .noreturn { ret; }
.func done() { call.uni done, (); call done; ret; }
)" +
             kernel(R"({ .param .b64 param0; st.param.b64 [param0+0], %rd1; .param .b64 param1;
.param .b32 retval0; call.uni (retval0),
	vprintf,
	(
	param0,
	param1
	);
ld.param.b32 %r1, [retval0+0]; }
{ .param .b64 param0; .param .align 8 .b8 retval0[16];
prototype_1 : .callprototype (.param .align 8 .b8 _[16]) _ (.param .b64 _);
call (retval0), %rd1, (param0), prototype_1; })")
                 .substr(kHead.size()));
  EXPECT_FALSE(module.functions.at("vprintf").has_body);
  EXPECT_EQ(module.functions.at("vprintf").parameters.size(), 2u);
  EXPECT_EQ(module.functions.at("pair").results[0].size_bytes, 16u);
  const Function& function = module.functions.at("k");
  ASSERT_EQ(function.variables.size(), 5u);  // param0 twice
  const auto& call = function.instructions[1].operands;
  ASSERT_EQ(call.size(), 3u);
  EXPECT_EQ(call[0].elements[0].variable, &function.variables[2]);
  EXPECT_EQ(call[1].symbol, "vprintf");
  EXPECT_EQ(call[2].elements[0].variable, &function.variables[0]);
  const auto& indirect = function.instructions[3].operands;
  ASSERT_EQ(indirect.size(), 4u);
  EXPECT_EQ(indirect[1].kind, Kind::Register);
  EXPECT_EQ(indirect[2].elements[0].variable, &function.variables[3]);
  EXPECT_EQ(indirect[3].symbol, "prototype_1");
  for (const Instruction& instruction : module.functions.at("done").instructions) {
    EXPECT_EQ(instruction.operands.size(), instruction.name == "call" ? 3u : 0u);
  }
}

TEST(PtxParser, IndexedBranchesHaveTheirLabels) {
  const Module module = parsed(kernel(R"(ts: .branchtargets A, B, A;
brx.idx.uni %r1, ts; A: ret; B: ret;)"));
  const Operand& targets = operand(module, 0, 1);
  ASSERT_EQ(targets.elements.size(), 3u);
  EXPECT_EQ(targets.elements[0].index, 1u);
  EXPECT_EQ(targets.elements[1].index, 2u);
  EXPECT_EQ(targets.elements[2].index, 1u);
}

TEST(PtxParser, ADefinitionCompletesItsPrototype) {
  const Module module =
      parsed(kHead + ".func f (.param .b32 a);\n.func f (.param .b32 a) { ret; }\n" +
             ".func f (.param .b32 a);\n.extern .global .u32 g;\n" +
             ".visible .global .u32 g = 5;\n.extern .global .u32 g;\n");
  EXPECT_TRUE(module.functions.at("f").has_body);
  EXPECT_EQ(module.functions.at("f").instructions.size(), 1u);
  ASSERT_EQ(module.variables.size(), 1u);
  EXPECT_THAT(module.variables[0].initial, ElementsAre(5, 0, 0, 0));
}

TEST(PtxParser, ErrorsOfModuleScopeNameTheirLine) {
  expect_error("", 1, "must have .version");
  expect_error(".target sm_80\n", 1, "start with .version");
  expect_error(".version 9.0\n\n.global .u32 a;\n", 3, ".target must come before");
  expect_error(".version 9\n", 1, "a version such as 9.0 must come here, found '9'");
  expect_error(".version 9.0\n.target sm_80\n.address_size 32\n", 3, "64 bits");
  expect_error(kHead + ".alias a, b;\n", 4, ".alias is not supported");
  expect_error(kHead + ".global .texref t;\n", 4, ".texref is no supported type");
  expect_error(kHead + ".global .align 3 .b8 a;\n", 4, "power of two");
  expect_error(kHead + ".global .u32 a;\n.global .u32 a;\n", 5, "a is declared already");
  expect_error(kHead + ".global .u32 a[0];\n", 4, "must have elements");
  expect_error(kHead + ".global .u32 a[2][];\n", 4, "only the first dimension");
  expect_error(kHead + ".shared .u32 a[];\n", 4, "a must have a size");
  expect_error(kHead + ".shared .u32 a = 5;\n", 4, "may have an initial value");
  expect_error(kHead + ".global .u32 a = 1.5;\n", 4, "its variable's type");
  expect_error(kHead + ".global .u32 a[2] = {1, 2, 3};\n", 4, "at most 2 elements");
  expect_error(kHead + ".global .u64 a = nothing;\n\n", 4, "must name a variable or function");
  expect_error(kHead + ".global .u8 a = 0xFFF(b);\n", 4, "must select one byte");
  expect_error(kHead + ".global .u32 a[1000000000000] = 1;\n", 4, "'{' must come here");
  expect_error(kHead + ".global .u32 a[100000][100000][100000];\n", 4, "smaller than 2^48");
  expect_error(kHead + ".global .u8 a[4][99999999] = {{1}, {1}};\n", 4, "leave out so many");
  expect_error(kHead + "/* never closed\n\n", 4, "must end with */");
  expect_error(kHead + ".file 1 \"a\n\"\n", 4, "a string must end on its line");
  expect_error(kHead + "#\n", 4, "unexpected '#'");
  expect_error(kHead + ".func f { ret; }\n.func f { ret; }\n", 5,
               "has a body already, from line 4");
  expect_error(kHead + ".section .debug_str { .b8 1\n", 5, "'}' must come here, found the end");
  expect_error(kHead + ".entry k() .maxntid 1, 2, 3, 4 { }", 4, "at most three dimensions");
  expect_error(kHead + ".entry k() .maxntid 65536, 65536 { }", 4, "1 to 2^32 - 1");
  expect_error(kHead + ".entry k() .unknown { }", 4, "a directive of a function");
  expect_error(kHead + ".func f(.reg .u32 a) { }", 4, "parameters in registers");
}

TEST(PtxParser, ErrorsOfBodiesNameTheirLine) {
  const auto wrong = [](const std::string& body, std::uint32_t line, const std::string& rule) {
    expect_error(kernel(body), kBodyLine + line - 1, rule);
  };
  wrong("mov.u32 %r1, 1;\nmov.u32 %r10, 1;", 2, "must be declared, found %r10");
  wrong("mov.u32 %r01, 1;", 1, "must be declared, found %r01");
  wrong("mov.u32 %r1, name;", 1, "must be declared, found name");
  wrong("mov.u32 %r1, %tid.w;", 1, "must be declared, found %tid.w");
  wrong("mov.u32 %r1, %r2.b0;", 1, "parts of a register (.b0)");
  wrong("mov.u32 %r1 1;", 1, "';' must come here, found '1'");
  wrong("mov.u32 %r1, ;", 1, "an operand must come here, found ';'");
  wrong("mov.u32 %r1, 0f3F80000;", 1, "8 hexadecimal digits");
  wrong("mov.u32 %r1, 0d3F80000;", 1, "16 hexadecimal digits");
  wrong("mov.u32 %r1, 18446744073709551616;", 1, "must fit 64 bits");
  wrong("mov.u32 %r1, 0x;", 1, "must have digits");
  wrong("mov.u32 %r1, 12abc;", 1, "run into a word");
  wrong("mov.u32 %r1, 1e999;", 1, "fit a float64");
  wrong("mov.u32 %r1, 1 / 0;", 1, "divided by zero");
  wrong("mov.u32 %r1, 1 << 64;", 1, "shifted by 0 to 63");
  wrong("mov.u32 %r1, !5;", 1, "a predicate must come here");
  wrong("mov.u32 %r1|5, 1;", 1, "a register must come here");
  wrong("mov.u32 %r1|%r77, 1;", 1, "must be declared, found %r77");
  wrong("ld.u32 %r1, [%r1+%r2];", 1, "an operand must come here");
  wrong("ld.u32 %r1, [%tid.x];", 1, "start with a register, a variable or a number");
  wrong("ld.u32 %r1, {[%r1]};", 1, "must not stand in a vector");
  wrong("ld.u32 {{%r1}}, 1;", 1, "must not hold vectors");
  wrong("ld.u32 %r1, [%rd1, %r1];", 1, "a tensor's coordinates");
  wrong("@%r1 ret;", 1, "a guard must be a predicate register");
  wrong("@%p1 { ret; }", 1, "an instruction must come here");
  wrong("@%p1 ret;\n%r1 = 5;", 2, "an instruction must come here, found %r1");
  wrong("bra\n\nNOWHERE;", 3, "label of its scope, found NOWHERE");
  wrong("{ L: ret; }\nbra L;", 2, "label of its scope, found L");
  wrong("L: ret;\nL: ret;", 2, "the label L is set already");
  wrong("brx.idx %r1, list;", 1, ".branchtargets list, found list");
  wrong("call nothing, ();", 1, "declared function, found nothing");
  wrong("call (%r1) k;", 1, "',' must come here");
  wrong(".reg .b32 %r<4>;\n.reg .b32 %q, %q;", 1, "%r is declared already");
  wrong(".reg .b32 %q5;\n.reg .b32 %q<6>;", 2, "%q is declared already");
  wrong(".reg .b32 %r9;", 1, "%r9 is declared already");
  wrong(".reg .v2 .b32 %v;", 1, ".v2 is no supported type");
  wrong(".reg .b32 %v<99999999>;", 1, "(ptx_registers)");
  wrong(".param .b32 p<4>;", 1, "a range of variables");
  wrong(".loc 1 2;", 1, "a column must come here");
  wrong(".loc 1 2 3, at 5;", 1, "function_name or inlined_at");
  wrong(".unknown 5;", 1, "a directive of a function's body");
  wrong("ret 5", 2, "';' must come here, found '}'");
  wrong(std::string(100, '{'), 1, "at most 64 deep");
  wrong("mov.u32 %r1, " + std::string(100, '(') + ";", 1, "at most 64 deep");
  wrong("mov.u32 %r1, \"a\";", 1, "an operand must come here, found a string");
  expect_error(kernel("{"), 8, "a statement must come here, found the end of the text");
}

TEST(PtxParser, LimitsAreErrorsThatNameThem) {
  base::Limits limits;
  limits.ptx_bytes = 100;
  EXPECT_THAT(parse(std::string(101, ' '), "k.ptx", limits).error().rule, HasSubstr("ptx_bytes"));
  limits = {};
  limits.ptx_instructions = 2;
  EXPECT_TRUE(parse(kernel("ret; ret;"), "k.ptx", limits).ok());
  EXPECT_THAT(parse(kernel("ret; ret; ret;"), "k.ptx", limits).error().rule,
              HasSubstr("ptx_instructions"));
  limits = {};
  limits.ptx_registers = 18;
  EXPECT_TRUE(parse(kernel("ret;"), "k.ptx", limits).ok());
  EXPECT_THAT(parse(kernel(".reg .b32 one;"), "k.ptx", limits).error().rule,
              HasSubstr("ptx_registers"));
}

TEST(PtxParser, EveryTruncationIsAnErrorOrValid) {
  const std::string text = kReduction + ".func f (.param .b32 a) { .reg .u64 t; call f, (t);\n" +
                           "L: brx.idx t, L; }\n.global .u64 p[] = {generic(counters) + 1, f};\n";
  for (std::size_t length = 0; length < text.size(); ++length) {
    const auto module = parse(std::string_view(text).substr(0, length), "k.ptx");
    if (!module.ok()) {
      EXPECT_THAT(module.error().where, HasSubstr("line ")) << length;
      EXPECT_FALSE(module.error().rule.empty()) << length;
    }
  }
}

TEST(PtxParser, EveryByteReplacedIsAnErrorOrValid) {
  for (const char byte : {'\0', '{', '(', '%', '9', '\xff', '.', ';', '"'}) {
    std::string text = kReduction;
    for (std::size_t i = 0; i < text.size(); ++i) {
      const char kept = text[i];
      text[i] = byte;
      const auto module = parse(text, "k.ptx");
      EXPECT_TRUE(module.ok() || module.error().where.starts_with("line ")) << i;
      text[i] = kept;
    }
  }
}

}  // namespace
}  // namespace lockstep::device::vgpu::ptx
