// `sotto profile --cards`: the cards that plans can be made for without having them.
#pragma once

#include <string>

namespace sotto::cli {

// As a table with a note on where its figures come from, or as JSON.
std::string cards_text();
std::string cards_json();

}  // namespace sotto::cli
