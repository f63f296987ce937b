#include "cli/views/page_file.h"

#include <fstream>
#include <system_error>

#include "sotto/core/error.h"
#include "sotto/core/files/atomic_folder.h"

namespace sotto::cli {

namespace {

namespace fs = std::filesystem;

constexpr size_t kBeginning = 400;

std::string beginning_of(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  std::string text(kBeginning, '\0');
  file.read(text.data(), static_cast<std::streamsize>(text.size()));
  text.resize(static_cast<size_t>(file.gcount()));
  return text;
}

void check_is_ours(const fs::path& path, std::string_view mark) {
  std::error_code ignored;
  if (!fs::exists(path, ignored)) return;
  const bool is_folder = fs::is_directory(path, ignored);
  if (!is_folder && !fs::is_regular_file(path, ignored)) return;
  if (!is_folder && beginning_of(path).find(mark) != std::string::npos) return;
  throw ConfigError({.attempted = fmt::format("writing {}", path.string()),
                     .found = is_folder ? "a folder" : "a file that is no report",
                     .expected = "a new file or an earlier report",
                     .hint = "Name another file."});
}

}  // namespace

void write_output(const fs::path& path, const std::string& text, std::string_view mark) {
  check_is_ours(path, mark);
  if (const fs::path folder = path.parent_path(); !folder.empty()) {
    std::error_code error;
    fs::create_directories(folder, error);
    if (error)
      throw DataError({.attempted = fmt::format("creating the folder {}", folder.string()),
                       .found = error.message(),
                       .expected = "a folder that this user may write to"});
  }
  write_text_synced(path, text);
}

void write_page(const fs::path& path, const report::Page& page) {
  write_output(path, page.to_html(), report::kPageMark);
}

}  // namespace sotto::cli
