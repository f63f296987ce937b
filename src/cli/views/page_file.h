// Writes pages and other outputs of reports, and never over a file of another kind.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>

#include "sotto/report/page.h"

namespace sotto::cli {

// Writes a file, and its folder if it is missing. An existing file is replaced if it contains
// `mark` near its beginning, as every output of that kind does. Throws ConfigError for any other,
// and DataError where the file cannot be written.
void write_output(const std::filesystem::path& path, const std::string& text,
                  std::string_view mark);

void write_page(const std::filesystem::path& path, const report::Page& page);

}  // namespace sotto::cli
