// Launch and contract of embed_rows.
#include "kernels/embed_rows.h"

#include <string>

#include "base/check.h"
#include "kernels/weights.h"

namespace lockstep::kernels {

trace::Contract embed_rows_contract(const EmbedRowsArgs& args) {
  return {.op = trace::Op::EmbedRows,
          .kernel = std::string("embed_rows_") + weight_suffix(args.table.dtype)};
}

base::Status launch_embed_rows(const LaunchContext& context, const EmbedRowsArgs& args) {
  const DeviceWeight& table = args.table;
  if (!weight_supported(table.dtype)) {
    return base::unsupported_error({}, "embed_rows",
                                   "no kernel decodes " + std::string(name(table.dtype)));
  }
  LS_CHECK(table.rows > 0 && table.columns > 0);
  LS_CHECK(table.data % 16 == 0 && args.out % 16 == 0 && args.tokens % 4 == 0);
  if (args.rows == 0) return base::Ok{};
  const std::uint64_t tile_bytes = weight_tile_bytes(table.dtype, table.columns);
  LS_CHECK(tile_bytes < (std::uint64_t{1} << 32));
  LS_ASSIGN(const device::Kernel kernel,
            context.kernels.find("embed_rows", embed_rows_contract(args).kernel));
  device::Parameters parameters;
  parameters.add(table.data).add(args.tokens).add(args.out).add(table.columns);
  parameters.add(static_cast<std::uint32_t>(tile_bytes)).add(args.scale);
  return context.kernels.device().launch(
      kernel, {.grid = {args.rows}, .block = {32, 4}, .stream = context.stream},
      parameters.bytes());
}

}  // namespace lockstep::kernels
