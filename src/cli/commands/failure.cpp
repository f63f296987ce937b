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

std::string describe_path(const std::filesystem::filesystem_error& error) {
  constexpr size_t kMostShown = 200;
  std::string path = error.path1().string();
  if (path.size() > kMostShown) path = path.substr(0, kMostShown) + "...";
  return one_line(fmt::format("using {}: {}. Expected a path that this machine can use.",
                              path.empty() ? "a file" : path, error.code().message()));
}

}  // namespace

Failure describe_current_exception() {
  try {
    throw;
  } catch (const ConfigError& error) {
    return {kBadInput, one_line(error.what())};
  } catch (const DataError& error) {
    return {kBadInput, one_line(error.what())};
  } catch (const OutOfMemory& error) {
    return {kOutOfMemory, one_line(error.what())};
  } catch (const std::filesystem::filesystem_error& error) {
    // A path that is too long, a name that the file system does not support, a folder without
    // permission.
    return {kBadInput, describe_path(error)};
  } catch (const std::exception& error) {
    if (const std::optional<std::string> reason = train::out_of_memory_reason(error))
      return {kOutOfMemory, one_line("out of memory: " + *reason)};
    const auto* torch = dynamic_cast<const c10::Error*>(&error);
    return {kOwnFault, one_line(torch == nullptr ? error.what() : torch->what_without_backtrace())};
  } catch (...) {
    return {kOwnFault, "an object that is not an exception was thrown"};
  }
}

}  // namespace sotto::cli
