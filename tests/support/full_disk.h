// A disk that is full, without one: no file of this process may grow beyond a size.
#pragma once

#include <signal.h>
#include <sys/resource.h>

#include <cstddef>

namespace sotto::test {

// The limit holds while this lives. Writing beyond it gives EFBIG, where a full disk gives ENOSPC.
class FullDisk {
 public:
  explicit FullDisk(size_t bytes) : handler_(signal(SIGXFSZ, SIG_IGN)) {
    getrlimit(RLIMIT_FSIZE, &before_);
    const rlimit limit = {.rlim_cur = bytes, .rlim_max = before_.rlim_max};
    setrlimit(RLIMIT_FSIZE, &limit);
  }
  ~FullDisk() {
    setrlimit(RLIMIT_FSIZE, &before_);
    signal(SIGXFSZ, handler_);
  }
  FullDisk(const FullDisk&) = delete;
  FullDisk& operator=(const FullDisk&) = delete;

 private:
  void (*handler_)(int);
  rlimit before_{};
};

}  // namespace sotto::test
