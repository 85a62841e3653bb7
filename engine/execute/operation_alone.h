// One operation of a forward pass alone, from recorded operands: launched by the same code, with
// the same arguments, as in a step.
#pragma once

#include "base/error.h"
#include "device/device.h"
#include "engine/schedule/step.h"
#include "model/model.h"
#include "trace/op_call.h"
#include "trace/scenario.h"

namespace lockstep::engine {

// Runs `recorded` again on `device`: its reads are uploaded (cells go to a small pool of pages of
// settings.block_size tokens, in the order of requests and positions), and the tap recorder sends
// the new call to `sink`. `model` needs only the weights that the operation multiplies by.
//
// `recorded` is well formed: it is what a tap recorder sent, or a file that was checked. Errors: no
// kernel for a format or shape, no room on the device.
base::Status run_alone(const model::Model& model, device::Device& device,
                       const trace::EngineSettings& settings, const trace::OpCall& recorded,
                       const EventSink& sink);

}  // namespace lockstep::engine
