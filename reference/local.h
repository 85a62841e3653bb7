// LocalReference: judges one operation at a time, from the operation's true operands. It computes
// each result in double with the radius that the call's contract allows, so no error adds up over
// layers and the wrong operation is named at once.
//
// Operands come from its own graph: the taps of the producers that the graph names, cells from the
// write taps of the request's earlier positions, weights from the file under its own names; never
// from what the subject says that it read. The two are returned side by side (law `links`).
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "base/error.h"
#include "model/model.h"
#include "trace/device_info.h"
#include "trace/op_call.h"

namespace lockstep::reference {

class LocalReference {
 public:
  // `device`: whose tensor cores the contracts' sums run on. `seed` picks the outputs that are
  // replayed (1 in 64 of those of Gemm). `model` must outlive the object.
  LocalReference(const model::Model& model, const trace::DeviceInfo& device, std::uint64_t seed);
  LocalReference(LocalReference&&) noexcept;
  LocalReference& operator=(LocalReference&&) noexcept;
  ~LocalReference();

  // Calls in the order of execution, one launch after another. `computed` is false, with the
  // reason, where an operand has no tap or the graph knows no such operation; the call's results
  // still serve as operands of later ones.
  trace::OpReference judge(const trace::OpCall& call);

  // One call cut out of its run: its own reads are the operands. `model` needs only the tensors
  // that the operation multiplies by, under their names; of a product or an embedding the tensor
  // may hold only the rows that the call uses (then the writes, or the tokens read, count in
  // those). All outputs of tensor cores are replayed where they are few. `computed` is false, with
  // the reason, where an operand is missing or misshapen.
  static trace::OpReference judge_alone(const model::Model& model, const trace::DeviceInfo& device,
                                        std::uint64_t seed, const trace::OpCall& call);

  // The tokens at positions first, first + 1, ... of a request (prompt, then what was fed). Where
  // they are told, embedding rows are judged by them and not by the tokens that the call read.
  void tell_tokens(trace::RequestId request, trace::Position first,
                   std::span<const trace::TokenId> tokens);
  // A request's end: its cells are forgotten.
  void release(trace::RequestId request);

  // Whether the model can be judged at all. Errors: a tensor that the architecture needs is
  // missing; a weight type without a decoder. judge() then computes nothing and gives this as its
  // reason.
  base::Status status() const;

  // Taps that are kept now.
  std::size_t stored_bytes() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace lockstep::reference
