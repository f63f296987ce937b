// The errors of sotto. Library code throws them and never exits; src/cli/main.cpp alone turns them
// into an exit code. Every message has four parts: what was attempted, what was found, what was
// expected, what to try.
#pragma once

#include <fmt/format.h>

#include <stdexcept>
#include <string>

namespace sotto {

struct Problem {
  // "reading configs/digits.yaml"
  std::string attempted;
  // "line 3, column 1: unknown key 'lyers'"
  std::string found;
  // "one of layers, width"; empty where what was found says it
  std::string expected = {};
  // "did you mean 'layers'?"; empty where there is nothing to advise
  std::string hint = {};
};

class Error : public std::runtime_error {
 public:
  explicit Error(const Problem& problem);
};

// The user's settings or command line are wrong, or cannot take effect here. Exit code 2.
class ConfigError : public Error {
  using Error::Error;
};

// What the settings ask for is sound, and more than the budget or the device has. Exit code 2.
class Infeasible : public ConfigError {
  using ConfigError::ConfigError;
};

// The user's files are missing, broken or of another version. Exit code 2.
class DataError : public Error {
  using Error::Error;
};

// The memory budget does not suffice. Exit code 3 when nothing more can be tried.
class OutOfMemory : public Error {
  using Error::Error;
};

// Our own fault. Exit code 70.
class InternalError : public Error {
  using Error::Error;
};

namespace detail {
[[noreturn]] void assertion_failed(const char* condition, const char* file, int line,
                                   const std::string& message);
}

}  // namespace sotto

// A condition that only a bug of ours can break. Stays on in release builds and throws
// InternalError.
#define SOTTO_ASSERT(condition, ...)                                    \
  do {                                                                  \
    if (!(condition)) {                                                 \
      ::sotto::detail::assertion_failed(#condition, __FILE__, __LINE__, \
                                        ::fmt::format("" __VA_ARGS__)); \
    }                                                                   \
  } while (false)
