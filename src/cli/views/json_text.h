// What commands print for --json.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

namespace sotto::cli {

// With a line end. Names of files and texts of others need not be UTF-8: what is not becomes U+FFFD
// instead of an error at the end of the work. `indent`: -1 puts all on one line.
inline std::string json_text(const nlohmann::ordered_json& json, int indent = 2) {
  constexpr auto kReplace = nlohmann::ordered_json::error_handler_t::replace;
  return json.dump(indent, ' ', /*ensure_ascii=*/false, kReplace) + "\n";
}

}  // namespace sotto::cli
