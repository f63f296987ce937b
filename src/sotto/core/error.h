// Exception types of sotto. Library code throws them and never exits; only src/cli/main.cpp turns
// them into an exit code. Every message has four parts: what was attempted, what was found, what
// was expected, what to try.
#pragma once

#include <fmt/format.h>

#include <stdexcept>
#include <string>

namespace sotto {

struct Problem {
  // Example: "reading configs/digits.yaml"
  std::string attempted;
  // Example: "line 3, column 1: unknown key 'lyers'"
  std::string found;
  // Example: "one of layers, width"; empty where `found` already implies it
  std::string expected = {};
  // Example: "did you mean 'layers'?"; empty where there is no advice
  std::string hint = {};
};

class Error : public std::runtime_error {
 public:
  explicit Error(const Problem& problem);

  // The parts of what().
  const Problem& problem() const { return problem_; }

 private:
  Problem problem_;
};

// The user's settings or command line are wrong, or cannot take effect on this machine. Exit code
// 2.
class ConfigError : public Error {
  using Error::Error;
};

// The settings are valid but need more than the budget or the device has. Exit code 2.
class Infeasible : public ConfigError {
  using ConfigError::ConfigError;
};

// The user's files are missing, broken or of another format version. Exit code 2.
class DataError : public Error {
  using Error::Error;
};

// The memory budget is exceeded. Exit code 3 if there is nothing left to try.
class OutOfMemory : public Error {
  using Error::Error;
};

// A bug in sotto. Exit code 70.
class InternalError : public Error {
  using Error::Error;
};

namespace detail {
[[noreturn]] void assertion_failed(const char* condition, const char* file, int line,
                                   const std::string& message);
}

}  // namespace sotto

// Checks a condition that only a bug in sotto can break. Stays on in release builds and throws
// InternalError.
#define SOTTO_ASSERT(condition, ...)                                    \
  do {                                                                  \
    if (!(condition)) {                                                 \
      ::sotto::detail::assertion_failed(#condition, __FILE__, __LINE__, \
                                        ::fmt::format("" __VA_ARGS__)); \
    }                                                                   \
  } while (false)
