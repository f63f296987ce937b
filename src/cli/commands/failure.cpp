#include "cli/commands/failure.h"

#include <c10/util/Exception.h>
#include <fmt/format.h>

#include <algorithm>
#include <exception>
#include <filesystem>
#include <optional>

#include "sotto/core/error.h"
#include "sotto/train/step/recovery.h"

namespace sotto::cli {

namespace {

constexpr int kBadInput = 2;
constexpr int kOutOfMemory = 3;
constexpr int kOwnFault = 70;

std::string one_line(std::string text) {
  text.erase(text.find_last_not_of(" \n") + 1);
  std::replace(text.begin(), text.end(), '\n', ' ');
  return text;
}

Failure failure_of(const Error& error, int exit_code, const char* name) {
  return {.exit_code = exit_code,
          .message = one_line(error.what()),
          .error = name,
          .problem = error.problem()};
}

// A path that is too long, a name that the file system does not support, a folder without
// permission.
Failure failure_of(const std::filesystem::filesystem_error& error) {
  constexpr size_t kMostShown = 200;
  std::string path = error.path1().string();
  if (path.size() > kMostShown) path = path.substr(0, kMostShown) + "...";
  return failure_of(DataError({.attempted = "using " + (path.empty() ? "a file" : path),
                               .found = error.code().message(),
                               .expected = "a path that this machine can use"}),
                    kBadInput, "DataError");
}

// Exceptions of other libraries.
Failure failure_of(int exit_code, const char* name, const std::string& text) {
  return {.exit_code = exit_code,
          .message = one_line(text),
          .error = name,
          .problem = {.attempted = "running the command", .found = one_line(text)}};
}

}  // namespace

Failure describe_current_exception() {
  try {
    throw;
  } catch (const Infeasible& error) {
    return failure_of(error, kBadInput, "Infeasible");
  } catch (const ConfigError& error) {
    return failure_of(error, kBadInput, "ConfigError");
  } catch (const DataError& error) {
    return failure_of(error, kBadInput, "DataError");
  } catch (const OutOfMemory& error) {
    return failure_of(error, kOutOfMemory, "OutOfMemory");
  } catch (const InternalError& error) {
    return failure_of(error, kOwnFault, "InternalError");
  } catch (const std::filesystem::filesystem_error& error) {
    return failure_of(error);
  } catch (const std::exception& error) {
    if (const std::optional<std::string> reason = train::out_of_memory_reason(error))
      return failure_of(kOutOfMemory, "OutOfMemory", "out of memory: " + *reason);
    const auto* torch = dynamic_cast<const c10::Error*>(&error);
    return failure_of(kOwnFault, "InternalError",
                      torch == nullptr ? error.what() : torch->what_without_backtrace());
  } catch (...) {
    return failure_of(kOwnFault, "InternalError", "an object that is not an exception was thrown");
  }
}

nlohmann::ordered_json failure_json(const Failure& failure) {
  return {{"error", failure.error},         {"attempted", failure.problem.attempted},
          {"found", failure.problem.found}, {"expected", failure.problem.expected},
          {"hint", failure.problem.hint},   {"message", failure.message},
          {"exit_code", failure.exit_code}};
}

}  // namespace sotto::cli
