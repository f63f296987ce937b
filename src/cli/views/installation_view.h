// The checks of an installation, as a table with what to do below it, and as JSON.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "sotto/device/installation_check.h"

namespace sotto::cli {

std::string installation_text(const std::vector<device::Check>& checks);
nlohmann::ordered_json installation_json(const std::vector<device::Check>& checks);

}  // namespace sotto::cli
