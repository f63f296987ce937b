// Options known from other tools, and their equivalents here.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace sotto::cli {

// Returns the configuration key that an option such as --lr, --batch-size or --loader-threads would
// set; none where there is no such setting, or several.
std::optional<std::string> setting_of(std::string_view option);

// Returns what to type for words that a command did not accept, where each that begins with -- is
// an option followed by its value: "Type: --set epochs=3 --set optimizer.schedule.rate=1e-4". Empty
// where one of them is not a setting.
std::string setting_hint(const std::vector<std::string>& words);

}  // namespace sotto::cli
