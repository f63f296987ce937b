#include "sotto/core/system_file.h"

#include <array>
#include <fstream>

#include "sotto/core/words.h"

namespace sotto {

std::optional<std::string> read_text(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) return std::nullopt;
  // A folder, or a process that has ended meanwhile, opens like a file and fails only when read.
  std::string text;
  std::array<char, 4096> part = {};
  while (file.read(part.data(), part.size()) || file.gcount() > 0)
    text.append(part.data(), static_cast<size_t>(file.gcount()));
  if (file.bad()) return std::nullopt;
  return text;
}

std::optional<int64_t> read_integer(const std::filesystem::path& path) {
  const std::optional<std::string> text = read_text(path);
  return text ? parse_integer(*text) : std::nullopt;
}

}  // namespace sotto
