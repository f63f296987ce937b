// Options that people know from other tools, and what to type here instead.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace sotto::cli {

// The setting that an option such as --lr, --batch-size or --loader-threads would set, as a key of
// the configuration; none where there is no such setting, or several.
std::optional<std::string> setting_of(std::string_view option);

// What to type for words that a command did not take, of which each that begins with -- is an
// option with its value behind it: "Type: --set epochs=3 --set optimizer.schedule.rate=1e-4". Empty
// where one of them is no setting.
std::string setting_hint(const std::vector<std::string>& words);

}  // namespace sotto::cli
