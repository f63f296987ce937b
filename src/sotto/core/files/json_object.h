// Parser for JSON objects in third-party files: headers and indices. Unlike the plain parser it
// refuses duplicate names (of which the parser keeps the last) and nesting so deep that copying or
// printing the value would exhaust the stack.
#pragma once

#include <filesystem>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>

namespace sotto {

// Describes a text in error messages.
struct JsonSource {
  const std::filesystem::path& path;
  // Examples: "its header", "it"
  std::string_view part;
  // Example: "a safetensors file"
  std::string expected;
};

// Parses a text. Throws DataError where it is not a JSON object.
nlohmann::json parse_json_object(std::string_view text, const JsonSource& source);

// Formats a value for an error message, truncated if it is long.
std::string shown(const nlohmann::json& value);

}  // namespace sotto
