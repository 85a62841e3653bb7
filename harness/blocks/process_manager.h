// A user's process as a BlockManager: one JSON object a line, an answer to each, on its standard
// input and output (docs/block_managers.md).
#pragma once

#include <sys/types.h>

#include <memory>

#include "harness/blocks/manager.h"

namespace lockstep::harness {

struct ProcessLimits {
  int answer_ms = 60000;                          // to one operation
  int set_up_ms = 300000;                         // to setup: a program may have much to load
  std::size_t line_bytes = std::size_t{1} << 24;  // of one answer
};

class ProcessManager : public BlockManager {
 public:
  // Starts `command` with /bin/sh.
  static base::Result<std::unique_ptr<ProcessManager>> start(const std::string& command,
                                                             ProcessLimits limits = {});
  // Closes its input, waits a little, and then ends it with all that it started.
  ~ProcessManager() override;
  ProcessManager(const ProcessManager&) = delete;
  ProcessManager& operator=(const ProcessManager&) = delete;

  // An Error is an input's if an answer came that the protocol does not allow, the environment's if
  // none came.
  base::Status set_up(const BlockSetup& setup) override;
  base::Result<BlockAnswer> apply(const BlockOperation& operation) override;

 private:
  ProcessManager(std::string command, ProcessLimits limits, int socket, pid_t process)
      : command_(std::move(command)), limits_(limits), socket_(socket), process_(process) {}
  base::Result<std::string> ask(const std::string& line, int answer_ms);

  std::string command_;
  ProcessLimits limits_;
  int socket_;
  pid_t process_;
  std::string unread_;
  std::uint64_t answers_ = 0;
  std::size_t group_count_ = 0;
  std::optional<std::int64_t> null_block_;
};

}  // namespace lockstep::harness
