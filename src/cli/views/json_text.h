// Output of commands for --json.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

namespace sotto::cli {

// Ends with a newline. File names and foreign texts need not be UTF-8: invalid bytes become U+FFFD
// instead of an error at the end of the work. `indent`: -1 prints on one line.
inline std::string json_text(const nlohmann::ordered_json& json, int indent = 2) {
  constexpr auto kReplace = nlohmann::ordered_json::error_handler_t::replace;
  return json.dump(indent, ' ', /*ensure_ascii=*/false, kReplace) + "\n";
}

}  // namespace sotto::cli
