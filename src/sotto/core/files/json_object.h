// JSON objects inside files that others made: headers and indices. Unlike the parser alone it
// refuses a name that occurs twice (of which the parser keeps the last) and nesting so deep that to
// copy or print the value would exhaust the stack.
#pragma once

#include <filesystem>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>

namespace sotto {

// What a text is, for error messages.
struct JsonSource {
  const std::filesystem::path& path;
  // "its header", "it"
  std::string_view part;
  // "a safetensors file"
  std::string expected;
};

// Throws DataError where the text is no JSON object.
nlohmann::json parse_json_object(std::string_view text, const JsonSource& source);

// A value for an error message, cut where it is long.
std::string shown(const nlohmann::json& value);

}  // namespace sotto
