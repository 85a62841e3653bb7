// The inner loops of matmul, per host vector width.
#pragma once

#include <cstddef>

#include "reference/host_vectors.h"

namespace lockstep::reference {

// Padded rows: `stride` doubles each, a multiple of 8, zeros from `inputs` on.
struct MatmulPanel {
  const double* x = nullptr;  // [rows, stride]
  std::size_t rows = 0;
  const double* w = nullptr;  // [outputs, stride]
  std::size_t outputs = 0;
  std::size_t stride = 0;
  double* y = nullptr;          // [rows, y_stride], `outputs` columns of it
  double* magnitude = nullptr;  // as y, or null
  std::size_t y_stride = 0;
};
using MatmulFunction = void (*)(const MatmulPanel& panel);
MatmulFunction matmul_function(HostVectors vectors);

}  // namespace lockstep::reference
