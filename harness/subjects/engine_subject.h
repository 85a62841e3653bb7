// EngineSubject: drives our engine through a Scenario on a Device and turns what happens into
// events.
#pragma once

#include <functional>

#include "base/error.h"
#include "device/device.h"
#include "model/model.h"
#include "trace/device_info.h"
#include "trace/event.h"
#include "trace/scenario.h"

namespace lockstep::harness {

using EventSink = std::function<void(trace::Event)>;

struct SubjectOptions {
  bool taps = true;              // OpCompleted events (with no reference yet) and RowHashed
  device::DeviceOptions device;  // checks, approximation mode, schedule
};

// Runs until every request has ended, or up to and including the first step that the device has
// something to say about. A failed check of the engine's own is an event; an Error is about the
// environment (no such device, no memory for weights, KV pool and the largest step). Memory that
// runs out later ends the requests of that step, with reason `error`.
base::Status run_engine(const model::Model& model, const trace::Scenario& scenario,
                        const SubjectOptions& options, const EventSink& sink);

// What contracts and bounds must know of a device, from its generation. An Error for an unknown
// name.
base::Result<trace::DeviceInfo> device_info(const std::string& device);

}  // namespace lockstep::harness
