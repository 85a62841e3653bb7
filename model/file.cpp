// Mapping by the POSIX calls, and their errors as Errors.
#include "model/file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

namespace lockstep::model {
namespace {

class FileDescriptor {
 public:
  explicit FileDescriptor(int value) : value_(value) {}
  ~FileDescriptor() {
    if (value_ >= 0) ::close(value_);
  }
  FileDescriptor(const FileDescriptor&) = delete;
  FileDescriptor& operator=(const FileDescriptor&) = delete;
  int value() const { return value_; }

 private:
  int value_;
};

base::Error system_error(const std::string& path, const char* action) {
  return base::input_error(path, std::string(action) + ": " + std::strerror(errno));
}

}  // namespace

base::Result<std::shared_ptr<const MappedFile>> MappedFile::open(const std::string& path,
                                                                 const base::Limits& limits) {
  // O_NONBLOCK: opening a named pipe must not wait for its writer.
  const FileDescriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (file.value() < 0) return system_error(path, "cannot open");
  struct stat status {};
  if (::fstat(file.value(), &status) != 0) return system_error(path, "cannot read its size");
  if (!S_ISREG(status.st_mode)) return base::input_error(path, "not a regular file");
  const auto size = static_cast<std::uint64_t>(status.st_size);
  if (size > limits.file_bytes) {
    return base::input_error(path, "is " + std::to_string(size) +
                                       " bytes; the limit file_bytes is " +
                                       std::to_string(limits.file_bytes));
  }
  if (size == 0) return std::shared_ptr<const MappedFile>(new MappedFile({}));
  void* address = ::mmap(nullptr, size, PROT_READ, MAP_PRIVATE, file.value(), 0);
  if (address == MAP_FAILED) return system_error(path, "cannot map");
  return std::shared_ptr<const MappedFile>(
      new MappedFile({static_cast<const std::byte*>(address), size}));
}

MappedFile::~MappedFile() {
  if (!bytes_.empty()) ::munmap(const_cast<std::byte*>(bytes_.data()), bytes_.size());
}

}  // namespace lockstep::model
