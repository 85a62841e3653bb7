// Which vector instructions the host has.
#include "reference/host_vectors.h"

namespace lockstep::reference {

HostVectors host_vectors() {
  static const HostVectors widest = [] {
    if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
        __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl")) {
      return HostVectors::Avx512;
    }
    return __builtin_cpu_supports("avx2") ? HostVectors::Avx2 : HostVectors::Baseline;
  }();
  return widest;
}

}  // namespace lockstep::reference
