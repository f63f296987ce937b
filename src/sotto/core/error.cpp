#include "sotto/core/error.h"

#include <filesystem>

namespace sotto {

namespace {

std::string compose(const Problem& problem) {
  std::string message = fmt::format("{}: {}.", problem.attempted, problem.found);
  if (!problem.expected.empty()) message += fmt::format(" Expected {}.", problem.expected);
  if (!problem.hint.empty()) message += fmt::format(" {}", problem.hint);
  // A zero byte from a user's file would end the text of what() early.
  for (size_t at = message.find('\0'); at != std::string::npos; at = message.find('\0', at))
    message.replace(at, 1, "\\0");
  return message;
}

}  // namespace

Error::Error(const Problem& problem) : std::runtime_error(compose(problem)), problem_(problem) {}

void detail::assertion_failed(const char* condition, const char* file, int line,
                              const std::string& message) {
  throw InternalError(
      {.attempted = fmt::format("checking {} at {}:{}", condition,
                                std::filesystem::path(file).filename().string(), line),
       .found = message.empty() ? "it does not hold" : message,
       .expected = "the condition to hold",
       .hint = "This is a bug in sotto; please report it with this line."});
}

}  // namespace sotto
