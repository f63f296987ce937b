// The page of one run, or of several side by side.
#pragma once

#include <nlohmann/json.hpp>
#include <span>
#include <string>

#include "sotto/report/page.h"
#include "sotto/report/run_content.h"

namespace sotto::report {

Page run_page(const RunContent& run);
Page comparison_page(std::span<const RunContent> runs);

// The same as text: Markdown, or JSON with exact values.
std::string runs_markdown(std::span<const RunContent> runs);
nlohmann::ordered_json runs_json(std::span<const RunContent> runs);

}  // namespace sotto::report
