#include "harness/blocks/process_manager.h"

#include <poll.h>
#include <spawn.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstring>
#include <nlohmann/json.hpp>

extern char** environ;

namespace lockstep::harness {
namespace {

using nlohmann::json;

constexpr int kEndMs = 2000;  // from the end of its input to the end of the process

json to_json(const BlockOperation& operation) {
  json object = {{"id", operation.id}};
  switch (operation.kind) {
    case BlockOperation::Kind::New:
      object["op"] = "new";
      object["tokens"] = operation.tokens;
      object["computed"] = operation.computed;
      break;
    case BlockOperation::Kind::Step:
      object["op"] = "step";
      object["append"] = operation.append ? json(*operation.append) : json();
      object["computed"] = operation.computed;
      break;
    case BlockOperation::Kind::Free:
      object["op"] = "free";
      break;
    case BlockOperation::Kind::Preempt:
      object["op"] = "preempt";
      break;
  }
  return object;
}

// Numbers of an answer: JSON integers of 0 to 2^31.
bool read_number(const json& object, const char* field, std::uint32_t& value) {
  const auto found = object.find(field);
  if (found == object.end() || !found->is_number_integer()) return false;
  const auto number = found->get<std::int64_t>();
  if (number < 0 || number > (std::int64_t{1} << 31)) return false;
  value = static_cast<std::uint32_t>(number);
  return true;
}

bool read_tables(const json& tables, std::optional<std::int64_t> null_block, BlockAnswer& answer) {
  if (!tables.is_array()) return false;
  for (const json& table : tables) {
    if (!table.is_array()) return false;
    std::vector<trace::BlockId>& blocks = answer.blocks.emplace_back();
    for (const json& entry : table) {
      if (entry.is_null()) {
        blocks.push_back(trace::kNoBlock);
        continue;
      }
      if (!entry.is_number_integer()) return false;
      const auto number = entry.get<std::int64_t>();
      if (null_block && number == *null_block) {
        blocks.push_back(trace::kNoBlock);
      } else if (number < 0 || number > (std::int64_t{1} << 31)) {
        return false;
      } else {
        blocks.push_back({static_cast<std::uint32_t>(number)});
      }
    }
  }
  return true;
}

}  // namespace

base::Result<std::unique_ptr<ProcessManager>> ProcessManager::start(const std::string& command,
                                                                    ProcessLimits limits) {
  int sockets[2];
  // A socket, not a pipe: writing to a process that has ended is an error then, no signal.
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, sockets) != 0) {
    return base::environment_error(command, std::string("no socket: ") + std::strerror(errno));
  }
  posix_spawn_file_actions_t actions;
  posix_spawnattr_t attributes;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, sockets[1], STDIN_FILENO);
  posix_spawn_file_actions_adddup2(&actions, sockets[1], STDOUT_FILENO);
  posix_spawnattr_init(&attributes);
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETPGROUP);  // so that all of it can be ended
  posix_spawnattr_setpgroup(&attributes, 0);
  std::string shell = "/bin/sh", flag = "-c", text = command;
  char* const arguments[] = {shell.data(), flag.data(), text.data(), nullptr};
  pid_t process = 0;
  const int failed =
      posix_spawn(&process, shell.c_str(), &actions, &attributes, arguments, environ);
  posix_spawn_file_actions_destroy(&actions);
  posix_spawnattr_destroy(&attributes);
  close(sockets[1]);
  if (failed != 0) {
    close(sockets[0]);
    return base::environment_error(command,
                                   std::string("cannot be started: ") + std::strerror(failed));
  }
  return std::unique_ptr<ProcessManager>(new ProcessManager(command, limits, sockets[0], process));
}

ProcessManager::~ProcessManager() {
  shutdown(socket_, SHUT_WR);
  // The end of its output is the end of the process, or nearly.
  char rest[4096];
  pollfd waiting{socket_, POLLIN, 0};
  while (poll(&waiting, 1, kEndMs) > 0 && read(socket_, rest, sizeof rest) > 0) {
  }
  kill(-process_, SIGKILL);
  close(socket_);
  while (waitpid(process_, nullptr, 0) < 0 && errno == EINTR) {
  }
}

base::Result<std::string> ProcessManager::ask(const std::string& line, int answer_ms) {
  const std::string message = line + "\n";
  for (std::size_t sent = 0; sent < message.size();) {
    const ssize_t count = send(socket_, message.data() + sent, message.size() - sent, MSG_NOSIGNAL);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return base::environment_error(command_, "has ended, or reads no more");
    sent += static_cast<std::size_t>(count);
  }
  for (;;) {
    const std::size_t end = unread_.find('\n');
    if (end != std::string::npos) {
      std::string answer = unread_.substr(0, end);
      unread_.erase(0, end + 1);
      ++answers_;
      return answer;
    }
    if (unread_.size() > limits_.line_bytes) {
      return base::input_error(
          command_, "an answer is longer than " + std::to_string(limits_.line_bytes) + " bytes");
    }
    pollfd waiting{socket_, POLLIN, 0};
    const int ready = poll(&waiting, 1, answer_ms);
    if (ready < 0 && errno == EINTR) continue;
    if (ready == 0) {
      return base::environment_error(command_, "has not answered in " + std::to_string(answer_ms) +
                                                   " ms: " + line.substr(0, 200));
    }
    char buffer[1 << 16];
    const ssize_t count = read(socket_, buffer, sizeof buffer);
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) {
      return base::environment_error(command_, "ended before it answered: " + line.substr(0, 200));
    }
    unread_.append(buffer, static_cast<std::size_t>(count));
  }
}

base::Status ProcessManager::set_up(const BlockSetup& setup) {
  json groups = json::array();
  for (const trace::GroupSpec& group : setup.groups) {
    if (group.type == trace::GroupType::SlidingWindow) {
      groups.push_back({{"type", "sliding_window"}, {"window", group.window}});
    } else {
      groups.push_back({{"type", "full_attention"}});
    }
  }
  const json object = {{"op", "setup"},
                       {"block_size", setup.block_size},
                       {"num_blocks", setup.num_blocks},
                       {"groups", groups}};
  LS_ASSIGN(const std::string line, ask(object.dump(), limits_.set_up_ms));
  const json answer = json::parse(line, nullptr, false);
  std::uint32_t free = 0;
  if (!answer.is_object() || !read_number(answer, "free", free)) {
    return base::input_error(
        command_, "the answer to setup must be an object with free, is " + line.substr(0, 200));
  }
  if (free != setup.num_blocks) {
    return base::input_error(command_, "free must be num_blocks (" +
                                           std::to_string(setup.num_blocks) + ") after setup, is " +
                                           std::to_string(free));
  }
  null_block_.reset();
  if (const auto null = answer.find("null_block"); null != answer.end() && !null->is_null()) {
    if (!null->is_number_integer()) return base::input_error(command_, "null_block: no integer");
    null_block_ = null->get<std::int64_t>();
  }
  group_count_ = setup.groups.size();
  return base::Ok{};
}

base::Result<BlockAnswer> ProcessManager::apply(const BlockOperation& operation) {
  LS_ASSIGN(const std::string line, ask(to_json(operation).dump(), limits_.answer_ms));
  const json object = json::parse(line, nullptr, false);
  const auto wrong = [&](const std::string& rule) {
    return base::input_error(command_, "answer " + std::to_string(answers_) + ", to " +
                                           describe(operation) + ": " + rule + ": " +
                                           line.substr(0, 200));
  };
  if (!object.is_object()) return wrong("must be one JSON object");
  BlockAnswer answer;
  if (!read_number(object, "free", answer.free)) return wrong("free must be a count");
  const bool is_new = operation.kind == BlockOperation::Kind::New;
  if (!is_new && operation.kind != BlockOperation::Kind::Step) return answer;
  const auto ok = object.find("ok");
  if (ok == object.end() || !ok->is_boolean()) return wrong("ok must be true or false");
  answer.ok = ok->get<bool>();
  if (is_new && !read_number(object, "hit_tokens", answer.hit_tokens)) {
    return wrong("hit_tokens must be a count");
  }
  const auto blocks = object.find("blocks");
  const bool has_blocks = blocks != object.end() && !blocks->is_null();
  if (answer.ok && !has_blocks) return wrong("blocks must be given");
  if (has_blocks && !read_tables(*blocks, null_block_, answer)) {
    return wrong("blocks must be a list of block ids (or null) for each group");
  }
  return answer;
}

}  // namespace lockstep::harness
