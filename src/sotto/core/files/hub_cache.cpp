#include "sotto/core/files/hub_cache.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <optional>
#include <system_error>
#include <utility>

#include "sotto/core/error.h"
#include "sotto/core/files/text_file.h"

namespace sotto {

namespace {

namespace fs = std::filesystem;

struct HubId {
  std::string organisation;
  std::string name;
  // Empty if none is given.
  std::string revision;

  std::string model() const { return fmt::format("{}/{}", organisation, name); }
};

// Applies the hub's own rule for names, so that a name is always a single folder.
bool is_name(std::string_view text) {
  const auto is_allowed = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
           c == '-' || c == '.';
  };
  const auto is_edge = [](char c) { return c == '-' || c == '.'; };
  return !text.empty() && std::ranges::all_of(text, is_allowed) && !is_edge(text.front()) &&
         !is_edge(text.back()) && text.find("--") == std::string_view::npos &&
         text.find("..") == std::string_view::npos;
}

// Splits a text at the first mark; the second part is std::nullopt if there is no mark.
std::pair<std::string_view, std::optional<std::string_view>> cut(std::string_view text, char mark) {
  const size_t at = text.find(mark);
  if (at == std::string_view::npos) return {text, std::nullopt};
  return {text.substr(0, at), text.substr(at + 1)};
}

// Names separated by slashes: "main", "refs/pr/1".
bool is_revision(std::string_view text) {
  const auto [first, rest] = cut(text, '/');
  return is_name(first) && (!rest || is_revision(*rest));
}

std::optional<HubId> parse_id(std::string_view text) {
  const auto [model, revision] = cut(text, '@');
  const auto [organisation, name] = cut(model, '/');
  if (!name || !is_name(organisation) || !is_name(*name)) return std::nullopt;
  if (revision && !is_revision(*revision)) return std::nullopt;
  return HubId{.organisation = std::string(organisation),
               .name = std::string(*name),
               .revision = std::string(revision.value_or(""))};
}

// Returns std::nullopt if the variable is unset or empty.
std::optional<fs::path> folder_of(const char* variable) {
  const char* value = std::getenv(variable);
  if (value == nullptr || *value == '\0') return std::nullopt;
  return fs::path(value);
}

[[noreturn]] void refuse_model(const HubId& id, const std::string& found) {
  const std::string option = id.revision.empty() ? "" : fmt::format(" --revision {}", id.revision);
  throw DataError({.attempted = fmt::format("finding {} in the Hugging Face cache", id.model()),
                   .found = found,
                   .expected = "a model that was downloaded",
                   .hint = fmt::format("Type: hf download {}{}", id.model(), option)});
}

bool is_folder(const fs::path& path) {
  std::error_code ignored;
  return fs::is_directory(path, ignored);
}

// Returns the commit of a branch or tag.
std::string read_ref(const fs::path& path) {
  std::string commit = read_text_file(path);
  commit.erase(std::min(commit.find_first_of(" \t\r\n"), commit.size()));
  if (!is_name(commit)) {
    throw DataError({.attempted = fmt::format("reading {}", path.string()),
                     .found = "it does not name a commit",
                     .expected = "the name of a folder in snapshots"});
  }
  return commit;
}

}  // namespace

bool is_hub_id(std::string_view text) {
  std::error_code ignored;
  return parse_id(text).has_value() && !fs::exists(fs::symlink_status(fs::path(text), ignored));
}

bool is_hub_repository(std::string_view text) {
  const std::optional<HubId> id = parse_id(text);
  return id && id->revision.empty() && text.find('@') == std::string_view::npos;
}

std::optional<std::string> hub_id_of(const fs::path& folder) {
  // Layout: CACHE/models--org--name/snapshots/COMMIT
  constexpr std::string_view kPrefix = "models--";
  const fs::path snapshots = folder.parent_path();
  const std::string model = snapshots.parent_path().filename().string();
  if (snapshots.filename() != "snapshots" || !model.starts_with(kPrefix)) return std::nullopt;
  const std::string names = model.substr(kPrefix.size());
  const size_t mark = names.find("--");
  if (mark == std::string::npos) return std::nullopt;
  std::string id = fmt::format("{}/{}", names.substr(0, mark), names.substr(mark + 2));
  return is_hub_repository(id) ? std::optional(std::move(id)) : std::nullopt;
}

fs::path hub_folder() {
  if (const auto hub = folder_of("HF_HUB_CACHE")) return *hub;
  if (const auto home = folder_of("HF_HOME")) return *home / "hub";
  if (const auto cache = folder_of("XDG_CACHE_HOME")) return *cache / "huggingface" / "hub";
  return folder_of("HOME").value_or(".") / ".cache" / "huggingface" / "hub";
}

fs::path find_hub_folder(std::string_view id) {
  const std::optional<HubId> parsed = parse_id(id);
  if (!parsed) {
    throw DataError({.attempted = fmt::format("finding the model '{}'", id),
                     .found = "no such folder, and not an id of the Hugging Face hub",
                     .expected = "a folder, org/name or org/name@revision"});
  }
  const fs::path folder =
      hub_folder() / fmt::format("models--{}--{}", parsed->organisation, parsed->name);
  if (!is_folder(folder)) {
    refuse_model(*parsed, fmt::format("there is no folder {}", folder.string()));
  }
  const std::string revision = parsed->revision.empty() ? "main" : parsed->revision;
  const fs::path ref = folder / "refs" / revision;
  std::error_code ignored;
  const std::string commit = fs::is_regular_file(ref, ignored) ? read_ref(ref) : revision;
  const fs::path snapshot = folder / "snapshots" / commit;
  if (!is_folder(snapshot)) {
    refuse_model(*parsed, fmt::format("revision {} is not in {}", revision, folder.string()));
  }
  return snapshot;
}

}  // namespace sotto
