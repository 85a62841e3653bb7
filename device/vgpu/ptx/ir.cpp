// Facts of the IR's types; ir.h.
#include "device/vgpu/ptx/ir.h"

#include "base/check.h"

namespace lockstep::device::vgpu::ptx {

std::uint32_t size_bytes(Type type) {
  switch (type) {
    case Type::Pred:
    case Type::B8:
    case Type::U8:
    case Type::S8:
      return 1;
    case Type::B16:
    case Type::U16:
    case Type::S16:
    case Type::F16:
    case Type::BF16:
      return 2;
    case Type::B32:
    case Type::U32:
    case Type::S32:
    case Type::F32:
    case Type::F16x2:
    case Type::BF16x2:
      return 4;
    case Type::B64:
    case Type::U64:
    case Type::S64:
    case Type::F64:
    case Type::F32x2:
      return 8;
    case Type::B128:
      return 16;
  }
  LS_CHECK(false, "a Type outside its enumerators");
}

std::string Instruction::spelled() const {
  std::string text = name;
  for (const std::string& modifier : modifiers) {
    text += '.';
    text += modifier;
  }
  return text;
}

}  // namespace lockstep::device::vgpu::ptx
