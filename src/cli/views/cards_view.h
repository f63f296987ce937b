// `sotto profile --cards`: the cards for which plans can be made without access to them.
#pragma once

#include <string>

namespace sotto::cli {

// Return a table with a note on the source of its figures, or JSON.
std::string cards_text();
std::string cards_json();

}  // namespace sotto::cli
