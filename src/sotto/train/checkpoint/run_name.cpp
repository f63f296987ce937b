#include "sotto/train/checkpoint/run_name.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <functional>
#include <string_view>
#include <vector>

#include "sotto/core/files/text_file.h"
#include "sotto/train/checkpoint/checkpoint.h"

namespace sotto::train {

namespace {

namespace fs = std::filesystem;

struct NumberedFolder {
  int64_t number = 0;
  fs::path path;
};

// Returns 7 for runs/MODEL-7; none for other names.
std::optional<int64_t> number_in(const std::string& name, const std::string& model) {
  if (!name.starts_with(model + "-")) return std::nullopt;
  const std::string_view digits = std::string_view(name).substr(model.size() + 1);
  int64_t number = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), number);
  const bool is_number = error == std::errc() && end == digits.data() + digits.size();
  return is_number && number > 0 && digits[0] != '0' ? std::optional(number) : std::nullopt;
}

// Lists the numbered folders, highest number first.
std::vector<NumberedFolder> numbered_folders(const fs::path& runs, const std::string& model) {
  std::vector<NumberedFolder> found;
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator(runs, ignored)) {
    if (const std::optional<int64_t> number = number_in(entry.path().filename(), model))
      found.push_back({.number = *number, .path = entry.path()});
  }
  std::ranges::sort(found, std::greater<>(), &NumberedFolder::number);
  return found;
}

bool holds_only_plans(const fs::path& folder) {
  std::error_code error;
  fs::directory_iterator entries(folder, error);
  if (error) return false;
  return std::all_of(fs::begin(entries), fs::end(entries), [](const fs::directory_entry& entry) {
    const fs::path name = entry.path().filename();
    return name == "plan.yaml" || name == "plan.json" || name == "training_arguments.json";
  });
}

fs::path folder_after(const std::vector<NumberedFolder>& found, const fs::path& runs,
                      const std::string& model) {
  return runs / fmt::format("{}-{}", model, found.empty() ? 1 : found.front().number + 1);
}

}  // namespace

bool holds_run(const fs::path& folder) {
  std::error_code ignored;
  return std::ranges::any_of(std::array{"config.yaml", "metrics.jsonl", "checkpoints", kBestFolder},
                             [&](const char* name) { return fs::exists(folder / name, ignored); });
}

fs::path next_run_folder(const fs::path& runs, const std::string& model) {
  const std::vector<NumberedFolder> found = numbered_folders(runs, model);
  std::error_code ignored;
  if (!found.empty() && fs::is_empty(found.front().path, ignored)) return found.front().path;
  return folder_after(found, runs, model);
}

fs::path next_plan_folder(const fs::path& runs, const std::string& model) {
  const std::vector<NumberedFolder> found = numbered_folders(runs, model);
  if (!found.empty() && holds_only_plans(found.front().path)) return found.front().path;
  return folder_after(found, runs, model);
}

std::optional<fs::path> newest_run(const fs::path& runs, const std::string& model) {
  std::optional<fs::path> newest;
  for (const NumberedFolder& folder : numbered_folders(runs, model)) {
    if (!list_checkpoints(folder.path).empty()) return folder.path;
    if (!newest && holds_run(folder.path)) newest = folder.path;
  }
  return newest;
}

std::string run_name_from(const fs::path& path) {
  fs::path normal = path.lexically_normal();
  if (!normal.has_filename()) normal = normal.parent_path();
  const std::string name = normal.filename();
  return name.empty() || name == "." || name == ".." || !is_utf8(name) ? "run" : name;
}

}  // namespace sotto::train
