// Misuse of barriers that shows when a warp arrives at one. Deadlocks show in the scheduler (exec),
// and so do .sync instructions that leave out a thread that executes them.
//
// Rules (PTX ISA 9.0): bar.sync is barrier.sync.aligned, and all threads of a warp must execute an
// aligned instruction together; the threads of one barrier must agree on its count. Threads that
// have exited are not waited for ("exit": barriers that wait for all threads are released), so
// they are no misuse.
#pragma once

#include "device/vgpu/check/access.h"
#include "device/vgpu/check/findings.h"

namespace lockstep::device::vgpu::check {

struct BarrierArrival {
  u32 warp = 0;
  u32 instruction = 0;
  u32 barrier = 0;
  bool is_aligned = true;
  u32 lanes = kAllLanes, live = kAllLanes;  // that arrive; of the warp's that have not exited
  u32 threads = 0;                          // the count that it names; 0: all of the block
  // What the barrier holds from threads that arrived before.
  u32 arrived_threads = 0, expected_threads = 0;
};

void check_arrival(Findings& findings, u32 block, const BarrierArrival& arrival);

}  // namespace lockstep::device::vgpu::check
