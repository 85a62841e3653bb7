// OpSubject: one operation cut out of its run, with everything that it needs: operands, the
// weights' rows that it multiplies by, and the model's numbers. It runs alone, on any device,
// without the model's file, through the same engine code as in a step.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/error.h"
#include "device/device.h"
#include "harness/subjects/engine_subject.h"
#include "model/model.h"
#include "trace/op_call.h"
#include "trace/scenario.h"

namespace lockstep::harness {

// A tensor of the model file, or some of its rows.
struct WeightPart {
  std::string name;
  model::WeightRole role = model::WeightRole::TokenEmbedding;
  model::DType dtype = model::DType::F32;
  bool is_vector = false;  // of a norm: 1 row
  std::uint64_t rows = 0, columns = 0;
  std::vector<std::byte> bytes;  // as the file stores them
};

struct RecordedOperation {
  std::string from;  // the place and the call of its run, for people; may be empty
  // Of the run that it is cut out of.
  std::uint64_t seed = 1;
  std::string device;  // "vgpu:sm_90"
  device::ApproximationMode approximation = device::ApproximationMode::Nominal;
  std::string kernel_hash;  // of the PTX that ran; kernel_hash()
  std::uint32_t block_size = 16;
  model::DType operand_format = model::DType::F16;
  model::ModelConfig config;
  // Embedding: rows of the tokens read, which count in them. Product: outputs from first_output on,
  // which the write's columns count in.
  std::vector<WeightPart> weights;
  std::uint32_t first_output = 0;
  // What was read and written. Of the contract only op and kernel are kept: a replayed kernel
  // states its own.
  trace::OpCall call;

  std::uint64_t size_bytes() const;  // operands, results and weights
};

// How much of a product's weight is kept: tensors up to `whole_bytes` whole, of larger ones
// `outputs` outputs around the wrong one.
struct CutOptions {
  std::uint64_t whole_bytes = std::uint64_t{4} << 20;
  std::uint32_t outputs = 256;
};

// Cuts `call` out of a run. `index`: of the wrong element in its row. An Error where it cannot be
// run alone (a cell that attention needed is not among those it read).
base::Result<RecordedOperation> cut_out(const trace::OpCall& call, std::uint64_t index,
                                        const model::Model& model, const trace::Scenario& scenario,
                                        const device::DeviceOptions& options,
                                        const CutOptions& cut = {});

// Everything that running and judging take for granted: shapes, formats, rows, positions. `file`
// names the input in messages.
base::Status check_operation(const RecordedOperation& operation, const std::string& file);

// The model as far as the operation needs it: points into `operation`.
model::Model part_of_model(const RecordedOperation& operation);

// Hash of the PTX that `op` runs as on `device`, 6 hexadecimal digits.
std::string kernel_hash(trace::Op op, const std::string& device);

// Runs it on a device of this name: OpCompleted (without a reference), what the device has to say
// (DeviceReported), SubjectFailed, DeviceCounted. An Error is about the environment.
base::Status run_operation(const RecordedOperation& operation, const std::string& device,
                           const device::DeviceOptions& options, const EventSink& sink);

}  // namespace lockstep::harness
